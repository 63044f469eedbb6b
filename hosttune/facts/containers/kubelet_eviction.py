"""What has to be free for pods: the kubelet's thresholds nodefs.available and imagefs.available.

Sources: https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/ (where one
threshold is set, those that are not named have none, unless mergeDefaultEvictionSettings is true),
kubelet(8) (--eviction-hard), kubernetes, pkg/kubelet/eviction/defaults_linux.go; k3s,
pkg/daemons/agent, for K3s and RKE2. Both hold for one file system, too: images are measured apart.
Thresholds that need a time (evictionSoft) are not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.containers.kubelet_swap import UNIT, read_flags
from hosttune.facts.managers import running_services
from hosttune.facts.reading import if_absent, read_text
from hosttune.numbers import parse_digits
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts

_FLAG = "--eviction-hard"
_DEFAULTS = {"nodefs": ("10", "%"), "imagefs": ("15", "%")}
# Also taken where the settings are not known.
_OF_K3S = {"nodefs": ("5", "%"), "imagefs": ("5", "%")}
# Braces of JSON or YAML, or a block of YAML.
_SETTING = regex(
    r"(?:^|[{,\s])\"?evictionHard\"?[ \t]*:[ \t]*"
    r"(\{[^}]{0,2000}\}|(?:\n[ \t]+\S[^\n]{0,200}){0,20})"
)
_MERGES = regex(r"\bmergeDefaultEvictionSettings\"?[ \t]*:[ \t]*true\b")
_VALUE = regex(
    r"\b(nodefs|imagefs)\.available[\"']?[ \t]*[:<][ \t]*[\"']?"
    r"(\d{1,18})(?:\.\d{1,9})?(%|[KMGT]i?)?"
)
_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    f"{letter}i": 1 << 10 * power for power, letter in enumerate("KMGT", 1)
}


def find_least_percent(facts: Facts, signal: str, total_bytes: int) -> float:
    """Percent of a file system of this size that has to be free for `nodefs` or `imagefs`."""
    number, unit = _read_thresholds(facts).get(signal, ("0", "%"))
    amount = parse_digits(number, 0)
    return float(amount) if unit == "%" else 100 * amount * _UNITS.get(unit, 1) / (total_bytes or 1)


def _read_thresholds(facts: Facts) -> dict[str, tuple[str, str]]:
    """By signal a number and its unit. k3s, rke2, k0s and the snaps have other thresholds."""
    if UNIT not in {*facts.units.enabled, *running_services(facts.reader)}:
        return _OF_K3S
    flags, configs = read_flags(facts)
    if any("$" in one for one in (*flags.values(), *configs)):
        return _OF_K3S  # a variable that no file of the unit sets
    texts = [if_absent(read_text(facts.reader, path), "") for path in configs]
    return parse_thresholds(flags.get(_FLAG), texts)


def parse_thresholds(flag: str | None, texts: list[str]) -> dict[str, tuple[str, str]]:
    """Those of the flag, else of the last file that sets any, else the kubelet's own."""
    rows = [
        "\n".join(row for row in text.splitlines() if not row.lstrip().startswith("#"))
        for text in texts
    ]
    blocks = [match[1] for text in rows for match in _SETTING.finditer(text)]
    chosen = flag if flag is not None else blocks[-1] if blocks else None
    if chosen is None:
        return dict(_DEFAULTS)
    named = {signal: (number, unit) for signal, number, unit in _VALUE.findall(chosen)}
    return {**_DEFAULTS, **named} if any(map(_MERGES.search, rows)) else named
