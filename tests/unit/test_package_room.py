"""A set of packages needs room on every file system that it writes to, and a module for the kernel
that boots next.
"""

from __future__ import annotations

import pytest

from hosttune.errors import Refused
from hosttune.facts import Facts
from hosttune.facts import apt_get as apt
from hosttune.host.door import Space
from hosttune.resources.packages.package_set import ADDRESS
from hosttune.resources.packages.room import _REBUILDS, NEW_KERNEL, find_lack
from hosttune.values import Action, Address, Change, HoldKind
from tests.unit.fake_reader import FakeReader
from tests.unit.test_facts_boot_room import HOST, ROOT, menu, packages
from tests.unit.test_package_resource import FakeWriter, compare

MIB, GIB = 1 << 20, 1 << 30
OLD, RUNNING, NEW = "6.8.0-40-generic", "6.8.0-45-generic", "6.8.0-48-generic"
ALL = (
    f"{ROOT}21 20 8:1 / /boot rw,relatime - ext4 /dev/sda1 rw\n22 20 8:3 / /usr rw - xfs /dev/sda3 rw\n"
    "23 20 8:4 / /var rw - ext4 /dev/sda4 rw\n"
)
MODULES = "linux-modules-nvidia-580-open"


def host(
    new,
    *,
    size="0 B",
    download=0,
    following=RUNNING,
    kernels=(RUNNING,),
    installed=(),
    mounts=ALL,
    fstab="",
    **free,
):
    """`new`: what apt would install; `free`: bytes by name of a mount (boot, usr, var, root)."""
    simulated = "".join(f"Inst {name} (1 site:1/stable [all])\n" for name in new)
    uris = f"After this operation, {size} of additional disk space will be used.\n'http://x/a' a.deb {download} SHA256:0\n"
    files = {f"/boot/vmlinuz-{one}": b"\0" * MIB for one in kernels} | {
        "/boot/grub/grub.cfg": menu(following)
    }
    files |= {f"/boot/initrd.img-{one}": b"\0" * (4 * MIB) for one in kernels}
    database = packages("dpkg", *(f"linux-image-{one}" for one in kernels), *installed)
    files |= {
        "/proc/self/mountinfo": mounts,
        "/var/lib/dpkg/status": database,
        "/etc/fstab": fstab,
        "/proc/uptime": "",
    }
    files |= {"/proc/sys/kernel/osrelease": f"{RUNNING}\n"}
    targets = {"/": "root", "/boot": "boot", "/usr": "usr", "/var": "var"}
    spaces = {
        path: Space(1 << 40, free.get(key, 1 << 39), 1 << 20, free.get(f"{key}_files", 1 << 19), 0)
        for path, key in targets.items()
    }
    queries = {apt.make_simulation(("a",)): simulated, apt.make_download_list(("a",)): uris}
    return FakeReader(files, links=HOST, folders=["/sys/firmware"], spaces=spaces, queries=queries)


def refusal(new=("a", "intel-microcode"), *, modules="", **more):
    """(why it is refused, the way out); the notes of the change where it is not."""
    finding = compare(
        host(new, **more), **({"modules": modules} if modules else {}), allow_dkms=True
    )
    if finding.hold.kind is HoldKind.REFUSED:
        return finding.hold.detail, finding.todo
    return "", "\n".join(finding.changes[0].details)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"boot": 4 * MIB}, ""),
        ({"boot": 3 * MIB}, "/boot has 3 MiB left, and a new initial RAM disk needs 4 MiB there"),
        ({"boot": 0, "new": ("a",)}, ""),
        ({"boot": 13 * MIB, "new": ("a", "linux-image-6.8.0-48-generic")}, ""),
        (
            {"boot": 8 * MIB, "new": ("a", "linux-image-6.8.0-48-generic")},
            "/boot has 8 MiB left, and 1 new kernel with initial RAM disks needs 9 MiB there",
        ),
        ({"boot_files": 7}, "/boot has room for 7 more files (inodes), too few for a new initial RAM disk"),
        ({"usr": GIB, "size": "1,100 MB"}, "/usr has 1.0 GiB left, and what is installed needs 1.0 GiB there"),
        ({"usr": 2 * GIB, "size": "1,100 MB"}, ""),
        ({"usr_files": 150}, "/usr has room for 150 more files (inodes), too few for what is installed"),
        ({"var": 40 * MIB, "download": 30 * MIB}, "the download with the making of an initial RAM disk needs 46 MiB there"),
        ({"var": 256 * MIB, "new": ("a", "nvidia-dkms-580")}, "the build of the module with the making of an initial RAM disk"),
        ({"root": 20 * MIB, "mounts": ROOT}, ""),
        (
            {"root": 19 * MIB, "mounts": ROOT},
            "/ has 19 MiB left, and a new initial RAM disk with the making of an initial RAM disk needs 20 MiB there",
        ),
    ],
    ids=[
        "just enough", "an image does not fit", "nothing is rebuilt", "a new kernel fits", "a new kernel does not fit",
        "inodes of /boot", "the packages", "the packages fit", "inodes of the packages", "the download", "a build by DKMS",
        "all on one disk, enough", "all on one disk",
    ],
)  # fmt: skip
def test_set_for_which_the_room_does_not_do_is_refused(more, said):
    why, way = refusal(**more)
    assert said in why
    assert bool(why) is bool(said)
    assert not why or way.endswith("\nrun it again")


