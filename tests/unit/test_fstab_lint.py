"""What `lint` says of an fstab: each kind of remark on a line that has it, and none on lines that
are right.
"""

from __future__ import annotations

import pytest

from hosttune.facts.storage.fstab_lines import line_problem, parse
from hosttune.facts.storage.fstab_options import hide_secrets, mask_options
from hosttune.facts.storage.fstab_types import needs_network
from hosttune.facts.storage.mounts import name_effective_type
from hosttune.resources.storage import fstab_cycles
from hosttune.resources.storage.fstab_lint import LineErrors, RemarkLevel, lint
from tests.unit.growth import count_calls
from tests.unit.test_fstab_document import SAMPLES

GOOD = b"""\
# /etc/fstab: static file system information.
UUID=0a3407de-014b-458b-b5c1-848e92a327a3 / ext4 errors=remount-ro 0 1
UUID=F2CA-0AC0 /boot/efi vfat umask=0077 0 1
/swap.img none swap sw 0 0
LABEL=data\t/data\txfs\tnoatime,nofail,x-systemd.device-timeout=30\t0 0 # the big one
/dev/mapper/vg-home /home ext4 defaults,nofail 0 2
nas:/export /nfs nfs4 rw,_netdev,nofail 0 0
/data/x /srv/x none bind,nofail 0 0
tmpfs /tmp tmpfs mode=1777,nosuid,nodev,size=16G,nofail,x-systemd.before=local-fs.target 0 0
tmpfs /scratch tmpfs size=10%,nr_inodes=1m 0 0
/dev/sr0 /media/cdrom iso9660 ro,user,noauto 0 0
LABEL=stick /stick ext4 user,noauto 0 0
LABEL=cold /cold xfs nofail,users,noexec 0 2
UUID=1a3407de-014b-458b-b5c1-848e92a327a3 /fast ext4 user,exec,dev,nofail,errors=remount-ro,data=ordered,commit=60 0 2
UUID=2a3407de-014b-458b-b5c1-848e92a327a3 /pool btrfs subvol=@,compress=zstd:1,ssd,discard=async,noatime,nofail 0 0
//nas/share /cifs cifs credentials=/root/.smb,uid=1000,nofail 0 0
tank/set /zfs zfs defaults,nofail 0 0
LABEL="my\\040disk" /a ext4 user_xattr,acl,barrier=0,auto_da_alloc,init_itable=10,nofail,context="system_u:x:s0:c1,c2" 0 2
PARTUUID=d2d0b257-db63-4d79-9dc3-8e2826ff2a01 /b xfs inode64,logbufs=8,logbsize=256k,allocsize=64m,usrquota,nofail 0 0
PARTUUID=f4cdcc4c-01 /c vfat uid=root,umask=0077,utf8,iocharset=utf8,shortname=mixed,errors=remount-ro,nofail 0 0
UUID=5AD4B6A3D4B6810D /d ntfs3 uid=1000,sparse,nofail 0 0
/dev/mapper/luks-x /e f2fs compress_algorithm=zstd:6,background_gc=on,nofail 0 2
/dev/md0 /f ext4 nofail,stripe=128,data=writeback,commit=60,x-systemd.requires-mounts-for=/a 0 2
/dev/vg/lv /g xfs nofail,X-mount.mkdir=0755,symfollow,_netdev 0 0
nas:/b /h nfs vers=4.2,nconnect=8,hard,timeo=600,rsize=1048576,sec=krb5:sys,nofail,lookupcache=pos 0 0
nas:/c /i nfs4 bg,soft,noac,nolock,proto=rdma,port=20049 0 0
beegfs_nodev /j beegfs cfgFile=/etc/beegfs/beegfs-client.conf,_netdev,nofail 0 0
s3fs#bucket /k fuse _netdev,allow_other,nofail 0 0
u@h:/x /l fuse.sshfs IdentityFile=/root/k,reconnect,nofail 0 0
share /m virtiofs nofail 0 0
/srv/a /n none rbind,rslave,nofail 0 0
/srv/b /o none bind,ro,x-systemd.requires-mounts-for=/n,nofail 0 0
overlay /p overlay lowerdir=/a:/b,upperdir=/u,workdir=/w,redirect_dir=on,metacopy=on,nofail,x-systemd.after=/a,x-systemd.after=b.mount 0 0
/images/x.squashfs /q squashfs loop,ro,nofail 0 0
tmpfs /run/media/x tmpfs size=1G 0 0
tmpfs /media/y tmpfs size=1G 0 0
hugetlbfs /dev/hugepages1G hugetlbfs pagesize=1G,mode=1770,gid=kvm 0 0
proc /proc proc hidepid=invisible,gid=adm 0 0
"""

