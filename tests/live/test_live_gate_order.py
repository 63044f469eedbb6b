"""The gate among the units of cloud-init, snapd, Slurm and Kubernetes: systemd finds no circle
(systemd-analyze verify).

The orders of the others are those of cloud-init 22.4 to 26.2, of snapd's packages, and of what
snapd writes for a snap.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hosttune.rendering import render
from tests.unit.test_ready_units import REQUIRING

pytestmark = pytest.mark.live
ROOT = Path(__file__).resolve().parents[2]
READY = (ROOT / "playbooks/packaging/debian/hosttune-ready.service").read_text()
CONTINUE = render("hosttune-continue.service.j2", command="/bin/true")
SERVICE = "[Service]\nType=oneshot\nExecStart=/bin/true\n"
EARLY = "DefaultDependencies=no\nBefore=shutdown.target\nConflicts=shutdown.target\n"
# Unit: its orders, and whose .wants it stands in. To 23.10, cloud-config waits for snapd.seeded in
# Ubuntu.
OTHERS = {
    "cloud-init-local.service": (f"{EARLY}Wants=network-pre.target\nBefore=network-pre.target sysinit.target", "cloud-init.target"),
    "cloud-init.service": (f"{EARLY}After=cloud-init-local.service\nBefore=network-online.target sysinit.target", "cloud-init.target"),
    "cloud-config.target": ("After=cloud-init-local.service cloud-init.service", ""),
    "cloud-config.service": (
        "After=network-online.target cloud-config.target snapd.seeded.service\nWants=network-online.target cloud-config.target",
        "cloud-init.target",
    ),
    "cloud-final.service": ("After=network-online.target cloud-config.service multi-user.target", "cloud-init.target"),
    "cloud-init.target": ("After=multi-user.target", "multi-user.target"),
    "snapd.socket": ("", "sockets.target"),
    "snapd.apparmor.service": ("After=local-fs.target", "multi-user.target"),
    "snapd.service": ("After=snapd.socket\nRequires=snapd.socket\nOnFailure=snapd.failure.service", "multi-user.target"),
    "snapd.seeded.service": ("After=snapd.service snapd.socket\nRequires=snapd.socket", "multi-user.target cloud-final.service"),
    "munge.service": ("After=network-online.target time-sync.target\nWants=network-online.target", "multi-user.target"),
    "sackd.service": ("After=munge.service network-online.target remote-fs.target\nWants=network-online.target", "multi-user.target"),
    "slurmd.service": ("After=munge.service network-online.target remote-fs.target\nWants=network-online.target", "multi-user.target"),
    "kubelet.service": ("After=network-online.target\nWants=network-online.target containerd.service", "multi-user.target"),
    "containerd.service": ("After=network.target local-fs.target", "multi-user.target"),
    "docker.service": ("After=network-online.target containerd.service\nWants=network-online.target", "multi-user.target"),
    "k3s-agent.service": ("After=network-online.target\nWants=network-online.target", "multi-user.target"),
    "nvidia-persistenced.service": ("", "multi-user.target"),
    "nvidia-fabricmanager.service": ("After=network-online.target\nRequires=network-online.target", "multi-user.target"),
    **{
        f"snap.{name}.service": (
            "Requires=snapd.socket\nWants=network.target\nAfter=network.target snapd.apparmor.service snapd.seeded.service",
            "multi-user.target",
        )
        for name in ("kubelet-eks.daemon", "microk8s.daemon-kubelite", "k8s.kubelet")
    },
}  # fmt: skip


def verified(folder: Path, ready: str) -> str:
    """What systemd says of a boot with the gate enabled, and with a run that goes on."""
    units = {
        name: f"[Unit]\n{orders}\n{SERVICE if name.endswith('service') else ''}"
        for name, (orders, _) in OTHERS.items()
    }
    units["snapd.socket"] += "[Socket]\nListenStream=/run/snapd.socket\n"
    units |= {
        "hosttune-ready.service": ready.replace("/usr/bin/hosttune", "/bin/true"),
        "hosttune-continue.service": CONTINUE,
    }
    for name, text in units.items():
        (folder / name).write_text(text)
    linked = {
        name: [f"{one}.wants" for one in places.split()] for name, (_, places) in OTHERS.items()
    }
    linked["hosttune-ready.service"] = [
        "multi-user.target.wants",
        *(f"{name}.requires" for name in REQUIRING),
    ]
    linked["hosttune-continue.service"] = ["multi-user.target.wants"]
    for name, places in linked.items():
        for place in places:
            (folder / place).mkdir(exist_ok=True)
            (folder / place / name).symlink_to(f"../{name}")
    done = subprocess.run(
        ("systemd-analyze", "verify", "--man=no", "multi-user.target", "cloud-init.target"), check=False, capture_output=True,
        text=True, timeout=120, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:/usr/lib/systemd/system", "LC_ALL": "C"},
    )  # fmt: skip
    return done.stdout + done.stderr


def test_systemd_finds_no_circle_with_cloud_init_and_snaps(tmp_path):
    said = verified(tmp_path, READY)
    assert "cycle" not in said, said
    assert "hosttune" not in said, (
        said
    )  # a folder of requirements of what is not there is nothing to it


@pytest.mark.parametrize(
    "waits_for", ["cloud-final.service", "cloud-init.target", "cloud-config.service"]
)
def test_each_order_that_the_gate_must_not_have_is_a_circle(tmp_path, waits_for):
    """Which shows that one would be found."""
    snaps = "snapd.seeded.service" if waits_for == "cloud-config.service" else ""
    text = READY.replace("[Service]", f"After={waits_for}\n[Service]", 1)
    if (
        snaps
    ):  # a snap that is seeded: its start is a part of the seeding, which systemd cannot know
        text = text.replace("[Service]", f"Before={snaps}\n[Service]", 1)
    assert "ordering cycle" in verified(tmp_path, text)
