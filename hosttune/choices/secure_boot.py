"""How a module that was compiled here loads under Secure Boot: its key is enrolled, or Secure Boot
is switched off.

A machine of a cloud has no firmware setup that a person sees, and MokManager (shim) asks at its
serial console, if that shows the boot. Its owner switches Secure Boot off from outside. Sources:
gcloud compute instances update (--no-shielded-secure-boot, which needs a stopped machine;
GoogleCloudDataproc/initialization-actions issue 933), az vm update (--enable-secure-boot, of a
deallocated machine of Trusted Launch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts


_NAME = regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}(?=\.|$)")  # the first label of a host name


def say_confirm(facts: Facts) -> str:
    """Where a person confirms that a key is to be enrolled."""
    if attempt(lambda: facts.host.cloud) in _OF_CLOUDS:
        return "confirm it at the serial console of the cloud, if that shows the boot"
    return "confirm it at the console"


def switch_off(facts: Facts) -> str:
    """What switches Secure Boot off, where that is not the firmware's own setup; else empty."""
    make = _OF_CLOUDS.get(str(attempt(lambda: facts.host.cloud)))
    if make is None:
        return ""
    name = attempt(lambda: facts.host.hostname)
    found = _NAME.match(name) if isinstance(name, str) else None  # DHCP can give any
    machine = found[0] if found else "NAME"
    first = (
        "or, if your site allows it, switch Secure Boot off from outside of this machine, while it "
        "is stopped"
    )
    return (
        f"{first} (a stop empties the local disks of an instance: save what is there): "
        f"{make(machine)}"
    )


def _of_google(machine: str) -> str:
    return f"gcloud compute instances update {machine} --no-shielded-secure-boot"


def _of_azure(machine: str) -> str:
    found = f"az vm list --query \"[?osProfile.computerName=='{machine}'].id\" --output tsv"
    return f'az vm update --enable-secure-boot false --ids "$({found})"'


_OF_CLOUDS = {"gcp": _of_google, "azure": _of_azure}
