"""The snippets of playbooks/provisioning, by the real programs: cloud-init's own schema, packer
validate, and a Debian tree tuned as an image.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.debian import copied, tree
from tests.hosts.built import HOSTS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "playbooks/provisioning"
HARDWARE = HOSTS / "h100-8x-2socket.json"
pytestmark = pytest.mark.live


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_user_data_is_what_cloud_init_takes(suite):
    made = tree(suite, "cloud-init")
    paths = sorted((FOLDER / "cloud-init").glob("*.cfg"))
    assert paths
    for path in paths:
        argv = ("chroot", made, "cloud-init", "schema", "--config-file", "/dev/stdin")
        script = 'mount --bind "$1" "$0/mnt" && mount -t proc proc "$0/proc" && exec chroot "$0" cloud-init schema --config-file "/mnt/$2"'
        argv = (
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            made,
            path.parent,
            path.name,
        )
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Valid" in done.stdout + done.stderr


def test_template_is_what_packer_takes(tmp_path):
    deb = tmp_path / "hosttune.deb"
    deb.write_bytes(b"")
    argv = ("packer", "validate", "-var", f"deb={deb}", FOLDER / "packer/hosttune.pkr.hcl")
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "CHECKPOINT_DISABLE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_image_is_tuned_from_outside_once(tmp_path):
    """What mkosi, debos and mmdebstrap run: the one file with --root and --hardware, on a Debian
    tree.
    """
    build = (sys.executable, "-I", ROOT / "playbooks/packaging/pyz.py", tmp_path / "hosttune.pyz")
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (tmp_path / "target.json").write_bytes(HARDWARE.read_bytes())
    image = copied(tmp_path / "image", "trixie", "systemd-sysv", "python3")
    environment = {"PATH": os.environ["PATH"], "BUILDROOT": str(image), "SRCDIR": str(tmp_path)}
    hook = FOLDER / "image/mkosi.postinst"
    done = subprocess.run(
        (hook,), capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = {
        path: path.read_bytes() for path in (image / "etc").rglob("*hosttune*") if path.is_file()
    }
    assert image / "etc/sysctl.d/60-hosttune-memory-max-map-count.conf" in written
    assert list((image / "var/lib/hosttune/runs").glob("*.jsonl"))
    again = subprocess.run(
        (hook,), capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert {path: path.read_bytes() for path in written} == written
    assert len(list((image / "var/lib/hosttune/runs").glob("*.jsonl"))) == 1
