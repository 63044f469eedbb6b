"""The years to come, as built hosts with a date: branches and GPUs that no table of ours has, told
by Ubuntu's packages alone.
"""

from __future__ import annotations

from calendar import timegm

import pytest

from hosttune.choices.driver import choose
from hosttune.choices.driver_state import choose as states
from hosttune.facts import Facts
from hosttune.facts.gpu.candidates import DEVICES, LIST
from hosttune.facts.gpu.packaging import QUERY
from hosttune.host.record.record import RecordReader
from hosttune.views.driver import driver_table, driver_text
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.hosts.driver import loaded, not_loaded
from tests.hosts.kinds.common import KERNEL_MOUNTS, shm
from tests.hosts.machine import DiskSpec, GpuSpec, Machine, MountSpec
from tests.unit.driver_machine import A100, H100, PARAMS, RTX4090, RTX5090, V100, stanza
from tests.unit.schemas import faults

RUBIN = "0x3400"
KERNEL = "6.8.0-60-generic"
OLD, TURING = (V100,), (A100, H100, RTX4090, RTX5090)
# branch: Support, what the closed packages drive, what the open ones do
FLAVOURS = ("", "-server", "-open", "-server-open")
A580 = {580: ("LTSB", (*OLD, *TURING), TURING)}
A595 = {595: ("PB", TURING, TURING)}
A615 = {615: ("NFB", (), TURING)}
A640 = {640: ("LTSB", (), (*TURING, RUBIN))}
A655 = {655: ("PB", (), (*TURING, RUBIN))}
AUTUMN_2026 = A580 | A595 | A615
NOVEMBER_2027 = A580 | A595 | A640
AUGUST_2028 = A580 | A640 | A655


def day(text):
    year, month = map(int, text.split("-"))
    return float(timegm((year, month, 15, 0, 0, 0)))


def shown(archive):
    """What apt lists: closed packages of branches that have none are empty steps to the open
    ones.
    """
    found = []
    for branch, (support, closed, opened) in archive.items():
        for flavour in FLAVOURS:
            name, ids = (
                f"nvidia-driver-{branch}{flavour}",
                opened if flavour.endswith("open") else closed,
            )
            steps = {} if ids else {"depends": f"{name}-open", "section": "multiverse/oldlibs"}
            found.append(
                stanza(name, f"{branch}.50.01-0ubuntu1", ids, support if ids else "", **steps)
            )
        found.append(stanza(f"nvidia-fabricmanager-{branch}", f"{branch}.50.01-0ubuntu1"))
    return "".join(found)


def listed(archive, gpus, tells=True):
    """`ubuntu-drivers`: the union over the GPUs, under one of them. 615 has no prebuilt modules."""
    offered = [
        f"nvidia-driver-{branch}{flavour}"
        for branch, (_, closed, opened) in archive.items()
        for flavour in FLAVOURS
        if {*gpus} & {*(opened if flavour.endswith("open") else closed)}
    ]
    sections = "".join(
        f"== /sys/devices/pci0000:00/0000:0{slot}:00.0 ==\n"
        f"modalias : pci:v000010DEd0000{one[2:].upper()}sv000010DEsd00000000bc03sc02i00\nvendor   : NVIDIA Corporation\n"
        + "".join(
            f"driver   : {name} - distro non-free\n"
            for name in (offered if slot == len(gpus) else ())
        )
        + "\n"
        for slot, one in enumerate(gpus, 1)
    )
    modules = {
        name: f"nvidia-dkms-{rest}"
        if rest.startswith("615")
        else f"linux-modules-nvidia-{rest}-generic"
        for name in offered
        if (rest := name.removeprefix("nvidia-driver-"))
    }
    lines = (f"{name}, (kernel modules provided by {modules[name]})\n" for name in offered)
    return {DEVICES: sections, LIST: "".join(lines), **({QUERY: shown(archive)} if tells else {})}


