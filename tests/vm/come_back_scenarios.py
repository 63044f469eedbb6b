"""What is done to a host that has a run on trial, and how it has to end. Data: `come_back.py` plays
it.

The numbers are those of the faults that the design was made against. What hosttune itself would
never write (a broken fstab, an sshd that does not start) is written as a plan made by hand, through
the same trial.
"""

from dataclasses import dataclass
from enum import Enum

from tests.vm import image
from tests.vm.come_back_shell import (
    FILL,
    HOG,
    KEY,
    PACKAGE,
    SSH,
    STUCK,
    UNHURRIED,
    UNTIL_CONFIRMED,
    cut,
    cut_at_sync,
)
from tests.vm.image import Recipe

SWAPPINESS = "vm.swappiness"


class Boot(Enum):
    """What becomes of the boot on trial."""

    NONE = "there is none"
    COMES_UP = "it comes up, and is looked into"
    ENDS = "it ends by itself, before anybody can look"
    HANGS = "it hangs, and somebody cuts the power"


class End(Enum):
    """How the trial ends, in the words of `hosttune history`."""

    REFUSED = "refused"
    CONFIRMED = "confirmed"
    CAME_BACK = "rolled back"
    IN_PART = "partly rolled back"
    FAILED = "rollback failed"
    NOTHING = "nothing on trial"
    AS_BEFORE = "as before, whatever it is called"
    ON_CONSOLE = "left as it is, and told"  # the machine is not asked any more


@dataclass(frozen=True, slots=True)
class Change:
    """What is put on trial: an argument of the kernel or a sysctl by a rule of the site, or a file
    by a plan made by hand.
    """

    argument: str = ""
    sysctl: tuple[str, str] = ("", "")
    module: tuple[str, str] = ("", "")  # an option of a module
    path: str = ""
    text: str = ""  # all of the file; `{now}` stands for what it holds
    is_by_hand: bool = False  # an argument that a rule would hold back

    @property
    def wish(self) -> str:
        """The wish of a rule that makes it."""
        if self.argument:
            return f"kernel-argument: {self.argument}"
        if self.module[0]:
            return f'modprobe-option: {self.module[0]}\n    exactly: "{self.module[1]}"'
        return f"sysctl: {self.sysctl[0]}\n    exactly: {self.sysctl[1]}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One story: cold, on trial, the fault, the end."""

    name: str
    numbers: tuple[int, ...]  # of the faults that it shows
    tells: str
    change: Change
    end: End = End.CAME_BACK
    boot: Boot = Boot.NONE
    recipe: Recipe = image.TRIXIE_MENU
    prepare: str = ""  # shell, before hosttune is asked
    fault: str = ""  # shell, when it is on trial and before its boot
    leaves: str = "systemctl reboot"  # how this boot is left; empty: the plug is pulled
    meanwhile: str = ""  # shell, in the boot on trial, or in the live part
    says: str = ""  # in what `check` or the refusal prints
    boots: int = 0  # of GRUB's, from the trial to the end; 0: not counted
    waits: bool = False  # nobody confirms: up to the deadline
    within: str = "30m"
    without: str = ""  # a disk that is pulled before the boot on trial
    last: str = ""  # shell, at the end; it must end with 0
    cut_at: int = 0  # at which file that the apply puts in place the power is cut
    typed: str = ""  # shell that makes the apply, where it is not made as always
    is_by_health: bool = False  # the host may confirm itself
    is_plug_pulled: bool = False  # after `meanwhile` and the waiting
    stays_up: bool = False  # it does not reboot at the deadline
    mends: str = ""  # shell, before it is asked how it ended
    devices: tuple[str, ...] = ()  # of qemu's, besides
    in_ci: bool = False


ARGUMENT = Change(argument="hosttune_test=1")
FSTAB = "/etc/fstab"
EDIT = Change(path=FSTAB, text="{now}\n# by hand\n")
LIVE = Change(sysctl=(SWAPPINESS, "10"))
# No driver opens a GPU in a guest. O_PATH is enough for the guard's script, if what the kernel says
# of it is hidden; hosttune itself is told by a gate.
HOLDS_GPU = (
    'import os, subprocess, time; os.open("/dev/nvidia0", os.O_PATH); '
    'subprocess.run(["mount", "-t", "tmpfs", "none", f"/proc/{os.getpid()}/fdinfo"], check=True); time.sleep(9999)'
)
GATE = (
    "mkdir -p /etc/hosttune/gates.d; printf '%s\\n' '#!/bin/sh' 'echo a job runs' 'exit 1' >/tmp/gate; "
    "install /tmp/gate /etc/hosttune/gates.d/gate"
)


