"""Arguments of the kernel: in the settings of GRUB, in its menu, in the running kernel; who wins,
and the way back.
"""

import pytest

from hosttune.actions.gate.boot_triggers import update_grub
from hosttune.errors import Refused
from hosttune.facts.kernel import grub_arguments as grub
from hosttune.resources.kernel.kernel_argument import contradicts_wanted, describe_unproven, has
from hosttune.values import Activation, HoldKind, Trigger, Verdict
from tests.hosts.boot_files import grub_cfg
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import RULE, One, host

OURS = f"/etc/default/grub.d/60-hosttune-{RULE}.cfg"
IOMMU = "- kernel-argument: iommu=pt"
APPEND = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {}"'
SETTINGS = {"/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n'}
MENU = grub_cfg("Ubuntu", "6.8.0-60-generic")
FACTS = {
    "/proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz root=UUID=0a ro quiet\n",
    "/boot/grub/grub.cfg": MENU,
    **SETTINGS,
}


def machine(files=None, **kwargs):
    return host({**FACTS, **(files or {})}, **kwargs)


def test_argument_is_added_to_the_menu_and_waits_for_the_reboot():
    one = One(machine(), IOMMU)
    (change,) = one.plan().changes
    assert one.changes() == [f"file:{OURS} ABSENT -> {APPEND.format('iommu=pt')}"]
    assert (change.activation, change.triggers) == (Activation.REBOOT, (Trigger("update-grub"),))
    receipt = one.apply()
    assert (receipt.failed, receipt.waiting, receipt.verified) == ((), (), True)
    menu = one.door.read("/boot/grub/grub.cfg").decode()
    assert menu.count("ro quiet iommu=pt\n") == 2
    assert "ro recovery nomodeset\n" in menu
    finding = one.finding()
    assert (finding.verdict, str(finding.hold)) == (Verdict.DIFFERS, "waiting for a reboot")
    assert finding.evidence == (
        f"{OURS}:3 sets it, and all 2 entries of /boot/grub/grub.cfg have it",
    )
    one.door.files["/proc/cmdline"] = machine({"/proc/cmdline": "ro quiet iommu=pt"}).base.files[
        "/proc/cmdline"
    ]
    del one.door.files["/proc/cmdline"]
    one.undo()
    assert one.kept() == {}
    assert one.door.read("/boot/grub/grub.cfg").decode() == MENU


def test_running_kernel_with_the_argument_is_the_end_of_it():
    files = {
        "/proc/cmdline": "ro quiet iommu=pt\n",
        "/boot/grub/grub.cfg": MENU.replace("quiet", "quiet iommu=pt"),
        "/etc/default/grub": 'GRUB_CMDLINE_LINUX="iommu=pt"\n',
    }
    finding = One(machine(files), IOMMU).finding()
    assert finding.verdict is Verdict.OK
    assert finding.evidence[0].startswith("/etc/default/grub:1 sets it")


def test_arguments_of_one_rule_share_a_dropin():
    one = One(machine(), f"{IOMMU}\n- kernel-argument: init_on_alloc=0\n- kernel-argument: quiet")
    assert one.changes() == [f"file:{OURS} ABSENT -> {APPEND.format('iommu=pt init_on_alloc=0')}"]
    one.apply()
    one.undo()
    assert one.kept() == {}


@pytest.mark.parametrize(
    ("files", "wish", "kind", "says"),
    [
        ({"/etc/default/grub": 'GRUB_CMDLINE_LINUX="iommu=off"\n'}, IOMMU, HoldKind.REFUSED, "iommu=off in /etc/default/grub:1"),
        (
            {"/etc/default/grub.d/50-a.cfg": APPEND.format("intel_iommu=off")},
            f"{IOMMU}\n  contradicts: [intel_iommu=off, amd_iommu=off]",
            HoldKind.REFUSED,
            "intel_iommu=off in /etc/default/grub.d/50-a.cfg:1",
        ),
        ({"/etc/default/grub.d/50-a.cfg": APPEND.format("intel_iommu=off")}, IOMMU, HoldKind.NONE, ""),
        ({"/etc/default/grub.d/99-vendor.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="x"\n'}, IOMMU, HoldKind.OWNED, "99-vendor.cfg:1"),
        ({"/etc/default/grub.d/99-vendor.cfg": APPEND.format("x")}, IOMMU, HoldKind.NONE, ""),
        ({"/etc/default/grub.d/50-curtin.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="x"\n'}, IOMMU, HoldKind.NONE, ""),
        ({OURS: APPEND.format("foreign")}, IOMMU, HoldKind.EDITED, OURS),
        ({"/etc/default/grub": 'GRUB_CMDLINE_LINUX="iommu=pt"\n'}, IOMMU, HoldKind.WAITING, "update-grub"),
        ({}, '- kernel-argument: "iommu=pt quiet"', HoldKind.REFUSED, "no plain argument"),
        ({}, "- kernel-argument: x=$(reboot)", HoldKind.REFUSED, "no plain argument"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_named(files, wish, kind, says):
    finding = One(machine(files), wish).finding()
    assert (finding.verdict, finding.hold.kind) == (Verdict.DIFFERS, kind)
    assert says in finding.hold.detail
    assert bool(finding.changes) is (kind is HoldKind.NONE)


@pytest.mark.parametrize(
    ("door", "verdict", "says"),
    [
        (host({"/proc/cmdline": "quiet"}), Verdict.ADVICE, "/etc/kernel/cmdline"),
        (host({"/proc/cmdline": "quiet iommu=pt"}), Verdict.OK, ""),
        (
            machine({"/boot/grub/grub.cfg": "# generated\n"}),
            Verdict.ADVICE,
            "add iommu=pt to the kernel command line",
        ),
        (
            machine({"/etc/default/grub": 'GRUB_CMDLINE_LINUX="$(x)"\n'}),
            Verdict.UNKNOWN,
            "a shell works it out",
        ),
        (machine(unreadable={"/boot/grub/grub.cfg": "needs root"}), Verdict.UNKNOWN, "needs root"),
    ],
)
def test_host_that_cannot_be_changed_is_told(door, verdict, says):
    finding = One(door, IOMMU).finding()
    assert finding.verdict is verdict
    assert says in f"{finding.reason} {finding.todo}"
    assert finding.changes == ()


def test_image_gets_the_file_and_update_grub_waits():
    files = {"/boot/grub/grub.cfg": MENU, **SETTINGS}
    image = host(
        files,
        kind="root",
        persistent_only=True,
        unreadable=dict.fromkeys(("/sys", "/proc", "/run"), "no"),
    )
    one = One(image, IOMMU)
    receipt = one.apply()
    assert [change.split()[0] for change in map(str, one.kept())] == [OURS]
    assert receipt.waiting == ("update-grub waits: it has to run inside of the image",)
    assert str(one.finding().hold) == "waiting for update-grub"


GRUB = "/boot/grub/grub.cfg"
WITH_IT = APPEND.format("iommu=pt")


@pytest.mark.parametrize(
    ("files", "unreadable", "says"),
    [
        ({}, {}, ""),
        ({OURS: WITH_IT, GRUB: MENU.replace("quiet", "quiet iommu=pt")}, {}, ""),
        ({OURS: WITH_IT, GRUB: MENU.replace("quiet", "quiet iommu=pt", 1)}, {}, f"line 8 of {GRUB} lacks iommu=pt ({OURS}:1)"),
        ({"/etc/default/grub.d/50-theirs.cfg": WITH_IT}, {}, ""),
        ({OURS: WITH_IT}, {GRUB: "needs root"}, f"{GRUB} cannot be compared with its settings: needs root"),
        ({OURS: WITH_IT}, {"/etc/default/grub": "/etc/default/grub: i/o error"}, f"{GRUB} cannot be compared with its settings: /etc/default/grub: i/o error"),
    ],
)  # fmt: skip
def test_menu_is_proven_by_each_normal_entry_and_our_own_settings_alone(files, unreadable, says):
    assert describe_unproven(machine(files, unreadable=unreadable)) == says


def test_menu_that_is_not_there_proves_nothing():
    door = host({OURS: WITH_IT, **SETTINGS})
    assert (
        describe_unproven(door) == f"{GRUB} cannot be compared with its settings: it is not there"
    )


def test_menu_that_did_not_take_the_argument_is_no_success():
    class Deaf(FakeReader):
        def run(self, argv, *, timeout_s):
            self.asked.append((argv, timeout_s))

    door = Deaf({**FACTS, OURS: WITH_IT})
    assert describe_unproven(door) == f"line 3 of /boot/grub/grub.cfg lacks iommu=pt ({OURS}:1)"
    with pytest.raises(Refused, match="update-grub ran, and line 3"):
        update_grub(door, "")
    assert door.asked == [(("update-grub",), 300.0)]


def test_menu_of_settings_that_cannot_be_read_is_not_foretold():
    door = machine({OURS: WITH_IT}, unreadable={"/etc/default/grub": "i/o error"})
    with pytest.raises(Refused, match="is not known: i/o error"):
        update_grub(door, "")
    assert door.files == {}


@pytest.mark.parametrize(
    ("present", "wanted", "is_there", "is_against"),
    [
        ("iommu=pt", "iommu=pt", True, False),
        ("iommu=pt,merge", "iommu=pt", True, False),
        ("iommu=off", "iommu=pt", False, True),
        ("intel_iommu=off", "iommu=pt", False, False),
        ("pci=noaer,realloc=off", "pci=realloc=off", True, False),
        ("pci=noaer", "pci=realloc=off", False, False),
        ("pci=realloc", "pci=realloc=off", False, True),
        ("init-on-alloc=1", "init_on_alloc=0", False, True),
        ("console=tty0", "console=ttyS0", False, False),
        ("nosmt", "nosmt", True, False),
    ],
)
def test_arguments_are_compared_as_the_kernel_reads_them(present, wanted, is_there, is_against):
    assert has((present,), wanted) is is_there
    assert contradicts_wanted(present, wanted) is is_against


@pytest.mark.parametrize(
    ("texts", "default", "afresh"),
    [
        (['GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"'], "quiet splash", []),
        (["GRUB_CMDLINE_LINUX_DEFAULT='a b'", APPEND.format("c")], "a b c", []),
        (["GRUB_CMDLINE_LINUX_DEFAULT=a", 'GRUB_CMDLINE_LINUX_DEFAULT="b ${GRUB_CMDLINE_LINUX_DEFAULT}"'], "b a", []),
        (["GRUB_CMDLINE_LINUX_DEFAULT=a", "GRUB_CMDLINE_LINUX_DEFAULT=b # c"], "b", ["f1:1"]),
        (["#GRUB_CMDLINE_LINUX_DEFAULT=a\nexport GRUB_CMDLINE_LINUX_DEFAULT=b; x"], "b", []),
        (['GRUB_CMDLINE_LINUX="x"', 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX y"'], "x y", []),
    ],
)  # fmt: skip
def test_settings_add_up_as_a_shell_adds_them(texts, default, afresh):
    found = grub.add_up_arguments([(f"f{number}", text) for number, text in enumerate(texts)])
    assert " ".join(one.value for one in found.default) == default
    assert [one.place for one in found.afresh] == afresh


@pytest.mark.parametrize(
    "text",
    [
        'GRUB_CMDLINE_LINUX_DEFAULT="$OTHER"', 'GRUB_CMDLINE_LINUX="$(cat /x)"', "GRUB_CMDLINE_LINUX=`x`",
        "[ -e /x ] && GRUB_CMDLINE_LINUX=x", 'GRUB_CMDLINE_LINUX+=" x"', 'GRUB_CMDLINE_LINUX="x', "GRUB_CMDLINE_LINUX=a b",
        '  if true; then GRUB_CMDLINE_LINUX="x"; fi',
    ],
)  # fmt: skip
def test_settings_that_take_a_shell_are_not_guessed(text):
    with pytest.raises(ValueError, match="a shell works it out"):
        grub.add_up_arguments([("f", text)])


def test_entries_are_those_of_this_system_and_not_for_recovery():
    text = (
        "### BEGIN /etc/grub.d/10_linux ###\nlinux /vmlinuz-1 ro quiet $vt_handoff\nlinux /vmlinuz-1 ro single\n"
        "### END /etc/grub.d/10_linux ###\n### BEGIN /etc/grub.d/30_os-prober ###\nlinux /boot/vmlinuz-9 ro\n"
        "### END /etc/grub.d/30_os-prober ###\nlinux16 /boot/memtest86+.bin\n"
    )
    assert [(one.number, one.arguments) for one in grub.parse_entries(text)] == [
        (2, ("ro", "quiet", "$vt_handoff"))
    ]
    before, after = (
        grub.add_up_arguments([("f", f'GRUB_CMDLINE_LINUX_DEFAULT="{words}"')])
        for words in ("quiet", "quiet x=1")
    )
    assert "linux /vmlinuz-1 ro quiet x=1 $vt_handoff\n" in grub.regenerate(text, before, after)
    assert [one.number for one in grub.parse_entries("linux /vmlinuz-1 ro\n")] == [1]


def test_files_are_read_in_the_order_of_grub_mkconfig():
    files = {
        "/etc/default/grub.d/9.cfg": "b",
        "/etc/default/grub.d/10.cfg": "a",
        "/etc/default/grub.d/x": "no",
    }
    assert [path for path, _ in grub.read_files(FakeReader({"/etc/default/grub": "", **files}))] == [
        "/etc/default/grub", "/etc/default/grub.d/10.cfg", "/etc/default/grub.d/9.cfg",
    ]  # fmt: skip
