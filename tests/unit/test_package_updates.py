"""Package sets that replace and remove: versions that are wanted, whom it disturbs, and the old
.deb files.
"""

from dataclasses import replace

import pytest

from hosttune.actions.apply import waits_after
from hosttune.actions.journal.journal import Journal
from hosttune.actions.journal.lines import JournalStep, Run, StepId
from hosttune.actions.journal.recover import prune
from hosttune.errors import Conflict, Refused
from hosttune.facts import Facts
from hosttune.facts import apt_get as apt
from hosttune.host.door import Completed
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources.base import Context, Wish
from hosttune.resources.packages import kept_debs
from hosttune.resources.packages.driver_use import as_of_now
from hosttune.resources.packages.package import PackagesWish
from hosttune.resources.packages.package_set import PackageSetAddress
from hosttune.values import (
    ABSENT,
    Address,
    Change,
    Disturbs,
    HoldKind,
    Outcome,
    Phase,
    Risk,
    Unreadable,
    Verdict,
)
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import typed

WISH, SET = PackagesWish("packages"), PackageSetAddress()
LOADED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1  Fri Oct 10 2025\n"
UPDATE = "Inst nvidia-utils-580 [580.1-1] (580.2-1 Ubuntu:24.04/noble-updates [amd64])\n"
POLICY = """nvidia-utils-580:
  Installed: 580.1-1
  Candidate: 580.2-1
  Version table:
     580.2-1 500
        500 http://archive.example/ubuntu noble-updates/restricted amd64 Packages
 *** 580.1-1 500
        500 http://archive.example/ubuntu noble/restricted amd64 Packages
        100 /var/lib/dpkg/status
     570.9-1 -1
        100 /var/lib/dpkg/status
"""


def status(**versions):
    return "".join(
        f"Package: {name.replace('_', '-')}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n"
        for name, version in {"dpkg": "1.22", **versions}.items()
    )


def host(operands=(), simulated="", files=None, **versions):
    queries = {
        apt.make_simulation(operands): simulated,
        apt.ask_policy(["nvidia-utils-580"]): POLICY,
    }
    always = {"/var/lib/dpkg/status": status(**versions), "/sys/module/kernel/uevent": ""}
    return FakeReader(always | (files or {}), queries=queries)


def compare(reader, names, *, declared=Disturbs.GPU_WORK, **fields):
    facts = Facts(reader)
    wish = Wish("packages", names, "some-rule", "", {"state": "installed"} | fields)
    state = {address: SET.read(reader, address.name) for address in WISH.addresses(wish, facts)}
    (finding,) = typed(WISH.compare((wish,), Context(facts, state, {}, Risk.MEDIUM, declared)))
    return finding


def update(files=None, simulated=UPDATE, **fields):
    reader = host(("nvidia-utils-580=580.2-1",), simulated, files, nvidia_utils_580="580.1-1")
    return compare(reader, "nvidia-utils-580", versions=["nvidia-utils-580=580.2-1"], **fields)


def test_versions_that_are_there_are_ok_and_apt_is_not_asked():
    reader = host(nvidia_utils_580="580.2-1")
    finding = compare(
        reader,
        "nvidia-utils-580",
        versions=["nvidia-utils-580=580.2-1"],
        remove=["nvidia-utils-570"],
    )
    assert (finding.verdict, reader.asked) == (Verdict.OK, [])


def test_other_version_is_updated_to_the_wanted_one():
    finding = update()
    assert finding.reason == "nvidia-utils-580 is 580.1-1, not 580.2-1"
    (change,) = finding.changes
    assert (change.before, change.after) == (
        ("nvidia-utils-580=580.1-1",),
        ("nvidia-utils-580=580.2-1",),
    )
    assert change.reversible == "yes, from kept .deb files: puts back the 1 old versions"
    assert any(
        "keeps 1 old .deb files in /var/lib/hosttune/debs" in line for line in change.details
    )


