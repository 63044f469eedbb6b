"""`hosttune fstab`: what people read, what programs read, the exit status; it never writes."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import redirect_stdout
from types import SimpleNamespace

import pytest

from hosttune.cli import app
from hosttune.facts.storage.fstab_lines import parse
from hosttune.resources.storage.fstab_lint import lint
from hosttune.resources.storage.fstab_plan import tune
from hosttune.views.fstab import diff_text, fstab_json, left_text, lint_text, reason_of
from hosttune.views.terminal import Screen
from tests.hosts.built import HOSTS
from tests.unit.schemas import faults
from tests.unit.test_fstab_document import SAMPLES

ODD = b"""\
# of the old server
UUID=0a3407de-014b-458b-b5c1-848e92a327a3 / ext4 errors=remount-ro 0 1
/dev/sdb1\t/data\text4\tdefaults\t0 2
UUID=5d3407de-014b-458b-b5c1-848e92a327a3 /more xfs rw,nofail 0 0
tmpfs /tmp tmpfs size=64M # added by bob
tmpfs /scratch tmpfs size=50%%,mode=777 0 0
//nas/share /cifs cifs username=u,password=hunter2,nofail 0 0
UUID=6e3407de-014b-458b-b5c1-848e92a327a3 /archive ext4 relatime,nofail 0 2
"""

REPORT = """\
odd.fstab: 2 errors, 3 warnings, 1 note; 6 entries in 8 lines.

Errors: misread, not mounted, or a boot that stops (2)
  line 5: tmpfs /tmp tmpfs size=64M # added by bob
    mount(8) drops this line: a comment after field 4
      mount(8), systemd from 259 on  no entry
      systemd before 259             tmpfs on /tmp type tmpfs (size=64M) 0 0
    do: put the comment on a line of its own, or write `0 0` before it
  line 6: tmpfs /scratch tmpfs size=50%%,mode=777 0 0
    the kernel rejects `size=50%%`: the mount fails, and the boot ends in the
    emergency shell
    do: write size=50%: the sign is doubled in unit files alone

Warnings: not what it seems, or it fails one day (3)
  line 3: /dev/sdb1       /data   ext4    defaults        0 2
    /dev/sdb1 can be another disk after the next boot: the kernel numbers disks
    as it finds them
    do: name it by UUID: blkid -s UUID /dev/sdb1
  line 6: tmpfs /scratch tmpfs size=50%%,mode=777 0 0
    with `mode=777` everybody can rename and remove everybody's files: the
    sticky bit is missing
    do: write mode=1777
  line 7: //nas/share /cifs cifs username=u,password=***,nofail 0 0
    a password in a file that everybody on this host may read
    do: put it into a file of mode 0600, and name that in credentials=

Notes (1)
  line 3: /dev/sdb1       /data   ext4    defaults        0 2
    without nofail a boot that does not find this disk ends in the emergency
    shell
    do: add nofail, if the host is of use without it

odd.fstab: 2 errors, 3 warnings, 1 note; 6 entries in 8 lines.
Exit status 1: 2 errors, 3 warnings.
"""

DIFF = """\
--- odd.fstab
+++ odd.fstab
@@ -1,8 +1,8 @@
 # of the old server
 UUID=0a3407de-014b-458b-b5c1-848e92a327a3 / ext4 errors=remount-ro 0 1
-/dev/sdb1\t/data\text4\tdefaults\t0 2
-UUID=5d3407de-014b-458b-b5c1-848e92a327a3 /more xfs rw,nofail 0 0
+/dev/sdb1\t/data\text4\tdefaults,noatime\t0 2
+UUID=5d3407de-014b-458b-b5c1-848e92a327a3 /more xfs rw,nofail,noatime 0 0
 tmpfs /tmp tmpfs size=64M # added by bob
 tmpfs /scratch tmpfs size=50%%,mode=777 0 0
 //nas/share /cifs cifs username=u,password=hunter2,nofail 0 0
-UUID=6e3407de-014b-458b-b5c1-848e92a327a3 /archive ext4 relatime,nofail 0 2
+UUID=6e3407de-014b-458b-b5c1-848e92a327a3 /archive ext4 noatime,nofail 0 2
"""

LEFT = """\
3 lines to change, 0 noatime already, 2 skipped:
  line 2  /      the system itself lives there
  line 7  /cifs  with cifs the server or its helper decides about access times
