"""Builds hosttune as one self-contained file: `python playbooks/packaging/pyz.py [OUT]`,
dist/hosttune.pyz by default.

It needs /usr/bin/python3 of 3.10 or newer and nothing else, on every machine. The same sources give
the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # python -I leaves it out
import bundle
import sbom

SHEBANG = b"#!/usr/bin/python3 -IS\n"


def build(out: Path, root: Path = bundle.ROOT) -> str:
    """Write the file, executable, at once; return its sha256."""
    members = bundle.package(root)
    for carried in bundle.dependencies():
        members |= carried.files
        members |= {
            f"licences/{carried.name}-{carried.version}/{name}": text
            for name, text in carried.licences.items()
        }
    members["licences/LICENSE"] = (root / "LICENSE").read_bytes()
    members["sbom.cdx.json"] = sbom.sbom(bundle.dependencies(), bundle.version(root)).encode()
    here = Path(__file__)
    members["__main__.py"] = here.with_name("start.py").read_bytes()
    members["importing.py"] = here.with_name("importing.py").read_bytes()
    out.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=".hosttune-", dir=out.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(SHEBANG)
            with zipfile.ZipFile(file, "w") as packed:
                for name, content in sorted(members.items()):
                    _add(packed, name, content)
            os.fchmod(file.fileno(), 0o755)
        Path(draft).replace(out)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return hashlib.sha256(out.read_bytes()).hexdigest()


def _add(packed: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, bundle.zip_date())
    entry.external_attr = 0o100644 << 16
    entry.create_system = 3  # Unix, wherever it is built
    packed.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)


def main() -> int:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else bundle.ROOT / "dist" / "hosttune.pyz"
    try:
        print(build(out), out, sep="  ")
    except (bundle.Trouble, OSError) as error:
        print(f"pyz.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
