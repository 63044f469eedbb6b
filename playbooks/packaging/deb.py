"""Builds hosttune as a .deb: `python playbooks/packaging/deb.py [OUT]`, dist/ by default; needs
dpkg-deb.

Its dependencies are inside (bundle.py), so it needs python3 (>= 3.10) and nothing else, on every
machine. Everything bears the date of the last commit, or SOURCE_DATE_EPOCH: the same sources give
the same bytes.
"""

from __future__ import annotations

import argparse
import email.utils
import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # python -I leaves it out
import bundle
import manual
import sbom

HERE = Path(__file__).resolve().parent / "debian"
LIBRARY = "usr/lib/hosttune"
TIMEOUT_S = 300
EXECUTABLE = (
    "/bin/hosttune",
    "/system-generators/hosttune-ready",
    ".rtupdate",
    "/ready.d/slurm",
    "/ready.d/kubernetes",
)
APACHE = " On Debian systems the text of this licence is in /usr/share/common-licenses/Apache-2.0."
# A name that never resolves (RFC 2606), because these packages come from where they are built.
MAINTAINER = "{DEBFULLNAME} <{DEBEMAIL}>".format_map(
    {"DEBFULLNAME": "The hosttune authors", "DEBEMAIL": "hosttune@hosttune.invalid", **os.environ}
)
CONTROL = """\
Package: hosttune
Version: {version}
Architecture: all
Maintainer: {maintainer}
Installed-Size: {kib}
Depends: python3 (>= 3.10)
Suggests: prometheus-node-exporter
Section: admin
Priority: optional
Description: inspect, tune and restore GPU servers
 Looks at an Ubuntu or Debian server with GPUs, says what holds it back for
 deep learning and why, shows the diff that would fix it, applies exactly what
 it showed, proves that it took, and can take it back.
 .
 A timer that checks the host daily and writes metrics for Prometheus, and a
 unit that brings the host to its approved plan at a boot before slurmd or the
 kubelet start, are installed, and off until somebody enables them.
"""


def files(root: Path, version: str, seconds: int) -> dict[str, bytes]:
    """Everything that is installed, by its place."""
    carried = bundle.dependencies()
    found = {f"{LIBRARY}/{name}": content for name, content in bundle.package(root).items()}
    for one in carried:
        found |= {f"{LIBRARY}/{name}": content for name, content in one.files.items()}
    tree = bundle.from_tree("hosttune.cli.command_tree", root).read_tree()
    scripts = bundle.from_tree("hosttune.cli.completion_scripts", root).SCRIPTS
    documents = "usr/share/doc/hosttune"
    found |= {
        "usr/bin/hosttune": (HERE / "hosttune").read_bytes(),
        "etc/hosttune/policy.yaml": (HERE / "policy.yaml").read_bytes(),
        "usr/lib/systemd/system/hosttune-check.service": (
            HERE / "hosttune-check.service"
        ).read_bytes(),
        "usr/lib/systemd/system/hosttune-check.timer": (HERE / "hosttune-check.timer").read_bytes(),
        "usr/lib/systemd/system/hosttune-ready.service": (
            HERE / "hosttune-ready.service"
        ).read_bytes(),
        "usr/lib/systemd/system-generators/hosttune-ready": (
            HERE / "hosttune-ready.generator"
        ).read_bytes(),
        "usr/share/python3/runtime.d/hosttune.rtupdate": (HERE / "hosttune.rtupdate").read_bytes(),
        "usr/share/man/man8/hosttune.8.gz": packed(manual.manual(tree, version, seconds)),
        "usr/share/bash-completion/completions/hosttune": scripts["bash"](tree).encode(),
        "usr/share/zsh/vendor-completions/_hosttune": scripts["zsh"](tree).encode(),
        "usr/share/fish/vendor_completions.d/hosttune.fish": scripts["fish"](tree).encode(),
        **{
            f"{documents}/examples/ready.d/{path.name}": path.read_bytes()
            for path in sorted((root / "playbooks" / "provisioning" / "ready.d").iterdir())
        },
        **{
            f"{documents}/{path.relative_to(root / 'docs')}.gz": packed(
                path.read_text(encoding="utf-8")
            )
            for path in sorted((root / "docs").rglob("*.md"))
        },
        "usr/share/lintian/overrides/hosttune": (HERE / "lintian-overrides").read_bytes(),
        f"{documents}/sbom.cdx.json": sbom.sbom(carried, version).encode(),
        f"{documents}/copyright": copyright_text(carried).encode(),
        f"{documents}/changelog.gz": packed(changelog(version, seconds)),
        f"{documents}/NEWS.gz": packed((root / "CHANGELOG.md").read_text(encoding="utf-8")),
    }
    return found


