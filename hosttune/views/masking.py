"""Secrets in what is shown as data: the same masker as in records. The journal keeps the true
bytes.
"""

from __future__ import annotations

from typing import Any

from hosttune.host.masking.secrets import mask_sentence


def mask_data(data: Any) -> Any:
    """JSON data with every text masked."""
    if isinstance(data, str):
        return mask_sentence(data)
    if isinstance(data, list):
        return [mask_data(item) for item in data]
    return {key: mask_data(item) for key, item in data.items()} if isinstance(data, dict) else data
