"""The mount table: escapes, optional fields, stacked and hidden mounts, and one word changed in
place.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.host.reading import bounded, mountinfo
from hosttune.host.reading.mountinfo import (
    decode,
    encode,
    find_holding,
    find_visible,
    folders_above,
    parse,
    print_line,
    topmost_at,
    with_atime,
)
from hosttune.host.writing import mounting

TABLE = b"""\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 8:2 / /data rw,nosuid,noatime shared:2 master:3 propagate_from:4 - xfs /dev/sdb1 rw,attr2
31 22 0:5 / /mnt/a\\040b\\011c\\012d\\134e rw - tmpfs none rw
32 22 0:6 /sub /bind rw,relatime - btrfs /dev/sdc rw,subvol=/sub
"""


def test_fields_are_parted_and_decoded():
    root, data, odd, bind = parse(TABLE)
    assert (root.id, root.parent, root.device, root.target, root.fstype) == (
        22,
        1,
        "8:1",
        "/",
        "ext4",
    )
    assert data.optional == ("shared:2", "master:3", "propagate_from:4")
    assert odd.target == "/mnt/a b\tc\nd\\e"
    assert [mount.atime for mount in (root, data, odd)] == ["relatime", "noatime", "strictatime"]
    assert (bind.root, bind.super_options) == ("/sub", ("rw", "subvol=/sub"))


def test_printing_gives_the_lines_back():
    assert "".join(print_line(mount) + "\n" for mount in parse(TABLE)).encode() == TABLE


def test_the_table_of_this_machine_survives_parse_and_print():
    content = Path("/proc/self/mountinfo").read_bytes()
    printed = [print_line(mount).encode("utf-8", "surrogateescape") for mount in parse(content)]
    assert printed == content.rstrip(b"\n").split(b"\n")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b"1 2 3",
        b"x 1 8:1 / / rw - ext4 a rw",
        b"1 1 8:1 / / rw ext4 a rw",
        b"\xff",
    ],
)
def test_line_that_is_none_is_left_out(line):
    assert parse(line + b"\n" + TABLE) == parse(TABLE)


@given(
    st.lists(
        st.sampled_from(
            ["\\", "\\040", "\\134", "\\011", "\\043", "\\057", "0", "4", "1", "a", "\u00e4"]
        )
    ).map("".join)
)
def test_escapes_are_decoded_once(text):
    slow = re.sub(rb"\\([0-7]{3})", lambda found: bytes((int(found[1], 8) & 0xFF,)), text.encode())
    assert decode(text) == slow.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 18])
def test_table_without_paths_that_are_too_long(tmp_path, monkeypatch, size):
    """Whatever is read at once. A path has 4,095 characters at most, of which the kernel writes
    some as four.
    """
    monkeypatch.setattr(bounded, "_CHUNK", size)
    longest = b"/" + b"\\040" * 4094
    options = b"rw,lowerdir=" + b"/l:" * 9000
    line = b"1 1 8:1 %s %s rw - overlay none %s\n"
    file = tmp_path / "mountinfo"
    file.write_bytes(line % (longest, longest + b"a", options) + line % (b"/", b"/b", b"rw"))
    wanted = line % (longest, bounded.NO_PATH, options) + line % (b"/", b"/b", b"rw")
    assert bounded.head_of(str(file), 1 << 20, read=bounded.read_mounts) == (wanted, True)
    assert bounded.head_of(str(file), len(wanted), read=bounded.read_mounts) == (wanted, True)
    assert bounded.head_of(str(file), 9, read=bounded.read_mounts) == (wanted[:9], False)


def test_one_more_mount_looks_through_the_others_once(monkeypatch):
    looks = []
    monkeypatch.setattr(
        mountinfo, "find_visible", lambda mounts: looks.append(1) or find_visible(mounts)
    )
    assert b"/data/x" in mountinfo.with_mount(TABLE, "8:9", "/dev/sdz", "/data/x", "ext4", ("ro",))
    assert looks == [1]


def test_bytes_that_are_no_text_survive():
    (mount,) = parse(b"1 1 8:1 / /m\xe4\\040x rw - ext4 a rw\n")
    assert mount.target.encode("utf-8", "surrogateescape") == b"/m\xe4 x"
    assert decode(encode("/ä b\\c")) == "/ä b\\c"


def table(*rows: tuple[int, int, str]):
    return parse(
        "".join(
            f"{number} {parent} 8:{number} / {target} rw - ext4 d rw\n"
            for number, parent, target in rows
        ).encode()
    )


@pytest.mark.parametrize(
    ("rows", "seen"),
    [
        ([(1, 0, "/"), (2, 1, "/a"), (3, 2, "/a/b")], {1, 2, 3}),
        ([(1, 0, "/"), (2, 1, "/a"), (3, 2, "/a")], {1, 3}),
        (
            [(1, 0, "/"), (3, 2, "/a"), (2, 1, "/a")],
            {1, 3},
        ),  # sorted by id or not, the upper one counts
        (
            [(1, 0, "/"), (2, 1, "/a/b"), (3, 1, "/a")],
            {1, 3},
        ),  # covered by a mount on a folder above
        ([(1, 0, "/"), (2, 1, "/a/b"), (4, 2, "/a/b/c"), (3, 1, "/a")], {1, 3}),  # and all below it
        ([(1, 0, "/"), (2, 1, "/a"), (3, 2, "/a/b"), (4, 2, "/a")], {1, 4}),
        ([(1, 0, "/"), (2, 1, "/ab"), (3, 1, "/a")], {1, 2, 3}),  # /a is no folder above /ab
        ([(5, 3, "/"), (6, 5, "/x")], {5, 6}),  # in a chroot the parent of the root is not shown
        ([(1, 1, "/"), (2, 1, "/")], {2}),
    ],
)
def test_hidden_mounts_are_not_seen(rows, seen):
    assert find_visible(table(*rows)) == seen


@pytest.mark.parametrize(
    ("path", "target", "is_read_only"),
    [
        ("/etc/fstab", "/", True),
        ("/data", "/data", False),
        ("/data/a/b", "/data", False),
        ("/database", "/", True),
        ("/data/ro/x", "/data/ro", True),
        ("/snap/x/y", "/snap/x", True),
    ],
)
def test_path_lies_on_the_deepest_mount_and_may_not_be_written(path, target, is_read_only):
    content = (
        b"1 0 8:1 / / ro,relatime - ext4 /dev/sda1 ro\n2 1 8:2 / /data rw - xfs /dev/sdb1 rw\n"
        b"3 2 8:3 / /data/ro ro - xfs /dev/sdc1 rw\n4 1 7:0 / /snap/x rw - squashfs /dev/loop0 ro\n"
    )
    mount = find_holding(content, path)
    assert mount is not None
    assert (mount.target, mount.is_read_only) == (target, is_read_only)
    assert find_holding(b"", path) is None


def test_topmost_is_the_one_that_a_path_reaches():
    mounts = table((1, 0, "/"), (2, 1, "/a"), (3, 2, "/a"), (4, 1, "/b/c"), (5, 1, "/b"))
    assert topmost_at(mounts, "/a").id == 3
    assert topmost_at(mounts, "/b/c") is None
    assert topmost_at(mounts, "/none") is None


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("noatime", "rw,nosuid,noatime"),
        ("relatime", "rw,nosuid,relatime"),
        ("strictatime", "rw,nosuid"),
    ],
)
def test_one_word_of_one_mount_changes_and_no_other_byte(word, options):
    assert with_atime(TABLE, 30, word) == TABLE.replace(b"rw,nosuid,noatime", options.encode())


def test_thousand_mounts_of_a_user_as_deep_as_they_can_be_cost_little():
    """mount_max of fuse.conf is 1000; each path was joined anew for each folder above it."""
    deep = "/tmp/h" + "/a" * 1_900
    rows = "".join(
        f"{number} 1 0:{number} / {deep}{number} rw - fuse x rw\n" for number in range(2, 1_002)
    )
    table = parse(f"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n{rows}".encode())
    started = time.process_time()
    assert len(find_visible(table)) == 1_001
    assert time.process_time() - started < 2
    started = time.process_time()
    for mount in table:
        assert len(folders_above(mount.target)) in {0, 1_902}
    assert time.process_time() - started < 4


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.lists(st.sampled_from(["a", "b", "a.b", "a-"]), max_size=3)),
        min_size=1, max_size=9,
    )
)  # fmt: skip
def test_what_is_hidden_is_so_by_a_folder_above_or_by_its_parent(rows):
    lines = (
        f"{number} {parent} 0:{number} / /{'/'.join(parts)} rw - tmpfs x rw"
        for number, (parent, parts) in enumerate(rows, 1)
    )
    table = parse("\n".join(lines).encode())
    by_id = {mount.id: mount for mount in table}
    seen, todo = set(), [one for one in table if one.parent not in by_id or one.parent == one.id]
    while todo:
        mount = todo.pop()
        on_it = [one for one in table if one.parent == mount.id and one.id != mount.id]
        targets = {one.target for one in on_it}
        seen |= {mount.id} - {mount.id for target in targets if target == mount.target}
        todo += [one for one in on_it if targets.isdisjoint(folders_above(one.target))]
    assert find_visible(table) == seen


def test_source_that_a_user_gave_a_mount_is_not_looked_up(monkeypatch):
    """It can lead to a place that never answers."""
    monkeypatch.setattr(mounting.os.path, "realpath", pytest.fail)
    (mount,) = parse(b"9 1 0:77 / /data rw - fuse.x /dev/shm/eve rw,user_id=1000\n")
    assert not mounting._is_device(mount, "/dev/null")
