"""What a guest shows of each rule that says `verified: vm`: the program or the file that a value is
for, asked after a boot that follows the apply, and after one that follows the undo.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tests.vm.guest import Guest

LOGIN = "su - -s /bin/sh nobody -c"
# What Docker gives a container that asks for nothing is told when it is made; it need not run.
# Docker's own client is another 40 MB. Started for this alone: each boot would take ten seconds
# more.
MADE_CONTAINER = """\
systemctl start docker.service && python3 - <<'END'
import http.client, json, socket
docker = http.client.HTTPConnection("docker")
docker.sock = socket.socket(socket.AF_UNIX)
docker.sock.connect("/run/docker.sock")
def ask(method, path, body=None, of="application/json"):
    docker.request(method, path, body, {"Content-Type": of})
    return docker.getresponse().read()
ask("POST", "/images/create?fromSrc=-&repo=empty", bytes(10240), "application/x-tar")
made = json.loads(ask("POST", "/containers/create", json.dumps({"Image": "empty", "Cmd": ["none"]})))
given = json.loads(ask("GET", f"/containers/{made['Id']}/json"))["HostConfig"]
print(given["ShmSize"], *sorted(given["LogConfig"]["Config"].items()))
END
systemctl stop docker.service docker.socket containerd.service
"""
# This machine is its own NFS server; the file system is mounted anew after each boot, as automount
# would.
MOUNTED_NFS = """\
mountpoint -q /mnt/nfs || {
  mkdir -p /mnt/nfs /srv/nfs && modprobe nfsd && { mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd; } &&
  exportfs -o rw,fsid=0,no_subtree_check 127.0.0.1:/srv/nfs && rpc.nfsd -N 3 -V 4 1 && rpc.mountd -N 3 &&
  mount -t nfs4 127.0.0.1:/ /mnt/nfs && udevadm settle
}
"""
# A service that jobs hang on, whose program was replaced while it runs.
OUTDATED_SERVICE = """\
cp /usr/bin/sleep /usr/local/bin/slurmd && systemd-run --quiet --service-type=exec --unit=slurmd slurmd 600 &&
rm /usr/local/bin/slurmd && needrestart -l -r l | sed -n '/^Services/,/slurmd/p'; systemctl stop slurmd.service
"""

# What the rules below need of a host: an image that leaves the timer off, a folder for scratch, an
# NFS mount. The others are made by containerd when it first starts, and by an apply, whose undo
# leaves them empty.
PREPARATION = f"""\
echo disable fstrim.timer > /usr/lib/systemd/system-preset/20-image.preset && systemctl --quiet disable --now fstrim.timer &&
install -d /etc/cni /etc/systemd/logind.conf.d && install -d -m 700 /etc/cni/net.d && install -d -m 1777 /data/scratch && {MOUNTED_NFS}"""
# The guest is small, virtual and without a card: what pays only on others is told that this is one
# of them.
SITE = b"""\
profile: slurm-node
max_risk: high
disturb: a service
select: [memory-dirty-limits]
data_mounts:
  - {source: LABEL=fresh, target: /mnt/fresh}
params:
  memory-dirty-limits: {min_ram_gib: 1, write_mib_per_s: 20}
  memory-swappiness: {min_ram_bytes: 1073741824}
  network-sysctl: {min_gbps: 0}
  services-needrestart: {entries: all}
  storage-scratch-variables: {folder: /data/scratch}
  storage-tmp-tmpfs: {where: anywhere, min_ram_bytes: 1073741824, min_bytes: 1073741824, max_ram_share: 0.75, used_share: 0.5}
