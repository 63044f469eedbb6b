"""Secrets in what is shown: `password=...` and its kin, and `user:password@host`. The journal keeps the true bytes."""

from __future__ import annotations

from typing import Any

from hosttune.regex import regex

MASK = "********"

_KEYS = r"pass(?:wd|word|phrase|code)?2?|pwd|secret|token|(?:api|access|private|auth|secret)[_-]?key"
# A file of such a name, as in `/etc/passwd: Not a directory`, is followed by a reason, not by a secret.
_OPTION = regex(rf"(?i)((?:\b|_)(?:{_KEYS})\s*=\s*|(?:(?<!/)\b|_)(?:{_KEYS})\s*:\s*)(\"[^\"]*\"|'[^']*'|[^\s,;\"']+)")
_LOGIN = regex(r"((?:://)?[^\s/:@,=]*:)([^\s/@]+)(?=@)")  # user:password@, as in URLs and the sources of mounts


def mask(text: str) -> str:
    """`text` with passwords, tokens and keys replaced by asterisks; what they belong to stays readable."""
    if "=" not in text and ":" not in text:
        return text
    return _LOGIN.sub(rf"\1{MASK}", _OPTION.sub(rf"\1{MASK}", text))


def masked(data: Any) -> Any:
    """JSON data with every text masked."""
    if isinstance(data, str):
        return mask(data)
    if isinstance(data, list):
        return [masked(item) for item in data]
    return {key: masked(item) for key, item in data.items()} if isinstance(data, dict) else data
