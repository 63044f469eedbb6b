"""`hosttune driver`: one table of what is installed, loaded, offered, recommended and chosen."""

import json
from dataclasses import replace

import pytest

from hosttune.choices.driver_state import UNITS
from hosttune.cli import app
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts, RequestedNames
from hosttune.facts.gpu.candidates import models_in
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.reading.rooted import RootReader
from hosttune.host.record.record import read_record
from hosttune.values import ABSENT, FileValue
from hosttune.views.driver import DriverTable, StateRow, driver_json, driver_table, driver_text
from hosttune.views.page import Page
from hosttune.views.step_commands import find_command
from hosttune.views.terminal import Screen
from tests.hosts.built import BUILT, HOSTS
from tests.unit.schemas import faults
from tests.unit.test_driver_forward import AUGUST_2028, H100, NOVEMBER_2027, host

PARAMS = builtin_catalog().rules["gpu-driver"].defaults


PORT = "/sys/devices/pci0000:18/0000:18:01.0/0000:19:00.0/0000:1a:00.0"


def table_of(name, files=None, **params):
    overlay = Overlay(read_record(str(HOSTS / f"{name}.json")))
    for path, text in (files or {}).items():
        overlay.files[path] = ABSENT if text is None else FileValue(text.encode())
    return driver_table(
        Facts(overlay, RequestedNames(units=frozenset(UNITS))), {**PARAMS, **params}
    )


def test_new_server_shows_what_would_be_installed_and_why():
    text = driver_text(table_of("a100-cloud-vm"), Page())
    assert text.startswith(
        "FAULT, absent: no driver for 1 x NVIDIA A100 80GB PCIe\n"
        "  -> hosttune plan --only gpu-driver shows what apply would do\n"
        "  -> hosttune apply --yes --only gpu-driver does it\n"
        "\n"
        "1 x NVIDIA A100 80GB PCIe (ampere)\n"
        "  installed    nothing\n"
        "  loaded       nothing\n"
        "  available    branches 580 (long-term, supported until 2028-06), 595\n"
        "               (production, supported until 2027-03)\n"
        "  recommended  595-server-open (by ubuntu-drivers, for the whole machine)\n"
        "  chosen       580-server-open, to install\n"
        "\n"
        "Why: driver 580-server-open for 1 x NVIDIA A100 80GB PCIe: the newest long-term\n"
        "  branch offered; open kernel module, prebuilt and signed\n"
    )
    assert text.count("no driver for") == 1


def test_generation_that_has_the_older_ones_in_it_is_called_so():
    """Ours ends at Fermi: a GT218 is older, and is no Fermi."""
    table = table_of("a100-cloud-vm")
    older = replace(table, rows=tuple(replace(row, generation="fermi") for row in table.rows))
    assert "1 x NVIDIA A100 80GB PCIe (fermi or older)\n" in driver_text(older, Page())


def test_container_is_offered_no_package_for_the_driver_of_its_host():
    text = driver_text(table_of("container-docker"), Page())
    assert text.startswith("container: in a container the driver belongs to the host\n")
    assert "nvidia holds it, in a version that is not known" in text
    assert "apt-get" not in text
    assert "not known:" not in text


def test_what_is_not_known_is_said_once(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text("ID=debian\n")
    table = driver_table(Facts(RootReader(str(tmp_path))), PARAMS)
    assert table.unknown == ("no kernel runs under --root; give --hardware RECORD",)


def test_refusal_shows_the_way_out():
    text = driver_text(table_of("workstation-rtx4090"), Page())
    assert text.startswith(
        "FAULT, absent: no driver for 1 x NVIDIA GeForce RTX 4090 (nouveau holds it"
    )
    assert (
        text.count(
            "\n  -> Ubuntu's kernel has prebuilt modules: sudo apt-get install linux-generic\n"
        )
        == 1
    )
    assert "and boot it (GRUB boots the newest: choose it in its menu)" in " ".join(text.split())


def test_vgpu_is_offered_nothing_of_the_distribution():
    device = "/sys/bus/pci/devices/0001:00:00.0"
    (row,) = table_of(
        "a100-cloud-vm", {f"{device}/device": "0x2236\n", f"{device}/subsystem_device": "0x14bb\n"}
    ).rows
    assert row.title == "1 x vGPU of NVIDIA A10"
    assert row.available.startswith("none: only the GRID driver")
    assert "which takes it for a whole card" in row.recommended


def test_gpu_that_our_table_does_not_know_has_the_name_that_ubuntu_drivers_gives_it():
    device = "/sys/bus/pci/devices/0001:00:00.0/device"
    files = {device: "0x20bf\n"}
    assert table_of("a100-cloud-vm", files).rows[0].title == "1 x NVIDIA device 0x20bf"
    sections = "== /sys/devices/x ==\nmodalias : pci:v000010DEd000020BFsv000010DEsd00001533bc03sc02i00\nvendor   : NVIDIA Corporation\nmodel    : GA100 [NEW]\n"
    assert models_in(sections) == {"0x20bf": "GA100 [NEW]"}


def test_healthy_server_is_current():
    table = table_of("h100-8x-2socket")
    (row,) = table.rows
    assert (row.title, len(row.slots)) == ("8 x NVIDIA H100 80GB HBM3", 8)
    assert (row.installed, row.loaded) == (
        "580-server-open, 580.126.20 (long-term, supported until 2028-06)",
        "580.126.20, open module",
    )
    assert (row.chosen, table.action) == ("580-server-open, as it is", "keep")
    assert [state.name for state in table.states] == ["current"]
    assert table.unknown == ()


def test_mismatch_says_what_to_do():
    version = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs)\n"
    )
    table = table_of("h100-8x-2socket", {"/proc/driver/nvidia/version": version})
    text = driver_text(table, Page())
    assert "the loaded module is 580.95.05 and the libraries are 580.126.20" in " ".join(
        text.split()
    )
    assert text.startswith("FAULT, mismatch: ")
    assert ". drain the host and reboot" in text
    assert text.index("1. ") < text.index("8 x NVIDIA H100")


