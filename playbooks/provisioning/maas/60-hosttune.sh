#!/bin/bash
# --- Start MAAS 1.0 script metadata ---
# name: 60-hosttune
# title: GPU host health
# description: Whether the hardware of this machine does its work, by hosttune health
# script_type: testing
# hardware_type: node
# parallel: any
# timeout: 00:05:00
# packages: {url: ["http://repo.example.org/hosttune_0.2.0_all.deb"]}
# results:
#   unfit: {title: Findings that keep it from its work}
#   impaired: {title: Findings that make it slower}
#   unknown: {title: What could not be seen}
# --- End MAAS 1.0 script metadata ---
# It runs in MAAS' own system in memory: the hardware is the machine's, the system is not, so health is asked, which
# looks at hardware, and not check. What needs a driver is unknown there, and that fails nothing.
sudo -n hosttune health --within 120s --format json > health.json
status=$?
[ "$status" -le 1 ] || exit "$status"
python3 - health.json > "${RESULT_PATH:-/dev/stdout}" << 'END'
import collections
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    health = json.load(file)
count = collections.Counter(point["fitness"] for point in health["points"])
word = "failed" if count["unfit"] else "degraded" if count["impaired"] else "passed"
print(f"status: {word}")
print(f"results: {{unfit: {count['unfit']}, impaired: {count['impaired']}, unknown: {count['unknown']}}}")
for point in health["points"]:
    print(f"{point['fitness']}: {point['rule']}: {point['reason']}", file=sys.stderr)
END
