"""Check a rule file completely: its shape, its expressions against the types of the facts, its
parameters, its name.
"""

from __future__ import annotations

import ast
import typing
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from hosttune.engine.expressions.expression import parse_expression, parse_text
from hosttune.engine.expressions.hints import is_bare_word
from hosttune.engine.rules.declared import Declared
from hosttune.engine.rules.rule import build_rule, choice_module, param_faults
from hosttune.engine.rules.schema import check, suggest_nearest
from hosttune.engine.rules.shapes import rule_shape
from hosttune.engine.rules.yamlio import load_document
from hosttune.errors import MOST_FAULTS, BadInput, Fault
from hosttune.facts import CLASSES, MODULES
from hosttune.regex import regex
from hosttune.resources import wish_kinds
from hosttune.resources.base import NUMERIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.engine.expressions.checker import Checker
    from hosttune.engine.expressions.expression import Expression, Text
    from hosttune.engine.rules.document import YamlFile
    from hosttune.engine.rules.rule import Rule

# A rule is named for the tunable or the concern, so that its name still fits when the advice
# changes.
VERBS = (
    "set",
    "enable",
    "disable",
    "use",
    "fix",
    "optimize",
    "optimise",
    "tune",
    "check",
    "install",
)
PLACEHOLDER = "FILL IN"  # begins what a frame leaves to be written
# Texts of facts, which quote the names in them or have none but a kernel module's.
_QUOTED = {
    "way_out",
    "ways_out",
    "reset_way_out",
    "way_to_check",
    "set_by",
    "elsewhere",
    "unhold",
    "died_in",
    "growth",
    "health_commands",
}
_COMMAND = regex(r"\bsudo\s|\$\(|`")  # a text in which a command is
PARAM_TYPES: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list": tuple[str, ...],
}


def checked_rule(text: str, name: str, *, is_builtin: bool = False) -> Rule:
    """The rule in this text. Raises BadInput with every fault of the file."""
    document = load_document(text, name)
    faults = rule_faults(document)
    if faults:
        raise BadInput(faults)
    return build_rule(document, is_builtin=is_builtin)


def rule_faults(document: YamlFile) -> list[Fault]:
    """Every fault of a rule document, in file order."""
    faults = check(document, rule_shape())
    data = document.data if isinstance(document.data, dict) else {}
    # Only for a document of the right shape: these take keys for granted.
    if not faults:
        faults += _name_faults(document, data)
        faults += _default_faults(document, data)
        faults += _life_faults(document, data)
    if isinstance(data, dict) and not any(fault.where.field == "" for fault in faults):
        faults += _expression_faults(document, data)
    return sorted(dict.fromkeys(faults), key=lambda fault: (fault.where.line, fault.where.field))


def lint_faults(document: YamlFile) -> list[Fault]:
    """What `rules lint` tells: every fault, and what stops no command but is not finished
    either.
    """
    return rule_faults(document) or [
        *gone_faults(document), *key_faults(document), *command_faults(document),
        *placeholder_faults(document.data, document),
    ]  # fmt: skip


def gone_faults(document: YamlFile) -> list[Fault]:
    """A fault for each key of an earlier version, which does nothing any more."""
    params = document.data.get("params") or {}
    paths = [*(f"params.{name}.was" for name, spec in params.items() if "was" in spec), "edition"]
    return [
        Fault(document.where(path), "does nothing any more", "delete it")
        for path in paths
        if path in document.lines
    ]


def placeholder_faults(data: Any, document: YamlFile, path: str = "") -> list[Fault]:
    """A fault for each text that still is as `rules new` framed it."""
    if isinstance(data, str):
        found = Fault(
            document.where(path),
            f"is not written yet: {data.strip()[:60]!r}",
            "write it, or take it out",
        )
        return [found] if PLACEHOLDER in data else []
    entries = (
        [(f"{path}.{key}" if path else str(key), value) for key, value in data.items()]
        if isinstance(data, dict)
        else [(f"{path}[{number}]", value) for number, value in enumerate(data)]
        if isinstance(data, list)
        else []
    )
    return [fault for at, value in entries for fault in placeholder_faults(value, document, at)]


