"""What the Xid and SXid errors in the kernel log mean; pure, but for the package's own table.

The table, hosttune/tables/gpu-errors.tsv, is NVIDIA's catalogue and names its sources; it is read
only where an error was logged. The form of the lines: kernel_rc.c, gpu.c, nv.c and
common_nvswitch.h of github.com/NVIDIA/open-gpu-kernel-modules (515 to 595).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from hosttune.facts.base import Fact
from hosttune.facts.own_tables import read_own_table
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits

TABLE = "gpu-errors"
CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/"

# Compiled where they are first needed: most kernel logs hold no error.
# How nvidia_smi.messages_in hands on a line: when, how often, and what the driver wrote.
STAMP = (
    r"^(?:(\d{9,}\.\d+) )?(?:\((\d+) times(?: until (\d{9,}\.\d+))?\) )?(?:\[ *[\d.]+\] ?)?"
    r"(?:\[ *[TC]\d+\] )?"
)
_BUS = r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?"
# With MIG the line names the instance (GPU-I:05 GPU-CI:00); drivers of long ago leave out "PCI:".
_XID = STAMP + rf"NVRM: Xid \((?:PCI:)?{_BUS}(?: [^)]*)?\): (\d+)(.*)"
_SXID = STAMP + rf"nvidia-nvswitch\d*: SXid \(PCI:{_BUS}\): (\d+), (Fatal|Non-fatal)\b"
# The name is a program's own (TASK_COMM_LEN): what it holds is no word of the driver.
_NVLINK5 = (
    r"(?:, pid=[^,]{1,20}, name=.{0,15})?, \w+\s+(Nonfatal"
    r"|Fatal)\s[^(]*\((0x[0-9A-Fa-f]+)\s+(0x[0-9A-Fa-f]+)"
)
_RECOVERY = r"GPU recovery action changed from 0x[0-9a-f]+ \([^)]*\) to 0x([0-9a-f]+) \(([^)]*)\)"
# After these nothing of before holds: the driver was loaded anew (all GPUs), a switch was set up
# anew.
_LOADED = "NVRM: loading NVIDIA UNIX"
_PROBED = STAMP + rf"nvidia-nvswitch\d*: Probing device {_BUS}"

# The resource manager refuses to work until a GPU is reset (0x62: nvstatuscodes.h). Neither line
# names the GPU. Asserts quote the names of states in their condition, too, without brackets:
# `(status == NV_ERR_GPU_IN_FULLCHIP_RESET)`.
_WANTS_RESET = (
    r"NVRM: (?:GPU\d{1,4} )?(?:nv\w{0,20}Assert\w{0,40}: Assertion failed: "
    r".{0,200}\[NV_ERR_RESET_REQUIRED\]"
    r"|rpcRmApi\w{1,20}: GspRm\w{1,20} failed: .{0,400}[; ]status=0x00000062\b)"
)
_DAY_S = 86400
# resets for one fault in a day after which the board is suspect (NVSentinel:
# RepeatedXIDErrorOnSameGPU)
_MANY = 2
_OFTEN = 3  # times of a fault without a recovery that the driver asks for

_FIRST_V2 = 575  # from this branch on the first word of Xid 144 to 150 is laid out anew
# The log line has NV2080_CTRL_GPU_RECOVERY_ACTION, and nvidia-smi words for it, which NVML calls
# nvmlDeviceGpuRecoveryAction_t.
_RECOVERIES = {1: "RESET_GPU", 2: "RESTART_BM", 3: "DRAIN_P2P", 4: "DRAIN_RESET", 5: "RECOVER_IMEX"}
ACTIONS = {
    "Reset": "RESET_GPU", "Reboot": "RESTART_BM", "Drain P2P": "DRAIN_P2P",
    "Drain and Reset": "DRAIN_RESET", "Recover IMEX Domain": "RECOVER_IMEX",
}  # fmt: skip


@frozen
class GpuError(Fact):
    """The errors of one kind on one GPU or NVSwitch in this boot."""

    number: int  # of the Xid or SXid
    words: str  # what it is: the GPU has fallen off the bus
    # what NVIDIA says is to be done at once: RESET_GPU, RESTART_APP ...; - where it says nothing
    action: str
    investigate: str  # and afterwards: CONTACT_SUPPORT, CHECK_APP/CUDA ...
    # fault, later (at the next idle moment), watch (if it comes again), quiet (a program's own,
    # corrected, or no harm)
    weight: str  # fault | later | watch | quiet
    count: int  # lines of it in the log
    age_s: float  # since the last one; -1 where the log does not tell
    is_settled: bool  # the GPU was reset since, or the driver asks for no recovery from it
    is_back: bool  # it came before a reset too
    # a fault since the last reset from which the driver asks for no recovery; one to watch
    is_waived: bool = False
    resets: int = 0  # how often the GPU was reset after it in the last day
    # since the first one that such a reset followed; -1 if the log does not tell
    first_age_s: float = -1.0

    @property
    def is_reported(self) -> bool:
        """A person has something to do about it."""
        return self.weight != "quiet" and not self.is_settled

    @property
    def name(self) -> str:
        """Xid 79 (the GPU has fallen off the bus)."""
        return f"{'SXid' if self.number >= 10000 else 'Xid'} {self.number} ({self.words})"

    @property
    def keeps_coming(self) -> bool:
        """The GPU was reset for it again and again in the last day."""
        return self.resets >= _MANY

    @property
    def repeated_resets(self) -> str:
        """It was reset 4 times in a day after Xid 95 (uncontained ECC error), the first time 3
        hours ago.
        """
        first = (
            f", the first time {describe_ago(self.first_age_s)}" if self.first_age_s >= 0 else ""
        )
        return f"it was reset {self.resets} times in a day after {self.name}{first}"

    @property
    def is_often(self) -> bool:
        """It came several times, the last one within a day."""
        # An unknown age is -1 and counts as recent.
        return self.count >= _OFTEN and self.age_s <= _DAY_S

    @property
    def sentence(self) -> str:
        """Xid 79 (the GPU has fallen off the bus), 3 times, the last 2 hours ago."""
        since = " since a reset or a reload of the driver, and before it" if self.is_back else ""
        often = f", {self.count} times{since}" if self.count > 1 else ""
        when = (
            f", {'the last ' if often else ''}{describe_ago(self.age_s)}" if self.age_s >= 0 else ""
        )
        back = (
            ", again after a reset or a reload of the driver" if self.is_back and not often else ""
        )
        return f"{self.name}{often}{when}{back}"


@frozen
class _Row:
    """A row of the table for an Xid or SXid."""

    weight: str
    action: str
    investigate: str
    followed: int  # branch of the driver from which on a 154 follows; 0 for none
    words: str


@frozen
class _Pattern:
    """A row of the table for what an Xid of NVLink 5 says in its first two words."""

    action: str
    investigate: str
    words: str
    bits: tuple[str, str]  # before R575, and from it on
    statuses: tuple[int, ...]  # empty for any


@frozen
class _Table:
    as_of: str
    rows: Mapping[tuple[str, int], _Row]
    patterns: Mapping[int, tuple[_Pattern, ...]]
    aliases: Mapping[tuple[int, int], int]


@frozen
class _Line:
    """One line of the log: what it says, how often, and where."""

    slot: str
    number: int
    text: str
    count: int
    at: float  # the last one, in seconds since the epoch; 0 if that is not known
    epoch: int  # how many resets of its device came before
    first: float = 0.0  # the first one, likewise


@cache
def read_table() -> _Table:
    """NVIDIA's catalogue. Raises HosttuneError where the package is not whole."""
    rows, aliases = dict[tuple[str, int], _Row](), dict[tuple[int, int], int]()
    patterns: dict[int, tuple[_Pattern, ...]] = {}
    for words in (own := read_own_table(TABLE)).rows:
        if words[0] == "xid":
            _, number, weight, action, then, followed, _name, meaning = words
            rows["xid", int(number)] = _Row(weight, action, then, _parse_number(followed), meaning)
        elif words[0] == "sxid":
            rows["sxid", int(words[1])] = _Row(words[2], "-", "-", 0, words[3])
        elif words[0] == "nvlink5":
            _, number, unit, action, then, old, new, statuses = words
            values = () if statuses == "*" else tuple(int(one, 16) for one in statuses.split(","))
            found = _Pattern(action, then, unit, (old, new), values)
            patterns[int(number)] = (*patterns.get(int(number), ()), found)
        elif words[0] == "alias":
            aliases[int(words[1]), int(words[2])] = int(words[3])
    return _Table(own.as_of, rows, patterns, aliases)


