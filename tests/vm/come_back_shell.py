"""Shell that scenarios of `come_back_scenarios.py` run in their guest, and nowhere else."""

from pathlib import Path

# All room of the root file system, that kept for root, too.
FILL = "fallocate -l $(df --output=avail -B1 / | tail -1) /root/fill; dd if=/dev/zero of=/root/fill2 bs=4k 2>/dev/null; true"
FILE_CALLS = "rename,renameat,renameat2,unlink,unlinkat"
# hosttune gives a boot on trial ten minutes at least: without the drop-in that makes guests
# quicker.
UNHURRIED = "rm -rf /etc/systemd/system/hosttune-trial-deadline.timer.d"
UNTIL_CONFIRMED = (
    "hosttune trial --wait; until [ ! -e /etc/hosttune/trial ]; do sleep 1; done; hosttune history"
)
# Never stops, and so a reboot never comes about by itself.
STUCK = """
cat > /etc/systemd/system/stuck.service <<'EOF'
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=true
ExecStop=sleep infinity
TimeoutStopSec=infinity
[Install]
WantedBy=multi-user.target
EOF
systemctl --quiet enable stuck
"""
# Takes all of the processor for itself, so that not even systemd runs any more; since Linux 6.12
# only where what the scheduler keeps for others is taken away, too (sched/deadline, the fair
# server).
HOG = """
cat > /etc/systemd/system/hog.service <<'EOF'
[Unit]
Before=hosttune-agent.service
[Service]
ExecStartPre=-mount -t debugfs debugfs /sys/kernel/debug
ExecStartPre=-sh -c 'for one in /sys/kernel/debug/sched/fair_server/*/runtime; do echo 0 > $one; done'
ExecStart=sh -c 'echo -1 > /proc/sys/kernel/sched_rt_runtime_us; exec chrt -f 99 sh -c "while :; do :; done"'
EOF
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\\nRuntimeWatchdogSec=30s\\n' > /etc/systemd/system.conf.d/watchdog.conf
echo i6300esb >> /etc/initramfs-tools/modules
update-initramfs -u
modprobe i6300esb && systemctl daemon-reexec && [ -e /dev/watchdog0 ]
"""
KEY = """
mkdir -p -m 700 /root/.ssh
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id
cp /root/.ssh/id.pub /root/.ssh/authorized_keys
"""
SSH = "ssh -i /root/.ssh/id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR root@127.0.0.1"
# Of the package, its prerm alone: hosttune itself is pip's in guests.
_PRERM = (Path(__file__).parents[2] / "playbooks/packaging/debian/prerm").read_text(
    encoding="utf-8"
)
PACKAGE = f"""
set -e
mkdir -p /root/p/DEBIAN /usr/lib/hosttune
cat > /root/p/DEBIAN/control <<'EOF'
Package: hosttune
Version: 1
Architecture: all
Maintainer: Nobody <nobody@example.org>
Description: its prerm
EOF
cat > /root/p/DEBIAN/prerm <<'EOF'
{_PRERM}EOF
chmod 755 /root/p/DEBIAN/prerm
dpkg-deb -b /root/p /root/p.deb
dpkg -i /root/p.deb
"""


def cut(command: str, at: int) -> str:
    """A command of hosttune that ends as when the power goes, at the file with this number that it
    makes or removes.
    """
    inject = f"-e trace={FILE_CALLS} -e inject={FILE_CALLS}:signal=KILL:when={at}"
    return f"strace -f -qq -o /dev/null {inject} hosttune {command}; [ $? = 137 ]"


def cut_at_sync(number: int) -> str:
    """Cuts the power at the call of sync(1) with this number; the guard's script calls it after all
    that it writes.
    """
    return f"""
cat > /usr/sbin/sync <<'EOF'
#!/bin/sh
n=$(($(cat /root/syncs 2> /dev/null || echo 0) + 1))
echo $n > /root/syncs
/usr/bin/sync /root/syncs
[ $n != {number} ] || {{ echo b > /proc/sysrq-trigger; sleep 60; }}
exec /usr/bin/sync "$@"
EOF
chmod +x /usr/sbin/sync
/usr/bin/sync
"""
