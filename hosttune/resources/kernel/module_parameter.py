"""What a loaded module of the kernel has for one of its parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.host.door import Stat
from hosttune.resources.read_only import ReadOnly
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader
    from hosttune.values import Answer, Value

# What nvidia's module shows of itself, for it hides its parameters in /sys (nv-reg.h, nv-procfs.c).
_NVIDIA = "/proc/driver/nvidia/params"
_NVIDIA_NAMES = {"NVreg_RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}


def one(module: str) -> str:
    """A module's one name: - and _ mean the same."""
    return module.replace("-", "_")


class ModuleParameterAddress(ReadOnly):
    """`module-parameter:MODULE.KEY`: ("loaded" or "built in", its value where the module shows it); ABSENT while it is
    not loaded.
    """

    kind = "module-parameter"

    def read(self, reader: Reader, name: str) -> Value:
        module, _, key = name.partition(".")
        if reader.persistent_only:
            return ABSENT
        folder = f"/sys/module/{one(module)}"
        there = reader.stat(folder)
        if not isinstance(there, Stat):
            return there
        state = "built in" if _is_built_in(reader, one(module)) else "loaded"
        value = reader.read(f"{folder}/parameters/{key}")
        if value is ABSENT and one(module) == "nvidia":
            value = _of_nvidia(reader, key)
        if isinstance(value, Unreadable):
            return value
        return (state, value.decode("utf-8", "replace").strip()) if isinstance(value, bytes) else (state,)


def _is_built_in(reader: Reader, module: str) -> bool:
    release = reader.read("/proc/sys/kernel/osrelease")
    if not isinstance(release, bytes):
        return False
    listed = reader.read(f"/lib/modules/{release.decode('utf-8', 'replace').strip()}/modules.builtin")
    rows = listed.decode("utf-8", "replace").splitlines() if isinstance(listed, bytes) else []
    return any(one(row.rpartition("/")[2].partition(".ko")[0]) == module for row in rows)


def _of_nvidia(reader: Reader, key: str) -> Answer[bytes]:
    params = reader.read(_NVIDIA)
    if not isinstance(params, bytes):
        return params
    name = _NVIDIA_NAMES.get(key, key.removeprefix("NVreg_")).encode()
    match = re.search(rb"^" + re.escape(name) + rb": *(.*)$", params, re.MULTILINE)
    return match[1] if match else ABSENT


WISHES = ()
ADDRESSES = (ModuleParameterAddress(),)
