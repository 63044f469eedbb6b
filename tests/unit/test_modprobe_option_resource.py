"""Options of kernel modules: which file wins, what the loaded module has, and who rebuilds the
initial RAM disk.
"""

import pytest

from hosttune.actions.gate.boot_triggers import rebuild_initramfs
from hosttune.facts.base import UnknownFact
from hosttune.facts.kernel.initramfs import NamedModules, find_generator, why_in
from hosttune.facts.kernel.module_options import parse_options, same_value
from hosttune.resources import wish_kinds
from hosttune.resources.base import Applied, Bound, Operator, Wish
from hosttune.resources.services.since import applied_since
from hosttune.values import ABSENT, Activation, HoldKind, Trigger, Verdict
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import RULE, One, host

OURS = f"/etc/modprobe.d/60-hosttune-{RULE}.conf"
HMM = "- modprobe-option: nvidia-uvm.uvm_disable_hmm\n  exactly: 1"
LIVE = "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"
BASE = {"/proc/cmdline": "quiet\n", "/proc/stat": "cpu 1\nbtime 1700000000\n"}
INITRD = {"/boot/initrd.img-6.8": "", "/usr/sbin/update-initramfs": ""}


def machine(files=None, **kwargs):
    return host({**BASE, **(files or {})}, **kwargs)


def test_option_is_written_and_waits_for_the_reboot_while_the_module_has_another():
    one = One(machine({LIVE: "N\n"}), HMM)
    assert one.changes() == [f"file:{OURS} ABSENT -> options nvidia-uvm uvm_disable_hmm=1"]
    (change,) = one.plan().changes
    assert (change.activation, change.triggers, change.details) == (Activation.REBOOT, (), ())
    assert one.apply().failed == ()
    finding = one.finding()
    assert str(finding.hold) == "waiting for a reboot"
    assert finding.evidence == (f"{OURS}:3 sets it", "the loaded module has N")
    one.undo()
    assert one.kept() == {}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({LIVE: "Y\n"}, "the loaded module has it"),
        ({}, "the module is not loaded now"),
        ({"/sys/module/nvidia_uvm/refcnt": "0"}, "the loaded module does not show its value"),
    ],
)
def test_option_that_a_file_sets_is_ok(files, says):
    finding = One(
        machine({"/etc/modprobe.d/x.conf": "options nvidia_uvm uvm_disable_hmm=1\n", **files}), HMM
    ).finding()
    assert finding.verdict is Verdict.OK
    assert finding.evidence == ("/etc/modprobe.d/x.conf:1 sets it", says)


def test_option_that_the_module_hides_waits_until_it_was_loaded_anew():
    one = One(machine({"/sys/module/nvidia_uvm/refcnt": "0"}), HMM)
    one.apply()
    assert one.finding().evidence[1] == "the module was loaded before it was set"
    one.door.files["/proc/stat"] = type(next(iter(one.door.files.values())))(b"btime 1900000000\n")
    assert one.finding().verdict is Verdict.OK


def test_value_that_nvidia_shows_under_another_name_is_found():
    files = {
        "/etc/modprobe.d/x.conf": "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n",
        "/proc/driver/nvidia/params": "ModifyDeviceFiles: 1\nRmProfilingAdminOnly: 1\n",
        "/sys/module/nvidia/refcnt": "0",
    }
    wish = "- modprobe-option: nvidia.NVreg_RestrictProfilingToAdminUsers\n  exactly: 0"
    assert One(machine(files), wish).finding().evidence[1] == "the loaded module has 1"


def one_line(value):
    return f"options nvidia_uvm uvm_disable_hmm={value}\n"


@pytest.mark.parametrize(
    ("files", "kind", "says"),
    [
        ({"/etc/modprobe.d/x.conf": one_line(0)}, HoldKind.OWNED, "/etc/modprobe.d/x.conf:1"),
        ({"/etc/modprobe.d/10-x.conf": one_line(0)}, HoldKind.OWNED, "/etc/modprobe.d/10-x.conf:1"),
        (
            {"/usr/lib/modprobe.d/x.conf": one_line(0)},
            HoldKind.OWNED,
            "/usr/lib/modprobe.d/x.conf:1",
        ),
        ({"/usr/lib/modprobe.d/10-x.conf": one_line(0)}, HoldKind.NONE, ""),
        (
            {"/proc/cmdline": "nvidia-uvm.uvm_disable_hmm=0"},
            HoldKind.OWNED,
            "the kernel command line",
        ),
        ({OURS: one_line(0)}, HoldKind.EDITED, OURS),
        (
            {
                LIVE: "N",
                "/proc/sys/kernel/osrelease": "6.8\n",
                "/lib/modules/6.8/modules.builtin": "kernel/x/nvidia-uvm.ko\n",
            },
            HoldKind.REFUSED,
            "built into this kernel",
        ),
    ],
)
def test_who_decides_is_named(files, kind, says):
    finding = One(machine(files), HMM).finding()
    assert (finding.verdict, finding.hold.kind) == (Verdict.DIFFERS, kind)
    assert says in finding.hold.detail
    assert bool(finding.changes) is (kind is HoldKind.NONE)


