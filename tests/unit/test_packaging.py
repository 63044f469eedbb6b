"""What the packages bring besides the program: words for shells, the manual page, the policy
file.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hosttune.cli import app, command_tree, completion_scripts
from hosttune.engine.policy.file import build_policy
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.yamlio import load_document

PACKAGING = Path(__file__).resolve().parents[2] / "playbooks/packaging"
POLICY = (PACKAGING / "debian/policy.yaml").read_text(encoding="utf-8")
TODAY = "2026-11-21"


@pytest.fixture(scope="module")
def modules():
    """The builder's modules, which are a program and no package."""
    names = ("bundle", "lock", "locked", "manual")
    sys.path.insert(0, str(PACKAGING))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(PACKAGING))
        for name in names:
            del sys.modules[name]


@pytest.fixture(scope="module")
def tree():
    return command_tree.read_tree()


def test_policy_as_it_is_installed_is_no_policy():
    assert build_policy(load_document(POLICY, "policy.yaml"), builtin_catalog(), TODAY) == Policy(
        source="policy.yaml", today=TODAY
    )


def test_policy_with_every_line_in_force_is_valid():
    text = re.sub(r"^#(?=\S|  )", "", POLICY, flags=re.MULTILINE)
    policy = build_policy(load_document(text, "policy.yaml"), builtin_catalog(), TODAY)
    assert policy.waivers[0].owner == "ops"
    assert policy.declared.data_mounts


def test_dependencies_bring_their_modules_and_licences_and_nothing_else(modules):
    """A folder of instructions for other programs (typer), an example (nvidia-ml-py) stay
    behind.
    """
    for one in modules["locked"].dependencies():
        assert [name for name in one.files if not name.endswith(".py")] == []
        assert not any(part.startswith(".") for name in one.files for part in name.split("/"))
        assert one.licences
        if one.name == "typer":
            assert "typer/_click/LICENSE.txt" in one.licences


def test_command_tree_has_every_command_and_knows_what_options_want(tree):
    paths = {command.path for command in tree.walk()}
    assert {("check",), ("apply",), ("rules", "lint")} <= paths
    (check,) = (command for command in tree.commands if command.path == ("check",))
    options = {name: option for option in check.options for name in option.names}
    assert options["--format"].values[:2] == ("text", "json")
    assert options["--policy"].is_file
    assert "storage-noatime" in options["--select"].values
    assert not options["--strict"].takes_value
    assert options["--host"].is_repeatable


def test_manual_names_every_command_and_option(tree, modules):
    page = modules["manual"].manual(tree, "0.1.0", 0)
    assert page.startswith('.TH HOSTTUNE 8 "1970-01-01" "hosttune 0.1.0"')
    for command in tree.walk():
        name = " ".join(command.path).replace("-", "\\-")
        assert command.commands or f'.SS "hosttune {name}' in page
        for option in command.options if command.path else ():
            assert all(name.replace("-", "\\-") in page for name in option.names)
    assert not re.search(r"^'", page, re.MULTILINE)


def test_bash_completion_is_valid_and_starts_no_program(tree, tmp_path):
    script = tmp_path / "hosttune"
    script.write_text(completion_scripts.bash(tree))
    done = subprocess.run(
        ("bash", "-n", script), check=False, capture_output=True, text=True, timeout=20
    )
    assert (done.returncode, done.stderr) == (0, "")
    asked = 'PATH=; source "$0"; COMP_WORDS=(hosttune apply --max-risk m); COMP_CWORD=3; _hosttune; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ("/bin/bash", "-c", asked, script), check=False, capture_output=True, text=True, timeout=20
    )
    assert (done.stdout, done.stderr) == ("medium\n", "")


def test_names_of_files_are_completed_as_they_are_and_never_run(tree, tmp_path):
    script = tmp_path / "hosttune"
    script.write_text(completion_scripts.bash(tree))
    hostile = ["$(touch ran)", "*", "-r", ";touch ran", "`touch ran`"]
    for name in hostile:
        (tmp_path / name).touch()
    asked = 'source "$0"; COMP_WORDS=(hosttune fstab ""); COMP_CWORD=2; _hosttune; printf "%s\\0" "${COMPREPLY[@]}"'
    argv = ("/bin/bash", "-c", asked, script)
    done = subprocess.run(
        argv, check=True, capture_output=True, text=True, timeout=20, cwd=tmp_path
    )
    assert sorted(done.stdout.split("\0")[:-1]) == sorted(["hosttune", *hostile])
    assert not (tmp_path / "ran").exists()


def test_zsh_completion_defines_every_function_that_it_names(tree):
    script = completion_scripts.zsh(tree)
    assert script.startswith("#compdef hosttune\n")
    defined = set(re.findall(r"^(_hosttune\S*)\(\) \{$", script, re.MULTILINE))
    assert defined >= {"_".join(("_hosttune", *command.path)) for command in tree.walk()}
    assert set(re.findall(r":(_hosttune[\w-]*)", script)) == {"_hosttune-rule-ids"} <= defined


def test_fish_completion_offers_options_of_the_command_alone(tree):
    lines = completion_scripts.fish(tree).splitlines()
    (rule,) = (line for line in lines if "-l expect" in line and "from apply" in line)
    assert "not __fish_seen_subcommand_from bench rules" in rule
    assert any("from rules; and __fish_seen_subcommand_from lint'" in line for line in lines)


@pytest.mark.parametrize("shell", sorted(completion_scripts.SCRIPTS))
def test_command_prints_the_script_that_the_package_installs(shell, tree, capsys):
    assert app.run(["completion", shell]) == 0
    assert capsys.readouterr().out == completion_scripts.SCRIPTS[shell](tree)


