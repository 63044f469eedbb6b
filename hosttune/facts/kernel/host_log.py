"""What the kernel has complained of in this boot: what stood still, memory that ran out, errors of
hardware, cards.

Sources: Linux, kernel/watchdog.c (soft lockup), kernel/watchdog_perf.c (hard LOCKUP), kernel/rcu
(stall.h), mm/oom_kill.c (oom-kill:constraint=), arch/x86/kernel/cpu/mce/core.c (print_mce),
drivers/acpi/apei (ghes.c, bert.c), drivers/firmware/efi/cper.c (event severity), drivers/edac
(mce_amd.c: MCn_STATUS, which is in the place of print_mce; edac_mc.c),
drivers/net/ethernet/mellanox/mlx5 (events.c, en_main.c); NVIDIA's open kernel modules,
nvidia-peermem.c. Lines of other drivers on links say `NIC Link is Down`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import Fact, UnknownFact, attempt, known_part, lazy
from hosttune.facts.gpu.gpu_errors import describe_ago
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.kernel.kernel_log import lines_of, message_of
from hosttune.facts.reading import names_in
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.masking.secrets import mask_text
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

T = TypeVar("T")
MAX_LINES = 500  # of a kind, the last ones: a link that comes and goes for weeks writes many
_SOFT = regex(
    r"(?:NMI )?watchdog: BUG: soft lockup - CPU#(\d+) stuck for (\d{1,12})s! \[(.{0,40}?):(\d+)\]"
)
_HARD = regex(r"(?:NMI )?watchdog: (?:CPU ?\d+: )?Watchdog detected hard LOCKUP on cpu \d+")
_RCU = regex(r"(?:rcu: )?INFO: rcu_\w+ (?:self-)?detected (?:expedited )?stalls? ")
_OOM = regex(r"oom-kill:constraint=CONSTRAINT_NONE,.*\btask=(.{1,40}?),pid=\d+,uid=\d+$")
_SEVERITY = regex(r"(\{\d+\})?\[Hardware Error\]: event severity: (\w+)")
_STATUS = regex(
    r"(?:mce: )?\[Hardware Error\]: CPU(?: \d+: Machine Check(?: Exception)?: \w+ Bank \d+: "
    r"|:\d+ \([0-9a-f:]+\) (MC)\d+_STATUS\[[^\]]*\]: 0x)([0-9a-f]{16})"
)
# A report of firmware about memory, which the kernel also tells as a machine check of the bank -1
# (mce/apei.c).
_ECHO = regex(
    r"(?:mce: )?\[Hardware Error\]: CPU(?: \d+: Machine Check(?: Exception)?: \w+ Bank 255: "
    r"|:\d+ \([0-9a-f:]+\) MC255_)"
)
_UNCORRECTED = 1 << 61  # MCi_STATUS.UC
# of AMD: not corrected, and not used yet; of Intel a bit of how many were corrected (52:38)
_DEFERRED = 1 << 44
_AMD = ("AuthenticAMD", "HygonGenuine")
_BOOTED = regex(r"Run /\S+ as init process$")
_OF_MODULE = regex(r"EDAC MC\d+: (\d+) CE (?:[A-Za-z].{0,200}?)?\bon (\S.{0,200}?) \(")
_STORM = regex(r"(?:mce: )?(?:CPU\d+ BANK\d+ )?CMCI storm detected")
_PEERMEM = regex(r"nvidia-peermem \w+:\d+ ERROR ")
_SLOT = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_IS_SLOT = regex(_SLOT)
# dev_err() and netdev_err() of include/linux; a bridge of PCI and NVIDIA's driver speak of links of
# other kinds.
_CARD = (
    rf"(?!pcieport|nvidia)[\w-]{{1,64}} ({_SLOT})(?: [^\s:/]{{1,15}}(?: \(\w+\))?)?: "
    rf"(?:\w+:\d+:\(pid \d+\): )?"
)
_DOWN = regex(_CARD + r"(?:[\w.-]+: )?(?:[\w.-]+ )?(?:NIC )?Link (?:is )?[Dd]own\b")
_PORT = regex(_CARD + r"Port module event\[error\]: module \d+, (.{1,60})")
# dev_watchdog() of net/sched/sch_generic.c from Linux 6.6 on; e1000e, igb, ixgbe; mlx5 en_main.c,
# cmd.c (wait_func).
_STALL = regex(
    _CARD
    + r"(NETDEV WATCHDOG: CPU: \d+: transmit queue \d+ timed out|Detected (?:Hardware|Tx) Unit Hang"
    r"|TX timeout detected"
    r"|[A-Z0-9_]{1,40}\(0x[0-9a-f]{1,4}\) timeout\. Will cause a leak of a command resource)"
)
_POWER = regex(_CARD + r"(?:Detected )?[Ii]nsufficient power on the PCIe slot \((\d+W)\)")
# die() and oops_begin() of x86, die() of arm64; a warning and a lockup tell a place without one of
# these before.
_DIES = regex(
    r"(?:Internal error: )?Oops: |BUG: (?:unable to handle|kernel NULL)|general protection fault"
    r"|invalid opcode: "
    r"|kernel BUG at "
)
_PLACE = regex(r"(?:RIP: 0010:|pc : )\S{1,200}(?: \[(\w{1,64})\])?")
_HOT = "high temperature"
# One kind each: of one that comes in a storm the last ones are kept, and every line of the rest.
_KINDS = (
    _SOFT, _HARD, _RCU, _OOM, _SEVERITY, _STATUS, _BOOTED, _OF_MODULE, _STORM, _PEERMEM, _DOWN,
    _STALL, _PORT, _POWER, _DIES, _PLACE,
)  # fmt: skip
_SETTLED_S = 600  # after the boot: until then drivers bring links up, down and up again
_DAY_S = 86400
# the watchdog repeats its line each 20 to 40 seconds, and from Linux 5.13 on adds the times up
_STILL_S = 180
_STUCK_S = 60


@frozen
class LoggedCard(Fact):
    """A network card, here or gone, and what the kernel log says of it. A virtual function is none:
    root of a container that has one sets it down and up, and the kernel says that its link went
    down.
    """

    slot: str  # 0000:0c:00.0
    # how often its link went down in the last 24 hours, without the first ten minutes after the
    # boot
    link_downs: int
    stalls: int  # how often it sent nothing, or did not answer its driver, in that time
    is_hot: bool  # its cable or transceiver was too hot in the last 24 hours
    # what else its cable or transceiver had in the last 24 hours: Cable error, ...; empty for none
    cable: str
    firmware_fault: (
        # what it last reported of its firmware and did not take back: irisc not responding; empty
        # for none
        str
    )
    # its driver is bound, and it offers neither a network interface nor an RDMA device
    is_portless: bool
    # what the slot offers, where the card says that it is not enough: 27W; empty for none
    slot_power: str


@frozen
class HostLog(Subject):
    """Complaints, each once. Those of the last 24 hours are kept apart, where the log has times:
    what was long ago and did not come again says little of today; of a log without times all are.
    """

    @fact
    def lockups(self) -> tuple[str, ...]:
        """Of processors in the last 24 hours: `soft lockup in python3 (27 s), 3 times`."""
        return self.facts.kernel_log.certain(lockups_in(self._recent))

    @fact
    def stalls_often(self) -> bool:
        """They are more than one short one: two in the last 24 hours, one of a minute, or a hard
        lockup.
        """
        return self.facts.kernel_log.certain(stalls_often(self._recent))

    @fact
    def stuck(self) -> tuple[str, ...]:
        """Processors in a soft lockup that goes on: `CPU 17 in mksquashfs for 84 hours`."""
        return self.facts.kernel_log.certain(stuck_in(self._list_since(_STILL_S)))

    @fact
    def died_in(self) -> str:
        """The kernel modules that ended with an error of their own in this boot; empty where that
        is not known.
        """
        return (
            " and ".join(died_in(seen))
            if isinstance(seen := attempt(lambda: self._lines), list)
            else ""
        )

    @fact
    def out_of_memory(self) -> tuple[str, ...]:
        """Programs killed because the host itself, no control group, had no memory left."""
        return self.facts.kernel_log.certain(
            tuple(match[1] for line in self._lines if (match := _OOM.match(line)))
        )

    @fact
    def uncorrected(self) -> int:
        """Errors of hardware in this boot that could not be corrected, and the host went on."""
        return self.facts.kernel_log.certain(
            count_severities(self._lines, is_amd=self._is_amd)["uncorrected"]
        )

    @fact
    def corrected_a_day(self) -> int:
        """Reports of corrected ones in the last 24 hours; the kernel leaves some out in a storm."""
        return self.facts.kernel_log.certain(
            count_severities(self._recent, is_amd=self._is_amd)["corrected"]
        )

    @fact
    def storms(self) -> int:
        """Of interrupts of corrected ones in the last 24 hours, in which the kernel stopped
        listening.
        """
        return self.facts.kernel_log.certain(sum(map(bool, map(_STORM.match, self._recent))))

    @fact
    def corrected_of(self) -> Mapping[str, int]:
        """By memory module, the corrected errors that its driver named in the last 24 hours."""
        return self.facts.kernel_log.certain(modules_in(self._recent))

    @fact
    def ended_by_hardware(self) -> bool:
        """Firmware or processors kept an error from before this boot that was not corrected."""
        return self.facts.kernel_log.certain(
            count_severities(self._lines, is_amd=self._is_amd)["before"] > 0
        )

    @fact
    def cards(self) -> tuple[LoggedCard, ...]:
        """By slot."""
        return known_part(
            (
                _as_seen(card, self.facts)
                for card in cards_in(
                    _find_slots(self.reader, self.facts),
                    self._lines,
                    self._recent,
                    _since_settled(self.facts, self._timed, self._now),
                )
                if not _is_virtual(self.reader, card.slot)
            ),
            _find_lacking(self.facts),
        )

    @fact
    def peermem_errors(self) -> int:
        """Of nvidia-peermem."""
        return self.facts.kernel_log.certain(sum(map(bool, map(_PEERMEM.match, self._lines))))

    @fact
    def _timed(self) -> tuple[tuple[float | None, str], ...]:
        return tuple(map(message_of, self.facts.kernel_log.lines(choose_lines)))

    @fact
    def _lines(self) -> list[str]:
        return [text for _, text in self._timed]

    @fact
    def _now(self) -> float:
        return self.reader.now()

    @fact
    def _is_amd(self) -> bool:
        return attempt(lambda: self.facts.cpu.vendor) in _AMD

    @fact
    def _recent(self) -> list[str]:
        return self._list_since(_DAY_S)

    def _list_since(self, seconds: float) -> list[str]:
        """The lines of the last seconds, and those without a time."""
        now = self._now
        return [text for at, text in self._timed if at is None or now - at <= seconds]


def choose_lines(log: str) -> tuple[str, ...]:
    """The lines of a kernel log that speak of these things; of each the last ones. Of places only
    those in which the kernel died: a warning or a lockup has one, too.
    """
    kept: list[str] = []
    kinds: Counter[re.Pattern[str]] = Counter()
    place = ""
    for line in reversed(lines_of(log)):
        words = message_of(line)[1]
        kind = next((one for one in _KINDS if one.match(words)), None)
        if kind is _PLACE:
            place = line
        elif kind and kinds[kind] < MAX_LINES:
            kinds[kind] += 1
            kept += [
                mask_text(one.rstrip())
                for one in ((place, line) if kind is _DIES and place else (line,))
            ]
        if kind is _DIES:
            place = ""
    return tuple(reversed(kept))


def _as_seen(card: LoggedCard, facts: Facts) -> LoggedCard:
    """What no line speaks of may be unseen."""
    certain = facts.kernel_log.certain
    return LoggedCard(
        slot=card.slot,
        link_downs=lazy(lambda: certain(_count_after_boot(card.link_downs, facts))),
        stalls=lazy(lambda: certain(_count_after_boot(card.stalls, facts))),
        is_hot=lazy(certain, card.is_hot),
        cable=lazy(certain, card.cable),
        firmware_fault=lazy(lambda: facts.device_log.mlx5_faults.get(card.slot, "")),
        is_portless=lazy(lambda: card.slot in facts.portless.slots),
        slot_power=card.slot_power,
    )


def _count_after_boot(many: int, facts: Facts) -> int:
    """Breaks and stalls that are no part of the boot; raises UnknownFact if some may be."""
    if many:
        _ = facts.kernel.booted_at
    return many


def _find_slots(reader: Reader, facts: Facts) -> tuple[str, ...]:
    """Where the devices of network interfaces and of RDMA are on the PCI bus, and the cards that
    lost theirs.
    """
    places = [
        reader.resolve(f"{folder}/{name}/device")
        for folder in ("/sys/class/net", "/sys/class/infiniband")
        for name in names_in(reader, folder)
    ]
    ends = (place.rpartition("/")[2] for place in places if isinstance(place, str))
    portless, faulty = (
        attempt(lambda: facts.portless.slots),
        attempt(lambda: facts.device_log.mlx5_faults),
    )
    lost = (
        *(portless if isinstance(portless, tuple) else ()),
        *(faulty if isinstance(faulty, Mapping) else ()),
    )
    return (*(slot for slot in ends if _IS_SLOT.fullmatch(slot)), *lost)


def _is_virtual(reader: Reader, slot: str) -> bool:
    return isinstance(reader.link(f"{DEVICES}/{slot}/physfn"), str)


def _find_lacking(facts: Facts) -> UnknownFact | None:
    """Why a card without ports may be missing among those."""
    portless = attempt(lambda: facts.portless.slots)
    return UnknownFact(portless.reason) if isinstance(portless, Unreadable) else None


def _since_settled(
    facts: Facts, timed: Sequence[tuple[float | None, str]], now: float
) -> list[str]:
    """What was logged in the last 24 hours, and later than the boot."""
    booted = attempt(lambda: facts.kernel.booted_at)
    first = max(now - _DAY_S, booted + _SETTLED_S if isinstance(booted, int) else 0)
    return [text for at, text in timed if at is None or at >= first]


def count_severities(texts: Iterable[str], *, is_amd: bool = False) -> Counter[str]:
    """How many errors of hardware were uncorrected and corrected, and how many from before this
    boot were not. A kernel that meets a fatal one does not write any more. The next boot's tells:
    what the firmware kept (ACPI's boot error record table) has no number, and what the banks of the
    processors kept is logged before init runs.
    """
    found: Counter[str] = Counter()
    of_banks: Counter[str] = Counter()
    echoed: Counter[str] = Counter()  # the kernel may leave out either of the two lines
    for text in texts:
        if _BOOTED.match(text):
            found["before"] += of_banks["uncorrected"]
            of_banks.clear()
        elif severity := _SEVERITY.match(text):
            how = "uncorrected" if severity[2] in {"recoverable", "fatal"} else severity[2]
            if severity[1]:
                found[how] += 1
            elif how == "uncorrected":
                found["before"] += 1
        elif status := _STATUS.match(text):
            # the decoder of AMD alone names a register
            bad = _UNCORRECTED | (_DEFERRED if is_amd or status[1] else 0)
            counted = echoed if _ECHO.match(text) else of_banks
            counted["uncorrected" if int(status[2], 16) & bad else "corrected"] += 1
    return (found | echoed) + of_banks


def modules_in(texts: Iterable[str]) -> Mapping[str, int]:
    """How many corrected errors are logged of each memory module. What may be of either of two
    counts for both.
    """
    found: Counter[str] = Counter()
    for text in texts:
        if match := _OF_MODULE.match(text):
            found.update(dict.fromkeys(match[2].split(" or "), int(match[1])))
    return found


def lockups_in(texts: Sequence[str]) -> tuple[str, ...]:
    """Each once, with how often."""
    found: Counter[str] = Counter()
    longest: dict[str, int] = {}
    for text in texts:
        if soft := _SOFT.match(text):
            name = f"soft lockup in {soft[3]}"
            found[name] += 1
            longest[name] = max(longest.get(name, 0), int(soft[2]))
        elif _HARD.match(text):
            found["hard lockup"] += 1
        elif _RCU.match(text):
            found["stall of RCU"] += 1
    return tuple(
        name
        + (f" ({longest[name]} s)" if name in longest else "")
        + (f", {many} times" if many > 1 else "")
        for name, many in found.items()
    )


def stalls_often(texts: Iterable[str]) -> bool:
    """Whether there is more than one short stall."""
    soft = [int(match[2]) for text in texts if (match := _SOFT.match(text))]
    others = sum(
        2 if _HARD.match(text) else 1 for text in texts if _HARD.match(text) or _RCU.match(text)
    )
    return len(soft) + others > 1 or max(soft, default=0) >= _STUCK_S


def died_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The modules in which the kernel was when it met an error of its own, each once; what is built
    in has no name.
    """
    found: dict[str, None] = {}
    dies = False
    for text in texts:
        if _DIES.match(text):
            dies = True
        elif match := _PLACE.match(text):
            found |= {match[1]: None} if dies and match[1] else {}
            dies = False
    return tuple(found)


def stuck_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The processors of which the newest lines, in the order in which they came, say that the same
    task holds them for longer and longer. A machine that was paused says so once.
    """
    # by processor: its task, seconds, whether these grew
    held: dict[str, tuple[str, int, bool]] = {}
    names: dict[str, str] = {}
    for text in texts:
        if soft := _SOFT.match(text):
            task, seconds = soft[4], int(soft[2])
            before = held.get(soft[1])
            held[soft[1]] = (
                task,
                seconds,
                before is not None and before[0] == task and before[1] < seconds,
            )
            names[soft[1]] = soft[3]
    return tuple(
        f"CPU {cpu} in {names[cpu]} for {describe_ago(seconds).removesuffix(' ago')}"
        for cpu, (_, seconds, grew) in held.items()
        if grew and seconds >= _STUCK_S
    )


def cards_in(
    slots: Sequence[str], lines: Sequence[str], recent: Sequence[str], settled: Sequence[str]
) -> tuple[LoggedCard, ...]:
    """The cards that are here, and those of which the lines speak, as LoggedCard has them."""

    def by_slot(pattern: re.Pattern[str], texts: Sequence[str]) -> dict[str, list[str]]:
        """What the pattern found last in each line, by slot."""
        found: dict[str, list[str]] = {}
        for text in texts:
            if match := pattern.match(text):
                found.setdefault(match[1], []).append(match[match.lastindex or 0])
        return found

    spoken = {
        slot for pattern in (_DOWN, _STALL, _PORT, _POWER) for slot in by_slot(pattern, lines)
    }
    downs, stalls = by_slot(_DOWN, settled), by_slot(_STALL, settled)
    modules, powers = by_slot(_PORT, recent), by_slot(_POWER, lines)
    cards = []
    for slot in sorted({*slots, *spoken}):
        reports, watts = modules.get(slot, ()), powers.get(slot, ())
        faults = [one for one in reports if _HOT not in one.lower()]
        cards.append(
            LoggedCard(
                slot=slot,
                link_downs=len(downs.get(slot, ())),
                stalls=len(stalls.get(slot, ())),
                is_hot=len(faults) < len(reports),
                cable=faults[-1] if faults else "",
                firmware_fault="",
                is_portless=False,
                slot_power=watts[-1] if watts else "",
            )
        )
    return tuple(cards)
