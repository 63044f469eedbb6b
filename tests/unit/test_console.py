"""What the terminal and the environment allow, and how the program is started again."""

import io
import subprocess
import sys

import pytest

from hosttune.errors import HosttuneError
from hosttune.host import console as module
from hosttune.host.console import Console, load, make_console, spell_program


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        return 1


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("COLUMNS", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        module.os, "get_terminal_size", lambda _: module.os.terminal_size((132, 40))
    )


def test_pipe_breaks_no_line_and_has_no_colour(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert make_console(io.StringIO()) == Console(0, is_terminal=False, has_colour=False)


def test_terminal_has_its_own_columns_and_colour(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert make_console(Terminal()) == Console(132, is_terminal=True, has_colour=True)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_where_it_is_not_wanted(monkeypatch, name, value):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    assert not make_console(Terminal()).has_colour


def test_no_colour_without_a_term():
    assert not make_console(Terminal()).has_colour


@pytest.mark.parametrize(
    ("value", "columns"), [("100", 100), ("", 132), ("wide", 132), ("0", 132), ("-5", 132)]
)
def test_columns_of_the_environment_win_when_they_are_a_number(monkeypatch, value, columns):
    monkeypatch.setenv("COLUMNS", value)
    assert make_console(Terminal()).columns == columns


@pytest.mark.parametrize(
    ("argv0", "expected"),
    [
        ("/usr/local/bin/hosttune", "hosttune"),
        ("/opt/hosttune/bin/hosttune", "/opt/hosttune/bin/hosttune"),
        ("/home/eve b/bin/hosttune", "'/home/eve b/bin/hosttune'"),
        ("/usr/lib/python3/dist-packages/hosttune/__main__.py", "/usr/bin/python3 -I -m hosttune"),
    ],
)
def test_program_is_found_again_under_sudo(argv0, expected):
    assert spell_program(argv0, "/usr/bin/python3") == expected


@pytest.mark.parametrize(("mode", "start"), [(0o755, ""), (0o644, "python3 ")])
def test_program_of_the_self_contained_file_starts_as_it_can(mode, start, tmp_path):
    (tmp_path / "hosttune.pyz").touch(mode)
    assert spell_program(str(tmp_path / "hosttune.pyz")) == f"{start}{tmp_path}/hosttune.pyz"


def test_program_of_a_checkout_is_its_run_script(tmp_path):
    for name in ("run", "pyproject.toml"):
        (tmp_path / name).touch()
    assert spell_program(str(tmp_path / "hosttune" / "__main__.py"), "/x/python") == str(
        tmp_path / "run"
    )


def test_load_of_what_is_no_text_says_so(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"\xff")
    with pytest.raises(HosttuneError, match="is not UTF-8 text"):
        load(str(path))


def test_input_that_is_closed_reads_as_an_empty_file():
    program = "import sys; sys.argv = ['hosttune', 'fstab', '-']; from hosttune.cli.app import main; main()"
    shell = ["sh", "-c", '"$@" <&-', "sh", sys.executable, "-c", program]
    done = subprocess.run(shell, timeout=120, check=False, capture_output=True, text=True)
    assert "fault of hosttune" not in done.stderr
    assert (done.returncode, "standard input" in done.stdout) == (0, True)


def test_file_is_read_where_proc_is_not_mounted(tmp_path, monkeypatch):
    """As in a chroot: no table of mounts is there, and a file that is there was called missing."""

    def fail():
        raise FileNotFoundError(2, "No such file or directory", "/proc/self/mountinfo")

    monkeypatch.setattr("hosttune.host.reading.named.own_mounts", fail)
    (tmp_path / "policy.yaml").write_text("profile: base\n")
    assert load(str(tmp_path / "policy.yaml")) == "profile: base\n"
