"""What the programs themselves make of configuration files of ours: systemd, needrestart's Perl,
modprobe.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hosttune.facts import Facts
from hosttune.rendering import render
from tests.live.namespace import run
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import One, host

OURS = "/etc/modprobe.d/60-hosttune-gpu-profiling.conf"
OPTION = "NVreg_RestrictProfilingToAdminUsers"
UNIT = "[Service]\nExecStart=/bin/true --user x --no-persistence-mode --verbose\n[Install]\nWantedBy=multi-user.target\n"


def written(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


@pytest.mark.parametrize(
    "files",
    [
        {"/etc/systemd/logind.conf": "[Login]\nRemoveIPC=yes\n"},
        {"/etc/systemd/logind.conf": "[Login]\n", "/etc/systemd/logind.conf.d/60-hosttune-a.conf": "[Login]\nRemoveIPC=no\n"},
        {
            "/etc/systemd/logind.conf.d/60-hosttune-a.conf": "[Login]\nRemoveIPC=no\n",
            "/etc/systemd/logind.conf.d/99-site.conf": "[Login]\nRemoveIPC=yes\n",
            "/usr/lib/systemd/logind.conf.d/70-vendor.conf": "[Login]\nRemoveIPC=1\n",
        },
        {
            "/usr/lib/systemd/logind.conf.d/99-site.conf": "[Login]\nRemoveIPC=1\n",
            "/etc/systemd/logind.conf.d/99-site.conf": "[Login]\nRemoveIPC=no\n",
        },
    ],
)  # fmt: skip
def test_systemd_reads_the_files_in_the_order_that_is_foretold(files, tmp_path):
    told = run(
        "systemd-analyze", f"--root={written(tmp_path, files)}", "cat-config", "systemd/logind.conf"
    )
    values = Facts(FakeReader(files)).unit_settings["logind.conf/Login/RemoveIPC"].values
    assert [one.value for one in values] == re.findall(r"^RemoveIPC=(\w+)", told, re.MULTILINE)


def test_systemd_accepts_a_unit_with_the_dropin_of_ours(tmp_path):
    dropin = render(
        "unit-exec.conf.j2",
        rule="gpu-persistence",
        origin="x",
        option="--no-persistence-mode",
        command="/bin/true --user x --verbose",
    )
    units = written(
        tmp_path, {"/a.service": UNIT, "/a.service.d/60-hosttune-gpu-persistence.conf": dropin}
    )
    command = ("systemd-analyze", "verify", "--man=no", str(units / "a.service"))
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={"SYSTEMD_UNIT_PATH": f"{units}:"}
    )
    assert (done.returncode, done.stderr) == (0, "")
    twice = dropin.replace(
        "ExecStart=\n", ""
    )  # two commands, which a unit of this type may not have
    (units / "a.service.d/60-hosttune-gpu-persistence.conf").write_text(twice)
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={"SYSTEMD_UNIT_PATH": f"{units}:"}
    )
    assert "ExecStart" in done.stderr


def test_perl_reads_our_exceptions_beside_those_of_the_distribution(tmp_path):
    text = render(
        "needrestart.conf.j2",
        rule="services-needrestart",
        services=(r"^docker\.service$", r"^nvidia\-dcgm\.service$"),
    )
    (tmp_path / "60-hosttune.conf").write_text(text)
    script = """
        our %nrconf = (restart => 'a', override_rc => { qr(^dbus) => 0 });
        do $ARGV[0]; die $@ if $@;
        for my $service (@ARGV[1..$#ARGV]) {
            my ($kept) = map { $nrconf{override_rc}{$_} } grep { $service =~ /$_/ } keys %{$nrconf{override_rc}};
            print "$service=", $kept // 'restarted', "\\n";
        }
    """
    names = (
        "docker.service",
        "nvidia-dcgm.service",
        "dbus.service",
        "cron.service",
        "dockerXservice",
    )
    told = run("perl", "-w", "-e", script, tmp_path / "60-hosttune.conf", *names).split()
    assert told == [
        "docker.service=0",
        "nvidia-dcgm.service=0",
        "dbus.service=0",
        "cron.service=restarted",
        "dockerXservice=restarted",
    ]


@pytest.mark.parametrize(
    "files",
    [
        {OURS: f"# ours\noptions nvidia {OPTION}=0\n"},
        {OURS: f"options nvidia {OPTION}=0\n", "/etc/modprobe.d/99-site.conf": f"options nvidia {OPTION}=1\n"},
        {OURS: f"options nvidia {OPTION}=0\n", "/etc/modprobe.d/10-site.conf": f"options nvidia NVreg_EnableMSI=1 \\\n  {OPTION}=1\n"},
        {"/etc/modprobe.d/a.conf": f"#options nvidia {OPTION}=1\noptions nvidia-drm modeset=1\n"},
    ],
)  # fmt: skip
def test_modprobe_reads_the_options_in_the_order_that_is_foretold(files, tmp_path):
    folder = written(tmp_path, files) / "etc/modprobe.d"
    options = [
        line
        for line in run("modprobe", "--showconfig", "-C", folder).splitlines()
        if line.startswith("options nvidia ")
    ]
    told = re.findall(rf"\b{OPTION}=(\S+)", "\n".join(options))
    facts = Facts(FakeReader({**files, "/proc/cmdline": "quiet\n"}))
    assert [one.value for one in facts.module_options[f"nvidia.{OPTION}"].settings] == told


def test_modprobe_reads_the_dropin_of_ours(tmp_path):
    one = One(
        host({"/proc/cmdline": "quiet\n"}), f"- modprobe-option: nvidia.{OPTION}\n  exactly: '0'"
    )
    one.apply()
    kept = {path: text for path, text in one.kept().items() if path.startswith("/etc/modprobe.d/")}
    folder = written(tmp_path, kept) / "etc/modprobe.d"
    assert (
        f"options nvidia {OPTION}=0" in run("modprobe", "--showconfig", "-C", folder).splitlines()
    )