"""


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the command in a folder with `odd.fstab`; the bytes of standard output."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.fstab").write_bytes(ODD)

    def run(*argv, stdin=b""):
        (tmp_path / "stdin").write_bytes(stdin)
        out = io.TextIOWrapper(raw := io.BytesIO(), encoding="utf-8", errors="strict")
        with (
            (tmp_path / "stdin").open("rb") as file,
            redirect_stdout(out),
            monkeypatch.context() as patch,
        ):
            patch.setattr(sys, "stdin", file)
            status = app.run(["fstab", *argv])
        (tmp_path / "stdin").unlink()
        out.flush()
        return status, raw.getvalue(), capsys.readouterr().err

    return run


def test_report_is_what_people_read(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    status, out, err = run("odd.fstab", "--lint")

    assert out.decode() == REPORT
    assert (status, err) == (1, "")
    assert run("odd.fstab") == (status, out, err)


def test_diff_of_all_data_disks_tells_why_the_others_stay(run):
    status, out, err = run("odd.fstab", "--noatime", "all")

    assert out.decode() == DIFF
    assert err == LEFT
    assert status == 1


def test_terminal_and_documents_show_no_password(run):
    shown = diff_text(parse(ODD), tune(parse(ODD)), Screen(), is_exact=False)
    _, document, _ = run("odd.fstab", "--noatime", "all", "--format", "json")

    assert "password=***" in shown
    assert "hunter2" not in shown + document.decode()


def test_file_is_never_written(run, tmp_path):
    before = (tmp_path / "odd.fstab").stat()

    run("odd.fstab", "--noatime", "all", "--lint")

    assert (tmp_path / "odd.fstab").stat().st_mtime_ns == before.st_mtime_ns
    assert (tmp_path / "odd.fstab").read_bytes() == ODD
    assert [path.name for path in tmp_path.iterdir()] == ["odd.fstab"]


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["odd.fstab", "--noatime", "/data"], 1),
        (["odd.fstab", "--noatime", "/data", "--noatime", "/archive"], 1),
        (["odd.fstab", "--noatime", "/cifs"], 2),
        (["odd.fstab", "--noatime", "/data", "--noatime", "/cifs"], 2),
        (["odd.fstab", "--noatime", "/nowhere"], 2),
        (["odd.fstab", "--noatime", "data"], 2),
        (["missing.fstab"], 2),
        (["."], 2),
        (["-"], 0),
        (["-", "--strict"], 1),
        (["-", "--noatime", "all"], 0),
        (["-", "--noatime", "/fine"], 0),
        (["-", "--noatime", "/fine", "--format", "json"], 0),
        (["odd.fstab", "--noatime", "/cifs", "--format", "json"], 2),
    ],
    ids=str,
)
def test_exit_status_is_as_in_diff(run, argv, status):
    assert (
        run(*argv, stdin=b"UUID=1e3407de-014b-458b-b5c1-848e92a327a3 /fine ext4 noatime 0 2\n")[0]
        == status
    )


def test_refusal_names_file_line_reason_and_way_out(run):
    status, out, err = run("odd.fstab", "--noatime", "/tmp")

    assert (status, out) == (2, b"")
    assert err == (
        "hosttune: odd.fstab:5: mount(8) drops this line: a comment after field 4\n"
        "  hint: put the comment on a line of its own, or write `0 0` before it\n"
    )


def test_refusals_of_many_targets_are_told_beside_the_diff(run):
    status, out, err = run(
        "odd.fstab", "--noatime", "/data", "--noatime", "/tmp", "--noatime", "/cifs"
    )

    assert (status, out.count(b"\n-"), out.count(b"\n+/")) == (2, 1, 1)
    assert "odd.fstab:5: mount(8) drops" in err
    assert "/cifs: with cifs the server" in err


def test_standard_input_is_named_as_such(run):
    assert run("-", "--noatime", "/d", stdin=SAMPLES["nul"])[2].startswith(
        "hosttune: standard input:1: a NUL byte"
    )


def test_report_stands_before_the_refusal_of_a_file(run):
    status, out, err = run("-", "--lint", "--noatime", "all", stdin=SAMPLES["byte order mark"])

    assert status == 2
    assert b"a byte order mark" in out
    assert "byte order mark" in err


def patched(data: bytes, diff: bytes) -> bytes:
    """What patch(1) makes of it."""
    old = re.findall(rb"[^\n]*\n|[^\n]+\Z", data)
    new, place = [], 0
    for line in (
        diff.replace(b"\n\\ No newline at end of file\n", b"\0")
        .replace(b"\n", b"\n\0")
        .split(b"\0")[2:]
    ):
        if line.startswith(b"@@"):
            start = int(re.match(rb"@@ -(\d+)", line)[1]) - 1
            new += old[place:start]
            place = start
        elif line[:1] in (b" ", b"-"):
            assert line[1:] == old[place]
            new += [line[1:]] if line[:1] == b" " else []
            place += 1
        elif line[:1] == b"+":
            new.append(line[1:])
    return b"".join(new + old[place:])


@pytest.mark.parametrize(
    "name", [name for name, data in SAMPLES.items() if not parse(data).problems]
)
def test_diff_of_a_sample_makes_the_planned_bytes(run, name):
    filler = b"# between\n" * 9
    data = SAMPLES[name] + (
        filler + b"UUID=99 /last xfs rw,nofail 0 0" if SAMPLES[name].endswith(b"\n") else b""
    )

    _, out, _ = run("-", "--noatime", "all", stdin=data)

    assert patched(data, out) == tune(parse(data)).data
    assert out or tune(parse(data)).data == data


def test_diff_of_latin_1_is_that_of_the_bytes_in_a_pipe_and_harmless_on_a_terminal(run):
    data = b"# donn\xe9es \x1b[31m\r\nUUID=1 /donn\xe9es ext4 rw,nofail 0 0\r\n"

    _, out, _ = run("-", "--noatime", "all", stdin=data)
    shown = diff_text(parse(data), tune(parse(data)), Screen(), is_exact=False)

    assert patched(data, out) == data.replace(b"rw,nofail", b"rw,nofail,noatime")
    assert " # donn\\xe9es \\x1b[31m\n" in shown
    assert shown.isascii()


@pytest.mark.parametrize("name", SAMPLES)
def test_documents_of_a_sample_fit_their_schema(run, name):
    argv = ["-", "--format", "json", "--lint"]
    argv += [] if parse(SAMPLES[name]).problems else ["--noatime", "all"]

    _, out, err = run(*argv, stdin=SAMPLES[name])

    data = json.loads(out)
    assert faults(data, "fstab") == []
    assert err == ""
    assert data["lines"] == len(parse(SAMPLES[name]).lines)


def test_document_holds_both_readings_and_no_password(run):
    _, out, _ = run("odd.fstab", "--format", "json", "--lint", "--noatime", "/data")

    data = json.loads(out)
    (misread,) = [remark for remark in data["remarks"] if remark["code"] == "misread"]
    assert misread["readings"]["mount"] is None
    assert misread["readings"]["systemd_before_259"]["options"] == "size=64M"
    (step,) = data["noatime"]["steps"]
    assert (step["outcome"], step["after"]) == (
        "changed",
        "/dev/sdb1\t/data\text4\tdefaults,noatime\t0 2",
    )
    assert "+/dev/sdb1\t/data\text4\tdefaults,noatime\t0 2\n" in data["noatime"]["diff"]
    assert b"hunter2" not in out


def test_what_was_not_asked_for_is_null(run):
    _, out, _ = run("odd.fstab", "--format", "json")
    assert json.loads(out)["noatime"] is None

    _, out, _ = run("odd.fstab", "--format", "json", "--noatime", "all")
    assert json.loads(out)["remarks"] is None


def test_reading_that_is_too_wide_beside_its_reader_stands_below_it():
    data = b"/dev/disk/by-uuid/6bbe3d67-3ca1-44aa-8082-502aaa135b5a /data ext4 rw zero 2\n"

    text = lint_text(parse(data), lint(parse(data)), Screen(80))

    assert "      systemd before 259:\n        /dev/disk/by-uuid/6bbe3d67" in text
    assert max(map(len, text.splitlines())) <= 80


def test_report_keeps_to_the_width():
    document = parse(b"".join(data for data in SAMPLES.values() if b"\0" not in data) + ODD)
    for width in (60, 80, 100):
        text = lint_text(document, lint(document), Screen(width)) + left_text(
            tune(parse(ODD)), Screen(width)
        )
        for line in text.splitlines():
            assert len(line) <= width or " " not in line.strip(), line


def test_colour_adds_nothing_but_colour():
    document = parse(ODD)
    for text in (
        lambda screen: lint_text(document, lint(document), screen),
        lambda screen: diff_text(document, tune(document), screen, is_exact=False),
    ):
        painted = text(Screen(80, colour=True))
        assert "\x1b[" in painted
        assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == text(Screen())


def test_terminal_gets_no_raw_bytes(monkeypatch, tmp_path, capsys):
    (tmp_path / "f").write_bytes(b"UUID=1 /\x1b[2J\xe9 ext4 rw,nofail 0 0\n")
    monkeypatch.setattr(
        "hosttune.host.console.make_console",
        lambda _: SimpleNamespace(columns=80, is_terminal=True, has_colour=False),
    )

    assert app.run(["fstab", str(tmp_path / "f"), "--noatime", "all"]) == 1

    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "data", [b"x" * ((1 << 20) + 1), b"LABEL=x /same ext4 defaults 0 0\n" * 10_001]
)
def test_file_that_is_no_fstab_by_its_size_is_refused(tmp_path, capsys, data):
    path = tmp_path / "fstab"
    path.write_bytes(data)
    assert app.run(["fstab", str(path)]) == 2
    assert (
        f"{path}: larger than 1 MiB or 10,000 lines, which no fstab is" in capsys.readouterr().err
    )


@pytest.fixture
def record(tmp_path):
    """A record of a host whose lines do not lead to its disks."""
    data = json.loads((HOSTS / "h100-8x-2socket.json").read_text())
    lines = (
        "UUID=0a11-22 / ext4 defaults 0 1",
        "LABEL=gone /data ext4 nofail 0 2",
        "/dev/zram0 none swap sw 0 0",
    )
    data["files"]["/etc/fstab"] = "".join(f"{line}\n" for line in lines)
    path = tmp_path / "host.json"
    path.write_text(json.dumps(data))
    return str(path)


def test_lines_of_a_record_are_held_against_its_devices(run, record):
    status, out, _ = run("--host", record, "--format", "json")
    told = {
        one["line"]: one
        for one in json.loads(out)["remarks"]
        if one["code"] in {"device", "zram-swap"}
    }
    assert status == 1
    assert {line: one["level"] for line, one in told.items()} == {2: "error", 3: "warning"}
    assert "LABEL=gone, which no device has, while /dev/nvme1n1" in told[2]["message"]
    assert "the boot waits 90 s for it" in told[3]["message"]


def test_way_out_of_several_steps_is_a_list(run, tmp_path):
    data = json.loads((HOSTS / "h100-8x-2socket.json").read_text())
    data["files"]["/etc/fstab"] = (
        "UUID=0a11-22 / ext4 defaults 0 1\nLABEL=gone /srv ext4 defaults 0 2\n"
    )
    path = tmp_path / "host.json"
    path.write_text(json.dumps(data))
    _, out, _ = run("--host", str(path))
    assert b"    do: 1. find the disk" in out
    assert b"\n    2. or add nofail" in out
    assert b"\\n" not in out
    _, out, _ = run("--host", str(path), "--format", "json")
    (told,) = [one for one in json.loads(out)["remarks"] if one["code"] == "device"]
    assert len(told["todo"].split("\n")) == 2


def test_file_is_looked_at_by_its_text_alone(run, record):
    status, _, err = run("odd.fstab", "--host", record)
    assert status == 2
    assert "cannot be combined with --root or --host" in err


def test_image_has_no_devices_and_one_without_a_fstab_is_said(run, tmp_path):
    (tmp_path / "image/etc").mkdir(parents=True)
    (tmp_path / "image/etc/os-release").write_text("ID=debian\nVERSION_ID=12\n")
    (tmp_path / "image/etc/fstab").write_text("LABEL=gone /data ext4 nofail 0 2\n")
    status, out, _ = run("--root", str(tmp_path / "image"))
    assert status == 0
    assert b"no device" not in out
    (tmp_path / "image/etc/fstab").unlink()
    status, _, err = run("--root", str(tmp_path / "image"))
    assert status == 2
    assert "does not exist" in err


def test_password_in_the_place_of_the_target_is_not_shown():
    document = parse(b"//n/s password=s3cr cifs rw 0 0\n//n/s2 password=s3cr,x nfs rw 0 0\n")
    tuning = tune(document)
    assert "s3cr" not in left_text(tuning, Screen())
    assert "s3cr" not in str(fstab_json(document, lint(document), tuning))
    assert all("s3cr" not in reason_of(step, with_todo=True) for step in tuning.steps)
