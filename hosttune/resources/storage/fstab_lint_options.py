"""What is wrong with the options of an fstab line, by its type and its target. Pure.

Every word that a file system does not know fails its mount; on a line that a boot needs, that is
the emergency shell, and on `/` a root that stays read-only. `findmnt --verify` does not look at
options (util-linux/util-linux#4438).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hosttune.facts.storage.fstab_options import ATIME_WORDS, has_secret, is_on_demand
from hosttune.facts.storage.fstab_types import is_remote_to_systemd
from hosttune.facts.storage.fstab_typing import find_typographic
from hosttune.facts.storage.fstab_words import GENERIC, OPPOSITES, UPSTART, USER_WORDS, is_noexec
from hosttune.facts.storage.mounts import LOCAL_TYPES
from hosttune.regex import regex
from hosttune.resources.storage.fstab_lint_words import (
    Found,
    find_nearest,
    swap_words,
    systemd_words,
)
from hosttune.resources.storage.fstab_remark import Remark, RemarkLevel
from hosttune.resources.storage.fstab_tables import (
    KernelAnswer,
    find_reply,
    is_refused_by,
    judge_combination,
    list_names,
)

_SIZE = regex(r"[0-9]+[kmgtpe%]?", re.IGNORECASE)
_COUNT = regex(r"[0-9]+[kmgtpe]?", re.IGNORECASE)
# a blank, as of a text copied from a web page
_BEFORE_BLANK = regex(r"([0-9]+[kKmMgGtTpPeE%]?)[^!-~]")
_UNIT = regex(r"([0-9]+)\s*([kmgtpe])i?b", re.IGNORECASE)
_OCTAL = regex(r"[0-7]{1,5}")
_QUIET = GENERIC - UPSTART | {""}
_SEPARATOR = regex(r"[;:.|+&]")
_ROOT_DATA = regex(r"data=(?:journal|writeback)")  # what no remount of ext4 can change
# Quotas of xfs are switched on when it is mounted first (xfs_quota(8)); a remount passes over them.
_XFS_QUOTAS = frozenset({
    "quota", "uquota", "usrquota", "uqnoenforce", "qnoenforce", "gquota", "grpquota", "gqnoenforce",
    "pquota", "prjquota", "pqnoenforce",
})  # fmt: skip
# Their values are names of someone's own, in which any character may stand.
_NAMES = frozenset({
    "subvol", "lowerdir", "upperdir", "workdir", "user", "username", "domain", "credentials",
    "password", "comment",
})  # fmt: skip
_ATIME = frozenset(ATIME_WORDS)
_EXT = frozenset({"ext3", "ext4"})
# without one of these no two words can contradict each other
_HALVES = frozenset(one for one, _ in OPPOSITES)
_NOT_QUIET = _HALVES | frozenset(USER_WORDS)
_OF_NO_TYPE = frozenset({"upper-case", "upstart-word", "typography", "separator"})
_UNTAKEN = _OF_NO_TYPE | {"refused-option", "misspelt", "unknown-option", "option-by-version"}
_SURE = _OF_NO_TYPE | {
    "refused-option",
    "tmpfs-size",
    "tmpfs-nr_blocks",
    "tmpfs-nr_inodes",
    "tmpfs-mode",
    "systemd-abort",
    "systemd-unit",
}
_BELT = frozenset({"noauto", "nofail", "x-systemd.automount"})


def is_required(words: Iterable[str], fstype: str = "") -> bool:
    """Whether a boot waits for the mount and fails without it (systemd.mount(5)); of `nofail,fail`
    the last counts.

    Of NFS `bg` is `nofail` to systemd (systemd.mount(5), add_mount() of its fstab generator).
    """
    last = {}
    is_nfs = fstype in ("nfs", "nfs4")
    for word in words:
        if word in ("nofail", "fail"):
            last["fail"] = word == "fail"
        elif word in ("noauto", "auto"):
            last["auto"] = word == "auto"
        elif word in ("bg", "fg") and is_nfs:
            last["bg"] = word == "fg"
        elif word in ("x-systemd.automount", "comment=systemd.automount"):
            return False
    return last.get("fail", last.get("bg", True)) and last.get("auto", True)


def option_remarks(fstype: str, words: tuple[str, ...], *, is_root: bool) -> list[Remark]:
    """The remarks about these options, on line 0: they are the same for every line that has
    them.
    """
    if fstype == "swap":
        return [
            Remark(0, *found) for check in (swap_words, systemd_words) for found in check(words)
        ]
    if fstype not in ("tmpfs", "overlay") and not is_root and _is_unsuspicious(words):
        return []
    return [
        Remark(0, level, code, message, todo, is_sure=code in _SURE)
        for check in (
            _find_fatal,
            _of_tables,
            _of_root,
            _find_contradictions,
            _of_tmpfs,
            _find_ignored,
            _of_people,
        )
        for level, code, message, todo in check(fstype, words, is_root)
    ]


def of_no_type(word: str) -> Remark | None:
    """What is wrong with a word, where no file system takes it, whatever its type. As on a line
    with nofail.
    """
    return _find_first("", (word,), _OF_NO_TYPE)


def find_untaken(fstype: str, words: tuple[str, ...]) -> Remark | None:
    """The first word, or the first ones together, that this type does not take, that only some
    kernels know, or that no table here has. As on a line with nofail.
    """
    return _find_first(fstype, words, _UNTAKEN)


def _find_first(fstype: str, words: tuple[str, ...], codes: frozenset[str]) -> Remark | None:
    remarks = option_remarks(fstype, (*words, "nofail"), is_root=False)
    return next((remark for remark in remarks if remark.code in codes), None)


def _is_unsuspicious(words: tuple[str, ...]) -> bool:
    """Whether none of the checks can find anything, which is so for most lines."""
    given = frozenset(words)
    return given <= _QUIET and len(given & _ATIME) < 2 and given.isdisjoint(_NOT_QUIET)


def judge_failure(fstype: str, words: tuple[str, ...], is_root: bool) -> tuple[RemarkLevel, str]:  # noqa: FBT001 - as its callers
    """How bad it is that the mount fails, and what comes of it."""
    if is_root:
        return RemarkLevel.ERROR, "the root file system stays read-only"
    if not is_required(words, fstype):
        return RemarkLevel.WARNING, "the mount fails"
    if is_remote_to_systemd(fstype, frozenset(words)):
        return RemarkLevel.ERROR, "the mount fails"
    return RemarkLevel.ERROR, "the mount fails, and the boot ends in the emergency shell"


def _find_fatal(fstype: str, words: tuple[str, ...], is_root: bool) -> Found:  # noqa: FBT001 - one of several alike
    """Words that no file system takes at all, whatever its type."""
    level, consequence = judge_failure(fstype, words, is_root)
    for word in words:
        name, equals, _ = word.partition("=")
        small = name.lower()
        odd, plain = find_typographic(word)
        if name in UPSTART:
            why = f"`{name}` was a word of Upstart, and no file system knows it: {consequence}"
            todo = "write nofail instead" if name == "nobootwait" else "take it out"
            yield level, "upstart-word", why, todo
        elif name != small and small in GENERIC:
            yield (
                level,
                "upper-case",
                f"options are case-sensitive, and `{name}` is none: {consequence}",
                f"write it as `{small}{equals}`",
            )
        elif odd and not name.startswith(("x-", "X-", "comment")) and name not in _NAMES:
            why = f"`{word}` holds {odd}, which no option does: {consequence}"
            yield level, "typography", why, f"type it anew: {plain}"
        elif parts := _part_words(fstype, word):
            yield (
                level,
                "separator",
                f"only a comma parts options, so `{word}` is one: {consequence}",
                f"write {parts}",
            )


def refused_by(
    fstype: str, words: tuple[str, ...], kernel: tuple[int, ...], *, is_root: bool
) -> Remark | None:
    """The first word that this kernel refuses and that offline is no more than a doubt."""
    level, consequence = judge_failure(fstype, words, is_root)
    for word in words:
        reply = find_reply(fstype, word)
        if reply.answer in (KernelAnswer.TAKEN, KernelAnswer.REFUSED) or not is_refused_by(
            fstype, word, kernel
        ):
            continue
        meant = (
            find_nearest(word.partition("=")[0], list_names(fstype))
            if reply.answer is KernelAnswer.UNKNOWN
            else ""
        )
        todo = reply.todo or (
            f"write `{meant}`, if that is meant" if meant else f"take `{word}` out"
        )
        return Remark(0, level, "refused-option", f"{reply.why}: {consequence}", todo, is_sure=True)
    return None


def _part_words(fstype: str, word: str) -> str:
    """The same with commas, where all that is between other separators is an option of this
    type.
    """
    parts = [part for part in _SEPARATOR.split(word) if part]
    known = list_names(fstype)
    if (
        len(parts) < 2
        or word.partition("=")[0] in known
        or word.startswith(("x-", "X-", "verity."))
    ):
        return ""
    return ",".join(parts) if all(part.partition("=")[0] in known for part in parts) else ""


def _of_tables(fstype: str, words: tuple[str, ...], is_root: bool) -> Found:  # noqa: FBT001 - one of several alike
    """What the kernel's own list of this type says."""
    level, consequence = judge_failure(fstype, words, is_root)
    if len(words) == 1 and words[0].isdigit():
        return  # reported as options that are missing
    for word in words:
        name = word.partition("=")[0]
        reply = find_reply(fstype, word)
        if (
            reply.answer is KernelAnswer.TAKEN
            or name in UPSTART
            or not word.isascii()
            or _part_words(fstype, word)
        ):
            continue
        if name != name.lower() and name.lower() in GENERIC:
            continue
        if reply.answer is KernelAnswer.UNKNOWN:
            meant = find_nearest(name, list_names(fstype))
            todo = (
                f"is `{meant}` meant?" if meant else f"look it up: man 5 {fstype}, or take it out"
            )
            why = f"{reply.why}; where yours has none either, {consequence}"
            yield RemarkLevel.WARNING, "misspelt" if meant else "unknown-option", why, todo
        elif reply.answer is KernelAnswer.REFUSED:
            yield level, "refused-option", f"{reply.why}: {consequence}", reply.todo
        else:
            where = "there" if reply.answer is KernelAnswer.GONE else "on older ones"
            yield (
                RemarkLevel.WARNING,
                "option-by-version",
                f"{reply.why}; {where} {consequence}",
                reply.todo,
            )
    reply = judge_combination(fstype, words)
    if reply.answer is KernelAnswer.REFUSED:
        yield level, "refused-option", f"{reply.why}: {consequence}", reply.todo


