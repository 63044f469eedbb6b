"""Code of a user runs as that user, inside the limits of the job, and nothing of it stays: attacks
by ordinary users.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from hosttune.errors import HosttuneError, Refused
from hosttune.host.process import locate
from hosttune.host.processes import code_owner, job_limits
from hosttune.host.processes.code_owner import owner_of_code
from hosttune.host.processes.interpreter import ask, at_path
from hosttune.host.reading.mounters import Mounters
from hosttune.host.reading.mountinfo import parse
from hosttune.measure.bench.read import noatime_view
from hosttune.measure.bench.read_crew import Crew
from hosttune.measure.bench.read_python import user_python
from hosttune.measure.watch.target import put_in_scope
from hosttune.values import ABSENT, Unreadable
from tests.live.namespace import ROOT

pytestmark = pytest.mark.live
EVE, BOB, ADMIN = 54311, 54312, 54313
PYTHON = "/usr/bin/python3"
WAIT_S = 20.0
# What a .pth file of eve starts: a report on itself, and a process that leaves its parent and its
# session.
DAEMON = """
import os, sys, time
def report(name):
    with open(HERE + "/" + name + ".new", "w") as file:
        for one in ("cgroup", "limits", "oom_score_adj", "status"):
            file.write("== " + one + "\\n" + open("/proc/self/" + one).read())
        file.write("== nice\\n%d\\n== pid\\n%s\\n" % (os.nice(0), os.readlink("/proc/self")))
    os.rename(HERE + "/" + name + ".new", HERE + "/" + name)
report("asked")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3):
            os.close(fd)
        report("daemon")
        time.sleep(600)
    os._exit(0)
while not os.path.exists(HERE + "/daemon"):
    time.sleep(0.01)
"""


@pytest.fixture
def folder():
    """A folder that everybody may enter, in a sticky one."""
    path = Path(tempfile.mkdtemp(prefix="hosttune-test-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def give(path: Path, uid: int) -> None:
    for one in (path, *path.rglob("*")):
        os.chown(one, uid, uid, follow_symlinks=False)


def venv(folder: Path, uid: int, code: str = "", python: str = PYTHON) -> Path:
    """A virtual environment of a user, with code that its Python starts; the path of its Python."""
    version = subprocess.run(
        [PYTHON, "-c", "import sys; print(*sys.version_info[:2], sep='.')"],
        check=True,
        capture_output=True,
    )
    site = folder / f"lib/python{version.stdout.decode().strip()}/site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(python)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    if code:
        (folder / "evil.py").write_text(f"HERE = {str(folder)!r}\n{code}")
        (site / "evil.pth").write_text(
            f"import runpy; runpy.run_path({str(folder / 'evil.py')!r})\n"
        )
    give(folder, uid)
    return folder / "bin/python"


def sections(path: Path) -> dict[str, str]:
    parts = path.read_text().split("== ")[1:]
    return {name: text.rstrip("\n") for name, _, text in (one.partition("\n") for one in parts)}


def is_running(pid: str) -> bool:
    """Not a zombie, which process 1 of a container may leave."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def until(is_done) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


WHO = "import os\nopen(HERE + '/who', 'a').write('%d %s %s\\n' % (os.getuid(), os.getgroups(), os.environ['HOME']))\n"


def test_bench_read_runs_the_python_of_a_user_as_that_user_and_never_as_who_typed_sudo(folder):
    python = venv(folder / "venv", EVE, WHO)
    (folder / "data").mkdir()
    for number in range(16):
        (folder / f"data/{number}.jpg").write_bytes(bytes(64))
    words = (
        sys.executable,
        "-m",
        "hosttune",
        "bench",
        "read",
        folder / "data",
        "--decode",
        "--python",
        python,
        "--anyway",
    )
    environment = {**os.environ, "SUDO_UID": str(ADMIN), "SUDO_GID": str(ADMIN)}
    subprocess.run(words, check=False, capture_output=True, timeout=120, cwd=ROOT, env=environment)
    assert {line.split()[0] for line in (folder / "venv/who").read_text().splitlines()} == {
        str(EVE)
    }


