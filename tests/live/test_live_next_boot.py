"""What `findmnt --verify` finds in an fstab hosttune finds, too; what systemd's generator makes of
its lines is what the next boot is said to do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hosttune.facts import Facts
from hosttune.facts.storage.mounts import unit_name
from hosttune.facts.storage.sources import Sources
from hosttune.host import open_reader
from hosttune.resources.storage.fstab_boot import look_at_boot_lines
from hosttune.resources.storage.fstab_lint_options import is_required
from tests.live.namespace import loop_disk, own_etc, passes, run

pytestmark = pytest.mark.live
GENERATOR = "/usr/lib/systemd/system-generators/systemd-fstab-generator"
CRYPT_GENERATOR = "/usr/lib/systemd/system-generators/systemd-cryptsetup-generator"
GONE = "UUID=11111111-2222-4333-8444-555555555555"

# DISK is a loop device with an ext4, T the folder of the targets; each line has a target of its
# own.
WRONG = f"""\
{GONE} T/a ext4 defaults 0 2
{GONE} T/b ext4 nofail 0 2
/dev/nosuch T/c ext4 nofail 0 2
DISK T/d xfs defaults 0 2
DISK T/e xfs nofail 0 2
DISK T/f ext5 nofail 0 2
DISK T/none ext4 nofail 0 2
DISK T/file ext4 nofail 0 2
DISK T/link ext4 nofail 0 2
DISK T/g/x ext4 nofail 0 2
DISK T/g ext4 nofail 0 2
T T/h ext4 nofail 0 2
/dev/null T/i ext4 nofail 0 2
T/gone.img T/j ext4 loop,nofail 0 2
FOO=bar T/k ext4 nofail 0 2
DISK T/l
DISK T/m ext4 defaults x y
DISK relative ext4 nofail 0 2
{GONE} none swap sw 0 0
/gone.img none swap sw 0 0
DISK none swap sw 0 0
"""
RIGHT = """\
DISK T/a ext4 defaults 0 2
DISK T/b ext4 nofail 0 2
DISK T/c ext4 noauto 0 2
DISK T/d ext4 nofail,fail 0 2
DISK T/my\\040set-1 ext4 x-systemd.automount 0 2
tmpfs T/e tmpfs size=1m 0 0
nas:/x T/f nfs defaults 0 0
nas:/y T/g nfs bg 0 0
/usr T/h none bind 0 0
"""
# On a disk that is not there and may be missing; encrypted devices of which none is there.
NEEDING = f"""\
{GONE} T/a ext4 nofail 0 2
T/a/home T/b none bind 0 0
T/a:T/c T/d fuse.mergerfs x-systemd.requires=T/a 0 0
overlay T/e overlay lowerdir=/usr/share:T/a/low,x-systemd.after=T/a 0 0
T/a/home T/f none bind,nofail 0 0
/dev/mapper/one T/g ext4 defaults 0 2
/dev/mapper/two T/h ext4 nofail 0 2
"""
CRYPTTAB = f"one {GONE} none luks\ntwo {GONE} none luks,nofail\nthree {GONE} none luks,noauto\n"
# No fault of a line: systemd of the machine has not read this file; a type is not looked for where
# no source is.
_BESIDES = ("your fstab has been modified", "cannot detect on-disk", "systemctl daemon-reload")


def _write(folder: Path, text: str, disk: str) -> str:
    targets = folder / "t"
    for name in "abcdefghijkm":
        (targets / name).mkdir(parents=True, exist_ok=True)
    (targets / "file").write_text("")
    (targets / "link").symlink_to("a")
    text = text.replace("DISK", disk).replace("T/", f"{targets}/").replace("\nT ", f"\n{targets} ")
    own_etc(folder).joinpath("fstab").write_text(text, encoding="utf-8")
    return text


def scenario_verify(folder: Path) -> None:
    with loop_disk(folder / "disk", "mkfs.ext4", "-q") as disk:
        lines = _write(folder, WRONG, disk).splitlines()
        told = subprocess.run(
            ("findmnt", "--verify"), check=False, capture_output=True, text=True, timeout=60
        )
        found = subprocess.run(
            (sys.executable, "-m", "hosttune", "fstab", "--format", "json"),
            check=False, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    reported = {
        remark["line"]
        for remark in json.loads(found.stdout)["remarks"]
        if remark["code"] != "no-nofail"
    }
    target, missed = "", []
    for row in (told.stdout + told.stderr).splitlines():
        if not row.startswith((" ", "findmnt")):
            target = row.strip()
        elif "[E]" in row or ("[W]" in row and not any(word in row for word in _BESIDES)):
            own = {number for number, line in enumerate(lines, 1) if target in line.split()[1:2]}
            missed += [row] if own.isdisjoint(reported) else []
    assert not missed, missed
    assert not missed, missed
    assert "parse error at line 17" in told.stdout + told.stderr
    assert {16, 17} <= reported
    assert len(reported) >= len(lines) - 1, (
        set(range(1, len(lines) + 1)) - reported
    )  # /t/g is right by itself


def scenario_generator(folder: Path) -> None:
    with loop_disk(folder / "disk", "mkfs.ext4", "-q") as disk:
        _write(folder, RIGHT, disk)
        places = [folder / name for name in ("normal", "early", "late")]
        for place in places:
            place.mkdir()
        os.environ["SYSTEMD_FSTAB"] = "/etc/fstab"
        run(GENERATOR, *places)
        entries = Facts(open_reader()).fstab.entries
    for entry in entries:
        name = unit_name(entry.target)
        assert (places[0] / name).is_file(), name
        required = [one.parent.name for one in places[0].glob(f"*.requires/{name}")]
        is_far = entry.fstype == "nfs"
        wanted = ["remote-fs.target.requires" if is_far else "local-fs.target.requires"]
        assert required == (wanted if is_required(entry.options, entry.fstype) else []), entry


def scenario_needs(folder: Path) -> None:
    _write(folder, NEEDING, "/dev/nosuch")
    Path("/etc/crypttab").write_text(CRYPTTAB, encoding="utf-8")
    places = [folder / name for name in ("normal", "early", "late")]
    for place in places:
        place.mkdir()
    for generator in (GENERATOR, CRYPT_GENERATOR):
        run(generator, *places)
    faults = {
        (one.file, one.target) for one in look_at_boot_lines(Facts(open_reader())) if one.fault
    }
    ends = {unit_name(target) for file, target in faults if file == "/etc/fstab"}
    required = {one.name for one in places[0].glob("local-fs.target.requires/*.mount")}
    assert ends == required
    assert sorted(name.rpartition("-")[2] for name in ends) == [
        "b.mount",
        "d.mount",
        "e.mount",
        "g.mount",
    ]
    union = next(one for one in places[0].glob("*-d.mount")).read_text()
    assert any(
        row.startswith("Requires=") and row.endswith("-a.mount") for row in union.splitlines()
    ), union
    opened = {one.name for one in places[0].glob("cryptsetup.target.requires/*")}
    names = {target for file, target in faults if file == "/etc/crypttab"}
    assert {f"systemd-cryptsetup@{name.removeprefix('crypt ')}.service" for name in names} == opened


def scenario_capitals(folder: Path) -> None:
    with loop_disk(folder / "disk", "mkfs.ext4", "-q") as disk:
        os.environ["BLKID_FILE"] = str(
            folder / "tab"
        )  # where no udev runs, mount(8) finds what is in this cache
        uuid = run("blkid", "-s", "UUID", "-o", "value", disk).strip()
        sources = Sources(Facts(open_reader()))
        (folder / "t").mkdir()
        for tag in (f"UUID={uuid}", f'UUID="{uuid}"', f"UUID={uuid.upper()}"):
            told = subprocess.run(
                ("mount", tag, folder / "t"), check=False, capture_output=True, timeout=60
            )
            # The disk is a loop device, which is no evidence that the one of a line is there.
            assert (told.returncode == 0) == bool(sources.find_attached(tag)), (tag, told.stderr)
            if not told.returncode:
                run("umount", folder / "t")


@pytest.mark.skipif(not shutil.which("findmnt"), reason="no findmnt")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_findmnt_verify_finds_is_found(tmp_path: Path) -> None:
    passes(__file__, "verify", tmp_path, timeout_s=240)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_uuid_is_a_string_as_mount_has_it(tmp_path: Path) -> None:
    passes(__file__, "capitals", tmp_path)


@pytest.mark.skipif(
    not Path(CRYPT_GENERATOR).exists(), reason="no systemd, or systemd-cryptsetup is not installed"
)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_boot_ends_as_systemd_has_it_below_a_disk_that_may_be_missing(tmp_path: Path) -> None:
    passes(__file__, "needs", tmp_path)


@pytest.mark.skipif(not Path(GENERATOR).exists(), reason="no systemd")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_lines_are_required_as_systemd_has_it(tmp_path: Path) -> None:
    passes(__file__, "generator", tmp_path)
