"""Triggers that make what the next boot reads: GRUB's menu and the initial RAM disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import Refused
from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.kernel import grub_arguments as grub
from hosttune.facts.kernel.initramfs import DRACUT, find_generator, list_images
from hosttune.facts.reading import require_known
from hosttune.resources.kernel.kernel_argument import describe_unproven
from hosttune.values import FileValue

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader, Writer
    from hosttune.host.overlay.overlay import Overlay

GRUB_TIMEOUT_S = 300.0  # os-prober looks at every partition
INITRAMFS_TIMEOUT_S = 900.0  # of all kernels, on a slow disk


def update_grub(writer: Writer, name: str) -> None:  # noqa: ARG001 - the interface of all triggers
    """Write the menu anew and read it back. Raises Refused when a normal entry lacks an argument of
    ours.
    """
    from hosttune.host.overlay.overlay import Overlay

    if isinstance(writer, Overlay):
        _foretell_menu(writer)
    else:
        writer.run(("update-grub",), timeout_s=GRUB_TIMEOUT_S)
    # A status of 0 does not mean that our argument is in the menu: a file that is read later can
    # assign the variable afresh.
    if reason := describe_unproven(writer):
        raise Refused(f"update-grub ran, and {reason}")


def _foretell_menu(overlay: Overlay) -> None:
    """The menu of the host below, with the arguments that the settings of the overlay add up to."""
    try:
        menu = require_known(overlay.base.read(grub.MENU), grub.MENU)
        before, after = grub.arguments_of(overlay.base), grub.arguments_of(overlay)
    except UnknownFact as unknown:
        raise Refused(
            f"what update-grub makes of these settings is not known: {unknown.reason}"
        ) from None
    # Titles in the menu may hold bytes that are not UTF-8. They have to come back as they were.
    text = grub.regenerate(menu.decode("utf-8", "surrogateescape"), before, after)
    overlay.files[grub.MENU] = FileValue(text.encode("utf-8", "surrogateescape"), 0o600)


def written_by_grub(reader: Reader) -> tuple[str, ...]:  # noqa: ARG001 - the interface of all triggers
    return (grub.MENU,)


def written_by_initramfs(reader: Reader) -> tuple[str, ...]:
    """The initial RAM disks; none if they cannot be listed, which is reported when they are
    built.
    """
    return read_or_default(
        lambda: tuple(f"/boot/initrd.img-{release}" for release in list_images(reader)), ()
    )


def image_waits(facts: Facts) -> str:
    """What these programs write depends on the system they run in, so an image does it itself."""
    return "it has to run inside of the image" if facts.reader.persistent_only else ""


def rebuild_initramfs(writer: Writer, name: str) -> None:  # noqa: ARG001 - the interface of all triggers
    """Build the initial RAM disks of all kernels anew, with the program that built them."""
    try:
        releases = list_images(writer)
    except UnknownFact as unknown:
        raise Refused(unknown.reason) from unknown
    # On Ubuntu 26.04, which builds with dracut, initramfs-tools may still be installed. Its images
    # would not be those that boot.
    if find_generator(writer) == DRACUT:
        for release in releases:
            writer.run(
                ("dracut", "--force", f"/boot/initrd.img-{release}", release),
                timeout_s=INITRAMFS_TIMEOUT_S,
            )
    elif releases:
        writer.run(("update-initramfs", "-u", "-k", "all"), timeout_s=INITRAMFS_TIMEOUT_S)
