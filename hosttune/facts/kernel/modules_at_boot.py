"""The modules that systemd-modules-load loads at boot by name (modules-load.d(5); /etc/modules of
Debian is a link), and what keeps the next boot from loading a module: modprobe.d, and the kernel
command line.

systemd-modules-load leaves out what is blacklisted, and fails at `install X /bin/false` and, before
systemd 253, at module_blacklist= (https://github.com/systemd/systemd/issues/25182).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.kernel.kernel import of_kernel
from hosttune.facts.kernel.module_options import normalize_module
from hosttune.facts.placed import Placed
from hosttune.facts.reading import drop_in_texts, read_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_FOLDERS = (
    "/etc/modules-load.d", "/run/modules-load.d", "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d", "/lib/modules-load.d",
)  # fmt: skip


ON_COMMAND_LINE = "on the kernel command line"  # how what is no file ends
_ARGUMENTS = ("module_blacklist", "modprobe.blacklist")  # of the kernel, and of kmod (modprobe(8))


def modules_at_boot(reader: Reader) -> Iterator[Placed]:
    """The names as they are written, each with its file and line."""
    files = [*read_texts(reader, ["/etc/modules"]), *drop_in_texts(reader, _FOLDERS)]
    # modules.conf is a link to it
    own = {reader.resolve(path) for path, _ in files if path == "/etc/modules"}
    for path, content in files:
        if path != "/etc/modules" and reader.resolve(path) in own:
            continue
        for number, line in enumerate(content.splitlines(), 1):
            name = line.strip()
            if name and not name.startswith(("#", ";")):
                yield Placed(name, path, number)


def kept_out_at_boot(facts: Facts) -> Mapping[str, str]:
    """Module -> what keeps the next boot from loading it for a device, or by name: a file of
    modprobe.d, or `module_blacklist=X on the kernel command line`.
    """
    return {**_kept_out_by_arguments(facts), **facts.module_options.kept_out}


def kept_out_now(facts: Facts, module: str) -> str:
    """What keeps the running kernel from loading this module, as in `kept_out_at_boot`; empty for
    nothing.
    """
    kept_out = attempt(lambda: facts.module_options.kept_out)
    place = kept_out.get(module) if isinstance(kept_out, Mapping) else None
    return place or _kept_out_by_arguments(facts, is_now=True).get(module, "")


def _kept_out_by_arguments(facts: Facts, *, is_now: bool = False) -> dict[str, str]:
    now, removed, added = (
        known
        if isinstance(known := attempt(look), tuple)
        else ()  # each counts for itself: an image has no command line
        for look in (
            lambda: facts.kernel.command_line,
            lambda: facts.cmdline.removed,
            lambda: facts.cmdline.added,
        )
    )
    # Of the next boot: its words are those of now, less what GRUB's menu no longer has. The running
    # command line by itself would name what is gone.
    words = of_kernel(now if is_now else (*(word for word in now if word not in removed), *added))
    arguments = (word for word in words if word.partition("=")[0] in _ARGUMENTS)
    return {
        normalize_module(name): f"{word} {ON_COMMAND_LINE}"
        for word in arguments
        for name in word.partition("=")[2].split(",")
    }
