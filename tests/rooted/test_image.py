"""An alternate root: the image gets what persists, and nothing outside it is touched."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.actions.apply import apply
from hosttune.actions.examine import examine, open_session
from hosttune.actions.undo import plan_undo, undo
from hosttune.cli.app import run
from hosttune.engine.decide.passes import merge_findings
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.host import open_reader, open_writer
from hosttune.host.door import Completed, FstabReading, Rehearsal
from hosttune.values import Finding, HoldKind, OnlyRunning, Plan, Verdict
from hosttune.views.summary import exit_status, rules_in, summarize
from tests.hosts.built import HOSTS
from tests.unit.schemas import faults

CATALOG = builtin_catalog()
POLICY = Policy(today="2026-01-01")
HARDWARE = str(HOSTS / "h100-8x-2socket.json")
FSTAB = b"# image\nUUID=0a / ext4 errors=remount-ro 0 1\nLABEL=b7\t/data\text4\tdefaults\t0\t2\n"


@pytest.fixture
def image(tmp_path):
    root = tmp_path / "image"
    for folder in (
        "etc/sysctl.d",
        "usr/lib/systemd/system",
        "var/lib/dpkg",
        "usr/sbin",
        "data",
        "tmp",
        "proc",
        "sys",
    ):
        (root / folder).mkdir(parents=True)
    (root / "etc/os-release").write_text(
        'ID=ubuntu\nVERSION_ID="22.04"\nNAME="Ubuntu"\nVERSION_CODENAME=jammy\n'
    )
    (root / "etc/fstab").write_bytes(FSTAB)
    (root / "etc/hostname").write_text("image\n")
    (root / "var/lib/dpkg/status").write_text("")
    (root / "usr/lib/systemd/systemd").write_text("")
    (root / "usr/sbin/init").symlink_to("../lib/systemd/systemd")
    (root / "sbin").symlink_to("usr/sbin")
    return root


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "var/lib/hosttune" not in str(path)
    }


def test_check_of_an_image_says_what_the_hardware_hides(image):
    findings = {
        f.rule: f for f in examine(open_reader(root=str(image)), CATALOG, POLICY).plan().findings
    }
    assert findings["memory-max-map-count"].verdict is Verdict.DIFFERS
    assert findings["memory-swappiness"].verdict is Verdict.UNKNOWN
    assert findings["memory-swappiness"].hold.kind is HoldKind.DEFERRED
    assert "--hardware" in findings["memory-swappiness"].reason


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ('ID=fedora\nVERSION_ID=41\nPRETTY_NAME="Fedora Linux 41"\n', "Fedora Linux 41"),
        ("ID=linuxmint\nID_LIKE=ubuntu\n", "linuxmint"),
        ("", "linux"),
        ("ID=debian\n", ""),
        ("ID=ubuntu\n", ""),
    ],
)
@pytest.mark.parametrize("command", ["check", "plan"])
def test_report_on_a_system_that_nothing_was_tried_on_says_so(
    image, capsys, release, name, command
):
    (image / "etc/os-release").write_text(release)
    run([command, "--root", str(image)])
    said = " ".join(capsys.readouterr().out.split())
    told = (
        f"Attention: {name} is neither Ubuntu nor Debian, and hosttune was tried on no other system"
    )
    assert (told in said) == bool(name)
    assert ("Attention" in said) == bool(name)


def test_apply_changes_the_image_alone_and_undo_gives_its_bytes_back(image):
    before = tree(image)
    writer = open_writer(root=str(image), hardware=HARDWARE)
    session = examine(writer, CATALOG, POLICY)
    plan = session.plan()
    assert {change.address.kind for change in plan.changes} <= {"file", "fstab", "fstab-line"}
    receipt = apply(session, writer, plan)
    assert receipt.failed == ()
    assert (
        (image / "etc/sysctl.d/60-hosttune-memory-max-map-count.conf")
        .read_text()
        .endswith("vm.max_map_count = 1048576\n")
    )
    assert b"/data\text4\tdefaults,noatime\t0" in (image / "etc/fstab").read_bytes()
    assert (
        examine(open_writer(root=str(image), hardware=HARDWARE), CATALOG, POLICY).plan().changes
        == ()
    )
    session = examine(writer, CATALOG, POLICY)
    undo(session, writer, plan_undo(session))
    assert tree(image) == before


def test_record_of_an_image_is_judged_as_the_image(image, tmp_path):
    """What only the machine that runs the files can tell is deferred there, too."""
    record = tmp_path / "image.json"
    assert run(["record", "--root", str(image), str(record)]) == 0
    assert faults(json.loads(record.read_text()), "record") == []
    own, replayed = (
        [
            (f.rule, f.subject, f.verdict, f.hold, f.reason)
            for f in examine(reader, CATALOG, POLICY).plan().findings
        ]
        for reader in (open_reader(root=str(image)), open_reader(host=str(record)))
    )
    assert replayed == own
    assert [hold.kind for *_, hold, _ in replayed].count(HoldKind.DEFERRED) > 5


def test_fstab_of_an_image_is_tried_by_the_programs_of_this_machine(image):
    reader = open_reader(root=str(image))
    assert reader.fstab_untried_by() == ()
    rehearsal = reader.rehearse_fstab(FSTAB, FSTAB + b"two words\n", ("size=64MB",))
    assert isinstance(rehearsal, Rehearsal), rehearsal
    assert rehearsal.before.verify
    assert "parse error" in rehearsal.after.verify.errors
    assert "data.mount" in dict(rehearsal.after.units)
    assert rehearsal.trials == ()  # the kernel that answers would not be that of the image


def test_fstab_of_an_image_reaches_no_file_or_device_of_this_machine(image):
    """A check by findmnt opens and reads what a line names: a watchdog or an automount starts, a
    device can hang.
    """
    files = (
        "/dev/null",
        "/proc/kmsg",
        "/proc/bus/pci/00/00.0",
        "/proc/sysrq-trigger",
        "/etc/passwd",
        str(image),
    )
    places = {
        **dict.fromkeys(files, "No such file"),
        "/proc/1/root/dev/null": "Permission",
        "/proc/1/fd/1": "Permission",
    }
    lines = "".join(
        f"{place} /data{number} ext4 defaults 0 2\n" for number, place in enumerate(places)
    ).encode()
    rehearsal = open_reader(root=str(image)).rehearse_fstab(FSTAB, FSTAB + lines, ())
    assert isinstance(rehearsal, Rehearsal), rehearsal
    for place, why in places.items():
        assert f"unreachable source: {place}: {why}" in rehearsal.after.verify.text


def test_two_lines_of_one_target_keep_no_other_line_from_its_edit(image):
    """What the generator of systemd says of them it says before the edit as well."""
    (image / "etc/fstab").write_bytes(
        FSTAB + b"LABEL=c /z ext4 nofail 0 0\nLABEL=d /z ext4 nofail 0 0\n"
    )
    writer = open_writer(root=str(image), hardware=HARDWARE)
    plan = examine(writer, CATALOG, POLICY).plan()
    assert "fstab:/data" in [str(change.address) for change in plan.changes]
    held = next(
        one for one in plan.findings if (one.rule, one.subject) == ("storage-noatime", "/z")
    )
    assert (
        str(held.hold)
        == "blocked: /etc/fstab:4: /z is in line 5 too: which line counts depends on who mounts"
    )
    assert held.todo == "leave one line for each target"
    data = FSTAB + b"LABEL=c /z ext4 nofail 0 0\n"
    said = [
        reader_said(writer, data, data + line)
        for line in (b"LABEL=d /z ext4 nofail 0 0\n", b"LABEL=e /e ext4 nofail 0 0\n")
    ]
    assert ("z.mount" in said[0], said[1]) == (True, "")


def reader_said(reader, before: bytes, after: bytes) -> str:
    """What the generator of systemd says of the second text and not of the first."""
    rehearsal = reader.rehearse_fstab(before, after, ())
    old, new = (one.generator.errors for one in (rehearsal.before, rehearsal.after))
    return new.removeprefix(old)


def test_edit_that_the_programs_of_this_machine_read_otherwise_leaves_the_fstab_of_an_image(
    image, monkeypatch
):
    said = FstabReading(None, None, (("-.mount", "[Mount]\nOptions=ro\n"),))
    monkeypatch.setattr(
        "hosttune.host.overlay.rehearsal.rehearse_fstab",
        lambda *_, **_options: Rehearsal(
            FstabReading(None, Completed(0, b"", b""), ()),
            replace(said, generator=Completed(0, b"", b"")),
        ),
    )
    writer = open_writer(root=str(image), hardware=HARDWARE)
    plan = examine(writer, CATALOG, POLICY).plan()
    assert not [change for change in plan.changes if change.address.kind.startswith("fstab")]
    assert (image / "etc/fstab").read_bytes() == FSTAB
    assert any(
        "systemd would change -.mount as well" in str(finding.hold) for finding in plan.findings
    )


@pytest.mark.parametrize("name", ["findmnt", "generator"])
def test_plan_for_an_image_says_which_program_cannot_try_its_fstab(image, monkeypatch, name):
    if name == "findmnt":
        monkeypatch.setattr("hosttune.host.overlay.rehearsal._VERIFY", "findmnt-that-is-not-there")
    else:
        monkeypatch.setattr("hosttune.host.overlay.rehearsal._GENERATORS", ())
    plan = examine(open_writer(root=str(image), hardware=HARDWARE), CATALOG, POLICY).plan()
    edits = [change for change in plan.changes if change.address.kind.startswith("fstab")]
    assert edits
    for change in edits:
        assert (
            f"not tried by {'findmnt --verify' if name == 'findmnt' else 'systemd'}"
            in change.details[-1]
        )
        assert "hosttune's own two readers" in change.details[-1]


def test_second_run_touches_nothing(image):
    writer = open_writer(root=str(image), hardware=HARDWARE)
    for _ in range(2):
        session = examine(writer, CATALOG, POLICY)
        apply(session, writer, session.plan())
        stats = {str(p): os.lstat(p).st_mtime_ns for p in image.rglob("*")}
    session = examine(writer, CATALOG, POLICY)
    apply(session, writer, session.plan())
    assert {str(p): os.lstat(p).st_mtime_ns for p in image.rglob("*")} == stats


def test_link_that_leads_out_of_the_image_stays_in_it(image, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("vm.swappiness = 1\n")
    (image / "etc/sysctl.d/99-out.conf").symlink_to(outside)
    (image / "etc/passwd").symlink_to("/etc/shadow")
    reader = open_reader(root=str(image))
    assert not isinstance(reader.read("/etc/sysctl.d/99-out.conf"), bytes)
    assert not isinstance(reader.read("/etc/passwd"), bytes)


def test_policy_of_the_image_counts(image):
    (image / "etc/hosttune").mkdir()
    (image / "etc/hosttune/policy.yaml").write_text("ignore: [memory-max-map-count]\n")
    os.chmod(image / "etc/hosttune/policy.yaml", 0o644)
    selected = {rule.id for rule in open_session(root=str(image)).selected}
    assert "memory-max-map-count" not in selected


def test_dropin_edited_by_hand_is_left_alone(image):
    writer = open_writer(root=str(image))
    session = examine(writer, CATALOG, POLICY)
    apply(session, writer, session.plan())
    path = image / "etc/sysctl.d/60-hosttune-memory-max-map-count.conf"
    path.write_text("vm.max_map_count = 70000\n")
    session = examine(writer, CATALOG, POLICY)
    held = [f for f in session.plan().findings if f.rule == "memory-max-map-count"]
    assert [f.hold.kind for f in held] == [HoldKind.EDITED]
    assert path.read_text() == "vm.max_map_count = 70000\n"


def deferred(plan):
    return {finding.rule for finding in plan.findings if finding.hold.kind is HoldKind.DEFERRED}


def test_apply_of_an_image_is_done_where_only_the_running_machine_could_tell_more(image, capsys):
    """Everything that can be told is made and read back: a pipeline that builds an image goes
    on.
    """
    assert run(["apply", "--yes", "--root", str(image)]) == 0
    said = capsys.readouterr().out
    assert "changes are made and read back" in said
    assert "IMAGE   " in said
    assert "--hardware RECORD" in " ".join(said.split())
    assert run(["apply", "--yes", "--root", str(image)]) == 0
    assert run(["check", "--root", str(image)]) == 0
    capsys.readouterr()
    assert run(["check", "--root", str(image), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"][0]["summary"]["deferred"] > 0


def test_a_record_that_answers_already_is_not_asked_for(image, capsys):
    run(["check", "--root", str(image), "--hardware", str(HARDWARE)])
    said = " ".join(capsys.readouterr().out.split())
    assert "only the machine that runs these files can show it" in said
    assert "--hardware RECORD" not in said


@pytest.mark.parametrize("fstab", [FSTAB, b"# UNCONFIGURED FSTAB\n"], ids=["fstab", "no fstab"])
@pytest.mark.parametrize(
    "hardware",
    [
        None,
        *(
            HOSTS / f"{name}.json"
            for name in ("h100-8x-2socket", "gh200-arm64", "workstation-rtx4090")
        ),
    ],
)
def test_no_unknown_of_an_image_is_counted_as_one(image, fstab, hardware):
    """Of all rules: what is unknown for want of a running machine says so, whoever handed the
    reason on.
    """
    (image / "etc/fstab").write_bytes(fstab)
    (image / "var/lib/systemd/coredump").mkdir(parents=True)
    everything = replace(POLICY, select=tuple(CATALOG.rules))
    plan = examine(
        open_reader(root=str(image), hardware=hardware and str(hardware)), CATALOG, everything
    ).plan()
    unknown = [
        f
        for f in plan.findings
        if f.verdict is Verdict.UNKNOWN and f.hold.kind is not HoldKind.DEFERRED
    ]
    assert unknown == []
    assert len(deferred(plan)) > (5 if hardware else 10)


def test_file_of_an_image_that_cannot_be_read_stays_unknown(image):
    """Deferred is only what the running machine will tell; it will not mend a broken file."""
    (image / "etc/sysctl.d/50-broken.conf").symlink_to("50-broken.conf")
    plan = examine(open_reader(root=str(image)), CATALOG, POLICY).plan()
    found = {f.rule: f for f in plan.findings}["memory-max-map-count"]
    assert (found.verdict, found.hold.kind) == (Verdict.UNKNOWN, HoldKind.NONE)
    assert exit_status(plan, strict=False) == 1


def test_unknown_beside_deferred_of_one_subject_stays_unknown():
    both = merge_findings(
        [
            Finding("r", "s", Verdict.UNKNOWN, reason=OnlyRunning("no kernel runs")),
            Finding("r", "s", Verdict.UNKNOWN, reason="broken"),
        ]
    )
    assert [(one.hold.kind, one.reason) for one in both] == [
        (HoldKind.NONE, "no kernel runs; broken")
    ]


def test_unknown_findings_are_counted_by_rule():
    """As the heading of a section counts them, not by their subjects."""
    findings = tuple(
        Finding("r", subject, Verdict.UNKNOWN, reason="why") for subject in ("a", "b", "c")
    )
    plan = Plan("", "0", "", "2026-01-01T00:00:00+00:00", "", (), findings)
    assert summarize(plan).unknown == rules_in(findings) == 1
