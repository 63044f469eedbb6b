"""The list of what unattended-upgrades leaves alone: its review, its proof, an administrator's own
patterns.
"""

import re
from collections import defaultdict
from types import SimpleNamespace

import pytest

from hosttune.choices.update_hold import DRIVER, choose, kernel_flavours
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.apt import AptSetting, dump_command, values_in
from hosttune.facts.apt_conf import AptNames
from hosttune.facts.packages import Packages
from hosttune.host.door import Completed, Stat
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import wish_kinds
from hosttune.resources.base import Applied, Context, Wish
from hosttune.resources.packages.apt_blacklist import KEY
from hosttune.values import (
    ABSENT,
    Address,
    Disturbs,
    FileValue,
    HoldKind,
    Risk,
    Unreadable,
    Verdict,
)
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import typed

PATH = "/etc/apt/apt.conf.d/60-hosttune-gpu-update-hold.conf"
FILE = Address("file", PATH)
PATTERNS = ("^nvidia-(?!container|docker)", "^cuda-")


class Told(dict):
    """Answers by name; one that is Unreadable is unknown."""

    def __getitem__(self, name):
        value = super().__getitem__(name)
        if isinstance(value, Unreadable):
            raise UnknownFact(value.reason)
        return value


def compare(
    present=ABSENT,
    today="2026-01-01",
    days=90,
    merged=PATTERNS,
    patterns=PATTERNS,
    ledger=None,
    *,
    image=False,
    files=(),
    reviewed="2026-01-01",
):
    facts = SimpleNamespace(
        reader=SimpleNamespace(persistent_only=image),
        apt={KEY: AptSetting(files, merged)},
        host=SimpleNamespace(today=today),
        etc=SimpleNamespace(written_on=Told({PATH: reviewed})),
    )
    wish = Wish(
        "apt-blacklist",
        " ".join(patterns),
        "gpu-update-hold",
        "",
        {"review_days": days, "evidence": ("seen",)},
    )
    context = Context(
        facts,
        {FILE: present},
        ledger if ledger is not None else remembered(present),
        Risk.LOW,
        Disturbs.NOTHING,
    )
    (finding,) = typed(wish_kinds()["apt-blacklist"].compare((wish,), context))
    return finding


def remembered(value):
    return (
        {FILE: Applied("run-1", "gpu-update-hold", value)} if isinstance(value, FileValue) else {}
    )


def written(**more):
    (change,) = compare(**more).changes
    return change.after


def test_file_carries_every_pattern_and_no_date():
    text = written().content.decode()
    assert [line for line in text.splitlines() if not line.startswith("//")] == [
        f'{KEY}:: "{pattern}";' for pattern in PATTERNS
    ]
    assert not re.search(r"\d{4}-\d{2}", text)
    assert f"sudo touch {PATH}" in text
    assert written(today="2027-09-30", days=10).content.decode() == text


@pytest.mark.parametrize("today", ["2026-01-01", "2026-01-02", "2026-03-31", "2026-04-01"])
def test_until_the_review_nothing_differs(today):
    finding = compare(written(), today)
    assert (finding.verdict, finding.changes) == (Verdict.OK, ())
    assert "reviewed on 2026-01-01, to be reviewed by 2026-04-01" in finding.evidence


@pytest.mark.parametrize(("today", "days"), [("2026-04-02", 90), ("2026-01-12", 10)])
def test_after_it_a_person_is_asked_and_nothing_planned(today, days):
    finding = compare(written(), today, days)
    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.DIFFERS,
        HoldKind.REFUSED,
        (),
    )
    assert "was to be reviewed by 2026-" in finding.reason
    assert finding.todo.endswith(f"sudo touch {PATH}")
    assert "seen" in finding.evidence
    assert compare(written(), today, days, reviewed=today).verdict is Verdict.OK


def test_file_whose_time_cannot_be_read_is_unknown():
    assert compare(written(), reviewed=Unreadable("needs root")).verdict is Verdict.UNKNOWN


def test_list_that_apt_does_not_tell_is_unknown_with_the_reason():
    finding = compare(written(), merged=Unreadable("needs root"))
    assert (finding.verdict, finding.reason) == (
        Verdict.UNKNOWN,
        "what apt makes of it: needs root",
    )


