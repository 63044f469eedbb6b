"""Who counts over whom among files of settings, whose they are, and the way out that edits no
package's file.
"""

import hashlib
import re

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.packages import DATABASE
from hosttune.facts.precedence import SYSCTL, TMPFILES, FileOrder, lost_words, way_over
from hosttune.host.door import Completed
from hosttune.values import HoldKind, Verdict
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import One, host

SESSION = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max locked memory         8388608              8388608              bytes     \n"
)
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
SCHEDULER = "/sys/block/sda/queue/scheduler"
UNIT = "/usr/lib/systemd/system/slurmd.service"
# kind of file: the wish, what the host has, the file of a package that counts over ours, and what
# it says
CASES = {
    "sysctl.d": (
        "- sysctl: vm.swappiness\n  at_most: 10",
        {"/proc/sys/vm/swappiness": "10\n"},
        "/usr/lib/sysctl.d/99-vendor.conf",
        "vm.swappiness = 60\n",
    ),
    "modprobe.d": (
        "- modprobe-option: nvidia.NVreg_X\n  exactly: 1",
        {},
        "/usr/lib/modprobe.d/nvidia-graphics-drivers.conf",
        "options nvidia NVreg_X=0\n",
    ),
    "limits.d": (
        "- limit: memlock\n  soft: unlimited\n  domains: ['*']",
        {"/proc/1/limits": SESSION},
        "/etc/security/limits.d/95-vendor.conf",
        "* soft memlock 64\n",
    ),
    "tmpfiles.d": (
        f"- sysfs: {THP}\n  exactly: madvise",
        {THP: "always [madvise] never\n"},
        "/usr/lib/tmpfiles.d/10-vendor.conf",
        f"w {THP} - - - - never\n",
    ),
    "udev": (
        f"- sysfs: {SCHEDULER}\n  exactly: none\n  persist: udev",
        {SCHEDULER: "[none] mq-deadline\n", "/sys/block/sda/size": "1"},
        "/usr/lib/udev/rules.d/99-vendor.rules",
        'ACTION=="add", SUBSYSTEM=="block", KERNEL=="sda", ATTR{queue/scheduler}="mq-deadline"\n',
    ),
    "unit": (
        "- systemd-setting: slurmd.service/Service/LimitMEMLOCK\n  exactly: infinity",
        {UNIT: "[Service]\nExecStart=/usr/sbin/slurmd\n"},
        f"{UNIT}.d/99-vendor.conf",
        "[Service]\nLimitMEMLOCK=64K\n",
    ),
    "program": (
        "- systemd-setting: logind.conf/Login/RemoveIPC\n  exactly: no",
        {},
        "/usr/lib/systemd/logind.conf.d/99-vendor.conf",
        "[Login]\nRemoveIPC=yes\n",
    ),
}


def machine(want, files, path, text):
    """A host on which dpkg says that the file is of the package vendor, below /usr/lib and as
    configuration.
    """
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    status = (
        f"Package: vendor\nStatus: install ok installed\nVersion: 1\nConffiles:\n {path} {digest}\n"
    )
    answers = {("dpkg-query", "--search", path): f"vendor: {path}\n"}
    base = {"/proc/cmdline": "quiet\n", "/proc/stat": "btime 1700000000\n", DATABASE: status}
    return One(host({**base, **files, path: text}, queries=answers), want)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_package_that_counts_over_ours_is_named_and_the_way_out_leads_to_ok(case):
    want, files, path, text = case
    found = machine(*case).finding()
    assert (found.verdict, found.hold.kind, found.changes) == (Verdict.DIFFERS, HoldKind.OWNED, ())
    assert f"{path}:" in found.hold.detail
    assert "of the package vendor" in found.hold.detail
    line, section, place = re.match(
        r"put `([^`]+)`(?:, below `([^`]+)`,)? into (\S+), which", found.todo
    ).groups()
    assert place.startswith("/etc/")
    assert place != path
    taken = f"{section}\n{line}\n" if section else f"{line}\n"
    assert machine(want, {**files, place: taken}, path, text).finding().verdict is Verdict.OK


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_file_of_an_administrator_is_changed_where_it_is(case):
    want, files, path, text = case
    own = path.replace("/usr/lib/", "/etc/")
    found = One(host({"/proc/cmdline": "\n", **files, own: text}), want).finding()
    assert found.hold.kind is HoldKind.OWNED
    assert f"{own}:" in found.hold.detail
    assert "of the administrator" in found.hold.detail
    assert found.todo.startswith(f"change {own}:")


