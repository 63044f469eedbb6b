"""Kill an apply or an undo of the driver at every kind of point, with the real apt and dpkg, and
see that each ending is finished or named: `python -m tests.live.driver_kills --all`, as root, or
some by number or name.

A point is an event and who dies there: a maintainer script begins (its own shell, dpkg, apt-get,
hosttune, or all of them die; or it fails), dpkg makes its Nth rename(2), apt calls a hook of
apt.conf(5), hosttune writes its Nth journal line. Nothing waits for a clock. After it:

- where dpkg is not whole, or the set is neither as before nor as planned, `check` ends with status
  1 and names it;
- the same command again, with --yes, ends with 0 and the set is as planned, and once more changes
  nothing;
- what `check` names for a person to type makes dpkg and apt whole, and the command again ends with
  0;
- an undo brings back what was there before;
- `history` calls no run finished that stopped half-way, and between a repair by hand and the next
  run `check` still says what is left.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from hosttune.engine.rules.compiled import compile_catalog
from hosttune.values import steps_of
from tests.live.driver_server import put, server_tree
from tests.live.test_live_packages import inside

ROOT = Path(__file__).resolve().parents[2]
ONLY = ("--only", "gpu-driver")
RULES = (*ONLY, "--only", "gpu-driver-health")
POLICY = "max_risk: high\ndisturb: running GPU work\nparams:\n  gpu-driver:\n"
UPDATE, SWITCH = "    update: true\n", '    branch: "595"\n    switch_branch: true\n'
LAUNCHER = """\
import os, signal, sys
import hosttune.host.reading.running as running
import hosttune.host.writing.own as own
running.is_running_root = lambda: True
append, lines = own.append, 0

def die():
    os.unlink("/opt/kill/plan")
    os.kill(os.getpid(), signal.SIGKILL)

def counted(root, path, data):
    global lines
    lines += 1
    try:
        event, target = open("/opt/kill/plan").read().split()
    except FileNotFoundError:
        event = target = ""
    if event == f"journal-{lines}":
        if target == "before":
            die()
        if target == "torn":
            append(root, path, data[: len(data) // 2])
            die()
        append(root, path, data)
        die()
    append(root, path, data)

own.append = counted
from hosttune.cli.app import main
main()
"""
# Called with the event by every maintainer script and by the hooks of apt; whoever is to die is an
# ancestor.
AT = """\
#!/bin/sh
test -e /opt/kill/plan || exit 0
read -r event target < /opt/kill/plan
test "$event" = "$1" || exit 0
test "$target" != fail || { echo "made to fail: $1" >&2; exit 1; }
rm /opt/kill/plan
exec /usr/bin/python3 -S -E /opt/kill/kill "$target"
"""
KILL = """\
import os, signal, sys
names = {"dpkg": ["dpkg"], "apt": ["apt-get"], "hosttune": ["python3"], "script": [], "all": ["python3", "apt-get", "dpkg"]}
chain, pid = [], os.getppid()
script = pid
while pid > 1:
    stat = open(f"/proc/{pid}/stat").read()
    name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
    chain.append((name, pid))
    pid = int(rest[1])
target = sys.argv[1]
for wanted in names[target]:
    for name, pid in chain:
        if name == wanted:
            os.kill(pid, signal.SIGKILL)
            break
if target in ("script", "all"):
    os.kill(script, signal.SIGKILL)
"""
# In the place of dpkg, for apt alone: the call of this number dies at that rename.
DPKG = """\
#!/bin/sh
test -e /opt/kill/plan || exec /usr/bin/dpkg "$@"
read -r event number < /opt/kill/plan
case "$event" in rename-*) ;; *) exec /usr/bin/dpkg "$@";; esac
case " $* " in *" --unpack "*|*" --configure "*|*" --remove "*) ;; *) exec /usr/bin/dpkg "$@";; esac
calls=$(($(cat /opt/kill/calls 2>/dev/null || echo 0) + 1))
echo $calls > /opt/kill/calls
test "rename-$calls" = "$event" || exec /usr/bin/dpkg "$@"
rm /opt/kill/plan
exec /usr/bin/strace -qq -o /dev/null -e trace=rename,renameat,renameat2 \\
    -e inject=rename,renameat,renameat2:signal=KILL:when="$number" /usr/bin/dpkg "$@"
