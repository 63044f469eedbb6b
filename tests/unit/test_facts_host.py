"""Host facts: container or host by namespaces, hypervisor, boot loader, Secure Boot, cloud."""

import hashlib

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.containment import INITIAL, ContainmentMarks, decide
from hosttune.host.reading.machine_id import machine_id_hash
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

DMI = "/sys/class/dmi/id"
VARIABLES = "/sys/firmware/efi/efivars"
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
DOCKER = INITIAL | {"pid": "pid:[4026532447]", "uts": "uts:[4026532445]", "ipc": "ipc:[4026532446]"}


def namespaces(**other):
    links = {f"/proc/self/ns/{name}": text for name, text in (INITIAL | other).items()}
    return links | {"/proc/self/ns/mnt": "mnt:[4026531841]", "/proc/1/ns/mnt": "mnt:[4026531841]"}


def host(files=None, links=None, **options):
    base = {
        "/proc/sys/kernel/osrelease": "6.8.0-45-generic\n",
        "/proc/sys/kernel/arch": "x86_64\n",
        "/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu lm\n\n",
        "/proc/1/comm": "systemd\n",
    }
    return Facts(
        FakeReader(base | (files or {}), links=namespaces() if links is None else links, **options)
    ).host


def virtual(**dmi):
    files = {f"{DMI}/{name}": f"{text}\n" for name, text in dmi.items()}
    return files | {"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu lm hypervisor\n\n"}


def test_containment_initial_namespaces_with_marks_is_host_and_says_who_wins():
    found = decide(
        ContainmentMarks(INITIAL, shares_init_mounts=True, marks=(("/.dockerenv", "docker"),))
    )
    assert found.is_container is False
    assert found.name == ""
    assert found.evidence == (
        "pid and user namespaces are the first ones (pid:[4026531836], user:[4026531837]): a host",
        "/.dockerenv says docker: a left-over, the namespaces win",
    )


def test_containment_own_pid_namespace_is_container_also_without_marks():
    found = decide(ContainmentMarks(DOCKER))
    assert (found.is_container, found.name) == (True, "other")
    assert "the pid namespace (pid:[4026532447]) is not the host's first one" in found.evidence[0]


def test_containment_own_user_namespace_alone_is_container():
    found = decide(
        ContainmentMarks(
            INITIAL | {"user": "user:[4026532999]"}, marks=(("/run/.containerenv", "podman"),)
        )
    )
    assert (found.is_container, found.name) == (True, "podman")


def test_containment_docker_with_the_hosts_processes_is_container():
    shared = DOCKER | {"pid": INITIAL["pid"]}
    found = decide(
        ContainmentMarks(shared, shares_init_mounts=False, marks=(("/.dockerenv", "docker"),))
    )
    assert (found.is_container, found.name) == (True, "docker")


def test_containment_private_mounts_on_a_microvm_made_from_an_image_is_host():
    found = decide(
        ContainmentMarks(INITIAL, shares_init_mounts=False, marks=(("/.dockerenv", "docker"),))
    )
    assert found.is_container is False


def test_containment_service_with_private_namespaces_and_no_mark_is_host():
    found = decide(ContainmentMarks(DOCKER | {"pid": INITIAL["pid"]}, shares_init_mounts=False))
    assert found.is_container is False


def test_containment_unreadable_namespaces_is_unknown_whatever_marks_say():
    with pytest.raises(UnknownFact, match="no kernel runs here"):
        decide(
            ContainmentMarks(
                INITIAL | {"pid": Unreadable("no kernel runs here")},
                marks=(("/.dockerenv", "docker"),),
            )
        )


def test_host_in_a_kubernetes_pod_names_kubernetes_and_docker_mark_stays_evidence():
    links = namespaces(pid="pid:[4026532447]")
    seen = host(
        {"/.dockerenv": "", "/run/secrets/kubernetes.io/serviceaccount/token": "x"},
        links | {"/var/run": "/run"},
    )
    assert seen.is_container
    assert seen.container == "kubernetes"
    assert seen.container_evidence[1:] == (
        "/var/run/secrets/kubernetes.io says kubernetes",
        "/.dockerenv says docker",
    )


def test_host_in_nspawn_is_named_by_the_managers_file():
    seen = host({"/run/systemd/container": "systemd-nspawn\n"}, namespaces(pid="pid:[4026532447]"))
    assert seen.container == "systemd-nspawn"


def test_host_wsl_is_a_container_of_that_name():
    files = {"/proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"}
    seen = host(files, namespaces(pid="pid:[4026532447]"))
    assert (seen.is_wsl, seen.is_container, seen.container) == (True, True, "wsl")


def test_host_azure_kernel_is_not_wsl():
    assert host({"/proc/sys/kernel/osrelease": "6.8.0-1015-azure\n"}).is_wsl is False