@pytest.mark.parametrize(
    ("gone", "is_refused"),
    [("nvidia-kernel-common-580", True), (f"linux-image-{OLD}", False), ("tuned", False)],
)
def test_package_that_goes_has_an_image_built_and_a_kernel_takes_its_own_along(gone, is_refused):
    would = apt.parse((f"Remv {gone} [1]",))
    assert bool(find_lack(would, Facts(host((), boot=MIB)))[0]) is is_refused


def test_full_disk_is_reported_where_boot_cannot_be_read():
    full = host(("a", "intel-microcode"), usr=GIB, size="1,100 MB")
    full.unreadable = {**getattr(full, "unreadable", {}), "/boot": "denied"}
    facts = Facts(full)
    assert "/usr has 1.0 GiB left" in find_lack(facts.apt.would["a"], facts)[0]


def test_room_is_looked_at_again_before_the_act_also_of_an_undo():
    """Nothing is asked of apt-get but what it would do."""
    simulated = "Inst intel-microcode [2] (1 site:1/stable [all])\n"
    database = packages("dpkg", f"linux-image-{RUNNING}") + packages("intel-microcode").replace(
        "Version: 1", "Version: 2"
    )
    writer = FakeWriter(
        host((), boot=MIB).files | {"/var/lib/dpkg/status": database},
        spaces=host((), boot=MIB).spaces,
    )
    writer.queries = {apt.make_simulation(("intel-microcode=1",)): simulated}
    back = Change(
        Address("package-set", "intel-microcode"),
        Action.UPDATE,
        ("intel-microcode=2",),
        ("intel-microcode=1",),
        "r",
    )
    with pytest.raises(Refused, match="/boot has 1 MiB left") as refused:
        ADDRESS.write(writer, back)
    assert refused.value.hint.endswith("run it again")
    assert writer.ran == ()


def test_way_out_of_a_full_boot_names_the_kernels_that_can_go():
    _, way = refusal(boot=0, kernels=(OLD, RUNNING))
    assert f"sudo apt-get purge linux-image-{OLD} (keep: {RUNNING} runs)\nrun it again" in way


def test_boot_that_is_not_mounted_takes_no_image():
    line = "UUID=b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1d /boot ext4 defaults 0 2\n"
    why, way = refusal(mounts=ROOT, fstab=line)
    assert "nothing is mounted there" in why
    assert way == "sudo mount /boot\nrun it again"


def test_space_that_is_not_known_refuses_nothing():
    assert refusal(mounts="20 1 0:50 / / rw - nfs4 srv:/root rw\n")[0] == ""


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("After this operation, 1,234 MB of additional disk space will be used.", 1_234_000_000),
        ("After this operation, 16.7 MB of additional disk space will be used.", 16_700_000),
        ("After this operation, 312 kB of additional disk space will be used.", 312_000),
        ("After this operation, 0 B of additional disk space will be used.", 0),
        ("After this operation, 153 kB disk space will be freed.", 0),
        ("  Space needed: 1,068 MB / 52.1 GB available", 1_068_000_000),
        ("", 0),
    ],
)
def test_growth_that_apt_tells(said, size):
    assert (
        apt.growth_bytes(f"Need to get 0 B/4372 B of archives.\n{said}\n'http://x' a 1 SHA256:0\n")
        == size
    )


