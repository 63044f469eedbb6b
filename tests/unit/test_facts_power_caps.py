"""What sets the power limit of GPUs at boot."""

import pytest

from hosttune.actions.record.shared import shared_text
from hosttune.facts import Facts
from hosttune.facts.gpu.power_caps import PowerCap, caps_in
from hosttune.values import FileValue, Unreadable
from tests.unit.fake_reader import FakeReader

UNIT = "/etc/systemd/system/gpu-power.service"


WANTS = "/etc/systemd/system/multi-user.target.wants/gpu-power.service"


def caps(files, links=None, **named):
    return Facts(
        FakeReader(files, links={WANTS: UNIT} if links is None else links, **named)
    ).power_caps.all


@pytest.mark.parametrize(
    ("line", "watts"),
    [
        ("/usr/bin/nvidia-smi -pl 280", (280,)),
        ("nvidia-smi -i 0 --power-limit=300; nvidia-smi -i 1 -pl 250", (0, 0)),
        ("nvidia-smi -pl 300 -i 2", (0,)),
        ('nvidia-smi -pl "$WATTS"', (0,)),
        ("dcgmi config --set -P 350", (350,)),
        ("# nvidia-smi -pl 280", ()),
        ("nvidia-smi -pm 1", ()),
        ("nvidia-smi -q; echo -pl 3", ()),
    ],
)
def test_commands_that_set_a_limit(line, watts):
    assert caps_in(line) == watts


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({UNIT: "[Service]\nExecStart=/usr/bin/nvidia-smi -pl 280\n"}, UNIT),
        (
            {
                UNIT: "[Service]\nExecStart=/bin/sh /opt/cap.sh\n",
                "/opt/cap.sh": "#!/bin/sh\nnvidia-smi -pl 280\n",
            },
            "/opt/cap.sh",
        ),
        (
            {
                "/etc/cron.d/gpu": "@reboot root /usr/local/bin/cap\n",
                "/usr/local/bin/cap": "#!/bin/sh\nnvidia-smi -pl 280\n",
            },
            "/usr/local/bin/cap",
        ),
        (
            {"/var/spool/cron/crontabs/root": "@reboot nvidia-smi -pl 280\n"},
            "/var/spool/cron/crontabs/root",
        ),
        (
            {"/etc/rc.local": FileValue(b"#!/bin/sh\nnvidia-smi -pl 280\n", mode=0o755)},
            "/etc/rc.local",
        ),
        (
            {"/etc/lact/config.yaml": "gpus:\n  10DE:2204:\n    power_cap: 280.0\n"},
            "/etc/lact/config.yaml",
        ),
    ],
)
def test_place_of_the_limit_is_named(files, place):
    assert caps(files=files) == (PowerCap(place, 280),)


def test_what_a_description_or_a_comment_says_sets_nothing():
    assert (
        caps(
            files={UNIT: "[Unit]\nDescription=nvidia-smi -pl 280\n[Service]\nExecStart=/bin/true\n"}
        )
        == ()
    )
    assert (
        caps(
            files={
                "/etc/cron.d/gpu": "# @reboot root /opt/cap.sh\n",
                "/opt/cap.sh": "#!/bin/sh\nnvidia-smi -pl 280\n",
            }
        )
        == ()
    )


def test_unit_that_no_boot_starts_sets_nothing():
    unit = {UNIT: "[Service]\nExecStart=/usr/bin/nvidia-smi -pl 280\n"}
    timer = {
        "/etc/systemd/system/timers.target.wants/gpu-power.timer": "/etc/systemd/system/gpu-power.timer"
    }

    assert caps(unit, links={}) == ()
    assert caps(
        {**unit, "/etc/systemd/system/gpu-power.timer": "[Timer]\nOnBootSec=1\n"}, links=timer
    ) == (PowerCap(UNIT, 280),)


def test_drop_in_of_a_packages_unit_counts():
    name = "nvidia-persistenced.service"
    unit, drop_in = f"/usr/lib/systemd/system/{name}", f"/etc/systemd/system/{name}.d/power.conf"
    files = {
        unit: "[Service]\nExecStart=/usr/bin/nvidia-persistenced\n",
        drop_in: "[Service]\nExecStartPost=nvidia-smi -pl 280\n",
    }

    assert caps(files, links={f"/etc/systemd/system/multi-user.target.wants/{name}": unit}) == (
        PowerCap(drop_in, 280),
    )


def test_script_on_a_server_is_not_read():
    """A server that does not answer would hold the check."""
    row = "30 1 0:40 / /opt rw - nfs4 nas:/opt rw\n"
    files = {
        "/proc/self/mountinfo": f"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n{row}",
        "/etc/crontab": "@reboot root /opt/cap.sh\n",
    }
    script = {"/opt/cap.sh": Unreadable("would wait")}
    reader = FakeReader({**files, **script})

    assert Facts(reader).power_caps.all == ()
    assert "/opt/cap.sh" not in reader.seen


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (UNIT, "[Service]\nExecStart=/usr/bin/nvidia-smi -pl 280\n"),
        ("/etc/cron.d/gpu", "@reboot root nvidia-smi -pl 280\n"),
        ("/etc/lact/config.yaml", "gpus:\n  a:\n    power_cap: 280.0\n"),
    ],
)
def test_shared_record_keeps_the_limit(path, text):
    assert caps({path: shared_text(path, text)}) == caps({path: text}) == (PowerCap(path, 280),)
