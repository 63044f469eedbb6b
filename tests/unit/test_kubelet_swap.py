"""Swap beside a kubelet that refuses it (misaka-yaki/yaki#12)."""

import pytest

from hosttune.actions.record.shared import shared_text
from hosttune.facts import Facts
from hosttune.facts.containers.kubelet_swap import refuses_swap
from hosttune.resources.storage.fstab_boot import look_at_boot_lines
from hosttune.values import FileValue
from tests.unit.fake_reader import FakeReader

UNIT = "/usr/lib/systemd/system/kubelet.service"
DROP_IN = f"{UNIT}.d/10-kubeadm.conf"
CONFIG = "/var/lib/kubelet/config.yaml"
FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
PREPARES = {
    "/etc/systemd/system/prepare.service": "[Service]\nExecStart=/opt/prepare.sh\n",
    "/etc/systemd/system/multi-user.target.wants/prepare.service": "/etc/systemd/system/prepare.service",
}
# As in kubernetes/release, cmd/krel/templates/latest/kubeadm/10-kubeadm.conf
HOST = {
    "/etc/fstab": "/swap.img none swap sw 0 0\n",
    "/swap.img": "",
    "/proc/swaps": "Filename Type Size Used Priority\n",
    "/proc/meminfo": "SwapTotal: 0 kB\n",
    "/proc/self/mountinfo": "",
    "/etc/rc.local": None,
    "/etc/crontab": "",
    "/var/spool/cron/crontabs/root": "",
    UNIT: "[Service]\nExecStart=/usr/bin/kubelet\n[Install]\nWantedBy=multi-user.target\n",
    DROP_IN: '[Service]\nEnvironment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"\n'
    "EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nEnvironmentFile=-/etc/default/kubelet\nExecStart=\n"
    "ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n",
    FLAGS: 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/containerd/containerd.sock"\n',
    CONFIG: "apiVersion: kubelet.config.k8s.io/v1beta1\ncgroupDriver: systemd\n",
    "/etc/default/kubelet": "KUBELET_EXTRA_ARGS=\n",
    "/etc/systemd/system/multi-user.target.wants/kubelet.service": UNIT,
}


def facts(changes=(), shared=False):
    files = {path: text for path, text in {**HOST, **dict(changes)}.items() if text is not None}
    if shared:
        files = {
            path: kept
            for path, text in files.items()
            if (kept := shared_text(path, text)) is not None
        }
    links = {path: files.pop(path) for path in [*files] if ".wants/" in path}
    if "/swap.img" in files:
        files["/swap.img"] = FileValue(b"", 0o600)
    return Facts(FakeReader(files, links=links))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("changes", "refuses"),
    [
        ({}, True),
        ({CONFIG: "failSwapOn: true\n"}, True),
        ({CONFIG: "failSwapOn: false\n"}, False),
        ({CONFIG: '{"kind": "KubeletConfiguration", "failSwapOn": false}'}, False),
        ({CONFIG: "# failSwapOn: false\n"}, True),
        ({FLAGS: 'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.1 --fail-swap-on=false"\n'}, False),
        ({"/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--fail-swap-on=false\n"}, False),
        (
            {
                CONFIG: "failSwapOn: false\n",
                "/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--fail-swap-on=true\n",
            },
            True,
        ),
        ({"/etc/systemd/system/multi-user.target.wants/kubelet.service": None}, False),
        ({f"{UNIT}.d/20-swap.conf": "[Service]\nExecStartPre=/sbin/swapoff -a\n"}, False),
        ({"/var/spool/cron/crontabs/root": "@reboot /sbin/swapoff -a\n"}, False),
        ({"/etc/rc.local": "#!/bin/sh\nswapoff -a\n"}, False),
        ({**PREPARES, "/opt/prepare.sh": "#!/bin/sh\nswapoff -a\n"}, False),
        ({**PREPARES, "/opt/prepare.sh": "#!/bin/sh\n# swapoff -a\n"}, True),
    ],
)
def test_kubelet_refuses_swap_unless_its_settings_or_the_boot_say_otherwise(
    changes, refuses, shared
):
    assert refuses_swap(facts(changes, shared)) is refuses


def notes(changes):
    return [one for one in look_at_boot_lines(facts(changes)) if one.note or one.fault]


def test_line_of_swap_is_noted_and_takes_nothing_from_the_node():
    (found,) = notes({})

    assert found.note.startswith(
        "line 1 of /etc/fstab has the swap /swap.img: the kubelet does not start"
    )
    assert "swapoff /swap.img" in found.way_out
    assert not found.is_absent
    assert not found.fault


def test_swap_in_use_that_no_line_names_is_noted():
    rows = "Filename Type Size Used Priority\n/dev/zram0 partition 1024 0 100\n"
    (found,) = notes(
        {"/etc/fstab": "", "/proc/swaps": rows, "/proc/meminfo": "SwapTotal: 1024 kB\n"}
    )

    assert "/proc/swaps has the swap /dev/zram0" in found.note


@pytest.mark.parametrize(
    "changes",
    [
        {CONFIG: "failSwapOn: false\n"},
        {"/etc/fstab": "/swap.img none swap noauto 0 0\n"},
        {"/etc/fstab": ""},
        {"/proc/cmdline": "root=/dev/sda1 ro systemd.swap=no\n"},
        {"/etc/systemd/system/swap.target": ""},
        {"/etc/systemd/system/swap.img.swap": ""},
        {
            "/etc/fstab": "UUID=0a-1 none swap sw 0 0\n",
            r"/etc/systemd/system/dev-disk-by\x2duuid-0a\x2d1.swap": "",
        },
    ],
)
def test_host_whose_kubelet_starts_has_no_note(changes):
    assert notes(changes) == []
