# SPDX-License-Identifier: Apache-2.0
"""Folds the answers of many hosts into classes of equal plans. Values in, text out."""

from __future__ import annotations

import difflib

HOSTS_NAMED = 12


PLANNED, DONE, PARTLY = "to make", "made", "tried, and some failed"
BACK_PLANNED, BACK_DONE = "to take back", "taken back"
LEFT = "not made, because the plan is not approved"
NOTHING, BACK_NOTHING = "nothing to change", "nothing to take back"
ORDER = (PLANNED, BACK_PLANNED, PARTLY, DONE, BACK_DONE, LEFT, NOTHING, BACK_NOTHING)


def folded(answers, *, act, is_planned=False):
    """The classes of these answers (a dict from host to what tune or tune_info returned): what there is to do first,
    the largest first. `act` is what was asked for: plan, apply or undo; `is_planned`: nothing was done.
    """
    classes = {}
    for host in sorted(answers):
        one = answers[host]
        standing = _standing(one, act, is_planned or act == "plan")
        key = (standing, one["digest"] if one.get("changes") else "")
        entry = classes.setdefault(
            key, dict(standing=standing, digest=key[1], hosts=[], runs={}, changes=one.get("changes") or [], diff=None)
        )
        entry["hosts"].append(host)
        if one.get("run_id"):
            entry["runs"][host] = one["run_id"]
        if entry["diff"] is None:
            entry["diff"] = one.get("plan_diff") or one.get("diff") or []
    return sorted(
        classes.values(), key=lambda entry: (ORDER.index(entry["standing"]), -len(entry["hosts"]), entry["digest"])
    )


def _standing(one, act, is_planned):
    if not one.get("changes"):
        return BACK_NOTHING if act == "undo" else NOTHING
    if not one.get("approved", True):
        return LEFT
    if is_planned:
        return BACK_PLANNED if act == "undo" else PLANNED
    if one.get("failed"):
        return PARTLY
    return BACK_DONE if act == "undo" else DONE


def summary(classes, answers, failed):
    """The lines that a person reads: the classes with one diff each, then what needs a look of its own. `failed` is
    a dict from host to the reason.
    """
    lines = [line for entry in classes for line in _class_lines(entry)]
    left = [
        f"{host}: {one['rule']} ({one['hold']['kind']} {one['hold']['detail']})".replace(" )", ")")
        for host, answer in sorted(answers.items())
        if "undone_run" in answer
        for one in answer["findings"]
    ]
    lines += _section("not all of it is taken back", left, len({line.partition(":")[0] for line in left}))
    held = {host: one["deferred"] for host, one in answers.items() if one.get("deferred")}
    lines += _section(
        "put off until the GPUs are free",
        [
            "{}: {} ({})".format(host, ", ".join(one["rule"] for one in held[host]), held[host][0]["reason"])
            for host in sorted(held)
        ],
    )
    lines += _section(
        "to reboot",
        [
            "{}: {}".format(host, "; ".join(one["reboot_reasons"]))
            for host, one in sorted(answers.items())
            if one.get("reboot_reasons") and not one.get("reboot_obstacles")
        ],
    )
    lines += _section(
        "no reboot before this is solved",
        [
            "{}: {}".format(host, "; ".join(one["reboot_obstacles"]))
            for host, one in sorted(answers.items())
            if one.get("reboot_obstacles")
        ],
    )
    rebooted = [host for host, one in sorted(answers.items()) if one.get("rebooted")]
    lines += _section("rebooted, and verified afterwards", [named(rebooted)] if rebooted else [], len(rebooted))
    return lines + _section("failed or gave no answer", _reason_lines(failed), len(failed))


def _reason_lines(failed):
    """Each reason once, with its hosts: a wrong word in a policy is the reason of every host."""
    by_reason = {}
    for host in sorted(failed):
        by_reason.setdefault(failed[host].strip(), []).append(host)
    lines = []
    for reason, hosts in by_reason.items():
        first, *more = reason.expandtabs(2).splitlines() or [""]
        lines += [f"{named(hosts)}: {first}", *("  " + line for line in more)]
    return lines


def _class_lines(entry):
    count = counted(len(entry["hosts"]), "host")
    if not entry["changes"]:
        return [f"{count}: {entry['standing']}", "  " + named(entry["hosts"]), ""]
    lines = ["{}: {} {}".format(count, counted(len(entry["changes"]), "change"), entry["standing"])]
    lines += ["  " + named(entry["hosts"]), "  digest {}".format(entry["digest"])]
    for rule in dict.fromkeys(one["rule"] for one in entry["changes"]):
        places = [one["address"] for one in entry["changes"] if one["rule"] == rule]
        lines.append("  {}: {}".format(rule, ", ".join(places)))
    lines += [f"  {host}: run {run}" for host, run in sorted(entry["runs"].items())]
    return lines + ["    " + line for part in entry["diff"] for line in diff_lines(part)] + [""]


def diff_lines(part):
    """One entry of an Ansible diff as lines of a unified diff."""
    if "prepared" in part:
        return part["prepared"].splitlines()
    return list(
        difflib.unified_diff(
            part["before"].splitlines(),
            part["after"].splitlines(),
            part["before_header"],
            part["after_header"],
            lineterm="",
        )
    )


def named(hosts):
    """Some of the hosts by name, the rest by number."""
    more = len(hosts) - HOSTS_NAMED
    return ", ".join(hosts[:HOSTS_NAMED]) + (f" and {more} more" if more > 0 else "")


def counted(number, word):
    return "{} {}{}".format(format(number, ","), word, "" if number == 1 else "s")


def _section(title, lines, count=None):
    title = f"{counted(len(lines) if count is None else count, 'host')}: {title}"
    return [title, *(f"  {line}" for line in lines), ""] if lines else []
