"""Values of the host that rules ask for by name, each read when it is first asked for: sysctls,
attributes, files.

Which names those are is not known before (`sysfs["/sys/block/" + item.name + "/queue/scheduler"]`),
so the mapping of such a fact reads behind its keys, through the door, once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from hosttune.facts.base import Fact, UnknownFact, lazy, make_shared
from hosttune.facts.globs import fits_glob
from hosttune.facts.reading import read_text
from hosttune.frozen import frozen
from hosttune.host.masking.secrets import is_secret_file
from hosttune.numbers import parse_whole
from hosttune.regex import regex
from hosttune.values import ABSENT, Absent

if TYPE_CHECKING:
    from hosttune.host.door import Reader

P = ParamSpec("P")
T = TypeVar("T")
_HEXADECIMAL = regex(r"-?0[xX][0-9a-fA-F]{1,32}")
# bytes of a kernel value: a page, as sysfs gives it (Documentation/filesystems/sysfs.rst)
LONGEST = 4096


class Lookup(dict[str, T]):
    """What was asked for so far."""

    def __init__(self, look: Callable[[str], T]) -> None:
        super().__init__()
        self._look = look

    def __missing__(self, name: str) -> T:
        found = self[name] = self._look(name)
        return found


@frozen
class Attribute(Fact):
    """One value of the kernel. Of one that does not exist everything but that is unknown."""

    name: str  # the key or the path that was asked for
    exists: bool  # whether the kernel has it
    text: str  # without the blanks and the line feed around it

    @property
    def number(self) -> int:
        """The value as a whole number, of any base that the kernel writes (10, 0x1f)."""
        return whole_number(self.name, self.text)

    @property
    def words(self) -> tuple[str, ...]:
        """Its words: `4096 131072 6291456` has three."""
        return tuple(self.text.split())

    @property
    def numbers(self) -> tuple[int, ...]:
        """Its words as whole numbers."""
        return tuple(whole_number(self.name, word) for word in self.text.split())

    @property
    def chosen(self) -> str:
        """Of a list of choices the one in brackets (`mq-deadline` of `[mq-deadline] none`), else
        the whole value.
        """
        return next(
            (word[1:-1] for word in self.text.split() if word[:1] == "[" and word[-1:] == "]"),
            self.text,
        )


def whole_number(name: str, word: str) -> int:
    """A word as a whole number; UnknownFact where it is none."""
    try:
        return int(word, 16) if _HEXADECIMAL.fullmatch(word) else parse_whole(word)
    except ValueError:
        raise UnknownFact(f"{name} holds {word[:40]!r}, which is not a whole number") from None


def make_attribute(
    name: str, read: Callable[P, str | Absent], *arguments: P.args, **named: P.kwargs
) -> Attribute:
    """The value of the kernel that `read` gives: one that is binary is unknown."""
    content = make_shared(read, *arguments, **named)

    def spell_value() -> str:
        value = content()
        if value is ABSENT:
            raise UnknownFact(f"there is no {name} here")
        if "\0" in value or "\ufffd" in value:
            raise UnknownFact(f"{name} is no text")
        return value.strip()

    return Attribute(name, exists=lazy(lambda: content() is not ABSENT), text=lazy(spell_value))


def small_text(reader: Reader, path: str, most: int = LONGEST) -> str | Absent:
    """A file as text; unknown where it has more than `most` bytes, or is one that keeps a
    secret.
    """
    if is_secret_file(path):
        raise UnknownFact(f"{path} keeps what is not shown")
    content = read_text(reader, path)
    if content is not ABSENT and len(content) > most:
        raise UnknownFact(f"{path} is longer than {most} bytes")
    return content


def fits_parts(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether patterns of glob(7) mean these parts of a name, each its own."""
    return len(parts) == len(patterns) and all(map(fits_glob, parts, patterns))
