"""The .deb, installed, used, upgraded and purged by dpkg in trees of Debian 12 and 13, under chroot
in namespaces of their own. Nothing is applied: the kernel under the tree is this machine's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.debian import copied

ROOT = Path(__file__).resolve().parents[2]
BUILDER = ROOT / "playbooks/packaging/deb.py"
UNITS = "/usr/lib/systemd/system/hosttune-check"
READY = "/usr/lib/systemd/system/hosttune-ready.service"
GENERATOR = "/usr/lib/systemd/system-generators/hosttune-ready"
RUN = "var/lib/hosttune/runs/20260101T000000-1.jsonl"
METRICS = "var/lib/prometheus/node-exporter/hosttune.prom"
# What dpkg itself keeps, and what a test puts there.
NOT_OURS = re.compile(
    r"^(deb|proc|dev|sys|var/lib/dpkg|var/log|var/cache/(debconf|man)|run)(/|$)|__pycache__"
)
pytestmark = pytest.mark.live


def built(folder: Path, *words: str) -> Path:
    done = subprocess.run(
        (sys.executable, "-I", BUILDER, folder, *words),
        check=False, capture_output=True, text=True, timeout=300, env={**os.environ, "SOURCE_DATE_EPOCH": "1790000000"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """This version, and a later one whose policy file differs."""
    folder = tmp_path_factory.mktemp("debs")
    first = built(folder)
    scratch = folder / "later"
    subprocess.run(("dpkg-deb", "--raw-extract", first, scratch), check=True, timeout=60)
    control = scratch / "DEBIAN/control"
    control.write_text(
        re.sub(r"^Version: .*$", "Version: 99", control.read_text(), flags=re.MULTILINE)
    )
    policy = scratch / "etc/hosttune/policy.yaml"
    policy.write_text(policy.read_text() + "# new in this version\n")
    later = folder / "hosttune_99_all.deb"
    subprocess.run(
        ("dpkg-deb", "--root-owner-group", "--build", scratch, later),
        check=True,
        capture_output=True,
        timeout=60,
    )
    return first, later


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def tree(request, tmp_path_factory, packages):
    base = tmp_path_factory.mktemp(request.param)
    shells = ("zsh", "fish") if request.param == "trixie" else ("man-db", "groff-base")
    pages = ("--dpkgopt=path-include=/usr/share/man/*",)
    tree = copied(base / "tree", request.param, "python3", "systemd", *shells, options=pages)
    (tree / "deb").mkdir()
    for package in packages:
        shutil.copy(package, tree / "deb")
    yield tree
    shutil.rmtree(base)


def inside(tree: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the tree. Values of the kernel are read only there, so that no mistake
    changes this machine's.
    """
    script = """
        mount -t proc proc "$0/proc" && mount --bind "$0/proc/sys" "$0/proc/sys" &&
        mount -o remount,bind,ro "$0/proc/sys" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"
    """
    return subprocess.run(
        ("unshare", "--mount", "--pid", "--fork", "--propagation", "private", "sh", "-c", script, tree, *argv),
        check=False, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"},
    )  # fmt: skip


def said(tree: Path, *argv: str, status: int = 0) -> str:
    done = inside(tree, *argv)
    assert done.returncode == status, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def contents(tree: Path) -> set[str]:
    return {
        name
        for path in tree.rglob("*")
        if not NOT_OURS.search(name := path.relative_to(tree).as_posix())
    }


def check_service(tree: Path) -> list[list[str]]:
    """The command lines of the unit, with its environment filled in."""
    unit = (tree / f"{UNITS[1:]}.service").read_text()
    metrics = re.search(r"^Environment=HOSTTUNE_METRICS=(.*)$", unit, re.MULTILINE)[1]
    lines = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    return [line.replace("${HOSTTUNE_METRICS}", metrics).split() for line in lines]


