"""Writes reports as nvidia-bug-report.sh does, of a made-up host with two GPUs."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

RULE = "_" * 44
SLOTS = ("0000:17:00.0", "0000:65:00.0")
LISTED = "*** ls: -r--r--r-- 1 root root 0 2026-11-20 10:00:{:02}.000000000 +0000 {}"
LOG = (
    "[    0.000000] Linux version 6.8.0-60-generic (buildd@x) #63-Ubuntu SMP\n"
    "[    4.400000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue Jan 14 2025\n"
    "[    5.000000] Run /init as init process\n"
    "[ 7200.000000] eno1: link up\n"
)
LOST = "[ 7100.000000] NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
NOT_REACHED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


def device(slot: str, *, driver: str = "nvidia") -> str:
    config = "00: de 10 b9 26 07 05 10 00 a1 00 02 03 00 00 80 00\n" + "10: " + "00 " * 15 + "00\n"
    config += "20: 00 00 00 00 00 00 00 00 00 00 00 00 de 10 1b 17\n30: " + "00 " * 15 + "00\n"
    used = f"\tKernel driver in use: {driver}\n" if driver else ""
    return (
        f"{slot} 3D controller [0302]: NVIDIA Corporation AD102GL [L40S] [10de:26b9] (rev a1)\n"
        "\tIOMMU group: 53\n\tNUMA node: 0\n"
        "\tRegion 1: Memory at 100b0000000 (64-bit, prefetchable) [size=64G]\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L0s L1\n"
        f"\t\tLnkSta:\tSpeed 16GT/s, Width x16\n{used}{config}\n"
    )


def gpu(slot: str, **changed: str) -> str:
    rows = {
        "recovery": "None",
        "hot": "Not Active",
        "uncorrectable": "0",
        "remapping": "No",
    } | changed
    return f"""\
GPU 0000{slot.upper()}
    Product Name                          : NVIDIA L40S
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : N/A
        Pending                           : N/A
    GPU UUID                              : GPU-00000000-0000-0000-0000-000000000000
    GPU Recovery Action                   : {rows["recovery"]}
    Clocks Event Reasons
        Idle                              : Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : {rows["hot"]}
            HW Power Brake Slowdown       : Not Active
        SW Thermal Slowdown               : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : 0 us
        Sync Boost                        : 0 us
        SW Thermal Slowdown               : 0 us
        HW Thermal Slowdown               : 0 us
        HW Power Braking                  : 0 us
    FB Memory Usage
        Total                             : 46068 MiB
        Used                              : 1 MiB
    BAR1 Memory Usage
        Total                             : 65536 MiB
    Compute Mode                          : Default
    Utilization
        GPU                               : 0 %
        Memory                            : 0 %
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : {rows["uncorrectable"]}
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : {rows["remapping"]}
        Bank Remap Availability Histogram
            Max                           : 192 bank(s)
            Low                           : 0 bank(s)
            None                          : 0 bank(s)
    Temperature
        GPU Current Temp                  : 31 C
    GPU Power Readings
        Average Power Draw                : 35.10 W
        Current Power Limit               : 350.00 W
        Default Power Limit               : 350.00 W
        Min Power Limit                   : 100.00 W
        Max Power Limit                   : 350.00 W
    Clocks
        SM                                : 210 MHz
    Max Clocks
        SM                                : 2520 MHz
