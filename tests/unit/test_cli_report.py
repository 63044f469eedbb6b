"""`hosttune report`: files, folders, lists, records and results on one page."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import shutil
import signal
from contextlib import redirect_stdout
from datetime import datetime, timezone

import pytest

from hosttune.actions import fleet as action
from hosttune.cli import app
from hosttune.host.reading.gathered import list_files, pair_paths
from tests.hosts.built import HOSTS
from tests.unit.fleet_looks import document, entry, finding
from tests.unit.schemas import faults

H100 = HOSTS / "h100-8x-2socket.json"
VM = HOSTS / "a100-cloud-vm.json"
OK = [finding(verdict="ok", now="10")]


@pytest.fixture
def run(capsys):
    def run(*argv):
        status = app.run(["report", *(str(word) for word in argv)])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def put(tmp_path):
    def put(name, data):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        return path

    return put


def flat(text):
    """Text as it was before it was wrapped."""
    return " ".join(text.split())


def test_rules_stand_in_the_order_of_what_they_cost(run, put):
    """A driver that differs on one host comes before a sysctl of many, and a fault on one host
    before both.
    """
    many = [finding("memory-max-map-count"), finding("memory-swappiness", "unknown")]
    one = [
        finding("gpu-driver"),
        finding("gpu-modes", "unknown"),
        finding("storage-stopped", is_fault=True),
    ]
    paths = [
        put(f"{name}.json", document(entry(name, many + one * (name == "c")))) for name in "abc"
    ]
    _, data = as_json(run, *paths)
    ordered = [
        "storage-stopped",
        "gpu-driver",
        "memory-max-map-count",
        "gpu-modes",
        "memory-swappiness",
    ]
    assert [row["rule"] for row in data["rules"]] == ordered
    _, out, _ = run(*paths)
    assert (
        out.index("Not fit for jobs")
        < out.index("\nFaults\n")
        < out.index("\nTo change\n")
        < out.index("\nCould not check\n")
    )


def as_json(run, *argv):
    status, out, _ = run(*argv, "--format", "json")
    data = json.loads(out)
    assert faults(data, "report") == []
    return status, data


def test_hosts_that_are_fine_end_with_0_and_others_with_1(run, put):
    fine, other = put("a.json", document(entry("a", OK))), put("b.json", document(entry("b")))
    assert run(fine)[0] == 0
    status, out, _ = run(fine, other)
    assert status == 1
    assert out.startswith("2 hosts: 1 to change, 1 without findings.\n")


def test_host_without_an_answer_and_file_that_is_broken_end_with_1(run, put):
    fine = put("a.json", document(entry("a", OK)))
    note = put(
        "b.json",
        {
            "format_version": 1,
            "kind": "hosttune missing",
            "host": "b",
            "at": "2026-11-21T03:00:00Z",
            "reason": "no route",
        },
    )
    status, out, _ = run(fine, note)
    assert (status, "no route" in flat(out)) == (1, True)
    status, out, _ = run(fine, put("c.json", "{\n{"))
    assert (status, "c.json:2: is not JSON" in flat(out)) == (1, True)


def test_nothing_that_says_anything_ends_with_2(run, put, tmp_path):
    status, out, err = run(put("a.json", ""), tmp_path / "none.json", put("empty/x.txt", ""))
    assert status == 2
    assert "none.json: cannot be read: No such file or directory" in flat(out)
    assert "no usable results of a host in these files" in err
    assert "Exit status 1" not in out


def test_folder_is_walked_and_hidden_files_are_left_out(run, put, tmp_path):
    put("f/a.json", document(entry("a", OK)))
    put("f/deep/b.json", document(entry("b", OK)))
    put("f/.hosttune-draft.json", "half")
    put("f/.git/c.json", "half")
    put("f/notes.txt", "half")
    assert as_json(run, tmp_path / "f")[1]["hosts"] == 2


def test_lists_name_files(run, put, monkeypatch, tmp_path):
    one, two = put("a.json", document(entry("a", OK))), put("b b.json", document(entry("b", OK)))
    assert as_json(run, f"@{put('list', f'{one}{chr(10)}{two}{chr(10)}')}")[1]["hosts"] == 2
    assert as_json(run, f"@{put('list0', f'{one}{chr(0)}{two}{chr(0)}')}")[1]["hosts"] == 2
    loop = tmp_path / "loop"
    assert as_json(run, one, f"@{put('loop', f'@{loop}')}")[1]["unread"]["count"] == 1
    reading, writing = os.pipe()
    os.write(writing, f"{one}\n".encode())
    os.close(writing)
    with os.fdopen(reading) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert [path for path, _ in list_files(["-"])] == [str(one)]


def test_pipe_that_nobody_writes_to_does_not_hold_the_report(run, put, tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    status, out, _ = run(put("a.json", document(entry("a", OK))), tmp_path / "pipe.json")
    assert (status, "pipe.json: is empty" in flat(out)) == (1, True)


def test_pipe_in_a_folder_is_told_and_not_opened(run, put, tmp_path):
    put("f/a.json", document(entry("a", OK)))
    os.mkfifo(tmp_path / "f/pipe.json")
    held = os.open(tmp_path / "f/pipe.json", os.O_RDWR)  # a writer that says nothing
    try:
        status, out, _ = run(tmp_path / "f")
    finally:
        os.close(held)
    assert (status, "pipe.json: is not a file" in flat(out)) == (1, True)


def test_record_beside_a_result_is_read_only_where_it_is_wanted():
    paths = [
        "r/a.json",
        "r/records/a.json",
        "r/b.record.json",
        "r/./b.json",
        "r/records/c.json",
        "r/a.json",
    ]
    assert pair_paths(paths, wants_records=False) == ["r/a.json", "r/b.json", "r/records/c.json"]
    assert pair_paths(paths, wants_records=True) == [
        "r/records/a.json",
        "r/b.record.json",
        "r/records/c.json",
    ]


def test_record_says_what_its_saved_check_says(run, tmp_path):
    app.run(
        ["check", "--host", str(H100), "--format", "json", "--output", str(tmp_path / "saved.json")]
    )
    (_, of_record), (_, of_result) = as_json(run, H100), as_json(run, tmp_path / "saved.json")
    for part in ("first_at", "reboots", "problems", "policies", "profiles"):
        assert json.dumps(of_record[part]).replace("h100-8x-2socket", str(H100)) == json.dumps(
            of_result[part]
        )
    rules = [
        {one["rule"]: one["values"][0]["value"] for one in it["rules"] if one["values"]}
        for it in (of_record, of_result)
    ]
    assert rules[0] == rules[1]
    assert of_record["plans"][0]["digest"] == of_result["plans"][0]["digest"]
    assert of_record["without_siblings"] == of_result["without_siblings"] == 1


def test_twins_are_siblings_and_the_odd_one_is_named(run, put):
    record = json.loads(H100.read_text(encoding="utf-8"))
    for number in range(3):
        put(f"f/gpu-{number}.json", {**record, "name": f"gpu-{number}", "machine": f"m{number}"})
    odd = {**record, "name": "gpu-9", "machine": "m9"}
    odd["files"] = {
        **record["files"],
        "/proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz ro mitigations=off\n",
    }
    folder = put("f/gpu-9.json", odd).parent
    _, data = as_json(run, folder)
    (group,) = data["siblings"]
    told = {one["name"]: one for one in group["settings"]}
    assert group["count"] == 4
    assert told["mitigations"]["majority"] == "on"
    assert told["mitigations"]["values"][1]["names"] == ["gpu-9"]
    assert [(one["count"], len(one["changes"])) for one in data["plans"]] == [(4, 5)]


def test_new_policy_is_tried_on_records_alone(run, put):
    policy = put("new.yaml", "ignore: [memory-swappiness]\n")
    result = put("a.json", document(entry("a", OK)))
    status, data = as_json(run, H100, result, "--policy", policy)
    assert status == 1
    assert data["unread"]["files"][0]["reason"].startswith(
        "is a result of check, which another policy cannot judge"
    )
    assert "memory-swappiness" not in {one["rule"] for one in data["rules"]}
    assert data["plans"][0]["change_count"] == 3


def test_what_a_policy_says_for_nothing_is_named_with_its_hosts(run, put):
    waiver = "ignore:\n  - {rule: storage-noatime, subject: /dta, reason: typo, owner: me, until: 2099-01-01}\n"
    policy = put("new.yaml", f"{waiver}hosts:\n  h1OO-*: {{ignore: [memory-swappiness]}}\n")
    _, data = as_json(run, H100, VM, "--policy", policy)
    told = [one["value"] for one in data["problems"]["values"]]
    idle = [words for words in told if "nothing of storage-noatime is called /dta" in words]
    assert idle
    assert all(words.startswith(f"{policy}:2") and "looks at /" in words for words in idle)
    assert sum("no section for hosts fits this host" in words for words in told) == 2
    assert "nothing of storage-noatime is called /dta" in flat(run(H100, "--policy", policy)[1])
    fine = put("fine.yaml", "ignore: [memory-swappiness]\n")
    assert as_json(run, H100, "--policy", fine)[1]["problems"]["values"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "POLICY"], "policy.yaml:1"),
        (["--profile", "nope"], "no profile is called nope"),
        (["--select", "nope"], "no rule is called nope"),
        (["--policy", "/nonexistent.yaml"], "/nonexistent.yaml: cannot be read"),
    ],
)
def test_fault_of_the_policy_is_told_once_and_ends_with_2(run, put, words, message):
    policy = str(put("policy.yaml", "profil: base\n"))
    status, out, err = run(H100, VM, *(policy if word == "POLICY" else word for word in words))
    assert (status, out) == (2, "")
    assert message in err


def test_workers_say_the_same_as_one_process_in_any_order(run, put):
    paths = [
        put(f"{number}.json", document(entry(f"h{number}", OK if number % 3 else None)))
        for number in range(40)
    ]
    alone = run(*paths, "--jobs", 1, "--format", "json")
    random.Random(1).shuffle(paths)  # noqa: S311 - any order
    assert run(*paths, "--jobs", 3, "--format", "json") == alone


def test_fault_of_hosttune_at_one_host_is_a_line_of_the_report(run, put, monkeypatch):
    def fail(*_args, **_more):
        message = "boom"
        raise ZeroDivisionError(message)

    monkeypatch.setattr(action, "seen_of_plan", fail)
    status, out, _ = run(H100, put("a.json", document(entry("a", OK))))
    assert status == 1
    assert "a fault of hosttune itself, please report it: ZeroDivisionError: boom" in flat(out)
    with pytest.raises(ZeroDivisionError):
        run(H100, "--debug")


def test_worker_that_is_killed_costs_its_own_file_only(run, put, monkeypatch):
    def kill(*_args, **_more):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(action, "seen_of_plan", kill)
    paths = [put(f"{name}.json", document(entry(name, OK))) for name in "abcdefghijklmno"]
    for jobs in (1, 3):
        status, data = as_json(run, *paths[:7], H100, *paths[7:], "--jobs", jobs)
        assert (status, data["hosts"]) == (1, 15)
        why = "the process that read it was ended, perhaps for want of memory"
        assert data["unread"] == {"count": 1, "files": [{"place": str(H100), "reason": why}]}


@pytest.mark.parametrize("where", ["text", "json", "html"])
def test_one_host_fills_no_page_with_a_word(run, put, where):
    """Names of rules, reasons and the like are a host's own words, of any length."""
    long = "x" * 100_000
    host = entry(
        "loud",
        [finding(long, reason=long, evidence=[long])],
        tool_version=long,
        profile=long,
        problems=[long],
    )
    host |= {"machine": long, "health": {"unfit": [long], "impaired": [long]}}
    host["inventory"] = {
        "hardware": {long: long},
        "settings": {long: long},
        "gpu": long,
        "reboot": [long],
    }
    missing = {
        "format_version": 1,
        "kind": "hosttune missing",
        "host": "gone",
        "at": host["created_at"],
        "reason": long,
    }
    paths = [put("a.json", document(host, {**host, "host": long})), put("b.json", missing)]
    _, out, _ = run(*paths, put("c.json", document(entry("c", OK))), "--format", where)
    assert len(max(out.split("\n"), key=len)) < (20_000 if where == "html" else 2_000)
    assert "loud" in out