@pytest.mark.parametrize(
    ("dmi", "hypervisor", "cloud"),
    [
        ({"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"}, "amazon", "aws"),
        ({"sys_vendor": "Google", "product_name": "Google Compute Engine"}, "google", "gcp"),
        ({"sys_vendor": "QEMU", "product_name": "Standard PC (Q35 + ICH9, 2009)"}, "qemu", ""),
        ({"sys_vendor": "VMware, Inc.", "product_name": "VMware7,1"}, "vmware", ""),
        (
            {"sys_vendor": "OpenStack Foundation", "product_name": "OpenStack Nova"},
            "kvm",
            "openstack",
        ),
        ({"sys_vendor": "ACME", "product_name": "Thing"}, "unknown", ""),
        (
            {
                "sys_vendor": "Microsoft Corporation",
                "product_name": "Virtual Machine",
                "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77",
            },
            "microsoft",
            "azure",
        ),
    ],
)
def test_host_virtual_machine_hypervisor_and_cloud_come_from_dmi(dmi, hypervisor, cloud):
    seen = host(virtual(**dmi))
    assert (seen.is_vm, seen.hypervisor, seen.cloud) == (True, hypervisor, cloud)


def test_host_metal_instance_of_a_cloud_is_no_virtual_machine():
    files = {f"{DMI}/sys_vendor": "Amazon EC2\n", f"{DMI}/product_name": "g5g.metal\n"}
    assert host(files).is_vm is False
    arm = files | {
        "/proc/sys/kernel/arch": "aarch64\n",
        "/proc/cpuinfo": "CPU implementer\t: 0x41\n",
    }
    assert host(arm).is_vm is False
    assert host(arm).cloud == "aws"


def test_host_arm_server_without_hypervisor_marks_is_bare_metal():
    files = {
        "/proc/sys/kernel/arch": "aarch64\n",
        "/proc/cpuinfo": "",
        f"{DMI}/sys_vendor": "Supermicro\n",
    }
    files[f"{DMI}/product_name"] = "ARS-111GL-NHR\n"
    seen = host(files)
    assert (seen.is_vm, seen.product) == (False, "ARS-111GL-NHR")


def test_host_firecracker_without_dmi_is_found_by_acpi():
    table = b"FACP\x14\x01\x00\x00\x06fFIRECKFCVMFADT"
    seen = host(virtual() | {"/sys/firmware/acpi/tables/FACP": table})
    assert (seen.hypervisor, seen.product) == ("firecracker", "")


def test_host_kvm_without_dmi_is_found_by_its_clock():
    clock = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
    assert host(virtual() | {clock: "kvm-clock tsc acpi_pm \n"}).hypervisor == "kvm"


def test_host_xen_guest_is_vm_and_control_domain_is_not():
    files = {"/sys/hypervisor/type": "xen\n"}
    assert host(files).hypervisor == "xen"
    assert host(files | {"/proc/xen/capabilities": "control_d\n"}).is_vm is False


def test_host_device_tree_names_board_and_hypervisor():
    files = {
        "/proc/sys/kernel/arch": "aarch64\n",
        "/proc/cpuinfo": "",
        "/proc/device-tree/model": "linux,dummy-virt\0",
        "/proc/device-tree/compatible": "linux,dummy-virt\0",
    }
    seen = host(files)
    assert (seen.hypervisor, seen.product) == ("qemu", "linux,dummy-virt")


def test_host_cloud_id_counts_where_dmi_says_nothing():
    assert host({"/run/cloud-init/cloud-id": "oracle\n"}).cloud == "oracle"
    assert host({"/run/cloud-init/cloud-id": "gce\n"}).cloud == "gcp"
    assert host({"/run/cloud-init/cloud-id": "nocloud\n"}).cloud == ""


@pytest.mark.parametrize(
    ("files", "loader"),
    [
        ({"/boot/grub/grub.cfg": "x", "/boot/vmlinuz-6.8.0-45-generic": ""}, "grub"),
        ({"/boot/loader/entries/ubuntu.conf": "x"}, "systemd-boot"),
        ({"/boot/vmlinuz-6.8.0-45-generic": ""}, "unknown"),
        ({"/boot/grub/grubenv": ""}, "none"),
        ({}, "none"),
        (
            {
                f"{VARIABLES}/LoaderInfo-{LOADER}": b"\6\0\0\0"
                + "systemd-boot 255.4".encode("utf-16-le")
            },
            "systemd-boot",
        ),
        (
            {
                f"{VARIABLES}/LoaderInfo-{LOADER}": b"\6\0\0\0" + "GRUB 2.12\0".encode("utf-16-le"),
                "/boot/loader/entries/left-over.conf": "",
            },
            "grub",
        ),
    ],
)
def test_host_boot_loader(files, loader):
    assert host(files).boot_loader == loader


