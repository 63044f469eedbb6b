"""The collection as Ansible's own tools see it, and as it is released."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import hosttune
from tests.fleet.controller import COLLECTION, LINT, PLAYBOOKS, ROOT, core_for, environment, pythons
from tests.vm.image import cache_folder

pytestmark = pytest.mark.fleet

# ansible-test makes environments without pip and fetches a script that puts it in; this one needs no network address.
GET_PIP = """\
import subprocess, sys
subprocess.check_call([sys.executable, "-m", "ensurepip"])
wanted = [word for word in sys.argv[1:] if not word.startswith("-")]
if wanted:
    subprocess.check_call([sys.executable, "-m", "pip", "install", *wanted])
"""


def run(*argv: object, cwd: Path, **env: str) -> str:
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=900, cwd=cwd, stdin=subprocess.DEVNULL, env={**os.environ, **env}
    )  # fmt: skip
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def lint() -> Path:
    """The programs of an environment with ansible-lint. It wants Python 3.10 or newer, as its ansible-core does."""
    python = pythons()[0]
    return environment(cache_folder(), python, core_for(python), LINT)


def test_lint_production_profile_finds_nothing(lint: Path, tmp_path: Path):
    shutil.copytree(PLAYBOOKS, tmp_path / "playbooks", ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "playbooks"
    path = f"{lint}{os.pathsep}{os.environ['PATH']}"
    collections = str(folder / "collections")
    run(
        lint / "ansible-lint", "--offline", "--profile", "production", "--strict",
        cwd=folder, PATH=path, HOME=str(tmp_path), ANSIBLE_COLLECTIONS_PATH=collections, NO_COLOR="1",
    )  # fmt: skip


@pytest.mark.parametrize(
    "kind_and_name",
    [
        "module tune",
        "module tune_info",
        "module plan_classes",
        "lookup bundle",
        "lookup hosts",
        "lookup tasks_file",
        "role hosttune",
    ],
)
def test_doc_reads_every_plugin(kind_and_name: str, programs: Path, tmp_path: Path):
    kind, name = kind_and_name.split()
    collections = str(PLAYBOOKS / "collections")
    text = run(
        programs / "ansible-doc", "-t", kind, f"hosttune.hosttune.{name}",
        cwd=tmp_path, HOME=str(tmp_path), ANSIBLE_COLLECTIONS_PATH=collections, LC_ALL="C.UTF-8",
    )  # fmt: skip
    assert "OPTIONS" in text or "ENTRY POINT" in text


@pytest.fixture
def home(programs: Path) -> Iterator[Path]:
    """A home for ansible-test, which keeps an environment for each of its checks there, named after what is in it."""
    home = programs.parent / "home"
    cache = home / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in ("24_2", "25_2"):
        (cache / f"get_pip_{version}.py").write_text(GET_PIP)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it takes an environment that another run is making for a broken one
        yield home


def test_sanity_finds_nothing(programs: Path, home: Path, tmp_path: Path):
    root = tmp_path / "ansible_collections/hosttune/hosttune"
    shutil.copytree(COLLECTION, root, ignore=shutil.ignore_patterns("__pycache__", "files"))
    run("git", "init", "--quiet", cwd=root)
    run("git", "add", "--all", cwd=root)
    own = f"{programs}{os.pathsep}{Path(pythons()[0]).parent}{os.pathsep}{os.environ['PATH']}"
    answer = run(programs / "python", "-c", "import sys; print('%d.%d' % sys.version_info[:2])", cwd=root).strip()
    run(
        programs / "ansible-test",
        "sanity",
        "--python",
        answer,
        cwd=root,
        PATH=own,
        HOME=str(home),
        LC_ALL="C.UTF-8",
    )


# Builds where nothing that is installed is what the lock says, so that pip fetches all of it.
FETCHED = """\
import sys
sys.path.insert(0, sys.argv[1])
import locked
locked._installed = lambda pin: None
import deb, pyz
from pathlib import Path
pyz.build(Path(sys.argv[2]) / "hosttune.pyz")
deb.build(Path(sys.argv[2]) / "hosttune.deb")
"""


DATE = {"SOURCE_DATE_EPOCH": "1790000000"}  # by itself it is that of the last commit


def test_two_builds_are_equal_to_the_byte_wherever_the_packages_come_from(tmp_path: Path):
    packaging = ROOT / "playbooks/packaging"
    run(sys.executable, "-I", packaging / "pyz.py", tmp_path / "hosttune.pyz", cwd=tmp_path, **DATE)
    run(sys.executable, "-I", packaging / "deb.py", tmp_path / "hosttune.deb", cwd=tmp_path, **DATE)
    (tmp_path / "again").mkdir()
    run(sys.executable, "-I", "-c", FETCHED, packaging, tmp_path / "again", cwd=tmp_path, **DATE)
    for name in ("hosttune.pyz", "hosttune.deb"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_release_tarball_holds_the_tool_and_bears_its_version(programs: Path, tmp_path: Path):
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    built = run(sys.executable, ROOT / "playbooks/packaging/collection.py", tmp_path, cwd=tmp_path, PATH=path).strip()
    with tarfile.open(built) as archive:
        names = set(archive.getnames())
    assert Path(built).name == f"hosttune-hosttune-{hosttune.__version__}.tar.gz"
    assert {
        "files/hosttune.pyz",
        "files/hosttune.deb",
        "LICENSE",
        "plugins/modules/tune.py",
        "playbooks/check.yml",
    } <= names
    assert not [name for name in names if "__pycache__" in name]
