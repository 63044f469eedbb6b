"""Kernel settings that come in two spellings of which one is in force: writing one makes the other
0, and 0 cannot be written to a count of bytes.

Source: kernel, Documentation/admin-guide/sysctl/vm.rst (dirty_bytes, dirty_background_bytes) and
mm/page-writeback.c (dirty_bytes_handler, dirty_ratio_handler).
"""

from __future__ import annotations

_PAIRS = (
    ("vm.dirty_bytes", "vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "vm.dirty_background_ratio"),
)
# sysctl key -> the other spelling
TWINS = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
TWIN_PATHS = {
    f"/proc/sys/{one.replace('.', '/')}": f"/proc/sys/{other.replace('.', '/')}"
    for one, other in TWINS.items()
}