def test_gpus_that_differ_have_rows_of_their_own():
    table = table_of(
        "h100-8x-2socket",
        {"/proc/driver/nvidia/gpus/0000:1b:00.0/information": "Model: \t NVIDIA H100\n"},
    )
    assert [row.title for row in table.rows] == ["1 x NVIDIA H100", "7 x NVIDIA H100 80GB HBM3"]


def test_gpu_that_is_held_for_virtual_machines_is_said_to_be_theirs():
    overlay = Overlay(read_record(str(HOSTS / "h100-8x-2socket.json")))
    overlay.links[f"{PORT}/0000:1b:00.0/driver"] = "/sys/bus/pci/drivers/vfio-pci"
    table = driver_table(Facts(overlay, RequestedNames(units=frozenset(UNITS))), PARAMS)
    assert [row.title[:1] for row in table.rows] == ["1", "7"]
    assert (
        table.rows[0].loaded
        == "vfio-pci holds it for virtual machines: what manages those gives it back"
    )


def test_refusal_is_told():
    table = table_of("workstation-rtx4090")
    assert (table.action, table.rows[0].chosen) == ("refuse", "nothing: blocked")
    assert table.rows[0].loaded == "nouveau holds it"


def test_machine_without_a_gpu_says_so():
    assert (
        driver_text(table_of("no-gpu-debian12"), Page())
        == "no GPU: no NVIDIA GPU is on the PCI bus\n"
    )


def test_loaded_driver_without_a_gpu_is_a_fault():
    table = table_of("no-gpu-debian12", {"/sys/module/nvidia/version": "580.95.05\n"})
    ((state),) = table.states
    assert (state.name, state.is_fault, state.is_dead) == ("GPU gone", True, True)
    assert driver_text(table, Page()).startswith("FAULT, GPU gone: no NVIDIA GPU is on the PCI bus")


@pytest.mark.parametrize("name", [path.stem for path in BUILT])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_record_fits_the_width_and_the_schema(name, width):
    table = table_of(name)
    assert faults(json.loads(json.dumps(driver_json(table, Page()))), "driver") == []
    text = driver_text(table, Page(screen=Screen(width), is_verbose=True))
    assert text.endswith("\n")
    assert "  \n" not in text
    long = [
        line
        for line in text.splitlines()
        if len(line) > width and not find_command(line.strip().removeprefix("-> "))
    ]
    assert all(any(len(word) > 20 for word in line.split()) for line in long)


def test_long_page_ends_with_the_verdict_the_first_steps_and_why_the_status_is_1():
    first = StateRow(
        "DKMS failed", True, "no module for this kernel", "sudo dkms autoinstall", True
    )
    others = tuple(StateRow(f"state {at}", True, "it is so", "see why") for at in range(8))
    for states, begins in (((first, *others), ["FAULT, DKMS failed: no module for this kernel", "  -> sudo dkms autoinstall"]),
                           ((first,), [])):  # fmt: skip
        text = driver_text(DriverTable((), "keep", (), (), "", states, ()), Page(screen=Screen(80)))
        more = ", 8 states to solve" if begins else ""
        assert text.rpartition("\n\n")[2].splitlines() == [
            *begins,
            f"Exit status 1: 1 fault{more}.",
        ]
    fine = driver_text(DriverTable((), "keep", (), (), "", (), ()), Page(screen=Screen(80)))
    assert "Exit status" not in fine


