"""The first policy of a host: what is in force, what is offered, and when it is written."""

import re
from types import SimpleNamespace

import pytest

from hosttune.cli.app import run
from hosttune.engine.policy.file import PATH, build_policy
from hosttune.engine.policy.first_policy import first_policy, has_content
from hosttune.engine.policy.proposal import Proposal
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.yamlio import load_document
from hosttune.facts.storage.spare import SpareDisk
from hosttune.values import Address, Finding, Verdict
from tests.hosts.built import HOSTS

NOW = 1_795_000_000.0  # 2026-11-18
TODAY = "2026-11-18"


def disk(name: str, tag: str, *, is_ephemeral: bool = False) -> SpareDisk:
    return SpareDisk(
        name, f"/dev/{name}", 1 << 40, is_ephemeral, False, "xfs", (tag, f"/dev/{name}")
    )


def made(
    *disks: SpareDisk,
    found: Proposal | None = None,
    findings: tuple[Finding, ...] = (),
    mounted: tuple[str, ...] = (),
    lines: tuple[str, ...] = (),
) -> str:
    facts = SimpleNamespace(
        spare=SimpleNamespace(all=disks),
        mounts=SimpleNamespace(at=dict.fromkeys(mounted)),
        fstab=SimpleNamespace(by_path=dict.fromkeys(lines)),
    )
    return first_policy(
        "h\x1b[1m", facts, found, findings, {"memory-swappiness": "Swapping: of memory"}, NOW
    )


def parsed(text: str):
    return build_policy(load_document(text, "policy.yaml"), builtin_catalog(), TODAY)


def test_profile_that_fits_is_in_force_and_all_else_is_offered():
    changed = Finding(
        "memory-swappiness", "", Verdict.DIFFERS, changes=(Address("sysctl", "vm.swappiness"),)
    )
    right = Finding("storage-noatime", "", Verdict.OK)
    hostile = disk("sdb", 'LABEL=x"} #\nprofile: workstation')
    disks = (disk("nvme1n1", "UUID=d2-7e"), disk("nvme2n1", "UUID=e", is_ephemeral=True), hostile)
    text = made(
        *disks,
        found=Proposal("train-multinode", "it has RDMA\n(mlx5_0)"),
        findings=(changed, right),
    )
    policy = parsed(text)
    assert (policy.profile, policy.waivers, policy.declared.data_mounts) == (
        "train-multinode",
        (),
        (),
    )
    assert "\x1b" not in text
    offered = parsed(re.sub(r"^#(?=\S|  )", "", text, flags=re.MULTILINE))
    assert [(one.source, one.target) for one in offered.declared.data_mounts] == [
        ("UUID=d2-7e", "/data1")
    ]
    assert [(one.rule, str(one.until)) for one in offered.waivers] == [
        ("memory-swappiness", "2027-05-17")
    ]


def test_target_that_is_taken_is_not_offered():
    text = made(
        disk("sdb", "UUID=b"), disk("sdc", "UUID=c"), mounted=("/", "/data1"), lines=("/data3",)
    )
    assert '#  - {source: "UUID=b", target: /data2}' in text
    assert '#  - {source: "UUID=c", target: /data4}' in text


def test_host_that_fits_no_other_profile_gets_the_default():
    assert parsed(made()).profile == "base"
    assert made().count("\n") == 4


def test_policy_of_comments_may_be_replaced():
    assert not has_content(b"# a\n\n  # profile: base\n")
    assert has_content(b"# a\nprofile: base\n")


def test_record_is_shown_and_never_written(capsys, monkeypatch):
    monkeypatch.setattr(
        "hosttune.host.writing.replace.replace", lambda *_, **__: pytest.fail("written")
    )
    assert run(["init", "--host", str(HOSTS / "h100-8x-2socket.json")]) == 0
    out, err = capsys.readouterr()
    assert "\n# it has GPUs and RDMA (mlx5_0)\nprofile: train-multinode\n" in out
    assert "\n#  # tmpfs on /tmp\n" in out or "\n#  # Swapping of job memory\n" in out
    assert max(map(len, out.splitlines()[1:])) <= 80
    assert '#  - {source: "UUID=d2-7e", target: /data1}' in out
    assert err == ""
    assert run(["init", "--yes", "--host", str(HOSTS / "h100-8x-2socket.json")]) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"profile: base\n", "is there already"), (None, "cannot be read: not allowed")],
)
def test_policy_that_is_there_stays(content, said, capsys, monkeypatch):
    from hosttune.host.reading.live import LiveReader
    from hosttune.values import Unreadable

    read = LiveReader.read
    there = Unreadable("not allowed") if content is None else content
    monkeypatch.setattr(
        LiveReader, "read", lambda self, path: there if path == PATH else read(self, path)
    )
    monkeypatch.setattr("hosttune.cli.common.require_root", lambda *_: None)
    monkeypatch.setattr(
        "hosttune.host.writing.replace.replace", lambda *_, **__: pytest.fail("written")
    )
    assert run(["init", "--yes"]) == 2
    assert f"{PATH} {said}; nothing was written" in capsys.readouterr().err