def key_faults(document: YamlFile) -> list[Fault]:
    """A fault for each name of a rule that nothing is known to have, such as a sysctl of no kernel.
    Not among those of `rule_faults`: the list of keys may be too short, so lint tells it, and no
    command stops for it.
    """
    from hosttune.resources.kernel.sysctl_keys import unknown_key

    data = document.data if isinstance(document.data, dict) else {}
    named = [
        (f"want[{i}].{kind}", sentence)
        for i, entry in enumerate(_list(data.get("want")))
        if (kind := next(iter(entry), "")) in wish_kinds()
        if "{{" not in str(entry[kind]) and PLACEHOLDER not in str(entry[kind])
        if (sentence := wish_kinds()[kind].doubt(str(entry[kind]), entry))
    ]
    plain = {
        path for path, _ in named if "module" not in wish_kinds()[path.rpartition(".")[2]].fields
    }
    checker = _Checker(document)
    _check_expressions(checker, data)
    hint = "correct it; of a key that a module of its own brings, write beside it `module: NAME`"
    return [
        Fault(document.where(path), sentence, "correct it" if path in plain else hint)
        for path, sentence in dict.fromkeys(
            [*named, *((path, unknown_key(key)) for path, key in checker.sysctls)]
        )
        if sentence
    ]


def command_faults(document: YamlFile) -> list[Fault]:
    """A fault for each value that a text puts into a command as it is: a name from the host could
    be more than a word there, and the line is copied into root's shell. Not among those of
    `rule_faults`, as `key_faults`.
    """
    data = document.data if isinstance(document.data, dict) else {}
    checker = _Checker(document)
    _check_expressions(checker, data)
    hint = "write shell_word(...) around it"
    return [
        Fault(document.where(path), f"`{part}` is in a command without quotes", hint)
        for path, text, scope in checker.texts
        if _COMMAND.search(text.source)
        for part in dict.fromkeys(_find_unquoted(text, scope))
    ]


def _find_unquoted(text: Text, scope: dict[str, Any]) -> Iterator[str]:
    from hosttune.engine.expressions.checker import Checker

    checker = Checker(scope)
    for expression in text.expressions:
        yield from map(ast.unparse, _find_bare_parts(expression.node, checker))


def _find_bare_parts(node: ast.expr, checker: Checker) -> Iterator[ast.expr]:
    """The parts of what an expression writes that may be other than a word: no constants, numbers
    and quoted words.
    """
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if isinstance(node, ast.IfExp):
        yield from (*_find_bare_parts(node.body, checker), *_find_bare_parts(node.orelse, checker))
    elif isinstance(node, ast.BinOp):
        yield from (*_find_bare_parts(node.left, checker), *_find_bare_parts(node.right, checker))
    elif name == "join" and isinstance(node, ast.Call) and isinstance(node.args[0], ast.Attribute):
        yield from (() if node.args[0].attr in _QUOTED else [node])
    elif (
        name == "join"
        and isinstance(node, ast.Call)
        and isinstance(node.args[0], (ast.ListComp, ast.GeneratorExp))
    ):
        yield from (
            part
            for one in (node.args[0].elt, *node.args[1:])
            for part in _find_bare_parts(one, checker)
        )
    elif name == "str" and isinstance(node, ast.Call):
        yield from _find_bare_parts(node.args[0], checker)
    # Quoted once more, a whole command would become one word.
    elif isinstance(node, ast.Attribute) and node.attr in _QUOTED:
        return
    elif (
        name != "shell_word"
        and not isinstance(node, ast.Constant)
        and not is_bare_word(checker.type_of(node))
    ):
        yield node


