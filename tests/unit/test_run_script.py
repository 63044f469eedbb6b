"""`./run` sets itself up: tried with a stand-in for Python that writes down how it was called."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[2] / "run"
LOCK = "playbooks/packaging/lock.txt"
TESTS = "# Tests and releases only.\n"
SOURCES = "# From sources, which setuptools builds.\n"
TOOLS = ("sh", "cksum", "readlink", "rm", "mkdir", "cp", "uname")

PYTHON = """#!/bin/sh
printf '%s\\n' "$*" >>"{state}/calls"
case $* in
    *version_info*) exit 0 ;;
    *create_connection*) [ ! -e "{state}/no-route" ] || {{ echo "Network is unreachable"; exit 3; }} ;;
    *realpath*) echo "{state}/bin/python3" ;;
    *fcntl*) exec {real} "$@" ;;
    *"import venv, ensurepip"*) [ -e "{state}/has-venv" ] ;;
    *"import venv"*) exit 0 ;;
    *"import pip"*) exit 0 ;;
    *"-m venv"*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;
    *"-m pip "*--version) exit 1 ;;
    *"-m pip install "*)
        printf '%s %s\\n' "${{PIP_RETRIES-own}}" "${{PIP_DEFAULT_TIMEOUT-own}}" >>"{state}/patience"
        if [ -e "{state}/no-network" ]; then
            printf '%s\\n' "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<x at 0x7f>:" \
                " Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/hatchling/" \
                "note: one of thirty lines" >&2
            exit 1
        fi
        if [ -e "{state}/no-wheel" ]; then echo "ERROR: No matching distribution found for typer==1" >&2; exit 1; fi
        if [ -e "{state}/slow-index" ] && [ "${{PIP_RETRIES-own}}" != own ]; then
            echo "WARNING: Retrying (...) after connection broken by 'ReadTimeoutError(Read timed out. (read timeout=5))'" >&2
            exit 1
        fi
        [ ! -e "{state}/pip-is-killed" ] || {{ rm "{state}/pip-is-killed"; read -r _ _ _ run _ </proc/$PPID/stat; kill -9 $run; }}
        [ ! -e "{state}/pip-fails" ] ;;
    *) printf '<%s>' "$@"; echo; pwd ;;