def packed(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)


def changelog(version: str, seconds: int) -> str:
    day = email.utils.formatdate(seconds)
    return (
        f"hosttune ({version}) unstable; urgency=medium\n"
        "\n"
        "  * See NEWS.gz.\n"
        "\n"
        f" -- {MAINTAINER}  {day}\n"
    )


def copyright_text(carried: tuple[bundle.Carried, ...]) -> str:
    """One paragraph for each dependency, with the licence as it came (copyright-format 1.0)."""
    text = [
        (
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
            "Upstream-Name: hosttune\n"
        ),
        f"Files: *\nCopyright: The hosttune authors\nLicense: Apache-2.0\n{APACHE}\n",
    ]
    for one in carried:
        tops = {f"{name.split('/')[0]}/*" if "/" in name else name for name in one.files}
        places = " ".join(f"{LIBRARY}/{top}" for top in sorted(tops))
        licence = "\n".join(content.decode() for _, content in sorted(one.licences.items()))
        lines = (
            APACHE
            if "Apache License" in licence
            else "\n".join(f" {x.rstrip() or '.'}" for x in licence.splitlines())
        )
        text.append(
            f"Files: {places}\nCopyright: the authors of {one.name} {one.version}, as below\n"
            f"License: {one.licence or one.name}\n{lines}\n"
        )
    return "\n".join(text)


def build(out: Path, version: str = "", root: Path = bundle.ROOT) -> Path:
    """Write the package; return its path. `out` is its name, ending in .deb, or a folder to put it
    into.
    """
    version = version or bundle.version(root)
    seconds = bundle.source_date(bundle.committed(root))
    contents = files(root, version, seconds)
    target = out if out.suffix == ".deb" else out / f"hosttune_{version}_all.deb"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hosttune-deb-") as scratch:
        tree = Path(scratch) / "tree"
        for name, content in contents.items():
            put(tree / name, content, 0o755 if name.endswith(EXECUTABLE) else 0o644)
        for empty in (
            "etc/hosttune/rules.d",
            "etc/hosttune/ready.d",
            "var/lib/prometheus/node-exporter",
        ):
            (tree / empty).mkdir(parents=True)
        kib = sum(-(-len(content) // 1024) for content in contents.values())
        control = CONTROL.format(version=version, maintainer=MAINTAINER, kib=kib)
        put(tree / "DEBIAN" / "control", control.encode(), 0o644)
        put(tree / "DEBIAN" / "conffiles", b"/etc/hosttune/policy.yaml\n", 0o644)
        for script in ("postinst", "prerm", "postrm"):
            put(tree / "DEBIAN" / script, (HERE / script).read_bytes(), 0o755)
        put(tree / "DEBIAN" / "md5sums", sums(contents), 0o644)
        date(tree, seconds)
        run(
            "dpkg-deb",
            "--root-owner-group",
            "-Zxz",
            "--build",
            str(tree),
            str(target),
            seconds=seconds,
        )
    return target


def put(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def sums(contents: dict[str, bytes]) -> bytes:
    import hashlib

    listed = {
        name: content for name, content in sorted(contents.items()) if not name.startswith("etc/")
    }
    return "".join(
        f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}  {name}\n"
        for name, content in listed.items()
    ).encode()


def date(tree: Path, seconds: int) -> None:
    """One date and the usual rights for every folder, whatever the umask."""
    for path in sorted(tree.rglob("*"), reverse=True):
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (seconds, seconds))
    tree.chmod(0o755)
    os.utime(tree, (seconds, seconds))


def run(*words: str, seconds: int) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    try:
        done = subprocess.run(
            words,
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise bundle.Trouble(f"{words[0]} is missing: apt-get install dpkg") from None
    if done.returncode != 0:
        raise bundle.Trouble(f"{words[0]}: {done.stderr.strip()}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="deb.py", description="Builds hosttune as a .deb.")
    parser.add_argument(
        "out",
        nargs="?",
        type=Path,
        default=bundle.ROOT / "dist",
        help="a folder, or a name that ends in .deb (dist)",
    )
    parser.add_argument(
        "--version",
        default="",
        help="another version than that of the sources, such as 0.1.0+site1",
    )
    given = parser.parse_args()
    try:
        print(build(given.out, given.version))
    except (bundle.Trouble, OSError, subprocess.TimeoutExpired) as error:
        print(f"deb.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