def test_other_patterns_are_planned_whenever_it_is():
    plans = [
        compare(written(), today, patterns=(*PATTERNS, "^nvlsm"), merged=())
        for today in ("2026-02-01", "2027-02-01")
    ]
    assert plans[0].changes
    assert plans[0] == plans[1]


def test_file_that_is_written_counts_as_reviewed():
    overlay = Overlay(FakeReader(now=1_767_225_600.0))
    overlay.replace(PATH, written(), expected=ABSENT)
    assert Facts(overlay).etc.written_on[PATH] == "2026-01-01"
    with pytest.raises(UnknownFact, match="is not there"):
        _ = Facts(FakeReader()).etc.written_on[PATH]


@pytest.mark.parametrize(
    ("since", "says"), [("2025-10-03", " (installed 90 days ago)"), (Unreadable("needs root"), "")]
)
def test_updates_that_wait_are_named_with_the_age_of_what_is_installed(since, says):
    update = "nvidia-utils-580 580.95.05-1 -> 580.126.20-1"
    wish = Wish(
        "apt-blacklist",
        "^nvidia-",
        "gpu-update-hold",
        "",
        {"review_days": 90, "updates": (update,)},
    )
    kind = wish_kinds()["apt-blacklist"]
    facts = SimpleNamespace(
        apt={KEY: AptSetting((), ())},
        host=SimpleNamespace(today="2026-01-01"),
        packages=SimpleNamespace(unpacked_on=Told({"nvidia-utils-580": since})),
    )
    (finding,) = typed(
        kind.compare((wish,), Context(facts, {FILE: ABSENT}, {}, Risk.LOW, Disturbs.NOTHING))
    )
    assert finding.evidence == (f"waits: {update}{says}",)


@pytest.mark.parametrize("suffix", ["", ":amd64"])
def test_age_of_a_package_is_that_of_its_list_of_files(suffix):
    path = f"/var/lib/dpkg/info/libnvidia-compute-580{suffix}.list"
    stat = Stat("file", 0o644, 0, 0, 1, 1_767_225_600_000_000_000, 0, 1, 1)
    reader = FakeReader({path: "", "/var/lib/dpkg/status": ""}, stats={path: stat})
    assert Facts(reader).packages.unpacked_on["libnvidia-compute-580"] == "2026-01-01"
    with pytest.raises(UnknownFact, match="no list of its files"):
        _ = Facts(reader).packages.unpacked_on["nvidia-utils-580"]


def test_edited_file_is_theirs():
    finding = compare(FileValue(b"// nothing of it\n"), ledger=remembered(written()))
    assert (finding.hold.kind, finding.changes) == (HoldKind.EDITED, ())


def test_pattern_that_does_not_arrive_is_said():
    finding = compare(written(), merged=("^cuda-",))
    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.DIFFERS,
        HoldKind.REFUSED,
        (),
    )
    assert "^nvidia-(?!container|docker)" in finding.reason
    assert "#clear" in finding.todo


def test_administrators_patterns_are_named():
    assert (
        "stays on the list: slurm (of another file)"
        in compare(written(), merged=("slurm", *PATTERNS)).evidence
    )


def test_merged_list_that_cannot_be_asked_is_unknown_but_in_an_image():
    gone = Unreadable("programs cannot be asked under --root")
    assert compare(written(), merged=gone).verdict is Verdict.UNKNOWN
    assert compare(written(), merged=gone, image=True).verdict is Verdict.OK


def test_dump_of_apt_is_read():
    dump = f'{KEY} "";\n{KEY}:: "slurm";\n{KEY}:: "^a\\.b$";\n{KEY}-Other:: "x";\n'
    assert values_in(dump, KEY) == ("slurm", "^a\\.b$")
    reader = FakeReader(queries={dump_command(KEY): dump})
    assert Facts(reader).apt[KEY].merged == ("slurm", "^a\\.b$")
    assert Facts(FakeReader(queries={dump_command(KEY): ""})).apt[KEY].merged == ()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Completed(100, b"", b"E: Syntax error /etc/apt/apt.conf.d/x:1\n"), "Syntax error"),
        (ABSENT, "not installed"),
        (Unreadable("timed out"), "timed out"),
    ],
)
def test_apt_that_fails_or_is_missing_is_unknown(answer, why):
    with pytest.raises(UnknownFact, match=why):
        _ = Facts(FakeReader(queries={dump_command(KEY): answer})).apt[KEY].merged


