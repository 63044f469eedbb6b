# SPDX-License-Identifier: Apache-2.0
"""What the controller sends along with a task: hosttune as one file, the policy, rules of the site."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import subprocess

from ansible.errors import AnsibleError

COLLECTION = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
SHIPPED = os.path.join(COLLECTION, "files", "hosttune.pyz")
BUILDER = os.path.join("playbooks", "packaging", "pyz.py")
SETUP_S = 900


def bundle_path(named=None):
    """The file to bring: the one that was named, the one of this collection, or one built from the checkout around it.

    Raises AnsibleError, naming the way out.
    """
    if named:
        return named
    if os.path.isfile(SHIPPED):
        return SHIPPED
    checkout = os.path.realpath(os.path.join(COLLECTION, *[".."] * 5))
    if os.path.isfile(os.path.join(checkout, BUILDER)):
        return built(checkout)
    raise AnsibleError(
        f"this collection came without hosttune itself ({SHIPPED}): install its release tarball, or set `bundle` to a"
        " hosttune.pyz, or `executable` to the hosttune of the hosts"
    )


def built(checkout):
    """The file built from a checkout: kept in its folder `build`, and built anew when a source changes."""
    folder = os.path.join(checkout, "build")
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, "hosttune.pyz")
    stamp = target + ".stamp"
    with open(target + ".lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Ansible's forks ask at once
        now = fingerprint(checkout)
        if os.path.isfile(target) and _text(stamp) == now:
            return target
        _run(checkout, ["sh", os.path.join(checkout, "run"), "--version"])  # makes .venv where there is none
        python = os.path.join(checkout, ".venv", "bin", "python")
        _run(checkout, [python, "-E", "-s", os.path.join(checkout, BUILDER), target])
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(now)
    return target


def fingerprint(checkout):
    """A digest over names, sizes and times of the sources."""
    seen = hashlib.sha256()
    for top in ("hosttune", "templates", os.path.join("playbooks", "packaging"), "pyproject.toml"):
        for folder, folders, names in os.walk(os.path.join(checkout, top)):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                _see(seen, os.path.join(folder, name))
    _see(seen, os.path.join(checkout, "pyproject.toml"))
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
        words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SETUP_S, check=False
    )
    if done.returncode != 0:
        raise AnsibleError("{}: {}".format(" ".join(words), done.stderr.strip() or done.stdout.strip()))


def payload(path):
    """The file as the text of an argument."""
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()


def rule_texts(paths):
    """The rules in these files and folders, by file name."""
    texts = {}
    for path in paths:
        files = [path]
        if os.path.isdir(path):
            files = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith((".yaml", ".yml")))
        for file in files:
            with open(file, encoding="utf-8") as opened:
                texts[os.path.basename(file)] = opened.read()
    return texts
