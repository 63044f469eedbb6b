"""What a trial writes before the first change and removes at its end, cut off at each write."""

from __future__ import annotations

import pytest

from hosttune.actions.trial import guard as trial_guard
from hosttune.actions.trial import one_shot
from hosttune.actions.trial.guard import KeptFile
from hosttune.errors import HosttuneError, Refused
from hosttune.facts.kernel.boot_entry import CUSTOM, ENVIRONMENT, BootEntry
from hosttune.host.door import Space
from hosttune.host.known.unit_folders import ADMIN
from hosttune.values import ABSENT, Action, Address, Change, FileValue, Unreadable
from tests.unit.fake_reader import FakeReader
from tests.unit.trial_host import (
    ARMED_IN,
    BLOCK,
    BOOT_ID,
    SECOND,
    TRIAL,
    GuardedRoot,
    PowerCut,
    TrialHost,
)

RUN = "20261124T100000-1a2b"
FSTAB = "/etc/fstab"
OLD, NEW = b"UUID=1 / ext4 defaults 0 1\n", b"UUID=1 / ext4 noatime 0 1\n"
FILES = (
    KeptFile(FSTAB, FileValue(OLD), FileValue(NEW)),
    KeptFile("/etc/a.conf", ABSENT, FileValue(b"a\n")),
)
ENTRY = BootEntry(
    "Debian", "6.1.0-1", ("insmod ext2",), "/vmlinuz-6.1.0-1", "root=UUID=1 ro", ("initrd /initrd",)
)
MOUNTS = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"


def reader(files=None, **more) -> FakeReader:
    base = {
        BOOT_ID: ARMED_IN,
        FSTAB: OLD,
        ENVIRONMENT: BLOCK,
        "/etc/hosttune/policy.yaml": "",
        **(files or {}),
    }
    return FakeReader(base, folders=["/etc/systemd/system", *more.pop("folders", ())], **more)


def begin(host: TrialHost) -> None:
    """As a run on trial does."""
    trial_guard.arm(host, RUN, FILES, within_s=900, has_one_shot=True)
    host.replace(FSTAB, FileValue(NEW), expected=OLD)
    host.replace("/etc/a.conf", FileValue(b"a\n"), expected=ABSENT)
    trial_guard.mark(host, "settled")
    one_shot.arm_entry(host, ENTRY, RUN, ("iommu=pt",))


def confirm(host: TrialHost) -> None:
    trial_guard.mark(host, "confirmed")
    one_shot.disarm_entry(host)
    trial_guard.disarm(host)


def take_back(host: TrialHost) -> None:
    trial_guard.mark(host, "ending")
    one_shot.disarm_entry(host)
    for one in FILES:
        present = host.read(one.path)
        if isinstance(one.after, FileValue) and present == one.after.content:
            if isinstance(one.before, FileValue):
                host.replace(one.path, one.before, expected=present)
            else:
                host.remove(one.path, expected=present)
    trial_guard.mark(host, "returned")
    trial_guard.disarm(host)


def is_old(host: TrialHost) -> bool:
    return host.read(FSTAB) == OLD and host.read("/etc/a.conf") is ABSENT


def is_watched(host: TrialHost) -> bool:
    """Where a boot on trial is asked for, somebody watches over it."""
    marks = trial_guard.read_marks(host)
    units = all(isinstance(host.read(path), bytes) for path in trial_guard.UNIT_PATHS)
    guarded = {"armed", "settled"} <= marks and not {"confirmed", "returned"} & marks and units
    return guarded or not one_shot.is_asked_for(host)


def nothing_left(host: TrialHost) -> bool:
    ours = (*trial_guard.UNIT_PATHS, CUSTOM)
    folder = host.list(trial_guard.FOLDER)
    return (
        all(host.read(path) is ABSENT for path in ours)
        and not isinstance(folder, tuple)
        and host.read(ENVIRONMENT) == BLOCK
    )


