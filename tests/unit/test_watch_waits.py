"""What a job sleeps on: from names of kernel functions and open files, and by looking at real
processes.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from hosttune.measure.watch import sockets, waits
from hosttune.measure.watch.sockets import (
    OpenSocket,
    inode_of,
    is_local,
    tcp_socket,
    tcp_sockets,
    unix_sockets,
)
from hosttune.measure.watch.tick import Wait, Want
from hosttune.measure.watch.waits import Ends, Sleeper, Waits, first_argument, wait_of

NONE = Ends({}, {}, {})
STORE = OpenSocket(7, "10.0.0.2:4000", "10.0.0.9:9000", received=100)


def wait(channel, links=None, *, file=None, others=None, tcp=(), unix=()):
    ends = Ends(
        {1: links or {}, **(others or {})},
        {one.inode: one for one in tcp},
        {one.inode: one for one in unix},
    )
    return wait_of([Sleeper(1, channel, file)], ends)


@pytest.mark.parametrize(
    ("channel", "kind"),
    [
        ("sk_wait_data", Want.NETWORK), ("wait_woken", Want.NETWORK), ("__skb_wait_for_more_packets", Want.NETWORK),
        ("rpc_wait_bit_killable", Want.NETWORK), ("request_wait_answer", Want.PEER), ("locks_lock_inode_wait", Want.LOCK),
        ("flock_lock_inode_wait", Want.LOCK), ("unix_stream_data_wait", Want.PEER), ("hrtimer_nanosleep", Want.TIMER),
        ("do_sigtimedwait.isra.0", Want.TIMER), ("futex_wait_queue", Want.LOCK), ("ep_poll", Want.TIMER),
    ],
)  # fmt: skip
def test_wait_channel_tells_what_a_task_sleeps_on(channel, kind):
    assert wait(channel).kind is kind


@pytest.mark.parametrize("channel", ["", "0", "do_wait", "io_schedule", "something_new"])
def test_channel_that_tells_nothing_is_no_evidence(channel):
    assert wait(channel) is None


def test_file_system_of_a_process_waits_for_that_process_and_names_the_file():
    assert wait("request_wait_answer", {3: "/far/a.jpg"}, file=3) == Wait(
        Want.PEER, "the server of /far/a.jpg, through FUSE"
    )
    assert wait("fuse_simple_request").what == "the server of a FUSE file system"


def test_connection_is_named_by_its_other_end():
    assert wait("sk_wait_data", {5: "socket:[7]"}, file=5, tcp=[STORE]) == Wait(
        Want.NETWORK, "10.0.0.9:9000"
    )
    assert wait("do_poll", {5: "socket:[7]"}, tcp=[STORE]) == Wait(Want.NETWORK, "10.0.0.9:9000")
    local = OpenSocket(7, "127.0.0.1:4000", "127.0.0.1:9000")
    assert wait("ep_poll", {5: "socket:[7]"}, tcp=[local]).what == "127.0.0.1:9000 (this host)"


def test_connection_that_is_asked_for_only_is_one_that_does_not_answer():
    asked = OpenSocket(7, "10.0.0.2:4000", "192.0.2.1:443", is_asking=True)
    assert (
        wait("do_poll", {5: "socket:[7]"}, tcp=[asked]).what
        == "192.0.2.1:443, which does not answer"
    )
    both = wait("do_poll", {5: "socket:[7]", 6: "socket:[8]"}, tcp=[asked, replace(STORE, inode=8)])
    assert both.what == "10.0.0.9:9000"  # one of them works
    body = bytes([socket.AF_INET, 2, 0, 0]) + struct.pack(">HH", 1, 2) + bytes(64)
    assert tcp_socket(body).is_asking


def test_server_that_waits_for_somebody_to_come_waits_for_no_store():
    assert wait(
        "ep_poll",
        {5: "socket:[7]"},
        tcp=[OpenSocket(7, "0.0.0.0:80", "0.0.0.0:0", is_listening=True)],
    ) == Wait(Want.TIMER)


@pytest.mark.parametrize(
    "channel", ["__skb_wait_for_more_packets", "inet_csk_accept", "unix_accept"]
)
def test_thread_that_accepts_beside_the_work_is_no_wait(channel):
    """ami-data-companion issue 140: a loader of PyTorch accepts on a UNIX socket, and its main
    process polls a pipe.
    """
    listening = {"unix": [OpenSocket(7)]} if "inet" not in channel else {}
    tcp = [] if listening else [OpenSocket(7, "127.0.0.1:29500", "0.0.0.0:0", is_listening=True)]
    assert wait(channel, {14: "socket:[7]"}, file=14, tcp=tcp, **listening) is None
    ends = Ends(
        {1: {14: "socket:[7]"}},
        {one.inode: one for one in tcp},
        {7: OpenSocket(7)} if listening else {},
    )
    assert wait_of([Sleeper(1, channel, 14), Sleeper(1, "futex_do_wait")], ends) == Wait(
        Want.LOCK, "in memory"
    )


def test_datagrams_of_a_socket_of_this_host_are_no_network():
    pair = [OpenSocket(7, peer=8), OpenSocket(8, peer=7)]
    assert wait("__skb_wait_for_more_packets", {5: "socket:[7]"}, file=5, unix=pair) == Wait(
        Want.PEER, "a socket of this host"
    )


@pytest.mark.parametrize(
    ("call", "is_page"), [("-1 0x7ffd 0x7f01\n", True), ("0 0x3 0x7f 0x1000\n", False), ("", False)]
)
@pytest.mark.parametrize("channel", ["request_wait_answer", "rpc_wait_bit_killable"])
def test_page_of_a_mapped_file_is_waited_for_in_no_system_call(tmp_path, channel, call, is_page):
    task = tmp_path / "7/task/7"
    task.mkdir(parents=True)
    (task / "wchan").write_text(channel)
    (task / "syscall").write_text(call)
    looks = Waits(str(tmp_path))
    assert looks.look({7: "S"}).is_page is is_page
    looks.close()


def test_connection_between_two_processes_of_the_job_is_their_own_affair():
    ends = [
        OpenSocket(7, "127.0.0.1:1", "127.0.0.1:2"),
        OpenSocket(8, "127.0.0.1:2", "127.0.0.1:1"),
    ]
    found = wait("do_poll", {5: "socket:[7]"}, others={2: {3: "socket:[8]"}}, tcp=ends)
    assert found.kind is not Want.NETWORK


def test_pipe_is_the_jobs_own_where_it_holds_both_ends():
    assert wait("pipe_read", {0: "pipe:[9]"}, file=0) == Wait(Want.PEER, "a pipe")
    assert wait("pipe_read", {0: "pipe:[9]"}, file=0, others={2: {1: "pipe:[9]>"}}) == Wait(
        Want.EACH_OTHER
    )
    assert wait("pipe_read", {0: "pipe:[9]"}, file=0, others={2: {0: "pipe:[9]"}}) == Wait(
        Want.PEER, "a pipe"
    )
    assert wait("pipe_read", {3: "pipe:[9]", 4: "pipe:[9]>"}, file=3) == Wait(Want.EACH_OTHER)
    assert wait("pipe_write", {1: "pipe:[9]>"}, file=1) == Wait(Want.PEER, "a pipe")
    assert wait("anon_pipe_read", {3: "/run/feed"}, file=3) == Wait(Want.PEER, "the pipe /run/feed")


def test_socket_of_this_host_is_the_jobs_own_where_it_holds_the_other_end():
    pair = [OpenSocket(7, peer=8), OpenSocket(8, peer=7)]
    assert wait("unix_stream_data_wait", {5: "socket:[7]"}, file=5, unix=pair) == Wait(
        Want.PEER, "a socket of this host"
    )
    own = wait(
        "unix_stream_data_wait", {5: "socket:[7]"}, file=5, others={2: {4: "socket:[8]"}}, unix=pair
    )
    assert own == Wait(Want.EACH_OTHER)


def test_what_comes_from_outside_leads_what_the_job_hands_itself():
    sleepers = [
        Sleeper(1, "futex_wait_queue"),
        Sleeper(2, "hrtimer_nanosleep"),
        Sleeper(3, "sk_wait_data"),
    ]
    assert wait_of(sleepers, NONE).kind is Want.NETWORK
    assert (
        wait_of(sleepers[:2], NONE).kind is Want.TIMER
    )  # a thread that sleeps, and one that waits for it
    assert wait_of(sleepers[:1], NONE) == Wait(Want.LOCK, "in memory")
    assert (
        wait_of([Sleeper(1, "futex_wait_queue"), Sleeper(1, "pipe_read")], NONE).kind
        is Want.EACH_OTHER
    )
    assert wait_of([], NONE) is None


@pytest.mark.parametrize("channel", ["sigsuspend.isra.0", "do_sigtimedwait.isra.0"])
def test_program_that_waits_for_the_end_of_the_job_is_not_what_the_job_waits_for(channel):
    """`timeout 1h python train.py`, or tini in a container."""
    around, inside = Sleeper(1, channel), Sleeper(2, "pipe_read", 3)
    ends = Ends({1: {}, 2: {3: "pipe:[9]", 4: "pipe:[9]>"}}, {}, {})
    assert wait_of([around, inside], ends) == Wait(Want.EACH_OTHER)
    assert (
        wait_of([around], ends)
        == wait_of([around, Sleeper(2, "do_wait")], ends)
        == Wait(Want.TIMER)
    )


def test_lock_is_named_by_its_file():
    assert wait("locks_lock_inode_wait", {4: "/var/lock/x"}, file=4) == Wait(
        Want.LOCK, "/var/lock/x"
    )


@pytest.mark.parametrize(
    ("content", "file"),
    [
        (b"45 0x5 0x7f 0x10000\n", 5),
        (b"running\n", None),
        (b"", None),
        (b"-1 0x7ffe 0x7f\n", None),
        (b"0 zz 1\n", None),
    ],
)
def test_first_argument_of_a_system_call_is_its_file(content, file):
    assert first_argument(content) == file


def test_links_and_addresses_are_read():
    assert inode_of("socket:[42]") == ("socket", 42)
    assert inode_of("pipe:[7]") == ("pipe", 7)
    assert inode_of("pipe:[7]>") == ("pipe>", 7)
    assert inode_of("/dev/null") is None
    assert inode_of("anon_inode:[eventpoll]") is None
    assert is_local("127.0.0.1:80")
    assert is_local("[::1]:80")
    assert not is_local("10.0.0.1:80")
    assert not is_local("nonsense")


def test_answer_of_the_kernel_that_is_cut_short_is_none():
    body = bytes([socket.AF_INET, 1, 0, 0]) + struct.pack(">HH", 1, 2) + bytes(64)
    assert tcp_socket(body[:60]) is None
    assert tcp_socket(body).received is None
    assert tcp_socket(body + struct.pack("=HH", 3, 2)) == tcp_socket(body)


def test_bytes_of_a_connection_are_those_that_came_and_those_that_were_taken():
    info = bytes(120) + struct.pack("=QQ", 7_000, 300)
    body = bytes([socket.AF_INET, 1, 0, 0]) + struct.pack(">HH", 1, 2) + bytes(64)
    found = tcp_socket(body + struct.pack("=HH", 4 + len(info), 2) + info)
    assert (found.sent, found.received) == (7_000, 300)


def test_host_without_such_answers_has_no_sockets(monkeypatch):
    def refused(*_):
        raise OSError

    monkeypatch.setattr(sockets.socket, "socket", refused)
    assert tcp_sockets() == {}
    assert unix_sockets() == {}


ASK = "import socket, sys\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\nprint('up', flush=True)\n"
ASK += "while s.recv(1 << 16): print('got', flush=True)"


def test_process_that_waits_for_an_answer_is_seen_to_wait_for_the_network_and_its_bytes_count():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        child = subprocess.Popen(
            [sys.executable, "-c", ASK, str(port)], stdout=subprocess.PIPE, text=True
        )
        try:
            line, _ = server.accept()
            with line:
                assert child.stdout.readline() == "up\n"
                looks = Waits()
                found = None
                while (
                    found is None or found.kind is not Want.NETWORK
                ):  # it may still be on its way into recv(2)
                    found = looks.look({child.pid: "S"})
                assert found == Wait(Want.NETWORK, f"127.0.0.1:{port} (this host)")
                line.sendall(bytes(5000))
                assert child.stdout.readline() == "got\n"
                received = 0
                while not received:
                    looks.look({child.pid: "S"})
                    received = looks.received
                assert received == 5000
                assert looks.sent == 0
        finally:
            child.kill()
            child.wait()
            child.stdout.close()


def test_sockets_of_this_host_know_their_other_end():
    one, two = socket.socketpair()
    with one, two:
        inodes = [inode_of(f"socket:[{ino}]")[1] for ino in (_inode(one), _inode(two))]
        assert unix_sockets()[inodes[0]].peer == inodes[1]


def _inode(one):
    import os

    return os.fstat(one.fileno()).st_ino


def test_threads_are_looked_at_where_the_main_one_only_waits_for_them():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = (
            "import socket, threading\n"
            f"def ask(): socket.create_connection(('127.0.0.1', {port})).recv(1)\n"
            "one = threading.Thread(target=ask, daemon=True); one.start(); one.join()"
        )
        child = subprocess.Popen([sys.executable, "-c", program])
        stop = threading.Event()
        try:
            line, _ = server.accept()
            with line:
                found = None
                while found is None or found.kind is not Want.NETWORK:
                    found = Waits().look({child.pid: "S"})
                assert found.what == f"127.0.0.1:{port} (this host)"
        finally:
            stop.set()
            child.kill()
            child.wait()


def test_socket_that_was_closed_within_the_look_tells_nothing():
    """Loaders of PyTorch hand over each file by a connection of its own."""
    other = [OpenSocket(8, peer=9), OpenSocket(9, peer=8)]
    links = {3: "socket:[8]"}
    assert wait("unix_stream_read_generic", links, file=5, unix=other) is None
    assert wait("unix_stream_read_generic", links, file=3, unix=other) is not None
    assert wait("unix_stream_read_generic", {}, file=5) == Wait(Want.PEER)  # no lists here


def test_socket_that_no_list_has_counts_while_it_is_open(tmp_path, monkeypatch):
    task = tmp_path / "7/task/7"
    task.mkdir(parents=True)
    (tmp_path / "7/fd").mkdir()
    (task / "wchan").write_text("poll_schedule_timeout")
    (tmp_path / "7/fd/4").symlink_to("socket:[50]")
    monkeypatch.setattr(waits, "tcp_sockets", dict)
    looks = Waits(str(tmp_path))
    monkeypatch.setattr(waits, "unix_sockets", lambda: {9: OpenSocket(9)})
    assert looks.look({7: "S"}) == Wait(Want.NETWORK)  # datagrams

    def close():
        (tmp_path / "7/fd/4").unlink()
        return {9: OpenSocket(9)}

    monkeypatch.setattr(waits, "unix_sockets", close)
    assert looks.look({7: "S"}) == Wait(Want.TIMER)
    looks.close()


def test_task_that_runs_by_now_sleeps_on_nothing(tmp_path):
    task = tmp_path / "7/task/7"
    task.mkdir(parents=True)
    (task / "wchan").write_text("unix_stream_read_generic")
    looks = Waits(str(tmp_path))
    (task / "syscall").write_text("running\n")
    assert looks.look({7: "S"}) is None
    (task / "syscall").write_text("")
    assert looks.look({7: "S"}) == Wait(Want.PEER)
    looks.close()
