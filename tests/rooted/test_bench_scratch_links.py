"""Where root makes the scratch folder of a bench, beside a user who turns the way there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.errors import HosttuneError
from hosttune.measure.bench.place import look_at
from hosttune.measure.bench.scratch import make_scratch

EVE = 1003


@pytest.fixture
def places():
    """A folder of the user's with a folder `data`, one that only root may enter, and a state
    folder.
    """
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        for folder in ("eve", "eve/data", "roots", "state"):
            (top / folder).mkdir(mode=0o700)
        for folder in ("eve", "eve/data"):
            os.chown(top / folder, EVE, EVE)
        yield top


def exchange_for_link(top: Path) -> None:
    words = f"mv {top}/eve/data {top}/eve/moved && ln -s {top}/roots {top}/eve/data"
    user = ("setpriv", f"--reuid={EVE}", f"--regid={EVE}", "--clear-groups")
    subprocess.run((*user, "sh", "-c", words), check=True, timeout=20)


def refuse(top: Path, place, message: str) -> None:
    before = (top / "roots").stat().st_mtime_ns
    with pytest.raises(HosttuneError, match=message), make_scratch(place, str(top / "state")):
        pass
    assert (top / "roots").stat().st_mtime_ns == before  # nothing was made and removed there


def test_link_that_came_while_the_host_was_watched_leads_nowhere(places):
    place = replace(look_at(str(places / "eve/data")), target=str(places / "eve/data"))
    exchange_for_link(places)
    refuse(places, place, "was exchanged")


def test_link_of_a_user_that_was_named_is_refused_with_what_it_leads_to(places):
    exchange_for_link(places)
    place = look_at(str(places / "eve/data"))
    assert place.path == str(places / "roots")
    refuse(places, place, f"root does not write behind {places}/eve/data, a link of another user")


def test_folder_of_a_user_and_a_link_of_roots_are_written_behind(places):
    (places / "link").symlink_to("eve/data")
    place = replace(look_at(str(places / "link")), target=str(places / "eve/data"))
    with make_scratch(place, str(places / "state")) as (_, path):
        assert Path(path).parent == places / "eve/data"
    assert not list((places / "eve/data").iterdir())


# A user takes the folder of a bench away, and mounts a file system there whose server answers
# nothing.
MOUNTED_OVER = """
import ctypes, os, sys
from dataclasses import replace
from hosttune.errors import HosttuneError
from hosttune.measure.bench import scratch
from hosttune.measure.bench.place import look_at
data, where = sys.argv[1:]
fuse = os.open("/dev/fuse", os.O_RDWR)
place = replace(look_at(data), target=data)
with scratch.make_scratch(place, where) as (fd, path):
    os.rename(path, f"{data}/away")
    os.mkdir(path)
    options = f"fd={fuse},rootmode=40000,user_id=1003,group_id=1003,allow_other".encode()
    assert ctypes.CDLL(None).mount(b"x", path.encode(), b"fuse.x", 6, options) == 0
print(os.listdir(where))
scratch._is_running = lambda mark: False
(left,) = scratch.find_leftovers(where)
print(left.path == path, scratch.clean(left, where), len(os.listdir(where)))
"""


def test_file_system_that_a_user_mounts_over_a_scratch_folder_is_not_asked(places):
    words = ("unshare", "-m", "--propagation", "private", sys.executable, "-c", MOUNTED_OVER)
    data, where = places / "eve/data", places / "state"
    done = subprocess.run(
        (*words, str(data), str(where)), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("True False 1\n")  # its note stays: the mount may go
