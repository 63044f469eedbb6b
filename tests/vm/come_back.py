"""The proof that a host with a run on trial ends as it was, or as it was confirmed: never
unbootable, never in a loop.

    python -m tests.vm.come_back --list       the scenarios
    python -m tests.vm.come_back NAME...      some of them
    python -m tests.vm.come_back --all        all

As root, from the project's folder. Each begins on a machine that has just booted, and is told in
the transcript. Exit status 0 when each ended as it has to, 1 otherwise.
"""

import argparse
import contextlib
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hosttune.engine.trial_terms import span_s
from tests.vm import installed, saved
from tests.vm.come_back_scenarios import SCENARIOS, Boot, Change, End, Scenario
from tests.vm.come_back_shell import UNHURRIED
from tests.vm.guest import Guest
from tests.vm.image import Recipe
from tests.vm.operator import etc_digest
from tests.vm.transcript import Transcript, transcript_folder

RULE, RULES = "site-trial", "/etc/hosttune/rules.d"
FOLDER = "/etc/hosttune/trial"
SAID = {
    End.CAME_BACK: r"rolled back|hosttune come-back:",
    End.AS_BEFORE: "",
}  # the return is a run of its own, by this name
UNCONCERNED = "memory-swappiness"  # a rule that has nothing to do on so small a machine
DROP_IN = f"/etc/default/grub.d/60-hosttune-{RULE}.cfg"
MEMORY_MIB = 1024
# hosttune gives a boot on trial ten minutes at least; here it gets two and a half.
NEARER = "/etc/systemd/system/hosttune-trial-deadline.timer.d/nearer.conf"
DEADLINE_S = 150
BOOT_S = 1800  # only ends a hang
RETURN_S = 300  # only ends a hang
IDLE = 0.15  # of a processor of this machine: what the clock of an idle guest takes
QUIET_S = 45  # without a word on the console, a machine that hangs does so
RULE_TEXT = """\
id: site-trial
title: What is tried
risk: low
disturbs: nothing
since: "0.1"
verified: docs
gain: none; it is tried
why: |
  It is tried.
sources:
  - none
want:
  - {wish}
"""
# A plan that no rule makes, through the same trial.
BY_HAND = """\
import sys
from hosttune.actions.run import open_for_change
from hosttune.actions.trial.trial import apply_on_trial, foresee, require_promise
from hosttune.cli.common import progress
from hosttune.engine.decide.plan import digest, stage
from hosttune.engine.trial_terms import TrialTerms
from hosttune.errors import HosttuneError
from hosttune.resources.file import FileAddress
from hosttune.values import ABSENT, Action, Activation, Address, Change, Confirmer, FileValue, Plan, Trigger

path, within_s, by, text = sys.argv[1], int(sys.argv[2]), Confirmer(sys.argv[3]), sys.stdin.read()
sys.argv[0] = "/usr/local/bin/hosttune"  # what units start again
try:
    with open_for_change({}, progress) as (session, writer):
        before = FileAddress().read(writer, path)
        now = before.content.decode() if before is not ABSENT else ""
        after = FileValue(text.replace("{now}", now).encode())
        triggers = (Trigger("update-grub"),) if path.startswith("/etc/default/grub.d") else ()
        action = Action.CREATE if before is ABSENT else Action.UPDATE
        change = Change(Address("file", path), action, before, after, "site-trial", activation=Activation.REBOOT,
                        triggers=triggers)
        stages = (stage((change,)),)
        plan = Plan(digest((change,)), "", "", "", "", stages, ())
        planned = foresee(session, plan, TrialTerms(within_s, by))
        require_promise(planned, without_return=False)
        receipt, trial = apply_on_trial(session, writer, plan, planned, progress)
        print(receipt.run_id, trial.state, getattr(trial, "reason", ""))
except HosttuneError as error:
    sys.exit(f"hosttune: {error} {error.hint}")
"""
# What tells whether the host is as before, /etc apart.
AS_BEFORE = """
sha256sum /boot/grub/grub.cfg
cat /proc/cmdline | tr ' ' '\\n' | grep -v ^BOOT_IMAGE
sysctl vm.swappiness net.ipv4.conf.all.arp_ignore
systemctl list-units --failed --no-legend --plain
systemctl list-unit-files --no-legend 'hosttune-*'
ls /boot/grub/custom.cfg /etc/hosttune/trial /run/motd.d/hosttune-trial 2>&1
grub-editenv /boot/grub/grubenv list | grep -v ^next_entry=$
true
"""


