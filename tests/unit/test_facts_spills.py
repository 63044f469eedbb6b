"""Who is configured to put much into /tmp."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts
from hosttune.facts.base import get_raw
from hosttune.facts.storage.spills import is_tmp
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

STATUS = {"/var/lib/dpkg/status": "Package: dpkg\nStatus: install ok installed\nVersion: 1\n"}
WANTS = "/etc/systemd/system/multi-user.target.wants"


def spills(*services: str, files: dict[str, str] | None = None, **options) -> tuple[str, ...]:
    links = {f"{WANTS}/{one}": f"/usr/lib/systemd/system/{one}" for one in services}
    host = FakeReader(
        {**STATUS, "/etc/systemd/system/x": "", **(files or {})}, links=links, **options
    )
    return tuple(one.evidence for one in Facts(host).spills.all)


@pytest.mark.parametrize(
    ("service", "files", "said"),
    [
        (
            "sge_execd.service",
            {},
            "Grid Engine keeps files of jobs in the tmpdir of their queue, /tmp unless it is set",
        ),
        (
            "pbs.service",
            {"/var/spool/pbs/mom_priv/config": "$clienthost a\n$tmpdir /tmp/pbs\n"},
            "/tmp/pbs (/var/spool",
        ),
        (
            "condor.service",
            {"/etc/condor/config.d/10": "EXECUTE = /tmp/condor\n"},
            "/tmp/condor (/etc/condor/config.d/10:1)",
        ),
        ("spark.service", {}, "Spark spills into /tmp (its default)"),
        (
            "spark.service",
            {"/opt/spark/conf/spark-defaults.conf": "spark.local.dir /data,/tmp/s\n"},
            "/data,/tmp/s",
        ),
        ("ray.service", {}, "Ray runs as a service"),
        (
            "slurmd.service",
            {"/etc/slurm/slurm.conf": "TmpFS = /tmp/%h\n"},
            "TmpFS is /tmp/%h (/etc/slurm/slurm.conf:1)",
        ),
    ],
)
def test_who_spills_into_tmp_is_told_with_the_place(service, files, said):
    assert any(said in one for one in spills(service, files=files))


@pytest.mark.parametrize(
    ("service", "files"),
    [
        ("pbs.service", {}),
        ("pbs.service", {"/var/spool/pbs/mom_priv/config": "$tmpdir /scratch\n"}),
        ("condor.service", {}),
        (
            "spark.service",
            {"/opt/spark/conf/spark-env.sh": "export SPARK_LOCAL_DIRS=/data/spark\n"},
        ),
        ("slurmd.service", {"/etc/slurm/slurm.conf": "# TmpDisk=5\nTmpFS=/local  # TmpDisk=5\n"}),
        ("kubelet.service", {}),
    ],
)
def test_who_uses_another_folder_is_not_told(service, files):
    assert spills(service, files=files) == ()


def test_configuration_that_cannot_be_read_counts_as_spilling():
    why = "needs root: permission denied on /etc/slurm/slurm.conf"
    found = spills("slurmd.service", unreadable={"/etc/slurm/slurm.conf": why})
    assert found == (f"slurmd's TmpFS is /tmp ({why})",)
    (found,) = spills("pbs.service", unreadable={"/var/spool/pbs/mom_priv/config": "needs root"})
    assert "needs root" in found


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"/etc/slurm/slurm.conf": "TmpFS=/tmp\n"},
            ("slurmd's TmpFS is /tmp (/etc/slurm/slurm.conf:1)",),
        ),
        (
            {"/etc/slurm/slurm.conf": "NodeName=a TmpDisk=9\n"},
            ("Slurm counts on TmpDisk=9 of temporary space (/etc/slurm/slurm.conf:1)",),
        ),
        ({"/etc/slurm/slurm.conf": "SlurmctldHost=ctl\n"}, ()),
        ({"/etc/slurm/slurm.conf": "TmpFS=/local\n"}, ()),
    ],
)
def test_slurm_conf_that_names_them_decides_where_slurmd_is_not_enabled(files, said):
    assert spills(files=files) == said


@pytest.mark.parametrize(("path"), ["/etc/slurm/slurm.conf", "/etc/lsf.conf"])
def test_configuration_of_a_program_that_may_not_be_there_is_unknown_when_unreadable(path):
    host = FakeReader({**STATUS, "/etc/systemd/system/x": ""}, unreadable={path: "needs root"})
    assert "needs root" in get_raw(Facts(host).spills, "all").reason


@pytest.mark.parametrize(
    ("services", "files", "said"),
    [
        (("lsfd.service",), {}, ("LSF keeps files of jobs in /tmp (its default)",)),
        (
            (),
            {"/etc/lsf.conf": "LSF_LOGDIR=/x\n"},
            ("LSF keeps files of jobs in /tmp (its default)",),
        ),
        (("lsfd.service",), {"/etc/lsf.conf": "LSF_TMPDIR=/scratch\n"}, ()),
        (
            (),
            {
                "/etc/profile.d/lsf.sh": ". /tools/lsf/conf/profile.lsf\n",
                "/tools/lsf/conf/lsf.conf": "LSF_TMPDIR=/tmp/lsf\n",
            },
            ("LSF keeps files of jobs in /tmp/lsf (/tools/lsf/conf/lsf.conf:1)",),
        ),
        (
            ("lsfd.service",),
            {
                "/etc/environment": 'LSF_ENVDIR="/a/conf"\n',
                "/a/conf/lsf.conf": "LSF_TMPDIR=/scratch\n",
            },
            (),
        ),
    ],
)
def test_lsf_is_known_by_its_service_or_its_lsf_conf(services, files, said):
    assert spills(*services, files=files) == said


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"/etc/apptainer/apptainer.conf": ""},
            ("apptainer unpacks container images into /tmp (its default)",),
        ),
        (
            {
                "/var/lib/dpkg/status": "Package: singularity-ce\nStatus: install ok installed\nVersion: 4\n"
            },
            ("singularity-ce unpacks container images into /tmp (its default)",),
        ),
        (
            {
                "/etc/apptainer/x": "",
                "/etc/profile.d/a.sh": "export APPTAINER_TMPDIR=/data/$USER\n",
            },
            (),
        ),
        (
            {
                "/etc/singularity/x": "",
                "/etc/environment": "SINGULARITY_TMPDIR=/data\nTMPDIR=/tmp\n",
            },
            (),
        ),
        (
            {"/etc/apptainer/x": "", "/etc/environment": "TMPDIR=/tmp/x\n"},
            ("apptainer unpacks container images into /tmp/x (/etc/environment:1)",),
        ),
    ],
)
def test_apptainer_unpacks_where_the_environment_says(files, said):
    assert spills(files=files) == said


def test_included_files_of_slurm_do_not_run_in_a_circle():
    files = {
        "/etc/slurm/slurm.conf": "Include slurm.conf\nInclude a.conf\n",
        "/etc/slurm/a.conf": "TmpFS=/x\n",
    }
    assert spills("slurmd.service", files=files) == ()


def test_nobody_is_known_where_the_managers_are_not():
    assert isinstance(
        get_raw(Facts(FakeReader(unreadable={"/etc/systemd/system": "no"})).spills, "all"),
        Unreadable,
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/tmp", True),
        ("/tmp/x", True),
        ("${TMPDIR:-/tmp}", True),
        ('"/tmp/a"', True),
        ("/tmpfs", False),
        ("/var/tmp", False),
    ],
)
def test_folder_in_tmp(path, expected):
    assert is_tmp(path) is expected
