"""What `lint` says of an fstab: each kind of remark on a line that has it, and none on lines that are right."""

from __future__ import annotations

import pytest

from hosttune.resources.fstab_lines import parse
from hosttune.resources.fstab_lint import Level, lint
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
UUID=1 /fast ext4 user,exec,dev,nofail,errors=remount-ro,data=ordered,commit=60 0 2
UUID=2 /pool btrfs subvol=@,compress=zstd:1,ssd,discard=async,noatime,nofail 0 0
//nas/share /cifs cifs credentials=/root/.smb,uid=1000,nofail 0 0
tank/set /zfs zfs defaults,nofail 0 0
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
    ("atime-contradiction", "warning", "/dev/x /data ext4 noatime,relatime,nofail 0 2", "depends on how mount(8)", "one of them"),
    ("contradiction", "warning", "/dev/x /data ext4 rw,nofail,ro 0 2", "the last one counts: ro", "one of them"),
    ("upper-case", "error", "/dev/x /data ext4 NOATIME 0 2", "`NOATIME` is none", "write it as `noatime`"),
    ("upper-case", "warning", "/dev/x /data ext4 NoAtime,nofail 0 2", "case-sensitive", "`noatime`"),
    ("upper-case", "error", "/dev/x / ext4 Defaults 0 1", "stays read-only", "`defaults`"),
    ("upstart-word", "error", "/dev/x /data ext4 nobootwait 0 2", "emergency shell", "nofail"),
    ("upstart-word", "error", "/dev/x / ext4 bootwait 0 1", "the root file system stays read-only", "take it out"),
    ("misspelt", "warning", "/dev/x /data ext4 noatim,nofail 0 2", "known to take `noatim`", "`noatime`"),
    ("misspelt", "warning", "/dev/x / ext4 erors=remount-ro 0 1", "`erors`", "`errors`"),
    ("misspelt", "warning", "/dev/x /data xfs defualts,nofail 0 2", "`defualts`", "`defaults`"),
    ("tmpfs-size", "error", "tmpfs /scratch tmpfs size=64MB 0 0", "the kernel rejects `size=64MB`", "size=64M"),
    ("tmpfs-size", "warning", "tmpfs /scratch tmpfs size=8GiB,nofail 0 0", "the mount fails", "size=8G"),
    ("tmpfs-size", "error", "tmpfs /scratch tmpfs size=50%% 0 0", "size=50%%", "size=50%: the sign is doubled"),
    ("tmpfs-size", "error", "tmpfs /scratch tmpfs size= 0 0", "rejects `size=`", "size=16G"),
    ("tmpfs-mode", "error", "tmpfs /scratch tmpfs mode=rwx 0 0", "rejects `mode=rwx`", "octal"),
    ("tmpfs-nr_inodes", "error", "tmpfs /scratch tmpfs nr_inodes=5% 0 0", "rejects `nr_inodes=5%`", "nr_inodes="),
    ("tmpfs-sticky", "warning", "tmpfs /tmp tmpfs mode=777 0 0", "sticky bit", "mode=1777"),
    ("tmpfs-limit", "warning", "tmpfs /scratch tmpfs size=0 0 0", "no limit", "name a size"),
    ("tmpfs-limit", "warning", "tmpfs /scratch tmpfs size=200% 0 0", "more than all of the memory", "name a size"),
    ("passno", "warning", "tmpfs /tmp tmpfs rw 0 2", "no fsck of tmpfs", "write 0"),
    ("passno", "warning", "tank/x /zfs zfs rw,nofail 0 2", "no fsck of zfs", "write 0"),
    ("passno", "warning", "/data/x /srv none bind 0 2", "no fsck of a bind mount", "write 0"),
    ("systemd-word", "warning", "/dev/x /data ext4 nofail,X-systemd.automount 0 2", "ignores", "x-systemd.automount"),
    ("systemd-word", "warning", "/dev/x /data ext4 nofail,x-systemd.devicetimeout=5 0 2", "has no", "device-timeout"),
    ("root-word", "note", "/dev/x / ext4 nofail 0 1", "ignores `nofail`", "nothing"),
    ("password", "warning", "//nas/x /cifs cifs username=u,password=hunter2,nofail 0 0", "everybody", "credentials="),
    ("user-order", "warning", "/dev/x /data ext4 exec,user,nofail 0 2", "`user` after `exec` means noexec", "before"),
    ("no-nofail", "note", "UUID=1 /data ext4 defaults 0 2", "emergency shell", "add nofail"),
    ("no-nofail", "note", "nas:/x /nfs nfs4 rw,_netdev 0 0", "waits for its server", "automount"),
    ("no-nofail", "warning", "UUID=1 /media/stick ext4 rw 0 0", "removable", "add nofail"),
    ("no-nofail", "note", "UUID=1 /data ext4 nofail,fail 0 2", "emergency shell", "add nofail"),
    ("managed-line", "note", "/dev/x /data auto defaults,nofail,comment=cloudconfig 0 2", "cloud-init rewrites", "cloud-init"),
    ("false-blank", "warning", "LABEL=a /my\u2003data ext4 nofail 0 2", "U+2003 is no blank", "anew"),
    ("continuation", "warning", "UUID=1 /data ext4 rw,nofail 0 2 \\", "continues nothing", "one line"),
    ("type-gone", "warning", "UUID=1 /data reiserfs nofail 0 2", "Linux 6.13", "before an upgrade"),
    ("type-gone", "warning", "none /proc/bus/usb usbfs rw 0 0", "Linux 3.5", "take the line out"),
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
    ("duplicate", "error", [1, 2], b"UUID=1 /data ext4 nofail 0 0\nUUID=2 /data/ ext4 nofail 0 0\n"),
    ("duplicate", "note", [1, 2], b"UUID=1 /m ext4 noauto 0 0\nUUID=2 /m ext4 noauto 0 0\n"),
    ("order", "warning", [1], b"UUID=1 /data/a/b ext4 nofail 0 0\nUUID=2 /data ext4 nofail 0 0\n"),
]