def booted_into() -> TrialHost:
    """In the boot on trial: GRUB has cleared what asked for it."""
    host = begun()
    host.files[ENVIRONMENT] = FileValue(one_shot.with_next_entry(BLOCK, ""))
    return host


def count_of(act, make=None) -> int:
    host = (make or begun)()
    before = len(host.writes)
    act(host)
    return len(host.writes) - before


def begun(**options) -> TrialHost:
    host = TrialHost(reader(), **options)
    begin(host)
    return host


ARMING = len(begun().writes)


def booted(host: TrialHost, tmp_path, *, takes_entry: bool) -> GuardedRoot | None:
    """The first boot after a cut: what the early unit makes of it. None where no unit would
    start.
    """
    folder = host.list(trial_guard.FOLDER)
    wants = host.read(f"{ADMIN}/sysinit.target.d/60-hosttune-come-back.conf")
    if not isinstance(folder, tuple) or "armed" not in folder or not isinstance(wants, bytes):
        return None
    root = GuardedRoot(tmp_path / "root", host, "coreutils")
    for path in (FSTAB, "/etc/a.conf"):
        content = host.read(path)
        if isinstance(content, bytes):
            root.write(path, content)
    if takes_entry:
        root.write("/proc/cmdline", f"ro hosttune.trial={RUN}\n".encode())
    root.boot(TRIAL, "early")
    return root


@pytest.mark.parametrize("cut_after", range(ARMING + 1))
def test_arming_that_is_cut_off_is_old_at_the_next_boot_or_complete(cut_after, tmp_path):
    host = TrialHost(reader(), cut_after=cut_after)
    if cut_after < ARMING:
        with pytest.raises(PowerCut):
            begin(host)
    else:
        begin(host)
    assert is_watched(host)
    asked = one_shot.is_asked_for(host)
    root = booted(host, tmp_path, takes_entry=asked)
    if root is None:
        assert is_old(host)  # not armed, so nothing was changed
        assert not asked
    elif asked:
        assert cut_after >= ARMING - 1  # all that is missing is the last sync
        assert "trying" in root.marks()
        assert root.read(FSTAB) == NEW
    else:
        assert root.read(FSTAB) == OLD
        assert root.read("/etc/a.conf") is None
        assert "returned" in root.marks()
        assert root.reboots <= 1


@pytest.mark.parametrize("cut_after", range(ARMING))
def test_what_a_cut_left_is_cleared_by_the_next_run(cut_after):
    host = TrialHost(reader(), cut_after=cut_after)
    with pytest.raises(PowerCut):
        begin(host)
    after = host.again()
    take_back(after) if "armed" in trial_guard.read_marks(after) else trial_guard.disarm(after)
    assert is_old(after)
    assert nothing_left(after)


@pytest.mark.parametrize("cut_after", range(count_of(confirm, booted_into)))
def test_confirming_that_is_cut_off_is_confirmed_or_still_on_trial(cut_after):
    host = booted_into()
    host.cut_after = len(host.writes) + cut_after
    with pytest.raises(PowerCut):
        confirm(host)
    marks = trial_guard.read_marks(host)
    assert marks == {"armed", "settled"} if cut_after == 0 else "confirmed" in marks
    assert is_watched(host)
    after = host.again()
    confirm(after)
    assert nothing_left(after)
    assert after.read(FSTAB) == NEW


@pytest.mark.parametrize("cut_after", range(count_of(take_back)))
def test_taking_back_that_is_cut_off_is_finished_by_the_next_boot(cut_after, tmp_path):
    host = begun()
    host.cut_after = len(host.writes) + cut_after
    with pytest.raises(PowerCut):
        take_back(host)
    assert is_watched(host)
    asked = one_shot.is_asked_for(host)
    root = booted(host, tmp_path, takes_entry=asked)
    if cut_after == 0:  # not even decided
        assert root is not None
        assert "trying" in root.marks()  # nobody has begun to take it back
        return
    if root is None:
        assert is_old(host)
    else:
        assert root.read(FSTAB) == OLD
        assert root.read("/etc/a.conf") is None
        assert "returned" in root.marks()
        root.boot(SECOND, "early")
        assert root.reboots <= 1
    after = host.again()
    take_back(after)
    assert nothing_left(after)


