"""The self-contained file: built twice, and run where there is nothing but Python's own library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from tests.hosts.built import HOSTS

pytestmark = pytest.mark.install

ROOT = Path(__file__).resolve().parents[2]
TREE = ("hosttune", "templates", "playbooks/packaging")
SITE = "https://docs.example.org"
RECORD = HOSTS / "h100-8x-2socket.json"


def built(root: Path, out: Path) -> Path:
    words = (sys.executable, "-I", root / "playbooks/packaging/pyz.py", out)
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("pyz") / "hosttune.pyz")


def start(
    pyz: Path,
    *words: str,
    asked: str = "",
    options: tuple[str, ...] = ("-I", "-S"),
    **environment: str,
):
    return subprocess.run(
        (sys.executable, *options, pyz, *words),
        check=False, capture_output=True, text=True, timeout=120, input=asked, cwd="/", env={**os.environ, **environment},
    )  # fmt: skip


def test_pyz_of_the_same_sources_has_the_same_bytes(pyz, tmp_path):
    for name in TREE:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    assert built(tmp_path, tmp_path / "again.pyz").read_bytes() == pyz.read_bytes()


def test_pyz_is_executable_and_holds_no_compiled_part(pyz):
    assert os.access(pyz, os.X_OK)
    with zipfile.ZipFile(pyz) as packed:
        names = packed.namelist()
    assert [name for name in names if name.endswith((".so", ".pyc"))] == []
    tops = {name.split("/")[0] for name in names}
    assert {"typer", "yaml", "jinja2", "markupsafe", "distro", "pynvml.py"} <= tops
    assert "example.py" not in tops
    assert {"licences/LICENSE", "hosttune/rules/catalog.json"} <= set(names)


@pytest.mark.parametrize(
    "words", [("--version",), ("explain", "storage-noatime"), ("plan", "--host", str(RECORD))]
)
def test_pyz_answers_as_the_checkout_does(words, pyz):
    expected = subprocess.run(
        (sys.executable, "-m", "hosttune", *words),
        # Not what the process itself has: a readline that some plugin loads puts COLUMNS there, and
        # lines are broken.
        check=False, capture_output=True, text=True, timeout=120, cwd=ROOT,
        env={**os.environ, "HOSTTUNE_DOCS_URL": SITE},  # the file carries no pages of its own
    )  # fmt: skip
    done = start(pyz, *words, HOSTTUNE_DOCS_URL=SITE)
    assert done.stdout.replace(str(pyz), str(ROOT / "run")) == expected.stdout
    assert done.returncode == expected.returncode
    assert done.stdout


def test_pyz_renders_the_templates_it_carries(pyz):
    plan = json.loads(start(pyz, "plan", "--host", str(RECORD), "--format", "json").stdout)
    texts = [change["after"] for stage in plan["stages"] for change in stage["changes"]]
    assert any("hosttune" in text.get("text", "") for text in texts if isinstance(text, dict))


def test_pyz_writes_nothing(pyz, tmp_path):
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    assert (
        start(pyz, "check", "--host", str(RECORD), HOME=str(home), TMPDIR=str(scratch)).returncode
        == 1
    )
    assert [*home.iterdir(), *scratch.iterdir(), *pyz.parent.glob("__pycache__")] == []


def test_pyz_imports_nothing_from_pythonpath_or_the_folder_it_lies_in(pyz, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('imported')\n")
    shutil.copy(pyz, tmp_path)
    done = start(tmp_path / pyz.name, "--version", options=(), PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_pyz_looks_at_the_live_host_without_psutil(pyz):
    found = json.loads(start(pyz, "facts", "work", "--format", "json").stdout)
    assert "psutil" not in json.dumps(found)


def test_pyz_served_answers_line_by_line(pyz):
    done = start(pyz, "--serve", "/nowhere", asked=HISTORY + '{"command": "no-such"}\n')
    first, second = map(json.loads, done.stdout.splitlines())
    assert json.loads(first["stdout"])["runs"] == []
    assert (first["status"], second["status"]) == (0, 2)
    assert "no-such" in second["stderr"]


def test_pyz_served_imports_nothing_that_parses_words_or_yaml(pyz):
    done = start(pyz, "--serve", "/nowhere", asked=PLAN, options=("-I", "-S", "-X", "importtime"))
    imported = {
        line.rpartition("|")[2].strip().split(".")[0]
        for line in done.stderr.splitlines()
        if "|" in line
    }
    assert json.loads(done.stdout)["status"] == 1
    assert "hosttune" in imported
    assert imported & {"typer", "click", "rich", "yaml", "shellingham"} == set()


# Of each start: how often Python compiled a module of the archive.
COUNTED = """
import collections, os, runpy, sys
os._exit = sys.exit  # hosttune ends without the interpreter's own end
archive, seen = sys.argv[1], collections.Counter()
def hook(event, given):
    if event == "compile" and isinstance(given[1], str) and given[1].startswith(archive):
        seen[given[1]] += 1
