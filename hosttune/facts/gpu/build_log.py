"""Why a build of the driver's kernel module failed, as the log of DKMS or of NVIDIA's installer
tells; pure.

Sources: Kbuild's warning about the compiler (Makefile of Linux); CONFIG_CC_VERSION_TEXT of
/boot/config-KERNEL (init/Kconfig of Linux); conftest.sh of NVIDIA's kernel modules, for "Failed CC
version check", as in issue 15 of GoogleCloudPlatform/compute-gpu-installation; the words of gcc for
a compiler that crashed or was killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

OLD_COMPILER, CRASHED, KILLED, FULL, COMPILER_CHECK = (
    "old compiler",
    "crashed",
    "killed",
    "full",
    "compiler check",
)
NO_TOOL, NO_HEADERS, NEWER_RELEASE, NO_KEY = "no tool", "no headers", "newer release", "no key"
NO_SOURCES, NO_PATCH, REALTIME = "no sources", "no patch", "real-time kernel"
_OF_HOST = frozenset(
    {
        REALTIME,
        OLD_COMPILER,
        CRASHED,
        KILLED,
        FULL,
        NO_TOOL,
        NO_HEADERS,
        NEWER_RELEASE,
        NO_KEY,
        NO_SOURCES,
    }
)
# Behind any other error gcc says in a note, or before gcc 10 in a warning, that it does not know
# some -Wno- option.
_UNKNOWN_OPTION = (
    "error: unrecognized command-line option",
    "error: unrecognized command line option",
)
# Words of a line to what they say; the first such line counts.
_CAUSES = {
    **dict.fromkeys(_UNKNOWN_OPTION, OLD_COMPILER),
    "internal compiler error: Segmentation fault": CRASHED,
    "internal compiler error: Illegal instruction": CRASHED,
    "internal compiler error: Bus error": CRASHED,
    "Killed signal terminated program": KILLED,
    "No space left on device": FULL,
    "Failed CC version check": COMPILER_CHECK,
    "Failed PREEMPT_RT sanity check": REALTIME,
    # Makefile of Linux, where the headers of the kernel are unpacked in part.
    "ERROR: Kernel configuration is invalid.": NO_HEADERS,
    "include/generated/autoconf.h or include/config/auto.conf are missing": NO_HEADERS,
    # NVIDIA's installer, without headers of the running kernel (MichaIng/DietPi issue 5818).
    "Unable to find the kernel source tree for the currently running kernel": NO_SOURCES,
    # scripts/sign-file.c of Linux: it prints the call of OpenSSL that failed.
    "sign-file: /var/lib/shim-signed/mok/MOK.": NO_KEY,
    "sign-file: /var/lib/dkms/mok.": NO_KEY,
}
# Headers of a newer release than this one bring programs that need its C library (kernels of
# mainline PPAs).
_NEWER_LIBRARY = regex(r"/libc\.so\.6: version .GLIBC_[\d.]{1,8}. not found")
# make, a shell, or env on a program that is not here: `make[3]: gcc-13: No such file or directory`.
_NO_PROGRAM = regex(
    r"(?:make(?:\[\d{1,2}\])?|(?:/bin/)?sh: (?:line )?\d{1,5}|env|/usr/bin/env): ['\u2018]?"
    r"((?:[a-z0-9_]{1,16}-linux-gnu-)?(?:gcc|cc|ld|make|bc|flex|bison"
    r"|pahole)(?:-\d{1,2})?)['\u2019]?: "
    r"(?:No such file or directory|not found|[Cc]ommand not found)"
)
_ERRORS = (
    "internal compiler error: ",
    "fatal error: ",
    "error: ",
    "ERROR: modpost: ",
    "No rule to make target",
    "*** Failed ",  # conftest.sh of NVIDIA's kernel modules: another check of the kernel
    *_CAUSES,
)
_LONGEST = 160  # characters of a line that are shown
# With V=1 make prints what it runs, of older kernels also the words of an error that did not
# happen (damentz/liquorix-package issue 72).
_RECIPE = regex(r"[ \t]*echo[ \t]")
# x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0; some kernels name plain gcc, with
# its version behind.
_GCC = r"(?:[a-z0-9_]{1,16}-linux-gnu-)?gcc(?:-(\d{1,2}))? \([^()\n]{1,80}\) (\d{1,2})\."
_BUILT_BY = regex(rf"^ {{0,8}}The kernel was built by: {{1,8}}{_GCC}")
_CONFIGURED = regex(rf'^CONFIG_CC_VERSION_TEXT="{_GCC}')


@frozen
class BuildError(Fact):
    """The first error of a build; `words` are empty where the log has none that is known."""

    words: str = ""  # error: implicit declaration of function 'del_timer_sync'
    cause: str = ""  # one of the words above; empty for another
    # gcc-12, which built the kernel, where an older one built this; of `no tool` what is missing
    compiler: str = ""

    @property
    def is_of_host(self) -> bool:
        """Whether this host is the cause, so that another version of the driver fails in the same
        way.
        """
        return self.cause in _OF_HOST


def error_in(log: str, config: Callable[[], str] = str) -> BuildError:
    """Why a build failed: the first line with a cause that is known, else the first error.
    `config`: the text of the kernel's /boot/config, asked for where the log does not say which
    compiler built the kernel (NVIDIA's makefiles can leave Kbuild's warning out).
    """
    lines = [line for line in log.splitlines() if not _RECIPE.match(line)]
    first = ""
    for line in lines:
        cause = next((cause for word, cause in _CAUSES.items() if word in line), "")
        if cause == OLD_COMPILER:
            built_by = next((found for one in lines if (found := _BUILT_BY.match(one))), None)
            return BuildError(
                _cut_to_error(line), cause, _format_match(built_by) or compiler_of(config())
            )
        if cause:
            return BuildError(_cut_to_error(line) or line.strip()[:_LONGEST], cause)
        # Without pahole a build only lacks its type information (BTF), so that it is the cause only
        # where gcc reports no error of its own.
        if (match := _NO_PROGRAM.match(line)) and not (match[1] == "pahole" and " error: " in log):
            return BuildError(line.strip()[:_LONGEST], NO_TOOL, match[1])
        if _NEWER_LIBRARY.search(line):
            return BuildError(line.strip()[:_LONGEST], NEWER_RELEASE)
        # A line with a known cause further down counts more: make reports the same failure once for
        # each level, in words that say less.
        first = first or _cut_to_error(line)
    return BuildError(first)


def _cut_to_error(line: str) -> str:
    """A line of an error from its mark on; empty without one."""
    starts = [place for word in _ERRORS if (place := line.find(word)) >= 0]
    return line[min(starts) :][:_LONGEST].strip(" *") if starts else ""


def _format_match(match: re.Match[str] | None) -> str:
    return f"gcc-{match[1] or match[2]}" if match else ""


def compiler_of(config: str) -> str:
    """The compiler that built a kernel, by its /boot/config: gcc-12; empty where that does not
    tell.
    """
    return _format_match(
        next((found for line in config.splitlines() if (found := _CONFIGURED.match(line))), None)
    )
