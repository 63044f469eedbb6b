"""Which line of tmpfiles.d sets a value: what hosttune says is what systemd-tmpfiles does."""

from __future__ import annotations

import subprocess

import pytest

from hosttune.facts import Facts
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import One, host

pytestmark = pytest.mark.live
PATH = "/sys/kernel/mm/ksm/sleep_millisecs"
OTHER = "/sys/kernel/mm/ksm/run"
WILD = "/sys/kernel/mm/ksm/sleep_*"


def after_boot(tmp_path, files):
    """The text at PATH after systemd-tmpfiles has read these files below a root of its own."""
    root = tmp_path / "root"
    for path, text in {
        PATH: "",
        OTHER: "",
        "/etc/passwd": "root:x:0:0::/:/bin/sh\n",
        **files,
    }.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    subprocess.run(
        ["systemd-tmpfiles", f"--root={root}", "--create", "--boot"],
        check=False,
        capture_output=True,
    )
    return (root / PATH.lstrip("/")).read_text().strip()


@pytest.mark.parametrize(
    "files",
    [
        {"/etc/tmpfiles.d/10-a.conf": f"w {PATH} - - - - 1\n"},
        {"/etc/tmpfiles.d/10-a.conf": f"w {PATH} - - - - 1\n", "/etc/tmpfiles.d/90-b.conf": f"w {PATH} - - - - 2\n"},
        {"/etc/tmpfiles.d/10-a.conf": f"w {WILD} - - - - 1\n", "/etc/tmpfiles.d/90-b.conf": f"w {PATH} - - - - 2\n"},
        {"/etc/tmpfiles.d/10-a.conf": f"w {PATH} - - - - 1\n", "/etc/tmpfiles.d/90-b.conf": f"w {WILD} - - - - 2\n"},
        {"/etc/tmpfiles.d/10-a.conf": f"w! {PATH} - - - - 1\n", "/usr/lib/tmpfiles.d/10-a.conf": f"w {PATH} - - - - 2\n"},
        {"/usr/lib/tmpfiles.d/10-a.conf": f"w {PATH} - - - - 7%% x\n"},
        {"/etc/tmpfiles.d/10-a.conf": "w /sys/kernel/mm/{ksm,x}/sleep* - - - - 3\n"},
        {"/etc/tmpfiles.d/10-a.conf": f"#w {PATH} - - - - 1\nw {OTHER} - - - - 1\n"},
    ],
)  # fmt: skip
def test_what_systemd_tmpfiles_writes_is_what_is_foretold(files, tmp_path):
    found = Facts(FakeReader(files)).sysfs_at_boot[PATH].settings
    assert after_boot(tmp_path, files) == (found[-1].given.value if found else "")


def test_dropin_of_ours_sets_the_value_at_boot(tmp_path):
    one = One(host({PATH: "20\n"}), f"- sysfs: {WILD}\n  at_least: 100")
    one.apply()
    kept = {path: text for path, text in one.kept().items() if path.startswith("/etc/tmpfiles.d/")}
    assert after_boot(tmp_path, kept) == "100"