def test_dependencies_of_the_bundle_are_complete(modules):
    carried = {one.name for one in modules["bundle"].dependencies()}
    assert {"typer", "pyyaml", "jinja2", "markupsafe", "distro"} <= carried
    assert not carried & {"psutil", "rich", "pytest"}
    assert all(one.licences for one in modules["bundle"].dependencies())


def test_lock_names_all_that_is_carried_and_nothing_else(modules):
    assert [pin.name for pin in modules["locked"].pins()] == modules["lock"].names()


def needed_in(environment, pins):
    """The versions that the lock has for an environment."""
    found = [pin for pin in pins if not pin.marker or Marker(pin.marker).evaluate(environment)]
    versions = {pin.name: pin.version for pin in found}
    assert len(versions) == len(found)
    return versions


def test_lock_has_what_the_project_asks_for_on_every_python_and_machine(modules):
    lock, locked = modules["lock"], modules["locked"]
    project = lock.read_project()["project"]
    runs = [*project["dependencies"], *lock.build_requirements()]
    text = locked.LOCK.read_text(encoding="utf-8")
    in_tests = set(re.findall(r"^([a-z0-9-]+)==", text.partition(locked.TESTS)[2], re.MULTILINE))
    assert len(lock.environments()) == 10
    for environment in lock.environments():
        versions = needed_in(environment, locked.all_pins())
        for need in map(Requirement, [*runs, *project["optional-dependencies"]["test"]]):
            name = canonicalize_name(need.name)
            assert need.specifier.contains(versions[name]), (
                environment["python_version"],
                str(need),
            )
            assert name not in in_tests or str(need) not in map(str, map(Requirement, runs))


def test_lock_holds_what_its_own_packages_need(modules):
    """Of this Python: what is installed by the lock says what it needs, and the lock has that,
    too.
    """
    locked = modules["locked"]
    here = {**default_environment(), "extra": ""}
    versions = needed_in(here, locked.all_pins())
    for name in versions:
        for need in map(Requirement, metadata.distribution(name).requires or ()):
            if not need.marker or need.marker.evaluate(here):
                assert need.specifier.contains(versions[canonicalize_name(need.name)]), (
                    f"{name} needs {need}"
                )


def test_lock_has_hashes_of_every_package_and_names_no_index(modules):
    locked = modules["locked"]
    text = locked.LOCK.read_text(encoding="utf-8")
    assert (
        text.count("==") - sum(pin.marker.count("==") for pin in locked.all_pins())
        == len(locked.all_pins())
        > 60
    )
    assert all(pin.wheels for pin in locked.all_pins())
    assert all(pin.wheel in pin.wheels for pin in locked.pins())
    assert not re.search(r"://|\.org|--index|--find-links", text)
    assert "".join((modules["lock"].HEAD, *map(str, locked.all_pins()))) == text.replace(
        f"\n{locked.TESTS}", ""
    ).replace(f"\n{locked.SOURCES}", "")


@pytest.mark.parametrize(
    ("wheel", "pythons", "machines"),
    [
        ("a-1-py3-none-any.whl", 5, 2),
        ("a-1-py2.py3-none-any.whl", 5, 2),
        ("a-1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", 1, 1),
        ("a-1-cp39-abi3-manylinux_2_28_aarch64.whl", 5, 1),
        ("a-1-cp313-abi3-manylinux_2_28_aarch64.whl", 2, 1),
        ("a-1-cp314-cp314t-manylinux_2_28_x86_64.whl", 0, 0),
        ("a-1-cp312-cp312-musllinux_1_2_x86_64.whl", 0, 0),
        ("a-1-cp312-cp312-manylinux_2_39_x86_64.whl", 0, 0),
        ("a-1-cp312-cp312-win_amd64.whl", 0, 0),
    ],
)
def test_lock_takes_wheels_of_supported_pythons_and_machines(modules, wheel, pythons, machines):
    lock = modules["lock"]
    fitting = [one for one in lock.environments() if lock.fits(wheel, one)]
    assert len({one["python_version"] for one in fitting}) == pythons
    assert len({one["platform_machine"] for one in fitting}) == machines


def test_lock_refuses_a_package_without_a_wheel_for_a_python(modules):
    package = {
        "name": "a",
        "version": "1",
        "wheels": [
            {"url": "x/a-1-cp310-cp310-manylinux2014_x86_64.whl", "hashes": {"sha256": "0" * 64}}
        ],
    }
    with pytest.raises(
        modules["bundle"].Trouble, match=r"a 1 has no wheel for Python 3\.10 on aarch64"
    ):
        modules["lock"].pin_of(package)


def test_lock_that_was_edited_is_refused(modules, monkeypatch, tmp_path):
    broken = tmp_path / "lock.txt"
    broken.write_text("distro==1.9.0\n")
    monkeypatch.setattr(modules["locked"], "LOCK", broken)
    with pytest.raises(modules["bundle"].Trouble, match="no line of the lock"):
        modules["locked"].pins()


def test_lock_other_content_under_the_same_version_is_not_taken(modules):
    pin = modules["locked"].pins()[0]
    assert modules["locked"]._installed(replace(pin, content="0" * 64)) is None
    assert modules["locked"]._installed(replace(pin, version="0")) is None


def test_source_date_that_is_no_number_is_refused(modules, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(modules["bundle"].Trouble, match="SOURCE_DATE_EPOCH"):
        modules["bundle"].source_date()
