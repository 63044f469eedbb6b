"""The way out over a package's file really counts: what hosttune names is written, and the programs
themselves read it, beside a file of a package in /usr/lib whose name sorts behind hosttune's own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hosttune.facts import Facts
from hosttune.facts.precedence import LIMITS, MODPROBE, SYSCTL, TMPFILES, unit_order
from tests.live.namespace import passes, run
from tests.unit.fake_reader import FakeReader

KEY = "net.ipv4.conf.all.arp_ignore"  # of a network namespace: nothing of this machine is set
SYSTEMD_SYSCTL = "/lib/systemd/systemd-sysctl"
VENDORS = (
    "60-vendor",
    "99-vendor",
    "zz-vendor",
    "zzz-vendor",
)  # names of packages' files, early to late
SCENARIOS = ("modprobe", "limits", "sysctl_conf", "sysctl_of_procps")


def write(root: Path, path: str, text: str) -> Path:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return root


def read_sysctl(root: Path, program: str) -> str:
    """The value in a fresh network namespace after a program has read the files below this root."""
    script = f"""
        for place in usr/lib/sysctl.d etc/sysctl.d etc/sysctl.conf; do
            [ -e "$0/$place" ] && mount --bind "$0/$place" "/$place"; done
        mount -t sysfs none /sys 2>/dev/null; {program} >/dev/null; cat /proc/sys/{KEY.replace(".", "/")}
    """
    return run(
        "unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", script, root
    ).strip()


@pytest.mark.parametrize("vendor", VENDORS)
def test_sysctl_over_that_of_a_package(vendor, tmp_path):
    path = f"/usr/lib/sysctl.d/{vendor}.conf"
    root = write(tmp_path, path, f"{KEY} = 2\n")
    write(root, "/etc/sysctl.d/10-site.conf", f"{KEY} = 1\n")
    assert read_sysctl(root, f"{SYSTEMD_SYSCTL} --prefix=/net/ipv4/conf") == "2"
    write(root, SYSCTL.path_over(path), f"{KEY} = 1\n")
    assert read_sysctl(root, f"{SYSTEMD_SYSCTL} --prefix=/net/ipv4/conf") == "1"


@pytest.mark.parametrize("vendor", ["00-vendor", "20-vendor", "tmp"])
def test_line_of_tmpfiles_over_that_of_a_package(vendor, tmp_path):
    path = f"/usr/lib/tmpfiles.d/{vendor}.conf"
    root = write(tmp_path, path, "f /srv/x - - - - vendor\n")
    write(root, "/etc/passwd", "root:x:0:0::/:/bin/sh\n")
    write(root, "/etc/tmpfiles.d/zz-site.conf", "f /srv/x - - - - site\n")
    assert "Duplicate line" in made_by_tmpfiles(root)
    assert (root / "srv/x").read_text() == "vendor"
    (root / "srv/x").unlink()
    write(root, TMPFILES.path_over(path), "f /srv/x - - - - site\n")
    made_by_tmpfiles(root)
    assert (root / "srv/x").read_text() == "site"


def made_by_tmpfiles(root: Path) -> str:
    return run("sh", "-c", 'systemd-tmpfiles --root="$0" --create --boot 2>&1 || true', root)


def test_lines_that_take_patterns_do_not_compete_with_the_others(tmp_path):
    lines = {
        "10-a": "x /srv/x\n",
        "20-b": "f /srv/x - - - - made\n",
        "30-c": "w /srv/x - - - - other\n",
    }
    files = {f"/etc/tmpfiles.d/{name}.conf": text for name, text in lines.items()}
    for path, text in files.items():
        write(tmp_path, path, text)
    write(tmp_path, "/etc/passwd", "root:x:0:0::/:/bin/sh\n")
    (tmp_path / "srv").mkdir()
    said = made_by_tmpfiles(tmp_path)
    assert re.findall(r"(\d\d-.)\.conf:1: Duplicate line", said) == ["30-c"]
    assert (tmp_path / "srv/x").read_text() == "made"


@pytest.mark.parametrize("vendor", VENDORS)
def test_setting_of_a_unit_over_that_of_a_package(vendor, tmp_path):
    path = f"/usr/lib/systemd/system/a.service.d/{vendor}.conf"
    write(tmp_path, "/usr/lib/systemd/system/a.service", "[Service]\nExecStart=/bin/true\n")
    write(tmp_path, path, "[Service]\nNoNewPrivileges=no\n")
    write(
        tmp_path, "/etc/systemd/system/a.service.d/10-site.conf", "[Service]\nNoNewPrivileges=yes\n"
    )
    assert not has_no_new_privileges(tmp_path)
    write(
        tmp_path, unit_order("system/a.service").path_over(path), "[Service]\nNoNewPrivileges=yes\n"
    )
    assert has_no_new_privileges(tmp_path)


def has_no_new_privileges(root: Path) -> bool:
    """What systemd's own loader makes of the unit and its drop-ins, without a systemd that runs."""
    said = run(
        "systemd-analyze", f"--root={root}", "security", "--offline=yes", "--no-pager", "a.service"
    )
    (row,) = (row for row in said.splitlines() if "NoNewPrivileges=" in row)
    return not row.lstrip().startswith(("\N{BALLOT X}", "x ", "✗"))


