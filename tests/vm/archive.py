"""Packages of Debian's archive as files: fetched by apt with lists of its own, kept in the cache,
not installed.
"""

import subprocess
import tempfile
from pathlib import Path

from tests.cache import kept

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
TIMEOUT_S = 300


def packages(suite: str, *names: str, part: str = "main") -> tuple[Path, ...]:
    """The .deb files of these packages of a part of a suite, fetched now where the cache lacks
    them.
    """
    debs = kept(
        f"debs-{suite}-{'-'.join(names)}", lambda work: _fetch(work, f"{suite} {part}", names)
    )
    return tuple(sorted(debs.glob("*.deb")))


def _fetch(debs: Path, suite: str, names: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="hosttune-apt-") as folder:
        work = Path(folder)
        for name in ("lists/partial", "archives/partial"):
            (work / name).mkdir(parents=True)
        source = work / "sources.list"
        source.write_text(
            f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {suite}\n", encoding="utf-8"
        )
        (work / "status").touch()
        options = {
            "Dir::State::Lists": work / "lists",
            "Dir::State::Status": work / "status",
            "Dir::Cache": work,
            "Dir::Etc::SourceList": source,
            "Dir::Etc::SourceParts": "-",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
        }
        apt = [
            "apt-get",
            "--quiet",
            *(word for key, value in options.items() for word in ("-o", f"{key}={value}")),
        ]
        for words in (["update"], ["download", *names]):
            subprocess.run(
                [*apt, *words], check=True, cwd=debs, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL
            )