def test_steps_that_a_state_shows_are_not_shown_again():
    """Also where the state says more behind one of them; the command stands on the line of its
    arrow.
    """
    command = "sudo apt-get install " + " ".join(
        f"linux-modules-nvidia-580-open-6.8.0-{at}-generic" for at in (45, 48)
    )
    state = StateRow(
        "DKMS failed",
        True,
        "dpkg stopped half-way",
        f"{command} (if apt has them)\nsudo dpkg -a",
        True,
    )
    table = DriverTable((), "refuse", (), (), f"{command}\nsudo dpkg -a", (state,), ())
    text = driver_text(table, Page(screen=Screen(80)))
    assert text.count("sudo dpkg -a") == 1
    assert f"\n  1. {command}\n     (if apt has them)\n" in text


@pytest.mark.parametrize(
    ("installed", "month"), [("580-server-open", "2028-08"), ("580-server", "2028-08")]
)
def test_why_repeats_neither_the_end_of_a_branch_nor_what_lacks(installed, month):
    """The end of support stands in the state and in the rows, in one of each alone."""
    page = Page(screen=Screen(10_000))
    for switch in (False, True):
        table = driver_table(
            host(AUGUST_2028, [H100], month, installed=installed),
            PARAMS | {"switch_branch": switch},
        )
        why = driver_text(table, page).partition("Why: ")[2]
        assert why
        assert "has ended" in "".join(table.clauses)
        assert "ended" not in why
    text = driver_text(
        driver_table(host(NOVEMBER_2027, [H100], "2027-11"), PARAMS | {"branch": "580"}), page
    )
    assert "supported until" not in text.partition("Why: ")[2]
    assert "(long-term, supported until 2028-06)" in text


def test_why_repeats_no_reason_of_a_driver_that_is_absent():
    device = "/sys/bus/pci/devices/0001:00:00.0"
    guest = {f"{device}/device": "0x2236\n", f"{device}/subsystem_device": "0x14bb\n"}
    table = table_of("a100-cloud-vm", guest)
    assert (table.action, [state.name for state in table.states]) == ("refuse", ["absent"])
    text = " ".join(driver_text(table, Page()).split())
    assert "Why" not in text
    assert text.count("a hypervisor lends it") == text.count(table.way_out) == 1


@pytest.fixture
def broken(tmp_path):
    """A record of a host whose driver waits for a reboot, and whose fstab lets that boot fail."""
    data = json.loads((HOSTS / "h100-8x-2socket.json").read_text())
    for path in ("/proc/driver/nvidia/version", "/sys/module/nvidia/version"):
        data["files"][path] = data["files"][path].replace("580.126.20", "580.105.08")
    data["files"]["/etc/fstab"] += "UUID=no-disk-has-it /scratch ext4 defaults 0 2\n"
    path = tmp_path / "host.json"
    path.write_text(json.dumps(data))
    return str(path)


def test_advice_to_reboot_names_what_has_to_be_solved_before(broken, capsys):
    assert app.run(["driver", "--host", broken]) == 1
    out = capsys.readouterr().out
    assert "\nNo reboot before this is solved: storage-fstab: " in out
    assert app.run(["driver", "--host", broken, "--format", "json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert faults(data, "driver") == []
    assert [one.partition(":")[0] for one in data["before_reboot"]] == ["storage-fstab"]
    assert "no-disk-has-it" in data["before_reboot"][0]


def test_health_reports_a_line_once_and_names_it_before_the_reboot(broken, capsys):
    assert app.run(["health", "--host", broken, "--format", "json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert faults(data, "health") == []
    assert [one["rule"] for one in data["points"] if one["subject"] == "/scratch"] == [
        "storage-fstab"
    ]
    (driver,) = (one for one in data["points"] if one["rule"] == "gpu-driver-health")
    assert "(no reboot before storage-fstab is solved)" in driver["todo"]


@pytest.mark.parametrize("package", ["", "nvidia-utils-580"])
def test_driver_for_linux_under_wsl_is_to_go_and_windows_is_named(package):
    """microsoft/WSL issue 9166."""
    files = {
        "/proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n",
        "/proc/sys/fs/binfmt_misc/WSLInterop": "enabled\n",
    }
    if package:
        files["/var/lib/dpkg/status"] = (
            f"Package: {package}\nStatus: install ok installed\nArchitecture: amd64\nVersion: 580.95.05-0ubuntu1\n"
        )
    (state,) = table_of("no-gpu-debian12", files).states
    assert (state.name, state.is_fault, "the one of Windows" in state.evidence) == (
        "WSL",
        bool(package),
        True,
    )
    assert state.way_out == (f"sudo apt-get purge {package}" if package else "")