def test_update_that_is_made_is_ok_and_goes_back_on_an_overlay():
    overlay = Overlay(host(("nvidia-utils-580=580.2-1",), UPDATE, nvidia_utils_580="580.1-1"))
    (change,) = compare(overlay, "nvidia-utils-580", versions=["nvidia-utils-580=580.2-1"]).changes
    SET.write(overlay, change)
    assert (
        compare(overlay, "nvidia-utils-580", versions=["nvidia-utils-580=580.2-1"]).verdict
        is Verdict.OK
    )
    SET.write(overlay, SET.invert(change))
    assert SET.read(overlay, "nvidia-utils-580") == change.before


def test_older_version_is_not_put_back():
    text = f"The following packages will be DOWNGRADED:\n  nvidia-utils-580 more\n0 upgraded, 2 downgraded\n{UPDATE}"
    finding = update(simulated=text)
    assert (finding.hold.kind, finding.changes) == (HoldKind.REFUSED, ())
    assert finding.hold.detail == "apt would put back an older version of nvidia-utils-580, more"


def test_switch_removes_what_is_named_and_nothing_else():
    operands = ("nvidia-utils-580", "nvidia-utils-570-")
    switch = "Remv nvidia-utils-570 [570.1-1]\nInst nvidia-utils-580 (580.2-1 Ubuntu:24.04/noble-updates [amd64])\n"
    reader = host(operands, switch, nvidia_utils_570="570.1-1")
    finding = compare(reader, "nvidia-utils-580", remove=["nvidia-utils-570", "not-there"])
    assert finding.reason == "not installed: nvidia-utils-580; still installed: nvidia-utils-570"
    (change,) = finding.changes
    assert change.address == Address("package-set", "nvidia-utils-580 - nvidia-utils-570")
    more = host(operands, switch + "Remv editor [1]\n", nvidia_utils_570="570.1-1")
    assert (
        compare(more, "nvidia-utils-580", remove=["nvidia-utils-570"]).hold.detail
        == "apt would remove editor"
    )


def test_one_version_counts_what_is_there_already():
    text = "Inst nvidia-fabricmanager-580 (580.9-1 s [amd64])\n"
    reader = host(("nvidia-fabricmanager-580",), text, nvidia_utils_580="580.1-1")
    both = ["nvidia-utils-580", "nvidia-fabricmanager-580"]
    finding = compare(reader, " ".join(both), one_version=both)
    assert finding.hold.detail.startswith("these must have one version")


@pytest.mark.parametrize(
    ("loaded", "fields", "disturbs"),
    [
        (LOADED, {"disturbs": "nothing"}, Disturbs.GPU_WORK),
        ("", {"disturbs": "nothing"}, Disturbs.NOTHING),
        ("", {}, Disturbs.GPU_WORK),
        ("", {"declared": Disturbs.SERVICE}, Disturbs.SERVICE),
    ],
    ids=["loaded", "not loaded", "as declared", "as declared, milder"],
)
def test_replacing_a_driver_disturbs_gpu_work_while_it_is_loaded(loaded, fields, disturbs):
    files = {"/proc/driver/nvidia/version": loaded} if loaded else {}
    (change,) = update(files, **fields).changes
    assert change.disturbs is disturbs
    assert any(
        "driver/library version mismatch until a reboot" in line for line in change.details
    ) == bool(loaded)


@pytest.mark.parametrize(
    ("name", "loaded", "disturbs"),
    [
        ("nvidia-utils-580", "", Disturbs.NOTHING),
        ("nvidia-fabricmanager-580", LOADED, Disturbs.GPU_WORK),
        ("linux-modules-nvidia-580-6.8.0-50-generic", LOADED, Disturbs.NOTHING),
        ("tuned", LOADED, Disturbs.NOTHING),
    ],
)
def test_adding_units_beside_a_loaded_driver_disturbs_gpu_work(name, loaded, disturbs):
    files = {"/proc/driver/nvidia/version": loaded} if loaded else {}
    reader = host((name,), f"Inst {name} (580.2-1 s [amd64])\n", files)
    (change,) = compare(reader, name, disturbs="nothing").changes
    assert change.disturbs is disturbs
    assert any("takes the GPUs from running containers" in line for line in change.details) == bool(
        disturbs.rank
    )


