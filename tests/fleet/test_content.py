"""The collection as Ansible's own tools see it, and as it is released."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hosttune
from tests.fleet.controller import COLLECTION, LINT, PLAYBOOKS, ROOT, core_for, environment, pythons
from tests.fleet.hosts import Fleet

pytestmark = pytest.mark.fleet

NOBODY = 65534

# ansible-test makes environments without pip and fetches a script that puts it in; this one needs
# no network address.
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
    """The programs of an environment with ansible-lint. It wants Python 3.10 or newer, as its
    ansible-core does.
    """
    python = pythons()[0]
    return environment(python, core_for(python), LINT)


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
        "module controller_settings",
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
    """A home for ansible-test, which keeps an environment for each of its checks there, named after
    what is in it.
    """
    home = programs.parent / "home"
    cache = home / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in ("24_2", "25_2"):
        (cache / f"get_pip_{version}.py").write_text(GET_PIP)
    with (home / "lock").open("w") as lock:
        fcntl.flock(
            lock, fcntl.LOCK_EX
        )  # it takes an environment that another run is making for a broken one
        yield home


def test_sanity_finds_nothing(programs: Path, home: Path, tmp_path: Path):
    root = tmp_path / "ansible_collections/hosttune/hosttune"
    shutil.copytree(COLLECTION, root, ignore=shutil.ignore_patterns("__pycache__", "files"))
    run("git", "init", "--quiet", cwd=root)
    run("git", "add", "--all", cwd=root)
    own = f"{programs}{os.pathsep}{Path(pythons()[0]).parent}{os.pathsep}{os.environ['PATH']}"
    answer = run(
        programs / "python", "-c", "import sys; print('%d.%d' % sys.version_info[:2])", cwd=root
    ).strip()
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


@pytest.fixture(scope="module")
def tarball(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `./run collection` builds."""
    folder = tmp_path_factory.mktemp("dist")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return Path(run("sh", ROOT / "run", "collection", folder, cwd=folder, PATH=path).strip())


def test_release_tarball_holds_the_tool_and_bears_its_version(tarball: Path):
    with tarfile.open(tarball) as archive:
        names = set(archive.getnames())
    assert tarball.name == f"hosttune-hosttune-{hosttune.__version__}.tar.gz"
    assert {
        "files/hosttune.pyz",
        "files/hosttune.deb",
        "LICENSE",
        "plugins/modules/tune.py",
        "playbooks/check.yml",
    } <= names
    assert not [name for name in names if "__pycache__" in name]


@pytest.fixture
def plain_home() -> Iterator[Path]:
    """The home of a plain user, where access(2) finds it too: that asks without capabilities."""
    folder = Path(tempfile.mkdtemp(prefix="hosttune-home-"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def plain(programs: Path, plain_home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program of Ansible as a user who may read this machine's files, which lie below root's
    home, and write nothing but his own home.
    """
    reading = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *reading)
    own = {
        "PATH": os.environ["PATH"],
        "HOME": str(plain_home),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_NOCOLOR": "1",
    }
    own |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}

    def run_plain(name: str, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
        argv = [*user, str(programs / name), *map(str, words)]
        return subprocess.run(
            argv, check=False, capture_output=True, text=True, timeout=300, cwd=plain_home, stdin=subprocess.DEVNULL, env=own | env
        )  # fmt: skip

    return run_plain


def test_plain_user_installs_the_tarball_and_plays_it(
    plain, plain_home: Path, tarball: Path, fleet: Fleet
):
    (plain_home / "inventory.yml").write_text(fleet.inventory())
    done = plain("ansible-galaxy", "collection", "install", tarball, "-p", "installed")
    assert done.returncode == 0, done.stdout + done.stderr
    words = ("-i", plain_home / "inventory.yml", "hosttune.hosttune.check")
    seen = plain("ansible-playbook", *words, ANSIBLE_COLLECTIONS_PATH=str(plain_home / "installed"))
    assert seen.returncode == 2, seen.stdout + seen.stderr  # the hosts are not as they should be
    assert re.search(r"^4 hosts: \d+ changes to make$", seen.stdout, re.MULTILINE), seen.stdout
    assert not (plain_home / ".cache").exists()


def test_plain_user_plays_from_a_checkout_of_somebody_else(plain, plain_home: Path, fleet: Fleet):
    (plain_home / "inventory.yml").write_text(fleet.inventory())
    before = {path: path.stat().st_mtime_ns for path in (ROOT, *ROOT.glob("build/*"))}
    seen = plain("ansible-playbook", "-i", plain_home / "inventory.yml", PLAYBOOKS / "check.yml")
    assert seen.returncode == 2, seen.stdout + seen.stderr
    assert re.search(r"^4 hosts: \d+ changes to make$", seen.stdout, re.MULTILINE), seen.stdout
    (built,) = (plain_home / ".cache/hosttune").glob("checkouts/*/hosttune.pyz")
    assert built.stat().st_uid == NOBODY
    assert {path: path.stat().st_mtime_ns for path in before} == before
