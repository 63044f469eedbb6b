"""The scenarios of test_initramfs.py; runs inside of a Debian 13, as root: `initramfs_scenarios.py
NAME`.

The module is one that the image needs, so it is in there and would be loaded without the option.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from hosttune.actions.gate.boot_triggers import rebuild_initramfs
from hosttune.facts import Facts
from hosttune.host.reading.live import LiveWriter
from hosttune.resources import address_kinds
from hosttune.resources.base import Bound, Context, Operator, Wish
from hosttune.resources.kernel.modprobe_option import ModprobeOptionWish
from hosttune.values import Action, Change, Disturbs, Finding, HoldKind, Risk, Verdict

OPTION = "options virtio_blk num_request_queues=3"
FILE = "/etc/modprobe.d/60-hosttune-site-queues.conf"
DEBS = "/given"
# Small and quick, with the one driver that matters.
DRACUT = 'dracutmodules="base kernel-modules"\nadd_drivers+=" virtio_blk "\ndrivers="virtio_blk"\ncompress=cat\n'


def sh(*argv: str) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def image() -> str:
    (found,) = Path("/boot").glob("initrd.img-*")
    return str(found)


def digest() -> str:
    return hashlib.sha256(Path(image()).read_bytes()).hexdigest()


def looked_at() -> Finding:
    kind, kinds, writer = ModprobeOptionWish(), address_kinds(), LiveWriter()
    name = "virtio_blk.num_request_queues"
    wish = Wish("modprobe-option", name, "site-queues", bounds=(Bound(Operator.EXACTLY, "3"),))
    facts = Facts(writer)
    state = {
        address: kinds[address.kind].read(writer, address.name)
        for address in kind.addresses(wish, facts)
    }
    (finding,) = kind.compare((wish,), Context(facts, state, {}, Risk.MEDIUM, Disturbs.NOTHING))
    return finding


def made(program: str) -> Change:
    """The option, written and in a new image; the plan said which program builds it."""
    finding = looked_at()
    assert finding.verdict is Verdict.DIFFERS, finding
    (change,) = finding.changes
    assert change.action is Action.CREATE
    assert [trigger.kind for trigger in change.triggers] == ["rebuild-initramfs"], change
    assert change.details[0].startswith(f"then {program} rebuilds the initial RAM disks: /etc/"), (
        change.details
    )
    before = digest()
    rewritten(change)
    assert digest() != before
    return change


def rewritten(change: Change) -> None:
    address_kinds()["file"].write(LiveWriter(), change)
    rebuild_initramfs(LiveWriter(), "")


def taken_back(change: Change) -> None:
    back = address_kinds()["file"].invert(change)
    assert back is not None
    rewritten(back)
    assert not Path(FILE).exists()


def with_dracut(*configuration: str) -> None:
    """Put dracut in the place of initramfs-tools, whose hook and settings stay behind as apt leaves
    them.
    """
    settings = Path(
        "/etc/dracut.conf.d/site.conf"
    )  # before, for the package builds an image when it is installed
    settings.parent.mkdir()
    settings.write_text("\n".join((DRACUT, *configuration)), encoding="utf-8")
    sh(
        "apt-get",
        "--yes",
        "--no-install-recommends",
        "install",
        *map(str, Path(DEBS).glob("dracut*.deb")),
    )
    assert Path("/etc/kernel/postinst.d/initramfs-tools").exists()


def initramfs_tools_takes_the_option_beside_a_dracut_without_hook() -> None:
    sh("dpkg", "--install", *map(str, Path(DEBS).glob("dracut-core*.deb")))
    change = made("initramfs-tools")
    names = sh("lsinitramfs", image()).splitlines()
    assert FILE[1:] in names
    assert any(name.endswith(("virtio_blk.ko", "virtio_blk.ko.xz")) for name in names)
    assert not any("dracut" in name for name in names)
    sh("unmkinitramfs", image(), "/unpacked")
    (inside,) = Path("/unpacked").rglob(Path(FILE).name)
    assert OPTION in inside.read_text(encoding="utf-8").splitlines()
    taken_back(change)
    assert FILE[1:] not in sh("lsinitramfs", image()).splitlines()


def dracut_takes_the_option_beside_what_initramfs_tools_left() -> None:
    with_dracut('hostonly="yes"')
    change = made("dracut")
    assert "dracut" in sh("lsinitrd", image())
    assert OPTION in sh("lsinitrd", "-f", FILE, image()).splitlines()
    taken_back(change)
    assert FILE[1:] not in sh("lsinitrd", image())


def generic_dracut_leaves_the_option_out_and_that_is_said() -> None:
    with_dracut('hostonly="no"')
    finding = looked_at()
    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.DIFFERS,
        HoldKind.REFUSED,
        (),
    ), finding
    assert "hostonly" in finding.hold.detail, finding
    Path(FILE).write_text(f"{OPTION}\n", encoding="utf-8")
    rebuild_initramfs(LiveWriter(), "")
    assert FILE[1:] not in sh("lsinitrd", image())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
