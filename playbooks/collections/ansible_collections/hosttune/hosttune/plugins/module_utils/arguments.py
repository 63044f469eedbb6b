# SPDX-License-Identifier: Apache-2.0
"""The arguments that both modules take."""

from __future__ import annotations

LOOK = dict(
    policy_file=dict(type="path"),
    policy=dict(type="dict"),
    rules_files=dict(type="list", elements="path", default=[]),
    rules=dict(type="list", elements="dict", default=[]),
    profile=dict(type="str"),
    select=dict(type="list", elements="str", default=[]),
    ignore=dict(type="list", elements="str", default=[]),
    only=dict(type="list", elements="str", default=[]),
    max_risk=dict(type="str", choices=["low", "medium", "high"]),
    disturb=dict(type="str", choices=["nothing", "new sessions", "a service", "running GPU work"]),
    bundle=dict(type="path"),
    executable=dict(type="path"),
    # What the action plugin sends along. no_log keeps a megabyte and a policy out of a vault out of
    # the host's log.
    _payload=dict(type="str", no_log=True),
    _site=dict(type="str", no_log=True),
)
LOOK_EXCLUSIVE = [("policy_file", "policy"), ("bundle", "executable")]