@pytest.mark.parametrize("fails_at", range(1, ARMING + 1))
def test_disk_full_at_any_write_of_arming_leaves_no_boot_asked_for(fails_at):
    host = TrialHost(reader(), fails_at=fails_at)
    with pytest.raises(Refused, match="disk is full"):
        begin(host)
    assert not one_shot.is_asked_for(host)
    assert host.read(CUSTOM) is ABSENT
    if "armed" not in trial_guard.read_marks(host):
        assert is_old(host)
        assert nothing_left(host)


def test_armed_guard_holds_the_bytes_and_the_terms():
    host = TrialHost(reader())
    trial_guard.arm(
        host,
        RUN,
        FILES,
        within_s=754,
        has_one_shot=False,
        check=("/opt/my venv/hosttune", "trial"),
        come_back=("x",),
    )
    files = {path: value.content for path, value in host.written().items()}
    folder = trial_guard.FOLDER
    assert files[f"{folder}/001.old"] == OLD
    assert files[f"{folder}/001.new"] == NEW
    assert f"{folder}/002.old" not in files
    assert files[f"{folder}/set"] == b"001 644 0:0 /etc/fstab\n002 644 0:0 /etc/a.conf\n"
    assert files[f"{folder}/check"] == b"exec '/opt/my venv/hosttune' trial\n"
    assert b"OnActiveSec=754s\n" in files[f"{ADMIN}/hosttune-trial-deadline.timer"]
    assert f"{folder}/oneshot" not in files
    assert trial_guard.read_marks(host) == {"armed"}
    assert trial_guard.boot_of(host, "armed") == ARMED_IN
    assert host.writes[-1] == f"replace {folder}/armed"


def test_guard_that_does_not_run_here_is_not_armed():
    class Broken(TrialHost):
        def query(self, argv, *, timeout_s=10.0):
            del argv, timeout_s
            return Unreadable("sh: not found")

    host = Broken(reader())
    with pytest.raises(Refused, match="sh: not found"):
        trial_guard.arm(host, RUN, FILES, within_s=900, has_one_shot=False)
    assert nothing_left(host)


def test_marks_come_once_and_hold_the_boot():
    host = begun()
    content = host.read(f"{trial_guard.FOLDER}/settled")
    trial_guard.mark(host, "settled")
    assert host.read(f"{trial_guard.FOLDER}/settled") == content == f"{ARMED_IN}\n".encode()


def test_who_decides_first_wins():
    host = begun()
    trial_guard.mark(host, "ending")
    with pytest.raises(Refused, match="too late"):
        trial_guard.mark(host, "confirmed")
    trial_guard.mark(host, "ending")  # again is no harm
    assert "confirmed" not in trial_guard.read_marks(host)
    host = begun()
    trial_guard.mark(host, "confirmed")
    with pytest.raises(Refused, match="confirmed already"):
        trial_guard.mark(host, "ending")
    assert "ending" not in trial_guard.read_marks(host)


def test_script_that_was_cut_off_while_it_decided_has_decided():
    host = begun()
    host.replace(f"{trial_guard.FOLDER}/decided", FileValue(b""), expected=ABSENT)
    with pytest.raises(Refused, match="too late"):
        trial_guard.mark(host, "confirmed")
    trial_guard.mark(host, "ending")