def _parse_number(spelled: str) -> int:
    return parse_digits(spelled, 0)


def slot_of(domain: str, bus: str, device: str, function: str | None = "0") -> str:
    """The name in sysfs of what nvidia-smi (eight digits of domain, capitals) and Xid lines (no
    function) call it.
    """
    return f"{int(domain, 16):04x}:{bus.lower()}:{device.lower()}.{function or '0'}"


def kind_of(message: str) -> str:
    """What errors are counted by: device, number, and of those that say more in their words (144 to
    150) these; empty for another line, and `reset` for one after which the count begins anew.
    """
    if "Xid" not in message:
        if _is_wanting_reset(message):
            return "reset required"
        return (
            "reset"
            if is_load(message) or ("Probing" in message and re.match(_PROBED, message))
            else ""
        )
    if xid := xid_of(message):
        slot, number, text = xid
        return (
            "reset" if number == 154 else f"{slot} {number} {text if 144 <= number <= 150 else ''}"
        )
    if match := re.match(_SXID, message):
        return f"{slot_of(*match.group(4, 5, 6, 7))} {match[8]} {match[9]}"
    return ""


def xid_of(message: str) -> tuple[str, int, str] | None:
    """(slot, number, the rest of the line) of an Xid; None for another line."""
    match = re.match(_XID, message) if "Xid" in message else None
    return (slot_of(*match.group(4, 5, 6, 7)), int(match[8]), match[9]) if match else None


