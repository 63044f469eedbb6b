"""What an fstab would do, tried in a mount namespace of its own: a program by itself, run by `host/rehearsal.py`.

argv: two files (fstab before and after), the generator of systemd or nothing, and a JSON list of tmpfs option lists to
mount for trial. Prints one JSON object. All that it writes lies in a tmpfs that ends with this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x4000, 0x40000
PLACE = Path("/tmp")
TIMEOUT_S = 15


def main() -> None:
    before, after, generator, trials = sys.argv[1:5]
    texts = [Path(before).read_bytes(), Path(after).read_bytes()]
    enter_private_namespace()
    readings = [read(text, generator) for text in texts]
    json.dump({"readings": readings, "trials": [trial(options) for options in json.loads(trials)]}, sys.stdout)


def enter_private_namespace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    check("unshare", libc.unshare(CLONE_NEWNS))
    check("mount --make-rprivate /", libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    options = b"size=64m,mode=700"
    check("mount -t tmpfs", libc.mount(b"tmpfs", bytes(PLACE), b"tmpfs", MS_NOSUID | MS_NODEV, options))


def check(step: str, result: int) -> None:
    if result != 0:
        sys.exit(f"{step}: {os.strerror(ctypes.get_errno())}")


def read(text: bytes, generator: str) -> dict[str, object]:
    """What findmnt and systemd's generator make of it. Always at the same paths, so that messages can be compared."""
    fstab, units = PLACE / "fstab", PLACE / "units"
    fstab.write_bytes(text)
    found: dict[str, object] = {"verify": run(["findmnt", "--verify", "--tab-file", str(fstab)]), "units": {}}
    if generator:
        folders = [units / name for name in ("normal", "early", "late")]
        for folder in folders:
            folder.mkdir(parents=True)
        log = {"SYSTEMD_LOG_TARGET": "console", "SYSTEMD_LOG_LEVEL": "warning", "SYSTEMD_LOG_COLOR": "0"}
        found["generator"] = run([generator, *map(str, folders)], {"SYSTEMD_FSTAB": str(fstab), **log})
        found["units"] = {name: content for folder in folders for name, content in units_in(folder).items()}
        shutil.rmtree(units)
    return found


def units_in(folder: Path) -> dict[str, str]:
    """Each file's text, a carriage return in it too: reading as text would hide one at the end of a line."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes().decode("utf-8", "surrogateescape")
    return found


def trial(options: str) -> dict[str, object]:
    """Mount a tmpfs with these options, without a trace in /run/mount/utab, and tell what the kernel made of it."""
    place = PLACE / "trial"
    place.mkdir(exist_ok=True)
    words = ["--no-mtab", "--types", "tmpfs", "--options", options, "--source", "tmpfs", "--target", str(place)]
    done = run(["mount", *words])
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line for line in file if line.split(" ")[4] == str(place)]
    if lines:
        run(["umount", "--no-mtab", str(place)])
    return {"mount": done, "mountinfo": lines[-1] if lines else ""}


def run(argv: list[str], environment: dict[str, str] | None = None) -> list[object] | None:
    """[status, standard output, standard error]; None for a program that is missing or does not end."""
    try:
        done = subprocess.run(
            argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return [done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")]


if __name__ == "__main__":
    main()