def test_overlay_answers_with_what_was_written_there():
    overlay = Overlay(FakeReader(queries={dump_command(KEY): f'{KEY}:: "slurm";\n'}))
    overlay.replace(PATH, written(), expected=ABSENT)
    assert Facts(overlay).apt[KEY].merged == ("slurm", *PATTERNS)


def test_clock_tells_the_day_in_utc():
    assert Facts(FakeReader(now=1_767_225_599.0)).host.today == "2025-12-31"
    assert Facts(FakeReader(now=1_767_225_600.0)).host.today == "2026-01-01"


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-driver-580-server-open", "nvidia-utils-580", "nvidia-kernel-common-580-server", "nvidia-dkms-580",
        "nvidia-fabricmanager-580", "nvidia-imex-580", "nvidia-cuda-toolkit", "libnvidia-compute-580", "libnvidia-nscq-580",
        "linux-modules-nvidia-580-server-open-generic", "linux-objects-nvidia-580-6.8.0-60-generic", "libcuda1",
        "xserver-xorg-video-nvidia-580", "cuda-drivers-580", "cuda-toolkit-12-9", "nvlsm", "libnvsdm-580",
    ],
)  # fmt: skip
def test_driver_cuda_and_fabric_are_left_alone(name):
    assert any(re.match(pattern, name) for pattern in DRIVER)  # as unattended-upgrades matches


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-container-toolkit", "nvidia-container-toolkit-base", "nvidia-docker2", "libnvidia-container1",
        "libnvidia-container-tools", "cuda-keyring", "openssl", "linux-image-generic", "linux-firmware",
        "ubuntu-drivers-common", "barracuda-cuda-x", "python3-nvidia-x",
    ],
)  # fmt: skip
def test_everything_else_keeps_its_fixes(name):
    assert not any(re.match(pattern, name) for pattern in DRIVER)


def hold_on(packages, kernel="auto", held=()):
    stanzas = (
        f"Package: {name}\nStatus: {'hold' if name in held else 'install'} ok installed\n"
        f"Architecture: all\nVersion: {version}\n"
        for name, version in packages.items()
    )
    files = {
        "/var/lib/dpkg/status": "\n".join(stanzas),
        "/sys/module/x": "",
        "/lib/modules/x/modules.dep": "",
    }
    return choose(Facts(FakeReader(files)), {"kernel": kernel})


KERNEL = {
    "linux-image-generic-hwe-24.04": "6.14",
    "linux-image-6.14.0-1-generic": "6.14",
    "nvidia-utils-580": "580.1-0",
}
MODULES = {"linux-modules-nvidia-580-open-generic-hwe-24.04": "6.14"}


@pytest.mark.parametrize(
    ("packages", "kernel", "is_held"),
    [
        (KERNEL | MODULES, "auto", True),
        (KERNEL, "auto", False),
        (KERNEL, "hold", True),
        (KERNEL | MODULES, "float", False),
    ],
)
def test_kernel_waits_only_while_modules_are_prebuilt(packages, kernel, is_held):
    hold = hold_on(packages, kernel)
    for name in (
        "linux-generic-hwe-24.04",
        "linux-image-generic-hwe-24.04",
        "linux-headers-generic-hwe-24.04",
    ):
        assert any(re.match(pattern, name) for pattern in hold.patterns) is is_held
    for name in (
        "linux-generic",
        "linux-generic-hwe-24x04",
        "linux-image-6.14.0-1-generic",
        "linux-libc-dev",
    ):
        assert not any(re.match(pattern, name) for pattern in hold.patterns)


def test_installed_and_held_packages_are_named():
    hold = hold_on(KERNEL | MODULES, held=("nvidia-utils-580",))
    assert "nvidia-utils-580 580.1-0" in hold.evidence[0]
    assert "linux-image-6.14.0-1-generic" not in hold.evidence[0]
    assert "held by apt-mark, which stays so: nvidia-utils-580" in hold.evidence


def test_updates_that_wait_are_those_that_the_patterns_hold():
    offers = tuple(
        SimpleNamespace(name=name, installed="1", candidate="2")
        for name in ("nvidia-utils-580", "ubuntu-drivers-common")
    )
    unset = defaultdict(lambda: SimpleNamespace(last=None))
    facts = SimpleNamespace(
        packages=Packages({}),
        driver=SimpleNamespace(held=()),
        archives=SimpleNamespace(updates=offers),
        apt=unset,
    )
    assert choose(facts, {"kernel": "auto"}).updates == ("nvidia-utils-580 1 -> 2",)


