# SPDX-License-Identifier: Apache-2.0
"""What a module returns, made of the documents that hosttune prints. Values in, values out."""

from __future__ import annotations

import re

SETTLED = ("ok", "not applicable")
LIVE, NEXT_BOOT = "on trial: live", "on trial: next boot"


# A command with its words, as texts of hosttune write it for a person on the host.
COMMAND = re.compile(
    r"(`?)(?:sudo )?hosttune (check|plan|apply|undo)\b"
    r"((?: --(?:only|select|profile|rule) \w(?:[\w.-]*\w)?| --[a-z][a-z-]*| \d{8}[\w-]*)*)(`?)"
)
PLAYS = {"check": "check", "plan": "check", "apply": "apply", "undo": "undo"}
OPTIONS = {
    "--only": "hosttune_only",
    "--select": "hosttune_select",
    "--profile": "hosttune_profile",
    "--rule": "rule",
}


def as_played(text):
    """The same text for a host without hosttune: the playbooks in place of commands that nobody can
    type there. What no playbook takes stays as it is.
    """
    return COMMAND.sub(_played, text)


def _played(found):
    opened, command, words, closed = found.groups()
    given, words = [], words.split()
    while words:
        word = words.pop(0)
        if word in OPTIONS and words:
            given.append(f"-e {OPTIONS[word]}={words.pop(0)}")
        elif command == "undo" and not word.startswith("-"):
            given.append(f"-e run_id={word}")
        elif word != "--yes":
            return found[0]
    return (
        opened
        + " ".join(["ansible-playbook", f"hosttune.hosttune.{PLAYS[command]}", *given])
        + closed
    )


def with_todo(findings, program):
    """The findings, with what a person can type where hosttune is no `program` of the host."""
    if program:
        return findings
    return [dict(one, todo=as_played(one["todo"])) if one.get("todo") else one for one in findings]


def changes_of(plan):
    """Every change of a plan, in the order in which they are made."""
    return [change for stage in plan["stages"] for change in stage["changes"]]


def flat(findings):
    """The findings without their changes, which stand by themselves; only whether there are any."""
    return [
        dict(
            {key: value for key, value in finding.items() if key != "changes"},
            is_planned=bool(finding["changes"]),
        )
        for finding in findings
    ]


def reboot_reasons(findings):
    """What is configured but runs only after a reboot: from the state that was found."""
    return [
        "{}: {}".format(finding["rule"], finding["subject"] or "host")
        for finding in findings
        if finding["hold"]["kind"] == "waiting for" and "reboot" in finding["hold"]["detail"]
    ]


def reboot_obstacles(findings):
    """What has to be solved before anybody boots the host again, for a boot makes it worse."""
    return [
        "{}: {}".format(one["rule"], one["reason"]) for one in findings if one.get("blocks_reboot")
    ]


def undone_until_reboot(history, boot_id):
    """What was undone in this boot and runs until the next one, as `hosttune history` tells it."""
    return [
        "{} takes effect at the next boot".format(step["address"])
        for run in history["runs"]
        if run["command"] == "undo" and run["boot_id"] == boot_id
        for step in run["steps"]
        if step["phase"] == "done" and step["activation"] == "reboot"
    ]


def rules_of(trial):
    """The rules whose changes are on trial."""
    return list(
        dict.fromkeys(
            rule for name in ("live", "next_boot", "one_boot") for rule in trial.get(name) or ()
        )
    )


def standing(trial):
    """What is on trial and until when, in a sentence without its end."""
    rules = ", ".join(rules_of(trial))
    if trial["state"] == NEXT_BOOT:
        when = "at the next boot"
    else:
        when = (
            "until {} UTC".format(trial["until"][11:16]) if trial.get("until") else "in this boot"
        )
    return "run {} ({}) is on trial {}".format(trial["run"], rules, when)


def asked_boot(trial):
    """Why a host has to boot for what is on trial."""
    return [standing(trial)] if trial.get("state") == NEXT_BOOT else []


