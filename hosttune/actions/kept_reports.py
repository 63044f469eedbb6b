"""The reports that `check --keep` keeps, one for each day (UTC):
`/var/lib/hosttune/reports/2026-11-22.json`.

The newest days stay, as many as the policy says, and no more than `MOST_BYTES` in all. Days are
counted by the reports that are there, not by the clock: one that was set wrong for a while must not
throw the history away.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

from hosttune.errors import HosttuneError
from hosttune.host.writing import state
from hosttune.regex import regex

PART = "reports"
MOST_BYTES = 64 << 20
_NAME = regex(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.json")
_DAY = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BACK = {"today": 0, "yesterday": 1}  # days


def keep(document: str, created_at: str, days: int, where: str = "") -> None:
    """Keep a report as that of its day (of `created_at`, ISO 8601, UTC), in place of an earlier one
    of it, and drop the oldest ones beyond `days`. Raises HosttuneError where it is too large or
    cannot be written.
    """
    folder = where or state.name_folder(PART)
    # Names from the host may hold lone surrogates, for which UTF-8 has no bytes.
    content = document.encode("utf-8", "backslashreplace")
    if days and len(content) > state.LIMIT:
        message = f"the report is not kept: it is larger than {state.LIMIT >> 20} MiB"
        raise HosttuneError(message, hint="look at what it lists: hosttune check")
    if days:
        state.save(f"{created_at[:10]}.json", content, folder)
    state.sweep_drafts(folder)
    left = MOST_BYTES
    for number, day in enumerate(reversed(kept_days(folder))):
        # Newest first: where the bytes do not suffice it is the oldest days that go.
        left -= state.read_size(f"{day}.json", folder)
        if number >= days or left < 0:
            state.remove(f"{day}.json", folder)


def kept_days(where: str = "") -> tuple[str, ...]:
    """The days of which a report is kept, the oldest first."""
    found = map(_NAME.fullmatch, state.list_names("", where or state.name_folder(PART)))
    return tuple(match[1] for match in found if match)


def day_of(word: str, now: float) -> str | None:
    """The day (UTC) that a word names: an ISO date, today or yesterday; None for any other word."""
    if word in _BACK:
        return (
            datetime.fromtimestamp(now, timezone.utc).date() - timedelta(_BACK[word])
        ).isoformat()
    # Since Python 3.11 fromisoformat also takes 20261122 and weeks. One form of a day names one
    # file.
    if not _DAY.fullmatch(word):
        return None
    try:
        return date.fromisoformat(word).isoformat()
    except ValueError:
        return None


def report_of(day: str, where: str = "") -> tuple[str, bytes]:
    """(path, content) of the report of this day, or of the last day before it of which one is kept.

    Raises HosttuneError where there is none, or it is not one that this user alone could have
    written.
    """
    folder = where or state.name_folder(PART)
    days = kept_days(folder)
    found = max((one for one in days if one <= day), default="")
    if not found:
        message = f"no report of {day} or of a day before it is kept in {folder}"
        way_out = f"the first one is of {days[0]}" if days else _hint(folder)
        raise HosttuneError(message, hint=way_out)
    content = state.load(f"{found}.json", folder)
    if content is None:
        raise HosttuneError(
            f"{folder}/{found}.json: cannot be read, or is not this user's own",
            hint="look at its owner",
        )
    return f"{folder}/{found}.json", content


def _hint(folder: str) -> str:
    if not folder.startswith("/var/lib/"):
        return "those of the daily check are root's: use sudo"
    return (
        "keep one: hosttune check --format json --keep; every day: systemctl enable --now "
        "hosttune-check.timer"
    )
