"""The command line on built hosts: output, exit status, errors; changes are made on overlays
alone.
"""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.main import get_command

from hosttune import __version__
from hosttune.actions import examine
from hosttune.actions.journal.journal import Journal
from hosttune.actions.undo import plan_undo
from hosttune.cli import app, common
from hosttune.cli.help_page import summary_of
from hosttune.cli.options import HostOptions
from hosttune.codec import plan_from_json
from hosttune.errors import HosttuneError
from hosttune.values import ABSENT, FileValue
from tests.hosts.built import BUILT, HOSTS
from tests.unit.schemas import faults

ROOT = Path(__file__).resolve().parents[2]
H100 = str(HOSTS / "h100-8x-2socket.json")
CONTAINER = str(HOSTS / "container-docker.json")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/opt/hosttune/bin/hosttune"])
    for name in ("COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def test_version(run):
    assert run("--version") == (0, f"hosttune {__version__}\n", "")


@pytest.mark.parametrize(
    "argv", [["--help"], ["-h"], ["check", "--help"], ["rules", "new", "-h"]], ids=" ".join
)
def test_help_is_an_answer(run, argv):
    status, out, err = run(*argv)
    assert (status, err) == (0, "")
    assert "Usage: " in out


def test_help_names_every_command_in_its_group_with_a_whole_summary(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("--help")
    lines = out.splitlines()
    for title, names in app.GROUPS.items():
        at = lines.index(f"{title}:")
        shown = [name for name in names if name not in app.HIDDEN]
        assert [line.split()[0] for line in lines[at + 1 : at + 1 + len(shown)]] == shown
    assert "..." not in out.partition("Look:")[2]
    assert all(len(line) <= 80 for line in lines)


def commands_of(command, path=()):
    below = getattr(command, "commands", {})
    for name, one in below.items():
        yield from commands_of(one, (*path, name))
    if not below:
        yield path, command


COMMANDS = dict(commands_of(get_command(app.build())))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_summary_of_a_command_is_short(path):
    summary = summary_of(COMMANDS[path].help)
    assert len(summary) <= 55, summary
    assert summary[0].isupper()
    assert "," not in summary.split()[0]


def test_help_of_a_group_shows_only_its_commands(run):
    status, out, _ = run("help", "nodes")
    assert status == 0
    assert "\nNodes:\n  status  " in out
    assert "check  " not in out
    assert "hosttune policy [OPTIONS]" in run("help", "policy")[1]  # a command goes first


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_shows_no_name_of_a_type(path, run):
    _, out, _ = run(*path, "--help")
    assert re.findall(r"<(?:str|int|float|path)\b[^>]*>", out) == []


@pytest.mark.parametrize("name", app.COMMANDS)
def test_examples_of_a_command_are_commands(name, run):
    _, out, _ = run("help", name)
    examples = out.partition("\nExamples:\n")[2].splitlines()
    assert any(f"hosttune {name}" in line for line in examples) or name in {"bench", "rules"}


@pytest.mark.parametrize("command", ["history", "disks", "facts"])
@pytest.mark.parametrize("option", ["--profile", "--select", "--policy", "--max-risk"])
def test_option_that_a_command_does_not_read_is_an_error(command, option, run):
    status, _, err = run(command, option, "low")
    assert status == 2
    assert f"No such option: {option}" in err


@pytest.mark.parametrize(
    "option", [["--profile", "nosuch"], ["--select", "nosuch"], ["--rules", "/nosuch"]], ids=str
)
def test_record_refuses_what_cannot_be_used(option, run, tmp_path):
    status, _, err = run("record", tmp_path / "r.json", *option)
    assert status == 2
    assert "nosuch" in err
    assert not (tmp_path / "r.json").exists()


def test_json_is_short_for_its_format(run):
    assert run("check", "--host", H100, "--json") == run(
        "check", "--host", H100, "--format", "json"
    )
    status, _, err = run("check", "--host", H100, "--json", "--format", "html")
    assert (status, "contradict" in err) == (2, True)


def test_explain_without_a_rule_lists_what_differs_here(run):
    status, out, err = run("explain", "--host", H100)
    assert (status, err) == (0, "")
    assert re.search(r"^memory-swappiness +To change ", out, re.MULTILINE)
    assert out.endswith(f"Explain one: /opt/hosttune/bin/hosttune explain --host {H100} RULE\n")
    assert run("explain", "--host", H100, "--json")[0] == 2


def test_explain_takes_the_end_of_an_id_and_says_what_the_rule_says_here_first(run):
    _, out, _ = run("explain", "noatime", "--host", H100)
    assert out.startswith("storage-noatime: ")
    assert out.index("\nOn ") < out.index("\nWhy\n")
    assert [f"\n{title}\n" in out for title in ("Reads", "Sources")] == [False, False]
    whole = run("explain", "noatime", "--host", H100, "-v")[1]
    assert whole.index("\nWhy\n") < whole.index("\nReads\n") < whole.index("\nSources\n")
    assert run("explain", "nofile-nosuch", "--host", H100)[0] == 2


def test_quiet_leaves_the_exit_status_alone():
    words = [sys.executable, "-I", "-m", "hosttune", "check", "--quiet", "--host", str(H100)]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "")


def test_colour_is_used_where_it_is_asked_for(run, monkeypatch):
    assert "\x1b[" in run("check", "--host", H100, "--color", "always")[1]
    assert "\x1b[" not in run("check", "--host", H100)[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("check", "--host", H100)[1]
    assert "\x1b[" not in run("check", "--host", H100, "--no-color")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("check", "--host", H100)[1]


def test_older_spellings_are_taken_with_a_note(run, tmp_path):
    _, _, err = run(
        "plan", "--host", H100, "--out", tmp_path / "p.json", "--disturb", "running GPU work"
    )
    assert "hosttune: --out is now called --save" in err
    assert "hosttune: --disturb 'running GPU work' is now written --disturb gpu-work" in err
    assert (tmp_path / "p.json").exists()
    status, _, err = run("plan", "--host", H100, "--disturb", "nobody")
    assert status == 2
    assert "use one of: nothing, sessions, service, gpu-work" in err


@pytest.mark.parametrize(
    "argv",
    [[], ["chekc"], ["check", "--nope"], ["fstab", "--nope"], ["check", "--max-risk", "huge"]],
    ids=str,
)
def test_usage_error_is_trouble(run, argv):
    status, out, err = run(*argv)
    assert status == 2
    assert "Usage: " in out + err


def test_option_before_the_command_is_answered_with_the_line_to_type(run, monkeypatch):
    monkeypatch.setattr("hosttune.cli.app.spell_program", lambda: "/opt/checkout/run")
    status, out, err = run("--no-pager", "--host", "a b.json", "check", "-v")
    assert (status, out) == (2, "")
    assert "type: /opt/checkout/run check --no-pager --host 'a b.json' -v" in " ".join(err.split())
    assert "No such option: --nope" in run("--nope")[2]


def test_usage_error_names_the_program_as_it_is_typed_here(run, monkeypatch):
    monkeypatch.setattr("hosttune.cli.app.spell_program", lambda: "/opt/checkout/run")
    assert "Try '/opt/checkout/run check -h' for help." in run("check", "--nope")[2]


def test_check_tells_what_differs_and_the_next_command(run):
    status, out, err = run("check", "--host", H100)
    assert (status, err) == (1, "")
    assert out.startswith(
        "DGXH100: 8 x NVIDIA H100 80GB HBM3, driver 580.126.20, kernel 6.8.0-60-generic, Ubuntu 24.04\n"
    )
    assert f"\n{H100}: " in out[:200]
    assert " changes now" in out[:300]
    assert "CHANGE  memory-swappiness  vm.swappiness should be at most 10" in out
    assert f"/opt/hosttune/bin/hosttune plan --host {H100}" in out
    assert "apply" not in out


def test_check_of_several_hosts_takes_the_worst_status(run):
    status, out, _ = run("check", "--host", CONTAINER, "--host", H100, "--format", "json")
    data = json.loads(out)
    assert status == 1
    assert faults(data, "check") == []
    assert [host["summary"]["changes_now"] > 0 for host in data["hosts"]] == [False, True]


@pytest.mark.parametrize("record", BUILT, ids=lambda path: path.stem)
def test_documents_of_every_record_fit_their_schemas(run, record):
    assert faults(json.loads(record.read_text()), "record") == []
    for schema, argv in {
        "check": ["check", "--timings"],
        "plan": ["plan"],
        "facts": ["facts"],
        "rules": ["rules", "list"],
        "explain": ["explain", "memory-swappiness"],
    }.items():
        _, out, err = run(*argv, "--host", record, "--format", "json")
        assert faults(json.loads(out), schema) == [], schema
        assert err == ""


@pytest.mark.parametrize("record", BUILT, ids=lambda path: path.stem)
def test_text_of_every_record_is_told(run, record):
    for argv in (
        ["check", "-v"],
        ["plan"],
        ["facts", "all"],
        ["rules"],
        ["profiles"],
        ["history"],
        ["explain", "storage-noatime"],
    ):
        status, out, err = run(*argv, "--host", record) if argv != ["rules"] else run(*argv)
        assert status in {0, 1}, err
        assert out


def test_check_strict_counts_advice(run):
    ignored = [
        word
        for rule in ("gpu-persistence", "memory-swappiness", "storage-noatime", "storage-tmp-tmpfs")
        for word in ("--ignore", rule)
    ]
    assert run("check", "--host", H100, *ignored)[0] == 0
    assert run("check", "--host", H100, *ignored, "--strict")[0] == 1


def test_timings_are_talk(run):
    _, out, err = run("check", "--host", H100, "--timings")
    assert "ms  rules and policy" in err
    assert " ms " not in out


def test_plan_out_saves_what_apply_takes(run, tmp_path):
    saved = tmp_path / "p.json"
    status, out, err = run("plan", "--host", H100, "--save", saved)
    assert status == 1
    assert str(saved) in err
    assert saved.stat().st_mode & 0o777 == 0o600
    plan = plan_from_json(json.loads(saved.read_text()))
    assert f"Digest {plan.digest}" in out
    assert run("apply", "--host", H100, saved)[0] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def test_plan_out_tightens_the_rights_of_an_existing_file(run, tmp_path):
    saved = tmp_path / "p.json"
    saved.write_text("old")
    saved.chmod(0o666)
    run("plan", "--host", H100, "--save", saved)
    assert saved.stat().st_mode & 0o777 == 0o600


def test_plan_out_into_nowhere_is_told_with_the_way_out(run, tmp_path):
    status, _, err = run("plan", "--host", H100, "--save", tmp_path / "none" / "p.json")
    assert status == 2
    assert "cannot be written: No such file or directory\n  hint: name a file" in err


def test_apply_without_yes_is_plan(run):
    assert run("apply", "--host", H100) == run("plan", "--host", H100)


def test_apply_of_a_record_is_refused(run):
    status, out, err = run("apply", "--host", H100, "--yes")
    assert (status, out) == (2, "")
    assert err.startswith("hosttune: a record cannot be changed\n  hint: ")


def test_command_of_advice_and_hint_is_for_the_same_host(run, tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text("ID=debian\n")
    status, _, err = run("undo", "20260101", "--root", tmp_path)
    assert (status, err) == (
        2,
        f"hosttune: no run is called 20260101\n  hint: list them with: /opt/hosttune/bin/hosttune history --root {tmp_path}\n",
    )
    cloud = HOSTS / "a100-cloud-vm.json"
    assert (
        f"/opt/hosttune/bin/hosttune plan --host {cloud} --only gpu-driver shows"
        in run("health", "--host", cloud)[1]
    )


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (("status",), "status"), (("ready",), "ready"), (("ready", "--go-on"), "ready --go-on"),
        (("health", "--learn"), "health --learn"),
        (("health", "--learn", "--host", H100), f"health --learn --host {H100}"),
    ],
)  # fmt: skip
def test_what_root_alone_may_ask_is_refused_with_the_line_to_type(run, monkeypatch, words, typed):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    status, _, err = run(*words)
    assert (status, err) == (
        2, f"hosttune: this needs root; nothing was changed\n  hint: type: sudo /opt/hosttune/bin/hosttune {typed}\n"
    )  # fmt: skip


def test_journal_that_root_alone_may_read_is_refused_with_the_line_to_type(
    run, monkeypatch, changed
):
    monkeypatch.setattr("hosttune.host.overlay.overlay.Overlay.is_privileged", False)
    monkeypatch.setattr(
        "hosttune.actions.examine.read_journal", lambda _: Journal((), "permission denied")
    )
    status, _, err = run("undo", "--rule", "memory-swappiness")
    assert status == 2
    assert err == (
        "hosttune: the journal cannot be read: permission denied\n"
        "  hint: type: sudo /opt/hosttune/bin/hosttune undo --rule memory-swappiness\n"
    )


def test_hint_of_an_error_calls_a_command_as_sudo_finds_it():
    look = HostOptions(root="t/img", profile="base")
    for hint, typed in [
        (
            "sudo hosttune health --learn keeps it",
            "sudo /opt/hosttune/bin/hosttune health --learn keeps it",
        ),
        ("see: hosttune watch --help", "see: /opt/hosttune/bin/hosttune watch --help"),
        (
            "see: hosttune history -v",
            "see: /opt/hosttune/bin/hosttune history --root t/img --profile base -v",
        ),
        (
            "type: hosttune apply --yes --root t/img --profile base",
            "type: /opt/hosttune/bin/hosttune apply --yes --root t/img --profile base",
        ),
        ("an image: hosttune apply --root FOLDER --yes", None),
    ]:
        assert common.as_typed(hint, look) == (typed or hint)


def test_apply_without_root_prints_the_line_to_type(run, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    status, out, err = run(
        "apply",
        "--yes",
        "--expect",
        "0123456789abcdef",
        "--max-risk",
        "high",
        "--select",
        "gpu-driver",
    )
    assert (status, out) == (2, "")
    assert err == (
        "hosttune: this needs root; nothing was changed\n"
        "  hint: type: sudo /opt/hosttune/bin/hosttune apply --yes --expect 0123456789abcdef "
        "--select gpu-driver --max-risk high\n"
    )


def test_apply_of_a_changed_plan_is_refused_with_what_differs(run, tmp_path):
    saved = tmp_path / "p.json"
    run("plan", "--host", H100, "--save", saved)
    status, out, err = run("apply", "--host", H100, saved, "--ignore", "memory-swappiness")
    assert (status, out) == (2, "")
    assert "the plan has changed since it was saved: no longer needed: vm.swappiness" in err


def test_apply_of_an_edited_plan_is_refused(run, tmp_path):
    saved = tmp_path / "p.json"
    run("plan", "--host", H100, "--save", saved)
    saved.write_text(saved.read_text().replace('"after": "10"', '"after": "11"'))
    status, _, err = run("apply", "--host", H100, saved)
    assert status == 2
    assert "its changes are not those of its digest" in err


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "\ufeff{}", '{"format_version": 2}', "\x00"], ids=repr
)
def test_apply_of_what_is_no_plan_is_refused(run, tmp_path, text):
    saved = tmp_path / "p.json"
    saved.write_text(text)
    status, out, err = run("apply", "--host", H100, saved)
    assert (status, out) == (2, "")
    assert str(saved) in err
    assert "fault of hosttune" not in err


