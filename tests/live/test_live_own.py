"""Where root writes: not where an ACL lets others write, not into a fifo, not on a mount that came
in between.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hosttune.errors import Refused
from tests.live.namespace import own_etc, passes, run

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    "name",
    ["acl", "policy_under_an_acl", "fifo", "mount_that_came_in_between", "unmount", "first_policy"],
)
def test_scenario_in_a_private_namespace(name, tmp_path):
    passes(__file__, name, tmp_path)


def scenario_first_policy(folder: Path) -> None:
    """`init --yes` shows it first, and a reader of that takes a while: what somebody writes
    meanwhile stays.
    """
    from hosttune.cli.app import run as hosttune
    from hosttune.engine.policy import first_policy

    own_etc(folder)
    policy = Path("/etc/hosttune/policy.yaml")
    make = first_policy.first_policy
    meanwhile = [b"profile: workstation\n", None]

    def made(*words):
        policy.parent.mkdir(exist_ok=True)
        if content := meanwhile.pop(0):
            policy.write_bytes(content)
        return make(*words)

    first_policy.first_policy = made
    assert hosttune(["init", "--yes"]) == 2
    assert policy.read_bytes() == b"profile: workstation\n"
    policy.write_bytes(b"# profile: base\n")
    policy.chmod(0o640)
    assert hosttune(["init", "--yes"]) == 0
    assert b"\nprofile: " in policy.read_bytes()
    assert policy.stat().st_mode & 0o777 == 0o640


def scenario_acl(folder: Path) -> None:
    """A folder that an ACL opens is not written in, nor passed; one whose ACL lets others read
    is.
    """
    from hosttune.host.writing.folders import opened_parent
    from hosttune.host.writing.replace import replace
    from hosttune.values import FileValue

    run("mount", "-t", "tmpfs", "-o", "mode=755", "disk", folder)
    (folder / "etc").mkdir()
    (folder / "way").mkdir()
    file, by_link = folder / "etc/file", folder / "way/link"
    file.write_bytes(b"old\n")
    by_link.symlink_to(file)
    for opened, paths in ((folder / "etc", (file, by_link)), (folder / "way", (by_link,))):
        run("setfacl", "-m", "u:4321:rwx", opened)
        for path in paths:
            with pytest.raises(Refused, match="because others can") as caught:
                replace("/", str(path), FileValue(b"new\n"), expected=b"old\n")
            assert "getfacl" in str(caught.value.hint)
        with (
            pytest.raises(Refused, match="because others can"),
            opened_parent("/", str(opened / "new")),
        ):
            pass
        run("setfacl", "-m", "u:4321:rx", opened)
    (folder / "etc").chmod(
        0o775
    )  # root's own group, and the ACL lets nobody else write once its mask is gone
    run("setfacl", "-b", folder / "etc")
    replace("/", str(by_link), FileValue(b"new\n"), expected=b"old\n")
    assert file.read_bytes() == b"new\n"


def scenario_policy_under_an_acl(folder: Path) -> None:
    from hosttune.host.reading.rooted import RootReader

    run("mount", "-t", "tmpfs", "-o", "mode=755", "disk", folder)
    (folder / "etc").mkdir()
    (folder / "etc/policy.yaml").write_bytes(b"profile: base\n")
    reader = RootReader(str(folder))
    assert reader.read_guarded("/etc/policy.yaml") == (b"profile: base\n", ())
    run("setfacl", "-m", "u:4321:rwx", folder / "etc")
    # the group bits of the mode are the mask of the ACL (acl(5))
    assert reader.read_guarded("/etc/policy.yaml")[1] == (("/etc", "mode 0775"),)


def scenario_fifo(folder: Path) -> None:
    from hosttune.host.writing.own import append

    fifo = folder / "journal"
    os.mkfifo(fifo, 0o600)
    with pytest.raises(Refused):  # nobody reads: the open would wait for ever
        append("/", str(fifo), b"x")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(Refused, match="not a regular file"):
        append("/", str(fifo), b"x")
    assert os.read(reader, 9) == b""
    os.close(reader)
    append("/", str(folder / "file"), b"x")
    assert (folder / "file").read_bytes() == b"x"


def scenario_mount_that_came_in_between(folder: Path) -> None:
    from hosttune.host.writing import mountapi

    target = folder / "data"
    target.mkdir()
    run("mount", "-t", "tmpfs", "-o", "relatime", "first", target)
    topmost = mountapi.find_topmost

    def and_then_another(path):
        found = topmost(path)
        run("mount", "-t", "tmpfs", "-o", "relatime", "second", path)
        return found

    mountapi.find_topmost = and_then_another
    with pytest.raises(Refused, match="leads to another mount"):
        mountapi.set_atime(str(target), "noatime")
    mountapi.find_topmost = topmost
    assert topmost(str(target)).atime == "relatime"
    mountapi.set_atime(str(target), "noatime")
    assert topmost(str(target)).atime == "noatime"


def scenario_unmount(folder: Path) -> None:
    """A user who owns a folder on the way could have another mount taken away."""
    from hosttune.host.writing.mounting import unmount

    run("mount", "-t", "tmpfs", "-o", "mode=755", "disk", "/mnt")
    target = Path("/mnt/way/data")
    target.mkdir(parents=True)
    run("mount", "-t", "tmpfs", "data", target)
    os.chown("/mnt/way", 1003, 1003)
    with pytest.raises(Refused, match="belongs to uid 1003"):
        unmount(str(target))
    assert target.is_mount()
    os.chown("/mnt/way", 0, 0)
    unmount(str(target))
    assert not target.is_mount()
