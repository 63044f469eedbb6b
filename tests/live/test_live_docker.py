"""What dockerd itself says of daemon.json: hosttune holds back exactly what would keep dockerd from
starting, and what dockerd does not take never reaches the file.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hosttune.errors import Refused
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources.containers.docker_file import PATH
from hosttune.values import ABSENT
from tests.live.dockerd import unpacked
from tests.live.namespace import own_etc, passes, run
from tests.unit.wish_host import One, host

pytestmark = pytest.mark.live
UNIT = "/usr/lib/systemd/system/docker.service"
DROPIN = "/etc/systemd/system/docker.service.d/site.conf"
SHM = "- docker-daemon: default-shm-size\n  exactly: 1G"
LOGS = '- docker-daemon: log-opts\n  object: {max-size: 100m, max-file: "3"}'
ULIMITS = "- docker-daemon: default-ulimits\n  object: {memlock/Name: memlock, memlock/Hard: -1, memlock/Soft: -1}"
RUNTIME = "- docker-daemon: runtimes\n  object: {nvidia/path: nvidia-container-runtime}"


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    return unpacked(tmp_path_factory.mktemp("docker"))


def validated(
    package: Path, folder: Path, text: str, *flags: str
) -> subprocess.CompletedProcess[str]:
    """What dockerd says of a file and a command line; it starts nothing."""
    (folder / "daemon.json").write_text(text)
    program = package / "usr/sbin/dockerd"
    return subprocess.run(
        ("unshare", "--mount", "--net", program, "--validate", f"--config-file={folder / 'daemon.json'}", *flags),
        check=False, capture_output=True, text=True, timeout=60, env={"PATH": f"{program.parent}:/usr/bin"},
    )  # fmt: skip


def machine(package: Path, text: str, flags: str = "") -> Overlay:
    """A host with the package's own unit, and a drop-in where there are flags."""
    unit = (package / UNIT.lstrip("/")).read_text()
    dropin = (
        {DROPIN: f"[Service]\nExecStart=\nExecStart=/usr/sbin/dockerd {flags}\n"} if flags else {}
    )
    return host({UNIT: unit, **dropin, **({PATH: text} if text else {})})


@pytest.mark.parametrize(
    "text", ["", "{}", '{"debug": true,\n  "log-driver": "local"}\n', '{"log-opts":{}}']
)
def test_dockerd_accepts_what_we_write(text, package, tmp_path):
    one = One(machine(package, text), f"{SHM}\n{LOGS}\n{ULIMITS}\n{RUNTIME}")
    one.apply()
    said = validated(
        package,
        tmp_path,
        one.kept()[PATH],
        "-H",
        "fd://",
        "--containerd=/run/containerd/containerd.sock",
    )
    assert (said.returncode, said.stderr) == (0, "configuration OK\n")


@pytest.mark.parametrize(
    ("wish", "flags"),
    [
        ("- docker-daemon: hosts\n  exactly: [fd://]", "-H fd://"),
        ("- docker-daemon: storage-driver\n  exactly: overlay2", "--storage-driver=vfs"),
        ("- docker-daemon: debug\n  exactly: true", "-D"),
        ("- docker-daemon: exec-opts\n  exactly: [native.cgroupdriver=systemd]", "--exec-opt native.cgroupdriver=cgroupfs"),
        (SHM, "--default-shm-size=1G"),
        (SHM, "--log-opt max-file=3 --default-ulimit memlock=-1"),
        (LOGS, "--log-opt max-file=3"),
        (LOGS, "--log-driver local"),
        (ULIMITS, "--default-ulimit memlock=-1:-1"),
        (RUNTIME, "--add-runtime other=/usr/bin/other"),
    ],
)  # fmt: skip
def test_what_is_held_back_is_what_dockerd_does_not_start_with(wish, flags, package, tmp_path):
    free = One(machine(package, ""), wish)
    if "-H" not in flags:  # the package's own unit has it
        free.apply()
    written = free.kept().get(PATH, '{"hosts": ["fd://"]}')
    accepts = validated(package, tmp_path, written, *flags.split()).returncode == 0
    plan = One(machine(package, "", flags), wish).plan()
    assert bool(plan.changes) is accepts
    if not accepts:
        assert any(DROPIN in finding.hold.detail for finding in plan.findings), plan.findings


def test_file_changes_only_after_dockerd_took_it(package, tmp_path):
    (tmp_path / "docker").symlink_to(package)
    passes(__file__, "live", tmp_path)


def scenario_live(folder: Path) -> None:
    """An /etc with a daemon.json, hosttune's own folder, and dockerd where it is looked for."""
    from hosttune.host.reading.live import LiveWriter
    from hosttune.resources.containers.docker_file import DockerDaemonAddress

    package = (folder / "docker").resolve()
    text = '{"debug": false}\n'
    file = own_etc(folder) / "docker/daemon.json"
    file.parent.mkdir()
    file.write_text(text)
    own = Path("/var/lib/hosttune")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "own", own.parent)
    own.mkdir(mode=0o700)
    programs = f"lowerdir={package}/usr/sbin:/usr/local/bin"
    run("mount", "-t", "overlay", "-o", programs, "programs", "/usr/local/bin")
    address, writer = DockerDaemonAddress(), LiveWriter()
    wrong, right = (
        One(machine(package, text), f"- docker-daemon: no-such-key\n  exactly: 1\n{SHM}")
        .plan()
        .changes
    )
    with pytest.raises(Refused, match="no-such-key"):
        address.write(writer, wrong)
    assert file.read_text() == text
    address.write(writer, right)
    assert file.read_text() == '{"debug": false, "default-shm-size": "1G"}\n'
    back = address.invert(right)
    assert back is not None
    address.write(writer, back)
    assert file.read_text() == text
    assert address.read(writer, "default-shm-size") is ABSENT
    assert list(own.iterdir()) == []