@pytest.mark.parametrize(
    ("files", "disturbs"),
    [
        ({"/proc/driver/nvidia/version": LOADED}, Disturbs.GPU_WORK),
        ({}, Disturbs.NOTHING),
        ({"/proc/driver/nvidia/version": Unreadable("permission denied")}, Disturbs.GPU_WORK),
    ],
    ids=["loaded", "not loaded", "unknown"],
)
def test_way_back_disturbs_once_the_driver_is_loaded(files, disturbs):
    back = Change(
        Address("package-set", "nvidia-utils-580"),
        "delete",
        ("nvidia-utils-580=580.2-1",),
        ABSENT,
        "r",
    )
    assert as_of_now(back, Facts(host(files=files))).disturbs is disturbs


def test_other_packages_disturb_nobody():
    files = {"/proc/driver/nvidia/version": LOADED}
    other = host(("tuned=2",), "Inst tuned [1] (2 s [all])\n", files, tuned="1")
    assert (
        compare(other, "tuned", versions=["tuned=2"], disturbs="nothing").changes[0].disturbs
        is Disturbs.NOTHING
    )


def test_offered_versions_are_those_of_an_archive():
    assert apt.offered_versions(POLICY) == {"nvidia-utils-580": ("580.2-1", "580.1-1")}
    assert apt.offered_versions("N: Unable to locate package x\n") == {}


def test_file_start_is_as_apt_names_files():
    assert apt.file_start("libx:i386", "1:2.3~rc1-4+b1") == "libx_1%3a2.3~rc1-4+b1_"


class Debs(FakeReader):
    """Runs the programs that keep and drop .deb files, on the files of the fake."""

    failing = ""

    def run(self, argv, *, timeout_s):
        self.asked.append(tuple(argv))
        if argv[0] == self.failing:
            raise Refused("No space left on device")
        if argv[0] == "cp":
            self.files[argv[3]] = self.files[argv[2]]
        elif argv[0] == "env":
            name, _, version = argv[-1].partition("=")
            self.files[f"{argv[2]}/{apt.file_start(name, version)}amd64.deb"] = b"deb"
        elif argv[0] == "mv":
            self.files[argv[3]] = self.files.pop(argv[2])
        elif argv[0] == "rm":
            self._folders -= set(argv[3:])
            for path in [one for one in self.files if one.startswith(tuple(argv[3:]))]:
                self.files.pop(path)
        return Completed(0, b"", b"")

    def make_folder(self, path):
        self._folders.add(path)

    @property
    def kept(self):
        return self.list(kept_debs.FOLDER)


def debs(*cached, policy=POLICY):
    files = {f"/var/cache/apt/archives/{name}": b"deb" for name in cached}
    return Debs(files, queries={apt.ask_policy(["nvidia-utils-580"]): policy})


OLD = {"nvidia-utils-580": "580.1-1"}


def test_keep_copies_from_the_cache_or_fetches_from_the_archive():
    writer = debs("nvidia-utils-580_580.1-1_amd64.deb", "nvidia-utils-580_580.1-11_amd64.deb")
    kept_debs.keep(writer, OLD)
    assert writer.kept == ("nvidia-utils-580_580.1-1_amd64.deb",)
    assert not any(argv[0] == "env" for argv in writer.asked)
    writer = debs()
    kept_debs.keep(writer, OLD)
    assert writer.kept == ("nvidia-utils-580_580.1-1_amd64.deb",)
    asked = len(writer.asked)
    kept_debs.keep(writer, OLD)
    assert len(writer.asked) == asked
    assert (
        kept_debs.spell_operand(writer, "nvidia-utils-580", "580.1-1")
        == f"{kept_debs.FOLDER}/{writer.kept[0]}"
    )
    assert (
        kept_debs.spell_operand(writer, "nvidia-utils-580", "580.2-1") == "nvidia-utils-580=580.2-1"
    )


