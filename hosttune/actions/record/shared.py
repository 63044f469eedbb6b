"""What of a file goes into a record that is shared: settings that facts read, without comments and
foreign words. Pure.

A file whose kind is not known is left out: a rule that asks for it is unknown on the record, never
wrongly decided.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hosttune.actions.record.commands import (
    kind_of,
    shared_command,
    shared_job,
    shared_unit,
    shared_words,
)
from hosttune.facts.environment import is_kept, systemd_variables
from hosttune.host.masking.command_secrets import MASK
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Collection

LEFT_OUT: Final = "left out of a record that is shared"
_STATE: Final = "/var/lib/hosttune/"
_KEPT_STATE: Final = (f"{_STATE}health/", f"{_STATE}ready.json")
NO_TEXT: Final = "\0\n"  # in place of a program
# Values of the kernel, and what packages and boot loaders brought along.
_AS_IT_IS = regex(
    r"/(?:proc|sys|boot|usr/share|run/udev|run/cloud-init)/|/(?:usr/)?lib/modules/"
    r"|/etc/(?:os-release|hostname|machine-id)$|"
    r"/usr/lib/os-release$|/var/lib/(?:dpkg|apt)/"
)
_JOBS = regex(
    r"/var/lib/kubelet/kubeadm-flags\.env$|/etc/(?:cron|anacrontab|environment|profile"
    r"|bash\.bashrc$|nccl\.conf$|rc\.local$|init\.d/|sysconfig/|default/(?!grub|kexec))|"
    r"/var/spool/cron/|/home/|/root/"
)
_SETTINGS = regex(
    r"/(?:etc|run|usr/lib|usr/local/lib|lib)/(?:fstab|crypttab|auto\.|autofs/|sysctl\."
    r"|modprobe\.d/|modules|security/|"
    r"tmpfiles\.d/|tmpreaper\.conf|cachefilesd\.conf|robinhood\.d/|udev/rules\.d/|apt/apt\.conf"
    r"|apt/preferences|"
    r"initramfs-tools/|dracut\.conf|dracut/|kernel/|systemd/[^/]+\.conf|systemd/[^/]+-preset/"
    r"|systemd/(?:resolve|timesync|seats|shutdown)/|"
    r"docker/|containerd/|lact/config\.yaml$|cdi/|nvidia-container-runtime/|nvidia/|nvidia-imex/"
    r"|needrestart/|nfs\.conf|slurm|apparmor\.d/|tuned/|sysfs\.|login\.defs|"
    r"wsl\.conf|pve/lxc/|dgx-|resolv\.conf|skyhook/|hosttune/|default/(?:grub|kexec)|libvirt/"
    r"|custom_supported_gpus|"
    r"lsb-release|debian_version|mtab|reboot-required|cloud/cloud-init\.disabled|slurm/)"
    r"|/var/run/cdi/|"
    r"/var/lib/(?:dkms|shim-signed|kubelet/config\.yaml|systemd|fastrak|tcpx)|"
    r".*/(?:slurm|gres|cgroup|topology|oci)\.conf$|.*/slurmd?/conf"
)
# Of programs that may put much into /tmp: shell, or keys and values.
_SPILLS = regex(
    r"/(?:etc|opt|usr/[a-z]+)/(?:.*/)?(?:spark|condor|enroot|lsf)[^/]*(?:/|$)|.*/lsf\.conf$"
    r"|.*/mom_priv/config$|/etc/(?:apptainer|singularity)/"
)
_SPILL_KEY = regex(
    r"\s*(?:export\s+)?[\w.$-]{0,80}(?:tmp|temp|dir|execute|local|path)[\w.-]{0,80}[\s=]",
    re.IGNORECASE,
)
_SSHD_KEY = regex(r"[ \t]*(UsePAM|Include|Match)[\s=]", re.IGNORECASE)
# Where arguments of the kernel are. One in capitals that it does not know becomes a variable of
# process 1.
_KERNEL_LINES = regex(
    r"/proc/cmdline$|/boot/(?:.*/)?(?:grub\.cfg|loader/entries/.+\.conf|cmdline\.txt)$"
    r"|/etc/kernel/cmdline$"
)
# Files that hosttune wrote, whose comments are compared too, and the tables of a site
_OWN = regex(r"/(?:etc|run|usr/lib)/(?:.*/)?[^/]*hosttune[^/]*$|/etc/hosttune/[^/]+\.tsv$")
_COMMENT = ("#", ";", "//")
# Comments that facts read: who else writes the file.
_MANAGED = regex(
    r"#{1,9} ?(?:(?:BEGIN|END) ANSIBLE MANAGED[\w ]{0,40}|VAGRANT-(?:BEGIN|END)|(?:>>>"
    r"|<<<) \[openmediavault\])|"
    r"ansible[_ ]managed|(?:managed by )?(?:ansible|puppet|chef|salt|cfengine|terraform|cobbler"
    r"|juju|landscape)\b|"
    r"this file is (?:managed|controlled) by",
    re.IGNORECASE,
)
_INLINE = regex(r"\s#")
_INSTALL = regex(r"\s*(install|remove)\s+([\w-]+)\s+(.*)")
_RUN = regex(r"((?:RUN|PROGRAM|IMPORT)(?:\{\w+\})?\s*[+:]?==?\s*)\"((?:[^\"\\]|\\.)*)\"")
# A line of tmpfiles.d(5) that writes a text into a file
_WRITES = regex(r"(?P<line>\s*[wfF][-+!=~^$]{0,7}\s+(?P<file>\S+)(?:\s+\S+){4}\s+).+")
_VALUES = ("/proc/", "/sys/")
_PUT_IN = regex(r"(?:-[A-Za-z]|--[a-z-]{1,20}=)?%[A-Za-z]")
_STRING = regex(r"\\.|\"((?:[^\"\\\n]|\\.)*)\"")
# An entry of Origins-Pattern (unattended-upgrade(8))
_ORIGIN = regex(
    r"(?:(?:o|origin|l|label|a|suite|archive|c|component|n|codename|site)=[\w${}.*: -]{0,80})"
    r"(?:,\s?(?:o|origin|l|label|a|suite|archive|c|component|n|codename"
    r"|site)=[\w${}.*: -]{0,80}){0,9}"
)
_OF_BOOT: Final = ("GRUB_", "BOOT_IMAGE")
# Of a kernel command line (kernel-command-line(7)): a word that is quoted whole, and one of which a
# part is.
_KERNEL_VARIABLES = tuple(map(regex, (
    r"(?m)(?P<name>(?:^|(?<=\s))\"(?P<key>[A-Z][A-Z0-9_]{0,80})=)[^\"\n]*",
    r"(?m)(?P<name>(?:^|(?<=\s))(?P<key>[A-Z][A-Z0-9_]{0,80})=)(?:\"[^\"\n]*\"?|[^\s\"])+",
)))  # fmt: skip
_ENVIRONMENT = regex(r"(?P<name>[\"'\s-](?P<key>[A-Z][A-Z0-9_]{1,80})=)(?P<value>[^\"'\s]+)")


def shared_text(path: str, content: str, programs: Collection[str] = ()) -> str | None:
    """What is shared of a text file, the numbers of its lines kept; None for a file that is left
    out. `programs` are those of the site, whose names are kept.
    """
    if path.startswith(_STATE) and not path.startswith(_KEPT_STATE):
        return None  # the journal has whole files in it, as they were
    if _AS_IT_IS.match(path) or _OWN.match(path) or path.startswith(_KEPT_STATE):
        content = (
            _without_variables(_without_kernel_variables(content))
            if _KERNEL_LINES.match(path)
            else content
        )
        return _shared_pattern(content) if path == "/proc/sys/kernel/core_pattern" else content
    if (kind := kind_of(path)) == "unit":
        return shared_unit(content, programs)
    if _JOBS.match(path):
        return shared_job(content, kind, programs)
    if _SPILLS.match(path):
        return "\n".join(row if _SPILL_KEY.match(row) else "" for row in content.split("\n"))
    if path.startswith("/etc/ssh/sshd_config"):
        return _shared_sshd(content)
    # A script below one of these folders is a program of the site, however its folder is called.
    if _SETTINGS.match(path) and not content.startswith("#!"):
        return _mask_settings(path, content)
    return (
        None
        if path.startswith("/etc/") and not content.startswith("#!")
        else shared_job(content, kind, programs)
    )


def _shared_sshd(content: str) -> str:
    """Where PAM is set, and the frame of that: names of users and hosts are left out."""
    rows = ((row, _SSHD_KEY.match(row)) for row in content.split("\n"))
    return "\n".join(
        "" if not key else "Match all" if key[1].lower() == "match" else row for row, key in rows
    )


def _mask_settings(path: str, content: str) -> str:
    if path.endswith("/kernel/cmdline"):
        return _without_variables(_without_kernel_variables(content))
    if path.endswith((".json", ".xml")) or content.lstrip().startswith("{"):
        return _without_variables(content)
    is_of_systemd = ".conf" in path and "/systemd/" in path
    # `systemd_variables` counts the lines of splitlines, which also breaks at a form feed: rows
    # counted otherwise would put a variable in place of another setting.
    lines = [*content.splitlines(), ""] if is_of_systemd else content.split("\n")
    rows = [_mask_row(path, row) for row in lines]
    if is_of_systemd:
        variables: dict[int, list[str]] = {}
        for number, name, value in systemd_variables(content):
            if is_kept(name):
                variables.setdefault(number, []).append(f'"{name}={value}"')
        for number, words in variables.items():
            rows[number - 1] = f"{lines[number - 1].partition('=')[0]}={' '.join(words)}"
    return "\n".join(rows)


def _mask_row(path: str, row: str) -> str:
    start = row.lstrip()
    if start.startswith(_COMMENT):
        return _kept_comment(start)
    # Behind a quote a # may be part of the value.
    if (comment := _INLINE.search(row)) and not {'"', "'"} & set(row[: comment.start()]):
        row = row[: comment.start()]
    # `_mask_settings` writes them anew, and only those that facts read.
    if "/systemd/" in path and start.partition("=")[0].strip().endswith("Environment"):
        return ""
    if "/default/grub" in path:
        return _without_variables(row) if start.startswith(("GRUB_", "export GRUB_")) else ""
    if "/tmpfiles.d/" in path and (match := _WRITES.fullmatch(row)):
        row = row if match["file"].startswith(_VALUES) else f"{match['line']}{MASK}"
    if "/sysctl." in path and "|" in row:
        key, equals, value = row.partition("=")
        row = f"{key}{equals}{_shared_pattern(value)}"
    if "/modprobe.d/" in path and (match := _INSTALL.fullmatch(row)):
        return f"{match[1]} {match[2]} {shared_command(match[3])}"
    if "/udev/" in path:
        return _RUN.sub(_run, row)
    if "/apt/" in path:
        return _STRING.sub(_mask_hook, row)
    return (
        _without_variables(row)
        if "/cdi/" in path or "/containerd/" in path or "/docker/" in path
        else row
    )


def _shared_pattern(pattern: str) -> str:
    """Of a core_pattern (core(5)) that starts a program the program and what the kernel puts in."""
    before, bar, command = pattern.partition("|")
    if not bar or before.strip():
        return pattern
    program, *rest = command.split() or [""]
    kept = (word for word in rest if word == "--" or _PUT_IN.fullmatch(word))
    return f"{before}|{' '.join((*shared_words((program,)), *kept))}"


def _kept_comment(comment: str) -> str:
    found = _MANAGED.search(comment)
    if found is None:
        return "" if comment.startswith("//") else comment[:1]
    edit = " do not edit" if "not edit" in comment.lower() or "n't edit" in comment.lower() else ""
    return f"{'' if found[0].startswith('#') else '# '}{found[0]}{edit}"


def _run(match: re.Match[str]) -> str:
    return f'{match[1]}"{" ".join(shared_words(tuple(match[2].split())))}"'


def _mask_hook(match: re.Match[str]) -> str:
    if match[1] and _ORIGIN.fullmatch(match[1]):
        return match[0]
    return f'"{shared_command(match[1])}"' if match[1] and " " in match[1] else match[0]


def _without_kernel_variables(text: str) -> str:
    for pattern in _KERNEL_VARIABLES:
        text = pattern.sub(_without_value, text)
    return text


def _without_variables(text: str) -> str:
    return _ENVIRONMENT.sub(_without_value, text)


def _without_value(found: re.Match[str]) -> str:
    return (
        found[0]
        if is_kept(found["key"]) or found["key"].startswith(_OF_BOOT)
        else f"{found['name']}{MASK}"
    )
