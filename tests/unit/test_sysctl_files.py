"""Which files set a sysctl at boot, and who wins."""

from types import SimpleNamespace

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.kernel import sysctl_at_boot
from hosttune.facts.placed import Placed
from hosttune.host.reading.effort import EFFORT
from hosttune.resources import address_kinds, wish_kinds
from hosttune.resources.base import Bound, Context, Operator, Wish
from hosttune.values import ABSENT, Address, Disturbs, HoldKind, Risk, Verdict
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import typed


def test_masked_file_sets_nothing_and_leaves_the_rest_known():
    reader = FakeReader(
        {"/etc/sysctl.d/10-a.conf": "vm.swappiness = 5\n", "/usr/lib/sysctl.d/20-b.conf": "vm.swappiness = 9\n"},
        links={"/etc/sysctl.d/20-b.conf": "/dev/null"}, unreadable={"/dev/null": "not a regular file"},
    )  # fmt: skip
    assert Facts(reader).sysctl_at_boot["vm.swappiness"].settings == (
        Placed("5", "/etc/sysctl.d/10-a.conf", 1),
    )


def test_rule_asks_for_the_value_at_boot():
    files = {
        "/etc/sysctl.d/10-a.conf": "vm.swappiness = 5\nkernel/core_pattern = |/bin/x  %p\n",
        "/proc/cmdline": "quiet sysctl.vm.swappiness=7 sysctl.vm.max_map_count=9\n",
    }
    boot = Facts(FakeReader(files)).sysctl_at_boot
    assert (boot["vm.swappiness"].number, boot["vm.swappiness"].place) == (
        5,
        "/etc/sysctl.d/10-a.conf:1",
    )
    assert boot["kernel.core_pattern"].text == "|/bin/x %p"
    assert boot["vm.max_map_count"].place == "the kernel command line: sysctl.vm.max_map_count=9"
    assert not boot["kernel.panic"].is_set
    with pytest.raises(UnknownFact, match=r"no file sets kernel\.panic at boot"):
        _ = boot["kernel.panic"].number
    with pytest.raises(UnknownFact, match="is no key of sysctl"):
        _ = boot["../x"].is_set
    hidden = Facts(FakeReader(unreadable={"/etc/sysctl.d": "needs root"})).sysctl_at_boot
    with pytest.raises(UnknownFact, match="needs root"):
        _ = hidden["vm.swappiness"].is_set


KEY = "net.ipv4.conf.eth0.rp_filter"


@pytest.mark.parametrize(
    ("files", "places"),
    [
        ({"50-a": "net.ipv4.conf.*.rp_filter = 2"}, ("2\t50-a:1",)),
        ({"50-a": "net.ipv4.conf.eth?.rp_filter = 2"}, ("2\t50-a:1",)),
        ({"50-a": "net.ipv4.conf.[ef]th0.rp_filter = 2"}, ("2\t50-a:1",)),
        ({"50-a": "net.ipv4.conf.* = 2"}, ()),  # no wildcard reaches over a dot
        (
            {"50-a": f"{KEY} = 1", "90-b": "net.ipv4.conf.*.rp_filter = 2"},
            ("1\t50-a:1",),
        ),  # by name wins anywhere
        ({"50-a": "net.ipv4.conf.*.rp_filter = 2", "90-b": f"-{KEY}"}, ()),
        ({"50-a": f"-{KEY}", "90-b": f"{KEY} = 3"}, ("3\t90-b:1",)),
        ({"50-a": f"-{KEY} = 4"}, ("4\t50-a:1",)),  # a failure to set it does not matter
        ({"50-a": f"# {KEY} = 1\n; {KEY} = 2\nword"}, ()),
    ],
)
def test_wildcards_and_names_count_as_systemd_sysctl_counts_them(files, places):
    reader = FakeReader({f"/etc/sysctl.d/{name}.conf": f"{text}\n" for name, text in files.items()})
    found = Facts(reader).sysctl_at_boot[KEY].settings
    named = tuple(
        place.replace(":", ".conf:").replace("\t", "\t/etc/sysctl.d/") for place in places
    )
    assert tuple(f"{one.value}\t{one.place}" for one in found) == named


def finding(files, *, at_most=10):
    reader = FakeReader({"/proc/sys/vm/swappiness": "60\n", **files})
    facts = Facts(reader)
    facts.__dict__["managers"] = SimpleNamespace(
        tuned_sysctls=(), tuned_sysctl_values={}, tuned_profile="", tuned_at_boot=False
    )
    kind = wish_kinds()["sysctl"]
    wish = Wish(
        "sysctl",
        "vm.swappiness",
        "memory-swappiness",
        "vm.swappiness",
        {},
        (Bound(Operator.AT_MOST, at_most),),
    )
    state = {
        address: address_kinds()[address.kind].read(reader, address.name)
        for address in kind.addresses(wish, facts)
    }
    (found,) = typed(kind.compare((wish,), Context(facts, state, {}, Risk.LOW, Disturbs.NOTHING)))
    return found


def test_distribution_file_before_ours_is_overridden():
    found = finding({"/usr/lib/sysctl.d/10-x.conf": "vm.swappiness = 60\n"})
    assert [change.address.kind for change in found.changes] == ["sysctl", "file"]