def host(archive, gpus, month, *, installed="", tells=True, working=True, files=None):
    """A server of that month with these GPUs; `installed` is the flavour of a driver that is there:
    580-server-open.
    """
    specs = tuple(
        GpuSpec(f"0000:{16 * slot:02x}:00.0", one, "nvidia" if installed else "")
        for slot, one in enumerate(gpus, 1)
    )
    version = f"{installed.partition('-')[0]}.50.01"
    base = installed.removesuffix("-open")
    names = (
        f"nvidia-utils-{base}", f"nvidia-kernel-common-{base}", f"nvidia-headless-no-dkms-{installed}",
        f"linux-modules-nvidia-{installed}-generic",
    )  # fmt: skip
    kind = "Open Kernel Module for x86_64" if installed.endswith("open") else "x86_64 Kernel Module"
    there = {
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX {kind}  {version}  Release Build\n",
        f"/usr/lib/modules/{KERNEL}/modules.dep": "kernel/nvidia-x/nvidia.ko.zst:\n",
        f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}": "",
    }
    told = loaded(specs, version, KERNEL) if installed and working else not_loaded()
    machine = Machine(
        name="later", kernel=KERNEL, disks=(DiskSpec("nvme0n1", 900),), gpus=specs,
        mounts=(MountSpec("/", "/dev/nvme0n1", "ext4", "259:0"), *KERNEL_MOUNTS, shm(256)),
        packages={"dpkg": "1.22.6", "linux-image-generic": "6.8.0.60.63", **(dict.fromkeys(names, f"{version}-0ubuntu1") if installed else {})},
        files={**(there if installed else {}), **(files or {})},
        links={"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": f"libnvidia-ml.so.{version}"} if installed else {},
        queries={**told, **listed(archive, gpus, tells)},
    )  # fmt: skip
    return Facts(RecordReader(machine.record() | {"made_at": day(month)}, "later.json"))


@pytest.mark.parametrize(
    ("archive", "month", "gpus", "track", "name", "says"),
    [
        (AUTUMN_2026, "2026-11", [H100], "lts", "580-server-open", "supported until 2028-06"),
        (NOVEMBER_2027, "2027-11", [H100], "lts", "640-server-open", "long-term branch offered; Ubuntu's archive calls it so"),
        (NOVEMBER_2027, "2027-11", [H100], "production", "640-server-open", "no production branch is offered: the newest long"),
        (NOVEMBER_2027, "2027-11", [V100], "lts", "580-server", "supported until 2028-06"),
        (AUGUST_2028, "2028-08", [H100, A100], "lts", "640-server-open", "newest long-term"),
        (AUGUST_2028, "2028-08", [H100], "production", "655-server-open", "newest production branch offered; Ubuntu's archive"),
        (AUGUST_2028, "2028-08", [H100], "newest", "655-server-open", "the newest that Ubuntu offers"),
        (AUGUST_2028, "2028-08", [V100], "lts", "580-server", "support of every branch offered for these GPUs has ended"),
        (AUGUST_2028, "2028-08", [V100, H100], "newest", "580-server", "the newest that Ubuntu offers for these GPUs"),
        (AUGUST_2028, "2028-08", [RUBIN], "lts", "640-server-open", "newest long-term"),
        (AUGUST_2028, "2028-08", [RUBIN] * 4, "production", "655-server-open", "newest production"),
        (AUGUST_2028, "2028-08", [A100, RUBIN], "lts", "640-server-open", "newest long-term"),
        (A580 | A655, "2027-11", [A100, RUBIN], "lts", "655-server-open", "no long-term branch is offered: the newest prod"),
        (A580 | A655, "2027-11", [RTX5090, A100, RUBIN], "newest", "655-server-open", "open kernel module"),
    ],
)  # fmt: skip
def test_branch_of_the_years_to_come(archive, month, gpus, track, name, says):
    choice = choose(host(archive, gpus, month), PARAMS | {"track": track})
    assert (choice.action, choice.name) == ("install", name), choice.reason
    assert says in choice.reason


