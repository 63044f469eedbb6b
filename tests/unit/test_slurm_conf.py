"""The grammar of Slurm's files, and what a node's line asks for."""

from __future__ import annotations

from time import process_time

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.services.slurm import cpus_of, gpus_of, mig_of, short_of
from hosttune.facts.slurm_conf import (
    hosts_in,
    names_host,
    settings_of,
    slurm_files,
    slurm_rows,
    with_defaults,
)
from tests.unit.fake_reader import FakeReader


def rows(files):
    return [
        (row.place, row.values)
        for row in slurm_rows("/etc/slurm/slurm.conf", lambda path: files.get(path, ""))
    ]


def test_rows_have_keys_in_lower_case_and_values_in_quotes_or_without_blanks():
    text = 'TmpFS = /tmp # TmpFS=/x\n\nNodeName=a Reason="a b" Gres=gpu:1\nA=1 \\\n  B=2\nC\\#=3\n'
    assert rows({"/etc/slurm/slurm.conf": text})[:3] == [
        ("/etc/slurm/slurm.conf:1", {"tmpfs": "/tmp"}),
        ("/etc/slurm/slurm.conf:3", {"nodename": "a", "reason": "a b", "gres": "gpu:1"}),
        ("/etc/slurm/slurm.conf:4", {"a": "1", "b": "2"}),
    ]


def test_what_is_included_stands_in_its_place_once_and_by_the_name_of_the_cluster():
    files = {
        "/etc/slurm/slurm.conf": "ClusterName=deep\nINCLUDE sub/%c.conf\nA=3\n",
        "/etc/slurm/sub/deep.conf": "A=2\ninclude slurm.conf\ninclude other.conf\n",
        "/etc/slurm/other.conf": "A=1\n",
    }
    assert [one["a"] for _, one in rows(files) if "a" in one] == ["2", "1", "3"]
    assert [path for path, _ in slurm_files("/etc/slurm/slurm.conf", lambda path: files.get(path, ""))] == [
        "/etc/slurm/slurm.conf", "/etc/slurm/sub/deep.conf", "/etc/slurm/other.conf",
    ]  # fmt: skip


def test_no_more_than_a_hundred_files_are_opened():
    opened = []

    def endless(path):
        opened.append(path)
        return f"Include {len(opened)}.conf\n"

    assert list(slurm_rows("/a", endless)) == []
    assert len(opened) == 100


def test_defaults_count_for_the_lines_below_them_and_settings_for_all():
    text = "NodeName=DEFAULT CPUs=4\nNodeName=a\nNodeName=DEFAULT RealMemory=7\nNodeName=b CPUs=8\nCPUs=1\n"
    found = list(slurm_rows("/a", lambda _: text))
    assert [(row.values["nodename"], row.values["cpus"], row.values.get("realmemory")) for row in with_defaults(found, "nodename")] == [
        ("a", "4", None), ("b", "8", "7"),
    ]  # fmt: skip
    assert settings_of(found) == {"cpus": "1"}


def test_list_of_hosts_is_split_in_one_pass():
    before = process_time()
    assert len(hosts_in("a," * 60_000)) == 60_000
    assert names_host("b," * 60_000 + "a", "a")
    assert process_time() - before < 5  # what is quadratic takes a minute


@pytest.mark.parametrize(
    ("expression", "hosts"),
    [
        ("a", ("a",)),
        ("gpu[01-03,9],head", ("gpu01", "gpu02", "gpu03", "gpu9", "head")),
        ("r[0-1]n[8-9]x", ("r0n8x", "r0n9x", "r1n8x", "r1n9x")),
        ("/dev/nvidia[0-1]", ("/dev/nvidia0", "/dev/nvidia1")),
    ],
)
def test_lists_of_hosts(expression, hosts):
    assert hosts_in(expression) == hosts
    assert all(names_host(expression, host) for host in hosts)
    assert not names_host(expression, f"{hosts[0]}0")


@pytest.mark.parametrize(
    "expression", ["a[1-x]", "a[1", "a[]", "a[0-99999999]", "a[1-60000]b[1-60000]"]
)
def test_what_is_no_list_or_too_long_is_refused(expression):
    with pytest.raises(ValueError, match="hosts"):
        hosts_in(expression)


@pytest.mark.parametrize(
    ("gres", "count", "is_mig"),
    [
        ("gpu:8", 8, False),
        ("gpu", 1, False),
        ("gpu:a100", 1, False),
        ("gpu:a100:4(S:0,1),shard:64,gpu:a2:2", 6, False),
        ("nic:2,craynetwork:4", 0, False),
        ("gpu:a100_1g.10gb:14", 14, True),
        ("gpu:1g.10gb:14", 14, True),
        ("GPU:1K", 1024, False),
    ],
)
def test_gpus_of_gres(gres, count, is_mig):
    assert gpus_of(gres) == (count, is_mig)


@pytest.mark.parametrize(
    ("line", "cpus"),
    [
        ({}, 0),
        ({"cpus": "64"}, 64),
        ({"procs": "64"}, 64),
        ({"sockets": "2", "corespersocket": "32", "threadspercore": "2"}, 128),
        ({"boards": "2", "socketsperboard": "1", "corespersocket": "32"}, 64),
        ({"cpus": "64", "corespersocket": "32", "threadspercore": "2"}, 64),
        ({"cpus": "128", "sockets": "2", "corespersocket": "32"}, 128),
        ({"corespersocket": "32"}, 32),
    ],
)
def test_processors_of_a_line(line, cpus):
    assert cpus_of(line) == cpus


@pytest.mark.parametrize(
    ("gres", "profiles", "short"),
    [
        ("gpu:1g.10gb.me:1,gpu:1g.10gb:1", ("1g.10gb+me", "1g.10gb"), ()),
        ("gpu:a100_3g.40gb:2", ("3g.40gb",), ("Gres has 2 of 3g.40gb, and there are 1",)),
        ("gpu:1g.10gb:7", None, ()),
    ],
)
def test_mig_devices_that_a_gres_asks_for(gres, profiles, short):
    assert short_of(mig_of(gres), profiles) == short


@pytest.mark.parametrize("gres", ["", "Name=gpu File=/dev/nvidia0\n"])
def test_devices_of_a_node_that_slurm_conf_does_not_name_are_unknown(gres):
    files = {
        "/etc/slurm/slurm.conf": "NodeName=other\n",
        "/etc/slurm/gres.conf": gres,
        "/etc/hostname": "here\n",
    }
    slurm = Facts(FakeReader(files)).slurm

    for name in ("missing_devices", "has_gpu_devices", "wants_plain_nvml"):
        with pytest.raises(UnknownFact, match=r"slurm\.conf names no node here"):
            getattr(slurm, name)


def test_reason_of_what_slurm_gives_a_node_is_the_file_that_names_the_node():
    unreadable = {f"/etc/slurm/{name}.conf": f"no {name}" for name in ("slurm", "gres")}
    slurm = Facts(FakeReader({"/etc/hostname": "here\n"}, unreadable=unreadable)).slurm

    with pytest.raises(UnknownFact, match="no slurm"):
        slurm.missing_devices  # noqa: B018
