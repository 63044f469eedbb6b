"""What a record of an older version does not hold: one sentence instead of one for each rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.values import NOT_RECORDED, NotRecorded
from hosttune.views.terminal import join_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.views.page import Page

_MARK = f"{NOT_RECORDED}: "
_OF_PROGRAM = "the answer of "
_NAMED = 3  # answers in the sentence, before the others are counted
_LONGEST = 60  # characters of an answer's name: some commands have 800


def missing_answer(reason: str, page: Page) -> str:
    """Which answer the record lacks, where that is all that this reason says; else empty.

    A reason may name the thing first (`eth0: not in this record: ...`). One that was made of
    several parts may say more than that, and stays as it is.
    """
    before, mark, answer = reason.partition(_MARK)
    is_only = bool(page.record and mark) and (
        isinstance(reason, NotRecorded) or "; " not in before + answer
    )
    if not is_only:
        return ""
    return answer.removeprefix(_OF_PROGRAM).removesuffix(
        ")" if before.count("(") > before.count(")") else ""
    )


def gaps_text(reasons: Iterable[str], rules: Iterable[str], page: Page) -> str:
    """Which answers the record lacks by these reasons, which rules are unknown for that, and what
    to do; empty where it lacks none. A rule stops at the first answer that it lacks, so there may
    be more.
    """
    answers = list(
        dict.fromkeys(answer for reason in reasons if (answer := missing_answer(reason, page)))
    )
    if not answers:
        return ""
    more = [f"{len(answers) - _NAMED} more"] if len(answers) > _NAMED else []
    named = join_words([*map(_shorten, answers[:_NAMED]), *more])
    unknown = join_words([clean(rule) for rule in dict.fromkeys(rules)])
    if page.source:
        rules_of = f": {unknown}" if unknown else ""
        return (
            f"A report of {clean(page.source)} does not hold what is asked for "
            f"({named}){rules_of}. To judge the rest, record that host: sudo hosttune record FILE"
        )
    return (
        f"This record (hosttune {clean(page.record)}) lacks at least "
        f"{say_count(len(answers), 'answer')} that this version asks for ({named}): record the "
        "host again: sudo hosttune record FILE"
        + (f". Unknown for that: {unknown}" if unknown else "")
    )


def shorten_missing(reason: str) -> str:
    """The reason, with the name of an answer that the record lacks as short as in that sentence."""
    before, mark, answer = reason.partition(_MARK)
    return f"{before}{mark}{_shorten(answer)}" if mark else reason


def _shorten(answer: str) -> str:
    name = clean(answer)
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST].rstrip(' .,')}..."
