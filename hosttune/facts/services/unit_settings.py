"""What unit files, and the files of systemd's own programs, say for one key:
`unit_settings["slurmd.service/Service/LimitMEMLOCK"]`,
`unit_settings["logind.conf/Login/RemoveIPC"]`.

The drop-ins of all folders are read by name, after the main file, and the last value counts
(systemd.unit(5), logind.conf(5)); of a list, such as ExecStart=, all since the last empty one do
(systemd.service(5)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy, make_shared
from hosttune.facts.lookups import Lookup
from hosttune.facts.placed import Placed
from hosttune.facts.reading import read_texts
from hosttune.facts.services.systemd_config import files_of
from hosttune.facts.services.unit_files import UnitFiles, is_mask, parse_assignments
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_NAME = regex(r"[\w@:.\\-]+\.(?:service|socket|slice|timer|conf)/[A-Z][A-Za-z]*/[A-Z][A-Za-z]*")


@frozen
class UnitSetting(Fact):
    """One key of a unit, or of a configuration file."""

    exists: bool  # the unit is installed, be it masked; a file such as logind.conf always is
    is_masked: bool  # its unit is masked
    # in the order in which systemd reads them; an empty one empties a list
    values: tuple[Placed, ...]

    @property
    def standing(self) -> tuple[Placed, ...]:
        """Of a list what is after every reset."""
        return self.standing_without("")

    def standing_without(self, path: str) -> tuple[Placed, ...]:
        """Of a list what would stand without one of the files."""
        others = [one for one in self.values if one.path != path]
        resets = (number for number, one in enumerate(others, 1) if not one.value)
        return tuple(others[max(resets, default=0) :])


@frozen
class UnitSettings(Subject):
    """`unit_settings["UNIT/SECTION/KEY"]`, for every key; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, UnitSetting]:
        return Lookup(self._look)

    @fact
    def _units(self) -> UnitFiles:
        return UnitFiles(self.reader)

    @fact
    def _files(self) -> Lookup[Callable[[], _UnitFiles]]:
        return Lookup(
            lambda name: (
                make_shared(_read_conf, self.reader, name)
                if name.endswith(".conf")
                else make_shared(_read_unit, self._units, name)
            )
        )

    def _look(self, name: str) -> UnitSetting:
        found = make_shared(_look_up_unit, self._files, name)
        return UnitSetting(
            exists=lazy(lambda: found().exists),
            is_masked=lazy(lambda: found().is_masked),
            values=lazy(lambda: found().values.get((name.split("/")[1], name.split("/")[2]), ())),
        )

    def __getitem__(self, name: str) -> UnitSetting:
        return self.entries[name]

    @staticmethod
    def name_fault(name: str) -> tuple[str, str] | None:
        """What is wrong with a name as a rule writes it, and the way out."""
        if _NAME.fullmatch(name):
            return None
        return (
            f"{name!r} is no UNIT/SECTION/KEY",
            'write it as unit_settings["slurmd.service/Service/LimitMEMLOCK"]',
        )


@frozen
class _UnitFiles:
    """The files of one unit or program, read."""

    exists: bool
    is_masked: bool
    values: Mapping[tuple[str, str], tuple[Placed, ...]]  # by section and key


def _values_in(texts: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], tuple[Placed, ...]]:
    """All that the files say, by section and key: each is read once, however many keys rules ask
    for.
    """
    found: dict[tuple[str, str], list[Placed]] = {}
    for path, content in texts:
        for line, section, key, value in parse_assignments(content):
            found.setdefault((section, key), []).append(Placed(value, path, line))
    return {name: tuple(values) for name, values in found.items()}


def _look_up_unit(files: Lookup[Callable[[], _UnitFiles]], name: str) -> _UnitFiles:
    if fault := UnitSettings.name_fault(name):
        raise UnknownFact(fault[0])
    return files[name.partition("/")[0]]()


def _read_unit(files: UnitFiles, name: str) -> _UnitFiles:
    real, fragment = files.find(name)
    paths = (fragment, *files.drop_ins(real)) if fragment else ()
    is_masked = bool(fragment) and is_mask(files.reader, fragment)
    return _UnitFiles(
        bool(fragment), is_masked, _values_in((path, files.content(path)) for path in paths)
    )


def _read_conf(reader: Reader, name: str) -> _UnitFiles:
    return _UnitFiles(
        exists=True, is_masked=False, values=_values_in(read_texts(reader, files_of(reader, name)))
    )