def test_apply_of_a_plan_with_another_digest_is_refused(run):
    status, _, err = run("apply", "--host", H100, "--expect", "0" * 16)
    assert status == 2
    assert "the plan has changed since it was shown" in err


def test_expected_plan_with_nothing_left_to_do_is_done(run, changed, tmp_path):
    """Every path that runs at each boot types the same digest, or saved plan, a second time."""
    file = tmp_path / "plan"
    run("plan", "--save", file)
    digest = plan_from_json(json.loads(file.read_text()), "").digest
    assert run("apply", "--yes", "--expect", digest)[0] == 0
    for words in (["--expect", digest], [file]):
        status, out, err = run("apply", *words, "--yes")
        assert (status, err) == (0, "")
        assert "nothing to do" in out
        assert run("apply", *words)[::2] == (1, "")  # as plan: a tmpfs waits for the reboot
    way_back = json.loads(run("undo", "--format", "json")[1])["digest"]
    run_id = json.loads(run("history", "--format", "json")[1])["runs"][0]["id"]
    assert [run("undo", run_id, "--yes", "--expect", way_back)[0] for _ in range(2)] == [0, 0]
    assert run("undo", run_id, "--expect", way_back)[0] == 0


def test_apply_and_undo_and_their_documents(run, changed):
    status, out, err = run("apply", "--yes", "--format", "json")
    receipt = json.loads(out)
    assert status == 0
    assert faults(receipt, "receipt") == []
    assert "~ vm.swappiness" in err
    assert {outcome["phase"] for outcome in receipt["outcomes"]} == {"done"}

    status, out, _ = run("apply", "--yes")
    assert "nothing to do, nothing touched" in out

    status, out, _ = run("history", "--format", "json")
    assert status == 0
    assert faults(json.loads(out), "history") == []
    assert json.loads(out)["runs"][0]["id"] == receipt["run_id"]
    assert receipt["run_id"] in run("history", "-v")[1]

    status, out, _ = run("undo", receipt["run_id"], "--rule", "memory-swappiness")
    assert status == 0
    assert "~ vm.swappiness  10 -> 60" in out
    assert "  ignore: [memory-swappiness]" in out
    assert "To undo exactly" not in out  # of a record
    words = ("undo", receipt["run_id"], "--rule", "memory-swappiness")
    digest = json.loads(run(*words, "--format", "json")[1])["digest"]
    for more in ((), ("--yes",)):
        status, _, err = run(*words, *more, "--expect", "0" * 16)
        assert status == 2
        assert (
            f"the new plan with: /opt/hosttune/bin/hosttune undo {receipt['run_id']} --rule memory-swappiness\n"
            in err
        )
    status, out, _ = run(*words, "--yes", "--expect", digest)
    assert status == 0
    assert "both changes are undone and read back" in out

    status, out, _ = run("undo", "--yes", "--format", "json")
    assert status == 0
    assert faults(json.loads(out), "receipt") == []
    assert run("undo")[0] == 0


