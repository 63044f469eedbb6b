"""Where dumps go and what bounds them; whether the log is kept."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

PATTERN = "/proc/sys/kernel/core_pattern"


def dumps(pattern, **files):
    return Facts(FakeReader({PATTERN: f"{pattern}\n", **files})).core_dumps


@pytest.mark.parametrize(
    ("pattern", "is_piped", "is_systemd", "is_off"),
    [
        ("core", False, False, False),
        ("/var/crash/core.%p", False, False, False),
        ("|/usr/share/apport/apport -p%p", True, False, False),
        ("|/lib/systemd/systemd-coredump %P %u", True, True, False),
        ("|/bin/false", True, False, True),
        ("", False, False, True),
    ],
)
def test_who_takes_a_dump(pattern, is_piped, is_systemd, is_off):
    found = dumps(pattern)
    assert (found.is_piped, found.is_systemd, found.is_off) == (is_piped, is_systemd, is_off)


def test_only_what_lets_a_dump_grow_is_told():
    lines = "* soft core 1048576\n* hard core unlimited\nalice soft core 2097152\nbob - core unlimited\n"
    own = "Max core file size        unlimited            unlimited            bytes\n"
    found = dumps("core", **{"/etc/security/limits.conf": lines, "/proc/1/limits": own})
    assert found.unbounded == (
        "/etc/security/limits.conf:3",
        "/etc/security/limits.conf:4",
        "the default of new sessions",
    )


def test_pattern_that_cannot_be_read_is_unknown():
    with pytest.raises(UnknownFact, match="denied"):
        _ = Facts(FakeReader({PATTERN: Unreadable("denied")})).core_dumps.is_systemd


@pytest.mark.parametrize(
    ("files", "storage", "is_kept"),
    [
        ({}, "auto", False),
        ({"/var/log/journal/x": ""}, "auto", True),
        (
            {
                "/etc/systemd/journald.conf": "[Journal]\nStorage=Volatile\n",
                "/var/log/journal/x": "",
            },
            "volatile",
            False,
        ),
        (
            {"/etc/systemd/journald.conf": "[Journal]\n#Storage=none\nStorage=persistent\n"},
            "persistent",
            True,
        ),
        (
            {
                "/etc/systemd/journald.conf.d/60-hosttune-services-journal.conf": "[Journal]\nStorage=persistent\n"
            },
            "persistent",
            False,  # without ours it would not be
        ),
    ],
)
def test_log_that_outlives_a_boot(files, storage, is_kept):
    journal = Facts(FakeReader(files)).journal
    assert (journal.storage, journal.is_kept) == (storage, is_kept)


def test_last_line_of_a_domain_is_the_one_that_allows_a_dump():
    lines = (
        "* soft core unlimited\n* soft core 0\nalice soft core unlimited\nalice soft core much\n"
    )
    none = "Max core file size        0            unlimited            bytes\n"
    found = dumps("core", **{"/etc/security/limits.conf": lines, "/proc/1/limits": none})
    assert found.unbounded == ("/etc/security/limits.conf:3",)
