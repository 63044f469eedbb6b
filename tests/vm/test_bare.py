"""What looks like bare metal: rules whose fault a kernel can have, each with its fault, and rules
for hardware that no emulator has, applied, asked after a boot, and undone.

Files over sysfs stand in for two GPUs and an RDMA port, and an empty package for a driver: that
there is one is all that these rules ask of them. What is set is set in the kernel, systemd, PAM,
udev, GRUB and unattended-upgrades of the guest.
"""

import json

import pytest

from tests.vm.guest import Guest
from tests.vm.operator import etc_digest, hosttune, runs
from tests.vm.shown import FAULTS, SHOWN_ON_METAL, answers

pytestmark = pytest.mark.vm

STAND_INS = """\
#!/bin/sh -e
modprobe ib_core; mkdir /run/cards; cd /run/cards
echo 0x10de > vendor; echo 0x20b5 > device; echo 0x030200 > class
for slot in 0000:00:03.0 0000:00:04.0; do
    for name in vendor device class; do mount --bind $name /sys/bus/pci/devices/$slot/$name; done
done
mount -t tmpfs cards /sys/class/infiniband
mkdir -p /sys/class/infiniband/mlx5_0/ports/1; cd /sys/class/infiniband/mlx5_0
ln -s "$(readlink -f /sys/class/net/enp0s1/device)" device; cd ports/1
echo Ethernet > link_layer; echo 4: ACTIVE > state; echo 5: LinkUp > phys_state; echo '100 Gb/sec (4X EDR)' > rate
for disk in vda vdb; do echo 0 > /sys/block/$disk/queue/rotational; done
"""
# A server of SNTP (RFC 4330), so that there is a time to be synchronised to.
CLOCK = """\
import os, socket, struct, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 123))
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
while True:
    asked, who = server.recvfrom(64)
    now = int((time.time() + 2208988800) * 2**32)
    server.sendto(struct.pack("!BBbbII4sQ8sQQ", 0x24, 1, 6, -20, 0, 0, b"GPS", now, asked[40:48], now, now), who)
"""
# Before the daemon that asks it, which begins long before sysinit.target; the loopback is up by
# then.
CLOCK_UNIT = """\
[Unit]
DefaultDependencies=no
Before=systemd-timesyncd.service
[Service]
Type=notify
ExecStart=/usr/bin/python3 /usr/local/sbin/clock
"""
UNIT = """\
[Unit]
After=systemd-networkd.service
Before=hosttune-agent.service
[Service]
Type={type}
RemainAfterExit=yes
ExecStart={command}
"""
DRIVER = """\
Package: nvidia-utils-580
Version: 580.126.20-0ubuntu1
Architecture: all
Maintainer: nobody <nobody@localhost>
Description: stands in for a driver
"""
# unattended-upgrades may take the driver, at a time that does not come while the test runs.
UNATTENDED = """\
APT::Periodic::Unattended-Upgrade "1";
Unattended-Upgrade::Origins-Pattern:: "origin=site";
"""
# The daemon as its package starts it, and a program of its name.
DAEMON = "/bin/sh /usr/bin/nvidia-persistenced --verbose --no-persistence-mode"
FILES = {
    "/usr/bin/nvidia-persistenced": "while :; do sleep 3600; done\n",
    "/usr/lib/systemd/system/nvidia-persistenced.service": UNIT.format(type="exec", command=DAEMON),
    "/usr/local/sbin/stand-ins": STAND_INS,
    "/usr/local/sbin/clock": CLOCK,
    "/usr/lib/systemd/system/stand-ins.service": UNIT.format(
        type="oneshot", command="/bin/sh /usr/local/sbin/stand-ins"
    ),
    "/usr/lib/systemd/system/clock.service": CLOCK_UNIT,
    "/usr/lib/systemd/timesyncd.conf.d/image.conf": "[Time]\nNTP=127.0.0.1\n",
    "/root/driver/DEBIAN/control": DRIVER,
    "/root/archive/unattended.conf": UNATTENDED,
    "/root/archive/apt-daily-upgrade.timer": "[Timer]\nOnCalendar=2099-01-01\n[Install]\nWantedBy=timers.target\n",
}
# An old systemd's pid_max, an image without a journal on the disk, folders that an apply makes and
# an undo leaves empty.
PREPARATION = """
cd /usr/lib/systemd/system; mkdir -p multi-user.target.wants
for unit in stand-ins clock nvidia-persistenced systemd-timesyncd; do ln -s ../$unit.service multi-user.target.wants/; done
rm /etc/systemd/system/systemd-timesyncd.service /usr/lib/sysctl.d/50-pid-max.conf; rm -r /var/log/journal
sysctl -qw kernel.pid_max=32768
dpkg-deb -b /root/driver /root/driver.deb; dpkg -i /root/driver.deb
rm /etc/systemd/system/apt-daily-upgrade.timer; cd /root/archive; mv apt-daily-upgrade.timer /etc/systemd/system
systemctl -q enable apt-daily-upgrade.timer; mv unattended.conf /etc/apt/apt.conf.d/30site; cp ../driver.deb .
(dpkg-deb -f driver.deb; echo Filename: ./driver.deb; echo Size: $(stat -c %s driver.deb)) > Packages
echo SHA256: $(sha256sum driver.deb | cut -c1-64) >> Packages
printf 'Origin: site\\nDate: Thu, 01 Jan 2026 00:00:00 UTC\\nSHA256:\\n %s %s Packages\\n' \\
    $(sha256sum Packages | cut -c1-64) $(stat -c %s Packages) > Release
echo 'deb [trusted=yes] file:/root/archive ./' > /etc/apt/sources.list.d/site.list
apt-get -q update -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/site.list -o Dir::Etc::sourceparts=-
install -d /etc/default/grub.d /etc/systemd/coredump.conf.d /etc/systemd/journald.conf.d /etc/systemd/logind.conf.d
systemctl daemon-reload; systemctl restart systemd-journald; systemctl start stand-ins clock nvidia-persistenced systemd-timesyncd
"""