def resets_asked(messages: Iterable[str]) -> Mapping[str, int]:
    """The number of the last Xid of each GPU since the driver was loaded last, by slot, where
    NVIDIA's catalogue has a reset of the GPU follow. Lines that only tell of another one (45, 154)
    change nothing.
    """
    rows, asked = read_table().rows, dict[str, int]()
    for message in messages:
        if is_load(message):
            asked.clear()
        elif (
            (xid := xid_of(message))
            and (row := rows.get(("xid", xid[1])))
            and row.weight == "fault"
        ):
            # A later fault with another action takes the wish for a reset back: the last fault of a
            # GPU decides.
            asked[xid[0]] = xid[1] if row.action == "RESET_GPU" else 0
    return {slot: number for slot, number in asked.items() if number}


def is_load(message: str) -> bool:
    """The driver was loaded anew."""
    return _LOADED in message and split_stamp(message)[1].startswith(_LOADED)


def wants_reset(messages: Iterable[str]) -> bool:
    """The driver refuses to work until some GPU is reset, and was not loaded, nor a GPU reset,
    since then.
    """
    wants = False
    for message in messages:
        if not wants:
            wants = _is_wanting_reset(message)
        else:
            wants = not (is_load(message) or ((xid := xid_of(message)) and _is_recovered(*xid[1:])))
    return wants


def _is_wanting_reset(message: str) -> bool:
    return "0x00000062" in message and re.match(_WANTS_RESET, split_stamp(message)[1]) is not None


def _is_recovered(number: int, text: str) -> bool:
    """The line says that the driver asks for no recovery any more: the GPU was reset."""
    changed = re.search(_RECOVERY, text) if number == 154 else None
    return changed is not None and int(changed[1], 16) == 0


