"""What dpkg printed of packages that it could not bring to their end."""

import pytest

from hosttune.actions.record.encode import encode_record
from hosttune.facts import Facts
from hosttune.facts.dpkg_said import TERM_LOG, parse_said, shorten_log
from hosttune.host.record.record import RecordingReader, RecordReader
from tests.unit.fake_reader import FakeReader

SCRIPT = """\
Log started: 2026-11-28  06:12:03
Setting up nvidia-kernel-common-580 (580.126.20-0ubuntu0.24.04.1) ...
update-initramfs: deferring update (trigger activated)
\x1b7\x1b[0;23r\x1b8Setting up nvidia-dkms-580-open (580.126.20-0ubuntu0.24.04.1) ...
Traceback (most recent call last):
  File "/usr/bin/quirks-handler", line 26, in <module>
ModuleNotFoundError: No module named 'Quirks'
dpkg: error processing package nvidia-dkms-580-open (--configure):
 installed nvidia-dkms-580-open package post-installation script subprocess returned error exit status 1
dpkg: dependency problems prevent configuration of nvidia-driver-580-open:
 nvidia-driver-580-open depends on nvidia-dkms-580-open (>= 580.126.20); however:
  Package nvidia-dkms-580-open is not configured yet.

dpkg: error processing package nvidia-driver-580-open (--configure):
 dependency problems - leaving unconfigured
Errors were encountered while processing:
 nvidia-dkms-580-open
Log ended: 2026-11-28  06:12:31
"""
FILES = """\
Unpacking libnvidia-gl-580:amd64 (580.126.20-0ubuntu0.24.04.1) ...
dpkg: error processing archive /var/cache/apt/archives/libnvidia-gl-580_580.126.20_amd64.deb (--unpack):
 trying to overwrite '/usr/share/x/10_nvidia.json', which is also in package libnvidia-gl 590.48
"""
QUIRKS, OTHER = "ModuleNotFoundError: No module named 'Quirks'", "trying to overwrite '/usr/share/x/10_nvidia.json', which is also in package libnvidia-gl 590.48"  # fmt: skip


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (SCRIPT, {"nvidia-dkms-580-open": QUIRKS}),
        (SCRIPT + FILES, {"nvidia-dkms-580-open": QUIRKS, "libnvidia-gl-580": OTHER}),
        (SCRIPT + "Setting up nvidia-dkms-580-open (580.126.20) ...\r\nbuilt\n", {}),
        (SCRIPT + "Setting up nvidia-dkms-580-open (580.126.20) ...\n", {}),
        ("Setting up linux-image-6.8 (6.8) ...\nno room\nrun-parts: /etc/kernel/postinst.d/a exited with return code 1\ndpkg: error processing package linux-image-6.8 (--configure):\n installed linux-image-6.8 package post-installation script subprocess returned error exit status 1\n", {"linux-image-6.8": "no room"}),
        ("dpkg: error processing package x (--configure):\n package is in a very bad inconsistent state; you should\n", {"x": "package is in a very bad inconsistent state; you should"}),
        ("dpkg: error processing package x (--configure):\n installed x package post-installation script subprocess returned error exit status 10\n", {"x": "installed x package post-installation script subprocess returned error exit status 10"}),
        ("", {}),
        ((SCRIPT + FILES).replace("\n", "\r\n"), {"nvidia-dkms-580-open": QUIRKS, "libnvidia-gl-580": OTHER}),
    ],
)  # fmt: skip
def test_last_line_of_a_script_or_the_sentence_of_dpkg_is_kept_until_the_package_is_set_up(
    log, said
):
    assert parse_said(log) == parse_said(shorten_log(log)) == said


def test_record_keeps_only_the_steps_and_their_errors():
    short = shorten_log(SCRIPT)
    assert "Traceback" not in short
    assert QUIRKS in short
    assert "nvidia-kernel-common" not in short
    assert (
        len(
            parse_said("dpkg: error processing package x (--configure):\n " + "y" * 1000 + "\n")[
                "x"
            ]
        )
        <= 200
    )


def test_log_that_is_not_there_says_nothing_and_one_that_may_not_be_read_is_unknown():
    assert Facts(FakeReader({})).apt.said == {}
    assert Facts(FakeReader({TERM_LOG: SCRIPT})).apt.said == {"nvidia-dkms-580-open": QUIRKS}


def test_record_has_the_same_words_and_not_the_rest_of_the_log():
    recorder = RecordingReader(FakeReader({TERM_LOG: SCRIPT}))
    said = Facts(recorder).apt.said
    record = encode_record(recorder, share=False, tool_version="0")
    assert "Traceback" not in record["files"][TERM_LOG]
    assert Facts(RecordReader(record)).apt.said == said == {"nvidia-dkms-580-open": QUIRKS}