"""
HOOKS = """\
DPkg::Pre-Invoke { "/opt/kill/at pre-invoke"; };
DPkg::Post-Invoke { "/opt/kill/at post-invoke"; };
DPkg::Pre-Install-Pkgs { "cat > /dev/null; /opt/kill/at pre-install-pkgs"; };
Dir::Bin::dpkg "/opt/kill/dpkg";
"""
NEW, OLD = "595-server", "580-server"


def _set(branch: str) -> tuple[str, ...]:
    return (
        f"nvidia-kernel-common-{branch}", f"libnvidia-compute-{branch}", f"nvidia-headless-no-dkms-{branch}-open",
        f"nvidia-utils-{branch}", f"linux-modules-nvidia-{branch}-open-generic",
    )  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """What is interrupted: from which prepared state, by which command."""

    name: str
    start: str
    verb: tuple[str, ...]
    goal: str
    events: tuple[str, ...]  # of maintainer scripts
    before: str = ""  # the state to which an undo leads, where the start is none


def _events(scripts: tuple[str, ...], branch: str) -> tuple[str, ...]:
    return tuple(f"{name}-{script}" for name in _set(branch) for script in scripts)


APPLY = ("apply", "--yes", *ONLY)
UNDO = ("undo", "--yes")  # and the run that made the state it starts from
CAME, WENT = ("preinst-install", "postinst-configure"), ("prerm-remove", "postrm-remove")
REPLACED = ("prerm-upgrade", "preinst-upgrade", "postrm-upgrade", "postinst-configure")
OPERATIONS = {
    one.name: one
    for one in (
        Operation("install", "fresh", APPLY, "installed", _events(CAME, OLD)),
        Operation("update", "offered", APPLY, "updated", _events(REPLACED, OLD)),
        Operation(
            "switch", "updated", APPLY, "switched", (*_events(WENT, OLD), *_events(CAME, NEW))
        ),
        Operation("undo-install", "installed", UNDO, "fresh", _events(WENT, OLD)),
        Operation("undo-update", "updated", UNDO, "installed", _events(REPLACED, OLD)),
        Operation(
            "undo-switch", "switched", UNDO, "updated", (*_events(WENT, NEW), *_events(CAME, OLD))
        ),
        Operation(
            "go-on", "half-switched", APPLY, "switched", _events(CAME, NEW)[3:], before="updated"
        ),
        Operation("go-on-back", "half-back", UNDO, "updated", _events(CAME, OLD)[3:]),
    )
}
SCRIPT_TARGETS = ("dpkg", "all", "script", "apt", "hosttune", "fail")


@dataclass(frozen=True)
class Point:
    """Where who dies."""

    operation: str
    event: str
    target: str

    def __str__(self) -> str:
        return f"{self.operation}: {self.event} {self.target}"


def points() -> tuple[Point, ...]:
    """All of them, always the same: the targets go round over the events of the scripts, two for
    each event.
    """
    found = []
    for operation in OPERATIONS.values():
        targets = itertools.cycle(SCRIPT_TARGETS)
        for event in operation.events:
            found += [Point(operation.name, event, next(targets))]
            if operation.name in ("install", "switch"):
                found += [Point(operation.name, event, next(targets))]
        for call, number in ((1, 1), (1, 4), (1, 9), (1, 16), (2, 2), (2, 6)):
            found.append(Point(operation.name, f"rename-{call}", str(number)))
        for hook, target in (
            ("pre-invoke", "all"),
            ("pre-install-pkgs", "apt"),
            ("post-invoke", "all"),
        ):
            found.append(Point(operation.name, hook, target))
        last = 3 if operation.name == "go-on" else 4  # what went before it is booked, then the rest
        for line, how in (
            (1, "torn"),
            (2, "before"),
            (2, "torn"),
            (3, "before"),
            (3, "torn"),
            (last, "after"),
        ):
            found.append(Point(operation.name, f"journal-{line}", how))
    return tuple(found)


@dataclass
class Ending:
    """What became of a point."""

    point: Point
    left: str = ""
    check: str = ""
    again: str = ""
    typed: str = ""
    undone: str = ""
    faults: list[str] = field(default_factory=list)


class Range:
    """The tree and its prepared states, each an overlay on the one before."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.tree = server_tree(base, "strace")
        self.layers: dict[str, tuple[Path, ...]] = {}
        self.goals: dict[str, dict[str, list[str]]] = {}
        self.runs: dict[str, str] = {}
        self._numbers = itertools.count()

    def prepare(self) -> None:
        src = self.tree / "opt/src"
        (src / "hosttune/rules/catalog.json").write_text(compile_catalog(ROOT), encoding="utf-8")
        for name in ("typer", "shellingham", "annotated_doc"):
            spec = find_spec(name)
            assert spec
            assert spec.origin
            shutil.copytree(
                Path(spec.origin).parent, src / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(Path(__file__).with_name("driver_kill_point.py"), src)
        put(src / "ht", LAUNCHER)
        for name, text in (("at", AT), ("kill", KILL), ("dpkg", DPKG)):
            put(self.tree / "opt/kill" / name, text, 0o755)
        put(self.tree / "etc/apt/apt.conf.d/99kill", HOOKS)
        put(self.tree / "etc/hosttune/policy.yaml", "max_risk: high\n")
        done = inside(self.tree, "python3", "-m", "compileall", "-q", "/opt/src")
        assert done.returncode == 0, done.stdout + done.stderr
        self.layers["fresh"] = ()
        self._reach("installed", "fresh", "apply", "--yes", *ONLY)
        self._boot("offered", "installed", "580.95.05", UPDATE, later=True)
        self._reach("updated", "offered", "apply", "--yes", *ONLY)
        self._boot("updated", "updated", "580.142", SWITCH)
        self._reach("switched", "updated", "apply", "--yes", *ONLY)
        self._stop(
            "half-switched", "updated", f"libnvidia-compute-{NEW}-preinst-install all", *APPLY
        )
        self.runs["half-back"] = self.runs["switched"]
        back = (*UNDO, self.runs["switched"])
        self._stop("half-back", "switched", f"libnvidia-compute-{OLD}-preinst-install all", *back)
        for name in ("fresh", "installed", "updated", "switched", "half-switched", "half-back"):
            self.goals[name] = self.run(self.layers[name], "look")["state"]["packages"]
        self.goals["offered"] = self.goals["installed"]

    def _reach(self, name: str, start: str, *words: str) -> None:
        upper = self.upper()
        told = self.run(self.layers[start], "hosttune", *words, upper=upper)
        assert told["status"] == 0, told
        self.layers[name] = (upper, *self.layers[start])
        self.runs[name] = next(
            line.split()[1] for line in told["out"].splitlines() if line.startswith("Run ")
        )

    def _stop(self, name: str, start: str, plan: str, *words: str) -> None:
        """A run that is killed on the way: to be gone on with."""
        upper = self.upper()
        put(upper / "upper/opt/kill/plan", f"{plan}\n")
        told = self.run(self.layers[start], "hosttune", *words, upper=upper)
        assert "plan" not in told, told
        assert not _is_whole(told["state"]), told
        self.layers[name] = (upper, *self.layers[start])

    def _boot(self, name: str, start: str, version: str, text: str, *, later: bool = False) -> None:
        """What a boot leaves behind (the module is loaded and has the GPUs), and another policy."""
        upper = self.upper()
        put(upper / "upper/sys/module/nvidia/version", f"{version}\n")
        put(upper / "upper/sys/module/nvidia/taint", "OE\n")
        for slot in (self.tree / "sys/bus/pci/devices").iterdir():
            link = upper / "upper/sys/bus/pci/devices" / slot.name / "driver"
            link.parent.mkdir(parents=True)
            link.symlink_to("../../../bus/pci/drivers/nvidia")
        put(upper / "upper/etc/hosttune/policy.yaml", POLICY + text)
        if later:
            for deb in (self.tree / "archive").glob(
                "*_580.95*.deb"
            ):  # the archive has them no more, apt's cache has
                put(upper / "upper/var/cache/apt/archives" / deb.name, "")
                shutil.copy(deb, upper / "upper/var/cache/apt/archives" / deb.name)
            for one in ("Packages", "Release"):
                put(
                    upper / f"upper/archive/{one}",
                    (self.tree / "archive/later" / one).read_text(encoding="utf-8"),
                )
            told = self.run(self.layers[start], "typed", "apt-get -q update", upper=upper)
            assert told["status"] == 0, told
        self.layers[name] = (upper, *self.layers[start])

    def words(self, operation: Operation) -> tuple[str, ...]:
        return (
            operation.verb
            if operation.verb == APPLY
            else (*operation.verb, self.runs[operation.start])
        )

    def upper(self) -> Path:
        folder = self.base / f"layer-{next(self._numbers)}"
        for name in ("upper", "work", "merged"):
            (folder / name).mkdir(parents=True)
        return folder

    def run(self, layers: tuple[Path, ...], *words: str, upper: Path | None = None) -> dict:
        """One command of driver_kill_point.py on these layers, what it changes in `upper`."""
        top = upper or self.upper()
        lower = ":".join([*(str(one / "upper") for one in layers), str(self.tree)])
        options = f"lowerdir={lower},upperdir={top / 'upper'},workdir={top / 'work'}"
        merged = top / "merged"
        subprocess.run(
            ("mount", "-t", "overlay", "none", "-o", options, merged), check=True, timeout=20
        )
        try:
            done = inside(merged, "python3", "/opt/src/driver_kill_point.py", *words)
        finally:
            subprocess.run(("umount", "-l", merged), check=True, timeout=20)
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        return json.loads(done.stdout.splitlines()[-1])

    def drop(self, *uppers: Path) -> None:
        for one in uppers:
            shutil.rmtree(one, ignore_errors=True)


def tried(place: Range, point: Point) -> Ending:
    """Kill there, and judge the ending."""
    operation, ending = OPERATIONS[point.operation], Ending(point)
    start, goal = place.goals[operation.start], place.goals[operation.goal]
    killed, fixed, again, typed, back = (place.upper() for _ in range(5))
    put(killed / "upper/opt/kill/plan", f"{point.event} {point.target}\n")
    layers = place.layers[operation.start]
    first = place.run(layers, "hosttune", *place.words(operation), upper=killed)
    if "plan" in first and point.target != "fail":
        ending.left = "not reached"
        place.drop(killed, fixed, again, typed, back)
        return ending
    left = first["state"]
    layers = (killed, *layers)
    whole = _is_whole(left)
    where = (
        "as planned"
        if left["packages"] == goal
        else "as before"
        if left["packages"] == start
        else "half-way"
    )
    ending.left = f"{first['status']}; {where}{'' if whole else ': ' + _short(left)}"
    looked = place.run(layers, "hosttune", "check", *RULES)
    named = "half-way" in looked["out"] or "interrupted" in looked["out"]
    ending.check = f"{looked['status']}{' named' if named else ''}"
    if not whole or where == "half-way":
        _expect(ending, looked["status"] == 1 and named, f"check does not name it: {looked['out']}")
        _expect(ending, first["status"] != 0, f"it ended with 0: {first['out']}{first['err']}")
        told = json.loads(place.run(layers, "hosttune", "history", "--format", "json")["out"])[
            "runs"
        ]
        said = next(run["status"] for run in told if run["command"] == operation.verb[0])
        _expect(ending, said in ("half-way", "interrupted"), f"history calls it {said}")
    if point.target == "fail" and "plan" in first:
        second = place.run(layers, "hosttune", *place.words(operation))
        _expect(
            ending,
            second["status"] == 1,
            f"the second run over a failing script ended with {second['status']}",
        )
        _expect(
            ending,
            "made to fail" in first["out"],
            f"the receipt does not tell what the script said: {first['out']}",
        )
        _expect(ending, "do: " in first["out"], f"the receipt tells no way out: {first['out']}")
        _expect(
            ending,
            "takes effect at the next boot" not in first["out"],
            f"a reboot for a failure: {first['out']}",
        )
        put(fixed / "upper/opt/kill/plan", "none none\n")
        layers = (fixed, *layers)
    after = place.run(layers, "hosttune", *place.words(operation), upper=again)
    done = _is_whole(after["state"]) and after["state"]["packages"] == goal
    ending.again = f"{after['status']} {'as planned' if done else _short(after['state'])}"
    _expect(ending, after["status"] == 0 and done, f"again: {after}")
    once_more = place.run((again, *layers), "hosttune", *place.words(operation))
    if operation.verb == APPLY:
        same = once_more["state"]["packages"] == goal
        _expect(ending, once_more["status"] == 0 and same, f"once more: {once_more}")
    if not whole:
        by_hand = place.run(layers, "typed", _repair(place, layers), upper=typed)
        _expect(ending, _is_whole(by_hand["state"]), f"typed: {by_hand}")
        if by_hand["state"]["packages"] not in (start, goal):
            between = place.run((typed, *layers), "hosttune", "check", *RULES)
            _expect(
                ending,
                between["status"] == 1,
                f"nothing is left after the repair by hand: {between}",
            )
        then = place.run((typed, *layers), "hosttune", *place.words(operation))
        done = (
            then["status"] == 0 and _is_whole(then["state"]) and then["state"]["packages"] == goal
        )
        ending.typed = f"{'whole' if _is_whole(by_hand['state']) else _short(by_hand['state'])}, then {then['status']}"
        _expect(ending, done, f"after the repair by hand: {then}")
    if operation.verb == APPLY and where != "as before":
        undone = place.run(layers, "hosttune", "undo", "--yes", "--rule", "gpu-driver", upper=back)
        told = undone["state"]["packages"]
        before = (place.goals[operation.before or operation.start], place.goals["fresh"])
        ending.undone = (
            f"{undone['status']} {'as before' if told in before else _short(undone['state'])}"
        )
        _expect(ending, undone["status"] == 0 and told in before, f"undo: {undone}")
    place.drop(killed, fixed, again, typed, back)
    return ending


def _repair(place: Range, layers: tuple[Path, ...]) -> str:
    """The commands of the first way out that names dpkg or apt-get, step by step as a person types
    them.
    """
    looked = place.run(layers, "hosttune", "check", "--format", "json", *RULES)
    todos = [
        finding["todo"]
        for host in json.loads(looked["out"])["hosts"]
        for finding in host["findings"]
    ]
    todo = next((one for one in todos if "sudo dpkg " in one or "sudo apt-get " in one), "")
    steps = [
        command
        for step in steps_of(todo)
        if (command := step[step.find("sudo ") :]).startswith("sudo ")
    ]
    return "; ".join(steps).replace("sudo ", "").replace("apt-get ", "apt-get -y ")


def _is_whole(state: dict) -> bool:
    return not (state["audit"] or state["updates"] or state["apt"] or state["foreign"])


def _short(state: dict) -> str:
    rows = [
        f"{name} {status}"
        for name, (_, status) in state["packages"].items()
        if status != "installed"
    ]
    count = sum(status == "installed" for _, status in state["packages"].values())
    return ", ".join(
        [
            *rows,
            f"{count} installed",
            *([f"{state['updates']} updates"] * bool(state["updates"])),
            *state["apt"][:1],
        ]
    )


def _expect(ending: Ending, holds: bool, otherwise: str) -> None:
    if not holds:
        ending.faults.append(otherwise)


def run_points(chosen: tuple[Point, ...]) -> Iterator[Ending]:
    """Try these points in a private mount namespace, whose tmpfs holds what they leave."""
    base = Path(tempfile.mkdtemp(prefix="driver-kills-"))
    try:
        subprocess.run(
            ("mount", "-t", "tmpfs", "-o", "mode=700", "none", base), check=True, timeout=20
        )
        place = Range(base)
        place.prepare()
        for point in chosen:
            yield tried(place, point)
    finally:
        subprocess.run(("umount", "-l", base), check=False, timeout=20)
        base.rmdir()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="Points that begin so; `--list` shows them.")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--part", default="1/1", help="Every Nth of them, from the Kth: K/N.")
    args = parser.parse_args()
    chosen = (
        points()
        if args.all
        else tuple(one for one in points() if str(one).startswith(tuple(args.names)))
    )
    first, of = (int(word) for word in args.part.split("/"))
    chosen = chosen[first - 1 :: of]
    if args.list or not chosen:
        print("\n".join(map(str, chosen or points())))
        return 0
    if os.environ.get("DRIVER_KILLS") != "private":
        command = (
            "unshare",
            "--mount",
            "--propagation",
            "private",
            sys.executable,
            "-m",
            "tests.live.driver_kills",
        )
        return subprocess.run(
            (*command, *sys.argv[1:]), check=False, env={**os.environ, "DRIVER_KILLS": "private"}
        ).returncode
    failed = 0
    for ending in run_points(chosen):
        row = (
            str(ending.point),
            ending.left,
            f"check {ending.check}",
            f"again {ending.again}",
            f"typed {ending.typed}",
            f"undo {ending.undone}",
        )
        print(" | ".join(row), flush=True)
        for fault in ending.faults:
            failed += 1
            print(textwrap.indent(fault, "    FAULT "), flush=True)
    print(f"{len(chosen)} points, {failed} faults")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
