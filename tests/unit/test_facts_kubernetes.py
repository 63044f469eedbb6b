"""What makes a Kubernetes node: one place, and everything that names a kubelet holds to it."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from hosttune.facts import Facts
from hosttune.facts.containers.kubernetes import DAEMONS, FOLDERS, ROOTS, UNIT_PATTERNS, is_of_pods
from hosttune.facts.storage.mounts import is_system
from tests.unit.fake_reader import FakeReader
from tests.yaml_files import read_yaml

RULES = Path(__file__).resolve().parents[2] / "hosttune" / "rules"
UID = "0f3c1e57-8a7b-4b7e-9a57-0d6a3c0b9f11"
STATIC = "d5c6a7b8e9f00112233445566778899a"
NFS = "22 1 0:51 / {} rw shared:3 - nfs nfs02:/v rw,rsize=1048576\n"


@pytest.mark.parametrize(
    "target",
    [
        *(f"{root}/pods/{UID}/volumes/kubernetes.io~nfs/sets" for root in ROOTS),
        "/var/lib/kubelet", "/var/lib/kubelet/plugins/kubernetes.io/csi/x/globalmount",
        f"/data/kubelet/pods/{UID}/volumes/kubernetes.io~csi/pvc-1/mount",  # --root-dir=/data/kubelet
        f"/data/kubelet/pods/{UID}/volume-subpaths/sets/main/0",
        f"/mnt/k0s/kubelet/pods/{STATIC}/volumes/kubernetes.io~empty-dir/x",
        "/data/kubelet/plugins/kubernetes.io/csi/nfs.csi.k8s.io/0a1b/globalmount",
    ],
)  # fmt: skip
def test_what_the_kubelet_mounts_is_known_below_any_root_folder(target):
    mounts = {
        "/proc/self/mountinfo": NFS.format(target),
        "/sys/class/bdi/0:51/read_ahead_kb": "128\n",
    }
    facts = Facts(FakeReader({**mounts, "/sys/block/sda/size": "0\n", "/var/lib/dpkg/status": ""}))
    assert is_of_pods(target)
    assert is_system(target)
    assert [mount.is_of_pods for mount in facts.nfs.mounts] == [True]
    assert facts.writeback.slow == ()


@pytest.mark.parametrize(
    "target",
    [
        "/data",
        "/data/pods",
        "/data/pods/x/volumes/y",
        f"/home/pods/{UID}",
        "/var/lib/kubelets",
        "/srv/plugins/x",
    ],
)
def test_other_folders_are_not_those_of_pods(target):
    assert not is_of_pods(target)


def test_every_unit_is_one_that_makes_a_node_but_those_of_containerd():
    units = [
        unit for unit in DAEMONS if not any(fnmatchcase(unit, pattern) for pattern in UNIT_PATTERNS)
    ]
    assert units == ["snap.k8s.containerd.service", "snap.microk8s.daemon-containerd.service"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_that_a_node_fills_makes_a_node_of_an_image(folder):
    reader = FakeReader({f"{folder}/x": "", "/var/lib/dpkg/status": ""}, persistent_only=True)
    assert Facts(reader).managers.kubelet


def test_rules_name_every_unit_of_a_node():
    needrestart = read_yaml(RULES / "services/services-needrestart.yaml")
    memlock = read_yaml(RULES / "limits/limits-memlock.yaml")
    # What a snap runs uses the libraries of the snap, which no upgrade of a package replaces.
    ours = {unit.removesuffix(".service") for unit in DAEMONS if not unit.startswith("snap.")}
    assert ours <= set(needrestart["params"]["services"]["default"])
    # Pods inherit from containerd: in a snap it has a unit of its own.
    starts = {unit for unit in DAEMONS if not unit.startswith("snap.") or "containerd" in unit}
    named = {
        wish["systemd-setting"].partition("/")[0]
        for wish in memlock["want"]
        if "systemd-setting" in wish
    }
    assert starts <= named
