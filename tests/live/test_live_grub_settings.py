"""What GRUB's settings add up to: what hosttune reads is what a shell makes of them, as
grub-mkconfig sources them.
"""

from __future__ import annotations

import subprocess

import pytest

from hosttune.facts.kernel import grub_arguments as grub
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import One, host

pytestmark = pytest.mark.live
PRINT = 'printf "%s\\n%s\\n" "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"'


def sourced(tmp_path, texts):
    """(every, default) as the shell sees them after it has read these files in turn."""
    script = ""
    for number, text in enumerate(texts):
        (tmp_path / str(number)).write_text(text)
        script += f". ./{number}\n"
    shell = subprocess.run(
        ["sh", "-c", script + PRINT], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    return [line.split() for line in shell.stdout.splitlines()]


@pytest.mark.parametrize(
    "texts",
    [
        ['GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\nGRUB_CMDLINE_LINUX=""\n'],
        [
            "GRUB_CMDLINE_LINUX_DEFAULT='a  b'\n",
            'GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT} c"\n',
        ],
        [
            "GRUB_CMDLINE_LINUX_DEFAULT=a # x\n",
            'export GRUB_CMDLINE_LINUX_DEFAULT="b $GRUB_CMDLINE_LINUX_DEFAULT";\n',
        ],
        [
            "GRUB_CMDLINE_LINUX=a\n",
            "GRUB_CMDLINE_LINUX=b\nGRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX c='d'\"\n",
        ],
        [
            'GRUB_CMDLINE_LINUX=\'$x\'\nGRUB_CMDLINE_LINUX_DEFAULT="\\$y \\"z\\""\n',
            "GRUB_TIMEOUT=5\n",
        ],
        ["  GRUB_CMDLINE_LINUX=a'b'\"c\"\n# GRUB_CMDLINE_LINUX=no\n"],
    ],
)
def test_settings_are_read_as_a_shell_reads_them(texts, tmp_path):
    found = grub.add_up_arguments((str(number), text) for number, text in enumerate(texts))
    ours = [[one.value for one in found.every], [one.value for one in found.default]]
    assert sourced(tmp_path, texts) == ours


MKCONFIG = """\
test -f etc/default/grub && . ./etc/default/grub
for file in ./etc/default/grub.d/*.cfg; do test -e "$file" && . "$file"; done
"""  # grub-mkconfig(8), Debian's and Ubuntu's
DEFAULT, OURS = "/etc/default/grub", "/etc/default/grub.d/60-hosttune-kernel-site.cfg"
QUIET = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'
EXTENDS = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt"\n'
AFRESH = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet nosmt"\n'


def of_mkconfig(tmp_path, files):
    """The default arguments after the shell has read the files of a folder in the order of
    grub-mkconfig.
    """
    for path, text in files.items():
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    script = MKCONFIG + 'printf "%s" "$GRUB_CMDLINE_LINUX_DEFAULT"'
    return subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.split()


@pytest.mark.parametrize(
    ("files", "is_lost"),
    [
        ({DEFAULT: QUIET, OURS: EXTENDS}, False),
        ({DEFAULT: EXTENDS, f"{grub.FOLDER}/50-curtin-settings.cfg": AFRESH}, True),
        ({DEFAULT: QUIET, f"{grub.FOLDER}/50-cloudimg-settings.cfg": AFRESH, OURS: EXTENDS}, False),
        ({DEFAULT: QUIET, OURS: EXTENDS, f"{grub.FOLDER}/99_tuned.cfg": AFRESH}, True),
        ({DEFAULT: QUIET, OURS: EXTENDS, f"{grub.FOLDER}/9.cfg": AFRESH}, True),
        ({DEFAULT: QUIET, OURS: EXTENDS, f"{grub.FOLDER}/100.cfg": AFRESH}, False),
        ({DEFAULT: QUIET, OURS: EXTENDS, f"{grub.FOLDER}/Z.cfg": EXTENDS, f"{grub.FOLDER}/a.cfg": AFRESH}, True),
        ({DEFAULT: QUIET, OURS: EXTENDS, f"{grub.FOLDER}/99-x.cfg.dpkg-old": AFRESH}, False),
        ({DEFAULT: QUIET, OURS: EXTENDS, f"{grub.FOLDER}/.99.cfg": AFRESH}, False),
    ],
)  # fmt: skip
def test_file_that_comes_later_wins_as_for_grub_mkconfig(files, is_lost, tmp_path):
    texts = grub.read_files(FakeReader(files))
    ours = [one.value for one in grub.add_up_arguments(texts).default]
    assert of_mkconfig(tmp_path, files) == ours
    assert ("iommu=pt" not in ours) is is_lost


def test_argument_that_a_later_file_would_drop_is_not_written(tmp_path):
    files = {DEFAULT: QUIET, f"{grub.FOLDER}/99_tuned.cfg": AFRESH}
    assert of_mkconfig(tmp_path, {**files, OURS: EXTENDS}) == ["quiet", "nosmt"]
    menu = {"/boot/grub/grub.cfg": "linux /vmlinuz-1 root=x ro quiet nosmt\n"}
    plan = One(host({**files, **menu}), "- kernel-argument: iommu=pt").plan()
    assert plan.changes == ()
    assert any("99_tuned.cfg" in f"{one.hold} {one.reason}" for one in plan.findings), plan.findings


def test_dropin_of_ours_adds_to_what_is_there(tmp_path):
    before = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'
    menu = "linux /vmlinuz-1 root=x ro quiet\n"
    booted = {"/proc/cmdline": "BOOT_IMAGE=/vmlinuz-1 root=x ro quiet\n"}
    one = One(
        host({"/etc/default/grub": before, "/boot/grub/grub.cfg": menu, **booted}),
        "- kernel-argument: iommu=pt",
    )
    one.apply()
    (text,) = (text for path, text in one.kept().items() if path.startswith("/etc/default/grub.d/"))
    assert sourced(tmp_path, [before, text])[1] == ["quiet", "iommu=pt"]
