"""What the job's tasks sleep on, as the kernel tells it in one moment of each look.

/proc/PID/wchan names the function of the kernel in which a task sleeps (proc_pid_wchan(5)); what it
sleeps on follows from that name, and for poll(2), select(2) and pipes from the files that the
process has open. /proc/PID/syscall has the very file where this user may read it, and -1 for a page
fault (proc_pid_syscall(5)). No tracing: a name that is not known is no evidence, and neither is a
task that runs.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache

from hosttune.frozen import frozen
from hosttune.host.known.wait_channels import OF_FILE_SERVERS, OF_FUSE
from hosttune.host.reading.bounded import names_in
from hosttune.measure.watch.kept import Kept, content_in_time, content_of
from hosttune.measure.watch.sockets import (
    OpenSocket,
    inode_of,
    is_local,
    links_of,
    tcp_sockets,
    unix_sockets,
)
from hosttune.measure.watch.tick import (
    FILE_SERVER,
    FUSE_SERVER,
    NO_ANSWER,
    THROUGH_FUSE,
    Wait,
    Want,
)

MOST_PROCESSES = 32
MOST_THREADS = 8  # of one process, where its main thread tells nothing
MOST_TASKS = 64
_LISTED = 1 << 15  # threads of a process, of which the newest are looked at

# Beginnings of names of functions of the kernel, from Linux 4.18 to 6.18.
_NETWORK = (
    "sk_wait_data", "wait_woken", "tcp_", "inet_", "__skb_wait_for_more", "__skb_recv",
    "sk_stream_wait", "udp_", *OF_FILE_SERVERS, "mptcp_", "tls_", "rdma_", "ib_",
)  # fmt: skip
_LOCK = (
    "locks_lock", "__locks", "flock_lock", "posix_lock", "fcntl_setlk", "do_lock_file_wait",
    "do_semtimedop", "do_semop", "rwsem_down", "__mutex_lock",
)  # fmt: skip
_PEER = (
    *OF_FUSE, "unix_", "unix_stream", "wait_for_partner", "do_msgrcv", "do_msgsnd", "wq_sleep",
    "n_tty_read", "eventfd_",
)  # fmt: skip
_PIPE = ("pipe_read", "anon_pipe_read", "pipe_wait", "pipe_write", "anon_pipe_write", "fifo_open")
_POLL = (
    "do_poll",
    "do_sys_poll",
    "do_select",
    "core_sys_select",
    "ep_poll",
    "do_epoll",
    "poll_schedule",
    "io_cqring",
)
_TIMER = (
    "hrtimer_nanosleep", "do_nanosleep", "common_nsleep", "clock_nanosleep", "do_sigtimedwait",
    "sigsuspend", "__x64_sys_pause", "__do_sys_pause", "sys_pause", "__arm64_sys_pause",
    "__se_sys_pause", "do_sigsuspend", "__ia32_sys_pause",
)  # fmt: skip
# timeout(1), tini: for the end of what they started
_SIGNAL = ("do_sigtimedwait", "sigsuspend", "do_sigsuspend")
_FUTEX = ("futex", "__futex")


_IN_MEMORY = Wait(Want.EACH_OTHER, "in memory")


class Task:
    """Marks of one task before its files are looked at."""

    NETWORK, LOCK, PEER, PIPE, POLL, TIMER, FUTEX, OTHER = range(8)


_MARKS = (
    (Task.NETWORK, _NETWORK), (Task.LOCK, _LOCK), (Task.PEER, _PEER), (Task.PIPE, _PIPE),
    (Task.POLL, _POLL), (Task.TIMER, _TIMER), (Task.FUTEX, _FUTEX),
)  # fmt: skip


@lru_cache(maxsize=256)  # asked of each task in each look; the kernel has few such names
def mark(channel: str) -> int:
    """What kind of sleep a wait channel is. Pure."""
    return next((found for found, names in _MARKS if channel.startswith(names)), Task.OTHER)


@frozen
class Sleeper:
    """One task that sleeps: its process, its wait channel, and the number of the file that it waits
    for.
    """

    pid: int
    channel: str
    file: int | None = None
    is_fault: bool = False  # it waits in no system call, but for a page of its memory


@frozen
class Ends:
    """What is known of the job's files: links of each process, and the sockets of the host."""

    links: Mapping[int, Mapping[int, str]]
    tcp: Mapping[int, OpenSocket]
    unix: Mapping[int, OpenSocket]


