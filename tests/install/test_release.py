"""All that is published of a commit, made in a small repository of its own; and what a release
refuses.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

pytestmark = pytest.mark.install

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "playbooks/packaging"
FOLDERS = ("hosttune", "templates", "docs", "playbooks")
FILES = (
    "hatch_build.py",
    "pyproject.toml",
    "run",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    ".gitignore",
)
DOCUMENT = "sbom.cdx.json"
IN_THE_DEB = f"./usr/share/doc/hosttune/{DOCUMENT}"


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, check=False, capture_output=True, text=True, timeout=600)


def done(*words: str | Path, cwd: Path) -> str:
    ended = run(*words, cwd=cwd)
    assert ended.returncode == 0, f"{words}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def commit(tree: Path) -> None:
    done("git", "add", "--all", cwd=tree)
    person = ("-c", "user.name=A Person", "-c", "user.email=person@example.org")
    done("git", *person, "commit", "--quiet", "--message", "All of it", cwd=tree)


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """This tree's sources as the one commit of a repository."""
    tree = tmp_path_factory.mktemp("release") / "tree"
    tree.mkdir()
    for name in FOLDERS:
        shutil.copytree(
            ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "catalog.json")
        )
    for name in FILES:
        shutil.copy(ROOT / name, tree)
    done("git", "init", "--quiet", cwd=tree)
    commit(tree)
    return tree


def release(tree: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-I", tree / "playbooks/packaging/release.py", out, cwd=tree)


@pytest.fixture(scope="module")
def version() -> str:
    return re.search(r'__version__ = "(.*)"', (ROOT / "hosttune/__init__.py").read_text())[1]


@pytest.fixture(scope="module")
def published(repository, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "out"
    ended = release(repository, folder)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        str(folder),
        *(f"  {path.name}" for path in sorted(folder.iterdir())),
    ]
    return folder


def test_release_makes_every_artefact_and_sums_that_verify(published, version):
    names = {path.name for path in published.iterdir()}
    assert names == {
        "SHA256SUMS",
        f"hosttune-hosttune-{version}.tar.gz",
        DOCUMENT,
        "hosttune.pyz",
        f"hosttune-{version}-py3-none-any.whl",
        f"hosttune-{version}.tar.gz",
        f"hosttune_{version}_all.deb",
    }
    said = done("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=published)
    assert {line.partition(":")[0] for line in said.splitlines()} == names - {"SHA256SUMS"}
    assert all(line.endswith(": OK") for line in said.splitlines())


def test_document_of_the_parts_is_valid_names_those_of_the_lock_and_is_in_what_carries_them(
    published, version
):
    text = (published / DOCUMENT).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(text) is None
    document = json.loads(text)
    assert document["metadata"]["component"]["version"] == version
    carried = r"^# carried \S+ of (\S+)\n([a-z0-9-]+)==(\S+)"
    locked = [
        (name, at, wheel)
        for wheel, name, at in re.findall(
            carried, (PACKAGING / "lock.txt").read_text(), re.MULTILINE
        )
    ]
    named = [
        (one["name"], one["version"], one["hashes"][0]["content"]) for one in document["components"]
    ]
    assert named == locked
    assert [one["purl"] for one in document["components"]] == [
        f"pkg:pypi/{name}@{at}" for name, at, _ in locked
    ]
    with zipfile.ZipFile(published / "hosttune.pyz") as packed:
        assert packed.read(DOCUMENT).decode() == text
    (deb,) = published.glob("*.deb")
    shown = subprocess.run(
        ("dpkg-deb", "--fsys-tarfile", deb), check=True, capture_output=True, timeout=60
    ).stdout
    inside = subprocess.run(
        ("tar", "--extract", "--to-stdout", IN_THE_DEB),
        input=shown,
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert inside.stdout.decode() == text


def test_release_refuses_a_folder_that_holds_something(repository, published):
    before = {path.name: path.read_bytes() for path in published.iterdir()}
    ended = release(repository, published)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert (
        ended.stderr == f"release.py: {published} is not empty: name another folder, or empty it\n"
    )
    assert {path.name: path.read_bytes() for path in published.iterdir()} == before


def test_release_refuses_what_is_in_no_commit(repository, tmp_path):
    stray = repository / "docs/stray.md"
    stray.write_text("not committed\n")
    try:
        ended = release(repository, tmp_path / "out")
    finally:
        stray.unlink()
    assert ended.returncode == 2
    assert ended.stderr == (
        "release.py: a release is of a commit, and there are changes that are in none:\n?? docs/stray.md\n"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("heading", ["## 0.0.9 (2026-01-02)", "## {version} (unreleased)"])
def test_release_refuses_a_version_that_the_change_log_does_not_have(
    repository, tmp_path, version, heading
):
    tree = tmp_path / "tree"
    done("git", "clone", "--quiet", "--no-hardlinks", repository, tree, cwd=tmp_path)
    path = tree / "CHANGELOG.md"
    path.write_text(
        re.sub(
            rf"^## {re.escape(version)} .*$",
            heading.format(version=version),
            path.read_text(),
            flags=re.MULTILINE,
        )
    )
    commit(tree)
    ended = release(tree, tmp_path / "out")
    assert ended.returncode == 2
    assert f"CHANGELOG.md has no heading `## {version} (YYYY-MM-DD)`" in ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.fixture
def module():
    """The program as a module, and its own modules with it."""
    names = ("release", "bundle", "collection", "sbom", "carried", "locked")
    sys.path.insert(0, str(PACKAGING))
    try:
        yield importlib.import_module("release")
    finally:
        sys.path.remove(str(PACKAGING))
        for name in names:
            sys.modules.pop(name, None)


def test_release_refuses_what_is_not_the_same_when_built_twice(
    module, repository, tmp_path, monkeypatch
):
    """The second build is that of a machine which puts something of its own into what it builds."""

    def built(root: Path, place: Path, days: int) -> Path:
        place.mkdir(parents=True)
        (place / "hosttune.whl").write_bytes(b"the same")
        (place / "hosttune.pyz").write_bytes(b"a day" if days else b"no day")
        return place

    monkeypatch.setattr(module, "_built", built)
    with pytest.raises(
        module.bundle.Trouble, match=r"^hosttune\.pyz: built twice it is not the same to the byte$"
    ):
        module.release(tmp_path / "out", repository)
    assert not (tmp_path / "out").exists()
