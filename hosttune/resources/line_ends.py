"""How the lines of someone's text file end, so that what is added ends alike. Pure."""

from __future__ import annotations


def line_end(data: bytes) -> bytes:
    """CR LF or LF, as the last line that has an end; LF where none has."""
    end = data.rfind(b"\n")
    return b"\r\n" if end > 0 and data[end - 1 : end] == b"\r" else b"\n"