def test_older_look_at_a_host_is_left_out(run, put):
    old = put(
        "old.json", document({**entry("a"), "machine": "m1", "created_at": "2026-01-01T00:00:00Z"})
    )
    new = put("new.json", document({**entry("a", OK), "machine": "m1"}))
    for order in ((old, new), (new, old)):
        status, out, _ = run(*order)
        assert status == 0
        assert "1 older look at hosts that were looked at again later (a)" in flat(out)


@pytest.mark.parametrize("machine", ["", "m1"])
def test_file_of_one_host_takes_the_place_of_no_other_host(run, put, machine):
    """Files are named after the inventory, and hosts call themselves otherwise: no name of a file
    guards them.
    """
    for name in ("good1", "good2"):
        put(
            f"all/{name}.json",
            document({**entry(f"{name}.dc", [finding(is_fault=True)]), "machine": "m1"}),
        )
    later = {"created_at": "2027-01-01T00:00:00Z", "machine": machine}
    others = [{**entry(f"{name}.dc", OK), **later} for name in ("good1", "good2")]
    folder = put("all/evil.json", document(entry("evil", OK), *others)).parent
    gone = {
        "format_version": 1,
        "kind": "hosttune missing",
        "host": "good1.dc",
        "at": "2027-01-01T00:00:00Z",
    }
    put("all/worse.json", {**gone, "reason": "x"})
    status, data = as_json(run, folder)
    assert status == 1
    assert data["states"]["fault"]["count"] == 2


