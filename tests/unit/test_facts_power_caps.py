"""What sets the power limit of GPUs at boot."""

import pytest

from hosttune.facts import Facts
from hosttune.facts.gpu.power_caps import PowerCap, caps_in
from tests.unit.fake_reader import FakeReader

UNIT = "/etc/systemd/system/gpu-power.service"


def caps(**files):
    return Facts(FakeReader(dict(files["files"]))).power_caps.all


@pytest.mark.parametrize(
    ("line", "watts"),
    [
        ("/usr/bin/nvidia-smi -pl 280", (280,)),
        ("nvidia-smi -i 0 --power-limit=300; nvidia-smi -i 1 -pl 250", (300, 250)),
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
        ({UNIT: "[Service]\nExecStart=/bin/sh /opt/cap.sh\n", "/opt/cap.sh": "nvidia-smi -pl 280\n"}, "/opt/cap.sh"),
        (
            {"/etc/cron.d/gpu": "@reboot root /usr/local/bin/cap\n", "/usr/local/bin/cap": "nvidia-smi -pl 280\n"},
            "/usr/local/bin/cap",
        ),
        ({"/var/spool/cron/crontabs/root": "@reboot nvidia-smi -pl 280\n"}, "/var/spool/cron/crontabs/root"),
        ({"/etc/rc.local": "#!/bin/sh\nnvidia-smi -pl 280\n"}, "/etc/rc.local"),
        ({"/etc/lact/config.yaml": "gpus:\n  10DE:2204:\n    power_cap: 280.0\n"}, "/etc/lact/config.yaml"),
    ],
)
def test_place_of_the_limit_is_named(files, place):
    assert caps(files=files) == (PowerCap(place, 280),)


def test_what_a_description_or_a_comment_says_sets_nothing():
    assert caps(files={UNIT: "[Unit]\nDescription=nvidia-smi -pl 280\n[Service]\nExecStart=/bin/true\n"}) == ()
    assert caps(files={"/etc/cron.d/gpu": "# @reboot root /opt/cap.sh\n", "/opt/cap.sh": "nvidia-smi -pl 280\n"}) == ()
