"""Broken lines of an fstab before lint and before the real thing: what systemd's generator makes of
each is mounted as systemd would, on loop devices in a private namespace, and systemd-analyze looks
for circles.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hosttune.facts.storage.fstab_lines import parse
from hosttune.facts.storage.fstab_types import KNOWN, LATELY_REMOTE, NO_TYPE, is_remote_to_systemd
from hosttune.resources.storage.fstab_lint import RemarkLevel, lint
from tests.live.namespace import loop_disk, passes

pytestmark = pytest.mark.live
GENERATOR = "/usr/lib/systemd/system-generators/systemd-fstab-generator"
UUID = "UUID=0a3407de-014b-458b-b5c1-848e92a327a3"

# DISK is a loop device with an ext4, PLACE a folder.
BROKEN = """\
DISK PLACE defaults ext4 0 2
DISK PLACE noatime,nofail ext4 0 2
DISK PLACE ext4 0 2
DISK PLACE ext4 1
tmpfs PLACE tmpfs 0 0
DISK PLACE etx4 defaults 0 2
DISK PLACE EXT4 defaults 0 2
DISK PLACE ext44 defaults 0 2
tmpfs PLACE tempfs defaults 0 0
/usr PLACE none defaults 0 0
/usr PLACE bind defaults 0 0
/usr PLACE none rbnd 0 0
DISK PLACE ext4 defaults;nofail 0 2
DISK PLACE ext4 rw;noatime;commit=5 0 2
DISK PLACE ext4 noatime|nodev 0 2
tmpfs PLACE tmpfs size=1m;mode=1777 0 0
DISK PLACE ext4 commit= 0 2
DISK PLACE ext4 commit=5s 0 2
DISK PLACE ext4 errors= 0 2
DISK PLACE ext4 errors=ro 0 2
DISK PLACE ext4 data=none 0 2
DISK PLACE ext4 stripe=abc 0 2
tmpfs PLACE tmpfs size=64MB 0 0
tmpfs PLACE tmpfs huge=yes 0 0
DISK PLACE ext4 errors=remount\u2013ro 0 2
DISK PLACE ext4 \u201cdefaults\u201d 0 2
DISK PLACE ext4 inode64 0 2
DISK PLACE ext4 umask=077 0 2
DISK PLACE ext4 uid=1000,gid=1000 0 2
DISK PLACE ext4 compress=zstd 0 2
DISK PLACE ext4 subvol=@ 0 2
DISK PLACE ext4 ssd 0 2
tmpfs PLACE tmpfs discard 0 0
DISK PLACE ext4 nobootwait 0 2
DISK PLACE ext4 NOATIME 0 2
DISK PLACE ext4 defualts 0 2
DISK PLACE ext4 read-only 0 2
DISK PLACE ext4 nofail=1 0 2
UUID:0a3407de-014b-458b-b5c1-848e92a327a3 PLACE ext4 defaults 0 2
UUID=0a3407de PLACE ext4 defaults 0 2
UUID=\u201c0a3407de-014b-458b-b5c1-848e92a327a3\u201d PLACE ext4 defaults 0 2
uuid=0a3407de-014b-458b-b5c1-848e92a327a3 PLACE ext4 defaults 0 2
UUID==0a3407de-014b-458b-b5c1-848e92a327a3 PLACE ext4 defaults 0 2
0a3407de-014b-458b-b5c1-848e92a327a3 PLACE ext4 defaults 0 2
/dev/nvmeOn1p1 PLACE ext4 defaults 0 2
/dev/sd1b PLACE ext4 defaults 0 2
sdb1 PLACE ext4 defaults 0 2
LABEL=My Disk PLACE ext4 defaults 0 2
DISK PLACE/my disk ext4 defaults 0 2
DISK none ext4 defaults 0 2
kk# was on /dev/sda1 during installation
kk# old disk here
UUID="0a3407de-014b-458b-b5c1-848e92a327a3 PLACE ext4 defaults 0 2
"UUID=0a3407de-014b-458b-b5c1-848e92a327a3" PLACE ext4 defaults 0 2
/dev/disk/by-uid/0a3407de-014b-458b-b5c1-848e92a327a3 PLACE ext4 defaults 0 2
LABEL=my\\x20disk PLACE ext4 defaults 0 2
DISK PLACE/gone/../../place ext4 nofail 0 0
DISK PLACE ext4 nofail,x-systemd.device-timeout 0 2
DISK PLACE ext4 x-systemd.requires= 0 2
"""
FINE = """\
DISK PLACE ext4 defaults 0 2
DISK PLACE ext4
DISK PLACE ext4 rw,noatime,nodiratime,errors=remount-ro,commit=60,data=writeback,barrier=0,user_xattr,acl 0 2
DISK PLACE ext4 noauto,user,exec,x-systemd.device-timeout=5,X-mount.mkdir,_netdev,comment=x,lazytime 0 2
DISK PLACE auto nofail,,discard, 0 0
DISK PLACE ext4,xfs ro=1 0 0
DISK PLACE ext4, defaults 0 0
DISK PLACE ext4 nofail,x-systemd.device-timeout=1min30s,x-systemd.before=x.service 0 2
tmpfs PLACE tmpfs size=10%,nr_inodes=1k,mode=1777,uid=root,huge=never,nosuid,nodev 0 0
/usr PLACE none rbind,ro 0 0
overlay PLACE overlay lowerdir=/usr:/etc,index=off,metacopy=off 0 0
"""
CIRCLES = (
    ("PLACE/a PLACE/b none bind 0 0", "PLACE/b PLACE/a none bind 0 0"),
    (
        "PLACE/c/1 PLACE/a none bind 0 0",
        "PLACE/a/1 PLACE/b none bind 0 0",
        "PLACE/b/1 PLACE/c none rbind 0 0",
    ),
)
ROW = (
    "/usr PLACE/a none bind 0 0",
    "PLACE/a/lib PLACE/b none bind 0 0",
    "PLACE/b PLACE/c none bind 0 0",
)


def test_types_that_systemd_mounts_after_the_network_are_those_of_this_machine(tmp_path):
    types = sorted(KNOWN - NO_TYPE - LATELY_REMOTE - {"swap"})
    types += [f"fuse.{name}" for name in types if not name.startswith("fuse")]
    text = "".join(
        f"source /{number} {fstype} defaults 0 0\n" for number, fstype in enumerate(types)
    )
    folder = generated(tmp_path, text)[0].parent
    remote = {path.stem for path in (folder / "remote-fs.target.requires").iterdir()}
    assert remote == {
        str(number) for number, name in enumerate(types) if is_remote_to_systemd(name, frozenset())
    }
    assert is_remote_to_systemd("ext4", frozenset({"_netdev"}))


@pytest.mark.parametrize(
    "name", ["broken_lines_do_not_mount", "fine_lines_mount", "circles_are_what_systemd_finds"]
)
def test_scenario_in_a_private_namespace_passes(name, tmp_path):
    passes(__file__, name, tmp_path)


def scenario_broken_lines_do_not_mount(folder: Path) -> None:
    with loop_disk(folder / "image", "mkfs.ext4", "-q", "-F", size=32 << 20) as device:
        for line in BROKEN.splitlines():
            assert said(line) & {RemarkLevel.ERROR, RemarkLevel.WARNING}, line
            assert not mounts(folder, device, line), line


def scenario_fine_lines_mount(folder: Path) -> None:
    with loop_disk(folder / "image", "mkfs.ext4", "-q", "-F", size=32 << 20) as device:
        for line in FINE.splitlines():
            assert not said(line) & {RemarkLevel.ERROR, RemarkLevel.WARNING}, line
            assert mounts(folder, device, line), line


def scenario_circles_are_what_systemd_finds(folder: Path) -> None:
    for lines in (*CIRCLES, ROW):
        text = "".join(f"{line}\n" for line in lines)
        found = [
            one for one in lint(parse(text.replace("PLACE", "/p").encode())) if one.code == "circle"
        ]
        assert (len(found) == len(lines)) is (lines is not ROW)
        units = generated(folder, text.replace("PLACE", str(folder / "place")))
        argv = ("systemd-analyze", "verify", "--man=no", *map(str, units))
        path = f"{units[0].parent}:"
        done = subprocess.run(
            argv,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": "/usr/bin:/bin", "SYSTEMD_UNIT_PATH": path},
        )
        assert ("ordering cycle" in done.stderr) is (lines is not ROW), done.stderr


def said(line: str) -> set[RemarkLevel]:
    """How bad lint finds it, with a disk by UUID."""
    text = line.replace("DISK", UUID).replace("PLACE", "/place")
    return {remark.level for remark in lint(parse(f"{text}\n".encode()))}


def generated(folder: Path, text: str) -> list[Path]:
    """The mount units that systemd's generator makes of an fstab."""
    (folder / "place").mkdir(exist_ok=True)
    (folder / "fstab").write_text(text, encoding="utf-8")
    units = folder / "units"
    shutil.rmtree(units, ignore_errors=True)
    folders = [units / name for name in ("normal", "early", "late")]
    for one in folders:
        one.mkdir(parents=True)
    environment = {
        "PATH": "/usr/bin:/bin",
        "SYSTEMD_FSTAB": str(folder / "fstab"),
        "SYSTEMD_LOG_TARGET": "console",
    }
    subprocess.run(
        (GENERATOR, *map(str, folders)),
        check=False,
        capture_output=True,
        timeout=30,
        env=environment,
    )
    return sorted(folders[0].glob("*.mount"))


def mounts(folder: Path, device: str, line: str) -> bool:
    """Whether each unit of this line can be mounted, as systemd does it; no unit is no mount."""
    units = generated(
        folder, line.replace("DISK", device).replace("PLACE", str(folder / "place")) + "\n"
    )
    results = []
    for unit in units:
        text = unit.read_text(encoding="utf-8")
        what, where, fstype, options = (
            (re.findall(rf"^{key}=(.*)$", text, re.MULTILINE) or [""])[0].replace("%%", "%")
            for key in ("What", "Where", "Type", "Options")
        )
        if not Path(where).is_relative_to(folder):
            results.append(False)
            continue
        argv = ["mount", "--no-mtab", what, where]
        argv += ["--types", fstype] * bool(fstype) + ["--options", options] * bool(options)
        done = subprocess.run(argv, check=False, capture_output=True, timeout=30)
        results.append(done.returncode == 0)
        if done.returncode == 0:
            subprocess.run(("umount", "--no-mtab", "--recursive", where), check=True, timeout=30)
    return bool(results) and all(results)