def test_file_that_says_it_is_of_another_machine_hides_no_fault_of_it_and_is_reported(run, put):
    """The machine id of a clone is known, and its result can be of any time."""
    for name in ("good1", "good2"):
        bad = entry(f"{name}.dc", [finding(is_fault=True)], machine=name)
        good = put(f"all/{name}.json", document(bad))
    future = put(
        "all/evil.json",
        document(entry("good1.dc", OK, machine="good1", created_at="2999-01-01T00:00:00Z")),
    )
    put(
        "all/later.json",
        document(entry("good2.dc", OK, machine="good2", created_at="2026-11-22T00:00:00Z")),
    )
    status, data = as_json(run, good.parent)
    assert status == 1
    assert data["states"]["fault"]["names"] == ["good1.dc", "good2.dc (good2)"]
    assert data["disputed"]["count"] == 2
    assert [one["host"] for one in data["disputed"]["hosts"]] == ["good1.dc", "good2.dc"]
    assert [
        (one["place"], "in the future" in one["reason"]) for one in data["unread"]["files"]
    ] == [(str(future), True)]
    assert (
        "Files of different names are said to be of one host, 2 hosts in all (good1.dc: "
        in flat(run(good.parent)[1])
    )


def test_look_that_was_of_the_future_when_it_was_received_stays_so(run, put):
    past = put("all/1/a.json", document(entry("a", [finding(is_fault=True)], machine="m1")))
    later = put(
        "all/2/a.json", document(entry("a", OK, machine="m1", created_at="2026-11-22T00:00:00Z"))
    )
    received = datetime(2026, 11, 21, 12, tzinfo=timezone.utc).timestamp()
    os.utime(later, (received, received))
    assert as_json(run, past.parent.parent)[1]["states"] == {"fault": {"count": 1, "names": ["a"]}}
    os.utime(later, (0, 0))  # an archive without times
    assert as_json(run, past.parent.parent)[1]["states"] == {"ok": {"count": 1, "names": ["a"]}}