def test_deb_is_installed_used_upgraded_and_purged(tree, packages):
    first, later = (f"/deb/{package.name}" for package in packages)
    before = contents(tree)

    said(tree, "dpkg", "--install", first)
    assert re.fullmatch(r"hosttune \d+\.\d+\.\d+\n", said(tree, "hosttune", "--version"))
    report = inside(tree, "hosttune", "check", "--format", "json")
    assert report.returncode == 1, report.stderr
    assert json.loads(report.stdout)["hosts"]
    assert "sudo" not in said(tree, "hosttune", "explain", "storage-noatime")
    assert list(tree.glob("usr/lib/hosttune/hosttune/__pycache__/values.*.pyc")), (
        "py3compile made no byte code"
    )

    assert not list((tree / "etc/systemd/system").rglob("hosttune*")), "the timer is on"
    assert (
        said(tree, "systemd-analyze", "verify", "--man=no", f"{UNITS}.timer", f"{UNITS}.service")
        == ""
    )
    assert said(tree, "systemd-analyze", "verify", "--man=no", READY) == ""
    assert (
        said(tree, "systemctl", "is-enabled", "hosttune-ready.service", status=1).strip()
        == "disabled"
    )
    said(tree, "systemctl", "enable", "hosttune-ready.service")
    (gate,) = (tree / "etc/systemd/system").rglob("hosttune*")
    assert gate.parent.name == "multi-user.target.wants"
    said(tree, GENERATOR, "/run", "/run", "/run")
    assert (tree / "run/slurmd.service.requires/hosttune-ready.service").is_symlink()
    (tree / "var/lib/hosttune").mkdir(mode=0o700, exist_ok=True)  # StateDirectory=
    for words in check_service(tree):
        assert inside(tree, *words).returncode == 1
    assert json.loads((tree / "var/lib/hosttune/report.json").read_text())["hosts"]
    assert "hosttune_check_timestamp_seconds" in (tree / METRICS).read_text()

    policy = tree / "etc/hosttune/policy.yaml"
    policy.write_text(policy.read_text() + "max_risk: low\n")
    said(tree, "dpkg", "--force-confdef", "--install", later)
    assert policy.read_text().endswith("max_risk: low\n")
    said(tree, "hosttune", "--version")

    armed = tree / "etc/hosttune/trial/armed"
    armed.parent.mkdir()
    armed.touch()
    assert "a run is on trial" in said(tree, "dpkg", "--remove", "hosttune", status=1)
    said(tree, "hosttune", "--version")
    shutil.rmtree(armed.parent)

    (tree / RUN).parent.mkdir(mode=0o700, exist_ok=True)
    (tree / RUN).write_text("{}\n")
    assert "hosttune undo" in said(tree, "dpkg", "--remove", "hosttune")
    assert not (tree / METRICS).exists()
    assert not list((tree / "etc/systemd/system").rglob("hosttune*"))
    assert not (tree / GENERATOR.lstrip("/")).exists(), "slurmd would never start again"
    assert policy.exists()
    wants = tree / "etc/systemd/system/timers.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "hosttune-check.timer").symlink_to(f"{UNITS}.timer")
    assert "/var/lib/hosttune/runs" in said(tree, "dpkg", "--purge", "hosttune")
    left = contents(tree) - before - {wants.relative_to(tree).as_posix()}
    assert left == {"var/lib/hosttune", "var/lib/hosttune/runs", RUN}
    assert not (wants / "hosttune-check.timer").is_symlink()
    assert before <= contents(tree)


def test_deb_that_did_nothing_leaves_nothing(tree, packages):
    shutil.rmtree(tree / "var/lib/hosttune", ignore_errors=True)
    before = contents(tree)
    said(tree, "dpkg", "--install", f"/deb/{packages[0].name}")
    said(
        tree,
        "hosttune",
        "plan",
        "--select",
        "storage-noatime",
        status=inside(tree, "hosttune", "plan").returncode,
    )
    assert "hosttune:" not in said(tree, "dpkg", "--purge", "hosttune")
    assert contents(tree) == before


def test_deb_completes_in_every_shell_and_has_a_manual_page(tree, packages):
    said(tree, "dpkg", "--install", f"/deb/{packages[0].name}")
    for words, expected in (
        (["hosttune", "expl"], "explain"),
        (["hosttune", "explain", "storage-noa"], "storage-noatime"),
        (["hosttune", "check", "--format", "=", "prom"], "prometheus"),
        (["hosttune", "check", "--disturb", "gpu"], "gpu-work"),
        (["hosttune", "rules", "list", "--sel"], "--select"),
    ):
        script = 'source /usr/share/bash-completion/completions/hosttune; COMP_WORDS=("$@"); ((COMP_CWORD = $# - 1)); _hosttune; printf "%s\\n" "${COMPREPLY[@]}"'
        assert said(tree, "bash", "-c", script, "bash", *words) == f"{expected}\n"
    if (tree / "usr/bin/fish").exists():
        asked = "complete --do-complete 'hosttune explain storage-noa'"
        assert "storage-noatime" in said(tree, "fish", "-c", asked)
        autoloaded = "autoload -Uz compinit && compinit -D && print -r -- $_comps[hosttune] && autoload +X _hosttune && print loaded"
        assert said(tree, "zsh", "-fc", autoloaded) == "_hosttune\nloaded\n"
    else:
        page = inside(
            tree, "man", "--warnings=all", "--local-file", "/usr/share/man/man8/hosttune.8.gz"
        )
        assert "hosttune check [OPTION]..." in page.stdout
        assert page.stderr == ""
    said(tree, "dpkg", "--purge", "hosttune")


def test_lintian_says_nothing_but_what_is_argued(packages):
    """What is argued stands in playbooks/packaging/debian/lintian-overrides."""
    levels = "error,warning,info,pedantic"
    done = subprocess.run(
        ("lintian", "--pedantic", "--display-info", "--fail-on", levels, "--allow-root", packages[0]),
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_same_sources_give_the_same_bytes(packages, tmp_path):
    assert built(tmp_path).read_bytes() == packages[0].read_bytes()
