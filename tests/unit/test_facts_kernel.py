"""Kernel facts."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.kernel.kernel import flavour_of, split_command_line
from hosttune.host.door import Stat
from hosttune.values import ABSENT
from tests.unit.fake_reader import FakeReader

RELEASE = "/proc/sys/kernel/osrelease"


@pytest.mark.parametrize(
    ("release", "flavour"),
    [
        ("6.8.0-45-generic", "generic"),
        ("5.15.0-1053-nvidia", "nvidia"),
        ("6.8.0-1010-nvidia-64k", "nvidia-64k"),
        ("6.8.0-1015-azure-fde", "azure-fde"),
        ("6.14.0-29-lowlatency-hwe", "lowlatency-hwe"),
        ("6.1.0-28-cloud-amd64", "cloud-amd64"),
        ("6.12.48+deb13-amd64", "amd64"),
        ("6.11.10+bpo-arm64", "arm64"),
        ("6.12.22-amd64", "amd64"),
        ("6.12.22-cloud-arm64", "cloud-arm64"),
        ("6.18.44-fc-v445", ""),
        ("5.15.153.1-microsoft-standard-WSL2", ""),
        ("6.9.3", ""),
    ],
)
def test_flavour_of_release(release, flavour):
    assert flavour_of(release) == flavour


def test_kernel_version_and_command_line_are_split():
    files = {
        RELEASE: "6.8.0-45-generic\n",
        "/proc/cmdline": 'root=UUID=1 ro quiet dyndbg="file a +p; file b +p"\n',
    }
    kernel = Facts(FakeReader(files | {"/proc/sys/kernel/arch": "aarch64\n"})).kernel
    assert kernel.version == (6, 8)
    assert kernel.architecture == "aarch64"
    assert kernel.command_line == ("root=UUID=1", "ro", "quiet", 'dyndbg="file a +p; file b +p"')


def test_command_line_with_an_open_quote_loses_nothing():
    assert split_command_line('a="b c') == ('a="b c',)
    assert split_command_line("") == ()


def test_kernel_before_6_2_takes_the_architecture_from_the_cpu():
    reader = FakeReader({"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu lm\n"})
    assert Facts(reader).kernel.architecture == "x86_64"
    assert reader.asked == []


def test_kernel_before_6_2_on_arm_asks_uname():
    reader = FakeReader(
        {"/proc/cpuinfo": "CPU architecture: 8\n"}, queries={("uname", "-m"): "aarch64\n"}
    )
    assert Facts(reader).kernel.architecture == "aarch64"


def test_kernel_architecture_without_any_source_is_unknown():
    kernel = Facts(FakeReader({"/proc/cpuinfo": ""}, queries={("uname", "-m"): ABSENT})).kernel
    with pytest.raises(UnknownFact, match="tells the architecture"):
        _ = kernel.architecture


@pytest.mark.parametrize(
    ("files", "machine"),
    [
        ({"/var/lib/dpkg/arch": "arm64\namd64\n"}, "aarch64"),
        ({"/lib64/ld-linux-x86-64.so.2": ""}, "x86_64"),
        ({"/lib/ld-linux-aarch64.so.1": ""}, "aarch64"),
    ],
)
def test_kernel_of_an_image_knows_only_the_architecture(files, machine):
    hidden = {"/proc": "no kernel runs under --root"}
    kernel = Facts(FakeReader(files, kind="root", persistent_only=True, unreadable=hidden)).kernel
    assert kernel.architecture == machine
    with pytest.raises(UnknownFact, match="no kernel runs"):
        _ = kernel.release


def test_kernel_of_an_image_with_two_loaders_is_not_guessed():
    files = {"/lib64/ld-linux-x86-64.so.2": "", "/lib/ld-linux-aarch64.so.1": ""}
    with pytest.raises(UnknownFact, match="do not tell"):
        _ = Facts(FakeReader(files, kind="root", persistent_only=True)).kernel.architecture


def test_kernel_release_without_a_version_is_unknown_in_that_field_alone():
    kernel = Facts(FakeReader({RELEASE: "custom\n", "/proc/sys/kernel/arch": "x86_64"})).kernel
    assert kernel.release == "custom"
    with pytest.raises(UnknownFact, match="starts with no version"):
        _ = kernel.version


@pytest.mark.parametrize(("made", "found"), [(1_780_000_030, True), (1_779_000_000, False)])
def test_last_words_of_a_kernel_are_those_that_were_kept_since_the_boot(made, found):
    path = "/var/lib/systemd/pstore/7409947607948/dmesg-erst-7409947607948066822"
    stat = Stat("file", 0o600, 0, 0, 9, made * 10**9, 1, 2, 1)
    files = {"/proc/stat": "btime 1780000000\n", path: "Panic#1 Part1\n"}
    assert Facts(FakeReader(files, stats={path: stat})).kernel.last_words == (path if found else "")
    assert Facts(FakeReader({"/proc/stat": "btime 1780000000\n"})).kernel.last_words == ""
    assert Facts(FakeReader({path: "Panic#1 Part1\n"}, stats={path: stat})).kernel.last_words == ""
    closed = FakeReader(files, unreadable={"/var/lib/systemd/pstore": "no permission"})
    assert Facts(closed).kernel.last_words == ""
