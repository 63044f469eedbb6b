"""What a described machine shows of limits, shared memory and container runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.hosts.machine import Machine

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max file size             unlimited            unlimited            bytes
Max stack size            8388608              unlimited            bytes
Max core file size        0                    unlimited            bytes
Max processes             513866               513866               processes
Max open files            {soft:<20} {hard:<20} files
Max locked memory         {memlock:<20} {memlock:<20} bytes
Max msgqueue size         819200               819200               bytes
"""
DOCKER_UNIT = """\
[Unit]
Description=Docker Application Container Engine

[Service]
Type=notify
ExecStart=/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock
LimitNOFILE=infinity

[Install]
WantedBy=multi-user.target
"""
DAEMON_JSON = """\
{
    "data-root": "/data/docker",
    "default-shm-size": "1G",
    "default-ulimits": {"memlock": {"Name": "memlock", "Hard": -1, "Soft": -1}},
    "log-driver": "local",
    "runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
}
"""
RUNTIME_TOML = """\
disable-require = false

[nvidia-container-cli]
environment = []

[nvidia-container-runtime]
log-level = "info"
mode = "auto"

[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
"""
CONTAINERD_TOML = """\
version = 2
root = "/data/containerd"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
  BinaryName = "/usr/bin/nvidia-container-runtime"
"""
CDI_SPEC = """\
---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{driver}
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{driver}
"""


def limits_text(soft: int = 1024, hard: int = 524288, memlock: str = "8388608") -> str:
    """/proc/PID/limits, as systemd's defaults are unless said otherwise."""
    return LIMITS.format(soft=soft, hard=hard, memlock=memlock)


def kernel_limits(machine: Machine) -> dict[str, str]:
    """The kernel's bounds, and this session's limits."""
    kernel = {
        "nr_open": "1048576",
        "inotify/max_user_instances": "128",
        "inotify/max_user_watches": "65536",
    }
    files = {f"/proc/sys/fs/{name}": f"{value}\n" for name, value in kernel.items()}
    files["/proc/1/limits"] = limits_text(memlock="8388608")
    files["/proc/sys/user/max_user_namespaces"] = "513866\n"
    if machine.has_systemd:
        files["/etc/systemd/logind.conf"] = "[Login]\n#RemoveIPC=yes\n"
        files["/etc/security/limits.conf"] = "# see limits.conf(5)\n"
        if machine.os_version in {"24.04", "26.04"}:
            files["/proc/sys/kernel/apparmor_restrict_unprivileged_userns"] = "1\n"
    return files


def service_files(unit: str, pid: int, name: str, limits: str) -> dict[str, str]:
    """A running service of one process."""
    return {
        f"/sys/fs/cgroup/system.slice/{unit}/cgroup.procs": f"{pid}\n",
        f"/proc/{pid}/comm": f"{name}\n",
        f"/proc/{pid}/limits": limits,
    }


def runtime_files(driver: str) -> dict[str, str]:
    """Docker, containerd and NVIDIA's toolkit, set up as they should be."""
    return {
        "/usr/lib/systemd/system/docker.service": DOCKER_UNIT,
        "/etc/docker/daemon.json": DAEMON_JSON,
        "/etc/containerd/config.toml": CONTAINERD_TOML,
        "/etc/nvidia-container-runtime/config.toml": RUNTIME_TOML,
        "/var/run/cdi/nvidia.yaml": CDI_SPEC.format(driver=driver),
        **service_files(
            "docker.service", 1401, "dockerd", limits_text(1048576, 1048576, "unlimited")
        ),
        **service_files(
            "containerd.service", 1377, "containerd", limits_text(1048576, 1048576, "unlimited")
        ),
        **service_files("ssh.service", 1102, "sshd", limits_text()),
    }


# What a site set so that jobs find enough of it.
SITE_LIMITS = {
    "/etc/security/limits.d/90-site.conf": "* - nofile 1048576\nroot - nofile 1048576\n",
    "/etc/sysctl.d/60-site.conf": "fs.inotify.max_user_instances = 8192\nfs.inotify.max_user_watches = 1048576\n",
    "/proc/sys/fs/inotify/max_user_instances": "8192\n",
    "/proc/sys/fs/inotify/max_user_watches": "1048576\n",
}
RUNTIME_PACKAGES = {
    "containerd.io": "2.3.7-1",
    "docker-ce": "5:29.7.0-1~ubuntu.24.04~noble",
    "nvidia-container-toolkit": "1.19.1-1",
}