@dataclass(frozen=True, slots=True)
class Told:
    """How a scenario ended."""

    scenario: Scenario
    faults: tuple[str, ...]
    seconds: float
    sentence: str = ""  # what the host itself said of it


class Played:
    """One scenario on a machine of its own."""

    def __init__(self, scenario: Scenario, guest: Guest) -> None:
        self.scenario, self.guest = scenario, guest
        self.faults: list[str] = []
        self.said = ""  # by hosttune, all of it

    def play(self) -> None:
        """Until the end; what was wrong is in `faults`."""
        one, guest = self.scenario, self.guest
        if one.devices:
            start(guest)
        else:
            guest.resume()
        if not one.change.path and not one.change.is_by_hand:
            guest.write(f"{RULES}/{RULE}.yaml", RULE_TEXT.format(wish=one.change.wish).encode())
        if (
            one.boot is Boot.COMES_UP and not one.waits
        ):  # the deadline must not come before what is done there
            guest.ask(["sh", "-c", UNHURRIED])
        if one.prepare:
            self.shell(one.prepare, "prepare")
        before, etc = guest.ask(["sh", "-c", AS_BEFORE]), etc_digest(guest)
        rc = self.try_it()
        if one.end is End.REFUSED:
            self.expect(rc == 2, f"apply ended with {rc}, not with 2")
        else:
            wanted = 137 if one.cut_at else 0
            self.expect(rc == wanted, f"apply ended with {rc}: {self.said[-400:]}")
            if rc != wanted:
                return
            self.go_through()
        self.judge(before, etc)
        if one.last:
            self.shell(one.last, "last")

    def try_it(self) -> int:
        """Ask for the change, on trial; the exit status."""
        one, change = self.scenario, self.scenario.change
        if one.typed:
            return self.shell(one.typed, "typed")
        if change.path or change.is_by_hand:
            return self.by_hand(change)
        words = (
            "--confirm-within",
            one.within,
            *(["--confirm-by", "health"] if one.is_by_health else []),
        )
        return self.hosttune("apply", "--yes", "--only", RULE, *words)

    def by_hand(self, change: Change) -> int:
        path, text = change.path, change.text
        if change.is_by_hand:
            path, text = (
                DROP_IN,
                f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {change.argument}"\n',
            )
        self.guest.write("/root/by-hand.py", BY_HAND.encode())
        within_s = str(span_s(self.scenario.within))
        words = [*self.cutting(), "/opt/hosttune/bin/python", "/root/by-hand.py", path, within_s]
        words.append("health" if self.scenario.is_by_health else "operator")
        answer = self.guest.run(words, stdin=text.encode())
        self.said += answer.stdout + answer.stderr
        return answer.rc if answer.rc != 1 else 2

    def cutting(self) -> list[str]:
        """What ends a command at one of the files that it puts in place, before the power is
        cut.
        """
        calls = "rename,renameat,renameat2"
        inject = f"inject={calls}:signal=KILL:when={self.scenario.cut_at}"
        words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", inject]
        return words if self.scenario.cut_at else []

    def go_through(self) -> None:
        one, guest = self.scenario, self.guest
        if one.fault:
            self.shell(one.fault, "fault")
        booted = self.boots()
        if one.boot is Boot.NONE:
            self.go_through_live()
            return
        if one.leaves and not one.without:
            guest.leave(["sh", "-c", one.leaves])
        else:
            guest.ask(["sync"])
            guest.kill()
            guest.switch_on(without=one.without)
        if one.boot is Boot.HANGS:
            self.await_silence()
            guest.kill()
            if one.end is End.ON_CONSOLE:
                return
            guest.boot(BOOT_S)
        else:
            guest.await_next_boot(BOOT_S)
        if one.boot is Boot.COMES_UP or (one.boot is Boot.HANGS and one.meanwhile):
            self.go_through_trial()
        self.settle()
        made = self.boots() - booted
        self.expect(not one.boots or made == one.boots, f"{made} boots, not {one.boots}")

    def go_through_trial(self) -> None:
        """The boot on trial, which has come up."""
        one = self.scenario
        self.look_into()
        if one.waits and one.stays_up:
            self.await_mark()
        elif one.waits:
            self.guest.await_next_boot(BOOT_S)
        if one.is_plug_pulled:
            self.pull_plug()

    def go_through_live(self) -> None:
        self.look_into()
        if self.scenario.is_plug_pulled:
            self.pull_plug()
        if self.scenario.waits:
            self.await_live_return()

    def pull_plug(self) -> None:
        """And switch it on again; it may reboot by itself before it comes up."""
        before = self.guest.boot_id
        self.guest.kill()
        self.guest.switch_on()
        self.guest.boot_id = before
        self.guest.await_next_boot(BOOT_S)

    def look_into(self) -> None:
        """What is done in the boot on trial, or while it is on trial now."""
        one = self.scenario
        self.hosttune("history")
        if one.meanwhile == "REBOOT":
            self.guest.leave(["systemctl", "reboot"])
            self.guest.await_next_boot(BOOT_S)
        elif one.meanwhile:
            self.shell(one.meanwhile, "meanwhile")

    def await_live_return(self) -> None:
        """Up to the deadline of what takes effect at once, and until it is taken back."""
        until = time.monotonic() + span_s(self.scenario.within) + RETURN_S
        while time.monotonic() < until:
            if self.guest.ask_any(["test", "-e", f"{FOLDER}/armed"]).rc != 0:
                return
            time.sleep(5)
        self.faults.append("it was never taken back")

    def await_mark(self) -> None:
        """Until the guard has said that it is done, in a boot that goes on."""
        until = time.monotonic() + BOOT_S
        script = f"[ ! -e {FOLDER}/armed ] || [ -e {FOLDER}/returned ] || [ -e {FOLDER}/failed ] || grep -qs fail {FOLDER}/log"
        while time.monotonic() < until:
            if (
                self.guest.ask_any(["sh", "-c", script]).rc == 0
                or "hosttune: rollback failed" in self.guest.console()
            ):
                return
            time.sleep(5)
        self.faults.append("nothing was said at the deadline")

    def await_silence(self) -> None:
        """Until a machine that does not answer says nothing more on its console, and does nothing:
        beside other work a boot is silent for long, too.
        """
        until, size = time.monotonic() + BOOT_S, -1
        since, used_s = time.monotonic(), self.guest.processor_s
        while time.monotonic() < until:
            if (now := len(self.guest.console())) != size:
                size, since, used_s = now, time.monotonic(), self.guest.processor_s
            elif time.monotonic() - since > QUIET_S:
                if self.guest.processor_s - used_s < IDLE * (time.monotonic() - since):
                    return
                since, used_s = time.monotonic(), self.guest.processor_s
            time.sleep(2)
        self.faults.append("the machine that should hang never fell silent")

    def settle(self) -> None:
        """What starts late in a boot has its time: nothing reboots after it."""
        boot_id = self.guest.boot_id
        for _ in range(3):
            time.sleep(5)
            now = self.guest.ask(["cat", "/proc/sys/kernel/random/boot_id"]).strip()
            self.expect(now == boot_id, "it rebooted once more")

    def judge(self, before: str, etc: str) -> None:
        """The end: what hosttune says of it, and whether the host is as before."""
        one, guest = self.scenario, self.guest
        if one.end is End.ON_CONSOLE:
            self.expect(one.says in guest.console(), f"the console did not say {one.says!r}")
            return
        if one.mends:
            self.shell(one.mends, "mends")
        is_by_rule = guest.ask_any(["test", "-e", f"{RULES}/{RULE}.yaml"]).rc == 0
        self.hosttune("check", "--only", RULE if is_by_rule else UNCONCERNED)
        guest.ask_any(["rm", "-f", f"{RULES}/{RULE}.yaml"])
        if one.end not in {End.REFUSED, End.NOTHING}:
            self.hosttune("apply", "--yes", "--only", UNCONCERNED)  # books what the guard has done
            self.hosttune("history")
            self.expect(
                re.search(SAID.get(one.end, one.end.value), self.all_said) is not None,
                f"nobody said {one.end}",
            )
        if one.says:
            self.expect(re.search(one.says, self.all_said) is not None, f"nobody said {one.says!r}")
        if one.end in {End.CAME_BACK, End.REFUSED, End.NOTHING, End.AS_BEFORE}:
            self.compare("the host", before, guest.ask(["sh", "-c", AS_BEFORE]))
            self.compare("/etc", etc, etc_digest(guest))
        elif one.end is End.CONFIRMED:
            self.expect(
                guest.ask_any(["test", "-e", FOLDER]).rc != 0, "the trial's folder is still there"
            )
            self.expect(
                guest.ask_any(["test", "-e", "/boot/grub/custom.cfg"]).rc != 0,
                "custom.cfg is still there",
            )

    def compare(self, what: str, before: str, after: str) -> None:
        gone = sorted(set(before.splitlines()) - set(after.splitlines()))
        new = sorted(set(after.splitlines()) - set(before.splitlines()))
        if gone or new:
            self.faults.append(f"{what} is not as before: gone {gone[:4]}, new {new[:4]}")

    def boots(self) -> int:
        """How often GRUB has started something. Of an entry in a submenu it names the submenu,
        too.
        """
        return len(re.findall("Booting `(?!Advanced options for )", self.guest.console()))

    def hosttune(self, *words: str) -> int:
        rc, stdout, stderr = self.guest.run(["hosttune", *words])
        self.said += stdout + stderr
        self.expect("Traceback" not in stderr, f"hosttune {words[0]}: {stderr[-300:]}")
        return rc

    def shell(self, script: str, what: str) -> int:
        answer = self.guest.run(["sh", "-c", script])
        self.said += answer.stdout + answer.stderr
        self.expect(
            answer.rc == 0, f"{what}: exit status {answer.rc}: {answer.stderr.strip()[-200:]}"
        )
        return answer.rc

    def expect(self, holds: bool, fault: str) -> None:
        if not holds:
            self.faults.append(fault)

    @property
    def all_said(self) -> str:
        """Without the breaks of lines."""
        return " ".join(self.said.split())

    def sentence(self) -> str:
        """What the host said of the end, last."""
        found = re.findall(
            r"[^.;|]*(?:came? back|come-back:|confirmed|no trial is possible)[^.;|]*", self.all_said
        )
        return found[-1].strip()[-160:] if found else ""


