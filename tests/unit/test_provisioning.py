"""The snippets of playbooks/provisioning: their form, and the scripts with stand-ins for what they
call.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from hosttune.cli import app
from tests.hosts.built import HOSTS

FOLDER = Path(__file__).resolve().parents[2] / "playbooks/provisioning"
H100 = HOSTS / "h100-8x-2socket.json"
SCRIPTS = sorted(
    path
    for path in FOLDER.rglob("*")
    if path.is_file() and path.read_bytes().startswith((b"#!/bin/sh", b"#!/bin/bash"))
)
YAMLS = sorted(
    path
    for path in FOLDER.rglob("*")
    if path.suffix in {".yaml", ".yml", ".cfg"} or path.name == "user-data"
)


def put(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def run(path: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(
        (path, *words),
        env=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=environment.get("HOME"),
    )


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_script_parses_and_can_be_started(path):
    assert os.access(path, os.X_OK)
    shell = path.read_text().partition("\n")[0][2:]
    assert subprocess.run((shell, "-n", path), check=False, timeout=20).returncode == 0


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_yaml_is_read(path):
    assert yaml.safe_load(path.read_text())


def policies(node: object) -> list[str]:
    """The contents of files called policy.yaml, wherever they are written."""
    if isinstance(node, list):
        return [text for one in node for text in policies(one)]
    if not isinstance(node, dict):
        return []
    own = [node["content"]] if str(node.get("path")).endswith("/policy.yaml") else []
    return own + [text for one in node.values() for text in policies(one)]


def test_policies_in_them_are_policies(tmp_path, capsys):
    found = [text for path in YAMLS for text in policies(yaml.safe_load(path.read_text()))]
    assert len(found) == 2
    for text in found:
        policy = tmp_path / "policy.yaml"
        policy.write_text(text)
        assert app.run(["check", "--host", str(H100), "--policy", str(policy)]) in {0, 1}, (
            capsys.readouterr().err
        )
        capsys.readouterr()


# As MAAS' form takes it apart (maasserver/forms/script.py).
METADATA = re.compile(
    r"--- Start MAAS (?P<version>\d+\.\d+) script metadata ---\n(?P<yaml>.*?)# --- End MAAS", re.DOTALL
)  # fmt: skip


def test_maas_script_tells_what_maas_reads(tmp_path):
    script = FOLDER / "maas/60-hosttune.sh"
    found = METADATA.search(script.read_text())
    metadata = yaml.safe_load(
        "\n".join(line.removeprefix("# ") for line in found["yaml"].splitlines())
    )
    assert (found["version"], metadata["script_type"], metadata["hardware_type"]) == (
        "1.0",
        "testing",
        "node",
    )
    assert metadata["parallel"] in {"disabled", "instance", "any"}
    assert metadata["packages"].keys() <= {"apt", "snap", "url"}
    for record, word in (("h100-8x-2socket", "passed"), ("a100-cloud-vm", "failed")):
        out = tmp_path / f"{record}.health"
        app.run(
            [
                "health",
                "--host",
                str(HOSTS / f"{record}.json"),
                "--format",
                "json",
                "--output",
                str(out),
            ]
        )
        status = int(json.loads(out.read_text())["fitness"] != "fit")
        put(tmp_path / "sudo", '#!/bin/sh\nshift\nexec "$@"\n')
        put(tmp_path / "hosttune", f"#!/bin/sh\ncat {out}\nexit {status}\n")
        done = run(
            script,
            PATH=f"{tmp_path}:/usr/bin:/bin",
            RESULT_PATH=str(tmp_path / "result"),
            HOME=str(tmp_path),
        )
        assert done.returncode == 0, done.stderr
        result = yaml.safe_load((tmp_path / "result").read_text())
        assert result["status"] == word
        assert result["results"].keys() == metadata["results"].keys()
    put(tmp_path / "hosttune", "#!/bin/sh\nexit 2\n")
    assert run(script, PATH=f"{tmp_path}:/usr/bin:/bin", HOME=str(tmp_path)).returncode == 2


def test_warewulf_script_changes_the_image_and_builds_it(tmp_path):
    put(
        tmp_path / "wwctl",
        f'#!/bin/sh\necho "wwctl $*" >> {tmp_path}/calls\n[ "$2" != show ] || echo /images/rocky/rootfs\n',
    )
    put(
        tmp_path / "hosttune",
        f'#!/bin/sh\necho "hosttune $*" >> {tmp_path}/calls\nexit "${{STATUS:-1}}"\n',
    )
    script = FOLDER / "warewulf/apply-to-image.sh"
    assert run(script, "rocky", "node.json", PATH=f"{tmp_path}:/usr/bin:/bin").returncode == 0
    assert (tmp_path / "calls").read_text().splitlines() == [
        "wwctl image show rocky",
        "hosttune apply --root /images/rocky/rootfs --hardware node.json --yes",
        "wwctl image build rocky",
    ]
    (tmp_path / "calls").unlink()
    assert (
        run(script, "rocky", "node.json", PATH=f"{tmp_path}:/usr/bin:/bin", STATUS="2").returncode
        != 0
    )
    assert "build" not in (tmp_path / "calls").read_text()


def test_warewulf_hook_takes_a_record_of_the_node(tmp_path):
    put(
        tmp_path / "hosttune",
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n[ "$1" = record ] || exit 1\n',
    )
    done = run(FOLDER / "warewulf/50-hosttune", PATH=f"{tmp_path}:/usr/bin:/bin")
    recorded, applied = (tmp_path / "calls").read_text().splitlines()
    record = recorded.removeprefix("record ")
    assert (done.returncode, applied) == (0, f"apply --root / --hardware {record} --yes")
    assert not Path(record).exists()


def test_autoinstall_has_known_keys_and_no_late_command_fails_for_what_is_left():
    given = yaml.safe_load((FOLDER / "autoinstall/user-data").read_text())["autoinstall"]
    # of subiquity's autoinstall-schema.json, which lets unknown ones pass
    assert given.keys() <= {"version", "drivers", "late-commands", "user-data"}
    assert given["version"] == 1
    (applied,) = [line for line in given["late-commands"] if " apply " in line]
    assert "--root /target --hardware /run/hardware.json" in applied
    assert applied.endswith("|| [ $? -eq 1 ]'")
    assert not any("in-target" in line and " apply" in line for line in given["late-commands"])
