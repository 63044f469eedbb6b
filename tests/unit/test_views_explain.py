"""`explain` on hosts: no template is left raw, the way by hand has this host's values, the way back removes our file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.engine.catalog import builtin_catalog
from hosttune.engine.policy import Policy
from hosttune.host.record import read_record
from hosttune.values import Address, Disturbs, Risk
from hosttune.views.by_hand import Told, ways
from hosttune.views.explain import explain_text, explained
from hosttune.views.page import Page
from hosttune.views.wording import in_words

HOSTS = sorted((Path(__file__).resolve().parents[1] / "hosts").glob("*.json"))
CATALOG = builtin_catalog()
POLICY = Policy(max_risk=Risk.HIGH, disturb=Disturbs.GPU_WORK, today="2026-01-01")


def explanation(rule, host):
    session = examine(read_record(str(host)), CATALOG, POLICY.only(rule))
    findings = session.plan(prove=False).findings
    return explained(CATALOG.rules[rule], session.facts, POLICY, CATALOG, findings)


def by_hand(rule, host):
    one = explanation(rule, next(path for path in HOSTS if path.stem == host))
    return " | ".join(one.does), " | ".join(one.undoes)


@pytest.mark.parametrize("host", HOSTS, ids=lambda path: path.stem)
def test_explain_leaves_no_template_raw_and_names_the_files_of_ours_to_remove(host):
    for rule in CATALOG.rules:
        one = explanation(rule, host)
        text = explain_text(one, Page(host=host.stem))
        assert "{{" not in text, text
        made = {change.address.name for finding in one.findings for change in finding.changes if is_ours(change)}
        assert [path for path in made if path not in " ".join(one.undoes)] == []


def is_ours(change):
    """A drop-in below /etc that a rule brings; /tmp has a way of its own by hand."""
    return change.address.kind == "file" and "/60-hosttune-" in change.address.name and "tmp-tmpfs" not in change.rule


@pytest.mark.parametrize(
    ("rule", "host", "do", "undo"),
    [
        ("kernel-iommu", "gh200-arm64", "$GRUB_CMDLINE_LINUX_DEFAULT iommu.strict=0", "rm /etc/default/grub.d/60-"),
        ("kernel-iommu", "workstation-rtx4090", "grep -c iommu=pt /boot", "60-hosttune-kernel-iommu.cfg && update-grub"),
        (
            "gpu-persistence", "h100-8x-2socket", "without --no-persistence-mode",
            "rm /etc/systemd/system/nvidia-persistenced.service.d/60-hosttune-gpu-persistence.conf && systemctl daemon-reload",
        ),
        ("memory-swappiness", "h100-8x-2socket", "`vm.swappiness = 10`", "sysctl -w vm.swappiness=60"),
        ("network-sysctl", "h100-8x-2socket", "tcp_rmem = 4096 131072 134217728`", "'net.ipv4.tcp_rmem=4096 131072 6291456'"),
        ("limits-nofile", "a100-cloud-vm", "`root hard nofile 524288`", "limits.d/60-hosttune-limits-nofile.conf"),
        ("containers-docker-daemon", "h100-8x-2socket", '{"default-shm-size": "1G"}', "take default-shm-size out"),
        ("storage-noatime", "gh200-arm64", "mount -o remount,noatime /scratch", "remount,relatime /scratch"),
        ("cpu-governor", "h100-8x-2socket", "echo performance | tee /sys", "echo powersave | tee /sys"),
        ("gpu-profiling", "h100-8x-2socket", "options nvidia NVreg_RestrictProfilingToAdminUsers=0", "rm /etc/modprobe.d/"),
    ],
)  # fmt: skip
def test_by_hand_has_the_values_of_the_host(rule, host, do, undo):
    does, undoes = by_hand(rule, host)
    assert do in does
    assert undo in undoes


def test_way_back_of_a_unit_leaves_the_dropins_of_others():
    (_, (undo,)) = ways(
        (Told("systemd-setting", "docker.service/Service/LimitMEMLOCK", "a-rule", "exactly", "infinity"),)
    )
    assert undo.startswith("rm /etc/systemd/system/docker.service.d/60-hosttune-a-rule.conf && systemctl daemon-reload")
    assert "revert" not in undo


def test_other_spelling_of_a_sysctl_is_put_back_as_it_was():
    told = Told(
        "sysctl", "vm.dirty_bytes", "a", "at_most", "1", old={Address("sysctl", "vm.dirty_bytes"): "vm.dirty_ratio=20"}
    )
    assert ways((told,))[1][0].endswith("sysctl -w vm.dirty_ratio=20")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("item.target", "TARGET"),
        ("'a' if x.y else 'b'", "a or b"),
        ("'a' if x.y else ''", "a"),
        ("'; first' if x.y else ', second'", "; first"),
        ("join([m.name + ' on ' + m.place for m in x.all])", "NAME on PLACE"),
        ("round(x.size / 3)", "N"),
        ("gib_text(x.total_bytes)", "TOTAL_BYTES"),
        ("x.parts[0]", "PARTS"),
        ("'pci:' + x.models[0]", "pci:MODELS"),
    ],
)
def test_expression_in_words(source, words):
    assert in_words(ast.parse(source, mode="eval").body) == words
