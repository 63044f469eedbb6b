"""The files that hosts of the fleet start from: a small Debian with python3, sshd and sudo, built
once, kept.

What is installed here is what "a bare server" means, Python without pip, venv or a module of
ours.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import debian
from tests.cache import kept, named

# The releases, each with the version of its python3.
PYTHONS = {"bookworm": "3.11", "trixie": "3.13", "testing": "3.14"}
PACKAGES = (
    "e2fsprogs",
    "iproute2",
    "kmod",
    "mount",
    "openssh-server",
    "procps",
    "python3",
    "sudo",
    "util-linux",
)
BUILD_TIMEOUT_S = 600
USER = "ops"
# As people leave it behind: tabs and blanks, a remark, words after the last field.
FSTAB = """\
# /etc/fstab: static file system information.
#
# <file system> <mount point>   <type>  <options>       <dump>  <pass>
/dev/vda1	/	 ext4	errors=remount-ro	0 1
# the data disk; ask Petra before you touch it
/dev/vdb    /data   ext4    defaults        0       2
"""
# What systemd would do of a boot. Ends with 42 when the host is to boot again; what it leaves
# running, the test ends.
INIT = """\
#!/bin/sh
again=
trap 'again=yes' USR1
echo $$ >/run/fleet-init.pid
mount -a >/var/log/mount.log 2>&1
sysctl --system >/var/log/sysctl.log 2>&1
mkdir -p /run/sshd
/usr/sbin/sshd -D -E /var/log/sshd.log &
until [ "$again" ]; do
    sleep 3600 &
    wait $!
done
exit 42
"""
# Enough of shutdown(8) for `shutdown -r`, with which Ansible reboots.
SHUTDOWN = """\
#!/bin/sh
case " $* " in *" -c "*) exit 0 ;; esac
(sleep 1; kill -USR1 "$(cat /run/fleet-init.pid)") >/dev/null 2>&1 </dev/null &
"""


def get(suite: str = "bookworm", *more: str) -> Path:
    """The folder of a release with some packages more: `root` (the files), `key` (the login key).
    Built now where the cache lacks it.
    """
    name = named("fleet", Path(__file__).read_bytes(), debian.MMDEBSTRAP, suite, more)
    return kept(name, lambda work: _build(work, suite, more))


def _build(work: Path, suite: str, more: tuple[str, ...]) -> None:
    root = work / "root"
    debian.fill(root, suite, *PACKAGES, *more)
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "hosttune-fleet", "-f", work / "key")
    call("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", USER)
    call("chroot", root, "install", "-d", "-m", "700", "-o", USER, "-g", USER, f"/home/{USER}/.ssh")
    keys = root / "home" / USER / ".ssh" / "authorized_keys"
    keys.write_bytes((work / "key.pub").read_bytes())
    call("chroot", root, "chown", f"{USER}:{USER}", f"/home/{USER}/.ssh/authorized_keys")
    _write(root / "etc/sudoers.d/fleet", f"{USER} ALL=(ALL) NOPASSWD:ALL\n", 0o440)
    _write(root / "etc/ssh/sshd_config.d/fleet.conf", "UseDNS no\nMaxStartups 100\n")
    _write(root / "etc/fstab", FSTAB)
    _write(root / "sbin/fleet-init", INIT, 0o755)
    (root / "etc/init.d").mkdir(exist_ok=True)
    _write(
        root / "etc/init.d/mountall.sh",
        "#!/bin/sh\n# As of sysvinit: fleet-init mounts what fstab says.\n",
        0o755,
    )
    for name in ("shutdown", "reboot"):
        (root / "sbin" / name).unlink(missing_ok=True)
        _write(root / "sbin" / name, SHUTDOWN, 0o755)
    (root / "data").mkdir()


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def call(*argv: object) -> str:
    """The output of a program that must succeed."""
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