"""


class Shown(NamedTuple):
    """Lines of bash that ask a guest, and what they print, one blank between words."""

    ask: str
    applied: str
    undone: str


SHOWN = {
    "containers-docker-daemon": Shown(
        MADE_CONTAINER, "1073741824 ('max-file', '3') ('max-size', '100m')", "67108864"
    ),
    "limits-nofile": Shown(f"{LOGIN} 'ulimit -n'; sysctl -n fs.inotify.max_user_instances", "65536 8192", "1024 128"),
    "limits-removeipc": Shown(
        "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager RemoveIPC",
        "b false", "b true",
    ),
    "memory-dirty-limits": Shown(
        f"{MOUNTED_NFS} cd /sys/class/bdi/$(mountpoint -d /mnt/nfs) && cat max_ratio strict_limit", "40 1", "100 0"
    ),
    "memory-max-map-count": Shown("sysctl -n vm.max_map_count", "1048576", "65530"),
    "memory-numa-balancing": Shown("sysctl -n kernel.numa_balancing", "0", "1"),
    "memory-swappiness": Shown("sysctl -n vm.swappiness", "10", "60"),
    "network-sysctl": Shown(
        "sysctl -n net.core.{r,w}mem_max net.ipv4.tcp_{r,w}mem net.ipv4.neigh.default.gc_thresh{1,2,3}",
        "134217728 134217728 4096 131072 134217728 4096 16384 134217728 4096 8192 16384",
        "212992 212992 4096 131072 6291456 4096 16384 4194304 128 512 1024",
    ),
    "services-needrestart": Shown(
        OUTDATED_SERVICE,
        "Services to be restarted: Service restarts being deferred: systemctl restart slurmd.service",
        "Services to be restarted: systemctl restart slurmd.service",
    ),
    "storage-data-mounts": Shown("findmnt -n -o FSTYPE,VFS-OPTIONS --mountpoint /mnt/fresh", "xfs rw,noatime", ""),
    "storage-fstrim": Shown(
        "systemctl is-enabled fstrim.timer; systemctl is-active fstrim.timer", "enabled active", "disabled inactive"
    ),
    # The server gives 256 KiB at most, as it has little memory: 15 times that.
    "storage-nfs-readahead": Shown(
        f"{MOUNTED_NFS} cat /sys/class/bdi/$(mountpoint -d /mnt/nfs)/read_ahead_kb", "3840", "128"
    ),
    "storage-noatime": Shown("findmnt -n -o VFS-OPTIONS --mountpoint /data", "rw,noatime", "rw,relatime"),
    "storage-readahead": Shown("blockdev --getra /dev/vdb", "8192", "256"),
    "storage-scratch-variables": Shown(f"{LOGIN} 'echo $TMPDIR'", "/data/scratch/nobody/tmp", ""),
    # To ten MiB: half of the memory is a little more or less with each kernel and processor.
    "storage-tmp-tmpfs": Shown(
        "findmnt -b -n -o FSTYPE,SIZE --mountpoint /tmp | awk '{print $1, int($2 / 10485760 + 0.5) * 10}'",
        "tmpfs 1020", "tmpfs 990",
    ),
}  # fmt: skip

# The same of the guest of test_bare.py, which looks like bare metal.
SHOWN_ON_METAL = {
    "gpu-persistence": Shown(
        "tr '\\0' ' ' < /proc/$(systemctl show -P MainPID nvidia-persistenced.service)/cmdline",
        "/bin/sh /usr/bin/nvidia-persistenced --verbose",
        "/bin/sh /usr/bin/nvidia-persistenced --verbose --no-persistence-mode",
    ),
    "gpu-update-hold": Shown(
        "unattended-upgrade --dry-run --debug 2>&1 | grep -o \"PkgPin(pkg='nvidia-utils-580', priority=-32768)\"",
        "PkgPin(pkg='nvidia-utils-580', priority=-32768)", "",
    ),
    "kernel-init-on-alloc": Shown("dmesg | grep -o 'heap alloc:[a-z]*'", "heap alloc:off", "heap alloc:on"),
    "kernel-iommu": Shown("cat /sys/bus/pci/devices/0000:00:01.0/iommu_group/type", "identity", "DMA-FQ"),
    "limits-memlock": Shown(f"{LOGIN} 'ulimit -l'", "unlimited", "8192"),
    "limits-pid-max": Shown("sysctl -n kernel.pid_max", "4194304", "32768"),
    "network-arp": Shown("sysctl -n net.ipv4.conf.all.arp_{ignore,announce}", "1 2", "0 0"),
    "services-core-size": Shown(
        "systemd-analyze cat-config systemd/coredump.conf | grep ^[A-Z]",
        "ProcessSizeMax=2147483648 ExternalSizeMax=2147483648", "",
    ),
    # The journal that was begun on the disk stays there, and is written on, when the setting is
    # taken back.
    "services-journal": Shown(
        "journalctl --header --boot | grep -o '/var/log/journal'; systemd-analyze cat-config systemd/journald.conf |"
        " grep ^Storage", "/var/log/journal Storage=persistent", "/var/log/journal",
    ),
    "storage-io-scheduler": Shown("cat /sys/block/sda/queue/scheduler", "none [mq-deadline]", "[none]"),
}  # fmt: skip

# Advice has nothing to apply: the guest of this file has the fault itself, is told of it, and is
# well before and after.
FAULTS = {
    "cpu-clock-source": "test_bare.py",
    "cpu-offline": "test_bare.py",
    "cpu-smt-mitigations": "test_bare.py",
    "host-hardware-errors": "test_bare.py",
    "kernel-cmdline": "test_bare.py",
    "limits-shm": "test_bare.py",
    "limits-tasks": "test_bare.py",
    "memory-missing": "test_bare.py",
    "memory-overcommit": "test_bare.py",
    "memory-pressure": "test_bare.py",
    "memory-reserved": "test_bare.py",
    "memory-thp": "test_bare.py",
    "services-auto-reboot": "test_bare.py",
    "services-core-dumps": "test_bare.py",
    "services-oomd": "test_bare.py",
    "services-sleep-desktop": "test_bare.py",
    "services-time-sync": "test_bare.py",
    "services-tuner-conflict": "test_bare.py",
    "storage-hangs": "test_data_disks.py",
    "storage-io-errors": "test_bare.py",
    "storage-nfs-mounts": "test_bare.py",
    "storage-paths": "test_bare.py",
    "storage-pools": "test_data_disks.py",
    "storage-raid": "test_data_disks.py",
    "storage-reserved-blocks": "test_bare.py",
    "storage-scratch": "test_data_disks.py",
    "storage-stopped": "test_data_disks.py",
}


def answers(guest: Guest, shown: Mapping[str, Shown] = SHOWN) -> dict[str, str]:
    """What the guest says now, by rule."""
    return {
        rule: " ".join(guest.run(["bash", "-c", one.ask]).stdout.split())
        for rule, one in shown.items()
    }