def _name_faults(document: YamlFile, data: dict[str, Any]) -> list[Fault]:
    faults = []
    stem = PurePosixPath(document.name).stem
    if data["id"] != stem:
        faults.append(
            Fault(
                document.where("id"),
                f"the file is called {stem}, the rule {data['id']}",
                "give both one name",
            )
        )
    words = data["id"].split("-")
    if len(words) == 1:
        faults.append(
            Fault(
                document.where("id"), "has no domain", "name it <domain>-<the tunable or concern>"
            )
        )
    verb = next((word for word in words if word in VERBS), "")
    if verb:
        faults.append(
            Fault(
                document.where("id"),
                f"names an act ({verb})",
                "name the tunable or the concern, without a verb",
            )
        )
    return faults


def _default_faults(document: YamlFile, data: dict[str, Any]) -> list[Fault]:
    from hosttune.engine.rules.rule import param_of

    faults = []
    for name, spec in (data.get("params") or {}).items():
        param = param_of(name, spec)
        faults += param_faults(document.where(f"params.{name}.default"), param, spec["default"])
        if param.selected is not None:
            faults += param_faults(document.where(f"params.{name}.selected"), param, param.selected)
    return faults


def _life_faults(document: YamlFile, data: dict[str, Any]) -> list[Fault]:
    """What is wrong with the standing of a rule: what it weakens, what replaces it."""
    faults = []
    if "exposes" in data and data["risk"] != "high":
        message = f"a rule that exposes {data['exposes']} has risk high"
        faults.append(Fault(document.where("risk"), message, "write risk: high"))
    if "replaced_by" in data and data.get("status") != "deprecated":
        faults.append(
            Fault(
                document.where("replaced_by"),
                "only a deprecated rule has one",
                "write status: deprecated",
            )
        )
    if data.get("replaces") == data["id"]:
        faults.append(
            Fault(
                document.where("replaces"),
                "a rule cannot replace itself",
                "give it an id of its own",
            )
        )
    return faults


@cache
def fact_types() -> dict[str, Any]:
    """The type of each fact subject, as expressions see it."""
    hints = {}
    for subject, name in sorted(MODULES.items()):
        module = import_module(name)
        hints[subject] = getattr(module, CLASSES[subject])
    return hints


def scope_of(data: dict[str, Any]) -> dict[str, Any]:
    """The names that the expressions of this rule may use, with their types (without `item`)."""
    params = {
        name: PARAM_TYPES.get(str(spec.get("type")), Any)
        for name, spec in (data.get("params") or {}).items()
        if isinstance(spec, dict)
    }
    scope: dict[str, Any] = {**fact_types(), "params": params, "policy": Declared}
    if isinstance(data.get("choice"), str):
        scope["choice"] = typing.get_type_hints(choice_module(data["choice"]).choose)["return"]
    return scope


def _expression_faults(document: YamlFile, data: dict[str, Any]) -> list[Fault]:
    checker = _Checker(document)
    choice = data.get("choice")
    if isinstance(choice, str) and choice not in list_choices():
        return [
            Fault(
                document.where("choice"),
                f"no choice is called {choice}",
                suggest_nearest(choice, list_choices()),
            )
        ]
    _check_expressions(checker, data)
    return checker.faults


