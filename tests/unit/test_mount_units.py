"""Unit files that mount and swap: which file counts, what a boot starts, and what it makes of a
device that is gone.
"""

from types import SimpleNamespace

import pytest

from hosttune.facts.storage import mount_units
from hosttune.facts.storage.storage_log import mount_errors_in
from hosttune.resources.storage import mount_causes
from hosttune.resources.storage.fstab_boot import look_at_boot_lines
from hosttune.resources.storage.mount_causes import MountCauses
from hosttune.values import Unreadable, steps_of
from hosttune.views.disks import disks_of, disks_text
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.unit.growth import count_calls
from tests.unit.test_fstab_sources import DATA, OTHER, UUID, host

GONE = f"/dev/disk/by-uuid/{OTHER}"
HERE = f"/dev/disk/by-uuid/{UUID}"
ETC = "/etc/systemd/system"
ROOT = "/dev/sda2 / ext4 defaults 0 1"


def unit(what=GONE, where="/data", fstype="ext4", options="", more=""):
    text = f"[Unit]\n{more}\n[Mount]\nWhat={what}\nWhere={where}\nType={fstype}\n"
    return f"{text}Options={options}\n[Install]\nWantedBy=multi-user.target\n"


def link(target="multi-user.target.wants", name="data.mount", folder=ETC):
    return {f"{folder}/{target}/{name}": f"../{name}"}


def with_units(files, links, *mounts, line=ROOT, **kwargs):
    facts = host(line, *mounts, **kwargs)
    facts.reader.files |= {"/proc/sys/kernel/osrelease": "6.8.0-60-generic\n"} | files
    facts.reader.links |= links
    return facts


def units(files, links, *mounts, **kwargs):
    return {one.name: one for one in with_units(files, links, *mounts, **kwargs).mount_units.all}


def boot(files, links, *mounts, target="/data", **kwargs):
    """What is told of a target: (fault, note, way out); nothing where the boot does not come to
    it.
    """
    lines = look_at_boot_lines(with_units(files, links, *mounts, **kwargs))
    return next(((one.fault, one.note, one.way_out) for one in lines if one.target == target), None)


LOCAL = "local-fs.target.requires"


@pytest.mark.parametrize(
    ("links", "options", "more", "end"),
    [
        (link(LOCAL), "", "", "the next boot waits 90 s for it, and ends in the emergency shell"),
        (link(), "", "", "the next boot waits 90 s for it, and mounts nothing at /data"),
        (link("local-fs.target.wants"), "", "", "the next boot waits 90 s for it, and mounts nothing at /data"),
        (link("remote-fs.target.requires", folder="/usr/lib/systemd/system"), "", "", "and does not start remote-fs.target"),
        (link(LOCAL), "nofail", "", ""),
        (link(LOCAL), "nofail,noatime", "", ""),
        (link("rescue.target.wants"), "", "", None),
        ({}, "", "", None),
        (link(LOCAL), "", "ConditionPathExists=/x", None),
        (link(), "", "DefaultDependencies=no", ""),
    ],
)  # fmt: skip
def test_end_of_a_boot_by_what_wants_the_unit(links, options, more, end):
    found = boot({f"{ETC}/data.mount": unit(options=options, more=more)}, links)
    if end is None:
        assert found is None
    elif not end:
        assert found[:2] == ("", "")
    else:
        told = found[0] or found[1]
        assert told.startswith(f"line 4 of {ETC}/data.mount names {GONE}, which no device has: ")
        assert told.endswith(end)
        assert bool(found[0]) == ("emergency" in end)


def test_unit_that_a_service_of_the_boot_needs():
    files = {
        f"{ETC}/data.mount": unit(),
        f"{ETC}/store.service": "[Unit]\nRequiresMountsFor=/data/of/it\n",
    }
    found = boot(files, link(name="store.service"))
    assert found[1].endswith("the next boot waits 90 s for it, and does not start store.service")
    assert boot(files, {}) is None  # the service is off


def test_mount_further_down_requires_the_one_above():
    files = {f"{ETC}/data.mount": unit()}
    below = "/dev/sda2 /data/more ext4 {} 0 0"
    assert boot(files, {}, line=below.format("defaults"))[0].endswith("ends in the emergency shell")
    assert boot(files, {}, line=below.format("nofail"))[1].endswith("mounts nothing at /data")
    assert boot(files, {}, line=below.format("noauto")) is None