LINES = [  # code, level, line, words of the message, words of the way out
    ("misread", "error", "tmpfs /tmp tmpfs size=64M # added", "a comment after field 4", "line of its own"),
    ("misread", "error", "/dev/x /data ext4 defaults, noatime 0 2", "a blank among the options", "without blanks"),
    ("misread", "error", "BOOT", "one field", "put a #"),
    ("misread", "error", "/dev/x /data", "two fields", "complete it"),
    ("misread", "error", "UUID=1 /data\u00a0ext4\u00a0rw", "two fields, because U+00A0", "anew"),
    ("misread", "error", "/dev/x /data ext4 rw 0 2UUID=1 /b ext4 rw 0 2", "glued to the number in field 6", "new line"),
    ("misread", "error", "/dev/x /data ext4 rw 0 2#x", "glued to the number in field 6", "a blank there"),
    ("misread", "error", "/dev/x /data ext4 rw zero 2", "first number", "commas"),
    ("misread", "error", "/dev/x /data ext4 rw 0 two", "second number", "0 0"),
    ("misread", "error", "/dev/x /data ext4 rw,=x 0 0", "an option without a name", "remove"),
    ("misread", "error", "/dev/x /da\\043ta ext4 rw 0 0", "the escape \\043", "\\040"),
    ("misread", "error", "/dev/x /da\\\\ta ext4 rw 0 0", "the escape \\\\", "\\134"),
    ("misread", "error", "/dev/x /data ext4 x-a=" + "a" * 4200 + " 0 2", "beyond 4095 bytes", "shorten"),
    ("misread", "note", "/etc/auto /data autofs ignore 0 0", "hides this line", "leave it"),
    ("long-line", "warning", "/dev/x /data ext4 x-a=" + "a" * 4030 + " 0 2", "4056 bytes", "shorten"),
    ("open-quote", "error", '/dev/x /data ext4 context="a,b,nofail 0 0', "open quote", "close it"),
    ("relative-target", "error", "/dev/x data ext4 rw,nofail 0 0", "`data` is no absolute path", "whole path"),
    ("id-tag", "error", "ID=ata-x /data ext4 rw 0 2", "systemd does not resolve ID=", "by-id"),
    ("id-tag", "warning", "ID=ata-x /data ext4 rw,nofail 0 2", "systemd does not resolve", "UUID="),
    ("unknown-tag", "error", "uuid=1-2 /data ext4 rw 0 2", "no program resolves uuid=", "write it as UUID="),
    ("unknown-tag", "warning", "UID=1-2 /data ext4 rw,nofail 0 2", "resolves UID=", "one of UUID, LABEL"),
    ("uuid-case", "warning", "UUID=F9FE0B69-A280-415D-A03A-A32752370DEE /data ext4 rw,nofail 0 2", "lower case", "f9fe0b69"),
    ("kernel-name", "warning", "/dev/sdb1 /data ext4 rw,nofail 0 2", "another disk after the next boot", "blkid"),
    ("kernel-name", "warning", "/dev/nvme0n1p2 /data ext4 rw,nofail 0 2", "another disk", "/dev/nvme0n1p2"),
    ("kernel-name", "warning", "/dev/dm-3 /data ext4 rw,nofail 0 2", "another disk", "blkid -s UUID /dev/dm-3"),
    ("kernel-name", "warning", "/dev/md127 /data ext4 rw,nofail 0 2", "mdadm counts down from 127", "UUID /dev/md127"),
    ("kernel-name", "warning", "/dev/md126p1 /data xfs rw,nofail 0 2", "another array", "name it by UUID"),
    ("early-automount", "note", "nas:/h /home nfs4 noauto,x-systemd.automount 0 0", "systemd 258 on", "_netdev,nofail"),
    ("early-automount", "note", "/dev/x /srv ext4 _netdev,x-systemd.automount 0 0", "hang the boot", "at boot"),
    ("atime-contradiction", "warning", "/dev/x /data ext4 noatime,relatime,nofail 0 2", "depends on how mount(8)", "one of them"),
    ("contradiction", "warning", "/dev/x /data ext4 rw,nofail,ro 0 2", "the last one counts: ro", "one of them"),
    ("upper-case", "error", "/dev/x /data ext4 NOATIME 0 2", "`NOATIME` is none", "write it as `noatime`"),
    ("upper-case", "warning", "/dev/x /data ext4 NoAtime,nofail 0 2", "case-sensitive", "`noatime`"),
    ("upper-case", "error", "/dev/x / ext4 Defaults 0 1", "stays read-only", "`defaults`"),
    ("upstart-word", "error", "/dev/x /data ext4 nobootwait 0 2", "emergency shell", "nofail"),
    ("upstart-word", "error", "/dev/x / ext4 bootwait 0 1", "the root file system stays read-only", "take it out"),
    ("misspelt", "warning", "/dev/x /data ext4 noatim,nofail 0 2", "has an option `noatim`; where yours has none either", "`noatime`"),
    ("misspelt", "warning", "/dev/x / ext4 erors=remount-ro 0 1", "`erors`", "`errors`"),
    ("misspelt", "warning", "/dev/x /data xfs defualts,nofail 0 2", "`defualts`", "`defaults`"),
    ("tmpfs-size", "error", "tmpfs /scratch tmpfs size=64MB 0 0", "the kernel rejects `size=64MB`", "size=64M"),
    ("tmpfs-size", "error", "tmpfs /scratch tmpfs nodev,size=64MB 0 0", "the kernel rejects `size=64MB`", "size=64M"),
    ("tmpfs-size", "warning", "tmpfs /scratch tmpfs size=8GiB,nofail 0 0", "the mount fails", "size=8G"),
    ("tmpfs-size", "error", "tmpfs /scratch tmpfs size=50%% 0 0", "size=50%%", "size=50%: the sign is doubled"),
    ("tmpfs-size", "error", "tmpfs /scratch tmpfs size=4G\u00a00 0 0", "the kernel rejects", "write size=4G: "),
    ("tmpfs-size", "error", "tmpfs /scratch tmpfs size=4.5G 0 0", "the kernel rejects", "such as size=16G"),
    ("tmpfs-size", "error", "tmpfs /scratch tmpfs size= 0 0", "rejects `size=`", "size=16G"),
    ("tmpfs-mode", "error", "tmpfs /scratch tmpfs mode=rwx 0 0", "rejects `mode=rwx`", "octal"),
    ("tmpfs-nr_inodes", "error", "tmpfs /scratch tmpfs nr_inodes=5% 0 0", "rejects `nr_inodes=5%`", "nr_inodes="),
    ("tmpfs-sticky", "warning", "tmpfs /tmp tmpfs mode=777 0 0", "sticky bit", "mode=1777"),
    ("tmpfs-limit", "warning", "tmpfs /scratch tmpfs size=0 0 0", "no limit", "name a size"),
    ("tmpfs-limit", "warning", "tmpfs /scratch tmpfs size=200% 0 0", "more than all of the memory", "name a size"),
    ("passno", "warning", "tmpfs /tmp tmpfs rw 0 2", "no fsck of tmpfs", "write 0"),
    ("passno", "warning", "tank/x /zfs zfs rw,nofail 0 2", "no fsck of zfs", "write 0"),
    ("passno", "warning", "/a:/b /l fuse.mergerfs nofail 0 2", "no fsck of fuse.mergerfs", "write 0"),
    ("passno", "warning", "/data/x /srv none bind 0 2", "no fsck of a bind mount", "write 0"),
    ("systemd-word", "warning", "/dev/x /data ext4 nofail,X-systemd.automount 0 2", "ignores", "x-systemd.automount"),
    ("systemd-word", "warning", "/dev/x /data ext4 nofail,x-systemd.devicetimeout=5 0 2", "has no", "device-timeout"),
    ("root-word", "note", "/dev/x / ext4 nofail 0 1", "ignores `nofail`", "nothing"),
    ("password", "warning", "//nas/x /cifs cifs username=u,password=hunter2,nofail 0 0", "everybody", "credentials="),
    ("user-order", "warning", "/dev/x /data ext4 exec,user,nofail 0 2", "`user` after `exec` means noexec", "before"),
    ("user-noexec", "note", "/dev/x /data ext4 user,nofail 0 2", "`user` implies noexec, nosuid and nodev", "user,exec"),
    ("user-noexec", "note", "/dev/x /data xfs nofail,users,noatime 0 2", "`users` implies noexec", "users,exec"),
    ("no-nofail", "note", "UUID=1 /data ext4 defaults 0 2", "emergency shell", "add nofail"),
    ("no-nofail", "note", "nas:/x /nfs nfs4 rw,_netdev 0 0", "waits for its server", "automount"),
    ("no-nofail", "note", "/home/s3b/file /home/r ext4 loop,_netdev 0 0", "waits for its server", "automount"),  # s3backer#85
    ("no-nofail", "note", "UUID=0f5b6c3e-8d52-4f4b-8f8e-0b1f6e1b2a3c /mnt/iscsi ext4 _netdev 0 2", "waits for its server", "automount"),
    ("no-nofail", "warning", "UUID=1 /media/stick ext4 rw 0 0", "removable", "add nofail"),
    ("no-nofail", "note", "UUID=1 /data ext4 nofail,fail 0 2", "emergency shell", "add nofail"),
    ("no-nofail", "note", "UUID=1 /data ext4 noauto,auto 0 2", "emergency shell", "add nofail"),
    ("managed-line", "note", "/dev/x /data auto defaults,nofail,comment=cloudconfig 0 2", "cloud-init rewrites", "cloud-init"),
    ("false-blank", "warning", "LABEL=a /my\u2003data ext4 nofail 0 2", "U+2003 is no blank", "anew"),
    ("continuation", "warning", "UUID=1 /data ext4 rw,nofail 0 2 \\", "continues nothing", "one line"),
    ("type-gone", "warning", "UUID=1 /data reiserfs nofail 0 2", "Linux 6.13", "before an upgrade"),
    ("type-gone", "warning", "none /proc/bus/usb usbfs rw 0 0", "Linux 3.5", "take the line out"),
    ("misread", "error", "/dev/x /mnt/my data ext4 rw 0 2", "the blank in `/mnt/my data` cuts it in two", "/mnt/my\\040data"),
    ("misread", "error", "//nas/My Share /x cifs rw 0 0", "the blank in `//nas/My Share`", "//nas/My\\040Share"),
    ("misread", "error", 'LABEL="My Disk" /x ext4 rw 0 0', "`LABEL=My Disk`", "LABEL=My\\040Disk"),
    ("misread", "error", "kk# was on /dev/sda1 during installation", "begins no comment", "the # in front"),
    ("blank-in-name", "error", "//nas/My Share /x cifs", "the blank in `//nas/My Share`", "//nas/My\\040Share"),
    ("late-comment", "error", "kk# /dev/sda3 LABEL=arch", "a # after `kk` begins no comment", "in front of the line"),
    ("swapped", "error", "/dev/x /data defaults ext4 0 2", "`defaults` is no type", "write `ext4 defaults`"),
    ("swapped", "error", "/data UUID=1 ext4 defaults 0 2", "`UUID=1` is a device", "first, then /data"),
    ("shifted", "error", "/dev/x /data defaults 0 2", "is where the type belongs", "the type in front"),
    ("shifted", "error", "//nas/x /data uid=1,password=geheim,cifs,ro 0 0", "the type belongs", "`cifs uid=1,password=***,ro`"),
    ("shifted", "error", "//nas/x /data uid=1,rw 0 0", "is where the type belongs", "write `cifs uid=1,rw`"),
    ("shifted", "error", "UUID=1 /a /b defaults 0 2", "`/b` is a path", "SOURCE TARGET TYPE"),
    ("shifted", "error", "/dev/x /data 0 0", "`0` is where the type belongs", "in front of it"),
    ("no-options", "error", "/dev/x /data ext4 0 2", "`0` is where the options belong", "ext4 defaults 0"),
    ("no-options", "error", "tmpfs /data tmpfs 0 0", "tmpfs has no such option", "tmpfs defaults 0"),
    ("unknown-type", "error", "/dev/x /data EXT4 defaults 0 2", "case-sensitive", "write ext4"),
    ("unknown-type", "error", "/dev/x /data etx4 defaults 0 2", "has a type `etx4`", "is ext4 meant?"),
    ("unknown-type", "error", "/dev/x /data xsf defaults 0 2", "has a type `xsf`", "is xfs meant?"),
    ("unknown-type", "error", "//nas/x /data smbfs rw 0 0", "have no type `smbfs`", "write cifs"),
    ("unknown-type", "warning", "/dev/x /data ext5 defaults 0 2", "has a type `ext5`", "meant?"),
    ("unknown-type", "warning", "/dev/x /data scoutfs defaults 0 2", "emergency shell", "/sbin/mount.scoutfs"),
    ("no-bind", "error", "/a /data none defaults 0 0", "without the option `bind`", "write `none bind`"),
    ("no-bind", "error", "/a /data bind defaults 0 0", "`bind` is no file system", "write `none bind`"),
    ("no-bind", "warning", "/a /data none rw,nofail 0 0", "the mount fails", "the type of the file system"),
    ("separator", "error", "/dev/x /data ext4 defaults;nofail 0 2", "only a comma parts options", "defaults,nofail"),
    ("separator", "warning", "/dev/x /data ext4 noatime.commit=5,nofail 0 2", "`noatime.commit=5`", "noatime,commit=5"),
    ("typography", "error", "/dev/x /data ext4 errors=remount\u2013ro 0 2", "U+2013, en dash", "errors=remount-ro"),
    ("typography", "error", "UUID=\u201c0a3407de\u201d /data ext4 rw 0 2", "U+201C", 'write UUID="0a3407de"'),
    ("typography", "error", "/dev/disk/by\u2013uuid/0a /data ext4 rw 0 2", "U+2013", "/dev/disk/by-uuid/0a"),
    ("typography", "error", "LABEL=\u2018data\u2019 /data ext4 rw 0 2", "U+2018", "LABEL='data'"),
    ("refused-option", "error", "/dev/x /data ext4 commit= 0 2", "ext4 refuses `commit=`", "with a number"),
    ("refused-option", "error", "/dev/x /data ext4 inode64 0 2", "an option of xfs, tmpfs; ext4 refuses it", "take `inode64` out"),
    ("refused-option", "error", "/dev/x /data ext4 umask=077 0 2", "an option of vfat", "out"),
    ("refused-option", "error", "/dev/x /data xfs errors=remount-ro 0 0", "xfs refuses it", "out"),
    ("refused-option", "error", "/dev/x /data xfs nobarrier 0 0", "Linux 4.19 and later have no", "out"),
    ("refused-option", "warning", "/dev/x /data btrfs compress=lz4,nofail 0 0", "refuses `compress=lz4`", "zlib, lzo, zstd"),
    ("refused-option", "error", "/dev/x /data ext4 errors=remount-rw 0 2", "refuses", "continue, panic or remount-ro"),
    ("refused-option", "error", "/dev/x /data ext4 nodev=1 0 2", "`nodev` takes no value", "write `nodev`"),
    ("refused-option", "error", "/dev/x /data ext2 data=ordered 0 2", "an option of ext3, ext4", "out"),
    ("refused-option", "error", "/dev/x /data xfs sunit=8 0 0", "sunit= and swidth= only together", "both"),
    ("refused-option", "error", "overlay /data overlay defaults 0 0", "needs lowerdir=", "name"),
    ("refused-option", "error", "/dev/x /data btrfs norecovery 0 0", "only with `ro`", "ro,norecovery"),
    ("refused-option", "error", "/dev/x /data vfat umask=abc 0 0", "refuses `umask=abc`", "an octal number"),
    ("option-by-version", "warning", "/dev/x /data ext4 noacl 0 2", "have no `noacl` on ext4; there the mount", "out"),
    ("option-by-version", "warning", "/dev/x /data btrfs recovery 0 0", "6.8 and later have no `recovery` on btrfs; there", "out"),
    ("option-by-version", "warning", "tmpfs /data tmpfs noswap 0 0", "`noswap` on tmpfs; on older ones the mount", "uname -r"),
    ("unknown-option", "warning", "/dev/x /data ext4 frobnicate 0 2", "where yours has none either", "man 5 ext4"),
    ("root-remount", "warning", "/dev/x / ext4 data=writeback 0 1", "no remount can set", "rootflags=data=writeback"),
    ("root-quota", "warning", "/dev/x / xfs pquota 0 0", "only at its first mount", "rootflags=pquota"),
    ("noexec-packages", "warning", "/dev/x /var xfs nofail,noexec 0 2", "dpkg cannot start", "take noexec out"),
    ("no-tag", "error", "UUID:0a3407de-014b-458b-b5c1-848e92a327a3 /data ext4 rw 0 2", "is no tag", "write UUID=0a3407de"),
    ("no-tag", "error", "LABEL= /data ext4 rw 0 2", "names nothing", "lsblk"),
    ("no-tag", "error", "UUID= /data ext4 rw 0 2", "`UUID=` names nothing", "lsblk -o NAME,FSTYPE,UUID"),
    ("uuid-shape", "error", "UUID=1234-ABCD /data ext4 rw 0 2", "`1234-ABCD` is no UUID of ext4", "lsblk"),
    ("uuid-shape", "warning", "UUID=1234,nofail /data ext4 rw,nofail 0 2", "is no UUID of ext4", "lsblk"),
    ("uuid-shape", "warning", "UUID=<your-uuid> /data ext4 rw 0 2", "is no UUID of ext4", "lsblk"),
    ("uuid-shape", "error", "UUID=0a3407de-014b-458b-b5c1-848e92a327a3 /data vfat rw 0 2", "which has XXXX-XXXX", "lsblk"),
    ("uuid-shape", "error", "/dev/disk/by-uuid/12 /data ext4 rw 0 2", "`12` is no UUID", "lsblk"),
    ("uuid-shape", "error", "PARTUUID=2324 /data ext4 rw 0 2", "no PARTUUID of a partition", "PARTUUID"),
    ("uuid-case", "error", "UUID=f2ca-0ac0 /data vfat rw 0 2", "upper case, and lower case does not match", "UUID=F2CA-0AC0"),
    ("no-device", "error", "/dev/nvmeOn1p1 /data ext4 rw 0 2", "no kernel names a disk", "is /dev/nvme0n1p1 meant?"),
    ("no-device", "error", "/dev/sd1b /data ext4 rw 0 2", "no kernel names a disk", "is /dev/sdb1 meant?"),
    ("no-device", "error", "/dev/nvme0p1 /data ext4 rw 0 2", "the controller", "lsblk"),
    ("no-device", "error", "sdb1 /data ext4 rw 0 2", "is no device", "write /dev/sdb1"),
    ("no-device", "error", "sdb1 /data auto rw 0 2", "is no device", "write /dev/sdb1"),
    ("no-device", "warning", "sdb2 none swap sw 0 0", "is no device", "write /dev/sdb2"),
    ("no-device", "warning", "swapfile none swap sw 0 0", "as systemd wants it: it is not used", "write the whole path (/swapfile), or LABEL="),
    ("no-device", "warning", "ephemeral0.2 none swap sw,comment=cloudconfig 0 0", "left its own name: it is not used", "name the disk in the cloud-config, with nofail"),
    ("no-device", "warning", "ephemeral0 /mnt auto defaults,nofail 0 2", "names no disk", "name the disk in the cloud-config, with nofail"),
    ("no-device", "error", "0a3407de-014b-458b-b5c1-848e92a327a3 /data ext4 rw 0 2", "names no disk", "write UUID=0a3407de"),
    ("no-device", "warning", "0a3407de-014b-458b-b5c1-848e92a327a3 / ext4 rw 0 1", "fsck, does not find its disk", "write UUID=0a3407de"),
    ("no-device", "error", "none /data ext4 rw 0 2", "names no disk", "lsblk"),
    ("no-server", "error", "nas /data nfs rw 0 0", "a colon parts server and folder", "SERVER:/FOLDER"),
    ("no-server", "error", "nas/x /data cifs rw 0 0", "no source of cifs", "//SERVER/SHARE"),
    ("relative-target", "error", "UUID=1 none ext4 rw 0 0", "systemd skips the target `none`", "name the folder"),
    ("no-netdev", "error", "beegfs_nodev /data beegfs rw 0 0", "before there is a network", "add _netdev"),
    ("no-netdev", "error", "fs1 /data gpfs rw 0 0", "ends in the emergency shell", "add _netdev"),
    ("no-netdev", "error", "default /data wekafs rw 0 0", "takes wekafs for a disk", "add _netdev"),
    ("no-netdev", "error", "b /data fuse.gcsfuse rw 0 0", "takes fuse.gcsfuse for a disk", "add _netdev"),
    ("no-netdev", "error", "s3fs#b /data fuse rw 0 0", "takes fuse.s3fs for a disk", "add _netdev"),
    ("no-netdev", "error", "sshfs#u@h:/x /data fuse rw 0 0", "takes fuse.sshfs for a disk", "add _netdev"),
    ("no-netdev", "error", "/usr/local/bin/goofys#b /data fuse rw 0 0", "takes fuse.goofys for a disk", "add _netdev"),
    ("no-netdev", "error", "mfsmount /data fuse rw 0 0", "takes fuse.mfsmount for a disk", "add _netdev"),
    ("no-netdev", "error", "gdfuse#a /data fuse rw 0 0", "takes fuse.gdfuse for a disk", "add _netdev"),
    ("no-netdev", "error", "atlas.cern.ch /data cvmfs rw 0 0", "takes cvmfs for a disk", "add _netdev"),
    ("no-netdev", "error", "h:/x /data foofs rw 0 0", "takes foofs for a disk", "add _netdev"),
    ("no-netdev", "warning", "x /data 9p trans=virtio 0 0", "systemd counts 9p among the disks", "add nofail"),
    ("no-netdev", "warning", "x /data virtiofs rw 0 0", "ends in the emergency shell", "add nofail"),
    ("late-netdev", "note", "https://h/x /data davfs nofail 0 0", "systemd before 252", "add _netdev"),
    ("no-netdev", "note", "b /data fuse.rclone rw,nofail 0 0", "a boot may go on without it", "add _netdev"),
    ("no-nofail", "warning", "UUID=1 /run/media/stick ext4 rw 0 0", "removable", "add nofail"),
    ("no-nofail", "note", "UUID=1 /data ntfs-3g rw 0 0", "does not find this disk", "add nofail"),
    ("no-nofail", "note", "ntfs-3g#/dev/sdb1 /data fuse rw 0 0", "does not find this disk", "add nofail"),
    ("no-nofail", "note", "/a:/b /data fuse.mergerfs rw 0 0", "a boot on which mergerfs fails", "add nofail"),
    ("no-nofail", "note", "nas:/x /data nfs fg 0 0", "waits for its server", "nofail"),
    ("quoted-source", "error", 'UUID="0a3407de /data ext4 rw 0 2', "the quote in", "write UUID=0a3407de"),
    ("quoted-source", "warning", 'UUID=0a3407de" /data ext4 nofail 0 2', "the quote in", "write UUID=0a3407de"),
    ("quoted-source", "error", "LABEL='data /data ext4 rw 0 2", "no device has the quote", "write LABEL=data"),
    ("quoted-source", "error", '"UUID=0a3407de" /data ext4 rw 0 2', "no device has the quote", "write UUID=0a3407de"),
    ("quoted-source", "error", '"/dev/sdb1" /data ext4 rw 0 2', "no device has the quote", "write /dev/sdb1"),
    ("source-escape", "error", "LABEL=my\\x20disk /data ext4 rw 0 2", "with its backslash", "write LABEL=my\\040disk"),
    ("no-such-folder", "error", "/dev/disk/by-uid/0a /data ext4 rw 0 2", "udev makes no folder", "/dev/disk/by-uuid/0a"),
    ("no-such-folder", "error", "/dev/disk/by-UUID/0a /data ext4 rw 0 2", "/dev/disk/by-UUID", "/dev/disk/by-uuid/0a"),
    ("no-such-folder", "error", "/dev/disk/by_uuid/0a /data ext4 rw 0 2", "/dev/disk/by_uuid", "/dev/disk/by-uuid/0a"),
    ("no-such-folder", "error", "/dev/by-label/d /data ext4 rw 0 2", "/dev/by-label", "/dev/disk/by-label/d"),
    ("no-such-folder", "error", "/dev/disks/by-id/d /data ext4 rw 0 2", "/dev/disks/by-id", "/dev/disk/by-id/d"),
    ("target-dots", "warning", "LABEL=d /data/../srv ext4 nofail 0 0", "before its `..` is not there", "write /srv"),
    ("target-dots", "warning", "LABEL=d /data/.. ext4 noauto 0 0", "systemd makes no unit then", "write /"),
    ("target-escape", "warning", "LABEL=d /my\\x20data ext4 nofail 0 0", "`\\x20` is no escape", "write /my\\040data"),
    ("target-escape", "warning", "LABEL=d /my\\40data ext4 nofail 0 0", "a backslash in its name", "write /my\\040data"),
    ("target-escape", "warning", "LABEL=d /my\\ndata ext4 nofail 0 0", "`\\n` is no escape", "a blank as \\040"),
    ("tmp-mode", "warning", "tmpfs /tmp tmpfs mode=0755 0 0", "only its owner can write to /tmp", "mode=1777"),
    ("tmp-mode", "warning", "tmpfs /var/tmp tmpfs uid=1000,mode=0700 0 0", "programs of all others fail", "mode=1777"),
    ("noexec-system", "error", "LABEL=r / ext4 noexec 0 1", "no program of / can be started", "take noexec out"),
    ("noexec-system", "error", "LABEL=u /usr ext4 nofail,noexec 0 2", "no program of /usr", "take noexec out"),
    ("nosuid-system", "warning", "LABEL=r / ext4 nosuid 0 1", "sudo", "take nosuid out"),
    ("root-read-only", "note", "LABEL=r / ext4 rw,ro 0 1", "stays read-only after a boot", "unless"),
    ("root-passno", "note", "LABEL=r / ext4 defaults 0 0", "the sixth field of / is 0", "write 1"),
    ("root-passno", "note", "LABEL=r / ext3", "does not check it at a boot", "write 1"),
    ("needless-disk", "warning", "UUID=0a3407de /tmp tmpfs defaults 0 0", "a boot waits for UUID=0a3407de", "write tmpfs"),
    ("type-list", "note", "LABEL=d /data ext4, defaults,nofail 0 2", "fsck.ext4,", "without a comma"),
    ("misspelt", "warning", "LABEL=s none swap sw,nofial 0 0", "each boot waits for this swap", "is `nofail` meant?"),
    ("misspelt", "warning", "LABEL=s none swap NOFAIL 0 0", "no option `NOFAIL`", "is `nofail` meant?"),
    ("misspelt", "warning", "LABEL=s none swap prio=5 0 0", "no option `prio`", "is `pri` meant?"),
    ("swap-priority", "warning", "LABEL=s none swap pri=high 0 0", "`pri=high` is ignored", "pri=10"),
    ("swap-discard", "warning", "LABEL=s none swap discard=all 0 0", "no such policy", "discard=once"),
    ("systemd-abort", "error", "LABEL=d /data ext4 nofail,x-systemd.device-timeout 0 2", "generator aborts", "=30s"),
    ("systemd-abort", "error", "LABEL=d /data ext4 noauto,comment=systemd.device-timeout 0 2", "nor those below", "=30s"),
    ("systemd-abort", "error", "LABEL=s none swap x-systemd.device-timeout 0 0", "generator aborts", "=30s"),
    ("systemd-unit", "error", "LABEL=d /data ext4 x-systemd.requires= 0 2", "so no boot mounts it", "UNIT"),
    ("systemd-value", "warning", "LABEL=d /data ext4 x-systemd.requires,nofail 0 2", "names no unit", "UNIT"),
    ("systemd-value", "warning", "LABEL=s none swap x-systemd.device-timeout=5sek 0 0", "waits 90 s", "=30s"),
    ("systemd-value", "warning", "LABEL=d /data ext4 x-systemd.mount-timeout=-5,nofail 0 2", "no time span", "=30s"),
    ("systemd-value", "warning", "LABEL=d /data ext4 x-systemd.requires-mounts-for=a,nofail 0 2", "no absolute path", "FOLDER"),
    ("source-is-folder", "error", "/home /home ext4 nosuid 0 2", "is a folder, and ext4 needs a device", "none bind"),
    ("zram-swap", "warning", "/dev/zram0 none swap sw,comment=cloudconfig 0 0", "waits 90 s", "take the line out"),
    ("of-bsd", "warning", "/dev/vtbd0p2 / ufs rw 1 1", "one of BSD", "the right file"),
    ("of-bsd", "warning", "622e43df6306aafc.a / ffs rw 1 1", "another system than Linux", "the right file"),
]  # fmt: skip

