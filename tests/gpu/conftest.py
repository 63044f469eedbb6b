"""A library and a program that pretend to be NVIDIA's, for the tests of this ring."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with a libnvidia-ml.so.1: `new` has every function that is asked for, `old` is of a
    driver before 510.
    """
    found = {}
    for name, words in (("new", ()), ("old", ("-DWITHOUT_NEW",))):
        found[name] = tmp_path_factory.mktemp(name)
        library = found[name] / "libnvidia-ml.so.1"
        command = (
            "cc",
            "-shared",
            "-fPIC",
            "-Wall",
            "-Wextra",
            "-Werror",
            *words,
            "-o",
            library,
            HERE / "fake_nvml.c",
        )
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    return found


@pytest.fixture
def child(libraries: dict[str, Path], tmp_path: Path) -> Callable[..., Any]:
    """Runs nvml_child.py on the fake library, or on none."""

    def run(
        trace: str, *words: str, library: str = "new", path: Path | None = None, **settings: str
    ) -> Any:
        file = tmp_path / "trace"
        file.write_text(trace, encoding="utf-8")
        places = {"LD_LIBRARY_PATH": str(libraries[library])} if library else {}
        environment = {
            **os.environ, "FAKE_NVML_TRACE": str(file), "FAKE_NVML_CLOCK": "call",
            "PYTHONPATH": os.pathsep.join([*([str(path)] if path else []), str(ROOT)]), **places, **settings,
        }  # fmt: skip
        done = subprocess.run(
            (sys.executable, HERE / "nvml_child.py", *(words or ("1",))),
            check=False, capture_output=True, text=True, timeout=60, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