def test_updates_that_cannot_be_told_are_said_and_hold_nothing_up():
    hold = hold_on(KERNEL)
    assert hold.updates == ()
    assert hold.evidence[-1].startswith("which updates wait is not known: ")


def test_flavours_are_those_of_metapackages():
    names = (
        "linux-image-azure",
        "linux-image-unsigned-6.8.0-1-azure",
        "linux-image-6.8.0-1-azure",
        "linux-image-x",
    )
    assert kernel_flavours(names) == ("azure", "x")
    assert kernel_flavours(("linux-modules-nvidia-580-server-open-6.8.0-1-aws",)) == ()


SITE = """\
// Unattended-Upgrade::Package-Blacklist { "commented"; };
Unattended-Upgrade::Package-Blacklist {
    "slurm";  // the site's
    # "of a comment";
    "^munge";
};
/* "no"; */ unattended-upgrade { package-blacklist:: "nested"; Allowed-Origins { "x"; }; };
Unattended-Upgrade::Package-Blacklist:: "quo//ted";
APT::Get::Assume-Yes "true"; #clear Unattended-Upgrade;
"""


def test_every_way_to_write_a_list_is_read_with_its_line():
    found = AptNames([("site", SITE)]).lines(KEY)
    assert tuple((one.value, one.line) for one in found) == (
        ("slurm", 3), ("^munge", 5), ("nested", 7), ("quo//ted", 8), ("#clear", 9)
    )  # fmt: skip


def on_host(**files):
    reader = FakeReader({f"/etc/apt/{name}": text for name, text in files.items()})
    return Facts(reader).apt[KEY].lines


def test_files_are_read_in_the_order_of_apt():
    line = f'{KEY}:: "x";'
    files = {
        "apt.conf": line,
        "apt.conf.d/60-b": line,
        "apt.conf.d/50-a.conf": line,
        "apt.conf.d/10-c.bak": line,
    }
    rows = on_host(**files)
    assert [row.place for row in rows] == [
        "/etc/apt/apt.conf.d/50-a.conf:1", "/etc/apt/apt.conf.d/60-b:1", "/etc/apt/apt.conf:1"
    ]  # fmt: skip


def test_pattern_of_a_site_is_told_with_its_file():
    rows = on_host(**{"apt.conf.d/50-site": 'Unattended-Upgrade::Package-Blacklist { "slurm"; };'})
    finding = compare(merged=("slurm",), files=rows)
    assert finding.changes
    assert "stays on the list: slurm (/etc/apt/apt.conf.d/50-site:1)" in finding.evidence


@pytest.mark.parametrize(
    ("name", "is_in_vain"),
    [("apt.conf.d/70-site", True), ("apt.conf", True), ("apt.conf.d/50-site", False)],
)
def test_list_that_a_later_file_empties_is_not_planned(name, is_in_vain):
    finding = compare(merged=(), files=on_host(**{name: f"#clear {KEY};"}))
    assert finding.verdict is Verdict.DIFFERS
    assert bool(finding.changes) is not is_in_vain
    assert (f"/etc/apt/{name}:1" in finding.hold.detail) is is_in_vain


def test_pieces_of_a_kernel_are_no_flavour():
    assert kernel_flavours(
        ("linux-image-extra-virtual", "linux-image-unsigned-generic", "linux-image-virtual")
    ) == ("virtual",)


@pytest.mark.parametrize(
    ("packages", "kernel", "said"),
    [
        (
            KERNEL | MODULES,
            "auto",
            "the kernel waits too: its next version might have no prebuilt nvidia module yet",
        ),
        (KERNEL, "hold", "the kernel waits too, as the policy says"),
        (KERNEL | MODULES, "float", "the kernel is upgraded as before (as the policy says)"),
        (
            KERNEL,
            "auto",
            "the kernel is upgraded as before (no prebuilt nvidia modules depend on it)",
        ),
    ],
)
def test_update_hold_says_whether_the_kernel_waits_and_why(packages, kernel, said):
    assert said in hold_on(packages, kernel).evidence