NOT_SAID = [  # code, line
    ("no-nofail", "nas:/x /data nfs bg 0 0"),
    ("no-nofail", "nas:/x /data nfs4 fg,bg 0 0"),
    ("no-nofail", "tmpfs /media/x tmpfs size=1G 0 0"),
    ("no-nofail", "UUID=1 none ext4 rw 0 0"),
    ("no-nofail", "UUID=1 /data ext4 auto,noauto 0 2"),
    ("no-options", "UUID=1 none swap 0 0"),
    ("no-netdev", "sshfs#u@h:/x /data fuse delay_connect 0 0"),
    ("no-netdev", "h:/x /data lustre rw 0 0"),
    ("no-netdev", "h:/x /data fuse.glusterfs rw 0 0"),
    ("no-netdev", "b /data fuse.rclone noauto 0 0"),
    ("no-netdev", "b /data fuse.rclone x-systemd.automount 0 0"),
    ("no-netdev", "C: /mnt/c drvfs rw 0 0"),
    ("relative-target", "//nas/My Share /x cifs"),
    ("root-remount", "/dev/x / ext4 data=ordered 0 1"),
    ("root-quota", "/dev/x /data xfs pquota,nofail 0 2"),
    ("noexec-packages", "/dev/x /var xfs nofail,noexec,exec 0 2"),
    ("noexec-packages", "/dev/x /var/log xfs nofail,noexec 0 2"),
    ("unknown-type", "/dev/x /data ext3,ext4 rw 0 2"),
    ("unknown-type", "b /data gcsfuse rw,_netdev 0 0"),
    ("typography", "LABEL=Bob\u2019s /data ext4 nofail 0 2"),
    ("typography", "/dev/x /data btrfs subvol=caf\u00e9\u2013x,nofail 0 0"),
    ("uuid-shape", "UUID=5ad4b6a3d4b6810d /data udf nofail 0 0"),
    ("refused-option", "/dev/x /data ext4 ro=1,sync=1,nofail 0 2"),
    ("kernel-name", "/dev/md0 /data ext4 nofail 0 2"),
    ("kernel-name", "/dev/sdb1 /mnt auto defaults,nofail,comment=cloudconfig 0 2"),
    ("kernel-name", "/dev/md1270 /data ext4 nofail 0 2"),
    ("early-automount", "/dev/x /home ext4 x-systemd.automount 0 2"),
    ("early-automount", "nas:/h /home/lab nfs4 noauto,x-systemd.automount 0 0"),
    ("early-automount", "nas:/h /home nfs4 _netdev,nofail 0 0"),
    ("no-device", "/dev/mmcblk0boot0 /data ext4 nofail 0 2"),
    ("unknown-type", "/dev/x /data ext4, defaults 0 2"),
    ("quoted-source", "LABEL='data' /data ext4 nofail 0 2"),
    ("quoted-source", "LABEL=Bob's /data ext4 nofail 0 2"),
    ("quoted-source", "//nas/it's /data cifs nofail 0 0"),
    ("source-escape", "/dev/disk/by-label/my\\x20disk /data ext4 nofail 0 2"),
    ("no-such-folder", "/dev/disk/by-dname/d /data ext4 nofail 0 2"),
    ("no-such-folder", "/dev/disk/by-partsets/d /data ext4 nofail 0 2"),
    ("no-such-folder", "/dev/disk/cloud/azure_resource-part1 /mnt auto nofail 0 2"),
    ("no-such-folder", "/dev/mapper/by-uid /data ext4 nofail 0 2"),
    ("no-such-folder", "/dev/vg/by-lable /data ext4 nofail 0 2"),
    ("target-dots", "LABEL=d /data/..a ext4 nofail 0 2"),
    ("target-escape", "LABEL=d /my\\040data ext4 nofail 0 2"),
    ("tmp-mode", "tmpfs /scratch tmpfs mode=0700 0 0"),
    ("noexec-system", "LABEL=r / ext4 noexec,exec 0 1"),
    ("noexec-system", "LABEL=d /data ext4 noexec,nofail 0 2"),
    ("root-read-only", "LABEL=r / squashfs ro 0 0"),
    ("root-passno", "LABEL=r / xfs defaults 0 0"),
    ("needless-disk", "LABEL=/ / tmpfs defaults 0 0"),
    ("misspelt", "LABEL=s none swap sw,auto,fail,defaults,pri=5,discard=once,noatime 0 0"),
    ("upper-case", "LABEL=s none swap DEFAULTS 0 0"),
    ("systemd-value", "LABEL=d /data ext4 x-systemd.device-timeout=1min30s,x-systemd.mount-timeout=infinity,nofail 0 2"),
    ("systemd-value", "LABEL=d /data ext4 x-systemd.requires=a.service,x-systemd.before=/x,nofail 0 2"),
    ("systemd-abort", "LABEL=d /data ext4 x-systemd.device-timeout=,nofail 0 2"),
    ("source-is-folder", "/home /home ext4 bind 0 0"),
    ("source-is-folder", "/home /home none bind 0 0"),
    ("source-is-folder", "/images/a /a ext4 nofail 0 0"),
    ("zram-swap", "/dev/zram0 none swap pri=100,x-systemd.makefs 0 0"),
    ("duplicate-swap", "/swapfile none swap sw 0 0\n/swap.img none swap sw 0 0"),
    ("of-bsd", "/dev/sda3 /bsd ufs ro,ufstype=ufs2,nofail 0 0"),
    ("unknown-type", "/dev/ada0p1 / ufs rw 1 1\nproc /proc procfs rw 0 0"),
]  # fmt: skip