@pytest.mark.parametrize("lacking", ["armed", "settled", "oneshot"])
def test_no_boot_is_asked_for_that_nobody_watches(lacking):
    host = TrialHost(reader())
    trial_guard.arm(host, RUN, FILES, within_s=900, has_one_shot=lacking != "oneshot")
    if lacking != "settled":
        trial_guard.mark(host, "settled")
    if lacking == "armed":
        host.remove(
            f"{trial_guard.FOLDER}/armed", expected=host.read(f"{trial_guard.FOLDER}/armed")
        )
    with pytest.raises(Refused, match="nothing would watch over it"):
        one_shot.arm_entry(host, ENTRY, RUN, ("iommu=pt",))
    assert host.read(CUSTOM) is ABSENT


def test_no_boot_is_asked_for_in_place_of_somebody_elses():
    host = TrialHost(reader({ENVIRONMENT: one_shot.with_next_entry(BLOCK, "theirs")}))
    with pytest.raises(Refused, match="'theirs'"):
        begin(host)
    assert one_shot._next_entry(host) == "theirs"


def test_odd_argument_is_refused():
    host = TrialHost(reader())
    trial_guard.arm(host, RUN, FILES, within_s=900, has_one_shot=True)
    trial_guard.mark(host, "settled")
    with pytest.raises(Refused, match="not a plain argument"):
        one_shot.arm_entry(host, ENTRY, RUN, ("a b;c",))


def test_block_keeps_all_else():
    block = b"# GRUB Environment Block\n# WARNING: keep\nsaved_entry=a#b\nnext_entry=\nrecordfail=1\n".ljust(
        1024, b"#"
    )
    with_it = one_shot.with_next_entry(block, "x")
    assert with_it.startswith(
        b"# GRUB Environment Block\n# WARNING: keep\nsaved_entry=a#b\nrecordfail=1\nnext_entry=x\n#"
    )
    assert len(with_it) == 1024
    assert one_shot.with_next_entry(with_it, "").rstrip(b"#") == with_it.rstrip(b"#").replace(
        b"next_entry=x\n", b""
    )
    full = b"# GRUB Environment Block\na=".ljust(1020, b"b") + b"\n###"
    with pytest.raises(Refused, match="no room"):
        one_shot.with_next_entry(full, "hosttune-trial")


def test_entry_that_grub_does_not_read_is_taken_away():
    class Strict(TrialHost):
        def query(self, argv, *, timeout_s=10.0):
            from hosttune.host.door import Completed

            if argv[0] == "grub-script-check":
                return Completed(1, b"", b"error: line 3")
            return super().query(argv, timeout_s=timeout_s)

    host = Strict(reader())
    with pytest.raises(Refused, match="line 3"):
        begin(host)
    assert host.read(CUSTOM) is ABSENT
    assert host.read(ENVIRONMENT) == BLOCK


# What is kept of a plan


def change(address: str, before, after) -> Change:
    action = (
        Action.CREATE if before is ABSENT else Action.DELETE if after is ABSENT else Action.UPDATE
    )
    return Change(Address.parse(address), action, before, after, "rule")


def test_kept_are_the_files_that_changes_write_by_their_own_places():
    base = reader(
        {"/etc/real.conf": "old\n", "/proc/sys/vm/swappiness": "60\n"},
        links={"/etc/link.conf": "real.conf"},
    )
    changes = (
        change("file:/etc/link.conf", FileValue(b"old\n"), FileValue(b"new\n")),
        change("file:/etc/x.conf", ABSENT, FileValue(b"x\n")),
        change("sysctl:vm.swappiness", "60", "1"),
    )
    assert trial_guard.kept_files(base, changes) == (
        KeptFile("/etc/real.conf", FileValue(b"old\n"), FileValue(b"new\n")),
        KeptFile("/etc/x.conf", ABSENT, FileValue(b"x\n")),
    )