def test_keep_of_what_nobody_has_keeps_nothing():
    writer = debs(policy=ABSENT)
    kept_debs.keep(writer, OLD)
    assert writer.kept == ()


def test_keep_that_fails_refuses_the_transaction():
    writer = debs()
    writer.failing = "env"
    with pytest.raises(
        Refused, match=r"580\.1-1 of nvidia-utils-580 cannot be kept for an undo: No space"
    ):
        kept_debs.keep(writer, OLD)


def test_keep_that_was_killed_half_way_is_made_again():
    writer = debs("nvidia-utils-580_580.1-1_amd64.deb")
    writer.failing = "sync"
    with pytest.raises(Refused):
        kept_debs.keep(writer, OLD)
    writer.files[f"{kept_debs.FOLDER}/partial/nvidia-utils-580_580.1-1_amd64.deb"] = (
        b"de"  # what a kill leaves
    )
    assert kept_debs.spell_operand(writer, *next(iter(OLD.items()))) == "nvidia-utils-580=580.1-1"
    writer.failing = ""
    kept_debs.keep(writer, OLD)
    assert writer.kept == ("nvidia-utils-580_580.1-1_amd64.deb",)
    assert writer.files[f"{kept_debs.FOLDER}/{writer.kept[0]}"] == b"deb"


@pytest.mark.parametrize(
    ("name", "architecture"), [("libx", "amd64"), ("libx:i386", "i386"), ("liby", "all")]
)
def test_kept_file_is_of_the_architecture_of_the_package(name, architecture):
    files = ("libx_1_i386.deb", "libx_1_amd64.deb", "liby_1_all.deb")
    reader = FakeReader(
        {f"{kept_debs.FOLDER}/{file}": b"deb" for file in files}
        | {apt.ARCHITECTURES: "amd64\ni386\n"}
    )
    assert kept_debs.spell_operand(reader, name, "1").endswith(f"_{architecture}.deb")
    assert apt.places_of("", files, {name: "1"}, ("i386",)) == {name: "cache"}
    other = tuple(file for file in files if architecture not in file)
    assert apt.places_of("", other, {name: "1"}, ("i386",)) == {name: "nowhere"}


def test_set_on_an_overlay_leaves_the_package_of_another_architecture():
    foreign = "Package: libx\nStatus: install ok installed\nArchitecture: i386\nVersion: 1\n\n"
    database = status(libx="1") + foreign
    overlay = Overlay(FakeReader({"/var/lib/dpkg/status": database}))
    SET.write(
        overlay, Change(Address("package-set", "libx"), "update", ("libx=1",), ("libx=2",), "r")
    )
    packages = Facts(overlay).packages
    assert (packages["libx"].version, packages["libx:i386"].version) == ("2", "1")
    SET.write(
        overlay,
        Change(Address("package-set", "libx:i386"), "delete", ("libx:i386=1",), ABSENT, "r"),
    )
    assert Facts(overlay).packages.names == ("dpkg", "libx")


def step(seq, before, *, undoes=None):
    change = Change(
        Address("package-set", "nvidia-utils-580"),
        "update",
        before,
        ("nvidia-utils-580=580.2-1",),
        "r",
    )
    return JournalStep(StepId("run", seq), change, Phase.DONE, undoes=undoes)


def journal(*steps):
    return Journal((Run("run", "apply", "2026-01-01", "", "", "", "", steps, is_finished=True),))


