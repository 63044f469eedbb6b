"""User namespaces for ordinary users, which unprivileged containers (Apptainer, enroot, rootless Podman) are made of.

Sources: user_namespaces(7), namespaces(7) (user.max_user_namespaces); Ubuntu's AppArmor, from 23.10 on with
kernel.apparmor_restrict_unprivileged_userns: a program whose profile has no `userns` gets a namespace without rights.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hosttune.facts.answers import integer, text
from hosttune.facts.base import Fact, UnknownFact, unread
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT, Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

RESTRICTED = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
MOST = "/proc/sys/user/max_user_namespaces"
_PROFILES = "/etc/apparmor.d"
# package -> where its program lies, as AppArmor's profiles would name it
_PROGRAMS = {
    "apptainer": "/usr/bin/apptainer", "singularity-ce": "/usr/bin/singularity",
    "singularity-container": "/usr/bin/singularity", "enroot": "/usr/bin/enroot",
}  # fmt: skip
_LETS = regex(r"^\s*(?:allow\s+)?userns\b|flags\s*=\s*\([^)]*unconfined", re.MULTILINE)


@frozen
class UsernsProgram(Fact):
    """A container program of ordinary users."""

    package: str
    path: str
    profile: str  # the file in /etc/apparmor.d that lets it make user namespaces; empty where none does


@frozen
class Userns(Fact):
    """Who may make user namespaces."""

    is_restricted: bool  # by AppArmor: only programs with a profile for it
    most: int  # of one user (user.max_user_namespaces); 0 forbids them to all
    programs: tuple[UsernsProgram, ...]  # that are installed and need them

    @property
    def without_profile(self) -> tuple[str, ...]:
        """The paths of those that AppArmor does not let."""
        return tuple(program.path for program in self.programs if not program.profile)


def lets(profile: str, path: str) -> bool:
    """Whether a profile's text is about a program and lets it make user namespaces: `userns,`, or unconfined."""
    name = path.rpartition("/")[2]
    about = rf"^\s*profile\s+\S*\b{re.escape(name)}\b|(?<![\w-])/\S*/{re.escape(name)}\b"
    return re.search(about, profile, re.MULTILINE) is not None and _LETS.search(profile) is not None


def collect(reader: Reader, facts: Facts) -> Userns:
    restricted = _or_zero(integer(reader, RESTRICTED))
    return Userns(
        is_restricted=restricted == 1 if isinstance(restricted, int) else restricted,
        most=_or_zero(integer(reader, MOST)),
        programs=_programs(reader, facts),
    )


def _or_zero(answer: Answer[int]) -> Any:
    return 0 if answer is ABSENT else answer


def _programs(reader: Reader, facts: Facts) -> Any:
    try:
        installed = [package for package in _PROGRAMS if facts.packages[package].is_installed]
    except UnknownFact as unknown:
        return unread(unknown.reason)
    profiles = _profiles(reader) if installed else {}
    if isinstance(profiles, Unreadable):
        return profiles
    found = []
    for package in installed:
        path = _PROGRAMS[package]
        names = [name for name, content in profiles.items() if lets(content, path)]
        found.append(UsernsProgram(package, path, f"{_PROFILES}/{names[0]}" if names else ""))
    return tuple(found)


def _profiles(reader: Reader) -> dict[str, str] | Unreadable:
    """The profiles that are not switched off (aa-disable(8)), by file name."""
    names, off = reader.list(_PROFILES), reader.list(f"{_PROFILES}/disable")
    for answer in (names, off):
        if isinstance(answer, Unreadable):
            return answer
    found = {}
    for name in names if isinstance(names, tuple) else ():
        content = text(reader, f"{_PROFILES}/{name}") if not (isinstance(off, tuple) and name in off) else ABSENT
        if isinstance(content, str):
            found[name] = content
    return found
