"""What is wrong with an fstab line because of the folder that it mounts: /, /usr, /tmp and their
like. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from hosttune.facts.storage.fstab_types import ON_DISK
from hosttune.regex import regex
from hosttune.resources.storage.fstab_remark import Remark, RemarkLevel

_OCTAL = regex(r"[0-7]{1,5}")
_EXT = frozenset({"ext2", "ext3", "ext4"})
_OF_EVERYBODY = frozenset({"/tmp", "/var/tmp", "/dev/shm"})
_OF_PROGRAMS = frozenset(
    {"/", "/usr", "/bin", "/sbin", "/lib", "/usr/bin", "/usr/sbin", "/usr/lib"}
)
_OLD_SHM = frozenset({"/run/shm", "/var/run/shm"})
# dpkg(1) starts scripts there
_OF_PACKAGES = frozenset({"/var", "/var/lib", "/var/lib/dpkg", "/var/lib/dpkg/info"})
_SHOWS_ALL = frozenset({"hidepid=0", "hidepid=off"})
PLACES = {"/proc"} | _OF_PACKAGES | _OF_EVERYBODY | _OF_PROGRAMS | _OLD_SHM
_NATURALLY_READ_ONLY = frozenset({"squashfs", "erofs", "iso9660", "udf", "cramfs", "romfs"})


def place_remarks(
    number: int, target: str, fstype: str, words: tuple[str, ...], passno: int
) -> Iterator[Remark]:
    """The remarks about a line of one of `PLACES`."""
    if target in _OF_PROGRAMS:
        yield from _program_remarks(number, target, words)
    if target in _OF_PACKAGES and _last_of(words, "exec", "noexec") == "noexec":
        why = (
            "with `noexec` there dpkg cannot start the scripts in /var/lib/dpkg/info: apt fails at "
            "most packages"
        )
        yield Remark(number, RemarkLevel.WARNING, "noexec-packages", why, "take noexec out")
    if target == "/proc" and not any(word.startswith("gid=") for word in words):
        hides = next((one for one in reversed(words) if one.startswith("hidepid=")), "hidepid=0")
        # https://github.com/systemd/systemd/pull/1051, debops/debops/pull/2307
        if hides not in _SHOWS_ALL:
            why = (
                f"with `{hides}` polkit and monitors that do not run as root see no processes of "
                "others, and what users ask of systemd may fail"
            )
            todo = (
                "take hidepid out, or name a group that sees them (gid=), and make these services "
                "its members"
            )
            yield Remark(number, RemarkLevel.NOTE, "hidepid", why, todo)
    if target == "/" and fstype in ON_DISK:
        yield from _root_remarks(number, fstype, words, passno)
    if target in _OLD_SHM and fstype == "tmpfs":
        why = (
            f"programs share memory in /dev/shm, and {target} is at most a link to it: this "
            "changes nothing of /dev/shm"
        )
        yield Remark(
            number,
            RemarkLevel.NOTE,
            "old-shm",
            why,
            "write /dev/shm as its target, if that is meant",
        )
    if target in _OF_EVERYBODY and fstype == "tmpfs":
        mode = next((word[5:] for word in reversed(words) if word.startswith("mode=")), "1777")
        if _OCTAL.fullmatch(mode) and not int(mode, 8) & 0o002:
            why = (
                f"with `mode={mode}` only its owner can write to {target}: programs of all others "
                "fail there"
            )
            yield Remark(number, RemarkLevel.WARNING, "tmp-mode", why, "write mode=1777")


def _program_remarks(number: int, target: str, words: tuple[str, ...]) -> Iterator[Remark]:
    if _last_of(words, "exec", "noexec") == "noexec":
        why = f"with `noexec` no program of {target} can be started, and the boot stops"
        yield Remark(
            number, RemarkLevel.ERROR, "noexec-system", why, "take noexec out", is_sure=True
        )
    elif _last_of(words, "suid", "nosuid") == "nosuid":
        why = f"with `nosuid` sudo, su and passwd below {target} do not work for users"
        yield Remark(number, RemarkLevel.WARNING, "nosuid-system", why, "take nosuid out")


def _root_remarks(
    number: int, fstype: str, words: tuple[str, ...], passno: int
) -> Iterator[Remark]:
    if _last_of(words, "rw", "ro") == "ro" and fstype not in _NATURALLY_READ_ONLY:
        why = (
            "with `ro` the root file system stays read-only after a boot: packages, logs and jobs "
            "cannot write to it"
        )
        yield Remark(
            number, RemarkLevel.NOTE, "root-read-only", why, "take ro out, unless that is meant"
        )
    if fstype in _EXT and not passno:
        why = "the sixth field of / is 0, so systemd does not check it at a boot; an initramfs may"
        yield Remark(number, RemarkLevel.NOTE, "root-passno", why, "write 1")


def _last_of(words: tuple[str, ...], *wanted: str) -> str:
    return next((word for word in reversed(words) if word in wanted), "")
