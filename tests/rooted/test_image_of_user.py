"""An image in a folder of a user, who exchanges it for another one while root is at work on it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosttune.actions.journal.journal import read_journal
from hosttune.errors import HosttuneError
from hosttune.host import open_reader, open_writer
from hosttune.host.reading import kept
from hosttune.host.writing.folders import make_folder
from hosttune.values import ABSENT, FileValue

EVE = 54321
PATH = "/etc/sysctl.d/60-x.conf"


def as_eve(code: str, *words: object) -> None:
    """Run Python as an ordinary user."""
    argv = [
        "setpriv",
        f"--reuid={EVE}",
        f"--regid={EVE}",
        "--clear-groups",
        "/usr/bin/python3",
        "-c",
        code,
    ]
    subprocess.run([*argv, *map(str, words)], check=True, timeout=60)


def system(folder: Path, name: str) -> Path:
    (folder / "etc/sysctl.d").mkdir(parents=True)
    (folder / "etc/os-release").write_text(f'ID=debian\nVERSION_ID="12"\nNAME="{name}"\n')
    return folder


@pytest.fixture
def places() -> Iterator[tuple[Path, Path]]:
    """The home of a user, with an image of root's in it, and another system of root's outside."""
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        home = Path(top) / "home"
        home.mkdir()
        system(home / "image", "image")
        os.chown(home, EVE, EVE)
        yield home, system(Path(top) / "other", "other")


SWAP = "import os, sys; os.rename(sys.argv[1], sys.argv[1] + '.old'); os.symlink(sys.argv[2], sys.argv[1])"


def test_image_that_a_user_exchanges_is_changed_where_it_was_looked_at(places):
    home, other = places
    reader, writer = open_reader(root=str(home / "image")), open_writer(root=str(home / "image"))
    as_eve(SWAP, home / "image", other)
    assert b"image" in reader.read("/etc/os-release")
    writer.replace(PATH, FileValue(b"new"), expected=ABSENT)
    writer.append("/var/lib/hosttune/runs/x.jsonl", b"line\n")
    writer.make_link("/etc/systemd/system/x.wants/y", "../y")
    writer.remove(PATH, expected=b"new")
    assert not (other / "var").exists()
    assert not (other / "etc/systemd").exists()
    assert (home / "image.old/var/lib/hosttune/runs/x.jsonl").read_bytes() == b"line\n"


def test_link_of_a_user_is_no_image(places):
    home, other = places
    as_eve("import os, sys; os.symlink(sys.argv[2], sys.argv[1])", home / "link", other)
    for place in (home / "link", home / "link/."):
        with pytest.raises(HosttuneError, match="is a symbolic link of another user"):
            open_writer(root=str(place))


@pytest.mark.parametrize("typed", [EVE, 0])
def test_link_of_root_or_of_the_person_who_typed_sudo_leads_to_an_image(typed, places, monkeypatch):
    home, other = places
    monkeypatch.setenv("SUDO_UID", str(typed))
    link = home / "link"
    link.symlink_to(other)
    os.chown(link, typed, typed, follow_symlinks=False)
    assert open_writer(root=str(link)).name == str(other)


def test_root_of_a_process_is_an_image(places):
    other = places[1]
    code = "import os, sys; os.chroot(sys.argv[1]); print(flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", code, str(other)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as inside:
        assert inside.stdout
        inside.stdout.readline()
        writer = open_writer(root=f"/proc/{inside.pid}/root")
        writer.replace(PATH, FileValue(b"new"), expected=ABSENT)
        inside.communicate(b"")
    assert (other / PATH[1:]).read_bytes() == b"new"


JOURNAL = "var/lib/hosttune/runs/20261129-044353-cb91.jsonl"
# A run that took a shell of root's with the setuid bit away: its undo would make it.
FORGED = """
import json, os, sys
path = os.path.join(sys.argv[1], sys.argv[2])
os.makedirs(os.path.dirname(path))
shell = {"type": "file", "text": "#!/bin/sh\\n", "mode": "4755", "uid": 0, "gid": 0}
change = {"address": "file:/opt/shell", "action": "delete", "before": shell, "after": {"type": "absent"}}
change |= {"rule": "limits-nofile", "risk": "low", "disturbs": "nothing", "activation": "now", "reversible": "yes"}
change |= {"reason": "", "triggers": [], "details": [], "device": ""}
head = {"format_version": 1, "id": "20261129-044353-cb91", "command": "apply", "who": "root", "boot_id": ""}
head |= {"started_at": "2026-11-29T04:43:53.516273+00:00", "digest": "8b35", "tool_version": "0.2.0"}
head |= {"planned": ["file:/opt/shell"]}
lines = [head, {"seq": 1, "phase": "intent", "at": 1.0, "change": change}, {"seq": 1, "phase": "done", "at": 2.0}]
with open(path, "w") as file:
    file.write("".join(json.dumps(line) + "\\n" for line in (*lines, {"finished": True, "at": 3.0})))