def test_worker_that_decodes_is_its_users_and_leaves_nothing(folder, monkeypatch):
    monkeypatch.setenv("SUDO_UID", str(ADMIN))
    found = user_python(str(venv(folder / "venv", EVE, DAEMON)), str(folder))
    assert found.uid == EVE
    with Crew(found.command, found.environment, 1, most=0, memory=1 << 30) as crew:
        crew.load([])
        left = sections(folder / "venv/daemon")
        assert is_running(left["pid"])
        assert f"Uid:\t{EVE}\t{EVE}\t{EVE}\t{EVE}" in left["status"]
    until(lambda: not is_running(left["pid"]))


def others_python(folder: Path) -> str:
    (folder / "bob").mkdir()
    shutil.copy(PYTHON, folder / "bob/python3")
    give(folder / "bob", BOB)
    (folder / "venv/bin/python").unlink()
    (folder / "venv/bin/python").symlink_to(folder / "bob/python3")
    os.chown(folder / "venv/bin/python", EVE, EVE, follow_symlinks=False)
    return f"{folder}/bob belongs to uid {BOB}"


def others_home(folder: Path) -> str:
    (folder / "bob").mkdir()
    give(folder / "bob", BOB)
    (folder / "venv/pyvenv.cfg").write_text(f"home = {folder}/bob\n")
    return f"{folder}/bob belongs to uid {BOB}"


def others_file(folder: Path) -> str:
    (pth,) = folder.glob("venv/lib/*/site-packages/evil.pth")
    os.chown(pth, BOB, BOB)
    return f"{pth} belongs to uid {BOB}"


def link_of_others(folder: Path) -> str:
    (folder / "venv/lib").rename(folder / "venv/real")
    (folder / "venv/lib").symlink_to("real")
    os.chown(folder / "venv/lib", BOB, BOB, follow_symlinks=False)
    return f"{folder}/venv/lib belongs to uid {BOB}"


def folder_of_others(folder: Path) -> str:
    os.chown(folder, BOB, BOB)
    return f"{folder} belongs to uid {BOB}"


def opened(where: str, mode: int, shown: str = ""):
    def spoil(folder: Path) -> str:
        (path,) = folder.glob(where) if where else (folder,)
        path.chmod(mode)
        return f"others can write {path} (mode {shown or f'{mode:04o}'})"

    return spoil


def opened_by_acl(folder: Path) -> str:
    words = b"\x02\0\0\0"  # acl(5) as xattr: version 2, then tag, permissions, id
    for tag, permissions, who in ((1, 7, -1), (2, 7, BOB), (4, 5, -1), (16, 7, -1), (32, 5, -1)):
        words += (
            tag.to_bytes(2, "little")
            + permissions.to_bytes(2, "little")
            + (who % (1 << 32)).to_bytes(4, "little")
        )
    os.setxattr(folder / "venv", "system.posix_acl_access", words)
    return f"others can write {folder}/venv (mode 0775)"


@pytest.mark.parametrize(
    "spoil",
    [
        others_python,
        others_home,
        others_file,
        link_of_others,
        folder_of_others,
        opened_by_acl,
        opened("", 0o777),
        opened("venv", 0o1777),
        opened("venv/pyvenv.cfg", 0o666),
        opened("venv/lib/*/site-packages", 0o777),
        opened("venv/lib/*/site-packages/evil.pth", 0o664),
    ],
)
def test_python_in_whose_code_others_have_a_say_is_not_run(folder, spoil, monkeypatch):
    python = venv(folder / "venv", EVE, WHO)
    assert at_path(str(python)).uid == EVE
    said = spoil(folder)
    refused = ask(("python-at", str(python), "torch"))
    assert isinstance(refused, Unreadable)
    assert said in refused.reason
    monkeypatch.setenv("SUDO_UID", str(ADMIN))
    with pytest.raises(Refused, match="is not run: "):
        user_python(str(python), str(folder))
    assert not (folder / "venv/who").exists()


def library(prefix: Path, uid: int, code: str = "") -> None:
    """The standard library of this Python below a prefix, by links, with code in one of its
    modules.
    """
    place = Path(json.__file__).parents[1]
    own = prefix / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    own.mkdir(parents=True)
    for one in place.iterdir():
        if one.name != "json":
            (own / one.name).symlink_to(one)
    (own / "json").mkdir()
    (own / "json/__init__.py").write_text(
        f"HERE = {str(prefix)!r}\n{code}def dumps(one): return '{{}}'\n"
    )
    give(prefix / "lib", uid)