def _of_root(fstype: str, words: tuple[str, ...], is_root: bool) -> Found:  # noqa: FBT001 - one of several alike
    """What the first mount of / would take from the kernel's command line, and the remount by fstab
    cannot set.
    """
    fixed = (
        next((word for word in words if _ROOT_DATA.match(word)), "")
        if is_root and fstype in _EXT
        else ""
    )
    quotas = [word for word in words if word in _XFS_QUOTAS] if is_root and fstype == "xfs" else []
    if fixed:
        why = (
            f"no remount can set `{fixed}`: unless / has it from the start, the root file system "
            "stays read-only"
        )
        todo = f"set it by rootflags={fixed} on the kernel's command line as well"
        yield RemarkLevel.WARNING, "root-remount", why, todo
    if quotas:
        why = (
            f"xfs takes `{','.join(quotas)}` of / only at its first mount, so this line switches "
            "no quota on"
        )
        todo = f"set it by rootflags={','.join(quotas)} on the kernel's command line as well"
        yield RemarkLevel.WARNING, "root-quota", why, todo


def _find_contradictions(fstype: str, words: tuple[str, ...], is_root: bool) -> Found:  # noqa: ARG001, FBT001 - one of several alike
    atime = tuple(dict.fromkeys(word for word in words if word in ATIME_WORDS))
    if len(atime) > 1:
        why = f"`{','.join(atime)}`: which one counts depends on how mount(8) was built"
        yield RemarkLevel.WARNING, "atime-contradiction", why, "leave one of them"
    given = frozenset(words)
    for one, other in OPPOSITES:
        if one in given and other in given:
            last = next(word for word in reversed(words) if word in (one, other))
            why = f"`{one}` and `{other}` contradict each other; the last one counts: {last}"
            yield RemarkLevel.WARNING, "contradiction", why, "leave one of them"


