"""What a person may give a playbook, in each form that Ansible has for it; and what a program reads
of a play.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.controller import PLAYBOOKS, Controller
from tests.fleet.hosts import Fleet

pytestmark = pytest.mark.fleet

SECRET = "# known to the site alone"
POLICY_TEXT = f"ignore: [storage-noatime]\n{SECRET}\n"
JSON_LINES = """
from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "stdout", "own_jsonl"

    def v2_runner_on_ok(self, result):
        self._display.display('{"host": "%s"}' % result._host.get_name())
"""


def test_files_out_of_a_vault_count_and_reach_no_log(
    either: Controller, fleet: Fleet, tmp_path: Path
):
    (tmp_path / "password").write_text("correct horse\n")
    (tmp_path / "policy.yml").write_text(POLICY_TEXT)
    done = either.run("ansible-vault", "encrypt", "--vault-password-file", "password", "policy.yml")
    assert done.returncode == 0, done.stderr
    words = ("--limit", "gpu01", "--vault-password-file", str(tmp_path / "password"), "-vvv")
    seen = either.play("check.yml", *words, hosttune_policy_file="policy.yml")
    assert seen.failed() == {"gpu01"}  # the rest of its plan
    assert "limits-nofile" in seen.output
    assert "storage-noatime:" not in seen.output
    assert SECRET not in seen.output
    locked = either.play("check.yml", "--limit", "gpu01", hosttune_policy_file="policy.yml")
    assert (
        f"  gpu01: {tmp_path}/policy.yml: Attempting to decrypt but no vault secrets found"
        in locked.output
    )


def test_lists_are_lists_or_words_with_commas(either: Controller, fleet: Fleet):
    seen = either.play(
        "check.yml", "--limit", "gpu01", hosttune_only="storage-noatime, limits-nofile", results=""
    )
    (digest,) = {
        line.split()[1] for line in seen.output.splitlines() if line.startswith("  digest ")
    }
    words: dict[str, Any] = {
        "hosttune_only": ["storage-noatime", "limits-nofile"],
        "approved": ["0" * 12, digest[:12]],
    }
    made = either.play("apply.yml", "--limit", "gpu01", **words)
    assert made.status == 0, made.output
    (run,) = fleet["gpu01"].run("ls", "/var/lib/hosttune/runs").split()
    back = either.play("undo.yml", "--limit", "gpu01", run_id=[run.removesuffix(".jsonl")])
    assert back.changed() == {"gpu01"}, back.output


@pytest.mark.parametrize("words", [("--tags", "memory"), ("--skip-tags", "untagged")])
def test_tags_that_leave_nothing_to_play_are_an_error(
    words: tuple[str, str], either: Controller, fleet: Fleet
):
    for playbook in ("check.yml", "apply.yml", "undo.yml"):
        seen = either.play(playbook, *words)
        assert seen.status != 0
        assert (
            f"{' '.join(words)}: no task of this playbook has a tag, so nothing would be played"
            in seen.output
        )


def test_playbook_of_a_site_may_have_tags(either: Controller, fleet: Fleet, tmp_path: Path):
    other = {"hosts": "gpu01", "gather_facts": False, "tags": ["web"], "tasks": []}
    imported = {"ansible.builtin.import_playbook": "hosttune.hosttune.check", "tags": ["tune"]}
    for tag, is_played in (("tune", True), ("web", False)):
        seen = either.play([imported, other], "--limit", "gpu01", "--tags", tag, results="")
        assert ("changes to make" in seen.output) == is_played, seen.output
        assert seen.status == (2 if is_played else 0)


def test_task_in_the_background_is_refused_with_the_reason(either: Controller, fleet: Fleet):
    task = {"hosttune.hosttune.tune": {}, "become": True, "async": 60, "poll": 1}
    seen = either.play([{"hosts": "gpu01", "gather_facts": False, "tasks": [task]}])
    assert seen.failed() == {"gpu01"}
    assert "async: this module does not run in the background" in seen.output


def test_host_whose_name_has_a_slash_has_its_file(
    controller: Controller, fleet: Fleet, tmp_path: Path
):
    text = (tmp_path / "inventory.yml").read_text()
    (tmp_path / "inventory.yml").write_text(text.replace("gpu01:", "rack1/gpu01:"))
    seen = controller.play(
        "check.yml", "--limit", "rack1/gpu01", results=str(tmp_path / "results"), gather="record"
    )
    assert "failed or gave no answer" not in seen.output
    kept = {
        path.relative_to(tmp_path / "results").as_posix()
        for path in (tmp_path / "results").rglob("*.json")
    }
    assert kept == {"rack1%2Fgpu01.json", "records/rack1%2Fgpu01.json"}
    assert (
        json.loads((tmp_path / "results/rack1%2Fgpu01.json").read_text())["hosts"][0]["host"]
        == "rack1/gpu01"
    )


def test_program_that_reads_json_gets_nothing_else(
    either: Controller, fleet: Fleet, tmp_path: Path
):
    (tmp_path / "callbacks").mkdir()
    (tmp_path / "callbacks/own_jsonl.py").write_text(JSON_LINES)
    env = {
        "ANSIBLE_STDOUT_CALLBACK": "own_jsonl",
        "ANSIBLE_CALLBACK_PLUGINS": str(tmp_path / "callbacks"),
    }
    words = (
        "-i",
        str(tmp_path / "inventory.yml"),
        str(PLAYBOOKS / "check.yml"),
        "--limit",
        "gpu01",
        "-e",
        "results=",
    )
    seen = either.run(
        "ansible-playbook", *words, "-e", f"hosttune_bundle={tmp_path / 'none'}", env=env
    )
    assert [json.loads(line)["host"] for line in seen.stdout.splitlines()]
    assert "1 host: failed or gave no answer\n" in seen.stderr