@pytest.mark.parametrize("pin", ["580", "595"])
def test_pin_that_does_not_drive_all_is_refused(pin):
    choice = choose(host(A580 | A595 | A640, [A100, RUBIN], "2027-11"), PARAMS | {"branch": pin})
    assert (choice.action, "no branch drives all of them" in choice.reason) == ("refuse", True)


def test_no_branch_for_both_is_refused_and_nothing_is_guessed():
    choice = choose(host(A580 | A595, [A100, RUBIN], "2027-11"), PARAMS)
    assert (choice.action, "no branch drives all of them" in choice.reason) == ("refuse", True)
    old = choose(host(AUGUST_2028, [V100, RUBIN], "2028-08"), PARAMS)
    assert old.action == "refuse"


def test_record_without_apts_lists_takes_what_ubuntu_drivers_lists_for_one_kind_and_guesses_for_no_mixture():
    alone = host(A640, [RUBIN, RUBIN], "2028-08", tells=False)
    assert choose(alone, PARAMS).name == "640-server-open"
    mixed = choose(host(AUGUST_2028, [A100, RUBIN], "2028-08", tells=False), PARAMS)
    assert mixed.action == "refuse"
    assert "which branch drives all GPUs" in mixed.reason
    assert (
        choose(host(AUTUMN_2026, [A100, H100], "2026-11", tells=False), PARAMS).name
        == "580-server-open"
    )


def test_table_past_its_date_is_told_only_where_apt_does_not_tell():
    assert (
        "a newer hosttune may know more"
        in choose(host(A580, [H100], "2027-11", tells=False), PARAMS).reason
    )
    assert "a newer hosttune" not in choose(host(A580, [H100], "2027-11"), PARAMS).reason


def names(facts):
    return [one.name for one in states(facts, {}).states]


def test_installed_580_is_fine_in_2027_and_over_in_2028():
    assert "outdated branch" not in names(
        host(NOVEMBER_2027, [H100], "2027-11", installed="580-server-open")
    )
    later = host(AUGUST_2028, [H100], "2028-08", installed="580-server-open")
    assert "outdated branch" in names(later)
    choice = choose(later, PARAMS | {"switch_branch": True})
    assert (choice.action, choice.name) == ("switch", "640-server-open")
    assert choice.reason.startswith(
        "NVIDIA's support of branch 580 has ended (in 2028-06); switch from 580-server-open to 640"
    )
    assert (
        driver_table(later, PARAMS).rows[0].installed
        == "580-server-open, 580.50.01 (long-term, ended 2028-06)"
    )


def test_branch_that_ubuntu_replaced_is_over_though_no_table_has_it():
    steps = "".join(
        stanza(f"nvidia-driver-640{flavour}", "650.1-0ubuntu1", depends=f"nvidia-driver-650{flavour}") for flavour in FLAVOURS
    )  # fmt: skip
    facts = host(A580, [H100], "2028-02", installed="640-server-open")
    facts.reader._queries[QUERY]["stdout"] = steps + shown(A580 | {650: ("PB", (), TURING)})
    (said,) = [one.evidence for one in states(facts, {}).states if one.name == "outdated branch"]
    assert said.startswith(
        "Ubuntu has replaced branch 640: its packages are empty steps to nvidia-driver-650"
    )


def test_branch_that_ubuntu_calls_legacy_is_over_where_no_table_has_it():
    facts = host(
        A580 | {640: ("Legacy", (), TURING)}, [H100], "2028-02", installed="640-server-open"
    )
    (said,) = [one.evidence for one in states(facts, {}).states if one.name == "outdated branch"]
    assert said == "Ubuntu's packages call branch 640 a legacy one"
    assert choose(facts, PARAMS | {"switch_branch": True}).name == "580-server-open"