def wait_of(sleepers: Iterable[Sleeper], ends: Ends) -> Wait | None:
    """What the job sleeps on: what comes from outside before what its own tasks hand each other.
    Pure.

    None where nothing sleeps, or on nothing that is known. One that waits for a signal counts if no
    other does. A lock in memory (futex(2)) is one when no task of the job sleeps on anything else:
    pools of threads sleep so too, until there is work.
    """
    ours = _list_inodes(ends.links)
    judged = [
        (_judge_sleeper(one, ends, ours), one.channel.startswith(_SIGNAL)) for one in sleepers
    ]
    at_work = [
        found for found, waits_for_signal in judged if found is not None and not waits_for_signal
    ]
    found = at_work or [found for found, _ in judged if found is not None]
    for kind in (Want.NETWORK, Want.LOCK, Want.PEER, Want.TIMER, Want.EACH_OTHER):
        known = [one for one in found if one.kind is kind]
        if known and all(one == _IN_MEMORY for one in known):
            return Wait(Want.LOCK, _IN_MEMORY.what)
        if known:
            return max(known, key=lambda one: bool(one.what) and one != _IN_MEMORY)
    return None


def _judge_sleeper(one: Sleeper, ends: Ends, ours: Container[tuple[str, int]]) -> Wait | None:
    kind = mark(one.channel)
    links = ends.links.get(one.pid, {})
    file = links.get(one.file) if one.file is not None else None
    is_peer = kind == Task.PEER
    if (is_peer and _has_closed(one, links, ends)) or (
        (is_peer or kind == Task.NETWORK) and _is_accepting(file, ends)
    ):
        return None
    if kind == Task.NETWORK:
        if one.channel.startswith(OF_FILE_SERVERS):
            return Wait(Want.NETWORK, FILE_SERVER, one.is_fault)
        own = _find_peer([file], ends, ours) if file else None
        return own or _find_network([file] if file else links.values(), ends) or Wait(Want.NETWORK)
    if kind == Task.PEER and one.channel.startswith(OF_FUSE):
        return Wait(
            Want.PEER, f"the server of {file}{THROUGH_FUSE}" if file else FUSE_SERVER, one.is_fault
        )
    if kind == Task.PEER:
        return _find_peer([file] if file else links.values(), ends, ours) or Wait(Want.PEER)
    if kind == Task.PIPE:
        return _judge_pipe(file, links, ours)
    if kind == Task.POLL:
        return _find_network(links.values(), ends) or _judge_poll(links, ends, ours)
    plain = {
        Task.LOCK: Wait(Want.LOCK, _lock_name(file)),
        Task.TIMER: Wait(Want.TIMER),
        Task.FUTEX: _IN_MEMORY,
    }
    return plain.get(kind)


def _is_accepting(file: str | None, ends: Ends) -> bool:
    """Whether it sleeps in accept(2), as a thread beside the work does for connections (loaders of
    PyTorch hand over files so): a UNIX socket that sleeps there is connected to none.
    """
    key = inode_of(file or "")
    if key is None or key[0] != "socket":
        return False
    tcp, unix = ends.tcp.get(key[1]), ends.unix.get(key[1])
    return (tcp is not None and tcp.is_listening) or (unix is not None and not unix.peer)


def _has_closed(one: Sleeper, links: Mapping[int, str], ends: Ends) -> bool:
    """Whether the socket that it slept on was closed within this look: loaders of PyTorch hand
    over each file by a connection of its own. Nothing is known of who was at the other end.
    """
    is_served = one.channel.startswith(OF_FUSE)
    has_lists = bool(links) and bool(ends.unix)
    return has_lists and not is_served and one.file is not None and one.file not in links


def _lock_name(file: str | None) -> str:
    return file if file and file.startswith("/") else ""