@pytest.mark.parametrize("lost", [True, False])
def test_unit_of_the_mounted_disk(lost):
    found = boot({f"{ETC}/data.mount": unit(GONE if lost else HERE)}, link(), DATA)
    assert bool(found[0]) is lost
    if lost:
        assert f"while /dev/sdb (UUID={UUID}, ext4) is mounted there" in found[0]


def test_unit_in_etc_comes_before_the_line_and_one_of_a_package_does_not():
    line = f"UUID={UUID} /data ext4 defaults 0 2"
    fault, _, _ = boot({f"{ETC}/data.mount": unit()}, {}, line=line)
    assert fault.startswith(f"line 4 of {ETC}/data.mount")
    assert fault.endswith("emergency shell")  # by the line's link, whatever wants the unit
    assert boot({"/usr/lib/systemd/system/data.mount": unit()}, {}, line=line)[:2] == ("", "")
    assert boot({f"{ETC}/data.mount": unit(HERE)}, {}, line=line.replace(UUID, OTHER))[:2] == (
        "",
        "",
    )


def test_drop_in_changes_the_source_and_is_named():
    files = {
        f"{ETC}/data.mount": unit(HERE),
        f"{ETC}/data.mount.d/10-x.conf": f"[Mount]\nWhat={GONE}\n",
    }
    assert boot(files, link(LOCAL))[0].startswith(f"line 2 of {ETC}/data.mount.d/10-x.conf names")


def test_masked_unit_keeps_a_line_from_being_mounted():
    line = f"UUID={UUID} /data ext4 defaults 0 2"
    masked = {f"{ETC}/data.mount": "/dev/null"}
    assert boot({}, masked, DATA, line=line)[1].endswith("the next boot does not mount it")
    assert boot({}, masked, line=line)[:2] == ("", "")
    facts = with_units({}, masked, line=line)
    assert facts.mounts.expected == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            unit(where="/date"),
            "says Where=/date, and its name means /data: systemd does not load it",
        ),
        ("[Mount]\nWhere=/data\n", "has no What="),
        (unit(HERE, options="defautls"), "no ext4 of Linux 6.1 to 6.18 has an option `defautls`"),
        (unit(HERE, fstype="xfs"), "says xfs, and "),
    ],
)
def test_unit_that_cannot_be_mounted(text, says):
    fault, note, _ = boot({f"{ETC}/data.mount": text}, link(LOCAL))
    assert says in (fault or note)
    assert bool(fault) is (
        "and its name" not in note and "has no" not in note
    )  # what is not loaded stops no boot


def test_swap_that_is_not_there():
    name = r"dev-disk-by\x2duuid-c81f5c0e\x2d3a44\x2d4b8e\x2d9d10\x2d6c2f7e0a9b1f.swap"
    files = {f"{ETC}/{name}": f"[Swap]\nWhat={GONE}\n"}
    found = boot(files, link("swap.target.wants", name), target=f"swap {GONE}")
    assert found[1].endswith("each boot waits 90 s for it, and goes on without")
    assert boot(files, {}, target=f"swap {GONE}") is None


def test_what_is_mounted_by_a_unit_that_no_boot_wants():
    files = {f"{ETC}/data.mount": unit(HERE)}
    assert "no unit of a boot wants data.mount" in boot(files, {}, DATA)[1]
    assert boot(files | {f"{ETC}/data.automount": "[Automount]\nWhere=/data\n"}, {}, DATA) is None
    assert boot({f"{ETC}/data.mount": unit(HERE).partition("[Install]")[0]}, {}, DATA) is None


@pytest.mark.parametrize(
    ("what", "fstype"),
    [
        ("nas:/data", "nfs"), ("tmpfs", "tmpfs"), ("/srv/data", "none"), (f"LABEL=%i{OTHER}", "ext4"), ("/dev/nbd0", "ext4"),
        ("/dev/disk/by-id/wwn-0x5", "ext4"), ("/dev/disk/by-label/my\\x20data", "ext4"),
    ],
)  # fmt: skip
def test_source_that_is_no_disk_or_is_there_is_left_alone(what, fstype):
    options = "bind" if fstype == "none" else "defaults"
    files = {f"{ETC}/data.mount": unit(what, fstype=fstype, options=options), "/srv/data/of/it": ""}
    found = boot(files, link(LOCAL))
    assert found[:2] == ("", "")