def test_standard_library_of_another_in_a_folder_above_is_not_run(folder):
    """A Python without one beside it looks for it in each folder above: bob's code ran as eve when
    root asked.
    """
    own = folder / "team/eve/tools/python"
    (own / "bin").mkdir(parents=True)
    (folder / "team").chmod(0o1777)
    shutil.copy(os.path.realpath(sys.executable), own / "bin/python3")
    give(folder / "team/eve", EVE)
    for said in (
        "others can write /var/tmp (mode 1777)",
        f"{folder}/team/lib belongs to uid {BOB}",
    ):
        refused = ask(("python-at", str(own / "bin/python3"), "torch"))
        assert isinstance(refused, Unreadable)
        assert said in refused.reason
        if not (folder / "team/lib").exists():
            library(folder / "team", BOB, WHO)
    assert not (folder / "team/who").exists()
    library(own, EVE)
    assert at_path(str(own / "bin/python3")).uid == EVE  # with its own it looks no further


def test_no_program_is_found_by_the_path_of_who_asks(folder, monkeypatch):
    """A user's folder can be on root's PATH: nsenter, true and systemd-run of eve ran with root's
    rights.
    """
    programs = folder / "eve"
    programs.mkdir()
    for name in ("nsenter", "true", "systemd-run"):
        (programs / name).write_text(f"#!/bin/sh\nid -u >> {folder}/who\n")
        (programs / name).chmod(0o755)
    give(programs, EVE)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (folder / "data").mkdir()
    with noatime_view(str(folder / "data"), (PYTHON, "--version")) as words:
        assert words[0] == locate("nsenter")
    assert not (folder / "who").exists()
    with contextlib.suppress(HosttuneError):  # without systemd there is no scope
        assert put_in_scope(("true",))[0] == locate("systemd-run")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("evil.pth", "# a comment\nimport sys\n{}\n/nowhere\n"),
        ("__editable___evil_1_finder.py", "MAPPING: dict[str, str] = {{'evil': '{}'}}\n"),
    ],
)
def test_code_that_an_editable_install_by_root_leads_to_is_of_who_can_write_it(
    folder, name, content, monkeypatch
):
    """`sudo pip install -e` of a user's project: root's files name the user's folder."""
    python = venv(folder / "venv", 0, WHO)
    (site,) = folder.glob("venv/lib/*/site-packages")
    (site / "evil.pth").unlink()
    (site / name).write_text(content.format(folder / "eve/src"))
    monkeypatch.setenv("SUDO_UID", str(ADMIN))
    assert user_python(str(python), str(folder)).uid == ADMIN
    (folder / "eve/src").mkdir(parents=True)
    give(folder / "eve", EVE)
    assert owner_of_code(str(python)) == EVE
    assert user_python(str(python), str(folder)).uid == EVE
    (folder / "eve/src/module.py").write_text("")
    os.chown(folder / "eve/src/module.py", BOB, BOB)
    assert "module.py belongs to uid" in owner_of_code(str(python)).reason


