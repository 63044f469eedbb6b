"""Variables that files of the system give to sessions and services, of those that change how jobs
run.

Sources: pam_env(8) (/etc/environment), bash(1) and profile.d, systemd.exec(5) and
systemd-system.conf(5) (Environment=, DefaultEnvironment=), NCCL user guide, "Environment Variables"
(/etc/nccl.conf). What a user's own files set is not looked at. Variables of other names are not
kept: such files hold secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.facts.reading import if_absent, names_in, read_text
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.host.known.unit_folders import ADMIN
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.host.door import Reader

NCCL_CONF = "/etc/nccl.conf"
_SESSIONS = ("/etc/environment", "/etc/profile", "/etc/bash.bashrc")
_FOLDERS = (("/etc/profile.d", ".sh"), ("/etc/environment.d", ".conf"))
_MANAGER = ("/etc/systemd/system.conf", "/etc/systemd/system.conf.d")
# Where caches and temporary files go; those that hold compiled code are locked and renamed all the
# time.
CACHES = frozenset({
    "TMPDIR", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE",
    "TRANSFORMERS_CACHE", "TORCH_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR", "CUDA_CACHE_PATH", "NUMBA_CACHE_DIR", "APPTAINER_CACHEDIR",
    "APPTAINER_TMPDIR", "SINGULARITY_CACHEDIR", "SINGULARITY_TMPDIR", "ENROOT_CACHE_PATH",
    "PIP_CACHE_DIR", "WANDB_CACHE_DIR", "VLLM_CACHE_ROOT",
})  # fmt: skip
COMPILED = frozenset({
    "TMPDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR",
    "CUDA_CACHE_PATH", "NUMBA_CACHE_DIR", "APPTAINER_TMPDIR", "SINGULARITY_TMPDIR",
})  # fmt: skip
_KEPT = regex(r"NCCL_\w+|CUDA_\w+|TORCH_\w+|OMP_NUM_THREADS|LD_LIBRARY_PATH")
_SHELL = regex(r"""^\s*(export\s+)?([A-Za-z_]\w*)=("[^"]*"|'[^']*'|[^\s;#]*)""")
_NEXT = regex(r"""(\s+)([A-Za-z_]\w*)=("[^"]*"|'[^']*'|[^\s;#]*)""")
_SYSTEMD = regex(r"""^\s*(?:Default)?Environment\s*=(.*)$""")
_WORD = regex(r""""([^"]*)"|'([^']*)'|(\S+)""")


@frozen
class Variable(Fact):
    """One assignment in one file."""

    name: str  # of the variable
    value: str  # as it is there, without its quotes: `$HOME/x` is not expanded
    place: str  # /etc/environment:3
    scope: str  # session | service | nccl: who gets it

    @property
    def shown(self) -> str:
        """Name, value and the place that sets it, in one text."""
        return f"{self.name}={self.value} ({self.place})"


@frozen
class Environment(Subject):
    """All assignments to variables of interest, in the order of files and lines."""

    all: tuple[Variable, ...] = read_with(lambda self: tuple(_read_variables(self.reader)))

    @property
    def nccl(self) -> tuple[Variable, ...]:
        """What NCCL reads."""
        return tuple(one for one in self.all if one.name.startswith("NCCL_"))

    @property
    def caches(self) -> tuple[Variable, ...]:
        """Where caches and temporary files are to go: absolute folders alone."""
        return tuple(one for one in self.all if one.name in CACHES and one.value.startswith("/"))


def shell_variables(content: str) -> Iterator[tuple[int, str, str]]:
    """(line, name, value) of `NAME=value` and `export NAME=value` lines; what a shell would compute
    stays as it is.
    """
    for number, row in enumerate(content.splitlines(), 1):
        match = _SHELL.match(row)
        # Without `export` a second one can be a command's own, or a part of pam_env's value.
        is_exported = match is not None and bool(match[1])
        while match:
            yield number, match[2], match[3].strip("\"'")
            match = _NEXT.match(row, match.end()) if is_exported else None


def systemd_variables(content: str) -> Iterator[tuple[int, str, str]]:
    """(line, name, value) of Environment= and DefaultEnvironment= lines, which hold several
    words.
    """
    for number, row in enumerate(content.splitlines(), 1):
        if match := _SYSTEMD.match(row):
            for words in _WORD.findall(match[1]):
                name, equals, value = "".join(words).partition("=")  # one of the three is not empty
                if equals:
                    yield number, name, value.strip("\"'")


def is_kept(name: str) -> bool:
    return name in CACHES or _KEPT.fullmatch(name) is not None


def _read_variables(reader: Reader) -> Iterator[Variable]:
    for path, scope in _read_files(reader):
        content = if_absent(read_text(reader, path), "")
        lines = systemd_variables(content) if scope == "service" else shell_variables(content)
        yield from (
            Variable(name, value, f"{path}:{line}", scope)
            for line, name, value in lines
            if is_kept(name)
        )


def _read_files(reader: Reader) -> Iterator[tuple[str, str]]:
    for path in _SESSIONS:
        yield path, "session"
    for folder, suffix in _FOLDERS:
        yield from ((one, "session") for one in _list_files(reader, folder, suffix))
    yield NCCL_CONF, "nccl"
    yield _MANAGER[0], "service"
    yield from ((one, "service") for one in _list_files(reader, _MANAGER[1], ".conf"))
    for unit in _list_files(reader, ADMIN, (".service", ".service.d", ".slice.d")):
        if unit.endswith(".d"):
            yield from ((one, "service") for one in _list_files(reader, unit, ".conf"))
        elif reader.link(unit) != "/dev/null":
            yield unit, "service"


def _list_files(reader: Reader, folder: str, suffix: str | tuple[str, ...]) -> Iterator[str]:
    return (f"{folder}/{name}" for name in names_in(reader, folder) if name.endswith(suffix))