def test_driver_page_names_the_ends_and_marks_ended_ones():
    facts = host(A580 | A595 | A615 | A640, [H100], "2027-11")
    table = driver_table(facts, PARAMS)
    assert "branches 580 (long-term, supported until 2028-06), 595 (production, ended 2027-03), 615 (new-feature, end not known), 640 (long-term, end not known)" in table.rows[0].available  # fmt: skip
    assert "(production, ended 2027-03)" in " ".join(
        driver_text(table, Page(screen=Screen(80))).split()
    )
    rubin = driver_table(host(AUGUST_2028, [A100, RUBIN], "2028-08"), PARAMS)
    assert [row.available for row in rubin.rows] == [
        "branches 580 (long-term, ended 2028-06), 640 (long-term, end not known), 655 (production, end not known)",
        "branches 640 (long-term, end not known), 655 (production, end not known)",
    ]


def test_row_of_the_site_is_named_as_the_source():
    files = {"/etc/hosttune/driver-branches.tsv": "branch 640 lts 2031-01 turing blackwell\n"}
    facts = host(NOVEMBER_2027, [H100], "2027-11", files=files)
    assert (
        "supported until 2031-01, as /etc/hosttune/driver-branches.tsv says"
        in choose(facts, PARAMS).reason
    )
    bad = host(
        NOVEMBER_2027,
        [H100],
        "2027-11",
        files={"/etc/hosttune/driver-branches.tsv": "branch 640 LTS - - -\n"},
    )
    refused = choose(bad, PARAMS)
    assert refused.action == "refuse"
    assert "driver-branches.tsv:1: kind: 'LTS' is no kind of branch (one of lts" in refused.reason


def given(text, archive=A580, installed=""):
    files = {"/etc/custom_supported_gpus.json": text}
    return host(archive, [A100, RUBIN], "2026-11", files=files, installed=installed, working=False)


CHIPS = '{"chips": [{"devid": "0x3400", "name": "a board", "branch": "580.95", "features": ["runtimepm"]}]}'


def test_branch_that_the_maker_gives_a_gpu_drives_it_though_no_package_names_it():
    """As ubuntu-drivers takes it: the plain package of that branch, and of no other."""
    choice = choose(given(CHIPS), PARAMS)
    assert (choice.action, choice.name) == ("install", "580"), choice.reason
    assert "/etc/custom_supported_gpus.json gives it to this GPU" in choice.clauses
    assert choose(given(CHIPS.replace("580.95", "595")), PARAMS).action == "refuse"
    there = given(CHIPS, installed="580")
    assert "unsupported GPU" not in names(there)
    assert "unsupported GPU" in names(given("{}", installed="580"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"chips": 1}',
        '{"chips": [{"devid": "0x3400"}]}',
        '{"chips": [{"devida": "0x3400", "branch": "580"}]}',
    ],
)
def test_what_ubuntu_drivers_passes_over_gives_nothing(text):
    assert choose(given(text), PARAMS).action == "refuse"


def test_file_of_the_maker_that_others_may_write_is_not_followed():
    facts = given(CHIPS)
    path, stats = "/etc/custom_supported_gpus.json", facts.reader._tables["stats"]
    kind, _, *rest = stats[path]
    facts.reader._tables = {**facts.reader._tables, "stats": {**stats, path: [kind, 0o666, *rest]}}
    refused = choose(facts, PARAMS)
    assert refused.action == "refuse"
    assert "is not followed, because others than root can write" in refused.reason


