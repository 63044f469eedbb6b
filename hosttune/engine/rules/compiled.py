"""The built-in rules and profiles as documents: from the compiled catalogue of a wheel, or from
their YAML files.

Parsing sixty YAML files costs more than the whole start of a command, so the wheel carries
`rules/catalog.json`, made from them when it is built. A checkout has no such file: there the YAML,
which is the source, is read.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from hosttune.engine.rules.document import YamlFile
from hosttune.textfiles import own_file

if TYPE_CHECKING:
    from pathlib import Path

FORMAT_VERSION = 1
FOLDERS = ("rules", "profiles")


@cache
def builtin_documents() -> tuple[YamlFile, ...]:
    """Every built-in rule and profile, in the order of their paths (`rules/<domain>/<id>.yaml`,
    `profiles/<id>.yaml`). Read once by a process, as its code is: no one changes what is handed
    out.
    """
    # A checkout must not have this file, or a rule that is edited there would do nothing.
    compiled = own_file("rules/catalog.json")
    if compiled is not None:
        entries = json.loads(compiled)["documents"]
        return tuple(YamlFile(**entry) for entry in entries)
    from pathlib import Path

    return tuple(_documents_from_yaml(Path(__file__).resolve().parents[2]))


def _documents_from_yaml(package: Path) -> list[YamlFile]:
    from hosttune.engine.rules.yamlio import load_document

    paths = sorted(path for folder in FOLDERS for path in (package / folder).rglob("*.yaml"))
    return [
        load_document(path.read_text(encoding="utf-8"), path.relative_to(package).as_posix())
        for path in paths
    ]


def compile_catalog(root: Path) -> str:
    """The text of `catalog.json` for the checkout at `root` (the folder of pyproject.toml)."""
    documents = [
        {
            "name": document.name,
            "data": document.data,
            "lines": dict(document.lines),
            **_find_asked_names(document),
        }
        for document in _documents_from_yaml(root / "hosttune")
    ]
    return (
        json.dumps(
            {"format_version": FORMAT_VERSION, "documents": documents}, separators=(",", ":")
        )
        + "\n"
    )


def _find_asked_names(document: YamlFile) -> dict[str, Any]:
    """What the expressions of a rule use, and whether health asks it, so that a start need not read
    them all to know it.
    """
    if not document.name.startswith("rules/"):
        return {}
    from hosttune.engine.rules.rule import build_rule

    rule = build_rule(document, is_builtin=True)
    asks = {"subjects": rule.subjects, "units": rule.units}
    return {
        "asks": {name: sorted(names) for name, names in asks.items()},
        "tells_health": rule.tells_health,
    }
