"""A profile on a real machine: `slurm-node`, which has most rules, on a Debian 13 that boots
through GRUB is applied, survives a reboot, is checked clean, and is undone to the byte. What each
rule is for is asked of the programs that it is for.
"""

import json

import pytest

from tests.vm.guest import Guest
from tests.vm.operator import POLICY, etc_digest, hosttune, judged, plan, runs
from tests.vm.shown import PREPARATION, SHOWN, SITE, answers

pytestmark = pytest.mark.vm

GRUB_CFG = "/boot/grub/grub.cfg"
# Of those that the kernel does not choose by the memory that is free at boot.
SYSCTLS = ("fs.inotify.max_user_instances", "vm.max_map_count", "vm.swappiness", "vm.dirty_ratio")


def state(guest: Guest) -> dict[str, str]:
    """What a profile may touch and a reboot must bring back."""
    return {
        "etc": etc_digest(guest),
        "grub": guest.read(GRUB_CFG).decode(),
        "sysctl": guest.ask(["sysctl", *SYSCTLS]),
        "command line": guest.ask(["cat", "/proc/cmdline"]),
        "thp": guest.ask(["cat", "/sys/kernel/mm/transparent_hugepage/enabled"]),
    }


@pytest.fixture(scope="module")
def before(trixie: Guest) -> dict[str, str]:
    trixie.ask(["bash", "-c", PREPARATION])
    return state(trixie)


def test_profile_is_applied_and_the_second_run_does_nothing(
    trixie: Guest, before: dict[str, str]
) -> None:
    assert before["command line"]
    trixie.write(POLICY, SITE)
    document = plan(trixie)
    assert {change["rule"] for stage in document["stages"] for change in stage["changes"]} == set(
        SHOWN
    )
    rc, text = hosttune(trixie, "apply", "--yes", "--expect", document["digest"])
    assert rc == 0, text
    rc, text = hosttune(trixie, "apply", "--yes")
    assert rc == 0, text
    assert plan(trixie)["stages"] == []


def test_reboot_brings_the_profile_up_and_the_check_is_clean(trixie: Guest) -> None:
    was = trixie.boot_id
    assert trixie.reboot() != was
    assert trixie.run(["systemctl", "is-system-running"]).stdout in {"running\n", "degraded\n"}
    assert answers(trixie) == {rule: one.applied for rule, one in SHOWN.items()}
    rc, verdicts = judged(trixie)
    left = {rule: words for rule, words in verdicts.items() if words & {"differs", "unknown"}}
    assert left == {}, left
    assert rc == 0, verdicts


def test_undo_and_a_reboot_give_back_every_byte(trixie: Guest, before: dict[str, str]) -> None:
    for run in reversed(runs(trixie)):
        rc, text = hosttune(trixie, "undo", run, "--yes")
        assert rc in {0, 1}, text  # 1: done, and waits for the reboot
    trixie.ask(["rm", POLICY])
    was = trixie.boot_id
    assert trixie.reboot() != was
    assert answers(trixie) == {rule: one.undone for rule, one in SHOWN.items()}
    now = state(trixie)
    for name, value in before.items():
        assert now[name] == value, name
    assert json.loads(trixie.ask_any(["hosttune", "history", "--format", "json"]).stdout)["runs"]
