"""The receipts of runs, `/var/lib/hosttune/receipts/<run id>.json`: what a run did is kept there
too where its terminal went away. They are kept as long as their runs, with secrets masked.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hosttune.actions.trial.login_notice import show_at_login
from hosttune.codec import dump_json, receipt_to_json
from hosttune.errors import HosttuneError
from hosttune.host.masking.cleaned import Cleaned, clean
from hosttune.values import ABSENT, FileValue
from hosttune.views.masking import mask_data

if TYPE_CHECKING:
    from collections.abc import Collection

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Receipt

FOLDER = "/var/lib/hosttune/receipts"
MOTD = "/run/motd.d/61-hosttune-run"  # pam_motd(8) shows the files there at each login
_END = ".json"


def path_of(run_id: str) -> str:
    """Where the receipt of this run is kept."""
    return f"{FOLDER}/{run_id}{_END}"


def keep_receipt(writer: Writer, receipt: Receipt) -> None:
    """Keep it for `history`, and for the next login. Never raises: the journal holds all that
    counts.
    """
    # The journal needs values as they are, for the undo. A receipt is for people, so secrets are
    # masked in it.
    content = dump_json(mask_data(receipt_to_json(receipt))).encode()
    with suppress(HosttuneError):
        if writer.read(path_of(receipt.run_id)) is ABSENT:
            writer.replace(path_of(receipt.run_id), FileValue(content, 0o600), expected=ABSENT)


def kept_receipts(reader: Reader) -> frozenset[str]:
    """The runs of which a receipt is kept, as far as this user may see them."""
    names = reader.list(FOLDER)
    return frozenset(
        name.removesuffix(_END)
        for name in (names if isinstance(names, tuple) else ())
        if name.endswith(_END)
    )


def drop_receipts(writer: Writer, kept: Collection[str]) -> None:
    """Remove the receipts of runs that are kept no longer."""
    for run in sorted(kept_receipts(writer) - set(kept)):
        if isinstance(content := writer.read(path_of(run)), bytes):
            writer.remove(path_of(run), expected=content)


def tell_next_login(writer: Writer, text: Cleaned) -> None:
    """What became of a run whose terminal went away; empty where there is nothing more to tell."""
    if not writer.persistent_only:
        show_at_login(writer, MOTD, text)


def unseen_text(command: str, receipt: Receipt) -> Cleaned:
    """What the next login shows of a run whose end was shown on no terminal."""
    made = len(
        {one.change.address for one in receipt.outcomes}
        - {one.change.address for one in receipt.failed}
    )
    parts = [f"{made} made", *([f"{len(receipt.failed)} failed"] if receipt.failed else [])]
    parts += [f"{len(receipt.left)} not begun"] if receipt.left else []
    sentence = (
        f"hosttune: the connection was lost during {command}, and run {receipt.run_id} went on: "
        f"{', '.join(parts)}"
    )
    return clean(f"{sentence}; see: sudo hosttune history --verbose")