def _of_tmpfs(fstype: str, words: tuple[str, ...], is_root: bool) -> Found:  # noqa: FBT001 - one of several alike
    if fstype != "tmpfs":
        return
    level, consequence = judge_failure(fstype, words, is_root)
    for word in words:
        name, equals, value = word.partition("=")
        pattern = {"size": _SIZE, "nr_blocks": _COUNT, "nr_inodes": _COUNT, "mode": _OCTAL}.get(
            name
        )
        if pattern is None or not equals:
            continue
        if not pattern.fullmatch(value):
            yield (
                level,
                f"tmpfs-{name}",
                f"the kernel rejects `{word}`: {consequence}",
                repair_value(name, value),
            )
        elif name == "mode" and int(value, 8) & 0o1002 == 0o002:
            why = (
                f"with `{word}` everybody can rename and remove everybody's files: the sticky bit "
                "is missing"
            )
            yield RemarkLevel.WARNING, "tmpfs-sticky", why, "write mode=1777"
        elif name == "size" and (
            value.strip("0") == "" or (value[-1] == "%" and int(value[:-1]) > 100)
        ):
            limit = "no limit" if value.strip("0") == "" else "more than all of the memory"
            yield (
                RemarkLevel.WARNING,
                "tmpfs-limit",
                f"`{word}` is {limit}: files there can use up the host",
                "name a size",
            )


