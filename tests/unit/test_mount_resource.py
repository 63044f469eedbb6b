"""The atime mode of a mount: fstab and the live flag, whose it is to change, and the way back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hosttune.errors import Conflict
from hosttune.resources import address_kinds
from hosttune.resources.storage.mount_policy import View, find_other_mounts
from hosttune.values import (
    Action,
    Activation,
    Address,
    Change,
    HoldKind,
    Trigger,
    Unreadable,
    Verdict,
)
from tests.unit.storage_host import ROOT, StorageHost, mount_wish

LINE = "/dev/sdb1 /data ext4 defaults,nofail 0 2\n"
LIVE = "30 20 8:17 / /data rw,relatime - ext4 /dev/sdb1 rw"


STRICT = LIVE.replace(",relatime", "")


def live(source: str, device: str = "0:60 /") -> str:
    return f"30 20 {device} /data rw,relatime - {source} rw"


def host(fstab=LINE, mount=LIVE, **kwargs) -> StorageHost:
    return StorageHost(fstab, f"{ROOT}\n{mount}\n" if mount else ROOT, **kwargs)


def test_relatime_mount_gets_the_word_in_fstab_and_the_live_flag():
    finding = host().look(mount_wish("/data"))

    assert (finding.verdict, finding.hold) == (Verdict.DIFFERS, finding.hold.__class__())
    file, flag = finding.changes
    assert (file.address, file.before, file.after) == (
        Address("fstab", "/data"), "defaults,nofail", "defaults,nofail,noatime",
    )  # fmt: skip
    assert (file.activation, file.triggers) == (Activation.NOW, (Trigger("daemon-reload"),))
    assert file.details == (
        "--- /etc/fstab", "+++ /etc/fstab", "@@ -1 +1 @@",
        "-/dev/sdb1 /data ext4 defaults,nofail 0 2", "+/dev/sdb1 /data ext4 defaults,nofail,noatime 0 2",
    )  # fmt: skip
    assert (flag.address, flag.before, flag.after) == (
        Address("mount", "/data"),
        "relatime",
        "noatime",
    )


def test_applied_wish_is_ok_and_undo_gives_the_old_bytes_and_flags():
    machine = host()
    wish = mount_wish("/data")
    changes = machine.look(wish).changes

    machine.apply(changes)
    after = machine.look(wish)
    assert (after.verdict, after.changes) == (Verdict.OK, ())

    machine.undo(changes)
    assert machine.fstab == LINE
    assert machine.facts.mounts.at["/data"].atime == "relatime"


@pytest.mark.parametrize(
    ("fstab", "mount", "addresses"),
    [
        ("/dev/sdb1 /data ext4 noatime 0 2\n", LIVE, ["mount:/data"]),
        (LINE, LIVE.replace("relatime", "noatime"), ["fstab:/data"]),
        (
            "/dev/sdb1 /data ext4 noatime,relatime 0 2\n",
            LIVE.replace("relatime", "noatime"),
            ["fstab:/data"],
        ),
        ("/dev/sdb1 /data/ ext4\n", LIVE, ["fstab:/data", "mount:/data"]),
    ],
)
def test_each_place_is_changed_only_where_it_differs(fstab, mount, addresses):
    finding = host(fstab, mount).look(mount_wish("/data"))

    assert [str(change.address) for change in finding.changes] == addresses


@pytest.mark.parametrize(
    ("line", "words", "todo"),
    [
        ("/dev/sdb1 /data ext4 0 2", "`0` is where the options belong", "ext4 defaults 0"),
        (
            "/dev/sdb1 /data ext4 defaults;nofail 0 2",
            "only a comma parts options",
            "write defaults,nofail",
        ),
        ("UUID:aaaa /data ext4 defaults 0 2", "`UUID:aaaa` is no tag", "write UUID=aaaa"),
        (
            "UUID=\u201caaaa\u201d /data ext4 defaults 0 2",
            "is no plain dash or quote",
            'write UUID="aaaa"',
        ),
        (
            "/dev/nvmeOn1p1 /data ext4 defaults 0 2",
            "no kernel names a disk",
            "is /dev/nvme0n1p1 meant?",
        ),
    ],
)
@pytest.mark.parametrize("persistent_only", [False, True])
def test_line_whose_mount_fails_is_not_built_upon(line, words, todo, persistent_only):
    fstab = f"# mine\n{line}\n/dev/sdc1 /data/more ext4 rw 0 2\n"
    machine = host(fstab, None, persistent_only=persistent_only)

    finding = machine.look(mount_wish("/data"))

    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.DIFFERS,
        HoldKind.REFUSED,
        (),
    )
    assert finding.hold.detail.startswith("/etc/fstab:2: ")
    assert (words in finding.hold.detail, todo in finding.todo) == (True, True)
    assert [str(one.address) for one in machine.look(mount_wish("/data/more")).changes] == [
        "fstab:/data/more"
    ]


def test_line_that_would_grow_too_long_is_refused_with_its_number():
    finding = host(f"# mine\n/dev/sdb1 /data ext4 x-a={'a' * 3970} 0 2\n").look(mount_wish("/data"))

    assert finding.hold.detail == "/etc/fstab:2: the line would be longer than 4000 bytes"


def test_word_in_another_case_is_refused_with_its_line():
    finding = host("/dev/sdb1 /data ext4 NOATIME,nofail 0 2\n").look(mount_wish("/data"))

    assert (
        finding.hold.detail
        == "/etc/fstab line 1: mount options are case-sensitive: `NOATIME` fails the mount"
    )


def test_noatime_in_both_places_is_ok():
    finding = host("/dev/sdb1 /data ext4 noatime 0 2\n", LIVE.replace("relatime", "noatime")).look(
        mount_wish("/data")
    )

    assert finding.verdict is Verdict.OK


@pytest.mark.parametrize(
    ("fstab", "verdict"),
    [
        (LINE, Verdict.OK),
        ("/dev/sdb1 /data ext4 relatime 0 0\n", Verdict.OK),
        ("/dev/sdb1 /data ext4 noatime 0 0\n", Verdict.DIFFERS),
    ],
)
def test_relatime_is_what_a_line_without_a_word_means(fstab, verdict):
    assert host(fstab).look(mount_wish("/data", "relatime")).verdict is verdict


@pytest.mark.parametrize(
    ("fstab", "mount", "kind", "words"),
    [
        ("/dev/sdb1 /data ext4 strictatime 0 2\n", STRICT, HoldKind.OWNED, "`strictatime` in /etc/fstab line 1"),
        ("/dev/sdb1 /data ext4 atime 0 2\n", LIVE, HoldKind.OWNED, "explicit `atime`"),
        (LINE, STRICT, HoldKind.OWNED, "by hand"),
        ("/dev/sdb1 /data auto rw,comment=cloudconfig 0 2\n", LIVE, HoldKind.OWNED, "cloud-init (/etc/fstab line 1)"),
        ("", LIVE, HoldKind.OWNED, "which is not /etc/fstab"),
        (LINE + "/dev/sdc1 /data ext4 rw 0 0\n", LIVE, HoldKind.REFUSED, "line 2 too"),
        ("/dev/sdb1 /data ext4 rw # x\n" + LINE, LIVE, HoldKind.REFUSED, "line 1 too"),
        ("/dev/sdb1 /data ext4 rw # x\n", LIVE, HoldKind.REFUSED, "drops this line"),
        (LINE.replace("ext4", "xfs"), LIVE, HoldKind.REFUSED, "names xfs, but ext4"),
        ("/dev/sdb1 /data ext4 ro 0 2\n", LIVE, HoldKind.REFUSED, "read-only"),
        ("/srv /data none bind 0 0\n", live("ext4 /dev/sda2", "8:2 /srv"), HoldKind.REFUSED, "bind mount"),
        ("/srv /data none move 0 0\n", "", HoldKind.REFUSED, "bind mount"),
        ("nas:/x /data nfs4 rw 0 0\n", live("nfs4 nas:/x"), HoldKind.REFUSED, "nfs(5)"),
        ("p/d /data zfs rw 0 0\n", live("zfs p/d"), HoldKind.REFUSED, "zfs set"),
        ("x /data lustre rw 0 0\n", live("lustre x"), HoldKind.REFUSED, "server"),
        ("x /data vfat rw 0 0\n", live("vfat x"), HoldKind.REFUSED, "saves no writes"),
        ("x /data tmpfs rw 0 0\n", live("tmpfs x"), HoldKind.REFUSED, "tmpfs"),
        ("x /data proc rw 0 0\n", live("proc x"), HoldKind.REFUSED, "no file system on a disk"),
        ("/dev/sdb1 /data auto rw,noauto 0 0\n", "", HoldKind.REFUSED, "leaves the type open"),
        ("/dev/sdb1 /data ext4 rw,password=x 0 0\n", LIVE, HoldKind.REFUSED, "holds a password"),
        ('/dev/sdb1 /data ext4 x-a="b 0 0\n', LIVE, HoldKind.REFUSED, "open quote"),
        ("/dev/sdb1 /data ext4 x-a=b\\ 0 0\n", LIVE, HoldKind.REFUSED, "does not separate"),
    ],
)  # fmt: skip
def test_what_somebody_else_decided_is_held_with_its_reason(fstab, mount, kind, words):
    finding = host(fstab, mount).look(mount_wish("/data"))

    assert (finding.verdict, finding.hold.kind, finding.changes) == (Verdict.DIFFERS, kind, ())
    assert words in finding.hold.detail
    assert finding.todo or kind is HoldKind.REFUSED


def test_mode_that_somebody_set_by_hand_comes_with_the_command_that_goes_back():
    todo = host(LINE, STRICT).look(mount_wish("/data")).todo
    assert todo.startswith("ask who did it; to undo it: sudo mount ")
    assert todo.endswith(',relatime" /data')


@pytest.mark.parametrize(
    ("word", "now"),
    [("noatime", STRICT), ("relatime", LIVE.replace("relatime", "noatime")), ("noatime", LIVE)],
)
def test_mount_whose_mode_is_not_that_of_its_line_was_changed_since(word, now):
    finding = host(f"/dev/sdb1 /data ext4 {word} 0 2\n", now).look(mount_wish("/data"))
    assert any("changed since it was mounted" in line for line in finding.evidence)


def test_other_places_of_the_same_folder_are_named_with_who_keeps_them():
    def mount(**more):
        return SimpleNamespace(
            **{"id": 30, "device": "8:17", "root": "/", "target": "/data", **more}
        )

    def said(*holders, visible=()):
        others = tuple(mount(holder=one, atime="relatime") for one in holders)
        facts = SimpleNamespace(
            mounts=SimpleNamespace(visible=(mount(), *visible)),
            namespaces=SimpleNamespace(mounts=others),
        )
        return find_other_mounts(
            View("/data", "noatime", None, mount(), None, "relatime", True), facts
        )

    kept = "keep relatime until restarted, in a mount namespace of their own"
    assert said() == ()
    assert said("a", "b", "a", "c") == (f"a, b, c: {kept}",)
    assert said("a", "b", "c", "d", "e") == (f"a, b, c and 2 more: {kept}",)
    other, unlike = mount(id=31, target="/srv"), mount(id=32, root="/x", target="/x")
    assert said(visible=(other, unlike)) == ("also mounted at /srv, with a flag of its own",)


def test_mount_of_a_unit_names_the_unit_and_the_way_out():
    unit = "/etc/systemd/system/data.mount"
    finding = host("", files={unit: "[Mount]\n"}).look(mount_wish("/data"))

    assert (finding.hold.kind, finding.hold.detail) == (HoldKind.OWNED, f"the unit {unit}")
    assert "data.mount" in finding.todo


def purge(place):
    return {"/etc/crontab": f"0 3 * * * root find {place} -atime +30 -delete\n"}


@pytest.mark.parametrize("place", ["/data", "/data/", "/data/scratch", "/data/*/x", "/", "$PLACE"])
def test_what_is_purged_by_access_time_keeps_relatime(place):
    finding = host(files=purge(place)).look(mount_wish("/data"))

    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.DIFFERS,
        HoldKind.OWNED,
        (),
    )
    assert finding.hold.detail == "what ages files there by access time: /etc/crontab:1"


@pytest.mark.parametrize("place", ["/database", "/var/cache/man", "/dat"])
def test_purge_of_another_place_is_no_obstacle(place):
    assert host(files=purge(place)).look(mount_wish("/data")).changes


def test_purge_through_another_mount_of_the_same_disk_counts():
    bind = "31 20 8:17 /sets /scratch rw,relatime - ext4 /dev/sdb1 rw"
    finding = host(mount=f"{LIVE}\n{bind}", files=purge("/scratch")).look(mount_wish("/data"))

    assert finding.hold.kind is HoldKind.OWNED


@pytest.mark.parametrize("tree", ["/data/scratch", "/data/scratch/", "/data", "/"])
def test_purge_that_the_policy_declares_counts(tree):
    finding = host().look(mount_wish("/data", purged_trees=(tree,)))

    assert "that the policy declares" in finding.hold.detail


def test_purge_that_the_policy_declares_elsewhere_does_not_count():
    assert host().look(mount_wish("/data", purged_trees=("/scratch",))).changes


def test_job_that_the_policy_calls_harmless_does_not_count():
    wish = mount_wish("/data", harmless_jobs=("/etc/crontab",))

    assert host(files=purge("/data")).look(wish).changes


SPOOL = "/var/spool/cron/crontabs"
HIDDEN = {SPOOL: f"needs root: permission denied on {SPOOL}"}


def test_crontabs_that_cannot_be_read_leave_it_unknown():
    finding = host(unreadable=HIDDEN).look(mount_wish("/data"))

    assert (finding.verdict, finding.changes) == (Verdict.UNKNOWN, ())
    assert f"by access time ({HIDDEN[SPOOL]})" in finding.reason


def test_purge_that_is_known_holds_whatever_could_not_be_read():
    assert (
        host(files=purge("/data"), unreadable=HIDDEN).look(mount_wish("/data")).hold.kind
        is HoldKind.OWNED
    )


def test_crontabs_that_the_policy_calls_harmless_need_not_be_read():
    assert host(unreadable=HIDDEN).look(mount_wish("/data", harmless_jobs=(SPOOL,))).changes


def test_relatime_needs_no_look_at_jobs():
    strict = host(
        "/dev/sdb1 /data ext4 noatime 0 2\n", LIVE.replace("relatime", "noatime"), unreadable=HIDDEN
    )

    assert strict.look(mount_wish("/data", "relatime")).changes


def test_noatime_beside_a_purge_is_never_ok():
    noatime = host(
        "/dev/sdb1 /data ext4 noatime 0 2\n",
        LIVE.replace("relatime", "noatime"),
        files=purge("/data"),
    )
    finding = noatime.look(mount_wish("/data"))

    assert finding.verdict is Verdict.ADVICE
    assert (
        finding.reason
        == "/data is mounted noatime, and /etc/crontab:1 deletes files there by access time"
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [({"is_wsl": True}, "WSL"), ({"shares_init_mounts": False}, "mount namespace of its own")],
)
def test_place_that_cannot_be_reached_is_refused(facts, words):
    assert words in host(**facts).look(mount_wish("/data")).hold.detail


def test_container_has_nothing_to_do():
    assert host(is_container=True).look(mount_wish("/data")).verdict is Verdict.NOT_APPLICABLE


def test_target_that_is_nowhere_is_not_applicable():
    assert host("", "").look(mount_wish("/data")).verdict is Verdict.NOT_APPLICABLE


def test_line_that_is_not_mounted_is_edited_and_never_mounted():
    finding = host("/dev/sdb1 /data ext4 noauto 0 2\n", "").look(mount_wish("/data"))

    (change,) = finding.changes
    assert (change.address.kind, change.activation) == ("fstab", Activation.REMOUNT)


def test_other_root_is_changed_in_fstab_alone():
    machine = StorageHost(LINE, None, persistent_only=True)
    finding = machine.look(mount_wish("/data"))

    (change,) = finding.changes
    assert (change.address.kind, change.activation, change.triggers) == (
        "fstab",
        Activation.REBOOT,
        (),
    )
    machine.apply(finding.changes)
    assert machine.look(mount_wish("/data")).verdict is Verdict.OK


def test_difference_between_line_and_mount_is_told_and_not_repaired():
    mount = LIVE.replace("rw,relatime", "rw,nosuid,relatime")
    finding = host("/dev/sdb1 /data ext4 noatime,noexec 0 2\n", mount).look(mount_wish("/data"))

    assert (
        "the line means noatime, the mount is relatime: changed since it was mounted"
        in finding.evidence
    )
    assert "live only: nosuid" in finding.evidence
    assert "in the line, not live: noexec" in finding.evidence
    assert [change.address.kind for change in finding.changes] == ["mount"]


def test_line_behind_a_link_is_the_line_of_the_mount():
    machine = StorageHost(
        "/dev/sdb1 /d ext4 rw 0 0\n", f"{ROOT}\n{LIVE}\n", links={"/d": "/data"}, folders=("/data",)
    )
    finding = machine.look(mount_wish("/data"))

    assert [str(change.address) for change in finding.changes] == ["fstab:/d", "mount:/data"]


def test_unknown_fact_makes_an_unknown_finding():
    finding = host(None, unreadable={"/etc/fstab": "permission denied"}).look(mount_wish("/data"))
    assert (finding.verdict, finding.changes) == (Verdict.UNKNOWN, ())
    assert "permission denied" in finding.reason


def test_live_value_that_moved_is_not_written():
    machine = host()
    change = Change(Address("mount", "/data"), Action.UPDATE, "strictatime", "noatime", "rule")

    with pytest.raises(Conflict, match="no longer strictatime"):
        address_kinds()["mount"].write(machine.writer, change)


def test_jobs_that_the_policy_calls_harmless_are_compared_by_their_whole_path():
    unreadable = {"/etc/cron.d/clean2": "needs root: permission denied on /etc/cron.d/clean2"}
    silent, told = (
        host(unreadable=unreadable).look(mount_wish("/data", harmless_jobs=(path,)))
        for path in ("/etc/cron.d/clean2", "/etc/cron.d/clean")
    )

    assert silent.changes
    assert told.verdict is Verdict.UNKNOWN


def test_place_whose_value_cannot_be_read_is_unknown_with_the_reason(monkeypatch):
    for kind in ("mount", "fstab"):
        with monkeypatch.context() as patch:
            patch.setattr(
                address_kinds()[kind], "read", lambda reader, name: Unreadable("input/output error")
            )
            finding = host().look(mount_wish("/data"))
        assert (finding.rule, finding.subject, finding.verdict, finding.reason, finding.changes) == (
            "storage-noatime", "/data", Verdict.UNKNOWN, "input/output error", (),
        )  # fmt: skip


@pytest.mark.parametrize(
    "machine",
    [host("", ""), host(is_container=True)],
    ids=["nowhere", "in a container"],
)
def test_what_does_not_apply_says_of_what_and_why(machine):
    finding = machine.look(mount_wish("/data"))
    assert (finding.rule, finding.subject, finding.verdict) == (
        "storage-noatime",
        "/data",
        Verdict.NOT_APPLICABLE,
    )
    assert finding.reason


def test_change_of_the_live_mount_says_that_it_is_one_of_now():
    file, flag = host().look(mount_wish("/data")).changes
    assert (flag.action, flag.activation, flag.reason) == (
        Action.UPDATE, Activation.NOW, "other options unchanged",
    )  # fmt: skip
    assert file.reason.endswith("for the next boot")
    assert {one.rule for one in (file, flag)} == {"storage-noatime"}
