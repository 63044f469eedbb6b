"""The table of Xid errors follows a newer sheet of NVIDIA's."""

from __future__ import annotations

import zipfile

import pytest

from tests.catalogues import boards, xid

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
HEAD = (
    "Type", "Code", "Mnemonic", "Description", "Applies to A100", "Resolution Bucket (Immediate Action)",
    "Resolution Bucket (Investigatory Action)", "Xid 154 linkage",
)  # fmt: skip
OLD = (
    "XID",
    "79",
    "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS",
    "GPU has fallen off",
    "YES",
    "RESTART_BM",
    "CONTACT_SUPPORT",
    "R565",
)
DECODE = (
    "150",
    "MSE_WATCHDOG",
    "------000000----------0000000000",
    "------000000-------------0000000",
    "0x0",
    "RESET_GPU",
)


def book(tmp_path, xids, decode):
    """A workbook as spreadsheet programs write it: texts of the first sheet shared, those of the
    second in the cells.
    """
    shared = list(dict.fromkeys(text for row in xids for text in row))

    def rows(table, cell):
        return "".join(
            f'<row r="{n}">'
            + "".join(cell(f"{chr(65 + c)}{n}", text) for c, text in enumerate(row) if text)
            + "</row>"
            for n, row in enumerate(table, 1)
        )

    first = rows(xids, lambda place, text: f'<c r="{place}" t="s"><v>{shared.index(text)}</v></c>')
    second = rows(
        decode, lambda place, text: f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'
    )
    files = {
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets><sheet name="Xids" r:id="a"/>'
        '<sheet name="Xid 144-150 Decode" r:id="b"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="a" Target="worksheets/sheet1.xml"/>'
        '<Relationship Id="b" Target="/xl/worksheets/sheet2.xml"/></Relationships>',
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">'
        + "".join(f"<si><t>{text}</t></si>" for text in shared)
        + "</sst>",
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{first}</sheetData></worksheet>',
        "xl/worksheets/sheet2.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{second}</sheetData></worksheet>',
    }
    path = tmp_path / "Xid-Catalog.xlsx"
    with zipfile.ZipFile(path, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return str(path)


def test_xid_table_that_is_as_the_sheet(tmp_path, capsys):
    assert xid.main([book(tmp_path, [HEAD, OLD], [DECODE])]) == 0
    assert capsys.readouterr().out == "the table is as the sheet\n"


def test_xid_table_takes_over_what_nvidia_changed(tmp_path, capsys, monkeypatch):
    table = tmp_path / "gpu-errors.tsv"
    table.write_bytes(xid.TABLE.read_bytes())
    monkeypatch.setattr(xid, "TABLE", table)
    changed = (*OLD[:5], "RESET_GPU", OLD[6], "R590")
    new = ("XID", "199", "NEW_ERROR", "Something New", "YES", "RESTART_BM", "CONTACT_SUPPORT", "")
    path = book(tmp_path, [HEAD, changed, new], [(*DECODE[:5], "IGNORE")])
    assert xid.main([path, "--write"]) == 1
    said = capsys.readouterr().out
    assert "Xid 79: action RESTART_BM -> RESET_GPU" in said
    assert "Xid 79: a 154 follows from 565 -> 590" in said
    assert "Xid 199: new, RESTART_BM, weight fault" in said
    assert "nvlink5: 150 " in said
    assert (
        "xid\t199\tfault\tRESTART_BM\tCONTACT_SUPPORT\t-\tNEW_ERROR\tsomething new\n"
        in table.read_text(encoding="utf-8")
    )
    assert (
        xid.main([book(tmp_path, [HEAD, changed, new], [DECODE])]) == 0
    )  # the second run has nothing to do


def test_xid_sheet_of_another_form_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="no column 'Mnemonic'"):
        xid.main([book(tmp_path, [("Type", "Code"), ("XID", "79")], [DECODE])])


NAMES = """\
static const CHIPS_RELEASED sChipsReleased[] = {
    { 0x20B0, 0x0000, 0x0000, "NVIDIA A100-SXM4-40GB" },
    { 0x2236, 0x1482, 0x10de, "NVIDIA A10" },
    { 0x26B1, 0x16a1, 0x1028, "NVIDIA RTX 6000 Ada Generation" },
    { 0x2236, 0x14b6, 0x10DE, "NVIDIA A10-1B" },
    { 0x2236, 0x14b7, 0x10DE, "NVIDIA A10-2B4" },
    { 0x2236, 0x14b8, 0x10DE, "NVIDIA A10-1-5CME" },
    { 0x2236, 0x14c8, 0x10DE, "NVIDIA A10-6" },
};
"""


def test_boards_and_parts_of_boards_are_told_apart():
    lines = [
        line
        for line in boards.written(NAMES, "600.1", "2027-03").splitlines()
        if not line.startswith("#")
    ]
    assert lines == [
        "board\t20b0\t*\tNVIDIA A100-SXM4-40GB", "board\t2236\t1482\tNVIDIA A10", "vgpu\t2236\t14b6-14b8,14c8\tNVIDIA A10",
    ]  # fmt: skip
    assert "# as of: 600.1\n" in boards.written(NAMES, "600.1", "2027-03")
