"""The command in a step of a way out: pages give it a button, texts a line of its own that is not
broken.
"""

from __future__ import annotations

import shlex

from hosttune.regex import regex

# The command of a step: all of it, or what follows its colon, up to the words that say what it is
# for, or go on. `modprobe`, `mount`, `find` are not here: sentences begin with them, too.
_COMMAND = regex(
    r"(?:^|(?<=: ))(?:\d\. )?((?:sudo|amd-smi|apt|apt-get|cat|chronyc|dcgmi|dmesg|docker|echo"
    r"|export|findmnt|grep|"
    r"hosttune|ip|journalctl|kubectl|ls|lsblk|lspci|mlxlink|nvidia-smi|nvme|perfquery|ping|podman"
    r"|printf|python|python3|"
    r"ras-mc-ctl|rpcinfo|sbatch|scontrol|smartctl|systemctl|systemd-cgls|tuned-adm"
    r"|update-initramfs|zfs|"
    r"/[\w./+-]+/(?:run|hosttune)) .*?)"
    r"(?= \([^()'\"]*\)$| (?:lists|names|prints|reports|says|shows|tells|tests)\b|, [a-z]|$)"
)


def find_command(step: str) -> tuple[int, int] | None:
    """Where the command in a step begins and ends; None where it has none, or not surely."""
    found = _COMMAND.search(step)
    if not found or not _is_balanced(found[1]):  # a name in quotes holds words that seem to end it
        return None
    return found.start(1), found.start(1) + len(found[1].rstrip())


def _is_balanced(command: str) -> bool:
    """Whether each quote of a command is closed."""
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True
