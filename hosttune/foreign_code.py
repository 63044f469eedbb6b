"""Whether Python takes code, for root, from where someone else can put it.

PYTHONPATH, PYTHONHOME, the working folder (`python -m`) and PYTHONPYCACHEPREFIX name such places
(Python documentation, "Command line and environment"). The .deb and the one file start Python with
-I, which drops them; the script that pip makes does not. Python itself reads PYTHONPATH before this
line (sitecustomize), so what is there may have run: the look ends what can still be ended, and says
it. Those who can write hosttune's own files have that say anyway: a user's own checkout under sudo
is that user's decision.

It comes before all other imports and needs only modules that Python has loaded by itself.
"""

import os
import stat
import sys

_ACL = "system.posix_acl_access"
_Place = tuple[str, os.stat_result | None]


def refuse_foreign_code() -> None:
    """As root, leave with status 2 if Python looks for code in a place that others can write."""
    if os.geteuid() != 0 or sys.flags.isolated:
        return
    own = _list_places(os.path.dirname(os.path.abspath(__file__)))
    modules = [getattr(one, "__file__", None) for one in list(sys.modules.values())]
    loaded = {
        os.path.dirname(file) for file in modules if isinstance(file, str) and os.path.isabs(file)
    }
    prefix = [sys.pycache_prefix] if sys.pycache_prefix else []
    foreign = {
        path: why for path in (*sys.path, *prefix, *loaded) if (why := _why_foreign(path, own))
    }
    if foreign:
        _leave(foreign, loaded)


def _list_places(path: str) -> list[_Place]:
    """The place, each folder above it and each link on the way; None if there is nothing of that
    name.
    """
    found: dict[str, os.stat_result | None] = {}
    todo = [os.path.realpath(path), os.path.abspath(path)]
    while todo:
        place = todo.pop()
        if place in found:
            continue
        found[place] = None
        try:
            found[place] = info = os.lstat(place)
            if stat.S_ISLNK(info.st_mode):
                todo.append(
                    os.path.abspath(os.path.join(os.path.dirname(place), os.readlink(place)))
                )
        except (FileNotFoundError, NotADirectoryError):
            pass
        todo.append(os.path.dirname(place))
    return list(found.items())


def _why_foreign(path: str, own: list[_Place]) -> str:
    """Who besides root and the owners of hosttune's own files can put code there; "" if no one
    can.
    """
    of_own = {place for place, info in own}
    users = {0} | {info.st_uid for _, info in own if info}
    groups = {0} | {info.st_gid for _, info in own if info and info.st_mode & stat.S_IWGRP}
    try:
        places = _list_places(path)
    except OSError as error:
        return f"{error.filename} cannot be looked at ({error.strerror})"
    leaves = {os.path.abspath(path), os.path.realpath(path)}
    for place, info in places:
        if info is None:
            leaves.add(os.path.dirname(place))  # who can write there makes it
    for place, info in places:
        if info is None:
            continue
        if info.st_uid not in users:
            return f"{place} belongs to uid {info.st_uid}"
        is_sticky = info.st_mode & stat.S_ISVTX and place not in leaves
        if stat.S_ISLNK(info.st_mode) or is_sticky:
            continue
        if info.st_mode & stat.S_IWOTH:
            return f"everyone can write {place}"
        is_of_others = info.st_gid not in groups or (place not in of_own and _has_acl(place))
        if info.st_mode & stat.S_IWGRP and is_of_others:
            return f"a group can write {place}"
    return ""


def _has_acl(place: str) -> bool:
    """Whether an ACL names others: the bits of the group are then its mask (acl(5))."""
    try:
        return _ACL in os.listxattr(place)
    except OSError:
        return False


def _leave(foreign: dict[str, str], loaded: set[str]) -> None:
    # Before the next import, which would take its code from there as well.
    sys.path[:] = [path for path in sys.path if path not in foreign]
    from hosttune.quoting import join

    path, why = next(iter(foreign.items()))
    asked = os.environ.get("PYTHONPATH", "").split(":")
    is_dropped = path in (*asked, *map(os.path.abspath, asked), sys.pycache_prefix, "", os.getcwd())
    lines = [f"hosttune: root takes no code from {path!r}, where Python looks for modules: {why}"]
    if any(one in foreign for one in loaded):
        lines.append("  modules from there are already loaded, so their code has run: look at them")
    if is_dropped or "PYTHONHOME" in os.environ:
        lines.append(
            f"  hint: type {join((sys.executable, '-I', '-m', 'hosttune', *sys.argv[1:]))}"
        )
    else:
        lines.append(
            "  hint: let only root write there, or install the .deb, which starts Python without "
            "such places"
        )
    sys.stderr.write("\n".join(lines) + "\n")
    sys.exit(2)