FILES = [  # code, level, lines, file
    ("byte-order-mark", "error", [1], b"\xef\xbb\xbf# x\n"),
    ("nul", "error", [2], b"# x\n/dev/x /da\0ta ext4 nofail 0 0\n"),
    ("lone-cr", "error", [1], b"# x\r# y\n"),
    ("too-large", "warning", [0], b"#" + b"x" * (1 << 20)),
    ("managed", "note", [2], b"# x\n# Managed by Puppet\n"),
    ("cr-lf", "note", [1], b"# x\r\nUUID=1 /data ext4 nofail 0 0\r\n"),
    ("cr-lf", "warning", [2], b"# x\r\n\r\nUUID=1 /data ext4 nofail 0 0\r\n"),
    ("no-final-newline", "note", [2], b"# x\nUUID=1 /data ext4 nofail 0 0"),
    ("misread", "error", [1], b"UUID=1 /data ext4 nofail "),
    ("misread", "error", [1], b"UUID=1 /data ext4 nofail\r\n"),
    (
        "duplicate",
        "error",
        [1, 2],
        b"UUID=1 /data ext4 nofail 0 0\nUUID=2 /data/ ext4 nofail 0 0\n",
    ),
    (
        "duplicate",
        "warning",
        [1, 2],
        b"UUID=1 /data ext4 nofail 0 0 # a\nUUID=1 /data/ ext4 nofail 0 0\n",
    ),
    ("duplicate", "note", [1, 2], b"UUID=1 /m ext4 noauto 0 0\nUUID=2 /m ext4 noauto 0 0\n"),
    ("duplicate-swap", "warning", [2], b"/swap.img none swap sw 0 0\n/swap.img none swap sw 0 0\n"),
    ("circle", "error", [1, 2], b"/x /y none bind 0 0\n/y/a /x none bind 0 0\n"),
    (
        "circle",
        "error",
        [1, 2, 3],
        b"/c/x /a none bind 0 0\n/a/x /b none bind 0 0\n/b/x /c none rbind 0 0\n",
    ),
    (
        "circle",
        "error",
        [1, 2],
        b"/b/i /a ext4 loop 0 0\n/a /b none bind,x-systemd.requires-mounts-for=/a/z 0 0\n",
    ),
    (
        "circle",
        "error",
        [1, 2],
        b"/x /y none bind 0 0\n/y/a /x none bind 0 0\n/x/q /z none bind 0 0\n",
    ),
    ("circle", "error", [1, 2], b"/a/b/x /a none bind 0 0\n/q /a/b none bind 0 0\n"),
    (
        "circle",
        "error",
        [1, 2, 3, 4],
        b"/x /y none bind 0 0\n/y/a /x none bind 0 0\n/v /w none bind 0 0\n/w/a /v none bind 0 0\n",
    ),
    (
        "waits-for-network",
        "warning",
        [2],
        b"nas:/x /nas nfs4 nofail 0 0\n/nas/a /home none bind 0 0\n",
    ),
    (
        "waits-for-network",
        "warning",
        [2],
        b"nas:/x /nas nfs4 noauto,x-systemd.automount 0 0\n/nas/a /b none bind 0 0\n",
    ),
    (
        "waits-for-network",
        "warning",
        [2],
        b"/dev/x /nas ext4 _netdev 0 0\n/nas/i /b ext4 loop 0 0\n",
    ),
    (
        "waits-for-network",
        "warning",
        [2],
        b"nas:/x /nas nfs4 nofail 0 0\nUUID=1 /nas/local ext4 rw 0 0\n",
    ),
    (
        "waits-for-network",
        "warning",
        [1, 2],
        b"/c/x /a none bind 0 0\n/nas/x /c none bind 0 0\nnas:/x /nas nfs 0 0\n",
    ),
    (
        "waits-for-network",
        "warning",
        [2],
        b"nas:/x /nas nfs4 rw 0 0\no /b overlay lowerdir=/nas/a,x-systemd.requires-mounts-for=/nas 0 0\n",
    ),
    (
        "early-automount",
        "note",
        [2],
        b"nas:/x /nas nfs4 nofail 0 0\n/nas/h /home none bind,x-systemd.automount 0 0\n",
    ),
    ("order", "warning", [1], b"UUID=1 /data/a/b ext4 nofail 0 0\nUUID=2 /data ext4 nofail 0 0\n"),
]