esac
"""
APT_GET = """#!/bin/sh
printf '%s\\n' "$*" >>"{state}/apt"
: >"{state}/has-venv"
"""
BROKEN_SHIM = """#!/bin/sh
echo "pyenv: python3: command not found" >&2
exit 127
"""


@dataclass(frozen=True)
class Checkout:
    root: Path
    state: Path
    uid: int = 1000

    def program(self, name: str, text: str, folder: str = "bin") -> None:
        path = self.state / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(state=self.state, real=sys.executable))
        path.chmod(0o755)

    def flag(self, name: str) -> Path:
        path = self.state / name
        path.touch()
        return path

    def lines(self, name: str) -> list[str]:
        path = self.state / name
        return path.read_text().splitlines() if path.exists() else []

    def calls(self, part: str) -> list[str]:
        return [line for line in self.lines("calls") if part in line]

    def env(self) -> dict[str, str]:
        self.program("id", f"#!/bin/sh\necho {self.uid}\n")
        return {"PATH": f"{self.state}/shims:{self.state}/bin"}

    def run(
        self, *words: str, cwd: Path | None = None, script: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        argv = [str(script or self.root / "run"), *words]
        return subprocess.run(
            argv,
            cwd=cwd or self.root,
            env=self.env() | more,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def bare(tmp_path: Path) -> Checkout:
    """A checkout on a machine whose Python has neither venv nor pip."""
    checkout = Checkout(tmp_path / "check out", tmp_path / "machine")
    checkout.root.mkdir()
    shutil.copy(RUN, checkout.root)
    (checkout.root / "pyproject.toml").write_text('[project]\nname = "hosttune"\n')
    (checkout.root / LOCK).parent.mkdir(parents=True)
    (checkout.root / LOCK).write_text(
        f"typer==1 \\\n    --hash=sha256:{0:064}\n\n{TESTS}pytest==1 \\\n    --hash=sha256:{1:064}\n"
        f"\n{SOURCES}tfrecord==1 \\\n    --hash=sha256:{2:064}\n"
    )
    checkout.program("python3", PYTHON)
    checkout.program("apt-get", APT_GET)
    for tool in TOOLS:
        (checkout.state / "bin" / tool).symlink_to(shutil.which(tool))
    return checkout


@pytest.fixture
def ready(bare: Checkout) -> Checkout:
    """The same with venv, set up once."""
    bare.flag("has-venv")
    assert bare.run("check").returncode == 0
    (bare.state / "calls").unlink()
    return bare


def test_run_script_is_posix_sh_and_executable():
    shell = shutil.which("dash") or "sh"
    done = subprocess.run(
        [shell, "-n", str(RUN)], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert RUN.read_text().startswith("#!/bin/sh\n")
    assert RUN.stat().st_mode & stat.S_IXUSR


def test_run_user_without_venv_and_pip_gets_the_apt_line_and_exit_2(bare: Checkout):
    done = bare.run("check")
    assert done.returncode == 2
    assert done.stdout == ""
    assert (
        done.stderr.splitlines()[-1]
        == "sudo apt-get update && sudo apt-get install --yes python3-venv"
    )
    assert bare.lines("apt") == []


def test_run_user_without_any_python_gets_the_apt_line_and_exit_2(bare: Checkout):
    (bare.state / "bin" / "python3").unlink()
    done = bare.run("check")
    assert done.returncode == 2
    assert (
        done.stderr.splitlines()[-1]
        == "sudo apt-get update && sudo apt-get install --yes python3 python3-venv"
    )


def test_run_root_without_venv_and_pip_installs_the_package_and_goes_on(bare: Checkout):
    done = Checkout(bare.root, bare.state, uid=0).run("check")
    assert done.returncode == 0, done.stderr
    assert [line.split("install ", 1)[1] for line in bare.lines("apt")] == [
        "--yes --no-install-recommends python3-venv"
    ]
    assert done.stdout.startswith("<-I><-m><hosttune><check>")
    assert "installing python3-venv with apt-get" in done.stderr


def test_run_shim_that_does_not_answer_is_passed_over(bare: Checkout):
    bare.flag("has-venv")
    bare.program("python3", BROKEN_SHIM, folder="shims")
    done = bare.run("check")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<-I><-m><hosttune><check>")


def test_run_installs_what_the_lock_pins_by_hash_and_the_package_without_an_index(bare: Checkout):
    """Else pip fills a build environment of its own from the index, without hashes."""
    bare.flag("has-venv")
    assert bare.run("check").returncode == 0
    packages, own = bare.calls("-m pip install")
    assert packages.endswith(
        f"--require-hashes --only-binary=:all: --no-deps --requirement {bare.root}/.venv/.lock"
    )
    assert own.endswith(f"--no-index --no-deps --no-build-isolation --editable {bare.root}")
    assert (bare.root / ".venv/.lock").read_text() == (bare.root / LOCK).read_text().partition(
        TESTS
    )[0]


def test_run_builds_from_hashed_sources_what_has_no_wheel_after_the_wheels(bare: Checkout):
    bare.flag("has-venv")
    bare.run("generate")
    wheels, sources, _ = bare.calls("-m pip install")
    assert "--only-binary=:all:" in wheels
    assert sources.endswith(
        f"--require-hashes --no-binary=:all: --no-deps --no-build-isolation --requirement {bare.root}/.venv/.sources"
    )
    whole, _, last = (bare.root / LOCK).read_text().partition(SOURCES)
    assert (bare.root / ".venv/.lock").read_text() == whole
    assert (bare.root / ".venv/.sources").read_text() == SOURCES + last


def test_run_changed_lock_installs_again(ready: Checkout):
    with (ready.root / LOCK).open("a") as file:
        file.write("# changed\n")
    assert ready.run("check").returncode == 0
    assert len(ready.calls("-m pip install")) == 2


def test_run_package_that_is_not_pinned_for_this_machine_says_for_which_it_is(bare: Checkout):
    bare.flag("has-venv")
    bare.flag("no-wheel")
    done = bare.run("check")
    assert done.returncode == 2
    assert "not to be had: typer==1" in done.stderr
    assert "Python 3.10 to 3.14 on x86_64 and aarch64" in done.stderr


def test_run_words_go_to_hosttune_as_they_are(ready: Checkout):
    words = ("explain", "a b", "", "*", "--x=$HOME", "'")
    done = ready.run(*words)
    assert done.stdout.splitlines()[0] == "".join(
        f"<{word}>" for word in ("-I", "-m", "hosttune", *words)
    )


def test_run_test_words_go_to_the_rings(ready: Checkout):
    done = ready.run("test", "unit", "-k", "a b")
    assert done.stdout.splitlines()[0] == f"<-I><{ready.root}/tests/rings.py><unit><-k><a b>"
    assert "pytest==1" in (ready.root / ".venv/.lock").read_text()


@pytest.mark.parametrize("what", ["pyz", "deb", "collection"])
def test_run_builds_what_is_carried_to_other_machines(what: str, ready: Checkout):
    done = ready.run(what, "a b")
    assert done.stdout.splitlines()[0] == f"<-I><{ready.root}/playbooks/packaging/{what}.py><a b>"


@pytest.mark.parametrize(
    ("word", "module"), [("generate", "tests.generated"), ("hosts", "tests.hosts.make")]
)
def test_run_programs_of_the_checkout_get_their_words_and_where_it_lies(
    word: str, module: str, ready: Checkout
):
    done = ready.run(word, "a b")
    *_, last = done.stdout.splitlines()[:-1]
    assert last.endswith(f"<{ready.root}><{module}><a b>")
    assert bool(ready.calls("-m pip install")) == (word == "generate")  # what it needs of the tests


def test_run_warm_start_calls_python_once_and_says_nothing(ready: Checkout):
    done = ready.run("check")
    assert ready.lines("calls") == ["-I -m hosttune check"]
    assert done.stderr == ""


def test_run_check_is_warm_after_test_was_set_up(ready: Checkout):
    ready.run("test")
    (ready.state / "calls").unlink()
    ready.run("check")
    assert ready.lines("calls") == ["-I -m hosttune check"]


def test_run_changed_project_file_installs_again_into_the_same_environment(ready: Checkout):
    with (ready.root / "pyproject.toml").open("a") as file:
        file.write('version = "2"\n')
    done = ready.run("check")
    assert done.returncode == 0
    assert len(ready.calls("-m pip install")) == 2
    assert ready.calls("-m venv") == []


def test_run_moved_checkout_installs_again(ready: Checkout):
    moved = Checkout(ready.root.rename(ready.root.with_name("moved")), ready.state)
    done = moved.run("check")
    assert done.returncode == 0
    assert moved.calls("-m pip install")[1].endswith(f"--editable {moved.root}")


@pytest.mark.parametrize("before", ["fresh", "set up"])
def test_run_set_up_cut_short_is_repaired_by_the_next_start(bare: Checkout, before: str):
    bare.flag("has-venv")
    if before == "set up":
        bare.run("check")
        (bare.root / "pyproject.toml").write_text("# changed\n")
    bare.flag("pip-is-killed")
    assert bare.run("check").returncode < 0
    (bare.root / ".venv" / "half-installed").touch()
    done = bare.run("check")
    assert done.returncode == 0, done.stderr
    assert not (bare.root / ".venv" / "half-installed").exists()
    assert done.stdout.startswith("<-I><-m><hosttune><check>")


def test_run_failed_install_exits_2_keeps_the_environment_and_tries_again(ready: Checkout):
    (ready.root / "pyproject.toml").write_text("# changed\n")
    fails = ready.flag("pip-fails")
    done = ready.run("check")
    assert done.returncode == 2
    assert "pip could not install" in done.stderr
    fails.unlink()
    assert ready.run("check").returncode == 0
    assert ready.calls("-m venv") == []


def test_run_without_a_network_names_the_way_within_seconds_and_spares_the_lines_of_pip(
    bare: Checkout,
):
    bare.flag("has-venv")
    bare.flag("no-network")
    done = bare.run("check")
    assert done.returncode == 2
    assert bare.lines("patience") == ["1 5"]  # two looks of five seconds, no minute
    assert (
        "no package index answers ([Errno -3] Temporary failure in name resolution)" in done.stderr
    )
    assert "./run deb" in done.stderr
    assert "./run pyz" in done.stderr
    assert "PIP_INDEX_URL" in done.stderr
    assert "thirty lines" not in done.stderr
    assert len(done.stderr.splitlines()) <= 4


def test_run_without_a_network_says_so_before_it_makes_an_environment(bare: Checkout):
    bare.flag("has-venv")
    bare.flag("no-route")
    machine = bare.root / "run"  # this one may have a pip.conf of its own
    machine.write_text(machine.read_text().replace("/etc/", f"{bare.state}/etc/"))
    done = bare.run("check")
    assert done.returncode == 2
    assert "no package index answers (Network is unreachable)" in done.stderr
    assert "./run deb" in done.stderr
    assert "PIP_INDEX_URL" in done.stderr
    assert bare.calls("-m venv") == bare.calls("-m pip") == []
    assert not (bare.root / ".venv").exists()
    (bare.state / "etc").mkdir()
    (bare.state / "etc/pip.conf").touch()
    assert bare.run("check").returncode == 0  # whoever wrote that has an index perhaps


@pytest.mark.parametrize(
    "name", ["PIP_INDEX_URL", "PIP_FIND_LINKS", "https_proxy", "PIP_CONFIG_FILE"]
)
def test_run_does_not_second_guess_who_has_set_an_index(name: str, bare: Checkout):
    bare.flag("has-venv")
    bare.flag("no-route")
    assert bare.run("check", **{name: "x"}).returncode == 0
    assert bare.calls("create_connection") == []


def test_run_index_that_is_there_and_slow_gets_the_patience_of_pip(bare: Checkout):
    bare.flag("has-venv")
    bare.flag("slow-index")
    assert bare.run("check").returncode == 0
    assert bare.lines("patience") == ["1 5", "own own", "own own"]


def test_run_leaves_patience_to_who_has_set_it(bare: Checkout):
    bare.flag("has-venv")
    assert bare.run("check", PIP_RETRIES="9", PIP_DEFAULT_TIMEOUT="60").returncode == 0
    assert bare.lines("patience") == ["9 60", "9 60"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts: root alone may")
def test_run_read_only_checkout_says_that_it_is(tmp_path: Path):
    script = 'mount -t tmpfs -o size=1m t "$1" && cp "$2" "$3" "$1" && mkdir -p "$1/playbooks/packaging" && : >"$1/playbooks/packaging/lock.txt" && mount -o remount,ro "$1" && exec "$1/run" check'
    argv = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
        "sh",
        tmp_path,
        RUN,
        RUN.with_name("pyproject.toml"),
    ]
    done = subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path} is read-only: copy it to where you may write" in done.stderr


def test_run_checkout_of_somebody_else_says_so(bare: Checkout):
    bare.flag("has-venv")
    bare.root.joinpath(".setup.lock").mkdir()  # as little to be written as a file of another user
    done = bare.run("check")
    assert done.returncode == 2
    assert "start once as its owner" in done.stderr


def test_run_no_other_user_can_hold_its_lock(bare: Checkout):
    """flock(2) asks only for a descriptor, so who may read the file may keep each start waiting."""
    bare.flag("has-venv")
    assert bare.run("check").returncode == 0
    assert stat.S_IMODE((bare.root / ".setup.lock").stat().st_mode) == 0o600


def test_run_second_start_waits_for_the_first_and_does_not_install_twice(bare: Checkout):
    bare.flag("has-venv")
    lock = bare.root / ".setup.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        argv = [str(bare.root / "run"), "check"]
        second = subprocess.Popen(
            argv,
            cwd=bare.root,
            env=bare.env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with second:
            assert "waiting" in second.stderr.readline()
            assert bare.calls("-m venv") == []
            fcntl.flock(held, fcntl.LOCK_UN)
            out, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    assert out.startswith("<-I><-m><hosttune><check>")


def test_run_through_a_link_from_another_folder_keeps_that_folder(ready: Checkout, tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(ready.root / "run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = ready.run("check", cwd=elsewhere, script=link)
    assert done.stdout.splitlines() == ["<-I><-m><hosttune><check>", str(elsewhere)]
    assert ready.lines("calls") == ["-I -m hosttune check"]


def test_run_started_by_sh_without_a_path_works(ready: Checkout):
    done = subprocess.run(
        ["sh", "run", "check"],
        cwd=ready.root,
        env=ready.env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("<-I><-m><hosttune><check>")


def test_run_writes_only_in_its_own_folder(bare: Checkout, tmp_path: Path):
    bare.flag("has-venv")
    home = tmp_path / "home"
    home.mkdir()
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(bare.root)}
    env = {**bare.env(), "HOME": str(home), "TMPDIR": str(home)}
    subprocess.run(
        [str(bare.root / "run"), "check"],
        cwd=home,
        env=env,
        capture_output=True,
        timeout=60,
        check=True,
    )
    after = {path for path in tmp_path.rglob("*") if not path.is_relative_to(bare.root)}
    assert {path.name for path in after - before} <= {"calls", "id", "patience"}
    assert "--no-cache-dir" in bare.calls("-m pip install")[0]
    assert list(home.iterdir()) == []
