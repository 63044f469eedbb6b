"""A server that looks like Ubuntu's, for the tests of the driver: a Debian with the real apt and
dpkg, an archive of small packages with the names and relations of Ubuntu's, GPUs in a /sys of its
own, and a stand-in for `ubuntu-drivers` that prints the documented formats.

Each maintainer script first calls /opt/kill/at, where there is one, with PACKAGE-SCRIPT-ARGUMENT:
driver_kills.py.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from email.utils import formatdate
from pathlib import Path

from tests.debian import copied
from tests.live.test_live_packages import build, inside

ROOT = Path(__file__).resolve().parents[2]
UBUNTU = 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n'
GPU = {
    "vendor": "0x10de", "device": "0x20b2", "class": "0x030200", "subsystem_vendor": "0x10de",
    "subsystem_device": "0x1463", "numa_node": "0", "current_link_width": "16", "max_link_width": "16",
    "current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe",
}  # fmt: skip
BRANCHES = ("580", "595")
MODELS = [
    f"{number:04X}" for number in (*range(0x1E02, 0x1F00), 0x20B2)
]  # some 250, as in Ubuntu's packages
DEVICES = """\
== /sys/devices/pci0000:00/0000:00:04.0 ==
modalias : pci:v000010DEd000020B2sv000010DEsd00001463bc03sc02i00
vendor   : NVIDIA Corporation
model    : GA100 [A100 SXM4 80GB]
driver   : nvidia-driver-580-server-open - distro non-free
driver   : nvidia-driver-595-server-open - distro non-free recommended
driver   : xserver-xorg-video-nouveau - distro free builtin

"""
LIST = "".join(
    f"nvidia-driver-{branch}-server-open, (kernel modules provided by linux-modules-nvidia-{branch}-server-open-generic)\n"
    for branch in BRANCHES[::-1]
)
UBUNTU_DRIVERS = f"""\
#!/bin/sh
echo 'udevadm hwdb is deprecated. Use systemd-hwdb instead.' >&2
case "$*" in
devices) cat <<'END'
{DEVICES}END
;;
"list --gpgpu --include-dkms") cat <<'END'
{LIST}END
;;
*) echo "Usage: ubuntu-drivers" >&2; exit 2;;
esac
"""


def packages(branch: str, version: str, other: str) -> dict[str, dict[str, str]]:
    """One branch of the server driver, as Ubuntu's packaging relates its packages."""
    server, full, exact = f"{branch}-server", f"{branch}-server-open", f"(= {version})"
    conflicts = {
        name: f"{name}-{other}-server"
        for name in ("nvidia-utils", "nvidia-kernel-common", "libnvidia-compute")
    }
    return {
        f"nvidia-kernel-common-{server}": {"Version": version, "Conflicts": conflicts["nvidia-kernel-common"]},
        f"libnvidia-compute-{server}": {"Version": version, "Conflicts": conflicts["libnvidia-compute"]},
        f"nvidia-headless-no-dkms-{full}": {
            "Version": version,
            "Depends": f"nvidia-kernel-common-{server} {exact}, libnvidia-compute-{server} {exact}",
        },
        f"nvidia-utils-{server}": {
            "Version": version, "Depends": f"libnvidia-compute-{server} {exact}", "Conflicts": conflicts["nvidia-utils"],
        },
        f"linux-modules-nvidia-{full}-generic": {
            "Version": version, "Depends": f"nvidia-kernel-common-{server} (>= {version})",
            "Provides": f"nvidia-dkms-{full} {exact}, nvidia-prebuilt-kernel",
        },
        # What only its control data are read of: the kind of the branch, and the GPUs that it
        # drives.
        f"nvidia-driver-{full}": {
            "Version": version, "Section": "restricted/libs",
            "Depends": f"nvidia-headless-no-dkms-{full} {exact}, nvidia-utils-{server} {exact}",
            "Modaliases": f"nvidia({', '.join(f'pci:v000010DEd0000{one}sv*sd*bc03sc*i*' for one in MODELS)})",
            "Support": {"580": "LTSB", "595": "PB"}[branch],
        },
    }  # fmt: skip


def contents(name: str, fields: dict[str, str]) -> dict[str, str]:
    """The files that facts look for: the library with its version in its name, the module of the
    running kernel.
    """
    version = fields["Version"].partition("-")[0]
    if name.startswith("libnvidia-compute-"):
        return {f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}": ""}
    if name.startswith("linux-modules-nvidia-"):
        branch = version.partition(".")[0]
        return {
            f"lib/modules/{os.uname().release}/kernel/nvidia-{branch}srv-open/nvidia.ko": version
        }
    return {}