@pytest.mark.parametrize("name", ["a.pth", "__editable___a_finder.py", "pyvenv.cfg"])
def test_device_that_comes_in_the_place_of_a_file_of_roots_is_not_opened(folder, name, monkeypatch):
    """`sudo pip install` left the file, and the user exchanges it, or its folder, once it was
    looked at.
    """
    python = venv(folder / "venv", EVE)
    (site,) = folder.glob("venv/lib/*/site-packages")
    file = folder / "venv" / name if name == "pyvenv.cfg" else site / name
    file.write_text("home = /usr/bin\n" if name == "pyvenv.cfg" else "# nothing\n")
    os.chown(file, 0, 0)
    number, exchanged, devices = file.stat().st_ino, [], []
    owned, opened = Mounters.set_owner, os.open

    def exchange(self, info):
        if info.st_ino == number and not exchanged:
            exchanged.append(file)
            if name == "pyvenv.cfg":  # as root of a container does, who may make devices in it
                file.rename(file.with_suffix(".old"))
                os.mknod(file, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
            else:
                site.rename(site.with_name("moved"))
                site.mkdir()
                file.symlink_to("/dev/null")
                give(site, EVE)
        return owned(self, info)

    def watched(path, flags, *given, **more):
        fd = opened(path, flags, *given, **more)
        if not flags & os.O_PATH and stat.S_ISCHR(os.fstat(fd).st_mode):
            devices.append(path)
        return fd

    monkeypatch.setattr(Mounters, "set_owner", exchange)
    monkeypatch.setattr(code_owner.os, "open", watched)
    owner_of_code(str(python))
    assert exchanged
    assert devices == []


def test_child_has_the_ids_of_its_user_no_capability_and_no_environment_of_ours(folder):
    """A program in the place of an interpreter, which reports as whom and with what it runs."""
    names = 'env | cut -d= -f1 | sort | tr "\\n" " "'
    path = folder / "bin/python"
    path.parent.mkdir()
    library(folder, 0)  # else one is looked for in the sticky folder above
    path.write_text(
        f"#!/bin/sh\nid -u\nid -G\n{names}\necho\ngrep -E '^(CapEff|NoNewPrivs)' /proc/self/status\n"
    )
    path.chmod(0o755)
    for uid, shown in ((0, 65534), (EVE, EVE)):
        give(folder, uid)
        os.chown(path, uid, 42)  # the group of a file is not one of its owner's
        done = ask(("python-at", str(path), "torch"))
        assert done.status == 0, done.errors
        uids, groups, variables, *status = done.text.splitlines()
        assert (uids, groups) == (str(shown), "65534")
        assert set(variables.split()) <= {
            "HOME",
            "LC_ALL",
            "OMP_NUM_THREADS",
            "PATH",
            "PWD",
            "_",
            "SHLVL",
        }
        assert [line.split()[1] for line in status] == ["0000000000000000", "1"]


def test_group_that_has_no_other_member_is_its_owners_own(folder, monkeypatch):
    import grp
    import pwd

    from hosttune.host.processes import code_owner

    python = venv(folder / "venv", EVE)
    (folder / "venv").chmod(0o775)
    account = pwd.struct_passwd(("eve", "x", EVE, EVE, "", "/", ""))
    accounts = [account]
    monkeypatch.setattr(pwd, "getpwuid", lambda _: account)
    monkeypatch.setattr(pwd, "getpwall", lambda: accounts)
    for members, others, owner in (
        ([], [], EVE),
        (["eve"], [], EVE),
        (["bob"], [], None),
        ([], [BOB], None),
    ):
        code_owner.is_group_of.cache_clear()
        monkeypatch.setattr(
            grp, "getgrgid", lambda _, members=members: grp.struct_group(("eve", "x", EVE, members))
        )
        accounts[1:] = [pwd.struct_passwd(("b", "x", uid, EVE, "", "/", "")) for uid in others]
        found = owner_of_code(str(python))
        assert found == owner if owner else isinstance(found, Unreadable)
    code_owner.is_group_of.cache_clear()


def test_user_is_chosen_only_for_code_that_only_root_can_change(folder, monkeypatch):
    for typed, data, user in ((ADMIN, EVE, ADMIN), (0, EVE, EVE), (0, 0, 65534)):
        monkeypatch.setenv("SUDO_UID", str(typed))
        os.chown(folder, data, data)
        found = user_python(PYTHON, str(folder))
        assert found.uid == user
        assert ("PYTHONNOUSERSITE" in found.environment) is (not typed)
        with Crew(found.command, found.environment, 1, most=0, memory=1 << 30) as crew:
            crew.load([])


def test_group_of_a_file_gives_its_owner_nothing(folder):
    python = venv(folder / "venv", EVE, WHO)
    os.chown(python, EVE, 42, follow_symlinks=False)
    shutil.copy(PYTHON, folder / "venv/own")
    os.chown(folder / "venv/own", EVE, 42)
    ask(("python-at", str(folder / "venv/own"), "torch"))
    assert at_path(str(folder / "venv/own")).gid == 65534


def test_root_without_the_right_to_make_a_namespace_runs_roots_code_only(folder):
    """As in a container: what cannot be ended for certain is not started, unless root wrote it."""
    python = venv(folder / "venv", EVE, WHO)
    code = "import sys; from hosttune.host.processes.interpreter import ask; print(ask(('python-at', sys.argv[1], 'torch')))"
    words = ("setpriv", "--bounding-set=-sys_admin", "--", sys.executable, "-c", code)
    said = [
        subprocess.run(
            (*words, path), check=True, capture_output=True, text=True, cwd=ROOT, timeout=60
        ).stdout
        for path in (PYTHON, python)
    ]
    assert said[0].startswith("Completed(status=0")
    assert "Unreadable" in said[1]
    assert "unshare: Operation not permitted" in said[1]
    assert not (folder / "venv/who").exists()


def test_links_without_end_are_not_followed_without_end(folder):
    python = venv(folder / "venv", EVE)
    (site,) = folder.glob("venv/lib/*/site-packages")
    deep = folder / "venv/deep"
    deep.mkdir()
    inner = "d/" * 200
    (deep / inner).mkdir(parents=True)
    for number in range(1000):
        (site / f"link{number}").symlink_to(f"{deep}/{inner}")
    give(folder / "venv", EVE)
    refused = owner_of_code(str(python))
    assert isinstance(refused, Unreadable)
    assert "too many folders and links" in refused.reason


def test_ordinary_user_does_not_run_what_another_wrote(folder):
    python = venv(folder / "venv", EVE, WHO)
    child = os.fork()
    if child == 0:
        os.setgid(BOB)
        os.setuid(BOB)
        answer = ask(("python-at", str(python), "torch"))
        os._exit(
            0 if isinstance(answer, Unreadable) and f"belongs to uid {EVE}" in answer.reason else 1
        )
    assert os.waitpid(child, 0)[1] == 0
    assert not (folder / "venv/who").exists()


@pytest.fixture
def cgroups():
    """Control groups of the job's own: of version 2, and of the pids controller of version 1, where
    there is one.
    """
    mounts = parse(Path("/proc/self/mountinfo").read_bytes())
    found = [
        one
        for one in mounts
        if one.fstype == "cgroup2" or (one.fstype == "cgroup" and "pids" in one.super_options)
    ]
    groups = [Path(one.target, f"hosttune-test-{os.getpid()}") for one in found if one.root == "/"]
    assert groups
    for group in groups:
        group.mkdir()
    yield groups
    for group in groups:
        until(lambda group=group: not (group / "cgroup.procs").read_text())
        for one in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            one.rmdir()
        group.rmdir()


@contextlib.contextmanager
def job(python: Path, groups=(), prepare=lambda: None):
    """A process of eve that computes with `python`; `prepare` runs as root before it is hers."""

    def become() -> None:
        for group in groups:
            (group / "cgroup.procs").write_text("0")
        prepare()
        os.setgroups([])
        os.setgid(EVE)
        os.setuid(EVE)

    code = ("-I", "-S", "-c", "import time; time.sleep(600)")
    child = subprocess.Popen([python, *code], preexec_fn=become, env={"PATH": "/usr/bin:/bin"})  # noqa: PLW1509
    try:
        yield str(child.pid)
    finally:
        child.kill()
        child.wait()


def test_job_is_asked_inside_its_limits_and_nothing_outlives_the_answer(folder, cgroups):
    python = venv(folder / "venv", EVE, DAEMON)
    for group in cgroups:
        if (group / "pids.max").exists():
            (group / "pids.max").write_text("12")
    cpu = min(os.sched_getaffinity(0))

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (77, 99))
        os.sched_setaffinity(0, {cpu})
        os.nice(3)

    with job(python, cgroups, prepare) as pid:
        own = Path(f"/proc/{pid}/cgroup").read_text().rstrip("\n")
        assert own.count(cgroups[0].name) == len(cgroups)
        answer = ask(("python-of", pid, "torch"))
        for name in ("asked", "daemon"):
            told = sections(folder / "venv" / name)
            assert told["cgroup"] == own
            assert "Max open files            77                   99" in told["limits"]
            assert "Max core file size        0                    0" in told["limits"]
            assert (told["oom_score_adj"], told["nice"]) == ("1000", "3")
            assert f"Cpus_allowed_list:\t{cpu}\n" in told["status"]
            assert f"Uid:\t{EVE}\t{EVE}\t{EVE}\t{EVE}" in told["status"]
            assert not is_running(told["pid"])
        for group in cgroups:
            assert (group / "cgroup.procs").read_text().split() == [pid]
    assert json.loads(answer.text.splitlines()[-1])["python"].startswith("3.")


