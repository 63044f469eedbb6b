"""/tmp: what is mounted there, and who decides what it is at the next boot; what is in it is in
`filling`.

The order is systemd's: a drop-in in tmp.mount.d beats all, then a unit in /etc (or /run), then
fstab, then the unit of the distribution (systemd.mount(5); Ubuntu from 24.10 and Debian 13 ship and
enable one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.reading import names_in, read_texts
from hosttune.facts.services.unit_files import is_mask, parse_assignments
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.host.known.unit_folders import LOAD_PATH, OF_ADMINISTRATORS, PACKAGES, SPLIT
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader

T = TypeVar("T")
UNIT = "tmp.mount"
_WANTS = "local-fs.target.wants"
OWN = "60-hosttune-"  # our drop-ins; they are no decision of someone else


@frozen
class Tmp(Subject):
    """/tmp now (`fstype` to `size_bytes`), and its home: who mounts it at the next boot."""

    # /tmp is a symbolic link
    is_symlink: bool = read_with(lambda self: isinstance(self.reader.link("/tmp"), str))

    @fact
    def home(self) -> str:
        """`fstab` | fstab-other | dropin | etc-unit | unit-other (no tmpfs) | masked | usr-unit |
        none.
        """
        return self._home[0]

    @fact
    def home_evidence(self) -> str:
        """The same as a sentence, with the file: /etc/fstab line 3: tmpfs /tmp ..."""
        return self._home[1]

    @fact
    def decision(self) -> str:
        """What an administrator decided about /tmp, with its file, as a sentence; empty where there
        is nothing.
        """
        return _find_decision(self.reader, self.facts, *self._home, self._fragment[0])

    @fact
    def fstype(self) -> str:
        """Of the mount that /tmp is on."""
        return self._live(lambda found: found.fstype, "")

    @fact
    def is_mount(self) -> bool:
        """Something is mounted on /tmp."""
        return self._live(_is_own, nothing=False)

    @fact
    def is_tmpfs(self) -> bool:
        """/tmp is a tmpfs."""
        return self._live(_is_tmpfs, nothing=False)

    @fact
    def size_bytes(self) -> int | None:
        """Of a live tmpfs; 0 is unlimited; None when it is not a tmpfs."""
        return self._live(lambda found: found.total_bytes if _is_tmpfs(found) else None, None)

    @fact
    def disk_bytes(self) -> int:
        """The size of the file system that /tmp is on; 0 under another root."""
        return self._live(lambda found: found.total_bytes, 0)

    @fact
    def disk_used_bytes(self) -> int:
        """What is used of it, by /tmp and whatever else is there."""
        return self._live(lambda found: found.total_bytes - found.available_bytes, 0)

    @fact
    def has_usr_unit(self) -> bool:
        """The distribution brings tmp.mount."""
        return any(_exists(self.reader, f"{folder}/{UNIT}") for folder in (PACKAGES, SPLIT))

    @fact
    def drop_ins(self) -> tuple[str, ...]:
        """Of tmp.mount, ours included, in the order in which they apply.

        By file name; a name in an earlier folder hides the same name in a later one
        (systemd.unit(5)).
        """
        found: dict[str, str] = {}
        for folder in self._folders:
            # A folder that cannot be listed may hold the drop-in that decides, so it raises.
            for name in names_in(self.reader, f"{folder}/{UNIT}.d"):
                if name.endswith(".conf"):
                    found.setdefault(name, f"{folder}/{UNIT}.d/{name}")
        return tuple(found[name] for name in sorted(found))

    @fact
    def unit_options(self) -> str:
        """The Options= that the unit and its drop-ins set, the last one; empty without a unit."""
        return _read_settings(self.reader, self._fragment[0], self.drop_ins).get("Options", "")

    @property
    def _folders(self) -> tuple[str, ...]:
        """Of unit files; an image has no /run of its own."""
        is_image = self.reader.persistent_only
        return tuple(one for one in LOAD_PATH if not (is_image and one.startswith("/run/")))

    @fact
    def _fragment(self) -> tuple[str, bool]:
        """The unit file that counts at the next boot, and whether it is a mask: empty, or a link to
        /dev/null.

        A mask in /run is gone by then: the package of systemd puts an empty file there when an
        upgrade to Ubuntu 26.04 finds a /tmp on disk.
        """
        for folder in self._folders:
            path = f"{folder}/{UNIT}"
            is_masked = is_mask(self.reader, path)
            if is_masked and folder.startswith("/run/"):
                continue
            if is_masked or self.reader.read(path) is not ABSENT:
                return path, is_masked
        return "", False

    @fact
    def _home(self) -> tuple[str, str]:
        return _find_home(
            self.reader, self.facts, self.drop_ins, self._fragment[0], is_masked=self._fragment[1]
        )

    @fact
    def _mount(self) -> Mount | None:
        return _mount(self.reader, self.facts)

    def _live(self, take: Callable[[Mount], T], nothing: T) -> T:
        """What the mount tells; `nothing` where there is none."""
        found = self._mount
        return nothing if found is None else take(found)


def _mount(reader: Reader, facts: Facts) -> Mount | None:
    """What /tmp is on; None under a root where no kernel runs, so that nothing is mounted there."""
    if reader.persistent_only:
        return None
    mounts = facts.mounts.at
    # Without a mount of its own /tmp is a folder of /.
    return mounts.get("/tmp") or mounts.get("/")


def _is_own(mount: Mount) -> bool:
    return mount.target == "/tmp"


def _is_tmpfs(mount: Mount) -> bool:
    return _is_own(mount) and mount.fstype == "tmpfs"


def _exists(reader: Reader, path: str) -> bool:
    return hasattr(reader.stat(path, follow=False), "type")


def _find_home(
    reader: Reader, facts: Facts, drop_ins: tuple[str, ...], fragment: str, *, is_masked: bool
) -> tuple[str, str]:  # fmt: skip
    if is_masked:
        return "masked", f"{fragment} masks {UNIT}"
    is_admin = fragment.startswith(tuple(f"{folder}/" for folder in OF_ADMINISTRATORS))
    # A drop-in also changes the unit that systemd makes of a line of fstab. The unit of a package
    # counts only where there is no such line.
    if other := _no_tmpfs(reader, fragment if is_admin else "", drop_ins):
        return other
    foreign = [path for path in drop_ins if not path.rpartition("/")[2].startswith(OWN)]
    if foreign:
        return "dropin", f"{', '.join(foreign)} changes {UNIT}"
    if is_admin:
        target = reader.link(fragment)
        link = f" (a link to {target})" if isinstance(target, str) else ""
        return "etc-unit", f"{fragment}{link} mounts /tmp"
    entry = facts.fstab.by_path.get("/tmp")
    if entry is not None:
        return (
            "fstab" if entry.fstype == "tmpfs" else "fstab-other"
        ), f"/etc/fstab line {entry.line}: {entry.text}"
    if fragment and any(_exists(reader, f"{folder}/{_WANTS}/{UNIT}") for folder in LOAD_PATH):
        return _no_tmpfs(reader, fragment, drop_ins) or ("usr-unit", f"{fragment} mounts /tmp")
    return "none", "nothing mounts /tmp at boot" + (
        f" ({fragment} is not enabled)" if fragment else ""
    )


def _find_decision(reader: Reader, facts: Facts, home: str, evidence: str, fragment: str) -> str:
    """A line of fstab for a tmpfs is none: its size is what the rule is about."""
    if home == "masked" and "/tmp" not in facts.fstab.by_path:
        return (
            f"{evidence}: an administrator keeps /tmp on the disk (so Debian's release notes say "
            "how)"
        )
    is_own_unit = home == "etc-unit" and not isinstance(
        reader.link(fragment), str
    )  # a link takes the package's as it is
    if is_own_unit or home in ("fstab-other", "unit-other", "dropin"):
        who = "an administrator" if "/etc/" in evidence else "a package"
        return f"{who} decided what /tmp is: {evidence}"
    return ""


def _no_tmpfs(reader: Reader, fragment: str, drop_ins: tuple[str, ...]) -> tuple[str, str] | None:
    """The home and its sentence where the unit mounts anything but a tmpfs; drop-ins alone must set
    Type= for that.

    Without Type= mount(8) takes whatever it finds on What=.
    """
    settings = _read_settings(reader, fragment, drop_ins)
    kind = settings.get("Type", "" if fragment and settings.get("What") else "tmpfs")
    if kind == "tmpfs":
        return None
    places = ", ".join(path for path in (fragment, *drop_ins) if path)
    what = f"{settings.get('What') or 'what it names'} ({kind or 'of whatever type is found'})"
    return "unit-other", f"{places}: {what} is mounted at /tmp"


def _read_settings(reader: Reader, fragment: str, drop_ins: tuple[str, ...]) -> dict[str, str]:
    """What the unit and its drop-ins set, the last value of each key, percent signs as mount(8)
    gets them.
    """
    found: dict[str, str] = {}
    for _, content in read_texts(reader, filter(None, (fragment, *drop_ins))):
        found |= {key: value.replace("%%", "%") for _, _, key, value in parse_assignments(content)}
    return found
