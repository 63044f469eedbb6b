"""Text from outside cannot steer a terminal; lines keep to its width; secrets stay hidden."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.host.masking.cleaned import clean, make_safe
from hosttune.host.masking.secrets import mask_secrets as mask
from hosttune.numbers import say_count
from hosttune.views import terminal
from hosttune.views.masking import mask_data
from hosttune.views.page import Page
from hosttune.views.terminal import Screen, align_columns, join_words, pad_text, width_of, wrap_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\u2066b\u2069c\u200bd\ufeff", "a\\u2066b\\u2069c\\u200bd\\ufeff"),
        ("x\u2028y", "x\\u2028y"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), "caf\\xe9"),
        ("Grüße, 世界", "Grüße, 世界"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_safe_escapes_what_could_steer(text, expected):
    assert make_safe(text) == expected


@given(st.text(st.characters(exclude_categories=())))
def test_safe_leaves_nothing_unprintable(text):
    assert make_safe(text).isprintable()


@given(st.text(), st.integers(10, 90))
def test_wrapped_keeps_every_word_and_the_width(text, columns):
    lines = wrap_text(text, columns, first="- ", rest="  ")
    assert " ".join(line[2:] for line in lines).split() == text.split()
    assert all(width_of(line) <= columns or len(line.split()) <= 2 for line in lines)


def test_wrapped_never_breaks_a_path():
    path = "/etc/systemd/system/tmp.mount.d/60-hosttune-storage-tmp-tmpfs.conf"
    assert path in wrap_text(f"it is in {path} now", 40)


def test_width_of_wide_and_combining_characters():
    assert (width_of("ab"), width_of("世界"), width_of("e\u0301")) == (2, 4, 1)
    assert pad_text("世", 4) == "世  "


def test_columns_stay_within_bounds_of_readability():
    assert [Screen(width).columns for width in (10, 80, 300)] == [40, 80, 100]


def test_columned_goes_below_where_there_is_no_room():
    rows = [("a-long-name-of-a-rule", "text that says something at some length")]
    assert align_columns(rows, Screen(48), indent=2) == [
        "  a-long-name-of-a-rule",
        "      text that says something at some length",
    ]
    assert align_columns(rows, Screen(80), indent=2)[0].startswith(
        "  a-long-name-of-a-rule  text that says"
    )


def test_columned_of_nothing_is_nothing():
    assert align_columns([], Screen()) == []


def test_paint_adds_no_colour_unless_allowed():
    assert Screen().paint("x", "red") == "x"
    assert Screen(colour=True).paint("x", "bold", "red") == "\x1b[1;31mx\x1b[0m"
    assert Screen(colour=True).paint("", "red") == ""


def test_counted_and_listed_read_as_english():
    assert [say_count(n, "change") for n in (0, 1, 2)] == ["0 changes", "1 change", "2 changes"]
    assert [join_words(list(items)) for items in ("", "a", "ab", "abc")] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rw,username=eve,password=hunter2,vers=3.1", "rw,username=eve,password=(masked),vers=3.1"),
        ("uid=0,pass=a=b,ro", "uid=0,pass=(masked),ro"),
        ("password2='x y',ro", "password2='(masked)',ro"),
        ("DB_PASSWORD: s3cret", "DB_PASSWORD: (masked)"),
        ("--token=abc", "--token=(masked)"),
        ("x api_key=abc api-key=def", "x api_key=(masked) api-key=(masked)"),
        ("password=a b, c", "password=(masked)"),
        ("0 3 * * * root mysqldump -phunter2 db", "0 3 * * * root mysqldump -p(masked) db"),
        ("https://eve:hunter2@host/x", "https://(masked)@host/x"),
        ("eve:hunter2@nas:/export", "eve:(masked)@nas:/export"),
        ("credentials=/root/.smb", "credentials=/root/.smb"),
        ("UUID=1234 /data ext4 defaults 0 2", "UUID=1234 /data ext4 defaults 0 2"),
        ("file:/etc/fstab line 3", "file:/etc/fstab line 3"),
        ("bypass=1,passno=2", "bypass=1,passno=2"),
        ("/etc/passwd: Not a directory", "/etc/passwd: Not a directory"),
        ("/etc/passwd=x", "/etc/passwd=(masked)"),
    ],
)
def test_mask_hides_secrets_alone(text, expected):
    assert mask(text) == expected


def test_masked_reaches_every_text_of_a_document():
    assert mask_data({"a": ["password=x", 1], "b": {"c": None}}) == {
        "a": ["password=(masked)", 1],
        "b": {"c": None},
    }


def test_shown_masks_and_escapes():
    assert clean("password=x\x1b[2J") == "password=(masked)"
    assert clean("a\x1b") == "a\\x1b"


def test_page_spells_commands_as_they_have_to_be_typed():
    page = Page(program="/opt/h/bin/hosttune", sudo="sudo ", options=" --policy p.yaml")
    assert page.look("plan") == "/opt/h/bin/hosttune plan --policy p.yaml"
    assert page.act("apply --yes") == "sudo /opt/h/bin/hosttune apply --yes --policy p.yaml"
    assert page.todo("first `hosttune undo`, then sudo hosttune apply --yes.") == (
        "first `sudo /opt/h/bin/hosttune undo --policy p.yaml`, then sudo /opt/h/bin/hosttune apply --policy p.yaml --yes."
    )
    assert page.todo("sudo hosttune health --learn, or hosttune status") == (
        "sudo /opt/h/bin/hosttune health --learn, or /opt/h/bin/hosttune status"
    )
    assert (
        page.todo("an image: hosttune apply --root FOLDER --yes")
        == "an image: hosttune apply --root FOLDER --yes"
    )
    assert (
        page.todo("see /usr/bin/hosttune plan and hosttune-x")
        == "see /usr/bin/hosttune plan and hosttune-x"
    )
    record = Page(options=" --host r.json --policy p", aim=" --host r.json")
    assert (
        record.todo("see how the line is read: hosttune fstab")
        == "see how the line is read: hosttune fstab --host r.json"
    )
    record = Page(options=" --host r.json", can_apply=False)
    assert record.todo("hosttune plan --only a shows it; then sudo hosttune apply --yes") == (
        "hosttune plan --host r.json --only a shows it; then sudo hosttune apply --yes"
    )
    # typed here it would change this host, not that of the record
    other = Page(
        program="/opt/run", options=" --host r.json", aim=" --host r.json", can_apply=False
    )
    assert other.todo("hosttune apply --yes, then hosttune health") == (
        "sudo hosttune apply --yes, then /opt/run health --host r.json"
    )
    assert other.todo("sudo hosttune health --learn") == "sudo hosttune health --learn"
    assert record.todo(record.look("plan --only a")) == "hosttune plan --only a --host r.json"


def test_a_sentence_that_is_not_wrapped_is_measured_once(monkeypatch):
    """Without a terminal a line is as long as its sentence, and a record may make one of a
    megabyte.
    """
    measured = []
    monkeypatch.setattr(terminal, "width_of", lambda text: measured.append(len(text)) or len(text))
    assert len(wrap_text("word, " * 1000, 1 << 30)) == 1
    assert sum(measured) < 2 * len("word, " * 1000)


def test_columned_looks_at_each_row_a_few_times_however_many_there_are():
    class Counted(list):
        looks = 0

        def __getitem__(self, place):
            found = super().__getitem__(place)
            Counted.looks += len(found) if isinstance(place, slice) else 1
            return found

    rows = Counted([("rule", "says so"), ("", "and so")] * 300)
    assert len(align_columns(rows, Screen())) == 600
    assert Counted.looks < 10 * len(rows)