def test_undo_of_what_was_removed_by_hand_says_that_it_is_booked_alone(run, changed):
    run("apply", "--yes", "--only", "memory-swappiness")
    changed.files["/etc/sysctl.d/60-hosttune-memory-swappiness.conf"] = ABSENT
    changed.files["/proc/sys/vm/swappiness"] = FileValue(b"60\n")
    status, out, err = run("undo", "--yes")
    assert (
        status,
        "nothing touched: 2 changes were gone already, and recorded as undone." in out,
    ) == (0, True)
    assert err.splitlines() == [
        f"  {place} already has its old value: recorded as undone"
        for place in ("/etc/sysctl.d/60-hosttune-memory-swappiness.conf", "vm.swappiness")
    ]


@pytest.mark.parametrize(("form", "begin"), [("markdown", "## "), ("html", "<!DOCTYPE html>")])
def test_every_report_is_a_document_too(run, changed, form, begin):
    """What would be done, what was done, what was ever done, and the way back."""
    only = ("--only", "memory-swappiness", "--format", form)
    texts = [run("apply", *only)[1], run("apply", "--yes", *only)[1]]
    texts += [run("history", "--format", form)[1], run("undo", "--format", form)[1]]
    assert [text.startswith(begin) for text in texts] == [True] * 4
    assert ["vm.swappiness" in text for text in texts] == [True, True, form == "html", True]
    status, out, _ = run("undo", "--yes", "--format", form)
    assert (status, out.startswith(begin)) == (0, True)
    assert "undone and read back" in out


