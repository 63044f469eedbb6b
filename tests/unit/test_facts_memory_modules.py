"""Memory modules as udev keeps them, and ZFS's cache."""

import pytest

from hosttune.actions.record.encode import encode_record
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.base import complete
from hosttune.facts.memory.memory_modules import UDEV, MemoryModule, modules_in
from hosttune.host.record.record import RecordingReader, RecordReader
from tests.unit.fake_reader import FakeReader

GIB = 1 << 30
TOLD = f"""I:4821634
E:ID_SYSFS_ATTRIBUTE_MODEL=
E:MEMORY_ARRAY_NUM_DEVICES=3
E:MEMORY_DEVICE_0_LOCATOR=DIMM_A1
E:MEMORY_DEVICE_0_TYPE=DDR5
E:MEMORY_DEVICE_0_SIZE={64 * GIB}
E:MEMORY_DEVICE_0_SPEED_MTS=5600
E:MEMORY_DEVICE_0_CONFIGURED_SPEED_MTS=4800
E:MEMORY_DEVICE_0_SERIAL_NUMBER=80CE01234567
E:MEMORY_DEVICE_1_LOCATOR=DIMM_A2
E:MEMORY_DEVICE_1_PRESENT=0
E:MEMORY_DEVICE_2_TYPE=HBM2
E:MEMORY_DEVICE_2_SIZE={16 * GIB}
E:MEMORY_DEVICE_3_TYPE=LPDDR5
E:MEMORY_DEVICE_3_SIZE=many
G:systemd
"""


def test_memory_modules_are_what_is_ram_and_in_a_slot():
    assert modules_in(TOLD) == (MemoryModule("DIMM_A1", 64 * GIB, 5600, 4800),)
    seen = Facts(FakeReader({UDEV: TOLD})).memory_modules
    assert (seen.installed_bytes, seen.speeds_mts, seen.configured_mts) == (
        64 * GIB,
        (5600,),
        (4800,),
    )


def test_memory_modules_are_none_where_udev_tells_nothing():
    assert Facts(FakeReader()).memory_modules.all == ()


def test_a_record_keeps_no_serial_number_of_a_module():
    recorder = RecordingReader(FakeReader({UDEV: TOLD}))
    found = Facts(recorder).memory_modules
    complete(found)
    record = encode_record(recorder, share=False, tool_version="0")
    assert "80CE01234567" not in str(record)
    seen = Facts(RecordReader(record)).memory_modules
    assert seen.all == found.all


def test_arc_of_zfs_has_a_size_and_a_limit():
    stats = "9 1 0x01 147 39984 1 2\nname type data\nsize 4 1024\nc_max 4 4096\n"
    files = {
        "/proc/spl/kstat/zfs/arcstats": stats,
        "/sys/module/zfs/parameters/zfs_arc_max": "4096\n",
    }
    seen = Facts(FakeReader(files)).arc
    assert (seen.is_there, seen.size_bytes, seen.max_bytes, seen.is_limited) == (
        True,
        1024,
        4096,
        True,
    )
    assert not Facts(FakeReader()).arc.is_there
    with pytest.raises(UnknownFact, match="has no size"):
        _ = Facts(FakeReader(files | {"/proc/spl/kstat/zfs/arcstats": "\n"})).arc.size_bytes
