"""A Kubernetes node with NVIDIA's GPU Operator: the driver lives in a container, the kubelet owns
swap, /tmp and the local disks.

Sources: NVIDIA, "GPU Operator" (driver container mounted at /run/nvidia/driver, validations,
toolkit in /usr/local/nvidia/toolkit); kubelet's reference (local volumes, failSwapOn).
"""

from tests.hosts.driver import loaded
from tests.hosts.kinds.common import KERNEL_MOUNTS, eight, shm
from tests.hosts.machine import DiskSpec, Machine, MountSpec
from tests.hosts.make import PARAMS

KERNEL = "6.8.0-79-generic"
VERSION = "580.126.20"
GPUS = eight("0x2330")

MACHINE = Machine(
    name="k8s-gpu-operator", os_version="22.04", codename="jammy", kernel=KERNEL, cpu_model="Intel(R) Xeon(R) Platinum 8462Y+", cpu_vendor="GenuineIntel", sockets=2, cores_per_socket=32, nodes=2,
    mem_gib=1007, vendor="Dell Inc.", product="PowerEdge XE9680",
    disks=(DiskSpec("nvme0n1", 894, partitions=(1, 2), model="Dell BOSS-N1"), *(DiskSpec(f"nvme{number}n1", 3576, model="Dell Ent NVMe PM1733a RI") for number in range(1, 5))),
    mounts=(MountSpec("/", "/dev/nvme0n1p2", "ext4", "259:2", gib=880), *KERNEL_MOUNTS, shm(1007)),
    fstab="UUID=0a11-22 / ext4 errors=remount-ro 0 1\n",
    unmounted=(("/dev/nvme0n1p1", "vfat", "0A11-00FF"),),
    gpus=GPUS,
    packages={f"linux-image-{KERNEL}": "6.8.0-79.79~22.04.1", "containerd.io": "2.1.4-1", "kubelet": "1.33.4-1.1", "kubeadm": "1.33.4-1.1", "unattended-upgrades": "2.8ubuntu1"},
    folders=("/run/nvidia/validations", "/usr/local/nvidia/toolkit", "/var/lib/kubelet"),
    files={
        "/var/lib/kubelet/config.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailSwapOn: true\n",
        "/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs": "1701\n", "/sys/fs/cgroup/system.slice/containerd.service/cgroup.procs": "1702\n",
        "/usr/lib/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet\n[Install]\nWantedBy=multi-user.target\n",
        "/etc/containerd/config.toml": 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]\n  BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"\n',
        "/usr/local/nvidia/toolkit/nvidia-container-runtime": "", "/run/nvidia/validations/driver-ready": "",
        "/run/nvidia/driver/usr/bin/nvidia-smi": "", f"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{VERSION}": "",
        "/run/nvidia/driver/etc/os-release": 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="22.04"\n',
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build  (root@gpu)\n", "/sys/module/nvidia/version": f"{VERSION}\n",
        "/dev/nvidia0": "", "/dev/nvidiactl": "", "/proc/driver/nvidia/params": PARAMS,
        "/etc/sysctl.d/99-kubernetes.conf": "net.ipv4.ip_forward = 1\nvm.overcommit_memory = 1\n",
    },
    links={"/etc/systemd/system/multi-user.target.wants/kubelet.service": "/usr/lib/systemd/system/kubelet.service"},
    # The door asks the nvidia-smi of the driver's container under the same words.
    queries={("ubuntu-drivers", "devices"): None, **loaded(GPUS, VERSION, KERNEL)},
)  # fmt: skip
