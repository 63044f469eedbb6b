"""The guests' disks: Debian with systemd, a data disk and a little swap, built once and kept in a
cache.

No loop device and no mount is needed: mke2fs fills a file system from a folder, and GRUB's parts
are put where they belong byte by byte.
"""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests import debian
from tests.cache import kept, named

PROGRAMS = (
    "mmdebstrap",
    "mke2fs",
    "mkfs.xfs",
    "mkswap",
    "sfdisk",
    "qemu-img",
    "qemu-system-x86_64",
    "setpriv",
)
APT_LINE = "apt-get install mmdebstrap e2fsprogs xfsprogs util-linux fdisk qemu-utils qemu-system-x86 debian-archive-keyring"
PACKAGES = (
    "dbus",
    "e2fsprogs",
    "initramfs-tools",
    "kmod",
    "linux-image-cloud-amd64",
    "procps",
    "python3",
    "python3-venv",
    "strace",
    "systemd-sysv",
    "udev",
    "zstd",
)
BUILD_TIMEOUT_S = 600
VENV = "/opt/hosttune"
# They take seconds of every boot or, at a moment of their own, rewrite files that the tests watch.
# systemd-binfmt: without it /proc/sys/fs/binfmt_misc is an automount that nobody has touched yet,
# as on most servers; a tool that only reads must not trigger it.
MASKED = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fsidd.service",
    "getty@tty1.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@loop.service",
    "nfs-blkmap.service",
    "nfs-client.target",
    "nfs-server.service",
    "rpcbind.service",
    "rpcbind.socket",
    "systemd-binfmt.service",
    "systemd-networkd-wait-online.service",
    "systemd-sysusers.service",
    "systemd-update-utmp-runlevel.service",
)
# Of guests that boot often: what costs half of a boot under emulation, and tells nothing.
MASKED_WITH_MENU = (
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "modprobe@configfs.service",
    "modprobe@fuse.service",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-timesyncd.service",
)
# Programs that systemd starts at each boot and each daemon-reload: none of them finds anything in
# these guests.
GENERATORS = (
    "systemd-cryptsetup-generator",
    "systemd-gpt-auto-generator",
    "systemd-hibernate-resume-generator",
    "systemd-integritysetup-generator",
    "systemd-rc-local-generator",
    "systemd-run-generator",
    "systemd-ssh-generator",
    "systemd-system-update-generator",
    "systemd-tpm2-generator",
    "systemd-veritysetup-generator",
)
# At a boot udev looks at each device that is there, half of which are consoles and the like.
TRIGGER = """\
[Service]
ExecStart=
ExecStart=-udevadm trigger --type=subsystems --action=add
ExecStart=-udevadm trigger --type=devices --action=add --prioritized-subsystem=block --subsystem-nomatch=tty \
--subsystem-nomatch=vc --subsystem-nomatch=memory --subsystem-nomatch=wakeup --subsystem-nomatch=event_source
ExecStart=-udevadm trigger --action=add /sys/class/tty/ttyS0
"""
# systemd waits 90 s for a device; beside other work an emulated machine may take longer until udev
# gets to it. What a line of fstab says goes before this.
DEVICES = "[Unit]\nJobRunningTimeoutSec=10min\n"

ROOT_UUID = "3f0a3c52-0b65-4a40-9a0e-6f3d7f9f2a01"
DATA_UUID = "c4b7a9d0-5f1e-4a57-8c1b-2b9d0e6f7a02"
BOOT_UUID = "b7e1d6c4-2a0f-4c93-8d55-0e5a1c9f4b05"
SWAP_UUID = "8d2e6b14-93cf-4d0b-a6a5-51c0f4e3bd03"
DATA_LINE = f"UUID={DATA_UUID}\t/data  \text4    defaults\t0  2   # moved from sdb, April 2023"
# As people leave it behind: tabs and blanks, a comment after field 6, an indented comment, no line
# feed at the end.
FRESH_UUID = "e19d0a77-6a0c-4b5e-8f51-7d2c3b4a5e04"
FSTAB = f"""\
# /etc/fstab: static file system information.
#
# <file system> <mount point>   <type>  <options>       <dump>  <pass>
UUID={ROOT_UUID} /               ext4    errors=remount-ro 0       1

# bulk data; ask Petra before you touch this one!
{DATA_LINE}
  # swap is small on purpose
UUID={SWAP_UUID} none            swap    sw              0       0"""
SITE_SYSCTL = "# set by hand, keep\nnet.core.somaxconn = 4096\n"
# tsc=reliable: else the kernel takes a clock that costs an exit to qemu at each look, or, on a busy
# machine, another in some boots, and a boot on trial is then not as before. norandmaps: qemu 7.2
# finds what it has translated by virtual address, so a program at the same address as last time is
# not translated again (a boot takes 13 s instead of 16 s of this machine's processors, `check` 7.5
# s instead of 9.6 s).
KERNEL_WORDS = "console=ttyS0 systemd.show_status=1 no_timer_check tsc=reliable norandmaps"
GRUB_DEFAULTS = f"""\
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="{KERNEL_WORDS}"
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"
GRUB_DISABLE_OS_PROBER=true
"""
NETWORK = """\
[Match]
Type=ether

[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
DNS=10.0.2.3
"""
AGENT_UNIT = """\
[Unit]
Description=Runs commands for the test harness
BindsTo=dev-virtio\\x2dports-hosttune.agent.device
After=dev-virtio\\x2dports-hosttune.agent.device

[Service]
ExecStart=/usr/bin/python3 /usr/local/lib/hosttune-agent.py
TimeoutStopSec=5
"""


