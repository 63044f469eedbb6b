"""What an operator types into a guest, and what is read back from it."""

import json
from typing import Any

from tests.vm.guest import Guest

POLICY = "/etc/hosttune/policy.yaml"
RUNS = "/var/lib/hosttune/runs"


def hosttune(guest: Guest, *words: str) -> tuple[int, str]:
    """Exit status and report of one command, typed as an operator does; it must not end in a
    traceback.
    """
    rc, stdout, stderr = guest.run(["hosttune", *words])
    assert "Traceback" not in stderr, stderr
    return rc, stdout


def judged(guest: Guest) -> tuple[int, dict[str, set[str]]]:
    """Exit status of `check`, and the verdicts of each rule, from its JSON: a check takes ten
    seconds there.
    """
    rc, stdout, stderr = guest.ask_any(["hosttune", "check", "--format", "json"])
    assert "Traceback" not in stderr, stderr
    verdicts: dict[str, set[str]] = {}
    for finding in json.loads(stdout)["hosts"][0]["findings"]:
        verdicts.setdefault(finding["rule"], set()).add(finding["verdict"])
    return rc, verdicts


def plan(guest: Guest) -> dict[str, Any]:
    document = json.loads(guest.ask_any(["hosttune", "plan", "--format", "json"]).stdout)
    assert isinstance(document, dict)
    return document


def addresses(document: dict[str, Any]) -> set[str]:
    return {change["address"] for stage in document["stages"] for change in stage["changes"]}


def fstab(guest: Guest) -> str:
    return guest.read("/etc/fstab").decode()


def runs(guest: Guest) -> list[str]:
    """The ids of the runs of `apply` in the journal, oldest first (an id begins with its time)."""
    names = sorted(
        name for name in guest.ask_any(["ls", RUNS]).stdout.split() if name.endswith(".jsonl")
    )
    heads = [guest.ask(["head", "-n1", f"{RUNS}/{name}"]) for name in names]
    return [
        name.removesuffix(".jsonl")
        for name, head in zip(names, heads, strict=True)
        if '"apply"' in head
    ]


def etc_digest(guest: Guest) -> str:
    """Names, owners, modes and bytes of all below /etc, our policy aside."""
    listing = guest.ask(
        ["find", "/etc", "-not", "-path", "/etc/hosttune*", "-printf", "%p %y %m %U:%G %l\n"]
    )
    sums = guest.ask(
        [
            "find",
            "/etc",
            "-type",
            "f",
            "-not",
            "-path",
            "/etc/hosttune*",
            "-exec",
            "sha256sum",
            "{}",
            "+",
        ]
    )
    return "\n".join(sorted((listing + sums).splitlines()))
