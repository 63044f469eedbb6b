"""NVIDIA's own bindings of NVML, and no others of their name.

Three distributions install a module `pynvml`: nvidia-ml-py, which is NVIDIA's, nvidia-ml-py3, its
copy of 2017, and pynvml of gpuopenanalytics, a package. Whichever was installed last is found, and
the copies take newer drivers for older ones (XuehaiPan/nvitop issues 4 and 13, wookayin/gpustat
issue 153).
"""

from __future__ import annotations

import importlib
from typing import Any

_NEEDED = (
    "nvmlInit",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlMemory_v2",
)
_AGAIN = "pip uninstall pynvml nvidia-ml-py3, then pip install --force-reinstall nvidia-ml-py"


def load_bindings() -> tuple[Any, str]:
    """The module, or None and the reason. It takes a while to import (0.3 MB of Python)."""
    try:
        module: Any = importlib.import_module("pynvml")
    except Exception as error:  # noqa: BLE001 - a foreign module may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == "pynvml":
            return None, "nvidia-ml-py is not installed"
        return None, f"the module pynvml does not load ({type(error).__name__}: {error}): {_AGAIN}"
    if hasattr(module, "__path__") or not all(hasattr(module, name) for name in _NEEDED):
        place = getattr(module, "__file__", "") or "unknown place"
        return None, f"the module pynvml at {place} is not nvidia-ml-py: {_AGAIN}"
    return module, ""
