"""Rule files of a person at work: check them, begin one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hosttune.errors import BadInput, Fault, HosttuneError, Where

if TYPE_CHECKING:
    from hosttune.engine.document import Document

_RULE = """\
id: {id}
title: (what is right on the host once this rule holds)
risk: low
disturbs: nothing
since: "{since}"
verified: docs
gain: (who gains how much, and who nothing)
why: |
  (What the kernel or the tool does by default, why that is wrong for deep-learning work, when to leave it alone.)
sources:
  - (manual page, kernel document or upstream issue)
applies_when:
  - {{if: not host.is_container, else: in a container the kernel's settings belong to the host}}
params:
  value:
    type: int
    default: 10
    minimum: 1
    maximum: 100
    help: (what it means, and its unit)
want:
  - sysctl: vm.swappiness
    at_most: "{{{{ params.value }}}}"
"""

_CASES = """\
- name: (a host that needs it)
  host: h100-8x-2socket
  expect: {verdict: differs, changes: ["sysctl:vm.swappiness 60 -> 10", "(the last line of the drop-in)"]}
- name: (a host that is right already)
  host: h100-8x-2socket
  files: {/proc/sys/vm/swappiness: "10\\n", /etc/sysctl.d/10-site.conf: "vm.swappiness = 10\\n"}
  expect: {verdict: ok}
- name: in a container it belongs to the host
  host: container-docker
  expect: {verdict: not applicable, says: belong to the host}
"""


def lint_files(paths: list[str]) -> tuple[int, list[Fault]]:
    """How many files were checked, and all their faults."""
    from hosttune.engine.lint import key_faults, rule_faults
    from hosttune.engine.yamlio import load_document
    from hosttune.host.console import load

    faults: list[Fault] = []
    for path in paths:
        try:
            document = load_document(load(path), path)
            faults += rule_faults(document) or key_faults(document)
        except BadInput as error:
            faults += error.faults
    return len(paths), faults


def lint_all() -> tuple[int, list[Fault]]:
    """The built-in rules, and those of /etc/hosttune/rules.d on this machine."""
    from hosttune.engine.catalog import RULES_FOLDER, builtin_catalog, load_catalog
    from hosttune.engine.compiled import builtin_documents
    from hosttune.engine.lint import key_faults, rule_faults
    from hosttune.engine.shapes import profile_faults
    from hosttune.engine.trusted import read_trusted
    from hosttune.engine.yamlio import load_document
    from hosttune.host.live import LiveReader

    documents: list[Document] = [one for one in builtin_documents() if not one.name.startswith("profiles/")]
    faults = [fault for document in documents for fault in rule_faults(document) or key_faults(document)]
    if not faults:
        profiles = [one for one in builtin_documents() if one.name.startswith("profiles/")]
        faults = [fault for document in profiles for fault in profile_faults(document, builtin_catalog())]
    reader = LiveReader()
    names = reader.list(RULES_FOLDER)
    custom = [name for name in names if name.endswith((".yaml", ".yml"))] if isinstance(names, tuple) else []
    if custom and not faults:
        try:
            load_catalog(reader)
            texts = [read_trusted(reader, f"{RULES_FOLDER}/{one}", is_local=False, is_required=True) for one in custom]
            faults += [fault for name, text in texts for fault in key_faults(load_document(text or "", name))]
        except BadInput as error:
            faults += error.faults
    return len(documents) + len(custom), faults


def new_rule(rule: str) -> dict[str, str]:
    """File name to text of a new rule. Raises BadInput when the id breaks the rules for ids."""
    from hosttune import __version__
    from hosttune.engine.catalog import builtin_catalog
    from hosttune.engine.lint import checked_rule

    if rule in builtin_catalog().rules:
        raise BadInput([Fault(Where(f"{rule}.yaml", field="id"), f"a rule is called {rule} already")])
    text = _RULE.format(id=rule, since=__version__.rpartition(".")[0])
    checked_rule(text, f"{rule}.yaml")
    return {f"hosttune/rules/{rule.partition('-')[0]}/{rule}.yaml": text, f"tests/rules/{rule}.yaml": _CASES}


def new_rule_text(files: dict[str, str]) -> str:
    """Both files as one rule file, its cases as a comment below it: what is kept as it stands passes the lint."""
    (rule, text), (cases, below) = files.items()
    return f"# {rule}\n{text}\n# {cases}\n" + "".join(f"# {line}\n" for line in below.splitlines())


def write_new(folder: str, files: dict[str, str]) -> list[Path]:
    """Write the files into `folder`; refuses all of them when one exists."""
    paths = [Path(folder, name) for name in files]
    for path in paths:
        if path.exists():
            raise HosttuneError(f"{path} exists already", hint="name another folder, or edit the file")
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, files.values(), strict=True):
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise HosttuneError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return paths