def test_nothing_outlives_a_hosttune_that_is_killed(folder):
    python = venv(folder / "venv", EVE, DAEMON + "time.sleep(600)\n")
    words = f"from hosttune.host.processes.interpreter import ask; ask(('python-at', {str(python)!r}, 'torch'))"
    hosttune = subprocess.Popen([sys.executable, "-c", words], cwd=ROOT)
    until((folder / "venv/daemon").exists)
    pids = [sections(folder / "venv" / name)["pid"] for name in ("asked", "daemon")]
    assert all(map(is_running, pids))
    hosttune.send_signal(signal.SIGKILL)
    hosttune.wait()
    until(lambda: not any(map(is_running, pids)))


def test_program_that_ignores_the_end_of_its_time_is_ended_with_all_it_started(folder, monkeypatch):
    from hosttune.host import process
    from hosttune.host.processes import interpreter

    monkeypatch.setattr(interpreter, "TIMEOUT_S", 2.0)
    monkeypatch.setattr(process, "_GRACE_S", 0.3)
    code = "import signal\nsignal.signal(15, signal.SIG_IGN)\n" + DAEMON + "time.sleep(600)\n"
    python = venv(folder / "venv", EVE, code)
    assert ask(("python-at", str(python), "torch")).status == interpreter.TIMED_OUT
    pids = [sections(folder / "venv" / name)["pid"] for name in ("asked", "daemon")]
    until(lambda: not any(map(is_running, pids)))