def test_changes_that_are_shown_are_those_of_the_digest(run, put, checked):
    for name in ("node1", "node2"):
        put(f"all/{name}.json", document({**checked["hosts"][0], "host": name, "machine": name}))
    good = {**checked["hosts"][0], "host": "a-evil"}
    harmless = [
        {**one, "changes": one["changes"][:1]} for one in good["findings"] if one["changes"]
    ][:1]
    old = {**good, "findings": harmless, "created_at": "2020-01-01T00:00:00Z"}
    folder = put("all/a-evil.json", document(old, good)).parent
    _, data = as_json(run, folder)
    (shown,) = [one for one in data["plans"] if one["digest"] == good["digest"]]
    assert shown["count"] == 3
    assert len(shown["changes"]) == shown["change_count"] > 1


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_names_from_outside_steer_nothing(run, put, form):
    evil = '<img src=x onerror=alert(1)>\x1b[2J\u202e"'
    path = put(
        "a.json",
        document(entry(evil, [finding(now=evil, reason="password=geheim")], problems=[evil])),
    )
    status, out, _ = run(path, "--format", form)
    assert status == 1
    assert not {"\x1b", "\u202e"} & set(out)
    assert "geheim" not in out
    if form == "html":
        assert "<img" not in out


@pytest.fixture(scope="module")
def checked():
    """What `hosttune check` tells of a host: of what is alike one each, as a report is made for
    each text in it.
    """
    with redirect_stdout(io.StringIO()) as out:
        app.run(["check", "--host", str(H100), "--format", "json"])
    return one_of_each(json.loads(out.getvalue()))


def one_of_each(data):
    """The document with one item of a list for each verdict and each set of places that have
    text.
    """
    if isinstance(data, dict):
        return {key: one_of_each(value) for key, value in data.items()}
    if not isinstance(data, list):
        return data
    kinds = {}
    for item in data:
        is_object = isinstance(item, dict)
        said = (
            frozenset(where for where, holder, key in texts_in(item) if holder[key])
            if is_object
            else item
        )
        kinds.setdefault((said, item.get("verdict")) if is_object else said, one_of_each(item))
    return list(kinds.values())


def texts_in(data, path=()):
    """Where a document has text: the path to it without the numbers of lists, and the object that
    holds it.
    """
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        where = (*path, key) if isinstance(data, dict) else path
        if isinstance(value, str):
            yield where, data, key
        elif isinstance(value, (dict, list)):
            yield from texts_in(value, where)


