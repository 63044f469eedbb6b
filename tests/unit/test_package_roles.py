"""The role of a driver package, read from its name in one place."""

from pathlib import Path

import pytest

from hosttune.facts.gpu.package_roles import (
    PackageName,
    PackageRole,
    compiles_modules,
    parse_package,
    role_of,
)

TABLE = Path(__file__).with_name("nvidia_package_names.tsv")
ROWS = [
    line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if line[:1] != "#"
]
FULL = "580-server-open"


def test_names_of_three_archives_have_their_roles():
    assert {name: str(role_of(name)) for _, name in ROWS} == {name: role for role, name in ROWS}


def test_every_role_has_names_that_were_seen():
    assert {role for role, _ in ROWS} == {str(role) for role in PackageRole}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (f"nvidia-headless-no-dkms-{FULL}", (PackageRole.HEADLESS_WITHOUT_MODULE, "nvidia-headless-no-dkms", "580", True, True)),
        (f"nvidia-dkms-{FULL}", (PackageRole.DKMS, "nvidia-dkms", "580", True, True)),
        ("nvidia-dkms-open", (PackageRole.DKMS, "nvidia-dkms", "", False, True)),
        ("nvidia-open-kernel-dkms", (PackageRole.DKMS, "nvidia-open-kernel-dkms", "", False, True)),
        ("nvidia-tesla-470-kernel-dkms", (PackageRole.DKMS, "nvidia-kernel-dkms", "470")),
        ("nvidia-legacy-390xx-driver", (PackageRole.METAPACKAGE, "nvidia-driver", "390")),
        ("nvidia-open-580", (PackageRole.METAPACKAGE, "nvidia-open", "580", False, True)),
        ("nvidia-firmware-590-590.48.01", (PackageRole.FIRMWARE, "nvidia-firmware", "590")),
        ("libnvidia-compute-580:i386", (PackageRole.LIBRARY, "libnvidia-compute", "580")),
        (f"linux-modules-nvidia-{FULL}-6.8.0-45-generic",
         (PackageRole.MODULES, "linux-modules-nvidia", "580", True, True, "6.8.0-45-generic")),
        (f"linux-modules-nvidia-{FULL}-nvidia-64k",
         (PackageRole.MODULES_OF_FLAVOUR, "linux-modules-nvidia", "580", True, True, "nvidia-64k")),
        ("linux-modules-nvidia-fs-6.8.0-1010-nvidia", (PackageRole.NONE, "linux-modules-nvidia-fs-6.8.0-1010-nvidia")),
    ],
)  # fmt: skip
def test_name_is_taken_apart(name, parts):
    assert parse_package(name) == PackageName(*parts)


def test_what_compiles_modules_is_known_of_other_makers_too():
    named = [
        "dkms",
        "zfs-dkms",
        "nvidia-fs-dkms",
        "nvidia-dkms-580",
        f"nvidia-headless-no-dkms-{FULL}",
        "dkmsx",
    ]
    assert [name for name in named if compiles_modules(name)] == named[:4]
