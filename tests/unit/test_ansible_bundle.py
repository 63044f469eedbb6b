"""Where the file that travels with Ansible's tasks is built, and whom that believes; without
Ansible.
"""

from __future__ import annotations

import os
import runpy
import stat
import sys
import types
from pathlib import Path

import pytest

UTILS = (
    Path(__file__).resolve().parents[2]
    / "playbooks/collections/ansible_collections/hosttune/hosttune"
)
# Notes that it ran, and where; it can be set up where `.venv` is, or anywhere but in a folder named
# "theirs".
RUN = """\
#!/bin/sh
cd "${0%/*}" && echo "$PWD" >>"$CALLS"
case $PWD in */theirs) [ -x .venv/bin/python ] || { echo "cannot set up $PWD: start once as its owner" >&2; exit 2; } ;; esac
mkdir -p .venv/bin && cp hosttune/python .venv/bin/python && chmod 755 .venv/bin/python
"""
PYTHON = """\
#!/bin/sh
[ "$1 $2" = "-E -s" ] && cat "${3%/playbooks/*}/hosttune/a.py" >"$4" && echo "built ${3%/playbooks/*}" >>"$CALLS"
"""


class AnsibleError(Exception):
    pass


@pytest.fixture
def bundle(monkeypatch, tmp_path):
    made = types.ModuleType("ansible.errors")
    made.AnsibleError = AnsibleError
    monkeypatch.setitem(sys.modules, "ansible", types.ModuleType("ansible"))
    monkeypatch.setitem(sys.modules, "ansible.errors", made)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return types.SimpleNamespace(**runpy.run_path(str(UTILS / "plugins/plugin_utils/bundle.py")))


@pytest.fixture
def checkout(tmp_path):
    """A checkout as far as the building of a file touches it."""
    root = tmp_path / "theirs"
    for name in ("hosttune", "templates", "docs", "playbooks/packaging"):
        (root / name).mkdir(parents=True)
    for name in (
        "pyproject.toml",
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "hatch_build.py",
        "playbooks/packaging/pyz.py",
    ):
        (root / name).touch()
    (root / "hosttune/a.py").write_text("1")
    (root / "run").write_text(RUN)
    set_up(root)
    return root


def set_up(root: Path) -> None:
    for name in (root / "hosttune/python", root / ".venv/bin/python"):
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text(PYTHON)
        name.chmod(0o755)


def calls(tmp_path: Path) -> list[str]:
    path = tmp_path / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [line.replace(str(tmp_path), "") for line in lines]


def of_somebody_else(monkeypatch, *paths: Path) -> None:
    """These may be read and not written, also by root, who runs tests."""
    may = os.access
    held = {str(path) for path in paths}
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) not in held and may(path, mode))


def test_own_checkout_keeps_the_file_and_builds_it_anew_when_a_source_changes(
    bundle, checkout, tmp_path
):
    built = bundle.built(str(checkout), "pyz")
    assert (built, Path(built).read_text()) == (str(checkout / "build/hosttune.pyz"), "1")
    assert calls(tmp_path) == ["/theirs", "built /theirs"]
    assert (bundle.built(str(checkout), "pyz"), calls(tmp_path)) == (built, [])
    (checkout / "hosttune/a.py").write_text("22")
    assert Path(bundle.built(str(checkout), "pyz")).read_text() == "22"
    assert not (tmp_path / "cache").exists()
    # who may read it could lock it, and each play would wait
    assert stat.S_IMODE((checkout / "build/hosttune.pyz.held").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "held", [".", "build", "build/hosttune.pyz.held", "build/hosttune.pyz.stamp"]
)
def test_checkout_of_somebody_else_builds_into_the_cache_of_this_user(
    bundle, checkout, tmp_path, monkeypatch, held
):
    if held != ".":
        bundle.built(str(checkout), "pyz")
        calls(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in checkout.rglob("*")}
    of_somebody_else(monkeypatch, checkout / held)
    built = Path(bundle.built(str(checkout), "pyz"))
    assert built.is_relative_to(tmp_path / "cache/hosttune/checkouts")
    assert built.read_text() == "1"
    assert {
        stat.S_IMODE(path.stat().st_mode)
        for path in built.parents
        if path.is_relative_to(tmp_path / "cache")
    } == {0o700}
    assert (bundle.built(str(checkout), "pyz"), calls(tmp_path)) == (
        str(built),
        ["/theirs", "built /theirs"],
    )
    assert {path: path.stat().st_mtime_ns for path in checkout.rglob("*")}.keys() == before.keys()
    (checkout / "hosttune/a.py").write_text("22")
    assert Path(bundle.built(str(checkout), "pyz")).read_text() == "22"


def test_checkout_that_nobody_has_set_up_is_copied_into_the_cache(
    bundle, checkout, tmp_path, monkeypatch
):
    (checkout / ".venv/bin/python").unlink()
    with pytest.raises(AnsibleError, match="start once as its owner"):
        bundle.built(str(checkout), "pyz")  # it is ours: nothing to go round
    of_somebody_else(monkeypatch, checkout, checkout / "build")
    built = Path(bundle.built(str(checkout), "pyz"))
    source = str(built.parent / "source").replace(str(tmp_path), "")
    assert calls(tmp_path) == ["/theirs", "/theirs", source, f"built {source}"]
    (checkout / "hosttune/a.py").rename(checkout / "hosttune/b.py")
    with pytest.raises(AnsibleError):  # what is gone there is gone in the copy
        bundle.built(str(checkout), "pyz")


@pytest.mark.parametrize("where", ["cache", "cache/hosttune", "cache/hosttune/checkouts"])
def test_folder_that_others_could_have_written_is_not_used(bundle, tmp_path, where):
    folder = Path(bundle.private_folder("checkouts/x"))
    (tmp_path / where).chmod(0o770)
    with pytest.raises(
        AnsibleError,
        match=rf"{where}: others could write there; name a folder of yours: XDG_CACHE_HOME",
    ):
        bundle.private_folder("checkouts/x")
    (tmp_path / where).chmod(0o700)
    assert bundle.private_folder("checkouts/x") == str(folder)
    if os.geteuid() == 0:
        os.chown(tmp_path / where, 4711, 4711)
        with pytest.raises(AnsibleError, match="others could write there"):
            bundle.private_folder("checkouts/x")
        os.chown(tmp_path / where, 0, 0)


def test_link_in_place_of_the_folder_is_not_followed(bundle, tmp_path):
    bundle.private_folder("checkouts")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "cache/hosttune/checkouts/x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AnsibleError, match="others could write there"):
        bundle.private_folder("checkouts/x")


def test_cache_that_cannot_be_made_is_named_with_the_way_out(bundle, tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(
        AnsibleError, match=r"cache.*: .*; name a folder of yours: XDG_CACHE_HOME=DIR, or a file"
    ):
        bundle.private_folder("checkouts/x")
