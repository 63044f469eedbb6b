"""The JSON Schemas for editors are those that the checks are made from, and they accept what the
checks accept.
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hosttune.engine.rules.compiled import builtin_documents
from hosttune.engine.rules.shapes import make_schemas
from tests.generated import hold

FOLDER = Path(__file__).resolve().parents[2] / "hosttune" / "schemas"
SCHEMAS = make_schemas()
RULE, POLICY = (
    jsonschema.Draft202012Validator(SCHEMAS[name]) for name in ("rule.json", "policy.json")
)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schema_is_one(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schema_file_is_what_the_shapes_make(name):
    hold(FOLDER / name, json.dumps(SCHEMAS[name], indent=2) + "\n")


@pytest.mark.parametrize(
    "document",
    [d for d in builtin_documents() if d.name.startswith("rules/")],
    ids=lambda d: d.data["id"],
)
def test_builtin_rule_fits_the_schema(document):
    RULE.validate(document.data)


def test_policies_of_the_documents_fit_the_schema():
    import yaml

    pages = [
        FOLDER.parents[1] / "docs" / name for name in ("how-to/driver.md", "tutorial/first-hour.md")
    ]
    texts = [
        text.split("```")[0]
        for page in pages
        for text in page.read_text("utf-8").split("```yaml\n")[1:]
    ]
    assert len(texts) == 2
    for text in texts:
        policy = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - it makes text of everything, dates too
        POLICY.validate(policy)


def test_policy_with_an_unknown_key_does_not_fit():
    with pytest.raises(jsonschema.ValidationError):
        POLICY.validate({"profil": "base"})