def test_several_edits_of_one_file_are_one():
    fstab = "UUID=1 / ext4 defaults 0 1\nUUID=2 /data ext4 defaults 0 2\nUUID=3 /more ext4 defaults 0 2\n"
    changes = (
        change("fstab:/data", "defaults", "noatime"),
        change("fstab:/more", "defaults", "noatime"),
    )
    (kept,) = trial_guard.kept_files(reader({FSTAB: fstab}), changes)
    assert kept.path == FSTAB
    assert isinstance(kept.after, FileValue)
    assert kept.after.content.count(b"noatime") == 2


def test_change_that_cannot_be_made_is_no_trial():
    with pytest.raises(HosttuneError):
        trial_guard.kept_files(
            reader(), (change("file:/etc/fstab", FileValue(b"other\n"), FileValue(b"x\n")),)
        )


# Where a guard cannot be set up


def fit(files=None, **more) -> FakeReader:
    there = {
        "/proc/self/mountinfo": MOUNTS,
        "/proc/1/comm": "systemd",
        "/proc/sys/kernel/osrelease": "6.1.0",
    }
    spaces = more.pop("spaces", {"/etc": Space(1 << 30, 1 << 29, 1000, 900)})
    return reader(
        {**there, **(files or {})}, folders=["/run/systemd/system"], spaces=spaces, **more
    )


def reasons(base: FakeReader, files=FILES) -> tuple[str, ...]:
    from types import SimpleNamespace

    host = SimpleNamespace(is_container=False, is_wsl=False, has_systemd=True)
    return trial_guard.check_armable(base, SimpleNamespace(host=host), files)


def test_plain_host_can_be_guarded():
    assert reasons(fit()) == ()


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (fit(persistent_only=True), "files of an image"),
        (fit(is_privileged=False), "only root"),
        (fit({"/proc/self/mountinfo": MOUNTS.replace("ext4", "overlay")}), "(overlay) does not keep"),
        (fit({"/proc/self/mountinfo": MOUNTS.replace("rw,", "ro,")}), "read-only ext4"),
        (fit({"/proc/self/mountinfo": MOUNTS + "23 22 8:2 / /etc rw - ext4 /dev/sda2 rw\n"}), "is on /etc"),
        (fit({"/etc/hosttune/trial/armed": "x"}), "another run is on trial"),
        (fit({"/etc/systemd/system/hosttune-come-back.service": "theirs"}), "is not hosttune's"),
        (fit(links={"/etc/systemd/system/emergency.service": "/dev/null"}), "is masked"),
        (fit(spaces={"/etc": Space(1 << 30, 1 << 19, 1000, 900)}), "is full"),
        (fit(spaces={"/etc": Space(1 << 30, 1 << 29, 1000, 3)}), "no room for the files of a rollback"),
        (fit(spaces={"/etc": Space(1 << 30, 1 << 29, 0, 0)}), ""),  # btrfs counts no inodes
        (fit({"/proc/self/mountinfo": Unreadable("forbidden")}), "forbidden"),
    ],
)  # fmt: skip
def test_what_cannot_be_guarded_says_why(base, words):
    found = reasons(base)
    assert words in " ".join(found)
    assert bool(found) is bool(words)


def test_file_on_another_file_system_cannot_be_guarded():
    base = fit({"/proc/self/mountinfo": MOUNTS + "23 22 8:2 / /opt rw - ext4 /dev/sda2 rw\n"})
    found = reasons(base, (KeptFile("/opt/x", ABSENT, FileValue(b"")),))
    assert found == ("/opt/x is on /opt, which may not be mounted where a boot stops",)


def test_path_that_the_script_would_misread_cannot_be_guarded():
    assert "characters" in reasons(fit(), (KeptFile("/etc/a\\b", ABSENT, FileValue(b"")),))[0]


def test_container_cannot_be_guarded():
    from types import SimpleNamespace

    host = SimpleNamespace(is_container=True, is_wsl=False, has_systemd=True)
    assert "container" in trial_guard.check_armable(fit(), SimpleNamespace(host=host), FILES)[0]
