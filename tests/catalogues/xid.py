"""Compare hosttune/tables/gpu-errors.tsv with a newer sheet of NVIDIA's, and take over what
changed.

    python -m tests.catalogues.xid Xid-Catalog.xlsx            # what differs; exit status 1 where something does
    python -m tests.catalogues.xid Xid-Catalog.xlsx --write    # and write it

The sheet is linked on docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. Of `Xids` the
actions, the branch of the 154 linkage and the names are taken over; weight and words stay as they
are, and a new number gets a weight from its action and NVIDIA's description as words, both to be
looked at. `Xid 144-150 Decode` is compared, and edited by hand.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import hosttune

TABLE = Path(hosttune.__file__).parent / "tables" / "gpu-errors.tsv"
_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
# Columns of `Xids` by how they begin; the decode sheet is read by place.
COLUMNS = (
    "Code", "Mnemonic", "Description", "Resolution Bucket (Immediate", "Resolution Bucket (Investigatory", "Xid 154 linkage",
)  # fmt: skip
FAULTS = {"RESET_GPU", "RESTART_BM", "RESTART_VM", "CHECK_MECHANICALS", "CONTACT_SUPPORT"}


def sheet(book: zipfile.ZipFile, name: str) -> list[list[str]]:
    """The cells of one sheet of a workbook (ECMA-376), as texts; rows are filled up to their last
    cell.
    """
    shared = []
    if "xl/sharedStrings.xml" in book.namelist():
        root = ET.fromstring(book.read("xl/sharedStrings.xml"))
        shared = [
            "".join(text.text or "" for text in one.iter(f"{_MAIN}t"))
            for one in root.findall(f"{_MAIN}si")
        ]
    relations = ET.fromstring(book.read("xl/_rels/workbook.xml.rels"))
    targets = {one.attrib["Id"]: one.attrib["Target"] for one in relations}
    sheets = ET.fromstring(book.read("xl/workbook.xml")).iter(f"{_MAIN}sheet")
    found = next((one for one in sheets if one.attrib["name"] == name), None)
    if found is None:
        raise SystemExit(f"the workbook has no sheet {name!r}")
    place = targets[found.attrib[_RELATION]].lstrip("/").removeprefix("xl/")
    rows = []
    for row in ET.fromstring(book.read(f"xl/{place}")).iter(f"{_MAIN}row"):
        cells: dict[int, str] = {}
        for cell in row.findall(f"{_MAIN}c"):
            value = cell.find(f"{_MAIN}v")
            text = (
                "".join(one.text or "" for one in cell.iter(f"{_MAIN}t"))
                if value is None
                else value.text or ""
            )
            number = 0
            for letter in re.match(r"[A-Z]+", cell.attrib["r"])[0]:
                number = number * 26 + ord(letter) - 64
            cells[number] = (shared[int(text)] if cell.attrib.get("t") == "s" else text).strip()
        rows.append([cells.get(number, "") for number in range(1, max(cells, default=0) + 1)])
    return rows


def rows_of(book: zipfile.ZipFile) -> dict[int, list[str]]:
    """Of each number: action, investigation, linkage, name, description, as NVIDIA has them."""
    head, *rows = sheet(book, "Xids")
    places = [
        next((n for n, title in enumerate(head) if title.startswith(wanted)), -1)
        for wanted in COLUMNS
    ]
    if -1 in places:
        raise SystemExit(f"the sheet has no column {COLUMNS[places.index(-1)]!r}: it has {head}")
    found = {}
    for row in rows:
        code, name, words, action, then, linkage = (row[n] if n < len(row) else "" for n in places)
        if code.removesuffix(".0").isdecimal():
            branch = re.search(r"R(\d{3})", linkage)
            found[int(code.removesuffix(".0"))] = [
                action or "-",
                then or "-",
                branch[1] if branch else "-",
                name,
                words,
            ]
    return found


def updated(lines: list[str], found: dict[int, list[str]]) -> tuple[list[str], list[str]]:
    """The lines of the table with what NVIDIA changed, and a sentence for each change."""
    kept, said, known = [], [], set()
    last = 0
    for line in lines:
        words = line.split("\t")
        if words[0] == "xid":
            known.add(int(words[1]))
            last = len(kept) + 1
            new = found.get(int(words[1]))
            if new and new[0] != words[3]:
                said.append(
                    f"Xid {words[1]}: action {words[3]} -> {new[0]} (its weight is {words[2]})"
                )
                words[3] = new[0]
            if new and new[2] not in {words[5], "-"}:
                said.append(f"Xid {words[1]}: a 154 follows from {words[5]} -> {new[2]}")
                words[5] = new[2]
        kept.append("\t".join(words))
    for number in sorted(set(found) - known):
        action, then, linkage, name, words = found[number]
        weight = "fault" if action in FAULTS else "quiet"
        said.append(f"Xid {number}: new, {action}, weight {weight}: {words}")
        kept.insert(
            last,
            "\t".join(("xid", str(number), weight, action, then, linkage, name, words.lower())),
        )
        last += 1
    return kept, said


def undecoded(lines: list[str], book: zipfile.ZipFile) -> list[str]:
    """Rows of the decode sheet that the table has not."""
    have = {
        tuple(words[n] for n in (1, 5, 6, 3))
        for line in lines
        if (words := line.split("\t"))[0] == "nvlink5"
    }
    rows = [
        row
        for row in sheet(book, "Xid 144-150 Decode")
        if row and row[0].removesuffix(".0").isdecimal()
    ]
    wanted = [(row[0].removesuffix(".0"), row[2], row[3], row[5]) for row in rows if len(row) > 5]
    return [f"nvlink5: {' '.join(row)} is not in the table" for row in wanted if row not in have]


def main(arguments: list[str]) -> int:
    files = [word for word in arguments if not word.startswith("-")]
    if len(files) != 1:
        print(__doc__)
        return 2
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    with zipfile.ZipFile(files[0]) as book:
        kept, said = updated(lines, rows_of(book))
        said += undecoded(lines, book)
    print("\n".join(said) or "the table is as the sheet")
    if "--write" in arguments and kept != lines:
        TABLE.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        print(
            "written; now set `as of:` to the date of the sheet, and look at weight and words of what is new"
        )
    return int(bool(said))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
