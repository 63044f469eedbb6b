"""Option lists of fstab lines: one word changes, every other byte stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.errors import Refused
from hosttune.facts.storage.fstab_options import (
    ATIME_WORDS,
    has_secret,
    mask_options,
    masked_line,
    masked_text,
    set_atime,
    set_size,
    size_bytes,
    split_items,
)

GIB = 1 << 30


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", "noatime"),
        ("defaults", "defaults,noatime"),
        ("noatime", "noatime"),
        ("relatime", "noatime"),
        ("rw,relatime,nodev", "rw,noatime,nodev"),
        ("noatime,relatime", "noatime"),
        ("relatime,noatime", "noatime"),
        ("noatime,rw,noatime", "noatime,rw"),
        ("strictatime,lazytime,nodiratime", "noatime,lazytime,nodiratime"),
        ("atime,norelatime,nostrictatime", "noatime"),
        ("a,,b", "a,,b,noatime"),
        (",a", ",a,noatime"),
        ("a,", "a,noatime"),
        ('context="u:r:t:s0:c1,c2"', 'context="u:r:t:s0:c1,c2",noatime'),
        ('x-a="relatime,b"', 'x-a="relatime,b",noatime'),
        ("lowerdir=/a\\,relatime", "lowerdir=/a\\,relatime,noatime"),
        ("x-systemd.device-timeout=5,nofail", "x-systemd.device-timeout=5,nofail,noatime"),
    ],
)
def test_set_atime_on_options_leaves_exactly_one_word(options, expected):
    assert set_atime(options, "noatime") == expected
    assert set_atime(expected, "noatime") == expected


@given(
    st.lists(
        st.sampled_from([*ATIME_WORDS, "defaults", "rw", "", 'a="b,c"', "x\\,y", "nodiratime"])
    )
)
def test_set_atime_on_any_options_keeps_all_other_items_in_order(parts):
    options = ",".join(parts)

    new = set_atime(options, "noatime")

    kept = [item for item in split_items(new) if item not in ATIME_WORDS and item]
    assert kept == [item for item in split_items(options) if item not in ATIME_WORDS and item]
    assert [item for item in split_items(new) if item in ATIME_WORDS] == ["noatime"]


@pytest.mark.parametrize("options", ["NOATIME", "rw,RelAtime,nodev"])
def test_set_atime_on_a_word_in_upper_case_is_refused(options):
    with pytest.raises(Refused, match="case-sensitive") as caught:
        set_atime(options, "noatime")

    assert caught.value.hint.startswith("write `")


@pytest.mark.parametrize("options", ['a="b', "rw\\", r"defaults\134"])
def test_set_atime_on_options_that_swallow_a_comma_is_refused(options):
    with pytest.raises(Refused):
        set_atime(options, "noatime")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("mode=1777,size=2G,nodev", "mode=1777,size=16G,nodev"),
        ("size=10%,size=20%", "size=16G"),
        ("defaults", "defaults,size=16G"),
    ],
)
def test_set_size_on_options_leaves_exactly_one_size(options, expected):
    assert set_size(options, "16G") == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("rw", 32 * GIB),
        ("size=8G", 8 * GIB),
        ("size=8g", 8 * GIB),
        ("size=10%", 64 * GIB // 10),
        ("size=1024k", 1 << 20),
        ("size=1T", 1 << 40),
        ("size=10000", 10000),
        ("size=0", 0),
        ("size=1G,size=2G", 2 * GIB),
        ("size=64MB", None),
        ("size=50%%", None),
        ("size=", None),
    ],
)
def test_size_of_a_tmpfs_is_what_the_kernel_makes_of_it(options, expected):
    assert size_bytes(options, 64 * GIB) == expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("username=u,password=hunter2,rw", "username=u,password=***,rw"),
        ("pass=hunter2", "pass=***"),
        ("credentials=/root/.smb", "credentials=/root/.smb"),
        ("username=u%hunter2", "username=u%***"),
        ('password="hun,ter2",rw', "password=***,rw"),
        ("password=hun\\,ter2,rw", "password=***,rw"),
        ("defaults,noatime", "defaults,noatime"),
    ],
)
def test_masked_options_hide_passwords_alone(text, shown):
    assert mask_options(text) == shown
    assert has_secret(text) == (text != shown)


def test_masked_line_hides_the_password_of_a_url_and_keeps_the_blanks():
    line = "https://u:hunter2@dav/x\t/mnt  davfs password=hunter2 0 0"

    assert masked_line(line) == "https://u:***@dav/x\t/mnt  davfs password=*** 0 0"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("//n/s /m cifs password= s3cr 0 0", "//n/s /m cifs password=*** *** 0 0"),
        ("//n/s /m cifs password = s3cr 0 0", "//n/s /m cifs password = *** 0 0"),
        ("//n/s /m cifs rw,password =s3cr 0 0", "//n/s /m cifs rw,password *** 0 0"),
        (
            "//n/s /m\tcifs rw,password=my s3cr word\t0 0",
            "//n/s /m\tcifs rw,password=*** *** ***\t0 0",
        ),
        ("//n/s /m cifs user=me%my s3cr 0 0 # nas", "//n/s /m cifs user=me%*** *** 0 0 # nas"),
        ("//n/s /m cifs password=s3cr # nas", "//n/s /m cifs password=*** # nas"),
        (
            "//n/s /m cifs password=s3cr,noatime 0 0 # nas",
            "//n/s /m cifs password=***,noatime 0 0 # nas",
        ),
        (
            "//n/s /m cifs credentials=/root/.smb nofail 0 0",
            "//n/s /m cifs credentials=/root/.smb nofail 0 0",
        ),
        ("UUID=1 /home/token ext4 defaults 0 0", "UUID=1 /home/token ext4 defaults 0 0"),
    ],
)
def test_what_a_blank_cuts_off_from_a_password_is_not_shown(line, shown):
    assert masked_text(line) == shown
