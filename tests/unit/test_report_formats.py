"""`check` and `plan` in every format, through the command line, and the files that they write."""

import json
import os

import pytest

from hosttune.cli import app
from hosttune.errors import HosttuneError
from hosttune.host.writing.output import save
from tests.hosts.built import BUILT, HOSTS

H100 = str(HOSTS / "h100-8x-2socket.json")
MICRO = str(HOSTS / "microvm-debian12.json")
BEGINS = {
    "text": "",
    "json": "{",
    "markdown": "#",
    "html": "<!DOCTYPE html>",
    "junit": "<?xml",
    "prometheus": "# HELP",
}


@pytest.fixture
def run(capsys):
    def run(*argv):
        status = app.run([str(word) for word in argv])
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("form", BEGINS)
def test_all_records_in_one_check(run, form):
    words = [word for record in BUILT for word in ("--host", record)]
    status, out, err = run("check", *words, "--format", form)
    assert (status, err) == (1, "")
    assert out.startswith(BEGINS[form])
    if form not in {"prometheus", "markdown", "html"}:
        assert out.index(BUILT[0].name) < out.index(BUILT[-1].name)
    if form in {"markdown", "html"}:  # the worst first
        assert (
            out.index("workstation-rtx4090")
            < out.index("h100-8x-2socket")
            < out.index("container-docker")
        )
    if form == "junit":
        assert out.count("<testsuite ") == len(BUILT)


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
@pytest.mark.parametrize("record", BUILT, ids=lambda path: path.stem)
def test_plan_of_every_record(run, form, record):
    status, out, err = run("plan", "--host", record, "--format", form)
    assert status in {0, 1}
    assert err == ""
    assert out.startswith(BEGINS[form])


def test_plan_has_no_format_for_machines_that_alarm(run):
    assert run("plan", "--format", "prometheus")[0] == 2


def test_same_record_twice_is_one_host(run):
    _, out, _ = run("check", "--host", H100, "--host", H100, "--format", "prometheus")
    assert "host=" not in out


def test_check_names_its_profile(run):
    _, out, _ = run("check", "--host", MICRO, "--format", "json")
    assert json.loads(out)["hosts"][0]["profile"] == "base"


@pytest.mark.parametrize("form", BEGINS)
def test_output_is_written_whole_for_everybody(run, tmp_path, form):
    file = tmp_path / "hosttune.prom"
    file.write_text("old")
    file.chmod(0o600)
    inode = file.stat().st_ino
    status, out, err = run("check", "--host", H100, "--format", form, "--output", file)
    assert (status, out) == (1, "")
    assert err == f"hosttune: written to {file}\n"
    assert file.stat().st_mode & 0o777 == 0o644
    assert file.stat().st_ino != inode
    assert file.read_text() == run("check", "--host", H100, "--format", form)[1]
    assert os.listdir(tmp_path) == ["hosttune.prom"]


def test_output_of_a_terminal_has_no_colour(run, tmp_path, monkeypatch):
    from hosttune.cli import common
    from hosttune.host.console import Console

    monkeypatch.setattr(
        common, "make_console", lambda _: Console(200, is_terminal=True, has_colour=True)
    )
    file = tmp_path / "report"
    run("plan", "--host", H100, "--output", file)
    assert "\x1b" not in file.read_text()
    assert "\x1b" in run("plan", "--host", H100)[1]


@pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
def test_save_replaces_regular_files_alone(tmp_path, kind):
    target = tmp_path / "x"
    {
        "link": lambda: target.symlink_to("/dev/null"),
        "folder": target.mkdir,
        "fifo": lambda: os.mkfifo(target),
    }[kind]()
    with pytest.raises(HosttuneError, match="is not a regular file"):
        save(str(target), b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
