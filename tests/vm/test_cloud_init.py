"""From a Debian that has cloud-init and nothing of hosttune to a node that takes work, by the
user-data of one seed disk; and what leaves it held. Each case is a first boot of its own.
"""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm import image, seed
from tests.vm.guest import BOOT_TIMEOUT_S, Guest
from tests.vm.image import Recipe
from tests.vm.operator import hosttune
from tests.vm.transcript import Transcript

pytestmark = pytest.mark.vm

CLOUD = Recipe("bookworm", (*image.PACKAGES, "cloud-init"))
TWO_BOOTS_S = 2 * BOOT_TIMEOUT_S
# The least that /tmp in memory asks of a host, so that this one has something that waits for a
# boot.
TMP = "params:\n  storage-tmp-tmpfs: {where: anywhere, min_ram_bytes: 1073741824, min_bytes: 1073741824, max_ram_share: 0.75, used_share: 0.5}\n"
METRICS = "/var/lib/prometheus/node-exporter/hosttune-ready.prom"
GATE = [
    ["systemctl", "enable", "hosttune-ready.service"],
    ["systemctl", "start", "--no-block", "slurmd.service"],
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seed.packages(tmp_path_factory.mktemp("seed"))


@contextlib.contextmanager
def started(transcript: Transcript, repository: Path, text: str) -> Iterator[Guest]:
    """A guest that has come up from its first boot, and from what its user-data made of it."""
    with tempfile.TemporaryDirectory(prefix="hosttune-vm-") as folder:
        transcript.note("user-data:\n" + text)
        disk = seed.disk(Path(folder) / "seed.iso", repository, text)
        guest = Guest(image.get(CLOUD), Path(folder), transcript, seed=disk)
        with contextlib.closing(guest):
            guest.boot(TWO_BOOTS_S)
            yield guest


def status(guest: Guest) -> dict:
    """What `hosttune status` says in JSON; standing is empty where no boot was looked at."""
    said = json.loads(guest.run(["hosttune", "status", "--format", "json"]).stdout)
    return {"standing": "", **said}


def is_active(guest: Guest) -> bool:
    return guest.run(["systemctl", "is-active", "slurmd.service"]).stdout == "active\n"


def told(guest: Guest) -> str:
    """For whoever looks at a failure."""
    log = guest.ask_any(["tail", "-n60", "/var/log/cloud-init-output.log"]).stdout
    return (
        log
        + guest.ask_any(["journalctl", "--no-pager", "--unit=hosttune-ready", "--lines=60"]).stdout
    )


def boots(guest: Guest) -> int:
    """How often slurmd's machine came up, by the lines that cloud-init writes at the end of each
    boot.
    """
    return guest.ask(["cat", "/var/log/cloud-init-output.log"]).count("finished at")


def test_empty_disk_becomes_a_ready_node_and_one_command_takes_it_back(
    transcript, repository
) -> None:
    with started(
        transcript, repository, seed.user_data(f"{TMP}at_boot: {{plans: all}}\n")
    ) as guest:
        ready = status(guest)
        assert (ready["standing"], ready["this_boot"]) == ("ready", True), (ready, told(guest))
        assert is_active(guest)
        assert boots(guest) == 2, told(guest)
        # For the transcript: what the first boot did, and both units over both.
        guest.run(["sed", "-n", "/^Setting up hosttune/,$p", "/var/log/cloud-init-output.log"])
        guest.run(
            ["journalctl", "--no-pager", "--no-hostname", "--unit=hosttune-ready", "--unit=slurmd"]
        )
        assert (
            guest.ask(["findmnt", "--noheadings", "--output", "FSTYPE", "/tmp"]).strip() == "tmpfs"
        )
        order = guest.ask(
            [
                "systemctl",
                "show",
                "hosttune-ready.service",
                "slurmd.service",
                "--property=ActiveEnterTimestampMonotonic",
            ]
        )
        opened, began = (int(line.partition("=")[2]) for line in order.split())
        assert 0 < opened <= began
        # In the first boot slurmd's package tried to start it.
        first = guest.ask(
            ["journalctl", "--no-pager", "--boot=-1", "--unit=slurmd", "--output=cat"]
        )
        assert "Started" not in first, first
        guest.run(["cat", METRICS])
        assert "hosttune_ready{" in guest.ask(["cat", METRICS]), guest.ask(["cat", METRICS])
        rc, said = hosttune(guest, "undo", "--yes")
        assert rc == 0, said
        left = guest.ask(
            ["find", "/etc", "-name", "*hosttune*", "-not", "-path", "/etc/hosttune*"]
        ).split()
        assert {Path(path).name for path in left} <= {
            "hosttune-ready.service", "hosttune-agent.service", "hosttune-agent.service.d", "10-hosttune.conf", "hosttune.list",
        }, left  # fmt: skip


def test_digest_that_nobody_approved_holds_the_node(transcript, repository) -> None:
    text = seed.user_data(
        TMP, approved="88e96cb46683  # of another host\n", runcmd=GATE, boots=False
    )
    with started(transcript, repository, text) as guest:
        held = status(guest)
        assert (held["standing"], held["reboots"]) == ("held", []), (held, told(guest))
        lines = "one of these lines in /etc/hosttune/approved approves it: "
        assert f"is not approved by /etc/hosttune/approved; {lines}" in held["sentence"]
        assert not is_active(guest)
        assert guest.run(["hosttune", "status"]).rc == 1


def test_package_that_cannot_be_installed_leaves_a_node_without_work(
    transcript, repository, tmp_path
) -> None:
    broken = tmp_path / "apt"
    broken.mkdir()
    for path in repository.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    seed.spoil(broken)
    text = seed.user_data(f"{TMP}at_boot: {{plans: all}}\n", boots=False)
    with started(transcript, broken, text) as guest:
        assert not is_active(guest)
        refused = guest.run(["systemctl", "start", "slurmd.service"])
        assert refused.rc != 0
        assert (
            refused.stderr
            == "Failed to start slurmd.service: Unit hosttune-ready.service not found.\n"
        ), told(guest)
        assert "error" in guest.run(["cloud-init", "status"]).stdout


def test_power_lost_at_the_first_boot_ends_ready_or_held_never_half_made(
    transcript, repository
) -> None:
    """The gate is not enabled yet, but slurmd requires it since before it was installed: its
    package starts it, the plan is made, and the power goes. The next boot has what waited for one,
    so the policy's `never` is not asked.
    """
    cut = [["sh", "-c", "sync; echo b > /proc/sysrq-trigger"]]
    policy = f"{TMP}at_boot: {{plans: all, reboot: never}}\n"
    with started(transcript, repository, seed.user_data(policy, runcmd=cut)) as guest:
        ready = status(guest)
        assert (ready["standing"], ready["this_boot"], ready["reboots"]) == ("ready", True, []), (
            ready,
            told(guest),
        )
        assert ready["sentence"] == "as its plan says; nothing had to be changed"
        assert is_active(guest)
        assert (
            guest.ask(["findmnt", "--noheadings", "--output", "FSTYPE", "/tmp"]).strip() == "tmpfs"
        )
