"""Runs the linters and the test rings for `./run test`, side by side, then a table says how they
went.

A ring is a folder of tests/ and what it needs of the machine. It is one pytest call, or one for
each of its files. Exit status: 0 all passed, 1 something failed, 2 a ring that was asked for could
not run, or a wrong word.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import IO

from tests.cache import cache_folder
from tests.costs import CAP_S, TABLE, UNKNOWN_S, dump_costs, read_costs, share_out, sum_file_costs

ROOT = Path(__file__).resolve().parent.parent
PATH = os.pathsep.join(
    [os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"]
)
GRACE_S = 30  # for fixtures to unmount and to end their guests
FOLDER_OF_CALL = "HOSTTUNE_TESTS_FOLDER"  # where rings put what others of the same call can use

USAGE = """\
usage: ./run test                    two minutes: the linters, and of the short rings what finds most faults
       ./run test whole              the linters and every ring this machine carries as it is, all of their cases
       ./run test all                installs what the other rings need (as root, by apt-get) and skips none
       ./run test touched            a minute: lint of what differs from the last commit, then tests that can reach it
       ./run test NAME... [ARGS]     these only, whole, with more words for pytest
       ./run test PATH|-OPTION...    one pytest call with these words
       ./run test costs              measures what each test takes, for the choice of the first and the fourth
