"""hosttune-ready.service and hosttune-continue.service: what waits for them and requires them, in
one list; how they end. Whether systemd finds a circle in it stands in
tests/live/test_live_gate_order.py.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hosttune.facts.containers.kubernetes import DAEMONS
from hosttune.rendering import render

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "playbooks/packaging/debian"
READY = (DEBIAN / "hosttune-ready.service").read_text()
GENERATOR = DEBIAN / "hosttune-ready.generator"
REQUIRING = [
    f"{name}.service"
    for name in GENERATOR.read_text().partition("for agent in ")[2].partition(";")[0].split()
    if name != "\\"
]
CONTINUE = render("hosttune-continue.service.j2", command="/usr/bin/hosttune ready --go-on")
ENGINES = {"containerd.service", "docker.service", "crio.service"}
ENGINES |= {unit for unit, daemon in DAEMONS.items() if daemon == "containerd"}
BOTH = pytest.mark.parametrize("text", [READY, CONTINUE], ids=["ready", "continue"])


def words(text: str, key: str) -> list[str]:
    return [
        word
        for line in text.splitlines()
        if line.startswith(f"{key}=")
        for word in line.partition("=")[2].split()
    ]


def seconds(text: str, key: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(min|s)", words(text, key)[0]).groups()
    return int(number) * {"min": 60, "s": 1}[unit]


def test_all_that_takes_work_requires_the_gate_and_waits_for_it():
    assert len(set(REQUIRING)) == len(REQUIRING)
    assert {"slurmd.service", *DAEMONS} - ENGINES < set(REQUIRING)
    assert set(words(READY, "Before")) == {*REQUIRING, *ENGINES}
    assert not ENGINES & set(REQUIRING)


@pytest.mark.parametrize("place", ["etc", "run"])
def test_node_agents_require_the_gate_while_it_is_enabled_and_enabling_makes_one_link(
    place, tmp_path
):
    assert words(READY, "WantedBy") == ["multi-user.target"]
    assert words(READY, "RequiredBy") == []
    script = GENERATOR.read_text().replace("in /etc /run", f"in {tmp_path}/etc {tmp_path}/run")
    made = tmp_path / "made"
    made.mkdir()

    def generated() -> set[str]:
        subprocess.run(["sh", "-c", script, "generator", made, made, made], timeout=20, check=True)
        return {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_symlink()}

    assert generated() == set()
    wants = tmp_path / place / "systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "hosttune-ready.service").symlink_to("/usr/lib/systemd/system/hosttune-ready.service")
    assert generated() == {f"{name}.requires/hosttune-ready.service" for name in REQUIRING}
    assert generated()  # a second time in the same folder


def test_what_goes_on_after_a_boot_does_so_before_the_gate_and_all_that_waits_for_it():
    assert words(CONTINUE, "Before") == ["hosttune-ready.service", *words(READY, "Before")]
    assert words(CONTINUE, "After") == words(READY, "After")
    assert words(CONTINUE, "RequiredBy") == []


def test_the_page_names_each_of_them():
    page = (ROOT / "docs/how-to/provisioning.md").read_text()
    assert [name for name in REQUIRING if f"`{name.removesuffix('.service')}`" not in page] == []


@BOTH
def test_nothing_holds_a_boot_for_ever(text):
    """Its own times (systemd counts ExecStartPre= apart), that in which it ends, those of the unit
    before the gate, and a quarter of an hour for what it waits for, within that of its job.
    """

    def own(unit: str) -> int:
        return 300 + seconds(unit, "TimeoutStartSec") + seconds(unit, "TimeoutStopSec")

    before = own(CONTINUE) if text is READY else 0
    assert seconds(text, "JobTimeoutSec") == before + own(text) + 900
    waits = next(line for line in text.splitlines() if line.startswith("ExecStartPre="))
    assert waits.startswith("ExecStartPre=-/usr/bin/timeout 300 ")


@BOTH
def test_apt_comes_to_its_end_whatever_ends_the_unit(text):
    assert words(text, "KillMode") == ["process"]


@BOTH
def test_it_waits_for_nothing_that_may_wait_for_it(text):
    assert not {
        "cloud-config.service",
        "cloud-final.service",
        "cloud-init.target",
        "snapd.seeded.service",
    } & set(words(text, "After"))


@pytest.mark.parametrize(
    ("says", "waits"),
    [
        ("", False),
        ("No jobs running.", False),
        (" 111 cloud-config.service start waiting", True),
        (" 111 cloud-config.service start running", True),
    ],
)
def test_it_waits_while_cloud_config_has_a_job(tmp_path, says, waits):
    (line,) = [line for line in READY.splitlines() if line.startswith("ExecStartPre=")]
    stub = tmp_path / "systemctl"
    stub.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n[ "$(wc -l < {tmp_path}/calls)" -gt 2 ] || echo \'{says}\'\n'
    )
    stub.chmod(0o755)
    script = line.partition("/bin/sh -c ")[2].strip("'").replace("sleep 1", "sleep 0")
    subprocess.run(
        ["sh", "-c", script], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, timeout=20, check=True
    )
    calls = (tmp_path / "calls").read_text().splitlines()
    assert set(calls) == {"--no-legend list-jobs cloud-config.service"}
    assert len(calls) == (3 if waits else 1)


def test_removal_takes_each_link_away_and_names_what_a_person_wrote(tmp_path):
    system = tmp_path / "etc/systemd/system"
    for unit in ("hosttune-ready.service", "hosttune-continue.service"):
        for place in (
            "multi-user.target.wants",
            *(f"{name}.requires" for name in REQUIRING),  # an earlier version made these
            "mine.service.requires",
        ):
            (system / place).mkdir(parents=True, exist_ok=True)
            (system / place / unit).symlink_to("/usr/lib/systemd/system/" + unit)
    (system / "multi-user.target.wants/ssh.service").symlink_to(
        "/usr/lib/systemd/system/ssh.service"
    )
    for name, text in (
        ("slurmd", "[Unit]\nRequires=hosttune-ready.service\n"),
        ("other", "[Unit]\nAfter=hosttune-ready.service\n"),
    ):
        (system / f"{name}.service.d").mkdir()
        (system / f"{name}.service.d/10-hosttune.conf").write_text(text)
    script = tmp_path / "prerm"
    script.write_text(
        re.sub(
            r"(?<=[ \"'])/(etc|run|var|usr)/", rf"{tmp_path}/\1/", (DEBIAN / "prerm").read_text()
        )
    )
    (tmp_path / "py3clean").write_text("#!/bin/sh\n")
    (tmp_path / "py3clean").chmod(0o755)
    done = subprocess.run(
        ["dash", script, "remove"],
        check=True,
        capture_output=True,
        text=True,
        timeout=20,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    left = sorted(
        path.relative_to(system).as_posix() for path in system.rglob("*") if not path.is_dir()
    )
    assert left == [
        "multi-user.target.wants/ssh.service",
        "other.service.d/10-hosttune.conf",
        "slurmd.service.d/10-hosttune.conf",
    ]
    assert not list(system.glob("*.requires"))
    assert f"{system}/slurmd.service.d/10-hosttune.conf" in done.stderr
    assert "other.service.d" not in done.stderr
