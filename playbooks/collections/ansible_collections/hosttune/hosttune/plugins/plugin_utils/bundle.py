# SPDX-License-Identifier: Apache-2.0
"""What the controller sends to the hosts: hosttune as one file or as a package, the policy, rules
of the site.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess

from ansible.errors import AnsibleError

COLLECTION = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
PACKAGING = os.path.join("playbooks", "packaging")
SOURCES = ("hosttune", "templates", PACKAGING)
ALONE = ("pyproject.toml", "CHANGELOG.md")  # the package holds the second
HELD = ("held", "stamp")  # what is written beside the file
SETUP_S = 900
CACHE_HINT = "name a folder of yours: XDG_CACHE_HOME=DIR, or a file: -e hosttune_bundle=FILE"


def bundle_path(named=None, kind="pyz"):
    """The file to bring: the one that was named, the one of this collection, or one built from the
    checkout around it. `kind` is pyz (one file) or deb (a package). Raises AnsibleError, naming the
    way out.
    """
    if named:
        return named
    shipped = os.path.join(COLLECTION, "files", "hosttune." + kind)
    if os.path.isfile(shipped):
        return shipped
    checkout = os.path.realpath(os.path.join(COLLECTION, *[".."] * 5))
    if os.path.isfile(os.path.join(checkout, PACKAGING, kind + ".py")):
        return built(checkout, kind)
    raise AnsibleError(
        f"this collection came without hosttune itself ({shipped}): install its release tarball, "
        "which `./run collection` builds in a checkout, or name a file (`bundle`, or hosttune_deb "
        "for the package), or set `executable` to the hosttune of the hosts"
    )


def built(checkout, kind):
    """The file built from a checkout, and built anew when a source changes: kept in its folder
    `build`, or in the cache of this user where the checkout is read-only or somebody else's.
    """
    own = os.path.join(checkout, "build")
    held = [
        own if os.path.isdir(own) else checkout,
        *(os.path.join(own, f"hosttune.{kind}.{end}") for end in HELD),
    ]
    is_ours = all(os.access(path, os.W_OK) for path in held if os.path.lexists(path))
    folder = (
        own
        if is_ours
        else private_folder(
            os.path.join("checkouts", hashlib.sha256(checkout.encode()).hexdigest())
        )
    )
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, "hosttune." + kind)
    stamp = target + ".stamp"
    # For this user only, from the first moment: who may read a file may lock it, for as long as
    # they like.
    with open(target + ".held", "a", encoding="utf-8", opener=_open_private) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Ansible's forks ask at once
        now = fingerprint(checkout)
        if os.path.isfile(target) and _text(stamp) == now:
            return target
        source = _set_up(checkout, None if is_ours else folder)
        python = os.path.join(source, ".venv", "bin", "python")
        _run(source, [python, "-E", "-s", os.path.join(source, PACKAGING, kind + ".py"), target])
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(now)
    return target


def _open_private(path, flags):
    return os.open(path, flags, 0o600)


def _set_up(checkout, folder):
    """The checkout once it has its .venv. One that cannot be set up by this user is copied into
    `folder`.
    """
    try:
        _run(checkout, ["sh", os.path.join(checkout, "run"), "--version"])
    except AnsibleError:
        if folder is None:
            raise
    else:
        return checkout
    copy = os.path.join(folder, "source")
    for name in (*SOURCES, *ALONE, "run", "hatch_build.py", "LICENSE", "README.md", "docs"):
        shutil.rmtree(os.path.join(copy, name), ignore_errors=True)
        _copy(os.path.join(checkout, name), os.path.join(copy, name))
    _run(copy, ["sh", os.path.join(copy, "run"), "--version"])
    return copy


def _copy(path, there):
    """Contents alone: what is read-only over there could not be replaced here."""
    if os.path.isdir(path):
        os.makedirs(there, exist_ok=True)
        for name in os.listdir(path):
            if name != "__pycache__":
                _copy(os.path.join(path, name), os.path.join(there, name))
    else:
        os.makedirs(os.path.dirname(there), exist_ok=True)
        shutil.copyfile(path, there)


def private_folder(name):
    """A folder in the cache of this user (XDG Base Directory Specification). Raises AnsibleError
    where anybody else could write in it, or exchange it.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    top = os.path.join(os.path.realpath(base), "hosttune")
    folder = os.path.join(top, name)
    try:
        _make_private(folder)
        while folder != os.path.dirname(folder):
            status = os.lstat(folder)
            is_inside = folder == top or folder.startswith(top + os.sep)
            is_open = status.st_mode & (0o077 if is_inside else 0o022)
            if is_open and not is_inside and status.st_mode & stat.S_ISVTX:
                is_open = False  # others may write there, and exchange nothing of ours
            owners = (os.geteuid(),) if is_inside else (0, os.geteuid())
            if not stat.S_ISDIR(status.st_mode) or status.st_uid not in owners or is_open:
                raise AnsibleError(f"{folder}: others could write there; {CACHE_HINT}")
            folder = os.path.dirname(folder)
    except OSError as error:
        raise AnsibleError(f"{error.filename or folder}: {error.strerror}; {CACHE_HINT}") from error
    return os.path.join(top, name)


def _make_private(folder):
    if not os.path.isdir(folder):
        _make_private(os.path.dirname(folder))
        os.makedirs(folder, mode=0o700, exist_ok=True)


def fingerprint(checkout):
    """A digest over names, sizes and times of the sources."""
    seen = hashlib.sha256()
    for top in SOURCES:
        for folder, folders, names in os.walk(os.path.join(checkout, top)):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                _see(seen, os.path.join(folder, name))
    for name in ALONE:
        _see(seen, os.path.join(checkout, name))
    return seen.hexdigest()


def _see(seen, path):
    status = os.stat(path)
    seen.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())


def _text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _run(folder, words):
    done = subprocess.run(
        words,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SETUP_S,
        check=False,
    )
    if done.returncode != 0:
        raise AnsibleError(
            "{}: {}".format(" ".join(words), done.stderr.strip() or done.stdout.strip())
        )


def payload(path):
    """The file as the text of an argument."""
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()


def rule_texts(paths, read):
    """The rules in these files and folders, by file name; `read` gives the text of one. Raises
    AnsibleError where two files have one name.
    """
    texts, places = {}, {}
    for path in paths:
        files = [path]
        if os.path.isdir(path):
            files = sorted(
                os.path.join(path, name)
                for name in os.listdir(path)
                if name.endswith((".yaml", ".yml"))
            )
        for file in files:
            name = os.path.basename(file)
            if places.setdefault(name, file) != file:
                raise AnsibleError(
                    f"rules_files: {places[name]} and {file} have one name; a rule is named after "
                    "its file"
                )
            texts[name] = read(file)
    return texts


def with_written_out(texts, rules):
    """The same and the rules that a task holds itself. Raises AnsibleError where one is no rule or
    is there twice.
    """
    if not isinstance(rules, list):
        raise AnsibleError("rules: is not a list of rules")
    found = dict(texts)
    for number, rule in enumerate(rules):
        if not isinstance(rule, dict):
            raise AnsibleError(
                f"rules[{number}]: is no rule written out; files of rules go into rules_files"
            )
        name = "{}.yaml".format(rule.get("id", f"rule-{number}"))
        if name in found:
            raise AnsibleError(f"rules[{number}]: the rule {rule.get('id')} is there twice")
        found[name] = json.dumps(rule, indent=1, default=str)
    return found
