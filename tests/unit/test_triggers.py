"""What must follow a change, and what keeps it waiting."""

from types import SimpleNamespace

import pytest

from hosttune.actions.triggers import comes_after, in_order, must_wait, run_trigger
from hosttune.errors import Refused
from hosttune.facts import UnknownFact
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import Trigger, Unreadable
from tests.unit.fake_reader import FakeReader

RESTART = Trigger("restart", "nvidia-persistenced.service")


class Host(Overlay):
    """A host that remembers the programs that were to change it."""

    def __init__(self, base):
        super().__init__(base)
        self.ran = []

    def run(self, argv, *, timeout_s):
        self.ran.append(tuple(argv))
        return super().run(argv, timeout_s=timeout_s)


def facts(work, state="running\n", folders=("/run/systemd/system",), *, image=False):
    queries = {("systemctl", "is-system-running"): state}
    return SimpleNamespace(
        reader=FakeReader(queries=queries, folders=folders, persistent_only=image), work=work
    )


def work(busy=False, containers=()):
    return SimpleNamespace(
        gpu_containers=containers,
        is_gpu_busy=busy,
        evidence=("process 7 (python, ann) holds a GPU",),
    )


def test_restart_of_a_service_on_an_idle_host_is_made():
    assert must_wait(RESTART, facts(work())) == ""
    host = Host(FakeReader(folders=["/run/systemd/system"]))
    run_trigger(RESTART, host)
    assert host.ran == [("systemctl", "try-restart", "nvidia-persistenced.service")]


def test_restart_waits_for_gpu_work():
    assert (
        must_wait(RESTART, facts(work(busy=True)))
        == "GPU work runs: process 7 (python, ann) holds a GPU"
    )
    assert must_wait(Trigger("daemon-reload"), facts(work(busy=True))) == ""


def test_restart_waits_with_the_reload_that_brings_its_settings():
    assert (
        must_wait(RESTART, facts(work(containers=("docker 1234",))))
        == "GPU containers run: docker 1234"
    )
    assert (
        must_wait(RESTART, facts(work(), "starting\n")) == "the service manager is still starting"
    )


def test_restart_waits_where_nobody_can_tell_whether_work_runs():
    class Hidden:
        gpu_containers = ()

        @property
        def is_gpu_busy(self):
            raise UnknownFact("needs root")

    assert (
        must_wait(RESTART, facts(Hidden())) == "cannot find out whether GPU work runs (needs root)"
    )


def test_reload_waits_where_nobody_can_tell_whether_the_manager_starts_or_containers_run():
    class Hidden:
        @property
        def gpu_containers(self):
            raise UnknownFact("needs root")

    reason = "cannot find out whether the service manager is still starting (timed out)"
    for trigger in (Trigger("daemon-reload"), RESTART):
        assert must_wait(trigger, facts(work(), Unreadable("timed out"))) == reason
        assert (
            must_wait(trigger, facts(Hidden()))
            == "cannot find out whether GPU containers run (needs root)"
        )


@pytest.mark.parametrize("more", [{"folders": ()}, {"image": True}])
def test_restart_without_a_service_manager_is_left_to_the_boot(more):
    assert must_wait(RESTART, facts(work(busy=True), **more)) == ""
    host = Host(
        FakeReader(
            folders=more.get("folders", ["/run/systemd/system"]), persistent_only="image" in more
        )
    )
    run_trigger(RESTART, host)
    assert host.ran == []


def test_trigger_that_nobody_knows_is_refused():
    with pytest.raises(Refused, match="no trigger is called polish"):
        run_trigger(Trigger("polish"), Host(FakeReader()))


def test_restart_comes_after_the_reload_and_not_without_it():
    reload, other = Trigger("daemon-reload"), Trigger("restart", "x.service")
    assert in_order((RESTART, reload, other, RESTART, reload)) == (reload, RESTART, other)
    assert comes_after(RESTART, (other, reload)) == "daemon-reload comes first"
    assert comes_after(RESTART, (other,)) == comes_after(reload, (reload,)) == ""
