"""Which limits systemd skips: what `systemd-analyze verify` of systemd 252 said of each
(systemd/systemd#6559).
"""

import pytest

from hosttune.facts.lost_settings import is_misread

READ = (
    "LimitMEMLOCK=infinity", "LimitMEMLOCK=64K", "LimitMEMLOCK=64 K", "LimitMEMLOCK=1.5G", "LimitNOFILE=1024:infinity",
    "LimitNOFILE=1024:524288", "LimitNOFILE=0x10", "LimitSTACK=8M:infinity", "LimitMEMLOCK=+64K", "MemoryMax=4G",
    "MemoryMax=80%", "MemoryMax=500‰", "MemoryMax=50.5%", "MemoryMax=4G 512M", "TasksMax=50%", "TasksMax=infinity", "TasksMax=4915",
    "LimitNICE=-5", "Nice=x", "LimitCPU=1h",
)  # fmt: skip
SKIPPED = (
    "LimitNOFILE=ininity", "LimitNOFILE=unlimited", "LimitMEMLOCK=unlimited", "LimitNOFILE=65k", "LimitNOFILE=65K",
    "LimitMEMLOCK=64k", "LimitMEMLOCK=64KB", "LimitMEMLOCK=64KiB", "LimitNOFILE=-1", "LimitCORE=-1",
    "LimitNOFILE=65536,524288", "LimitNOFILE=65,536", "LimitNPROC=unlimited", "LimitNOFILE=65536 # x", "MemoryMax=4g",
    "MemoryMax=4GB", "MemoryMax=max", "MemoryMax=unlimited", "MemoryMax=-1", "TasksMax=unlimited", "TasksMax=max",
    "TasksMax=1k",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "is_skipped"), [*((one, False) for one in READ), *((one, True) for one in SKIPPED)]
)
def test_limit_that_systemd_skips(text, is_skipped):
    key, _, value = text.partition("=")
    assert is_misread(key, value) is is_skipped