@pytest.mark.parametrize(("form", "begin"), [("markdown", "## "), ("html", "<!DOCTYPE html>")])
def test_comparison_is_a_document_too(run, tmp_path, form, begin):
    status, out, _ = run("diff", H100, CONTAINER, "--format", form, "--output", tmp_path / "diff")
    assert (status, out) == (1, "")
    text = (tmp_path / "diff").read_text(encoding="utf-8")
    assert text.startswith(begin)
    assert "Applies on one only" in text


def test_way_back_of_some_rules_alone_is_a_command_that_exists(run, changed):
    only = ("--only", "memory-swappiness", "--max-risk", "low")
    _, out, _ = run("apply", "--yes", *only)
    words = out.partition("To undo it:\n")[2].split()
    assert words[-2:] == ["--max-risk", "low"]
    assert run(*words[words.index("undo") :])[0] == 0


def test_undo_of_nothing_says_so_and_is_no_trouble(run):
    status, out, _ = run("undo", "--host", H100)
    assert status == 0
    assert "nothing to undo" in out


def test_undo_of_a_rule_that_nobody_knows_fails_and_names_the_nearest(run, changed):
    assert run("apply", "--yes")[0] == 0
    for words in (["undo"], ["undo", "--yes"]):
        status, out, err = run(*words, "--rule", "storage-noatim")
        assert (status, out) == (2, "")
        assert "no rule is called storage-noatim" in err
        assert "did you mean storage-noatime?" in err
    status, out, err = run("undo", "--rule", "storage-fstrim")
    assert (status, err) == (0, "")
    assert "nothing to undo" in out