"""


def test_journal_of_a_user_steers_no_undo(places):
    """Who owns the top folder can put another `var` in the place of root's, and back before root
    writes there.
    """
    image = places[0] / "image"
    (image / "opt").mkdir()
    os.chown(image, EVE, EVE)
    as_eve(FORGED, image / "forged", JOURNAL)
    as_eve("import os, sys; os.rename(sys.argv[1] + '/forged/var', sys.argv[1] + '/var')", image)
    reader = open_reader(root=str(image))
    assert "/var can be written by others (uid 54321)" in read_journal(reader).problem
    done = subprocess.run(
        [sys.executable, "-m", "hosttune", "undo", "--root", str(image), "--yes"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, (image / "opt/shell").exists()) == (2, False)
    assert "root does not follow" in done.stderr


def test_file_that_would_run_with_the_rights_of_its_owner_is_not_made(places):
    writer = open_writer(root=str(places[1]))
    with pytest.raises(HosttuneError, match="hosttune makes no such file"):
        writer.replace(PATH, FileValue(b"new", 0o4755), expected=ABSENT)
    assert writer.read(PATH) is ABSENT


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_folders_that_an_image_lacks_are_made_as_distributions_have_them(places, umask):
    """Private are only hosttune's own: with a /var of 0700 no service of the image but root's would
    start.
    """
    home, _ = places
    image = home / "image"
    before = os.umask(umask)
    try:
        writer = open_writer(root=str(image))
        writer.append("/var/lib/hosttune/runs/x.jsonl", b"line\n")
        writer.append("/srv/state/hosttune/x", b"line\n")
        kept.keep("/var/cache/hosttune/x", b"kept", str(image))
        writer.replace("/usr/lib/x/y.conf", FileValue(b"new"), expected=ABSENT)
    finally:
        os.umask(before)
    private = {
        "var/lib/hosttune",
        "var/lib/hosttune/runs",
        "srv/state/hosttune",
        "var/cache/hosttune",
    }
    made = {
        str(one.relative_to(image)): one.stat().st_mode & 0o7777
        for one in image.rglob("*")
        if one.is_dir()
    }
    assert private < made.keys()
    assert {
        path: mode for path, mode in made.items() if mode != (0o700 if path in private else 0o755)
    } == {}


@pytest.mark.parametrize("target", ["roots", "/link"])
def test_new_folder_that_a_user_exchanges_at_once_is_left_as_it_is(places, monkeypatch, target):
    """A private folder of root's in the image, or a link out of it, in place of the one that was
    just made.
    """
    home, other = places
    image, private = home / "image", other / "private"
    os.chown(image, EVE, EVE)
    for folder in (image / "roots", private):
        folder.mkdir(mode=0o700)
        (folder / "secret").touch()
    own_mkdir = os.mkdir

    def exchange(name, *words, **more):
        own_mkdir(name, *words, **more)
        if target == "/link":
            as_eve(SWAP, image / "srv", private)
        else:
            code = "import os, sys; os.rename(sys.argv[1], sys.argv[1] + '.old'); os.rename(sys.argv[2], sys.argv[1])"
            as_eve(code, image / "srv", image / "roots")

    monkeypatch.setattr(os, "mkdir", exchange)
    with pytest.raises(HosttuneError):
        make_folder(str(image), "/srv")
    assert {
        one.stat().st_mode & 0o777
        for one in (private, image / ("srv" if target == "roots" else "roots"))
    } == {0o700}


# The mount that fusermount3(1) makes for a user, whose server answers nothing.
MOUNTED_AT_ONCE = """
import ctypes, os, sys
from hosttune.errors import HosttuneError
from hosttune.host.writing.folders import make_folder
image, libc, own_mkdir = sys.argv[1], ctypes.CDLL(None), os.mkdir
fuse = os.open("/dev/fuse", os.O_RDWR)
def exchange(name, *words, **more):
    own_mkdir(name, *words, **more)
    options = f"fd={fuse},rootmode=40000,user_id=54321,group_id=54321,allow_other".encode()
    assert libc.mount(b"x", f"{image}/srv".encode(), b"fuse.x", 6, options) == 0
os.mkdir = exchange
try:
    make_folder(image, "/srv")
except HosttuneError as error:
    print(error)
"""


def test_file_system_that_a_user_mounts_on_a_new_folder_is_not_asked(places):
    image = places[0] / "image"
    os.chown(image, EVE, EVE)
    words = (
        "unshare",
        "-m",
        "--propagation",
        "private",
        sys.executable,
        "-c",
        MOUNTED_AT_ONCE,
        str(image),
    )
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert "srv was exchanged for another folder as soon as it was made" in done.stdout, done.stderr


MOUNTED_IN_IMAGE = """
import ctypes, os, sys
from hosttune.host import open_reader
image = sys.argv[1]
fuse = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fuse},rootmode=40000,user_id=54321,group_id=54321,allow_other".encode()
assert ctypes.CDLL(None).mount(b"x", f"{image}/etc/sysctl.d".encode(), b"fuse.x", 6, options) == 0
reader = open_reader(root=image)
for look in (reader.list, reader.stat, reader.read, reader.link):
    print(look("/etc/sysctl.d"))
print(reader.read("/etc/sysctl.d/x.conf"), type(reader.read("/etc/os-release")))
"""


def test_file_system_that_a_user_mounted_in_an_image_is_not_asked(places):
    words = ("unshare", "-m", "--propagation", "private", sys.executable, "-c", MOUNTED_IN_IMAGE)
    done = subprocess.run(
        (*words, str(places[0] / "image")), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is on a file system mounted by uid 54321, which is not asked") >= 4
    assert done.stdout.endswith("<class 'bytes'>\n")
