"""File systems whose server is dead, and files of the kernel, in the place of data: no command
waits for them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

from hosttune.host.door import Usage
from hosttune.host.processes.interpreter import ask
from hosttune.host.reading.live import LiveReader
from hosttune.values import Unreadable
from tests.live.namespace import ROOT, passes, run

HERE = __file__
UID = 1001
LIMIT_S = 120  # of each command; without an end of its own it takes for ever


@contextlib.contextmanager
def dead_server(target: Path, fstype: str = "fuse.sshfs"):
    """A FUSE file system of an ordinary user that root can enter (allow_other) and that answers
    nothing. It takes the requests, so that not even signal 9 ends who waits for an answer.
    """
    target.mkdir(exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={UID},group_id={UID},allow_other"
    assert libc.mount(b"dead", os.fsencode(target), fstype.encode(), 6, options.encode()) == 0
    request = os.read(device, 1 << 16)  # INIT, which it answers
    answer = struct.pack("<IIIIHHIII", 7, 31, 65536, 0, 12, 10, 65536, 1, 0).ljust(64, b"\0")
    os.write(
        device,
        struct.pack("<IiQ", 16 + len(answer), 0, struct.unpack("<IIQ", request[:16])[2]) + answer,
    )
    threading.Thread(target=swallow, args=(device,), daemon=True).start()
    try:
        yield target
    finally:
        libc.umount2(os.fsencode(target), 2)
        os.close(device)  # with it all who wait get an error


def swallow(device: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(device, 1 << 16):
            pass


def start(*words: object) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "hosttune", *map(str, words)]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status, and what it printed."""
    out, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, out + errors


def data_in(folder: Path) -> Path:
    data = folder / "data"
    data.mkdir()
    for number in range(20):
        (data / f"{number}.bin").write_bytes(b"x" * 5000)
    return data


def test_dead_file_system_holds_no_command(tmp_path):
    passes(HERE, "dead", tmp_path, timeout_s=280)


def scenario_dead(folder: Path) -> None:
    data = data_in(folder)
    results = folder / "results"
    results.mkdir()
    (results / "a.json").write_text(json.dumps({"format_version": 1, "kind": "hosttune missing", "host": "a",
                                                "at": "2026-05-28T20:26:40+00:00", "reason": "x"}))  # fmt: skip
    (data / "linked").symlink_to(data / "dead" / "file")
    with dead_server(data / "dead") as dead:
        (results / "b.json").symlink_to(dead / "b.json")
        (results / "below").symlink_to(dead)
        begun = {
            "below": start("dataset", data, "--budget", "8"),
            "followed": start("dataset", data, "--budget", "8", "--follow"),
            "root": start("dataset", dead, "--budget", "2"),
            "bench": start("bench", "read", data, "--budget", "2", "--anyway"),
            "bench root": start(
                "bench", "read", dead, "--budget", "2", "--allow-network", "--anyway"
            ),
            "report": start("report", results),
            "report dead": start("report", dead, results / "a.json"),
            "policy": start("check", "--policy", dead / "p.yaml"),
            "rules": start("check", "--rules", dead / "r"),
            "record": start("check", "--host", dead / "x.json"),
            "fstab": start("fstab", dead / "fstab"),
            "diff": start("diff", dead / "x.json", dead / "y.json"),
            "replay": start("watch", "--replay", dead / "w.jsonl"),
        }
        said = {name: ended(process) for name, process in begun.items()}
        begun = {
            "output": start("check", "--output", dead / "x.txt"),
            "output below": start("check", "--output", dead / "sub" / "x.txt"),
            "plan": start("plan", "--save", dead / "plan.json"),
            "recorder": start("watch", "--record", dead / "w.jsonl", "--", "true"),
            "new rule": start("rules", "new", "memory-x", "--dir", dead),
        }
        said |= {name: ended(process) for name, process in begun.items()}
    print(said)
    assert said["below"][0] == said["followed"][0] == 0
    assert all("20 files" in said[name][1] for name in ("below", "followed"))
    assert said["report"][0] in {0, 1}
    for name in ("output", "output below", "plan", "recorder"):
        assert said[name][0] == 2, name
        assert (
            f"through {dead}, because it is on a file system mounted by uid {UID}" in said[name][1]
        ), name
    for name in (
        "root",
        "bench root",
        "policy",
        "rules",
        "record",
        "fstab",
        "diff",
        "replay",
        "new rule",
    ):
        assert said[name][0] == 2, name
        assert "gives no answer" in said[name][1], name
    for name in ("report", "report dead"):
        assert "gives no answer" in " ".join(said[name][1].split()), name
    assert said["bench"][0] in {0, 1, 2}  # what it finds depends on this machine; it ends