# For the next boot: told now, because it is not in force, and then because it is.
OPEN = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT mitigations=off"\n'
OPEN_AT = "/etc/default/grub.d/10-site.cfg"
# SCSI disks of scsi_debug: sdb and sdc are two paths to one, sdd has a bad sector, sde and sdf are
# a raid0.
BREAK_DISKS = """
modprobe scsi_debug max_luns=5 dev_size_mb=8; modprobe dm-multipath; modprobe dm-round-robin; modprobe raid0; udevadm settle
dmsetup create -u mpath-1 mpatha --table "0 16384 multipath 0 0 1 1 round-robin 0 2 1 8:16 1 8:32 1"
dmsetup message mpatha 0 fail_path 8:32
echo 2 > /sys/bus/pseudo/drivers/scsi_debug/opts; ! dd if=/dev/sdd of=/dev/null skip=4660 count=1 iflag=direct
echo md0 > /sys/module/md_mod/parameters/new_array; cd /sys/block/md0/md
echo none > metadata_version; echo raid0 > level; echo 2 > raid_disks; echo 65536 > chunk_size
for disk in sde sdf; do cat /sys/block/$disk/dev > new_dev; echo 8064 > dev-$disk/size; done
echo 0 > dev-sde/slot; echo 1 > dev-sdf/slot; echo active > array_state; echo 1 > /sys/block/sde/device/delete
! dd if=/dev/zero of=/dev/md0 bs=64k count=1 oflag=direct
truncate -s 3T /srv/huge; mkdir -p /srv/large /srv/nfs /mnt/nfs
mke2fs -q -F -J size=4 -T largefile4 /srv/huge; mount -o loop /srv/huge /srv/large
modprobe nfsd; mount -t nfsd nfsd /proc/fs/nfsd; exportfs -o rw,fsid=0,no_subtree_check 127.0.0.1:/srv/nfs
rpc.nfsd -N 3 -V 4 1; rpc.mountd -N 3; mount -t nfs4 -o soft 127.0.0.1:/ /mnt/nfs
"""
# A page that is poisoned (madvise(2)) ends the program that has it; a machine check is decoded as a
# real one is (kernel: arch/x86/kernel/cpu/mce/inject.c).
BREAK_THE_REST = """
echo 0 > /sys/devices/system/cpu/cpu1/online
sysctl -qw vm.overcommit_memory=2 vm.watermark_scale_factor=500
echo never > /sys/kernel/mm/transparent_hugepage/enabled
echo acpi_pm > /sys/devices/system/clocksource/clocksource0/current_clocksource
mount -o remount,size=50M /dev/shm; systemctl set-property --runtime ssh.service TasksMax=1
! systemd-run -q --wait -p MemoryMax=16M -p MemorySwapMax=0 python3 -c 'x = bytearray(1 << 26)'
! python3 -c 'import mmap; page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); page[0] = 1; page.madvise(100)'
modprobe mce-inject; mount -t debugfs debugfs /sys/kernel/debug; cd /sys/kernel/debug/mce-inject
echo sw > flags; echo 0 > cpu; echo 0xb200000000070f0f > status; echo 0 > bank
echo 'Unattended-Upgrade::Automatic-Reboot "true";' > /etc/apt/apt.conf.d/99-site
install -d /var/crash; fallocate -l 400M /var/crash/python3.core
systemctl set-property --runtime user.slice ManagedOOMMemoryPressure=kill; systemctl start systemd-oomd
printf '[Login]\\nIdleAction=suspend\\n' > /etc/systemd/logind.conf.d/site.conf
systemctl stop systemd-timesyncd
for tool in tlp auto-cpufreq; do systemd-run -q --unit=$tool sleep infinity; done
"""
# What a boot does not take away.
MEND = """
rm /etc/apt/apt.conf.d/99-site
rm -r /var/crash /srv/huge /etc/systemd/logind.conf.d/site.conf
"""
SAID = {
    "cpu-clock-source": "the time comes from acpi_pm",
    "cpu-offline": "1 of 2 processors is off line: 1",
    "host-hardware-errors": "1 error of hardware in this boot could not be corrected",
    "kernel-cmdline": "+mitigations=off",
    "limits-shm": "/dev/shm holds 0.05 GiB",
    "limits-tasks": "nearly no further task can be started in ssh.service (1 of 1)",
    "memory-missing": "the kernel has put 4 KiB of memory out of use",
    "memory-overcommit": "vm.overcommit_memory is 2",
    "memory-pressure": "the kernel killed 1 process for want of memory",
    "memory-reserved": "vm.watermark_scale_factor 500 keeps about 0.1 GiB free",
    "memory-thp": "transparent huge pages are never, not madvise",
    "services-auto-reboot": "(/etc/apt/apt.conf.d/99-site:1)",
    "services-core-dumps": "dumps take 0.39 GiB in /var/crash",
    "services-oomd": "systemd-oomd runs and kills below user.slice (memory pressure)",
    "services-sleep-desktop": "logind does suspend (/etc/systemd/logind.conf.d/site.conf) when it is idle",
    "services-time-sync": "the clock is not synchronised; no time daemon runs",
    "services-tuner-conflict": "auto-cpufreq (auto-cpufreq.service runs), tlp (tlp.service runs) tune the same things",
    "storage-io-errors": "sdd failed 1 request to read or write",
    "storage-nfs-mounts": "it is mounted soft",
    "storage-paths": "1 of its 2 paths does not work: sdc (failed)",
    "storage-raid": "it has lost a disk that it has no other copy of, and the kernel fails every write to it (raid0)",
    "storage-reserved-blocks": "154 GiB of 3072 GiB are kept back for root",
}
OF_BOOT = "cpu-smt-mitigations"
WISHES = [word for rule in SHOWN_ON_METAL for word in ("--only", rule)]
# No kernel here has a module of the substitute driver, so a boot is advised only without this rule.
WITHOUT = ("--ignore", "gpu-next-kernel-modules")
MAY = ("--max-risk", "high", "--disturb", "service", *WITHOUT)


