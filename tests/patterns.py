"""Every pattern of the package, with how it is used, and texts on which a pattern that is not
linear takes long.

A text is what the pattern wants up to one of its repetitions, then what that repetition takes, many
times, then something that does not fit. As a program: `python -m tests.patterns` prints the
patterns whose time grows faster than the text.
"""

from __future__ import annotations

import ast
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

try:
    from re import _constants as constants
    from re import _parser as parser
except ImportError:  # Python 3.10
    import sre_constants as constants  # type: ignore[no-redef]
    import sre_parse as parser  # type: ignore[no-redef]

PACKAGE = Path(__file__).resolve().parents[1] / "hosttune"
METHODS = {"search", "match", "fullmatch", "sub", "subn", "findall", "finditer", "split"}
ENDS = ("", "!", "\n", "\0", " x")
BLANKS = ("\n", " ", "\t")


@dataclass(frozen=True)
class Pattern:
    """A pattern, where it is, and whether one of its uses looks for it anywhere in a text."""

    place: str
    text: str | bytes
    flags: int
    methods: frozenset[str]


@cache
def patterns() -> tuple[Pattern, ...]:
    """All that are made of constants of the package."""
    return tuple(_patterns())


def _patterns() -> Iterator[Pattern]:
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))
    }
    used = {path: _uses(tree) for path, tree in trees.items()}
    everywhere: dict[str, set[str]] = {}
    for uses in used.values():
        for name, found in uses.items():
            everywhere.setdefault(name, set()).update(found)
    for path, tree in trees.items():
        names = {node.value: node.targets[0].id for node in ast.walk(tree)
                 if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}  # fmt: skip
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            function = node.func
            called = (
                function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            )
            is_inline = (
                called in METHODS and isinstance(function, ast.Attribute) and _is_re(function.value)
            )
            if not (
                called == "regex"
                or is_inline
                or (called == "compile" and _is_re(getattr(function, "value", None)))
            ):
                continue
            text = _constant(node.args[0], path)
            if text is not None:
                name = names.get(node, "")
                own = used[path].get(name, set()) | (
                    everywhere.get(name, set()) if name[:1] != "_" else set()
                )
                methods = {called} if is_inline else own or METHODS
                place = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                yield Pattern(place, text, _flags(node), frozenset(methods))


def _uses(tree: ast.Module) -> dict[str, set[str]]:
    """Name of a pattern -> methods that are called, or handed on, in a module."""
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            owner = node.value
            name = (
                owner.id
                if isinstance(owner, ast.Name)
                else owner.attr
                if isinstance(owner, ast.Attribute)
                else ""
            )
            used.setdefault(name, set()).add(node.attr)
    return used


