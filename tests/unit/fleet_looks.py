"""Results of check for reports on many hosts."""

from __future__ import annotations

from hosttune.engine.fleet.seen import HostLook


def finding(rule="memory-swappiness", verdict="differs", now="60", **more):
    evidence = [f"now {now}"] if now else []
    return {
        "rule": rule,
        "subject": "",
        "verdict": verdict,
        "reason": f"{rule} should be",
        "evidence": evidence,
        **more,
    }


def entry(host, findings=None, **more):
    """One host of a result, without what hosts of an older version do not say."""
    return {
        "host": host,
        "created_at": "2026-11-21T03:00:00+00:00",
        "findings": [finding()] if findings is None else findings,
        **more,
    }


def document(*hosts):
    return {"format_version": 1, "hosts": list(hosts)}


def look(host, **more):
    return HostLook(
        host,
        more.pop("machine", ""),
        more.pop("at", "2026-11-21T03:00:00+00:00"),
        f"{host}.json",
        **more,
    )
