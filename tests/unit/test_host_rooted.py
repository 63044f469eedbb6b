"""An alternate root: no path leads out of it, and what only a running kernel knows is not made
up.
"""

from __future__ import annotations

import gc
import inspect
import os

import pytest

from hosttune.engine.rules.trusted import read_trusted
from hosttune.errors import HosttuneError, Refused
from hosttune.host import open_reader, open_writer
from hosttune.host.reading.live import LiveReader, LiveWriter
from hosttune.host.reading.paths import open_without_links, walk
from hosttune.host.reading.rooted import RootReader, RootWriter
from hosttune.host.reading.tree import FileTree
from hosttune.values import ABSENT, FileValue, Unreadable
from tests.unit.fake_reader import FakeReader


@pytest.fixture
def root(tmp_path):
    outside = tmp_path / "secret"
    outside.write_text("outside\n")
    root = tmp_path / "root"
    for folder in ("etc", "usr/lib/systemd/system", "proc", "run", "data"):
        (root / folder).mkdir(parents=True)
    (root / "etc/conf").write_text("inside\n")
    (root / "lib").symlink_to("usr/lib")
    (root / "etc/absolute").symlink_to("/etc/conf")
    (root / "etc/up").symlink_to("../../../../../../etc/conf")
    (root / "etc/out").symlink_to(outside)
    (root / "etc/climb").symlink_to("../../secret")
    (root / "etc/loop").symlink_to("loop")
    (root / "etc/mtab").symlink_to("../proc/self/mounts")
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    os.mkfifo(root / "etc/fifo")
    return root


@pytest.mark.parametrize(
    "path", ["/etc/absolute", "/etc/up", "/../../etc/conf", "/lib/../../etc/conf", "/etc/./conf"]
)
def test_every_way_to_a_file_stays_inside(root, path):
    reader = RootReader(str(root))
    assert reader.read(path) == b"inside\n"
    assert reader.stat(path).type == "file"


@pytest.mark.parametrize("path", ["/etc/out", "/etc/climb"])
def test_link_that_points_outside_leads_nowhere(root, path):
    reader = RootReader(str(root))
    assert reader.read(path) is ABSENT
    assert reader.resolve(path) is ABSENT
    assert isinstance(reader.link(path), str)


def test_dot_dot_after_a_link_is_the_folder_that_the_link_leads_to(root):
    (root / "usr/lib/os-release").write_text("ID=image\n")
    assert RootReader(str(root)).read("/lib/systemd/../os-release") == b"ID=image\n"
    assert RootReader(str(root)).resolve("/lib/systemd/..") == "/usr/lib"


def test_links_of_many_parts_are_no_way_to_a_file(root):
    """38 links of 4,000 characters have 60,000 parts, each of them opened and looked at for every
    file behind them.
    """
    (root / "etc/real").mkdir()
    (root / "etc/real/x").write_text("found")
    (root / "etc/near").symlink_to("real/../" * 60 + "real")
    (root / "etc/far").symlink_to("real/../" * 500 + "real")
    reader = RootReader(str(root))
    assert reader.read("/etc/near/x") == b"found"
    assert "links" in reader.read("/etc/far/x").reason


def test_loop_is_unreadable_and_a_fifo_does_not_block(root):
    reader = RootReader(str(root))
    assert "too many symbolic links" in reader.read("/etc/loop").reason
    assert "not a regular file" in reader.read("/etc/fifo").reason
    assert "is a folder" in reader.read("/etc").reason
    assert "not a folder" in reader.list("/etc/conf").reason
    assert reader.read("/etc/conf/below") is ABSENT


@pytest.mark.parametrize("path", ["relative", "", "/with\0nul"])
def test_what_is_no_path_is_unreadable(root, path):
    reader = RootReader(str(root))
    for method in (
        reader.read,
        reader.list,
        reader.stat,
        reader.link,
        reader.resolve,
        reader.space,
    ):
        assert isinstance(method(path), Unreadable)


def test_listing_stat_and_link_of_an_entry(root):
    reader = RootReader(str(root))
    assert reader.list("/lib") == ("systemd",)
    assert reader.stat("/lib").type == "directory"
    assert reader.stat("/lib", follow=False).type == "link"
    assert reader.link("/lib") == "usr/lib"
    assert reader.link("/etc/conf") is ABSENT
    assert reader.space("/etc").total_bytes > 0


