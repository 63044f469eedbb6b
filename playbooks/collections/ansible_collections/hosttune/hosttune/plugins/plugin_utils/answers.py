# SPDX-License-Identifier: Apache-2.0
"""What the controller accepts from a host. A host may be compromised, so its answer is data and
never a command. The RETURN docs of the modules are the schema: other keys are dropped, and a wrong
type refuses the answer. Values in, values out.
"""

from __future__ import annotations

import json
import math
import os
import re

import yaml

MODULES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "modules")
# Ten times what hosttune writes of a large host: 9,200 values, 60,000 characters (a history of 20
# runs has more), 9 levels, and a diff of 30 lines.
MAX_DEPTH = 40
MAX_VALUES = 100_000
MAX_TEXT = 1 << 20  # characters of an answer without its record
# Of a record what `hosttune report` reads (hosttune/codec.py: parse_json).
MAX_RECORD = 64 << 20  # bytes
MAX_RECORD_VALUES = 1 << 22
# characters that a module prints: a character of its answer can become six in JSON
MAX_OUTPUT = 16 << 20
# and with a record, most of which is printed as it is
MAX_RECORD_OUTPUT = MAX_OUTPUT + 2 * MAX_RECORD
MAX_INTEGER = 2**63
MAX_WAIT_S = 2 * 86400  # hosttune itself takes a day at most
MAX_LINE = 2000  # characters that are printed of one line
MAX_LINES = 100  # that are printed of one message, and sentences that are kept of one list
# A comparison takes time that grows faster than the number of lines.
MAX_DIFF_LINES = 1000
MAX_DIFF_TEXT = 100_000
MAX_NAME = 200  # bytes: most file systems take 255, and the name gets an end

_UNSAFE = re.compile(r"[^\x20-\x7e\n\t]")
_DIGEST = re.compile(r"(?:[0-9a-f]{64})?\Z")
_RUN = re.compile(r"(?:[0-9A-Za-z][0-9A-Za-z_.-]{0,63})?\Z")
# Words that become part of a command or of a waiting time. All other text is only shown.
_FORMS = {
    "digest": (_DIGEST.match, "64 digits of 0-9 and a-f"),
    "run_id": (_RUN.match, "the name of a run"),
    "undone_run": (_RUN.match, "the name of a run"),
    "run": (_RUN.match, "the name of a run"),
    "within_s": (
        lambda number: 0 <= number <= MAX_WAIT_S,
        f"a number of seconds up to {MAX_WAIT_S}",
    ),
    "boot_within_s": (
        lambda number: 0 <= number <= MAX_WAIT_S,
        f"a number of seconds up to {MAX_WAIT_S}",
    ),
}
_TYPES = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "list": (list,),
    "dict": (dict,),
}
# What Ansible itself documents for every module, as far as a task of this collection needs it.
_COMMON = {
    "changed": {"type": "bool"},
    "failed": {"type": "bool"},
    "msg": {"type": "str"},
    "rc": {"type": "int"},
    "module_stdout": {"type": "str"},
    "module_stderr": {"type": "str"},
    "diff": {
        "type": "list",
        "elements": "dict",
        "contains": {
            name: {"type": "str"}
            for name in ("before_header", "after_header", "before", "after", "prepared")
        },
    },
}


class MalformedAnswer(Exception):
    """An answer that hosttune does not give; the text names the key."""


def load_schema(module):
    """The keys that a module of this collection returns, with their types: its RETURN docs."""
    with open(os.path.join(MODULES, module + ".py"), encoding="utf-8") as file:
        text = file.read().partition('RETURN = r"""')[2].partition('"""')[0]
    return {**_COMMON, **yaml.safe_load(text)}


