"""States of the kernel module: is there one for the kernel that runs and the one that starts next,
is it of the libraries' version, does it load; and what a reboot would do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.apt_commands import has_all
from hosttune.choices.dpkg_stop import (
    Cause,
    bring_module,
    is_brought_by_repair,
    say_why,
    try_find_stop,
)
from hosttune.choices.driver_states.mixed import (
    explains_versions,
    libraries_back,
    libraries_beside_installer,
    twin_of,
)
from hosttune.choices.driver_states.state import (
    INITRAMFS,
    REBOOT,
    BootOutlook,
    StateText,
    holds_state,
    installer_steps,
    libraries_only,
    read_log_fact,
)
from hosttune.choices.drivers.nvidia_archive import is_of_nvidia
from hosttune.choices.next_kernel import (
    dkms_packages,
    has_headers,
    has_prebuilt,
    is_leftover,
    make_module_commands,
    other_kernel,
    prebuilt_instead,
    replace_leftover,
    suggest_replacement,
)
from hosttune.choices.secure_boot import say_confirm, switch_off
from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.gpu.strangers import mixture_of
from hosttune.facts.versions import upstream_of
from hosttune.quoting import join, quote

if TYPE_CHECKING:
    from hosttune.choices.dpkg_stop import Stop
    from hosttune.facts import Facts
    from hosttune.facts.gpu.driver import DkmsBuild, DriverModule

# Where shim-signed of Ubuntu, and DKMS itself, keep the key that they sign modules with.
_KEY_OF_UBUNTU, _KEY_OF_DKMS = "/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub"
_LOAD = "\nsudo modprobe nvidia"


def dkms_failed(facts: Facts) -> StateText | None:
    failed = [build for build in facts.driver.dkms if build.failed]
    if not failed:
        return None
    if (stop := _stopped_by_build(facts)) is not None:
        return stop.evidence, stop.repair
    kernels = ", ".join(sorted({build.kernel for build in failed if build.kernel})) or "a kernel"
    evidence = f"DKMS could not build nvidia {failed[0].version} for {kernels}"
    left = _left_by_dkms(facts)
    if not left:
        return f"{evidence} ({say_why(failed[0])})", _end_build(facts, failed[0])
    evidence = f"{evidence} ({say_why(failed[0])})" if failed[0].error.words else evidence
    boot = (
        "after a reboot no GPU works"
        if boot_after_dkms(facts) is BootOutlook.HARMS
        else "a reboot does not help"
    )
    return f"{evidence}: {boot}", left[1]


def _stopped_by_build(facts: Facts) -> Stop | None:
    stop = try_find_stop(facts)
    return stop if stop is not None and stop.cause is Cause.BUILD else None


def _end_build(facts: Facts, build: DkmsBuild) -> str:
    """What ends the attempts to build for a kernel that lacks nothing now. What DKMS built goes
    only while no kernel uses it: `dkms remove --all` takes the modules of all kernels.
    """
    kernel = build.kernel or facts.kernel.release
    if dkms_packages(facts) or not has_prebuilt(facts, kernel):
        return make_module_commands(facts, kernel)
    same = [
        one for one in facts.driver.dkms if (one.name, one.version) == (build.name, build.version)
    ]
    in_use = any(one.is_installed for one in same) or any(
        one.source == "dkms" for one in facts.driver.modules
    )
    built = quote(f"{build.name}/{build.version}")
    if in_use:
        return f"sudo dkms remove {built} -k {quote(kernel)}, which has a prebuilt module"
    return (
        f"sudo dkms remove {built} --all, as no kernel has a module of it and prebuilt ones are "
        "installed"
    )


def leaves_none(facts: Facts) -> bool:
    """Whether a build that failed is why packages are half-way, or why a kernel has no module or a
    stale one.
    """
    return _stopped_by_build(facts) is not None or _left_by_dkms(facts) is not None


def _left_by_dkms(facts: Facts) -> StateText | None:
    """What the state says that a build that failed is the cause of: the kernel that runs or starts
    next has no module, or a stale one.
    """
    running = facts.kernel.release
    following = _next_kernel(facts) or running
    lacking = (
        {running: (missing_now,), following: (tell_of_stale, missing_next)}
        if following != running
        else {}
    )
    lacking = lacking or {running: (missing_now, tell_of_stale)}
    failed = {build.kernel for build in facts.driver.dkms if build.failed}
    looks = [
        look
        for kernel, looks in lacking.items()
        if failed & {"", kernel}
        for look in looks
        if holds_state(look, facts)
    ]
    return looks[-1](facts) if looks else None  # what the next boot meets before what is now


def boot_after_dkms(facts: Facts) -> BootOutlook:
    """A build that failed for the kernel that runs or starts next is not there after the boot
    either.
    """
    if _stopped_by_build(facts) is not None:
        return BootOutlook.HARMS  # dpkg and the files for the next boot are half-way
    wanted = {"", facts.kernel.release, _next_kernel(facts)}
    if not any(build.failed and build.kernel in wanted for build in facts.driver.dkms):
        return BootOutlook.NOTHING
    harms = holds_state(missing_next, facts) or (
        holds_state(tell_of_stale, facts) and boot_after_stale(facts) is BootOutlook.HARMS
    )
    return BootOutlook.HARMS if harms and leaves_none(facts) else BootOutlook.USELESS


def tell_of_rejected(facts: Facts) -> StateText | None:
    if facts.driver.is_loaded or not facts.driver.is_installed:
        return None
    if read_log_fact(facts, "rejected_key"):
        return (
            (
                "the kernel rejected the nvidia module because of its signature (kernel "
                f"log){_say_leftover(facts)}"
            ),
            _describe_signing(facts),
        )
    module = running_module(facts)
    if module is None or module.source == "prebuilt" or not facts.boot.secure_boot:
        return None
    evidence = (
        f"Secure Boot is on, and {module.path} was compiled here: only modules signed with a known "
        "key load"
    )
    return f"{evidence}{_say_leftover(facts)}", _describe_signing(facts)


def _find_leftover(facts: Facts) -> DriverModule | None:
    """The module of the running kernel, if it is a leftover that hides the prebuilt one."""
    module = running_module(facts)
    return (
        module
        if module is not None and facts.driver.branch and is_leftover(facts, module)
        else None
    )


def _say_leftover(facts: Facts) -> str:
    module = _find_leftover(facts)
    return f"; {module.path} belongs to no package and hides the prebuilt module" if module else ""


def _describe_signing(facts: Facts) -> str:
    if module := _find_leftover(facts):
        return replace_leftover(facts, module)
    enrol = enrol_key(facts)
    # it signs nothing by itself (README of the driver)
    if facts.driver.runfile and not facts.driver.dkms:
        return (
            "run the installer that brought the driver again with --dkms: DKMS signs what it "
            "builds\n"
            f"{enrol}"
        )
    ready = prebuilt_instead(facts, facts.kernel.release)
    return f"{ready}{_LOAD}\nor {enrol}" if ready else enrol


def enrol_key(facts: Facts) -> str:
    key = _KEY_OF_UBUNTU if facts.os.is_ubuntu else _KEY_OF_DKMS
    enrol = f"enrol the key: sudo mokutil --import {quote(key)}"
    return "\n".join(
        step for step in (f"{enrol}, and {say_confirm(facts)}", switch_off(facts)) if step
    )


def misfit(facts: Facts) -> StateText | None:
    """A module in the folder of the running kernel that was built for another one, or that needs a
    module which is not here (kernels of clouds have drivers such as i2c and drm in
    linux-modules-extra).
    """
    why, what = read_log_fact(facts, "misfit") or ("", "")
    module = running_module(facts)
    if not why or module is None:
        return None
    kernel = facts.kernel.release
    evidence = f"the kernel did not take {module.path} ({why} {what}, kernel log)"
    extra = f"linux-modules-extra-{kernel}"
    if why == "Unknown symbol" and not facts.packages[extra].is_installed and has_all(facts, extra):
        return (
            f"{evidence}: a module that it needs is not here",
            f"sudo apt-get install {quote(extra)}{_LOAD}",
        )
    return (
        f"{evidence}: it was built for another kernel than {kernel}",
        f"{suggest_replacement(facts, module)}{_LOAD}",
    )


def missing_now(facts: Facts) -> StateText | None:
    driver = facts.driver
    if not driver.is_installed or driver.is_loaded or driver.has_module_for_running_kernel:
        return None
    others, release = ", ".join(driver.kernels_with_module) or "none", facts.kernel.release
    named = name_of_driver(facts)
    evidence = (
        f"{named} is installed, but the running kernel {release} has no nvidia module (kernels "
        f"with one: {others})"
    )
    if boot_after_missing(facts) is BootOutlook.MENDS:
        return evidence, f"reboot: {_next_kernel(facts)}, which boots next, has one"
    if stop := try_find_stop(facts):
        is_brought = is_brought_by_repair(facts, stop, release)
        rest = (
            "sudo modprobe nvidia"
            if is_brought
            else f"{make_module_commands(facts, release)}{_LOAD}"
        )
        return evidence, f"after `{stop.state}` is solved: {rest}"
    how, other = make_module_commands(facts, release), other_kernel(facts, release)
    boot = (
        ""
        if other in how or not driver.kernels_with_module
        else "boot a kernel that has one, or:\n"
    )
    # else the way is another kernel
    brings = has_headers(facts, release) or "apt-get install" in how
    return (
        evidence,
        f"{boot}{how}{_LOAD if driver.branch and brings and 'boot that kernel' not in how else ''}",
    )


def boot_after_missing(facts: Facts) -> BootOutlook:
    kernel = _next_kernel(facts)
    is_there = kernel not in ("", facts.kernel.release) and _holds_module(facts)
    return BootOutlook.MENDS if is_there else BootOutlook.USELESS


def _holds_module(facts: Facts) -> bool:
    return read_or_default(lambda: facts.driver.has_module_for_next_kernel, otherwise=False)


def _next_kernel(facts: Facts) -> str:
    """The kernel that starts next; empty where that is not known."""
    return read_or_default(lambda: facts.boot.next_kernel, "")


def name_of_driver(facts: Facts) -> str:
    if facts.driver.is_foreign:
        return "a driver that no known package brought"
    return facts.driver.name or "the driver of NVIDIA's own installer"


def tell_of_stale(facts: Facts) -> StateText | None:
    """A module on the disk that is not of the libraries' version, and that the next boot loads."""
    module = next_module(facts)
    wanted = facts.driver.userspace_version
    if module is None or not wanted or module.version in ("", wanted):
        return None
    libraries = libraries_back(facts, module)
    how = libraries or f"{suggest_replacement(facts, module)}\n{INITRAMFS}"
    evidence = (
        f"the module on the disk is {module.version} ({module.path}), the libraries are {wanted}"
    )
    if stranger := libraries_beside_installer(facts):
        evidence += f" of {stranger[0]}, which apt put beside the driver of NVIDIA's own installer"
    if boot_after_stale(facts) is BootOutlook.HARMS:
        return (
            f"{evidence} like the loaded one: after a reboot no GPU works",
            f"do not reboot before: {how}",
        )
    return f"{evidence}: a reboot does not fix this", how if libraries else f"{how}\n{REBOOT}"