def _is_re(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "re"


def _constant(node: ast.expr, path: Path) -> str | bytes | None:
    """What a pattern is made of, also by names of its module; None if it hangs on a value of the
    run.
    """
    try:
        value = ast.literal_eval(node)
    except ValueError:
        module = import_module(
            ".".join(("hosttune", *path.relative_to(PACKAGE).with_suffix("").parts))
        )
        try:
            value = eval(compile(ast.Expression(node), str(path), "eval"), dict(vars(module)))  # noqa: S307 - the package's own
        except (NameError, SyntaxError):
            return None
    return value if isinstance(value, (str, bytes)) else None


def _flags(call: ast.Call) -> int:
    names = {one.attr for part in [*call.args[1:], *(key.value for key in call.keywords)] for one in ast.walk(part)
             if isinstance(one, ast.Attribute)}  # fmt: skip
    return sum(
        int(flag)
        for name, flag in re.RegexFlag.__members__.items()
        if name in names and len(name) > 1
    )


def plain_texts(pattern: Pattern, size: int) -> Iterator[str]:
    """Blanks, line breaks and each character that the pattern names, `size` times. They are few,
    and find the most.
    """
    yield from (one * size for one in (*BLANKS, *sorted(_literals(_tree(pattern)))))


def _tree(pattern: Pattern) -> parser.SubPattern:
    text = pattern.text.decode("latin-1") if isinstance(pattern.text, bytes) else pattern.text
    return parser.parse(text, pattern.flags & ~re.UNICODE)


def hostile_texts(pattern: Pattern, size: int) -> Iterator[str]:
    """Texts of about `size` characters."""
    yield from plain_texts(pattern, size)
    tree = _tree(pattern)
    often = (*BLANKS, *sorted(_literals(tree)))
    for before, pumps in _repeats(tree, ""):
        for pump in sorted({one for one in pumps if one}.union(often)):
            for begin, many in dict.fromkeys(((before, pump), ("", before + pump))):
                for end in ENDS:
                    yield begin + many * max(1, (size - len(begin)) // len(many)) + end


def _literals(part: object) -> set[str]:
    """Each character that a parsed pattern names."""
    if (
        isinstance(part, tuple)
        and part
        and (part[0] is constants.LITERAL or part[0] is constants.NOT_LITERAL)
    ):
        return {chr(part[1])}
    if isinstance(part, (tuple, list, parser.SubPattern)):
        return {one for inner in part for one in _literals(inner)}  # type: ignore[union-attr]
    return set()


def _repeats(
    items: Sequence[tuple[object, object]], before: str
) -> Iterator[tuple[str, list[str]]]:
    """(what fits in front of it, what it takes) for each repetition."""
    for place, (kind, value) in enumerate(items):
        if kind in (
            constants.MAX_REPEAT,
            constants.MIN_REPEAT,
            getattr(constants, "POSSESSIVE_REPEAT", None),
        ):
            _, most, inner = value  # type: ignore[misc]
            if most > 20:
                after = _fits(items[place + 1 :])
                yield (
                    before,
                    [_fits(inner), _fits(inner, 1), _fits(inner) + after, " ", "a", "1", "/"],
                )
            yield from _repeats(inner, before)
        elif kind is constants.SUBPATTERN:
            yield from _repeats(value[-1], before)  # type: ignore[index]
        elif kind is constants.BRANCH:
            for branch in value[1]:  # type: ignore[index]
                yield from _repeats(branch, before)
        elif kind in (constants.ASSERT, constants.ASSERT_NOT):
            yield from _repeats(value[1], before)  # type: ignore[index]
        before += _fits([(kind, value)])


def _fits(items: Sequence[tuple[object, object]], least: int = 0) -> str:
    """A short text that fits."""
    found = ""
    for kind, value in items:
        if kind is constants.LITERAL:
            found += chr(value)  # type: ignore[arg-type]
        elif kind is constants.NOT_LITERAL:
            found += "b" if value != ord("b") else "c"
        elif kind is constants.ANY:
            found += "a"
        elif kind is constants.IN:
            found += _of_set(value)  # type: ignore[arg-type]
        elif kind in (
            constants.MAX_REPEAT,
            constants.MIN_REPEAT,
            getattr(constants, "POSSESSIVE_REPEAT", None),
        ):
            low, _, inner = value  # type: ignore[misc]
            found += _fits(inner) * max(low, least)
        elif kind is constants.SUBPATTERN:
            found += _fits(value[-1], least)  # type: ignore[index]
        elif kind is constants.BRANCH:
            found += _fits(value[1][0], least)  # type: ignore[index]
        elif kind is getattr(constants, "ATOMIC_GROUP", None):
            found += _fits(value, least)  # type: ignore[arg-type]
    return found


def _of_set(options: Sequence[tuple[object, object]]) -> str:
    taken = re.compile("[" + "".join(_spelled(*option) for option in options) + "]")
    return next((one for one in "a1 \t-_.:/=A,;\"'<(\n\\@%#" if taken.match(one)), "é")


def _spelled(kind: object, value: object) -> str:
    if kind is constants.NEGATE:
        return "^"
    if kind is constants.LITERAL:
        return re.escape(chr(value))  # type: ignore[arg-type]
    if kind is constants.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"  # type: ignore[index]
    return {constants.CATEGORY_DIGIT: r"\d", constants.CATEGORY_NOT_DIGIT: r"\D", constants.CATEGORY_SPACE: r"\s",
            constants.CATEGORY_NOT_SPACE: r"\S", constants.CATEGORY_WORD: r"\w",
            constants.CATEGORY_NOT_WORD: r"\W"}[value]  # type: ignore[index] # fmt: skip


def seconds_of(pattern: Pattern, text: str, limit_s: float = 5.0) -> float:
    """The processor time of the slowest way in which the pattern is used."""
    compiled = re.compile(pattern.text, pattern.flags)
    subject = text.encode("latin-1", "replace") if isinstance(pattern.text, bytes) else text
    ways: Mapping[str, str] = {"match": "match", "fullmatch": "fullmatch"}
    names = {ways.get(one, "sub") for one in pattern.methods}
    slowest = 0.0
    for name in names:
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        try:
            if name == "sub":
                compiled.sub(lambda found: found[0], subject)
            else:
                getattr(compiled, name)(subject)
        except TimeoutError:
            return limit_s
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, time.process_time() - begun)
    return slowest


def raise_timeout(*_: object) -> None:
    raise TimeoutError


def slow_ones(size: int, limit_s: float) -> Iterator[tuple[Pattern, float, str]]:
    """The patterns that take longer than `limit_s` for a text of `size` characters."""
    before = signal.signal(signal.SIGPROF, raise_timeout)
    try:
        for pattern in patterns():
            for text in hostile_texts(pattern, size):
                if (took := seconds_of(pattern, text, limit_s * 2)) > limit_s:
                    yield pattern, took, text
                    break
    finally:
        signal.signal(signal.SIGPROF, before)


if __name__ == "__main__":
    for slow, took, text in slow_ones(
        *(int(sys.argv[1]), float(sys.argv[2])) if len(sys.argv) > 2 else (20_000, 0.25)
    ):
        print(
            f"{slow.place} {took:.2f} s {sorted(slow.methods)}\n    {str(slow.text)[:150]}\n    {text[:70]!r}",
            flush=True,
        )
