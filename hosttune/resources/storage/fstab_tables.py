"""Which mount options the file systems of Linux take, type by type, and since or until which
version. Pure.

From the kernel's own lists (`fsparam_*` and `match_table_t` of fs/*/super.c, fs/fat/inode.c,
fs/isofs/inode.c, fs/nfs/fs_context.c, fs/overlayfs/params.c, mm/shmem.c) of Linux 6.1.192 and
6.12.117, ext2 to ext4, xfs, btrfs, tmpfs and overlay tried word by word on 6.18. A word may be
`NAME` (a flag), `NAME=KIND` (a value is needed), `NAME?=KIND` (a value may follow) or `[no]NAME`;
behind it `>6.4` (since) or `<6.8` (gone with that version, as far as the lists tell). Kinds: u
number, i number with sign, o octal number, b yes or no, s text, * any text, {a|b} one of these; p a
multiple of 4k, l a size of a log buffer of xfs, c a compression and r what to rescue of btrfs.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from hosttune.facts.storage.fstab_words import GENERIC
from hosttune.regex import regex

OLDEST = (5, 15)  # of the kernels that are still about: Ubuntu 22.04
NEWEST = (6, 18)  # the newest one whose lists are here
_QUOTA = "quota noquota usrquota grpquota prjquota"
_ERRORS = "errors={continue|panic|remount-ro}"
_EXT2 = f"""
bsddf minixdf grpid bsdgroups nogrpid sysvgroups resgid=s resuid=s sb=u {_ERRORS} nouid32 debug
oldalloc orlov
user_xattr nouser_xattr<6.1 acl noacl<6.1 bh nobh min_batch_time=u max_batch_time=u abort
usrjquota=* grpjquota=*
jqfmt={{vfsold|vfsv0|vfsv1}} {_QUOTA} barrier?=u nobarrier i_version dax stripe=u warn_on_error
nowarn_on_error
debug_want_extra_isize=u mblk_io_submit nomblk_io_submit block_validity noblock_validity
inode_readahead_blks=u
auto_da_alloc?=u noauto_da_alloc discard nodiscard init_itable?=u noinit_itable
fc_debug_max_replay=u
max_dir_size_kb=u test_dummy_encryption?=s inlinecrypt nombcache no_mbcache prefetch_block_bitmaps
no_prefetch_block_bitmaps mb_optimize_scan=i check=s nocheck reservation noreservation journal=u
"""
_EXT3 = f"""{_EXT2}
norecovery noload commit=u journal_dev=u journal_path=s journal_ioprio=u
data={{journal|ordered|writeback}}
data_err={{abort|ignore}}
"""
_TABLES = {
    "ext2": _EXT2,
    "ext3": _EXT3,
    "ext4": f"""{_EXT3}
journal_checksum nojournal_checksum journal_async_commit dax?={{always|inode|never}} delalloc
nodelalloc dioread_nolock
nodioread_nolock dioread_lock fc_debug_force
""",
    "xfs": f"""
logbufs={{0|2|3|4|5|6|7|8}} logbsize=l logdev=s rtdev=s wsync noalign swalloc sunit=u swidth=u
nouuid grpid nogrpid
bsdgroups sysvgroups allocsize=p norecovery inode64 inode32 ikeep noikeep largeio nolargeio attr2
noattr2 filestreams
{_QUOTA} uquota gquota pquota uqnoenforce gqnoenforce pqnoenforce qnoenforce discard nodiscard
dax?={{inode|always|never}} max_open_zones=u>6.15 lifetime>6.15 nolifetime>6.15
max_atomic_write=s>6.16 barrier<4.19
nobarrier<4.19 delaylog<4.19 nodelaylog<4.19 osyncisdsync<4.19 osyncisosync<4.19 biosize=u<4.19
irixsgid<4.19
ihashsize=u<4.19
""",
    "btrfs": """
[no]acl [no]autodefrag [no]barrier clear_cache commit=u compress?=c compress-force?=c [no]datacow
[no]datasum degraded
device=s discard?={sync|async} nodiscard fatal_errors={panic|bug} [no]flushoncommit max_inline=s
metadata_ratio=u
rescan_uuid_tree skip_balance space_cache?={v1|v2} nospace_cache [no]ssd [no]ssd_spread subvol=s
subvolid=u
thread_pool=u [no]treelog user_subvol_rm_allowed rescue=r nologreplay usebackuproot norecovery
[no]enospc_debug
fragment={data|metadata|all} ref_verify [no]inode_cache<6.8 recovery<6.8 check_int<6.8
check_int_data<6.8
check_int_print_mask=u<6.8 alloc_start=s<6.1 subvolrootid=u<6.1
""",
    "f2fs": f"""