class MissingToolsError(RuntimeError):
    """A program that the guest needs is not installed; the message has the line that installs
    it.
    """


@dataclass(frozen=True, slots=True)
class Recipe:
    """One Debian. A guest that boots itself has GRUB on its own disk; the other is given kernel and
    initrd by qemu.
    """

    suite: str
    packages: tuple[str, ...] = PACKAGES
    boots_itself: bool = False
    has_fresh_disk: bool = (
        False  # a fourth disk with an xfs of the label `fresh` that no line names
    )
    idle: tuple[str, ...] = ()  # units of its packages that no boot starts: a test does
    has_two_nodes: bool = False  # NUMA, each with half of processors and memory
    has_menu: bool = (
        False  # GRUB as Debian sets it up: `update-grub` makes its menu; and a network card
    )
    is_bare: bool = False  # looks like no virtual machine: a server's firmware, an IOMMU, a SATA disk that keeps nothing
    is_boot_apart: bool = False  # /boot is a file system of its own, on a disk before all others


BOOKWORM = Recipe("bookworm")
TRIXIE = Recipe(
    "trixie",
    (*PACKAGES, "docker.io", "grub-common", "grub-pc-bin", "needrestart", "nfs-kernel-server"),
    boots_itself=True,
    has_fresh_disk=True,
    idle=("containerd.service", "docker.service", "docker.socket"),
    has_two_nodes=True,
)
# Small servers with a boot menu and a way in, for what is on trial over a reboot.
_MENU = (*PACKAGES, "grub-common", "grub-pc-bin", "grub2-common", "iproute2", "openssh-server")
BOOKWORM_MENU = Recipe("bookworm", _MENU, boots_itself=True, has_menu=True)
TRIXIE_MENU = Recipe("trixie", _MENU, boots_itself=True, has_menu=True)
# Bare metal, and what the rules of services are about, none of it started at boot.
TRIXIE_BARE = Recipe(
    "trixie",
    (
        *_MENU, "nfs-kernel-server", "systemd-coredump", "systemd-oomd", "systemd-timesyncd",
        "unattended-upgrades",
    ),
    boots_itself=True,
    idle=("systemd-oomd.service", "systemd-oomd.socket", "unattended-upgrades.service"),
    has_two_nodes=True,
    has_menu=True,
    is_bare=True,
)  # fmt: skip
TRIXIE_BOOT_APART = Recipe(
    "trixie", (*_MENU, "lvm2"), boots_itself=True, has_menu=True, is_boot_apart=True
)


@dataclass(frozen=True, slots=True)
class Image:
    """The read-only parts that every guest starts from."""

    folder: Path
    recipe: Recipe = BOOKWORM

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd.img"

    @property
    def disks(self) -> tuple[Path, ...]:
        """As the guest sees them: /dev/vda (root), /dev/vdb (data), /dev/vdc (swap), /dev/vdd
        (fresh, where it is); where /boot is apart, its disk is /dev/vda.
        """
        first = ("boot",) if self.recipe.is_boot_apart else ()
        names = (
            *first,
            "root",
            "data",
            "swap",
            *(("fresh",) if self.recipe.has_fresh_disk else ()),
        )
        return tuple(self.folder / f"{name}.img" for name in names)

    @property
    def root(self) -> tuple[Path, int]:
        """The disk of the root file system, and where it begins there, in bytes."""
        is_in_partition = self.recipe.boots_itself and not self.recipe.is_boot_apart
        return self.folder / "root.img", PARTITION_AT if is_in_partition else 0


