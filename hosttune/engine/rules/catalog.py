"""The catalogue: the built-in rules and profiles, and an administrator's own in
/etc/hosttune/rules.d.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache
from typing import TYPE_CHECKING

from hosttune.engine.rules.compiled import builtin_documents
from hosttune.engine.rules.profile import Profile, build_profile, resolve_profiles
from hosttune.engine.rules.rule import build_rule
from hosttune.errors import MOST_FAULTS, BadInput, Fault, HosttuneError, Where
from hosttune.frozen import frozen
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.engine.rules.document import YamlFile
    from hosttune.engine.rules.rule import Rule
    from hosttune.host.door import Reader

RULES_FOLDER = "/etc/hosttune/rules.d"
SUFFIXES = (".yaml", ".yml")
# of all custom rules of a host: each is checked, whether it is selected or not
MOST_CHARACTERS = 4 << 20


class BuiltinRules(Mapping[str, "Rule"]):
    """The built-in rules by id. Each is built when it is first asked for: a run looks at half of
    them.
    """

    def __init__(self, documents: Iterable[YamlFile]) -> None:
        self._documents = {document.data["id"]: document for document in documents}
        self._built: dict[str, Rule] = {}

    def __getitem__(self, name: str) -> Rule:
        if name not in self._built:
            self._built[name] = build_rule(self._documents[name], is_builtin=True)
        return self._built[name]

    def __contains__(self, name: object) -> bool:
        return name in self._documents

    def __iter__(self) -> Iterator[str]:
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)

    def map_renamed(self) -> dict[str, str]:
        """From ids of old to those of now."""
        named = self._documents.items()
        return {
            old: name for name, document in named for old in document.data.get("renamed_from", ())
        }

    def tells_health(self, name: str) -> bool:
        """As the rule says of itself; of a compiled one it is beside it."""
        known = self._documents[name].tells_health
        return self[name].tells_health if known is None else known


@frozen
class Catalog:
    """All rules and profiles, by id. `names` leads from ids of old to those of now: renamed and
    replaced rules.
    """

    rules: Mapping[str, Rule]
    profiles: Mapping[str, Profile]
    names: Mapping[str, str] = field(default_factory=dict)

    def current(self, name: str) -> str:
        """The id that a rule goes by now."""
        seen = set()
        # Rules of an administrator may have been renamed in a circle, which has to end here.
        while name in self.names and name not in seen:
            seen.add(name)
            name = self.names[name]
        return name

    def find_id(self, typed: str) -> str:
        """The id of the rule that is meant on a command line: by its name, an older one, or an end
        or other whole words of it that only one rule has (`noatime`, `torch`); the name as typed
        where that is none.
        """
        name = self.current(typed)
        ends = [one for one in self.rules if one.endswith(f"-{name}")]
        found = ends or [one for one in self.rules if f"-{name}-" in f"-{one}-"]
        return found[0] if name not in self.rules and len(found) == 1 else name

    def tells_health(self, name: str) -> bool:
        """Whether a rule may say that the machine does not do its work, or does it badly."""
        rules = self.rules
        return (
            rules.tells_health(name)
            if isinstance(rules, BuiltinRules)
            else rules[name].tells_health
        )

    def former(self, name: str) -> frozenset[str]:
        """The ids that were renamed to this one."""
        return frozenset(self.rules[name].renamed_from) if name in self.rules else frozenset()


@cache
def builtin_catalog() -> Catalog:
    """The rules and profiles that hosttune brings, built once by a process. They were checked by
    the tests, so types are not checked again.
    """
    documents = builtin_documents()
    profiles = [
        build_profile(document) for document in documents if document.name.startswith("profiles/")
    ]
    rules = BuiltinRules(
        sorted(
            (one for one in documents if not one.name.startswith("profiles/")),
            key=lambda one: str(one.data["id"]),
        )
    )
    return _assemble_catalog(
        rules, {profile.id: profile for profile in profiles}, rules.map_renamed(), {}
    )


def assemble_catalog(rules: Mapping[str, Rule], profiles: Mapping[str, Profile]) -> Catalog:
    """The catalogue of these rules: renamed ids lead to the new ones, and what is replaced makes
    room.
    """
    names = {old: rule.id for rule in rules.values() for old in rule.renamed_from}
    replaced = {rule.replaces: rule.id for rule in rules.values() if rule.replaces}
    # The replaced rule goes out whole. Its id leads to the new one, so that policies which name it
    # still hold.
    kept = {name: rule for name, rule in sorted(rules.items()) if name not in replaced}
    return _assemble_catalog(kept, profiles, names, replaced)


def _assemble_catalog(
    rules: Mapping[str, Rule],
    profiles: Mapping[str, Profile],
    names: Mapping[str, str],
    replaced: Mapping[str, str],
) -> Catalog:
    found = Catalog(rules, {}, {**names, **replaced})
    entries = {
        name: replace(
            profile,
            added=tuple(map(found.current, profile.added)),
            left_out=tuple(map(found.current, profile.left_out)),
            own_params={
                # Its parameters are those of another rule, and the one in its place may know none
                # of these names.
                rule: values
                for rule, values in profile.own_params.items()
                if rule not in replaced
            },
        )
        for name, profile in profiles.items()
    }
    return Catalog(rules, resolve_profiles(entries), found.names)


def load_catalog(reader: Reader, folder: str | None = None) -> Catalog:
    """The built-in catalogue with the custom rules of this host, and those in `folder` on this
    machine.

    Raises BadInput with the faults of the custom files, until they are too many, and for more than
    4 MiB of files. A custom rule is looked at only where a policy selects it, or where it replaces
    a rule that is looked at.
    """
    files = [(f"{RULES_FOLDER}/{name}", False) for name in _list_rule_files(reader, RULES_FOLDER)]
    if folder is not None:
        from hosttune.engine.rules.trusted import local_files

        files += [(path, True) for path in local_files(folder) if path.endswith(SUFFIXES)]
    catalog = builtin_catalog()
    return _with_custom(catalog, reader, files) if files else catalog


def _with_custom(catalog: Catalog, reader: Reader, files: list[tuple[str, bool]]) -> Catalog:
    from hosttune.engine.rules.lint import checked_rule
    from hosttune.engine.rules.trusted import read_trusted

    faults: list[Fault] = []
    rules = dict(catalog.rules)
    left = MOST_CHARACTERS
    for name, is_local in files:
        path, text = read_trusted(
            reader, name, is_local=is_local, is_required=True, home=RULES_FOLDER
        )
        left -= len(text or "")
        if left < 0:
            faults.append(
                Fault(
                    Where(path),
                    "all custom rules together are larger than 4 MiB",
                    "leave out what is not needed",
                )
            )
        if left < 0 or len(faults) > MOST_FAULTS:
            break
        try:
            rule = checked_rule(text or "", path)
        except BadInput as error:
            faults += error.faults
            continue
        # Against those before it, built-in ones included: a file that takes their name silently
        # would change what runs.
        faults += _find_clashes(rule, rules, catalog)
        rules.setdefault(rule.id, rule)
    if faults:
        raise BadInput(faults)
    return assemble_catalog(rules, catalog.profiles)


def _find_clashes(rule: Rule, rules: Mapping[str, Rule], builtin: Catalog) -> list[Fault]:
    """What is wrong with a custom rule beside the others."""
    from hosttune.engine.rules.schema_values import suggest_nearest

    faults = []
    if rule.id in rules:
        what = (
            "a built-in rule"
            if rules[rule.id].is_builtin
            else f"the rule in {rules[rule.id].where.path}"
        )
        hint = (
            "choose another id; to take the place of a built-in rule, say so: `replaces: "
            f"{rule.id}`"
        )
        faults.append(Fault(rule.where, f"{what} is called {rule.id}", hint))
    elif rule.id in builtin.names:
        faults.append(
            Fault(
                rule.where, f"{builtin.current(rule.id)} was called {rule.id}", "choose another id"
            )
        )
    if rule.replaces and rule.replaces not in builtin.rules:
        hint = suggest_nearest(builtin.current(rule.replaces), tuple(builtin.rules))
        faults.append(
            Fault(rule.where, f"replaces {rule.replaces}, and no built-in rule is called so", hint)
        )
    other = next(
        (one for one in rules.values() if rule.replaces and one.replaces == rule.replaces), None
    )
    if other:
        faults.append(Fault(rule.where, f"{other.id} replaces {rule.replaces} already"))
    return faults


def _list_rule_files(reader: Reader, folder: str) -> list[str]:
    names = reader.list(folder)
    # A rule that is not read may be one that replaces another, which would then run. A record may
    # lack the folder.
    if isinstance(names, Unreadable) and reader.kind in {"live", "root"}:
        raise HosttuneError(f"{folder}: cannot be listed: {names.reason}", hint="run it as root")
    return [name for name in names if name.endswith(SUFFIXES)] if isinstance(names, tuple) else []
