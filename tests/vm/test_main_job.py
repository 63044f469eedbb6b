"""The main job on a real machine: check, plan, apply, a second run, reboot, undo, reboot, kill -9.

One story in the order in which it stands, on one guest; each step starts from what the step before
it left.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.vm import image
from tests.vm.guest import Guest
from tests.vm.operator import (
    POLICY,
    RUNS,
    addresses,
    etc_digest,
    fstab,
    hosttune,
    judged,
    plan,
    runs,
)

pytestmark = pytest.mark.vm

# The guest has 2 GiB: what pays only on big machines is told that this is one.
SWAP_POLICY = b"params:\n  memory-swappiness: {min_ram_bytes: 1073741824}\n"
TMP_POLICY = SWAP_POLICY + (
    b"  storage-tmp-tmpfs: {where: anywhere, min_ram_bytes: 1073741824, min_bytes: 1073741824, max_ram_share: 0.75, used_share: 0.5}\n"
)

TUNED_LINE = image.DATA_LINE.replace("defaults", "defaults,noatime")
TUNED_FSTAB = image.FSTAB.replace(image.DATA_LINE, TUNED_LINE)
MAPS, SWAPPINESS = "vm.max_map_count", "vm.swappiness"
OLD_SYSCTLS = {MAPS: 65530, SWAPPINESS: 60}
NEW_SYSCTLS = {MAPS: 1048576, SWAPPINESS: 10}
SYSCTL_FILES = {"30-site.conf", "99-sysctl.conf", "README.sysctl"}
OWN_FILES = {
    f"60-hosttune-{rule}.conf"
    for rule in ("limits-nofile", "memory-max-map-count", "memory-swappiness")
}
# hosttune whose Nth fsync ends it. Not by strace, which stops each of its system calls: minutes on
# emulated processors.
DYING = """\
import os, signal, sys
sys.argv[0], left, fsync = "hosttune", int(sys.argv.pop(1)), os.fsync
def dying(file):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(file)
os.fsync = dying
from hosttune.cli.app import main
main()
"""
# What a machine writes by itself while nobody asks it to.
RESTLESS = ("/var/log/", "/var/lib/systemd/", "/var/tmp/systemd-private-")


def sysctls(guest: Guest) -> dict[str, int]:
    names = list(OLD_SYSCTLS)
    return dict(
        zip(names, map(int, guest.run(["sysctl", "-n", *names]).stdout.split()), strict=True)
    )


def sysctl_files(guest: Guest) -> set[str]:
    return set(guest.run(["ls", "/etc/sysctl.d"]).stdout.split())


def data_options(guest: Guest) -> str:
    return guest.run(["findmnt", "-n", "-o", "OPTIONS", "/data"]).stdout.strip()


def tmp_mount(guest: Guest) -> list[str]:
    """File system and size in bytes of what /tmp lies on."""
    return guest.run(
        ["findmnt", "-n", "-b", "-o", "FSTYPE,SIZE", "--target", "/tmp"]
    ).stdout.split()


def kernel_state(guest: Guest) -> str:
    # Not `sysctl -a`, which reads a thousand others before it shows these.
    return guest.ask(["sh", "-c", "grep -s . /proc/sys/vm/*; cat /proc/1/mountinfo"])


def changed_files(guest: Guest) -> list[str]:
    """Everything on the disks that was written, replaced or given another mode or owner since the
    mark.
    """
    found = guest.ask(["find", "/", "/data", "-xdev", "-cnewer", "/run/mark"]).splitlines()
    return [path for path in found if not f"{path}/".startswith(RESTLESS)]


@contextlib.contextmanager
def nothing_written(guest: Guest) -> Iterator[None]:
    """No file, no mode, no time stamp on any disk, no sysctl and no mount differs afterwards."""
    state = kernel_state(guest)
    guest.ask(["touch", "/run/mark"])
    yield
    assert changed_files(guest) == []
    assert kernel_state(guest) == state


@pytest.fixture(scope="module")
def before(guest: Guest) -> str:
    """The digest of /etc before hosttune ever ran."""
    return etc_digest(guest)


@pytest.fixture(scope="module")
def planned() -> dict[str, Any]:
    """What one test planned and the next applies."""
    return {}


def test_hosttune_installed_as_a_user_is_a_command(guest: Guest, before: str) -> None:
    rc, text = hosttune(guest, "--version")
    assert (rc, text.split()[0]) == (0, "hosttune")


def test_check_untuned_machine_exits_1_and_names_the_rules(guest: Guest) -> None:
    with nothing_written(guest):
        rc, text = hosttune(guest, "check")
        again, verdicts = judged(guest)
    assert rc == again == 1
    assert "storage-noatime" in text
    differing = {rule for rule, words in verdicts.items() if "differs" in words}
    assert differing == {"storage-noatime", "memory-max-map-count", "limits-nofile"}
    assert verdicts["memory-swappiness"] == verdicts["storage-tmp-tmpfs"] == {"not applicable"}
    assert verdicts["storage-fstrim"] == {"ok"}
    assert not any("unknown" in words for words in verdicts.values())


def test_check_without_root_names_the_sudo_line(guest: Guest) -> None:
    with nothing_written(guest):
        rc, stdout, stderr = guest.run(["runuser", "-u", "nobody", "--", "hosttune", "check"])
    assert rc == 1
    assert "sudo" in stdout + stderr
    assert "Traceback" not in stderr


def test_plan_shows_the_diff_and_writes_nothing(guest: Guest, planned: dict[str, Any]) -> None:
    guest.write(POLICY, SWAP_POLICY)
    with nothing_written(guest):
        rc, text = hosttune(guest, "plan")
        planned |= plan(guest)
    assert rc == 1
    assert f"- {image.DATA_LINE}".split() in [line.split() for line in text.splitlines()]
    assert f"+ {TUNED_LINE}".split() in [line.split() for line in text.splitlines()]
    assert re.search(r"vm\.max_map_count.*65530.*1048576", text)
    assert f"sysctl:{SWAPPINESS}" in addresses(planned)


def test_apply_without_yes_or_with_another_digest_changes_nothing(guest: Guest) -> None:
    other = ("apply", "--yes", "--expect", "0" * 64)
    assert hosttune(guest, *other)[0] == 2  # makes the lock in /run, once in a boot
    with nothing_written(guest):
        assert hosttune(guest, "apply")[0] == 1
        assert hosttune(guest, *other)[0] == 2


def test_apply_yes_does_what_the_plan_showed(guest: Guest, planned: dict[str, Any]) -> None:
    rc, text = hosttune(guest, "apply", "--yes", "--expect", planned["digest"])
    assert rc == 0, text
    assert data_options(guest) == "rw,noatime"
    assert sysctls(guest) == NEW_SYSCTLS
    assert fstab(guest) == TUNED_FSTAB
    assert sysctl_files(guest) == SYSCTL_FILES | OWN_FILES
    assert guest.run(["systemctl", "show", "-P", "NeedDaemonReload", "data.mount"]).stdout == "no\n"
    assert guest.run(["findmnt", "--verify"]).rc == 0


def test_apply_yes_again_touches_nothing(guest: Guest) -> None:
    with nothing_written(guest):
        assert hosttune(guest, "apply", "--yes")[0] == 0
        rc, text = hosttune(guest, "plan")
        assert plan(guest)["stages"] == []
    assert rc == 0, text


def test_apply_yes_with_tmp_in_the_policy_adds_one_line_for_the_next_boot(guest: Guest) -> None:
    guest.write(POLICY, TMP_POLICY)
    state = kernel_state(guest)
    rc, text = hosttune(guest, "apply", "--yes")
    assert rc in {0, 1}, text  # 1: it is done, and waits for the reboot
    assert "reboot" in text
    kept, added = fstab(guest)[: len(TUNED_FSTAB)], fstab(guest)[len(TUNED_FSTAB) :]
    assert kept == TUNED_FSTAB
    assert re.fullmatch(
        r"\ntmpfs /tmp tmpfs mode=1777,nosuid,nodev,size=\d+[kmgKMG]?,\S+ 0 0\n?", added
    ), added
    assert {"nofail", "x-systemd.before=local-fs.target"} <= set(added.split()[3].split(","))
    assert kernel_state(guest) == state, "a used /tmp was covered, or something else changed live"


def test_reboot_keeps_everything_that_was_applied(guest: Guest) -> None:
    was = guest.boot_id
    assert guest.reboot() != was
    assert data_options(guest) == "rw,noatime"
    assert sysctls(guest) == NEW_SYSCTLS
    fstype, size = tmp_mount(guest)
    (written,) = re.findall(r"^tmpfs /tmp .*?size=(\d+[kmgKMG]?)", fstab(guest), re.MULTILINE)
    assert (fstype, int(size)) == ("tmpfs", in_bytes(written))
    assert guest.run(["stat", "-c", "%a", "/tmp"]).stdout == "1777\n"
    assert guest.run(["systemctl", "is-system-running"]).stdout == "running\n"


def test_check_and_apply_after_the_reboot_are_clean(guest: Guest) -> None:
    assert hosttune(guest, "apply", "--yes")[0] == 0  # makes the lock in /run, once in a boot
    with nothing_written(guest):
        rc, verdicts = judged(guest)
        assert hosttune(guest, "apply", "--yes")[0] == 0
    assert rc == 0, verdicts
    for rule in (
        "storage-noatime",
        "memory-max-map-count",
        "memory-swappiness",
        "storage-tmp-tmpfs",
    ):
        assert verdicts[rule] == {"ok"}, rule


def test_undo_without_yes_changes_nothing(guest: Guest) -> None:
    with nothing_written(guest):
        assert hosttune(guest, "history")[0] == 0
        rc, text = hosttune(guest, "undo")
    assert rc in {0, 1}
    assert "/tmp" in text


def test_undo_yes_of_both_runs_gives_back_the_old_bytes_and_values(
    guest: Guest, before: str
) -> None:
    first, second = runs(guest)
    rc, text = hosttune(guest, "undo", second, "--yes")
    assert rc in {0, 1}, text  # 1: it is done, and /tmp waits for the reboot
    assert fstab(guest) == TUNED_FSTAB
    rc, text = hosttune(guest, "undo", first, "--yes")
    assert rc == 0, text
    assert_untouched(guest, before)


def test_reboot_after_undo_is_the_machine_of_before(guest: Guest, before: str) -> None:
    was = guest.boot_id
    assert guest.reboot() != was
    assert_untouched(guest, before)
    assert tmp_mount(guest)[0] == "ext4"
    rc, verdicts = judged(guest)
    assert rc == 1
    assert "differs" in verdicts["storage-noatime"]


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_apply_killed_then_undo_gives_back_the_old_bytes(
    guest: Guest, before: str, share: float
) -> None:
    kill_an_apply(guest, share)
    _, text = hosttune(guest, "check")
    assert "interrupted" in text
    rc, text = hosttune(guest, "undo", "--yes")
    assert rc == 0, text
    assert_untouched(guest, before)
    assert "interrupted" not in hosttune(guest, "check")[1]


def test_apply_killed_then_apply_finishes_and_undo_takes_all_back(
    guest: Guest, before: str
) -> None:
    known = runs(guest)
    kill_an_apply(guest, 0.5)
    rc, text = hosttune(guest, "apply", "--yes")
    assert rc in {0, 1}, text
    assert data_options(guest) == "rw,noatime"
    assert sysctls(guest) == NEW_SYSCTLS
    assert fstab(guest).startswith(TUNED_FSTAB)
    assert plan(guest)["stages"] == []
    for run in reversed([run for run in runs(guest) if run not in known]):
        hosttune(guest, "undo", run, "--yes")
    assert_untouched(guest, before)


def kill_an_apply(guest: Guest, share: float) -> None:
    """Start `apply --yes`, which dies by signal 9 where it would enter one of its fsync calls.

    Every journal line is one fsync at least, so a share of their number is a point inside the run.
    """
    known = runs(guest)
    lines = max(guest.read(f"{RUNS}/{run}.jsonl").count(b"\n") for run in known)
    at = str(max(2, int(lines * share)))
    rc, _, _ = guest.run([f"{image.VENV}/bin/python", "-c", DYING, at, "apply", "--yes"])
    assert rc == 137
    (killed,) = (run for run in runs(guest) if run not in known)
    journal = guest.run(["cat", f"{RUNS}/{killed}.jsonl"]).stdout
    assert "intent" in journal
    assert "finished" not in journal


def assert_untouched(guest: Guest, before: str) -> None:
    assert fstab(guest) == image.FSTAB
    assert sysctl_files(guest) == SYSCTL_FILES
    assert etc_digest(guest) == before
    assert data_options(guest) == "rw,relatime"
    assert sysctls(guest) == OLD_SYSCTLS


def in_bytes(size: str) -> int:
    shift = {"k": 10, "m": 20, "g": 30}.get(size[-1].lower(), 0)
    return int(size[:-1] if shift else size) << shift
