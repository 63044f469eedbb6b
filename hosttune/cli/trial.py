"""`hosttune trial`: the older name of what `hosttune status` shows of a trial, which scripts
use.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from hosttune.cli.options import Option, ShowPlain, TargetOptions

EXAMPLES = ("sudo hosttune trial",)


def trial(
    look: TargetOptions,
    show: ShowPlain,
    wait: Annotated[
        bool, Option("--wait", help="Wait until it is confirmed or rolled back.")
    ] = False,
) -> int:
    """Show the changes on trial and what stopped working. This is the older name of a part of
    `hosttune status`.

    Exit status: 0 nothing on trial (any more), 1 on trial or rolled back, 2 the rollback failed, or
    trouble.
    """
    from hosttune.cli import common
    from hosttune.cli.options import HostOptions
    from hosttune.cli.status import look_at_trial
    from hosttune.codec import make_document
    from hosttune.host import open_reader
    from hosttune.views.masking import mask_data

    if not show.is_json:
        common.tell("hosttune: `trial` is now a part of: sudo hosttune status")
    options = HostOptions(root=look.root, host=look.host, hardware=look.hardware)
    reader = open_reader(root=look.root, host=common.one_host(look), hardware=look.hardware)
    common.tell_chroot(reader, options)
    seen = look_at_trial(reader, partial(common.open_way_back, options), wait=wait)
    if show.is_json:
        common.write_json(mask_data(make_document(seen.to_json())))
    else:
        common.say(seen.to_report(common.open_page(reader, look, show)))
    return seen.exit_status
