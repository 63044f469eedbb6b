"""What programs that change a host would do, modelled on an overlay: systemctl and apt-get. Anything else is refused.

A model changes what the host would answer afterwards: the answers of `systemctl show`, the links of enabled units,
the dpkg status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hosttune.errors import Refused
from hosttune.host.door import Completed
from hosttune.values import ABSENT, Answer, FileValue

if TYPE_CHECKING:
    from hosttune.host.overlay import Overlay

DPKG_STATUS = "/var/lib/dpkg/status"
_SHOWN = {
    "enable": ("UnitFileState", "enabled"),
    "disable": ("UnitFileState", "disabled"),
    "start": ("ActiveState", "active"),
    "stop": ("ActiveState", "inactive"),
}
_DONE = Completed(0, b"", b"")


def simulate(overlay: Overlay, argv: tuple[str, ...]) -> Completed:
    """Model a program that changes the host. Raises Refused for one that is not modelled."""
    words = argv[2:] if argv[0] == "env" else argv
    if words[0] == "systemctl":
        return _systemctl(overlay, [word for word in words[1:] if not word.startswith("-")], now="--now" in words)
    if words[0] == "apt-get":
        return _apt_get(overlay, words[1:])
    raise Refused(f"{words[0]} cannot be tried on the overlay")


def answer(overlay: Overlay, argv: tuple[str, ...], ask: Callable[[], Answer[Completed]]) -> Answer[Completed]:
    """The answer of a program that only looks, with what was modelled worked in."""
    real = ask()
    if argv[:2] == ("systemctl", "show") and isinstance(real, Completed):
        return Completed(real.status, _shown(overlay, real.stdout), real.stderr)
    return real


def _systemctl(overlay: Overlay, words: list[str], *, now: bool) -> Completed:
    verb, names = words[0], words[1:]
    if verb in {"daemon-reload", "reload", "restart"}:
        return _DONE
    if verb not in _SHOWN:
        raise Refused(f"systemctl {verb} cannot be tried on the overlay")
    verbs = [verb, *({"enable": ["start"], "disable": ["stop"]}.get(verb, []) if now else [])]
    for name in names:
        for one in verbs:
            key, value = _SHOWN[one]
            overlay.answers[("unit", name, key)] = Completed(0, value.encode(), b"")
        _link_unit(overlay, verb, name)
    return _DONE


def _link_unit(overlay: Overlay, verb: str, name: str) -> None:
    """Where no manager answers, a unit is enabled by a link in the .wants folder of its [Install] section."""
    for folder in ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"):
        text = overlay.read(f"{folder}/{name}")
        if not isinstance(text, bytes):
            continue
        for line in text.decode("utf-8", "replace").splitlines():
            key, _, value = line.partition("=")
            if key.strip() in {"WantedBy", "RequiredBy"}:
                suffix = "wants" if key.strip() == "WantedBy" else "requires"
                for target in value.split():
                    place = f"/etc/systemd/system/{target}.{suffix}/{name}"
                    if verb == "enable":
                        overlay.links[place] = f"{folder}/{name}"
                    elif verb == "disable":
                        overlay.links[place] = ABSENT
        return


def _shown(overlay: Overlay, stdout: bytes) -> bytes:
    """`systemctl show` prints one block of Key=Value lines per unit; change those that were modelled."""
    blocks = []
    for block in stdout.decode("utf-8", "replace").split("\n\n"):
        lines = block.split("\n")
        name = next((line[3:] for line in lines if line.startswith("Id=")), "")
        for number, line in enumerate(lines):
            known = overlay.answers.get(("unit", name, line.partition("=")[0]))
            if isinstance(known, Completed):
                lines[number] = f"{line.partition('=')[0]}={known.text}"
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks).encode()


def _apt_get(overlay: Overlay, words: tuple[str, ...]) -> Completed:
    plain = _operands(words)
    verb, names = plain[0], plain[1:]
    status = overlay.read(DPKG_STATUS)
    text = status.decode("utf-8", "replace") if isinstance(status, bytes) else ""
    stanzas = [stanza for stanza in text.strip("\n").split("\n\n") if stanza]
    wanted = dict(_name_version(word) for word in names)
    if verb not in {"install", "remove", "purge"}:
        raise Refused(f"apt-get {verb} cannot be tried on the overlay")
    stanzas = [stanza for stanza in stanzas if _package_of(stanza) not in wanted]
    if verb == "install":
        stanzas += [
            f"Package: {name}\nStatus: install ok installed\nArchitecture: all\nVersion: {version or '0'}"
            for name, version in sorted(wanted.items())
        ]
    overlay.files[DPKG_STATUS] = FileValue(("\n\n".join(stanzas) + "\n").encode())
    return _DONE


def _operands(words: tuple[str, ...]) -> list[str]:
    found = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in {"-o", "-c", "-t"}:
            skip = True
        elif not word.startswith("-"):
            found.append(word)
    return found


def _name_version(word: str) -> tuple[str, str]:
    name, _, version = word.partition("=")
    return name, version


def _package_of(stanza: str) -> str:
    return next((line[9:] for line in stanza.split("\n") if line.startswith("Package: ")), "")
