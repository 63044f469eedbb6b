"""A command in what to do is on one line, also on a narrow terminal, and a gain is that of what is
advised.
"""

from __future__ import annotations

from hosttune.engine.decide.ready import Outlook
from hosttune.views.document import Item, Items, Section
from hosttune.views.ready import status_text
from hosttune.views.step_commands import find_command
from hosttune.views.terminal import Screen, align_columns, wrap_step
from hosttune.views.text import blocks_text
from tests.hosts.built import HOSTS

STEP = "1. make a folder there: sudo install -d -m 1777 /data/scratch/of/the/users (once)"
H100 = str(HOSTS / "h100-8x-2socket.json")


def shown(step, *, label="ADVICE", columns=60):
    item = Item(
        "storage-x", "the disk is not used", (Item("do", step, look="label"),), look="strong"
    )
    return blocks_text(
        [Section("Advice", (Items((item,)),), label=label)], Screen(columns)
    ).splitlines()


def test_command_of_a_step_is_a_line_of_its_own():
    for label in ("ADVICE", ""):
        lines = shown(STEP, label=label)
        assert [line.strip() for line in lines[-3:]] == [
            "do: 1. make a folder there:",
            "sudo install -d -m 1777 /data/scratch/of/the/users",
            "(once)",
        ]


def test_command_that_is_longer_than_the_screen_is_not_broken():
    assert any(
        line.endswith("/run explain --host " + 60 * "x")
        for line in shown(f"/a/run explain --host {60 * 'x'}")
    )


def test_step_that_fits_stays_on_its_line_and_so_does_one_without_command():
    assert shown("look: sudo dmesg", columns=70)[-1].endswith("do: look: sudo dmesg")
    assert find_command("add nofail to line 3 of /etc/fstab") is None
    assert find_command("sudo rm 'a: b shows c") is None
    assert find_command("sudo apt-get install x, and boot it; or compile it") == (0, 22)


def test_command_that_begins_with_another_program_than_sudo_is_not_broken_either():
    pipe = "printf 'blacklist nouveau\\n' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf"
    for step, command in (
        (pipe, pipe),
        (f"keep it out: {pipe}, then reboot", pipe),
        (
            "if apt has none, see which compiler: grep CC_VERSION_TEXT /boot/config shows it",
            "grep CC_VERSION_TEXT /boot/config",
        ),
        ("look it up: lsblk -o NAME,FSTYPE,UUID", "lsblk -o NAME,FSTYPE,UUID"),
        ("dcgmi diag -r 3 tests the GPUs of a drained node", "dcgmi diag -r 3"),
        (
            "if that does not help, drain the host, and sudo systemctl stop nvidia-persistenced",
            "sudo systemctl stop nvidia-persistenced",
        ),
        (
            "Ubuntu's kernel has modules: sudo apt-get install linux-generic and boot it (GRUB)",
            "sudo apt-get install linux-generic",
        ),
        (
            "make them: printf 'a and b, c' | sudo tee /etc/a.conf and reboot",
            "printf 'a and b, c' | sudo tee /etc/a.conf",
        ),
        (
            'mount it: data_mounts: [{source: "UUID=d2-7e", target: /FOLDER}]',
            'data_mounts: [{source: "UUID=d2-7e", target: /FOLDER}]',
        ),
    ):
        assert command in [
            line.strip().removeprefix("-> ")
            for line in wrap_step(step, 40, first="  -> ", rest="     ")
        ]


def test_advice_of_a_rule_that_sets_something_has_not_the_gain_of_the_setting(run):
    out = run("check", "--host", H100, "-v")[1]
    advice = out.partition("storage-tmp-tmpfs")[2].partition("storage-")[0]
    assert "TMPDIR" in advice or "temporary files go to" in advice
    assert "12 times" not in advice


def test_explain_is_about_the_rule(run):
    assert run("explain", "noatime", "--host", H100)[1].count("\n") <= 40


def test_command_is_whole_in_a_column_too_and_status_is_wrapped():
    step = "/a/run plan --host /a/very/long/path/of/a/record.json --only gpu-driver shows what apply would do"
    rows = [("gpu-driver", "no program can use a GPU"), ("", f"do: {step}")]
    lines = align_columns(rows, Screen(60))
    assert "    /a/run plan --host /a/very/long/path/of/a/record.json --only gpu-driver" in lines
    text = status_text(
        None,
        "boot-b",
        Outlook(True, "hosttune-ready.service is off: nothing holds work"),
        columns=40,
    )
    assert max(map(len, text.splitlines())) <= 40
