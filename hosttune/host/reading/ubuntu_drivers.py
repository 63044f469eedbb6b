"""What `ubuntu-drivers` prints, for the door, which keeps its good answers, and for facts. Pure.

Source: github.com/canonical/ubuntu-drivers-common, branches focal to master (0.9.0 to 0.10.10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hosttune.frozen import frozen
from hosttune.regex import regex

PACKAGE = regex(r"nvidia-(?:driver-)?(\d{3})(-server)?(-open)?")
_SECTION = regex(r"== (\S.*) ==\s*")
_FIELD = regex(r"([a-z_]+)\s*: ?(.*)")
_LISTED = regex(r"(\S+?),? +\(kernel modules provided by ([a-z0-9][a-z0-9.+-]*[a-z0-9])\)|(\S+)")


@frozen
class DriverDevice:
    """One device of `ubuntu-drivers devices`."""

    device: str
    modalias: str
    vendor: str
    model: str
    drivers: tuple[str, ...]  # each what is behind `driver   : `
    is_manual: bool

    @property
    def is_nvidia(self) -> bool:
        return "v000010DE" in self.modalias or "nvidia" in self.vendor.lower()


def parse_sections(output: str) -> tuple[DriverDevice, ...]:
    """The sections of `ubuntu-drivers devices`, in order; lines of no section (warnings,
    tracebacks) are left out.
    """
    return tuple(_parse_section(head, lines) for head, lines in _split_chunks(output.splitlines()))


def _split_chunks(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    head, body = "", list[str]()
    for one in lines:
        match = _SECTION.fullmatch(one)
        if match:
            if head:
                yield head, body
            head, body = match[1], []
        elif head:
            body.append(one)
    if head:
        yield head, body


def _parse_section(head: str, lines: list[str]) -> DriverDevice:
    fields = [(match[1], match[2]) for one in lines if (match := _FIELD.fullmatch(one.rstrip()))]
    # Reversed, because of two with one name a dict keeps the last.
    first = dict(reversed(fields))
    return DriverDevice(
        device=head,
        modalias=first.get("modalias", ""),
        vendor=first.get("vendor", ""),
        model=first.get("model", ""),
        drivers=tuple(value for key, value in fields if key == "driver"),
        is_manual=first.get("manual_install", "") == "True",
    )


def parse_list(output: str) -> dict[str, str]:
    """Package -> package that brings its modules (empty if that is not known), of `ubuntu-drivers
    list`.
    """
    providers = {}
    for one in output.splitlines(keepends=True):
        match = _LISTED.fullmatch(one.strip())
        name = (match[1] or match[3]) if match else ""
        # a bare name that no line end follows may be the beginning of a longer one
        if match and PACKAGE.fullmatch(name) and (match[1] or one.endswith("\n")):
            providers[name] = match[2] or ""
    return providers