def stale_alone(facts: Facts) -> StateText | None:
    """`tell_of_stale`, where the packages are not of these two versions: else `mixed versions` says
    which is wrong.
    """
    module = next_module(facts)
    if module is None or explains_versions(facts, module.version, facts.driver.userspace_version):
        return None
    return tell_of_stale(facts)


def boot_after_stale(facts: Facts) -> BootOutlook:
    driver = facts.driver
    return (
        BootOutlook.HARMS if driver.is_loaded and not driver.is_mismatched else BootOutlook.USELESS
    )


def next_module(facts: Facts) -> DriverModule | None:
    """The module of the kernel that starts next, as far as that is known, else of the running
    one.
    """
    return facts.driver.module_for(_next_kernel(facts) or facts.kernel.release)


def missing_next(facts: Facts) -> StateText | None:
    """Of a driver that is loaded, also where the running kernel starts again and its module is on
    no disk any more.
    """
    driver, kernel = facts.driver, facts.boot.next_kernel
    is_missing_now = kernel == facts.kernel.release and not driver.is_loaded  # by missing_now
    if not driver.is_on_disk or not kernel or is_missing_now or driver.has_module_for_next_kernel:
        return None
    evidence = (
        f"the kernel that boots next, {kernel}, has no nvidia module: after a reboot no GPU works"
    )
    if stop := try_find_stop(facts):
        return evidence, f"do not reboot before: {bring_module(facts, stop, kernel)}"
    other = other_kernel(facts, kernel)
    return (
        f"{evidence}{f'; {other} has one' if other else ''}",
        f"do not reboot before: {make_module_commands(facts, kernel)}",
    )


