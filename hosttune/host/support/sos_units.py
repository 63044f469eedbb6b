"""Units of systemd in a sosreport, as `systemctl show` has them. Pure.

Loaded services are as systemd showed them; the others are what the lists of units and of unit files
say.

Sources: systemctl(1), systemd-delta(1), systemd.unit(5); sos 4.0 to 4.12
(sos/report/plugins/systemd.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from hosttune.host.known.unit_folders import LOAD_PATH, LOCAL
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_SHOWN: Final = "systemctl show *service --all"
_FILES: Final = "systemctl list-unit-files"
_LOADED: Final = "systemctl list-units"
_STATUS: Final = "systemctl status --all"
_DELTA: Final = "systemd-delta"
_FAILED: Final = "systemctl list-units --failed"
_FILE = regex(r"(\S{1,255}\.[a-z]{3,9}) {1,300}([a-z-]{1,20})(?: {1,40}([a-z-]{1,20}))? {0,300}")
_UNIT = regex(
    r"(?:\S )? {0,3}(\S{1,255}\.[a-z]{3,9}) {1,300}([a-z-]{1,20}) {1,9}([a-z-]{1,20}) {1,9}"
    r"([a-z-]{1,20})"
    r"(?: .{0,4000})?"
)
_STATES: Final = frozenset({"enabled", "disabled", "static", "masked"})
# systemctl(1) itself says it; below a unit are its processes and the log, whose words are of users.
_CHANGED = regex(r"^Warning: .{1,4000} changed on disk", re.MULTILINE)


class SosUnits:
    """What is known of units. `failed` is None where that is not known."""

    def __init__(
        self, answers: Mapping[str, str], listings: Mapping[str, Any], collected: Collection[str]
    ) -> None:
        """`collected` are the names of the unit files in the archive."""
        self._shown = _part_paragraphs(answers.get(_SHOWN, ""))
        rows = filter(None, map(_FILE.fullmatch, answers.get(_FILES, "").split("\n")))
        self._files = {row[1]: (row[2], row[3] or "") for row in rows}
        loaded = answers.get(f"{_LOADED} --all", answers.get(_LOADED, ""))
        self._loaded = {
            row[1]: row for row in filter(None, map(_UNIT.fullmatch, loaded.split("\n")))
        }
        self._listings = listings
        self._is_known = bool(self._shown and self._files and self._loaded)
        self._is_fresh = _STATUS in answers and not _CHANGED.search(answers[_STATUS])
        lasting = {name for name, (state, _) in self._files.items() if state != "transient"}
        self.has_no_local = (
            self._is_known and LOCAL not in answers.get(_DELTA, LOCAL) and lasting <= {*collected}
        )
        self.failed = _list_failed(answers[_FAILED]) if _FAILED in answers else None

    def has_file(self, start: str) -> bool:
        """Whether there may be a unit file whose name begins so."""
        return not self._is_known or any(
            name.startswith(start) for name in (*self._files, *self._loaded, *self._shown)
        )

    def show(self, properties: Collection[str], names: Sequence[str]) -> str | None:
        """The output of `systemctl show` for these; None where it is not known of one of them."""
        found = [self._show_unit(name) for name in names]
        if not self._is_known or None in found:
            return None
        return (
            "\n\n".join(
                "\n".join(f"{key}={one[key]}" for key in properties if key in one)
                for one in found
                if one is not None
            )
            + "\n"
        )

    def _show_unit(self, name: str) -> Mapping[str, str] | None:
        if name in self._shown:
            return self._shown[name]
        if "@" in name:  # its template may be there
            return None
        row = self._loaded.get(name)
        if name not in self._files:
            # Loaded without a file of its own, as by a generator: the lists say too little of it.
            if row is not None and row[2] != "not-found":
                return None
            return {
                "Id": name,
                "Names": name,
                "LoadState": "not-found",
                "ActiveState": row[3] if row else "inactive",
            }
        state, preset = self._files[name]
        path = self._find_file(name)
        if state not in _STATES or not path or not self._is_fresh:
            return None
        return {
            "Id": name, "Names": name, "LoadState": "masked" if state == "masked" else "loaded",
            "ActiveState": row[3] if row else "inactive", "UnitFileState": state,
            "UnitFilePreset": preset.strip("-"), "FragmentPath": path, "DropInPaths": "",
            "NeedDaemonReload": "no",
        }  # fmt: skip

    def _find_file(self, name: str) -> str:
        """Empty where it is not known which file counts, or where drop-ins change it."""
        if not self.has_no_local:
            return ""
        own = {f"{name}.d", f"{name.rpartition('.')[2]}.d", *_list_shared(name)}
        folders = [
            (folder, self._listings[folder])
            for folder in LOAD_PATH
            if isinstance(self._listings.get(folder), list)
        ]
        if any(own & {*names} for _, names in folders):
            return ""
        return next((f"{folder}/{name}" for folder, names in folders if name in names), "")


def _list_shared(name: str) -> set[str]:
    """foo-bar.timer is also changed by what is in foo-.timer.d."""
    stem, _, kind = name.rpartition(".")
    return {f"{stem[: at + 1]}.{kind}.d" for at, sign in enumerate(stem) if sign == "-"}


def _part_paragraphs(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for paragraph in text.split("\n\n"):
        values = dict(row.partition("=")[::2] for row in paragraph.split("\n") if "=" in row)
        for name in {values.get("Id", ""), *values.get("Names", "").split()} - {""}:
            found[name] = values
    return found


def _list_failed(text: str) -> str:
    """In the form of `--plain --no-legend`."""
    rows = filter(None, map(_UNIT.fullmatch, text.split("\n")))
    return "".join(f"{row[1]} {row[2]} {row[3]} {row[4]} \n" for row in rows if row[3] == "failed")