@pytest.mark.parametrize(
    "path",
    [
        "/proc/meminfo",
        "/sys/block",
        "/run/systemd",
        "/dev/sda",
        "/etc/mtab",
        "/var/run/x",
        "/etc/../proc",
    ],
)
def test_what_a_kernel_would_say_is_unreadable_without_hardware(root, path):
    reader = RootReader(str(root))
    for method in (reader.read, reader.stat, reader.resolve):
        assert "--hardware" in method(path).reason


def test_hardware_record_answers_for_the_kernel_alone(root):
    reader = RootReader(
        str(root),
        FakeReader({"/proc/meminfo": "MemTotal: 1 kB\n", "/etc/conf": "of the other machine"}),
    )
    assert reader.read("/proc/meminfo") == b"MemTotal: 1 kB\n"
    assert reader.read("/etc/conf") == b"inside\n"


def test_programs_and_processes_of_this_machine_are_not_asked(root):
    reader = RootReader(str(root))
    assert isinstance(reader.query(("uname",)), Unreadable)
    assert isinstance(reader.processes(), Unreadable)


def test_root_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(HosttuneError, match="no such folder"):
        RootReader(str(tmp_path / "none"))
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    for name, why in (("file", "Not a directory"), ("circle", "Too many levels of symbolic links")):
        with pytest.raises(HosttuneError, match=why):
            open_reader(root=str(tmp_path / name))


@pytest.mark.parametrize("path", ["etc/os-release", "usr/lib/os-release"])
def test_root_without_a_system_is_refused_and_nothing_written(tmp_path, path):
    for start in (open_reader, open_writer):
        with pytest.raises(HosttuneError, match="there is no system") as caught:
            start(root=str(tmp_path))
        assert "mounted" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("ID=ubuntu\n")
    assert isinstance(open_reader(root=str(tmp_path)), RootReader)
    assert isinstance(open_writer(root=str(tmp_path)), RootWriter)


