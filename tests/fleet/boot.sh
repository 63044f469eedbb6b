#!/bin/sh
# First in a host's new namespaces, still on this machine's files: builds the host's view and enters it for good.
# The process namespace is this machine's, because hosttune knows a container by a namespace of its own. So nothing here
# may signal -1 or process 1, and reboot(2) is out of reach.
# boot.sh NAME FOLDER TREE DEVICE PYTHON       FOLDER holds upper/ work/ root/ sysctl/; PYTHON is a folder or empty
set -eu
name=$1 folder=$2 tree=$3 device=$4 python=$5
root=$folder/root

mount --make-rprivate /
mount -t overlay -o "lowerdir=$tree,upperdir=$folder/upper,workdir=$folder/work" overlay "$root"
if [ "$python" ]; then
    mkdir -p "$root$python"
    mount --bind -o ro "$python" "$root$python"
fi
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
mount -t tmpfs -o mode=755,nosuid,nodev,size=64m run "$root/run"

mount -t tmpfs -o mode=755,size=1m devices "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev shm "$root/dev/shm"
for device_node in null:3 zero:5 full:7 random:8 urandom:9 kmsg:11; do
    mknod -m 666 "$root/dev/${device_node%:*}" c 1 "${device_node#*:}"
done
mknod -m 666 "$root/dev/tty" c 5 0
mknod -m 660 "$root/dev/vdb" b $(stat -c '%Hr %Lr' "$device")
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

# The sysctls of this machine are not theirs: each boot gets a copy in plain files. They check no value, and whoever
# writes one opens it with O_TRUNC, or the end of a longer value stays.
mount -t tmpfs -o mode=755,size=16m sysctl "$folder/sysctl"
cp -a "$folder/../sysctl-seed/." "$folder/sysctl/"
cat /proc/sys/kernel/random/uuid >"$folder/sysctl/kernel/random/boot_id"
echo "$name" >"$folder/sysctl/kernel/hostname"
mount --bind "$folder/sysctl" "$root/proc/sys"
for file in sysrq-trigger kcore kmsg; do
    [ ! -e "$root/proc/$file" ] || mount --bind "$root/dev/null" "$root/proc/$file"
done

cd "$root"
mkdir -p .outside
pivot_root . .outside
cd /
umount -l /.outside
# Whose mounts are looked at is told by comparing with process 1, so the host has one of its own.
mount --bind "/proc/$$" /proc/1
rmdir /.outside
hostname "$name"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    setpriv --bounding-set=-sys_boot,-sys_module,-sys_rawio,-sys_time --inh-caps=-all /sbin/fleet-init
