"""What an engine told the runtime of a container is read, and only names of devices leave it."""

from __future__ import annotations

import json

import pytest

from hosttune.host.processes import container_devices
from hosttune.host.processes.container_devices import ask, devices_in
from hosttune.values import ABSENT, Unreadable

ID = "3f2a" * 16


def config(*paths, **more):
    return json.dumps({"process": {"env": ["TOKEN=hunter2"]}, "linux": {"devices": [{"path": one} for one in paths]},
                       **more}).encode()  # fmt: skip


@pytest.fixture
def bundles(tmp_path, monkeypatch):
    monkeypatch.setattr(container_devices, "_CONTAINERD", (str(tmp_path / "containerd"),))
    monkeypatch.setattr(container_devices, "_PODMAN", (str(tmp_path / "overlay-containers"),))
    monkeypatch.setattr(
        container_devices.FileTree, "read_guarded", lambda tree, path: (tree.read(path), ())
    )
    return tmp_path


@pytest.mark.parametrize("place", [f"containerd/k8s.io/{ID}", f"overlay-containers/{ID}/userdata"])
def test_devices_of_a_running_container(bundles, place):
    (bundles / place).mkdir(parents=True)
    (bundles / place / "config.json").write_bytes(
        config("/dev/nvidia0", "/dev/null", "/dev/../x", "/dev/a b", 7)
    )
    assert ask(("devices-of", ID)).stdout == b'["null", "nvidia0"]'


def test_container_of_no_known_engine_is_absent(bundles):
    assert ask(("devices-of", ID)) is ABSENT
    assert ask(("devices-of", "../../etc")) is ABSENT


def test_file_that_others_can_write_is_no_word_of_the_engine(bundles, monkeypatch):
    (bundles / f"containerd/moby/{ID}").mkdir(parents=True)
    monkeypatch.setattr(
        container_devices.FileTree, "read_guarded", lambda *_: (b"{}", ("/run can be written",))
    )
    assert ask(("devices-of", ID)) == Unreadable("/run can be written")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"linux": {"devices": [1]}}', b"[" * 100000]
)
def test_other_content_is_unreadable(content):
    assert isinstance(devices_in(content), Unreadable)


def test_container_without_devices_of_its_own_has_none():
    assert devices_in(config()) == devices_in(b'{"linux": {"devices": null}}') == []
