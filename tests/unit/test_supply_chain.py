"""What builds, signs and publishes: rights, pins, and that every file of a release is signed."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.yaml_files import read_yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
RELEASE = read_yaml(ROOT / ".github/workflows/release.yml")["jobs"]
GITLAB = read_yaml(ROOT / ".gitlab-ci.yml")
RIGHTS = {
    "test": {"contents": "read"},
    "build": {"contents": "read"},
    "sign": {"id-token": "write", "attestations": "write"},
    "assets": {"contents": "write", "attestations": "read"},
    "pypi": {"id-token": "write"},
}
# What `./run release` makes (tests/install/test_release.py holds that), and the signatures.
FILES = {
    "hosttune-VERSION-py3-none-any.whl", "hosttune-VERSION.tar.gz", "hosttune_VERSION_all.deb", "hosttune.pyz",
    "hosttune-hosttune-VERSION.tar.gz", "sbom.cdx.json", "SHA256SUMS", "hosttune.sigstore.json",
}  # fmt: skip


def jobs():
    for path in WORKFLOWS:
        yield from read_yaml(path)["jobs"].items()


def steps_of(job, key):
    return [step[key] for step in job["steps"] if key in step]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_has_no_right_that_no_job_asks_for(path):
    assert read_yaml(path)["permissions"] == {}


@pytest.mark.parametrize(
    ("name", "job"), [*jobs()], ids=lambda one: one if isinstance(one, str) else ""
)
def test_job_has_the_rights_that_it_needs_and_no_others(name, job):
    assert job["permissions"] == RIGHTS[name]
    runs_our_code = any("./run" in line for line in steps_of(job, "run"))
    assert not runs_our_code or set(job["permissions"].values()) == {"read"}
    assert not [
        line for line in steps_of(job, "run") if "${{" in line
    ]  # a name of a tag is no part of a script
    checkouts = [
        step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_action_is_pinned_by_its_commit(path):
    used = re.findall(r"uses: (\S+)(.*)", path.read_text(encoding="utf-8"))
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v[\d.]+", comment), action


def test_release_signs_every_file_that_it_builds_and_publishes_no_other():
    assert "./run release dist/release" in steps_of(RELEASE["build"], "run")
    (built,) = [
        step["with"]
        for step in RELEASE["build"]["steps"]
        if step.get("with", {}).get("name") == "release"
    ]
    assert built["path"] == "dist/release"
    assert [RELEASE[name]["needs"] for name in ("sign", "assets", "pypi")] == [
        "build",
        "sign",
        "sign",
    ]
    (attest,) = [
        step
        for step in RELEASE["sign"]["steps"]
        if step.get("uses", "").startswith("actions/attest@")
    ]
    assert attest["with"] == {"subject-path": "release/*"}
    verified, published = steps_of(RELEASE["assets"], "run")
    assert "for file in release/*; do" in verified
    assert "gh attestation verify" in verified
    assert "--signer-workflow" in verified
    assert "release/* signatures/hosttune.sigstore.json" in published
    assert [RELEASE[name]["environment"] for name in ("assets", "pypi")] == ["release", "pypi"]


def test_files_of_a_release_are_those_that_users_are_told_to_verify():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## Verify a release")[2]
    told = {
        name
        for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", row)
    }
    assert told == FILES
    assert all(
        fnmatch(name, "hosttune*") or name in {"sbom.cdx.json", "SHA256SUMS"} for name in told
    )


def test_gitlab_runs_nothing_as_root_on_a_machine_of_ones_own_that_is_not_merged():
    tagged = [job for job in GITLAB.values() if isinstance(job, dict) and "tags" in job]
    assert tagged == [GITLAB["test-all"]]
    never, when = GITLAB["test-all"]["rules"]
    assert never["when"] == "never"
    assert "merge_request_event" in never["if"]
    assert when == {"if": '$CI_COMMIT_REF_PROTECTED == "true" && $HOSTTUNE_ROOT_RUNNER == "yes"'}
    for name in ("build", "pypi"):
        assert '$CI_COMMIT_REF_PROTECTED == "true"' in GITLAB[name]["rules"][0]["if"]


def test_nothing_is_installed_from_an_index_without_hashes():
    run = (ROOT / "run").read_text(encoding="utf-8")
    texts = [
        *(path.read_text(encoding="utf-8") for path in WORKFLOWS),
        (ROOT / ".gitlab-ci.yml").read_text(encoding="utf-8"),
        run,
    ]
    lines = [
        line
        for text in texts
        for line in text.replace("\\\n", " ").splitlines()
        if re.search(r"\bpip install\b", line)
    ]
    assert len(lines) == 4
    for line in lines:
        assert re.search(
            r"--require-hashes --(only|no)-binary=:all: --no-deps|--no-index --no-deps", line
        ), line
