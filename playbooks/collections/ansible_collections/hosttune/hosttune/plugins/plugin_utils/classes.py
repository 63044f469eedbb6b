# SPDX-License-Identifier: Apache-2.0
"""Folds the answers of many hosts into classes of equal plans. Values in, text out."""

from __future__ import annotations

import difflib
import hashlib
import json
import shlex

HOSTS_NAMED = 12
LINES_OF_HOST = 100


PLANNED, DONE, PARTLY, UNTRIED = (
    "to make",
    "made",
    "tried, and some failed",
    "not made, nothing was tried",
)
BACK_PLANNED, BACK_DONE = "to undo", "undone"
UNKEPT = "made on trial, and not kept"
LEFT = "not made, because the plan is not approved"
NOTHING, BACK_NOTHING = "nothing to change", "nothing to undo"
BACK_STUCK = "nothing was undone, and not all that was asked for is gone"
STUCK = "nothing that hosttune changes, and not ok"
SLOWER, UNFIT = (
    "nothing that hosttune changes, and impaired",
    "nothing that hosttune changes, and unfit: drain it",
)
FAILED = "nothing was changed, and it failed"
# what shows itself after a reboot alone, or when GPUs became free meanwhile
NEXT = "more to make by the next run"
UNJUDGED = "nothing was judged here"
ORDER = (
    PLANNED, BACK_PLANNED, PARTLY, UNTRIED, UNKEPT, DONE, BACK_DONE, LEFT, NEXT, FAILED, BACK_STUCK,
    UNFIT, STUCK, SLOWER, UNJUDGED, NOTHING, BACK_NOTHING,
)  # fmt: skip

# The live values that the kernel works out from the memory or the device that it found
# (hosttune.codec).
WORKED_OUT = ("sysctl", "sysfs", "sysfs-set")

# Why a host is not as it should be, where no change of a plan says it already: what a heading says,
# by the hold.
REFUSED, ALONE, BEYOND, WAITS = "blocked", "skipped", "beyond what the policy allows", "waiting"
IMPAIRED = "degraded: slower, or not for long"
FAULT, UNKNOWN, EXPIRED = "faults", "could not be checked", "the waiver is over"
DIFFERS = "to change, and hosttune does not change it"
HELD = {
    "refused": REFUSED,
    "owned by": ALONE,
    "edited by hand": ALONE,
    "reverted by somebody": ALONE,
    "came back": REFUSED,
    "above max_risk": BEYOND,
    "would disturb": BEYOND,
    "waiting for": WAITS,
}
# What is said of a hold for its kind; the others keep theirs (as in hosttune/verdict_words.py).
SAID = {
    "owned by": "managed by",
    "reverted by somebody": "set back by hand",
    "came back": "rolled back",
}
REASONS = (FAULT, IMPAIRED, UNKNOWN, REFUSED, ALONE, BEYOND, DIFFERS, EXPIRED, NEXT, WAITS)
# nobody's alarm, and what has a section of its own
ASIDE = ("waived", "orphaned", "deferred", "busy")
RULES_NAMED = 4
# changes that were not made, or not all
UNMADE = (PLANNED, BACK_PLANNED, PARTLY, UNTRIED, UNKEPT, LEFT)
RUNS_NAMED = 50
MOVED_NAMED = 3  # changes told by their values
MOVED_WIDTH = 40


def folded(answers, *, act, is_planned=False, failed=()):
    """The classes of these answers (a dict from host to what tune or tune_info returned): what
    there is to do first, the largest first. `act` is what was asked for: plan, apply or undo;
    `is_planned`: nothing was done; `failed` are the hosts that failed.
    """
    classes, votes = {}, {}
    for host in sorted(answers):
        one = answers[host]
        standing = _standing(one, act, is_planned or act == "plan", has_failed=host in failed)
        # What is to be approved is shown of one host for all of its class, so none may show other
        # changes for a digest.
        content = _content(one) if is_planned or act == "plan" else ""
        key = (standing, one["digest"] if one.get("changes") else "", content)
        entry = classes.setdefault(
            key,
            dict(
                standing=standing, digest=key[1], hosts=[], runs={}, changes=[], diff=None, shown=0
            ),
        )
        entry["hosts"].append(host)
        if one.get("run_id"):
            entry["runs"][host] = one["run_id"]
        # The diff of tune, Ansible itself shows.
        _vote(
            entry, votes.setdefault(key, {}), one.get("changes") or [], one.get("plan_diff") or []
        )
    return sorted(
        classes.values(),
        key=lambda entry: (
            ORDER.index(entry["standing"].partition(" (")[0]),
            -len(entry["hosts"]),
            entry["digest"],
        ),
    )


