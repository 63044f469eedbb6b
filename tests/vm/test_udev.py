"""Which udev rule sets a value: what hosttune says is what udevadm(8) of a Debian 13 would
write.
"""

import re
from pathlib import Path

import pytest

from hosttune.facts import Facts
from hosttune.facts.precedence import UDEV
from tests.unit.fake_reader import FakeReader
from tests.vm.tree import inside

pytestmark = pytest.mark.vm
PATH = "/sys/class/net/lo/tx_queue_len"
NET = 'ACTION=="add|change", SUBSYSTEM=="net", KERNEL=="lo"'
ETC, LIB = "/etc/udev/rules.d", "/usr/lib/udev/rules.d"
SCRIPT = """\
mount --bind /given/etc /etc/udev/rules.d && mount --bind /given/lib /usr/lib/udev/rules.d &&
udevadm verify && udevadm test --action=add /sys/class/net/lo
"""
WRITES = re.compile(r'skipping writing ATTR\{/sys/\S+/net/lo/tx_queue_len\}="(\d+)"')


def written(folder: Path, files: dict[str, str]) -> list[str]:
    """What udev would write to the value, in its order, with these rules alone."""
    for name in ("etc", "lib", "root"):
        (folder / name).mkdir()
    for path, text in files.items():
        (folder / ("etc" if path.startswith(ETC) else "lib") / Path(path).name).write_text(
            text, encoding="utf-8"
        )
    done = inside(folder / "root", folder, "sh", "-c", SCRIPT)
    assert done.returncode == 0, done.stdout + done.stderr
    return WRITES.findall(done.stdout + done.stderr)


@pytest.mark.parametrize(
    "files",
    [
        {f"{ETC}/60-a.rules": f'{NET}, ATTR{{tx_queue_len}}="11"\n'},
        {f"{ETC}/60-a.rules": f'{NET}, ATTR{{tx_queue_len}}="11"\n', f"{LIB}/90-b.rules": f'{NET}, ATTR{{tx_queue_len}}="12"\n'},
        {f"{LIB}/60-a.rules": f'{NET}, ATTR{{tx_queue_len}}="11"\n', f"{ETC}/60-a.rules": f'{NET}, ATTR{{tx_queue_len}}="12"\n'},
        {f"{LIB}/60-a.rules": f'{NET}, ATTR{{tx_queue_len}}="11"\n', f"{ETC}/60-a.rules": "# nothing\n"},
        {f"{ETC}/60-a.rules": f'{NET}, \\\n  ATTR{{mtu}}="1400", ATTR{{tx_queue_len}}="11"\n#{NET}, ATTR{{tx_queue_len}}="12"\n'},
        {f"{ETC}/60-a.rules": 'SUBSYSTEM=="net", KERNEL=="eth*|l?", ATTR{tx_queue_len}="11"\n'},
        {f"{ETC}/60-a.rules": 'SUBSYSTEM=="net", KERNEL=="eth*", ATTR{tx_queue_len}="11"\nSUBSYSTEM=="block", ATTR{tx_queue_len}="12"\n'},
        {f"{LIB}/zz-b.rules": f'{NET}, ATTR{{tx_queue_len}}="12"\n', UDEV.path_over(f"{LIB}/zz-b.rules"): f'{NET}, ATTR{{tx_queue_len}}="11"\n'},
        {f"{ETC}/60-a.rules.off": f'{NET}, ATTR{{tx_queue_len}}="11"\n'},
    ],
)  # fmt: skip
def test_what_udev_writes_is_what_is_foretold(files: dict[str, str], tmp_path: Path) -> None:
    found = Facts(FakeReader(files)).sysfs_at_boot[PATH].settings
    assert written(tmp_path, files) == [one.given.value for one in found]
