"""The package built and installed for real, offline; wheel, sdist, editable install and checkout
read the same.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.install

ROOT = Path(__file__).resolve().parents[2]
TREE = ("hosttune", "templates", "hatch_build.py", "pyproject.toml", "README.md", "LICENSE")
WAYS = ("wheel", "sdist", "editable", "checkout")

PROBE = """
import hashlib, json, pathlib
import hosttune
from hosttune.textfiles import template_root

def contents(folder, pattern):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob(pattern) if path.is_file()
    }

package = pathlib.Path(hosttune.__file__).parent
print(json.dumps({
    "package": str(package),
    "version": hosttune.__version__,
    "templates_at": str(template_root()),
    "templates": contents(template_root(), "*"),
    "rules": contents(package / "rules", "*.yaml"),
    "profiles": contents(package / "profiles", "*.yaml"),
    "schemas": contents(package / "schemas", "*.json"),
}))
"""


def run(*argv: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [*map(str, argv)], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Installed:
    python: Path
    cwd: Path
    options: tuple[str, ...] = ("-I",)

    def probe(self) -> dict[str, object]:
        return json.loads(run(self.python, *self.options, "-c", PROBE, cwd=self.cwd))

    def hosttune(self, *words: str) -> str:
        """Return what the command prints, without the place of its own that it names in a line to
        type.
        """
        answer = run(self.python, *self.options, "-m", "hosttune", *words, cwd=self.cwd)
        return re.sub(rf"{re.escape(str(self.python))}( -I)? -m hosttune", "hosttune", answer)


def build(tree: Path, target: str, out: Path) -> Path:
    run(sys.executable, "-I", "-m", "hatchling", "build", "-t", target, "-d", out, cwd=tree)
    (artifact,) = out.iterdir()
    return artifact


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree without what the tools of this machine left in it."""
    tree = tmp_path_factory.mktemp("source")
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name,
                tree / name,
                ignore=shutil.ignore_patterns("__pycache__", "catalog.json"),
            )
        else:
            shutil.copy(ROOT / name, tree / name)
    shutil.copy(ROOT / ".gitignore", tree)
    return tree


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist_tree(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    archive = build(source, "sdist", tmp_path_factory.mktemp("sdist"))
    folder = tmp_path_factory.mktemp("unpacked")
    run("tar", "-xzf", archive, "-C", folder, cwd=folder)
    (tree,) = folder.iterdir()
    return tree


def environment(folder: Path) -> Path:
    """Make an environment that finds hosttune's dependencies where the tests found them, but not
    hosttune itself.

    A path in a .pth file is searched, while the .pth files that lie there, ours among them, are not
    read.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python3*/site-packages")
    (site / "dependencies.pth").write_text(
        f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n"
    )
    return python


def pip_install(python: Path, *what: str | Path, cwd: Path) -> None:
    options = (
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--disable-pip-version-check",
    )
    run(sys.executable, "-I", "-m", "pip", "--python", python, "install", *options, *what, cwd=cwd)


@pytest.fixture(scope="module")
def installed(
    source: Path, wheel: Path, sdist_tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Installed]:
    folder = tmp_path_factory.mktemp("environments")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    python = {way: environment(folder / way) for way in WAYS}
    pip_install(python["wheel"], wheel, cwd=elsewhere)
    pip_install(python["sdist"], sdist_tree, cwd=elsewhere)
    checkout = folder / "tree"
    shutil.copytree(source, checkout)
    editable = folder / "edited"
    shutil.copytree(source, editable)
    pip_install(python["editable"], "--editable", editable, cwd=elsewhere)
    return {
        "wheel": Installed(python["wheel"], elsewhere),
        "sdist": Installed(python["sdist"], elsewhere),
        "editable": Installed(python["editable"], elsewhere),
        "checkout": Installed(python["checkout"], checkout, options=()),
    }


def files_of(folder: Path) -> set[str]:
    """Name the files below `folder`, less the byte code that importing it leaves there."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.parametrize("way", WAYS)
def test_install_every_way_reads_the_templates_rules_and_schemas_of_the_source(
    way: str, installed: dict[str, Installed], source: Path
):
    seen = installed[way].probe()
    where = Path(str(seen["package"]))
    expected = json.loads(run(sys.executable, "-c", PROBE, cwd=source))
    for part in ("version", "templates", "rules", "profiles", "schemas"):
        assert seen[part] == expected[part]
        assert seen[part], f"no {part} in the source tree"
    assert where != ROOT / "hosttune"
    if way in ("wheel", "sdist"):
        assert where.parent.name == "site-packages"
        assert Path(str(seen["templates_at"])) == where / "templates"
    else:
        assert Path(str(seen["templates_at"])) == where.parent / "templates"


@pytest.mark.parametrize("words", [("--version",), ("rules",), ("explain", "storage-noatime")])
def test_install_every_way_answers_the_same(
    words: tuple[str, ...], installed: dict[str, Installed]
):
    answers = {way: installed[way].hosttune(*words) for way in WAYS}
    assert answers["checkout"].strip()
    assert set(answers.values()) == {answers["checkout"]}


@pytest.mark.parametrize("way", ["wheel", "sdist", "editable"])
def test_install_puts_the_command_into_bin(way: str, installed: dict[str, Installed]):
    command = installed[way].python.with_name("hosttune")
    assert run(command, "--version", cwd=installed[way].cwd) == installed["checkout"].hosttune(
        "--version"
    )


def test_install_editable_copies_nothing_into_site_packages(installed: dict[str, Installed]):
    python = installed["editable"].python
    assert list(python.parent.parent.glob("lib/python3*/site-packages/hosttune")) == []


def test_wheel_holds_every_file_of_the_package_and_of_templates(wheel: Path, source: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = {
            name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")
        }
    package = {f"hosttune/{name}" for name in files_of(source / "hosttune")}
    templates = {f"hosttune/templates/{name}" for name in files_of(source / "templates")}
    assert names == package | templates | {"hosttune/rules/catalog.json"}
    assert "hosttune/py.typed" in names


def test_wheel_catalog_is_a_fresh_compilation_and_names_every_rule(wheel: Path, source: Path):
    program = (
        "import pathlib, sys; from hosttune.engine.rules.compiled import compile_catalog;"
        "sys.stdout.write(compile_catalog(pathlib.Path.cwd()))"
    )
    fresh = run(sys.executable, "-c", program, cwd=source)
    with zipfile.ZipFile(wheel) as archive:
        shipped = archive.read("hosttune/rules/catalog.json").decode()
    assert shipped == fresh
    json.loads(shipped)
    rules = [path.stem for path in (source / "hosttune" / "rules").rglob("*.yaml")]
    assert rules
    assert [rule for rule in rules if rule not in shipped] == []


def test_build_leaves_no_catalog_in_the_source_tree(wheel: Path, source: Path):
    assert wheel.exists()
    assert not (source / "hosttune" / "rules" / "catalog.json").exists()


def test_sdist_builds_the_same_wheel(sdist_tree: Path, wheel: Path, tmp_path: Path):
    again = build(sdist_tree, "wheel", tmp_path)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())
        assert [name for name in one.namelist() if one.read(name) != other.read(name)] == []


def test_install_foreign_templates_beside_the_package_are_not_read(
    installed: dict[str, Installed], tmp_path: Path, source: Path
):
    package = Path(str(installed["wheel"].probe()["package"]))
    site = tmp_path / "dist-packages"
    shutil.copytree(package, site / "hosttune", ignore=shutil.ignore_patterns("templates"))
    shutil.copytree(source / "templates", site / "templates")
    program = f"""
import sys
sys.path.insert(0, {str(site)!r})
from hosttune.errors import HosttuneError
from hosttune.textfiles import template_root
try:
    print("read", template_root())
except HosttuneError as error:
    print("refused", error)
"""
    answer = run(installed["wheel"].python, "-I", "-c", program, cwd=tmp_path)
    assert answer.startswith(
        f"refused the templates of hosttune are missing: {site}/hosttune/templates"
    )
    assert "is not a checkout of hosttune" in answer


def test_install_another_folder_never_shadows_the_package(
    installed: dict[str, Installed], tmp_path: Path
):
    """`hosttune` may be started by root from a folder that anybody can write."""
    (tmp_path / "hosttune").mkdir()
    (tmp_path / "hosttune" / "__init__.py").write_text("raise SystemExit('shadowed')\n")
    (tmp_path / "yaml.py").write_text("raise SystemExit('shadowed')\n")
    command = installed["wheel"].python.with_name("hosttune")
    assert os.access(command, os.X_OK)
    assert "shadowed" not in run(command, "explain", "storage-noatime", cwd=tmp_path)