def tell_of_mismatch(facts: Facts) -> StateText | None:
    driver = facts.driver
    if not driver.is_mismatched or holds_state(tell_of_stale, facts):
        return None
    versions = (
        f"the loaded module is {driver.loaded_version} and the libraries are "
        f"{driver.userspace_version}"
    )
    return (
        f"{versions}: CUDA and nvidia-smi refuse to start",
        (
            f"{REBOOT}\n"
            f"if it is still so afterwards, an old module is in the initramfs: {INITRAMFS} and "
            "reboot again"
        ),
    )


def contained_mismatch(facts: Facts) -> StateText | None:
    """A container with libraries of its own (LXC, an image with a driver in it), which have to be
    those of the host's module. nvidia-smi has to say so, too: a toolkit may have brought others
    than those in the folders of libraries.
    """
    driver = facts.driver
    if not driver.is_mismatched or facts.nvidia.refusal != "mismatch":
        return None
    loaded = driver.loaded_version
    evidence = (
        f"the host's module is {loaded}, and the libraries of this container are "
        f"{driver.userspace_version}: CUDA and nvidia-smi refuse to start"
    )
    own = [
        one.name for one in driver.packages if upstream_of(one.version) == driver.userspace_version
    ]
    way = f"bring the libraries of {loaded} into this container"
    if own:
        way += ": sudo apt-get install --allow-downgrades "
        way += join([f"{name}={loaded}*" for name in own])
    elif driver.runfile:
        steps = installer_steps(facts, loaded, libraries_only(loaded))
        way = "\n".join((f"{way}:", *steps))
    return (
        evidence,
        (
            f"{way}\n"
            "or take an image without libraries: it gets the host's from the NVIDIA Container "
            "Toolkit"
        ),
    )


