"""Where the package's own files lie: a wheel has the templates inside the package, a checkout and
an editable install beside it, and in the self-contained file (hosttune.pyz) nothing is in a folder
at all.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, cast

from hosttune.errors import HosttuneError
from hosttune.regex import regex

if TYPE_CHECKING:
    from importlib.abc import ResourceLoader
    from pathlib import Path

_PLAIN_NAME = regex(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PROJECT_NAME = regex(r'^name\s*=\s*"hosttune"\s*$', re.MULTILINE)


def own_file(name: str) -> bytes | None:
    """The content of a file below the package folder, also where that is part of a zip archive;
    None if there is none.

    By the loader that found the package (PEP 302, `get_data`), because pathlib cannot look into an
    archive.
    """
    loader = cast("ResourceLoader", __spec__.loader)
    try:
        return loader.get_data(f"{__file__.rpartition('/')[0]}/{name}")
    except OSError:
        return None


def module_names(*folders: str) -> list[str]:
    """The names of all modules below these folders, as they are imported from there:
    `storage.data_mount`. With os.walk, because every check asks, and pathlib takes ten times as
    long.
    """
    found = []
    for folder in folders:
        for path, _, files in os.walk(folder):
            prefix = path[len(folder) + 1 :].replace("/", ".")
            found += [
                f"{prefix}.{name[:-3]}".lstrip(".")
                for name in files
                if name.endswith(".py") and name[0] != "_"
            ]
    return sorted(found)


def checkout_text(name: str) -> str | None:
    """The text of a file of the checkout that the package is in, by its path there; None where it
    is installed.
    """
    from pathlib import Path

    package = Path(__file__).resolve().parent
    file = package.parent / name
    if _why_not_ours(file.parent, package) or not file.is_file():
        return None
    return file.read_text(encoding="utf-8")


def rule_page(rule: str) -> str:
    """The URL of the page about a built-in rule; empty where there is none."""
    return docs_page(f"reference/rules/{rule}") if _PLAIN_NAME.fullmatch(rule) else ""


def docs_page(name: str) -> str:
    """The URL of a page of the docs; empty where there is none. HOSTTUNE_DOCS_URL names a site that
    `./run docs --build` made; without it, it is a file of this checkout or of the Debian package.
    """
    from pathlib import Path

    site = os.environ.get("HOSTTUNE_DOCS_URL", "")
    if site.startswith(("https://", "http://")):
        return f"{site.rstrip('/')}/{name}/"
    package = Path(__file__).resolve().parent
    page = f"{name}.md"
    for file in (package.parent / "docs" / page, Path("/usr/share/doc/hosttune") / f"{page}.gz"):
        if file.is_file():
            return file.as_uri()
    return ""


def template_text(name: str) -> str | None:
    """The text of a Jinja2 template; None if there is none of this name. Raises as `template_root`
    does.

    A rule can name a template, and rules come with images and records, too: a name that leaves the
    folder is of none.
    """
    if not _PLAIN_NAME.fullmatch(name):
        return None
    inside = own_file(f"templates/{name}")
    if inside is not None:
        return inside.decode("utf-8")
    file = template_root() / name
    return file.read_text(encoding="utf-8") if file.is_file() else None


def template_root(package: Path | None = None) -> Path:
    """Return the folder of the Jinja2 templates.

    In a wheel it is `hosttune/templates`. Otherwise it is the sibling `templates/` of the package
    folder, and only if that belongs to this very checkout: hosttune renders them as root, and
    beside an installed package (say `/usr/lib/python3/dist-packages/templates`) the name is
    anybody's. `package` is the package folder; tests pass another one.

    Raises HosttuneError when there is no templates folder that may be read.
    """
    from pathlib import Path

    package = package or Path(__file__).resolve().parent
    inside = package / "templates"
    if inside.is_dir():
        return inside
    sibling = package.parent / "templates"
    if refusal := _why_not_ours(sibling, package):
        raise HosttuneError(
            f"the templates of hosttune are missing: {inside} does not exist, and {refusal}",
            hint="install hosttune again, or start it from a complete checkout",
        )
    return sibling


def _why_not_ours(sibling: Path, package: Path) -> str:
    """Say in half a sentence why `sibling` is not the templates folder of the package's checkout,
    or nothing if it is.

    One owner for the package, pyproject.toml and the templates: someone who may create files beside
    the package, but may not change it, cannot place templates there either.
    """
    project = package.parent / "pyproject.toml"
    try:
        ours = package.lstat().st_uid
        for path, is_kind in ((project, stat.S_ISREG), (sibling, stat.S_ISDIR)):
            status = path.lstat()
            if not is_kind(status.st_mode):
                return f"{path} is a link or a special file"
            if status.st_uid != ours:
                return f"{path} does not belong to the owner of {package}"
            if status.st_mode & stat.S_IWOTH:
                return f"{path} can be written by everybody"
        if not _PROJECT_NAME.search(project.read_text(encoding="utf-8")):
            return f"{project} is not the project file of hosttune"
    except (OSError, UnicodeDecodeError) as error:
        return f"{package.parent} is not a checkout of hosttune ({error})"
    return ""
