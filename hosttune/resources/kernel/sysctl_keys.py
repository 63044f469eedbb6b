"""Which sysctls there are: the keys of kernels that a rule may be written for, so that a typo is
known from a key.

The list, sysctl_keys.txt, says itself from which sources it was made; `python -m
tests.tables.sysctl_keys` makes it. In it a part that is an interface's or another thing's own name
is `*`. What a module outside of the kernel brings is not in it: a wish names such a module
(`module: lnet`), and an expression that asks for such a key is asked for what it is.
"""

from __future__ import annotations

from functools import cache

from hosttune.facts.lookups import fits_parts
from hosttune.textfiles import own_file


@cache
def _load_keys() -> tuple[frozenset[str], tuple[tuple[str, ...], ...]]:
    """The plain keys, and those with a part that means any, in parts."""
    content = own_file("resources/kernel/sysctl_keys.txt")
    if content is None:
        raise FileNotFoundError("hosttune/resources/kernel/sysctl_keys.txt")
    lines = [
        line for line in content.decode("ascii").splitlines() if line and not line.startswith("#")
    ]
    plain = frozenset(line for line in lines if "*" not in line)
    return plain, tuple(tuple(line.split(".")) for line in lines if "*" in line)


def is_known(key: str) -> bool:
    """Whether some kernel has this key."""
    plain, patterns = _load_keys()
    return key in plain or any(fits_parts(key.split("."), pattern) for pattern in patterns)


def nearest_key(key: str) -> str:
    """The key that was meant, or nothing: of one with a part of its own, with that part."""
    from difflib import get_close_matches

    plain, patterns = _load_keys()
    parts = key.split(".")
    filled = {
        ".".join(part if mark == "*" else mark for part, mark in zip(parts, pattern, strict=True))
        for pattern in patterns
        if len(pattern) == len(parts)
    }
    return next(iter(get_close_matches(key, [*plain, *filled], n=1, cutoff=0.75)), "")


def unknown_key(key: str) -> str:
    """A sentence where no kernel is known to have the key, with the nearest that one has; empty
    where one has it.
    """
    if is_known(key):
        return ""
    near = nearest_key(key)
    return f"no kernel is known to have {key}" + (f"; did you mean {near}?" if near else "")