@pytest.mark.parametrize(
    ("name", "is_rebuilt"),
    [
        ("nvidia-kernel-common-580-server", True), ("linux-image-6.8.0-48-generic", True), ("intel-microcode", True),
        ("nvidia-dkms-580", True), ("zfs-dkms", True), ("linux-modules-nvidia-580-open-6.8.0-48-generic", True),
        ("linux-firmware", True), ("dracut", True), ("nvidia-headless-no-dkms-580", False), ("nvidia-utils-580", False),
        ("tuned", False), ("linux-headers-generic", False), ("kmodtool", False),
    ],
)  # fmt: skip
def test_packages_that_have_an_image_built(name, is_rebuilt):
    assert bool(_REBUILDS.match(name)) is is_rebuilt


def test_kernels_are_known_by_their_packages():
    names = (
        "linux-image-6.8.0-48-generic",
        "linux-image-unsigned-6.8.0-48-generic",
        "linux-image-generic",
        "linux-image-generic-hwe-24.04",
    )
    assert [(match := NEW_KERNEL.fullmatch(name)) and match[1] for name in names] == [
        NEW,
        NEW,
        None,
        None,
    ]


def modules(*kernels):
    return ("a", f"{MODULES}-generic", *(f"{MODULES}-{one}" for one in kernels))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"new": modules(RUNNING)}, ""),
        ({"new": modules(RUNNING), "kernels": (RUNNING, NEW), "following": NEW}, f"that boots next, {NEW}, gets no modules"),
        ({"new": modules(RUNNING, NEW), "kernels": (RUNNING, NEW), "following": NEW}, ""),
        ({"new": modules(RUNNING), "kernels": (RUNNING, NEW), "following": NEW, "installed": (f"{MODULES}-{NEW}",)}, ""),
        ({"new": modules(RUNNING), "kernels": (RUNNING, NEW)}, ""),
        (
            {"new": (*modules(OLD), f"linux-image-{OLD}")},
            f"gets no modules from it (it brings those of {OLD}), and the older kernel {OLD} would come along",
        ),
        ({"new": (*modules(NEW), f"linux-image-{NEW}")}, ""),
        ({"new": (*modules(RUNNING), f"linux-image-{NEW}")}, f"that boots next, {NEW}, gets no modules"),
        ({"new": modules(RUNNING), "following": "6.8.0-99-generic"}, ""),
    ],
    ids=[
        "the running kernel boots next", "another one boots next", "both get them", "its modules are there", "it was told to boot the old one",
        "modules of an older kernel alone", "a newer kernel with its modules", "a newer kernel without", "what boots next is not known",
    ],
)  # fmt: skip
def test_set_that_brings_no_module_to_the_kernel_that_boots_next_is_refused(more, said):
    why, way = refusal(modules=MODULES, **more)
    assert said in why
    assert bool(why) is bool(said)
    assert not why or (f"wait until apt has {MODULES}-" in way and way.endswith("\nrun it again"))


def test_kernel_to_boot_instead_is_named():
    _, there = refusal(modules(RUNNING), modules=MODULES, kernels=(RUNNING, NEW), following=NEW)
    assert f"choose {RUNNING} in GRUB, which gets them, and boot it" in there
    _, missing = refusal((*modules(OLD), f"linux-image-{OLD}"), modules=MODULES)
    assert (
        f"sudo apt-get install linux-image-{OLD} (older, without newer fixes), and choose it in GRUB"
        in missing
    )


def test_kernels_that_come_along_are_told():
    _, newer = refusal((*modules(NEW), f"linux-image-{NEW}"), modules=MODULES)
    assert f"brings kernel {NEW}, which boots next" in newer
    _, older = refusal(("a", f"linux-image-{OLD}"))
    assert f"brings kernel {OLD}, older than {RUNNING}: {RUNNING} boots next" in older


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"new": ("a", "linux-headers-generic", f"linux-headers-{RUNNING}")}, ""),
        (
            {"new": ("a", f"linux-headers-{RUNNING}"), "kernels": (RUNNING, NEW), "following": NEW},
            "gets no headers, with which its module is compiled",
        ),
        ({"new": ("a", f"linux-headers-{NEW}"), "kernels": (RUNNING, NEW), "following": NEW}, ""),
        (
            {
                "new": ("a", f"linux-headers-{OLD}"),
                "kernels": (OLD, RUNNING, NEW),
                "following": OLD,
            },
            f"DKMS builds for the running kernel and the newest one, and {OLD} boots next",
        ),
    ],
    ids=["it runs", "no headers", "headers", "neither runs nor is the newest"],
)
def test_module_that_is_compiled_needs_headers_of_the_kernel_that_boots_next(more, said):
    why, _ = refusal(modules="linux-headers", **more)
    assert said in why
    assert bool(why) is bool(said)