@pytest.mark.parametrize(
    "wish", ["- modprobe-option: a.b\n  exactly: 'x y'", "- modprobe-option: a\n  exactly: 1"]
)
def test_words_that_modprobe_would_read_otherwise_are_refused(wish):
    assert One(machine(), wish).finding().hold.kind is HoldKind.REFUSED


def test_folder_that_cannot_be_read_is_unknown():
    finding = One(machine(unreadable={"/etc/modprobe.d": "needs root"}), HMM).finding()
    assert (finding.verdict, finding.changes) == (Verdict.UNKNOWN, ())


@pytest.mark.parametrize(
    ("files", "name", "why"),
    [
        ({}, ABSENT, ""),
        (INITRD, "initramfs-tools", "it may hold nvidia"),
        (
            {**INITRD, "/etc/initramfs-tools/modules": "# x\nnvidia a=1\n"},
            "initramfs-tools",
            "/etc/initramfs-tools/modules:2 puts nvidia into it",
        ),
        ({"/boot/initrd.img-6.8": "", "/usr/bin/dracut": ""}, "dracut", "it may hold nvidia"),
        ({**INITRD, "/usr/bin/dracut": ""}, "initramfs-tools", "it may hold nvidia"),
        (
            {**INITRD, "/usr/bin/dracut": "", "/etc/kernel/postinst.d/dracut": ""},
            "dracut",
            "it may hold nvidia",
        ),
        (
            {
                "/boot/initrd.img-6.8": "",
                "/usr/bin/dracut": "",
                "/etc/dracut.conf.d/a.conf": 'omit_drivers+=" nvidia "',
            },
            "dracut",
            "",
        ),
        (
            {
                "/boot/initrd.img-6.8": "",
                "/usr/bin/dracut": "",
                "/etc/dracut.conf.d/a.conf": 'force_drivers+="nvidia"',
            },
            "dracut",
            "/etc/dracut.conf.d/a.conf:1 puts nvidia into it",
        ),
    ],
)
def test_initial_ram_disk_is_judged_by_its_configuration(files, name, why):
    reader = FakeReader(files)
    assert (find_generator(reader), why_in(NamedModules(reader), "nvidia")) == (name, why)


DRACUT = {
    "/boot/initrd.img-6.8": "",
    "/usr/bin/dracut": "",
    "/etc/dracut.conf.d/a.conf": 'add_drivers+=" nvidia_uvm "',
}
UBUNTU = {
    "/usr/lib/dracut/dracut.conf.d/10-ubuntu.conf": 'hostonly="yes"\nhostonly_mode="sloppy"\n'
}


@pytest.mark.parametrize(
    ("files", "is_held"),
    [
        (DRACUT, True),
        ({**DRACUT, **UBUNTU}, False),
        ({**DRACUT, **UBUNTU, "/etc/dracut.conf.d/90-site.conf": "hostonly=no\n"}, True),
        (
            {**DRACUT, "/etc/dracut.conf.d/a.conf": "#hostonly=yes\n"},
            False,
        ),  # no line puts it into the image
        ({**DRACUT, **INITRD, "/etc/kernel/postinst.d/initramfs-tools": ""}, False),
    ],
)
def test_option_that_dracut_would_leave_out_is_not_written(files, is_held):
    finding = One(machine(files), HMM).finding()
    assert (finding.hold.kind is HoldKind.REFUSED) is is_held
    assert bool(finding.changes) is not is_held
    if is_held:
        assert finding.hold.detail == (
            "/etc/dracut.conf.d/a.conf:1 puts nvidia-uvm into the initial RAM disk, "
            'and dracut without hostonly="yes" leaves its options out'
        )
        assert "put nvidia-uvm.uvm_disable_hmm=1 on the kernel command line" in finding.todo


def test_images_without_a_program_that_builds_them_are_unknown():
    with pytest.raises(UnknownFact, match="neither dracut nor update-initramfs is installed"):
        why_in(NamedModules(FakeReader({"/boot/initrd.img-6.8": ""})), "nvidia")


