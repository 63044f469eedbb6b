"""Packages of Debian's archive as files: fetched by apt with lists of its own, kept in the cache, not installed."""

import shutil
import subprocess
import tempfile
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
TIMEOUT_S = 300


def packages(cache: Path, suite: str, *names: str) -> tuple[Path, ...]:
    """The .deb files of these packages of a suite, fetched now where the cache lacks them."""
    target = cache / f"debs-{suite}-{'-'.join(names)}"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=cache, prefix="build-"))
        try:
            (work / "debs").mkdir()
            _fetch(work, suite, names)
            (work / "debs").rename(target)
        finally:
            shutil.rmtree(work)
    return tuple(sorted(target.glob("*.deb")))


def _fetch(work: Path, suite: str, names: tuple[str, ...]) -> None:
    for folder in ("lists/partial", "archives/partial"):
        (work / folder).mkdir(parents=True)
    source = work / "sources.list"
    source.write_text(f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {suite} main\n", encoding="utf-8")
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
    apt = ["apt-get", "--quiet", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    for words in (["update"], ["download", *names]):
        subprocess.run([*apt, *words], check=True, cwd=work / "debs", timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
