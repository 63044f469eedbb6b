"""With how many open files containers start."""

import pytest

from hosttune.facts import Facts
from tests.hosts.container_files import limits_text, service_files
from tests.unit.fake_reader import FakeReader
from tests.unit.test_facts_limits import KERNEL

MILLION = limits_text(1048576, 1048576)
RAISED = limits_text(524288, 524288)  # as a program in Go raises its own soft limit
PLAIN = {"/etc/systemd/system/containerd.service": "[Service]\nExecStart=/usr/bin/containerd\n"}


def told(*services, **files):
    own = {path: content for one in services for path, content in service_files(*one).items()}
    found = Facts(FakeReader({**KERNEL, **own, **files})).container_limits.all
    return [(one.engine, one.soft, one.hard, one.unit) for one in found]


def containerd(limits):
    return ("containerd.service", 7, "containerd", limits)


DOCKER = ("docker.service", 8, "dockerd", MILLION)


@pytest.mark.parametrize(
    ("limits", "files", "soft"),
    [
        (limits_text(), {}, 1024),
        (RAISED, {}, 524288),  # nothing is known of its unit
        (RAISED, PLAIN, 1024),
        (
            RAISED,
            {**PLAIN, "/etc/systemd/system.conf": "[Manager]\nDefaultLimitNOFILE=4096:524288\n"},
            4096,
        ),
        (
            RAISED,
            {"/etc/systemd/system/containerd.service": "[Service]\nLimitNOFILE=65536:524288\n"},
            65536,
        ),
        (
            MILLION,
            {"/etc/systemd/system/containerd.service": "[Service]\nLimitNOFILE=infinity\n"},
            1048576,
        ),
        (MILLION, PLAIN, 1048576),  # its files were changed since it was started
        (
            RAISED,
            {"/etc/systemd/system/containerd.service": "[Service]\nLimitNOFILE=many\n"},
            524288,
        ),
    ],
)
def test_containers_have_the_limit_with_which_containerd_was_started(limits, files, soft):
    (found,) = told(containerd(limits), DOCKER, **files)

    assert (found[0], found[1], found[3]) == ("Docker", soft, "containerd.service")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/etc/docker/daemon.json": '{"default-ulimits": {"nofile": {"Name": "nofile", "Soft": 9, "Hard": 10}}}'}, (9, 10)),
        ({"/etc/systemd/system/docker.service": "[Service]\nExecStart=/d --default-ulimit nofile=5:6\n"}, (5, 6)),
        ({"/etc/systemd/system/docker.service": "[Service]\nExecStart=/d --default-ulimit nofile=5\n"}, (5, 5)),
    ],
)  # fmt: skip
def test_docker_gives_its_own_default(files, expected):
    assert told(containerd(limits_text()), DOCKER, **files) == [("Docker", *expected, "")]


def test_pods_have_the_limit_of_containerd_or_of_the_one_program():
    kubelet, k3s = (
        ("kubelet.service", 9, "kubelet", MILLION),
        ("k3s.service", 9, "k3s-server", MILLION),
    )

    assert told(containerd(limits_text()), kubelet) == [
        ("Kubernetes", 1024, 524288, "containerd.service")
    ]
    assert told(k3s) == [("Kubernetes", 1048576, 1048576, "k3s.service")]
    assert told(kubelet) == []


def test_containerd_by_itself_and_no_engine():
    assert told(containerd(limits_text())) == [("containerd", 1024, 524288, "containerd.service")]
    assert told() == []