background_gc={{on|off|sync}} disable_roll_forward norecovery discard nodiscard no_heap heap
user_xattr nouser_xattr
acl noacl active_logs=u disable_ext_identify inline_xattr noinline_xattr inline_xattr_size=u
inline_data noinline_data
inline_dentry noinline_dentry flush_merge noflush_merge barrier>6.6 nobarrier fastboot extent_cache
noextent_cache
data_flush reserve_root=u resgid=s resuid=s mode={{adaptive|lfs|fragment:segment|fragment:block}}
io_bits=u<6.8
fault_injection=u fault_type=u {_QUOTA} usrjquota=* grpjquota=* prjjquota=*
jqfmt={{vfsold|vfsv0|vfsv1}}
alloc_mode={{default|reuse}} fsync_mode={{posix|strict|nobarrier}} test_dummy_encryption?=s
inlinecrypt checkpoint=s
checkpoint_merge nocheckpoint_merge compress_algorithm=s compress_log_size=u compress_extension=s
nocompress_extension=s compress_chksum compress_mode={{fs|user}} compress_cache atgc gc_merge
nogc_merge
discard_unit={{block|segment|section}} memory={{normal|low}} age_extent_cache>6.2 {_ERRORS}>6.5
whint_mode=s<6.1
""",
    "vfat": f"""
check={{relaxed|r|strict|s|normal|n}} uid=s gid=s umask=o dmask=o fmask=o allow_utime=o codepage=u
usefree nocase quiet
showexec debug sys_immutable flush tz={{UTC}} time_offset=i {_ERRORS} discard
nfs?={{stale_rw|nostale_ro}} dos1xfloppy
conv=s fat=u blocksize=u cvf_format=s cvf_options=s posix iocharset=s
shortname={{lower|win95|winnt|mixed}} utf8?=b
uni_xlate?=b nonumtail?=b rodir
""",
    "exfat": f"""
uid=s gid=s umask=o dmask=o fmask=o allow_utime=o iocharset=s {_ERRORS} discard keep_last_dots
sys_tz time_offset=i
zero_size_dir>6.8 utf8 debug namecase=u codepage=u
""",
    "ntfs3": """
uid=s gid=s umask=o dmask=o fmask=o sys_immutable discard force sparse [no]hidden<6.2 nohidden
hide_dot_files>6.2
windows_names>6.2 showmeta acl noacl iocharset=s prealloc noprealloc nocase>6.2 acsrules<6.8
no_acs_rules<6.1
""",
    "jfs": f"""
integrity nointegrity iocharset=s resize?=u {_ERRORS} noquota quota usrquota grpquota uid=s gid=s
umask=o discard?=u
nodiscard
""",
    "nilfs2": f"{_ERRORS} [no]barrier cp=u order=s norecovery [no]discard",
    "iso9660": """
norock nojoliet unhide hide showassoc cruft utf8 iocharset=s map={acorn|a|normal|n|off|o} session=u
sbsector=u
check={relaxed|r|strict|s} uid=s gid=s mode=u dmode=u overriderockperm block=u conv=s nocompress
""",
    "udf": """
novrs nostrict bs=u unhide undelete [no]adinicb shortad longad gid=s uid=s umask=o session=u
lastblock=u anchor=u
volume=u partition=u fileset=u rootdir=u utf8 iocharset=s mode=o dmode=o
""",
    "squashfs": "errors={continue|panic} threads=s>6.2",
    "tmpfs": """
size=* nr_blocks=* nr_inodes=* mode=* uid=s gid=s huge={never|always|within_size|advise} mpol=s
inode32 inode64
noswap>6.4 quota>6.6 usrquota>6.6 grpquota>6.6 usrquota_block_hardlimit=s>6.6
usrquota_inode_hardlimit=s>6.6
grpquota_block_hardlimit=s>6.6 grpquota_inode_hardlimit=s>6.6 casefold?=s>6.13 strict_encoding>6.13
""",
    "overlay": """