def test_unit_is_expected_to_be_mounted_and_disks_knows_it():
    facts = with_units({f"{ETC}/data.mount": unit(HERE)}, link())
    (expected,) = (one for one in facts.mounts.expected if one.target == "/data")
    assert (expected.is_mounted, expected.where) == (False, f"line 4 of {ETC}/data.mount")
    assert (
        "systemctl status data.mount"
        in MountCauses(facts).find(expected.file, expected.line).way_out
    )
    assert units({f"{ETC}/data.mount": unit(HERE)}, {})["data.mount"].is_started is False


@pytest.mark.parametrize(
    ("links", "end"), [(link(), "; not mounted now"), ({}, "; no boot starts it; not mounted now")]
)
def test_disks_shows_the_unit_below_the_disk_that_it_names(links, end):
    tree = disks_of(with_units({f"{ETC}/data.mount": unit(HERE)}, links))
    text = disks_text(tree, Page(screen=Screen(300)))
    assert f"{ETC}/data.mount line 4: {HERE} on /data{end} " in " ".join(text.split()) + " "


def test_masked_drop_in_of_another_unit_is_not_read():
    links = {**link(), f"{ETC}/docker.service.d/10-disk.conf": "/dev/null"}
    files = {
        f"{ETC}/data.mount": unit(HERE),
        "/dev/null": Unreadable("/dev/null is not a regular file"),
    }
    assert [one.name for one in with_units(files, links).mount_units.all] == ["data.mount"]


def flat(size):
    files = {f"{ETC}/m{n}.mount": unit(where=f"/m{n}") for n in range(size)}
    return files, {
        key: value for n in range(size) for key, value in link(LOCAL, f"m{n}.mount").items()
    }


def with_services(size):
    files, links = flat(size)
    services = {
        f"{ETC}/s{n}.service": f"[Unit]\nRequiresMountsFor=/m{n}\nAfter=s0.service\n"
        for n in range(size)
    }
    return files | services, links


def binds(size):
    files = {
        f"{ETC}/m{n}.mount": unit("/gone/there", f"/m{n}", "none", "bind") for n in range(size)
    }
    return files, flat(size)[1]


def of_one_target(size):
    """All of them in one target, which as many others require."""
    files = {f"{ETC}/m{n}.mount": unit(where=f"/m{n}") for n in range(size)}
    links = {
        **link("multi-user.target.wants", "a.target"),
        **link("multi-user.target.wants", "m0.mount"),
    }
    for n in range(size):
        links |= link("a.target.requires", f"m{n}.mount") | link(
            f"b{n}.target.requires", "a.target"
        )
        links |= link("multi-user.target.wants", f"b{n}.target")
    return files, links


def test_time_grows_linearly_with_units_that_need_one_target(monkeypatch):
    monkeypatch.setattr(mount_units, "_MOST_NEEDING", 20)

    def count(size):
        return count_calls(lambda: with_units(*of_one_target(size)).mount_units.all)

    assert count(160) < 2.5 * count(80)


def test_unit_that_local_fs_needs_through_another_target_is_required():
    links = link("a.target.requires") | link(LOCAL, "a.target")
    found = units({f"{ETC}/data.mount": unit()}, links)["data.mount"]
    assert (found.is_required, found.needed_by) == (True, ("a.target",))


@pytest.mark.parametrize(
    ("fstype", "option", "is_cause"),
    [
        ("ext4", "nofail", False), ("ext4", "x-systemd.device-timeout", False), ("ext4", "commit", False),
        ("ext4", "nosuchword", True), ("cifs", "credentials", False),
    ],
)  # fmt: skip
def test_kernel_says_unknown_of_what_a_user_mounts(fstype, option, is_cause):
    """By mount(2) in a namespace of their own any user makes the kernel say so of any word and
    type.
    """
    facts = host(f"{ROOT}\n/dev/sda2 /data {fstype} nofail,{option} 0 0")
    errors = mount_errors_in([f"1794990001.0 kernel: {fstype}: Unknown parameter '{option}'"])
    facts.__dict__["storage_log"] = SimpleNamespace(mount_errors=errors)
    cause = MountCauses(facts).find("/etc/fstab", 2)
    assert ("which the kernel log calls unknown" in cause.sentence) is is_cause