def test_root_whose_mark_leads_outside_is_no_system(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").symlink_to("../../../../../../../../etc/debian_version")
    with pytest.raises(HosttuneError, match="there is no system"):
        open_reader(root=str(tmp_path))


def test_every_spelling_of_the_running_root_is_the_running_host(tmp_path):
    (tmp_path / "link").symlink_to("/")
    for root in ("/", "//", "/.", "/usr/..", str(tmp_path / "link")):
        assert isinstance(open_reader(root=root), LiveReader)
        assert isinstance(open_writer(root=root), LiveWriter)


@pytest.mark.parametrize(
    "act",
    [
        lambda w: w.replace("/proc/sys/vm/swappiness", FileValue(b"1"), expected=ABSENT),
        lambda w: w.replace("/var/run/x", FileValue(b"1"), expected=ABSENT),
        lambda w: w.remove("/run/x", expected=b""),
        lambda w: w.set_value("/proc/sys/vm/swappiness", "1"),
        lambda w: w.set_atime("/data", "noatime"),
        lambda w: w.run(("apt-get", "install", "x"), timeout_s=1),
        lambda w: w.run(("systemctl", "start", "x.service"), timeout_s=1),
    ],
)
def test_what_needs_a_kernel_is_refused(root, act):
    with pytest.raises(Refused):
        act(RootWriter(str(root)))
    assert list((root / "run").iterdir()) == []


def test_own_files_stay_in_the_image_though_a_link_points_out(root, tmp_path):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (root / "var/lib").symlink_to(outside)
    with pytest.raises(Refused, match="leads nowhere"):
        RootWriter(str(root)).append("/var/lib/hosttune/run", b"x")
    assert list(outside.iterdir()) == []


def test_own_file_is_private_and_grows(root):
    writer = RootWriter(str(root))
    writer.append("/var/lib/hosttune/runs/1", b"a")
    writer.append("/var/lib/hosttune/runs/1", b"b")
    path = root / "var/lib/hosttune/runs/1"
    assert path.read_bytes() == b"ab"
    assert [place.stat().st_mode & 0o777 for place in (path, path.parent, path.parent.parent)] == [
        0o600,
        0o700,
        0o700,
    ]


def test_walk_leaves_no_descriptor_open(root):
    gc.collect()  # what other tests left behind is closed at any time
    before = os.listdir("/proc/self/fd")
    for path in ("/etc/up", "/lib/systemd/..", "/none/deep", "/etc/out"):
        with walk(str(root), path):
            pass
    with pytest.raises(OSError, match="symbolic links"), walk(str(root), "/etc/loop"):
        pass
    with pytest.raises(NotADirectoryError), walk(str(root), "/etc/conf/x"):
        pass
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize(
    ("folder", "name", "size", "most"),
    [
        ("etc/sysctl.d", "{}.conf", 60 << 20, 0),
        ("etc/sysctl.d", "{}.conf", 1 << 20, 8),
        ("etc/sysctl.d", "{}.conf", 0, 64),
        ("usr/lib/modules", "{}/modules.dep", 60 << 20, 0),
        ("usr/lib/modules", "{}/modules.dep", 16 << 20, 2),
    ],
)
def test_image_is_read_to_a_limit_that_holds_for_all_of_its_files(
    root, folder, name, size, most, monkeypatch
):
    """A sparse file costs the author of an image nothing."""
    if size == 0:
        monkeypatch.setitem(RootReader._limit_of.__globals__["_SUMS"], False, 64 << 10)
    reader = RootReader(str(root))
    names = [f"{folder}/{name.format(number)}" for number in range(most + 2)]
    (root / folder).mkdir(parents=True, exist_ok=True)
    first = root / folder / "first"
    first.touch()
    os.truncate(first, size)
    for one in names:
        (root / one).parent.mkdir(exist_ok=True)
        (root / one).symlink_to(f"/{folder}/first")
    for _look in range(2):  # what was read is read again
        answers = [reader.read("/" + one) for one in names]
        assert [isinstance(one, bytes) for one in answers] == [True] * most + [False] * 2
    said = "would be read of this image" if most else "is larger than"
    assert said in answers[-1].reason
    assert reader.read_guarded("/" + names[-1])[0] == answers[-1]


def test_no_way_of_reading_reaches_a_kernel_that_is_bound_into_the_image(root):
    """/proc and /sys of this machine are often bound in. A policy that is a link there would be
    read as root's file.
    """
    (root / "proc/version").write_text("this machine\n")
    (root / "etc/policy.yaml").symlink_to("../proc/version")
    (root / "etc/rules.d").symlink_to("/proc")
    reader = RootReader(str(root))
    ways = {
        name: way
        for name, way in inspect.getmembers(FileTree, inspect.isfunction)
        if not name.startswith("_")
        and name != "refused_write"
        and "path" in inspect.signature(way).parameters
    }
    assert {"read", "read_guarded", "usage", "space", "list", "stat"} <= set(ways)
    for name in ways:
        for path in ("/etc/policy.yaml", "/etc/rules.d", "/etc/rules.d/version", "/proc/version"):
            if name == "link" and path in ("/etc/policy.yaml", "/etc/rules.d"):
                continue  # the link itself lies in the image
            for found in (getattr(reader, name)(path), getattr(FileTree, name)(reader, path)):
                answer = found[0] if isinstance(found, tuple) else found
                assert "no kernel runs under --root" in answer.reason, (name, path)
    for path in ("/etc/policy.yaml", "/etc/rules.d/version", "/proc/version"):
        assert "leads to the kernel" in str(reader.refused_write(path))
    with pytest.raises(HosttuneError, match="cannot be read: no kernel runs under --root"):
        read_trusted(reader, "/etc/policy.yaml", is_local=False, is_required=True)


def test_what_is_opened_of_a_walk_is_what_was_looked_at(root):
    with walk(str(root), "/etc/conf") as found:
        (root / "etc/conf").unlink()
        os.mkfifo(root / "etc/conf")
        with open(found.open_file(os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            assert file.read() == b"inside\n"


@pytest.mark.parametrize("look", ["read", "head", "read_guarded", "lock_holder", "list", "stat"])
def test_path_with_a_nul_names_nothing_however_it_is_looked_at(look, root):
    for reader in (LiveReader(), RootReader(str(root))):
        answer = getattr(reader, look)("/etc/conf\0/more")
        answer = answer[0] if look == "read_guarded" else answer
        assert "not an absolute path" in answer.reason


def test_path_with_a_nul_opens_nothing():
    with pytest.raises(OSError, match="Invalid argument"):
        open_without_links("/etc/passwd\0")
