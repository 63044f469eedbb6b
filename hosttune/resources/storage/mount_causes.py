"""Why a line of fstab or of a unit file is not mounted: by its text, the devices, the kernel log,
missing programs and what systemd logged of its unit in this boot.

Sources: mount(8) (helpers: /sbin/mount.TYPE), mount.fuse3(8); packages of Debian and Ubuntu
(packages.debian.org). systemd.mount(5) (x-systemd.mount-timeout=; a mount requires the one that its
folder is on), systemd-fsck@.service(8); the words of nfs-utils (utils/mount: error.c, network.c),
cifs-utils (mount.cifs.c) and glusterfs (mount.glusterfs.in); exports(5). Gluster's volumes come up
after glusterd: https://github.com/gluster/glusterfs/issues/4308
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from hosttune.facts.base import attempt
from hosttune.facts.kernel.kernel import is_ubuntus
from hosttune.facts.reading import names_in
from hosttune.facts.services.unit_files import mask_of
from hosttune.facts.services.units import read_last_words
from hosttune.facts.signs import failed_by_itself
from hosttune.facts.storage.btrfs_ready import find_incomplete
from hosttune.facts.storage.failed_checks import find_failed_check
from hosttune.facts.storage.fstab_lines import PATH, FstabText
from hosttune.facts.storage.fstab_types import is_remote_to_systemd, needs_network
from hosttune.facts.storage.mount_units import device_path, mount_command
from hosttune.facts.storage.mounts import name_effective_type, unit_name
from hosttune.facts.storage.old_units import find_old_source
from hosttune.facts.storage.sources import SourceKind, find_fault, names_device, sources_of
from hosttune.facts.storage.ways import ways_of
from hosttune.host.masking.cleaned import clean
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.resources.storage.fstab import document_of
from hosttune.resources.storage.fstab_boot import parse_release
from hosttune.resources.storage.fstab_lint import LineErrors, is_failing, lint
from hosttune.resources.storage.fstab_lint_options import is_required
from hosttune.resources.storage.fstab_tables import KernelAnswer, find_reply
from hosttune.resources.storage.unit_boot import find_error, way_out_of_refusal
from hosttune.values import ABSENT, join_steps

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.storage.fstab import FstabEntry
    from hosttune.resources.storage.fstab_remark import ShownRemark

_FAILS = ": the mount fails"  # how a remark ends that says so
_OF_TAGS = frozenset({"uuid-shape", "uuid-case"})
# Type -> the program without which no mount of it succeeds, and the package that has it.
_HELPERS = {
    "ceph": ("mount.ceph", "ceph-common"),
    "nfs": ("mount.nfs", "nfs-common"), "nfs4": ("mount.nfs4", "nfs-common"),
    "cifs": ("mount.cifs", "cifs-utils"), "smb3": ("mount.smb3", "cifs-utils"),
    "glusterfs": ("mount.glusterfs", "glusterfs-client"), "davfs": ("mount.davfs", "davfs2"),
    "ntfs-3g": ("mount.ntfs-3g", "ntfs-3g"), "lustre": ("mount.lustre", ""),
    "efs": ("mount.efs", "amazon-efs-utils"), "zfs": ("mount.zfs", "zfsutils-linux"),
    "fuse.sshfs": ("sshfs", "sshfs"), "sshfs": ("sshfs", "sshfs"), "fuse.s3fs": ("s3fs", "s3fs"),
    "fuse.mergerfs": ("mergerfs", "mergerfs"), "fuse.rclone": ("rclone", "rclone"),
    "rclone": ("rclone", "rclone"), "gcsfuse": ("gcsfuse", "gcsfuse"),
    "fuse.gcsfuse": ("gcsfuse", "gcsfuse"), "fuse.bindfs": ("bindfs", "bindfs"),
    "fuse.curlftpfs": ("curlftpfs", "curlftpfs"),
}  # fmt: skip
_OF_FUSE = ("mount.fuse", "fuse3")  # starts the program that the line names
_FOLDERS = ("/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin")
_CLONE, _DIRTY, _LACKING, _FOREIGN = map(regex, (
    r"Filesystem has duplicate UUID", r"volume is dirty", r"devid \d+ uuid ",
    r"VFS: Can't find|Invalid superblock magic|bogus |Can't find (?:a )?valid",
))  # fmt: skip
_NEWER = regex(
    r"unsupported optional features|has unknown (?:incompatible|read-only compatible) features"
)
_HEAD_REFUSED = "SB validate failed"  # fs/xfs/xfs_mount.c
_NEWER_KERNEL = (
    "this kernel lacks a feature of it, and no check helps: boot the kernel that made it, or a "
    "newer one"
)
_WAIT, _CONDITION = "systemd-networkd-wait-online.service", "ConditionPathIsSymbolicLink"
_OTHER_WAITS = (
    "NetworkManager-wait-online.service",
    "networking.service",
    "ifupdown-wait-online.service",
)
# https://bugs.launchpad.net/ubuntu/+source/netplan.io/+bug/2063973
_LATER = (
    "mount it now: {}\n"
    "let the next boot mount it at its first use: x-systemd.automount in its options"
)
_LATER_UNIT = "mount it now: {}\nlet its first use mount it: an .automount unit of the same name"
_NETPLAN = (
    "\nor let a boot wait: an interface in netplan that is not optional, with the newest netplan.io"
)
# all of them only look
_CHECKS = {"ext": "e2fsck -n", "xfs": "xfs_repair -n", "btr": "btrfs check --readonly"}
_NO_FORMAT = regex(r"enable quota tracking \(type=\d, err=-3[,)]")  # ESRCH of dquot_load_quota_sb()
_SAYS_SUCCESS = frozenset({"ext2", "ext3", "ext4", "xfs"})
_TIMED_OUT = "Mounting timed out"  # systemd, src/core/mount.c
_ANSWERS = "see whether its server answers now: ping -c 3 {}"
_ANSWERS_ON = (
    "see whether its server answers on TCP {1}, which a firewall may drop: nc -zvw5 {0} {1}"
)
_PORTS = {"nfs": 2049, "nfs4": 2049, "cifs": 445, "smb3": 445}
_NFS, _SMB = frozenset({"nfs", "nfs4"}), frozenset({"cifs", "smb3"})
_REFUSALS = tuple(
    (kinds, regex(words), todo)
    for kinds, words, todo in (
        (
            _NFS,
            r"(?i:access denied|operation not permitted)",
            (
                "see on its server {} which paths and clients it serves: sudo exportfs -v\n"
                "correct /etc/exports there, then sudo exportfs -ra"
            ),
        ),
        (_NFS, r"(?i:no such file or directory)", "see what its server shares: showmount -e {}"),
        (
            _NFS,
            r"(?i:stale file handle)",
            "on its server {}, where that folder is another one now: sudo exportfs -ra",
        ),
        (
            _NFS,
            r"(?i:protocol (?:is )?not supported)",
            "name a version that {} has: nfsvers= in its options",
        ),
        (
            _SMB,
            r"error ?\(13\)",
            "see whether {} takes user, password and domain: those of credentials= in its options",
        ),
        (_SMB, r"error ?\(2\)", "see which shares its server has: smbclient -L {}"),
    )
)
_SERVICES = {
    "lustre": "lnet.service", "beegfs": "beegfs-client.service", "gpfs": "gpfs.service",
    "wekafs": "weka-agent.service", "nfs": "rpc-statd.service",
}  # fmt: skip
# Only version 3 locks by rpc.statd(8), and not with nolock (nfs(5)).
_LOCKS_BY_STATD = frozenset({"vers=3", "nfsvers=3"})
_KEYTAB = "/etc/krb5.keytab"  # ConditionPathExists= of rpc-gssd.service
_STARTUP, _MOST_TARGETS = "-n node.startup -v automatic", 4  # iscsiadm(8); Debian's is manual
# Options that name such a file: mount.cifs(8), mount.ceph(8), s3fs(1), ssh_config(5).
_KEYS = frozenset({"credentials", "cred", "secretfile", "passwd_file", "IdentityFile"})
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_GIVEN_UP = "/start failed with result 'dependency'"
_NO_REASON = "bad superblock"  # libmount, of each EINVAL
_NO_PROJECT = (
    "quotas of projects need a feature, which is set while it is not mounted: sudo tune2fs -O "
    "project -Q prjquota {}"
)
_SAID = regex(r"(?:mount(?:\.[\w.-]{1,32})?: |[Mm]ount (?:error|failed)\b|fuse: |fusermount3?: )")
_UNCLEAN = "Structure needs cleaning"
_UNNAMED = regex(
    r"(?i:failed to resolve|could not resolve|name resolution|name or service not known)"
)
_FAR = regex(
    r"(?i:is unreachable|no route to host|timed out|refused|host is down|error ?\((?:101"
    r"|11[0-5])\))"
)
_MOST_UNITS = 16  # whose journal is read: each look can take seconds
_LONGEST_WORDS = 200  # characters of what a program said
_OPTION = regex(
    r"Unknown parameter '([^']*)'|(?:Unrecognized|unrecognized|unknown) mount option \W?([\w.-]+)"
)


class MountCause(NamedTuple):
    """What is wrong with a line, as what follows `line 7 of fstab`, and the way out; both empty
    where it is unknown.
    """

    sentence: str = ""
    way_out: str = ""


class MountCauses:
    """The causes of all lines of one host; asked for those that are not mounted."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._entries = {(one.file, one.line): one for one in facts.fstab.entries}
        self._units = facts.mount_units.by_place
        self._words: dict[str, tuple[str, ...]] = {}

    def find(self, file: str, number: int) -> MountCause:
        """The cause of a line of fstab, or of a unit file, whose line is that of its What=."""
        unit = self._units.get((file, number))
        entry = unit.entry if unit else self._entries.get((file, number))
        if entry is None:
            return MountCause()
        # From what is certain to what is likely: text and devices first, words of programs last, as
        # they may be of a mount by hand.
        checks = (
            self._of_twin, self._of_contents, self._of_text, self._of_iscsi, self._of_device,
            self._of_users, self._of_old_unit, self._of_failed_check, self._of_timeout,
            self._of_log, self._of_doubts, self._of_helper, self._of_keys, self._of_service,
            self._of_parent, self._of_own_server, self._of_network, self._of_words,
        )  # fmt: skip
        unknown = MountCause()
        if unit:
            name = quote(unit.name)
            see = (
                f"see why: systemctl status {name}; sudo journalctl -b -u {name}; to mount it: "
                f"{mount_command(entry)}"
            )
            unknown = MountCause("", see)
        return next((cause for check in checks if (cause := check(entry)).sentence), unknown)

    def find_failure(self, file: str, number: int) -> MountCause:
        """The kernel's words on the device of a line when a mount of it failed. That there is
        another file system on it may come of an attempt with another type, and is left to the
        devices. Of other types than ext and XFS the log does not say that a later mount succeeded.
        """
        entry = self._entries.get((file, number))
        shows_success = entry is not None and _SAYS_SUCCESS.issuperset(
            name_effective_type(entry.fstype, entry.source).split(",")
        )
        cause = self._of_log(entry) if entry and shows_success else MountCause()
        return (
            cause
            if cause.sentence.startswith("names ") and not _FOREIGN.search(cause.sentence)
            else MountCause()
        )

    def ends_boot(self, file: str, number: int) -> bool:
        """Whether a boot that does not mount it ends in the emergency shell."""
        if unit := self._units.get((file, number)):
            return unit.is_required
        entry = self._entries.get((file, number))
        if (
            entry is None
            or entry.target == "/"
            or self._of_twin(entry).sentence
            or is_remote_to_systemd(entry.fstype, frozenset(entry.options))
        ):
            return False
        return is_required(entry.options, entry.fstype)

    def _of_twin(self, entry: FstabEntry) -> MountCause:
        first = self._facts.fstab.by_path.get(entry.path or entry.target)
        if first is None or first.line == entry.line or entry.file != first.file:
            return MountCause()
        sentence = f"has the target of line {first.line}, which a boot mounts instead"
        return MountCause(sentence, "take one of the lines out")

    @cached_property
    def _remarks(self) -> tuple[Mapping[int, ShownRemark], Mapping[int, ShownRemark]]:
        """By line, why the linter says that it cannot be mounted: for certain, and perhaps."""
        document = document_of(self._facts.reader)
        if not isinstance(document, FstabText):
            return {}, {}
        kernel, errors = (
            parse_release(attempt(lambda: self._facts.kernel.release)),
            LineErrors(document),
        )
        sure: dict[int, ShownRemark] = {}
        doubts: dict[int, ShownRemark] = {}
        for one in lint(document):
            if _FAILS in one.message:
                (sure if is_failing(one) else doubts).setdefault(one.line, one)
        for line in document.lines:
            remark = errors.failure(line, kernel) if line.number not in sure else None
            if remark and _FAILS in remark.message:
                sure[line.number] = remark
        return sure, doubts

    def _of_text(self, entry: FstabEntry) -> MountCause:
        if unit := self._units.get((entry.file, entry.line)):
            if unit.refusal:
                return MountCause(
                    f"{unit.refusal}, so that systemd does not load it", way_out_of_refusal(unit)
                )
            remark = find_error(unit, parse_release(attempt(lambda: self._facts.kernel.release)))
            return self._of_remark(entry, remark if remark and _FAILS in remark.message else None)
        return self._of_remark(entry, self._remarks[0].get(entry.line))

    def _of_doubts(self, entry: FstabEntry) -> MountCause:
        return self._of_remark(
            entry, self._remarks[1].get(entry.line) if entry.file == PATH else None
        )

    def _of_remark(self, entry: FstabEntry, remark: ShownRemark | None) -> MountCause:
        if remark is None or (
            remark.code in _OF_TAGS and sources_of(self._facts).find(entry.source)
        ):
            return MountCause()  # a device has the name, however odd it looks
        return MountCause(f"is wrong: {remark.message.partition(_FAILS)[0]}", remark.todo)

    def _of_contents(self, entry: FstabEntry) -> MountCause:
        """What is on a device that is there."""
        fault = find_fault(sources_of(self._facts), entry, ())
        return (
            MountCause(fault.sentence, fault.way_out)
            if fault and fault.kind is SourceKind.TYPE
            else MountCause()
        )

    def _of_device(self, entry: FstabEntry) -> MountCause:
        sources = sources_of(self._facts)
        fault = find_fault(sources, entry, ()) or find_incomplete(self._facts, sources, entry, ())
        return MountCause(fault.sentence, fault.way_out) if fault else MountCause()

    def _of_users(self, entry: FstabEntry) -> MountCause:
        """What is made of the device, so that it is busy."""
        sources = sources_of(self._facts)
        for name in sources.find(entry.source) or ():
            if users := sources.made_of(name):
                what = (
                    f"names {sources.describe(name)}, which {sources.describe(users[0])} is made of"
                )
                return MountCause(what, self._todo_of_part(entry, users))
        return MountCause()

    def _todo_of_part(self, entry: FstabEntry, users: tuple[str, ...]) -> str:
        """What to do about a line of a device that others are made of, which is mounted by them
        alone.
        """
        sources = sources_of(self._facts)
        if not any(map(sources.is_used, users)):
            return f"name {sources.name_like(entry.source, users[0])}, or what lies on it: lsblk -f"
        if "comment=cloudconfig" in entry.options:
            return (
                "it is in use, so take the line out where cloud-init makes it: its device with "
                "null in mounts"
            )
        return (
            "it is in use, so take the line out, or name what is made of it and not mounted: lsblk "
            "-f"
        )

    def _of_old_unit(self, entry: FstabEntry) -> MountCause:
        """What systemd still has of an fstab of before: it unmounts what is mounted by hand."""
        if entry.file != PATH or not (old := find_old_source(self._facts, entry)):
            return MountCause()
        sentence = (
            f"names {entry.source}, and systemd still has {old} for this folder, and can unmount "
            "what is there"
        )
        todo = f"sudo systemctl daemon-reload\nthen mount it: {mount_command(entry)}"
        return MountCause(sentence, todo)

    def _of_keys(self, entry: FstabEntry) -> MountCause:
        """What an option names as the file of a password or key; of NFS with Kerberos the keys of
        this host, for rpc-gssd.service of nfs-common.
        """
        pairs = [word.partition("=")[::2] for word in entry.options]
        named = [(key, path) for key, path in pairs if key in _KEYS and path.startswith("/")]
        if entry.fstype in _NFS and any(word.startswith("sec=krb5") for word in entry.options):
            named.append(("sec=krb5", _KEYTAB))
        key, path = next((one for one in named if self._is_absent(one[1])), ("", ""))
        if not key:
            return MountCause()
        todo = (
            "make that file, which only root reads, and fill it: "
            f"sudo install -m 600 /dev/null {quote(path)}\nthen mount it: {mount_command(entry)}"
        )
        if path == _KEYTAB:
            todo = (
                f"have the administrator of the realm make a keytab of this host, {path}\n"
                "start what reads it: sudo systemctl restart rpc-gssd.service\n"
                f"then mount it: {mount_command(entry)}"
            )
        return MountCause(f"has {key}, for which {path} is not there", todo)

    def _is_absent(self, path: str) -> bool:
        """Whether a file is not there; of what is on a server nothing is asked."""
        place, is_far = ways_of(self._facts).follow(path)
        return not is_far and self._facts.reader.stat(place) is ABSENT

    def _of_iscsi(self, entry: FstabEntry) -> MountCause:
        """A disk of the network that is missing while no target of iSCSI is logged in to."""
        if "_netdev" not in entry.options or not names_device(entry.source):
            return MountCause()
        targets = attempt(names_in, self._facts.reader, "/etc/iscsi/nodes")
        sessions = attempt(names_in, self._facts.reader, "/sys/class/iscsi_session")
        known = targets[:_MOST_TARGETS] if isinstance(targets, tuple) and sessions == () else ()
        if not known or sources_of(self._facts).find(entry.source):
            return MountCause()
        node = [f"sudo iscsiadm -m node -T {quote(one)}" for one in known]
        logins = [f"{one} --login" for one in node]
        updates = [f"{one} -o update {_STARTUP}" for one in node]
        todo = (
            f"log in: {'; '.join(logins)}\nlet each boot do so: {'; '.join(updates)}\n"
            f"then mount it: {mount_command(entry)}"
        )
        which = f"no target of iSCSI is logged in to ({clean(', '.join(known))})"
        return MountCause(f"names {entry.source}, which no device has, and {which}", todo)

    def _of_service(self, entry: FstabEntry) -> MountCause:
        """A client whose service failed in this boot."""
        kind = name_effective_type(entry.fstype, entry.source)
        has_locks = "nolock" not in entry.options and not _LOCKS_BY_STATD.isdisjoint(entry.options)
        if (name := _SERVICES.get(kind, "")) not in self._failed or (
            kind == "nfs" and not has_locks
        ):
            return MountCause()
        todo = (
            f"see why: sudo journalctl -b -u {name}\n"
            f"start it again: sudo systemctl restart {name}\n"
            f"then mount it: {mount_command(entry)}"
        )
        return MountCause(f"needs {name}, which failed in this boot", todo)

    @cached_property
    def _failed(self) -> Mapping[str, Mapping[str, str]]:
        """The units that failed in this boot, and no user can have had fail; none where systemd
        does not answer.
        """
        found = attempt(failed_by_itself, self._facts.reader)
        return found if isinstance(found, Mapping) else {}

    def _read_words(self, name: str) -> tuple[str, ...]:
        """The journal of a unit in this boot, of the first ones that are asked for."""
        if name not in self._words and len(self._words) < _MOST_UNITS:
            self._words[name] = read_last_words(self._facts.reader, name)
        return self._words.get(name, ())

    def _of_failed_check(self, entry: FstabEntry) -> MountCause:
        """The check of its file system that found what it does not repair by itself."""
        sentence, todo = find_failed_check(self._facts, entry)
        return MountCause(
            sentence,
            join_steps((todo, f"then mount it: {mount_command(entry)}")) if sentence else "",
        )

    def _of_timeout(self, entry: FstabEntry) -> MountCause:
        """A mount that took longer than systemd lets it: the log of a large file system, or the
        checks of a btrfs.
        """
        name = unit_name(entry.path or entry.target)
        if name not in self._failed:
            return MountCause()
        is_timeout = self._failed[name].get("Result") == "timeout"
        if not is_timeout and not any(_TIMED_OUT in one for one in self._read_words(name)):
            return MountCause()
        given = [
            one.partition("=")[2]
            for one in entry.options
            if one.startswith("x-systemd.mount-timeout=")
        ]
        after = clean(given[-1]) if given else "90 s"
        if needs_network(name_effective_type(entry.fstype, entry.source)):
            return MountCause(
                f"got no answer from its server within {after}", self._todo_of_answer(entry)
            )
        sentence = f"was still being mounted after {after}, and systemd ended that"
        longer = (
            "x-systemd.mount-timeout=30min in its options"
            if entry.file == PATH
            else "TimeoutSec=30min in [Mount]"
        )
        return MountCause(
            sentence,
            f"mount it now, which may take minutes: {mount_command(entry)}\n"
            f"for the next boot: {longer}",
        )

    def _of_words(self, entry: FstabEntry) -> MountCause:
        """What mount(8) or its helper said in this boot, where nothing else tells the cause."""
        name = unit_name(entry.path or entry.target)
        words = self._read_words(name)
        if name not in self._failed:  # it was never tried
            late = "x-systemd.device-timeout=5min in its options\n" if entry.file == PATH else ""
            is_late = any(_GIVEN_UP in one for one in words) and bool(
                sources_of(self._facts).find(entry.source)
            )
            todo = (
                f"mount it now: {mount_command(entry)}\nif its disk comes late at a boot: {late}"
                if is_late
                else ""
            )
            return MountCause(
                "was given up in this boot, as what it waits for was not there in time" * is_late,
                todo,
            )
        said = next((one for one in reversed(words) if _SAID.match(one)), "")
        if not said:
            return MountCause()
        todo = f"then mount it: {mount_command(entry)}"
        is_far = needs_network(name_effective_type(entry.fstype, entry.source))
        if is_far and _UNNAMED.search(said):
            todo = self._todo_of_server(entry, "see whether its name resolves now: getent hosts {}")
        elif is_far and _FAR.search(said):
            todo = self._todo_of_answer(entry)
        elif look := next(
            (look for kinds, one, look in _REFUSALS if entry.fstype in kinds and one.search(said)),
            "",
        ):
            todo = join_steps((look.format(quote(server_of(entry))), todo))
        elif _UNCLEAN in said and (check := _CHECKS.get(entry.fstype[:3])):
            todo = join_steps(
                (
                    f"check it without a change: sudo {check} {quote(device_path(entry.source))}",
                    todo,
                )
            )
        elif _NO_REASON in said and "prjquota" in entry.options and entry.fstype == "ext4":
            todo = join_steps((_NO_PROJECT.format(quote(device_path(entry.source))), todo))
        elif _NO_REASON in said:
            todo = join_steps(("see what the kernel said of it: sudo dmesg", todo))
        return MountCause(f"failed in this boot with `{clean(said[:_LONGEST_WORDS])}`", todo)

    def _todo_of_answer(self, entry: FstabEntry) -> str:
        port = _PORTS.get(entry.fstype)
        return self._todo_of_server(entry, _ANSWERS_ON.format("{}", port) if port else _ANSWERS)

    def _todo_of_server(self, entry: FstabEntry, look: str) -> str:
        later = (_LATER if entry.file == PATH else _LATER_UNIT).format(mount_command(entry))
        return join_steps((look.format(quote(server_of(entry))), later))

    def _of_log(self, entry: FstabEntry) -> MountCause:
        """What the kernel logged of the device, or of an option that this line has."""
        logged = attempt(lambda: self._facts.storage_log.mount_errors)
        errors = logged if isinstance(logged, tuple) else ()
        found = sources_of(self._facts).find(entry.source) or ()
        # Any user can mount with options in a namespace of their own, and the kernel calls those
        # unknown that it has not, as `nofail`, which it never gets (fs/namespace.c, do_new_mount):
        # no word that this type may have counts.
        own = {word.partition("=")[0] for word in entry.options}
        words = {
            word.partition("=")[0]
            for word in entry.options
            if any(
                find_reply(one, word).answer is not KernelAnswer.TAKEN
                for one in entry.fstype.split(",")
            )
        }
        for one in reversed(errors):
            option = _OPTION.search(one.words)
            refused = (option[1] or option[2]) if option else ""
            if one.name in found:
                if refused and refused not in own:  # of an attempt by hand
                    continue
                path = sources_of(self._facts).describe(one.name).partition(" ")[0]
                # XFS names the feature first, and then only that the check of its head failed.
                words_of_it = [other.words for other in errors if other.name == one.name]
                newer = next(filter(_NEWER.search, reversed(words_of_it)), "")
                said = newer if newer and _HEAD_REFUSED in one.words else one.words
                sentence = f"names {path}, of which the kernel log says: {said.rstrip('.')}"
                return MountCause(sentence, self._todo(entry, said, path))
            if one.name in entry.fstype.split(",") and refused in words:
                sentence = f"has the option `{refused}`, which the kernel log calls unknown"
                return MountCause(sentence, f"take `{refused}` out")
        return MountCause()

    def _of_helper(self, entry: FstabEntry) -> MountCause:
        kind = name_effective_type(entry.fstype, entry.source)
        program, package = _HELPERS.get(kind, _OF_FUSE if kind.startswith("fuse.") else ("", ""))
        names = (program, f"mount.{kind}")
        stat = self._facts.reader.stat
        if not program or any(
            stat(f"{folder}/{name}") is not ABSENT for folder in _FOLDERS for name in names
        ):
            return MountCause()
        way_out = (
            f"install it: sudo apt install {package}"
            if package
            else "install the client of this file system"
        )
        return MountCause(f"needs the program {program}, which is not installed", way_out)

    def _of_parent(self, entry: FstabEntry) -> MountCause:
        """A mount below another one that is missing: systemd does not try it."""
        target = entry.path or entry.target
        above = [
            one
            for one in self._facts.mounts.expected
            if not one.is_mounted and target.startswith(f"{one.target}/")
        ]
        if not above or unit_name(target) in self._failed:
            return MountCause()
        first = max(above, key=lambda one: len(one.target))
        todo = (
            "mount that first, or move this one to a folder that is not below "
            f"{quote(first.target)}"
        )
        if first.is_optional:
            todo = (
                f"move it to a folder that is not below {quote(first.target)}, whose disk not "
                "every instance has"
            )
        return MountCause(
            f"is below {first.target} ({first.where}), which is not mounted either", todo
        )

    def _of_own_server(self, entry: FstabEntry) -> MountCause:
        """A volume that this host serves itself."""
        kind = name_effective_type(entry.fstype, entry.source).removeprefix("fuse.")
        is_failed = unit_name(entry.path or entry.target) in self._failed
        if kind != "glusterfs" or server_of(entry) not in _HERE or not is_failed:
            return MountCause()
        todo = (_LATER if entry.file == PATH else _LATER_UNIT).format(mount_command(entry))
        return MountCause(
            "is served by this host, and a boot tries it before glusterd.service has its volume up",
            todo,
        )

    def _of_network(self, entry: FstabEntry) -> MountCause:
        """What keeps this boot from waiting for the network, where systemd-networkd does the
        waiting.
        """
        if not needs_network(name_effective_type(entry.fstype, entry.source)):
            return MountCause()
        enabled = attempt(lambda: self._facts.units.enabled)
        if not isinstance(enabled, frozenset) or any(one in enabled for one in _OTHER_WAITS):
            return MountCause()
        reader = self._facts.reader
        conditions = attempt(
            lambda: self._facts.unit_settings[f"{_WAIT}/Unit/{_CONDITION}"].standing
        )
        paths = (
            [one for one in conditions if one.value.startswith("/")]
            if isinstance(conditions, tuple)
            else []
        )
        unmet = [one for one in paths if reader.link(one.value) is ABSENT]
        mask = attempt(mask_of, reader, _WAIT)
        todo = (_LATER if entry.file == PATH else _LATER_UNIT).format(mount_command(entry))
        if isinstance(mask, str) and mask:
            why = f"is masked ({mask})"
        elif unmet:
            why, todo = f"is left out ({unmet[0].place}: {_CONDITION})", todo + _NETPLAN
        else:
            return MountCause()
        return MountCause(
            f"needs the network, and nothing has a boot wait for that: {_WAIT} {why}", todo
        )

    def _todo(self, entry: FstabEntry, words: str, path: str) -> str:
        if _NO_FORMAT.search(words):
            release = attempt(lambda: self._facts.kernel.release)
            lacks = (
                "its feature quota needs the module quota_v2, which this kernel lacks; e2fsck does "
                "not help"
            )
            if isinstance(release, str) and is_ubuntus(release):
                package = quote(f"linux-modules-extra-{release}")
                return (
                    f"{lacks}\n"
                    f"install what brings the module: sudo apt-get install {package}, or another "
                    "kernel"
                )
            return (
                f"{lacks}\n"
                "boot a kernel that has it, or take the feature off: sudo tune2fs -O ^quota "
                f"{quote(path)}"
            )
        return _find_todo(entry, words, path)