def line(text: str) -> Change:
    return Change(path=FSTAB, text="{now}\n" + text + "\n")


GONE = line(
    "UUID=00000000-dead-4bad-8bad-000000000000 /srv ext4 defaults,x-systemd.device-timeout=15s 0 2"
)
SCENARIOS = (
    Scenario(
        "panic", (1,), "an argument with which the kernel panics: GRUB's default after the reset",
        Change(argument="init=/bin/false"), boot=Boot.ENDS, boots=2,
        says="did not take the entry on trial, or one that took it did not come as far as here",
    ),
    Scenario(
        "root-hidden", (2,), "an argument that hides the root disk: the initial RAM disk reboots",
        Change(argument="root=UUID=00000000-dead-4bad-8bad-000000000000", is_by_hand=True), boot=Boot.ENDS, boots=2,
    ),
    Scenario(
        "hang", (3,), "an argument with which the boot hangs: as before after one power cycle",
        Change(argument="init=/bin/cat"), boot=Boot.HANGS, boots=2,
    ),
    Scenario(
        "nobody-confirms-argument", (5,), "an argument that works and that nobody confirms: one reboot at the deadline",
        ARGUMENT, boot=Boot.COMES_UP, waits=True, boots=2, says="it was not confirmed within",
    ),
    Scenario(
        "confirmed-argument", (6,), "an argument that is confirmed stays: in all entries, also after a second reboot",
        ARGUMENT, End.CONFIRMED, boot=Boot.COMES_UP, meanwhile="hosttune confirm", boots=1,
        last="grep -q hosttune_test=1 /boot/grub/grub.cfg && systemctl --quiet is-enabled ssh",
    ),
    Scenario(
        "asked-for-boot", (6,), "apply --reboot makes the boot on trial by itself; confirmed there, it stays",
        ARGUMENT, End.CONFIRMED, boot=Boot.COMES_UP, typed="true", meanwhile="hosttune confirm", boots=1,
        leaves="hosttune apply --yes --only site-trial --confirm-within 30m --reboot",
        last="grep -q hosttune_test=1 /boot/grub/grub.cfg && grep -q hosttune_test=1 /proc/cmdline",
    ),
    Scenario(
        "confirmed-argument-12", (6,), "the same on Debian 12",
        ARGUMENT, End.CONFIRMED, boot=Boot.COMES_UP, meanwhile="hosttune confirm", boots=1, recipe=image.BOOKWORM_MENU,
        last="grep -q hosttune_test=1 /boot/grub/grub.cfg",
    ),
    Scenario(
        "panic-boot-apart", (1,), "an argument with which the kernel panics, /boot on a disk of its own",
        Change(argument="init=/bin/false"), boot=Boot.ENDS, boots=2, recipe=image.TRIXIE_BOOT_APART,
    ),
    Scenario(
        "panic-12", (1,), "an argument with which the kernel panics, on Debian 12",
        Change(argument="init=/bin/false"), boot=Boot.ENDS, boots=2, recipe=image.BOOKWORM_MENU,
    ),
    Scenario(
        "lvm", (7,), "/boot on LVM, where GRUB cannot write: refused before anything is written",
        ARGUMENT, End.REFUSED, recipe=image.TRIXIE_BOOT_APART,
        prepare="""
            set -e
            dd if=/dev/zero of=/root/pv bs=1M count=0 seek=400 status=none
            disk=$(losetup --show -f /root/pv)
            pvcreate -q $disk && vgcreate -q v $disk && lvcreate -q -L 300M -n boot v && mkfs.ext4 -q /dev/v/boot
            mkdir -p /root/new && mount /dev/v/boot /root/new && cp -a /boot/. /root/new/ && umount /root/new
            umount /boot && mount /dev/v/boot /boot
        """,
        says="(?i)lvm",
    ),
    Scenario(
        "update-grub-meanwhile", (9,), "update-grub between, as a new kernel does: its menu has no untried argument",
        ARGUMENT, End.CONFIRMED, boot=Boot.COMES_UP, meanwhile="hosttune confirm", boots=1,
        fault="update-grub && ! grep -q hosttune_test=1 /boot/grub/grub.cfg",
    ),
    Scenario(
        "entry-deleted", (10,), "custom.cfg deleted by hand: the default boots, the trial was not taken",
        ARGUMENT, boot=Boot.ENDS, boots=1, fault="rm /boot/grub/custom.cfg",
        says="did not take the entry on trial",
    ),
    Scenario(
        "entry-cut-off", (10,), "custom.cfg cut off in its middle: the default boots",
        ARGUMENT, boot=Boot.ENDS, boots=1, fault="truncate -s 300 /boot/grub/custom.cfg",
    ),
    Scenario(
        "kernel-gone", (8,), "the kernel's file is gone: GRUB falls back to its first entry",
        ARGUMENT, boot=Boot.ENDS, boots=1, fault="sed -i 's/vmlinuz-[0-9]/vmlinuz-none/' /boot/grub/custom.cfg",
    ),
    Scenario(
        "one-shot-of-others", (11,), "somebody else's one-shot entry: refused",
        ARGUMENT, End.REFUSED, prepare="grub-reboot 0", says="next_entry",
    ),
    Scenario(
        "one-shot-overwritten", (11,), "somebody asks for another entry between: theirs wins, the trial was not taken",
        ARGUMENT, boot=Boot.ENDS, boots=1, fault="grub-reboot 0", says="did not take the entry on trial",
    ),
    Scenario(
        "grubenv-read-only", (7, 27), "a grubenv that cannot be written: refused before anything is",
        ARGUMENT, End.REFUSED, prepare="chattr +i /boot/grub/grubenv", says="grubenv",
        last="chattr -i /boot/grub/grubenv",
    ),
    Scenario(
        "disk-missing", (13, 14), "a line of fstab whose disk is missing: emergency mode, put back, one reboot",
        GONE, boot=Boot.ENDS, boots=2, in_ci=True, says="stopped in emergency mode",
    ),
    Scenario(
        "disk-missing-12", (13, 14), "the same on Debian 12",
        GONE, boot=Boot.ENDS, boots=2, recipe=image.BOOKWORM_MENU, says="stopped in emergency mode",
    ),
    Scenario(
        "tmpfs-option", (15,), "a tmpfs with an option that the kernel does not know",
        line("tmpfs /srv tmpfs nosuchoption=1 0 0"), boot=Boot.ENDS, boots=2, says="stopped in emergency mode",
    ),
    Scenario(
        "root-option", (16,), "a bad word in the line of /: root stays read-only, and no emergency mode comes",
        Change(path=FSTAB, text=image.FSTAB.replace("errors=remount-ro", "nosuchoption") + "\n"), boot=Boot.ENDS, boots=2,
        says="read-only",
    ),
    Scenario(
        "waits-for-ever", (17,), "a disk that is waited for without end: the deadline",
        line("UUID=00000000-dead-4bad-8bad-000000000000 /srv ext4 defaults,x-systemd.device-timeout=infinity 0 2"),
        boot=Boot.ENDS, boots=2, says="nobody has confirmed in time",
    ),
    Scenario(
        "edited-meanwhile", (18,), "fstab edited by a person in the boot on trial: theirs is left, and told",
        EDIT, End.IN_PART, boot=Boot.COMES_UP, waits=True, stays_up=True, boots=1, meanwhile="echo '# Petra was here' >> /etc/fstab",
        says="partly rolled back", last="grep -q Petra /etc/fstab",
    ),
    Scenario(
        "arp-silent", (21,), "a sysctl that takes the network away, live: back when the time is up, no reboot",
        Change(sysctl=("net.ipv4.conf.all.arp_ignore", "8")), waits=True, within="3m", in_ci=True, says="it was not confirmed within",
        last="[ $(sysctl -n net.ipv4.conf.all.arp_ignore) = 0 ]",
    ),
    Scenario(
        "live-confirmed", (21,), "a sysctl that is confirmed stays",
        Change(sysctl=(SWAPPINESS, "10")), End.CONFIRMED, meanwhile="hosttune confirm",
        last="[ $(sysctl -n vm.swappiness) = 10 ]",
    ),
    Scenario(
        "sshd-dead", (22,), "sshd that does not start in the boot on trial: not confirmable, back at the deadline",
        Change(path="/etc/ssh/sshd_config.d/broken.conf", text="NoSuchWord yes\n"), boot=Boot.COMES_UP, waits=True, boots=2,
        meanwhile="hosttune confirm; [ $? = 1 ]", last="systemctl is-active ssh",
    ),
    Scenario(
        "root-full", (27,), "the root file system is full at arming: refused, nothing left",
        Change(sysctl=(SWAPPINESS, "10")), End.REFUSED, prepare=FILL, last="rm /root/fill*",
    ),
    Scenario(
        "full-at-return", (28,), "the root file system is full when it is to be put back: what was kept free does",
        EDIT, boot=Boot.COMES_UP, waits=True, boots=2, meanwhile=FILL, last="rm /root/fill*",
    ),
    Scenario(
        "full-at-live-return", (28,), "the same, of what is in force at once",
        LIVE, waits=True, within="3m", meanwhile=FILL, mends="journalctl -b -o cat -u 'hosttune-*'; rm /root/fill*", last="[ $(sysctl -n vm.swappiness) = 60 ]",
    ),
    Scenario(
        "full-for-good", (28,), "and that is full, too: told, no reboot, and the next command with room takes it back",
        EDIT, boot=Boot.COMES_UP, waits=True, stays_up=True, boots=1, meanwhile="rm /etc/hosttune/trial/room; " + FILL,
        # hosttune itself counts the ten minutes of a boot, and one more; the guard was called after
        # two and a half.
        within="10m", mends="grep -q 'by hand' /etc/fstab && rm /root/fill* && sleep 540; hosttune history", says="rollback due",
    ),
    Scenario(
        "guard-deleted", (30,), "the guard deleted before its boot: the boot goes on, and the next look takes it back",
        EDIT, boot=Boot.COMES_UP, boots=1, fault="rm -r /etc/hosttune/trial/run",
    ),
    Scenario(
        "set-cut-off", (30,), "the list of what the guard keeps cut off: the boot goes on, the journal takes it back",
        EDIT, boot=Boot.COMES_UP, waits=True, boots=2, fault="truncate -s 3 /etc/hosttune/trial/set",
    ),
    Scenario(
        "set-cut-off-and-stopped", (30, 37), "the same, and the boot stops: nothing is done, no reboot, told on the console",
        GONE, End.ON_CONSOLE, boot=Boot.HANGS, fault="truncate -s 3 /etc/hosttune/trial/set", says="is damaged; nothing was done",
        boots=1,
    ),
    Scenario(
        "second-apply", (31,), "a second apply while on trial: refused, and the run is named",
        Change(sysctl=(SWAPPINESS, "10")), End.CONFIRMED,
        meanwhile="hosttune apply --yes --only site-trial; [ $? = 2 ] && hosttune confirm", says="on trial",
    ),
    Scenario(
        "undone-live", (32,), "undone by hand while on trial: ended at once",
        Change(sysctl=(SWAPPINESS, "10")), End.NOTHING, meanwhile="hosttune undo --yes",
        last="[ $(sysctl -n vm.swappiness) = 60 ]",
    ),
    Scenario(
        "undone-armed", (32,), "undone by hand when its boot is asked for: no entry, no guard, nothing left",
        EDIT, End.NOTHING, meanwhile="hosttune undo --yes",
    ),
    Scenario(
        "clock-ahead", (34,), "the clock ten years ahead in the live part: the deadline stays",
        Change(sysctl=(SWAPPINESS, "10")), waits=True, within="5m", meanwhile="date -s '+10 years'",
        last="[ $(sysctl -n vm.swappiness) = 60 ]",
    ),
    Scenario(
        "clock-in-boot", (34,), "the clock set back in the boot on trial: the deadline stays",
        EDIT, boot=Boot.COMES_UP, waits=True, boots=2, meanwhile="date -s '-3 years'",
    ),
    Scenario(
        "powered-off-live", (36, 35), "powered off before the live part was confirmed: back at boot",
        Change(sysctl=(SWAPPINESS, "10")), boot=Boot.ENDS, leaves="", boots=2,
        last="[ $(sysctl -n vm.swappiness) = 60 ]",
    ),
    Scenario(
        "powered-off-armed", (35,), "powered off with its boot asked for: the next one, a day later, is the trial",
        EDIT, End.CONFIRMED, boot=Boot.COMES_UP, leaves="", meanwhile="hosttune confirm", last="grep -q 'by hand' /etc/fstab",
    ),
    Scenario(
        "second-boot", (35,), "rebooted a second time without a confirmation: back",
        EDIT, boot=Boot.COMES_UP, meanwhile="REBOOT", boots=3, says="a second boot without a confirmation",
    ),
    Scenario(
        "emergency-again", (37,), "a disk of before is gone, too: emergency again after the return, and no further reboot",
        EDIT, boot=Boot.HANGS, without="data", boots=3, says="emergency mode",
    ),
    Scenario(
        "last-second", (6, 21), "the deadline comes while it is being confirmed: one of both, and never half of it",
        Change(sysctl=(SWAPPINESS, "10")), End.CONFIRMED,
        meanwhile="hosttune confirm & sleep 10; systemctl start $(systemctl list-units --plain --no-legend "
        "'hosttune-trial-*-deadline.timer' | cut -d' ' -f1 | sed s/timer$/service/); wait; hosttune history",
        last="[ $(sysctl -n vm.swappiness) = $(grep -qs 'vm.swappiness *= *10' /etc/sysctl.d/*trial* && echo 10 || echo 60) ]",
    ),
    Scenario(
        "watchdog", (4,), "all of user space hangs, and systemd feeds a watchdog (i6300esb): it resets by itself",
        Change(argument="systemd.wants=hog.service", is_by_hand=True), boot=Boot.ENDS, boots=2, prepare=UNHURRIED + HOG,
        devices=("i6300esb",), says="a second boot without a confirmation",  # and not the deadline
    ),
    Scenario(
        "rescue", (12,), "somebody boots into rescue mode in between: the guard stays out, and the next boot is the trial",
        EDIT, End.CONFIRMED, boot=Boot.HANGS, meanwhile="hosttune confirm", boots=2,
        fault="grub-reboot '1>1' && grep -q 'recovery mode' /boot/grub/grub.cfg",
    ),
    Scenario(
        "network-unit", (19,), "networkd does not start in the boot on trial, which may confirm itself: it goes back by itself",
        Change(path="/etc/systemd/system/systemd-networkd.service.d/broken.conf", text="[Service]\nExecStartPre=false\n"),
        boot=Boot.COMES_UP, waits=True, boots=2, is_by_health=True, prepare=UNHURRIED, says="not as before",
        last="systemctl is-active systemd-networkd",
    ),
    Scenario(
        "card-without-driver", (19,), "a line of modprobe.d leaves the network card without its driver: back at the deadline",
        Change(path="/etc/modprobe.d/card.conf", text="install virtio_net /bin/false\n"), boot=Boot.COMES_UP, waits=True,
        boots=2, meanwhile="hosttune confirm; [ $? = 1 ]", says="(?i)route|address|link",
    ),
    Scenario(
        "initrd-option", (20,), "an option of a module that the initial RAM disk loads: refused",
        Change(module=("virtio_blk.queue_depth", "64")), End.REFUSED, says="initial RAM disk",
    ),
    Scenario(
        "healthy-live", (21,), "a sysctl on a host that may confirm itself, and is as before: it stays",
        LIVE, End.CONFIRMED, is_by_health=True, within="5m", meanwhile=UNTIL_CONFIRMED, mends="journalctl -b -o cat | grep 'is confirmed and stays'",
        last="[ $(sysctl -n vm.swappiness) = 10 ]",
    ),
    Scenario(
        "healthy-boot", (6,), "a boot on trial that is as before for two minutes confirms itself",
        EDIT, End.CONFIRMED, boot=Boot.COMES_UP, is_by_health=True, prepare=UNHURRIED, meanwhile=UNTIL_CONFIRMED, mends="journalctl -b -o cat | grep 'is confirmed and stays'", boots=1,
        last="grep -q 'by hand' /etc/fstab",
    ),
    Scenario(
        "session-killed", (23,), "the connection of the apply dies: the trial goes on, and goes back in time",
        LIVE, prepare=KEY, waits=True, says="it was not confirmed within",
        typed=f"{SSH} -tt 'hosttune apply --yes --only site-trial --confirm-within 3m; touch /run/made; sleep 3000' "
        "> /root/said 2>&1 & until [ -e /run/made ]; do sleep 1; done; kill -KILL $!; cat /root/said",
        last="[ $(sysctl -n vm.swappiness) = 60 ]",
    ),
    Scenario(
        "old-connection", (23,), "the connection of the apply does not confirm, a new one does",
        LIVE, End.CONFIRMED, prepare=KEY, says="old 2",
        typed=f"{SSH} 'hosttune apply --yes --only site-trial --confirm-within 15m && hosttune confirm; echo old $?'",
        meanwhile=f"{SSH} hosttune confirm", last="[ $(sysctl -n vm.swappiness) = 10 ]",
    ),
    Scenario(
        "root-read-only", (29,), "the root file system goes read-only in the boot on trial: the script makes it writable",
        EDIT, boot=Boot.COMES_UP, waits=True, boots=2, meanwhile="echo u > /proc/sysrq-trigger; sleep 5; ! touch /root/x",
        says="nobody has confirmed in time",
    ),
    Scenario(
        "root-fails", (29,), "it fails with an error, so that nothing can be started: back after one power cycle",
        EDIT, boot=Boot.COMES_UP, is_plug_pulled=True, boots=4,  # fsck mends the root, and reboots for it
        meanwhile="echo 1 > /sys/fs/ext4/vda1/trigger_fs_error; ! touch /root/x", says="a second boot without a confirmation",
    ),
    Scenario(
        "package-removed", (33,), "the package is removed and upgraded while on trial: the one is refused, the other not",
        LIVE, End.CONFIRMED, prepare=PACKAGE,
        meanwhile="dpkg -r hosttune; [ $? != 0 ] && dpkg -i /root/p.deb && [ -e /etc/hosttune/trial/armed ] && hosttune confirm",
        says="a run is on trial, which only hosttune can end", last="dpkg -r hosttune",
    ),
    Scenario(
        "reboot-hangs", (41,), "the reboot of the return never comes about by itself: a harder one, after five minutes",
        EDIT, boot=Boot.COMES_UP, waits=True, boots=2, prepare=STUCK,
    ),
    Scenario(
        "program-gone", (44, 41), "hosttune is gone by the deadline, and a reboot hangs: the script does it alone",
        EDIT, boot=Boot.COMES_UP, waits=True, boots=2, prepare=STUCK, meanwhile="mv /opt/hosttune /opt/gone",
        mends="mv /opt/gone /opt/hosttune", says="nobody has confirmed in time",
    ),
    Scenario(
        "gpu-at-work", (43,), "a process holds a GPU at the deadline: the files are back, and nothing is rebooted yet",
        Change(path="/etc/modprobe.d/card.conf", text="options veth numtxqueues=1\n"), boot=Boot.COMES_UP, waits=True,
        stays_up=True, boots=1, meanwhile=f"mknod /dev/nvidia0 c 195 0; systemd-run -q python3 -c '{HOLDS_GPU}'; {GATE}",
        mends="journalctl -b -o cat | grep 'which waits for'; systemctl stop 'hosttune-trial-*-reboot.service'", says="which waits for",
    ),
    *(
        Scenario(
            f"confirm-cut-{number}", (25,), f"the power is cut in a confirmation, at file {number} that it makes or removes",
            EDIT, end, boot=Boot.COMES_UP, is_plug_pulled=True, meanwhile=cut("confirm --anyway", number),
        )
        for number, end in ((1, End.AS_BEFORE), (3, End.CONFIRMED), (9, End.CONFIRMED))
    ),
    Scenario(
        "confirm-cut-argument", (25,), "the power is cut in the confirmation of an argument, while it is written down",
        ARGUMENT, End.CONFIRMED, boot=Boot.COMES_UP, is_plug_pulled=True, meanwhile=cut("confirm --anyway", 4),
        last="grep -q hosttune_test=1 /boot/grub/grub.cfg",
    ),
    *(
        Scenario(
            f"undo-cut-{number}", (26,), f"the power is cut in an undo of what is live, at file {number}",
            LIVE, End.AS_BEFORE, is_plug_pulled=True, meanwhile=cut("undo --yes", number),
            last="[ $(sysctl -n vm.swappiness) = 60 ]",
        )
        for number in (2, 5)
    ),
    *(
        Scenario(
            f"return-cut-{number}", (26,), f"the power is cut in the return after emergency mode, at sync {number}: the next "
            "boot ends it", GONE, boot=Boot.ENDS, fault=cut_at_sync(number),
        )
        for number in (3, 4, 6, 7)
    ),
    *(
        Scenario(
            f"power-cut-{number}", (24,), f"the power is cut at file {number} that is put in place: {what}",
            EDIT, End.AS_BEFORE, boot=Boot.ENDS, leaves="", cut_at=number,
        )
        for number, what in (
            (2, "the guard is half there"), (10, "its units are half there"), (15, "it is being armed"),
            (17, "armed, and not recorded"), (18, "recorded, and nothing is changed"),
        )
    ),
)  # fmt: skip