def remarks(data: bytes, code: str) -> list:
    return [remark for remark in lint(parse(data)) if remark.code == code]


def test_lint_of_a_good_file_finds_nothing():
    assert lint(parse(GOOD)) == ()


@pytest.mark.parametrize(
    ("code", "level", "line", "message", "todo"), LINES, ids=lambda value: str(value)[:40]
)
def test_lint_of_a_line_says_what_is_wrong_and_what_to_do(code, level, line, message, todo):
    (found,) = remarks(b"# x\n" + line.encode() + b"\n", code)

    assert (found.line, found.level.value) == (2, level)
    assert message in found.message
    assert todo in found.todo


@pytest.mark.parametrize(
    ("code", "level", "lines", "data"), FILES, ids=lambda value: str(value)[:30]
)
def test_lint_of_a_file_names_its_lines(code, level, lines, data):
    found = remarks(data, code)

    assert [(remark.line, remark.level.value) for remark in found] == [
        (line, level) for line in lines
    ]
    assert all(remark.message and remark.todo for remark in found)


@pytest.mark.parametrize(("code", "line"), NOT_SAID, ids=lambda value: str(value)[:40])
def test_lint_of_a_line_that_is_right_does_not_say_so(code, line):
    assert remarks(line.encode() + b"\n", code) == []


