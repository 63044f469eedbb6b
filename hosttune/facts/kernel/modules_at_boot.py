"""The modules that systemd-modules-load loads at boot by name (modules-load.d(5); /etc/modules of Debian is a link),
and what keeps the next boot from loading a module: modprobe.d, and the kernel command line.

systemd-modules-load leaves out what is blacklisted, and fails at `install X /bin/false` and, before systemd 253, at
module_blacklist= (https://github.com/systemd/systemd/issues/25182).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.kernel.module_options import one
from hosttune.facts.placed import Placed
from hosttune.facts.reading import drop_in_texts, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_FOLDERS = (
    "/etc/modules-load.d", "/run/modules-load.d", "/usr/local/lib/modules-load.d", "/usr/lib/modules-load.d",
    "/lib/modules-load.d",
)  # fmt: skip


ON_COMMAND_LINE = "on the kernel command line"  # how what is no file ends
_ARGUMENTS = ("module_blacklist", "modprobe.blacklist")  # of the kernel, and of kmod (modprobe(8))


def modules_at_boot(reader: Reader) -> Iterator[Placed]:
    """The names as they are written, each with its file and line."""
    for path, content in (*texts(reader, ["/etc/modules"]), *drop_in_texts(reader, _FOLDERS)):
        for number, line in enumerate(content.splitlines(), 1):
            name = line.strip()
            if name and not name.startswith(("#", ";")):
                yield Placed(name, path, number)


def kept_out_at_boot(facts: Facts) -> Mapping[str, str]:
    """Module -> what keeps the next boot from loading it for a device, or by name: a file of modprobe.d, or
    `module_blacklist=X on the kernel command line`.
    """
    now, change = facts.kernel.command_line, facts.cmdline
    words = (*(word for word in now if word not in change.removed), *change.added)
    told = (word for word in words if word.partition("=")[0] in _ARGUMENTS)
    given = {one(name): f"{word} {ON_COMMAND_LINE}" for word in told for name in word.partition("=")[2].split(",")}
    return {**given, **facts.module_options.kept_out}
