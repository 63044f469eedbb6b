"""The command in a step of a way out: pages give it a button, texts a line of its own that is not
broken.
"""

from __future__ import annotations

from hosttune.regex import regex

# The command of a step: all of it, or what follows its colon, up to the words that say what it is
# for, or go on. After sudo it is one anywhere in a sentence, but not within a longer command.
# What is in quotes belongs to it; a line for the policy is one, too. `modprobe`, `mount` and `find`
# are not here: sentences begin with them.
_PROGRAMS = (
    "amd-smi|apt|apt-get|cat|chronyc|dcgmi|dmesg|docker|echo|export|findmnt|grep|hosttune|ip|"
    "journalctl|kubectl|ls|lsblk|lspci|mlxlink|nvidia-smi|nvme|perfquery|ping|podman|printf|python|"
    "python3|ras-mc-ctl|rpcinfo|sbatch|scontrol|smartctl|sudo|systemctl|systemd-cgls|tuned-adm|"
    "update-initramfs|zfs"
)
_ENDS = (
    r" \([^()'\"]*\)$| (?:does|into|lists|names|prints|reports|says|shows|tells|tests|tries)\b|"
    r"[,;]? (?:and|or) [a-z]|; when| in the policy\b|, [a-z]|$"
)
_COMMAND = regex(
    rf"(?:(?:^|(?<=: ))(?:\d\. )?(?P<any>(?:{_PROGRAMS}|/[\w./+-]+/(?:run|hosttune)) )|"
    r"(?<=[\w,;] )(?=sudo [a-z/]))"
    rf"(?:'[^']*'|\"[^\"]*\"|[^'\"])*?(?={_ENDS})|"
    r"(?:^|(?<=: ))(?:data_mounts|ignore|params|select): [\[{].*[\]}]"
)


def find_command(step: str) -> tuple[int, int] | None:
    """Where the command in a step begins and ends; None where it has none, or not surely."""
    found = _COMMAND.search(step)
    if not found:
        return None
    begin = found.start("any") if found["any"] else found.start()
    return begin, begin + len(step[begin : found.end()].rstrip())
