"""A unit of an image is enabled by hosttune's own walk: the links that [Install] asks for, and none
out of the image.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.reading.rooted import RootReader, RootWriter
from hosttune.resources.services.unit import UnitAddress
from hosttune.resources.services.unit_links import enable_in_files
from hosttune.values import Action, Address, Change

ADMIN, VENDOR = "etc/systemd/system", "usr/lib/systemd/system"
UNITS = {
    "a.timer": "[Install]\nWantedBy=timers.target\n",
    "b.service": "[Install]\nWantedBy=multi-user.target graphical.target\nRequiredBy=x.service\nAlias=bb.service b.service\n",
    "c.service": "[Install]\nAlso=a.timer d.socket\nWantedBy=old.target\nWantedBy=\nWantedBy=multi-user.target\n",
    "d.socket": "[Install]\nWantedBy=sockets.target\nAlso=c.service\n",
    "t@.service": "[Install]\nWantedBy=multi-user.target\nDefaultInstance=one\n",
    "i@.service": "[Install]\nWantedBy=net-%i.target\n",
    "e.service": "[Unit]\nDescription=x\n",
}


@pytest.fixture
def image(tmp_path) -> Path:
    root = tmp_path / "image"
    for folder in (ADMIN, VENDOR, f"{VENDOR}/e.service.d"):
        (root / folder).mkdir(parents=True)
    for name, text in UNITS.items():
        (root / VENDOR / name).write_text(f"[Unit]\nDescription={name}\n{text}")
    return root


def links(root: Path) -> dict[str, str]:
    """Path below /etc/systemd/system to the unit that it leads to."""
    top = root / ADMIN
    return {
        str(one.relative_to(top)): one.readlink().name for one in top.rglob("*") if one.is_symlink()
    }


def change(name: str, word: str) -> Change:
    other = {"enabled": "disabled", "disabled": "enabled"}[word]
    return Change(Address("unit", name), Action.UPDATE, (other,), (word,), "x")


def test_address_says_what_was_done(image):
    for word in ("enabled", "disabled"):
        for writer in (Overlay(RootReader(str(image))), RootWriter(str(image))):
            UnitAddress().write(writer, change("b.service", word))
            assert UnitAddress().read(writer, "b.service") == (word,)
    assert links(image) == {}


def test_what_is_there_already_stays(image):
    (image / ADMIN / "timers.target.wants").mkdir()
    (image / ADMIN / "timers.target.wants/a.timer").symlink_to("/lib/systemd/system/a.timer")
    enable_in_files(RootWriter(str(image)), "a.timer")
    assert (
        os.readlink(image / ADMIN / "timers.target.wants/a.timer") == "/lib/systemd/system/a.timer"
    )


@pytest.mark.parametrize("place", ["bb.service", "x.service.requires/b.service"])
@pytest.mark.parametrize("is_link", [True, False])
def test_what_is_there_and_another_is_not_replaced(image, place, is_link):
    path = image / ADMIN / place
    path.parent.mkdir(exist_ok=True)
    path.symlink_to("/usr/lib/systemd/system/other.service") if is_link else path.write_text("mine")
    before = links(image)
    with pytest.raises(Refused, match=f"{place} is there already"):
        enable_in_files(RootWriter(str(image)), "b.service")
    assert links(image) == before


@pytest.mark.parametrize(
    ("install", "why"),
    [
        ("Alias=../../../../outside/x.service", "no name of a unit"),
        ("Alias=/outside/x.service", "no name of a unit"),
        ("WantedBy=../../../outside/x.target", "no name of a unit"),
        ("WantedBy=a/b.target", "no name of a unit"),
        ("RequiredBy=..", "no name of a unit"),
        ("Also=../x.service", "no name of a unit"),
        ("Alias=x.timer", "a unit of another type"),
        ("WantedBy=%H.target", "%H in \\[Install\\] is known only on a running host"),
        ("", "asks for no link"),
        (
            "Also=gone.service\nWantedBy=multi-user.target",
            "gone.service cannot be enabled: unit not found",
        ),
    ],
)
def test_install_section_that_an_image_chooses_names_units_only(image, install, why):
    (image / VENDOR / "e.service").write_text(f"[Install]\n{install}\n")
    with pytest.raises(Refused, match=why):
        enable_in_files(RootWriter(str(image)), "e.service")
    assert links(image) == {}
    assert not (image.parent / "outside").exists()


def test_template_without_an_instance_is_refused(image):
    with pytest.raises(Refused, match="without an instance"):
        enable_in_files(RootWriter(str(image)), "i@.service")


def test_also_that_goes_on_without_end_is_refused(image):
    for number in range(40):
        (image / VENDOR / f"n{number}.service").write_text(
            f"[Install]\nAlso=n{number + 1}.service\nWantedBy=a.target\n"
        )
    with pytest.raises(Refused, match="more than 32 units"):
        enable_in_files(RootWriter(str(image)), "n0.service")


def test_drop_in_of_a_unit_counts(image):
    (image / VENDOR / "e.service.d/x.conf").write_text("[Install]\nWantedBy=multi-user.target\n")
    enable_in_files(RootWriter(str(image)), "e.service")
    assert links(image) == {"multi-user.target.wants/e.service": "e.service"}


def outside_of(image: Path) -> Path:
    outside = image.parent / "outside"
    outside.mkdir()
    return outside


@pytest.mark.parametrize("place", [ADMIN, f"{ADMIN}/timers.target.wants", "etc/systemd", "etc"])
@pytest.mark.parametrize("how", ["absolute", "relative"])
def test_links_of_an_image_lead_nowhere_out_of_it(image, place, how):
    """S5: `systemctl --root=IMAGE enable` made its links there."""
    outside = outside_of(image)
    (outside / "systemd/system").mkdir(parents=True)
    path = image / place
    if path.exists():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(outside if how == "absolute" else os.path.relpath(outside, path.parent))
    before = sorted(outside.rglob("*"))
    with pytest.raises(
        HosttuneError, match=r"is a symbolic link that leads nowhere|unit not found"
    ):
        enable_in_files(RootWriter(str(image)), "a.timer")
    assert sorted(outside.rglob("*")) == before
    inner = (
        image / str(outside)[1:] if how == "absolute" else image / "outside"
    )  # `..` at the top stays there
    inner.mkdir(parents=True)
    enable_in_files(RootWriter(str(image)), "a.timer")  # what the link means in the image itself
    assert sorted(outside.rglob("*")) == before
    assert "a.timer" in [one.name for one in inner.rglob("*") if one.is_symlink()]


def test_unit_files_of_this_machine_are_not_read_through_links(image):
    outside = outside_of(image)
    (outside / "z.service").write_text("[Install]\nWantedBy=multi-user.target\n")
    for link, target in (
        ("z.service", outside / "z.service"),
        ("y.service", outside / "z.service"),
    ):
        (image / VENDOR / link).symlink_to(target)
        with pytest.raises(Refused):
            enable_in_files(RootWriter(str(image)), link)
    assert links(image) == {}


def test_links_are_removed_only_as_they_were_read(image):
    writer = RootWriter(str(image))
    enable_in_files(writer, "a.timer")
    path = f"/{ADMIN}/timers.target.wants/a.timer"
    with pytest.raises(Conflict, match="changed in the meantime"):
        writer.remove_link(path, expected="/other")
    with pytest.raises(Conflict, match="is there already"):
        writer.make_link(path, "/other")
    with pytest.raises(Refused, match="cannot be removed: Invalid argument"):
        writer.remove_link(f"/{VENDOR}/a.timer", expected="x")
    with pytest.raises(Refused, match="no kernel runs"):
        writer.make_link("/run/systemd/x", "/y")


@pytest.mark.parametrize(
    "argv", [("systemctl", "enable", "a.timer"), ("update-initramfs", "-u"), ("true",)]
)
def test_no_program_is_run_for_an_image(image, argv):
    with pytest.raises(Refused, match=f"{argv[0]} is not run under --root"):
        RootWriter(str(image)).run(argv, timeout_s=1)