@pytest.mark.parametrize("make", [flat, with_services, binds])
def test_time_grows_linearly_with_unit_files(make):
    def count(size):
        facts = with_units(*make(size))
        causes = MountCauses(facts)
        return count_calls(
            lambda: (
                [*look_at_boot_lines(facts)],
                [causes.find(one.file, one.line) for one in facts.mounts.expected],
            )
        )

    assert count(160) < 2.5 * count(80)


def test_mounts_in_each_other_cost_what_their_paths_do():
    def count(size):
        names = ["-".join(["d"] * n) for n in range(1, size + 1)]
        files = {f"{ETC}/{name}.mount": unit(where=f"/{name.replace('-', '/')}") for name in names}
        links = link(LOCAL, f"{names[-1]}.mount")
        return count_calls(lambda: with_units(files, links).mount_units.all)

    assert count(160) < 4.5 * count(80)  # the paths are that much longer together


def test_refused_unit_gets_the_name_of_what_it_mounts():
    files = {f"{ETC}/data.mount": unit(where="/mnt/my-set")}
    _, note, todo = boot(files, link())
    assert "says Where=/mnt/my-set, and its name means /data" in note
    assert steps_of(todo) == (
        "remove its links: sudo systemctl disable data.mount",
        f"name the file by what it mounts: sudo mv -n {ETC}/data.mount '{ETC}/mnt-my\\x2dset.mount'",
        "have it read: sudo systemctl daemon-reload",
        "let each boot start it: sudo systemctl enable 'mnt-my\\x2dset.mount'",
    )


def test_refused_unit_of_a_package_keeps_its_name():
    folder = "/usr/lib/systemd/system"
    _, note, todo = boot({f"{folder}/data.mount": unit(where="/date")}, link(folder=folder))
    assert "says Where=/date" in note
    assert "sudo mv" not in todo


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("UUID=0a11-22", "/dev/disk/by-uuid/0a11-22"),
        ('LABEL="data"', "/dev/disk/by-label/data"),
        ("LABEL=my data/1", r"/dev/disk/by-label/my\x20data\x2f1"),
        ("PARTLABEL=d\u00e4ta#+-.:=@_", "/dev/disk/by-partlabel/d\u00e4ta#+-.:=@_"),
        ("/dev/disk/by-id/a=b", "/dev/disk/by-id/a=b"),
    ],
)
def test_path_of_a_device_is_the_link_that_udev_makes(source, path):
    assert mount_units.device_path(source) == path


def test_empty_value_takes_conditions_back_and_no_order():
    """systemd.unit(5): dependencies cannot be reset to an empty list."""
    more = "After=remote-fs.target\nAfter=\nConditionPathExists=/x\nConditionPathExists="
    (found,) = units({f"{ETC}/data.mount": unit(more=more)}, link()).values()
    assert found.ordered_after == ("remote-fs.target",)
    assert not found.is_conditional


@pytest.mark.parametrize(
    ("source", "fstype", "server"),
    [
        ("nas:/data", "nfs", "nas"),
        ("[fe80::1]:/data", "nfs4", "fe80::1"),
        ("//nas/share", "cifs", "nas"),
        ("https://nas/dav", "davfs", "nas"),
        ("localhost:volume", "glusterfs", "localhost"),
        ("me@nas:/data", "fuse.sshfs", "nas"),
        ("sshfs#me@nas:/data", "fuse", "nas"),
        ("10.0.0.1@tcp,10.0.0.2@tcp:/fs", "lustre", "10.0.0.1"),
        ("mon1:6789,mon2:6789:/", "ceph", "mon1"),
    ],
)
def test_server_that_a_way_out_names_is_one_that_can_be_asked(source, fstype, server):
    entry = SimpleNamespace(source=source, fstype=fstype)
    assert mount_causes.server_of(entry) == server
