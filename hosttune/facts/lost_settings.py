"""Settings of administrators that have no effect at the next boot, because another file counts over
them or nothing reads theirs: in sysctl.d, modprobe.d, limits.d, tmpfiles.d, udev rules, drop-ins of
units and of systemd's programs.

Who counts over whom is in `precedence`, whose a file is in `file_owners`. What one file of an
administrator loses to another one of theirs is meant so, and is left out; only TuneD turns their
order round (reapply_sysctl). Limits of units that systemd cannot read count as well, and modules
that a boot is to load and something keeps out. Sources: sysctl.d(5), modprobe.d(5),
modules-load.d(5), limits.conf(5), tmpfiles.d(5) with systemd-tmpfiles ("Duplicate line for path,
ignoring"), udev(7), systemd.unit(5), systemd.exec(5), systemd.resource-control(5).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt
from hosttune.facts.commands import RC_LOCAL
from hosttune.facts.file_owners import NO_PACKAGE
from hosttune.facts.kernel.grub import has_entry, parse_menu, settings_of
from hosttune.facts.kernel.grub_arguments import FOLDER as GRUB_FOLDER
from hosttune.facts.kernel.grub_arguments import (
    MENU,
    Arguments,
    add_up_arguments,
    arguments_of,
    find_shell_fault,
    read_files,
)
from hosttune.facts.kernel.module_options import same_value
from hosttune.facts.kernel.modules_at_boot import ON_COMMAND_LINE, kept_out_at_boot, modules_at_boot
from hosttune.facts.kernel.sysctl import proc_path
from hosttune.facts.kernel.sysctl_at_boot import CONF, has_reapplied
from hosttune.facts.kernel.sysfs_at_boot import udev_writes
from hosttune.facts.limits.session_limits import ITEMS, find_skipped
from hosttune.facts.limits.session_limits import read_files as read_limits
from hosttune.facts.placed import Placed
from hosttune.facts.precedence import (
    LIMITS,
    MODPROBE,
    SYSCTL,
    TMPFILES,
    UDEV,
    FileOrder,
    find_losers,
    unit_order,
)
from hosttune.facts.reading import drop_in_texts, hint, names_in, read_texts
from hosttune.facts.services.systemd_config import files_of
from hosttune.facts.services.unit_files import UnitFiles, is_mask, parse_assignments
from hosttune.facts.services.unit_settings import UnitSettings
from hosttune.facts.storage.ageing_text import parse_tmpfiles
from hosttune.facts.storage.kernel_types import is_older_than_boot, read_modules
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.host.known.unit_folders import ADMIN
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

# Sysctls that are there once a module is loaded (sysctl.d(5), example 2). Others that start late
# write them as well.
_OF_MODULES = (
    ("net.bridge.", "br_netfilter"), ("net.netfilter.nf_conntrack_", "nf_conntrack"),
    ("net.nf_conntrack_", "nf_conntrack"),
)  # fmt: skip
_ROOTS = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
# Settings of units of which only the last one counts: of others each line adds to a list
# (systemd.exec(5), systemd.service(5), systemd.resource-control(5)).
_SINGLE = (
    "Limit",
    "Memory",
    "Tasks",
    "CPUWeight",
    "CPUQuota",
    "IOWeight",
    "Timeout",
    "Restart",
    "OOM",
    "Protect",
)
_ALONE = frozenset({
    "Delegate", "Group", "KillMode", "Nice", "NoNewPrivileges", "PrivateTmp", "RemainAfterExit",
    "Slice", "Type", "UMask", "User", "WorkingDirectory",
})  # fmt: skip
# Programs of systemd whose settings are single values, but for few.
_COUNTS = frozenset({"LimitLOCKS", "LimitNOFILE", "LimitNPROC", "LimitSIGPENDING", "TasksMax"})
_SIZES = frozenset({
    "LimitAS", "LimitCORE", "LimitDATA", "LimitFSIZE", "LimitMEMLOCK", "LimitMSGQUEUE", "LimitRSS",
    "LimitSTACK", "MemoryHigh", "MemoryLow", "MemoryMax", "MemoryMin", "MemorySwapMax",
})  # fmt: skip
_COUNT, _SIZE = regex(r"\+?\d[\da-fA-FxX]*|infinity"), regex(r"\+?\d+(?:\.\d+)?[BKMGTPE]?|infinity")
_SHARE = regex(r"\d+(?:\.\d+)?[%‰‱]")
_PLAIN_KEY = regex(r"(vm|kernel|fs|net\.core|net\.ipv4)\.([a-z0-9_]{1,64})")
_UNIT_FOLDERS = tuple(
    f".{kind}.d" for kind in ("service", "socket", "mount", "swap", "timer", "slice", "target")
)
_BARE = regex(r"[A-Za-z0-9][A-Za-z0-9_@-]{0,254}")
_PUT_AWAY = regex(r"(?i)readme|bac?k(?:up)?$|old$|orig|disabled|off$|save|example|sample|template")
_ALIAS = regex(r"(?m)^[ \t]*(?:alias|install)[ \t]+([\w-]{1,64})[ \t]")
_WAAGENT = "/etc/waagent.conf"
_OF_DISK = regex(r"(?m)^ResourceDisk\.(Format|EnableSwap)=([yn])[ \t]*$")
_ZRAM = "/etc/systemd/zram-generator.conf"
_ZRAM_SECTION = regex(r"(?m)^[ \t]*\[(zram\d{1,4})\][ \t]*$")
_GENERATORS = tuple(f"{root}/systemd/system-generators" for root in _ROOTS)
_GRUB = FileOrder(GRUB_FOLDER, ".cfg")
# Arguments that images of distributions leave in /etc/default/grub, and that cost nothing.
_IDLE = frozenset({"quiet", "splash", "console", "nosplash", "rhgb", "vt.handoff"})
_PROGRAMS = (
    "coredump.conf",
    "journald.conf",
    "logind.conf",
    "oomd.conf",
    "sleep.conf",
    "system.conf",
)


@frozen
class LostFile(Fact):
    """What one file of an administrator says in vain, to one other file."""

    path: str  # the file whose settings do not come into force
    settings: tuple[str, ...]  # as a person writes them: vm.swappiness = 10
    lines: tuple[int, ...]  # of that file, one for each
    owner: str  # whose it is: the administrator, Ansible ...
    winner: str  # the file that counts over it; empty where nothing reads this one at boot
    winner_owner: str  # the package procps ...; empty where there is none
    # the winner counts because it is read later, else because it is read earlier
    is_read_later: bool
    better: str  # the file to put the settings into
    # nothing counts over it, but the module that has these sysctls comes after systemd-sysctl
    module: str = ""
    is_misread: bool = False  # nothing counts over it, but systemd cannot read these values
    why: str = ""  # of all else: why nothing reads it, or acts by it, as the rest of a sentence
    way_out: str = ""  # of these
    # what keeps these modules from being loaded: a file, or an argument on the command line
    kept_out_by: str = ""

    @property
    def text(self) -> str:
        """The settings in words, the first of many."""
        most = 6
        more = f" and {len(self.settings) - most} more" if len(self.settings) > most else ""
        return ", ".join(self.settings[:most]) + more


@frozen
class LostSettings(Subject):
    """All that administrators set in vain."""

    files: tuple[LostFile, ...] = read_with(
        lambda self: tuple(_find_files(self.reader, self.facts))
    )


@frozen
class _Contest:
    """All that files say of one value, the one that counts last."""

    name: str  # with the place of the value: `vm.swappiness = {}`
    order: FileOrder
    settings: tuple[Placed, ...]
    same: Callable[[str, str], bool]


def _find_files(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    found: dict[tuple[str, str], list[tuple[_Contest, Placed]]] = {}
    for make in (
        _find_sysctls,
        _module_options,
        _find_limits,
        _find_tmpfiles,
        _find_udev,
        _find_units,
        _find_programs,
    ):
        for contest in make(reader, facts):
            for one in find_losers(contest.settings, contest.same):
                if _is_lost(one, contest.settings, facts):
                    found.setdefault((one.path, contest.settings[-1].path), []).append(
                        (contest, one)
                    )
    yield from _find_unread(facts)
    yield from _find_late(reader, facts)
    yield from _find_misread(reader, facts)
    yield from _find_kept_out(reader, facts)
    yield from _find_missing_modules(reader, facts)
    yield from _find_misnamed(reader, facts)
    yield from _find_unknown_sysctls(reader, facts)
    yield from _find_rc_local(reader, facts)
    yield from _find_dropped_arguments(reader, facts)
    yield from _find_skipped_limits(reader, facts)
    yield from _find_unread_grub(reader, facts)
    yield from _find_lost_default(reader, facts)
    yield from _find_waagent(reader, facts)
    yield from _find_unread_zram(reader, facts)
    yield from _find_overruled(reader, facts)
    for (path, other), rows in found.items():
        order = rows[0][0].order
        yield LostFile(
            path,
            tuple(contest.name.replace("{}", _show_line(contest, one)) for contest, one in rows),
            tuple(one.line for _, one in rows),
            facts.file_owners[path].name,
            other,
            facts.file_owners[other].name,
            not order.counts_first,
            order.path_over(other),
        )


def _show_line(contest: _Contest, one: Placed) -> str:
    """Of a line of tmpfiles.d without its argument, which may be the text of a file."""
    return " ".join(one.value.split()[:6]) if contest.order is TMPFILES else one.value


def _is_lost(one: Placed, settings: tuple[Placed, ...], facts: Facts) -> bool:
    """Whether it is a decision for this host, and what counts over it is none, or TuneD has turned
    the order round.
    """
    winner = settings[-1]
    # Two lines of one file, and what the kernel command line overrides, are before the eyes of the
    # person who wrote them.
    if one.is_of_distribution or one.path == winner.path or not winner.line:
        return False
    owners = facts.file_owners
    if not owners[one.path].decides:
        return False
    others = [other for other in settings if other.path != CONF]
    is_turned = winner.path == CONF and facts.host.has_systemd and one == others[-1]
    return is_turned or not owners[winner.path].decides


def _find_unread(facts: Facts) -> Iterator[LostFile]:
    """/etc/sysctl.conf where nothing reads it, without what another file says as well."""
    at_boot = facts.sysctl_at_boot
    rows = [
        (key, one)
        for key, one in at_boot.unread.items()
        if not _is_in_force(at_boot[key].settings, one)
    ]
    if rows:
        settings = tuple(f"{key} = {one.value}" for key, one in rows)
        lines = tuple(one.line for _, one in rows)
        taken = names_in(facts.reader, SYSCTL.folder)
        name = next(
            one
            for one in ("99-sysctl.conf", "99-local.conf", "zz-sysctl.conf", "zz-local.conf")
            if one not in taken
        )
        yield LostFile(
            CONF,
            settings,
            lines,
            facts.file_owners[CONF].name,
            "",
            "",
            False,
            f"{SYSCTL.folder}/{name}",
        )


def _find_late(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Sysctls of a module that no boot loads before systemd-sysctl runs: this boot has shown that
    they are not set.
    """
    found: dict[tuple[str, str], list[tuple[str, Placed]]] = {}
    missing: dict[tuple[str, str], list[tuple[str, Placed]]] = {}
    for key in () if reader.persistent_only else facts.sysctl_at_boot.keys:
        module = next((module for prefix, module in _OF_MODULES if key.startswith(prefix)), "")
        settings = facts.sysctl_at_boot[key].settings if module else ()
        if (
            not settings
            or not settings[-1].line
            or not facts.file_owners[settings[-1].path].decides
        ):
            continue
        # which sets them as well
        now = None if facts.managers.kubelet else attempt(_value_of, facts, key)
        row = (f"{key} = {settings[-1].value}", settings[-1])
        if (
            isinstance(now, str)
            and not _is_same(now, settings[-1].value)
            and _is_loaded_late(reader, module)
        ):
            found.setdefault((settings[-1].path, module), []).append(row)
        elif _is_never_loaded(reader, key, settings[-1], module):
            missing.setdefault((settings[-1].path, module), []).append(row)
    for (path, module), rows in (*found.items(), *missing.items()):
        texts, lines = tuple(text for text, _ in rows), tuple(one.line for _, one in rows)
        owner, better = facts.file_owners[path].name, f"/etc/modules-load.d/{module}.conf"
        if (path, module) in found:
            yield LostFile(path, texts, lines, owner, "", "", False, better, module)
            continue
        lacks = (
            f"the kernel has that with the module {module}, which is not loaded, and no boot loads "
            "it"
        )
        why = f"{', '.join(texts)}: {lacks}"
        way_out = (
            f"have it loaded: echo {quote(module)} | sudo tee {quote(better)}\n"
            f"let it take effect now: sudo modprobe {quote(module)} && sudo sysctl -p "
            f"{quote(path)}\n"
            f"what is not meant any more: take it out of {quote(path)}"
        )
        yield LostFile(path, texts, lines, owner, "", "", False, better, why=why, way_out=way_out)