names: {names}
"""


def why_no_loop_devices() -> str:
    return "" if Path("/dev/loop-control").exists() else "no loop devices: modprobe loop"


def why_no_network_namespace() -> str:
    if shutil.which("ip", path=PATH) is None or os.geteuid() != 0:
        return ""
    name = f"htf{os.getpid()}try"
    done = subprocess.run(
        ["ip", "netns", "add", name], check=False, capture_output=True, text=True, timeout=20
    )
    if done.returncode != 0:
        return f"no network namespace ({done.stderr.strip()}): leave the chroot, or give the container CAP_SYS_ADMIN"
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True, timeout=20)
    return ""


def why_no_mount_namespace() -> str:
    unshare = shutil.which("unshare", path=PATH)
    if unshare is None or os.geteuid() != 0:
        return ""
    done = subprocess.run(
        [unshare, "--mount", "true"], check=False, capture_output=True, text=True, timeout=20
    )
    if done.returncode == 0:
        return ""
    return f"no private mount namespace ({done.stderr.strip()}): leave the chroot, or give the container CAP_SYS_ADMIN"


@dataclass(frozen=True)
class Ring:
    """`packages` maps a program, or the absolute path of a file, to the Debian package that brings
    it.

    A long ring takes more than a few minutes, so it runs only by name or with `all`. `limit_s` only
    ends a hang: it is several times what the longest of its parts takes on two cores.

    A ring that computes is `spread` over the cores by pytest-xdist, or goes by `shares` of its
    files, each a pytest call of its own; one that waits for guests and servers goes `by_file`: its
    files share nothing but the cache.

    `./run test` takes the cases of a `quick` ring that fit into CAP_S.
    """

    name: str
    about: str
    limit_s: int = 900
    is_long: bool = False
    is_spread: bool = False
    is_by_file: bool = False
    is_quick: bool = True
    shares: int = 1
    needs_root: bool = False
    packages: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    checks: tuple[Callable[[], str], ...] = ()

    def missing_packages(self) -> tuple[str, ...]:
        missing = {
            package
            for needed, package in self.packages.items()
            if not (
                Path(needed).exists() if needed.startswith("/") else shutil.which(needed, path=PATH)
            )
        }
        return tuple(sorted(missing))

    def parts(self, shares: int = 0, cap_s: float | None = None) -> dict[str, tuple[str, ...]]:
        """What pytest is called with, by the name of the part. `shares` takes the place of the
        ring's own.
        """
        files = [
            f"tests/{self.name}/{path.name}"
            for path in sorted((ROOT / "tests" / self.name).glob("test_*.py"))
        ]
        if self.is_by_file:
            return {path.removeprefix("tests/"): (path,) for path in files}
        shares = min(shares or self.shares, len(files))
        if shares < 2:
            return {self.name: (f"tests/{self.name}",)}
        known = sum_file_costs(read_costs(), cap_s)
        lists = share_out({path: known.get(path, UNKNOWN_S) for path in files}, shares)
        return {
            f"{self.name}/{place} of {shares}": tuple(paths) for place, paths in enumerate(lists, 1)
        }

    def why_not(self) -> str:
        """Say why the ring cannot run here and what would let it; nothing when it can."""
        reasons = []
        if missing := self.missing_packages():
            reasons.append(f"needs packages: apt-get install {' '.join(missing)}")
        if self.needs_root and os.geteuid() != 0:
            reasons.append(f"needs root: sudo ./run test {self.name}")
        reasons += [reason for check in self.checks if (reason := check())]
        return "; ".join(reasons)


TREE = {
    "mmdebstrap": "mmdebstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "mkfs.ext4": "e2fsprogs",
}

RINGS = (
    Ring("unit", "values in, values out", limit_s=1800, shares=2),
    Ring("rules", "every rule on its cases and on every built host", is_spread=True),
    Ring("golden", "exact report text"),
    Ring("rooted", "a temporary tree as the root, with files of root's in it", needs_root=True),
    Ring(
        "gpu",
        "NVIDIA's own bindings on a library of ours, and an nvidia-smi of ours",
        packages={"cc": "gcc", "/usr/include/stdio.h": "libc6-dev"},
    ),
    Ring(
        "install",
        "wheel, sdist, editable install and checkout; a release",
        is_quick=False,
        packages={"git": "git", "dpkg-deb": "dpkg", "sha256sum": "coreutils"},
    ),
    Ring(
        "live",
        "loop devices, real mounts, apt and dpkg in a private tree",
        limit_s=2700,
        is_long=True,
        needs_root=True,
        packages={
            **TREE,
            "unshare": "util-linux",
            "losetup": "mount",
            "setfacl": "acl",
            "setfattr": "attr",
            "strace": "strace",
            "modprobe": "kmod",
            "perl": "perl",
            "su": "util-linux",
            "systemd-analyze": "systemd",
            "mkfs.xfs": "xfsprogs",
            "mkfs.btrfs": "btrfs-progs",
            "lintian": "lintian",
            "packer": "packer",
            "promtool": "prometheus",
            "apt-ftparchive": "apt-utils",
            "gpg": "gnupg",
            "autopkgtest": "autopkgtest",
        },
        checks=(why_no_loop_devices, why_no_mount_namespace),
    ),
    Ring(
        "vm",
        "Debian guests under qemu: apply, reboot, undo, power cuts",
        limit_s=2400,
        is_long=True,
        is_by_file=True,
        needs_root=True,
        packages={
            **TREE,
            "qemu-system-x86_64": "qemu-system-x86",
            "qemu-img": "qemu-utils",
            "mkfs.xfs": "xfsprogs",
            "mkfs.btrfs": "btrfs-progs",
            "sfdisk": "fdisk",
            "apt-ftparchive": "apt-utils",
            "xorrisofs": "xorriso",
            "lvcreate": "lvm2",
            "grub-script-check": "grub-common",
        },
        checks=(why_no_loop_devices, why_no_mount_namespace),
    ),
    Ring(
        "fleet",
        "servers with sshd in network namespaces, and real ansible-playbook",
        limit_s=2400,
        is_long=True,
        is_by_file=True,
        needs_root=True,
        packages={
            **TREE,
            "ip": "iproute2",
            "losetup": "mount",
            "nsenter": "util-linux",
            "setpriv": "util-linux",
            "ssh": "openssh-client",
        },
        checks=(why_no_loop_devices, why_no_mount_namespace, why_no_network_namespace),
    ),
)
LINTERS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
)
NAMES = ("lint", *(ring.name for ring in RINGS))
# Parts of rings; the others come last. live and rooted first: they wait most, beside what computes.
LONGEST_FIRST = (
    "live", "rooted", "vm/test_cloud_init.py", "vm/test_data_disks.py", "vm/test_main_job.py", "vm/test_ready.py",
    "vm/test_support.py",
    "vm/test_come_back.py", "vm/test_ansible_trial.py", "vm/test_bare.py", "unit", "vm/test_profile.py",
    "fleet/test_faults.py", "fleet/test_fleet.py", "fleet/test_rollout.py", "rules", "vm/test_power_cut.py",
    "vm/test_watch.py", "fleet/test_targets.py", "fleet/test_trial.py", "fleet/test_cut_off.py", "fleet/test_content.py", "install",
    "vm/test_next_boot.py", "vm/test_timer.py", "vm/test_one_shot.py", "fleet/test_hostile_host.py", "fleet/test_words.py",
    "vm/test_initramfs.py", "vm/test_udev.py", "vm/test_guest.py", "vm/test_newest.py",
)  # fmt: skip
CORES = len(os.sched_getaffinity(0))
GUEST_GIB = 4  # of memory for a lane: a guest, what is kept of its disks, and pytest
# Each lane has a part of its own, and there is one more than cores: while one waits for a guest or
# a server, others compute.
LANES = max(
    2, min(CORES + 1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (GUEST_GIB << 30))
)


@dataclass(frozen=True)
class Outcome:
    name: str
    result: str  # passed | failed | not run
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""


running: set[subprocess.Popen[bytes]] = set()


def run_limited(argv: Sequence[str], limit_s: int, output: IO[bytes] | None = None) -> int | None:
    """Return the exit status, or None when the command ran past its limit. It gets a session of its
    own, so that whatever it started can be ended with it. What it prints goes to `output`, or where
    ours goes.
    """
    child = subprocess.Popen(
        argv,
        cwd=ROOT,
        env=environment(),
        start_new_session=True,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
    )
    running.add(child)
    try:
        return child.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        running.discard(child)
        end_group(child)


@cache
def folder_of_call() -> Path:
    """For what the rings of one call share, taken away at its end."""
    folder = tempfile.mkdtemp(prefix="hosttune-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def folder_of_bytecode() -> Path:
    """Kept from call to call beside what else tests keep, except for what they write themselves:
    compiling hosttune and all tests takes as long as a tenth of them. Of the call only, where
    another user could exchange it: hosttune refuses that.
    """
    folder = cache_folder() / "bytecode"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owners = {path.stat().st_uid for path in (folder, *folder.parents)}
    except OSError:
        owners = {-1}
    if not owners <= {0, os.geteuid()}:
        return folder_of_call() / "bytecode"
    os.utime(folder)  # used today
    own = folder.joinpath(*Path(tempfile.gettempdir()).resolve().parts[1:])
    if not ROOT.is_relative_to(tempfile.gettempdir()):
        atexit.register(shutil.rmtree, own, ignore_errors=True)
    return folder


def environment() -> dict[str, str]:
    # Byte code: the rings start hosttune some thousand times, and compiling it is half of what a
    # start takes. The checkout gets none of it.
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    own = {"PYTHONPYCACHEPREFIX": str(folder_of_bytecode()), FOLDER_OF_CALL: str(folder_of_call())}
    return {**kept, **own, "PATH": PATH}


def end_group(child: subprocess.Popen[bytes]) -> None:
    for signum in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(child.pid, signum)
        except ProcessLookupError:
            return
        try:
            child.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def headline(text: str) -> None:
    print(f"\n== {text}", flush=True)


def run_linters(output: IO[bytes] | None = None) -> Outcome:
    begin = time.monotonic()
    failed = []
    for words in LINTERS:
        if output is None:
            headline(" ".join(words))
        if run_limited([sys.executable, "-m", *words], 900, output) != 0:
            failed.append(" ".join(words))
    return Outcome(
        "lint",
        "failed" if failed else "passed",
        passed=len(LINTERS) - len(failed),
        failed=len(failed),
        seconds=time.monotonic() - begin,
        note=", ".join(failed),
    )


def run_ring(
    ring: Ring,
    words: Sequence[str],
    *,
    may_skip: bool,
    output: IO[bytes] | None = None,
    part: str = "",
    paths: Sequence[str] = (),
) -> Outcome:
    """One pytest call: of the paths of a part of the ring, or with words for pytest of all of
    it.
    """
    part = part or ring.name
    if output is None:
        headline(f"{part}: {ring.about}")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hosttune-rings-") as scratch:
        report = Path(scratch) / "junit.xml"
        # No cache: one that root wrote makes pytest warn when a user comes after, and a warning is
        # an error here.
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            f"faulthandler_timeout={ring.limit_s // 2}",
        ]
        # More words are from somebody who looks at a few tests, maybe with a debugger.
        options += (
            ["-n", str(CORES), "--dist", "worksteal"]
            if ring.is_spread and CORES > 1 and not words
            else []
        )
        paths = paths or [f"tests/{ring.name}"]
        argv = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *paths, *words]
        status = run_limited(argv, ring.limit_s, output)
        passed, failed, skipped = counts(report)
    notes = []
    if status is None:
        notes.append(f"stopped after {ring.limit_s // 60} minutes")
    elif passed + failed + skipped == 0:
        notes.append("no test ran")
    if skipped and not may_skip:
        notes.append(f"{skipped} skipped, where none may be")
    if notes or status != 0:
        failed = max(failed, 1)
    result = "failed" if failed else "passed"
    return Outcome(
        part, result, passed, failed, skipped, time.monotonic() - begin, "; ".join(notes)
    )


def merged(name: str, parts: Sequence[Outcome]) -> Outcome:
    """The outcome of a ring from those of its parts; its seconds are those that the lanes spent on
    it.
    """
    if len(parts) == 1:
        return replace(parts[0], name=name)
    failed = [one for one in parts if one.result == "failed"]
    return Outcome(
        name,
        "failed" if failed else "passed",
        passed=sum(one.passed for one in parts),
        failed=sum(one.failed for one in parts),
        skipped=sum(one.skipped for one in parts),
        seconds=sum(one.seconds for one in parts),
        note="; ".join(
            f"{one.name.partition('/')[2]}{': ' if one.note else ''}{one.note}" for one in failed
        ),
    )


def counts(report: Path) -> tuple[int, int, int]:
    """Return how many tests passed, failed and were skipped, from pytest's JUnit report."""
    if not report.exists():
        return 0, 0, 0
    total = failed = skipped = 0
    for suite in ET.parse(report).getroot().iter("testsuite"):
        total += int(suite.get("tests", "0"))
        failed += int(suite.get("failures", "0")) + int(suite.get("errors", "0"))
        skipped += int(suite.get("skipped", "0"))
    return max(total - failed - skipped, 0), failed, skipped