def _vote(entry, votes, changes, diff):
    """Shows of a class what most of its hosts say of it. Old values and devices are no part of the
    digest, so what one host says of them is that host's word alone.
    """
    form = hashlib.sha256(json.dumps([changes, diff], sort_keys=True).encode()).digest()
    votes[form] = votes.get(form, 0) + 1
    if votes[form] > entry["shown"]:
        entry.update(changes=changes, diff=diff, shown=votes[form])


def _content(one):
    """What a host shows of its plan, to compare it: all but what the digest leaves out, as equal
    hosts differ in it.
    """
    return json.dumps(
        sorted(json.dumps(_compared(change), sort_keys=True) for change in one.get("changes") or ())
    )


def _compared(change):
    kind, _colon, name = change["address"].partition(":")
    left_out = {"before"} if kind in WORKED_OUT else set()
    if change.get("device"):
        left_out.add("address")
        change = change | {"attribute": [kind, name.rpartition("/")[2]]}
    return {name: value for name, value in change.items() if name not in left_out}


def findings_of(one):
    """What every rule said of a host, as tune or tune_info returned it."""
    return one.get("findings") or (one.get("plan") or {}).get("findings") or []


def unjudged(findings):
    """Why nothing was judged on a host, in few words; empty where something was."""
    judged = [one for one in findings if one["verdict"] != "not applicable"]
    if findings and not judged:
        return "no rule applies"
    inside = any(one["reason"].startswith(("in a container", "a container ")) for one in findings)
    return "a container" if inside and all(one["verdict"] == "ok" for one in judged) else ""


def kind_of(finding, in_plan):
    """One of REASONS: why this finding keeps a host from being as it should be; empty where it does
    not, or where the plan (whose rules are `in_plan`) or another section tells it.
    """
    hold = finding["hold"]["kind"]
    if hold in ASIDE or (hold == "waiting for" and "reboot" in finding["hold"]["detail"]):
        return ""
    if finding.get("is_fault"):
        return FAULT
    if finding["verdict"] in ("differs", "unknown"):
        if finding["verdict"] == "unknown":
            return HELD.get(hold, UNKNOWN)
        rest = NEXT if finding.get("is_planned") else DIFFERS
        return HELD.get(hold) or ("" if finding["rule"] in in_plan else rest)
    if finding.get("is_waiver_over"):
        return EXPIRED
    return IMPAIRED if finding.get("impairs") else ""


def _said(finding):
    return SAID.get(finding["hold"]["kind"], finding["hold"]["kind"])


def _kept_back(answers):
    """Each reason for which hosts are not as they should be, with its rules and its hosts."""
    found = {}
    for host, one in sorted(answers.items()):
        in_plan = {change["rule"] for change in one.get("changes") or ()}
        own = set()
        for finding in findings_of(one) if "undone_run" not in one else []:
            if kind := kind_of(finding, in_plan):
                hold = finding["hold"]["detail"]
                why = (
                    hold
                    if finding["hold"]["kind"] == "refused" or not hold
                    else f"{_said(finding)} {hold}"
                )
                why = why or finding["reason"] or "; ".join((finding.get("evidence") or ())[:1])
                if len(own) >= LINES_OF_HOST and (kind, why) not in own:
                    why = "more reasons than are shown of one host"
                own.add((kind, why))
                rules, hosts = found.setdefault((kind, why), ({}, {}))
                rules[finding["rule"]] = hosts[host] = True
    lines = []
    for kind in REASONS:
        own = [(why, *one) for (of, why), one in found.items() if of == kind]
        texts = [
            f"{named(list(hosts))}: {why} ({named(list(rules), RULES_NAMED)})"
            for why, rules, hosts in own
        ]
        lines += _section(kind, texts, len({host for _why, _rules, hosts in own for host in hosts}))
    return lines


def is_lost(one):
    """Whether what was made was on trial, and was not confirmed."""
    return (one.get("trial") or {}).get("state") == "not kept"


def _disputed(classes):
    """The digests for which hosts show different changes, and how many hosts that are. hosttune
    does not do that.
    """
    found = {}
    for entry in classes:
        if entry["digest"]:
            found.setdefault((entry["standing"], entry["digest"]), []).append(entry["hosts"])
    several = {key: groups for key, groups in found.items() if len(groups) > 1}
    texts = [
        f"digest {key[1]}: {' other than '.join(map(named, groups))}"
        for key, groups in several.items()
    ]
    return texts, sum(len(hosts) for groups in several.values() for hosts in groups)


