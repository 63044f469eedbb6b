"""A run on trial in a tree of real files, as root: armed, confirmed, taken back. What systemd does
is only noted.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hosttune.actions.examine import Session
from hosttune.actions.journal.journal import read_journal
from hosttune.actions.trial import clock as trial_clock
from hosttune.actions.trial import guard as trial_guard
from hosttune.actions.trial.state import TrialState, read_trial
from hosttune.actions.trial.trial import (
    apply_on_trial,
    come_back,
    confirm,
    finish,
    foresee,
    require_promise,
)
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import Catalog
from hosttune.engine.trial_terms import TrialTerms
from hosttune.facts import Facts
from hosttune.facts.containment import INITIAL
from hosttune.facts.losses import HostStanding
from hosttune.host.door import Completed
from hosttune.host.reading.live import LiveWriter
from hosttune.host.reading.tree import FileTree
from hosttune.values import ABSENT, Action, Address, Change, FileValue
from tests.unit.trial_host import ARMED_IN, BOOT_ID, SECOND, TRIAL
from tests.unit.trial_runs import MOUNTS, boot_change, file_change, plan_of

LIMITS = "/etc/security/limits.conf"
OLD, NEW = b"# as it was\n", b"# as planned\n"
FILES = {
    BOOT_ID: f"{ARMED_IN}\n", "/proc/uptime": "100.00 1.0\n", "/proc/1/comm": "systemd\n", "/proc/cmdline": "ro\n",
    "/proc/1/environ": "", "/proc/sys/kernel/osrelease": "6.8.0-45-generic\n", "/proc/self/mountinfo": MOUNTS,
}  # fmt: skip


class Tree(LiveWriter):
    """The real writer on the files below a folder, which starts no program."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        FileTree.__init__(self, str(root))
        self.ran: list[str] = []

    def run(self, argv, *, timeout_s):
        assert timeout_s > 0
        self.ran.append(" ".join(argv))
        return Completed(0, b"", b"")

    def query(self, argv, *, timeout_s=10.0):
        if tuple(argv[:2]) == ("systemctl", "is-active"):
            return Completed(0, b"active\n", b"")
        return Completed(0, b"", b"") if argv[0] in {"sh", "systemd-run"} else ABSENT

    def log(self, message, message_id=""):
        self.ran.append(f"log {message}")

    def processes(self):
        return ()

    @property
    def session(self):
        return Session(self, Catalog({}, {}), Policy(), read_journal(self), Facts(self), ())


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "hosttune.actions.trial.trial.read_standing", lambda *_, **__: HostStanding()
    )
    for path, text in FILES.items():
        place = tmp_path / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for name, text in (INITIAL | {"mnt": "mnt:[4026531841]"}).items():
        for process in ("self", "1"):
            link = tmp_path / "proc" / process / "ns" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(text)
    for folder in (
        "run/systemd/system",
        "run/motd.d",
        "etc/systemd/system",
        "etc/security",
        "etc/hosttune",
        "dev",
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    place = tmp_path / LIMITS[1:]
    place.write_bytes(OLD)
    place.chmod(0o640)
    os.chown(place, 0, 4)
    return Tree(tmp_path)


def begun(host, *changes):
    plan = plan_of(*changes)
    planned = foresee(host.session, plan, TrialTerms(900))
    require_promise(planned, without_return=False)
    return apply_on_trial(host.session, host, plan, planned, lambda _: None)[1]


def edit():
    before, after = FileValue(OLD, 0o640, 0, 4), FileValue(NEW, 0o640, 0, 4)
    return Change(Address("file", LIMITS), Action.UPDATE, before, after, "limits")


def everything(host):
    """All files, with what they hold and whose they are; /var is the journal's."""
    root = Path(host.root)
    return {
        str(path.relative_to(root)): (
            path.read_bytes(),
            path.stat().st_mode,
            path.stat().st_uid,
            path.stat().st_gid,
        )
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and "var" not in path.parts
    }


def test_armed_trial_is_for_root_alone_and_complete(host):
    trial = begun(host, edit(), file_change())
    folder = Path(host.root) / trial_guard.FOLDER[1:]
    assert trial.state is TrialState.LIVE
    assert folder.stat().st_mode & 0o7777 == 0o700
    assert {path.stat().st_mode & 0o7777 for path in folder.iterdir()} == {0o600}
    assert (folder / "001.old").read_bytes() == OLD
    assert (folder / "001.new").read_bytes() == NEW
    assert (folder / "set").read_text().splitlines()[0] == f"001 640 0:4 {LIMITS}"
    assert all((Path(host.root) / path[1:]).is_file() for path in trial_guard.UNIT_PATHS)
    assert (
        (Path(host.root) / trial_clock.MOTD[1:])
        .read_text()
        .startswith(f"run {trial.run} is on trial")
    )


def test_what_came_back_is_byte_for_byte_as_before_with_its_mode_and_owner(host):
    before = everything(host)
    trial = begun(host, edit(), file_change(), boot_change())
    assert host.read(LIMITS) == NEW
    assert come_back(host.session, host, trial, "nobody confirmed it").state is TrialState.CAME_BACK
    assert everything(host) == before
    assert [run.command for run in read_journal(host).runs] == ["apply", "undo"]


def test_confirmed_trial_leaves_its_changes_alone(host):
    before = everything(host)
    trial = begun(host, edit())
    confirm(host.session, host, trial, lambda _: None)
    after = everything(host)
    assert {path for path in after if before.get(path) != after[path]} == {LIMITS[1:]}
    assert after[LIMITS[1:]] == (NEW, *before[LIMITS[1:]][1:])


def test_boots_without_a_confirmation_are_taken_back_by_whoever_looks_first(host):
    before = everything(host)
    begun(host, boot_change())
    (Path(host.root) / BOOT_ID[1:]).write_text(f"{TRIAL}\n")
    trial_guard.mark(host, "trying")
    assert read_trial(host).state is TrialState.THIS_BOOT
    (Path(host.root) / BOOT_ID[1:]).write_text(f"{SECOND}\n")
    assert finish(host.session, host, lambda _: None).state is TrialState.CAME_BACK
    after = everything(host)
    assert after.pop(BOOT_ID[1:]) != before.pop(BOOT_ID[1:])
    assert after == before


def test_trial_whose_setting_up_was_cut_off_leaves_nothing(host):
    before = everything(host)
    trial_guard.arm(host, "20261124-100000-1a2b", (), within_s=900, has_one_shot=False)
    assert read_trial(host) is None
    assert finish(host.session, host, lambda _: None) is None
    assert everything(host) == before
