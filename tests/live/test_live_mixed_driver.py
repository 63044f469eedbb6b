"""The way out of a driver of two versions, by the apt of this machine over archives that stand in:
each command that is said does what it says. Nothing but a folder of the test is touched, and apt
only simulates.
"""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from hosttune.choices.driver_states.mixed import other_versions
from hosttune.facts import Facts
from hosttune.facts.gpu.archives import POLICY
from tests.unit.fake_reader import FakeReader

pytestmark = pytest.mark.live
OLD, NEW, OTHER = "580.105.08-1ubuntu1", "580.142-0ubuntu0.24.04.1", "590.44.01-1ubuntu1"
LOADED = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  (dvs)\n"
)
FIRMWARE = f"nvidia-firmware-580-{NEW.partition('-')[0]}"


def needs_of(version):
    """A driver of branch 580 in one version: package -> what it needs. The new one needs a package
    that is not there.
    """
    library = f"libnvidia-compute-580 (= {version})"
    return {
        "libnvidia-cfg1-580": "", "libnvidia-compute-580": "", "nvidia-kernel-common-580": FIRMWARE if version == NEW else "",
        "nvidia-dkms-580-open": f"nvidia-kernel-common-580 (= {version})",
        "nvidia-driver-580-open": f"{library}, libnvidia-cfg1-580 (= {version}), nvidia-dkms-580-open (= {version})",
    }  # fmt: skip


def stanza(name, version, needs="", status=""):
    depends, state = f"Depends: {needs}\n" * bool(needs), f"Status: {status}\n" * bool(status)
    file = "" if status else f"Filename: ./{name}.deb\nSize: 1\nSHA256: {'0' * 64}\n"
    return f"Package: {name}\n{state}Architecture: amd64\nMaintainer: x <x@x>\nVersion: {version}\n{depends}{file}Description: x\n\n"


class Apt:
    def __init__(self, folder, has_old):
        self.root, self.status = folder / "root", folder / "root/var/lib/dpkg/status"
        for name in (
            "etc/apt/preferences.d",
            "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial",
            "var/lib/dpkg",
        ):
            (self.root / name).mkdir(parents=True)
        archives = {
            "Ubuntu": "".join(stanza(n, NEW, d) for n, d in needs_of(NEW).items()) + stanza(FIRMWARE, NEW),
            "NVIDIA": "".join(stanza(n, OLD, d) for n, d in needs_of(OLD).items()) * has_old
            + stanza("libnvidia-compute", "610.57.04-1ubuntu1", "libnvidia-cfg1") + stanza("libnvidia-cfg1", "610.57.04-1ubuntu1"),
        }  # fmt: skip
        for origin, packages in archives.items():
            (folder / origin).mkdir()
            (folder / origin / "Packages").write_text(packages)
            (folder / origin / "Release").write_text(f"Origin: {origin}\nSuite: noble\n")
        lines = "".join(f"deb [trusted=yes] file:{folder}/{origin} ./\n" for origin in archives)
        (self.root / "etc/apt/sources.list").write_text(lines)
        there = {**needs_of(OLD), "libnvidia-compute": f"libnvidia-cfg1 (= {OTHER})"}
        del there["libnvidia-compute-580"]
        rows = (
            stanza(n, OTHER if n == "libnvidia-compute" else OLD, d, "install ok installed")
            for n, d in there.items()
        )
        self.status.write_text(stanza("dpkg", "1.22", "", "install ok installed") + "".join(rows))
        assert self.run("apt-get", "update").returncode == 0

    def run(self, program, *words):
        options = (
            f"Dir={self.root}",
            f"Dir::State::status={self.status}",
            "APT::Architecture=amd64",
            "APT::Sandbox::User=root",
        )
        own = [word for one in options for word in ("-o", one)]
        return subprocess.run([program, *own, *words], capture_output=True, text=True, timeout=60, check=False, env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"})  # fmt: skip

    def facts(self):
        names = re.findall(r"(?m)^Package: (.*nvidia.*)$", self.status.read_text())
        asked = ((), tuple(sorted(names)), ("libnvidia-compute-580",))
        answers = {(*POLICY, *one): self.run("apt-cache", "policy", *one).stdout for one in asked}
        files = {
            "/var/lib/dpkg/status": self.status.read_text(),
            "/proc/driver/nvidia/version": LOADED,
        }
        return Facts(FakeReader(files, queries=answers))

    def removes(self, names):
        rows = self.status.read_text().split("\n\n")
        gone = {f"Package: {name}" for name in names}
        self.status.write_text(
            "\n\n".join(row for row in rows if row.partition("\n")[0] not in gone)
        )


@pytest.mark.parametrize("has_old", [True, False])
def test_driver_of_two_versions_becomes_one_by_what_is_said(tmp_path, has_old):
    apt = Apt(tmp_path, has_old)
    assert "Unmet dependencies" in apt.run("apt-get", "check").stderr
    said, way = other_versions(apt.facts())
    assert f"libnvidia-compute needs libnvidia-cfg1 (= {OTHER})" in said
    assert ("sudo apt-get remove" in way) is not has_old
    brought = {}
    for words in map(shlex.split, re.findall(r"sudo (apt-get (?:install|remove) .+)", way)):
        ended = apt.run(words[0], "-s", *words[1:])
        assert ended.returncode == 0, f"{words}: {ended.stdout}{ended.stderr}"
        apt.removes(re.findall(r"(?m)^Remv (\S+)", ended.stdout))
        brought |= dict(re.findall(r"(?m)^Inst (\S+) (?:\[\S+\] )?\((\S+)", ended.stdout))
    wanted = (
        {"libnvidia-compute-580": OLD}
        if has_old
        else dict.fromkeys((*needs_of(NEW), FIRMWARE), NEW)
    )
    assert brought == wanted
    assert "Package: libnvidia-compute\n" not in apt.status.read_text()
