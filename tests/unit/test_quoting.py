"""A name that somebody else chose stays one word of a command that is to be typed, and writes no
step of its own.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.host.masking.cleaned import clean
from hosttune.host.record.record import RecordReader
from hosttune.measure.watch.limits import name_setter
from hosttune.quoting import join, quote
from hosttune.values import steps_of
from hosttune.views.masking import mask_data
from tests.hosts.built import HOSTS, reader

PACKAGE = Path(__file__).resolve().parents[2] / "hosttune"
# What is masked of these, as they stand in quotes, has the quote that closes them.
NAMES = [
    "--password '$(touch PWN)--password #token=x.service", "a token='$(touch PWN) #.service", "x password: '$(touch PWN)#",
    "token=\"a'$(touch PWN)'b\"", "x\n$(touch PWN)", "a\\\n'; touch PWN; #", "secret='`touch PWN`#", "https://u:'$(touch PWN)'@h",
]  # fmt: skip
PARTS = [
    "'",
    '"',
    " ",
    "token=",
    "$(touch PWN)",
    "a",
    "=",
    "#",
    "--password ",
    "password: ",
    "\n",
    ";touch PWN;",
]


def is_run(command: str, folder: Path) -> bool:
    """Whether a shell that reads this does what the name says, as the user nobody if that can
    be.
    """
    folder.chmod(0o777)
    ids = (
        ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
        if os.geteuid() == 0
        else ()
    )
    subprocess.run(
        [*ids, "bash", "-c", command], cwd=folder, capture_output=True, check=False, timeout=20
    )
    return (folder / "PWN").exists()


@pytest.mark.parametrize("name", NAMES)
def test_command_with_a_hostile_name_runs_nothing_of_it_when_it_is_shown(name, tmp_path):
    assert not is_run(clean(f"true {quote(name)}; true {quote(name)}"), tmp_path)
    assert not is_run(mask_data([f"true {quote(name)} {quote('$(touch PWN)')}"])[0], tmp_path)


def test_watch_names_the_unit_of_a_user_so_that_nothing_of_it_is_run(tmp_path):
    """Any name, in a control group that was given to a user."""
    for name in NAMES:
        said = clean(
            name_setter(
                f"/user.slice/user-1001.slice/user@1001.service/{name.replace('/', '')}.service"
            )
        )
        assert not is_run(said[said.index("systemctl") :], tmp_path), name


def test_no_mix_of_quotes_and_names_of_secrets_gets_out_of_its_quotes(tmp_path):
    mixed = random.Random(29)  # noqa: S311 - the same each time
    for _ in range(150):
        name = "".join(mixed.choice(PARTS) for _ in range(9))
        shown = clean(f"true {quote(name)} {quote(name)}")
        assert "\n" not in shown
        if "touch" in name and shown != f"true {quote(name)} {quote(name)}":
            assert not is_run(shown, tmp_path), name


@pytest.mark.parametrize(
    "name", ["a\nb", "\u202ex", "a\x1b'b", "\udcff", "plain", "it's", "a b", "ä\n$x", "", "a\tb"]
)
def test_shell_reads_the_name_back(name):
    done = subprocess.run(
        ["bash", "-c", f"printf %s {quote(name)}"], capture_output=True, check=True
    )
    assert done.stdout == name.encode("utf-8", "surrogateescape")
    assert "\n" not in quote(name)
    assert join([name, "x"]) == f"{quote(name)} x"


def test_nothing_else_in_the_package_quotes():
    """trial_guard writes a script, whose sh may not read `$'...'`."""
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(
            r"shlex\.(?:quote|join)\(|from shlex import .*(?:quote|join)",
            path.read_text(encoding="utf-8"),
        )
    ]
    assert sorted(found) == ["actions/trial/guard.py", "quoting.py"]


MOUNTS = {"/proc/self/mountinfo", "/proc/1/mountinfo"}
BREAK = r"\012INJ\040sudo\040sh\040/tmp/x\040#"


def hostile(places: set[str]) -> dict[str, object]:
    """The record of a stranger, in whose tables the places and options of mounts hold a line
    break.
    """
    data = dict(reader(HOSTS / "h100-8x-2socket.json").data)
    files = dict(data["files"])
    if "fstab" in places:
        files["/etc/fstab"] = (
            "UUID=0a11-22 / ext4 defaults 0 1\n"
            f"UUID=b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f /data{BREAK} ext4 defaults,x{BREAK} 0 2\n"
            f"UUID=d2-7e /other{BREAK} ext4 nofail 0 2\n/dev/sdz{BREAK} /third{BREAK} xfs nofail 0 2\n"
        )
    for path in MOUNTS & places & files.keys():
        files[path] = re.sub(r"(?m)^((?:\S+ ){4}/\S+)", lambda found: found[1] + BREAK, files[path])
    return {**data, "files": files}


@pytest.mark.parametrize(
    "places", [{"fstab"}, MOUNTS, {"fstab", *MOUNTS}], ids=["fstab", "mounts", "both"]
)
def test_line_break_in_a_strangers_record_begins_no_step(places):
    """`check --host RECORD` printed `2. sudo sh /tmp/x #` as a step of hosttune's own."""
    session = examine(RecordReader(hostile(places), "x.json"), builtin_catalog(), Policy())
    findings = session.plan().findings
    assert findings
    assert [
        one.todo for one in findings for step in steps_of(one.todo) if step.startswith("INJ")
    ] == []
