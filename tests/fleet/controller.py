"""The machine that Ansible runs on: an environment with ansible-core, and ansible-playbook started
in it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cache import locked, named

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = ROOT / "playbooks"
COLLECTION = PLAYBOOKS / "collections/ansible_collections/hosttune/hosttune"
# A new minor of ansible-core is taken up by hand. 2.21 wants Python 3.12, and 2.19 is the last for
# 3.11.
NEWEST, FOR_OLDER = "ansible-core>=2.21,<2.22", "ansible-core>=2.19,<2.20"
OF_UBUNTU_24_04 = "ansible-core==2.16.3"  # the oldest that is supported
OLDEST = (3, 11)
LINT = "ansible-lint>=26.10,<26.11"
SETUP_S = 600
PLAY_S = 300


def pythons() -> list[str]:
    """The interpreters of this machine that ansible-core runs on, newest first; what a pyenv keeps
    counts.
    """
    kept = sorted(
        Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv").glob("versions/3.*/bin/python")
    )
    found: dict[tuple[int, int], str] = {}
    for python in (
        *map(str, kept),
        *(shutil.which(f"python3.{minor}") or "" for minor in (11, 12, 13, 14)),
        sys.executable,
    ):
        asked = "import sys; print(*sys.version_info[:2])"
        done = python and subprocess.run(
            [python, "-I", "-c", asked], check=False, capture_output=True, text=True
        )
        if done and done.returncode == 0:
            major, minor = map(int, done.stdout.split())
            found.setdefault((major, minor), python)
    return [python for version, python in sorted(found.items(), reverse=True) if version >= OLDEST]


def environment(python: str, *packages: str) -> Path:
    """The folder of programs of an environment with these packages, made now where the cache lacks
    it. It is made in place, because its programs name where they lie.
    """
    with locked(named("ansible", python, *packages)) as target:
        if not (target / "complete").exists():
            shutil.rmtree(target, ignore_errors=True)
            _call(python, "-I", "-m", "venv", target)
            _call(
                target / "bin/python",
                "-I",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *packages,
            )
            (target / "complete").touch()
        os.utime(target)
    return target / "bin"


def core_for(python: str) -> str:
    done = subprocess.run(
        [python, "-I", "-c", "import sys; print(sys.version_info >= (3, 12))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return NEWEST if done.stdout.strip() == "True" else FOR_OLDER


def _call(*argv: object) -> None:
    words = [str(word) for word in argv]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=SETUP_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")


@dataclass(frozen=True)
class Played:
    """How a playbook ended: the status, what it printed, the results of its tasks by host and
    task.
    """

    status: int
    output: str
    results: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def changed(self) -> set[str]:
        """The hosts that the recap says changed."""
        return set(re.findall(r"^(\S+)\s+: ok=\d+\s+changed=[1-9]", self.output, re.MULTILINE))

    def failed(self) -> set[str]:
        """The hosts that the recap says failed."""
        return set(re.findall(r"^(\S+)\s+: .*\bfailed=[1-9]", self.output, re.MULTILINE))


class Controller:
    """Ansible in a folder of its own: no configuration of this machine or of its user counts."""

    def __init__(
        self, programs: Path, inventory: Path, bundle: Path, folder: Path, limit_s: int = PLAY_S
    ) -> None:
        self._programs = programs
        self._inventory = inventory
        self._bundle = bundle
        self._folder = folder
        self._limit_s = limit_s

    def run(
        self, name: str, *words: str, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        own = {
            "HOME": str(self._folder),
            "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
            "PYTHONWARNINGS": "ignore",
            **(env or {}),
        }
        # Its process id is known, for a drain hook that kills it.
        noted = ("sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self._folder / "pid"))
        return subprocess.run(
            [*noted, str(self._programs / name), *words],
            check=False, capture_output=True, text=True, timeout=self._limit_s, cwd=cwd or self._folder, stdin=subprocess.DEVNULL, env={**kept, **own},
        )  # fmt: skip

    def play(self, playbook: str | list[dict[str, Any]], *words: str, **variables: Any) -> Played:
        """Run one of our playbooks by its name, or a playbook written out, whose tasks find the
        collection.
        """
        if isinstance(playbook, str):
            path = PLAYBOOKS / playbook
        else:
            path = Path(tempfile.mkstemp(dir=self._folder, suffix=".json")[1])
            path.write_text(json.dumps(playbook))
        given = json.dumps({"hosttune_bundle": str(self._bundle), **variables})
        env = {
            "ANSIBLE_COLLECTIONS_PATH": str(PLAYBOOKS / "collections"),
            "ANSIBLE_PIPELINING": "1",
        }
        if isinstance(playbook, str):
            del env["ANSIBLE_COLLECTIONS_PATH"]
        done = self.run(
            "ansible-playbook", "-i", str(self._inventory), str(path), "-e", given, *words, env=env
        )
        return Played(done.returncode, done.stdout + done.stderr)

    def ask(self, host: str, module: str = "tune", *words: str, **arguments: Any) -> dict[str, Any]:
        """What a module answers for one host, as root there."""
        answer = self._folder / f"{host}.json"
        answer.unlink(missing_ok=True)
        brought = {} if "executable" in arguments else {"bundle": str(self._bundle)}
        tasks = [
            {
                f"hosttune.hosttune.{module}": brought | arguments,
                "become": True,
                "register": "answered",
                "ignore_errors": True,
            },
            {
                "ansible.builtin.copy": {
                    "content": "{{ answered | to_json }}",
                    "dest": str(answer),
                    "mode": "0600",
                },
                "delegate_to": "localhost",
                "check_mode": False,
                "diff": False,
            },
        ]
        done = self.play([{"hosts": host, "gather_facts": False, "tasks": tasks}], *words)
        assert answer.exists(), done.output
        result: dict[str, Any] = json.loads(answer.read_text())
        return result
