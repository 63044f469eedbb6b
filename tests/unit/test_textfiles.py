from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hosttune.errors import HosttuneError
from hosttune.textfiles import rule_page, template_root, template_text

PROJECT = '[build-system]\nrequires = []\n\n[project]\nname = "hosttune"\n'


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package folder of a checkout that is in order."""
    (tmp_path / "hosttune").mkdir()
    (tmp_path / "templates").mkdir(mode=0o755)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "pyproject.toml").chmod(0o644)
    return tmp_path / "hosttune"


def test_template_root_of_this_checkout_is_found():
    assert template_root().is_dir()


def test_template_root_inside_the_package_wins(package: Path):
    (package / "templates").mkdir()
    assert template_root(package) == package / "templates"


def test_template_root_in_a_checkout_is_the_sibling(package: Path):
    assert template_root(package) == package.parent / "templates"


def refused(package: Path) -> str:
    with pytest.raises(
        HosttuneError, match=re.escape(f"{package}/templates does not exist")
    ) as caught:
        template_root(package)
    assert caught.value.hint
    return str(caught.value)


def test_template_root_beside_an_installed_package_is_refused(package: Path):
    (package.parent / "pyproject.toml").unlink()
    assert "is not a checkout of hosttune" in refused(package)


def test_template_root_beside_another_project_is_refused(package: Path):
    (package.parent / "pyproject.toml").write_text('[project]\nname = "hosttune-plugins"\n')
    assert "is not the project file of hosttune" in refused(package)


def test_template_root_that_is_missing_is_refused(package: Path):
    (package.parent / "templates").rmdir()
    assert "is not a checkout of hosttune" in refused(package)


def test_template_root_that_is_a_link_is_refused(package: Path):
    (package.parent / "templates").rename(package.parent / "elsewhere")
    (package.parent / "templates").symlink_to("elsewhere")
    assert "is a link" in refused(package)


@pytest.mark.parametrize("name", ["templates", "pyproject.toml"])
def test_template_root_that_everybody_can_write_is_refused(package: Path, name: str):
    (package.parent / name).chmod(0o777)
    assert f"{name} can be written by everybody" in refused(package)


@pytest.mark.parametrize("name", ["templates", "pyproject.toml"])
def test_template_root_of_another_owner_is_refused(
    package: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        status = real(path)
        if path.name != name:
            return status
        return os.stat_result((*status[:4], status.st_uid + 1, *status[5:10]))

    monkeypatch.setattr(Path, "lstat", lstat)
    assert f"{name} does not belong to the owner" in refused(package)


@pytest.mark.parametrize(
    "name",
    ["../pyproject.toml", "/etc/passwd", "./report.css", "..", "", ".report.css", "a/b", "a\n"],
)
def test_name_that_leaves_the_folder_is_of_no_template(name: str):
    assert template_text("report.css")
    assert template_text(name) is None


def test_page_of_a_rule_is_on_the_site_that_is_named_else_a_file_of_the_checkout(monkeypatch):
    monkeypatch.setenv("HOSTTUNE_DOCS_URL", "https://docs.example.org/gpu/")
    assert (
        rule_page("storage-noatime")
        == "https://docs.example.org/gpu/reference/rules/storage-noatime/"
    )
    assert rule_page("../../etc/passwd") == ""
    for other in ("", "javascript:alert(1)"):
        monkeypatch.setenv("HOSTTUNE_DOCS_URL", other)
        assert rule_page("storage-noatime").endswith("/docs/reference/rules/storage-noatime.md")
        assert rule_page("storage-noatime").startswith("file:///")
    assert rule_page("storage-none-such") == ""
