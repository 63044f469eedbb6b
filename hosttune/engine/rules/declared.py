"""What a policy says about the host itself: its `data_mounts`, and what is wrong with them as far
as the file shows it. No disk is looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.errors import Fault, Where
from hosttune.facts.storage.fstab_lines import clean_path
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence

    from hosttune.engine.rules.document import YamlFile

    # where its keys stand, as in `hosts.gpu-*.`, and what it holds
    Section = tuple[str, Mapping[str, Any]]

_ONE_OF_EACH = {
    "target": "leave one disk for each target",
    "source": "leave one target for each disk",
}
_NO_DISK = frozenset({"noauto", "bind", "rbind", "move", "remount"})


@frozen
class DataMount:
    """A disk that the site wants mounted, as `data_mounts` of the policy says it."""

    source: str  # UUID=, LABEL=, PARTUUID=, PARTLABEL= or a path below /dev
    target: str
    fstype: str = ""  # empty: whatever is on it
    options: tuple[str, ...] = ("noatime",)


@frozen
class Declared:
    """What a policy says about the host itself; the expressions of rules see it as `policy`."""

    data_mounts: tuple[DataMount, ...] = ()


NOTHING = Declared()


def option_faults(document: YamlFile, section: Section) -> Iterator[Fault]:
    """Words that fail a mount whatever is on the disk, and those with which a boot mounts no disk.

    What the type on a disk does not take is shown in the plan, which knows it.
    """
    from hosttune.resources.storage.fstab_lint_options import of_no_type

    for path, one in _list_mounts(section):
        for place, word in enumerate(one.get("options", ())):
            where = document.where(f"{path}.options[{place}]")
            # Only words that are wrong on every type: no disk is looked for here, and ext4 and xfs
            # do not take the same.
            remark = of_no_type(word)
            if word in _NO_DISK:
                yield Fault(
                    where,
                    f"with `{word}` no boot mounts the disk",
                    "take it out, or the disk out of data_mounts",
                )
            elif remark:
                yield Fault(where, remark.message, remark.todo)


def doubled_faults(
    document: YamlFile,
    sections: Sequence[Section],
    first: MutableMapping[tuple[str, str], Where] | None = None,
) -> Iterator[Fault]:
    """Targets and sources that stand twice in what these sections say together, each at its later
    place. `first` are those of sections before, and takes on these.
    """
    first = {} if first is None else first
    for section in sections:
        for path, one in _list_mounts(section):
            for field in ("target", "source"):
                where = document.where(f"{path}.{field}")
                # Paths are compared clean: /data/ and /data are one folder.
                other = first.setdefault((field, clean_path(one[field])), where)
                if other is not where:
                    message = (
                        f"{one[field]} is the {field} in line {other.line} too ({other.field})"
                    )
                    yield Fault(where, message, _ONE_OF_EACH[field])


def _list_mounts(section: Section) -> Iterator[tuple[str, Mapping[str, Any]]]:
    prefix, data = section
    for number, one in enumerate(data.get("data_mounts", ())):
        yield f"{prefix}data_mounts[{number}]", one
