"""What programs that change a host would do, modelled on an overlay: systemctl, apt-get and those
that build an initial RAM disk. Anything else is refused; what update-grub writes follows from
facts: `actions/gate/boot_triggers.py`.

A model changes what the host would answer afterwards: the answers of `systemctl show` and
`apt-config dump`, the links of enabled units, the dpkg status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hosttune.errors import Refused
from hosttune.host.door import Completed
from hosttune.host.known.unit_folders import ADMIN, LASTING
from hosttune.values import ABSENT, Absent, Answer, FileValue

if TYPE_CHECKING:
    from hosttune.host.overlay.overlay import Overlay

DPKG_STATUS = "/var/lib/dpkg/status"
APT_CONF = "/etc/apt/apt.conf.d/"
_SHOWN = {
    "enable": ("UnitFileState", "enabled"),
    "disable": ("UnitFileState", "disabled"),
    "start": ("ActiveState", "active"),
    "stop": ("ActiveState", "inactive"),
}
_INSTALL = {"WantedBy": ".wants", "RequiredBy": ".requires", "UpheldBy": ".upholds"}
_DONE = Completed(0, b"", b"")


def simulate(overlay: Overlay, argv: tuple[str, ...]) -> Completed:
    """Model a program that changes the host. Raises Refused for one that is not modelled."""
    if argv[0] == "systemctl":
        return _answer_systemctl(
            overlay, [word for word in argv[1:] if not word.startswith("-")], now="--now" in argv
        )
    if argv[0] == "apt-get":
        return _apt_get(overlay, argv[1:])
    if argv[0] in {"update-initramfs", "dracut"} or argv[:2] == ("dockerd", "--validate"):
        return _DONE  # no one looks into what they build; dockerd only looks
    raise Refused(f"{argv[0]} cannot be tried on the overlay")


def answer(
    overlay: Overlay, argv: tuple[str, ...], ask: Callable[[], Answer[Completed]]
) -> Answer[Completed]:
    """The answer of a program that only looks, with what was modelled worked in."""
    real = ask()
    if argv[:2] == ("systemctl", "show") and isinstance(real, Completed):
        return Completed(real.status, _change_shown(overlay, real.stdout), real.stderr)
    if argv[:2] == ("apt-config", "dump") and isinstance(real, Completed):
        return Completed(real.status, real.stdout + _append_lists(overlay, argv[2]), real.stderr)
    return real


def _append_lists(overlay: Overlay, key: str) -> bytes:
    """What files of ours in apt.conf.d add to one of apt's lists: a line for each value, as apt
    prints it.
    """
    written = (
        value.content.splitlines()
        for path, value in sorted(overlay.files.items())
        if path.startswith(APT_CONF) and isinstance(value, FileValue)
    )
    return b"".join(
        line + b"\n"
        for lines in written
        for line in lines
        if line.startswith(f'{key}:: "'.encode())
    )


def _answer_systemctl(overlay: Overlay, words: list[str], *, now: bool) -> Completed:
    verb, names = words[0], words[1:]
    if verb in {"daemon-reload", "reload", "restart", "try-restart"}:
        return _DONE
    if verb not in _SHOWN:
        raise Refused(f"systemctl {verb} cannot be tried on the overlay")
    verbs = [verb, *({"enable": ["start"], "disable": ["stop"]}.get(verb, []) if now else [])]
    for name in names:
        for one in verbs:
            key, value = _SHOWN[one]
            overlay.units[name, key] = value
        _link_unit(overlay, verb, name)
    return _DONE


def _link_unit(overlay: Overlay, verb: str, name: str) -> None:
    """Where no manager answers, links in /etc say what is enabled: those that [Install] asks for
    (systemd.unit(5)).
    """
    if verb == "disable":
        for folder in _list_names(overlay, ADMIN):
            if folder.endswith(tuple(_INSTALL.values())) and name in _list_names(
                overlay, f"{ADMIN}/{folder}"
            ):
                _set_link(overlay, f"{ADMIN}/{folder}/{name}", ABSENT)
    elif verb == "enable":
        fragment = next(
            (
                path
                for path in (f"{folder}/{name}" for folder in LASTING)
                if _read_text(overlay, path)
            ),
            "",
        )
        for line in _read_text(overlay, fragment).splitlines():
            key, _, value = line.partition("=")
            for other in value.split():
                if key.strip() in _INSTALL:
                    _set_link(overlay, f"{ADMIN}/{other}{_INSTALL[key.strip()]}/{name}", fragment)
                elif key.strip() == "Alias" and other != name:
                    _set_link(overlay, f"{ADMIN}/{other}", fragment)


def _set_link(overlay: Overlay, path: str, target: str | Absent) -> None:
    overlay.require_entry(path)
    overlay.links[path] = target


def _list_names(overlay: Overlay, folder: str) -> tuple[str, ...]:
    names = overlay.list(folder)
    return names if isinstance(names, tuple) else ()


def _read_text(overlay: Overlay, path: str) -> str:
    content = overlay.read(path) if path else b""
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else ""


def _change_shown(overlay: Overlay, stdout: bytes) -> bytes:
    """`systemctl show` prints one block of Key=Value lines per unit; change those that were
    modelled.
    """
    blocks = []
    for block in stdout.decode("utf-8", "replace").split("\n\n"):
        lines = block.split("\n")
        name = next((line[3:] for line in lines if line.startswith("Id=")), "")
        for number, line in enumerate(lines):
            key = line.partition("=")[0]
            if (name, key) in overlay.units:
                lines[number] = f"{key}={overlay.units[name, key]}"
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks).encode()


def _apt_get(overlay: Overlay, words: tuple[str, ...]) -> Completed:
    plain = _take_operands(words)
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
            f"Package: {name}\n"
            "Status: install ok installed\n"
            "Architecture: all\n"
            f"Version: {version or '0'}"
            for name, version in sorted(wanted.items())
        ]
    overlay.files[DPKG_STATUS] = FileValue(("\n\n".join(stanzas) + "\n").encode())
    return _DONE


def _take_operands(words: tuple[str, ...]) -> list[str]:
    found = []
    skip = False
    for word in words:
        if skip:
            skip = False
        # These take the next word, which would be taken for a package.
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
