"""User namespaces for ordinary users, which unprivileged containers (Apptainer, enroot, rootless
Podman) are made of.

Sources: user_namespaces(7), namespaces(7) (user.max_user_namespaces); Ubuntu's AppArmor, from 23.10
on with kernel.apparmor_restrict_unprivileged_userns: a program whose profile has no `userns` gets a
namespace without rights.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt, lazy, make_shared
from hosttune.facts.reading import names_in, read_integer, read_text, require_sure
from hosttune.facts.subject import Subject, number, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

RESTRICTED = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
MOST = "/proc/sys/user/max_user_namespaces"
_PROFILES = "/etc/apparmor.d"
# package -> where its program is, as AppArmor's profiles would name it
_PROGRAMS = {
    "apptainer": "/usr/bin/apptainer", "singularity-ce": "/usr/bin/singularity",
    "singularity-container": "/usr/bin/singularity", "enroot": "/usr/bin/enroot",
}  # fmt: skip
_LETS = regex(r"^[^\S\n]*(?:allow[^\S\n]+)?userns\b|flags\s*=\s*\([^()]*unconfined", re.MULTILINE)


@frozen
class UsernsProgram(Fact):
    """A container program of ordinary users."""

    package: str  # the package that brings it
    path: str  # the program
    # the file in /etc/apparmor.d that lets it make user namespaces; empty where none does
    profile: str


@frozen
class Userns(Subject):
    """Who may make user namespaces."""

    # by AppArmor: only programs with a profile for it
    is_restricted: bool = read_with(lambda self: read_integer(self.reader, RESTRICTED) == 1)
    # of one user (user.max_user_namespaces); 0 forbids them to all
    most: int = number(MOST, absent=0)
    # that are installed and need them
    programs: tuple[UsernsProgram, ...] = read_with(
        lambda self: _find_programs(self.reader, self.facts)
    )

    @property
    def without_profile(self) -> tuple[str, ...]:
        """The paths of those that AppArmor does not let."""
        return tuple(program.path for program in self.programs if not program.profile)


def allows_userns(profile: str, path: str) -> bool:
    """Whether a profile's text is about a program and lets it make user namespaces: `userns,`, or
    unconfined.
    """
    name = path.rpartition("/")[2]
    # From the first slash of a word that begins a path: of a word with many each would be looked
    # through again.
    path_words = r"(?<!\S)(?:[^\s/]|(?<=[\w-])/)*/\S*/"
    about = rf"^[^\S\n]*profile\s+\S*\b{re.escape(name)}\b|{path_words}{re.escape(name)}\b"
    return re.search(about, profile, re.MULTILINE) is not None and _LETS.search(profile) is not None


def _find_programs(reader: Reader, facts: Facts) -> tuple[UsernsProgram, ...]:
    installed = [package for package in _PROGRAMS if facts.packages[package].is_installed]
    profiles = make_shared(lambda: dict(_read_profiles(reader)))
    return tuple(
        UsernsProgram(one, _PROGRAMS[one], lazy(_find_profile, profiles, _PROGRAMS[one]))
        for one in installed
    )


def _find_profile(profiles: Callable[[], dict[str, str]], program: str) -> str:
    return next(
        (path for path, content in profiles().items() if allows_userns(content, program)), ""
    )


def _read_profiles(reader: Reader) -> Iterator[tuple[str, str]]:
    """(path, text) of the profiles that are not switched off (aa-disable(8))."""
    off = names_in(reader, f"{_PROFILES}/disable")
    for path in (f"{_PROFILES}/{name}" for name in names_in(reader, _PROFILES) if name not in off):
        content = attempt(read_text, reader, path)
        if isinstance(content, str):
            yield path, content
        # A folder of /etc/apparmor.d cannot be read as text either, and has no profile to miss.
        elif getattr(reader.stat(path), "type", "") == "file":
            require_sure(content)
