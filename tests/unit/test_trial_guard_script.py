"""The script that guards a boot on trial, under the shells that are here, in a folder that stands
for the root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time

import pytest

from hosttune.actions.trial import guard as trial_guard
from hosttune.actions.trial.guard import KeptFile
from hosttune.textfiles import template_text
from hosttune.values import ABSENT, FileValue
from tests.unit.fake_reader import FakeReader
from tests.unit.trial_host import (
    ARMED_IN,
    BLOCK,
    BOOT_ID,
    LAST_DEADLINE,
    SECOND,
    THIRD,
    TOOLS,
    TRIAL,
    WATCHERS,
    GuardedRoot,
    TrialHost,
)

RUN = "20261124T100000-1a2b"
FSTAB, NEW, GONE, DROPIN = (
    "/etc/fstab",
    "/etc/sysctl.d/60-hosttune-x.conf",
    "/etc/a file with blanks.conf",
    "/etc/systemd/system/a.service.d/60-hosttune-x.conf",
)
OLD_FSTAB, NEW_FSTAB = b"UUID=1 / ext4 defaults 0 1\n", b"UUID=1 / ext4 noatime 0 1\n"
NEWLY = b"vm.swappiness = 1\n"
FILES = (
    KeptFile(FSTAB, FileValue(OLD_FSTAB, 0o640), FileValue(NEW_FSTAB, 0o640)),
    KeptFile(NEW, ABSENT, FileValue(NEWLY)),
    KeptFile(GONE, FileValue(b"was here\n", 0o604), ABSENT),
    KeptFile(DROPIN, ABSENT, FileValue(b"[Service]\nNice=1\n")),
)


def armed(files=FILES, *, has_one_shot=False, settled=True, come_back=()) -> TrialHost:
    host = TrialHost(
        FakeReader(
            {BOOT_ID: ARMED_IN, "/etc/hosttune/policy.yaml": ""}, folders=["/etc/systemd/system"]
        )
    )
    owned = tuple(
        KeptFile(
            one.path,
            *(
                FileValue(value.content, value.mode, os.getuid(), os.getgid())
                if isinstance(value, FileValue)
                else value
                for value in (one.before, one.after)
            ),
        )
        for one in files
    )
    trial_guard.arm(
        host,
        RUN,
        owned,
        within_s=900,
        has_one_shot=has_one_shot,
        check=("true",),
        come_back=tuple(come_back),
    )
    if settled:
        trial_guard.mark(host, "settled")
    return host


@pytest.fixture(params=TOOLS)
def tools_of(request) -> str:
    return request.param


@pytest.fixture
def guarded(tmp_path, tools_of):
    def make(files=FILES, **options) -> GuardedRoot:
        root = GuardedRoot(tmp_path / "root", armed(files, **options), tools_of)
        for one in files:
            if isinstance(one.after, FileValue):
                root.write(one.path, one.after.content)
                (root.root / one.path[1:]).chmod(one.after.mode)
        return root

    return make


def is_old(root: GuardedRoot) -> bool:
    return (
        root.read(FSTAB) == OLD_FSTAB
        and root.read(NEW) is None
        and root.read(GONE) == b"was here\n"
        and root.read(DROPIN) is None
    )


def is_new(root: GuardedRoot) -> bool:
    return root.read(FSTAB) == NEW_FSTAB and root.read(NEW) == NEWLY and root.read(GONE) is None


def is_quiet(root: GuardedRoot) -> bool:
    """It did nothing at all."""
    return (
        is_new(root)
        and WATCHERS.issuperset(root.calls)
        and not {"returned", "failed", "partly", "put"} & root.marks()
    )


@pytest.mark.parametrize("mode", ["early", "emergency", "deadline"])
def test_in_the_boot_that_armed_it_nothing_is_done(guarded, mode):
    """A daemon-reload makes the units known at once, and who starts any service then pulls them
    in.
    """
    root = guarded(settled=False)
    assert root.boot(ARMED_IN, mode) == 0
    assert is_quiet(root)
    assert "trying" not in root.marks()


def test_first_boot_is_the_one_on_trial_and_is_called_so_once(guarded):
    root = guarded()
    assert root.boot(TRIAL, "early") == 0
    assert (root.folder / "trying").read_text() == f"{TRIAL}\n"
    assert root.boot(TRIAL, "early") == 0  # pulled in again
    assert is_quiet(root)


def test_second_boot_without_confirmation_comes_back_and_reboots_once(guarded):
    root = guarded()
    root.boot(TRIAL, "early")
    assert root.boot(SECOND, "early") == 0
    assert is_old(root)
    assert root.marks() == {"armed", "settled", "trying", "returned"}
    assert root.reboots == 1
    for mode in ("emergency", "deadline"):  # of the same boot, while it goes down
        assert root.boot(SECOND, mode) == 0
    for mode in ("early", "emergency", "deadline"):
        assert root.boot(THIRD, mode) == 0
    assert root.reboots == 1
    assert "a second boot without a confirmation" in root.said
    assert f"put back {FSTAB}" in root.said
    assert root.leftovers() == []


def test_what_is_put_back_has_its_mode_and_folders_made_for_it_go(guarded):
    root = guarded()
    root.boot(TRIAL, "emergency")
    assert (root.root / FSTAB[1:]).stat().st_mode & 0o777 == 0o640
    assert (root.root / GONE[1:]).stat().st_mode & 0o777 == 0o604
    assert not (root.root / DROPIN[1:]).parent.exists()
    assert (root.root / NEW[1:]).parent.is_dir()


def test_host_that_went_down_before_the_live_part_was_confirmed_comes_back(guarded):
    root = guarded(settled=False)
    root.boot(TRIAL, "early")
    assert is_old(root)
    assert root.reboots == 1
    assert "before the changes in force at once were confirmed" in root.said


def test_nothing_of_the_trial_was_made_yet_so_nothing_is_rebooted(guarded):
    """A power cut right after `armed`: the files are as before."""
    root = guarded(settled=False)
    for one in FILES:
        place = root.root / one.path[1:]
        if isinstance(one.before, FileValue):
            root.write(one.path, one.before.content)
        else:
            place.unlink()
    root.boot(TRIAL, "early")
    assert is_old(root)
    assert root.reboots == 0
    assert "returned" in root.marks()
    assert "nothing of the trial" in root.said


def test_emergency_mode_comes_back(guarded):
    root = guarded()
    root.boot(TRIAL, "early")
    assert root.boot(TRIAL, "emergency") == 0
    assert is_old(root)
    assert root.reboots == 1


def test_deadline_comes_back_and_says_it_on_terminals(guarded):
    root = guarded()
    root.stand_in("systemctl", '[ "$1" != is-active ]')
    root.boot(TRIAL, "early")
    root.boot(TRIAL, "deadline")
    assert is_old(root)
    assert root.reboots == 1
    assert "wall hosttune: nobody has confirmed in time" in root.calls


@pytest.mark.parametrize(("status", "by_script"), [(0, False), (2, True)])
def test_deadline_of_a_boot_that_is_through_leaves_it_to_the_whole_program(
    guarded, status, by_script
):
    root = guarded(come_back=("come-back-of-ours", "a b"))
    root.stand_in("come-back-of-ours", f"exit {status}")
    root.boot(TRIAL, "early")
    assert root.boot(TRIAL, "deadline") == 0
    assert "come-back-of-ours a b" in root.calls
    assert ("returned" in root.marks()) is by_script
    assert is_old(root) is by_script
    assert root.reboots == int(by_script)


def test_whole_program_that_gave_up_half_way_leaves_the_rest_to_the_script(guarded):
    """Its journal may lie on what the boot on trial has not mounted."""
    root = guarded(come_back=("come-back-of-ours",))
    marks = "".join(f"echo {TRIAL} > {root.folder}/{name}; " for name in ("failed", "returned"))
    root.stand_in("come-back-of-ours", f"{marks} rm -f {root.root}{NEW}; exit 2")
    root.boot(TRIAL, "early")
    root.boot(TRIAL, "deadline")
    assert is_old(root)
    assert root.reboots == 1
    assert "failed" not in root.marks()  # it came back in the end
    for boot in (TRIAL, SECOND):
        root.boot(boot, "deadline")
    assert root.reboots == 1


@pytest.mark.parametrize("says", ["failed returned", ""])
def test_whole_program_that_put_the_files_back_and_ended_before_its_reboot_is_rebooted_for(
    guarded, says
):
    """It failed at something else, or was killed: this boot still runs with what is on trial."""
    root = guarded(come_back=("come-back-of-ours",))
    kept = {one.path: one.before for one in FILES}
    undone = "".join(
        f"cat {root.folder}/{number:03}.old > '{root.root}{path}'; "
        if before is not ABSENT
        else f"rm -f {root.root}{path}; "
        for number, (path, before) in enumerate(kept.items(), 1)
    )
    marks = "".join(f"echo {TRIAL} > {root.folder}/{name}; " for name in says.split())
    root.stand_in(
        "come-back-of-ours", f"echo returned > {root.folder}/decided; {undone}{marks}exit 2"
    )
    root.boot(TRIAL, "early")
    root.boot(TRIAL, "deadline")
    assert is_old(root)
    assert root.reboots == 1
    assert "returned" in root.marks()
    root.boot(SECOND, "early")
    assert root.reboots == 1


def test_whole_program_that_is_stuck_in_the_kernel_is_left_behind(guarded):
    """timeout(1) waits for its child, also where that cannot be ended."""
    root = guarded(come_back=("come-back-of-ours",))
    clock = root.root / "proc/uptime"
    clock.unlink()
    clock.write_text("100.00 1.0\n")
    on = f'read -r up rest < {clock}; echo "$((${{up%%.*}} + $1)).00 1.0" > {clock}.$$; /bin/mv {clock}.$$ {clock}'
    root.stand_in("sleep", f"[ $1 != {LAST_DEADLINE} ] || exec {shutil.which('sleep')} $1; {on}")
    stuck = f"exec > /dev/null 2>&1; while [ ! -e {root.root}/over ]; do {shutil.which('sleep')} 0.1; done"
    root.stand_in("timeout", f'shift; case $1 in sh) {stuck} ;; *) exec "$@" ;; esac')
    root.boot(TRIAL, "early")
    try:
        root.boot(TRIAL, "deadline")
    finally:
        root.write("/over", b"")
    assert is_old(root)
    assert root.reboots == 1


@pytest.mark.parametrize("hangs", ["sha256sum", "wall", "cmp"])
def test_whatever_holds_the_script_up_the_last_deadline_reboots(guarded, hangs):
    """As a disk that does not answer, or a terminal that is blocked: the next boot goes on with the
    return.
    """
    root = guarded()
    root.boot(TRIAL, "early")
    wait = f"while [ ! -e {root.root}/over ]; do {shutil.which('sleep')} 0.05; done"
    root.stand_in("timeout", 'shift; exec "$@"')
    root.stand_in("sleep", f"[ $1 != {LAST_DEADLINE} ] || echo > {root.root}/last")
    root.stand_in(hangs, f"{wait}; exit 1")
    shell = subprocess.Popen(
        [str(root.root / "usr/bin/sh"), str(root.folder / "run"), "deadline"],
        cwd=root.root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await_reboot(root)
        assert shell.poll() is None
    finally:
        root.write("/over", b"")
        shell.wait(60)


def await_reboot(root: GuardedRoot) -> None:
    for _ in range(400):
        if root.reboots:
            return
        time.sleep(0.05)
    raise AssertionError(root.calls)


def run_hold(root: GuardedRoot, boot: str = TRIAL) -> None:
    """Start what opens sysrq-trigger early. From then on its name is not found, as where a user
    holds the lock of /proc.
    """
    due = f"{root.root}/due-$1"
    root.stand_in(
        "sleep",
        f"echo $$ > {root.root}/pid-$1; while [ ! -e {due} ]; do {shutil.which('sleep')} 0.02; done",
    )
    root.write(BOOT_ID, f"{boot}\n".encode())
    subprocess.run(
        [str(root.root / "usr/bin/sh"), str(root.folder / "run"), "hold", "900"], check=True, timeout=60,
        env={"PATH": str(root.root / "usr/bin")}, stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
    (root.root / "proc/sysrq-trigger").rename(root.root / "hidden")


def await_calls(root: GuardedRoot, *calls: str) -> None:
    for _ in range(200):
        if {*calls} <= {*root.calls} and (root.read("/pid-5000") or b"").strip():
            return
        time.sleep(0.05)
    raise AssertionError(root.calls)


def reset_of(root: GuardedRoot, *, is_due: bool) -> bytes:
    """What sysrq-trigger gets in the end, with no program and no name outside of the guard's
    folder.
    """
    (root.root / "usr/bin").rename(root.root / "usr/gone")
    waiting = int(root.read("/pid-5000") or 0)
    root.write("/due-4940", b"")
    for _ in range(
        200
    ):  # the look whether it is still on trial ends the other wait, or it does not
        if is_due or not waiting or not os.path.exists(f"/proc/{waiting}"):
            break
        time.sleep(0.05)
    root.write("/due-5000", b"")
    for _ in range(200 if is_due else 4):
        if content := root.read("/hidden"):
            return content
        time.sleep(0.05)
    return b""


def test_user_who_holds_the_lock_of_proc_before_the_deadline_does_not_stop_the_reset(guarded):
    root = guarded()
    root.boot(TRIAL, "early")
    run_hold(root)
    await_calls(root, "sleep 4940", "sleep 5000")
    assert reset_of(root, is_due=True) == b"b\n"


@pytest.mark.parametrize("end", ["confirmed", "disarmed", "failed", "other boot", "returned"])
def test_nothing_is_reset_once_the_trial_has_ended(guarded, end):
    root = guarded()
    if end != "other boot":
        root.boot(TRIAL, "early")
    if end == "returned":
        root.write(f"{trial_guard.FOLDER}/returned", f"{TRIAL}\n".encode())
    run_hold(root)
    if end in {"confirmed", "disarmed", "failed"}:
        await_calls(root, "sleep 4940", "sleep 5000")
    if end == "confirmed":
        root.write(f"{trial_guard.FOLDER}/decided", b"confirmed\n")
    elif end == "disarmed":
        shutil.rmtree(root.folder)
    elif end == "failed":
        root.write(f"{trial_guard.FOLDER}/failed", b"")
    assert reset_of(root, is_due=False) == b""


def test_guard_that_reboots_nothing_any_more_lets_the_reset_go(guarded):
    root = guarded()
    root.boot(TRIAL, "early")
    read_only(root)
    script = root.folder / "run"  # this root is not read-only, as the test for it would find
    script.write_text(script.read_text().replace('[ -w "$T" ]', "false"))
    root.boot(TRIAL, "deadline")
    assert root.reboots == 0
    assert "systemctl --no-block stop hosttune-trial-reset.service" in root.calls


def test_deadline_before_the_boot_is_through_asks_no_other_program(guarded):
    root = guarded(come_back=("come-back-of-ours",))
    root.stand_in("come-back-of-ours")
    root.stand_in("systemctl", '[ "$1" != is-active ]')
    root.boot(TRIAL, "early")
    root.boot(TRIAL, "deadline")
    assert is_old(root)
    assert "come-back-of-ours" not in "".join(root.calls)


def on_entry(root: GuardedRoot, word: str) -> None:
    root.write(
        "/proc/cmdline", f"BOOT_IMAGE=/vmlinuz root=/dev/vda1 iommu=pt panic=30 {word}".encode()
    )


def test_entry_for_one_boot_is_the_boot_on_trial(guarded):
    root = guarded(has_one_shot=True)
    on_entry(root, f"hosttune.trial={RUN}\n")
    root.boot(TRIAL, "early")
    assert is_quiet(root)
    assert "trying" in root.marks()


@pytest.mark.parametrize("word", ["", "hosttune.trial=unwritable", f"hosttune.trial={RUN}0"])
def test_boot_of_another_entry_is_no_trial_and_comes_back(guarded, word):
    root = guarded(has_one_shot=True)
    on_entry(root, f"{word}\n")
    root.boot(TRIAL, "early")
    assert is_old(root)
    assert "trying" not in root.marks()
    assert root.reboots == 1  # the new fstab was read already


@pytest.mark.parametrize("word", ["", "hosttune.trial=unwritable"])
def test_where_only_arguments_were_on_trial_the_default_boot_is_the_return(guarded, word):
    root = guarded((), has_one_shot=True)
    on_entry(root, f"{word}\n")
    root.boot(TRIAL, "early")
    assert "returned" in root.marks()
    assert root.reboots == 0


def test_where_only_arguments_were_on_trial_the_deadline_reboots_out_of_them(guarded):
    root = guarded((), has_one_shot=True)
    on_entry(root, f"hosttune.trial={RUN}")
    root.boot(TRIAL, "early")
    root.boot(TRIAL, "deadline")
    assert "returned" in root.marks()
    assert root.reboots == 1


def test_what_somebody_changed_meanwhile_is_left_and_said(guarded):
    root = guarded()
    root.write(FSTAB, b"of somebody\n")
    root.write(GONE, b"made anew\n")
    root.boot(TRIAL, "emergency")
    assert root.read(FSTAB) == b"of somebody\n"
    assert root.read(GONE) == b"made anew\n"
    assert root.read(NEW) is None
    assert {"partly", "returned"} <= root.marks()
    assert f"{FSTAB} was changed in the meantime" in root.said
    assert root.reboots == 1


def test_link_in_place_of_a_file_is_somebody_elses(guarded):
    root = guarded()
    (root.root / FSTAB[1:]).rename(root.root / "etc/fstab.moved")
    (root.root / FSTAB[1:]).symlink_to("fstab.moved")
    root.boot(TRIAL, "emergency")
    assert (root.root / FSTAB[1:]).is_symlink()
    assert root.read("/etc/fstab.moved") == NEW_FSTAB
    assert "partly" in root.marks()


def test_where_everything_was_changed_by_others_nothing_is_rebooted(guarded):
    root = guarded(FILES[:1])
    root.write(FSTAB, b"of somebody\n")
    root.boot(TRIAL, "emergency")
    assert root.reboots == 0
    assert {"partly", "returned"} <= root.marks()


@pytest.mark.parametrize("damage", ["001.old", "003.old", "set", "sums", "armed"])
def test_of_damaged_bytes_nothing_is_put_back(guarded, damage):
    root = guarded()
    place = root.folder / damage
    place.write_bytes(place.read_bytes()[: len(place.read_bytes()) // 2])
    root.boot(TRIAL, "emergency")
    assert is_new(root)
    assert root.reboots == 0
    assert "returned" not in root.marks()
    assert "damaged" in root.said


@pytest.mark.parametrize("lost", ["001.old", "002.new", "set", "sums"])
def test_of_lost_bytes_nothing_is_put_back(guarded, lost):
    root = guarded()
    (root.folder / lost).unlink()
    root.boot(TRIAL, "emergency")
    assert is_new(root)
    assert root.reboots == 0
    assert "damaged" in root.said


def read_only(root: GuardedRoot) -> None:
    """Where a folder has the name of a file that is to be written, writing fails, for root too."""
    (root.folder / "probe").mkdir()


def test_root_that_is_read_only_is_remounted_without_its_line_in_fstab(guarded):
    root = guarded()
    read_only(root)
    root.stand_in("mount", f'[ "$1" = --options-source=disable ] && rmdir {root.folder}/probe')
    root.boot(TRIAL, "early")
    assert is_old(root)
    assert root.reboots == 1
    assert f"mount --options-source=disable -o remount,rw {root.root}/" in root.calls


def test_on_a_full_disk_what_was_kept_free_is_used_for_the_return(guarded):
    root = guarded()
    root.boot(TRIAL, "early")
    assert (root.folder / "room").stat().st_size > 256 << 10
    read_only(root)  # as where there is no room for the probe
    root.stand_in(
        "rm",
        f'case "$*" in */room) rmdir {root.folder}/probe ;; esac; exec {root.whole("rm")} "$@"',
    )
    root.boot(TRIAL, "deadline")
    assert is_old(root)
    assert root.reboots == 1
    assert not any(call.startswith("mount") for call in root.calls)


def test_why_it_comes_back_is_told_where_the_log_could_not_be_written_at_first(guarded):
    """The reason is the first line that it has said."""
    root = guarded()
    read_only(root)
    log = root.root / trial_guard.LOG[1:]
    log.unlink()
    log.mkdir()
    root.stand_in("mount", f"rmdir {root.folder}/probe {log}")
    root.boot(TRIAL, "early")
    assert is_old(root)
    assert root.said.splitlines()[0] == "the root file system is read-only in the boot on trial"


def test_mount_that_knows_no_such_option_is_asked_again(guarded):
    root = guarded()
    read_only(root)
    root.stand_in("mount", f'[ "$1" = -o ] && rmdir {root.folder}/probe')
    root.boot(TRIAL, "emergency")
    assert is_old(root)


def test_root_that_stays_read_only_is_left_and_not_rebooted(guarded):
    root = guarded()
    read_only(root)
    root.stand_in("mount", "exit 32")
    for mode in ("early", "emergency", "deadline"):
        assert root.boot(TRIAL, mode) == 0
    assert is_new(root)
    assert root.reboots == 0
    assert "returned" not in root.marks()
    assert "cannot be written to" in root.said
    assert b"cannot be written to" in (root.read("/dev/console") or b"")
    assert b"<4>hosttune: " in (root.read("/dev/kmsg") or b"")


def test_disk_that_is_full_is_told_and_the_next_boot_with_room_takes_it_back(guarded):
    """A full disk takes an empty file, but no byte: what is marked there would be read as a return
    that failed.
    """
    root = guarded()
    root.boot(TRIAL, "early")
    read_only(root)
    root.stand_in("mount", "exit 32")
    root.boot(TRIAL, "deadline")
    assert "rollback failed: the root file system cannot be written to" in root.said
    assert root.marks() == {"armed", "settled", "trying"}
    (root.folder / "probe").rmdir()
    root.boot(SECOND, "early")
    assert is_old(root)
    assert root.reboots == 1


STOPS_RESET = "systemctl --no-block stop hosttune-trial-reset.service"


@pytest.mark.parametrize("fails", ["probe", "mv"])
def test_user_who_takes_all_that_becomes_free_only_delays_the_return_to_the_next_boot(
    guarded, fails
):
    """At the deadline no file can be made, though there may be room again a moment later. The reset
    stays due, and the next boot has what was kept for it.
    """
    root = guarded(FILES[:1])
    root.boot(TRIAL, "early")
    kept = {one.name for one in root.folder.glob("room*")}
    assert kept == {"room", *(f"room.{number}" for number in range(13))}
    assert (root.folder / "room.0").stat().st_size == (root.folder / "room").stat().st_size
    real = (root.root / "usr/bin/mv").readlink()
    if fails == "probe":
        read_only(root)
        root.stand_in("mount", "exit 32")
    else:
        root.stand_in("mv", "exit 1")
    root.boot(TRIAL, "deadline")
    assert "the host is reset after the last deadline" in root.said
    assert root.read(FSTAB) == NEW_FSTAB
    assert root.reboots == 0
    assert STOPS_RESET not in root.calls
    assert "failed" not in root.marks()
    assert {one.name for one in root.folder.glob("room*")} == kept - {"room"}
    (root.root / "usr/bin/mv").unlink(missing_ok=True)
    (root.root / "usr/bin/mv").symlink_to(real)
    if fails == "probe":
        (root.folder / "probe").rmdir()
    root.boot(SECOND, "early")
    assert root.read(FSTAB) == OLD_FSTAB
    assert root.reboots == 1
    assert not list(root.folder.glob("room*"))


@pytest.mark.parametrize("tool", ["mv", "sync", "cmp", "cp", "cat"])
def test_what_cannot_be_put_back_is_said_and_nothing_is_rebooted(guarded, tool):
    root = guarded(FILES[:1])
    root.stand_in(tool, "exit 1")
    root.boot(TRIAL, "emergency")
    assert root.read(FSTAB) == NEW_FSTAB
    assert root.reboots == 0
    assert "returned" not in root.marks() or tool == "cmp"
    assert root.leftovers() == []


def test_return_that_failed_for_want_of_room_comes_about_at_the_next_boot(guarded):
    root = guarded(FILES[:1])
    real = (root.root / "usr/bin/mv").readlink()
    root.stand_in("mv", "exit 1")
    root.boot(TRIAL, "emergency")
    assert "failed" in root.marks()
    (root.root / "usr/bin/mv").unlink()
    (root.root / "usr/bin/mv").symlink_to(real)
    root.boot(SECOND, "early")
    assert root.read(FSTAB) == OLD_FSTAB
    assert root.reboots == 1
    assert {"failed", "returned"} & root.marks() == {"returned"}


def test_return_that_cannot_be_recorded_does_not_reboot(guarded):
    root = guarded(FILES[:1])
    root.stand_in(
        "sync", f'case "$*" in */returned*) exit 1 ;; esac; exec {root.whole("sync")} "$@"'
    )
    root.boot(TRIAL, "emergency")
    assert root.read(FSTAB) == OLD_FSTAB
    assert root.reboots == 0


@pytest.mark.parametrize(
    ("word", "mode"),
    [(word, "early") for word in (
        "rescue", "emergency", "single", "recovery", "1", "S", "-b", "systemd.unit=rescue.target",
        "systemd.unit=emergency.target", "hosttune.trial=off",
    )] + [("rescue", "emergency"), ("rescue", "deadline")],
)  # fmt: skip
def test_boot_that_somebody_sits_before_is_left_alone(guarded, word, mode):
    root = guarded()
    root.write("/proc/cmdline", f"BOOT_IMAGE=/vmlinuz ro {word}\n".encode())
    root.boot(TRIAL, mode)
    assert is_quiet(root)
    assert "trying" not in root.marks()


def test_crash_kernel_is_left_alone(guarded):
    root = guarded(has_one_shot=True)
    root.write("/proc/vmcore", b"")
    root.boot(TRIAL, "early")
    assert is_quiet(root)


@pytest.mark.parametrize("mode", ["early", "emergency", "deadline"])
def test_confirmed_run_is_left_alone_whatever_is_left_of_the_guard(guarded, mode):
    root = guarded()
    root.boot(TRIAL, "early")
    (root.folder / "decided").write_text("confirmed\n")
    root.boot(SECOND, mode)
    assert is_quiet(root)


def test_confirmation_in_the_last_second_wins_or_comes_too_late(guarded):
    """It comes while the deadline has begun to act, right before the guard decides; and right
    after.
    """
    root = guarded()
    root.boot(TRIAL, "early")
    root.stand_in(
        "sha256sum", f'echo confirmed > {root.folder}/decided; exec {root.whole("sha256sum")} "$@"'
    )
    root.boot(TRIAL, "deadline")
    assert is_new(root)
    assert root.reboots == 0
    assert not {"returned", "failed"} & root.marks()
    for mode in ("early", "emergency"):
        root.boot(SECOND, mode)
    assert is_new(root)


@pytest.mark.parametrize("content", ["returned\n", ""])
def test_return_that_was_decided_and_cut_off_is_finished(guarded, content):
    root = guarded()
    root.boot(TRIAL, "early")
    (root.folder / "decided").write_text(content)
    root.boot(SECOND, "early")
    assert is_old(root)


@pytest.mark.parametrize("mode", ["early", "emergency", "deadline"])
def test_guard_that_was_not_armed_to_its_end_does_nothing(guarded, mode):
    root = guarded()
    (root.folder / "armed").unlink()
    root.boot(TRIAL, mode)
    assert is_quiet(root)


@pytest.mark.parametrize(
    ("tool", "at"),
    [
        (tool, at)
        for tool, calls in (("mv", 2), ("rm", 3), ("sync", 11))
        for at in range(1, calls + 1)
    ],
)
def test_return_that_is_cut_off_is_finished_by_the_next_boot_with_one_reboot(guarded, tool, at):
    root = guarded()
    root.boot(TRIAL, "early")
    real = (root.root / "usr/bin" / tool).readlink()
    whole = root.whole(tool)
    count = root.root / "count"
    cut = f'echo x >> {count}; n=$(wc -l < {count}); [ $n -ne {at} ] || {{ {whole} "$@"; kill -9 $PPID; exit 1; }}'
    root.stand_in(tool, f'PATH=/usr/bin:/bin; {cut}; exec {whole} "$@"')
    root.boot(SECOND, "early")
    assert root.reboots == 0
    (root.root / "usr/bin" / tool).unlink()
    (root.root / "usr/bin" / tool).symlink_to(real)
    root.boot(THIRD, "early")
    root.boot(THIRD, "early")
    assert is_old(root)
    assert "returned" in root.marks()
    assert root.reboots <= 1
    assert [name for name in root.leftovers() if "ea17" not in name] == []


def test_two_guards_at_once_reboot_once(guarded):
    """The deadline comes while emergency mode is being left: who is second finds the turn taken."""
    root = guarded()
    root.boot(TRIAL, "early")
    second = (
        f"[ -e {root.root}/once ] || {{ echo > {root.root}/once; sh {root.folder}/run deadline; }}"
    )
    root.stand_in("mv", f'{second}\nexec {root.whole("mv")} "$@"')
    root.boot(TRIAL, "emergency")
    assert is_old(root)
    assert root.reboots == 1


def test_reboot_that_hangs_is_followed_by_harder_ones(guarded):
    root = guarded()
    root.boot(TRIAL, "emergency")
    trigger = root.root / "proc/sysrq-trigger"
    for _ in range(200):
        if trigger.read_bytes():
            break
        time.sleep(0.05)
    assert trigger.read_bytes() == b"b\n"
    assert "systemctl reboot -f" in root.calls
    assert [call for call in root.calls if call in {"sleep 300", "sleep 60"}] == [
        "sleep 300",
        "sleep 60",
    ]


def test_each_reboot_is_one_of_the_machine(guarded):
    """Not of a kernel that somebody has loaded by kexec, and not into /run/nextroot."""
    root = guarded()
    root.stand_in(
        "systemctl",
        f'echo "$SYSTEMCTL_SKIP_AUTO_KEXEC$SYSTEMCTL_SKIP_AUTO_SOFT_REBOOT" >> {root.root}/whole',
    )
    root.boot(TRIAL, "emergency")
    for _ in range(200):
        if "systemctl reboot -f" in root.calls and root.read("/whole") == b"11\n11\n":
            break
        time.sleep(0.05)
    assert root.read("/whole") == b"11\n11\n"


def test_late_unit_looks_at_the_boot_on_trial_alone(guarded):
    root = guarded()
    assert root.boot(ARMED_IN, "late") != 0
    root.boot(TRIAL, "early")
    assert root.boot(TRIAL, "late") == 0
    assert root.boot(SECOND, "late") != 0


def test_late_unit_has_the_journal_told_of_what_came_back(guarded):
    root = guarded()
    root.boot(TRIAL, "early")
    root.boot(TRIAL, "deadline")
    assert "returned" in root.marks()
    assert root.boot(SECOND, "late") == 0


def test_late_unit_of_another_boot_clears_what_grub_could_not(guarded):
    root = guarded((), has_one_shot=True)
    on_entry(root, "hosttune.trial=unwritable\n")
    root.stand_in("grub-editenv", '[ "$2" != list ] || echo next_entry=hosttune-trial')
    root.write("/boot/grub/grubenv", BLOCK)
    root.write(
        "/boot/grub/custom.cfg", f"# Written by hosttune for the trial of run {RUN}\n".encode()
    )
    root.boot(TRIAL, "early")
    assert root.boot(TRIAL, "late") == 0
    assert f"grub-editenv {root.root}/boot/grub/grubenv unset next_entry" in root.calls
    assert root.read("/boot/grub/custom.cfg") is None


def test_what_asks_for_the_entry_is_cleared_by_the_first_boot_of_another(guarded):
    """Before anything else: the next boot would be on trial, and nobody would watch over it."""
    root = guarded(has_one_shot=True)
    root.stand_in("grub-editenv", '[ "$2" != list ] || echo next_entry=hosttune-trial')
    root.write(
        "/boot/grub/custom.cfg", f"# Written by hosttune for the trial of run {RUN}\n".encode()
    )
    root.boot(TRIAL, "early")
    assert is_old(root)
    calls = root.calls
    assert calls.index(
        f"grub-editenv {root.root}/boot/grub/grubenv unset next_entry"
    ) < calls.index("systemctl reboot")


def test_late_unit_leaves_the_entries_of_others(guarded):
    root = guarded((), has_one_shot=True)
    root.stand_in("grub-editenv", '[ "$2" != list ] || echo next_entry=of-somebody')
    root.write("/boot/grub/custom.cfg", b"menuentry mine {\n}\n")
    root.boot(TRIAL, "early")
    root.boot(TRIAL, "late")
    assert "unset" not in "".join(root.calls)
    assert root.read("/boot/grub/custom.cfg") is not None


def test_script_that_was_cut_short_does_nothing(guarded):
    root = guarded(settled=False)
    script = root.folder / "run"
    rows = script.read_text().splitlines(keepends=True)
    for count in range(0, len(rows), 7):
        script.write_text("".join(rows[:count]))
        root.boot(TRIAL, "emergency")
        assert is_quiet(root), count


def test_guard_says_what_it_lacks_before_it_is_armed(guarded):
    root = guarded()
    assert root.boot(ARMED_IN, "check") == 0
    root.stand_in("find", "exit 1")  # one that knows no -lname
    assert root.boot(ARMED_IN, "check") != 0
    root.stand_in("find", "exit 0")
    assert root.boot(ARMED_IN, "check") == 0
    (root.root / "usr/bin/cmp").unlink()
    assert root.boot(ARMED_IN, "check") != 0


def test_every_path_of_the_script_lies_below_its_root():
    """So a test can replace all of them by one line, and reaches no real reboot."""
    text = template_text("come-back.sh") or ""
    code = "\n".join(row for row in text.splitlines()[1:] if not row.lstrip().startswith("#"))
    assert code.count("R=\n") == 1
    bare = re.findall(
        r'(?<![\w$}*"/])/(?:dev|proc|etc|boot|run|sys|usr|bin|sbin|var)\b[^\s;"]*', code
    )
    assert set(bare) <= {"/dev/null", "/dev/null)", "/dev/nvidia", "/dev/kfd"}


@pytest.mark.parametrize(
    "shell", [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
)
def test_other_shells_read_it(shell, tmp_path):
    (tmp_path / "run").write_text(template_text("come-back.sh") or "")
    words = [shell, "sh"] if shell == "busybox" else [shell]
    subprocess.run([*words, "-n", str(tmp_path / "run")], check=True, timeout=20)