def tell_of_swapped(facts: Facts) -> StateText | None:
    """The other kind of module in the same version was installed below a loaded one: only a boot
    takes it.
    """
    driver = facts.driver
    if (
        not driver.is_loaded
        or driver.is_mismatched
        or holds_state(tell_of_stale, facts)
        or not will_be_other(facts)
    ):
        return None
    kinds = ("open", "closed") if driver.is_open else ("closed", "open")
    return (
        f"the loaded module is the {kinds[0]} one, and the installed one is the {kinds[1]} one",
        REBOOT,
    )


def will_be_other(facts: Facts) -> bool:
    """Whether the next boot loads the other kind of module than the one that is loaded; false where
    it is not known.
    """
    try:
        module = next_module(facts)
        return (
            module is not None and facts.driver.is_loaded and module.is_open != facts.driver.is_open
        )
    except UnknownFact:
        return False


def libraries_missing(facts: Facts) -> StateText | None:
    driver = facts.driver
    if not driver.branch or driver.userspace_version or read_log_fact(facts, "smi") == "answers":
        return None
    server = f"{driver.branch}{'-server' if 'server' in driver.flavour else ''}"
    library = f"libnvidia-compute-{server}"
    names = f"{quote(f'nvidia-headless-no-dkms-{driver.name}')} {quote(f'nvidia-utils-{server}')}"
    if is_of_nvidia(facts):  # it has no such package
        library = twin_of("libnvidia-compute", mixture_of(facts))
        names = quote(library)
    way = (
        "sudo apt-get install "
        f"{f'--reinstall {quote(library)}' if facts.packages[library].is_installed else names}"
    )
    return (
        (
            f"no program can use a GPU: the libraries of {driver.name} are missing "
            "(libnvidia-ml.so.1, libcuda.so.1)"
        ),
        way if facts.os.is_ubuntu else "install the libraries of the same version",
    )


def reboot_pending(facts: Facts) -> StateText | None:
    if facts.driver.is_mismatched:  # says the same, with more
        return None
    names = [
        name
        for name in facts.boot.reboot_packages
        if name.startswith(("nvidia", "libnvidia", "linux-"))
    ]
    if not facts.boot.reboot_required or not names:
        return None
    return (
        f"a reboot is pending for {', '.join(names)}",
        f"{REBOOT} before other changes of the driver",
    )


def running_module(facts: Facts) -> DriverModule | None:
    return facts.driver.module_for(facts.kernel.release)