def _find_network(files: Iterable[str | None], ends: Ends) -> Wait | None:
    """A connection to someone who is not of the job; None where there is none. One that is only
    asked for counts where there is no other.
    """
    asked = None
    own = {ends.tcp[key[1]].local for key in _list_inodes(ends.links) if key[1] in ends.tcp}
    for link in files:
        key = inode_of(link or "")
        found = ends.tcp.get(key[1]) if key is not None and key[0] == "socket" else None
        if (
            found is not None
            and not found.is_listening
            and found.remote not in own
            and not found.remote.endswith(":0")
        ):
            where = found.remote + (" (this host)" if is_local(found.remote) else "")
            if not found.is_asking:
                return Wait(Want.NETWORK, where)
            asked = asked or Wait(Want.NETWORK, where + NO_ANSWER)
    return asked


def _find_peer(
    files: Iterable[str | None], ends: Ends, ours: Container[tuple[str, int]]
) -> Wait | None:
    """A socket of this host: whether the other end is the job's own."""
    seen = None
    for link in files:
        if link and link.startswith("/dev/") and ("tty" in link or "pts" in link):
            seen = Wait(Want.PEER, f"input from {link}")
        key = inode_of(link or "")
        found = ends.unix.get(key[1]) if key is not None and key[0] == "socket" else None
        if found is not None and found.peer:
            if ("socket", found.peer) not in ours:
                return Wait(Want.PEER, "a socket of this host")
            seen = seen or Wait(Want.EACH_OTHER)
    return seen


def _judge_pipe(
    file: str | None, links: Mapping[int, str], ours: Container[tuple[str, int]]
) -> Wait:
    """A pipe whose other end the job holds too is its own."""
    if file and file.startswith("/"):
        return Wait(Want.PEER, f"the pipe {file}")
    pipes = [
        key
        for link in ([file] if file else links.values())
        if (key := inode_of(link)) and key[0] != "socket"
    ]
    if pipes and not any(_other_end(key) in ours for key in pipes):
        return Wait(Want.PEER, "a pipe")
    return Wait(Want.EACH_OTHER)


def _other_end(key: tuple[str, int]) -> tuple[str, int]:
    return ("pipe" if key[0] == "pipe>" else "pipe>", key[1])


def _judge_poll(links: Mapping[int, str], ends: Ends, ours: Container[tuple[str, int]]) -> Wait:
    """poll(2) without a connection: a peer of this host, the job itself, or a timer alone."""
    peer = _find_peer((link for number, link in links.items() if number > 2), ends, ours)
    if peer is not None and peer.kind is Want.PEER:
        return peer
    keys = [
        key
        for number, link in links.items()
        if number > 2 and (key := inode_of(link)) and key[0] == "pipe"
    ]
    if any(_other_end(key) in ours for key in keys):
        return Wait(Want.EACH_OTHER)
    unknown = any(
        (key := inode_of(link))
        and key[0] == "socket"
        and key[1] not in ends.unix
        and key[1] not in ends.tcp
        for link in links.values()
    )
    return Wait(Want.NETWORK) if unknown else Wait(Want.TIMER)


def _list_inodes(links: Mapping[int, Mapping[int, str]]) -> set[tuple[str, int]]:
    """The ends of pipes and the sockets that the job holds."""
    return {
        key
        for one in links.values()
        for link in one.values()
        if (key := inode_of(link)) is not None
    }


