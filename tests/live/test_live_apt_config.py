"""The real apt merges our list with an administrator's, and keeps its patterns as they were
written.
"""

import os
import subprocess

import pytest

from hosttune.choices.update_hold import DRIVER
from hosttune.facts.apt import dump_command, values_in
from hosttune.rendering import render
from hosttune.resources.packages.apt_blacklist import KEY

PATTERNS = (
    *DRIVER,
    r"^linux-((image|headers|modules-extra|tools|cloud-tools)-)?generic-hwe-24\.04$",
)
OURS = render(
    "apt-blacklist.conf.j2",
    rule="gpu-update-hold",
    key=KEY,
    patterns=PATTERNS,
    path="/etc/apt/apt.conf.d/60-hosttune-gpu-update-hold.conf",
)
ADMIN = f'{KEY} {{\n    // by hand\n    "slurm";\n}};\n'


@pytest.fixture
def merged(tmp_path):
    def ask(files):
        parts = tmp_path / "apt.conf.d"
        parts.mkdir()
        for name, text in files.items():
            (parts / name).write_text(text)
        (tmp_path / "apt.conf").write_text(f'Dir::Etc::parts "{parts}";\n')
        environment = {**os.environ, "APT_CONFIG": str(tmp_path / "apt.conf"), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            dump_command(KEY), env=environment, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return values_in(done.stdout, KEY)

    return ask


@pytest.mark.parametrize("name", ["50unattended-upgrades", "99site"])
def test_apt_appends_our_patterns_to_an_administrators(merged, name):
    assert sorted(merged({name: ADMIN, "60-hosttune-gpu-update-hold.conf": OURS})) == sorted(
        ("slurm", *PATTERNS)
    )


def test_apt_drops_what_a_later_file_clears(merged):
    files = {"60-hosttune-gpu-update-hold.conf": OURS, "90clear": f"#clear {KEY};\n"}
    assert merged(files) == ()


def test_apt_without_such_a_list_answers_with_nothing(merged):
    assert merged({"10x": 'APT::Periodic::Unattended-Upgrade "1";\n'}) == ()