KEYS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
number = libc.syscall(%d, 0, -3, 0)
found = libc.syscall(%d, 10, -3, b"user", b"hosttune-test", 0)
open(HERE + "/who", "w").write("%%d %%d" %% (number, found))
"""


def test_program_of_a_user_has_no_key_of_roots_session(folder):
    from hosttune.host.processes.confined_child import SYS_KEYCTL

    keyctl = SYS_KEYCTL[os.uname().machine]
    add_key = {250: 248, 219: 217, 271: 269}[keyctl]
    python = venv(folder / "venv", EVE, KEYS % (keyctl, keyctl))
    child = os.fork()
    if child == 0:  # a session keyring of its own, with a key that only a possessor finds
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall(keyctl, 1, None)
        made = libc.syscall(add_key, b"user", b"hosttune-test", b"secret", 6, -3)
        own = libc.syscall(keyctl, 0, -3, 0)
        ask(("python-at", str(python), "torch"))
        number, found = map(int, (folder / "venv/who").read_text().split())
        os._exit(0 if made > 0 and number != own and found == -1 else 1)
    assert os.waitpid(child, 0)[1] == 0


def with_a_filter() -> None:
    """seccomp(2): a filter that allows everything, as containers and sandboxes install stricter
    ones.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    allow = ctypes.create_string_buffer(
        (6).to_bytes(2, "little") + b"\0\0" + (0x7FFF0000).to_bytes(4, "little"), 8
    )

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    program = Program(1, ctypes.addressof(allow))
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert (
        libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
    )  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def test_job_under_a_filter_is_not_asked(folder):
    with job(venv(folder / "venv", EVE, WHO), prepare=with_a_filter) as pid:
        refused = ask(("python-of", pid, "torch"))
    assert "seccomp filter" in refused.reason
    assert not (folder / "venv/who").exists()


@pytest.mark.parametrize("kind", ["net", "ipc", "uts", "pid", "mount"])
def test_job_in_a_namespace_of_its_own_is_not_asked(folder, kind):
    python = venv(folder / "venv", EVE, WHO)
    words = (
        "unshare",
        f"--{kind}",
        *(("--fork",) if kind == "pid" else ()),
        "setpriv",
        f"--reuid={EVE}",
        f"--regid={EVE}",
        "--clear-groups",
    )
    child = subprocess.Popen([*words, python, "-I", "-S", "-c", "import time; time.sleep(600)"])
    try:
        target = python.resolve()
        pids: list[str] = []

        def is_there() -> bool:
            pids[:] = [
                str(child.pid),
                *Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split(),
            ]
            pids[:] = [
                one
                for one in pids
                if os.path.exists(f"/proc/{one}/exe")
                and Path(f"/proc/{one}/exe").resolve() == target
            ]
            return bool(pids) and Path(f"/proc/{pids[0]}/cmdline").read_bytes().startswith(
                os.fsencode(python)
            )

        until(is_there)
        refused = ask(("python-of", pids[0], "torch"))
        name = {"mount": "mnt"}.get(kind, kind)
        assert f"has its own {name} namespace" in refused.reason
    finally:
        for one in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(one), signal.SIGKILL)
        child.kill()
        child.wait()
    assert not (folder / "venv/who").exists()