def test_file_of_a_tool_is_changed_where_the_tool_takes_it_from():
    files = {
        "/proc/sys/vm/swappiness": "60\n",
        "/etc/sysctl.d/99-a.conf": "# Ansible managed\nvm.swappiness = 60\n",
    }
    found = One(host(files), "- sysctl: vm.swappiness\n  at_most: 10").finding()
    assert found.todo.startswith(
        "change it where Ansible takes it from; it writes /etc/sysctl.d/99-a.conf, or ignore"
    )


def test_own_file_that_loses_to_a_package_is_named_in_the_hold_and_in_the_evidence():
    case = CASES["sysctl.d"]
    mine = {"/etc/sysctl.d/30-site.conf": "vm.swappiness = 5\n"}
    found = machine(case[0], {**case[1], **mine}, *case[2:]).finding()
    assert found.hold.detail == (
        "/usr/lib/sysctl.d/99-vendor.conf:1 of the package vendor (vm.swappiness = 60), over /etc/sysctl.d/30-site.conf:1"
    )
    assert (
        "/etc/sysctl.d/30-site.conf:1 of the administrator (vm.swappiness = 5) has no effect: "
        "/usr/lib/sysctl.d/99-vendor.conf:1 of the package vendor is read later"
    ) in found.evidence


def test_own_file_that_loses_is_not_the_obstacle_where_a_package_is():
    case = CASES["sysctl.d"]
    found = machine(
        case[0], {**case[1], "/etc/sysctl.d/30-site.conf": "vm.swappiness = 50\n"}, *case[2:]
    ).finding()
    assert found.hold.detail.startswith("/usr/lib/sysctl.d/99-vendor.conf:1 of the package vendor")
    assert found.todo.startswith("put `vm.swappiness = 10` into /etc/sysctl.d/zz-local.conf")


def test_value_of_sysctl_conf_that_nothing_reads_is_named_and_respected():
    files = {
        "/run/systemd/system/x": "",
        "/proc/sys/vm/swappiness": "60\n",
        "/etc/sysctl.conf": "vm.swappiness = 60\n",
    }
    found = One(host(files, queries={}), "- sysctl: vm.swappiness\n  at_most: 10").finding()
    assert "/etc/sysctl.conf:1 (vm.swappiness = 60) is not read at boot" in found.evidence
    assert (
        str(found.hold)
        == "managed by /etc/sysctl.conf:1 (vm.swappiness = 60), which is not read at boot"
    )
    assert "move it to /etc/sysctl.d if it is meant" in found.todo


@pytest.mark.parametrize(
    ("path", "first", "over"),
    [
        ("/usr/lib/sysctl.d/50-x.conf", False, "/etc/f.d/zz-local.conf"),
        ("/usr/lib/sysctl.d/zz-x.conf", False, "/etc/f.d/zzzz-x.conf"),
        (
            "/usr/lib/sysctl.d/{.conf",
            False,
            "/etc/f.d/{.conf",
        ),  # no name that anyone would choose: the same name
        ("/usr/lib/tmpfiles.d/tmp.conf", True, "/etc/f.d/00-local.conf"),
        ("/usr/lib/tmpfiles.d/00-a.conf", True, "/etc/f.d/00-a.conf"),
        ("/usr/lib/tmpfiles.d/!.conf", True, "/etc/f.d/!.conf"),
    ],
)
def test_name_that_counts(path, first, over):
    assert FileOrder("/etc/f.d", counts_first=first).path_over(path) == over


def test_no_name_counts_over_the_file_that_tuned_reads_last():
    assert SYSCTL.path_over("/etc/sysctl.conf") == "/etc/sysctl.conf"


