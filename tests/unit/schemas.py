"""The JSON Schemas of the package, as validators."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

FOLDER = Path(__file__).resolve().parents[2] / "hosttune" / "schemas"
SCHEMAS = {
    path.name: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(FOLDER.glob("*.json"))
}
REGISTRY = Registry().with_resources(
    (name, Resource.from_contents(schema, default_specification=DRAFT202012))
    for name, schema in SCHEMAS.items()
)


def faults(document, schema: str) -> list[str]:
    """What is wrong with a document by `schemas/<schema>.json`; a document that JSON cannot carry
    raises.
    """
    validator = Draft202012Validator(SCHEMAS[f"{schema}.json"], registry=REGISTRY)
    carried = json.loads(json.dumps(document, allow_nan=False))
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(carried)]
