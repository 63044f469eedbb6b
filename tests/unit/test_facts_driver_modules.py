"""The driver's kernel modules: which kernel has one, from whom, and what DKMS did."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.build_log import (
    COMPILER_CHECK,
    CRASHED,
    FULL,
    KILLED,
    NEWER_RELEASE,
    NO_HEADERS,
    NO_KEY,
    NO_TOOL,
    REALTIME,
    error_in,
)  # fmt: skip
from hosttune.facts.gpu.driver_modules import (
    config_of,
    kernel_of_log,
    make_modinfo,
    module_in,
    parse_modinfo,
    source_of,
)
from hosttune.host.door import Completed
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader
from tests.unit.test_facts_driver import OPEN, RELEASE, SERVER_OPEN, driver_of

NEXT = "6.8.0-60-generic"
OPEN_INFO = """filename:       /lib/modules/6.8.0-45-generic/kernel/nvidia-580srv-open/nvidia.ko
import_ns:      DMA_BUF
alias:          char-major-195-*
version:        580.126.20
supported:      external
license:        Dual MIT/GPL
firmware:       nvidia/580.126.20/gsp_tu10x.bin
srcversion:     0123456789ABCDEF0123456
vermagic:       6.8.0-45-generic SMP preempt mod_unload modversions
parm:           NvSwitchRegDwords:NvSwitch regkey (charp)
"""
CLOSED_INFO = OPEN_INFO.replace("Dual MIT/GPL", "NVIDIA").replace("580.126.20", "580.126.09")
PREBUILT = "kernel/nvidia-580srv-open/nvidia.ko: kernel/drivers/char/ipmi/ipmi_msghandler.ko.zst\n"
DKMS = "updates/dkms/nvidia.ko.zst: kernel/drivers/acpi/video.ko.zst\n"
# make prints what it runs; damentz/liquorix-package issue 72.
RECIPE = """test -e include/generated/autoconf.h -a -e include/config/auto.conf || ( \\
echo >&2 "  ERROR: Kernel configuration is invalid."; \\
echo >&2 "         include/generated/autoconf.h or include/config/auto.conf are missing.";\\
/bin/false)
"""
LOG = "DKMS make.log for nvidia-580.126.09 for kernel {} (x86_64)\nSat Aug  1 08:00:00 UTC 2026\nmake: *** Error 2\n"


def two_kernels(running=PREBUILT, following=PREBUILT, **more):
    files = {
        f"/lib/modules/{RELEASE}/modules.dep": running,
        f"/lib/modules/{NEXT}/modules.dep": following,
        f"/boot/vmlinuz-{RELEASE}": "",
        f"/boot/vmlinuz-{NEXT}": "",
    }
    return driver_of(files | more.pop("files", {}), packages=SERVER_OPEN, **more)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "kernel/nvidia-580srv-open/nvidia.ko: kernel/a.ko\n",
            "kernel/nvidia-580srv-open/nvidia.ko",
        ),
        ("kernel/x.ko:\nupdates/dkms/nvidia.ko.zst:\n", "updates/dkms/nvidia.ko.zst"),
        ("kernel/nvidia-580/nvidia.ko:\nupdates/dkms/nvidia.ko:\n", "updates/dkms/nvidia.ko"),
        (
            "updates/dkms/nvidia-current.ko:\nupdates/dkms/nvidia-current-drm.ko:\n",
            "updates/dkms/nvidia-current.ko",
        ),
        ("extra/nvidia.ko.xz: \n", "extra/nvidia.ko.xz"),
        ("nvidia.ko:\n", "nvidia.ko"),
        ("kernel/drivers/video/fbdev/nvidia/nvidiafb.ko:\nkernel/nvidia-drm.ko:\n", ""),
        ("updates/dkms/nvidia-fs.ko:\nupdates/dkms/nvidia-current-modeset.ko:\n", ""),
        ("kernel/x.ko: updates/dkms/nvidia.ko.zst\n", ""),
    ],
)
def test_module_in_wants_its_own_line(text, found):
    assert module_in(text)[0] == found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("kernel/nvidia-580srv-open/nvidia.ko.zst", "prebuilt"),
        ("updates/dkms/nvidia.ko.zst", "dkms"),
        ("kernel/drivers/video/nvidia.ko", "other"),
    ],
)
def test_source_of(path, source):
    assert source_of(path) == source


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (OPEN_INFO, ("580.126.20", True)),
        (CLOSED_INFO, ("580.126.09", False)),
        ("license:        GPL\nversion: 1\n", ("1", None)),
        ("", ("", None)),
    ],
)
def test_parse_modinfo(output, found):
    assert parse_modinfo(output) == found


def test_modules_of_the_running_and_the_next_kernel():
    driver = two_kernels(
        following=DKMS, queries={make_modinfo(RELEASE): OPEN_INFO, make_modinfo(NEXT): CLOSED_INFO}
    )
    running, following = driver.modules
    assert (running.kernel, running.source, running.version, running.is_open) == (
        RELEASE, "prebuilt", "580.126.20", True,
    )  # fmt: skip
    assert (following.kernel, following.source, following.version, following.is_open) == (
        NEXT, "dkms", "580.126.09", False,
    )  # fmt: skip
    assert driver.module_for(NEXT) == following
    assert driver.module_for("6.5.0-1-generic") is None
    assert driver.has_module_for_next_kernel


def test_modules_missing_for_the_next_kernel():
    driver = two_kernels(following="kernel/x.ko:\n", queries={make_modinfo(RELEASE): OPEN_INFO})
    assert not driver.has_module_for_next_kernel
    assert driver.has_module_for_running_kernel
    assert driver.module_for(NEXT) is None


def test_modules_ask_modinfo_only_for_kernels_that_have_one():
    from hosttune.facts import Facts
    from hosttune.facts.base import complete
    from tests.unit.test_facts_driver import reader

    door = reader({f"/boot/vmlinuz-{NEXT}": "", f"/lib/modules/{NEXT}/modules.dep": PREBUILT})
    (module,) = Facts(door).driver.modules
    assert (module.kernel, "modinfo" in {argv[0] for argv in door.asked}) == (NEXT, False)
    complete(module)
    assert [argv for argv in door.asked if argv[0] == "modinfo"] == [make_modinfo(NEXT)]


def test_modules_of_debian_are_asked_for_by_their_name():
    driver = two_kernels(
        "updates/dkms/nvidia-current.ko:\n",
        "",
        queries={make_modinfo(RELEASE, "nvidia-current"): CLOSED_INFO},
    )
    assert [module.version for module in driver.modules] == ["580.126.09"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "modinfo is not installed"),
        (Unreadable("not in this record: the answer of modinfo"), "not in this record"),
        (
            Completed(1, b"", b"modinfo: ERROR: Module nvidia not found.\n"),
            "Module nvidia not found",
        ),
        ("license:        GPL\n", "shows no version"),
    ],
)
def test_modules_without_an_answer_of_modinfo_are_known_by_their_file(answer, reason):
    driver = two_kernels(
        following="", queries={} if answer is None else {make_modinfo(RELEASE): answer}
    )
    (module,) = driver.modules
    assert (module.kernel, module.source) == (RELEASE, "prebuilt")
    with pytest.raises(UnknownFact, match=reason):
        _ = module.version
    with pytest.raises(UnknownFact):
        _ = module.is_open


def test_modules_under_an_alternate_root():
    blind = dict.fromkeys(("/proc", "/sys", "/run"), "no kernel runs under --root")
    driver = two_kernels(
        following="kernel/x.ko:\n", unreadable=blind, kind="root", persistent_only=True
    )
    assert not driver.has_module_for_next_kernel
    assert driver.modules == ()
    with pytest.raises(UnknownFact, match="--root"):
        _ = driver.has_module_for_running_kernel


@pytest.mark.parametrize(
    "more",
    [
        {"files": {f"/boot/vmlinuz-{RELEASE}": ""}},
        {"packages": [f"linux-image-{RELEASE}"]},
        {"packages": [f"linux-modules-{RELEASE}"]},
        {"files": {"/var/lib/dpkg/status": None}},
    ],
)
def test_modules_without_any_folder_are_unread_where_this_host_may_have_a_kernel(more):
    driver = driver_of(
        {f"/lib/modules/{RELEASE}/modules.dep": None, **more.pop("files", {})}, **more
    )
    for name in ("modules", "kernels_with_module", "has_module_for_running_kernel"):
        with pytest.raises(UnknownFact):
            getattr(driver, name)


def test_kernel_of_a_hypervisor_brings_its_modules_along():
    files = {f"/lib/modules/{RELEASE}/modules.dep": None, "/proc/driver/nvidia/version": OPEN}
    driver = driver_of(files)
    assert (driver.modules, driver.kernels_with_module, driver.is_on_disk) == ((), (), False)
    assert driver.loaded_version == "580.95.05"
    with pytest.raises(UnknownFact, match=r"modules\.dep does not exist"):
        _ = driver.has_module_for_running_kernel  # no file here tells


def test_next_kernel_that_is_not_known_leaves_its_module_unread():
    with pytest.raises(UnknownFact, match="no kernel in /boot starts next"):
        _ = driver_of(packages=SERVER_OPEN).has_module_for_next_kernel
    files = {"/etc/default/grub": "GRUB_DEFAULT=saved\n", "/boot/grub/grubenv": "saved_entry=x\n"}
    with pytest.raises(UnknownFact, match="GRUB's default is 'x'"):
        _ = two_kernels(files=files).has_module_for_next_kernel


@pytest.mark.parametrize(
    ("log", "kernel"),
    [
        (LOG.format(NEXT), NEXT),
        (f"DKMS (dkms-3.1.6) make.log for nvidia/570.86.16 for kernel {NEXT} (x86_64)\n", NEXT),
        ("make: *** Error 2\n", ""),
    ],
)
def test_kernel_of_log(log, kernel):
    assert kernel_of_log(log) == kernel


def dkms_of(files, links=None):
    driver = two_kernels(
        files={f"/var/lib/dkms/{path}": text for path, text in files.items()}, links=links
    )
    return {
        (build.version, build.kernel): (build.is_installed, build.failed) for build in driver.dkms
    }


def test_dkms_installed_built_and_failed():
    tree = {
        f"nvidia/580.126.09/{RELEASE}/x86_64/module/nvidia.ko.zst": "",
        f"nvidia/580.126.09/{RELEASE}/x86_64/log/make.log": LOG.format(RELEASE),
        "nvidia/580.126.09/build/make.log": LOG.format(NEXT),
        f"nvidia/535.309.01/{RELEASE}/x86_64/module/nvidia.ko": "",
        f"nvidia-fs/2.20.5/{RELEASE}/x86_64/module/nvidia-fs.ko": "",
        "nvidia-fs/2.20.5/build/make.log": LOG.format(NEXT),
    }
    links = {f"/var/lib/dkms/nvidia/kernel-{RELEASE}-x86_64": f"580.126.09/{RELEASE}/x86_64"}
    assert dkms_of(tree, links) == {
        ("580.126.09", RELEASE): (True, False),
        ("580.126.09", NEXT): (False, True),
        ("535.309.01", RELEASE): (False, False),
    }


@pytest.mark.parametrize(
    ("files", "source", "has_source"),
    [
        ({"/usr/src/nvidia-580.126.09/dkms.conf": ""}, "/usr/src/nvidia-580.126.09", True),
        ({"/usr/src/other": ""}, "/usr/src/nvidia-580.126.09", False),
        ({}, "/opt/nvidia", True),  # not known here
        ({}, None, True),
    ],
)
def test_dkms_source_that_is_gone_is_known_by_the_link_to_it(files, source, has_source):
    built = f"/var/lib/dkms/nvidia/580.126.09/{RELEASE}/x86_64/module/nvidia.ko"
    links = {"/var/lib/dkms/nvidia/580.126.09/source": source} if source else {}
    (build,) = two_kernels(files={built: "", **files}, links=links).dkms
    assert build.has_source is has_source


def test_dkms_log_of_a_kernel_that_is_gone_is_no_failure():
    assert dkms_of({"nvidia-srv/580.126.20/build/make.log": LOG.format("6.5.0-1-generic")}) == {}


def test_dkms_log_that_does_not_tell_its_kernel_is_a_failure_all_the_same():
    assert dkms_of({"nvidia/580.126.09/build/make.log": "cc: fatal error\n"}) == {
        ("580.126.09", ""): (False, True)
    }


BUILT_BY = "  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0\n  You are using:           cc 11.4.0\n"


@pytest.mark.parametrize(
    ("log", "compiler"),
    [
        (
            f"{BUILT_BY}cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'\n",
            "gcc-12",
        ),
        (f"{BUILT_BY}error: too few arguments to function\n", ""),
        (
            "  The kernel was built by: gcc (Ubuntu 11.4.0) 11.4.0\ncc: error: unrecognized command-line option '-f'\n",
            "gcc-11",
        ),
        ("cc: error: unrecognized command-line option '-f'\n", ""),
    ],
)
def test_dkms_compiler_that_is_too_old_for_the_kernel_is_known_by_the_log(log, compiler):
    path = "/var/lib/dkms/nvidia/580.126.09/build/make.log"
    (build,) = two_kernels(files={path: LOG.format(NEXT) + log}).dkms
    assert build.failed
    assert build.error.compiler == compiler
    assert build.error.is_of_host is ("unrecognized" in log)


OLD = "cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'\n"


@pytest.mark.parametrize(
    ("config", "compiler"),
    [
        (
            'CONFIG_CC_VERSION_TEXT="x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0"\n',
            "gcc-12",
        ),
        ('# a comment\nCONFIG_CC_VERSION_TEXT="gcc-14 (Debian 14.2.0-19) 14.2.0"\n', "gcc-14"),
        ('CONFIG_CC_VERSION_TEXT="clang version 18.1.3"\n', ""),
    ],
)
def test_dkms_log_without_kbuilds_warning_gets_the_compiler_from_the_kernels_configuration(
    config, compiler
):
    log = {
        "/var/lib/dkms/nvidia/580.126.09/build/make.log": LOG.format(NEXT) + OLD,
        f"/boot/config-{NEXT}": config,
    }
    (build,) = two_kernels(files=log).dkms
    assert build.error.compiler == compiler
    assert config_of(FakeReader({"/etc/passwd": "root"}), "../../etc/passwd") == ""


@pytest.mark.parametrize(
    ("log", "words", "cause", "is_of_host"),
    [
        ("nv.c:9:5: error: implicit declaration of f [-W]\n", "error: implicit declaration of f [-W]", "", False),
        ("ERROR: modpost: GPL-incompatible module\n", "ERROR: modpost: GPL-incompatible module", "", False),
        ("a.c:1: internal compiler error: Segmentation fault\n", "internal compiler error: Segmentation fault",
         CRASHED, True),
        ("a.c:1: internal compiler error: in expand, at expr.c:2\n", "internal compiler error: in expand, at expr.c:2",
         "", False),
        ("cc: fatal error: Killed signal terminated program cc1\n", "fatal error: Killed signal terminated program cc1",
         KILLED, True),
        ("a.c:1: error: x\nfatal error: /tmp/a.s: No space left on device\n",
         "fatal error: /tmp/a.s: No space left on device", FULL, True),
        ("nv.c:9:5: error: no del_timer_sync\ncc1: note: unrecognized command-line option '-Wno-x' may have been intended\n",
         "error: no del_timer_sync", "", False),
        ("make[3]: gcc-13: No such file or directory\nmake: *** [modules] Error 2\n",
         "make[3]: gcc-13: No such file or directory", NO_TOOL, True),
        ("/bin/sh: 1: bc: not found\n", "/bin/sh: 1: bc: not found", NO_TOOL, True),
        ("ERROR: Kernel configuration is invalid.\n", "ERROR: Kernel configuration is invalid.", NO_HEADERS, True),
        ("scripts/basic/fixdep: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by x)\n",
         "scripts/basic/fixdep: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by x)",
         NEWER_RELEASE, True),
        ("sign-file: /var/lib/shim-signed/mok/MOK.priv\n", "sign-file: /var/lib/shim-signed/mok/MOK.priv", NO_KEY, True),
        ("make[3]: *** No rule to make target 'gcc-13'.  Stop.\nnv.c:1: note: gcc-13: not found here\n",
         "No rule to make target 'gcc-13'.  Stop.", "", False),
        ("*** Failed PREEMPT_RT sanity check. Bailing out! ***\n", "Failed PREEMPT_RT sanity check. Bailing out!",
         REALTIME, True),
        ("*** Failed Xen sanity check. Bailing out! ***\n", "Failed Xen sanity check. Bailing out!", "", False),
        (f"{RECIPE}nv.c:9:5: error: no del_timer_sync\n", "error: no del_timer_sync", "", False),
        (f"{RECIPE}\n  ERROR: Kernel configuration is invalid.\n", "ERROR: Kernel configuration is invalid.",
         NO_HEADERS, True),
        ("*** Failed CC version check. Bailing out! ***\n", "Failed CC version check. Bailing out!", COMPILER_CHECK, False),
        ("warning: objtool: x\n  CC [M] nv.o\nmake: *** [modules] Error 2\n", "", "", False),
    ],
)  # fmt: skip
def test_first_error_of_a_build_and_whether_this_host_is_its_cause(log, words, cause, is_of_host):
    error = error_in(log)
    assert (error.words, error.cause, error.is_of_host) == (words, cause, is_of_host)


def test_build_of_another_module_that_failed_is_none_of_the_driver():
    place = "/var/lib/dkms/v4l2loopback/0.12.7"
    log = (
        f"DKMS make.log for v4l2loopback-0.12.7 for kernel {NEXT} (x86_64)\na.c:1: error: strlcpy\n"
    )
    files = {
        f"{place}/build/make.log": log,
        f"{place}/{RELEASE}/x86_64/module/v4l2loopback.ko.zst": "",
        "/var/lib/dkms/mok.pub": "",  # a file of DKMS itself
    }
    driver = two_kernels(files=files)
    assert driver.dkms == ()
    (build,) = driver.failed_others
    assert (build.name, build.version, build.kernel, build.error.words) == (
        "v4l2loopback", "0.12.7", NEXT, "error: strlcpy",
    )  # fmt: skip
    gone = log.replace(NEXT, "5.4.0-1-generic")
    assert two_kernels(files={f"{place}/build/make.log": gone}).failed_others == ()
    assert (
        two_kernels(
            files={"/var/lib/dkms/nvidia/580.126.09/build/make.log": LOG.format(NEXT) + OLD}
        ).failed_others
        == ()
    )


def test_dkms_without_its_tree_has_built_nothing():
    assert dkms_of({}) == {}
    driver = two_kernels(
        unreadable={"/var/lib/dkms": "needs root: permission denied on /var/lib/dkms"}
    )
    with pytest.raises(UnknownFact, match="needs root"):
        _ = driver.dkms


def test_patch_of_the_source_that_does_not_fit_is_a_failed_build_without_a_log():
    """pop-os/nvidia-graphics-drivers-470 pull request 27: DKMS ends with status 6, before it starts
    make.
    """
    folder = "/var/lib/dkms/nvidia/470.256.02/build"
    (build,) = driver_of(
        {f"{folder}/common/inc/nv-linux.h.rej": "", f"{folder}/dkms.conf": ""}
    ).dkms
    assert (build.failed, build.kernel, build.log) == (True, "", folder)
    assert build.error.words == "a patch of its source does not fit: common/inc/nv-linux.h.rej"
    assert not build.error.is_of_host
    assert (
        driver_of({f"{folder}/common/inc/nv-linux.h": ""}).dkms == ()
    )  # it runs now, or was stopped


@pytest.mark.parametrize(
    ("dkms", "found"),
    [("2.8.7-2ubuntu2.2", True), ("3.0.11-1ubuntu13", True), ("3.1.0-1", False), ("", False)],
)
def test_modules_whose_source_is_gone_are_listed_where_dkms_ends_at_them(dkms, found):
    tree = "/var/lib/dkms"
    files = {
        f"{tree}/nvidia/580.126.09/x": "",
        f"{tree}/evdi/1.14.1/x": "",
        "/usr/src/nvidia-580.126.09/dkms.conf": "",
        f"{tree}/mok.pub": "",
    }
    links = {
        f"{tree}/nvidia/580.126.09/source": "/usr/src/nvidia-580.126.09",
        f"{tree}/evdi/1.14.1/source": "/usr/src/evdi-1.14.1",
        f"{tree}/evdi/kernel-{NEXT}-x86_64": f"1.14.1/{NEXT}/x86_64",
    }
    status = f"Package: dkms\nStatus: install ok installed\nArchitecture: all\nVersion: {dkms}\n"
    driver = Facts(
        FakeReader(files | {"/var/lib/dpkg/status": status if dkms else ""}, links=links)
    ).driver
    assert driver.dkms_orphans == (("evdi/1.14.1",) if found else ())
