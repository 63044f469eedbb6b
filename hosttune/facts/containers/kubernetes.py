"""What makes a Kubernetes node: the units that run a kubelet or what starts its pods, and where it
mounts for them.

Sources: kubelet(8) of kubernetes.io (`--root-dir`, /var/lib/kubelet unless given) and kubernetes,
pkg/kubelet/config (pods/UID/volumes, volume-subpaths, plugins/kubernetes.io/...); k0s'
documentation (directories: DATA/kubelet); k3s and rke2 (data-dir leaves the kubelet at
/var/lib/kubelet); Canonical's snaps microk8s, k8s, kubelet and kubelet-eks.
"""

from __future__ import annotations

from hosttune.regex import regex

# Of control groups and links of systemd: INSTALL_K3S_NAME and the like give units names of their
# own.
UNIT_PATTERNS = (
    "kubelet.service", "snap.*kubelet*.service", "snap.microk8s.daemon-kubelite.service",
    "k3s*.service", "rke2*.service", "k0s*.service",
)  # fmt: skip
# unit -> its daemon, as the kernel keeps the name (proc_pid_comm(5)); k3s, rke2 and k0s run
# containerd below it
DAEMONS = {
    "kubelet.service": "kubelet",
    "k3s.service": "k3s-server",
    "k3s-agent.service": "k3s-agent",
    "rke2-server.service": "rke2",
    "rke2-agent.service": "rke2",
    "k0sworker.service": "k0s",
    "k0scontroller.service": "k0s",
    "snap.kubelet.daemon.service": "kubelet",
    "snap.kubelet-eks.daemon.service": "kubelet",
    "snap.k8s.kubelet.service": "kubelet",
    "snap.k8s.containerd.service": "containerd",
    "snap.microk8s.daemon-kubelite.service": "kubelite",
    "snap.microk8s.daemon-containerd.service": "containerd",
}
ROOTS = ("/var/lib/kubelet", "/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet")
CONFIG = "/var/lib/kubelet/config.yaml"  # kubeadm's
# What a node fills, and what may outlive it.
FOLDERS = (
    "/var/lib/kubelet/pods",
    *ROOTS[1:],
    "/var/lib/rancher/k3s/agent",
    "/var/lib/rancher/rke2/agent",
)
# Below any --root-dir. A UID is an UUID; of a static pod the digest of its manifest.
_IN_ROOT = regex(
    r"/pods/[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}/(?:volumes|volume-subpaths|plugins"
    r"|containers)/"
    r"|/plugins/kubernetes\.io/"
)


def is_of_pods(target: str) -> bool:
    """Whether the kubelet mounts there, for pods: what is there its CSI drivers decide, and it
    comes and goes.
    """
    path = f"{target}/"
    return any(path.startswith(f"{root}/") for root in ROOTS) or _IN_ROOT.search(path) is not None
