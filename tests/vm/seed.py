"""What cloud-init finds on one disk: user-data, and a flat apt repository with the package and a
stand-in for slurmd.

The user-data is that of playbooks/provisioning/cloud-init/stock.cfg: another source of packages,
another policy, and what the harness needs, no more.
"""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
SNIPPET = ROOT / "playbooks/provisioning/cloud-init/stock.cfg"
BUILDER = ROOT / "playbooks/packaging/deb.py"
TIMEOUT_S = 600
MOUNTED = "/run/seed"
SLURMD = """\
[Unit]
Description=Stands in for slurmd
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""
CONTROL = """\
Package: stand-in
Version: 0
Architecture: all
Maintainer: nobody <nobody@example.org>
Depends: init-system-helpers
Description: stands in for the package of slurmd
"""
# As debhelper makes it for a service that is enabled and started.
POSTINST = """\
#!/bin/sh
set -e
deb-systemd-helper enable slurmd.service >/dev/null
systemctl --system daemon-reload >/dev/null || true
deb-systemd-invoke start slurmd.service >/dev/null || true
"""
AGENT = "hosttune-agent.service"
# The harness speaks from the second boot on, when the gate is open or shut; of a first boot that
# ends in none, at its end. Not by a mask: what lies in /etc goes before what lies in /run.
HELD = f"/run/systemd/system/{AGENT}.d"
CONDITION = r"[Unit]\nConditionPathExists=/run/speak\n"
QUIET_ONCE = (
    f"mkdir -p {HELD} && printf '{CONDITION}' > {HELD}/quiet.conf && systemctl daemon-reload"
)
QUIET = ["cloud-init-per", "instance", "quiet", "sh", "-c", QUIET_ONCE]
SPEAK = [["touch", "/run/speak"], ["systemctl", "start", "--no-block", AGENT]]
AFTER = "[Unit]\nAfter=hosttune-ready.service\n"


def user_data(
    policy: str, *, runcmd: list[list[str]] | None = None, approved: str = "", boots: bool = True
) -> str:
    """The snippet with this policy. `runcmd`: other commands than its; `boots`: whether it boots
    once by itself.
    """
    told: dict[str, Any] = yaml.safe_load(SNIPPET.read_text(encoding="utf-8"))
    told["bootcmd"] = [
        ["mkdir", "-p", MOUNTED],
        ["mount", "-o", "ro", "/dev/disk/by-label/CIDATA", MOUNTED],
        ["rm", "-f", "/etc/apt/sources.list"],  # the guest has no network
        QUIET,
    ]
    told["apt"] = {"sources": {"hosttune": {"source": f"deb [trusted=yes] file:{MOUNTED}/apt ./"}}}
    # Where Slurm's TmpFS is /tmp, that stays as it is, and nothing would wait for a boot.
    told["write_files"].append({"path": "/etc/slurm/slurm.conf", "content": "TmpFS=/data\n"})
    told["packages"] = ["hosttune", "stand-in"]
    told["locale"] = "off"  # the image has no locale-gen
    files = {one["path"]: one for one in told["write_files"]}
    files["/etc/hosttune/policy.yaml"]["content"] = policy
    told["write_files"].append(
        {"path": f"/etc/systemd/system/{AGENT}.d/after.conf", "content": AFTER}
    )
    if approved:
        told["write_files"].append(
            {"path": "/etc/hosttune/approved", "permissions": "0644", "content": approved}
        )
    told["runcmd"] = (told["runcmd"] if runcmd is None else runcmd) + ([] if boots else SPEAK)
    return "#cloud-config\n" + yaml.safe_dump(told, sort_keys=False)


def packages(folder: Path) -> Path:
    """The flat repository: hosttune of this checkout, and slurmd."""
    repository = folder / "apt"
    repository.mkdir(parents=True)
    _call(sys.executable, "-I", BUILDER, repository)
    tree = folder / "stand-in"
    files = {
        "DEBIAN/control": CONTROL,
        "DEBIAN/postinst": POSTINST,
        "usr/lib/systemd/system/slurmd.service": SLURMD,
    }
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tree / "DEBIAN/postinst").chmod(0o755)
    _call("dpkg-deb", "--root-owner-group", "--build", tree, repository / "stand-in_0_all.deb")
    index(repository)
    return repository


def spoil(repository: Path) -> None:
    """A part of hosttune's package is zeros, as on a disk that loses sectors; the index is that of
    what is there.
    """
    (deb,) = repository.glob("hosttune_*.deb")
    content = deb.read_bytes()
    deb.write_bytes(content[:-200_000] + bytes(4096) + content[-195_904:])
    index(repository)


def index(repository: Path) -> None:
    listed = _call("apt-ftparchive", "packages", ".", cwd=repository)
    (repository / "Packages").write_bytes(listed)
    (repository / "Packages.gz").write_bytes(gzip.compress(listed, mtime=0))


def disk(file: Path, repository: Path, text: str) -> Path:
    """An ISO 9660 of the label that the NoCloud source looks for."""
    folder = file.with_suffix("")
    folder.mkdir()
    (folder / "user-data").write_text(text, encoding="utf-8")
    (folder / "meta-data").write_text(
        f"instance-id: {file.stem}\nlocal-hostname: spine\n", encoding="utf-8"
    )
    graft = (
        f"/apt={repository}",
        f"/user-data={folder}/user-data",
        f"/meta-data={folder}/meta-data",
    )
    _call(
        "xorrisofs",
        "-quiet",
        "-volid",
        "CIDATA",
        "-joliet",
        "-rational-rock",
        "-graft-points",
        "-output",
        file,
        *graft,
    )
    return file


def _call(*argv: object, cwd: Path | None = None) -> bytes:
    words = [str(word) for word in argv]
    done = subprocess.run(
        words,
        cwd=cwd,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(words)}: exit status {done.returncode}\n{done.stderr.decode(errors='replace')}"
        )
    return done.stdout
