"""What is written from the sources and checked in: `./run generate` writes it all anew and tells
what changed.

Every such file, or the part of one between two marks, has a test that compares it with what is made
now (`hold`). Written it is by the same tests, so that there is one list of them: those that call
`hold`.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WRITES = "HOSTTUNE_GENERATE"  # a variable: the tests write
TESTS = (
    "tests/golden", "tests/rules/test_driver_states.py", "tests/unit/test_rule_schemas.py",
)  # fmt: skip
FILES = (
    "README.md", "docs/**/*.md", "docs/*.svg", "tests/golden/*.*", "tests/golden/fleet_texts/*",
    "tests/rules/driver_states/says.txt", "hosttune/schemas/*.json",
    "playbooks/monitoring/*.json",
)  # fmt: skip
SHOWN = 12  # lines of a difference


def is_writing() -> bool:
    return bool(os.environ.get(WRITES))


def hold(path: Path, text: str, *, between: tuple[str, str] | None = None) -> None:
    """Fail where a file, or its part between two marks, is not this text; `./run generate` writes
    it instead.
    """
    begin, end = between or ("", "")
    there = path.read_text(encoding="utf-8") if path.is_file() else ""
    head, _, rest = there.partition(begin) if between else ("", "", there)
    shown, _, tail = rest.partition(end) if between else (rest, "", "")
    if is_writing():
        path.write_text(f"{head}{begin}{text}{end}{tail}", encoding="utf-8")
        return
    assert shown == text, (
        f"{path.relative_to(ROOT)} is not what is made now: ./run generate, and look at what changed"
    )


def contents() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for pattern in FILES
        for path in ROOT.glob(pattern)
        if path.suffix != ".py" and path.is_file()
    }


def told(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """The files that differ, each with the beginning of the difference."""
    lines: list[str] = []
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            was, now = (side.get(name, "").splitlines() for side in (before, after))
            rows = list(difflib.unified_diff(was, now, lineterm="", n=0))[2:]
            lines += [
                "",
                f"{name}: {'new' if name not in before else 'gone' if name not in after else 'changed'}",
            ]
            lines += [f"  {row[:160]}" for row in rows[:SHOWN]]
            lines += (
                [f"  and {len(rows) - SHOWN} lines more: git diff {name}"]
                if len(rows) > SHOWN
                else []
            )
    return lines


def main() -> int:
    before = contents()
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, WRITES: "1"}, check=False, capture_output=True, text=True
    )
    lines = told(before, contents())
    print("\n".join(lines) if lines else "Nothing changed.")
    if done.returncode != 0:
        print(
            f"\n{done.stdout[-4000:]}{done.stderr[-2000:]}\nSomething could not be made: see above."
        )
    return int(done.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
