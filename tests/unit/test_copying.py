"""What grows with foreign input is not copied for each part that comes: that takes quadratic
time.
"""

from __future__ import annotations

import ast

from hosttune.engine.rules import declared as mount_faults
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.shapes import policy_faults
from hosttune.engine.rules.yamlio import load_document
from tests.patterns import PACKAGE

# What has a bound: ports and GPUs of a machine, fields of a row, errors that are known, proofs, our
# own tables.
BOUNDED = {
    "facts/gpu/gpu_errors.py", "facts/gpu/health_smi.py", "facts/gpu/pcie.py",
    "resources/storage/fstab_tables.py",
}  # fmt: skip


def copies(node):
    """Whether it is `found[key] = (*found.get(key, ()), one)`."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Subscript)
        and isinstance(node.value, (ast.Tuple, ast.List))
        and any(
            isinstance(part, ast.Starred)
            and isinstance(part.value, ast.Call)
            and ast.unparse(part.value.func) == f"{ast.unparse(node.targets[0].value)}.get"
            for part in node.value.elts
        )
    )


def test_no_list_is_copied_for_each_of_its_items():
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(map(copies, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found == BOUNDED


def test_mounts_of_all_hosts_are_looked_at_once_and_not_for_each_section(monkeypatch):
    looked_at = []
    monkeypatch.setattr(mount_faults, "clean_path", lambda path: looked_at.append(path) or path)
    mounts = "".join(
        f"  - {{source: LABEL=a{number}, target: /data/{number}}}\n" for number in range(20)
    )
    sections = "".join(
        f"  b{number}: {{data_mounts: [{{source: LABEL=b, target: /data/{number}}}]}}\n"
        for number in range(10)
    )
    faults = policy_faults(
        load_document(f"data_mounts:\n{mounts}hosts:\n{sections}", "p.yaml"), builtin_catalog()
    )
    assert [fault.where.field for fault in faults] == [
        f"hosts.b{number}.data_mounts[0].target" for number in range(10)
    ]
    assert len(looked_at) == 2 * (20 + 10)
