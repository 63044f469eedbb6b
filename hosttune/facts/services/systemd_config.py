"""Settings of systemd's own programs: sleep.conf, logind.conf and their like, merged as systemd
merges them.

The main file is the first of those in /etc, /run and /usr/lib; then come all NAME.d/*.conf by the
names of the files, of which one in /etc hides those of the same name in /run and /usr/lib; the last
value counts (systemd.syntax(7), logind.conf(5), "Configuration Directories and Precedence").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.reading import if_absent, names_in, read_text, read_texts
from hosttune.facts.services.unit_files import parse_assignments
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_NUMBER = regex(r"\d{1,4}")
_ROOTS = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd")


def parse(content: str, section: str) -> Mapping[str, str]:
    """KEY=VALUE of one section; the last of several counts."""
    return {key: value for _, its, key, value in parse_assignments(content) if its == section}


def read_settings(reader: Reader, name: str, section: str) -> Mapping[str, tuple[str, str]]:
    """Key -> (value, the file that sets it last), of `name` (logind.conf)."""
    found: dict[str, tuple[str, str]] = {}
    for path in files_of(reader, name):
        content = if_absent(read_text(reader, path), "")
        found |= {key: (value, path) for key, value in parse(content, section).items()}
    return found


def files_of(reader: Reader, name: str) -> tuple[str, ...]:
    """The files of `name` (logind.conf) in the order in which they are read. Of an image /run is
    made anew at boot.
    """
    roots = [root for root in _ROOTS if not (reader.persistent_only and root.startswith("/run/"))]
    files: dict[str, str] = {}
    for root in reversed(roots):
        files |= {one: f"{root}/{name}.d/{one}" for one in names_in(reader, f"{root}/{name}.d")}
    main = next((path for path, _ in read_texts(reader, (f"{root}/{name}" for root in roots))), "")
    return (*filter(None, (main,)), *(files[one] for one in sorted(files) if one.endswith(".conf")))


def find_systemd_version(facts: Facts) -> int:
    """258; 0 where it is not known."""
    try:
        match = _NUMBER.match(facts.packages["systemd"].version)
    except UnknownFact:
        return 0
    return int(match[0]) if match else 0
