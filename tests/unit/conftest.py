"""What tests of several commands share."""

from contextlib import contextmanager

import pytest

from hosttune.actions import examine
from hosttune.cli import app
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import read_record


@pytest.fixture
def in_one_process(monkeypatch):
    """Commands on a path of data act in this process, which root leaves where a user may mount a
    silent server.
    """
    monkeypatch.setattr("hosttune.host.reading.named.can_hang", lambda _: False)


@pytest.fixture
def changed(monkeypatch):
    """A host that can be changed: commands see an overlay of the H100 record, which keeps what they
    do.
    """
    from tests.hosts.built import HOSTS  # made at the import

    overlay = Overlay(read_record(str(HOSTS / "h100-8x-2socket.json")))
    opened = examine.open_session

    def open_session(**options):
        options |= {"reader": overlay, "root": None, "host": None}
        return opened(**options)

    @contextmanager
    def changing(
        options, on_progress, *, resumes=False, agreed=None, beside_trial=False, for_return=False, is_way_back=False, wait_s=0.0
    ):  # fmt: skip
        may_lack = for_return or is_way_back
        yield (
            examine.open_way_back(overlay, on_progress, **options)
            if may_lack
            else open_session(**options),
            overlay,
        )

    monkeypatch.setattr("hosttune.actions.examine.open_session", open_session)
    monkeypatch.setattr("hosttune.actions.run.open_for_change", changing)
    monkeypatch.setattr("hosttune.cli.common.require_rights", lambda *_: None)
    monkeypatch.setattr("hosttune.host.open_reader", lambda **_: overlay)
    return overlay


@pytest.fixture
def run(capsys):
    """(status, standard output, standard error) of a command line."""

    def run(*argv):
        status = app.run([str(word) for word in argv])
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture(autouse=True)
def no_width(monkeypatch):
    """pytest-xdist tells its workers how wide its terminal is; what is tested says its width
    itself.
    """
    monkeypatch.delenv("COLUMNS", raising=False)