def deferred(findings):
    """What waits until the GPUs are free."""
    return [
        {
            "rule": finding["rule"],
            "subject": finding["subject"],
            "reason": finding["hold"]["detail"],
        }
        for finding in findings
        if finding["hold"]["kind"] == "busy"
    ]


def outcomes_of(receipt):
    """The changes of a run, each with what became of it."""
    return [
        dict(one["change"], phase=one["phase"], error=one["error"], hint=one["hint"])
        for one in receipt["outcomes"]
    ]


def diff_of(changes):
    """The changes as Ansible shows a diff: whole texts of files of our own, hunks of other files,
    live values last.
    """
    shown, hunks, live = [], {}, []
    for change in changes:
        before, after = change["before"], change["after"]
        path = change["address"].partition(":")[2]
        if is_file(before) or is_file(after):
            shown.append(
                {
                    "before_header": path,
                    "after_header": path,
                    "before": text_of(before),
                    "after": text_of(after),
                }
            )
        elif change["details"] and change["details"][0].startswith("--- "):
            file = change["details"][0][4:]
            hunks.setdefault(file, []).extend(change["details"][2:])
        else:
            live.append(change)
    shown += [
        {"prepared": "\n".join(["--- " + file, "+++ " + file, *lines]) + "\n"}
        for file, lines in hunks.items()
    ]
    if live:
        shown.append(
            {
                "before_header": "live values",
                "after_header": "live values",
                "before": "".join(
                    "{} = {}\n".format(one["address"], value_text(one["before"])) for one in live
                ),
                "after": "".join(
                    "{} = {}\n".format(one["address"], value_text(one["after"])) for one in live
                ),
            }
        )
    return shown


def is_file(value):
    return isinstance(value, dict) and value.get("type") == "file"


def text_of(value):
    """The text of a file; empty where there is none."""
    if not is_file(value):
        return (
            ""
            if not isinstance(value, dict) or value.get("type") == "absent"
            else value_text(value)
        )
    return value.get("text", "(not text)\n")


def value_text(value):
    if isinstance(value, dict):
        return "(%s)" % (value.get("reason") or value.get("type"))
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def warnings_of(result, *, is_asked_trial):
    """What a person should know of what `tune` returned, without being asked for it. The controller
    makes these sentences of what it has checked: a warning that a host words itself is not shown.
    """
    found = []
    if result.get("changed") and result.get("run_id") and not result.get("program", True):
        found.append(
            "hosttune could not be left on this host, so the way back is the playbook: "
            f"ansible-playbook hosttune.hosttune.undo -e run_id={result['run_id']}"
        )
    if waits := result.get("deferred"):
        rules = ", ".join(sorted({one["rule"] for one in waits}))
        found.append("waiting for GPU work: {} ({})".format(rules, waits[0]["reason"]))
    found += result.get("waiting", ())
    trial = result.get("trial", {})
    found += ["no trial is possible here: " + sentence for sentence in trial.get("obstacles") or ()]
    if trial.get("is_open") and not is_asked_trial:  # only the policy has asked for it
        found.append(standing(trial) + ": unless state=confirmed keeps it, this host rolls it back")
    return found + [
        "no reboot before this is solved: " + one for one in result.get("reboot_obstacles", ())
    ]


SHORTEST = 12  # digits of a digest


def is_approved(digest, approved):
    """Whether one of the approved digests, or its first twelve digits or more, is this one."""
    return any(len(one) >= SHORTEST and digest.startswith(one) for one in approved)


def no_digests(words):
    """What is wrong with these words as digests, in one sentence; empty where nothing is."""
    wrong = [
        one for one in words if not SHORTEST <= len(one) <= 64 or set(one) - set("0123456789abcdef")
    ]
    if not wrong:
        return ""
    shown = ", ".join(one or "an empty word" for one in wrong)
    return (
        f"{shown}: no digest of a plan, which are 64 digits of 0-9 and a-f; its first {SHORTEST} "
        "are enough"
    )