def _check_expressions(checker: _Checker, data: dict[str, Any]) -> None:
    scope = scope_of(data)
    for i, entry in enumerate(_list(data.get("applies_when"))):
        checker.boolean(f"applies_when[{i}].if", entry.get("if"), scope)
        checker.text(f"applies_when[{i}].else", entry.get("else"), scope)
    if isinstance(data.get("for_each"), str):
        scope = {**scope, "item": checker.item("for_each", data["for_each"], scope)}
    for i, entry in enumerate(_list(data.get("expect"))):
        checker.boolean(f"expect[{i}].if", entry.get("if"), scope)
        checker.text(f"expect[{i}].else", entry.get("else"), scope)
        checker.text(f"expect[{i}].do", entry.get("do"), scope)
        checker.boolean(f"expect[{i}].fault", entry.get("fault"), scope)
        checker.boolean(f"expect[{i}].blocks_reboot", entry.get("blocks_reboot"), scope)
        checker.boolean(f"expect[{i}].waits_for_reboot", entry.get("waits_for_reboot"), scope)
        checker.boolean(f"expect[{i}].impairs", entry.get("impairs"), scope)
    for i, entry in enumerate(_list(data.get("want"))):
        kind = wish_kinds().get(next(iter(entry), ""))
        for key, value in entry.items():
            spec = kind.fields.get(key) if kind else None
            wanted = (
                int if key in NUMERIC else spec.type if spec else bool if key == "fault" else None
            )
            checker.text(f"want[{i}].{key}", value, scope, wanted)


class _Checker:
    """Collects the faults of all expressions of one document."""

    def __init__(self, document: YamlFile) -> None:
        self.document = document
        self.faults: list[Fault] = []
        self.texts: list[tuple[str, Text, dict[str, Any]]] = []  # (field, text, its names)
        self.sysctls: list[tuple[str, str]] = []  # (field, key) of each that is asked for by name

    def boolean(self, path: str, value: object, scope: dict[str, Any]) -> None:
        if not isinstance(value, str):
            return
        found = self._expression(path, value, scope)
        if found not in {bool, Any, None}:
            self.faults.append(
                Fault(
                    self.document.where(path),
                    "is not a yes-or-no question",
                    "compare it with something",
                )
            )

    def item(self, path: str, value: str, scope: dict[str, Any]) -> Any:
        from hosttune.engine.expressions.checker import item_of

        found = self._expression(path, value, scope)
        if found is None:
            return Any
        item = item_of(found)
        if item is None:
            self.faults.append(
                Fault(
                    self.document.where(path),
                    "is not a list",
                    "give a list of things, such as mounts.local_data",
                )
            )
        return item or Any

    def text(
        self, path: str, value: object, scope: dict[str, Any], wanted: type | None = None
    ) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                self.text(f"{path}.{key}", inner, scope)
        if isinstance(value, list):
            for number, inner in enumerate(value):
                self.text(f"{path}[{number}]", inner, scope)
        if not isinstance(value, str):
            return
        text = self._try(lambda: parse_text(value, self.document.where(path), scope))
        found = text.type if text else None
        self._note(path, text.expressions if text else ())
        self.texts += [(path, text, scope)] if text else []
        if wanted in {int, bool} and found not in {wanted, Any, None} and "{{" in value:
            self.faults.append(
                Fault(
                    self.document.where(path),
                    f"must be {wanted.__name__}, and the expression is not",
                )
            )

    def _expression(self, path: str, value: str, scope: dict[str, Any]) -> Any:
        """The type of an expression; None where it is none."""
        expression = self._try(lambda: parse_expression(value, self.document.where(path), scope))
        self._note(path, (expression,) if expression else ())
        return expression.type if expression else None

    def _note(self, path: str, expressions: Iterable[Expression]) -> None:
        self.sysctls += [(path, key) for one in expressions for key in sorted(one.sysctls)]

    def _try(self, parse: Any) -> Any:
        # A file of a megabyte may have thousands of wrong expressions, and no one reads on after
        # the first hundred.
        if len(self.faults) > MOST_FAULTS:
            return None
        try:
            return parse()
        except BadInput as error:
            self.faults += error.faults
            return None


def list_choices() -> tuple[str, ...]:
    """The names of the choices: the modules of hosttune/choices/; a folder there holds the parts of
    one.
    """
    import pkgutil

    import hosttune.choices

    return tuple(
        sorted(one.name for one in pkgutil.iter_modules(hosttune.choices.__path__) if not one.ispkg)
    )


def _list(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