def start(guest: Guest) -> None:
    """Switch on a machine that all scenarios can begin with."""
    guest.boot(BOOT_S)
    guest.write(NEARER, f"[Timer]\nOnActiveSec=\nOnActiveSec={DEADLINE_S}s\n".encode())
    guest.run(["hosttune", "--version"])


def machine(recipe: Recipe) -> Path:
    """The folder of a machine of this recipe that has just booted."""
    return saved.get(recipe, MEMORY_MIB, start)


def play(scenario: Scenario, transcript: Transcript) -> Told:
    """Play one scenario."""
    stands = None if scenario.devices else machine(scenario.recipe)
    transcript.heading(f"{scenario.name}: {scenario.tells}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hosttune-vm-") as folder:
        disks = installed.get(scenario.recipe)
        guest = Guest(
            disks, Path(folder), transcript, MEMORY_MIB, saved=stands, devices=scenario.devices
        )
        with contextlib.closing(guest):
            played = Played(scenario, guest)
            try:
                played.play()
            except Exception:  # noqa: BLE001 - the others are still played
                played.faults.append(traceback.format_exc(limit=3))
            if played.faults:
                transcript.note(f"console:\n{guest.console()[-20000:]}")
    told = Told(scenario, tuple(played.faults), time.monotonic() - started, played.sentence())
    transcript.note("\n".join(told.faults) or f"as it has to be: {told.sentence}")
    return told


@contextlib.contextmanager
def transcript_of(name: str) -> Iterator[Transcript]:
    folder = transcript_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.txt").open("w", encoding="utf-8") as file:
        yield Transcript(file)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[[], *(one.name for one in SCENARIOS)])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--all", action="store_true")
    chosen = parser.parse_args()
    known = {one.name: one for one in SCENARIOS}
    wanted = (
        list(SCENARIOS) if chosen.all or chosen.list else [known[name] for name in chosen.names]
    )
    if chosen.list or not wanted:
        for one in wanted or SCENARIOS:
            print(f"{one.name:26} {','.join(map(str, one.numbers)):6} {one.tells}")
        return 0
    bad = 0
    for one in wanted:
        with transcript_of(f"come_back-{one.name}") as transcript:
            told = play(one, transcript)
        bad += bool(told.faults)
        print(
            f"{'WRONG' if told.faults else 'ok':5} {one.name:26} {told.seconds:4.0f} s  {told.sentence}",
            flush=True,
        )
        for fault in told.faults:
            print(f"      {fault}", flush=True)
    print(f"{len(wanted)} scenarios, {bad} wrong")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