@pytest.mark.parametrize(
    "name", ["slurm_gpu04/job_7", "kubepods.slice/x", "pbs_jobs.service", "htcondor"]
)
def test_job_of_a_batch_system_is_not_asked(folder, cgroups, name):
    (cgroups[0] / name).mkdir(parents=True)
    with job(venv(folder / "venv", EVE, WHO), [cgroups[0] / name]) as pid:
        refused = ask(("python-of", pid, "torch"))
    assert f"is in the control group {name.split('/')[0]}, which a batch system" in refused.reason
    assert not (folder / "venv/who").exists()


def test_job_that_runs_the_code_of_another_is_not_asked(folder):
    python = venv(folder / "venv", BOB, WHO)
    with job(python) as pid:
        refused = ask(("python-of", pid, "torch"))
    assert f"its code belongs to uid {BOB}, and the job runs as uid {EVE}" in refused.reason
    assert not (folder / "venv/who").exists()


def test_root_starts_no_program_on_whose_way_another_user_has_a_say(folder):
    """He could exchange it between the look and the start, although the program itself is
    root's.
    """
    (folder / "eve").mkdir()
    shutil.copy("/bin/true", folder / "eve/program")
    (folder / "program").symlink_to("eve/program")
    assert locate(str(folder / "program")) == str(folder / "program")
    os.chown(folder / "eve", EVE, EVE)
    assert locate(str(folder / "program")) is ABSENT
    assert locate(str(folder / "eve/program")) is ABSENT


V2 = {
    "memory.max": "4294967296",
    "memory.current": "3221225472",
    "memory.stat": "inactive_file 1073741824\n",
}
V1 = {
    "memory.limit_in_bytes": "4294967296",
    "memory.usage_in_bytes": "3221225472",
    "memory.stat": "inactive_file 5\ntotal_inactive_file 1073741824\n",
}


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        ({}, job_limits._INFINITE),
        (V2, 2 << 30),
        (V1, 2 << 30),
        (V2 | {"memory.high": "3221225472"}, 1 << 30),
        (
            V2 | {"memory.max": "3221225472", "memory.stat": ""},
            "has 0 MiB of memory left, less than 1024",
        ),
        ({"memory.max": "max", "memory.current": "5"}, job_limits._INFINITE),
        ({"memory.oom.group": "1"}, "memory.oom.group"),
        ({"freezer.state": "FROZEN"}, "is frozen"),
        ({"cgroup.freeze": "1"}, "is frozen"),
    ],
)
@pytest.mark.parametrize("depth", ["", "a/b"])
def test_group_that_is_frozen_or_short_of_memory_is_left_alone(tmp_path, files, answer, depth):
    """The group of the job, and each one above it."""
    for one in (tmp_path, *(tmp_path / part for part in ("a", "a/b"))):
        one.mkdir(exist_ok=True)
        (one / "cgroup.procs").touch()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    if isinstance(answer, int):
        assert job_limits._free_bytes(str(tmp_path / depth)) == answer
    else:
        with pytest.raises(job_limits._Unrepeatable, match=answer):
            job_limits._free_bytes(str(tmp_path / depth))


MOUNTS = b"""\
1 0 0:1 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
2 0 0:2 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
3 0 0:3 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
4 0 0:4 /docker/x /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
"""


def test_folder_is_found_in_each_hierarchy():
    text = "4:name=systemd:/a\n3:cpu,cpuacct:/u:x\n0::/user.slice/b\n"
    assert job_limits._find_folders(text, "", parse(MOUNTS), 7) == (
        "/sys/fs/cgroup/systemd/a", "/sys/fs/cgroup/cpu,cpuacct/u:x", "/sys/fs/cgroup/unified/user.slice/b",
    )  # fmt: skip
    assert job_limits._find_folders("9:misc:/\n", "9:misc:/\n", parse(MOUNTS), 7) == ()


@pytest.mark.parametrize(
    "text", ["9:misc:/x\n", "9:pids:/x\n", "0::/../x\n", "0::/x (deleted)\n", ""]
)
def test_group_that_cannot_be_entered_is_refused(text):
    with pytest.raises(job_limits._Unrepeatable):
        job_limits._find_folders(text, "9:misc:/\n", parse(MOUNTS), 7)