def _value_of(facts: Facts, key: str) -> str:
    return facts.sysctl[key].text


def _find_misread(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Limits in units and system.conf of administrators that systemd skips with a line in its
    log.
    """
    found: dict[str, list[tuple[str, int]]] = {}
    for name in (
        *_own_settings(reader),
        *(f"system.conf/Manager/Default{key}" for key in sorted(_COUNTS | _SIZES)),
    ):
        values = facts.unit_settings[name].values
        unit, _, key = name.split("/")
        if values and is_misread(key.removeprefix("Default"), values[-1].value):
            text = f"{key}={values[-1].value} of {unit}"
            found.setdefault(values[-1].path, []).append((text, values[-1].line))
    for path, rows in found.items():
        texts, lines = zip(*rows, strict=True)
        if facts.file_owners[path].decides:
            yield LostFile(
                path,
                texts,
                lines,
                facts.file_owners[path].name,
                "",
                "",
                False,
                path,
                is_misread=True,
            )


def _find_kept_out(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Modules that a boot is to load by name, and that something keeps from being loaded. A package
    may ask for one, and an administrator keep it out: that is a decision.
    """
    asked = [one for one in modules_at_boot(reader) if facts.file_owners[one.path].decides]
    known = attempt(kept_out_at_boot, facts) if asked else {}
    kept_out = known if isinstance(known, Mapping) else {}
    built_in = read_modules(facts)[1] if kept_out else frozenset()
    found: dict[tuple[str, str], dict[str, int]] = {}
    for one in asked:
        module = one.value.replace("-", "_")
        place = kept_out.get(module, "")
        has_shown = (
            not reader.persistent_only and reader.stat(f"/sys/module/{module}") is not ABSENT
        )
        if (
            place
            and module not in built_in
            and not (has_shown and is_older_than_boot(facts, place))
        ):
            found.setdefault((one.path, place), {}).setdefault(one.value, one.line)
    for (path, place), rows in found.items():
        is_file = not place.endswith(ON_COMMAND_LINE)
        owner = facts.file_owners[place].name if is_file else ""
        better = (
            f"{MODPROBE.folder}/{place.rpartition('/')[2]}"
            if is_file and place.startswith(("/usr/lib/", "/lib/"))
            else ""
        )
        yield LostFile(
            path,
            tuple(rows),
            tuple(rows.values()),
            facts.file_owners[path].name,
            "",
            owner,
            False,
            better,
            kept_out_by=place,
        )


def _find_missing_modules(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Modules that a boot is to load by name, and the kernel of the next boot has neither by that
    name nor by an alias (modules.alias; modprobe.d may give one as well, or run another command in
    its place).
    """
    asked = [one for one in modules_at_boot(reader) if facts.file_owners[one.path].decides]
    release, built_in, modules = read_modules(facts) if asked else ("", frozenset(), frozenset())
    if not modules:
        return
    found: dict[str, dict[str, int]] = {}
    other_names = _find_aliases(reader, release)
    for one in asked:
        name = one.value.split()[0].replace("-", "_")
        if (
            name not in built_in
            and name not in modules
            and other_names is not None
            and name not in other_names
        ):
            found.setdefault(one.path, {}).setdefault(one.value.split()[0], one.line)
    for path, rows in found.items():
        names = ", ".join(rows)
        why = (
            f"the kernel of the next boot ({release}) has no module {names}, and "
            "systemd-modules-load.service fails"
        )
        steps = (
            "if it is needed: install the package that brings it (of DKMS: dkms status)",
            f"have the kernel know it: sudo depmod {quote(release)}",
            f"if it is not: take it out of {quote(path)}",
        )
        owner = facts.file_owners[path].name
        yield LostFile(
            path,
            tuple(rows),
            tuple(rows.values()),
            owner,
            "",
            "",
            False,
            path,
            why=why,
            way_out="\n".join(steps),
        )


def _find_aliases(reader: Reader, release: str) -> frozenset[str] | None:
    """Other names of modules; None where a list of them cannot be read."""
    paths = [f"{folder}/{release}/modules.alias" for folder in ("/lib/modules", "/usr/lib/modules")]
    listed = attempt(lambda: tuple(read_texts(reader, paths)))
    given = attempt(lambda: tuple(drop_in_texts(reader, [f"{root}/modprobe.d" for root in _ROOTS])))
    # Without the whole list of aliases every module could have another name, and none may be called
    # missing.
    if not isinstance(listed, tuple) or not listed or not isinstance(given, tuple):
        return None
    return frozenset(
        match[1].replace("-", "_")
        for _, content in (*listed[:1], *given)
        for match in _ALIAS.finditer(content)
    )


def _find_misnamed(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Files of administrators without the end of the name by which they are read. One with another
    end (.bak, .off) was put out of use on purpose.
    """
    units = [f"{ADMIN}/{name}" for name in names_in(reader, ADMIN) if name.endswith(_UNIT_FOLDERS)]
    kinds = [(order.folder, order.suffix) for order in (SYSCTL, MODPROBE, LIMITS, TMPFILES, UDEV)]
    for folder, suffix in (
        *kinds,
        ("/etc/modules-load.d", ".conf"),
        *((unit, ".conf") for unit in units),
    ):
        listed = attempt(names_in, reader, folder)
        names = listed if isinstance(listed, tuple) else ()
        for name in names:
            path = f"{folder}/{name}"
            content = (
                hint(reader, path) if _BARE.fullmatch(name) and not _PUT_AWAY.search(name) else ""
            )
            rows = [
                row
                for row in content.splitlines()
                if row.strip() and not row.lstrip().startswith(("#", ";"))
            ]
            if rows and facts.file_owners[path].decides and f"{name}{suffix}" not in names:
                why = f"only names that end in {suffix} are read in {folder}"
                way_out = (
                    f"sudo mv -n {quote(path)} {quote(path + suffix)}\n"
                    "if it is not meant any more: remove it"
                )
                owner, better = facts.file_owners[path].name, f"{path}{suffix}"
                yield LostFile(path, (), (), owner, "", "", False, better, why=why, way_out=way_out)


def _find_unknown_sysctls(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Keys that this kernel does not have, in folders of /proc/sys that no module adds to. `-KEY =
    VALUE` says that it may be missing (sysctl.d(5)).
    """
    found: dict[str, dict[str, int]] = {}
    for key in () if reader.persistent_only else facts.sysctl_at_boot.keys:
        match = _PLAIN_KEY.fullmatch(key)
        settings = facts.sysctl_at_boot[key].settings if match else ()
        if (
            not match
            or not settings
            or not settings[-1].line
            or not facts.file_owners[settings[-1].path].decides
        ):
            continue
        folder = f"/proc/sys/{match[1].replace('.', '/')}"
        if reader.stat(f"{folder}/{match[2]}") is not ABSENT:
            continue
        names = attempt(names_in, reader, folder)
        # The sign of a key is not kept with its value: `-key` says that a missing one is meant, so
        # the line is looked at again.
        rows = hint(reader, settings[-1].path).splitlines()[
            settings[-1].line - 1 : settings[-1].line
        ]
        if (
            isinstance(names, tuple)
            and names
            and not any(row.lstrip().startswith("-") for row in rows)
        ):
            near = get_close_matches(match[2], names, 1, 0.85)
            meant = f" (is {match[1]}.{near[0]} meant?)" if near else ""
            found.setdefault(settings[-1].path, {})[f"{key}{meant}"] = settings[-1].line
    for path, keys in found.items():
        why = f"this kernel has no {', '.join(keys)}, and systemd-sysctl skips it"
        way_out = f"correct it in {path}, or take it out: newer kernels have some keys no more"
        owner = facts.file_owners[path].name
        yield LostFile(
            path,
            tuple(keys),
            tuple(keys.values()),
            owner,
            "",
            "",
            False,
            path,
            why=why,
            way_out=way_out,
        )


def _find_rc_local(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """systemd-rc-local-generator(8) takes /etc/rc.local only if it is executable."""
    stat, rows = reader.stat(RC_LOCAL), hint(reader, RC_LOCAL).splitlines()
    commands = [
        row
        for row in rows
        if row.strip() and not row.lstrip().startswith("#") and row.split()[0] != "exit"
    ]
    if (
        commands
        and isinstance(stat, Stat)
        and not stat.mode & 0o111
        and facts.file_owners[RC_LOCAL].decides
    ):
        way_out = (
            f"read it; then, if it is meant: sudo chmod 755 {RC_LOCAL}\nif it is not: remove it"
        )
        why, owner = (
            "it is not executable, so systemd does not run it",
            facts.file_owners[RC_LOCAL].name,
        )
        yield LostFile(RC_LOCAL, (), (), owner, "", "", False, RC_LOCAL, why=why, way_out=way_out)


def _find_dropped_arguments(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Arguments of the kernel that a later file of GRUB's settings drops, as it assigns without
    what was there before. Images and installers bring such files, which no package has
    (hetzneronline/installimage#39); so each counts, but for arguments that the later file gives
    another value.
    """
    files, arguments = attempt(read_files, reader), attempt(arguments_of, reader)
    if not isinstance(files, tuple) or not isinstance(arguments, Arguments):
        return
    kept = {_key_of(one) for one in arguments.all}
    for last in arguments.afresh:
        before = [one for one in files if one[0] < last.path]  # grub, then grub.d/*.cfg by name
        rows = [one for one in add_up_arguments(before).default if _key_of(one) not in kept | _IDLE]
        for path in dict.fromkeys(one.path for one in rows):
            lost = {one.value: one.line for one in rows if one.path == path}
            words, better, owner = (
                " ".join(lost),
                _GRUB.path_over(last.path),
                facts.file_owners[path],
            )
            if owner.decides:
                why = f"{last.place} sets GRUB_CMDLINE_LINUX_DEFAULT anew, without {words}"
                value = f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {words}"'
                way_out = (
                    f"if it is needed, have {better} say: {value}\n"
                    "then: sudo update-grub, and reboot when nothing runs\n"
                    f"if it is not: take it out of {quote(path)}"
                )
                yield LostFile(
                    path,
                    tuple(lost),
                    tuple(lost.values()),
                    owner.name,
                    "",
                    "",
                    False,
                    better,
                    why=why,
                    way_out=way_out,
                )


def _find_skipped_limits(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Lines of limits.conf that pam_limits skips."""
    files = attempt(read_limits, reader)
    for path, content in files if isinstance(files, tuple) else ():
        rows = tuple(find_skipped(content))
        if rows and facts.file_owners[path].decides:
            more = f", and {len(rows) - 3} more lines" if len(rows) > 3 else ""
            why = (
                ", ".join(f"line {line} {text}" for line, text in rows[:3])
                + more
                + ": pam_limits skips that"
            )
            way_out = f"correct it in {quote(path)}\nlog in again, and see: ulimit -a"
            lines = tuple(line for line, _ in rows)
            yield LostFile(
                path,
                (),
                lines,
                facts.file_owners[path].name,
                "",
                "",
                False,
                path,
                why=why,
                way_out=way_out,
            )


def _find_unread_grub(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Settings of GRUB that no shell can read: update-grub fails, and with it each installation of
    a kernel.
    """
    files = attempt(read_files, reader)
    for path, text in files if isinstance(files, tuple) else ():
        line, fault = find_shell_fault(text)
        if line and facts.file_owners[path].decides:
            why = (
                f"line {line} {fault}: update-grub fails, the boot menu stays as it is, and apt "
                "stops at a new kernel"
            )
            way_out = (
                f"correct line {line} of {quote(path)}\n"
                f"see whether sh reads it: sh -n {quote(path)}\n"
                "sudo update-grub"
            )
            owner = facts.file_owners[path].name
            yield LostFile(path, (), (line,), owner, "", "", False, path, why=why, way_out=way_out)


def _find_lost_default(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """A default that GRUB's menu does not have, as after its kernel was removed: GRUB takes its
    first entry.
    """
    files = attempt(read_files, reader)
    rows = files if isinstance(files, tuple) else ()
    places = [
        (path, settings["GRUB_DEFAULT"])
        for path, text in rows
        if "GRUB_DEFAULT" in (settings := settings_of(text))
    ]
    menu = reader.read(MENU)
    path, default = places[-1] if places else ("", "0")
    if (
        not isinstance(menu, bytes)
        or default.isdigit()
        or default in {"", "saved"}
        or {"$", "`"} & set(default)
    ):
        return
    entries = parse_menu(menu.decode("utf-8", "replace"))
    if not entries or has_entry(entries, default) or not facts.file_owners[path].decides:
        return
    why = (
        f"GRUB_DEFAULT names {quote(default)}, and {MENU} has no such entry: GRUB boots its first "
        "one"
    )
    look = f"see what it has: sudo grep -E 'menuentry|submenu' {MENU}"
    way_out = f"{look}\nname one of these in {quote(path)}, or 0\nsudo update-grub"
    owner = facts.file_owners[path].name
    yield LostFile(path, (), (), owner, "", "", False, path, why=why, way_out=way_out)


def _find_waagent(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Swap of the Azure agent on a disk that it does not format (ResourceDiskHandler.run of
    WALinuxAgent), or that cloud-init formats and mounts as well.
    """
    given = {match[1]: match[2] == "y" for match in _OF_DISK.finditer(hint(reader, _WAAGENT))}
    entries = attempt(lambda: facts.fstab.entries)
    lines = (
        [one for one in entries if "comment=cloudconfig" in one.options]
        if isinstance(entries, tuple)
        else []
    )
    why = ""
    if given.get("EnableSwap") and not given.get("Format"):
        why = "ResourceDisk.EnableSwap=y makes no swap without ResourceDisk.Format=y"
    elif given.get("Format") and lines:
        why = (
            f"cloud-init mounts the resource disk as well ({lines[0].where}), and chance decides "
            "which of both has it"
        )
    if why and facts.file_owners[_WAAGENT].decides:
        way_out = (
            "leave the disk to cloud-init: ResourceDisk.Format=n and ResourceDisk.EnableSwap=n\n"
            "swap on it: mounts and swap of cloud-init"
        )
        owner = facts.file_owners[_WAAGENT].name
        yield LostFile(_WAAGENT, (), (), owner, "", "", False, _WAAGENT, why=why, way_out=way_out)


def _find_unread_zram(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Swap on compressed memory of zram-generator.conf(5), which only the generator reads: systemd
    has none itself.
    """
    # A folder that cannot be read counts as one that has it: only a certain absence makes the file
    # useless.
    if any(reader.stat(f"{folder}/zram-generator") is not ABSENT for folder in _GENERATORS):
        return
    for path, content in (*read_texts(reader, (_ZRAM,)), *drop_in_texts(reader, (f"{_ZRAM}.d",))):
        sections = tuple(f"[{name}]" for name in _ZRAM_SECTION.findall(content))
        if sections and facts.file_owners[path].decides:
            way_out = (
                "sudo apt-get install systemd-zram-generator\n"
                f"let it make the swap now: sudo systemctl daemon-reload && sudo systemctl start "
                f"{quote(f'systemd-zram-setup@{sections[0][1:-1]}.service')}"
            )
            why = (
                f"{', '.join(sections)}: zram-generator is not installed, and nothing else reads "
                "this file"
            )
            owner = facts.file_owners[path].name
            yield LostFile(path, sections, (), owner, "", "", False, path, why=why, way_out=way_out)


def _find_overruled(reader: Reader, facts: Facts) -> Iterator[LostFile]:
    """Sysctls that TuneD sets to something else after the boot: of files that were put where
    packages have theirs, and of all files if TuneD does not apply them again (reapply_sysctl; not
    known counts as again). What TuneD computes (`>4096`, `${variable}`) may be the same value.
    """
    managers, is_turned = facts.managers, attempt(has_reapplied, reader, facts) is not False
    found: dict[str, list[tuple[str, int, str]]] = {}
    for key in managers.tuned_sysctls if attempt(lambda: managers.tuned_at_boot) is True else ():
        value = managers.tuned_sysctl_values[key]
        last = next(iter(facts.sysctl_at_boot[key].settings[-1:]), None)
        is_computed = value.startswith(("<", ">")) or "${" in value
        if last is None or not last.line or _is_same(last.value, value) or is_computed:
            continue
        owner = attempt(lambda path: facts.file_owners[path], last.path)
        if not isinstance(owner, Unreadable) and (
            owner.name == NO_PACKAGE or (owner.decides and not is_turned)
        ):
            found.setdefault(last.path, []).append(
                (f"{key} = {last.value}", last.line, f"{key} = {value}")
            )
    for path, rows in found.items():
        texts, lines, others = zip(*rows, strict=True)
        why = (
            f"{', '.join(texts)}: TuneD sets {', '.join(others)} after it (profile "
            f"{managers.tuned_profile})"
        )
        again = "" if is_turned else "write reapply_sysctl = 1 into /etc/tuned/tuned-main.conf\n"
        better = f"{SYSCTL.folder}/{posixpath.basename(path)}"
        move = "" if path == better else f"sudo mv {quote(path)} {quote(better)}\n"
        way_out = (
            f"{again}{move}let TuneD apply it again after its own values: sudo systemctl restart "
            "tuned"
        )
        yield LostFile(
            path,
            texts,
            lines,
            facts.file_owners[path].name,
            "",
            "",
            False,
            better,
            why=why,
            way_out=way_out,
        )


def _key_of(one: Placed) -> str:
    return one.value.partition("=")[0]


def is_misread(key: str, value: str) -> bool:
    """Whether systemd skips such a limit (config_parse_rlimit(), config_parse_memory_limit()).
    Tried with `systemd-analyze verify` of 252: it knows neither `unlimited` nor `64k` nor `64KB`,
    and no comment behind a value.
    """
    if not value or (" " in value and "#" not in value):
        return False
    is_limit = key.startswith("Limit")
    if not is_limit and _SHARE.fullmatch(value):
        return False
    pattern = _COUNT if key in _COUNTS else _SIZE if key in _SIZES else None
    parts = value.split(":") if is_limit else [value]
    return pattern is not None and (len(parts) > 2 or not all(map(pattern.fullmatch, parts)))


def _is_loaded_late(reader: Reader, module: str) -> bool:
    """Whether it is loaded, and not built in, and nothing sets its sysctls in time."""
    return reader.stat(f"/sys/module/{module}/refcnt") is not ABSENT and not _is_in_time(
        reader, module
    )


def _is_never_loaded(reader: Reader, key: str, place: Placed, module: str) -> bool:
    names = attempt(names_in, reader, "/proc/sys/net")
    rows = hint(reader, place.path).splitlines()[place.line - 1 : place.line]
    has_none = (
        reader.stat(proc_path(key)) is ABSENT and reader.stat(f"/sys/module/{module}") is ABSENT
    )
    may_lack = any(row.lstrip().startswith("-") for row in rows)  # sysctl.d(5)
    return (
        has_none
        and isinstance(names, tuple)
        and bool(names)
        and not may_lack
        and not _is_in_time(reader, module)
    )


def _is_in_time(reader: Reader, module: str) -> bool:
    if any(one.value.replace("-", "_") == module for one in modules_at_boot(reader)):
        return True
    rules = drop_in_texts(reader, [f"{root}/udev/rules.d" for root in _ROOTS], UDEV.suffix)
    return any(module in content and "sysctl" in content for _, content in rules)


def _is_in_force(settings: tuple[Placed, ...], one: Placed) -> bool:
    return bool(settings) and _is_same(settings[-1].value, one.value)


def _is_same(one: str, other: str) -> bool:
    return one.split() == other.split()


def _is_compatible(one: str, other: str) -> bool:
    """Whether systemd-tmpfiles takes both lines: all but their types is the same
    (item_compatible).
    """
    rows = (text.split()[2:] for text in (one, other))
    first, second = ([*row, *["-"] * (5 - len(row))] for row in rows)
    return first == second


def _find_sysctls(reader: Reader, facts: Facts) -> Iterator[_Contest]:  # noqa: ARG001 - the interface of all of them
    at_boot = facts.sysctl_at_boot
    for key in at_boot.keys:
        yield _Contest(f"{key} = {{}}", SYSCTL, at_boot[key].settings, _is_same)


def _module_options(reader: Reader, facts: Facts) -> Iterator[_Contest]:  # noqa: ARG001 - the interface of all of them
    for name in dict.fromkeys(f"{one.module}.{one.key}" for one in facts.module_options.lines):
        module, _, key = name.partition(".")
        yield _Contest(
            f"options {module} {key}={{}}",
            MODPROBE,
            facts.module_options[name].settings,
            same_value,
        )


def _find_limits(reader: Reader, facts: Facts) -> Iterator[_Contest]:  # noqa: ARG001 - the interface of all of them
    for item in ITEMS:
        rows = (
            (f"{one.domain} {one.kind} {item} {{}}", one.given)
            for one in facts.session_limits[item].lines
        )
        yield from _find_contests(rows, LIMITS)


def _find_tmpfiles(reader: Reader, facts: Facts) -> Iterator[_Contest]:  # noqa: ARG001 - the interface of all of them
    found: dict[tuple[bool, str], list[Placed]] = {}
    for path, content in drop_in_texts(reader, [f"{root}/tmpfiles.d" for root in _ROOTS]):
        for line in parse_tmpfiles(content):
            if line.decides_on:
                found.setdefault(line.decides_on, []).append(Placed(line.text, path, line.number))
    for settings in found.values():
        yield _Contest("{}", TMPFILES, tuple(reversed(settings)), _is_compatible)


def _find_udev(reader: Reader, facts: Facts) -> Iterator[_Contest]:  # noqa: ARG001 - the interface of all of them
    """Only rules for the very same devices are compared."""
    if not names_in(reader, UDEV.folder):
        return
    rows = []
    for path, content in drop_in_texts(
        reader, [f"{root}/udev/rules.d" for root in _ROOTS], UDEV.suffix
    ):
        for number, matches, attribute, value in udev_writes(content):
            devices = ", ".join(
                f'{key}=="{word}"' for key, word in sorted(matches.items()) if key != "?"
            )
            more = f", {matches['?']}" if "?" in matches else ""
            rows.append(
                (f'{devices}{more}, ATTR{{{attribute}}}="{{}}"', Placed(value, path, number))
            )
    yield from _find_contests(rows, UDEV)


def _own_settings(reader: Reader) -> Iterator[str]:
    """UNIT/SECTION/KEY of the single values in the units and drop-ins of administrators."""
    files = UnitFiles(reader)
    for unit in dict.fromkeys(entry.removesuffix(".d") for entry in names_in(reader, ADMIN)):
        if UnitSettings.name_fault(f"{unit}/Service/Type"):
            continue
        real, fragment = files.find(unit)
        if fragment and is_mask(reader, fragment):
            continue  # nothing of it counts, which is a decision
        own = [path for path in (fragment, *files.drop_ins(real)) if path.startswith(f"{ADMIN}/")]
        rows = (row for path in own for row in parse_assignments(files.content(path)))
        keys = {
            (section, key)
            for _, section, key, _ in rows
            if key in _ALONE or key.startswith(_SINGLE)
        }
        names = (f"{unit}/{section}/{key}" for section, key in sorted(keys))
        yield from (name for name in names if not UnitSettings.name_fault(name))


def _find_units(reader: Reader, facts: Facts) -> Iterator[_Contest]:
    for name in _own_settings(reader):
        unit, _, key = name.split("/")
        settings = facts.unit_settings[name].values
        yield _Contest(f"{key}={{}} of {unit}", unit_order(f"system/{unit}"), settings, _is_same)


def _find_programs(reader: Reader, facts: Facts) -> Iterator[_Contest]:
    for program in _PROGRAMS:
        files = files_of(reader, program)
        if len(files) < 2:
            continue
        texts = UnitFiles(reader)
        keys = {
            (section, key)
            for path in files
            for _, section, key, value in parse_assignments(texts.content(path))
            if value
        }
        for section, key in sorted(keys):
            name = f"{program}/{section}/{key}"
            if not UnitSettings.name_fault(name):
                yield _Contest(
                    f"{key}={{}}", unit_order(program), facts.unit_settings[name].values, _is_same
                )


def _find_contests(rows: Iterable[tuple[str, Placed]], order: FileOrder) -> Iterator[_Contest]:
    found: dict[str, list[Placed]] = {}
    for name, one in rows:
        found.setdefault(name, []).append(one)
    yield from (
        _Contest(name, order, tuple(settings), _is_same) for name, settings in found.items()
    )
