"""The id of a machine outside it: a hash of its id, never the id (machine-id(5) asks for a keyed
hash).
"""

from __future__ import annotations

from typing import Final

_HASHED: Final = "hosttune:"  # in front of the hash that a record keeps in place of the id


def machine_id_hash(machine_id: str) -> str:
    """The id of a machine in plans and reports: 16 hex digits that do not lead back to
    /etc/machine-id (machine-id(5) asks for a keyed hash). A record holds the hash in place of the
    id; "" for no id.
    """
    import hashlib

    text = machine_id.strip()
    # An image has this word until its first boot makes an id (machine-id(5)).
    if not text or text == "uninitialized":
        return ""
    if text.startswith(_HASHED):
        return text[len(_HASHED) :]
    return hashlib.sha256(f"hosttune:{text}".encode()).hexdigest()[:16]


def hashed_machine_id(machine_id: str) -> str:
    """The text that a record keeps as the content of /etc/machine-id."""
    digest = machine_id_hash(machine_id)
    return f"{_HASHED}{digest}\n" if digest else machine_id