def repair_value(name: str, value: str) -> str:
    """The way out of a value of tmpfs that the kernel rejects: what is meant, or an example if that
    is not known.
    """
    if name == "mode":
        return "write it in octal: mode=1777"
    if re.fullmatch(r"[0-9]+%%+", value) and name == "size":
        return f"write {name}={value.rstrip('%')}%: the sign is doubled in unit files alone"
    if unit := _UNIT.fullmatch(value):
        return f"write {name}={unit[1]}{unit[2].upper()}"
    if cut := _BEFORE_BLANK.match(value):
        return f"write {name}={cut[1]}: what comes behind it is no part of a number"
    return f"write a number with its unit, such as {name}=16G"


def _find_ignored(fstype: str, words: tuple[str, ...], is_root: bool) -> Found:  # noqa: ARG001, FBT001 - one of several alike
    yield from systemd_words(words)
    dropped = [word for word in words if word in _BELT] if is_root else []
    if dropped:
        names = ", ".join(f"`{word}`" for word in dropped)
        yield (
            RemarkLevel.NOTE,
            "root-word",
            f"for / systemd ignores {names}",
            "nothing; or take it out",
        )


def _of_people(fstype: str, words: tuple[str, ...], is_root: bool) -> Found:  # noqa: ARG001, FBT001 - one of several alike
    if has_secret(",".join(words)):
        why = "a password in a file that everybody on this host may read"
        yield (
            RemarkLevel.WARNING,
            "password",
            why,
            "put it into a file of mode 0600, and name that in credentials=",
        )
    for place, word in enumerate(words):
        taken = [other for other in USER_WORDS.get(word, ()) if other in words[:place]]
        if taken:
            why = f"`{word}` after `{taken[0]}` means no{taken[0]} again"
            yield RemarkLevel.WARNING, "user-order", why, f"write `{word}` before `{taken[0]}`"
    word = is_noexec(words)
    # What is mounted when someone asks for it is mostly a disk that comes and goes, and is meant
    # so.
    if (
        word in USER_WORDS
        and "exec" not in words
        and fstype in LOCAL_TYPES
        and not is_on_demand(words)
    ):
        why = (
            f"`{word}` implies noexec, nosuid and nodev: no program can be started there, and no "
            "compiled code loaded"
        )
        yield (
            RemarkLevel.NOTE,
            "user-noexec",
            why,
            f"nothing, if only data lie there; else write `{word},exec`",
        )
