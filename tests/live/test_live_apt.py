"""The package as others take it: by apt from a signed repository, made as
docs/project/publishing.md says, and by autopkgtest; each in a tree of Debian in namespaces of its
own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.debian import copied

ROOT = Path(__file__).resolve().parents[2]
BUILDER = ROOT / "playbooks/packaging/deb.py"
TESTS = ROOT / "playbooks/packaging/debian/tests"
PAGE = ROOT / "docs/project/publishing.md"
EARLIER = "0.0.9"
SOURCES = """\
Types: deb
URIs: file:/srv/apt
Suites: stable
Components: main
Signed-By: /usr/share/keyrings/hosttune-archive-keyring.gpg
"""
# Values of the kernel are read only in the tree, so that no mistake changes this machine's.
NAMESPACE = """
    mount -t proc proc "$0/proc" && mount --bind "$0/proc/sys" "$0/proc/sys" &&
    mount -o remount,bind,ro "$0/proc/sys" && mount --rbind /dev "$0/dev" && exec "$@"
"""
pytestmark = pytest.mark.live


def run(
    *words: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, cwd=cwd,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", **environment},
    )  # fmt: skip


def done(*words: str | Path, cwd: Path | None = None, **environment: str) -> str:
    ended = run(*words, cwd=cwd, **environment)
    assert ended.returncode == 0, f"{words}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def apart(tree: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A program of this machine, in namespaces where the tree is mounted as a chroot needs it."""
    return run(
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--propagation",
        "private",
        "sh",
        "-c",
        NAMESPACE,
        tree,
        *words,
    )


