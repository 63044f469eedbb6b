"""`hosttune ready`, and of `hosttune status`: where a host is between its boot and its first
job.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hosttune.views.terminal import wrap_text

if TYPE_CHECKING:
    from hosttune.engine.decide.ready import Outlook, ReadyState

READY_METRICS = {
    "hosttune_ready": "1 for the state of the host between its boot and its first job.",
    "hosttune_ready_timestamp_seconds": "When that was looked at, in seconds since 1970.",
    "hosttune_ready_reboots": "Reboots since the host was ready.",
}


def ready_text(state: ReadyState) -> str:
    """One line, for the journal and the console."""
    return f"hosttune: {state.standing}: {state.sentence}\n"


def status_text(
    state: ReadyState | None, boot_id: str, now: Outlook, gap: str = "", columns: int = 0
) -> str:
    """A few lines for who looks: first what counts in this boot. `gap`: what is wrong with the
    metrics.
    """
    lines = [now.sentence] if now.sentence else []
    more = [f"  {gap}"] if gap else []
    whole = (*lines, *(_looked_at(state, boot_id) if state else ()), *more)
    if not columns:
        return "".join(f"{line}\n" for line in whole)
    heads = [line[: len(line) - len(line.lstrip())] for line in whole]
    wrapped = (
        wrap_text(line, columns, first=head, rest=f"{head}  ")
        for line, head in zip(whole, heads, strict=True)
    )
    return "".join(f"{line}\n" for lines in wrapped for line in lines)


def _looked_at(state: ReadyState, boot_id: str) -> list[str]:
    at = datetime.fromtimestamp(state.at, timezone.utc)
    when = "in this boot" if state.boot_id == boot_id else "in an earlier boot"
    lines = [
        f"{state.standing}: {state.sentence}",
        f"  looked at {at:%Y-%m-%d %H:%M:%S} UTC, {when}",
    ]
    if state.digest:
        lines.append(f"  plan {state.digest[:12]}")
    if state.reboots:
        count = len(state.reboots)
        lines.append(
            f"  {count} reboot{'s' * (count > 1)} since the host was ready, of at most "
            f"{state.allowed}"
        )
    if state.goes_on:
        lines.append("  an apply --yes --reboot goes on after the boot")
    return lines