def test_host_boot_loader_behind_unreadable_folders_is_unknown():
    seen = host(
        {"/boot/vmlinuz-6.8.0": ""},
        unreadable={"/boot/efi": "needs root: permission denied on /boot/efi"},
    )
    with pytest.raises(UnknownFact, match="needs root"):
        _ = seen.boot_loader


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({f"{VARIABLES}/SecureBoot-{GLOBAL}": b"\6\0\0\0\1"}, True),
        ({f"{VARIABLES}/SecureBoot-{GLOBAL}": b"\6\0\0\0\0"}, False),
        (
            {
                f"{VARIABLES}/SecureBoot-{GLOBAL}": b"\6\0\0\0\1",
                f"{VARIABLES}/MokSBStateRT-{SHIM}": b"\7\0\0\0\1",
            },
            False,
        ),
        ({f"{VARIABLES}/BootOrder-{GLOBAL}": b"\7\0\0\0\0\0"}, None),
    ],
)
def test_host_secure_boot_is_what_the_kernel_sees(files, expected):
    assert host(files).secure_boot is expected


def test_host_efi_without_variables_leaves_secure_boot_unknown():
    seen = host(folders=("/sys/firmware/efi",))
    assert seen.is_uefi
    with pytest.raises(UnknownFact, match="efivars is not mounted"):
        _ = seen.secure_boot


def test_machine_id_hash_is_stable_and_never_the_id():
    machine_id = "0123456789abcdef0123456789abcdef"
    expected = hashlib.sha256(f"hosttune:{machine_id}".encode()).hexdigest()[:16]
    assert host({"/etc/machine-id": machine_id + "\n"}).machine_id_hash == expected
    assert machine_id_hash(f"hosttune:{expected}\n") == expected
    assert machine_id_hash("uninitialized\n") == ""
    assert host().machine_id_hash == ""


def test_host_systemd_runs_only_where_its_folder_is():
    assert host(folders=("/run/systemd/system",)).has_systemd
    assert host(folders=("/run/systemd/sessions",)).has_systemd is False


@pytest.mark.parametrize(
    ("files", "folders", "expected"),
    [
        ({}, ("/run/systemd/system",), True),
        ({"/etc/init.d/mountall.sh": ""}, (), True),
        ({"/etc/init.d/localmount": ""}, (), True),
        (
            {"/etc/init.d/README": ""},
            (),
            False,
        ),  # a container image that a microVM starts with an init of its own
    ],
)
def test_host_knows_who_mounts_what_fstab_says(files, folders, expected):
    assert host(files, folders=folders).mounts_fstab is expected


def test_host_image_boots_with_what_init_is():
    links = {"/sbin/init": "../lib/systemd/systemd"}
    reader = FakeReader(
        {"/lib/systemd/systemd": "", "/etc/hostname": "node7\n"}, links=links, kind="root", persistent_only=True,
        unreadable=dict.fromkeys(("/proc", "/sys", "/run"), "no kernel runs under --root"),
    )  # fmt: skip
    seen = Facts(reader).host
    assert seen.has_systemd
    assert seen.hostname == "node7"
    assert not seen.is_container  # the image of a host
    for name in ("is_vm", "hypervisor", "is_uefi", "boot_id", "init", "cloud", "product"):
        with pytest.raises(UnknownFact, match="no kernel runs under --root"):
            getattr(seen, name)


def test_host_mount_namespace_of_init_needs_root_before_its_number_was_fixed():
    links = namespaces()
    del links["/proc/1/ns/mnt"]
    hidden = {"/proc/1/ns/mnt": "needs root: permission denied on /proc/1/ns/mnt"}
    with pytest.raises(UnknownFact, match="needs root"):
        _ = host(links=links, unreadable=hidden).shares_init_mounts
    assert host(
        links=links | {"/proc/self/ns/mnt": "mnt:[4026531832]"}, unreadable=hidden
    ).shares_init_mounts
    assert (
        host(links=namespaces() | {"/proc/self/ns/mnt": "mnt:[4026532888]"}).shares_init_mounts
        is False
    )


@pytest.mark.parametrize(("files", "is_wsl"), [({}, False), ({"/etc/wsl.conf": "[boot]\n"}, True)])
def test_image_is_of_wsl_when_it_has_its_configuration(files, is_wsl):
    no_kernel = {"/proc": "no kernel runs under --root"}
    reader = FakeReader(
        {"/etc/hostname": "a\n", **files}, unreadable=no_kernel, kind="root", persistent_only=True
    )
    assert Facts(reader).host.is_wsl is is_wsl