@pytest.mark.parametrize(
    "data",
    [
        b"/data /data none bind 0 0\n",
        b"/data/a /data none bind 0 0\n",
        b"/a /b none bind 0 0\n/b /c none bind 0 0\n/c/x /d none bind 0 0\n",
        b"/a/x /b none bind 0 0\nUUID=1 /a ext4 rw 0 2\n",
        b"//b/x /a cifs _netdev 0 0\n/a/y /b none bind 0 0\n",
        b"/dev/sdb1 /a ext4 loop 0 0\n/a /dev none bind 0 0\n",
        b"/x /y none bind 0 0\n/y/a /x none bind # c\n/q /r none bind 0 0\n",
    ],
)
def test_bind_mounts_that_wait_in_a_row_are_no_circle(data):
    assert remarks(data, "circle") == []


@pytest.mark.parametrize("many", [1000, 2000])
def test_long_rows_and_circles_of_bind_mounts_are_looked_at_once(many, monkeypatch):
    """Each line that waits was the start of a walk over all that it waits for."""
    steps = []
    real = fstab_cycles._find_before
    monkeypatch.setattr(
        fstab_cycles, "_find_before", lambda *given: steps.append(1) or real(*given)
    )
    row = b"".join(b"/m%d /m%d none bind 0 0\n" % (n + 1, n) for n in range(many))
    assert remarks(row, "circle") == []
    assert len(steps) <= 2 * many
    ring = row + b"/m0 /m%d none bind 0 0\n" % many
    found = remarks(ring, "circle")
    assert len(found) == many + 1
    assert all(len(one.message) < 300 and f"and {many - 16} more" in one.message for one in found)


