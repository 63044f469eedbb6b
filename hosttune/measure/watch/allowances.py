"""Packets that a cloud queued or dropped because the machine's type allows no more.

Amazon's ENA driver counts them as *_allowance_exceeded (amzn-drivers, ena_ethtool.c; "Monitor
network performance for ENA settings" of the EC2 user guide). They are read as ethtool -S does
(include/uapi/linux/ethtool.h): anybody may.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
from contextlib import suppress
from typing import Final

from hosttune.host.reading.bounded import names_in
from hosttune.measure.watch.tick import HeldBack

EVERY = 10  # looks: each costs a question to the card
_MOST_CARDS, _MOST_COUNTERS = 32, 4096
_DRIVERS: Final = frozenset({"ena"})
_SUFFIX: Final = "_allowance_exceeded"
_SIOCETHTOOL: Final = 0x8946
_GSTRINGS, _GSTATS, _GSSET_INFO = 0x1B, 0x1D, 0x37
_SS_STATS: Final = 1  # ETH_SS_STATS
_NAME: Final = 32  # ETH_GSTRING_LEN
# The kernel writes as many as there are now, whatever was asked for: a card may have got some since
# it was asked.
_SPARE: Final = 512


class Allowances:
    """`sys` is where /sys is, for tests."""

    def __init__(self, *, sys: str = "/sys") -> None:
        self._cards = _list_cards(f"{sys}/class/net")
        # The counters run since the driver was loaded, so only what they gain while the job is
        # watched says anything.
        self._was = self._counts()

    def look(self) -> tuple[HeldBack, ...]:
        """What has grown since the last look."""
        now, was = self._counts(), self._was
        self._was = now
        return tuple(
            HeldBack(name, now[name] - was[name])
            for name in now
            # A card that came later has no earlier look, and all that it counted before is not of
            # this time.
            if now[name] > was.get(name, now[name])
        )

    def _counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for card in self._cards:
            with suppress(OSError, struct.error, OverflowError):
                found |= {f"{card} {name}": count for name, count in card_counters(card).items()}
        return found


def card_counters(card: str) -> dict[str, int]:
    """The allowance counters of a card. Raises OSError where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asked:
        # Three questions: how many counters, their names, their values. The driver lists them in
        # the same order.
        sets = _ask(asked, card, struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _SS_STATS, 0))
        count = struct.unpack_from("=I", sets, 16)[0]
        if not 0 < count <= _MOST_COUNTERS:
            raise OSError(f"{card} has {count} counters")
        room = count + _SPARE
        names = _ask(
            asked, card, struct.pack("=III", _GSTRINGS, _SS_STATS, count) + bytes(room * _NAME)
        )
        values = _ask(asked, card, struct.pack("=II", _GSTATS, count) + bytes(room * 8))
    return allowances_of(names[12 : 12 + count * _NAME], values[8 : 8 + count * 8])


def allowances_of(names: bytes, values: bytes) -> dict[str, int]:
    """Counters from the two answers: names of 32 bytes, numbers of 8. Pure."""
    found = {}
    for place in range(min(len(names) // _NAME, len(values) // 8)):
        name = (
            names[place * _NAME : (place + 1) * _NAME]
            .partition(b"\0")[0]
            .decode("ascii", "replace")
        )
        if name.endswith(_SUFFIX):
            found[name] = struct.unpack_from("=Q", values, place * 8)[0]
    return found


def _ask(asked: socket.socket, card: str, request: bytes) -> bytes:
    buffer = array.array("B", request)
    fcntl.ioctl(
        asked.fileno(),
        _SIOCETHTOOL,
        struct.pack("@16sP16x", card.encode()[:15], buffer.buffer_info()[0]),
    )
    return buffer.tobytes()


def _list_cards(folder: str) -> tuple[str, ...]:
    with suppress(OSError):
        names = names_in(folder, 1 << 10)[0]
        return tuple(name for name in names if _read_driver(f"{folder}/{name}") in _DRIVERS)[
            :_MOST_CARDS
        ]
    return ()


def _read_driver(card: str) -> str:
    try:
        return os.path.basename(os.readlink(f"{card}/device/driver"))
    except OSError:
        return ""
