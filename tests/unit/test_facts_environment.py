"""Variables that files of the system set."""

import pytest

from hosttune.actions.record.commands import shared_job
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.environment import shell_variables, systemd_variables
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

FILES = {
    "/etc/environment": 'PATH="/usr/bin"\nHF_HOME="/data/hf"\nHF_TOKEN=x\nexport TMPDIR=$HOME/tmp\n',
    "/etc/profile.d/nccl.sh": "# export NCCL_P2P_DISABLE=1\nexport NCCL_DEBUG=INFO # site\n",
    "/etc/profile.d/nccl.csh": "setenv NCCL_DEBUG INFO\n",
    "/etc/nccl.conf": "NCCL_SOCKET_IFNAME=eth0\n",
    "/etc/systemd/system.conf.d/10.conf": '[Manager]\nDefaultEnvironment="NCCL_ALGO=Ring" A=1\n',
    "/etc/systemd/system/slurmd.service.d/a.conf": "[Service]\nEnvironment=OMP_NUM_THREADS=1\n",
    "/etc/systemd/system/x.service": "[Service]\n#Environment=NCCL_DEBUG=TRACE\n",
}


def test_variables_of_sessions_services_and_nccl_with_their_places():
    seen = Facts(FakeReader(FILES)).environment
    assert [(one.name, one.value, one.place, one.scope) for one in seen.all] == [
        ("HF_HOME", "/data/hf", "/etc/environment:2", "session"),
        ("TMPDIR", "$HOME/tmp", "/etc/environment:4", "session"),
        ("NCCL_DEBUG", "INFO", "/etc/profile.d/nccl.sh:2", "session"),
        ("NCCL_SOCKET_IFNAME", "eth0", "/etc/nccl.conf:1", "nccl"),
        ("NCCL_ALGO", "Ring", "/etc/systemd/system.conf.d/10.conf:2", "service"),
        ("OMP_NUM_THREADS", "1", "/etc/systemd/system/slurmd.service.d/a.conf:2", "service"),
    ]
    assert [one.name for one in seen.nccl] == ["NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_ALGO"]
    assert [one.name for one in seen.caches] == ["HF_HOME"]
    assert seen.nccl[0].shown == "NCCL_DEBUG=INFO (/etc/profile.d/nccl.sh:2)"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("export A='b c'; export D=1\n", [(1, "A", "b c")]),
        ("  A=\n#B=1\nif x; then C=2; fi\n", [(1, "A", "")]),
        ("export A=1 B='c d' # E=1\n", [(1, "A", "1"), (1, "B", "c d")]),
        ("A=1 B=2\n", [(1, "A", "1")]),
    ],
)
def test_shell_lines_are_read_as_they_stand(content, found):
    assert list(shell_variables(content)) == found


def test_systemd_lines_hold_several_words():
    content = "Environment=A=1 \"B=2 3\" 'C=4'\nEnvironmentFile=/x\n"
    assert list(systemd_variables(content)) == [(1, "A", "1"), (1, "B", "2 3"), (1, "C", "4")]


def test_file_that_cannot_be_read_makes_it_unknown():
    with pytest.raises(UnknownFact):
        _ = Facts(FakeReader({"/etc/environment": Unreadable("no")})).environment.nccl


def test_masked_unit_is_not_read():
    reader = FakeReader({}, links={"/etc/systemd/system/x.service": "/dev/null"})
    assert Facts(reader).environment.all == ()


def test_shared_record_keeps_all_variables_of_a_line():
    """A second one was lost, and NCCL's paths looked free in the record of a host that closes them."""
    kept = shared_job("#!/bin/sh\nexport NCCL_DEBUG=INFO A=1 NCCL_P2P_DISABLE=1\n", "script")
    assert list(shell_variables(kept)) == [(2, "NCCL_DEBUG", "INFO"), (2, "NCCL_P2P_DISABLE", "1")]
