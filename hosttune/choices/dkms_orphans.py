"""What frees DKMS of a module whose source is gone from /usr/src.

Before 3.1 `dkms autoinstall` ends with status 4 at such an entry of its tree, or leaves out the
modules that follow by name and ends with 0. A new kernel then gets no module, and its packages can
stay half-configured (pop-os/system76-driver issue 336, linux-surface/linux-surface issue 112).
`dkms remove` ends there, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.versions import upstream_of
from hosttune.quoting import join, quote

if TYPE_CHECKING:
    from hosttune.facts import Facts

# Modules of other makers that hold data or a network: file systems, block devices, network cards.
HOLDS_DATA = (
    "zfs", "spl", "drbd", "lustre", "bcachefs", "beegfs", "openafs", "gpfs", "mlnx", "mlx5", "iser",
    "srp", "isert", "kernel-mft", "ena", "efa", "gdrdrv", "knem", "xpmem", "igb", "ixgbe", "i40e",
    "ice", "r8125", "r8168", "vmware", "wireguard",
)  # fmt: skip


def free_dkms(facts: Facts) -> str:
    """The steps, one for each module; empty for none. The source of the installed driver comes back
    with its own packages, which other steps name."""
    orphans = attempt(lambda: facts.driver.dkms_orphans)
    own = attempt(lambda: facts.driver.userspace_version)
    found = [one.partition("/")[::2] for one in orphans] if isinstance(orphans, tuple) else []
    return "\n".join(
        _free_of(facts, name, version)
        for name, version in found
        if not (name.startswith("nvidia") and version == own)
    )


def _free_of(facts: Facts, name: str, version: str) -> str:
    """What was built of it stays in /lib/modules in each case."""
    ends, package = (
        f"DKMS ends at {name}/{version}, whose source is gone from /usr/src",
        f"{name}-dkms",
    )
    is_brought = package in facts.packages.brought
    # Only the same upstream version brings this source again: a newer package would bring another
    # folder, and the entry would stay an orphan.
    if is_brought and upstream_of(facts.packages[package].version) == version:
        return f"{ends}; bring it back: sudo apt-get install --reinstall {quote(package)}"
    if name.startswith(HOLDS_DATA):  # without it the next kernel may find no data, or no network
        until = "boot the kernels that have its module until then"
        return f"{ends}; bring that source back in the way it came, and {until}"
    # It is moved and not deleted: the entry may hold the only modules that were built, and signed,
    # for older kernels.
    places = (f"/var/lib/dkms/{name}/{version}", f"/root/dkms-{name}-{version}")
    return f"{ends}; take its entry away: sudo mv {join(places)}"
