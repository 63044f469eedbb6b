"""What to type where the kernel of the next boot has no nvidia module."""

from types import SimpleNamespace

import pytest

from hosttune.choices.next_kernel import choose
from hosttune.facts.packages import Packages


def host(next_kernel, packages, kernels=(), with_module=(), branch="580", runfile=False):
    return SimpleNamespace(
        driver=SimpleNamespace(
            has_module_for_next_kernel=next_kernel in with_module, kernels_with_module=with_module, branch=branch,
            name="580-server-open" if branch else "", runfile=runfile,
        ),
        boot=SimpleNamespace(next_kernel=next_kernel, kernels=(next_kernel, *kernels)),
        packages=Packages(dict.fromkeys(packages, ("1", "install ok installed"))),
    )  # fmt: skip


MODULES = "linux-modules-nvidia-580-server-open"


@pytest.mark.parametrize(
    ("kernel", "packages", "commands"),
    [
        ("6.8.0-62-generic", (f"{MODULES}-generic", "linux-image-generic"),
         f"sudo apt-get update && sudo apt-get install {MODULES}-6.8.0-62-generic {MODULES}-generic"),
        ("6.14.0-9-generic", (f"{MODULES}-x", "linux-image-generic-hwe-24.04", "linux-image-6.14.0-9-generic"),
         f"sudo apt-get update && sudo apt-get install {MODULES}-6.14.0-9-generic {MODULES}-generic-hwe-24.04"),
        ("6.8.0-1010-nvidia-64k", (f"{MODULES}-x",),
         f"sudo apt-get update && sudo apt-get install {MODULES}-6.8.0-1010-nvidia-64k"),
        ("6.8.0-62-generic", ("nvidia-dkms-580-server-open",),
         "sudo apt-get install linux-headers-6.8.0-62-generic && sudo dkms autoinstall -k 6.8.0-62-generic"),
        ("6.8.0-62-generic", ("nvidia-dkms-580-server-open", "linux-objects-nvidia-580-server-open-6.8.0-60-generic"),
         f"sudo apt-get update && sudo apt-get install {MODULES}-6.8.0-62-generic"),
        ("6.1.0-35-amd64", ("nvidia-kernel-dkms",),
         "sudo apt-get install linux-headers-6.1.0-35-amd64 && sudo dkms autoinstall -k 6.1.0-35-amd64"),
        ("6.18.44", (f"{MODULES}-x",), "install a driver that builds its module for 6.18.44, or boot another kernel"),
    ],
)  # fmt: skip
def test_missing_module_names_the_packages_that_bring_it(kernel, packages, commands):
    assert choose(host(kernel, packages), {}).commands == commands


def test_runfile_names_no_package():
    for runfile in (True, False):
        said = choose(host("6.8.0-62-generic", (), branch="", runfile=runfile), {}).commands
        assert "or boot another kernel" in said
        assert ("--dkms --kernel-name=6.8.0-62-generic" in said) is runfile


def test_kernels_that_would_do_are_those_that_can_be_booted():
    found = choose(host("6.8.0-62-generic", (), ("6.8.0-60-generic",), ("6.8.0-60-generic", "6.8.0-50-generic")), {})
    assert found.others == ("6.8.0-60-generic",)


def test_module_that_is_there_needs_nothing():
    assert choose(host("6.8.0-62-generic", (), with_module=("6.8.0-62-generic",)), {}).commands == ""
