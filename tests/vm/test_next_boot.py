"""What hosttune says of the next boot, and what that boot does: lines of fstab and unit files whose
disks are not there, with which a boot goes on, waits, or ends in the emergency shell.
"""

import pytest

from tests.vm import image
from tests.vm.guest import Guest
from tests.vm.operator import POLICY, fstab, hosttune

pytestmark = pytest.mark.vm

# The harness's agent, where a boot ends in the emergency shell.
AGENT = """\
[Unit]
DefaultDependencies=no
After=dev-virtio\\x2dports-hosttune.agent.device
[Service]
ExecStart=/usr/bin/python3 /usr/local/lib/hosttune-agent.py
"""
UNIT = "[Mount]\nWhat={what}\nWhere=/mnt/{name}\nType={fstype}\n[Install]\nWantedBy=multi-user.target\n"
SWAP = "11111111-2222-4333-8444-555555555555"
GOES_ON = f"""
LABEL=gone1 /mnt/gone1 ext4 nofail,x-systemd.device-timeout=3s 0 2
LABEL=gone2 /mnt/gone2 ext4 noauto 0 2
LABEL=gone3 /mnt/gone3 ext4 x-systemd.automount 0 2
UUID={SWAP} none swap sw,x-systemd.device-timeout=9s 0 0
/gone.img none swap sw 0 0
/plain.img none swap sw 0 0
mute.invalid:/x /mnt/mute nfs nofail,_netdev,x-systemd.mount-timeout=4s 0 0
"""
MOUNT_NFS = "#!/bin/sh\nexec sleep 60\n"  # in place of nfs-common's, for a server that is silent
UNITS = {
    "mnt-wanted.mount": UNIT.format(what="/dev/disk/by-label/gone4", name="wanted", fstype="ext4"),
    "mnt-idle.mount": UNIT.format(what="/dev/disk/by-label/gone5", name="idle", fstype="ext4"),
    r"dev-disk-by\x2dlabel-gone4.device.d/90-wait.conf": "[Unit]\nJobRunningTimeoutSec=7s\n",
    "emergency-agent.service": AGENT,
}
STOPS = "LABEL=gone6 /mnt/gone6 ext4 x-systemd.device-timeout=3s 0 2\n/dev/vdb /mnt/type xfs defaults 0 2\n"
FOLDER = "/etc/systemd/system"
# A change that waits for a boot, on a machine of 2 GiB.
PARAMS = "params:\n  storage-tmp-tmpfs: {where: anywhere, min_ram_bytes: 1073741824, min_bytes: 1073741824, max_ram_share: 0.75, used_share: 0.5}\n"


def said(guest: Guest) -> str:
    """What `check` says of the next boot, in one line."""
    text = hosttune(guest, "check", "--only", "storage-fstab", "--only", "storage-mounted")[1]
    return " ".join(text.split())


def states(guest: Guest, *units: str) -> list[str]:
    return guest.run(["systemctl", "is-active", *units]).stdout.split()


@pytest.fixture(scope="module")
def before(guest: Guest) -> str:
    """The fstab of before, with a line feed at its end."""
    # The data disk gets nofail: that it has none is advice of its own.
    usual = image.DATA_LINE.replace("defaults", "defaults,nofail")
    text = f"{fstab(guest).replace(image.DATA_LINE, usual).rstrip()}\n"
    for name, content in UNITS.items():
        guest.write(f"{FOLDER}/{name}", content.encode())
    for wants in (
        "multi-user.target.wants/mnt-wanted.mount",
        "emergency.target.wants/emergency-agent.service",
    ):
        guest.ask(["mkdir", "-p", f"{FOLDER}/{wants.partition('/')[0]}"])
        guest.ask(["ln", "-s", f"../{wants.partition('/')[2]}", f"{FOLDER}/{wants}"])
    return text


