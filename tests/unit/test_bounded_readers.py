"""What others can write is read by few functions, each with a limit. docs/project/foreign-input.md
lists them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "hosttune"
TABLE = PACKAGE.parent / "docs/project/foreign-input.md"
OF_OS = {"fdopen", "fwalk", "listdir", "pread", "preadv", "read", "readv", "scandir", "walk"}
OF_OTHERS = {"cmdline", "environ", "exe", "iterdir", "glob", "open_files", "process_iter", "read_bytes", "read_text",
             "rglob", "threads"}  # fmt: skip
# The functions that read foreign input, and so have a limit of their own. Each module is in the
# table of The table: what it reads, who can write that, and the limit.
DOORS = {
    "host/reading/bounded.py": ("read_head", "read_mounts", "names_in", "process_ids"),
    "host/processes/confined_child.py": ("confine_self",),
    "host/reading/gathered.py": ("_list_entries",),
    "host/reading/named.py": ("_read_pipe",),
    "host/processes/proc.py": ("_Look.devices",),
    "host/process.py": ("_run_to_the_end", "_drain"),
    "host/reading/usage.py": ("_Tally.add",),
    "measure/bench/read_crew.py": ("_Worker.answer",),
    "measure/bench/read_program.py": (
        "ReadWorker.go", "read_through", "read_content", "with_pillow.decode", "with_wave.decode",
    ),
    "measure/dataset/probe.py": ("_read_header",),
    "measure/dataset/walk.py": ("_Folder.__init__",),
    "measure/gpu/program.py": ("Program.lines",),
    "measure/watch/group.py": ("Group._inside",),
    "measure/watch/kept.py": ("Kept.read", "Kept._rest", "content_of"),
    "measure/watch/mounts.py": ("MountTable._has_fuse",),
    "measure/watch/recording.py": ("_open_record",),
}  # fmt: skip
# What reads nothing that others write, or writes.
OWN = {
    "cli/app.py": ("main",),  # /dev/null for a closed stream
    "engine/rules/compiled.py": ("_documents_from_yaml",),  # the package's rules
    "host/apart.py": ("_relay_output",),  # what its own child prints
    "host/in_time.py": ("_read_frames",),  # what its own child answers
    "host/keeper.py": (
        "_Relay.move",
        "_Keeper._note_got",
        "_Keeper._take_signal",
    ),  # what its own child prints, and signals
    "host/reading/kept.py": (
        "_list_names",
        "_read_content",
        "_all_of",
        "_replace",
    ),  # files of root only, 4 KiB or LIMIT of each
    "host/reading/late_mounts.py": ("_take",),  # what its own child answers, and is asked
    "host/writing/lock.py": ("hold_lock",),  # hosttune's lock
    "host/writing/output.py": ("save", "_save"),  # writes
    "host/overlay/rehearsal_child.py": (
        "main",
        "units_in",
        "try_tmpfs",
    ),  # what its parent hands over, in a tmpfs of its own
    "host/writing/replace.py": (
        "_find_leftovers",
    ),  # names beside a file that is about to change, in a folder of root
    "host/writing/state.py": (
        "list_names",
        "load",
        "save",
        "sweep_drafts",
    ),  # files that only this user can write, LIMIT of each
    "host/reading/tree.py": ("parse_os_release",),  # writes to memory
    "measure/bench/read_passes.py": (
        "write_shards",
        "_read_content",
        "cold_by_dropping_all",
    ),  # size known, FILE_MOST
    "measure/bench/scratch.py": (
        "_make_folder",
        "_is_marked",
        "_empty_folder",
    ),  # folders of 0700 that a bench made
    "measure/bench/signals.py": ("_answered_at_once.answer",),  # a pipe of its own
    "textfiles.py": (
        "module_names",
        "checkout_text",
        "template_text",
        "_why_not_ours",
    ),  # the package's files
}


def raw_reads(tree: ast.Module) -> list[tuple[str, str]]:
    """(function, what it calls) for each call that reads a file or a folder without a limit of its
    own.
    """
    found = []

    def visit(node: ast.AST, where: tuple[str, ...]) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            where = (*where, node.name)
        if isinstance(node, ast.Call) and (name := raw_name(node.func)):
            found.append((".".join(where), name))
        for child in ast.iter_child_nodes(node):
            visit(child, where)

    visit(tree, ())
    return found


def raw_name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return "open" if function.id == "open" else ""
    if not isinstance(function, ast.Attribute):
        return ""
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    if owner == "os":
        return f"os.{function.attr}" if function.attr in OF_OS else ""
    return function.attr if function.attr in {*OF_OTHERS, "open"} else ""


def known(path: str) -> tuple[str, ...]:
    return (*DOORS.get(path, ()), *OWN.get(path, ()))


MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES)
def test_files_are_read_through_the_bounded_functions(path):
    tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
    beside = [f"{where}: {name}" for where, name in raw_reads(tree) if where not in known(path)]
    assert beside == [], (
        "use hosttune/host/reading/bounded.py or host/reading/named.py, or a Reader; else add it to DOORS, with a limit"
    )


def test_lists_name_no_function_that_is_gone():
    for path in (*DOORS, *OWN):
        there = {
            where for where, _ in raw_reads(ast.parse((PACKAGE / path).read_text(encoding="utf-8")))
        }
        assert set(known(path)) <= there, path


def test_every_door_is_in_the_table():
    table = TABLE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:host|measure|facts)/[\w/]+\.py)`", table))
    assert set(DOORS) <= named
    assert all((PACKAGE / path).is_file() for path in named)


@pytest.mark.parametrize(
    "line",
    [
        "open('/x').read()",
        "os.listdir('/x')",
        "Path('/x').read_text()",
        "psutil.process_iter()",
        "one.cmdline()",
    ],
)
def test_call_without_a_limit_is_seen(line):
    assert raw_reads(ast.parse(f"def f():\n    {line}\n"))[0][0] == "f"