@pytest.mark.parametrize(
    ("files", "commands"),
    [
        ({**INITRD, "/boot/initrd.img-6.9": ""}, [("update-initramfs", "-u", "-k", "all")]),
        (
            {
                "/boot/initrd.img-6.8": "",
                "/boot/initrd.img-6.9": "",
                "/boot/initrd.img-6.9.old": "",
                "/usr/bin/dracut": "",
            },
            [
                ("dracut", "--force", f"/boot/initrd.img-{kernel}", kernel)
                for kernel in ("6.8", "6.9")
            ],
        ),
        ({"/usr/sbin/update-initramfs": ""}, []),
    ],
)
def test_images_are_rebuilt_by_the_program_that_built_them(files, commands):
    ran = []

    class Watched(type(machine())):
        def run(self, argv, *, timeout_s):
            assert timeout_s >= 600
            ran.append(argv)

    rebuild_initramfs(Watched(FakeReader(files)), "")
    assert ran == commands


def test_rebuild_is_announced_and_can_be_ruled_out():
    one = One(machine(INITRD), HMM)
    (change,) = one.plan().changes
    assert change.triggers == (Trigger("rebuild-initramfs"),)
    assert change.details == (
        "then initramfs-tools rebuilds the initial RAM disks: it may hold nvidia-uvm",
    )
    assert one.apply().waiting == ()
    (change,) = One(machine(INITRD), f"{HMM}\n  early: false").plan().changes
    assert (change.triggers, change.details) == ((), ())


@pytest.mark.parametrize(
    ("early", "triggers"),
    [
        ({}, (Trigger("rebuild-initramfs"),)),
        ({"early": True}, (Trigger("rebuild-initramfs"),)),
        ({"early": False}, ()),
    ],
)
def test_file_that_is_written_is_carried_into_the_initial_ram_disk_unless_the_rule_rules_it_out(
    early, triggers
):
    bounds = (Bound(Operator.EXACTLY, "1"),)
    wish = Wish("modprobe-option", "nvidia-uvm.uvm_disable_hmm", RULE, "", early, bounds)
    (change,) = wish_kinds()["modprobe-option"].writes((wish,))
    assert (change.address.name, change.triggers, change.activation) == (
        OURS,
        triggers,
        Activation.REBOOT,
    )
    assert change.after.content == One(machine(), HMM).plan().changes[0].after.content


def test_comment_behind_an_option_is_no_option():
    assert list(parse_options("options a b=1 # c=2\n# options d e=3\n")) == [(1, "a", "b", "1")]


def test_lines_are_read_as_modprobe_reads_them():
    text = '# options a b=1\noptions a-b c=1 d="x y" e \\\n  f=2\nalias options a\noptions a\n'
    assert list(parse_options(text)) == [
        (2, "a_b", "c", "1"), (2, "a_b", "d", "x y"), (2, "a_b", "e", ""), (2, "a_b", "f", "2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("live", "wanted", "is_same"),
    [
        ("Y", "1", True),
        ("N", "0", True),
        ("Y", "0", False),
        ("255", "0xff", True),
        ("a", "a", True),
        ("a", "b", False),
        ("Y", "on", True),
        ("Y", "no", False),
    ],
)
def test_values_are_compared_as_the_kernel_shows_them(live, wanted, is_same):
    assert same_value(wanted, live) is is_same


@pytest.mark.parametrize(
    ("applied", "is_since"),
    [
        (None, False),
        (Applied("20231114-221321-aaaa", "r", ABSENT), True),
        (
            Applied("20231114-221320-aaaa", "r", ABSENT),
            True,
        ),  # in the very second: what was started then may not know it
        (Applied("20231114-221319-aaaa", "r", ABSENT), False),
        (Applied("(this plan)", "r", ABSENT), True),
    ],
)
def test_run_tells_when_it_was(applied, is_since):
    assert applied_since(applied, 1_700_000_000) is is_since


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("options nvidia a=1 \\\n", [(1, "nvidia", "a", "1")]),
        ("options nvidia a=1\\\nb=2\n", [(1, "nvidia", "a", "1b=2")]),
        ("options nvidia a=1 \\\nb=2\n", [(1, "nvidia", "a", "1"), (1, "nvidia", "b", "2")]),
        ("# off \\\noptions nvidia a=1\n", []),
    ],
    ids=["at the end of the file", "without a blank", "with a blank", "of a comment"],
)
def test_backslash_at_the_end_of_a_line_is_read_as_modprobe_reads_it(text, options):
    assert list(parse_options(text)) == options
