"""Small disks with GRUB and no kernel: what GRUB does with an entry for one boot, in seconds.

The menu is Debian's: 00_header and 41_custom of grub-common make its ends, and the entry between
them is one of 10_linux. In place of the commands `linux` and `initrd` stand functions that print
what they were given and stop, so everything up to the kernel is real: GRUB's file systems, its
environment block, its scripts.

Run as a program, in a mount namespace of its own, it arms a trial on a mounted disk with the code
that does it on a host.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests import debian

if TYPE_CHECKING:
    from hosttune.host.door import Writer

ROOT = Path(__file__).resolve().parents[2]
SECTOR, PARTITION_AT = 512, 1 << 20
DISK_BYTES, XFS_BYTES = 128 << 20, 320 << 20  # mkfs.xfs makes no smaller one
EXTENT_AT = PARTITION_AT + (
    1 << 20
)  # of the first logical volume: the default data alignment of lvm2
RUN = "20261124-100000-1a2b"
OLD_ARGUMENTS = "root=UUID=1 ro quiet"
MODULES = (
    "biosdisk", "part_msdos", "normal", "configfile", "serial", "echo", "halt", "loadenv", "test", "sleep", "search",
    "terminal",
)  # fmt: skip
MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-O", "^metadata_csum_seed,^orphan_file"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-m", "bigtime=0,inobtcount=0"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
GRUB_NAMES = {"ext4": "ext2"}
TERMINAL = {
    "GRUB_TERMINAL_INPUT": "serial",
    "GRUB_TERMINAL_OUTPUT": "serial",
    "GRUB_SERIAL_COMMAND": "serial --unit=0 --speed=115200",
    "GRUB_TIMEOUT": "0",
    "GRUB_DEFAULT": "0",
    "pkgdatadir": "/usr/share/grub",
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
}
# What runs here in place of a kernel.
STAND_INS = """\
function linux {
  for word in $@; do
    echo "word $word"
  done
  echo "BOOTED"
  halt
  sleep 600
}
function initrd {
  echo "no kernel"
}
"""
ENTRY = """\
menuentry 'Debian GNU/Linux' --class debian --class os $menuentry_id_option 'gnulinux-simple-1' {{
	load_video
	insmod gzio
	if [ x$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi
	insmod part_msdos
	echo	'Loading Linux 6.1.0-1-amd64 ...'
	linux	/boot/vmlinuz-6.1.0-1-amd64 {arguments}
	echo	'Loading initial ramdisk ...'
	initrd	/boot/initrd.img-6.1.0-1-amd64
}}
menuentry 'Second' --id second {{
	linux	/boot/vmlinuz-5.10.0-1-amd64 second
	initrd	/boot/initrd.img-5.10.0-1-amd64
}}
"""


@dataclass(frozen=True)
class GrubDisk:
    """A disk image; `at` is the byte where its file system begins."""

    image: Path
    at: int

    def mounted(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run this module with these words on the mounted disk, alone in a mount namespace."""
        command = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            sys.executable,
            "-m",
            "tests.vm.grub_disk",
        ]
        done = subprocess.run(
            [*command, str(self.image), str(self.at), *words],
            check=False, cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
        return done

    def read(self, path: str) -> str:
        """A file of the disk; empty where there is none."""
        return self.mounted("read", path).stdout

    def copy(self, name: str) -> GrubDisk:
        other = self.image.with_name(name)
        copied(self.image, other)
        return GrubDisk(other, self.at)

    def boot(
        self, *, until: str = r"BOOTED|Press any key|grub rescue>|grub>", wait_s: float = 300.0
    ) -> str:
        """What GRUB printed on the serial line up to a line that matches `until`. The machine is
        then switched off.
        """
        command = [
            "qemu-system-x86_64", "-accel", "tcg", "-m", "128", "-display", "none", "-monitor", "none", "-no-reboot",
            "-serial", "stdio", "-drive", f"file={self.image},format=raw,if=ide,cache=writethrough",
        ]  # fmt: skip
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as machine:
            try:
                return _read_until(machine, re.compile(until), wait_s)
            finally:
                machine.kill()


def copied(source: Path, target: Path) -> None:
    _call(["cp", "--sparse=always", str(source), str(target)])


def _read_until(machine: subprocess.Popen[bytes], pattern: re.Pattern[str], wait_s: float) -> str:
    assert machine.stdout is not None
    seen = b""
    end = time.monotonic() + wait_s
    with selectors.DefaultSelector() as waiting:
        waiting.register(machine.stdout, selectors.EVENT_READ)
        while waiting.select(max(0.0, end - time.monotonic())):
            data = os.read(machine.stdout.fileno(), 4096)
            seen += data
            text = plain(seen)
            found = pattern.search(text)
            if not data or (found and "\n" in text[found.start() :]):
                return text
    raise AssertionError(f"GRUB did not come to {pattern.pattern!r}:\n{plain(seen)}")


def plain(data: bytes) -> str:
    """Without the sequences that move a cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode("utf-8", "replace")).replace("\r", "")


def booted(text: str) -> list[str]:
    """The arguments of the kernel that would have been started, behind its path."""
    words = re.findall(r"^word (\S+)$", text, re.MULTILINE)
    return words[1:] if "BOOTED" in text else [f"nothing: {text[-400:]}"]


def menu(tree: Path, *, has_stand_ins: bool = True) -> str:
    """grub.cfg as grub-mkconfig of this Debian writes it, with the stand-ins before the entries."""
    parts = []
    for name in ("00_header", "41_custom"):
        done = subprocess.run(
            ["chroot", str(tree), "sh", f"/etc/grub.d/{name}"],
            check=True, capture_output=True, text=True, timeout=60, env=TERMINAL, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        parts.append(
            f"### BEGIN /etc/grub.d/{name} ###\n{done.stdout}### END /etc/grub.d/{name} ###\n"
        )
    entries = ENTRY.format(arguments=OLD_ARGUMENTS)
    linux = f"### BEGIN /etc/grub.d/10_linux ###\n{entries}### END /etc/grub.d/10_linux ###\n"
    return "".join((parts[0], STAND_INS if has_stand_ins else "", linux, parts[1]))


def make(
    folder: Path, suite: str, kind: str, *, grub_cfg: str = "", modules: Sequence[str] = ()
) -> GrubDisk:
    """A disk with Debian's GRUB; kind: ext4, xfs, btrfs, or lvm (ext4 on a logical volume).
    `grub_cfg`: another menu.
    """
    tree = debian.tree(suite, "grub-common", "grub-pc-bin")
    folder.mkdir(parents=True, exist_ok=True)
    image = folder / f"{suite}-{kind}.img"
    image.touch()
    os.truncate(image, XFS_BYTES if kind == "xfs" else DISK_BYTES)
    script = f"label: dos\nstart={PARTITION_AT // SECTOR}, type={'8e' if kind == 'lvm' else '83'}, bootable\n"
    _call(["sfdisk", "--quiet", str(image)], script)
    fstype = "ext4" if kind == "lvm" else kind
    prefix = "(lvm/vg-root)/boot/grub" if kind == "lvm" else "(hd0,msdos1)/boot/grub"
    names = (
        *MODULES,
        GRUB_NAMES.get(fstype, fstype),
        *(("lvm", "diskfilter") if kind == "lvm" else ()),
        *modules,
    )
    # grub-mkimage syncs what it writes, so it has to be a file.
    bind = 'mount --bind "$1" "$2/mnt" && shift && exec chroot "$@"'
    words = [
        "sh",
        str(folder),
        str(tree),
        "grub-mkimage",
        "-O",
        "i386-pc",
        "-p",
        prefix,
        "-o",
        "/mnt/core.img",
        *names,
    ]
    _call(["unshare", "--mount", "--propagation", "private", "sh", "-c", bind, *words])
    core = (folder / "core.img").read_bytes()
    assert len(core) < PARTITION_AT - SECTOR
    boot = (tree / "usr/lib/grub/i386-pc/boot.img").read_bytes()
    with image.open("r+b") as disk:
        disk.write(boot[:440])
        disk.seek(SECTOR)
        disk.write(core)
    disk_ = GrubDisk(image, EXTENT_AT if kind == "lvm" else PARTITION_AT)
    command = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        sys.executable,
        "-m",
        "tests.vm.grub_disk",
    ]
    _call([*command, str(image), str(disk_.at), "fill", kind], grub_cfg or menu(tree))
    return disk_


def _call(argv: Sequence[str], text: str = "") -> str:
    done = subprocess.run(
        argv,
        check=False,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.returncode}\n{done.stdout}")
    return done.stdout


# What runs in the namespace


def _loop(image: str, at: int) -> str:
    size = Path(image).stat().st_size - at
    return _call(
        ["losetup", "--find", "--show", f"--offset={at}", f"--sizelimit={size}", image]
    ).strip()


def _fill(image: str, at: int, kind: str, target: Path) -> None:
    """Make the file system, and in it what a small server has of GRUB."""
    if kind == "lvm":
        device = _loop(image, PARTITION_AT)
        try:
            # Without a kernel that maps devices: only what is on the disk is made.
            config = f'devices {{ filter=["a|^{device}$|","r|.*|"] }} global {{ use_lvmpolld=0 }}'
            words = ["--config", config, "--driverloaded", "n", "--yes"]
            _call(["pvcreate", *words, device])
            _call(["vgcreate", *words, "vg", device])
            _call(["lvcreate", *words, "--activate", "n", "--zero", "n", "--wipesignatures", "n", "--extents", "100%FREE",
                   "--name", "root", "vg"])  # fmt: skip
        finally:
            _call(["losetup", "--detach", device])
    device = _loop(image, at)
    try:
        _call([*MKFS["ext4" if kind == "lvm" else kind], device])
        _call(["mount", device, str(target)])
        for name, text in (
            ("etc/os-release", "ID=debian\n"),
            ("boot/grub/grub.cfg", sys.stdin.read()),
        ):
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        (target / "etc/systemd/system").mkdir(parents=True)
        block = b"# GRUB Environment Block\n# WARNING: Do not edit this file by tools other than grub-editenv!!!\n"
        (target / "boot/grub/grubenv").write_bytes(block.ljust(1024, b"#"))
        _call(["umount", str(target)])
    finally:
        _call(["losetup", "--detach", device])


def _writer(target: Path, after: Callable[[], None] = lambda: None) -> Writer:
    """A writer below the mounted disk that runs the few programs of a trial on it; `after` each
    write to /boot/grub.
    """
    from hosttune.host.door import Completed
    from hosttune.host.reading.rooted import RootWriter

    class DiskWriter(RootWriter):
        def read(self, path):
            return (
                b"boot-that-armed\n"
                if path.startswith("/proc/sys/kernel/random")
                else super().read(path)
            )

        def replace(self, path, new, *, expected):
            super().replace(path, new, expected=expected)
            if path.startswith("/boot/grub/"):
                after()

        def overwrite(self, path, content, *, expected):
            super().overwrite(path, content, expected=expected)
            after()

        def query(self, argv, *, timeout_s=10.0):
            if argv[0] not in {"grub-script-check", "grub-editenv"}:
                return Completed(0, b"", b"")
            return self._run(
                (
                    argv[0],
                    *(f"{target}{word}" if word.startswith("/") else word for word in argv[1:]),
                )
            )

        def run(self, argv, *, timeout_s):
            done = self._run([f"{target}{word}" if word.startswith("/") else word for word in argv])
            assert done.status == 0, done
            after()
            return done

        def _run(self, argv):
            done = subprocess.run(argv, check=False, capture_output=True, timeout=60)
            return Completed(done.returncode, done.stdout, done.stderr)

    return DiskWriter(str(target))


def _arm(target: Path, image: str) -> None:
    """Ask for one boot with iommu=pt as a run on trial does. Beside the image a copy of it is left
    after each write to /boot/grub, as a power cut would leave the disk then: IMAGE.1, IMAGE.2 ...
    """
    from hosttune.actions.trial import guard as trial_guard
    from hosttune.actions.trial import one_shot
    from hosttune.facts.kernel.boot_entry import parts_of
    from hosttune.facts.kernel.grub import entry_at, parse_menu

    copies = 0

    def copy() -> None:
        nonlocal copies
        copies += 1
        copied(Path(image), Path(f"{image}.{copies}"))

    writer = _writer(target, copy)
    entry = parts_of(
        entry_at(parse_menu((target / "boot/grub/grub.cfg").read_text(encoding="utf-8")), "0")
    )
    trial_guard.arm(writer, RUN, (), within_s=900, has_one_shot=True)
    trial_guard.mark(writer, "settled")
    one_shot.arm_entry(writer, entry, RUN, ("iommu=pt",))


def _disarm(target: Path) -> None:
    from hosttune.actions.trial import one_shot

    one_shot.disarm_entry(_writer(target))


def main(image: str, at: str, verb: str, *words: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder)
        if verb == "fill":
            _fill(image, int(at), words[0], target)
            return
        device = _loop(image, int(at))
        try:
            _call(["mount", device, folder])
            try:
                if verb == "arm":
                    _arm(target, image)
                elif verb == "disarm":
                    _disarm(target)
                elif verb == "write":
                    (target / words[0][1:]).write_text(words[1], encoding="utf-8")
                elif verb == "remove":
                    (target / words[0][1:]).unlink()
                elif verb == "read":
                    place = target / words[0][1:]
                    sys.stdout.write(place.read_text(encoding="utf-8") if place.exists() else "")
            finally:
                _call(["umount", folder])
        finally:
            _call(["losetup", "--detach", device])


if __name__ == "__main__":
    main(*sys.argv[1:])
