"""Results of benches where a rule is shown: which ones hold for this host, in which words, and at what price."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest

from hosttune.cli import measured as of_cli
from hosttune.cli.options import HostOptions
from hosttune.engine.catalog import load_catalog
from hosttune.measure.bench import results, state
from hosttune.measure.bench.results import BenchFinding, BenchResult
from hosttune.measure.bench.statistics import Answer, Interval
from hosttune.measure.bench.uuids import uuids_at
from hosttune.values import Action, Address, Change, Plan, Stage
from hosttune.views.checked import Checked
from hosttune.views.measure.measured import RULES, of_rule, quote_results
from hosttune.views.page import Page
from hosttune.views.plan import plan_report
from hosttune.views.report import check_report
from tests.hosts.built import HOSTS
from tests.unit.fake_reader import FakeReader

NOW = 1_795_000_000.0  # 2026-11-18T11:06:40Z
KERNEL = "6.8.0-45-generic"
UUIDS = {"/data": "uuid-data", "/": "uuid-root"}


def atime(answer=Answer.DIFFERS, **more):
    effect = Interval(1.046, 1.042, 1.049) if answer is Answer.DIFFERS else Interval(1.001, 0.996, 1.009)
    finding = BenchFinding(
        "read",
        answer,
        effect,
        Interval(1.001, 0.995, 1.005),
        160,
        0.01,
        "" if answer is not Answer.INCONCLUSIVE else "busy",
    )
    made = BenchResult(
        "atime", "2026-11-16T10:00:00+00:00", KERNEL, "uuid-data", "ext4", "/data", "/data/set", 7, (finding,),
        MappingProxyType({}), MappingProxyType({"mounted": "relatime", "other": "relatime"}),
    )  # fmt: skip
    return replace(made, **more)


def read(limit="disk"):
    words = MappingProxyType({"limit": limit, "answer": f"limit: {limit}; cold 120 files/s"})
    return replace(atime(), kind="read", findings=(), words=words)


def texts(*given, kernel=KERNEL, uuids=UUIDS, now=NOW):
    return [one.text for one in quote_results(given, kernel, uuids, now)]


def test_quotes_result_of_this_kernel_and_disk_is_quoted_with_its_age():
    (text,) = texts(atime())
    assert text.startswith("measured here 2 days ago: noatime reads 4.4 % faster [4.0, 4.7]")
    assert text.endswith("(bench atime /data/set)")


def test_quotes_no_difference_is_quoted_as_such():
    (text,) = texts(atime(Answer.SAME))
    assert "no difference larger than 0.9 %" in text


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(atime(kernel="6.8.0-44-generic"), id="an older kernel"),
        pytest.param(atime(uuid="uuid-other"), id="another disk at this place"),
        pytest.param(atime(target="/gone"), id="a disk that is not mounted"),
        pytest.param(atime(Answer.INCONCLUSIVE), id="no answer"),
        pytest.param(atime(kind="novel"), id="a kind of another version"),
        pytest.param(read("inconclusive"), id="a read without an answer"),
    ],
)
def test_quotes_what_does_not_hold_here_is_not_quoted(given):
    assert texts(given) == []


@pytest.mark.parametrize(
    ("measured_at", "said"),
    [
        ("2026-11-18T11:06:00+00:00", "measured here just now:"),
        ("2026-11-18T10:36:40+00:00", "measured here 30 minutes ago:"),
        ("2026-11-18T10:00:00+00:00", "measured here 1 hour ago:"),
        ("2026-11-17T11:06:40", "measured here 1 day ago:"),
        ("2027-01-01T00:00:00+00:00", "measured here:"),  # the clock was set back
        ("yesterday", "measured here:"),
    ],
)
def test_quotes_age_is_said_where_the_clock_makes_sense(measured_at, said):
    assert texts(atime(measured_at=measured_at))[0].startswith(f"{said} noatime")


def test_quotes_path_of_a_result_cannot_steer_a_terminal():
    assert "\x1b" not in texts(atime(path="/data/\x1b[31m"))[0]


def test_quotes_every_rule_exists():
    assert set(RULES.values()) <= set(load_catalog(FakeReader()).rules)


def plan_of(*targets, rule="storage-noatime"):
    changes = tuple(Change(Address("mount", one), Action.UPDATE, "relatime", "noatime", rule) for one in targets)
    return Plan("d" * 64, "0", "", "2026-11-18T11:06:40+00:00", "", (Stage(changes),), ())


def test_plan_quotes_below_the_rule_for_the_mounts_that_it_touches():
    found = quote_results([atime(), atime(target="/", uuid="uuid-root", path="/")], KERNEL, UUIDS, NOW)
    text = " ".join(plan_report(Checked(plan_of("/data"), Page()), found).split())
    assert text.count("measured here") == 1
    assert text.index("storage-noatime") < text.index("(bench atime /data/set)") < text.index("mount:/data")


@pytest.mark.parametrize("plan", [plan_of("/srv"), plan_of("/data", rule="storage-readahead")])
def test_plan_does_not_quote_for_other_mounts_or_rules(plan):
    assert "measured here" not in plan_report(Checked(plan, Page()), quote_results([atime()], KERNEL, UUIDS, NOW))


def test_plan_without_results_is_the_same_text():
    one = Checked(plan_of("/data"), Page())
    assert plan_report(one, ()) == plan_report(one)


@pytest.mark.parametrize(("is_verbose", "number"), [(True, 1), (False, 0)])
def test_check_quotes_with_verbose_alone(is_verbose, number):
    found = quote_results([atime()], KERNEL, UUIDS, NOW)
    one = Checked(plan_of("/data"), Page(is_verbose=is_verbose))
    assert check_report((one,), found).count("measured here") == number


def test_of_rule_without_changes_tells_all_mounts():
    found = quote_results([atime(), read()], KERNEL, UUIDS, NOW)
    assert len(of_rule(found, "storage-noatime")) == 1
    assert of_rule(found, "framework-input-pipeline") == (
        "measured here 2 days ago: limit: disk; cold 120 files/s (bench read /data/set)",
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A state folder of this user's, with one result of the root file system and this kernel."""
    place = tmp_path / "bench"
    place.mkdir(mode=0o700)
    monkeypatch.setattr(state, "folder", lambda: str(place))
    fstype = next(line.split()[2] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[1] == "/")
    uuid = uuids_at({"/": fstype}).get("/", "")
    made = atime(kernel=os.uname().release, uuid=uuid, fstype=fstype, target="/", path="/")
    results.save(made)
    return place