def remarks(data: bytes, code: str) -> list:
    return [remark for remark in lint(parse(data)) if remark.code == code]


def test_lint_of_a_good_file_finds_nothing():
    assert lint(parse(GOOD)) == ()


@pytest.mark.parametrize(("code", "level", "line", "message", "todo"), LINES, ids=lambda value: str(value)[:40])
def test_lint_of_a_line_says_what_is_wrong_and_what_to_do(code, level, line, message, todo):
    (found,) = remarks(b"# x\n" + line.encode() + b"\n", code)

    assert (found.line, found.level.value) == (2, level)
    assert message in found.message
    assert todo in found.todo


@pytest.mark.parametrize(("code", "level", "lines", "data"), FILES, ids=lambda value: str(value)[:30])
def test_lint_of_a_file_names_its_lines(code, level, lines, data):
    found = remarks(data, code)

    assert [(remark.line, remark.level.value) for remark in found] == [(line, level) for line in lines]
    assert all(remark.message and remark.todo for remark in found)


def test_lint_puts_the_worst_first_and_then_the_lines_in_order():
    data = GOOD + b"/dev/sdb1 /d ext4 rw 0 2\nUUID=3 /e ext4 NOATIME 0 2\nBOOT\n/dev/sdc1 /f ext4 rw,nofail 0 2\n"
    found = lint(parse(data))

    assert [remark.level for remark in found] == sorted((remark.level for remark in found), key=list(Level).index)
    assert [remark.line for remark in found if remark.level is Level.ERROR] == [17, 18]
    assert [remark.line for remark in found if remark.level is Level.WARNING] == [16, 19]


def test_lint_of_words_that_one_type_has_calls_none_misspelt():
    data = b"UUID=1 /data xfs nofail,inode64,logbsize=256k,swalloc,x-foo=1 0 0\nUUID=2 /f f2fs nofail,weird 0 0\n"

    assert remarks(data, "misspelt") == []


@pytest.mark.parametrize("name", SAMPLES)
def test_lint_of_a_sample_tells_the_way_out_of_each_remark(name):
    assert all(remark.message and remark.todo for remark in lint(parse(SAMPLES[name])))


def test_lint_of_many_lines_of_one_target_stays_short():
    found = lint(parse(b"UUID=1 /data ext4 nofail 0 0\n" * 3000))

    assert max(len(remark.message) for remark in found) < 200