def test_distribution_file_behind_ours_is_named():
    found = finding({"/usr/lib/sysctl.d/99-x.conf": "vm.swappiness = 60\n"})
    assert found.hold.kind is HoldKind.OWNED
    assert (
        "/usr/lib/sysctl.d/99-x.conf:1 of the distribution (vm.swappiness = 60)"
        in found.hold.detail
    )
    assert (
        "put `vm.swappiness = 10` into /etc/sysctl.d/zz-local.conf, which is read later"
        in found.todo
    )
    assert found.changes == ()


def test_value_behind_ours_that_serves_as_well_is_no_obstacle():
    found = finding({"/usr/lib/sysctl.d/99-x.conf": "vm.swappiness = 5\n"})
    assert (found.verdict, found.hold.kind) == (Verdict.DIFFERS, HoldKind.NONE)
    assert [change.address for change in found.changes] == [Address("sysctl", "vm.swappiness")]
    assert found.changes[0].before is not ABSENT


def test_number_that_no_kernel_takes_is_an_administrators_and_no_error():
    found = finding({"/etc/sysctl.d/99-x.conf": f"vm.swappiness = {'9' * 5000}\n"})
    assert (found.verdict, found.hold.kind) == (Verdict.DIFFERS, HoldKind.OWNED)


def test_time_for_many_keys_grows_with_their_number_only(monkeypatch):
    """An image may have thousands of keys, and each went through all lines and read the command
    line.
    """
    tried = []
    real = sysctl_at_boot.fits_parts
    monkeypatch.setattr(
        sysctl_at_boot, "fits_parts", lambda *given: tried.append(1) or real(*given)
    )
    rows = "".join(f"net.a.k{number} = 1\n" for number in range(300))
    reader = FakeReader(
        {"/etc/sysctl.d/10-a.conf": f"{rows}net.*.x = 2\n", "/proc/cmdline": "sysctl.net.a.k7=9\n"}
    )
    before, found = EFFORT.spent, Facts(reader).sysctl_at_boot
    assert [len(found[f"net.a.k{number}"].settings) for number in range(300)] == [
        1 + (n == 7) for n in range(300)
    ]
    assert found["net.b.x"].text == "2"
    assert reader.seen.count("/proc/cmdline") < 3
    assert EFFORT.spent - before < 300 * 10
    assert len(tried) == 1


def test_keys_with_wildcards_are_bounded():
    rows = "".join(f"net.*.k{number} = 1\n" for number in range(300))
    with pytest.raises(UnknownFact, match="more than 256 keys with wildcards"):
        assert (
            Facts(FakeReader({"/etc/sysctl.d/10-a.conf": rows})).sysctl_at_boot["net.a.b"].settings
        )


def test_arguments_of_the_kernel_stay_in_their_order():
    line = "sysctl.kernel.numa_balancing=1 numa_balancing=disable sysctl.kernel/numa_balancing=2 quiet=\n"
    found = Facts(FakeReader({"/proc/cmdline": line})).sysctl_at_boot["kernel.numa_balancing"]
    assert [one.value for one in found.settings] == ["1", "0", "2"]


TUNED = {
    "/etc/tuned/active_profile": "throughput-performance\n",
    "/etc/tuned/tuned-main.conf": "daemon = 1\n",
    "/usr/lib/tuned/throughput-performance/tuned.conf": "[sysctl]\nvm.dirty_ratio=40\n",
    "/usr/lib/sysctl.d/elasticsearch.conf": "vm.max_map_count=262144\n",
    "/etc/sysctl.d/60-site.conf": "vm.max_map_count=1048576\n",
}


@pytest.mark.parametrize(
    ("more", "at_boot", "winner"),
    [
        ({}, True, "/etc/sysctl.d/60-site.conf:1"),
        ({"/etc/sysctl.conf": "vm.max_map_count=2000000\n"}, True, "/etc/sysctl.conf:1"),
        (
            {"/etc/tuned/tuned-main.conf": "reapply_sysctl = 0\n"},
            True,
            "/usr/lib/sysctl.d/elasticsearch.conf:1",
        ),
        (
            {"/etc/tuned/tuned-main.conf": "# reapply_sysctl = 0\nreapply_sysctl = 1\n"},
            True,
            "/etc/sysctl.d/60-site.conf:1",
        ),
        (
            {"/usr/lib/tuned/throughput-performance/tuned.conf": "[main]\n"},
            True,
            "/usr/lib/sysctl.d/elasticsearch.conf:1",
        ),
        ({}, False, "/usr/lib/sysctl.d/elasticsearch.conf:1"),
    ],
)
def test_what_tuned_sets_anew_counts_over_the_files_of_packages(more, at_boot, winner):
    facts = Facts(FakeReader({**TUNED, **more}))
    has_keys = "sysctl" in {**TUNED, **more}["/usr/lib/tuned/throughput-performance/tuned.conf"]
    facts.__dict__["managers"] = SimpleNamespace(
        tuned_at_boot=at_boot, tuned_sysctls=("vm.dirty_ratio",) * has_keys
    )
    assert facts.sysctl_at_boot["vm.max_map_count"].place == winner