@pytest.fixture
def without_workers(monkeypatch):
    """Each file is read in this process, which spares a fork; what workers add is shown by the
    tests of `--jobs`.
    """
    monkeypatch.setattr(action, "map_in_order", lambda work, things, jobs, lost: map(work, things))


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_no_text_of_a_result_steers_anything_wherever_it_is(
    run, put, checked, form, without_workers
):
    evil = "\x1b[2J\x1b]0;T\x07`<script>alert(1)</script>\n# TYPE\nevil 1\u202e\0"
    for where in {where for where, _, _ in texts_in(checked)}:
        data = copy.deepcopy(checked)
        for other, holder, key in texts_in(data):
            if other == where:
                holder[key] = evil
        status, out, err = run(put("a.json", data), "--verbose", "--plans", "5", "--format", form)
        assert status in (1, 2), where
        assert not [char for char in out + err if not char.isprintable() and char != "\n"], where
        assert not {"# TYPE", "evil 1"} & {line.strip() for line in (out + err).splitlines()}, where
        assert form != "html" or "<script>alert" not in out, where


def test_digest_of_a_result_has_its_form(run, put):
    for name in ("digest", "policy_digest"):
        status, out, _ = run(put("a.json", document({**entry("a"), name: "0" * 63 + "\n"})))
        assert (status, f"a.json: hosts[0].{name}: is not a digest" in flat(out)) == (2, True)


def test_report_is_written_to_a_file(run, put, tmp_path):
    status, out, err = run(
        put("a.json", document(entry("a", OK))), "--format", "html", "--output", tmp_path / "r.html"
    )
    assert (status, out) == (0, "")
    assert "written to" in err
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_custom_rules_of_a_host_are_its_own(run, put, tmp_path):
    shutil.copy(VM, tmp_path / "vm.json")
    rule = put("rules.d/site-example.yaml", "id: site-example\n")
    status, out, err = run(tmp_path / "vm.json", "--rules", rule.parent)
    assert (status, out) == (2, "")
    assert "site-example.yaml" in err


def test_host_without_an_answer_is_told_as_such_under_another_policy_too(run, put):
    about = {"host": "gone-01", "at": "2026-11-21T03:00:00Z", "reason": "ssh: timed out"}
    gone = put("gone-01.json", {"format_version": 1, "kind": "hosttune missing", **about})
    status, data = as_json(run, H100, gone, "--policy", put("new.yaml", "profile: base\n"))
    assert (status, data["unread"]["count"], data["missing"]["count"]) == (1, 0, 1)


def test_hosts_that_should_not_take_work_stand_first(tmp_path, capsys):
    sick = finding("gpu-errors", is_fault=True)
    slow = finding("gpu-throttle", "advice", impairs=True)
    for host, findings in (("gpu01", [sick]), ("gpu02", [sick, slow]), ("gpu03", [finding()])):
        (tmp_path / f"{host}.json").write_text(json.dumps(document(entry(host, findings))))
    app.run(["report", str(tmp_path)])
    sections = capsys.readouterr().out.split("\n\n")
    assert sections[1] == "Not fit for jobs: drain these (2)\n  gpu-errors: gpu01, gpu02"
    assert sections[2] == "Degraded: they work slower, or not for long (1)\n  gpu-throttle: gpu02"
    app.run(["report", str(tmp_path), "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    assert [one["value"] for one in told["unfit"]["values"]] == ["gpu-errors"]
    assert told["unfit"]["values"][0]["names"] == ["gpu01", "gpu02"]


def test_worst_hosts_come_first_whatever_the_order_and_no_host_is_named_twice(run, put):
    said = {
        "a": [finding("memory-swappiness", "ok")],
        "b": [finding("memory-swappiness")],
        "c": [finding("gpu-errors", is_fault=True), finding("memory-swappiness", "ok")],
        "d": [finding("memory-swappiness"), finding("storage-noatime")],
    }
    paths = [put(f"{name}.json", document(entry(name, own))) for name, own in said.items()]
    for order in (paths, paths[::-1]):
        _, out, _ = run(*order)
        table = out.partition("Hosts, the worst first\n")[2].partition("\n\n")[0]
        assert [line.split() for line in table.splitlines()] == [
            ["FAULT", "CHANGE", "Host"], ["1", "-", "c"], ["-", "2", "d"], ["-", "1", "b"], ["-", "-", "a"],
        ]  # fmt: skip
    _, out, _ = run(*paths, "--names", "1")
    assert "3 more hosts (--names shows more of the worst)." in out
