"""Build hook of the wheel: adds templates/ and the rule catalogue, compiled from its YAML sources.

An editable install gets neither: the package reads both from the checkout, where a copy would go
stale.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelContents(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        self._scratch = tempfile.TemporaryDirectory(prefix="hosttune-build-")
        catalog = Path(self._scratch.name) / "catalog.json"
        catalog.write_text(compiled_catalog(root), encoding="utf-8")
        build_data["force_include"][str(catalog)] = "hosttune/rules/catalog.json"
        build_data["force_include"][str(root / "templates")] = "hosttune/templates"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del build_data, artifact_path
        if version != "editable":
            self._scratch.cleanup()


def compiled_catalog(root: Path) -> str:
    """Compile the rules and profiles of the tree at `root` with that tree's own loader, whatever
    else is installed.
    """
    sys.path.insert(0, str(root))
    try:
        compiled = importlib.import_module("hosttune.engine.rules.compiled")
    finally:
        sys.path.remove(str(root))
    return str(compiled.compile_catalog(root))
