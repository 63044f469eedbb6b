"""fstab as bytes: both readers, byte-exact printing, edits that change one span, and refusals."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hosttune.errors import Refused
from hosttune.facts.storage.fstab_options import set_atime
from hosttune.facts.storage.fstab_readers import (
    STALE,
    Fields,
    read_getmntent,
    read_libmount,
    split_options,
)
from hosttune.resources.storage.fstab_document import (
    Edit,
    LineKind,
    clean_path,
    edit_lines,
    edit_options,
    insert_line,
    line_problem,
    parse,
    remove_line,
    splice_edits,
)

TMP_LINE = (
    "tmpfs /tmp tmpfs mode=1777,nosuid,nodev,size=8G,nofail,x-systemd.before=local-fs.target 0 0"
)

# One sample of each trait that real files have.
SAMPLES = {
    "ubuntu": b"# /etc/fstab\n\nUUID=1\t/\text4\tdefaults\t0 1\n/swap none swap sw 0 0\n/dev/sdb1 /data ext4 rw 0 2\n",
    "no final newline": b"/dev/sdb1 /data ext4 defaults 0 2",
    "only a comment": b"# UNCONFIGURED FSTAB FOR BASE SYSTEM\n",
    "empty": b"",
    "crlf": b"# dos\r\n/dev/sdb1 /data xfs defaults 0 0\r\n\r\n",
    "mixed ends": b"/dev/sda1 / ext4 defaults 0 1\r\n/dev/sdb1 /data ext4 defaults 0 2\n",
    "three fields": b"/dev/sdb1\t/data\text4\n",
    "three fields, blanks after": b"/dev/sdb1 /data ext4  \n",
    "four fields": b"/dev/sdb1 /data ext4 defaults\n",
    "trailing comment": b"/dev/sdb1 /data ext4 defaults 0 2 # the big one\n",
    "octal": b"/dev/sdb1 /my\\040data ext4 defaults 0 2\nLABEL=a\\040b /data ext4 relatime 0 2\n",
    "latin-1": b"# donn\xe9es\n/dev/sdb1 /donn\xe9es ext4 defaults 0 2\n",
    "utf-8": "/dev/sdb1 /données ext4 defaults 0 2\n".encode(),
    "nbsp is data": "/dev/sdb1\u00a0x /data ext4 defaults 0 2\n".encode(),
    "vertical tab is data": b"/dev/sdb1\x0bx /data ext4 defaults 0 2\n",
    "hash in a source": b"sshfs#u@h:/x /mnt/x#y fuse defaults 0 0\n",
    "quotes": b'/dev/sdb1 /data ext4 context="system_u:object_r:x:s0:c1,c2",relatime 0 2\n',
    "quoted label": b'LABEL="data" /data ext4 defaults 0 2\n',
    "escaped comma": b"overlay /data overlay lowerdir=/a\\,b,upperdir=/u,workdir=/w 0 0\n",
    "empty items": b"/dev/sdb1 /data ext4 ,rw,,errors=remount-ro, 0 2\n",
    "contradiction": b"/dev/sdb1 /data ext4 noatime,relatime,nodiratime,noatime 0 2\n",
    "btrfs": b"UUID=1 / btrfs subvol=@ 0 1\nUUID=1 /data btrfs subvol=@data,compress=zstd:1 0 0\n",
    "network": b"nas:/x /nfs nfs4 rw,_netdev 0 0\n//nas/x /cifs cifs rw 0 0\n[::1]:/x /v6 nfs4 rw 0 0\n",
    "slashes": b"/dev/sdb1 /data//x/ ext4 defaults 0 2\n",
    "cloud-init": b"/dev/sdb1 /data auto defaults,nofail,comment=cloudconfig 0 2\n",
    "zfs and lustre": b"pool/data /zfs zfs defaults 0 0\n10.0.0.1@tcp:/fs /lustre lustre flock,_netdev 0 0\n",
    "passno without freq is a comment to one reader": b"/dev/sdb1 /data ext4 defaults # hi\n",
    "size with a comment after field 4": b"tmpfs /tmp tmpfs size=64M # added\n",
    "glued number": b"/dev/sdb1 /data ext4 defaults 0 2#hi\n",
    "one word": b"BOOT\n",
    "two words": b"a b\n",
    "bsd": b"/dev/ada0p2 / ufs rw 1 1\nfdesc /dev/fd fdescfs rw 0 0\n",
    "solaris": b"/dev/dsk/c0d0s0 /dev/rdsk/c0d0s0 / ufs 1 no -\n",
    "byte order mark": b"\xef\xbb\xbf/dev/sdb1 /data ext4 defaults 0 2\n",
    "nul": b"/dev/sdb1 /data ext4 defa\0ults 0 2\n",
    "lone cr": b"# old mac\r/dev/sdb1 /data ext4 defaults 0 2\r",
    "long": b"/dev/sdb1 /data ext4 x-a=" + b"a" * 4200 + b" 0 2\n",
    "leading blanks": b"  \t/dev/sdb1   /data\text4 \t defaults  0\t2  \n",
    "backslash at the end": b"/dev/sdb1 /data ext4 defaults\\\n 0 2\n",
    "signed number": b"/dev/sdb1 /data ext4 defaults +0 -1\n",
    "autofs ignored": b"/etc/auto /data autofs ignore 0 0\n",
    "option without a name": b"/dev/sdb1 /data ext4 rw,=x 0 0\n",
    "selinux": b'/dev/sdb1 /data xfs seclabel,context="system_u:object_r:nfs_t:s0:c0,c9",nodev 0 0\n',
    "quoted label with an escape": b'LABEL="my\\040data" /data ext4 defaults 0 2\nLABEL="a b" /c ext4 rw 0 2\n',
    "crlf of four fields": b"/dev/sdb1 /data ext4 defaults\r\n/dev/sdc1 /more ext4 defaults \r\n",
    "blank at the end of the file": b"# x\n/dev/sdb1 /data ext4 defaults \t",
    "numbers that are none": b"/dev/sdb1 /data ext4 defaults 0x1 0\n/dev/sdc1 /more ext4 rw 99999999999 0\n",
    "ceph and beegfs": b"10.0.0.1:6789:/ /ceph ceph name=x,secretfile=/etc/s,_netdev 0 2\nbeegfs_nodev /bee beegfs rw 0 0\n",
    "bind and automount": b"/data/x /srv none bind 0 0\nUUID=1 /data xfs noauto,x-systemd.automount 0 0\n",
    "three fields and a blank at the end of the file": b"# x\n/dev/sdb1 /data ext4 ",
    "crlf without a last line end": b"UUID=1 / ext4 rw 0 1\r\n/a /data none bind",
    "carriage return among blanks": b"/dev/sdb1 /data \r\r\n",
    "escaped backslash before a comma": b"/dev/sdb1 /data ext4 defaults\\134,rw 0 2\n/dev/sdc1 /more ext4 rw\\134 0 2\n",
    "btrfs pool": b"UUID=1 /data btrfs subvol=@a,relatime 0 0\nUUID=1 /home btrfs subvol=@b 0 0\n",
    "openmediavault": b"# >>> [openmediavault]\n/dev/sdb1 /srv/d ext4 rw 0 2\n# <<< [openmediavault]\n/dev/sdc1 /e xfs rw 0 0\n",
    "glued lines": b"/dev/sdb1 /data ext4 defaults 0 2UUID=7 /more xfs rw 0 0\n",
    "duplicates": b"/dev/sdb1 /data ext4 rw 0 2\n/dev/sdc1 /data/ ext4 rw 0 2\n/dev/sdd1 /more xfs rw 0 0\n",
    "same target twice, both by hand": b"/dev/sdb1 /media/a vfat noauto 0 0\n/dev/sdc1 /media/a ext4 noauto 0 0\n",
    "upper case": b"/dev/sdb1 /data ext4 NOATIME 0 2\n",
    "windows blanks": "/dev/sdb1\u2003/data ext4 defaults 0 2\n".encode(),
}


def editable(data: bytes) -> list[str]:
    return [line.target for line in parse(data).lines if line.target.startswith("/")]


def assert_one_span(before: bytes, after: bytes, number: int) -> None:
    """The files differ in one line, and there in the options alone."""
    old, new = parse(before).lines, parse(after).lines
    assert [line.number for line, other in zip(old, new, strict=True) if line != other] == [number]
    one, other = old[number - 1], new[number - 1]
    parts = []
    for line in (one, other):
        start, end = line.spans[3] if len(line.spans) > 3 else (len(line.text),) * 2
        # a fourth field ends the line
        parts.append((line.text[:start].rstrip(), line.text[end:], line.ending))
    assert parts[0] == parts[1]
    assert one.options != other.options


def noatime(options: str) -> str:
    return set_atime(options, "noatime")


@pytest.mark.parametrize("name", SAMPLES)
def test_parse_of_any_sample_prints_the_same_bytes(name):
    assert bytes(parse(SAMPLES[name])) == SAMPLES[name]


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=200)
    | st.text(alphabet='/ab \t\n\r#,="\\0124\0', max_size=120).map(str.encode)
)
@example(b"\r\r\n")
@example(b"a\r")
def test_parse_of_any_bytes_prints_the_same_bytes(data):
    document = parse(data)

    assert bytes(document) == data
    assert [line.number for line in document.lines] == list(range(1, len(document.lines) + 1))


@pytest.mark.parametrize("name", SAMPLES)
def test_noatime_changes_one_span_or_is_refused_and_comes_back(name):
    data = SAMPLES[name]
    for target in editable(data):
        try:
            new = edit_options(parse(data), target, noatime)
        except Refused:
            continue
        before, after = parse(data), parse(new)
        changed = [(a, b) for a, b in zip(before.lines, after.lines, strict=True) if a != b]
        assert len(changed) == 1
        old = changed[0][0].options
        assert changed[0][1].options == noatime(old)
        assert_one_span(data, new, changed[0][0].number)
        assert edit_options(after, target, noatime) == new
        assert edit_options(after, target, lambda _, old=old: old) == data


@pytest.mark.parametrize("name", SAMPLES)
def test_added_line_is_read_by_both_and_its_removal_gives_the_old_bytes(name):
    data = SAMPLES[name]
    line = TMP_LINE.replace("/tmp", "/hosttune")
    if parse(data).problems:
        with pytest.raises(Refused):
            insert_line(parse(data), line)
        return

    new = insert_line(parse(data), line)

    assert new.startswith(data)
    assert parse(new).entries[-1].target == "/hosttune"
    assert remove_line(parse(new), line) == data


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a /b ext4", Fields(b"a", b"/b", b"ext4")),
        (b"a /b ext4 rw 1", Fields(b"a", b"/b", b"ext4", b"rw", 1)),
        (b"a /b ext4 rw 1 2 # x", Fields(b"a", b"/b", b"ext4", b"rw", 1, 2)),
        (b"a /b\\040c\\043 ext4 rw", Fields(b"a", b"/b c#", b"ext4", b"rw")),
        (b"a /b\\\\c ext4 rw", Fields(b"a", b"/b\\\\c", b"ext4", b"rw")),
        (b"a /b ext4 rw\r", Fields(b"a", b"/b", b"ext4", b"rw")),
        (b"a /b", None),
        (b"a /b ext4 rw # x", None),
        (b"a /b ext4 rw 0 two", None),
        (b"a /b ext4 rw 0 2#x", None),
        (b"a /b ext4 =x 0 0", None),
    ],
)
def test_libmount_rule_on_a_line_gives_its_entry(text, expected):
    assert read_libmount(text) == expected


@pytest.mark.parametrize(
    ("digits", "number"),
    [
        ("007", 7), ("-1", -1), ("2147483648", -(1 << 31)), ("4294967297", 1), ("9223372036854775807", -1),
        ("99999999999999999999", -1), ("-99999999999999999999", 0), ("0000000000000000000000000000001", 1),
    ],
)  # fmt: skip
def test_number_of_a_line_is_what_c_makes_of_it(digits, number):
    assert read_libmount(f"a /b ext4 rw {digits}".encode()).freq == number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a /b autofs ignore \r", None),
        (b"a /b autofs rw,ignore \r", None),
        (b"a /b ext4 ignore \r", Fields(b"a", b"/b", b"ext4", b"ignore", STALE, STALE)),
        (b"a /b autofs rw \r", Fields(b"a", b"/b", b"autofs", b"rw", STALE, STALE)),
    ],
)
def test_getmntent_rule_hides_what_autofs_is_to_ignore_and_nothing_else(text, expected):
    assert read_getmntent(text) == expected


@pytest.mark.parametrize(
    ("options", "is_written", "items", "is_balanced"),
    [
        (b"a,b", False, (b"a", b"b"), True),
        (b"a\\,b,c", False, (b"a\\,b", b"c"), True),
        (b"a\\,b,c", True, (b"a\\,b", b"c"), True),
        (b"a\\134,b", False, (b"a\\134", b"b"), True),
        (b"a\\134,b", True, (b"a\\134,b",), True),
        (b'x="a,b",c', False, (b'x="a,b"', b"c"), True),
        (b'x="a,b', False, (b'x="a,b',), False),
        (b'x=\\"a,b', False, (b'x=\\"a', b"b"), True),
    ],
)
def test_options_are_parted_by_commas_that_nothing_hides(options, is_written, items, is_balanced):
    assert split_options(options, is_written=is_written) == (items, is_balanced)


def test_comment_behind_blanks_is_one_to_both_readers():
    lines = parse(b" # /dev/x /data ext4 rw 0 0\n\t#y\r\n \t\n#z").lines
    assert [line.kind for line in lines] == [
        LineKind.COMMENT,
        LineKind.COMMENT,
        LineKind.BLANK,
        LineKind.COMMENT,
    ]
    assert {(line.libmount, line.getmntent) for line in lines} == {(None, None)}


def test_getmntent_rule_on_a_line_past_its_buffer_loses_the_rest():
    line = b"a /b ext4 x-a=" + b"a" * 4200 + b" 0 2"

    assert read_getmntent(line).passno == 0
    assert read_libmount(line).passno == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"/dev/a /data ext4 rw 0 0\n/dev/b /data ext4 rw 0 0\n", "line 2 too"),
        (b"/dev/a /data ext4 rw 0 0\n/dev/b /data/ ext4 rw 0 0\n", "line 2 too"),
        (SAMPLES["byte order mark"], "byte order mark"),
        (SAMPLES["nul"], "NUL"),
        (b"/dev/a /data ext4 rw 0 0\r# x\n", "carriage return"),
        (b'/dev/a /data ext4 context="a,b 0 0\n', "open quote"),
        (SAMPLES["long"], "longer than"),
        (b"/dev/a /data ext4 rw # x\n", "drops this line"),
        (b"/dev/a\\043 /data ext4 rw 0 0\n", "differently"),
        (b"/dev/a /data ext4 rw\r\n", "differently"),
        (b"/dev/a /data ext4 rw ", "stale memory"),
        (b"/dev/a /data ext4 rw 0 2UUID=3 /b xfs rw 0 0\n", "glued to the number in field 6"),
        (b"/dev/a /data ext4 rw, nodev 0 0\n", "a blank among the options"),
        (b"/dev/a /data ext4 rw 0 two\n", "second number"),
        (b"/dev/a /data ext4 NOATIME 0 0\n", "case-sensitive"),
        (b"x" * ((1 << 20) + 1) + b"\n/dev/a /data ext4 rw 0 0\n", "larger than 1 MiB"),
        (b"/dev/a /data ext4 rw,x-a=\\ 0 0\n", "does not separate"),
    ],
)
def test_edit_of_a_doubtful_line_is_refused_with_the_reason(data, words):
    with pytest.raises(Refused, match=words) as caught:
        edit_options(parse(data), "/data", noatime)

    assert caught.value.hint


def test_edit_of_a_doubtful_line_names_its_number():
    data = b"# x\n/dev/a /data ext4 rw # x\n"

    with pytest.raises(Refused, match=r"^/etc/fstab:2: "):
        edit_options(parse(data), "/data", noatime)


def test_edit_that_would_grow_a_line_past_the_limit_is_refused():
    data = b"/dev/a /data ext4 x-a=" + b"a" * 3970 + b" 0 2\n"

    with pytest.raises(Refused, match="would be longer"):
        edit_options(parse(data), "/data", noatime)


def test_edit_of_a_target_without_a_line_is_refused():
    with pytest.raises(Refused, match="no line for /data"):
        edit_options(parse(b""), "/data", noatime)


@pytest.mark.parametrize("options", ["a b", "a\nb", "", "a\0b"])
def test_options_that_do_not_fit_into_a_field_are_refused(options):
    with pytest.raises(Refused):
        edit_options(parse(b"/dev/a /data ext4 rw 0 0\n"), "/data", lambda _: options)


def test_swap_is_never_found_by_its_target():
    document = parse(b"/dev/a swap swap sw 0 0\n/dev/b none swap sw 0 0\n/swap /swap swap sw 0 0\n")

    assert document.at("/swap") == document.at("none") == document.at("") == ()


def test_three_field_line_gets_its_fourth_field_with_the_blank_of_its_neighbours():
    assert (
        edit_options(parse(b"/dev/a\t/data\text4\n"), "/data", noatime)
        == b"/dev/a\t/data\text4\tnoatime\n"
    )


def test_insert_into_a_crlf_file_takes_its_line_ends():
    assert insert_line(parse(b"# dos\r\n"), "a /b ext4 rw 0 0") == b"# dos\r\na /b ext4 rw 0 0\r\n"


def test_insert_after_a_missing_final_newline_does_not_glue_lines():
    assert insert_line(parse(b"a /b ext4 rw"), "c /d ext4 rw") == b"a /b ext4 rw\nc /d ext4 rw"


def test_insert_after_a_last_line_of_crlf_keeps_its_options_for_both_readers():
    data = b"UUID=1 / ext4 rw 0 1\r\n/a /b none bind"

    after = parse(insert_line(parse(data), TMP_LINE))

    assert after.data == data + b"\n" + TMP_LINE.encode()
    assert [line.kind for line in after.lines] == [LineKind.ENTRY] * 3
    assert after.lines[1].getmntent.options == b"bind"


@pytest.mark.parametrize(
    "line", ["/dev/x /data ext4", "/dev/x /data ext4 ", "/dev/x\t/data\t\text4 \t"]
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_fourth_field_of_a_line_with_blanks_behind_it_is_read_by_both_and_goes_without_a_trace(
    line, end
):
    data = (line + end).encode()
    new = edit_options(parse(data), "/data", lambda _: "noatime")

    (entry,) = parse(new).lines
    assert entry.kind is LineKind.ENTRY
    assert entry.fields.options == b"noatime"
    assert edit_options(parse(new), "/data", lambda _: "") == data


def test_insert_of_a_target_that_has_a_line_is_refused():
    with pytest.raises(Refused):
        insert_line(parse(b"a /tmp ext4 rw 0 0\n"), TMP_LINE)


@pytest.mark.parametrize(
    "line", ["", "# x", "a b", "a /b ext4 rw # x", "a /b ext4 rw 0 0\nc /d ext4 rw 0 0"]
)
def test_insert_of_what_is_no_entry_is_refused(line):
    with pytest.raises(Refused):
        insert_line(parse(b""), line)


def test_remove_of_a_line_that_was_changed_is_refused():
    with pytest.raises(Refused, match="no lines like"):
        remove_line(parse(b"tmpfs /tmp tmpfs size=9G 0 0\n"), TMP_LINE)


def test_remove_keeps_what_others_added_after_it():
    data = insert_line(parse(b"a /b ext4 rw"), "c /d ext4 rw") + b"\ne /f ext4 rw\n"

    assert remove_line(parse(data), "c /d ext4 rw") == b"a /b ext4 rw\ne /f ext4 rw\n"


@pytest.mark.parametrize(
    ("data", "owner"),
    [
        (SAMPLES["cloud-init"], "cloud-init"),
        (b"#VAGRANT-BEGIN\n/dev/a /data ext4 rw 0 0\n#VAGRANT-END\n", "Vagrant"),
        (b"#VAGRANT-BEGIN\n#VAGRANT-END\n/dev/a /data ext4 rw 0 0\n", ""),
        (b"/dev/a /data ext4 x-comment=cloudconfig 0 0\n", ""),
    ],
)
def test_owner_of_a_line_is_who_rewrites_it(data, owner):
    assert parse(data).at("/data")[0].owner == owner


@pytest.mark.parametrize(
    "comment",
    [
        "# Ansible managed: fstab.j2 modified by root",
        "# {{ ansible_managed }}",
        "# managed by Puppet",
    ],
)
def test_header_of_a_manager_is_noted(comment):
    assert parse(comment.encode() + b"\n").manager.comment == comment.strip("# ")


def test_header_of_an_installer_is_no_manager():
    assert parse(b"# / was on /dev/sda2 during curtin installation\n").manager is None


def test_line_without_a_problem_has_none():
    document = parse(SAMPLES["ubuntu"])

    assert [line_problem(document, line) for line in document.entries] == [None, None, None]


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("/a//b/", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/", "/"),
        ("/../a", "/a"),
        ("none", "none"),
        ("", ""),
    ],
)
def test_clean_path_of_a_target_is_comparable(path, clean):
    assert clean_path(path) == clean


def test_line_that_cannot_be_told_apart_is_not_edited_by_its_number_either():
    document = parse(
        b"/dev/sdb1 /data ext4 rw 0 2\n/dev/sdc1 /data xfs rw 0 0\n/dev/sdd1 /x xfs rw 0 0\n"
    )
    for number in (1, 2):
        with pytest.raises(Refused, match="/data"):
            edit_lines(document, {number: "noatime"})
    assert b"/x xfs noatime" in edit_lines(document, {3: "noatime"})


@pytest.mark.parametrize(
    "text",
    [
        b"/dev/sdb1 /data ext4 relatime 0 2",  # other options than those that were asked for
        b"/dev/sdb1 /other ext4 noatime 0 2",
        b"/dev/sdb1 /data xfs noatime 0 2",
        b"/dev/sdb1 /data ext4 noatime 0 1",
        b"# /dev/sdb1 /data ext4 noatime 0 2",
        b"",
        b"/dev/sdb1 /data ext4 noatime 0 2\n/dev/sdc1 /y xfs rw 0 0",
    ],
)
def test_edit_that_reads_as_anything_else_is_refused(text):
    document = parse(b"/dev/sdb1 /data ext4 rw 0 2\n/dev/sdd1 /x xfs rw 0 0\n")
    with pytest.raises((Refused, ValueError)):
        splice_edits(document, {1: Edit(b"noatime", text)})
    meant = splice_edits(document, {1: Edit(b"noatime", b"/dev/sdb1 /data ext4 noatime 0 2")})
    assert meant == document.data.replace(b"rw 0 2", b"noatime 0 2")


def test_options_whose_quote_is_never_closed_are_not_written():
    document = parse(b"/dev/sdb1 /data ext4 rw 0 2\n")
    with pytest.raises(Refused):
        insert_line(document, '/dev/sdc1 /x ext4 context="a,b 0 0')
    with pytest.raises(Refused):
        edit_lines(document, {1: 'rw,context="a,b'})
    assert b'context="a,b"' in insert_line(document, '/dev/sdc1 /x ext4 context="a,b" 0 0')
