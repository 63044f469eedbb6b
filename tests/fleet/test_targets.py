"""Hosts with every Python that hosttune supports, controllers with both lines of ansible-core, and
the tool installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import tree
from tests.fleet.controller import (
    COLLECTION,
    FOR_OLDER,
    OF_UBUNTU_24_04,
    ROOT,
    Controller,
    environment,
    pythons,
)
from tests.fleet.hosts import Fleet, Kind

pytestmark = pytest.mark.fleet

AT_ONCE = {"hosttune_serial": ["100%"]}
# Of the releases of Ubuntu that have no tree here: from a pyenv, where this machine has one.
FOREIGN = {"22.04": "3.10", "24.04": "3.12"}
SYSTEMD = "/etc/systemd/system"


def foreign_pythons() -> dict[str, Path]:
    """Installations of Python on this machine by the release that has that version."""
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = {release: sorted(versions.glob(f"{version}.*")) for release, version in FOREIGN.items()}
    return {release: folders[-1] for release, folders in found.items() if folders}


@pytest.fixture
def mixed() -> Iterator[Fleet]:
    """One host with each Python: Debian 12, 13 (with systemd's programs, none of which runs) and
    testing, and those of the pyenv.
    """
    kinds = [
        Kind(tree.get()),
        Kind(tree.get("trixie", "systemd")),
        Kind(tree.get("testing"), "26.04"),
        *(Kind(tree.get(), release, str(folder)) for release, folder in foreign_pythons().items()),
    ]
    fleet = Fleet(kinds)
    try:
        yield fleet
    finally:
        fleet.close()


def controlled(fleet: Fleet, programs: Path, bundle: Path, folder: Path) -> Controller:
    inventory = folder / "inventory.yml"
    inventory.write_text(fleet.inventory())
    return Controller(programs, inventory, bundle, folder)


def test_every_python_makes_the_same_plan_applies_it_and_takes_it_back(
    mixed: Fleet, programs: Path, bundle: Path, tmp_path: Path
):
    controller = controlled(mixed, programs, bundle, tmp_path)
    versions = {
        host.shell(f"{host.kind.python or '/usr'}/bin/python3 --version").split()[1]
        for host in mixed.hosts
    }
    minors = {version.rpartition(".")[0] for version in versions}
    assert minors == {*tree.PYTHONS.values(), *(FOREIGN[release] for release in foreign_pythons())}
    everybody = {host.name for host in mixed.hosts}
    made = controller.play("apply.yml", **AT_ONCE)
    assert made.status == 0, made.output
    assert made.changed() == everybody
    assert len(re.findall(r"digest [0-9a-f]{64}", made.output)) == 1
    kept = [host.run("sha256sum", "/var/cache/hosttune/code.bin") for host in mixed.hosts]
    assert controller.play("apply.yml", **AT_ONCE).changed() == set()
    assert [
        host.run("sha256sum", "/var/cache/hosttune/code.bin") for host in mixed.hosts
    ] == kept  # nothing was compiled
    runs = [
        host.run("ls", "/var/lib/hosttune/runs").strip().removesuffix(".jsonl")
        for host in mixed.hosts
    ]
    back = controller.play("undo.yml", run_id=",".join(runs[1:]), **AT_ONCE)
    assert back.status == 0, back.output
    assert back.changed() == everybody - {"gpu01"}
    assert "1 host: nothing to undo\n  gpu01\n" in back.output
    again = controller.play("undo.yml", run_id=f"{runs[1]},nonsense", **AT_ONCE)
    assert again.changed() == set()
    assert again.status == 2
    assert "no host has the run nonsense" in again.output


@pytest.mark.parametrize("core", [OF_UBUNTU_24_04, "ansible-core>=2.17,<2.18", FOR_OLDER])
def test_older_controllers_apply_and_take_a_rule_back(
    core: str, fleet: Fleet, bundle: Path, tmp_path: Path
):
    controller = controlled(fleet, environment(pythons()[-1], core), bundle, tmp_path)
    said = controller.run("ansible", "--version").stdout
    assert f"core {re.findall('2[.][0-9]+', core)[0]}" in said
    made = controller.play("apply.yml", **AT_ONCE)
    assert made.status == 0, made.output
    assert "does not support Ansible" not in made.output
    back = controller.play("undo.yml", rule="storage-noatime", **AT_ONCE)
    assert back.status == 0, back.output
    for host in fleet.hosts:
        assert "noatime" not in host.read("/etc/fstab")
        assert "hosttune" in host.run("ls", "/etc/sysctl.d")


def test_install_as_package_then_as_file(
    mixed: Fleet, programs: Path, bundle: Path, tmp_path: Path
):
    """The first host has no systemd and so no timer; the second has its programs, which can enable
    one.
    """
    deb = tmp_path / "hosttune.deb"
    words = (sys.executable, "-I", ROOT / "playbooks/packaging/deb.py", deb)
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    controller = controlled(mixed, programs, bundle, tmp_path)
    plain, timed = mixed["gpu01"], mixed["gpu02"]
    package = {
        "hosttune_install": "deb",
        "hosttune_deb": deb.name,
        **AT_ONCE,
    }  # it lies where the play is started
    wrong = controller.play(
        "apply.yml", "--limit", "gpu01", **package | {"hosttune_deb": "nowhere.deb"}
    )
    assert "nowhere.deb: no such file on the controller" in wrong.output
    tried = controller.play("apply.yml", "--check", "--limit", "gpu01", **package)
    assert tried.status == 2, tried.output  # there is something to change
    assert "failed or gave no answer" not in tried.output
    assert not any("hosttune" in path for path in plain.files())
    assert controller.play("apply.yml", "--limit", "gpu01", **package).status == 0
    assert plain.run("hosttune", "--version").startswith("hosttune ")
    assert (
        plain.run("dpkg-query", "--show", "--showformat", "${db:Status-Status}", "hosttune")
        == "installed"
    )
    before = plain.files()
    assert controller.play("apply.yml", "--limit", "gpu01", **package).changed() == set()
    assert plain.files() == before
    answer = controller.ask("gpu01", "tune_info", executable="/usr/bin/hosttune", gather=["check"])
    assert answer["check"]["host"] == "gpu01"

    textfile = {"hosttune_timer": True, "hosttune_textfile": "/srv/metrics/hosttune.prom"}
    assert timer(controller, package | textfile).status == 0
    addition = timed.read(f"{SYSTEMD}/hosttune-check.service.d/60-hosttune-role.conf")
    assert "Environment=HOSTTUNE_METRICS=/srv/metrics/hosttune.prom\n" in addition
    assert is_enabled(timed) == "enabled"
    assert timer(controller, {"hosttune_install": "pyz", **textfile, **AT_ONCE}).status == 0
    assert (
        timed.run("systemd-analyze", "verify", "--man=no", f"{SYSTEMD}/hosttune-check.service")
        == ""
    )
    for words in re.findall(
        r"^ExecStart=(.*)$", timed.read(f"{SYSTEMD}/hosttune-check.service"), re.MULTILINE
    ):
        timed.shell(
            words.replace("${HOSTTUNE_METRICS}", textfile["hosttune_textfile"]) + "; [ $? -lt 2 ]"
        )
    assert json.loads(timed.read("/var/lib/hosttune/report.json"))["hosts"]
    assert "hosttune_check_timestamp_seconds" in timed.read("/srv/metrics/hosttune.prom")
    assert timer(controller, package | textfile).status == 0
    assert timed.run("ls", SYSTEMD, "/usr/local/sbin").count("hosttune-check.service\n") == 0
    refused = controller.play("apply.yml", "--limit", "gpu01", hosttune_timer=True)
    assert "hosttune_timer needs an installation" in refused.output


def timer(controller: Controller, options: dict[str, object]):
    """The role on the host with systemd's programs. SYSTEMD_OFFLINE: nothing of systemd runs that
    could be asked.
    """
    role = {"ansible.builtin.include_role": {"name": "hosttune.hosttune.hosttune"}, "vars": options}
    play = {
        "hosts": "gpu02",
        "gather_facts": False,
        "environment": {"SYSTEMD_OFFLINE": "1"},
        "tasks": [role],
    }
    done = controller.play([play])
    assert done.status == 0, done.output
    return done


def is_enabled(host) -> str:
    return host.run("systemctl", "--root=/", "is-enabled", "hosttune-check.timer").strip()


def test_units_of_the_role_are_those_of_the_package():
    templates = COLLECTION / "roles/hosttune/templates"
    values = {
        "{{ hosttune_settings.given.install_path }}": "/usr/bin/hosttune",
        "{{ hosttune_settings.given.textfile }}": "/var/lib/prometheus/node-exporter/hosttune.prom",
    }
    for unit in ("hosttune-check.service", "hosttune-check.timer"):
        text = (templates / f"{unit}.j2").read_text()
        for word, value in values.items():
            text = text.replace(word, value)
        packaged = (ROOT / "playbooks/packaging/debian" / unit).read_text()
        own = "# Written by the role hosttune.hosttune.hosttune.\n"
        assert text == own + packaged.replace("Documentation=man:hosttune(8)\n", "")