def test_explain_of_a_word_lists_the_rules_that_have_it_in_their_name(run, changed):
    status, out, err = run("explain", "gpu")
    assert (status, out) == (2, "")
    assert "there is: containers-gpu-loss, " in err
    assert "see: " in run("explain", "xyzzy")[2]


def test_undo_of_a_rule_that_is_gone_is_known_by_what_it_did(run, changed):
    assert run("apply", "--yes")[0] == 0
    session = examine.open_session()
    left = {
        name: rule for name, rule in session.catalog.rules.items() if name != "memory-swappiness"
    }
    session.catalog = replace(session.catalog, rules=left)
    assert plan_undo(session, rule="memory-swappiness").plan.changes
    with pytest.raises(HosttuneError, match="no rule is called memory-swap,"):
        plan_undo(session, rule="memory-swap")


def test_undo_of_a_run_that_nobody_knows_says_where_to_look(run):
    status, _, err = run("undo", "20200101-000000-dead", "--host", H100)
    assert status == 2
    assert "no run is called" in err
    assert "hosttune history" in err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["explain", "memory-swapiness"],
            "no rule is called memory-swapiness\n  hint: did you mean memory-swappiness?",
        ),
        (["facts", "memori"], "no fact is called memori\n  hint: did you mean memory?"),
        (["check", "--profile", "bas"], "no profile is called bas"),
        (["check", "--select", "x"], "no rule is called x"),
        (["plan", "--host", "/nonexistent.json"], "/nonexistent.json"),
        (["plan", "--host", H100, "--host", H100], "one --host at a time"),
        (["check", "--root", "/", "--host", H100], "--host"),
        (["check", "--hardware", H100], "--hardware needs --root"),
        (["check", "--policy", "/nonexistent.yaml"], "/nonexistent.yaml"),
    ],
    ids=lambda value: (
        " ".join(Path(word).name for word in value) if isinstance(value, list) else ""
    ),
)
def test_what_cannot_be_done_is_told_in_one_line(run, argv, said):
    status, out, err = run(*argv)
    assert (status, out) == (2, "")
    assert err.startswith("hosttune: ")
    assert said in err