"""


def long_text(*gpus: str, driver: str = "570.86.15") -> str:
    head = f"==============NVSMI LOG==============\n\nTimestamp : Fri Nov 20 10:00:09 2026\nDriver Version : {driver}\n"
    return f"{head}CUDA Version : 12.8\n\nAttached GPUs : {len(gpus)}\n" + "".join(gpus)


def sections(**changed: str | None) -> dict[str, str]:
    """Head and body by name, as the program has them in that order; None leaves one out."""
    found = {
        "issue": LISTED.format(1, "/etc/issue") + "\nUbuntu 24.04.1 LTS \\n \\l\n\n",
        "lspci": "".join(map(device, SLOTS)),
        "dmesg": LOG,
        "cpuinfo": LISTED.format(5, "/proc/cpuinfo")
        + "\nprocessor\t: 0\nflags\t\t: fpu sse avx2\n",
        "modules": LISTED.format(6, "/proc/modules")
        + "\nnvidia 9715712 34 nvidia_uvm, Live 0xffffffffc0000000 (PO)\n",
        "version": LISTED.format(7, "/proc/driver/nvidia/version")
        + "\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue Jan 14 22:54:00 UTC 2025\n",
        "smi": long_text(*map(gpu, SLOTS)),
        "nvlink": "GPU 0: NVIDIA L40S (UUID: GPU-00000000-0000-0000-0000-000000000000)\n",
    }
    return {name: body for name, body in ({**found, **changed}).items() if body is not None}


HEADS: Mapping[str, str] = {
    "issue": "*** /etc/issue\n", "lspci": "/usr/bin/lspci -nnDvvvxxx\n\n", "dmesg": "dmesg:\n\n",
    "cpuinfo": "*** /proc/cpuinfo\n", "modules": "*** /proc/modules\n",
    "version": "*** /proc/driver/nvidia/./version\n", "smi": "/usr/bin/nvidia-smi --query\n\n",
    "nvlink": "/usr/bin/nvidia-smi nvlink --status\n\n",
}  # fmt: skip


def report(
    *, flags: str = "", more: str = "", end: bool = True, name: str = "gpu7", **changed: str | None
) -> bytes:
    head = (
        "\nStart of NVIDIA bug report log file.  Please include this file, along\nwith a detailed description.\n\n"
        f"nvidia-bug-report.sh Version: 34275367\n\nDate: Fri Nov 20 10:00:00 UTC 2026\n"
        f"uname: Linux {name} 6.8.0-60-generic #63-Ubuntu SMP x86_64 x86_64 x86_64 GNU/Linux\n"
        f"command line flags: {flags}\n"
    )
    parts = [head]
    parts += [f"\n{HEADS[key]}{body}\n" for key, body in sections(**changed).items()]
    parts += [more] if more else []
    parts += ["\nEnd of NVIDIA bug report log file.\n"] if end else []
    return "".join(f"{RULE}\n{part}" for part in parts).encode("utf-8", "surrogateescape")


def packed(content: bytes, *, members: int = 5) -> bytes:
    """As the program packs it: many gzip files one after another, some with nothing in them."""
    step = len(content) // members + 1
    parts = (gzip.compress(content[at : at + step]) for at in range(0, len(content), step))
    return b"".join(part + gzip.compress(b"") for part in parts)


def registers(
    *,
    below: tuple[int, int, int] = (0, 0, 0),
    width: int = 16,
    most: int = 16,
    state: int = 0,
    has_link: bool = True,
) -> bytes:
    """The first 256 bytes of a function: of a GPU, or of a bridge with these buses (primary,
    secondary, last); its power state (3: asleep), and a link of the fourth generation.
    """
    space = bytearray(256)
    space[0:4] = b"\x86\x80\x20\x34" if any(below) else b"\xde\x10\xb9\x26"
    space[10:12] = b"\x04\x06" if any(below) else b"\x02\x03"
    space[6], space[14], space[52] = 0x10, 1 if any(below) else 0, 0x60
    space[24:27] = bytes(below)
    space[0x60:0x68] = bytes((1, 0x78 if has_link else 0, 0, 0, state, 0, 0, 0))
    space[0x78:0x7A] = b"\x10\x00" if has_link else b"\x00\x00"
    space[0x84:0x86] = (most << 4 | 4).to_bytes(2, "little")
    space[0x8A:0x8C] = (width << 4 | 4).to_bytes(2, "little")
    return bytes(space)


def function(slot: str, space: bytes, words: str = "") -> str:
    """As lspci shows it with its configuration space."""
    title = (
        "PCI bridge [0604]: Intel Root Port [8086:3420]"
        if space[14] == 1
        else "3D controller [0302]: L40S [10de:26b9]"
    )
    rows = (f"{at:02x}: {space[at : at + 16].hex(' ')}\n" for at in range(0, len(space), 16))
    return f"{slot} {title}\n\tNUMA node: 0\n{words}{''.join(rows)}\n"