def test_what_a_boot_waits_for_or_leaves_out_is_told(guest: Guest, before: str) -> None:
    guest.write("/etc/fstab", (before + GOES_ON).encode())
    guest.write("/sbin/mount.nfs", MOUNT_NFS.encode())
    guest.write("/plain.img", b"\0" * (1 << 20))
    guest.ask(["chmod", "755", "/sbin/mount.nfs"])
    guest.ask(["chmod", "600", "/plain.img"])
    text = said(guest)
    assert "LABEL=gone1, which no device has, and nothing is mounted" in text
    assert (
        f"UUID={SWAP}, which no device has: each boot waits 9s for it, and goes on without" in text
    )
    assert "/gone.img, which is not there: its swap fails at each boot" in text
    assert (
        "/gone4, which no device has: the next boot waits 7s for it, and mounts nothing at /mnt/wanted"
        in text
    )
    assert not [name for name in ("gone2", "gone3", "gone5") if name in text]
    assert "emergency" not in text


def test_that_boot_goes_on_after_it_has_waited(guest: Guest) -> None:
    guest.reboot()
    assert states(guest, "multi-user.target", "local-fs.target") == ["active", "active"]
    waited = guest.run(
        ["journalctl", "-b", "-o", "cat", "--grep", "Timed out waiting for device"]
    ).stdout
    assert SWAP in waited.replace("\\x2d", "-")
    assert "gone4" in waited
    assert not [name for name in ("gone2", "gone3", "gone5") if name in waited]
    assert "gone.img.swap" in guest.run(["systemctl", "list-units", "--failed", "--plain"]).stdout


def test_what_failed_in_that_boot_has_its_cause(guest: Guest) -> None:
    text = said(guest)
    assert "got no answer from its server within 4s, and nothing is mounted" in text
    assert (
        "names /plain.img, which is there and not in use: it was never made a swap (mkswap)" in text
    )
    guest.ask(["rm", "/sbin/mount.nfs", "/plain.img"])


def test_what_stops_the_next_boot_is_told_and_no_reboot_of_hosttune_follows(
    guest: Guest, before: str
) -> None:
    guest.write("/etc/fstab", (before + STOPS).encode())
    text = said(guest)
    assert (
        "LABEL=gone6, which no device has: the next boot waits 3s for it, and ends in the emergency shell"
        in text
    )
    assert "says xfs, and /dev/vdb" in text
    assert "the mount fails, and the boot ends in the emergency shell" in text
    assert (
        text.count("LABEL=gone6") == 2
    )  # one rule says it, and the end of the screen repeats its sentence
    guest.write(POLICY, PARAMS.encode())
    words = ("apply", "--yes", "--reboot", "--confirm-within", "off", "--only", "storage-tmp-tmpfs")
    rc, _, told = guest.run(["hosttune", *words])
    assert rc == 1
    assert "this host is not booted: storage-fstab: " in " ".join(told.split())


def test_that_boot_ends_in_the_emergency_shell(guest: Guest) -> None:
    guest.reboot()
    assert states(guest, "emergency.target", "multi-user.target") == ["active", "inactive"]
    results = ("systemctl", "show", "-P", "Result", "mnt-type.mount")
    assert guest.run(list(results)).stdout == "exit-code\n"
    assert states(guest, "mnt-gone6.mount", "local-fs.target") == ["inactive", "inactive"]


def test_unit_that_local_fs_requires_does_the_same(guest: Guest, before: str) -> None:
    guest.ask(["mount", "-o", "remount,rw", "/"])
    guest.write("/etc/fstab", before.encode())
    guest.ask(["mkdir", "-p", f"{FOLDER}/local-fs.target.requires"])
    guest.ask(["rm", f"{FOLDER}/multi-user.target.wants/mnt-wanted.mount"])
    guest.ask(
        ["ln", "-s", "../mnt-wanted.mount", f"{FOLDER}/local-fs.target.requires/mnt-wanted.mount"]
    )
    assert "the next boot waits 7s for it, and ends in the emergency shell" in said(guest)
    guest.reboot()
    assert states(guest, "emergency.target", "mnt-wanted.mount") == ["active", "inactive"]
