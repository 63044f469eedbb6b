"""Where root writes the files that a person names, beside users who turn the way there."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from hosttune.cli import app
from hosttune.errors import HosttuneError
from hosttune.host.processes.thread_ids import rights_of
from hosttune.host.reading.live import LiveWriter
from hosttune.host.writing import output
from hosttune.host.writing.output import check_writable, open_stream, publish_file, save
from hosttune.values import ABSENT, FileValue

EVE = 1001
ADMIN = 1003


def as_eve(*argv: str) -> None:
    subprocess.run(
        ["setpriv", f"--reuid={EVE}", f"--regid={EVE}", "--clear-groups", *argv],
        check=True,
        timeout=20,
    )


def stream(path: str) -> None:
    os.close(open_stream(path))


WRITERS = pytest.mark.parametrize(
    "write", [lambda path: save(path, b"secret"), stream, check_writable]
)


@pytest.fixture
def place():
    """A folder of root's that others may pass: what pytest makes for root is closed to them."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def eves(place) -> Path:
    folder = place / "eve"
    folder.mkdir()
    os.chown(folder, EVE, EVE)
    return folder


@pytest.fixture
def admins(place) -> Path:
    folder = place / "admin"
    folder.mkdir()
    os.chown(folder, ADMIN, ADMIN)
    return folder


@WRITERS
def test_root_does_not_write_in_a_users_folder(eves, write):
    for name in ("new", "hers"):
        as_eve("touch", f"{eves}/hers")
        with pytest.raises(
            HosttuneError,
            match=f"root does not write through {eves}, because it belongs to uid {EVE}",
        ) as caught:
            write(f"{eves}/{name}")
        assert "standard output" in caught.value.hint
    assert [one.name for one in eves.iterdir()] == ["hers"]
    assert (eves / "hers").read_bytes() == b""


@pytest.fixture
def typed_by(monkeypatch):
    """Root under sudo of this user, who has a name."""

    def typed(uid: int) -> None:
        monkeypatch.setenv("SUDO_UID", str(uid))
        monkeypatch.setattr(
            pwd,
            "getpwuid",
            lambda number: pwd.struct_passwd(("typist", "x", number, number, "", "/", "")),
        )

    return typed


@WRITERS
def test_root_under_sudo_writes_in_a_folder_of_the_person_who_typed_it_with_that_persons_rights(
    eves, write, typed_by
):
    typed_by(EVE)
    write(f"{eves}/report")
    for path in eves.iterdir():
        assert (path.stat().st_uid, path.stat().st_gid) == (EVE, EVE)
    assert (os.geteuid(), os.getegid()) == (0, 0)


@WRITERS
@pytest.mark.parametrize("made", [["touch"], ["mkfifo", "-m", "666"], ["ln", "-s", "{admin}"], []])
def test_person_who_typed_sudo_writes_through_nothing_of_other_users(
    place, eves, admins, write, typed_by, made
):
    """Eve's folder is open to all, and has a file, a pipe or a link for the report."""
    eves.chmod(0o777)
    (admins / "f").write_bytes(b"precious")
    if made:
        as_eve(*(word.format(admin=admins) for word in made), f"{eves}/f")
    typed_by(ADMIN)
    for path in (f"{eves}/f", f"{eves}/f/f"):
        with pytest.raises(HosttuneError):
            write(path)
        assert os.geteuid() == 0
    assert [one.name for one in eves.iterdir()] == ["f"] * bool(made)
    assert (admins / "f").read_bytes() == b"precious"


@WRITERS
def test_person_who_typed_sudo_gets_no_more_than_their_own_rights(place, eves, write, typed_by):
    (place / "roots").mkdir()
    (place / "roots").chmod(0o700)
    as_eve("ln", "-s", f"{place}/roots", f"{eves}/link")
    typed_by(EVE)
    with suppress(HosttuneError):  # the link is eve's, and the folder is root's
        write(f"{eves}/link/f")
    assert os.geteuid() == 0
    assert list((place / "roots").iterdir()) == []


def test_stream_of_the_person_who_typed_sudo_is_made_anew(admins, typed_by):
    typed_by(ADMIN)
    (admins / "f").write_bytes(b"old")
    os.chown(admins / "f", ADMIN, ADMIN)
    (admins / "f").chmod(0o666)
    with (admins / "f").open("rb") as held:
        stream(f"{admins}/f")
        assert held.read() == b"old"
    assert stat.S_IMODE((admins / "f").stat().st_mode) == 0o600


@WRITERS
def test_root_does_not_follow_a_users_link(place, eves, write):
    (place / "roots").mkdir()
    as_eve("ln", "-s", f"{place}/roots", f"{eves}/link")
    with pytest.raises(HosttuneError, match="root does not write through"):
        write(f"{eves}/link/f")
    assert list((place / "roots").iterdir()) == []


@WRITERS
def test_root_does_not_write_where_a_group_or_everybody_can_move_files(place, write):
    for mode, gid in ((0o777, 0), (0o775, EVE)):
        folder = place / f"{mode:o}"
        folder.mkdir()
        os.chown(folder, 0, gid)
        folder.chmod(mode)
        with pytest.raises(HosttuneError, match="because others can"):
            write(f"{folder}/f")
        assert list(folder.iterdir()) == []


@pytest.fixture
def sticky(place) -> Path:
    folder = place / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@WRITERS
@pytest.mark.parametrize("made", [["touch"], ["mkfifo"], ["ln", "-s", "/etc/hosttune-test"]])
def test_in_a_sticky_folder_root_takes_no_file_of_a_user(sticky, write, made):
    as_eve(*made, f"{sticky}/f")
    with pytest.raises(
        HosttuneError, match=f"{sticky}/f: (it belongs to uid {EVE}|already exists)"
    ):
        write(f"{sticky}/f")
    assert os.lstat(sticky / "f").st_uid == EVE
    assert os.lstat(sticky / "f").st_size in {0, len("/etc/hosttune-test")}
    assert not os.path.lexists("/etc/hosttune-test")


