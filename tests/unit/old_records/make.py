"""Makes the record that an older version would have made of a host: `PYTHONPATH=TREE python -P
make.py RECORD FILE`.

The code of that version, in TREE, looks at the host of RECORD, which is of this version. What it
asks and RECORD knows is kept. So the file lacks what that version did not ask.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hosttune import __version__
from hosttune.actions.examine import examine_everything
from hosttune.actions.record.record import take_record
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import load_catalog
from hosttune.host.record.record import RecordReader

NOT_KNOWN = "not in this record"  # what RECORD does not know either


def _is_known(entry: object) -> bool:
    return not (isinstance(entry, dict) and str(entry.get("unreadable", "")).startswith(NOT_KNOWN))


def main(source: str, target: str) -> None:
    reader = RecordReader(json.loads(Path(source).read_text(encoding="utf-8")), "")
    catalog, policy = load_catalog(reader), Policy()
    data = take_record(
        reader,
        lambda door: examine_everything(door, catalog, policy),
        share=False,
        tool_version=__version__,
    )
    for name, table in data.items():
        if isinstance(table, dict):
            data[name] = {key: entry for key, entry in table.items() if _is_known(entry)}
    data["queries"] = [entry for entry in data["queries"] if _is_known(entry)]
    Path(target).write_text(json.dumps(data, indent=0) + "\n", encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