def inside(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return apart(tree, "chroot", tree, *words)


def said(tree: Path, *words: str) -> str:
    ended = inside(tree, *words)
    assert ended.returncode == 0, f"{words}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def versions(tmp_path_factory) -> tuple[Path, Path]:
    """An earlier version, and this one."""
    folder = tmp_path_factory.mktemp("debs")
    return tuple(
        Path(done(sys.executable, "-I", BUILDER, folder, *words).strip())
        for words in (("--version", EARLIER), ())
    )


@pytest.fixture
def tree(tmp_path) -> Path:
    """A Debian that knows of no repository."""
    made = copied(tmp_path / "tree", "bookworm", "python3", "systemd", "apt-utils")
    (made / "etc/apt/sources.list").unlink(missing_ok=True)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def key(tmp_path) -> dict[str, str]:
    """The environment of gpg with a key that nobody keeps."""
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    environment = {"GNUPGHOME": str(home), "KEY": "archive@example.org"}
    made = (
        "--passphrase",
        "",
        "--quick-generate-key",
        environment["KEY"],
        "ed25519",
        "sign",
        "never",
    )
    done("gpg", "--batch", "--quiet", *made, **environment)
    yield environment
    run("gpgconf", "--kill", "all", **environment)


def publish(repository: Path, key: dict[str, str]) -> None:
    """The commands of the page, to the letter."""
    (commands,) = re.findall(
        r"^```sh\n(# In the folder.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    done("sh", "-eu", "-c", commands, cwd=repository, **key)


def version(tree: Path) -> str:
    return said(tree, "dpkg-query", "--show", "--showformat=${Version}", "hosttune")


def test_apt_installs_upgrades_downgrades_only_when_told_and_purges(tree, versions, key):
    earlier, current = versions
    repository = tree / "srv/apt"
    (repository / "pool").mkdir(parents=True)
    shutil.copy(earlier, repository / "pool")
    publish(repository, key)
    shutil.copy(repository / "hosttune-archive-keyring.gpg", tree / "usr/share/keyrings")
    (tree / "etc/apt/sources.list.d/hosttune.sources").write_text(SOURCES)
    before = {
        path for folder in ("etc", "usr", "var/lib/hosttune") for path in (tree / folder).rglob("*")
    }

    said(tree, "apt-get", "update")
    said(tree, "apt-get", "install", "--yes", "hosttune")
    assert said(tree, "hosttune", "--version").startswith("hosttune ")
    assert version(tree) == EARLIER

    shutil.copy(current, repository / "pool")
    publish(repository, key)
    said(tree, "apt-get", "update")
    said(tree, "apt-get", "upgrade", "--yes")
    newest = current.name.split("_")[1]
    assert version(tree) == newest

    refused = inside(tree, "apt-get", "install", "--yes", f"hosttune={EARLIER}")
    assert refused.returncode == 100
    assert "--allow-downgrades" in refused.stderr
    assert version(tree) == newest
    said(tree, "apt-get", "install", "--yes", "--allow-downgrades", f"hosttune={EARLIER}")
    assert version(tree) == EARLIER
    said(tree, "hosttune", "explain", "storage-noatime")

    said(tree, "apt-get", "purge", "--yes", "hosttune")
    after = {
        path for folder in ("etc", "usr", "var/lib/hosttune") for path in (tree / folder).rglob("*")
    }
    assert {path for path in after - before if "__pycache__" not in path.parts} == set()


def test_apt_refuses_what_was_changed_behind_the_signature_and_another_key(
    tree, versions, key, tmp_path
):
    repository = tree / "srv/apt"
    (repository / "pool").mkdir(parents=True)
    shutil.copy(versions[0], repository / "pool")
    publish(repository, key)
    keyring = tree / "usr/share/keyrings/hosttune-archive-keyring.gpg"
    shutil.copy(repository / keyring.name, keyring)
    (tree / "etc/apt/sources.list.d/hosttune.sources").write_text(SOURCES)
    said(tree, "apt-get", "update")
    deb = repository / "pool" / versions[0].name
    deb.write_bytes(deb.read_bytes()[:-1] + b"\0")
    changed = inside(tree, "apt-get", "install", "--yes", "hosttune")
    assert changed.returncode == 100
    assert "Hash Sum mismatch" in changed.stderr

    other = {**key, "GNUPGHOME": str(tmp_path / "other")}
    Path(other["GNUPGHOME"]).mkdir(mode=0o700)
    made = ("--passphrase", "", "--quick-generate-key", other["KEY"], "ed25519", "sign", "never")
    done("gpg", "--batch", "--quiet", *made, **other)
    publish(repository, other)
    run("gpgconf", "--kill", "all", **other)
    unknown = inside(tree, "apt-get", "-o", "APT::Update::Error-Mode=any", "update")
    assert unknown.returncode == 100
    assert "NO_PUBKEY" in unknown.stderr


def test_autopkgtest_installs_looks_plans_and_purges(tree, versions, tmp_path):
    """Its chroot runner: nothing of this machine is changed, and what it tests is the .deb that was
    built here.
    """
    source = tmp_path / "source"
    shutil.copytree(TESTS, source / "debian/tests")
    number = versions[1].name.split("_")[1]
    (source / "debian/control").write_text(
        "Source: hosttune\nMaintainer: Nobody <nobody@example.org>\n\nPackage: hosttune\nArchitecture: all\nDescription: tested\n"
    )
    (source / "debian/changelog").write_text(
        f"hosttune ({number}) unstable; urgency=medium\n\n  * Tested.\n\n -- Nobody <nobody@example.org>  Thu, 01 Jan 2026 00:00:00 +0000\n"
    )
    (source / "debian/files").write_text(
        ""
    )  # a tree that is built: nothing has to be unpacked by dpkg-dev
    results = tmp_path / "results"
    words = (f"--output-dir={results}", versions[1], source, "--", "chroot", tree)
    ended = apart(tree, "autopkgtest", *words)
    summary = (results / "summary").read_text()
    assert ended.returncode == 0, f"{summary}{ended.stdout}{ended.stderr}"
    assert re.findall(r"^(\S+)\s+(\S+)", summary, re.MULTILINE) == [
        ("installed", "PASS"),
        ("purged", "PASS"),
    ]
    assert (results / "artifacts/check.json").exists()