def test_server_that_comes_while_root_looks_at_data_is_not_waited_for(tmp_path):
    passes(HERE, "late", tmp_path)


# Limits as they are, but shorter; without --budget a command that does nothing ends after
# `SILENT_S`.
SHORT = """
import sys
from hosttune.cli import app, within
from hosttune.measure.cli import bench_read
from hosttune.host import apart
apart.SILENT_S, bench_read._GRACE_S, within._GRACE_S = 4.0, 4.0, 4.0
sys.exit(app.run(sys.argv[1:]))
"""
_READ = 0x1 | 0x20  # IN_ACCESS and IN_OPEN of inotify(7)


def scenario_late(folder: Path) -> None:
    """A user mounts where root has not been yet, when root opens the first of some folders."""
    commands = {
        "dataset": ("--budget", "1"),
        "dataset --exact": ("--exact",),
        "bench read": ("--budget", "1", "--anyway"),
    }
    for name, options in commands.items():
        for number in range(_TRIES):
            code, said = look_while_a_user_mounts(folder / f"{name} {number}", name, options)
            if code == 2:
                break
        assert code == 2, (name, said)
        assert "the look did not end in time: a file system does not answer" in said, (name, said)


_TRIES = 10  # the user and the look race, and the look may be the faster one


def look_while_a_user_mounts(folder: Path, name: str, options: tuple[str, ...]) -> tuple[int, str]:
    data = folder / "data"
    places = [data / one for one in "abc"]
    for place in places:
        place.mkdir(parents=True)
        for number in range(20):
            (place / f"{number}.bin").write_bytes(b"x" * 5000)
    run("chown", "-R", UID, folder)
    with contextlib.ExitStack() as mounted:
        watcher = threading.Thread(
            target=mount_others, args=(mounted, places, watch(places)), daemon=True
        )
        watcher.start()
        argv = [
            sys.executable,
            "-c",
            SHORT,
            *name.split()[: 2 if name == "bench read" else 1],
            data,
            *options,
        ]
        found = ended(
            subprocess.Popen([str(word) for word in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, cwd=ROOT)
        )  # fmt: skip
        watcher.join()
    return found


def watch(places: list[Path]) -> int:
    """A descriptor of inotify(7) that says when one of these folders is opened; the first has
    number 1.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    waiting = libc.inotify_init()
    for place in places:
        assert libc.inotify_add_watch(waiting, os.fsencode(place), _READ) > 0
    return waiting


def mount_others(mounted: contextlib.ExitStack, places: list[Path], waiting: int) -> None:
    opened = struct.unpack("i", os.read(waiting, 4096)[:4])[0]
    for number, place in enumerate(places, 1):
        if number != opened:
            mounted.enter_context(dead_server(place, "fuse.mine"))


def test_command_that_is_held_is_left_behind_and_holds_no_lock(tmp_path):
    passes(HERE, "held", tmp_path)


KEPT = """
import os, sys
from hosttune.cli import app
from hosttune.host import keeper
from hosttune.host.writing.lock import hold_lock
keeper.HELD_S, keeper._EVERY_S = 4.0, (0.5, 0.5)
if sys.argv[1] == "held":
    app.run = lambda argv: locked(argv[1])
    sys.argv[1] = "apply"
def locked(path):
    with hold_lock(path + ".lock"):
        print("held", flush=True)
        os.stat(path + "/file")
app.main()
"""


def scenario_held(folder: Path) -> None:
    with dead_server(folder / "dead") as dead:
        argv = [sys.executable, "-c", KEPT]
        for words in (("check", "--root", dead), ("apply", "--root", dead), ("held", dead)):
            process = subprocess.Popen([*argv, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, cwd=ROOT)  # fmt: skip
            code, said = ended(process)
            name = words[0].replace("held", "apply")
            assert code == 2, (words, said)
            assert f"{name} was cut off: a file system has not answered for" in said, said
            assert ("sudo hosttune history" in said) is (name == "apply"), said
        assert "held" in said
        process = subprocess.Popen(
            [*argv, "held", dead],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        code, said = ended(process)
        assert (code, said.splitlines()[0]) == (2, "held"), said


def test_python_that_a_job_names_on_a_dead_file_system_is_not_waited_for(tmp_path):
    passes(HERE, "python", tmp_path)


def scenario_python(folder: Path) -> None:
    with dead_server(folder / "dead") as dead:
        words = (f"{dead}/bin/python", "600")
        with subprocess.Popen(words, executable="/bin/sleep", env={"PATH": str(dead)}) as job:
            try:
                for question in (("python-of", job.pid, "torch"), ("python-at", words[0], "torch")):
                    answer = ask(tuple(map(str, question)))
                    assert isinstance(answer, Unreadable)
                    assert "gives no answer" in answer.reason
            finally:
                job.kill()


def test_size_of_a_folder_is_counted_beside_a_dead_file_system(tmp_path):
    passes(HERE, "usage", tmp_path)


def scenario_usage(folder: Path) -> None:
    (folder / "file").write_bytes(b"12345")
    (folder / "below").mkdir()
    with dead_server(folder / "dead"), dead_server(folder / "below/dead"):
        assert LiveReader().usage(str(folder)) == Usage(5, 4, is_complete=True)


def test_links_and_jobs_of_a_user_lead_no_look_into_a_dead_file_system(tmp_path):
    passes(HERE, "links", tmp_path)


LOOKS = """
import sys
from hosttune.host.reading.live import LiveReader
live = LiveReader()
for look in (live.read, live.list, live.stat, live.link, live.resolve, live.space, live.usage, live.read_guarded):
    print(look(sys.argv[1]))
print(live.stat(sys.argv[1], follow=False))
"""


def scenario_links(folder: Path) -> None:
    """The type is one that no list of network types has. The second path begins as those of the
    kernel do.
    """
    with dead_server(folder / "dead", "fuse.mine") as dead:
        (folder / "t").symlink_to(dead)
        os.chown(folder / "t", UID, UID, follow_symlinks=False)
        spool = Path("/var/spool")
        spool.mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "spool", spool)
        (spool / "cron/crontabs").mkdir(parents=True)
        jobs = (f"@daily find {place}/x -atime +3\n" for place in (folder / "t", dead))
        (spool / "cron/crontabs/eve").write_text("".join(jobs))
        begun = [
            subprocess.Popen([sys.executable, "-c", LOOKS, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, cwd=ROOT)
            for path in (f"{folder}/t/x", f"/proc/self/root{folder}/t/x")
        ]  # fmt: skip
        ageing = start("facts", "ageing")
        for process in begun:
            code, said = ended(process)
            assert (
                code,
                said.count("a user's link leads to a file system that may give no answer"),
            ) == (0, 9), said
        code, said = ended(ageing)
        assert (code, said.count(f"{dead}/x")) == (0, 2), said


def test_files_of_the_kernel_devices_and_pipes_are_no_data(tmp_path):
    passes(HERE, "odd", tmp_path)


def scenario_odd(folder: Path) -> None:
    """A read of /proc/kmsg by root waits for messages, and takes them away."""
    (folder / "k.json").symlink_to("/proc/kmsg")
    (folder / "z.json").symlink_to("/dev/zero")
    os.mkfifo(folder / "p.json")
    for command in (
        ["report"],
        ["check", "--policy"],
        ["check", "--host"],
        ["fstab"],
        ["watch", "--replay"],
    ):
        begun = {name: start(*command, folder / name) for name in ("k.json", "z.json")}
        said = {name: ended(process) for name, process in begun.items()}
        assert all(status in {1, 2} for status, _ in said.values()), said
        assert "file of the kernel" in " ".join(said["k.json"][1].split()), said
        assert "is a device or a socket" in " ".join(said["z.json"][1].split()), said
    status, told = ended(start("report", folder))
    assert status in {1, 2}
    assert "file of the kernel" in " ".join(told.split())


def test_path_that_a_container_has_is_not_looked_up_on_a_dead_server(tmp_path):
    passes(HERE, "program", tmp_path)


def scenario_program(folder: Path) -> None:
    """Root of a container starts a program whose path is one on the dead server here."""
    dead = folder / "dead"
    dead.mkdir()
    inside = f"mount -t tmpfs t {dead}; cp /bin/sleep {dead}/worker; echo; exec {dead}/worker 1000"
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside]
    look = "from hosttune.host.processes.proc import list_processes\nfor one in list_processes(): print(one.pid, one.program)"
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as contained:
        contained.stdout.readline()
        with dead_server(dead):
            listing = subprocess.Popen(
                [sys.executable, "-c", look],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            try:
                code, said = ended(listing)
            finally:
                contained.kill()
    assert code == 0, said
    assert f"{contained.pid} container:{dead}/worker" in said.splitlines()
