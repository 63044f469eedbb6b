"""The colours that the site of the documents sets itself have the contrast of WCAG 2.2 AA for text
(1.4.3): 4.5:1, on the page, on a block of code, and on the tint of the page that is open. The
theme's own colours were computed once, from the stylesheet of Zensical 0.0.67: all of its text has
4.5:1 or more, other than these.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CSS = (ROOT / "docs" / "colours.css").read_text(encoding="utf-8")
# The page and a block of code, as the theme has them.
BEHIND = {"default": ("#ffffff", "#f5f5f5"), "slate": ("#0b0c0f", "#14171f")}
LEAST = 4.5


def channels(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))


def luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance, as WCAG defines it."""
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_that_of_known_pairs():
    assert round(contrast(channels("#000000"), channels("#ffffff")), 1) == 21.0
    assert round(contrast(channels("#526cfe"), channels("#ffffff")), 1) == 4.3


@pytest.mark.parametrize("scheme", BEHIND)
def test_accent_of_the_site_can_be_read(scheme):
    assert yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["extra_css"] == [
        "colours.css"
    ]
    own = re.search(rf'\[data-md-color-scheme="{scheme}"\] {{(.*?)}}', CSS, re.DOTALL)[1]
    accent = re.search(r"--md-accent-fg-color: (#[0-9a-f]{6});", own)[1]
    assert f"--md-accent-fg-color--transparent: {accent}1a;" in own  # 1a: a tenth of it
    for page in map(channels, BEHIND[scheme]):
        tint = tuple(
            0.1 * top + 0.9 * below for top, below in zip(channels(accent), page, strict=True)
        )
        assert contrast(channels(accent), page) >= LEAST
        assert contrast(channels(accent), tint) >= LEAST