def test_in_a_sticky_folder_root_makes_and_replaces_its_own(sticky):
    for content in (b"one", b"two"):
        save(f"{sticky}/f", content)
        assert (sticky / "f").read_bytes() == content
        assert stat.S_IMODE((sticky / "f").stat().st_mode) == 0o600
    stream(f"{sticky}/f")
    assert (sticky / "f").read_bytes() == b""


def test_stream_of_root_is_not_what_a_user_has_open(place):
    """A file that was left readable to others, and that one of them still reads."""
    (place / "f").write_bytes(b"old")
    (place / "f").chmod(0o666)
    with (place / "f").open("rb") as held:
        descriptor = open_stream(f"{place}/f")
        os.write(descriptor, b"secret")
        os.close(descriptor)
        assert held.read() == b"old"
    assert stat.S_IMODE((place / "f").stat().st_mode) == 0o600


def test_a_user_writes_what_is_the_users_own(eves):
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(EVE)
            os.setuid(EVE)
            save(f"{eves}/a", b"x")
            os.write(open_stream(f"{eves}/b"), b"y")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert ((eves / "a").read_bytes(), (eves / "b").read_bytes()) == (b"x", b"y")
    assert (eves / "a").stat().st_uid == EVE


METRICS = FileValue(b"hosttune_ready 1\n")


@pytest.fixture
def exporter(place) -> Path:
    """As Debian's prometheus-node-exporter makes it: /var/lib/prometheus of user prometheus, and a
    folder of root's.
    """
    folder = place / "prometheus/node-exporter"
    folder.mkdir(parents=True)
    os.chown(folder.parent, EVE, EVE)
    return folder


def test_metrics_go_beside_debians_node_exporter(exporter):
    for write in (
        lambda path: publish_file("/", path, METRICS),
        lambda path: LiveWriter().publish(path, METRICS),
    ):
        write(f"{exporter}/f.prom")
        assert (exporter / "f.prom").read_bytes() == METRICS.content
        assert (exporter / "f.prom").stat().st_uid == 0
        publish_file("/", f"{exporter}/f.prom", ABSENT)
        assert list(exporter.iterdir()) == []
    save(f"{exporter}/g.prom", b"x", 0o644)


def turned(exporter: Path, *argv: str) -> None:
    as_eve("mv", f"{exporter}", f"{exporter}.away")
    as_eve(*argv)


@pytest.mark.parametrize("how", ["link to a folder of root's", "folder of hers", "link to her own"])
def test_metrics_do_not_go_where_the_owner_of_the_folder_above_leads(place, exporter, how):
    """M1: the user prometheus puts something else in the place of node-exporter/."""
    victim = place / "cron.d"
    victim.mkdir()
    mine = exporter.parent / "mine"
    if how == "link to a folder of root's":
        turned(exporter, "ln", "-s", str(victim), str(exporter))
    elif how == "link to her own":
        as_eve("mkdir", str(mine))
        turned(exporter, "ln", "-s", str(mine), str(exporter))
    else:
        turned(exporter, "mkdir", str(exporter))
    with pytest.raises(
        HosttuneError, match=f"root does not write through .*, because it belongs to uid {EVE}"
    ):
        publish_file("/", f"{exporter}/f.prom", METRICS)
    assert app.run(["health", "--format", "prometheus", "--output", f"{exporter}/h.prom"]) == 2
    assert [*victim.iterdir(), *exporter.iterdir()] == []


def test_owner_of_the_folder_above_cannot_bring_a_folder_of_roots_there(place, exporter):
    """What the rule counts on: rename(2) of a folder whose `..` changes takes the right to write in
    it.
    """
    roots = place / "roots"
    roots.mkdir()
    os.chown(place, EVE, EVE)  # even where the folder around it is the user's as well
    with pytest.raises(subprocess.CalledProcessError):
        turned(exporter, "mv", "-T", str(roots), str(exporter))


def test_new_rule_is_not_written_through_a_users_link(place, eves):
    as_eve("ln", "-s", f"{place}", f"{eves}/link")
    for folder in (f"{eves}/link", str(eves)):
        assert app.run(["rules", "new", "memory-example", "--dir", folder]) == 2
    assert app.run(["rules", "new", "memory-example", "--dir", f"{place}/new"]) == 0
    assert (place / "new/hosttune/rules/memory/memory-example.yaml").stat().st_mode & 0o777 == 0o644
    assert sorted(one.name for one in place.iterdir()) == ["eve", "new"]


def test_home_that_root_may_not_enter_is_written_with_the_rights_of_who_typed_sudo(monkeypatch):
    """As on NFS with root_squash."""
    monkeypatch.setenv("SUDO_UID", "1")

    def write(owner: int) -> int:
        if os.geteuid() == 0:
            raise PermissionError(13, "Permission denied")
        return owner

    assert output._with_rights(write) == 1


def test_other_threads_keep_their_rights_and_are_not_waited_for():
    """One that the kernel holds could not change its own (glibc asks all of them)."""
    asked, done, ids = threading.Event(), threading.Event(), []

    def look():
        asked.wait()
        ids.append((os.geteuid(), os.getegid(), os.getgroups()))
        done.set()

    before = os.geteuid(), os.getegid(), os.getgroups()
    threading.Thread(target=look).start()
    with rights_of(EVE, EVE, [EVE]):
        ids.append((os.geteuid(), os.getegid(), os.getgroups()))
        asked.set()
        done.wait()
    assert ids == [(EVE, EVE, [EVE]), before]
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before
