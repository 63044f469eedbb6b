"""Whether PAM opens the sessions of sshd."""

import pytest

from hosttune.actions.record.shared import shared_text
from hosttune.facts import Facts, UnknownFact
from tests.unit.fake_reader import FakeReader

MAIN, DROPIN = "/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d/10-a.conf"


def sshd(files, **options):
    return Facts(FakeReader(files, **options)).sshd


@pytest.mark.parametrize(
    ("files", "uses_pam", "place"),
    [
        ({MAIN: "UsePAM yes\n"}, True, f"{MAIN}:1"),
        ({MAIN: "# UsePAM yes\n"}, False, ""),
        ({MAIN: "usepam=no\nUsePAM yes\n"}, False, f"{MAIN}:1"),
        (
            {MAIN: "Include sshd_config.d/*.conf\nUsePAM yes\n", DROPIN: "UsePAM no\n"},
            False,
            f"{DROPIN}:1",
        ),
        (
            {MAIN: f'Include "{DROPIN}"\nUsePAM yes\n', DROPIN: "Match User a\nUsePAM no\n"},
            True,
            f"{MAIN}:2",
        ),
        ({MAIN: "Match User a\nUsePAM no\n"}, False, ""),
        (
            {MAIN: "UsePAM no\nInclude sshd_config.d/*.conf\n", DROPIN: "UsePAM yes\n"},
            False,
            f"{MAIN}:1",
        ),
        ({MAIN: f"Include {MAIN}\nUsePAM yes\n"}, True, f"{MAIN}:2"),
    ],
)
def test_first_value_of_all_connections_counts(files, uses_pam, place):
    found = sshd(files)

    assert (found.is_installed, found.uses_pam, found.pam_place) == (True, uses_pam, place)


def test_host_without_sshd_and_a_file_that_cannot_be_read():
    assert not sshd({}).is_installed
    with pytest.raises(UnknownFact, match="only root"):
        assert sshd(
            {MAIN: "Include /etc/ssh/sshd_config.d/*.conf\n", DROPIN: ""},
            unreadable={DROPIN: "only root"},
        ).uses_pam


@pytest.mark.parametrize(
    "files",
    [
        {MAIN: "Include sshd_config.d/*.conf\n" * 300, DROPIN: ""},
        {MAIN: "Include sshd_config.d/*.conf\n" * 200, **{f"{DROPIN}{n}": "" for n in range(400)}},
        {MAIN: "Include sshd_config.d/*\n", **{f"{DROPIN}{n}": "" for n in range(300)}},
    ],
)
def test_number_of_includes_is_bounded(files):
    """Each goes through all names of a folder; what was left out may say UsePAM."""
    with pytest.raises(UnknownFact, match="more files than are read"):
        assert sshd(files).uses_pam


def test_file_that_includes_itself_is_read_once():
    reader = FakeReader({MAIN: f"Include {MAIN}\n" * 50})
    assert not Facts(reader).sshd.uses_pam
    assert reader.seen.count(MAIN) < 4


def test_record_that_is_shared_keeps_of_sshd_config_only_where_pam_is_set():
    content = (
        "Include /etc/ssh/sshd_config.d/*.conf\nAllowUsers alice\nMatch User bob\n  UsePAM no\n"
    )

    assert (
        shared_text(MAIN, content)
        == "Include /etc/ssh/sshd_config.d/*.conf\n\nMatch all\n  UsePAM no\n"
    )
