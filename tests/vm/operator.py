"""What an operator types into a guest, and what is read back from it."""

import json
from typing import Any

from tests.vm import image, wheels
from tests.vm.guest import Guest

HOSTTUNE = "/usr/local/bin/hosttune"
POLICY = "/etc/hosttune/policy.yaml"
RUNS = "/var/lib/hosttune/runs"


def install(guest: Guest, suite: str) -> None:
    """Install hosttune as a user would: into a virtual environment, with a link in the path of root."""
    guest.ask(["mkdir", "/root/wheels"])
    guest.ask(["tar", "x", "-C", "/root/wheels"], stdin=wheels.bundle(image.cache_folder(), wheels.PYTHONS[suite]))
    pip = [f"{image.VENV}/bin/pip", "install", "--quiet", "--no-index", "--find-links", "/root/wheels", "hosttune"]
    assert guest.run(pip, timeout=400).rc == 0
    assert guest.run(["ln", "-s", f"{image.VENV}/bin/hosttune", HOSTTUNE]).rc == 0
    rc, text = hosttune(guest, "--version")
    assert (rc, text.split()[0]) == (0, "hosttune")


def hosttune(guest: Guest, *words: str) -> tuple[int, str]:
    """Exit status and report of one command, typed as an operator does; it must not end in a traceback."""
    rc, stdout, stderr = guest.run(["hosttune", *words], timeout=300)
    assert "Traceback" not in stderr, stderr
    return rc, stdout


def findings(guest: Guest) -> dict[str, set[str]]:
    """The verdicts of each rule, from the JSON of `check`."""
    report = json.loads(guest.ask_any(["hosttune", "check", "--format", "json"], timeout=300).stdout)
    verdicts: dict[str, set[str]] = {}
    for finding in report["hosts"][0]["findings"]:
        verdicts.setdefault(finding["rule"], set()).add(finding["verdict"])
    return verdicts


def plan(guest: Guest) -> dict[str, Any]:
    document = json.loads(guest.ask_any(["hosttune", "plan", "--format", "json"], timeout=300).stdout)
    assert isinstance(document, dict)
    return document


def addresses(document: dict[str, Any]) -> set[str]:
    return {change["address"] for stage in document["stages"] for change in stage["changes"]}


def fstab(guest: Guest) -> str:
    return guest.read("/etc/fstab").decode()


def runs(guest: Guest) -> list[str]:
    """The ids of the runs of `apply` in the journal, oldest first (an id begins with its time)."""
    names = sorted(name for name in guest.ask_any(["ls", RUNS]).stdout.split() if name.endswith(".jsonl"))
    heads = [guest.ask(["head", "-n1", f"{RUNS}/{name}"]) for name in names]
    return [name.removesuffix(".jsonl") for name, head in zip(names, heads, strict=True) if '"apply"' in head]


def etc_digest(guest: Guest) -> str:
    """Names, owners, modes and bytes of all below /etc, our policy aside."""
    listing = guest.ask(["find", "/etc", "-not", "-path", "/etc/hosttune*", "-printf", "%p %y %m %U:%G %l\n"])
    sums = guest.ask(["find", "/etc", "-type", "f", "-not", "-path", "/etc/hosttune*", "-exec", "sha256sum", "{}", "+"])
    return "\n".join(sorted((listing + sums).splitlines()))
