"""What deep-learning frameworks say in the Python of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.facts.framework.framework import Framework


class FrameworkFacts:
    """The subjects in this folder."""

    framework: Framework