class Waits:
    """Looks at the tasks of a job. `received` and `sent` are bytes over TCP, since the last look
    that looked at sockets.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._counts: dict[int, tuple[int, int]] | None = None
        self._channels: dict[int, Kept] = {}  # of main threads
        self.received = self.sent = 0

    def look(self, members: Mapping[int, str]) -> Wait | None:
        """`members`: the state of each process (proc_pid_stat(5))."""
        for pid in self._channels.keys() - members.keys():
            self._channels.pop(pid).close()
        sleepers = self._sleepers(
            [pid for pid, state in members.items() if state in "SDI"][:MOST_PROCESSES]
        )
        self.received = self.sent = 0
        if not any(
            mark(one.channel) in {Task.NETWORK, Task.PEER, Task.PIPE, Task.POLL, Task.LOCK}
            for one in sleepers
        ):
            return wait_of(sleepers, Ends({}, {}, {}))
        links = {pid: links_of(f"{self._proc}/{pid}/fd") for pid in list(members)[:MOST_TASKS]}
        has_sockets = any(
            link.startswith("socket:") for one in links.values() for link in one.values()
        )
        tcp = tcp_sockets() if has_sockets else {}
        unix = unix_sockets() if has_sockets else {}
        ends = Ends(self._leave_out_closed(links, {*tcp, *unix}), tcp, unix)
        self._count(links, tcp)
        return wait_of(sleepers, ends)

    def close(self) -> None:
        for one in self._channels.values():
            one.close()

    def _leave_out_closed(
        self, links: Mapping[int, Mapping[int, str]], listed: Container[int]
    ) -> Mapping[int, Mapping[int, str]]:
        """Sockets that no list has, and that were closed since their links were read."""

        def is_closed(pid: int, number: int, link: str) -> bool:
            key = inode_of(link)
            if key is None or key[0] != "socket" or key[1] in listed:
                return False
            try:
                return os.readlink(f"{self._proc}/{pid}/fd/{number}") != link
            except OSError:
                return True

        return {
            pid: {number: link for number, link in one.items() if not is_closed(pid, number, link)}
            for pid, one in links.items()
        }

    def _count(self, links: Mapping[int, Mapping[int, str]], tcp: Mapping[int, OpenSocket]) -> None:
        counts = {}
        for kind, inode in _list_inodes(links):
            one = tcp.get(inode) if kind == "socket" else None
            if one is not None and one.received is not None:
                counts[inode] = (one.received, one.sent or 0)
        if self._counts is not None:
            pairs = [(now, self._counts.get(inode, (0, 0))) for inode, now in counts.items()]
            self.received, self.sent = (
                sum(max(0, now[at] - was[at]) for now, was in pairs) for at in (0, 1)
            )
        self._counts = counts

    def _sleepers(self, pids: Iterable[int]) -> list[Sleeper]:
        found: list[Sleeper] = []
        for pid in pids:
            main = self._sleeper(pid, pid)
            found.append(main)
            if mark(main.channel) in {Task.FUTEX, Task.OTHER, Task.POLL}:
                found += self._threads(pid)
            if len(found) >= MOST_TASKS:
                break
        return found

    def _threads(self, pid: int) -> list[Sleeper]:
        try:
            names = [int(name) for name in names_in(f"{self._proc}/{pid}/task", _LISTED)[0]]
        except (OSError, ValueError):
            return []
        return [
            self._sleeper(pid, thread)
            for thread in sorted(names, reverse=True)[:MOST_THREADS]
            if thread != pid
        ]

    def _sleeper(self, pid: int, thread: int) -> Sleeper:
        folder = f"{self._proc}/{pid}/task/{thread}"
        if pid == thread and len(self._channels) < MOST_PROCESSES:
            self._channels.setdefault(pid, Kept(f"{folder}/wchan"))
        kept = self._channels.get(pid) if pid == thread else None
        content = kept.read() if kept is not None else content_of(f"{folder}/wchan")
        channel = (content or b"").decode("ascii", "replace").strip()
        if mark(channel) in {Task.NETWORK, Task.LOCK, Task.PEER, Task.PIPE}:
            call = content_in_time(f"{folder}/syscall") or b""
            if call.startswith(b"running"):  # by now
                return Sleeper(pid, "")
            return Sleeper(pid, channel, first_argument(call), is_fault=call.startswith(b"-1 "))
        return Sleeper(pid, channel)


def first_argument(content: bytes) -> int | None:
    """The first argument of the system call in /proc/PID/syscall: the file of read(2), recv(2),
    flock(2), fcntl(2). Pure.
    """
    words = content.split()
    try:
        number = int(words[1], 16) if len(words) > 2 and words[0].isdigit() else None
    except ValueError:
        return None
    return number if number is not None and number < 1 << 20 else None