def require_tools() -> None:
    """Raise MissingToolsError when a program is absent."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise MissingToolsError(f"not installed: {', '.join(missing)}. As root: {APT_LINE}")
    if os.geteuid() != 0:
        raise MissingToolsError(
            "building the guest's image needs root: mmdebstrap keeps file owners"
        )


def get(recipe: Recipe = BOOKWORM) -> Image:
    """The image of a recipe, built now when the cache lacks it (about a minute)."""
    require_tools()
    here = Path(__file__)
    name = named(
        "image",
        here.read_bytes(),
        here.with_name("agent.py").read_bytes(),
        debian.MMDEBSTRAP,
        recipe,
    )
    return Image(kept(name, lambda work: _build(work, recipe)), recipe)


def _build(image: Path, recipe: Recipe) -> None:
    work = image / "work"
    tree, extra = work / "tree", work / "extra"
    _write_extra(extra, recipe)
    # Before the kernel is installed, so that its initrd is made small at once. The venv is a
    # minute's work under emulation, two seconds here.
    venv = f'--customize-hook=chroot "$1" python3 -m venv {VENV}'
    idle = f'--customize-hook=chroot "$1" systemctl --quiet disable {" ".join(recipe.idle)}'
    network = '--customize-hook=chroot "$1" systemctl --quiet enable systemd-networkd.service'
    options = (
        "--dpkgopt=force-confold", venv, *((idle,) if recipe.idle else ()), *((network,) if recipe.has_menu else ()),
    )  # fmt: skip
    debian.fill(tree, recipe.suite, *recipe.packages, options=options, files=extra)
    (tree / "data").mkdir()
    if recipe.is_boot_apart:
        _make_boot_disk(image / "boot.img", tree)
        _make_ext4(image / "root.img", "3G", ROOT_UUID, tree)
    elif recipe.boots_itself:
        _make_bootable_disk(image / "root.img", tree)
    else:
        for name in ("vmlinuz", "initrd.img"):
            shutil.copy(_kernel_part(tree, name), image / name)
        _make_ext4(image / "root.img", "3G", ROOT_UUID, tree)
    seed = work / "data"
    seed.mkdir()
    (seed / "sample.bin").write_bytes(bytes(range(256)) * 4096)
    _make_ext4(image / "data.img", "512M", DATA_UUID, seed)
    swap = image / "swap.img"
    swap.touch(mode=0o600)
    os.truncate(swap, 256 << 20)
    _call(["mkswap", "--uuid", SWAP_UUID, str(swap)])
    if recipe.has_fresh_disk:
        fresh = image / "fresh.img"
        fresh.touch()
        os.truncate(fresh, 320 << 20)
        _call(["mkfs.xfs", "-q", "-L", "fresh", "-m", f"uuid={FRESH_UUID}", str(fresh)])
    shutil.rmtree(work)


def _kernel_part(tree: Path, name: str) -> Path:
    (found,) = (tree / "boot").glob(f"{name}-*")
    return found


def _make_ext4(file: Path, size: str, uuid: str, content: Path, *options: str) -> None:
    _call(["mke2fs", "-q", "-t", "ext4", "-U", uuid, *options, "-d", str(content), str(file), size])


SECTOR = 512
PARTITION_AT = 1 << 20
GRUB_MODULES = ("biosdisk", "part_msdos", "ext2", "linux", "normal", "configfile", "serial", "echo")
GRUB_CFG = """\
serial --unit=0 --speed=115200
terminal_output serial
set timeout=0
menuentry hosttune-test {{
  linux {boot}/{kernel} root=UUID={root} rw quiet {words}
  initrd {boot}/{initrd}
}}
"""


def _make_bootable_disk(file: Path, tree: Path) -> None:
    """The root file system on a disk with GRUB."""
    _write_grub(tree, "/boot")
    _make_disk_with_grub(file, "3G", ROOT_UUID, tree, tree / "boot/grub/core.img", tree)


def _make_boot_disk(file: Path, tree: Path) -> None:
    """What the tree has below /boot, on a disk of its own with GRUB; the tree keeps the empty
    folder.
    """
    _write_grub(tree, "")
    seed = tree.with_name("boot")
    (tree / "boot").rename(seed)
    (tree / "boot").mkdir()
    _make_disk_with_grub(file, "512M", BOOT_UUID, seed, seed / "grub/core.img", tree)


def _write_grub(tree: Path, boot: str) -> None:
    """GRUB's core, its modules and a menu of one entry; `boot` is where GRUB finds what lies below
    /boot.
    """
    grub = tree / "boot/grub"
    grub.mkdir(exist_ok=True)
    kernel, initrd = _kernel_part(tree, "vmlinuz").name, _kernel_part(tree, "initrd.img").name
    menu = GRUB_CFG.format(
        kernel=kernel, initrd=initrd, root=ROOT_UUID, boot=boot, words=KERNEL_WORDS
    )
    (grub / "grub.cfg").write_text(menu, encoding="utf-8")
    core = [
        "grub-mkimage",
        "-O",
        "i386-pc",
        "-p",
        f"(hd0,msdos1){boot}/grub",
        "-o",
        "/boot/grub/core.img",
    ]
    _call(["chroot", str(tree), *core, *GRUB_MODULES])
    modules = grub / "i386-pc"
    modules.mkdir(exist_ok=True)
    for path in (tree / "usr/lib/grub/i386-pc").glob("*"):
        if path.suffix in {".mod", ".lst"}:
            shutil.copy(path, modules)


def _make_disk_with_grub(
    file: Path, size: str, uuid: str, content: Path, core: Path, tree: Path
) -> None:
    """A disk with one partition, and GRUB as grub-install would put it on a BIOS machine: boot.img
    in the first sector, the core right behind it, which is where boot.img looks for it by default.
    """
    # GRUB does not read all of what a newer mke2fs switches on.
    plain = ("-O", "^metadata_csum_seed,^orphan_file", "-E", f"offset={PARTITION_AT}")
    file.touch()
    os.truncate(file, PARTITION_AT + (int(size[:-1]) << {"M": 20, "G": 30}[size[-1]]))
    _make_ext4(file, size, uuid, content, *plain)
    script = f"label: dos\nstart={PARTITION_AT // SECTOR}, type=83, bootable\n"
    _call(["sfdisk", "--quiet", str(file)], script)
    boot = (tree / "usr/lib/grub/i386-pc/boot.img").read_bytes()
    with file.open("r+b") as disk:
        disk.write(boot[:440])  # the partition table begins behind it
        disk.seek(SECTOR)
        disk.write(core.read_bytes())


def _write_extra(extra: Path, recipe: Recipe) -> None:
    """The files that make the tree a small server of its own, and reachable by the harness."""
    files = {
        "etc/fstab": FSTAB,
        "etc/hostname": "spine\n",
        "etc/hosts": "127.0.0.1\tlocalhost\n127.0.1.1\tspine\n",
        # A fixed id: with an empty one systemd takes each boot of a fresh overlay for a first boot
        # and rewrites /etc.
        "etc/machine-id": hashlib.md5(recipe.suite.encode(), usedforsecurity=False).hexdigest()
        + "\n",
        "etc/sysctl.d/30-site.conf": SITE_SYSCTL,
        "etc/initramfs-tools/conf.d/small": "MODULES=list\nCOMPRESS=zstd\n",
        "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
        "etc/systemd/system/hosttune-agent.service": AGENT_UNIT,
        "etc/systemd/system/device.d/10-slow.conf": DEVICES,
        "etc/systemd/system/systemd-udev-trigger.service.d/less.conf": TRIGGER,
        "usr/local/lib/hosttune-agent.py": Path(__file__)
        .with_name("agent.py")
        .read_text(encoding="utf-8"),
    }
    if recipe.is_boot_apart:
        files["etc/fstab"] += f"\nUUID={BOOT_UUID} /boot ext4 defaults 0 2\n"
    if recipe.has_menu:
        files |= {"etc/default/grub": GRUB_DEFAULTS, "etc/systemd/network/10-wire.network": NETWORK}
    for name, text in files.items():
        path = extra / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    generators = extra / "etc/systemd/system-generators"
    generators.mkdir()
    for name in GENERATORS:
        (generators / name).symlink_to("/dev/null")
    units = extra / "etc/systemd/system"
    for unit in (*MASKED, *(MASKED_WITH_MENU if recipe.has_menu else ())):
        (units / unit).symlink_to("/dev/null")
    wants = units / "multi-user.target.wants"
    wants.mkdir()
    (wants / "hosttune-agent.service").symlink_to("../hosttune-agent.service")


def _call(argv: list[str], text: str = "") -> None:
    done = subprocess.run(
        argv,
        check=False,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=BUILD_TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout[-4000:]}"
        )