def parse_answer(answer, schema):
    """A copy of what a host answered: the documented keys with safe text. Raises
    MalformedAnswer.
    """
    if not isinstance(answer, dict):
        raise MalformedAnswer("no dictionary")
    left = [MAX_VALUES, MAX_TEXT]
    found = {}
    for name in schema:
        if name not in answer:
            continue
        if name == "record":
            found[name] = parse_record(answer[name])
        else:
            found[name] = _copy(answer[name], name, MAX_DEPTH, left)
    check_answer(found, schema)
    for name, value in found.items():  # sentences and words: one line each
        if schema[name].get("elements") == "str":
            found[name] = shortened([clean_line(one, longest=None) for one in value])
    for name in ("diff", "plan_diff"):
        if name in found:
            found[name] = clean_diff(found[name])
    if "msg" in found:
        found["msg"] = clean_message(found["msg"])
    return found


def check_answer(answer, schema):
    """Raises MalformedAnswer if a documented key has another type or form than documented."""
    if not isinstance(answer, dict):
        raise MalformedAnswer("no dictionary")
    for name, spec in schema.items():
        if name in answer:
            _check(answer[name], spec, name)


def parse_record(text):
    """The text of a record as it is, after a check that it is one. Raises MalformedAnswer."""
    if not isinstance(text, str):
        raise MalformedAnswer("record: expected text")
    try:
        size = len(text.encode())
        values = sum(map(text.count, ",[{{{"))  # an object takes more memory than the other values
        data = json.loads(text) if size <= MAX_RECORD and values <= MAX_RECORD_VALUES else None
    except (ValueError, RecursionError):
        raise MalformedAnswer(
            "record: expected a record of hosttune, and it cannot be read as JSON"
        ) from None
    if size > MAX_RECORD:
        raise MalformedAnswer(f"record: larger than {MAX_RECORD >> 20} MiB")
    if values > MAX_RECORD_VALUES:
        raise MalformedAnswer(f"record: more than {MAX_RECORD_VALUES} values")
    expected = {"kind": str, "format_version": int, "name": str, "machine": str, "listings": dict}
    is_record = isinstance(data, dict) and all(
        isinstance(data.get(name), kind) for name, kind in expected.items()
    )
    if not is_record or data["kind"] != "hosttune record":
        raise MalformedAnswer("record: expected a record of hosttune, and it is other JSON")
    return str.__str__(text)


def _copy(value, where, depth, left):
    """Plain JSON of the same content: no subclass to which Ansible gives a meaning, no text that
    steers a terminal.
    """
    left[0] -= 1
    if left[0] < 0:
        raise MalformedAnswer(f"{where}: more than {MAX_VALUES} values")
    if depth < 0:
        raise MalformedAnswer(f"{where}: nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, str):
        left[1] -= len(value)
        if left[1] < 0:
            raise MalformedAnswer(f"{where}: more than {MAX_TEXT} characters")
        return clean_text(value)
    if isinstance(value, (list, tuple)):
        return [_copy(one, where, depth - 1, left) for one in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise MalformedAnswer(f"{where}: a key that is not text")
        return {
            _copy(key, where, depth - 1, left): _copy(one, where, depth - 1, left)
            for key, one in value.items()
        }
    return _copy_number(value, where)


def _copy_number(value, where):
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        if abs(value) >= MAX_INTEGER:
            raise MalformedAnswer(f"{where}: a number of more than 63 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise MalformedAnswer(f"{where}: no number")
        return float(value)
    raise MalformedAnswer(f"{where}: no JSON")


def _check(value, spec, where):
    kind = spec["type"]
    if kind != "raw":
        is_right = isinstance(value, _TYPES[kind]) and (
            kind == "bool" or not isinstance(value, bool)
        )
        if not is_right:
            raise MalformedAnswer(f"{where}: expected {kind}")
    name = where.rpartition(".")[2]
    if name in _FORMS and not _FORMS[name][0](value):
        raise MalformedAnswer(f"{where}: expected {_FORMS[name][1]}")
    contains = spec.get("contains")
    # an answer without a trial has an empty one
    if kind == "dict" and contains and (value or "." in where):
        _check_members(value, contains, where)
    if kind == "list":
        element = {"type": spec.get("elements", "raw"), "contains": contains}
        for number, one in enumerate(value):
            if element["type"] == "dict" and contains and isinstance(one, dict):
                _check_members(one, contains, f"{where}[{number}]")
            else:
                _check(one, element, f"{where}[{number}]")


def _check_members(value, contains, where):
    for name, spec in contains.items():
        if value.get(name) is not None:
            _check(value[name], spec, f"{where}.{name}")
        elif spec.get("returned") == "always" and (name not in value or spec["type"] != "raw"):
            raise MalformedAnswer(f"{where}.{name}: missing")


def clean_text(text):
    """Text as a terminal may show it: control, bidirectional and invisible characters but line
    breaks and tabs become escapes. A line break of another kind becomes an escape as well.
    """
    text = str.__str__(text)
    if not _UNSAFE.search(text):
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else _escaped(char) for char in text
    )


def clean_line(text, longest=MAX_LINE):
    """The same on one line, of a length that a person reads; uncut with `longest` None."""
    text = clean_text(text).replace("\n", "\\n").replace("\t", "  ")
    return text if longest is None or len(text) <= longest else text[:longest] + " ..."


def clean_message(text):
    """The same for a message of several lines, of which all but the first are indented: Ansible
    prints it at the margin, where a line would pass for one of Ansible.
    """
    first, *more = [clean_line(line) for line in shortened(text.split("\n"))]
    return "\n".join(
        [first, *(line if not line or line.startswith("  ") else "  " + line for line in more)]
    )


def shortened(lines):
    """The first of these lines, and how many more there are: what one host says hides nothing that
    others say.
    """
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], f"... {more:,} more"] if more > 0 else lines