sys.addaudithook(hook)
sys.argv[:] = sys.argv[1:]
sys.path.insert(0, archive)
try:
    runpy.run_path(archive, run_name="__main__")
except SystemExit:
    for name in ("__main__", "importing"):  # Python's own importer brings them, and ours
        del seen[f"{archive}/{name}.py"]
    print(max(seen.values(), default=0), *seen, file=sys.stderr)
"""


def compiled(pyz: Path, *words: str, asked: str = "", python: str = sys.executable) -> list[str]:
    done = subprocess.run(
        (python, "-I", "-S", "-c", COUNTED, str(pyz), *words),
        check=False, capture_output=True, text=True, timeout=120, input=asked, cwd="/",
    )  # fmt: skip
    counts = [line.split() for line in done.stderr.splitlines() if line[:1].isdigit()]
    most, *names = max(
        counts, key=len
    )  # of root two processes end: the command, and the one outside of it
    assert int(most) == bool(names), done.stderr
    return names


def test_pyz_compiles_a_module_once(pyz):
    assert len(compiled(pyz, "check", "--host", str(RECORD))) > 100


def test_pyz_names_each_module_as_pythons_own_importer_does(pyz):
    asked = """
import json, sys, zipimport
archive = sys.argv[1]
sys.path.insert(0, archive)
import importing
names = {}
for name in zipimport.zipimporter(archive)._files:
    if name.endswith(".py"):
        place, _, own = name.removesuffix(".py").removesuffix("/__init__").rpartition("/")
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        folder = archive + "/" + place if place else archive
        one, other = importing.Importer(folder), zipimport.zipimporter(folder)
        names[module] = [one.get_filename(module), other.get_filename(module)]
        assert one.is_package(module) == other.is_package(module)
try:
    importing.Importer(archive).get_filename("no_such_module")
except ImportError:
    print(json.dumps(names))
"""
    words = (sys.executable, "-I", "-S", "-c", asked, str(pyz))
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)
    names = json.loads(done.stdout)
    assert len(names) > 400
    assert [pair for pair in names.values() if pair[0] != pair[1]] == []


PLAN = json.dumps({"command": "plan", "look": {"host": [str(RECORD)]}}) + "\n"
HISTORY = json.dumps({"command": "history", "look": {"host": [str(RECORD)]}}) + "\n"


@pytest.fixture
def private():
    """A folder whose way root alone can turn; what pytest makes lies below one that everybody
    writes to.
    """
    folder = Path(
        tempfile.mkdtemp(prefix="hosttune-test-", dir="/var/lib" if os.geteuid() == 0 else None)
    )
    yield folder / "kept"
    shutil.rmtree(folder)


def test_pyz_served_to_root_compiles_nothing_the_second_time_and_answers_the_same(pyz, private):
    first = start(pyz, "--serve", str(private), asked=PLAN)
    again = compiled(pyz, "--serve", str(private), asked=PLAN)
    second = start(pyz, "--serve", str(private), asked=PLAN)
    digests = {json.loads(json.loads(one.stdout)["stdout"])["digest"] for one in (first, second)}
    assert len(digests) == 1
    if os.geteuid() == 0:
        assert again == []
        assert [(one.name, oct(one.stat().st_mode)) for one in private.iterdir()] == [
            ("code.bin", "0o100600")
        ]
    else:  # to others than root a file in /var/cache is somebody else's
        assert len(again) > 100
        assert not private.exists()


@pytest.mark.parametrize(
    "spoil",
    [
        "file open to others",
        "folder open to others",
        "link",
        "torn",
        "empty",
        "changed",
        "another's",
    ],
)
def test_pyz_takes_no_byte_code_that_root_did_not_keep_for_this_very_file(pyz, private, spoil):
    start(pyz, "--serve", str(private), asked=HISTORY)
    file = private / "code.bin"
    if os.geteuid() == 0:
        content = file.read_bytes()
        if spoil == "file open to others":
            file.chmod(0o666)
        elif spoil == "folder open to others":
            private.chmod(0o777)
        elif spoil == "link":
            file.rename(private / "elsewhere")
            file.symlink_to(private / "elsewhere")
        elif spoil == "another's":
            os.chown(file, 65534, 65534)
        else:
            spoilt = {
                "torn": content[: len(content) // 2],
                "empty": b"",
                "changed": content[:-1] + b"\0",
            }
            file.write_bytes(spoilt[spoil])
    assert len(compiled(pyz, "--serve", str(private), asked=HISTORY)) > 20


def test_pyz_of_another_content_compiles_for_itself(pyz, private, tmp_path):
    start(pyz, "--serve", str(private), asked=HISTORY)
    other = tmp_path / "hosttune.pyz"
    shutil.copy(pyz, other)
    with zipfile.ZipFile(other, "a") as packed:
        packed.writestr("note", "another file")
    assert len(compiled(other, "--serve", str(private), asked=HISTORY)) > 20
