"""The catalogue: the built-in rules and profiles, and an administrator's own in /etc/hosttune/rules.d."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.engine.compiled import builtin_documents
from hosttune.engine.rule import build_rule
from hosttune.errors import BadInput, Fault
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.engine.document import Document
    from hosttune.engine.rule import Rule
    from hosttune.host.door import Reader

RULES_FOLDER = "/etc/hosttune/rules.d"


@frozen
class Profile:
    """A named set of rules for one kind of host."""

    id: str
    title: str
    why: str
    rules: tuple[str, ...]


@frozen
class Catalog:
    """All rules and profiles, by id."""

    rules: Mapping[str, Rule]
    profiles: Mapping[str, Profile]


def builtin_catalog() -> Catalog:
    """The rules and profiles that hosttune brings. They were checked by the tests, so types are not checked again."""
    rules: dict[str, Rule] = {}
    profiles: dict[str, Profile] = {}
    for document in builtin_documents():
        if document.name.startswith("profiles/"):
            profile = build_profile(document)
            profiles[profile.id] = profile
        else:
            rule = build_rule(document, is_builtin=True)
            rules[rule.id] = rule
    return Catalog(dict(sorted(rules.items())), dict(sorted(profiles.items())))


def build_profile(document: Document) -> Profile:
    data = document.data
    return Profile(data["id"], data["title"], data.get("why", ""), tuple(data["rules"]))


def load_catalog(reader: Reader) -> Catalog:
    """The built-in catalogue with the custom rules of this host. Raises BadInput with the faults of all custom files.

    A custom rule may not take the id of a built-in one, and it is looked at only when a policy selects it.
    """
    catalog = builtin_catalog()
    names = reader.list(RULES_FOLDER)
    files = [name for name in names if name.endswith((".yaml", ".yml"))] if isinstance(names, tuple) else []
    if not files:
        return catalog
    custom = _custom_rules(reader, files, catalog)
    return Catalog(dict(sorted({**catalog.rules, **custom}.items())), catalog.profiles)


def _custom_rules(reader: Reader, files: list[str], catalog: Catalog) -> dict[str, Rule]:
    from hosttune.engine.lint import checked_rule
    from hosttune.engine.trusted import read_trusted

    faults: list[Fault] = []
    custom: dict[str, Rule] = {}
    for name in files:
        path, text = read_trusted(reader, f"{RULES_FOLDER}/{name}", is_local=False, is_required=True)
        try:
            rule = checked_rule(text or "", path)
        except BadInput as error:
            faults += error.faults
            continue
        if rule.id in catalog.rules:
            faults.append(
                Fault(
                    rule.where, f"a built-in rule is called {rule.id}", "choose another id, and ignore the built-in one"
                )
            )
        custom[rule.id] = rule
    if faults:
        raise BadInput(faults)
    return custom
