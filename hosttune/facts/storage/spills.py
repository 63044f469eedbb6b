"""What is configured to put much into /tmp on this host: schedulers, frameworks and container tools
that spill there.

Sources: slurm.conf(5) (TmpFS, /tmp unless set; TmpDisk; Include; the copy of a configless node in
conf-cache), $tmpdir of pbs_mom, EXECUTE of condor_startd, queue_conf(5) of Grid Engine (tmpdir,
/tmp unless set), enroot.conf (ENROOT_TEMP_PATH, ${TMPDIR:-/tmp} unless set), spark.local.dir (/tmp
unless set), --temp-dir of Ray (/tmp/ray), lsf.conf (LSF_TMPDIR, /tmp unless set),
apptainer-build(1) (APPTAINER_TMPDIR, else TMPDIR, else /tmp).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt
from hosttune.facts.reading import if_absent, read_text
from hosttune.facts.slurm_conf import SLURM_CONF, slurm_rows
from hosttune.facts.storage.ways import ways_of
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

ENROOT_CONF = "/etc/enroot/enroot.conf"
_SPARK_CONF = tuple(
    f"{folder}/{name}"
    for folder in ("/etc/spark/conf", "/opt/spark/conf", "/usr/local/spark/conf")
    for name in ("spark-env.sh", "spark-defaults.conf")
)
_CONDOR_CONF = ("/etc/condor/condor_config", "/etc/condor/condor_config.local")
_PBS_CONF = ("/var/spool/pbs/mom_priv/config", "/var/spool/torque/mom_priv/config")
# LSF_ENVDIR is wherever LSF was put: what the unit and the scripts of logins name, then the usual
# places.
_LSF_NAMES = (
    "/etc/environment",
    "/etc/systemd/system/lsfd.service",
    "/usr/lib/systemd/system/lsfd.service",
)
_LSF_FOLDERS = ("/etc", "/usr/share/lsf/conf", "/opt/lsf/conf", "/opt/ibm/lsf/conf")
_LSF_ENVDIR = regex(r"""LSF_ENVDIR=["']?([^\s"';]+)|(?<![^\s"';])([^\s"';]+)/profile\.lsf\b""")
# packages, folders in /etc; singularity-ce and -container are the second
_APPTAINER = ("apptainer", "singularity")
_SETTING = regex(r"\s*(?:export\s+)?(\$?[\w.]+)(?:\s*=\s*|\s+)(\S(?:.*\S)?)\s*")


@frozen
class Spill(Fact):
    """One program that uses /tmp for more than small files, and the sentence that says how we
    know.
    """

    program: str  # what writes large files there
    evidence: str  # what shows that it writes there


@frozen
class Spills(Subject):
    """All of them, schedulers first."""

    all: tuple[Spill, ...] = read_with(lambda self: _find_all(self.reader, self.facts))


def is_tmp(path: str) -> bool:
    """Whether a configured folder is in /tmp; ${TMPDIR:-/tmp} counts as what it is without
    TMPDIR.
    """
    plain = re.sub(r"\$\{TMPDIR:?-((?:(?!\$\{TMPDIR)[^}])*)\}", r"\1", path.strip("\"'"))
    return f"{plain}/".startswith("/tmp/")


def _find_all(reader: Reader, facts: Facts) -> tuple[Spill, ...]:
    present = facts.managers.names
    found = [*_find_slurm(reader, is_node="slurm" in present), *_find_schedulers(reader, present)]
    found += _find_lsf(reader, present)
    is_enroot = facts.packages["enroot"].is_installed or "enroot" in _list_names(reader, "/etc")
    found += _find_enroot(reader) if is_enroot else ()
    found += _find_apptainer(reader, facts)
    found += _find_spark(reader) if "spark" in present else ()
    found += _find_ray(reader, facts, present)
    return tuple(found)


def _list_names(reader: Reader, folder: str) -> tuple[str, ...]:
    names = reader.list(folder)
    return names if isinstance(names, tuple) else ()


def _find_slurm(reader: Reader, *, is_node: bool) -> Iterator[Spill]:
    """Slurmd reports the size of TmpFS to the controller, which takes a node with less than TmpDisk
    out of service.

    A slurm.conf that names one of them counts whatever starts slurmd (a script, another unit, a
    later boot).
    """
    settings: list[tuple[str, str, str]] = []
    hidden = ""
    main = next((path for path in SLURM_CONF if reader.stat(path) is not ABSENT), "")

    def read(path: str) -> str:
        nonlocal hidden
        try:
            return if_absent(read_text(reader, path), "")
        except UnknownFact as unknown:
            hidden = hidden or unknown.reason
            return ""

    for row in slurm_rows(main, read) if main else ():
        settings += [
            (key, row.values[key], row.place) for key in ("tmpfs", "tmpdisk") if key in row.values
        ]
    if hidden and not (is_node or settings):
        raise UnknownFact(hidden)
    folders = [(value, place) for key, value, place in settings if key == "tmpfs"]
    if not folders and is_node:
        why = hidden or (
            f"{main} does not set it" if main else "no slurm.conf is here that says otherwise"
        )
        yield Spill("slurmd", f"slurmd's TmpFS is /tmp ({why})")
    elif folders and is_tmp(folders[-1][0]):
        yield Spill("slurmd", f"slurmd's TmpFS is {folders[-1][0]} ({folders[-1][1]})")
    for key, value, place in settings:
        # 0 is the default, with which Slurm asks for nothing (slurm.conf(5)).
        if key == "tmpdisk" and value != "0":
            yield Spill("slurmd", f"Slurm counts on TmpDisk={value} of temporary space ({place})")
            return


def _find_schedulers(reader: Reader, present: tuple[str, ...]) -> Iterator[Spill]:
    if "gridengine" in present:
        yield Spill(
            "Grid Engine",
            "Grid Engine keeps files of jobs in the tmpdir of their queue, /tmp unless it is set",
        )
    condor = (
        *_CONDOR_CONF,
        *(f"/etc/condor/config.d/{name}" for name in _list_names(reader, "/etc/condor/config.d")),
    )
    for name, program, paths, key in (
        ("pbs", "PBS", _PBS_CONF, "$tmpdir"),
        ("htcondor", "HTCondor", condor, "EXECUTE"),
    ):
        if name in present and (place := _find_place(reader, paths, key)):
            yield Spill(program, f"{program} keeps files of jobs in {place}")


def _find_lsf(reader: Reader, present: tuple[str, ...]) -> tuple[Spill, ...]:
    """Jobs get their temporary folder in LSF_TMPDIR, and start in /tmp where theirs does not exist
    here.
    """
    scripts = (f"/etc/profile.d/{name}" for name in _list_names(reader, "/etc/profile.d"))
    contents = (attempt(read_text, reader, path) for path in (*_LSF_NAMES, *scripts))
    named = [
        a or b for one in contents if isinstance(one, str) for a, b in _LSF_ENVDIR.findall(one)
    ]
    paths = tuple(
        f"{folder}/lsf.conf" for folder in (*named, *_LSF_FOLDERS) if folder.startswith("/")
    )
    path = next((path for path in paths if reader.stat(path) is not ABSENT), "")
    if "lsf" not in present:
        if not path:
            return ()
        read_text(reader, path)  # one that cannot be read leaves open whether LSF runs here
    place = _find_place(reader, (path,) if path else (), "LSF_TMPDIR")
    place = "/tmp (its default)" if place is None else place
    return (Spill("LSF", f"LSF keeps files of jobs in {place}"),) if place else ()


def _find_apptainer(reader: Reader, facts: Facts) -> tuple[Spill, ...]:
    """It unpacks and builds images in a temporary folder, which the environment names and no file
    of its own.
    """
    names = (*facts.packages.names, *_list_names(reader, "/etc"))
    program = next((name for name in names if name.startswith(_APPTAINER)), "")
    if not program:
        return ()
    found = {one.name: one for one in facts.environment.all if one.scope == "session"}
    keys = ("APPTAINER_TMPDIR", "SINGULARITY_TMPDIR", "TMPDIR")
    named = next((found[key] for key in keys if key in found), None)
    if named is not None and not is_tmp(named.value):
        return ()
    place = f"{named.value} ({named.place})" if named else "/tmp (its default)"
    return (Spill(program, f"{program} unpacks container images into {place}"),)


def _find_enroot(reader: Reader) -> tuple[Spill, ...]:
    temporary = _find_place(reader, (ENROOT_CONF,), "ENROOT_TEMP_PATH")
    if temporary is None:
        temporary = "/tmp (its default)"
    others = (
        _find_place(reader, (ENROOT_CONF,), f"ENROOT_{name}_PATH")
        for name in ("DATA", "CACHE", "RUNTIME")
    )
    place = next(filter(None, (temporary, *others)), "")
    return (Spill("enroot", f"enroot unpacks container images into {place}"),) if place else ()


def _find_spark(reader: Reader) -> tuple[Spill, ...]:
    places = [
        _find_place(reader, _SPARK_CONF, key) for key in ("SPARK_LOCAL_DIRS", "spark.local.dir")
    ]
    named = next((place for place in places if place is not None), "/tmp (its default)")
    return (Spill("Spark", f"Spark spills into {named}"),) if named else ()


def _find_ray(reader: Reader, facts: Facts, present: tuple[str, ...]) -> tuple[Spill, ...]:
    is_mount = ways_of(facts).way("/tmp/ray")[1]  # of a user, say, which may give no answer
    if not is_mount and isinstance(reader.stat("/tmp/ray"), Stat):
        return (
            Spill(
                "Ray",
                "Ray keeps logs and what it spills in /tmp/ray, which exists (--temp-dir names "
                "another)",
            ),
        )
    if "ray" in present:
        return (
            Spill(
                "Ray",
                "Ray runs as a service, and spills into /tmp/ray unless --temp-dir names another "
                "folder",
            ),
        )
    return ()


def _find_place(reader: Reader, paths: tuple[str, ...], key: str) -> str | None:
    """`FOLDER (FILE:LINE)` where the last line that sets the key names a folder in /tmp, or a file
    cannot be read; empty where it names another one; None where no file sets it.
    """
    found: str | None = None
    for path in paths:
        try:
            content = if_absent(read_text(reader, path), "")
        except UnknownFact as unknown:
            found = f"a folder that cannot be read ({unknown.reason})" if found is None else found
            continue
        for number, row in enumerate(content.splitlines(), 1):
            setting = _SETTING.fullmatch(row.partition("#")[0])
            if setting and setting[1] == key:
                found = (
                    f"{setting[2]} ({path}:{number})"
                    if any(map(is_tmp, setting[2].split(",")))
                    else ""
                )
    return found
