"""Which file of sysctl.d wins: what hosttune says is what systemd-sysctl sets, in a network
namespace of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hosttune.facts import Facts
from tests.live.namespace import run
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import One, host

SYSCTL = "/lib/systemd/systemd-sysctl"
KEY = "net.ipv4.conf.all.arp_ignore"  # of the namespace: nothing of this machine is set
OURS = {"/etc/sysctl.d/60-hosttune-network-arp.conf": f"{KEY} = 1\n"}
DEAD = "kernel.sched_min_granularity_ns = 3000000\n"  # left sysctl with Linux 5.13
FILES = {
    "ours alone": OURS,
    "a later file wins": {**OURS, "/etc/sysctl.d/99-site.conf": f"{KEY} = 0\n"},
    "an earlier one does not": {**OURS, "/etc/sysctl.d/10-site.conf": f"{KEY} = 2\n"},
    "a key that the kernel no longer has": {
        "/etc/sysctl.d/60-hosttune-network-arp.conf": f"{DEAD}{KEY} = 1\n"
    },
    "a pattern after it": {
        **OURS,
        "/etc/sysctl.d/90-site.conf": "net.ipv4.conf.*.arp_ignore = 2\n",
    },
    "kept from patterns": {
        "/etc/sysctl.d/90-site.conf": f"net.ipv4.conf.*.arp_ignore = 2\n-{KEY}\n"
    },
    "slashes": {**OURS, "/etc/sysctl.d/90-site.conf": "net/ipv4/conf/all/arp_ignore = 2\n"},
    "nobody": {"/etc/sysctl.d/90-site.conf": f"# {KEY} = 2\n"},
}
SCRIPT = f"""
mount -t tmpfs none /usr/lib/sysctl.d && mount --bind "$0" /etc/sysctl.d && mount -t sysfs none /sys 2>/dev/null
{SYSCTL} --prefix=/net/ipv4/conf --prefix=/kernel/sched_min_granularity_ns; cat /proc/sys/{KEY.replace(".", "/")}
"""


def after_boot(tmp_path: Path, files: dict[str, str]) -> str:
    """The value in a fresh network namespace after systemd-sysctl has read these files of
    /etc/sysctl.d.
    """
    folder = tmp_path / "sysctl.d"
    folder.mkdir()
    for path, text in files.items():
        (folder / path.rpartition("/")[2]).write_text(text)
    return run(
        "unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", SCRIPT, folder
    ).strip()


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_what_systemd_sysctl_sets_is_what_is_foretold(files, tmp_path):
    boot = Facts(FakeReader(files)).sysctl_at_boot[KEY]
    assert after_boot(tmp_path, files) == (boot.text if boot.is_set else "0")


def test_dropin_of_ours_sets_the_value_at_boot(tmp_path):
    one = One(
        host({"/proc/sys/net/ipv4/conf/all/arp_ignore": "0\n"}), f"- sysctl: {KEY}\n  at_least: 1"
    )
    one.apply()
    kept = {path: text for path, text in one.kept().items() if path.startswith("/etc/sysctl.d/")}
    assert after_boot(tmp_path, kept) == "1"