def test_root_that_is_the_running_host_is_named_as_that(run):
    _, _, err = run("plan", "--only", "swappiness", "--root", "/")
    assert "--root / is this running host itself, and not an image" in err


def broken(*_args, **_options):
    message = "boom\x1b[2J"
    raise RuntimeError(message)


def test_fault_of_hosttune_itself_is_one_line_without_traceback(run, monkeypatch):
    monkeypatch.setattr("hosttune.cli.common.open_session", broken)
    status, out, err = run("check")
    assert (status, out) == (2, "")
    assert (
        err.splitlines()[0]
        == "hosttune: this is a fault of hosttune itself: RuntimeError: boom\\x1b[2J"
    )
    assert "Traceback" not in err


def test_fault_with_debug_is_raised(monkeypatch):
    monkeypatch.setattr("hosttune.cli.common.open_session", broken)
    with pytest.raises(RuntimeError):
        app.run(["check", "--debug"])


def test_rule_that_is_selected_and_ignored_is_told(run, tmp_path):
    _, _, err = run("profiles", "--select", "storage-fstrim", "--ignore", "storage-fstrim")
    assert err == "hosttune: storage-fstrim is selected, and --ignore ignores it: it stays off\n"
    policy = tmp_path / "policy.yaml"
    policy.write_text("ignore: [storage-fstrim]\n")
    _, _, err = run("profiles", "--policy", policy, "--select", "storage-fstrim")
    assert f"storage-fstrim is selected, and {policy} ignores it: it stays off" in err
    assert run("profiles", "--select", "storage-fstrim")[2] == ""