def xids_in(
    messages: Iterable[str],
    version: str = "",
    now: float = 0.0,
    recoveries: Mapping[str, str] | None = None,
) -> Mapping[str, tuple[GpuError, ...]]:
    """The Xid errors by GPU, each kind once, in the order in which they came first.

    `version` of the driver that runs, `now` in seconds since the epoch, and by slot what the driver
    says today of the recovery that it asks for (`None` for none).
    """
    branch = _parse_number(version.partition(".")[0])
    lines: dict[str, list[_Line]] = {}
    epochs: dict[str, int] = {}
    loads = 0
    for message in messages:
        loads += is_load(message)
        if "Xid" not in message or not (match := re.match(_XID, message)):
            continue
        slot, number = slot_of(*match.group(4, 5, 6, 7)), int(match[8])
        if _is_recovered(number, match[9]):
            epochs[slot] = epochs.get(slot, 0) + 1
            continue
        at = float(match[3] or match[1] or 0)
        # A load of the driver resets all GPUs, an Xid 154 without a wish only its own. Both count
        # up, and a line with a lower number is of before.
        found = _Line(
            slot,
            number,
            match[9],
            int(match[2] or 1),
            at,
            loads + epochs.get(slot, 0),
            float(match[1] or 0),
        )
        lines.setdefault(slot, []).append(found)
    return {
        slot: _make_errors(
            own, branch, now, loads + epochs.get(slot, 0), (recoveries or {}).get(slot, "")
        )
        for slot, own in lines.items()
    }


def _make_errors(
    lines: list[_Line], branch: int, now: float, epoch: int, recovery: str
) -> tuple[GpuError, ...]:
    groups: dict[tuple[int, str, str], list[_Line]] = {}
    meanings: dict[tuple[int, str, str], _Row] = {}
    last_wish = max((place for place, line in enumerate(lines) if line.number == 154), default=-1)
    for place, line in enumerate(lines):
        if line.number == 154 and (place != last_wish or recovery):
            continue  # only the newest counts, and what the driver says now counts more
        row = _find_meaning(line, branch)
        key = (line.number, row.words, row.weight)
        meanings[key] = row
        groups.setdefault(key, []).append(line)
    return tuple(
        _make_error(key[0], meanings[key], own, now, epoch, branch, recovery)
        for key, own in groups.items()
    )


def _make_error(
    number: int, row: _Row, lines: list[_Line], now: float, epoch: int, branch: int, recovery: str
) -> GpuError:
    fresh = [line for line in lines if line.epoch == epoch]
    # The driver tells when it wants a reset after this one, and wants none; a GPU that was gone is
    # another matter.
    is_over = recovery == "None" and 0 < row.followed <= branch and row.action != "RESTART_BM"
    at = max(line.at for line in fresh or lines)
    is_watched = (
        row.weight == "watch" and recovery not in ACTIONS and not (at and now - at > _DAY_S)
    )
    is_fault = row.weight in {"fault", "later"}
    is_rate = row.weight == "watch" and at > 0  # how often it comes in a day is what counts
    # A folded line has only its first and its last time. If the first is older than a day, it
    # counts once: how many of its times are of today is not known.
    counts = [
        1 if is_rate and now - line.first > _DAY_S else line.count
        for line in fresh or lines
        if not is_rate or now - line.at <= _DAY_S
    ]
    recent = [
        line for line in lines if line.epoch < epoch and not (line.at and now - line.at > _DAY_S)
    ]
    first = min((line.at for line in recent), default=0.0)
    return GpuError(
        number=number,
        words=row.words,
        action=row.action,
        investigate=row.investigate,
        weight=row.weight,
        count=sum(counts) or 1,
        age_s=max(0.0, now - at) if at and now else -1.0,
        is_settled=not fresh or is_over or row.weight == "watch",
        is_back=bool(fresh) and len(fresh) < len(lines),
        is_waived=bool(fresh) and (is_watched or (is_over and row.weight == "fault")),
        resets=len({line.epoch for line in recent}) if is_fault else 0,
        first_age_s=max(0.0, now - first) if first and now else -1.0,
    )


def _find_meaning(line: _Line, branch: int) -> _Row:
    known = read_table()
    number = known.aliases.get((line.number, branch), line.number)
    row = known.rows.get(("xid", number))
    if row is None:
        return _Row(
            "fault", "-", "-", 0, f"not in NVIDIA's catalogue of {known.as_of}, see {CATALOGUE}"
        )
    if row.weight == "decode":
        return _decode_nvlink(number, row, line.text, branch)
    if row.weight == "recovery":
        changed = re.search(_RECOVERY, line.text)
        action = _RECOVERIES.get(int(changed[1], 16), "-") if changed else "-"
        words = f"{row.words}: {changed[2]}" if changed else row.words
        return _Row("fault", action, row.investigate, 0, words)
    return row