def test_owners():
    digest = hashlib.md5(b"a", usedforsecurity=False).hexdigest()
    shipped, foreign, unasked = (
        f"/usr/lib/sysctl.d/{name}.conf" for name in ("50-a", "50-b", "50-c")
    )
    files = {
        **dict.fromkeys(
            (shipped, foreign, unasked, "/usr/local/lib/sysctl.d/a.conf", "/run/sysctl.d/a.conf"),
            "x",
        ),
        "/etc/sysctl.d/10-as-it-came.conf": "a",
        "/etc/sysctl.d/10-changed.conf": "b",
        "/etc/sysctl.d/20-site.conf": "x",
        "/etc/sysctl.d/20-ansible.conf": "# Ansible managed\n",
        "/etc/sysctl.d/90-cloudimg.conf": "x",
        "/etc/sysctl.d/60-hosttune-a.conf": "x",
        DATABASE: (
            "Package: procps\nStatus: install ok installed\nConffiles:\n"
            f" /etc/sysctl.d/10-as-it-came.conf {digest}\n /etc/sysctl.d/10-changed.conf {digest}\n"
        ),
    }
    none = Completed(1, b"", b"no path found")
    answers = {
        (
            "dpkg-query",
            "--search",
            shipped,
        ): f"diversion by x from: {shipped}\nsystemd:amd64: {shipped}\n",
        **{
            ("dpkg-query", "--search", name): none
            for name in (foreign, foreign.removeprefix("/usr"))
        },
    }
    owners = Facts(FakeReader(files, queries=answers)).file_owners
    told = {
        path: (owners[path].name, owners[path].kind, owners[path].decides)
        for path in files
        if path != DATABASE
    }
    assert told == {
        shipped: ("the package systemd", "package", False),
        foreign: ("no package", "unpackaged", False),
        unasked: ("the distribution", "package", False),
        "/usr/local/lib/sysctl.d/a.conf": ("the administrator", "administrator", True),
        "/run/sysctl.d/a.conf": ("a program that made it since the boot", "runtime", False),
        "/etc/sysctl.d/10-as-it-came.conf": ("the package procps", "configuration", False),
        "/etc/sysctl.d/10-changed.conf": (
            "the package procps (changed here)",
            "configuration",
            True,
        ),
        "/etc/sysctl.d/20-site.conf": ("the administrator", "administrator", True),
        "/etc/sysctl.d/20-ansible.conf": ("Ansible", "tool", True),
        "/etc/sysctl.d/90-cloudimg.conf": ("the cloud image", "tool", False),
        "/etc/sysctl.d/60-hosttune-a.conf": ("hosttune", "hosttune", True),
    }


def test_owners_of_endless_files_are_not_looked_for():
    owners = Facts(FakeReader()).file_owners
    with pytest.raises(UnknownFact, match="no path of a file"):
        _ = owners["etc"]
    with pytest.raises(UnknownFact, match="more than 2048 files"):
        for number in range(3000):
            _ = owners[f"/etc/{number}"]


def test_link_to_the_configuration_of_a_package_is_of_that_package():
    files = {
        "/etc/nvidia/current/nvidia.conf": "a",
        DATABASE: "Package: n\nConffiles:\n /etc/nvidia/current/nvidia.conf 0\n",
    }
    links = {
        "/etc/modprobe.d/nvidia.conf": "/etc/alternatives/n",
        "/etc/alternatives/n": "/etc/nvidia/current/nvidia.conf",
    }
    owner = Facts(FakeReader(files, links=links)).file_owners["/etc/modprobe.d/nvidia.conf"]
    assert owner.name == "the package n (changed here)"


def test_words_of_the_kernel_command_line_lose_nothing():
    files = {
        "/proc/cmdline": "sysctl.vm.swappiness=7\n",
        "/etc/sysctl.d/a.conf": "vm.swappiness = 5\n",
    }
    facts = Facts(FakeReader(files))
    settings = facts.sysctl_at_boot["vm.swappiness"].settings
    assert lost_words(settings, SYSCTL, facts.file_owners, "vm.swappiness") == ()
    assert way_over(settings[0], SYSCTL, facts.file_owners, "`x`").startswith(
        "change the kernel command line"
    )