@pytest.mark.parametrize("vendor", VENDORS)
def test_setting_of_a_program_over_that_of_a_package(vendor, tmp_path):
    path = f"/usr/lib/systemd/logind.conf.d/{vendor}.conf"
    write(tmp_path, "/etc/systemd/logind.conf", "[Login]\nRemoveIPC=no\n")
    write(tmp_path, path, "[Login]\nRemoveIPC=yes\n")
    assert logind(tmp_path)[-1] == "yes"
    write(tmp_path, unit_order("logind.conf").path_over(path), "[Login]\nRemoveIPC=no\n")
    assert logind(tmp_path)[-1] == "no"


def logind(root: Path) -> list[str]:
    said = run("systemd-analyze", f"--root={root}", "cat-config", "systemd/logind.conf")
    return re.findall(r"^RemoveIPC=(\w+)", said, re.MULTILINE)


@pytest.mark.parametrize("name", SCENARIOS)
def test_programs_that_know_no_other_root(name, tmp_path):
    passes(__file__, name, tmp_path)


def scenario_modprobe(folder):
    for name in ("usr/lib/modprobe.d", "etc/modprobe.d"):
        (folder / name).mkdir(parents=True)
        run("mount", "--bind", folder / name, f"/{name}")
    for vendor in VENDORS:
        path = f"/usr/lib/modprobe.d/{vendor}.conf"
        write(folder, path, "options nvidia-drm modeset=1\n")
        write(folder, "/etc/modprobe.d/10-site.conf", "options nvidia_drm modeset=0\n")
        assert modprobe()[-1] == "1"
        over = MODPROBE.path_over(path)
        write(folder, over, "options nvidia-drm modeset=0\n")
        assert modprobe()[-1] == "0", path
        for one in (path, over):
            (folder / one.lstrip("/")).unlink()


def modprobe() -> list[str]:
    """The values in the order in which the kernel gets them: the last one counts."""
    return re.findall(
        r"^options nvidia_drm modeset=(\d)$", run("modprobe", "--showconfig"), re.MULTILINE
    )


def scenario_limits(folder):
    (folder / "limits.d").mkdir()
    run("mount", "--bind", folder / "limits.d", "/etc/security/limits.d")
    write(folder, "limits.d/00-hard.conf", "* hard nofile 8192\n")
    write(folder, "limits.d/90-vendor.conf", "* soft nofile 2048\n")
    write(folder, "limits.d/10-site.conf", "* soft nofile 4096\n")
    assert session() == "2048"
    write(folder, Path(LIMITS.path_over("/etc/security/limits.d/90-vendor.conf")).name, "")
    write(
        folder / "limits.d",
        Path(LIMITS.path_over("/etc/security/limits.d/90-vendor.conf")).name,
        "* soft nofile 4096\n",
    )
    assert session() == "4096"


def session() -> str:
    return run("su", "-s", "/bin/sh", "nobody", "-c", "ulimit -Sn").strip()


def scenario_sysctl_conf(folder):
    """Systemd reads it by a link only, and so do the facts."""
    write(folder, "/etc/sysctl.conf", f"{KEY} = 1\n")
    (folder / "etc/sysctl.d").mkdir()
    apply = f"{SYSTEMD_SYSCTL} --prefix=/net/ipv4/conf"
    assert read_sysctl(folder, apply) == "0"
    systemd = {"/run/systemd/system/x": "", "/etc/sysctl.conf": f"{KEY} = 1\n"}
    boot = Facts(FakeReader(systemd)).sysctl_at_boot[KEY]
    assert (boot.is_set, [one.value for one in boot.unread]) == (False, ["1"])
    (folder / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    assert read_sysctl(folder, apply) == "1"
    boot = Facts(
        FakeReader(systemd, links={"/etc/sysctl.d/99-sysctl.conf": "../sysctl.conf"})
    ).sysctl_at_boot[KEY]
    assert (boot.text, boot.unread) == ("1", ())


def scenario_sysctl_of_procps(folder):
    """Procps reads it without a link, after all others: a value that is in force until the next
    boot.
    """
    write(folder, "/etc/sysctl.conf", f"{KEY} = 1\n")
    write(folder, "/etc/sysctl.d/99-site.conf", f"{KEY} = 2\n")
    (folder / "usr/lib/sysctl.d").mkdir(parents=True)
    assert read_sysctl(folder, f"sysctl --system --pattern '^{KEY}$'") == "1"
    assert read_sysctl(folder, f"{SYSTEMD_SYSCTL} --prefix=/net/ipv4/conf") == "2"
