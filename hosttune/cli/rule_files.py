"""Rule files of a person at work: check them, begin one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hosttune.errors import BadInput, Fault, HosttuneError, Where

if TYPE_CHECKING:
    from hosttune.engine.rules.document import YamlFile
    from hosttune.engine.rules.rule import Rule
    from hosttune.host.door import Reader


def lint_files(paths: list[str]) -> tuple[int, list[Fault]]:
    """How many files were checked, and all their faults."""
    from hosttune.engine.rules.lint import lint_faults
    from hosttune.engine.rules.yamlio import load_document
    from hosttune.host.console import load

    faults: list[Fault] = []
    for path in paths:
        try:
            document = load_document(load(path), path)
            faults += lint_faults(document)
        except BadInput as error:
            faults += error.faults
        # one that cannot be read: the others are checked all the same
        except HosttuneError as error:
            faults.append(Fault(Where(path), error.message.removeprefix(f"{path}: "), error.hint))
    return len(paths), faults


def lint_all() -> tuple[int, list[Fault]]:
    """The built-in rules, and those of /etc/hosttune/rules.d on this machine."""
    from hosttune.engine.rules.catalog import RULES_FOLDER, builtin_catalog, load_catalog
    from hosttune.engine.rules.compiled import builtin_documents
    from hosttune.engine.rules.lint import lint_faults
    from hosttune.engine.rules.shapes import profile_faults
    from hosttune.engine.rules.trusted import read_trusted
    from hosttune.engine.rules.yamlio import load_document
    from hosttune.host.reading.live import LiveReader

    documents: list[YamlFile] = [
        one for one in builtin_documents() if not one.name.startswith("profiles/")
    ]
    faults = [fault for document in documents for fault in lint_faults(document)]
    if not faults:
        profiles = [one for one in builtin_documents() if one.name.startswith("profiles/")]
        faults = [
            fault for document in profiles for fault in profile_faults(document, builtin_catalog())
        ]
    reader = LiveReader()
    names = reader.list(RULES_FOLDER)
    custom = (
        [name for name in names if name.endswith((".yaml", ".yml"))]
        if isinstance(names, tuple)
        else []
    )
    if custom and not faults:
        try:
            load_catalog(reader)
            texts = [
                read_trusted(reader, f"{RULES_FOLDER}/{one}", is_local=False, is_required=True)
                for one in custom
            ]
            faults += [
                fault
                for name, text in texts
                for fault in lint_faults(load_document(text or "", name))
            ]
        except BadInput as error:
            faults += error.faults
    return len(documents) + len(custom), faults


def source_of(rule: Rule, reader: Reader) -> str:
    """The file of a rule as it was written; of one of ours its cases too, where the checkout is
    there.
    """
    from hosttune.engine.rules.catalog import RULES_FOLDER
    from hosttune.engine.rules.trusted import path_on, read_trusted
    from hosttune.host.masking.cleaned import make_safe
    from hosttune.textfiles import checkout_text, own_file

    if not rule.is_builtin:
        path, folder = rule.where.path, path_on(reader, RULES_FOLDER)
        is_local = not path.startswith(f"{folder}/")
        place = path if is_local else RULES_FOLDER + path.removeprefix(folder)
        _, custom = read_trusted(reader, place, is_local=is_local, is_required=True)
        return "".join(f"{make_safe(line)}\n" for line in (custom or "").splitlines())
    name = f"rules/{rule.domain}/{rule.id}.yaml"
    text = own_file(name)
    if text is None:
        raise HosttuneError(
            f"{rule.id}: its file is not here", hint="it is in a checkout of hosttune"
        )
    cases = checkout_text(f"tests/rules/{rule.id}.yaml")
    below = (
        f"\n# tests/rules/{rule.id}.yaml\n{cases}"
        if cases
        else "\n# Its cases lie in a checkout of hosttune.\n"
    )
    return f"# hosttune/{name}\n{text.decode()}{below}"


def new_rule(rule: str, kind: str | None) -> dict[str, str]:
    """File name to text of a new rule with a wish of this kind, or with advice. Raises BadInput
    when the id breaks the rules for ids, HosttuneError where there is no such kind.
    """
    from hosttune import __version__
    from hosttune.cli.rule_frame import frame_rule
    from hosttune.engine.rules.catalog import builtin_catalog
    from hosttune.engine.rules.lint import checked_rule

    rules = builtin_catalog().rules
    if rule in rules:
        raise BadInput(
            [Fault(Where(f"{rule}.yaml", field="id"), f"a rule is called {rule} already")]
        )
    text, cases = frame_rule(rule, __version__.rpartition(".")[0], kind, rules)
    checked_rule(text, f"{rule}.yaml")
    return {
        f"hosttune/rules/{rule.partition('-')[0]}/{rule}.yaml": text,
        f"tests/rules/{rule}.yaml": cases,
    }


def new_rule_text(files: dict[str, str]) -> str:
    """Both files as one rule file, its cases as a comment below it."""
    (rule, text), (cases, below) = files.items()
    return f"# {rule}\n{text}\n# {cases}\n" + "".join(f"# {line}\n" for line in below.splitlines())


def write_new(folder: str, files: dict[str, str]) -> list[Path]:
    """Write the files into `folder`; refuses all of them when one exists."""
    from hosttune.host.reading.named import answer_in_time, reason_of
    from hosttune.host.writing.output import save

    paths = [Path(folder, name) for name in files]
    try:
        found = answer_in_time(
            folder,
            lambda: next((str(path) for path in paths if path.exists()), "").encode(
                "utf-8", "surrogateescape"
            ),
        )
    except OSError as error:
        raise HosttuneError(f"{folder}: {reason_of(error)}", hint="name another folder") from error
    if found:
        raise HosttuneError(
            f"{found.decode('utf-8', 'surrogateescape')} exists already",
            hint="name another folder, or edit the file",
        )
    for path, text in zip(paths, files.values(), strict=True):
        save(str(path), text.encode(), 0o644, makes_folders=True)
    return paths
