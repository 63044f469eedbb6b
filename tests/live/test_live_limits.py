"""What pam_limits makes of limits.d: what hosttune says of a new session is what su gives, and a
limit above fs.nr_open is not to be had.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hosttune.facts import Facts
from tests.live.namespace import passes, run
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import One, host

LIMITS = "Limit                     Soft Limit           Hard Limit           Units\n"
SESSION = f"{LIMITS}Max open files            1024                 524288               files\n"
OURS = "/etc/security/limits.d/60-hosttune-limits-nofile.conf"
SCENARIOS = ("wildcard_and_root", "later_file_wins", "above_nr_open")


@pytest.mark.parametrize("name", SCENARIOS)
def test_session_has_the_limits_that_are_foretold(name, tmp_path):
    passes(__file__, name, tmp_path)


def session(user: str) -> subprocess.CompletedProcess[str]:
    """(soft, hard) of open files in a new session of a user."""
    shell = ("su", "-s", "/bin/sh", user, "-c", "ulimit -Sn; ulimit -Hn")
    return subprocess.run(shell, check=False, capture_output=True, text=True, timeout=30)


def placed(folder: Path, files: dict[str, str]) -> None:
    """These files alone in limits.d, and nothing in limits.conf.

    Before them a hard limit that every session may have: that of process 1, which PAM takes
    otherwise, may be above this one's, and only CAP_SYS_RESOURCE raises it.
    """
    (folder / "limits.d").mkdir()
    (folder / "limits.d/00-hard.conf").write_text("* hard nofile 8192\nroot hard nofile 8192\n")
    for path, text in files.items():
        (folder / "limits.d" / Path(path).name).write_text(text)
    (folder / "limits.conf").touch()
    for name in ("limits.d", "limits.conf"):
        run("mount", "--bind", folder / name, f"/etc/security/{name}")


def made() -> dict[str, str]:
    """The drop-in as hosttune writes it."""
    one = One(
        host({"/proc/1/limits": SESSION, "/proc/sys/fs/nr_open": "1048576\n"}),
        "- limit: nofile\n  soft: '4096'\n  hard: '8192'",
    )
    one.apply()
    return {
        path: text
        for path, text in one.kept().items()
        if path.startswith("/etc/security/limits.d/")
    }


def scenario_wildcard_and_root(folder):
    placed(folder, made())
    for user in ("nobody", "root"):
        assert session(user).stdout.split()[0] == "4096"


def scenario_later_file_wins(folder):
    files = {**made(), "/etc/security/limits.d/90-site.conf": "* soft nofile 2048\n"}
    placed(folder, files)
    rows = Facts(FakeReader(files)).session_limits["nofile"].lines
    last = [row.given.value for row in rows if (row.domain, row.kind) == ("*", "soft")][-1]
    assert session("nobody").stdout.split()[0] == last == "2048"
    assert session("root").stdout.split()[0] == "4096"  # the wildcard is not for root


def scenario_above_nr_open(folder):
    limit = int(Path("/proc/sys/fs/nr_open").read_text()) * 2
    placed(folder, {OURS: f"* hard nofile {limit}\n* soft nofile {limit}\n"})
    assert session("nobody").stdout.split()[:1] != [
        str(limit)
    ]  # refused by the kernel; some PAMs end the session then
    door = host({"/proc/1/limits": SESSION, "/proc/sys/fs/nr_open": f"{limit // 2}\n"})
    found = One(door, f"- limit: nofile\n  soft: '{limit}'\n  hard: '{limit}'").finding()
    assert "nr_open" in f"{found.hold} {found.todo}"