def told(guest: Guest) -> dict[str, str]:
    """What the rules of this file say that is not well, by rule."""
    asked = [word for rule in (*SAID, OF_BOOT) for word in ("--only", rule)]
    report = json.loads(
        guest.ask_any(["hosttune", "check", *asked, *WITHOUT, "--format", "json"]).stdout
    )
    found = report["hosts"][0]["findings"]
    assert {one["rule"] for one in found} == {*SAID, OF_BOOT}
    return {
        one["rule"]: one["reason"]
        for one in found
        if one["verdict"] not in {"ok", "not applicable"}
    }


@pytest.fixture(scope="module")
def before(bare: Guest) -> str:
    for path, text in FILES.items():
        bare.write(path, text.encode())
    bare.ask(["bash", "-ec", PREPARATION])
    return etc_digest(bare)


def test_each_fault_of_this_file_has_its_words() -> None:
    assert {rule for rule, name in FAULTS.items() if name == "test_bare.py"} | {"storage-raid"} == {
        *SAID,
        OF_BOOT,
    }


def test_machine_is_well_and_takes_its_settings(bare: Guest, before: str) -> None:
    assert before
    assert told(bare) == {}
    bare.write(OPEN_AT, OPEN.encode())
    rc, text = hosttune(bare, "apply", "--yes", *MAY, *WISHES)
    assert rc == 0, text
    planned = json.loads(
        bare.ask_any(["hosttune", "plan", "--format", "json", *MAY, *WISHES]).stdout
    )
    assert planned["stages"] == []


def test_each_fault_is_told(bare: Guest) -> None:
    for script in (BREAK_DISKS, BREAK_THE_REST):
        answer = bare.run(["bash", "-ec", script])
        assert answer.rc == 0, answer
    said = told(bare)
    assert {rule: words for rule, words in SAID.items() if words not in said.get(rule, "")} == {}, (
        said
    )
    assert said.keys() == SAID.keys()
    bare.ask(["bash", "-ec", MEND])


def test_boot_keeps_the_settings_and_takes_the_faults_away(bare: Guest) -> None:
    bare.reboot()
    assert answers(bare, SHOWN_ON_METAL) == {
        rule: one.applied for rule, one in SHOWN_ON_METAL.items()
    }
    said = told(bare)
    assert said.keys() == {OF_BOOT}, said
    assert "mitigations=off" in said[OF_BOOT]


def test_undo_and_a_boot_give_back_what_was(bare: Guest, before: str) -> None:
    bare.ask(["rm", OPEN_AT])
    for run in reversed(runs(bare)):
        rc, text = hosttune(bare, "undo", run, "--yes", *MAY)
        assert rc in {0, 1}, text  # 1: done, and waits for the boot
    bare.reboot()
    assert answers(bare, SHOWN_ON_METAL) == {
        rule: one.undone for rule, one in SHOWN_ON_METAL.items()
    }
    assert told(bare) == {}
    assert etc_digest(bare) == before
