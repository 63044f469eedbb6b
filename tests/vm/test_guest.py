"""The guest itself, without hosttune: what the other tests of the ring stand on."""

import pytest

from tests.vm import image
from tests.vm.guest import Guest, GuestError

pytestmark = pytest.mark.vm


def test_guest_booted_is_a_running_systemd(guest: Guest) -> None:
    assert guest.run(["systemctl", "is-system-running"]) == (0, "running\n", "")
    assert guest.run(["cat", "/proc/1/comm"]).stdout == "systemd\n"
    assert guest.read("/proc/sys/kernel/random/boot_id").decode().strip() == guest.boot_id


def test_data_disk_booted_is_mounted_from_fstab(guest: Guest) -> None:
    found = guest.run(
        ["findmnt", "--noheadings", "--output", "SOURCE,FSTYPE,OPTIONS", "/data"]
    ).stdout.split()
    assert found == ["/dev/vdb", "ext4", "rw,relatime"]
    assert guest.read("/etc/fstab").decode() == image.FSTAB
    assert "/dev/vdc" in guest.run(["swapon", "--noheadings", "--show=NAME"]).stdout


def test_run_failing_or_missing_command_answers_like_a_shell(guest: Guest) -> None:
    assert guest.run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == (3, "out\n", "err\n")
    assert guest.run(["sh", "-c", "kill -9 $$"]).rc == 137
    assert guest.run(["no-such-program"]).rc == 127


def test_read_and_write_keep_every_byte(guest: Guest) -> None:
    data = bytes(range(256)) * 4096
    guest.write("/root/all-bytes", data)
    assert guest.read("/root/all-bytes") == data


def test_run_past_its_timeout_raises_with_the_console(guest: Guest) -> None:
    with pytest.raises(GuestError, match=r"(?s)still running after 1 s.*console\.log.*systemd"):
        guest.run(["sleep", "1000"], timeout=1)
    assert guest.run(["true"]).rc == 0


def test_reboot_keeps_the_disks_and_changes_the_boot_id(guest: Guest) -> None:
    before = guest.boot_id
    guest.write("/root/kept", b"kept over a reboot\n")
    assert guest.reboot() != before
    assert guest.read("/root/kept") == b"kept over a reboot\n"
    assert guest.run(["systemctl", "is-system-running"]).stdout == "running\n"


def test_kill_after_sync_keeps_what_was_written(guest: Guest) -> None:
    before = guest.boot_id
    guest.write("/root/kept", b"kept over a power cut\n")
    guest.run(["sync"])
    guest.kill()
    assert guest.boot() != before
    assert guest.read("/root/kept") == b"kept over a power cut\n"
