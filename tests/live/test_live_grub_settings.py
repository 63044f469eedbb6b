"""What GRUB's settings add up to: what hosttune reads is what a shell makes of them, as grub-mkconfig sources them."""

from __future__ import annotations

import subprocess

import pytest

from hosttune.facts import grub_arguments as grub
from tests.unit.wish_host import One, host

pytestmark = pytest.mark.live
PRINT = 'printf "%s\\n%s\\n" "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"'


def sourced(tmp_path, texts):
    """(every, default) as the shell sees them after it has read these files in turn."""
    script = ""
    for number, text in enumerate(texts):
        (tmp_path / str(number)).write_text(text)
        script += f". ./{number}\n"
    shell = subprocess.run(["sh", "-c", script + PRINT], cwd=tmp_path, check=True, capture_output=True, text=True)
    return [line.split() for line in shell.stdout.splitlines()]


@pytest.mark.parametrize(
    "texts",
    [
        ['GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\nGRUB_CMDLINE_LINUX=""\n'],
        ["GRUB_CMDLINE_LINUX_DEFAULT='a  b'\n", 'GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT} c"\n'],
        ["GRUB_CMDLINE_LINUX_DEFAULT=a # x\n", 'export GRUB_CMDLINE_LINUX_DEFAULT="b $GRUB_CMDLINE_LINUX_DEFAULT";\n'],
        ["GRUB_CMDLINE_LINUX=a\n", "GRUB_CMDLINE_LINUX=b\nGRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX c='d'\"\n"],
        ['GRUB_CMDLINE_LINUX=\'$x\'\nGRUB_CMDLINE_LINUX_DEFAULT="\\$y \\"z\\""\n', "GRUB_TIMEOUT=5\n"],
        ["  GRUB_CMDLINE_LINUX=a'b'\"c\"\n# GRUB_CMDLINE_LINUX=no\n"],
    ],
)
def test_settings_are_read_as_a_shell_reads_them(texts, tmp_path):
    found = grub.arguments((str(number), text) for number, text in enumerate(texts))
    ours = [[one.text for one in found.every], [one.text for one in found.default]]
    assert sourced(tmp_path, texts) == ours


def test_dropin_of_ours_adds_to_what_is_there(tmp_path):
    before = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'
    menu = "linux /vmlinuz-1 root=x ro quiet\n"
    one = One(host({"/etc/default/grub": before, "/boot/grub/grub.cfg": menu}), "- kernel-argument: iommu=pt")
    one.apply()
    (text,) = (text for path, text in one.kept().items() if path.startswith("/etc/default/grub.d/"))
    assert sourced(tmp_path, [before, text])[1] == ["quiet", "iommu=pt"]
