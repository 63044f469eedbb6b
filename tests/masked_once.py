"""The masker of secrets, which remembers: tests that show the same texts on many pages and hosts
mask each text once.

What it makes of a text hangs on the text only. Tests of the masker itself, and those that measure,
use the real one.
"""

from __future__ import annotations

from functools import cache

from hosttune.host.masking import secrets

mask_once = cache(secrets.mask_sentence)
