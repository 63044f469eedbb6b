"""The cache of what slow programs answer: good while nothing that the answer hangs on has
changed.
"""

from __future__ import annotations

import json
import os

import pytest

from hosttune.host.door import Completed
from hosttune.host.process import Ended
from hosttune.host.reading import kept
from hosttune.host.reading.live import LiveReader
from hosttune.values import ABSENT
from tests.unit.test_facts_candidates import GPU, LISTED

DEVICES = ("ubuntu-drivers", "devices")
LIST = ("ubuntu-drivers", "list", "--gpgpu", "--include-dkms")
GOOD = Completed(0, GPU.encode(), b"ERROR:root:aplay command not found\n\xff")


class Program:
    """Stands in for `process.look`."""

    def __init__(self, answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, argv, *, timeout_s):
        self.asked.append(tuple(argv))
        return self.answer


@pytest.fixture
def root(tmp_path):
    files = {
        "var/lib/dpkg/status": "Package: dpkg\n",
        "var/lib/apt/lists/archive_Packages": "",
        "etc/apt/sources.list": "deb x",
        "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
        "sys/bus/pci/devices/0000:01:00.0/modalias": "pci:v000010DEd00002684\n",
        "sys/bus/pci/devices/0000:00:00.0/vendor": "0x1022\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "var/cache").mkdir()
    return tmp_path


@pytest.fixture
def program(monkeypatch):
    fake = Program(GOOD)
    monkeypatch.setattr(kept, "look", fake)
    monkeypatch.setattr(kept, "_may_keep", lambda: True)
    return fake


def ask(root, argv=DEVICES):
    return kept.ask(argv, timeout_s=600, root=str(root))


def test_ask_gives_the_same_answer_again_without_the_program(root, program):
    assert ask(root) == ask(root) == GOOD
    assert program.asked == [DEVICES]
    program.answer = Completed(0, LISTED.encode(), b"")
    assert ask(root, LIST) == ask(root, LIST) == program.answer
    assert program.asked == [DEVICES, LIST]


@pytest.mark.parametrize(
    "path",
    [
        "var/lib/dpkg/status", "var/lib/apt/lists/archive_Packages", "var/lib/apt/lists/new_Packages",
        "etc/apt/sources.list", "etc/apt/preferences.d/nvidia", "etc/custom_supported_gpus.json", "usr/bin/ubuntu-drivers",
        "sys/bus/pci/devices/0000:01:00.0/modalias", "boot/vmlinuz-6.8.0-61-generic",
    ],
)  # fmt: skip
def test_ask_asks_again_when_something_changed_that_counts(root, program, path):
    ask(root)
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("other, and longer\n", encoding="utf-8")
    ask(root)
    assert program.asked == [DEVICES, DEVICES]


def test_ask_another_kernel_asks_again(root, program, monkeypatch):
    ask(root)
    name = os.uname()
    other = os.uname_result(
        (name.sysname, name.nodename, "9.9.9-9-generic", name.version, name.machine)
    )
    monkeypatch.setattr(kept.os, "uname", lambda: other)
    ask(root)
    assert len(program.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Completed(0, b"", b""),
        Completed(0, b"E:The list of sources could not be read.\n", b""),
        Completed(1, GPU.encode(), b""),
        Ended("timeout", "ubuntu-drivers did not end within 600 s"),
        ABSENT,
    ],
)
def test_ask_keeps_no_refusal(root, program, answer):
    program.answer = answer
    assert ask(root) == answer
    program.answer = GOOD
    assert ask(root) == GOOD
    assert len(program.asked) == 2


def test_ask_keeps_nothing_that_changed_while_it_waited(root, monkeypatch):
    def busy(argv, *, timeout_s):
        (root / "var/lib/dpkg/status").write_text("Package: other, and longer\n", encoding="utf-8")
        return GOOD

    monkeypatch.setattr(kept, "_may_keep", lambda: True)
    monkeypatch.setattr(kept, "look", busy)
    ask(root)
    assert not (root / "var/cache/hosttune").exists()


def test_ask_without_root_keeps_nothing(root, program, monkeypatch):
    monkeypatch.setattr(kept, "_may_keep", lambda: False)
    ask(root)
    ask(root)
    assert len(program.asked) == 2
    assert not (root / "var/cache/hosttune").exists()


def test_the_cache_is_for_its_owner_alone_and_left_tidy(root, program):
    ask(root)
    folder = root / "var/cache/hosttune"
    (file,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert str(file).endswith(kept.place_of(DEVICES))


@pytest.mark.parametrize(
    "spoil",
    ["file open to others", "folder open to others", "not JSON", "empty", "link", "other question"],
)
def test_ask_trusts_nothing_that_others_could_have_written(root, program, spoil):
    ask(root)
    folder = root / "var/cache/hosttune"
    (file,) = folder.iterdir()
    if spoil == "file open to others":
        file.chmod(0o644)
    elif spoil == "folder open to others":
        folder.chmod(0o755)
    elif spoil == "link":
        file.rename(root / "elsewhere")
        file.symlink_to(root / "elsewhere")
    elif spoil == "other question":
        file.write_text(
            json.dumps({**json.loads(file.read_text()), "argv": list(LIST)}), encoding="utf-8"
        )
    else:
        file.write_text("{" if spoil == "not JSON" else "", encoding="utf-8")
    assert ask(root) == GOOD
    assert len(program.asked) == 2


def test_ask_survives_a_cache_that_cannot_be_written(root, program):
    (root / "var/cache/hosttune").write_text("a file where the folder should be", encoding="utf-8")
    assert ask(root) == GOOD
    assert ask(root) == GOOD


def test_the_live_reader_asks_ubuntu_drivers_through_the_cache(monkeypatch):
    monkeypatch.setattr(kept, "ask", lambda argv, *, timeout_s: GOOD)
    assert LiveReader().query(DEVICES) == GOOD