def _trials(answers):
    """What would be tried, and what still is."""
    found = {}
    for host, one in sorted(answers.items()):
        trial = one.get("trial") or {}
        if trial.get("state") == "planned":
            minutes = counted(-(-(trial.get("within_s") or 0) // 60), "minute")
            obstacles = trial.get("obstacles") or ()
            why = "no trial is possible: {}".format("; ".join(obstacles)) if obstacles else ""
            found.setdefault(why or f"would be for {minutes}, unless it is confirmed", []).append(
                host
            )
        elif trial.get("is_open"):
            run = shlex.quote(trial.get("run") or "")
            when = (
                "in its next boot"
                if trial["state"] == "on trial: next boot"
                else "unless it is confirmed"
            )
            found.setdefault(
                f"run {run} {when}; to keep it then: sudo hosttune confirm {run}", []
            ).append(host)
    return [f"{named(hosts)}: {what}" for what, hosts in found.items()], sum(
        map(len, found.values())
    )


def _standing(one, act, is_planned, *, has_failed=False):
    if not one.get("changes"):
        return _standing_unchanged(one, act, has_failed)
    if not one.get("approved", True):
        return LEFT
    if is_planned:
        return BACK_PLANNED if act == "undo" else PLANNED
    if is_lost(one):
        return UNKEPT
    if one.get("msg"):
        return PARTLY if any(change.get("phase") for change in one["changes"]) else UNTRIED
    return BACK_DONE if act == "undo" else DONE


def _standing_unchanged(one, act, has_failed):
    """Of a host without changes. Only one that is as it should be and does its work has nothing to
    change.
    """
    if has_failed or one.get("failed"):
        return FAILED
    is_compliant = one.get("compliant", True)
    if act == "undo":
        return BACK_NOTHING if is_compliant else BACK_STUCK
    findings = findings_of(one)
    if not is_compliant and any(finding.get("is_planned") for finding in findings):
        return NEXT
    fitness = ((one.get("check") or {}).get("health") or {}).get("fitness")
    if fitness == "unfit":
        return UNFIT
    if not is_compliant:
        return STUCK
    if fitness == "impaired" or any(kind_of(finding, ()) == IMPAIRED for finding in findings):
        return SLOWER
    return f"{UNJUDGED} ({unjudged(findings)})" if unjudged(findings) else NOTHING


def shortfall(one, act, *, is_planned=False):
    """Why a host that answered is not as it should be, on one line."""
    changes = one.get("changes") or ()
    standing = _standing(one, act, is_planned or act == "plan")
    parts = (
        ["{} {}".format(counted(len(changes), "change"), standing)] if standing in UNMADE else []
    )
    in_plan = {change["rule"] for change in changes}
    found = {}
    for finding in findings_of(one):
        kind = "not undone" if "undone_run" in one else kind_of(finding, in_plan)
        if kind and kind != IMPAIRED:
            found.setdefault(kind, {})[finding["rule"]] = True
    parts += [f"{kind}: {named(list(rules), RULES_NAMED)}" for kind, rules in found.items()]
    waits = list(dict.fromkeys(entry["rule"] for entry in one.get("deferred") or ()))
    parts += [f"waiting for GPU work: {named(waits, RULES_NAMED)}"] if waits else []
    parts += (
        [f"waiting for reboot: {named(one['reboot_reasons'], RULES_NAMED)}"]
        if one.get("reboot_reasons")
        else []
    )
    return "; ".join(parts) or "it gives no reason"


def summary(classes, answers, failed, moved=None):
    """The lines that a person reads: the classes with one diff each, then what needs a look of its
    own. `failed` is a dict from host to the reason, `moved` one from host to what is other than at
    its review.
    """
    lines = [line for entry in classes for line in _class_lines(entry)]
    left = [
        f"{host}: {text}"
        for host, answer in sorted(answers.items())
        if "undone_run" in answer
        for text in shortened(
            [
                "{} ({} {})".format(one["rule"], _said(one), one["hold"]["detail"]).replace(
                    " )", ")"
                )
                for one in answer.get("findings") or ()
            ]
        )
    ]
    lines += _section(
        "other changes for the same digest: find out which host is right before you approve it",
        *_disputed(classes),
    )
    texts = [f"{host}: {what}" for host, what in sorted((moved or {}).items())]
    lines += _section("not approved", texts)
    lines += _section(
        "not all of it is undone", left, len({line.partition(":")[0] for line in left})
    )
    lines += _kept_back(answers)
    earlier = {host: one.get("interrupted") or () for host, one in sorted(answers.items())}
    texts = [f"{host}: {text}" for host, found in earlier.items() for text in shortened(found)]
    lines += _section("to know of earlier runs", texts, sum(map(bool, earlier.values())))
    held = {host: one["deferred"] for host, one in answers.items() if one.get("deferred")}
    lines += _section(
        "waiting for GPU work",
        [
            "{}: {} ({})".format(
                host, ", ".join(one["rule"] for one in held[host]), held[host][0]["reason"]
            )
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
    lines += _section("on trial", *_trials(answers))
    rebooted = [host for host, one in sorted(answers.items()) if one.get("rebooted")]
    lines += _section(
        "rebooted, and verified afterwards", [named(rebooted)] if rebooted else [], len(rebooted)
    )
    return lines + _section("failed or gave no answer", _reason_lines(failed), len(failed))


def way_on(act, silent, rest, runs, undo):
    """The lines that say what to type where a play ends early. `silent` are the hosts of which
    nobody knows how far they came, `rest` those of later batches, `runs` the runs that the play has
    made so far, by host; `undo` is the command that takes runs back, without their names.
    """
    lines = [
        "It ends here{}.".format(
            f"; of later batches, nothing is touched: {named(rest)}" if rest else ""
        ),
        "Next",
    ]
    if silent:
        lines += [
            (
                f"  {named(sorted(silent))}: see `hosttune history` there; what was begun may be "
                "made in part"
            )
        ]
    lines += ["  fix what failed, then type the same again: what is done stays,"]
    lines += ["    what was begun is finished"]
    if runs and act == "apply":
        shown = sorted(set(runs.values()))[:RUNS_NAMED]
        more = len(set(runs.values())) - len(shown)
        lines += [f"  or undo what it did{f' ({more} more runs stand above)' if more else ''}:"]
        lines += ["    {}{}".format(undo, shlex.quote(",".join(shown)))]
    return [*lines, ""]


def moved_since(reviewed, changes):
    """What is other than at the review of a host (its entry of `hosttune check`), in one
    sentence.
    """
    before = {one["address"]: one for finding in reviewed["findings"] for one in finding["changes"]}
    now = {one["address"]: one for one in changes}
    new = [address for address in now if address not in before]
    gone = [address for address in before if address not in now]
    other = [
        address
        for address, one in now.items()
        if address in before
        and any(one[name] != before[address][name] for name in ("before", "after", "action"))
    ]
    parts = (
        ["{} {} new since the review".format(named(new), "is" if len(new) == 1 else "are")]
        if new
        else []
    )
    parts += (
        ["{} {} no longer needed".format(named(gone), "is" if len(gone) == 1 else "are")]
        if gone
        else []
    )
    parts += [_moved(now[address], before[address]) for address in other[:MOVED_NAMED]]
    more = other[MOVED_NAMED:]
    parts += [f"{named(more)} would go from or to another value than at the review"] if more else []
    return (
        "; ".join(parts) or "its plan is that of the review, which is not among the approved ones"
    )


def _moved(now, reviewed):
    """One change that is other than at its review, by its values where they are short."""
    told = {
        "before": "{} is {} now, and was {} at the review",
        "after": "{} would become {}, at the review {}",
    }
    for key, sentence in told.items():
        values = (now[key], reviewed[key])
        is_short = all(
            isinstance(one, (str, int)) and len(str(one)) <= MOVED_WIDTH for one in values
        )
        if values[0] != values[1] and is_short:
            return sentence.format(now["address"], *values)
    return "{} would go from or to another value than at the review".format(now["address"])


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
    if entry["shown"] < len(entry["hosts"]):
        lines += [
            "  old values and devices as {} of them have them; the others differ there".format(
                entry["shown"]
            )
        ]
    places = {}  # by rule; one of them can be made and undone
    for one in entry["changes"]:
        places.setdefault(one["rule"], {})[one["address"]] = True
    lines += [
        "  " + text
        for text in shortened([f"{rule}: {', '.join(own)}" for rule, own in places.items()])
    ]
    lines += [f"  {host}: run {run}" for host, run in sorted(entry["runs"].items())]
    return lines + ["    " + line for part in entry["diff"] for line in diff_lines(part)] + [""]


def diff_lines(part):
    """One entry of an Ansible diff as lines of a unified diff."""
    if part.get("prepared"):
        return part["prepared"].splitlines()
    return list(
        difflib.unified_diff(
            (part.get("before") or "").splitlines(),
            (part.get("after") or "").splitlines(),
            part.get("before_header") or "",
            part.get("after_header") or "",
            lineterm="",
        )
    )


def named(words, most=HOSTS_NAMED):
    """Some of the hosts (or rules) by name, the rest by number."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def shortened(lines):
    """The first lines of what one host says, and how many more there are."""
    more = len(lines) - LINES_OF_HOST
    return [*lines[:LINES_OF_HOST], f"... {counted(more, 'more line')}"] if more > 0 else lines


def counted(number, word):
    return "{} {}{}".format(format(number, ","), word, "" if number == 1 else "s")


def _section(title, lines, count=None):
    title = f"{counted(len(lines) if count is None else count, 'host')}: {title}"
    return [title, *(f"  {line}" for line in lines), ""] if lines else []
