"""Package sets with the real apt and dpkg, in a Debian tree of its own with a small archive of its
own.

The scenarios (package_scenarios.py) run inside the tree, under chroot in a private mount namespace:
the packages of this machine are not touched, and hosttune runs on the tree's own Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.debian import copied

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.live

NVIDIA = "580.95.05-0ubuntu1"
# name -> control fields; the names and relations of Ubuntu's driver packages, in small.
PACKAGES = {
    "nvidia-kernel-common-580-server": {"Version": NVIDIA},
    "libnvidia-compute-580-server": {"Version": NVIDIA},
    "nvidia-headless-no-dkms-580-server-open": {
        "Version": NVIDIA,
        "Depends": f"nvidia-kernel-common-580-server (= {NVIDIA}), libnvidia-compute-580-server (= {NVIDIA})",
    },
    "nvidia-utils-580-server": {"Version": NVIDIA, "Depends": "libnvidia-compute-580-server"},
    "linux-modules-nvidia-580-server-open-generic": {
        "Version": "6.8.0-45.45",
        "Depends": "nvidia-kernel-common-580-server (>= 580.95.05)",
        "Provides": f"nvidia-dkms-580-server-open (= {NVIDIA}), nvidia-prebuilt-kernel",
    },
    "nvidia-driver-535": {"Version": "535.1-1", "Depends": "nvidia-dkms-535"},
    "nvidia-dkms-535": {"Version": "535.1-1"},
    "nvidia-fabricmanager-580": {"Version": "580.82.07-1"},
    "power-tool": {"Version": "1"},
    "tuner": {"Version": "2-1", "Conflicts": "power-tool"},
    "library": {"Version": "1"},
    "needs-new-library": {"Version": "1", "Depends": "library (>= 2)"},
    "good": {"Version": "1-1", "Depends": "good-data"},
    "good-data": {"Version": "1-1"},
    "waits": {"Version": "1"},
    "breaks": {"Version": "1", "Depends": "good-data"},
    "lost": {"Version": "1"},
    "moves": {"Version": "1-1"},
    "asks": {"Version": "1", "Depends": "debconf"},
    "fills": {"Version": "1", "Depends": "good-data"},
    "kills": {"Version": "1", "Depends": "good-data"},
    "lies": {"Version": "1"},
    "slow": {"Version": "1"},
    "after-slow": {"Version": "1", "Depends": "slow"},
    # a branch in two versions, and another branch that takes its place
    "gpu-common-1": {"Version": "1.1-1"},
    "gpu-utils-1": {"Version": "1.1-1", "Depends": "gpu-common-1 (= 1.1-1)"},
    "gpu-common-2": {"Version": "2.1-1", "Conflicts": "gpu-common-1"},
    "gpu-utils-2": {
        "Version": "2.1-1",
        "Depends": "gpu-common-2 (= 2.1-1)",
        "Conflicts": "gpu-utils-1",
    },
}
POSTINST = {
    "breaks": "#!/bin/sh\necho the module could not be built >&2\nexit 1\n",
    "asks": """#!/bin/sh
set -e
test "$DEBIAN_FRONTEND" = noninteractive && test "$NEEDRESTART_SUSPEND" = 1 && test "$NEEDRESTART_MODE" = l
test "$APT_LISTCHANGES_FRONTEND" = none
test -z "$DISPLAY" && test "$(readlink /proc/self/fd/0)" = /dev/null
""",
    "slow": "#!/bin/sh\nwhile test -e /root/wait; do sleep 0.1; done\n",
    # its parent is dpkg, and the parent of that apt-get, unless somebody repairs it
    "kills": """#!/bin/sh
