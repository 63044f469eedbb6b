"""What a host says in each state of its driver: the hosts of driver_states/hosts.yaml, by the
driver's rules alone.

says.txt beside them has for each the exit status, the first line of `check` and of `driver`, why
this driver, what the plan changes, and what gpu-driver says; `./run generate` writes it anew. That
a dead GPU is never called fine, and that all who speak of a reboot say one word, is asserted here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hosttune.actions.apply import reboot_obstacles, reboot_reasons
from hosttune.actions.examine import examine
from hosttune.actions.health import ask, health_rules
from hosttune.choices.driver_state import UNITS
from hosttune.engine.decide.health import Fitness, judge
from hosttune.engine.decide.plan import waits_for_reboot
from hosttune.engine.fleet.seen import seen_of
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts, RequestedNames
from hosttune.facts.apt_get import make_simulation
from hosttune.facts.gpu.archives import parse_policy
from hosttune.facts.packages import DATABASE, REPAIR
from hosttune.host.door import Completed
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import RecordReader
from hosttune.values import ABSENT, Disturbs, FileValue, Risk
from hosttune.views.checked import Checked
from hosttune.views.document import Medium
from hosttune.views.driver import driver_table, driver_text
from hosttune.views.junit import check_junit
from hosttune.views.page import Page
from hosttune.views.plan import plan_report
from hosttune.views.prometheus import check_prometheus
from hosttune.views.report import check_report
from hosttune.views.step_commands import find_command
from hosttune.views.summary import exit_status, is_left_after
from hosttune.views.terminal import Screen
from hosttune.views.text import ONE_SCREEN
from tests.generated import hold
from tests.hosts import built
from tests.hosts.built import reader
from tests.hosts.driver import ARCHIVE as UBUNTU
from tests.hosts.driver import Apt
from tests.unit.test_ways_out_are_lists import chained
from tests.yaml_files import read_yaml

FOLDER = Path(__file__).resolve().parent / "driver_states"
RECORD = built.HOSTS / "h100-8x-2socket.json"
GIVEN = read_yaml(FOLDER / "hosts.yaml")
HOSTS = {one["name"]: one for one in GIVEN["hosts"]}
DEAD = [name for name, one in HOSTS.items() if one["dead"] != "no"]
SAYS = FOLDER / "says.txt"
CATALOG = builtin_catalog()
RULES = ("gpu-driver", "gpu-driver-health", "gpu-next-kernel-modules", "gpu-fabric", "gpu-errors")
POLICY = Policy(today="2026-11-01")
ONE_LINE = Page(screen=Screen(10_000))
NVIDIA = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64  Packages"
ASKS = make_simulation(())
BOOT = re.compile(r"\breboot\b")
NEGATED = re.compile(
    r"no reboot|not reboot|after `[^`]+` is solved|\n(?:drain the host and )?reboot|after a reboot|reboot mends that"
)


def merged(one):
    """The parts of a host as one: files, packages, answers and the rest."""
    parts = [GIVEN["parts"][name] for name in one["with"]] + [one]
    keys = ("files", "links", "packages", "answers", "dpkg", "offers")
    found = {
        key: {name: value for part in parts for name, value in part.get(key, {}).items()}
        for key in keys
    }
    found["held"] = [name for part in parts for name in part.get("held", ())]
    found["origin"] = [name for part in parts for name in part.get("origin", ())]
    found["log"] = [line for part in parts for line in part.get("log", ())]
    return found | {
        key: next((part[key] for part in reversed(parts) if key in part), "")
        for key in ("gpus", "bound", "update", "update_from", "gone")
    }


class Archive(Apt):
    """A record in front of which apt-cache and apt-get say what the archives have, of any
    packages.
    """

    def __init__(self, record, versions, foreign, update_from):
        super().__init__(record, versions)
        self.foreign = foreign  # names, or their beginnings, of what NVIDIA's archive has
        self.is_newer_there = update_from == "NVIDIA"

    def query(self, argv, *, timeout_s=10.0):
        words = tuple(argv)
        if words[0] == "apt-get":
            lines = (
                [self._line(one) for one in words[len(ASKS) :]]
                if words[: len(ASKS)] == ASKS
                else []
            )
            return Completed(0, "".join(lines).encode(), b"")
        return super().query(argv, timeout_s=timeout_s)

    def _policy(self, name):
        text = super()._policy(name)
        if self.is_newer_there and len(set(self.versions.get(name, ""))) > 1:
            return text.replace(UBUNTU, NVIDIA, 1)  # the newer version stands first
        return text.replace(UBUNTU, NVIDIA) if name.startswith(tuple(self.foreign)) else text

    def _line(self, word):
        name, _, version = word.removesuffix("-").partition("=")
        installed, candidate = self.versions.get(name, ("", ""))
        if word.endswith("-"):
            return f"Remv {name} [{installed}]\n" if installed else ""
        wanted, old = (
            version or ("" if installed else candidate),
            f" [{installed}]" if installed else "",
        )
        return (
            f"Inst {name}{old} ({wanted} Ubuntu:24.04 [amd64])\n"
            if wanted not in ("", installed)
            else ""
        )


def archive_of(record, database, given):
    """What apt has: what the record tells, the installed versions, and what the parts offer."""
    said = [
        one["stdout"]
        for one in record.data["queries"]
        if one["argv"][:2] == ["apt-cache", "policy"]
    ]
    offers = {name: one.candidate for text in said for name, one in parse_policy(text, {}).items()}
    rows = [
        dict(line.partition(": ")[::2] for line in row.splitlines())
        for row in database.split("\n\n")
    ]
    there = {row["Package"]: row["Version"] for row in rows if "Version" in row}
    offers = (
        there
        | offers
        | {name: one for name, one in given["packages"].items() if one}
        | given["offers"]
    )
    if given["update"]:
        offers |= {
            name: given["update"] for name, one in there.items() if one.startswith("580.126.20")
        }
    versions = {name: (there.get(name, ""), candidate) for name, candidate in offers.items()}
    return Archive(record, versions, given["origin"], given["update_from"])


def reader_of(one):
    given = merged(one)
    record = reader(RECORD)
    queries = [answered(query, given) for query in record.data["queries"]]
    known = {tuple(query["argv"]) for query in queries}
    for command, text in given["answers"].items():
        if "*" not in command and tuple(command.split()) not in known:
            queries.append({"argv": command.split(), "status": 0, "stdout": text, "stderr": ""})
    data = {**record.data, "queries": queries}
    database = dpkg(record.read(DATABASE).decode(), given)
    overlay = Overlay(archive_of(RecordReader(data, record.file), database, given))
    overlay.links.update(given["links"])
    if given["bound"]:
        bound = [
            path
            for path, target in record.data["links"].items()
            if target.endswith("drivers/nvidia")
        ]
        overlay.links |= dict.fromkeys(
            bound, ABSENT if given["bound"] == "nothing" else "../../drivers/nouveau"
        )
    for path, text in given["files"].items():
        overlay.files[path] = ABSENT if text is None else FileValue(text.encode("latin-1"))
    if given["gpus"]:
        for gpu in Facts(overlay).gpus.devices:
            overlay.files[f"/sys/bus/pci/devices/{gpu.slot}/device"] = FileValue(
                f"{given['gpus']}\n".encode()
            )
    overlay.files[DATABASE] = FileValue(database.encode())
    return overlay


def dpkg(database, given):
    there = re.findall(r"(?m)^Package: (.*)$", database)
    new = {"dpkg": "1.22"} | {
        name: one for name, one in given["packages"].items() if one and name not in there
    }
    rows = [
        f"Package: {name}\nStatus: install ok {given['dpkg'].get(name, 'installed')}\nArchitecture: amd64\nVersion: {one}"
        for name, one in sorted(new.items())
    ]
    for row in database.split("\n\n"):
        name = row.partition("\n")[0].removeprefix("Package: ")
        version = given["packages"].get(name, "as it is")
        if version is not None:
            text = row.replace(
                "install ok installed", f"install ok {given['dpkg'].get(name, 'installed')}"
            )
            text = text.replace("install ok", "hold ok") if name in given["held"] else text
            rows.append(
                text
                if version == "as it is"
                else re.sub(r"(?m)^Version: .*$", f"Version: {version}", text)
            )
    return "\n\n".join(rows)


def answered(query, given):
    """The answer of a program, as the parts say it."""
    command, program = " ".join(query["argv"]), query["argv"][0]
    said = given["answers"].get(command, given["answers"].get(f"{program} *"))
    if said is not None:
        status, text = (0, said) if isinstance(said, str) else said
        return {**query, "status": status, "stdout": text}
    if given["gone"] and program == "nvidia-smi":
        rows = query["stdout"].splitlines(keepends=True)
        return {**query, "stdout": "".join(row for row in rows if given["gone"] not in row)}
    if given["log"] and program in ("dmesg", "journalctl"):
        return {**query, "stdout": query["stdout"] + "".join(f"{line}\n" for line in given["log"])}
    return query


@cache
def plan_of(name, **params):
    policy = replace(
        Policy(
            max_risk=Risk.HIGH,
            disturb=Disturbs.GPU_WORK,
            today="2026-11-01",
            params={"gpu-driver": params},
        ),
        sole=RULES,
    )
    return examine(reader_of(HOSTS[name]), CATALOG, policy).plan()


@cache
def driver_of(name, columns=10_000):
    params = CATALOG.rules["gpu-driver"].defaults
    return driver_text(
        driver_table(Facts(reader_of(HOSTS[name]), RequestedNames(units=frozenset(UNITS))), params),
        Page(screen=Screen(columns), can_apply=True),
    )


@cache
def table_of(name):
    return driver_table(
        Facts(reader_of(HOSTS[name]), RequestedNames(units=frozenset(UNITS))),
        CATALOG.rules["gpu-driver"].defaults,
    )


def first_of(text):
    """The first sentence of a page, however it is wrapped."""
    return " ".join(re.split(r"\n\n|\n  ->", text)[0].split())


def way_of(text):
    """What the first paragraph says is to be done."""
    return " ".join(text.split("\n\n")[0].partition("\n  ->")[2].split()) or "nothing"


def why_of(text):
    """What it says of the choice, of what stands nowhere above."""
    paragraphs = [" ".join(one.split()) for one in text.split("\n\n")]
    return next(
        (one.removeprefix("Why: ") for one in paragraphs if one.startswith("Why: ")), "said above"
    )


def told(name):
    plan = plan_of(name)
    first = first_of(check_report((Checked(plan, ONE_LINE),)))
    changes = (
        ", ".join(f"{change.action} {change.address}"[:100] for change in plan.changes) or "nothing"
    )
    (driver,) = (one for one in plan.findings if one.rule == "gpu-driver")
    rule = " ".join(
        filter(None, (f"{driver.verdict}", str(driver.hold) if driver.hold else "", driver.reason))
    )
    return "\n".join(
        (
            f"{name}: GPUs dead: {HOSTS[name]['dead']}, exit status {exit_status(plan, strict=False)}",
            f"  check       {first}",
            f"  driver      {first_of(driver_of(name))}",
            f"  do          {way_of(driver_of(name))}",
            f"  why         {why_of(driver_of(name))}",
            f"  plan        {changes}",
            f"  gpu-driver  {rule}",
            "",
        )
    )


def test_what_each_state_says_is_what_was_written():
    text = "\n".join(told(name) for name in HOSTS)
    hold(SAYS, text)


@pytest.mark.parametrize("name", DEAD)
def test_dead_gpu_is_a_fault_in_every_format(name):
    plan = plan_of(name)
    one = Checked(plan, ONE_LINE)
    assert exit_status(plan, strict=False) == 1
    assert re.match(r"this host: [1-9] faults? \(", check_report((one,)))
    assert re.match(r"this host: [1-9] faults? \(", plan_report(Checked(plan, ONE_LINE)))
    pasted = replace(one, page=replace(ONE_LINE, medium=Medium.MARKDOWN))
    sections = [line for line in check_report((pasted,)).splitlines() if line.startswith("### ")]
    assert sections[0].startswith("### Faults")
    assert not re.search(r'hosttune_findings\{verdict="fault"\} 0', check_prometheus((one,)))
    assert 'type="fault"' in check_junit((one,))
    assert driver_of(name).startswith("FAULT, ")
    assert (
        seen_of(plan.findings, asks=(), host="a", machine="b", at="c", source="d").state == "fault"
    )
    unmended = [finding for finding in plan.findings if finding.is_fault and not finding.changes]
    assert all(
        is_left_after(finding, plan) is not waits_for_reboot(finding) for finding in unmended
    )


@pytest.mark.parametrize("name", DEAD)
def test_fault_waits_for_the_reboot_where_gpu_driver_does(name):
    """One word, in check, metrics, apply and for playbooks: what the next boot mends, with nothing
    before it.
    """
    plan = plan_of(name)
    waits = {finding.rule for finding in plan.findings if waits_for_reboot(finding)}
    by_packages = name != "a runfile that is not loaded"
    assert waits in (
        set(),
        {"gpu-driver", "gpu-driver-health"} if by_packages else {"gpu-driver-health"},
    )
    if not waits:
        return
    assert HOSTS[name]["reboot"] == "yes"
    assert "waiting for reboot)" in first_of(check_report((Checked(plan, ONE_LINE),)))
    metrics = check_prometheus((Checked(plan, ONE_LINE),))
    assert "hosttune_reboot_required 1" in metrics
    assert 'hosttune_rule_status{rule="gpu-driver-health",verdict="fault"} 1' in metrics
    assert any(reason.startswith("gpu-driver-health: ") for reason in reboot_reasons(plan.findings))


@pytest.mark.parametrize("name", sorted(set(HOSTS) - set(DEAD)))
def test_host_whose_gpus_compute_has_no_fault(name):
    plan = plan_of(name)
    assert not any(finding.is_fault for finding in plan.findings), plan.findings
    assert "FAULT" not in driver_of(name)


@pytest.mark.parametrize("name", [name for name, one in HOSTS.items() if one["reboot"] != "yes"])
def test_nobody_sends_a_host_into_a_reboot_that_does_not_help(name):
    plan = plan_of(name)
    assert reboot_reasons(plan.findings) == ()
    is_harmful = HOSTS[name]["reboot"] == "never"
    assert bool(reboot_obstacles(plan.findings)) is is_harmful
    texts = [finding.todo for finding in plan.findings] + [
        state.way_out for state in table_of(name).states
    ]
    for text in texts:
        if BOOT.search(text):
            assert NEGATED.search(text) or "switch_branch" in text, text
    assert "reboot when it suits you" not in check_report((Checked(plan, ONE_LINE),))
    if is_harmful:
        assert "hosttune_reboot_blocked 1" in check_prometheus((Checked(plan, ONE_LINE),))


STACKED = [
    name for name in HOSTS if name.endswith("and an update is offered") and "Fabric" not in name
]


@pytest.mark.parametrize("name", STACKED)
def test_update_is_not_stacked_on_a_change_that_is_not_complete(name):
    plan = plan_of(name, update=True)
    assert not [change for change in plan.changes if change.rule == "gpu-driver"]
    (found,) = [finding for finding in plan.findings if finding.rule == "gpu-driver"]
    assert str(found.hold.kind) == "refused"
    if "dpkg" in name:  # nothing at all is planned before
        assert found.hold.detail.startswith("dpkg stopped half-way with ")
        assert found.todo == "sudo dpkg --configure -a; sudo apt-get -f install"
        return
    assert "comes after what is not complete yet: " in found.hold.detail
    assert found.todo.startswith("first: ")


def test_failed_build_leads_what_it_leaves_without_a_module():
    """It is the cause: no reboot brings a module that was never built, and building it again fails
    again. Both say one way out of it.
    """
    for name, left in (
        ("upgraded and DKMS failed", "stale module"),
        ("DKMS failed for the running kernel", "module missing"),
        ("DKMS failed for the next kernel", "module missing for the next kernel"),
        (
            "the CUDA archive and DKMS failed for the next kernel",
            "module missing for the next kernel",
        ),
    ):
        first, *others = table_of(name).states
        assert (first.name, first.is_dead) == ("DKMS failed", True)
        assert [one.way_out for one in others if one.name == left] == [first.way_out]
        assert "make.log names" in first.way_out
        assert ("linux-modules-nvidia-" in first.way_out) is ("CUDA" not in name)
    other = table_of("a build of DKMS failed and another one is there").states[0]
    assert (other.name, other.is_dead) == ("DKMS failed", False)


@pytest.mark.parametrize("name", HOSTS)
def test_rules_of_the_module_and_of_the_fabric_say_the_way_out_of_the_state(name):
    ways = {one.name: one.way_out for one in table_of(name).states}
    todo = {one.rule: one.todo for one in plan_of(name).findings if one.is_fault}
    for rule, state in (
        ("gpu-next-kernel-modules", "module missing for the next kernel"),
        ("gpu-fabric", "fabric different"),
    ):
        if rule in todo and state in ways:
            assert todo[rule] == ways[state]
        if state in ways:
            assert rule in todo


@pytest.mark.parametrize("name", HOSTS)
def test_typed_installation_does_something(name):
    """apt-get install passes over what is installed, unless it is reinstalled, taken away or in
    another version.
    """
    packages = Facts(reader_of(HOSTS[name])).packages
    for state in table_of(name).states:
        for names in re.findall(r"apt-get install ([^;&()\n]+)", state.way_out):
            words = names.replace("where apt", "").split()
            assert any(
                "=" in one or one.endswith("-") or not packages[one].is_installed for one in words
            ), state.way_out


@pytest.mark.parametrize("name", HOSTS)
def test_each_line_of_a_way_out_is_one_step(name):
    ways = [state.way_out.replace(REPAIR, "") for state in table_of(name).states]
    assert [step for way in ways for step in chained(way)] == []


def test_page_says_no_version_of_a_module_that_is_not_loaded():
    for name in HOSTS:
        for row in table_of(name).rows:
            assert re.fullmatch(
                r"nothing|nouveau holds it|\d[\d.]+, (open|closed) module", row.loaded
            ), (
                name,
                row.loaded,
            )
    held = reader_of(HOSTS["a healthy server"])
    held.files |= dict.fromkeys(
        ("/proc/driver/nvidia/version", "/sys/module/nvidia/version"), ABSENT
    )
    (row,) = driver_table(
        Facts(held, RequestedNames(units=frozenset(UNITS))), CATALOG.rules["gpu-driver"].defaults
    ).rows
    assert row.loaded == "nvidia holds it, in a version that is not known"


def test_update_of_the_fabric_manager_alone_is_not_offered_beside_its_own_command():
    assert [one.name for one in table_of("Fabric Manager of another version").states] == [
        "fabric different"
    ]
    both = table_of("no Fabric Manager and an update is offered").states
    assert [one.name for one in both] == ["fabric different", "update offered"]
    assert both[1].way_out.startswith("after `fabric different` is solved: ")


ADVISED = re.compile(r'gpu-driver: \{(?:branch: "(\d+)", )?(\w+): true\}')


def advised():
    """(host, state or rule, parameters, the words): every advice of a parameter of gpu-driver,
    where several are joined by `and then` all of them.
    """
    for name in HOSTS:
        table = table_of(name)
        ways = [(state.name, state.way_out) for state in table.states] + [
            ("gpu-driver", table.way_out)
        ]
        for what, way in ways:
            found = list(ADVISED.finditer(way))
            params = {one[2]: True for one in found} | dict(
                [("branch", one[1]) for one in found if one[1]][:1]
            )
            if "bringer: host" in way:
                params["bringer"] = "host"
            if params:
                yield name, what, params, way


@pytest.mark.parametrize(
    ("name", "what", "params", "way"), list(advised()), ids=lambda one: str(one)[:40]
)
def test_parameter_that_is_advised_plans_something_or_what_stands_before_it_is_said_with_it(
    name, what, params, way
):
    plan = plan_of(name, **params)
    (found,) = [finding for finding in plan.findings if finding.rule == "gpu-driver"]
    if any(change.rule == "gpu-driver" for change in plan.changes):
        return
    if not found.hold.detail:  # kept as it is
        assert way.startswith(("after `held` is solved: ", "after `runfile` is solved: ")), found
        return
    assert str(found.hold.kind) == "refused", found
    before = re.search(r"comes after what is not complete yet: ([^;]+)", found.hold.detail)
    if before:
        assert way.startswith(f"after `{before[1]}` is solved: ")
        return
    solved = re.match(r"after `([^`]+)` is solved: ", way)
    ways = [state.way_out for state in table_of(name).states if solved and state.name == solved[1]]
    assert found.todo.partition(" (no reboot before")[0] in (*ways, way) or found.todo in way


@pytest.mark.parametrize(
    "name", [name for name in HOSTS if name.startswith("the packages are of the open module")]
)
def test_module_that_is_not_of_the_packages_gives_way_to_theirs_and_no_switch_is_advised(name):
    (state,) = table_of(name).states
    assert (state.name, state.is_dead) == ("wrong flavour", True)
    assert "switch_branch" not in state.way_out
    assert (
        "--reinstall linux-modules-nvidia-580-server-open-6.8.0-60-generic\nsudo update-initramfs"
        in state.way_out
    )
    assert not [
        one for one in plan_of(name, switch_branch=True).changes if one.rule == "gpu-driver"
    ]


def test_one_cause_is_said_once():
    for name, state in (
        ("the libraries are gone", "libraries missing"),
        ("a branch that does not drive Kepler", "unsupported GPU"),
    ):
        assert [one.name for one in table_of(name).states] == [state]


def test_every_parameter_that_leads_to_another_driver_is_advised_on_a_host():
    assert {name for _, _, params, _ in advised() for name in params} == {
        "allow_dkms", "allow_third_party", "bringer", "switch_branch", "update",
    }  # fmt: skip
    assert {what for _, what, _, _ in advised()} >= {
        "wrong flavour",
        "unsupported GPU",
        "outdated branch",
        "update offered",
    }


@pytest.mark.parametrize("name", [name for name in HOSTS if "no driver" in name])
def test_host_without_a_driver_is_judged_the_same_on_the_page_and_in_the_check(name):
    """A fault of the machine in both, whatever is known of what is offered; unless someone else
    brings it.
    """
    (found,) = [finding for finding in plan_of(name).findings if finding.rule == "gpu-driver"]
    assert (found.is_fault, table_of(name).states[0].is_dead) == (True, True)
    external = plan_of(name, bringer="external")
    assert not any(finding.is_fault for finding in external.findings)
    params = CATALOG.rules["gpu-driver"].defaults | {"bringer": "external"}
    table = driver_table(
        Facts(reader_of(HOSTS[name]), RequestedNames(units=frozenset(UNITS))), params
    )
    assert [(state.name, state.is_fault, state.is_dead) for state in table.states] == [
        ("absent", False, False)
    ]


def test_five_reasons_not_to_stack_an_update():
    assert len(STACKED) == 5


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("name", HOSTS)
def test_pages_fit_the_terminal(name, columns):
    page = Page(screen=Screen(columns))
    for text in (driver_of(name, columns), check_report((Checked(plan_of(name), page),))):
        wide = [line for line in text.splitlines() if len(line) > columns]
        prose = [
            line
            for line in wide
            if find_command(line.strip().removeprefix("-> ").removeprefix("do: ")) is None
        ]
        assert not [line for line in prose if len(line.split()) > 1], (
            wide
        )  # a name of a package stays whole


def test_at_least_as_many_dead_hosts_as_the_world_showed():
    assert len(DEAD) >= 37


@pytest.mark.parametrize("name", HOSTS)
def test_page_says_nothing_twice(name):
    table = table_of(name)
    lines = driver_of(name).splitlines()
    body = (
        lines if len(lines) <= ONE_SCREEN else lines[: -lines[::-1].index("")]
    )  # a longer one ends as it begins
    text = " ".join(" ".join(body).split())
    said = [state.evidence for state in table.states] + [*table.clauses]
    assert [one for one in said if text.count(" ".join(one.split())) > 1] == []


@pytest.mark.parametrize("name", HOSTS)
def test_health_drains_what_is_dead_now_and_warns_of_what_the_boot_kills(name):
    policy = replace(POLICY, sole=health_rules(CATALOG, POLICY))
    health = judge(ask(examine(reader_of(HOSTS[name]), CATALOG, policy, collect=False), 60))
    assert (
        str(health.fitness)
        == {"no": "fit", "now": "unfit", "boot": "impaired"}[HOSTS[name]["dead"]]
    )
    assert all(point.todo for point in health.points if point.fitness is not Fitness.UNKNOWN)
