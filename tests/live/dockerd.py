"""The real dockerd of Debian 13, which knows --validate (Debian 12's does not); nothing of it is
installed or started.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.vm.archive import packages

MEMBERS = (
    "./usr/sbin/dockerd",
    "./usr/sbin/docker-proxy",
    "./usr/lib/systemd/system/docker.service",
)


def unpacked(folder: Path) -> Path:
    """The folder, with what is needed of the package docker.io."""
    (package,) = packages("trixie", "docker.io")
    with subprocess.Popen(
        ("dpkg-deb", "--fsys-tarfile", package), stdout=subprocess.PIPE
    ) as archive:
        subprocess.run(
            ("tar", "-x", "-C", folder, *MEMBERS), stdin=archive.stdout, check=True, timeout=120
        )
    return folder
