"""The files that people send for help, against the record: a Debian 13 makes all three in the same
minutes, a sosreport with Debian's own sos, and a bug report with NVIDIA's own script. What hosttune
says of a file is what it says of the record, or that it does not know.

The script is fetched when the test runs and is nowhere in this project. Where it cannot be fetched,
only the sosreport is compared, and the transcript says why.
"""

import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.host.record.record import read_record
from tests.vm.archive import packages
from tests.vm.guest import Guest

pytestmark = pytest.mark.vm

SOS = (
    "sos", "python3-pexpect", "python3-ptyprocess", "python3-magic", "libmagic1t64", "libmagic-mgc", "python3-yaml",
    "libyaml-0-2", "python3-packaging",
)  # fmt: skip
SHOWN = ("pciutils", "libpci3", "pci.ids", "dmidecode")
SCRIPT = "nvidia-driver-bin"
# Those of which hosttune reads.
PLUGINS = (
    "block,boot,cgroups,date,devices,dpkg,filesys,hardware,host,kernel,memory,pam,pci,process,processor,release,system,systemd,"
    "udev"
)
# What an image is without: settings that differ, and names and lines that a copy could change.
TRICKY = """
sysctl -qw vm.swappiness=90 vm.zone_reclaim_mode=1; echo never > /sys/kernel/mm/transparent_hugepage/enabled
printf 'vm.max_map_count = 70000\\n# caf\\351\\n' > "/etc/sysctl.d/60-with a blank.conf"
printf 'options nvidia NVreg_EnableResizableBar=1\\n' > /etc/modprobe.d/local.conf
mkdir -p /etc/systemd/system.conf.d; printf '[Manager]\\nDefaultLimitNOFILE=4096\\n' > /etc/systemd/system.conf.d/1.conf
printf '* soft nofile 1024\\n' > /etc/security/limits.d/site.conf
printf '[Service]\\nType=oneshot\\nExecStart=/bin/false\\n[Install]\\nWantedBy=multi-user.target\\n' > /etc/systemd/system/site.service
systemctl daemon-reload; ! systemctl start site.service
"""
UNPACK = "for deb in /root/debs/*; do dpkg-deb --fsys-tarfile $deb | tar -x --keep-directory-symlink -C /; done"
MADE = {
    "sosreport": ("sos report --batch --tmp-dir /root -o " + PLUGINS, "/root/sosreport-*.xz"),
    "record": ("hosttune record /root/record.json", "/root/record.json"),
    "bug report": (
        "/usr/lib/nvidia/current/nvidia-bug-report.sh --output-file /root/bug.log",
        "/root/bug.log.gz",
    ),
}
# How many rules they judge at least: unknown is no way to pass.
JUDGED = {"sosreport": 78, "bug report": 42}


def fetch_script(guest: Guest) -> tuple[Path, ...]:
    try:
        return packages("trixie", SCRIPT, part="non-free")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        guest.note(f"no bug report is made, as {SCRIPT} cannot be fetched: {error}")
        return ()


@pytest.fixture(scope="module")
def files(trixie: Guest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """What the guest wrote, by what it is."""
    script, folder = fetch_script(trixie), tmp_path_factory.mktemp("files")
    for deb in (*packages("trixie", *SOS, *SHOWN), *script):
        trixie.write(f"/root/debs/{deb.name}", deb.read_bytes())
    trixie.ask(["sh", "-ec", UNPACK])
    trixie.ask(["sh", "-ec", TRICKY])
    for name, (command, place) in MADE.items():
        if script or name != "bug report":
            assert trixie.run(command.split()).rc == 0
            content = trixie.ask(["sh", "-c", f"cat {place}"]).encode("utf-8", "surrogateescape")
            (folder / name).write_bytes(content)
    return {path.name: path for path in folder.iterdir()}


def verdicts(path: Path) -> Mapping[str, Mapping[str, str]]:
    """Rule -> subject -> verdict."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    plan = examine(read_record(str(path)), builtin_catalog(), Policy(today="2026-11-29")).plan(
        prove=False
    )
    for one in plan.findings:
        found[one.rule][one.subject] = one.verdict.value
    return found


def compare(right: Mapping[str, Mapping[str, str]], name: str, path: Path) -> None:
    other, judged = {}, 0
    for rule, found in verdicts(path).items():
        judged += found == right[rule]
        known = {subject: verdict for subject, verdict in found.items() if verdict != "unknown"}
        if not known.items() <= right[rule].items() or (
            len(known) == len(found) and found != right[rule]
        ):
            other[rule] = (right[rule], found)
    assert other == {}, name
    assert judged >= JUDGED[name], name


def test_files_say_what_the_record_says(files: Mapping[str, Path]) -> None:
    right = verdicts(files["record"])
    found = {verdict for rule in right.values() for verdict in rule.values()}
    assert found == {"ok", "differs", "advice", "not applicable"}
    for name in files.keys() - {"record"}:
        compare(right, name, files[name])