def lost(files, **kwargs):
    systemd = {"/run/systemd/system/x": ""}
    return Facts(FakeReader({**systemd, **files}, **kwargs)).lost_settings.files


@pytest.mark.parametrize(
    ("own", "text", "vendor", "theirs", "says"),
    [
        ("/etc/sysctl.d/30-a.conf", "kernel.sysrq=1\n", "/usr/lib/sysctl.d/99-v.conf", "kernel/sysrq = 0\n", "kernel.sysrq = 1"),
        (
            "/etc/modprobe.d/a.conf", "options nvidia-drm modeset=0\n",
            "/lib/modprobe.d/v.conf", "options nvidia_drm modeset=1\n", "options nvidia_drm modeset=0",
        ),
        (
            "/etc/tmpfiles.d/zz.conf", "f /srv/x 0600 root - - the text of it\n",
            "/usr/lib/tmpfiles.d/v.conf", "f /srv/x 0644 root - - x\n", "f /srv/x 0600 root - -",
        ),
        (
            "/etc/udev/rules.d/10-a.rules", 'KERNEL=="sda", SUBSYSTEM=="block", ATTR{queue/x}="1"\n',
            "/usr/lib/udev/rules.d/60-v.rules", 'SUBSYSTEM=="block", KERNEL=="sda", ATTR{queue/x}="2"\n',
            'KERNEL=="sda", SUBSYSTEM=="block", ATTR{queue/x}="1"',
        ),
        (
            "/etc/systemd/system/a.service.d/10-a.conf", "[Service]\nLimitNOFILE=9\n",
            "/usr/lib/systemd/system/a.service.d/20-v.conf", "[Service]\nLimitNOFILE=8\n", "LimitNOFILE=9 of a.service",
        ),
        (
            "/etc/systemd/system/a.service", "[Service]\nUser=me\n",
            "/usr/lib/systemd/system/a.service.d/20-v.conf", "[Service]\nUser=x\n", "User=me of a.service",
        ),
        (
            "/etc/systemd/journald.conf", "[Journal]\nSystemMaxUse=1G\n",
            "/usr/lib/systemd/journald.conf.d/v.conf", "[Journal]\nSystemMaxUse=9G\n", "SystemMaxUse=1G",
        ),
    ],
)  # fmt: skip
def test_own_setting_that_loses_is_found(own, text, vendor, theirs, says):
    unit = {"/usr/lib/systemd/system/a.service": "[Service]\nExecStart=/bin/a\n"}
    (found,) = lost({**unit, own: text, vendor: theirs})
    assert (found.path, found.winner, found.text) == (own, vendor, says)
    assert (found.owner, found.winner_owner) == ("the administrator", "the distribution")
    assert lost({**unit, own: text, vendor: ""}) == ()


def test_limit_that_loses_to_the_configuration_of_a_package_is_found():
    vendor, text = "/etc/security/limits.d/95-v.conf", "* - nofile 1024\n"
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    files = {"/etc/security/limits.conf": "* soft nofile 65536\n@gpu soft nofile 9\n", vendor: text}
    (found,) = lost({**files, DATABASE: f"Package: v\nConffiles:\n {vendor} {digest}\n"})
    assert (found.text, found.winner_owner) == ("* soft nofile 65536", "the package v")
    assert found.better == "/etc/security/limits.d/zz-local.conf"
    assert lost({**files, DATABASE: ""}) == ()  # two files of an administrator


@pytest.mark.parametrize(
    "other",
    [
        "d /srv/x 0700 root root 1d\n",  # systemd-tmpfiles takes both
        "x /srv/x\n",  # of another table
        "f+ /srv/x - - - - more\n",
        "z /srv/x 0700 root root\n",
    ],
)
def test_lines_of_tmpfiles_that_do_not_compete(other):
    files = {
        "/etc/tmpfiles.d/zz.conf": other,
        "/usr/lib/tmpfiles.d/a.conf": "q /srv/x 0700 root root 1d\n",
    }
    assert lost(files) == ()


