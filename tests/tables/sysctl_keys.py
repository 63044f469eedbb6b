"""Writes hosttune/resources/kernel/sysctl_keys.txt, the keys that `rules lint` knows.

    python -m tests.tables.sysctl_keys LINUX-SOURCE... [--live]

From the tables in the source trees of kernels (`struct ctl_table`, the calls of register_sysctl and
its kin), from /proc/sys of this machine with --live, and from what Ubuntu's kernels add (EXTRA). A
part that is the name of an interface, a module's instance or a namespace's own is `*`. Keys of a
source that is not given any more stay unless --anew: a rule may be written for an older kernel.
Where a file registers a table at a path that it works out, all of its tables are taken at all of
its paths: a key too many is a typo not told, a key too few a right one refused.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).resolve().parents[2] / "hosttune" / "resources" / "sysctl_keys.txt"
# Ubuntu's own (kernel.ubuntu.com, `UBUNTU: SAUCE` of AppArmor and of user namespaces).
EXTRA = (
    "kernel.apparmor_display_secid_mode", "kernel.apparmor_restrict_unprivileged_io_uring",
    "kernel.apparmor_restrict_unprivileged_unconfined", "kernel.apparmor_restrict_unprivileged_userns",
    "kernel.apparmor_restrict_unprivileged_userns_complain", "kernel.apparmor_restrict_unprivileged_userns_force",
    "kernel.unprivileged_userns_apparmor_policy", "kernel.unprivileged_userns_clone",
)  # fmt: skip
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_TABLE = re.compile(r"ctl_table\s+(\w+)\s*\[[^\]]*\]\s*(?:__\w+\s*)*=\s*\{(.*?)\n\s*\};", re.DOTALL)
_TEMPLATE = re.compile(
    r"\b(\w*(?:template|sysctl\w*))\s*(?:__\w+\s*)*=\s*\{\s*\n?\s*\.(?:\w*vars|\w*dir)\s*=\s*\{(.*?)\n\};",
    re.DOTALL,
)
_CALL = re.compile(
    r"(?<!un)register_(?:net_)?sysctl(?:_init|_sz)?\s*\(\s*(?:[^,\"()]+(?:\([^)]*\))?,\s*)?\"([^\"]+)\"\s*,\s*(\w+)"
)
_PATH = re.compile(r"\"((?:abi|crypto|debug|dev|fs|kernel|net|sunrpc|user|vm)/[\w%./-]*)\"")
_NAME = re.compile(
    r"\.procname\s*=\s*\"([^\"]+)\"|\b[A-Z][A-Z0-9_]+\((?:[^()\"]*,\s*)?\"([\w.-]+)\""
)
_ROOT = re.compile(r"(?:abi|crypto|debug|dev|fs|kernel|net|sunrpc|user|vm)(?:/|$)")
_SKIPPED = re.compile(r"debug/test_sysctl|^foo")
# /proc/sys: what is named for something of this machine.
_OWN = (
    (re.compile(r"^(net/ipv[46]/(?:conf|neigh)/)[^/]+"), r"\1*"),
    (re.compile(r"^(net/mpls/conf/)[^/]+"), r"\1*"),
    (
        re.compile(
            r"^(dev/(?:cdrom|parport)/)(?!info|autoclose|autoeject|check_media|debug|lock)[^/]+"
        ),
        r"\1*",
    ),
    (re.compile(r"^(fs/binfmt_misc/)(?!register|status)[^/]+"), r"\1*"),
    (re.compile(r"^(kernel/sched_domain/).*"), r"\1*/*/*"),
)


def of_file(text: str) -> Iterator[str]:
    """The paths below /proc/sys that a C file registers."""
    text = _COMMENT.sub("", text)
    if "register_" not in text or "sysctl" not in text:
        return
    tables = {
        name: _names(body) for name, body in (*_TABLE.findall(text), *_TEMPLATE.findall(text))
    }
    named = [(path, table) for path, table in _CALL.findall(text) if not _SKIPPED.search(path)]
    for path, table in named:
        for name in tables.get(table, ()):
            yield f"{path}/{name}"
    settled = {table for _, table in named if table in tables}
    loose = {name for table, names in tables.items() if table not in settled for name in names}
    paths = {path for path, table in named if table not in tables}
    paths |= {
        re.sub(r"%\w+", "*", path)
        for path in _PATH.findall(text)
        if "%" in path or path not in dict(named)
    }
    for path in paths:
        for name in loose:
            yield f"{path.rstrip('/')}/{name}"


def _names(body: str) -> set[str]:
    return {one or other for one, other in _NAME.findall(body)}


def of_source(tree: str) -> Iterator[str]:
    for folder, folders, files in os.walk(tree):
        folders[:] = [
            one for one in folders if one not in {"Documentation", "tools", "samples", "scripts"}
        ]
        for file in files:
            if file.endswith((".c", ".h")):
                yield from of_file(Path(folder, file).read_text(encoding="utf-8", errors="replace"))


def of_machine(top: str = "/proc/sys") -> Iterator[str]:
    for folder, _, files in os.walk(top):
        for file in files:
            path = os.path.relpath(os.path.join(folder, file), top)
            for own, instead in _OWN:
                path = own.sub(instead, path)
            yield path


def to_key(path: str) -> str:
    """`net/ipv4/conf/*/rp_filter` as sysctl.d(5) writes it, with dots."""
    return path.translate(str.maketrans("./", "/."))


def main(words: list[str]) -> int:
    trees = [word for word in words if not word.startswith("--")]
    if not trees and "--live" not in words:
        print(__doc__, file=sys.stderr)
        return 2
    head, keys = [], set(EXTRA)
    if TARGET.exists() and "--anew" not in words:
        lines = TARGET.read_text(encoding="ascii").splitlines()
        head = [line for line in lines if line.startswith("#") and "Written by" not in line]
        keys |= {line for line in lines if line and not line.startswith("#")}
    for tree in trees:
        keys |= {to_key(path) for path in of_source(tree) if _ROOT.match(path)}
        head.append(f"# source tree {Path(tree).name}")
    if "--live" in words:
        keys |= {to_key(path) for path in of_machine()}
        head.append(f"# /proc/sys of Linux {os.uname().release.partition('-')[0]}")
    covered = sorted(key for key in keys if re.fullmatch(r"[a-z][\w./*:-]*", key))
    first = "# Written by python -m tests.tables.sysctl_keys; the keys below /proc/sys that kernels have."
    TARGET.write_text("\n".join([first, *dict.fromkeys(head), *covered]) + "\n", encoding="ascii")
    print(f"{TARGET}: {len(covered)} keys")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