def test_circles_that_share_lines_are_all_found():
    data = b"/b/x /a none bind 0 0\n/a/x /b none bind 0 0\n/a/y /c none bind,x-systemd.requires-mounts-for=/d 0 0\n"
    data += b"/c/x /d none bind 0 0\n/d/q /e none bind 0 0\n"
    assert [one.line for one in remarks(data, "circle")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "data",
    [
        b"nas:/x /nas nfs4 nofail 0 0\n/nas/a /b none bind,_netdev 0 0\n",
        b"nas:/x /nas nfs4 nofail 0 0\n/nas/a /b none bind,nofail 0 0\n",
        b"nas:/x /nas nfs4 nofail 0 0\n/nas/a /b none bind,x-systemd.automount 0 0\n",
        b"nas:/x /nas nfs4 nofail 0 0\nnas:/y /nas/y nfs4 nofail 0 0\n",
        b"nas:/x /nas nfs4 nofail 0 0\n/nasty/a /b none bind 0 0\n/nas/swap none swap sw 0 0\n",
        b"UUID=1 /nas ext4 rw 0 0\n/nas/a /b none bind 0 0\n",
        b"nas:/ / nfs4 rw 0 0\nUUID=1 /data ext4 rw 0 0\n",
    ],
)
def test_mount_that_waits_for_no_network_is_not_remarked(data):
    assert remarks(data, "waits-for-network") == []


@pytest.mark.parametrize(
    ("fstype", "source", "expected"),
    [
        ("fuse", "sshfs#u@h:/x", "fuse.sshfs"), ("fuse", "s3fs#a#b", "fuse.s3fs"), ("fuse", "/dev/a#b", "fuse"),
        ("fuse", "/usr/bin/s3fs#b", "fuse.s3fs"), ("fuse", "mfsmount", "fuse.mfsmount"),
        ("fuse", "b", "fuse"), ("fuse", "#b", "fuse"), ("ext4", "a#b", "ext4"),
    ],
)  # fmt: skip
def test_type_of_a_line_of_fuse_is_the_program_that_serves_it(fstype, source, expected):
    assert name_effective_type(fstype, source) == expected


@pytest.mark.parametrize(
    ("fstype", "is_remote"),
    [
        ("nfs", True),
        ("beegfs", True),
        ("gcsfuse", True),
        ("fuse.gcsfuse", True),
        ("gfs2", True),
        ("ext4", False),
    ],
)
def test_type_that_needs_a_network_is_known_by_each_of_its_names(fstype, is_remote):
    assert needs_network(fstype) is is_remote


def test_lint_of_a_line_with_a_carriage_return_among_blanks_says_what_is_wrong():
    codes = {remark.code for remark in lint(parse(b"/dev/sdb1 /data \r\r\n"))}
    assert {"misread", "lone-cr"} <= codes


