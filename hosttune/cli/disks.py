"""`hosttune disks`: disks, what is on them, where it is mounted, what is free, and whether fstab
knows it.
"""

from __future__ import annotations

from hosttune.cli.options import DisplayOptions, TargetOptions

EXAMPLES = ("hosttune disks",)


def disks(look: TargetOptions, show: DisplayOptions) -> int:
    """Show disks, file systems, mounts and fstab together."""
    from hosttune.cli.common import one_host, open_page, say, write_json
    from hosttune.errors import HosttuneError
    from hosttune.facts import Facts, UnknownFact
    from hosttune.host import open_reader
    from hosttune.views.disks import disks_json, disks_of, disks_text
    from hosttune.views.masking import mask_data

    reader = open_reader(root=look.root, host=one_host(look), hardware=look.hardware)
    try:
        found = disks_of(Facts(reader))
    except UnknownFact as unknown:
        raise HosttuneError(f"the disks are not known: {unknown.reason}") from None
    if show.is_json:
        write_json(mask_data(disks_json(found)))
    else:
        say(disks_text(found, open_page(reader, look, show)))
    return 0
