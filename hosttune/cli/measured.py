"""The results of earlier benches that hold for the host that is looked at. A start without any costs one look into a
folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.cli.options import HostOptions
    from hosttune.views.measure.measured import Quote


def measured(look: HostOptions) -> tuple[Quote, ...]:
    """What may be quoted of this host: of this kernel, and of file systems that are where they were. Root sees what
    root alone could have written. Nothing for a record or a root of files.
    """
    from hosttune.measure.bench import state

    if look.root or look.host or not state.names(""):
        return ()
    from hosttune.host import open_reader
    from hosttune.measure.bench.results import stored
    from hosttune.measure.bench.uuids import uuids_at
    from hosttune.views.measure.measured import quote_results

    reader, results = open_reader(), stored()
    kernel = reader.read("/proc/sys/kernel/osrelease")
    if reader.kind != "live" or not results or not isinstance(kernel, bytes):
        return ()
    uuids = uuids_at({one.target: one.fstype for one in results})
    return quote_results(results, kernel.decode("ascii", "replace").strip(), uuids, reader.now())