apt=$(cut -d ' ' -f 4 /proc/$PPID/stat)
grep -q apt-get /proc/$apt/comm || exit 0
kill -9 $apt
exit 1
""",
}
# What a second look of the archive has (apt finds it after an update).
LATER = {
    "library": {"Version": "2"},
    "moves": {"Version": "2-1"},
    "gpu-common-1": {"Version": "1.2-1"},
    "gpu-utils-1": {"Version": "1.2-1", "Depends": "gpu-common-1 (= 1.2-1)"},
}
# Bytes of a file that a package brings to /small, a file system of 1 MiB.
DATA = {"fills": 4 << 20}
SCENARIOS = (
    "installs_the_set_and_takes_it_back",
    "second_look_asks_apt_nothing",
    "refuses_to_remove_somebody_elses_package",
    "refuses_to_compile_modules_unasked",
    "refuses_two_versions_of_driver_and_fabric_manager",
    "refuses_to_change_a_held_package",
    "names_the_hold_of_packages_that_are_not_there",
    "names_the_pin_that_keeps_a_package_away",
    "upgrade_of_a_library_goes_back_with_the_set",
    "undo_stops_when_another_package_needs_it",
    "stops_when_the_archive_moved_on",
    "says_who_holds_the_lock",
    "says_how_to_repair_a_failed_postinst",
    "lost_file_leaves_everything_as_it_was",
    "unknown_package_is_unknown",
    "looking_writes_nothing",
    "asks_nobody_and_restarts_nothing",
    "success_without_the_package_is_a_failure",
    "full_disk_leaves_a_clear_message",
    "killed_apt_is_gone_on_with_in_the_same_run_and_undone",
    "killed_hosttune_is_recovered_and_undone",
    "gates_of_the_site_are_asked",
    "half_an_installed_set_is_booked_and_undone",
    "undo_after_the_repair_takes_the_set_back",
    "updates_within_the_branch_and_goes_back_without_the_archive",
    "switches_the_branch_and_goes_back",
    "old_version_that_is_nowhere_is_said_before",
)


def build(package, fields, folder: Path, scratch: Path, *, files=None, scripts=None) -> str:
    """Build one .deb with these files and maintainer scripts; returns its paragraph for the index
    of the archive.
    """
    root = scratch / package
    (root / "DEBIAN").mkdir(parents=True)
    control = {
        "Package": package,
        "Architecture": "all",
        "Maintainer": "Nobody <nobody@example.org>",
    } | fields
    text = (
        "".join(f"{key}: {value}\n" for key, value in control.items())
        + "Description: made for a test\n"
    )
    (root / "DEBIAN/control").write_text(text)
    own = {"postinst": POSTINST[package]} if package in POSTINST else {}
    for script, code in {**own, **(scripts or {})}.items():
        (root / "DEBIAN" / script).write_text(code)
        (root / "DEBIAN" / script).chmod(0o755)
    for path, content in (files or {}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    if package in DATA:
        (root / "small").mkdir()
        (root / "small" / package).write_bytes(os.urandom(DATA[package]))
    name = f"{package}_{fields['Version']}_all.deb"
    subprocess.run(
        ("dpkg-deb", "--root-owner-group", "-b", root, folder / name),
        check=True,
        capture_output=True,
        timeout=60,
    )
    shutil.rmtree(root)
    data = (folder / name).read_bytes()
    return (
        f"{text}Filename: ./{name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A Debian with apt and Python whose only archive is ours, in two states (`Packages`,
    `Packages.later`).
    """
    base = tmp_path_factory.mktemp("apt", numbered=True)
    tree = copied(base / "tree", "bookworm", "python3-minimal", "libpython3-stdlib")
    archive = tree / "archive"
    archive.mkdir()
    (tree / "small").mkdir()
    (tree / "sys/module").mkdir()  # as of a kernel without an NVIDIA module
    first = [build(name, fields, archive, base / "build") for name, fields in PACKAGES.items()]
    more = [build(name, fields, archive, base / "build") for name, fields in LATER.items()]
    (archive / "Packages").write_text("\n".join(first))
    (archive / "Packages.later").write_text("\n".join(first + more))
    (archive / "lost_1_all.deb").unlink()
    for folder in (tree / "etc/apt/sources.list.d", tree / "var/lib/apt/lists"):
        shutil.rmtree(folder)
        folder.mkdir()
    (tree / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/archive ./\n")
    shutil.copytree(
        ROOT / "hosttune",
        tree / "opt/src/hosttune",
        ignore=shutil.ignore_patterns("__pycache__", ".*"),
    )
    shutil.copy(HERE / "package_scenarios.py", tree / "opt/src")
    inside(tree, "apt-get", "-q", "update")
    yield tree
    shutil.rmtree(base)


def inside(tree: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program under chroot, with /proc and /dev in a mount namespace that ends with it."""
    script = """
        mount -t proc proc "$0/proc" 2>/dev/null || mount --rbind /proc "$0/proc"
        mount -t tmpfs -o size=1m none "$0/small" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"
    """
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": "/opt/src",
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    return subprocess.run(
        ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, tree, *argv),
        check=False, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL,
        env=env,
    )  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_in_a_tree_of_its_own_passes(name, tree):
    done = inside(tree, "python3", "/opt/src/package_scenarios.py", name)
    assert done.returncode == 0, done.stdout + done.stderr