def test_interrupt_of_a_command_is_told(run, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("hosttune.cli.common.open_session", interrupted)
    assert run("check") == (130, "", "hosttune: interrupted\n")


def test_interrupt_is_told_as_shells_do(run, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("hosttune.cli.common.open_session", interrupted)
    status, _, err = run("check")
    assert status == 130
    assert "Traceback" not in err


def test_rules_lint_tells_all_faults(run, tmp_path):
    rule = tmp_path / "memory-x.yaml"
    rule.write_text("id: memory-x\ntitle: x\nrisk: huge\n")
    status, out, _ = run("rules", "lint", rule)
    assert status == 2
    assert f"{rule}:3: risk: " in out
    assert "in 1 rule file." in out
    status, out, _ = run("rules", "lint", rule, "--format", "json")
    assert status == 2
    assert len(json.loads(out)["faults"]) > 1


def test_rules_lint_of_the_built_in_rules_finds_nothing(run):
    status, out, _ = run("rules", "lint")
    assert (status, out[:9]) == (0, "No faults")


def test_rules_new_begins_a_rule_and_overwrites_nothing(run, tmp_path):
    status, out, err = run("rules", "new", "memory-min-free", "--dir", tmp_path)
    assert (status, out) == (0, "")
    rule = tmp_path / "hosttune/rules/memory/memory-min-free.yaml"
    assert f"wrote {rule}" in err
    assert (tmp_path / "tests/rules/memory-min-free.yaml").is_file()
    assert "is not written yet" in run("rules", "lint", rule)[1]
    status, _, err = run("rules", "new", "memory-min-free", "--dir", tmp_path)
    assert status == 2
    assert "exists already" in err


def test_rules_new_as_printed_holds_the_cases_as_a_comment(run, tmp_path):
    status, out, _ = run("rules", "new", "site-min-free")
    rule = tmp_path / "site-min-free.yaml"
    rule.write_text(out)
    assert status == 0
    assert "\n# tests/rules/site-min-free.yaml\n# " in out
    assert "\n# - name: " in out
    assert "is not written yet" in run("rules", "lint", rule)[1]


@pytest.mark.parametrize(
    "name", ["set-memory", "memory", "Memory-X", "memory-swappiness", "../x-y"]
)
def test_rules_new_refuses_a_name_against_the_rules(run, name):
    status, out, err = run("rules", "new", name)
    assert (status, out) == (2, "")
    assert "fault of hosttune itself" not in err


def test_check_of_several_records_names_one_for_each_plan(run):
    other = str(HOSTS / "gh200-arm64.json")
    out = run("check", "--host", H100, "--host", other)[1]
    assert re.search(rf"plan --host {re.escape(H100)} +shows the exact diff", out)
    assert re.search(rf"plan --host {re.escape(other)} +shows the exact diff", out)


def test_options_are_repeated_for_the_next_command(run):
    _, out, _ = run(
        "check",
        "--host",
        H100,
        "--ignore",
        "storage-noatime",
        "--max-risk",
        "low",
        "--disturb",
        "service",
    )
    assert f"plan --host {H100} --ignore storage-noatime --max-risk low --disturb service" in out


def test_reader_that_goes_away_changes_no_exit_status():
    command = [sys.executable, "-m", "hosttune", "check", "--host", H100, "-v"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, stdin=subprocess.DEVNULL
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 1


def test_version_imports_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-m", "hosttune", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=True)
    imported = {
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert "typer" in imported
    heavy = (
        "rich",
        "pydantic",
        "jinja2",
        "yaml",
        "psutil",
        "distro",
        "hosttune.engine",
        "hosttune.facts",
    )
    assert [name for name in sorted(imported) if name.startswith(heavy)] == []


@pytest.mark.parametrize("name", [name for name in app.COMMANDS if name != "rules"])
def test_modules_of_commands_import_nothing_of_the_engine(name):
    code = f"import sys, {app.module_of(name)}; print(*[m for m in sys.modules if m.startswith('hosttune')])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=True,
    )
    allowed = {
        "hosttune",
        "hosttune.errors",
        "hosttune.frozen",
        "hosttune.values",
        "hosttune.cli",
        "hosttune.cli.options",
        "hosttune.measure",
        "hosttune.measure.cli",
    }
    commands = ("hosttune.cli.", "hosttune.measure.cli.")
    assert {module for module in done.stdout.split() if not module.startswith(commands)} <= allowed


def test_saved_plan_is_read_strictly():
    assert common.quote_for_shell(["a b", "c"]) == "'a b' c"