def server_of(entry: FstabEntry) -> str:
    """The name or address of the first server in `//nas/share`, `nas:/data`, `nas:volume`,
    `https://nas/dav`, `me@nas:/data` and `sshfs#me@nas:/data`.
    """
    _, mark, behind = entry.source.partition("#")
    source = behind if mark and entry.fstype == "fuse" else entry.source
    host = (source.partition("://")[2] or source.removeprefix("//")).partition("/")[0]
    # Lustre names the network behind the address, 10.0.0.1@tcp; others the user before it.
    host = host.partition("@")[0] if entry.fstype == "lustre" else host.rpartition("@")[2]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(",")[0].partition(":")[0]


def _find_todo(entry: FstabEntry, words: str, path: str) -> str:
    option = _OPTION.search(words)
    if option:
        return f"take `{option[1] or option[2]}` out of the line"
    if _CLONE.search(words):
        return (
            "a copy of it is mounted already (a snapshot or clone): sudo xfs_admin -U generate "
            f"{quote(path)}"
        )
    if _DIRTY.search(words):
        return (
            "shut Windows down without fast startup, or check it: sudo ntfsfix --no-action "
            f"{quote(path)}"
        )
    if _LACKING.search(words):
        return "a disk of it is missing: sudo btrfs filesystem show"
    if _FOREIGN.search(words):
        return f"see what is on it: sudo blkid -p {quote(path)}"
    if _NEWER.search(words):
        read = f"until then it can be read: sudo mount -o ro {quote(path)} {quote(entry.target)}"
        return join_steps((_NEWER_KERNEL, read if "RDWR" in words else ""))
    check = _CHECKS.get(entry.fstype[:3])
    return (
        f"check it without a change: sudo {check} {quote(path)}"
        if check
        else f"see: sudo blkid -p {quote(path)}"
    )
