# SPDX-License-Identifier: Apache-2.0
"""What the controller sends to the hosts: hosttune as one file or as a package, the policy, rules of the site."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import subprocess

from ansible.errors import AnsibleError

COLLECTION = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
PACKAGING = os.path.join("playbooks", "packaging")
SETUP_S = 900


def bundle_path(named=None, kind="pyz"):
    """The file to bring: the one that was named, the one of this collection, or one built from the checkout around it.
    `kind` is pyz (one file) or deb (a package). Raises AnsibleError, naming the way out.
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
        f"this collection came without hosttune itself ({shipped}): install its release tarball, or name a file"
        " (`bundle`, or hosttune_deb for the package), or set `executable` to the hosttune of the hosts"
    )


def built(checkout, kind):
    """The file built from a checkout: kept in its folder `build`, and built anew when a source changes."""
    folder = os.path.join(checkout, "build")
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, "hosttune." + kind)
    stamp = target + ".stamp"
    with open(target + ".lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Ansible's forks ask at once
        now = fingerprint(checkout)
        if os.path.isfile(target) and _text(stamp) == now:
            return target
        _run(checkout, ["sh", os.path.join(checkout, "run"), "--version"])  # makes .venv where there is none
        python = os.path.join(checkout, ".venv", "bin", "python")
        _run(checkout, [python, "-E", "-s", os.path.join(checkout, PACKAGING, kind + ".py"), target])
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(now)
    return target


def fingerprint(checkout):
    """A digest over names, sizes and times of the sources."""
    seen = hashlib.sha256()
    for top in ("hosttune", "templates", PACKAGING):
        for folder, folders, names in os.walk(os.path.join(checkout, top)):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                _see(seen, os.path.join(folder, name))
    for name in ("pyproject.toml", "CHANGELOG.md"):  # the package holds the second
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
        words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SETUP_S, check=False
    )
    if done.returncode != 0:
        raise AnsibleError("{}: {}".format(" ".join(words), done.stderr.strip() or done.stdout.strip()))


def payload(path):
    """The file as the text of an argument."""
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()


def rule_texts(paths):
    """The rules in these files and folders, by file name. Raises AnsibleError where two files have one name."""
    texts, places = {}, {}
    for path in paths:
        files = [path]
        if os.path.isdir(path):
            files = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith((".yaml", ".yml")))
        for file in files:
            name = os.path.basename(file)
            if places.setdefault(name, file) != file:
                raise AnsibleError(
                    f"rules_files: {places[name]} and {file} have one name; a rule is named after its file"
                )
            with open(file, encoding="utf-8") as opened:
                texts[name] = opened.read()
    return texts


def with_written_out(texts, rules):
    """The same and the rules that a task holds itself. Raises AnsibleError where one is no rule or is there twice."""
    if not isinstance(rules, list):
        raise AnsibleError("rules: is no list of rules")
    found = dict(texts)
    for number, rule in enumerate(rules):
        if not isinstance(rule, dict):
            raise AnsibleError(f"rules[{number}]: is no rule written out; files of rules go into rules_files")
        name = "{}.yaml".format(rule.get("id", f"rule-{number}"))
        if name in found:
            raise AnsibleError(f"rules[{number}]: the rule {rule.get('id')} is there twice")
        found[name] = json.dumps(rule, indent=1, default=str)
    return found