def test_prune_drops_the_files_that_no_step_in_force_needs():
    writer = debs()
    for version in ("580.1-1", "570.1-1"):
        writer.files[f"{kept_debs.FOLDER}/nvidia-utils-580_{version}_amd64.deb"] = b"deb"
    made = step(1, ("nvidia-utils-580=580.1-1 (auto)",))
    prune(writer, journal(made))
    assert writer.kept == ("nvidia-utils-580_580.1-1_amd64.deb",)
    prune(writer, journal(made, replace(step(2, ABSENT), undoes=made.id)))
    assert writer.kept in {(), ABSENT}


def test_undo_installs_the_kept_file_and_marks_it_as_it_was():
    old, new = ("libx=1 (auto)",), ("libx=2",)
    file = f"{kept_debs.FOLDER}/libx_1_all.deb"
    reader = Debs({"/var/lib/dpkg/status": status(libx="2"), file: b"deb"})
    reader.queries[apt.make_simulation((file,))] = "Inst libx [2] (1 local-deb [all])\n"
    ran = []

    def run(argv, *, timeout_s):
        assert timeout_s > 0
        ran.append(tuple(argv))
        reader.files["/var/lib/dpkg/status"] = status(libx="1")

    reader.run = run
    SET.write(reader, Change(Address("package-set", "libx"), "update", new, old, "r"))
    assert ran[0][-1] == file
    assert "--allow-downgrades" in ran[0]
    assert ran[1] == ("apt-mark", "auto", "libx")


def test_kept_file_of_other_contents_is_not_installed():
    file = f"{kept_debs.FOLDER}/libx_1_all.deb"
    reader = Debs({"/var/lib/dpkg/status": status(libx="2"), file: b"deb"})
    reader.queries[apt.make_simulation((file,))] = "Inst libx [2] (3 local-deb [all])\n"
    with pytest.raises(Conflict, match="something else"):
        SET.write(
            reader, Change(Address("package-set", "libx"), "update", ("libx=2",), ("libx=1",), "r")
        )


LISTED = "NEEDRESTART-VER: 3.6\nNEEDRESTART-KSTA: 1\nNEEDRESTART-SVC: ssh.service\nNEEDRESTART-SVC: cron.service\n"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (LISTED, "a restart of cron.service, ssh.service waits"),
        (
            Unreadable("did not end"),
            "it did not say which services use replaced files (did not end)",
        ),
        ("NEEDRESTART-VER: 3.6\n", ""),
        (ABSENT, ""),
    ],
)
def test_services_that_needrestart_would_restart_are_told(answer, sentence):
    made = Outcome(step(1, ABSENT).change, Phase.DONE)
    told = waits_after((made,), FakeReader(queries={apt.NEEDRESTART: answer}))
    assert len(told) == bool(sentence)
    assert sentence in "".join(told)


def test_needrestart_is_not_asked_where_no_package_changed():
    reader = FakeReader()
    other = replace(step(1, ABSENT).change, address=Address("sysctl", "vm.a"))
    assert waits_after((Outcome(other, Phase.DONE),), reader) == ()
    assert reader.asked == []


def test_versions_and_downloaded_files_are_looked_up_in_linear_time(monkeypatch):
    asked = []
    made = apt.is_file_of
    monkeypatch.setattr(apt, "is_file_of", lambda *given: asked.append(1) or made(*given))
    files = [f"p{number}_1%3a2_amd64.deb" for number in range(300)]
    found = apt.places_of("", files, {f"p{number}": "1:2" for number in range(300)})
    assert set(found.values()) == {"cache"}
    assert len(asked) == 300


@pytest.mark.parametrize("number", ["9" * 5000, "1.2.3"])
def test_number_that_apt_does_not_write_is_none(number):
    assert (
        apt.growth_bytes(
            f"After this operation, {number} kB of additional disk space will be used."
        )
        == 0
    )
    assert apt.download_bytes(f"'http://h/x' x_1.deb {number} SHA256:x") == 0