# What nvidia-smi shows as working works, in every branch that no table of ours has.
@pytest.mark.parametrize(
    ("installed", "device"),
    [
        ("525", RTX4090), ("525-server", H100), ("450-server", A100), ("470-server", H100), ("430", "0x1e04"),
        ("440", "0x1eb8"), ("460", "0x1eb8"), ("460-server", A100), ("515-open", A100), ("700-open", RUBIN),
    ],
)  # fmt: skip
def test_no_working_host_is_told_that_its_branch_does_not_drive_its_gpu(
    installed, device, monkeypatch
):
    monkeypatch.setitem(
        __import__("tests.hosts.driver", fromlist=["NAMES"]).NAMES, device, "NVIDIA X"
    )
    facts = host(A580, [device], "2026-11", installed=installed)
    assert facts.driver.name == installed
    assert [one.slot for one in facts.nvidia.gpus] == ["0000:10:00.0"]
    assert "unsupported GPU" not in names(facts)
    assert "does not drive" not in choose(facts, PARAMS).reason


@pytest.mark.parametrize(
    ("installed", "device"), [("525", RTX4090), ("525", H100), ("450-server", A100), ("430", "0x1e04"), ("460", "0x1eb8")]
)  # fmt: skip
def test_range_that_nobody_tells_accuses_no_driver_even_where_it_is_not_loaded(installed, device):
    facts = host(A580, [device], "2026-11", installed=installed, working=False)
    assert "unsupported GPU" not in names(facts)


def test_branch_that_the_table_knows_not_to_drive_a_silent_gpu_is_named():
    facts = host(A580, [RTX5090], "2026-11", installed="535", working=False, tells=False)
    (said,) = [one.evidence for one in states(facts, {}).states if one.name == "unsupported GPU"]
    assert said.startswith("branch 535 does not drive blackwell")


@pytest.mark.parametrize("month", ["2026-11", "2027-11", "2028-08"])
@pytest.mark.parametrize("gpus", [[H100], [RUBIN], [A100, RUBIN], [V100, RUBIN]])
def test_every_page_is_printed_and_fits_the_schema(month, gpus):
    from hosttune.views.driver import driver_json

    table = driver_table(host(AUGUST_2028, gpus, month), PARAMS)
    assert faults(driver_json(table, Page()), "driver") == []
    assert driver_text(table, Page())


BOTH_615 = (
    "nvidia-driver-615", "nvidia-driver-615-open", "nvidia-dkms-615-open", "nvidia-kernel-source-615-open",
    "nvidia-utils-615", "nvidia-kernel-common-615", "nvidia-compute-utils-615",
)  # fmt: skip


def host_615(names=BOTH_615, archive=AUTUMN_2026, month="2026-11"):
    """A workstation whose 615 came by the old name, which is an empty step to
    nvidia-driver-615-open.
    """
    facts = host(archive, [RTX5090], month, installed="615-open", working=False)
    version = "615.50.01-0ubuntu1"
    stanzas = [
        f"Package: {one}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
        for one in names
    ]
    kept = facts.reader.data["files"]["/var/lib/dpkg/status"].split("\n\n")
    own = [one for one in kept if "615" not in one]
    files = {**facts.reader._tables["files"], "/var/lib/dpkg/status": "\n\n".join([*own, *stanzas])}
    facts.reader._tables = {**facts.reader._tables, "files": files}
    return Facts(facts.reader)


@pytest.mark.parametrize("switch", [True, False])
@pytest.mark.parametrize("track", ["lts", "production"])
def test_615_by_its_transitional_name_is_the_open_one_and_stays(track, switch):
    facts = host_615()
    assert facts.driver.name == "615-open"
    assert "wrong flavour" not in names(facts)
    choice = choose(facts, PARAMS | {"switch_branch": switch, "track": track})
    assert (choice.action, choice.name) == ("keep", "615-open"), choice.reason


def test_615_alone_is_named_as_what_it_is_by_ubuntu_drivers_and_compiled_by_consent_only():
    facts = host({615: A615[615]}, [RTX5090], "2026-11")
    refused = choose(facts, PARAMS)
    assert (refused.action, "modules are offered only by DKMS" in refused.reason) == (
        "refuse",
        True,
    )
    compiled = choose(facts, PARAMS | {"allow_dkms": True})
    assert compiled.packages[2:] == ("nvidia-dkms-615-server-open", "linux-headers-generic")