def install_packages() -> None:
    """Install what any ring lacks. What cannot be installed shows afterwards, as the ring's
    reason.
    """
    missing = sorted({package for ring in RINGS for package in ring.missing_packages()})
    if not missing or os.geteuid() != 0 or shutil.which("apt-get", path=PATH) is None:
        return
    headline(f"apt-get install {' '.join(missing)}")
    env = {**os.environ, "PATH": PATH, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
    install = [*apt, "install", "--yes", "--no-install-recommends", *missing]
    for argv in (install, [*apt, "update"], install):
        done = subprocess.run(argv, check=False, env=env, stdin=subprocess.DEVNULL, timeout=1800)
        if argv is install and done.returncode == 0:
            return


def run_rings(
    names: Sequence[str],
    words: Sequence[str],
    *,
    required: bool,
    skip_none: bool,
    cap_s: float | None = None,
) -> list[Outcome]:
    """Run the named rings, side by side in lanes, the longest parts first; what each prints comes
    when it ends, that of a single one at once. `required` makes a ring that cannot run a failure,
    else it only says why. With `cap_s`, of each test only as many cases as fit into these processor
    seconds.
    """
    outcomes: dict[str, Outcome] = {}
    jobs: dict[str, Callable[[IO[bytes] | None], Outcome]] = (
        {"lint": run_linters} if "lint" in names else {}
    )
    abouts = {"lint": "linters and types"}
    for ring in (ring for ring in RINGS if ring.name in names):
        reason = ring.why_not()
        if not reason and ring.is_long and not required:
            reason = f"takes longer than a few minutes: ./run test {ring.name}"
        if not reason and cap_s is not None and not ring.is_quick:
            reason = f"takes about a minute: ./run test {ring.name}"
        if reason:
            outcomes[ring.name] = Outcome(ring.name, "not run", failed=int(required), note=reason)
            continue
        if cap_s is not None:  # each part computes, and has a core of its own
            one, shares = (
                replace(ring, is_spread=False),
                CORES if ring.shares > 1 or ring.is_spread else 1,
            )
            parts, words_of = one.parts(shares, cap_s), [f"--cap-s={cap_s}", *words]
        else:
            one, parts, words_of = ring, {ring.name: ()} if words else ring.parts(), [*words]
        for part, paths in parts.items():
            jobs[part] = partial(_run_part, one, words_of, part, paths, may_skip=not skip_none)
            abouts[part] = ring.about
    ended = {name: Outcome(name, "failed", failed=1, note="broke off: see above") for name in jobs}
    if len(jobs) == 1:
        ((name, job),) = jobs.items()
        ended[name] = job(None)
    else:
        ended |= run_side_by_side(jobs, abouts)
    for ring_name in {name.partition("/")[0] for name in ended}:
        outcomes[ring_name] = merged(
            ring_name, [one for name, one in ended.items() if name.partition("/")[0] == ring_name]
        )
    return [outcomes[name] for name in NAMES if name in outcomes]


def _run_part(
    ring: Ring,
    words: Sequence[str],
    part: str,
    paths: Sequence[str],
    output: IO[bytes] | None,
    *,
    may_skip: bool,
) -> Outcome:
    return run_ring(ring, words, may_skip=may_skip, output=output, part=part, paths=paths)


def run_side_by_side(
    jobs: Mapping[str, Callable[[IO[bytes] | None], Outcome]], abouts: Mapping[str, str]
) -> dict[str, Outcome]:
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    waiting = sorted(
        jobs, key=lambda name: places.get(name, places.get(name.partition("/")[0], len(places)))
    )
    outcomes: dict[str, Outcome] = {}
    printing = threading.Lock()

    def run_lane() -> None:
        while True:
            try:
                name = waiting.pop(0)
            except IndexError:
                return
            with tempfile.TemporaryFile() as output:
                outcomes[name] = jobs[name](output)
                output.seek(0)
                with printing:
                    headline(f"{name}: {abouts[name]}")
                    sys.stdout.write(output.read().decode("utf-8", "replace"))
                    sys.stdout.flush()

    headline(f"side by side, each printed when it ends: {' '.join(waiting)}")
    lanes = [threading.Thread(target=run_lane, daemon=True) for _ in range(LANES)]
    try:
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
    finally:
        waiting.clear()
        for child in tuple(running):
            end_group(child)
    return outcomes


def summary(outcomes: Sequence[Outcome]) -> str:
    lines = [
        "",
        f"{'ring':8} {'result':8} {'passed':>6} {'failed':>6} {'skipped':>7} {'seconds':>7}",
    ]
    for one in outcomes:
        figures = f"{one.passed:6} {one.failed:6} {one.skipped:7} {one.seconds:7.1f}"
        if one.result == "not run":
            figures = f"{'-':>6} {'-':>6} {'-':>7} {'-':>7}"
        lines.append(f"{one.name:8} {one.result:8} {figures}  {one.note}".rstrip())
    passed, failed, skipped = (
        sum(getattr(one, key) for one in outcomes) for key in ("passed", "failed", "skipped")
    )
    lines += [
        "",
        f"{'FAIL' if failed else 'PASS'}: {passed} passed, {failed} failed, {skipped} skipped",
    ]
    return "\n".join(lines)


def run_touched() -> int:
    """The exit status of the linters on what differs from the last commit, and of the tests that
    can reach it. Types are checked beside the tests: mypy follows the imports.
    """
    from tests.touched import choose_tests, list_changed

    changed = list_changed()
    choice = choose_tests(changed)
    modules = [name for name in changed if name.endswith(".py") and (ROOT / name).exists()]
    for words in (("ruff", "check"), ("ruff", "format", "--check")) if modules else ():
        headline(" ".join(words))
        if run_limited([sys.executable, "-m", *words, *modules], 900) != 0:
            return 1
    jobs: dict[str, Callable[[IO[bytes] | None], Outcome]] = {
        "near": partial(_run_chosen, "near", choice.near)
    }
    if choice.far:
        jobs["far"] = partial(_run_chosen, "far", [f"--cap-s={CAP_S}", *choice.far])
    if choice.rules:
        cases = ["tests/rules/test_cases.py", "-k", " or ".join(choice.rules)]
        jobs["rules"] = partial(_run_chosen, "rules", cases)
    if modules:
        jobs["types"] = _check_types
    outcomes = run_side_by_side(jobs, dict.fromkeys(jobs, "what can reach the change"))
    print(summary([outcomes[name] for name in jobs]))
    if choice.left:
        print(f"{choice.left} more files of tests import what imports it: ./run test")
    return int(
        any(one.result == "failed" for one in outcomes.values()) or len(outcomes) < len(jobs)
    )


def _run_chosen(name: str, words: Sequence[str], output: IO[bytes] | None) -> Outcome:
    ring = Ring(name, "", limit_s=900)
    return run_ring(ring, ["--maxfail=5"], may_skip=True, output=output, paths=words)


def _check_types(output: IO[bytes] | None) -> Outcome:
    begin = time.monotonic()
    failed = int(run_limited([sys.executable, "-m", "mypy"], 900, output) != 0)
    return Outcome(
        "types",
        "failed" if failed else "passed",
        1 - failed,
        failed,
        seconds=time.monotonic() - begin,
    )


def measure_costs() -> int:
    """Run the short rings whole, and write what each test took; the exit status."""
    with tempfile.TemporaryDirectory(prefix="hosttune-costs-") as folder:
        names = [ring.name for ring in RINGS if not ring.is_long]
        outcomes = run_rings(names, [f"--measure={folder}"], required=True, skip_none=False)
        print(summary(outcomes), flush=True)
        measured: dict[str, list[float]] = {}
        for path in sorted(Path(folder).iterdir()):
            for case, seconds in json.loads(path.read_text(encoding="utf-8")).items():
                measured.setdefault(case.partition("[")[0], []).append(seconds)
    if any(one.result != "passed" for one in outcomes):
        return 1
    TABLE.write_text(dump_costs(measured), encoding="utf-8")
    return 0


def absolute(word: str) -> str:
    """Make a test path absolute (a test id may follow it), so that it holds from any folder."""
    path, colons, test = word.partition("::")
    for folder in (Path.cwd(), ROOT):
        if not word.startswith("-") and (folder / path).exists():
            return f"{folder / path}{colons}{test}"
    return word


def main(words: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = []
    rest = list(words)
    while rest and rest[0] in NAMES:
        names.append(rest.pop(0))
    if not names and rest in (["touched"], ["costs"]):
        return run_touched() if rest == ["touched"] else measure_costs()
    if not names and rest and rest not in (["all"], ["whole"]):
        first = absolute(rest[0])
        if first == rest[0] and (not first.startswith("-") or first in ("-h", "--help")):
            wrong = (
                [] if first in ("-h", "--help") else [f"./run test: no ring and no path: {first}"]
            )
            print(*wrong, USAGE.format(names=" ".join(NAMES)), sep="\n", end="", file=sys.stderr)
            return 2 if wrong else 0
        argv = [sys.executable, "-m", "pytest", *map(absolute, rest)]
        os.chdir(ROOT)
        os.execv(sys.executable, argv)
    everything = rest == ["all"] and not names
    cap_s = None if names or rest else CAP_S
    if everything:
        install_packages()
    if not names:
        rest = []
    required = everything or bool(names)
    words = [absolute(word) for word in rest]
    outcomes = run_rings(
        names or NAMES, words, required=required, skip_none=everything, cap_s=cap_s
    )
    print(summary(outcomes), flush=True)
    if any(one.result == "failed" for one in outcomes):
        return 1
    return 2 if any(one.failed for one in outcomes) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
