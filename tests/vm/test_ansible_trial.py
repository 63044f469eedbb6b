"""A play that puts a whole machine on trial: what it reaches again over a new connection stays,
also after the reboot; a boot that dies has come back when the play gets there, and the play says
so.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.controller import ROOT, Controller, core_for, environment, pythons
from tests.vm import come_back, image, installed
from tests.vm.come_back import BOOT_S, MEMORY_MIB, NEARER, RULE_TEXT, RULES
from tests.vm.guest import Guest
from tests.vm.transcript import Transcript

pytestmark = pytest.mark.vm

LIVE, TRIED = "site-live", "site-trial"
PLAY_S = 2400  # only ends a hang
OPTIONS: dict[str, Any] = {
    "hosttune_only": [LIVE, TRIED],
    "hosttune_confirm_within": "30m",
    "hosttune_reboot": True,
    "hosttune_reboot_timeout": 1800,
    "hosttune_require_compliant": False,
}


@pytest.fixture(scope="module")
def machine(transcript: Transcript) -> Iterator[tuple[Guest, int]]:
    """A Debian 13 that boots through GRUB, and the port of this machine at which its sshd
    answers.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    recipe = image.TRIXIE_MENU
    with tempfile.TemporaryDirectory(prefix="hosttune-vm-") as folder:
        guest = Guest(
            installed.get(recipe),
            Path(folder),
            transcript,
            MEMORY_MIB,
            saved=come_back.machine(recipe),
            ssh_port=port,
        )
        with contextlib.closing(guest):
            guest.resume()
            guest.ask(["rm", NEARER])  # a play needs longer
            yield guest, port


@pytest.fixture(scope="module")
def controller(machine: tuple[Guest, int], tmp_path_factory: pytest.TempPathFactory) -> Controller:
    guest, port = machine
    folder = tmp_path_factory.mktemp("controller")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True
    )
    guest.write("/root/.ssh/authorized_keys", (folder / "key.pub").read_bytes())
    key = " ".join(guest.read("/etc/ssh/ssh_host_ed25519_key.pub").decode().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n", encoding="utf-8")
    bundle = folder / "hosttune.pyz"
    subprocess.run(
        [sys.executable, ROOT / "playbooks/packaging/pyz.py", bundle],
        check=True,
        capture_output=True,
    )
    inventory = folder / "inventory"
    inventory.write_text(
        f"spine ansible_host=127.0.0.1 ansible_port={port} ansible_user=root ansible_ssh_private_key_file={folder}/key"
        f" ansible_python_interpreter=/usr/bin/python3 ansible_ssh_timeout=60"
        f" ansible_ssh_common_args='-o UserKnownHostsFile={folder}/known_hosts -o IdentitiesOnly=yes'\n",
        encoding="utf-8",
    )
    python = pythons()[0]
    return Controller(environment(python, core_for(python)), inventory, bundle, folder, PLAY_S)


def wish(guest: Guest, rule: str, text: str) -> None:
    guest.write(
        f"{RULES}/{rule}.yaml", RULE_TEXT.replace("site-trial", rule).format(wish=text).encode()
    )


def test_what_is_reached_again_is_kept_now_and_after_its_boot(
    machine: tuple[Guest, int], controller: Controller
) -> None:
    guest, _ = machine
    wish(guest, LIVE, "sysctl: vm.swappiness\n    exactly: 10")
    wish(guest, TRIED, "kernel-argument: hosttune_test=1")
    seen = controller.play("apply.yml", **OPTIONS)
    guest.note(seen.output)
    assert seen.status == 0, seen.output
    assert (
        seen.output.count("TASK [hosttune.hosttune.hosttune : Confirm over a new connection]") == 2
    )
    assert "1 host: rebooted, and verified afterwards\n  spine\n" in seen.output
    guest.await_next_boot(BOOT_S)
    assert "hosttune_test=1" in guest.read("/proc/cmdline").decode()
    assert "hosttune_test=1" in guest.read("/boot/grub/grub.cfg").decode()
    assert guest.read("/proc/sys/vm/swappiness") == b"10\n"
    assert guest.ask_any(["ls", "/etc/hosttune/trial"]).rc != 0
    again = controller.play("apply.yml", **OPTIONS)
    assert (again.status, again.changed()) == (0, set()), again.output


def test_boot_that_panics_has_come_back_and_the_play_says_why(
    machine: tuple[Guest, int], controller: Controller
) -> None:
    guest, _ = machine
    wish(guest, TRIED, "kernel-argument: init=/bin/false")
    seen = controller.play("apply.yml", **(OPTIONS | {"hosttune_only": [TRIED]}))
    guest.note(seen.output)
    assert seen.status == 2, seen.output
    said = seen.output.rpartition("1 host: failed or gave no answer\n")[2]
    assert " was rolled back at " in said
    assert (
        "did not take the entry on trial, or one that took it did not come as far as here" in said
    )
    guest.await_next_boot(BOOT_S)
    assert (
        "init=/bin/false"
        not in guest.read("/proc/cmdline").decode() + guest.read("/boot/grub/grub.cfg").decode()
    )
    rc, told, _ = guest.run(["hosttune", "history"])
    assert (rc, "rolled back" in told) == (0, True)