def test_lint_puts_the_worst_first_and_then_the_lines_in_order():
    data = (
        GOOD
        + b"/dev/sdb1 /1 ext4 rw 0 2\nUUID=3a3407de-014b-458b-b5c1-848e92a327a3 /2 ext4 NOATIME 0 2\nBOOT\n"
        + b"/dev/sdc1 /3 ext4 rw,nofail 0 2\n"
    )
    found = lint(parse(data))
    first = GOOD.count(b"\n") + 1

    assert [remark.level for remark in found] == sorted(
        (remark.level for remark in found), key=list(RemarkLevel).index
    )
    assert [remark.line for remark in found if remark.level is RemarkLevel.ERROR] == [
        first + 1,
        first + 2,
    ]
    assert [remark.line for remark in found if remark.level is RemarkLevel.WARNING] == [
        first,
        first + 3,
    ]


def test_lint_of_words_that_one_type_has_calls_none_misspelt():
    data = b"UUID=1 /data xfs nofail,inode64,logbsize=256k,swalloc,x-foo=1 0 0\nUUID=2 /f f2fs nofail,weird 0 0\n"

    assert remarks(data, "misspelt") == []


@pytest.mark.parametrize("name", SAMPLES)
def test_lint_of_a_sample_tells_the_way_out_of_each_remark(name):
    assert all(remark.message and remark.todo for remark in lint(parse(SAMPLES[name])))


def test_lint_of_many_lines_of_one_target_stays_short():
    found = lint(parse(b"UUID=1 /data ext4 nofail 0 0\n" * 3000))

    assert max(len(remark.message) for remark in found) < 200


@pytest.mark.parametrize(
    "line",
    [
        "//nas/x /mnt username=me,password=geheim1,_netdev 0 0",  # where the type belongs
        "//nas/x username=me,password=geheim1 cifs /mnt 0 0",
        "//nas/x password=geheim1,username=me cifs /mnt 0 0",
        "//nas/x /mnt cifs username=me;password=geheim1 0 0",
        '//nas/x /mnt cifs username=me,PassWord="ge,heim1" # x',
        "//nas/x /mnt username=me%geheim1 0 0",
        "curlftpfs#me:geheim1@ftp.example.net /mnt fuse rw 0 0",
        "me:geheim1@ftp.example.net /mnt fuse.curlftpfs rw 0 0",
        "https://me:geheim1@dav.example.net/x mnt davfs rw 0 0",
    ],
)  # fmt: skip
def test_no_remark_quotes_a_password(line):
    document = parse(f"{line}\n".encode())
    told = [text for one in lint(document) for text in (one.message, one.todo)]
    problems = [line_problem(document, one) for one in document.lines]
    text = " ".join([*told, *(f"{one} {one.hint}" for one in problems if one)])
    assert told
    assert "heim1" not in text


def test_path_of_a_snapshot_is_no_password():
    assert mask_options("nas:/vol/a@snapshot") == "nas:/vol/a@snapshot"
    assert mask_options("10.0.0.1@tcp:10.0.0.2@tcp:/x") == "10.0.0.1@tcp:10.0.0.2@tcp:/x"


def test_line_with_many_passwords_is_not_quoted():
    words = ",".join(f"key=geheim{number},bad{number}=x" for number in range(20))
    told = lint(parse(f"/dev/sdb1 /mnt ext4 {words} 0 0\n".encode()))
    assert told
    assert not any("geheim" in f"{one.message} {one.todo}" for one in told)
    assert any("is not quoted" in one.message for one in told)


@pytest.mark.parametrize(
    ("fstype", "is_told"),
    [
        ("udf,noexec,iso9660", False),  # ovh/debian-cis#363: mounted as udf or iso9660
        ("noexec,udf,iso9660", False),
        ("udf,iso9660", False),
        ("udff,iso966", True),
        ("rw,nosuid,auto,nofail", True),  # raspibolt/raspibolt#434: options in place of the type
        ("swap,noexec", True),
    ],
)
def test_list_of_types_mounts_by_the_one_that_is_a_type(fstype, is_told):
    remarks = lint(parse(f"/dev/sr0 /media/cdrom0 {fstype} user,noauto 0 0\n".encode()))

    assert any(one.code in {"unknown-type", "shifted", "swapped"} for one in remarks) is is_told


def test_wrong_words_of_many_lines_are_looked_up_once():
    """Several judgments of a host look at each of its lines (fstab_boot.py, mount_causes.py,
    fstab_plan.py).
    """
    text = "".join(f"/dev/sd{n} /data/{n} ext{n}q wordd{n},nofial{n} 0 0\n" for n in range(1200))
    document = parse(text.encode())
    first, again = (count_calls(lambda: lint(document)) for _ in range(2))
    errors = LineErrors(document)

    assert again < first / 2
    assert count_calls(lambda: [errors.failure(line) for line in document.lines]) < first / 2


def test_target_in_a_command_is_quoted():
    lines = "/dev/a /d$(id) ext4 noauto 0 0\n/dev/b /d$(id) ext4 noauto 0 0\n"
    found = next(one for one in lint(parse(lines.encode())) if one.code == "duplicate")

    assert "`mount '/d$(id)'` takes the first" in found.message


@pytest.mark.parametrize(("line", "is_told"), [
    ("tmpfs /run/shm tmpfs defaults,noexec,nosuid 0 0", True), ("none /var/run/shm tmpfs ro 0 0", True),
    ("tmpfs /dev/shm tmpfs defaults,noexec,nosuid 0 0", False), ("/dev/shm /run/shm none bind 0 0", False),
])  # fmt: skip
def test_old_name_of_the_shared_memory(line, is_told):
    assert ("old-shm" in [one.code for one in lint(parse(line.encode() + b"\n"))]) is is_told


def test_password_with_a_quote_takes_no_quote_of_a_command():
    line = b"a /m'$(id)\\040# fuse password='\"' 0 0"
    said = hide_secrets(line, "mount '/m'\"'\"'$(id) #' takes the first of them")
    assert "$(id)" not in said or said.count("'") % 2 == 0
    assert said.startswith("something is wrong with this line")


@pytest.mark.parametrize("above", ["nofail", "noauto,x-systemd.automount"])
@pytest.mark.parametrize("line", ["nas:/y /nas/y nfs4", "/dev/x /nas/a/b ext4"])
def test_an_automount_below_what_waits_for_the_network_is_remarked(above, line):
    data = f"nas:/x /nas nfs4 {above} 0 0\n{line} noauto,x-systemd.automount 0 0\n".encode()
    (one,) = remarks(data, "waits-for-network")
    assert one.line == 2
    assert "it is below /nas (line 1)" in one.message


@pytest.mark.parametrize(
    "data",
    [
        b"nas:/x /nas nfs4 nofail 0 0\nnas:/y /nas2/y nfs4 noauto,x-systemd.automount 0 0\n",
        b"UUID=1 /nas ext4 nofail 0 0\nnas:/y /nas/y nfs4 noauto,x-systemd.automount 0 0\n",
        b"nas:/ / nfs4 rw 0 0\nnas:/y /nas/y nfs4 noauto,x-systemd.automount 0 0\n",
    ],
)
def test_an_automount_that_waits_for_no_network_is_not(data):
    assert remarks(data, "waits-for-network") == []