def _decode_nvlink(number: int, row: _Row, text: str, branch: int) -> _Row:
    """What an NVLink error of Blackwell and newer means: by its first two words, else by Fatal or
    Nonfatal alone.
    """
    match = re.match(_NVLINK5, text)
    if match is None:
        return _Row(
            "fault",
            row.action,
            row.investigate,
            row.followed,
            f"{row.words}, in words that are not known",
        )
    # The patterns have 32 places. A longer word would raise in zip() of _fits.
    first, second = f"{int(match[2], 16) & 0xFFFFFFFF:032b}", int(match[3], 16)
    # Without the driver's version it is not known which of the two layouts the first word has.
    for pattern in read_table().patterns.get(number, ()) if branch else ():
        if _fits(first, pattern.bits[branch >= _FIRST_V2]) and second in (
            pattern.statuses or (second,)
        ):
            # Where the catalogue waits for a 154, a line that calls itself fatal is not passed
            # over.
            is_open = pattern.action == "XID_154_EVAL" and match[1] == "Fatal"
            action = "RESET_GPU" if is_open else pattern.action
            weight = "fault" if action == "RESET_GPU" else "quiet"
            words = f"{row.words}, {pattern.words}{', fatal' if is_open else ''}"
            return _Row(weight, action, pattern.investigate, row.followed, words)
    if match[1] == "Nonfatal":
        return _Row("quiet", "-", row.investigate, row.followed, f"{row.words}, not fatal")
    return _Row("fault", "RESET_GPU", row.investigate, row.followed, f"{row.words}, fatal")


def _fits(bits: str, pattern: str) -> bool:
    return all(wanted in ("-", bit) for bit, wanted in zip(bits, pattern, strict=True))


def sxids_in(messages: Iterable[str], now: float = 0.0) -> Mapping[str, tuple[GpuError, ...]]:
    """The errors of NVSwitches by slot since each was set up last; quiet ones too."""
    groups: dict[tuple[str, int, str], list[tuple[int, float]]] = {}
    for message in messages:
        if "nvidia-nvswitch" not in message:
            continue
        if probed := re.match(_PROBED, message):
            slot = slot_of(*probed.group(4, 5, 6, 7))
            # Nothing else reports that a switch recovered: only a new set-up ends its errors.
            groups = {key: lines for key, lines in groups.items() if key[0] != slot}
        elif match := re.match(_SXID, message):
            key = (slot_of(*match.group(4, 5, 6, 7)), int(match[8]), match[9])
            groups.setdefault(key, []).append(
                (int(match[2] or 1), float(match[3] or match[1] or 0))
            )
    found: dict[str, tuple[GpuError, ...]] = {}
    for (slot, number, word), lines in groups.items():
        row = read_table().rows.get(("sxid", number)) or _Row(
            "by word", "-", "-", 0, "not in the table"
        )
        is_fatal = row.weight == "fatal" or (row.weight != "quiet" and word == "Fatal")
        weight = "fault" if is_fatal else "later" if row.weight == "stalls" else "quiet"
        at = max(moment for _, moment in lines)
        error = GpuError(
            number=number,
            words=f"{row.words}, {'fatal' if is_fatal else 'not fatal'}",
            action="RESET_GPU" if is_fatal else "-",
            investigate="-",
            weight=weight,
            count=sum(count for count, _ in lines),
            age_s=max(0.0, now - at) if at and now else -1.0,
            is_settled=False,
            is_back=False,
        )
        found[slot] = (*found.get(slot, ()), error)
    return found


def describe_ago(seconds: float) -> str:
    """2 hours ago."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count != 1 else ''} ago"
    return "just now"


def stamp_of(message: str) -> float:
    """When a line was written, in seconds since the epoch; 0 if it has no stamp."""
    match = re.match(STAMP, message)
    return float(match[1]) if match and match[1] else 0.0


def split_stamp(message: str) -> tuple[str, str]:
    """(the stamp before a line, the line as the kernel has it)."""
    match = re.match(STAMP, message)
    end = match.end() if match else 0
    return message[:end], message[end:]