def clean_diff(parts):
    """A diff that Ansible can compare and print at the margin, where no line passes for one of
    Ansible. What is too long for a comparison becomes the first lines of what goes and of what
    comes.
    """
    known = _COMMON["diff"]["contains"]  # Ansible acts on other keys
    parts = [{name: part[name] for name in known if part.get(name) is not None} for part in parts]
    parts = [
        {
            name: clean_line(text) if name.endswith("_header") else text
            for name, text in part.items()
        }
        for part in parts
    ]
    texts = [text for part in parts for text in part.values()]
    size = sum(map(len, texts))
    if size > MAX_DIFF_TEXT or sum(text.count("\n") + 1 for text in texts) > MAX_DIFF_LINES:
        # so that the lines that are shown are no more text than that
        longest = MAX_DIFF_TEXT // MAX_LINES
        lines = [clean_line(line, longest) for part in parts for line in _uncompared(part)]
        parts = [{"prepared": "\n".join([*shortened(lines), ""])}]
    return [
        dict(part, prepared=_guarded(part["prepared"])) if part.get("prepared") else part
        for part in parts
    ]


def _uncompared(part):
    lines = part.get("prepared", "").split("\n")
    if "before" in part and "after" in part:
        lines += [
            "--- " + part.get("before_header", ""),
            *("-" + line for line in part["before"].split("\n")),
        ]
        lines += [
            "+++ " + part.get("after_header", ""),
            *("+" + line for line in part["after"].split("\n")),
        ]
    return lines


def _guarded(text):
    """Lines of a diff, each with a mark of one before it."""
    return "\n".join(
        line if line[:1] in ("", *" +-@\\") else "  " + line for line in text.split("\n")
    )


def clean_output(text):
    """What a module printed, as Ansible may parse it and warn of it: what steers a terminal is an
    escape of JSON.
    """
    text = text.replace("\r\n", "\n")
    if not _UNSAFE.search(text):
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else json.dumps(char)[1:-1] for char in text
    )


def _escaped(char):
    code = ord(char)
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def why_no_file_name(host):
    """Why the name of a host in the inventory cannot be that of a file in the results folder; empty
    if it can.
    """
    if not host.isprintable():
        return "it has characters that cannot be shown"
    if host.startswith("."):
        return "it begins with a dot"
    if host.endswith(".record"):
        return "it ends with .record, as the names of records do"
    return (
        f"it is longer than {MAX_NAME} bytes"
        if not 0 < len(file_stem(host).encode()) <= MAX_NAME
        else ""
    )


def file_stem(host):
    """The name of the file of a host in the results folder, without its end. `hosttune report`
    reads it back.
    """
    return host.replace("%", "%25").replace("/", "%2F")
