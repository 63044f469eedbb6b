"""What an fstab would do, tried in a mount namespace of its own: a program by itself, run by
`host/overlay/rehearsal.py`.

argv: two files (fstab before and after), the same two as findmnt gets them, findmnt or nothing, the
generator of systemd or nothing, a JSON list of tmpfs option lists to mount for trial, and `image`
where the fstab is an image's. Prints one JSON object. All that it writes is in a tmpfs that ends
with this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    0x1,
    0x2,
    0x4,
    0x20,
    0x1000,
    0x4000,
    0x40000,
)
PLACE = Path("/tmp")
PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
TIMEOUT_S = 15
NOBODY = 65534  # as every kernel has it (/proc/sys/kernel/overflowuid)
NOTHING = os.open("/dev/null", os.O_RDONLY)  # of the host, which an empty one lacks


def main() -> None:
    *files, findmnt, generator, trials, whose = sys.argv[1:9]
    before, after, *verified = (Path(file).read_bytes() for file in files)
    enter_private_namespace(CLONE_NEWNS | (CLONE_NEWPID if whose == "image" else 0))
    if whose == "image":
        become_first_process()
        enter_empty_host()
    # A stranger may have written the fstab of an image, and findmnt follows what it names.
    user = NOBODY if whose == "image" else None
    pairs = zip((before, after), verified, strict=True)
    readings = [read(text, for_findmnt, findmnt, generator, user) for text, for_findmnt in pairs]
    json.dump(
        {"readings": readings, "trials": [try_tmpfs(options) for options in json.loads(trials)]},
        sys.stdout,
    )


def enter_private_namespace(kinds: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    check("unshare", libc.unshare(kinds))
    # systemd makes `/` shared, and then what is mounted here would be mounted on the host as well
    # (mount_namespaces(7)).
    check("mount --make-rprivate /", libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    options = b"size=64m,mode=700"
    check(
        "mount -t tmpfs",
        libc.mount(b"tmpfs", bytes(PLACE), b"tmpfs", MS_NOSUID | MS_NODEV, options),
    )


def become_first_process() -> None:
    """Of the new process namespace: its end is that of all in it."""
    # unshare(2) puts only the children into the new namespace of processes.
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def enter_empty_host() -> None:
    """Enter a root that has only the programs of this host. findmnt --verify opens and reads what a
    line names, and an image may name a watchdog, which starts when it is opened, an automount, or
    the registers of a device in /proc/bus. So /proc has no more than this process (`subset=pid`,
    Linux 5.8; proc(5)); the types that the kernel knows are in /etc/filesystems, where libmount
    looks first.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    root = PLACE / "root"
    for folder in ("proc", "tmp", "dev", "etc"):
        (root / folder).mkdir(parents=True)
    root.chmod(0o755)
    shutil.copy("/proc/filesystems", root / "etc")
    for name in PROGRAMS:
        here, there = Path("/", name), root / name
        if here.is_symlink():
            there.symlink_to(os.readlink(here))
        elif here.is_dir():
            there.mkdir()
            check(
                f"mount --bind {here}", libc.mount(bytes(here), bytes(there), None, MS_BIND, None)
            )
            # A new bind mount ignores all other flags; only a remount sets them (mount(2)).
            flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV
            check(f"remount {there} read-only", libc.mount(None, bytes(there), None, flags, None))
    if Path("/etc/ld.so.cache").exists():
        shutil.copy("/etc/ld.so.cache", root / "etc")
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV
    check("mount -t proc", libc.mount(b"proc", bytes(root / "proc"), b"proc", flags, b"subset=pid"))
    os.chroot(root)
    # Without it the working folder is still outside of the new root (chroot(2)).
    os.chdir("/")


def check(step: str, result: int) -> None:
    if result != 0:
        sys.exit(f"{step}: {os.strerror(ctypes.get_errno())}")


def read(
    text: bytes, for_findmnt: bytes, findmnt: str, generator: str, user: int | None
) -> dict[str, object]:
    """What findmnt (as `user`, None: root) and systemd's generator make of it. Always at the same
    paths, so that messages can be compared.
    """
    fstab, units = PLACE / "fstab", PLACE / "units"
    fstab.write_bytes(for_findmnt)
    verify = run([findmnt, "--verify", "--tab-file", str(fstab)], user=user) if findmnt else None
    # The generator opens no source, so it gets the text as it is: names of units follow from the
    # sources.
    fstab.write_bytes(text)
    found: dict[str, object] = {"verify": verify, "units": {}}
    if generator:
        folders = [units / name for name in ("normal", "early", "late")]
        for folder in folders:
            folder.mkdir(parents=True)
        log = {
            "SYSTEMD_LOG_TARGET": "console",
            "SYSTEMD_LOG_LEVEL": "warning",
            "SYSTEMD_LOG_COLOR": "0",
        }
        found["generator"] = run(
            [generator, *map(str, folders)], {"SYSTEMD_FSTAB": str(fstab), **log}
        )
        found["units"] = {
            name: content for folder in folders for name, content in units_in(folder).items()
        }
        shutil.rmtree(units)
    return found


def units_in(folder: Path) -> dict[str, str]:
    """Each file's text, a carriage return in it too: reading as text would hide one at the end of a
    line.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes().decode(
                "utf-8", "surrogateescape"
            )
    return found


def try_tmpfs(options: str) -> dict[str, object]:
    """Mount a tmpfs with these options, without a trace in /run/mount/utab, and tell what the
    kernel made of it.
    """
    place = PLACE / "trial"
    place.mkdir(exist_ok=True)
    words = [
        "--no-mtab",
        "--types",
        "tmpfs",
        "--options",
        options,
        "--source",
        "tmpfs",
        "--target",
        str(place),
    ]
    done = run(["mount", *words])
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line for line in file if line.split(" ")[4] == str(place)]
    if lines:
        run(["umount", "--no-mtab", str(place)])
    return {"mount": done, "mountinfo": lines[-1] if lines else ""}


def run(
    argv: list[str], environment: dict[str, str] | None = None, user: int | None = None
) -> list[object] | None:
    """[status, standard output, standard error]; None for a program that is missing or does not
    end.
    """
    try:
        done = subprocess.run(
            argv,
            check=False,
            stdin=NOTHING,
            capture_output=True,
            timeout=TIMEOUT_S,
            env={**os.environ, **(environment or {})},
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return [
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    ]


if __name__ == "__main__":
    main()