EVENT = """\
#!/bin/sh
set -e
test ! -x /opt/kill/at || /opt/kill/at "$DPKG_MAINTSCRIPT_PACKAGE-$DPKG_MAINTSCRIPT_NAME-$1"
"""
POSTINST = """\
case "$DPKG_MAINTSCRIPT_PACKAGE" in
libnvidia-compute-*) cd /usr/lib/x86_64-linux-gnu && ln -sf libnvidia-ml.so.VERSION libnvidia-ml.so.1;;
linux-modules-nvidia-*) cd /lib/modules/KERNEL && find kernel -name nvidia.ko -printf '%P:\\n' | sed s,^,kernel/, > modules.dep;;
esac
"""
POSTRM = """\
case "$DPKG_MAINTSCRIPT_PACKAGE" in
linux-modules-nvidia-*) cd /lib/modules/KERNEL && find kernel -name nvidia.ko -printf '%P:\\n' | sed s,^,kernel/, > modules.dep;;
esac
exit 0
"""
# Says of the fake module what modinfo(8) would say of a real one.
MODINFO = """\
#!/bin/sh
file=$(find /lib/modules/"$2"/kernel -name nvidia.ko | tail -n 1)
test -n "$file" || exit 1
printf 'filename:       %s\\nversion:        %s\\nlicense:        Dual MIT/GPL\\n' "$file" "$(cat "$file")"
"""


def release(index: bytes) -> str:
    """The Release file of an archive whose Origin is Ubuntu."""
    date = formatdate(usegmt=True)
    return (
        f"Origin: Ubuntu\nLabel: Ubuntu\nSuite: noble-updates\nVersion: 24.04\nCodename: noble\nDate: {date}\n"
        f"Architectures: amd64 arm64\nSHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} Packages\n"
    )


def put(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


def server_tree(base: Path, *programs: str) -> Path:
    """A tree that says it is Ubuntu 24.04 with two A100, no driver, and an archive in two states
    (/archive/later); with these programs of Debian's too.
    """
    python = (
        "python3-minimal",
        "libpython3-stdlib",
        "python3-yaml",
        "python3-jinja2",
        "python3-psutil",
        "python3-distro",
    )
    tree = copied(base / "tree", "bookworm", *python, "apt-utils", *programs)
    archive = tree / "archive"
    archive.mkdir()
    (tree / "small").mkdir()
    first = packages("580", "580.95.05-0ubuntu1", "595") | packages(
        "595", "595.58.03-0ubuntu1", "580"
    )
    later = packages("580", "580.142-0ubuntu1", "595")
    scripts = {
        "preinst": lambda _: EVENT,
        "prerm": lambda _: EVENT,
        "postinst": lambda fields: (
            EVENT
            + POSTINST.replace("VERSION", fields["Version"].partition("-")[0]).replace(
                "KERNEL", os.uname().release
            )
        ),
        "postrm": lambda _: EVENT + POSTRM.replace("KERNEL", os.uname().release),
    }
    index = [_built(name, fields, archive, base, scripts) for name, fields in first.items()]
    more = [_built(name, fields, archive, base, scripts) for name, fields in later.items()]
    # Ubuntu's archives keep the newest version alone.
    others = [row for name, row in zip(first, index, strict=True) if "595" in name]
    for folder, rows in ((archive, index), (archive / "later", others + more)):
        folder.mkdir(exist_ok=True)
        put(folder / "Packages", "\n".join(rows))
        put(folder / "Release", release((folder / "Packages").read_bytes()))
    for folder in (tree / "etc/apt/sources.list.d", tree / "var/lib/apt/lists"):
        shutil.rmtree(folder)
        folder.mkdir()
    put(tree / "etc/apt/sources.list", "deb [trusted=yes] file:/archive ./\n")
    put(tree / "usr/lib/os-release", UBUNTU)
    put(tree / "usr/bin/ubuntu-drivers", UBUNTU_DRIVERS, 0o755)
    put(tree / "usr/sbin/modinfo", MODINFO, 0o755)
    for slot in ("0000:1b:00.0", "0000:43:00.0"):
        for name, text in GPU.items():
            put(tree / f"sys/bus/pci/devices/{slot}/{name}", f"{text}\n")
    (tree / "sys/module").mkdir()
    (tree / f"lib/modules/{os.uname().release}").mkdir(parents=True)
    put(tree / f"lib/modules/{os.uname().release}/modules.dep", "")
    put(tree / f"boot/vmlinuz-{os.uname().release}", "")
    ignore = shutil.ignore_patterns("__pycache__", ".*")
    shutil.copytree(ROOT / "hosttune", tree / "opt/src/hosttune", ignore=ignore)
    shutil.copytree(ROOT / "templates", tree / "opt/src/templates", ignore=ignore)
    done = inside(tree, "apt-get", "-q", "update")
    assert done.returncode == 0, done.stderr
    return tree


def _built(name, fields, archive, base, scripts):
    made = {script: text(fields) for script, text in scripts.items()}
    return build(name, fields, archive, base / "build", files=contents(name, fields), scripts=made)