lowerdir=* lowerdir+=s>6.8 datadir+=s>6.8 upperdir=s workdir=s default_permissions
redirect_dir={off|follow|nofollow|on}
index={on|off} uuid={off|null|auto|on} nfs_export={on|off} userxattr xino={off|auto|on}
metacopy={on|off}
verity={off|on|require}>6.6 fsync={volatile|auto|strict} volatile override_creds>6.14
nooverride_creds>6.14
""",
    "hugetlbfs": "gid=s uid=s min_size=s mode=o nr_inodes=s pagesize=s size=s",
    "nfs": """
[no]ac acdirmax=u acdirmin=u [no]acl acregmax=u acregmin=u actimeo=u addr=s bg fg bsize=u
clientaddr=s [no]cto
[no]alignwrite>6.9 [no]fsc fsc?=s hard soft softerr softreval [no]intr
local_lock={all|flock|posix|none} [no]lock
lookupcache={all|none|pos|positive} [no]migration minorversion=u mountaddr=s mounthost=s mountport=u
mountproto=s
mountvers=u namlen=u nconnect=u max_connect=u nfsvers={2|3|4|4.0|4.1|4.2} vers={2|3|4|4.0|4.1|4.2}
port=u [no]posix
proto=s [no]rdirplus rdirplus?=s rdma [no]resvport retrans=u retry=s rsize=u wsize=u sec=s
[no]sharecache sloppy
source=s tcp udp timeo=u [no]trunkdiscovery v2 v3 v4 v4.0 v4.1 v4.2 write={lazy|eager|wait}>6.1
xprtsec=s>6.5
hostname=s mountvers=u remoteports=s localports=s spread_reads spread_writes
""",
}
_ALIASES = {"nfs4": "nfs", "msdos": "vfat"}
# Types of which some words alone are known here: any other word is left to the program. Linux 5.15
# took NTLM and weaker out (commit 76a3c92ec9e0; cifs_secflavor_tokens of
# fs/smb/client/fs_context.c).
_IN_PART = dict.fromkeys(
    ("cifs", "smb3"), "sec={krb5|krb5i|krb5p|ntlmssp|ntlmsspi|ntlmv2|ntlmv2i|none}"
)
# Words of mount(8) itself that take a value; all others of GENERIC take none
# (libmount/src/optmap.c).
_VALUED = frozenset({"user", "loop"})
_NEEDING = frozenset({
    "comment", "offset", "sizelimit", "helper", "uhelper", "context", "fscontext", "defcontext",
    "rootcontext",
})  # fmt: skip
_OF_LIBMOUNT = frozenset({
    "seclabel", "nosub", "sub", "noowner", "nogroup", "nousers", "iversion", "_rnetdev", "silent",
    "loud", "smackfsdef", "smackfsdefault", "smackfsfloor", "smackfshat", "smackfsroot",
    "smackfstransmute",
})  # fmt: skip
# Flags that mount(8) hands on as they stand when a value follows, and that every file system then
# takes.
_LENIENT = frozenset(
    {"ro", "rw", "sync", "async", "dirsync", "mand", "nomand", "lazytime", "nolazytime"}
)
_PREFIXES = ("x-", "X-", "verity.")
_PATTERNS = {
    "u": regex(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)"),
    "i": regex(r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)"),
    "o": regex(r"0?[0-7]{1,6}"),
    "b": regex(r"0|1|yes|no|true|false|on|off|y|n", re.IGNORECASE),
    "c": regex(r"(?:zlib|lzo|zstd)(?:[:0-9-].*)?|no|none"),
    "p": regex(r"([0-9]+)([kmgt]?)", re.IGNORECASE),
    "l": regex(r"0|(?:16|32|64|128|256)k|16384|32768|65536|131072|262144", re.IGNORECASE),
    "r": regex(
        r"(?:(?:usebackuproot|nologreplay|ignore(?:badroots|datacsums|metacsums|superflags)|all|"
        r"ibadroots|i(?:data|meta)csums|isuperflags)(?::|\Z))+"
    ),
    "s": regex(r".+", re.DOTALL),
    "*": regex(r".*", re.DOTALL),
}
_MEANING = {
    "u": "a number", "i": "a number", "o": "an octal number", "b": "yes or no", "s": "a value",
    "c": "zlib, lzo, zstd or no", "p": "a multiple of 4k, as in 64m",
    "l": "16k, 32k, 64k, 128k or 256k", "r": "what to rescue (man 5 btrfs)",
}  # fmt: skip
_WORD = regex(
    r"(?P<no>\[no\])?(?P<name>[^=?<>]+?)(?:(?P<may>\?)?=(?P<kind>\{[^}]*\}|.))?"
    r"(?:>(?P<since>[0-9.]+))?(?:<(?P<until>[0-9.]+))?"
)


class OptionSpec(NamedTuple):
    """How one option of one type is written."""

    kinds: tuple[str, ...]  # what its value may be; empty: none
    is_flag: bool  # it may stand without a value
    since: str = ""
    until: str = ""


class KernelAnswer(str, Enum):
    """What the kernel says to a word."""

    TAKEN = "taken"
    REFUSED = "refused"
    LATER = "later"  # only newer kernels take it
    GONE = "gone"  # newer kernels refuse it
    UNKNOWN = "unknown"


class Reply(NamedTuple):
    """The answer, why, and what to write instead; no words for TAKEN."""

    answer: KernelAnswer
    why: str = ""
    todo: str = ""


TAKEN = Reply(KernelAnswer.TAKEN)


@lru_cache(maxsize=32)
def find_table(fstype: str) -> dict[str, OptionSpec] | None:
    """The options of a type by name; None for a type whose options are not known here."""
    text = _IN_PART[fstype] if fstype in _IN_PART else _TABLES.get(_ALIASES.get(fstype, fstype))
    if text is None:
        return None
    found: dict[str, OptionSpec] = {}
    for word in text.split():
        match = _WORD.fullmatch(word)
        assert match is not None, word  # noqa: S101 - the tables above are ours
        kind = match["kind"]
        spec = OptionSpec(
            (kind,) if kind else (),
            not kind or bool(match["may"]),
            match["since"] or "",
            match["until"] or "",
        )
        for name in (match["name"], f"no{match['name']}") if match["no"] else (match["name"],):
            # The table of ext4 holds that of ext2, so a word such as `dax` is there twice: each
            # form of it counts.
            old = found.get(name)
            found[name] = (
                spec
                if old is None
                else OptionSpec((*old.kinds, *spec.kinds), old.is_flag or spec.is_flag)
            )
    return found


@lru_cache(maxsize=64)
def list_names(fstype: str) -> frozenset[str]:
    """All words that may stand in a line of this type."""
    return GENERIC | _NEEDING | _OF_LIBMOUNT | frozenset(find_table(fstype) or ())


@lru_cache(maxsize=1)
def _index_words() -> dict[str, tuple[str, ...]]:
    """Which types have a word, by word."""
    found: dict[str, tuple[str, ...]] = {}
    for fstype in _TABLES:
        for name in find_table(fstype) or ():
            found[name] = (*found.get(name, ()), fstype)
    return found


def find_reply(fstype: str, word: str) -> Reply:
    """What Linux says to one item of the options of a mount of this type, without a look at any
    other.

    A type without a table takes everything: its words belong to a program, or are not known here.
    """
    known = find_table(fstype)
    name, equals, value = word.partition("=")
    if not word or name.startswith(_PREFIXES) or known is None:
        return TAKEN
    spec = known.get(name)
    if spec is None and fstype in _IN_PART:
        return TAKEN
    if spec is None:
        return _of_all(fstype, word, name, value if equals else None)
    bad = _value_fault(name, spec, value if equals else None)
    if bad:
        return Reply(KernelAnswer.REFUSED, f"{fstype} refuses `{word}`", bad)
    if spec.until:
        is_past = _parse_version(spec.until) <= OLDEST
        why = f"Linux {spec.until} and later have no `{name}` on {fstype}"
        return Reply(
            KernelAnswer.REFUSED if is_past else KernelAnswer.GONE, why, f"take `{word}` out"
        )
    if spec.since and _parse_version(spec.since) > OLDEST:
        why = f"only Linux {spec.since} and later know `{name}` on {fstype}"
        return Reply(
            KernelAnswer.LATER,
            why,
            "look at the oldest kernel that boots here: uname -r; or take it out",
        )
    return TAKEN


def is_refused_by(fstype: str, word: str, kernel: tuple[int, ...]) -> bool:
    """Whether this kernel (major, minor) refuses a mount of this type with this word. A word of no
    table may be one of a newer kernel than the tables know.
    """
    answer, spec = (
        find_reply(fstype, word).answer,
        (find_table(fstype) or {}).get(word.partition("=")[0]),
    )
    if answer is KernelAnswer.UNKNOWN:
        return OLDEST <= kernel <= NEWEST
    if answer is KernelAnswer.LATER and spec:
        return kernel < _parse_version(spec.since)
    if answer is KernelAnswer.GONE and spec:
        return kernel >= _parse_version(spec.until)
    return answer is KernelAnswer.REFUSED


def _of_all(fstype: str, word: str, name: str, value: str | None) -> Reply:
    """A word that the type itself does not have."""
    if name in GENERIC or name in _OF_LIBMOUNT or name in _NEEDING:
        if value is not None and name not in _VALUED | _NEEDING | _LENIENT and name[:5] != "smack":
            return Reply(
                KernelAnswer.REFUSED,
                f"`{name}` takes no value: nothing knows `{word}`",
                f"write `{name}`",
            )
        if not value and name in _NEEDING:
            return Reply(
                KernelAnswer.REFUSED,
                f"`{word}` names nothing",
                f"write `{name}=VALUE`, or take it out",
            )
        return TAKEN
    others = _index_words().get(name, ())
    if others:
        many = f"{', '.join(others[:3])}{' and others' if len(others) > 3 else ''}"
        return Reply(
            KernelAnswer.REFUSED,
            f"`{name}` is an option of {many}; {fstype} refuses it",
            f"take `{word}` out",
        )
    return Reply(KernelAnswer.UNKNOWN, f"no {fstype} of Linux 6.1 to 6.18 has an option `{name}`")


def _value_fault(name: str, spec: OptionSpec, value: str | None) -> str:
    """What to write instead; nothing where the value fits."""
    if value is None:
        return "" if spec.is_flag else f"write `{name}=` with {_describe_spec(spec)}"
    if not spec.kinds:
        return f"write `{name}`: it takes no value"
    if any(_fits(kind, value) for kind in spec.kinds):
        return ""
    return f"write `{name}=` with {_describe_spec(spec)}{', or it alone' if spec.is_flag else ''}"


def _fits(kind: str, value: str) -> bool:
    if kind.startswith("{"):
        return value in kind[1:-1].split("|")
    match = _PATTERNS[kind].fullmatch(value)
    if kind != "p" or match is None:
        return match is not None
    size = int(match[1]) << 10 * " kmgt".index(match[2].lower() or " ")
    return 1 << 12 <= size & -size <= 1 << 30  # xfs goes by the lowest bit that is set


def _describe_spec(spec: OptionSpec) -> str:
    kind = spec.kinds[0]
    if not kind.startswith("{"):
        return _MEANING.get(kind, "a value")
    *most, last = kind[1:-1].split("|")
    return f"{', '.join(most)} or {last}" if most else last


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def judge_combination(fstype: str, words: tuple[str, ...]) -> Reply:
    """What Linux says to words that are fine one by one."""
    given = {name: value for name, _, value in (word.partition("=") for word in words)}
    is_read_only = "ro" in given
    if fstype == "xfs" and ("sunit" in given) != ("swidth" in given):
        return Reply(
            KernelAnswer.REFUSED,
            "xfs takes sunit= and swidth= only together",
            "write both, or none",
        )
    if fstype == "overlay" and not {"lowerdir", "lowerdir+"} & given.keys():
        return Reply(
            KernelAnswer.REFUSED, "an overlay needs lowerdir=", "name the folders below it"
        )
    if fstype == "overlay" and "upperdir" in given and "workdir" not in given:
        return Reply(
            KernelAnswer.REFUSED,
            "an overlay with upperdir= needs workdir= too",
            "name an empty folder beside it",
        )
    lower = given.get("lowerdir", "")
    if (
        fstype == "overlay"
        and "upperdir" not in given
        and ":" not in lower
        and "lowerdir+" not in given
    ):
        return Reply(
            KernelAnswer.REFUSED,
            "without upperdir= an overlay needs two folders in lowerdir=",
            "name the other one",
        )
    if (
        fstype == "ext4"
        and "journal_async_commit" in given
        and given.get("data") not in ("writeback", "journal")
    ):
        why = "ext4 takes `journal_async_commit` only with data=writeback or data=journal"
        return Reply(KernelAnswer.REFUSED, why, "take `journal_async_commit` out")
    recovery = {"xfs": {"norecovery"}, "btrfs": {"norecovery", "nologreplay"}}.get(
        fstype, set()
    ) & given.keys()
    if recovery and not is_read_only:
        word = min(recovery)
        return Reply(
            KernelAnswer.REFUSED,
            f"{fstype} takes `{word}` only with `ro`",
            f"write `ro,{word}`, or take it out",
        )
    return TAKEN
