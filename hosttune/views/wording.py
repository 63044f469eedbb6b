"""The texts of a rule for people: what an expression in them means, on this host or in general.

Where the host is known, `{{ gpus.count }}` is its value. Where it is not, or the rule does not
apply there, a value becomes a word in capitals as in a manual page (COUNT), a choice between texts
becomes `this or that`, and what only the parameters decide is computed.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from hosttune.engine.expressions.expression import Expression
from hosttune.engine.expressions.helpers import text_of
from hosttune.errors import HosttuneError
from hosttune.facts.base import UnknownFact
from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import steps_of

if TYPE_CHECKING:
    from hosttune.engine.expressions.expression import Text

_TRANSPARENT = frozenset(
    {"str", "join", "gib_text", "counted", "shell_word", "sorted"}
)  # functions that only shape what they are given
_NUMBER = "N"
_LONG = 60  # characters of a text that is a sentence of its own
_PLACEHOLDER = regex("[A-Z_]+")
_WAY_OUT = regex(
    r"(?:(?:\w+_)?way_out|commands)\Z"
)  # attributes whose value is what to do: a word in capitals tells nothing of it
OF_HOST = "what the report says of the host"


@frozen
class Wording:
    """`params` are the values in force; `names` what the expressions see on this host, None where
    they see nothing.
    """

    params: Mapping[str, Any]
    names: Mapping[str, Any] | None = None

    def text(self, text: Text) -> str:
        """The text with the values of this host where they are known."""
        return self._render_text(
            text, {"params": self.params} if self.names is None else self.names
        )

    def sentence(self, text: Text) -> str:
        """The text as it holds for any host with these parameters."""
        return _clean_step(self._render_text(text, {"params": self.params}))

    def advice(self, text: Text, advised: Container[str]) -> str:
        """The text as a sentence, with the values of this host where that is what was advised
        there.
        """
        here = self.text(text)
        return here if all(step in advised for step in steps_of(here)) else self.sentence(text)

    def _render_text(self, text: Text, known: Mapping[str, Any]) -> str:
        return "".join(
            part if isinstance(part, str) else self._value(part, known) for part in text.parts
        )

    def _value(self, part: Expression, known: Mapping[str, Any]) -> str:
        try:
            value = text_of(part.evaluate(known))
        # None of a fact that has no value here makes a TypeError in arithmetic: then the word is
        # used.
        except (HosttuneError, UnknownFact, TypeError):
            value = ""
        return value or in_words(ast.parse(part.source.replace("\n", " "), mode="eval").body)


def _clean_step(words: str) -> str:
    """A step that is one placeholder says nothing, and a choice may leave a blank before its
    punctuation.
    """
    steps = (
        OF_HOST if _PLACEHOLDER.fullmatch(step.strip()) else step for step in words.split("\n")
    )
    return "\n".join(steps).replace(" ;", ";")


def in_words(node: ast.expr) -> str:
    """What an expression means, in words: `item.target` is TARGET, `'a' if test else 'b'` is `a or
    b`.
    """
    if isinstance(node, ast.Constant):
        return text_of(node.value) if node.value is not None else ""
    if isinstance(node, ast.Name):
        return node.id.upper()
    if isinstance(node, ast.Attribute):
        return OF_HOST if _WAY_OUT.match(node.attr) else node.attr.upper()
    if isinstance(node, ast.IfExp):
        return _join_choice([word for word in map(in_words, (node.body, node.orelse)) if word])
    if isinstance(node, (ast.Subscript, ast.ListComp, ast.GeneratorExp)):
        return in_words(node.value if isinstance(node, ast.Subscript) else node.elt)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _TRANSPARENT
    ):
        words, *nouns = map(in_words, node.args if node.func.id == "counted" else node.args[:1])
        noun = f" {nouns[1] if len(nouns) > 1 else nouns[0] + 's'}" if nouns else ""
        return quote(words) if node.func.id == "shell_word" else words + noun
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_text(node):
        return in_words(node.left) + in_words(node.right)
    return _NUMBER


def _join_choice(words: list[str]) -> str:
    """`this or that`; parts that only continue a sentence cannot be joined, so the first is used
    for all.
    """
    if any(not (word[0].isalnum() or word[0] in "+-/(\"'") for word in words):
        return words[0]
    return ("; or " if max(map(len, words), default=0) > _LONG else " or ").join(
        dict.fromkeys(words)
    )


def _is_text(node: ast.expr) -> bool:
    """Whether a sum joins texts: one of its parts is a text."""
    return any(
        isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(node)
    )