def test_measured_reads_what_is_kept(folder):
    (quote,) = of_cli.measured(HostOptions())
    assert (quote.rule, quote.subject) == ("storage-noatime", "/")


@pytest.mark.parametrize("look", [HostOptions(root="/srv/image"), HostOptions(host=["a.json"])])
def test_measured_says_nothing_of_other_hosts(folder, look):
    assert of_cli.measured(look) == ()


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_measured_folder_that_others_may_write_counts_for_nothing(folder, mode):
    folder.chmod(mode)
    assert of_cli.measured(HostOptions()) == ()


def test_measured_result_of_another_user_counts_for_nothing(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 4711)
    assert of_cli.measured(HostOptions()) == ()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"format_version": 99}', b"\xff\xfe", json.dumps({"format_version": 1}).encode()]
)
def test_measured_broken_result_counts_for_nothing(folder, content):
    for path in folder.iterdir():
        path.write_bytes(content)
    assert of_cli.measured(HostOptions()) == ()


def test_measured_without_results_opens_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(state, "folder", lambda: str(tmp_path / "none"))
    monkeypatch.setattr("hosttune.host.open_reader", lambda **_: pytest.fail("the host was looked at"))
    assert of_cli.measured(HostOptions()) == ()


def test_check_without_verbose_loads_nothing_of_the_benches():
    code = (
        "import sys; from hosttune.cli import app; app.run(['check', '--host', sys.argv[1]]); "
        "print(*[m for m in sys.modules if m.startswith('hosttune.measure')], file=sys.stderr)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(HOSTS / "microvm-debian12.json")],
        capture_output=True, text=True, timeout=60, cwd=root, check=True,
    )  # fmt: skip
    assert done.stderr.split() == []


def test_uuids_at_network_file_systems_are_not_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "hosttune.measure.bench.uuids.look_at", lambda path: asked.append(path) or SimpleNamespace(uuid="u")
    )
    line = b"30 1 0:50 / /nfs rw - nfs4 server:/a rw\n31 1 8:1 / /data rw - ext4 /dev/sda1 rw\n32 1 0:51 / /s rw - fuse.sshfs s rw\n"
    monkeypatch.setattr("hosttune.measure.bench.uuids.own_mounts", lambda: line)
    assert uuids_at({"/nfs": "nfs4", "/data": "ext4", "/s": "fuse.sshfs", "/gone": "ext4"}) == {"/data": "u"}
    assert asked == ["/data"]


def test_uuids_at_another_type_at_the_place_is_not_asked():
    assert uuids_at({"/": "vfat", "/proc": "ext4"}) == {}