def test_setting_of_set_property_counts_over_a_drop_in_with_an_earlier_name():
    files = {
        "/etc/systemd/system.control/slurmd.service.d/50-LimitMEMLOCK.conf": "[Service]\nLimitMEMLOCK=1\n",
        f"{UNIT}.d/40-v.conf": "[Service]\nLimitMEMLOCK=2\n",
        UNIT: "[Service]\nLimitMEMLOCK=3\n",
    }
    values = Facts(FakeReader(files)).unit_settings["slurmd.service/Service/LimitMEMLOCK"].values
    assert [one.value for one in values] == ["3", "2", "1"]


def test_lists_of_a_unit_add_up():
    unit = "/usr/lib/systemd/system/a.service"
    files = {unit: "[Unit]\nAfter=x\n", f"{unit}.d/z.conf": "[Unit]\nAfter=y\n", "/etc/systemd/system/a.service.d/b.conf": "[Unit]\nAfter=z\n"}  # fmt: skip
    assert lost(files) == ()


UNREAD = {"/etc/sysctl.conf": "net.ipv4.ip_forward = 1\n"}


@pytest.mark.parametrize(
    "files",
    [
        {"/etc/rc.local": "#!/bin/sh\nsysctl -p\n"},
        {"/etc/rc.local": "#!/bin/sh\n/sbin/sysctl -q --system\n"},
        {"/etc/rc.local": "#!/bin/sh\nsysctl -qp /etc/sysctl.conf\n"},
        {"/etc/sysctl.d/99-x.conf": "net.ipv4.ip_forward = 1\n"},
    ],
)
def test_sysctl_conf_that_something_reads_is_not_lost(files):
    units = {"/etc/systemd/system/x": ""}
    stats = {"/etc/rc.local": FakeReader({"/etc/rc.local": "x"}).stat("/etc/rc.local")}
    executable = {path: type(one)(**{**{name: getattr(one, name) for name in one.__slots__}, "mode": 0o755}) for path, one in stats.items()}  # fmt: skip
    found = lost({**UNREAD, **units, **files}, stats=executable if "/etc/rc.local" in files else {})
    assert found == ()


def test_sysctl_conf_is_read_by_a_link_and_without_systemd():
    assert lost(UNREAD, links={"/etc/sysctl.d/99-sysctl.conf": "../sysctl.conf"}) == ()
    assert Facts(FakeReader(UNREAD)).lost_settings.files == ()
    (found,) = lost(UNREAD)
    assert (found.winner, found.better, found.lines) == ("", "/etc/sysctl.d/99-sysctl.conf", (1,))


def test_what_could_not_be_read_is_unknown():
    facts = Facts(
        FakeReader(
            {"/etc/sysctl.d/a.conf": "a.b=1\n"}, unreadable={"/etc/modprobe.d": "needs root"}
        )
    )
    with pytest.raises(UnknownFact, match="needs root"):
        _ = facts.lost_settings.files


def test_image_is_judged_without_its_run():
    files = {
        "/etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\n",
        "/usr/lib/systemd/logind.conf.d/v.conf": "[Login]\nRemoveIPC=yes\n",
        "/usr/lib/systemd/systemd": "",
        **UNREAD,
    }
    reader = FakeReader(
        files,
        links={"/sbin/init": "/usr/lib/systemd/systemd"},
        unreadable={"/run": "no kernel"},
        persistent_only=True,
    )
    assert [one.path for one in Facts(reader).lost_settings.files] == [
        "/etc/sysctl.conf",
        "/etc/systemd/logind.conf",
    ]


def test_order_of_tmpfiles_is_the_other_way_round():
    assert TMPFILES.is_over("10-a.conf", "90-b.conf")
    assert SYSCTL.is_over("90-b.conf", "10-a.conf")


def test_masked_unit_has_nothing_to_lose():
    mask = {"/etc/systemd/system/slurmd.service": "/dev/null"}
    files = {"/usr/lib/systemd/system/slurmd.service": "[Service]\nType=simple\n"}
    assert (
        lost(files, links=mask, unreadable={"/dev/null": "/dev/null is not a regular file"}) == ()
    )
