"""What hosttune says to type where packages of a driver are half-way, typed in a Debian tree with
the real apt and dpkg.

The packages have the names and relations of Ubuntu's and NVIDIA's archives, in small. Each repair
ends with packages that `dpkg --audit` and `apt-get check` find whole.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from types import SimpleNamespace

import pytest

from hosttune.choices.apt_commands import check_commands
from hosttune.choices.dpkg_stop import Cause, find_stop
from hosttune.choices.driver_states.mixed import other_versions, tell_of_unmet
from hosttune.choices.driver_states.packages import others_broken
from hosttune.choices.driver_states.state import switch
from hosttune.choices.drivers.nvidia_archive import replace_unfit_offer, switch_within_archive
from hosttune.facts import Facts
from hosttune.facts.gpu.gsp_firmware import MISSING, GspFailure, way_out
from hosttune.facts.gpu.packaging import Packaging
from hosttune.facts.kernel.boot_room import make_room
from hosttune.host.door import Completed
from hosttune.host.reading.rooted import RootReader
from tests.debian import copied
from tests.live.driver_server import UBUNTU, put
from tests.live.test_live_packages import build, inside
from tests.unit.fake_reader import FakeReader

pytestmark = pytest.mark.live
VERSION = "580.142-0ubuntu0.24.04.1"
OLDEST, OLD, NEW = "6.8.0-31-generic", "6.8.0-45-generic", "6.8.0-48-generic"
DKMS = "/var/lib/dkms/nvidia/580.142"
# What dkms(8) leaves of a build that failed, and of one that did not.
BUILD = f"""\
#!/bin/sh
mkdir -p {DKMS}/build
echo 'DKMS make.log for nvidia-580.142 for kernel {NEW} (x86_64)' > {DKMS}/build/make.log
test -e /fixed && rm -r {DKMS}/build || exit 10
"""
AUTOINSTALL = f"#!/bin/sh\ntest ! -e {DKMS}/build || exit 11\n"
UNBUILD = "#!/bin/sh\nrm -rf /var/lib/dkms/nvidia\n"
INITRD = f"""\
#!/bin/sh
test -e /boot/vmlinuz-{OLDEST} && echo no room on /boot >&2 && exit 1
exit 0
"""
PURGED = f"#!/bin/sh\nrm -f /boot/vmlinuz-{OLDEST}\n"
FIRMWARE = "lib/firmware/nvidia/590.48.01/gsp_ga10x.bin"
OF_NVIDIA = "590.48.01-1ubuntu1"


def driver_580(kind: str) -> dict[str, dict[str, str]]:
    exact = f"nvidia-dkms-580-open (<= {VERSION}), nvidia-dkms-580-open (>= 580.142)"
    return {
        "nvidia-kernel-common-580": {"Version": VERSION},
        "libnvidia-compute-580": {"Version": VERSION},
        "nvidia-dkms-580-open": {
            "Version": VERSION, "Depends": "nvidia-kernel-common-580", "Provides": "nvidia-dkms-kernel",
        },
        kind: {"Version": VERSION, "Depends": f"{exact}, libnvidia-compute-580, nvidia-kernel-common-580"},
    }  # fmt: skip


def modules(kernel: str) -> dict[str, dict[str, str]]:
    return {
        f"linux-modules-nvidia-580-open-{kernel}": {
            "Version": "6.8.0-48.48", "Depends": f"linux-image-{kernel}, nvidia-kernel-common-580",
            "Provides": "nvidia-prebuilt-kernel",
        }
    }  # fmt: skip


KERNELS = {
    f"linux-image-{OLD}": {"Version": "6.8.0-45.45"},
    f"linux-headers-{OLD}": {"Version": "6.8.0-45.45"},
    f"linux-image-{NEW}": {"Version": "6.8.0-48.48"},
    f"linux-headers-{NEW}": {"Version": "6.8.0-48.48"},
    "linux-image-generic": {"Version": "6.8.0-48.48", "Depends": f"linux-image-{NEW}"},
}
METAPACKAGE = {
    "linux-modules-nvidia-580-open-generic": {
        "Version": "6.8.0-48.48", "Depends": f"linux-modules-nvidia-580-open-{NEW}",
        "Provides": f"nvidia-dkms-580-open (= {VERSION}), nvidia-prebuilt-kernel",
    }
}  # fmt: skip
PREBUILT = modules(OLD) | modules(NEW) | METAPACKAGE
CUDA = {
    "nvidia-kernel-common": {"Version": OF_NVIDIA, "Depends": f"nvidia-firmware (= {OF_NVIDIA})"},
    "nvidia-firmware": {"Version": OF_NVIDIA},
    "libnvidia-compute": {"Version": OF_NVIDIA},
    "nvidia-dkms-open": {"Version": OF_NVIDIA, "Depends": f"nvidia-kernel-common (= {OF_NVIDIA})"},
    "nvidia-driver-590-open": {
        "Version": OF_NVIDIA,
        "Depends": f"nvidia-dkms-open (= {OF_NVIDIA}), libnvidia-compute (= {OF_NVIDIA})",
    },
    "nvidia-firmware-590-590.48.01": {"Version": "590.48.01-0ubuntu0.24.04.1"},
    "nvidia-kernel-common-590": {
        "Version": "590.48.01-0ubuntu0.24.04.1", "Depends": "nvidia-firmware-590-590.48.01",
    },
}  # fmt: skip


class Tree:
    """A Debian tree whose only archive is made for one trial; `start` begins the next one."""

    MADE = (
        "archive",
        "small",
        "boot",
        "lib/modules",
        "lib/firmware",
        "var/lib/dkms",
        "var/lib/dpkg",
        "no-new-kernel",
        "fixed",
    )

    def __init__(self, base):
        self.base, self.tree = (
            base,
            copied(base / "tree", "bookworm", "python3-minimal", "libpython3-stdlib"),
        )
        shutil.copytree(self.tree / "var/lib/dpkg", base / "dpkg", symlinks=True)
        for folder in (self.tree / "etc/apt/sources.list.d", self.tree / "var/lib/apt/lists"):
            shutil.rmtree(folder)
            folder.mkdir()
        put(self.tree / "etc/apt/sources.list", "deb [trusted=yes] file:/archive ./\n")
        put(
            self.tree / "etc/apt/apt.conf.d/yes", 'APT::Get::Assume-Yes "true";\n'
        )  # the person who types says yes
        put(self.tree / "etc/dpkg/dpkg.cfg.d/fast", "force-unsafe-io\n")
        put(self.tree / "usr/lib/os-release", UBUNTU)

    def start(self, packages, scripts=None, files=None, kernels=(OLD, NEW)):
        for name in self.MADE:
            one = self.tree / name
            shutil.rmtree(one, ignore_errors=True)
            one.unlink(missing_ok=True)
        shutil.copytree(self.base / "dpkg", self.tree / "var/lib/dpkg", symlinks=True)
        archive = self.tree / "archive"
        archive.mkdir()
        (self.tree / "small").mkdir()
        rows = [
            build(
                name,
                fields,
                archive,
                self.base / "build",
                scripts=(scripts or {}).get(name),
                files=(files or {}).get(name),
            )
            for name, fields in packages.items()
        ]
        put(archive / "Packages", "\n".join(rows))
        for kernel in kernels:
            put(self.tree / f"boot/vmlinuz-{kernel}", "")
            put(
                self.tree / f"lib/modules/{kernel}/modules.dep",
                "updates/dkms/nvidia.ko:\n" if kernel == OLD else "",
            )
        self.type("apt-get -q update", 0)
        return self

    def type(self, command: str, *statuses: int) -> int:
        done = inside(self.tree, "sh", "-c", command)
        print(f"{command}\n  status {done.returncode}")
        assert not statuses or done.returncode in statuses, done.stdout + done.stderr
        return done.returncode

    def upgrade_from(self, name: str, version: str):
        """Install a package of this name without relations, which the list of the archive has in a
        newer version.
        """
        row = build(name, {"Version": version}, self.tree / "archive", self.base / "build")
        file = re.search(r"^Filename: (?:\./)?(\S+)$", row, re.MULTILINE)[1]
        self.type(f"dpkg -i /archive/{file}", 0)

    def facts(self):
        facts = Facts(RootReader(str(self.tree)))
        facts.__dict__["kernel"] = SimpleNamespace(release=OLD)  # it is none of this machine's
        facts.__dict__["boot_room"] = SimpleNamespace(is_full=False, way_out="")
        return facts

    def stop(self, spare=()):
        """`spare`: kernels that can go; with them /boot is full, which no file of a tree tells."""
        facts = Facts(RootReader(str(self.tree)))
        facts.__dict__["kernel"] = SimpleNamespace(release=OLD)  # it is none of this machine's
        room = SimpleNamespace(
            is_full=bool(spare),
            way_out=make_room(facts, SimpleNamespace(target="/boot"), spare, ()),
        )
        facts.__dict__["boot_room"] = room
        return find_stop(facts)

    def is_whole(self) -> bool:
        audit = inside(self.tree, "dpkg", "--audit")
        return not audit.stdout.strip() and inside(self.tree, "apt-get", "check").returncode == 0

    def has(self, name: str) -> bool:
        done = inside(self.tree, "dpkg-query", "-W", "-f", "${Status}", name)
        return done.stdout == "install ok installed"


def typed(repair: str) -> str:
    """The commands of a way out, as root types them."""
    for words in ("sudo ", "where that is not enough, "):
        repair = repair.replace(words, "")
    repair, _, _ = repair.partition("\nif apt has none: ")
    return re.sub(r" \((?:if|keep)[^)]*\)", "", repair)


@pytest.fixture(scope="module")
def one_tree(tmp_path_factory):
    base = tmp_path_factory.mktemp("repair", numbered=True)
    yield Tree(base)
    shutil.rmtree(base)


@pytest.fixture
def tree(one_tree):
    return one_tree.start


@pytest.mark.parametrize("kind", ["nvidia-driver-580-open", "nvidia-headless-580-open"])
def test_failed_build_gives_way_to_prebuilt_modules(tree, kind):
    scripts = {
        "nvidia-dkms-580-open": {"postinst": BUILD, "prerm": UNBUILD},
        f"linux-image-{NEW}": {"postinst": AUTOINSTALL},
    }
    host = tree(driver_580(kind) | KERNELS | PREBUILT, scripts)
    host.type(f"apt-get install linux-image-{OLD} linux-headers-{OLD}", 0)
    host.type(f"apt-get install {kind} linux-image-generic", 100)
    stop = host.stop()
    assert stop.cause is Cause.BUILD
    host.type("dpkg --configure -a; apt-get -f install", 100)  # what does not help
    host.type(typed(stop.repair), 0)
    assert host.is_whole()
    assert host.has(kind)
    assert host.has(f"linux-modules-nvidia-580-open-{NEW}")
    assert host.has(f"linux-image-{NEW}")
    assert host.stop() is None


def test_kernel_that_waits_for_a_failed_build_of_a_whole_driver_is_repaired_too(tree):
    scripts = {
        "nvidia-dkms-580-open": {"prerm": UNBUILD},
        f"linux-image-{NEW}": {"postinst": BUILD.replace("10", "11")},
    }
    host = tree(driver_580("nvidia-driver-580-open") | KERNELS | PREBUILT, scripts)
    host.type(f"apt-get install linux-image-{OLD} nvidia-driver-580-open", 0)
    host.type("apt-get install linux-image-generic", 100)
    stop = host.stop()
    assert stop.cause is Cause.BUILD
    put(host.tree / "fixed", "")  # without the source of the driver nothing is built
    host.type(typed(stop.repair), 0)
    assert host.is_whole()


def test_failed_build_without_prebuilt_modules_ends_with_the_kernel(tree):
    names = {
        name: fields
        for name, fields in CUDA.items()
        if "590-590" not in name and name[-4:] != "-590"
    }
    build_590 = BUILD.replace("580.142", "590.48.01").replace("/fixed", "/no-new-kernel")
    gone = {"postrm": f"#!/bin/sh\nrm -f /boot/vmlinuz-{NEW}; touch /no-new-kernel\n"}
    host = tree(
        names | KERNELS, {"nvidia-dkms-open": {"postinst": build_590}, f"linux-image-{NEW}": gone}
    )
    host.type(f"apt-get install linux-image-{OLD} linux-image-generic linux-headers-{NEW}", 0)
    host.type("apt-get install nvidia-driver-590-open", 100)
    stop = host.stop()
    assert stop.cause is Cause.BUILD
    assert "linux-modules-nvidia" not in stop.repair
    remove, _, fix = stop.repair.partition("\nor fix what ")
    assert fix.endswith("make.log names\nsudo dpkg --configure -a")
    remove, _, note = remove.partition("until the driver builds for it, remove that kernel: ")[
        2
    ].partition("\n")
    host.type(typed(remove), 0)
    assert host.is_whole()
    assert host.has("nvidia-driver-590-open")
    assert note.startswith("that takes linux-image-generic along, which bring later kernels")
    assert not host.has("linux-image-generic")


@pytest.mark.parametrize("half", ["the driver", "a kernel"])
def test_full_boot_gets_room_before_anything_is_configured(tree, half):
    names = {
        f"linux-image-{OLDEST}": {"Version": "6.8.0-31.31"},
        f"linux-modules-{OLDEST}": {"Version": "6.8.0-31.31"},
    }
    needs_room = f"linux-image-{NEW}" if half == "a kernel" else "nvidia-kernel-common-580"
    scripts = {needs_room: {"postinst": INITRD}, f"linux-image-{OLDEST}": {"postrm": PURGED}}
    host = tree(
        driver_580("nvidia-driver-580-open") | KERNELS | names, scripts, kernels=(OLDEST, OLD, NEW)
    )
    host.type(f"apt-get install linux-image-{OLD} {' '.join(names)}", 0)
    host.type("apt-get install nvidia-driver-580-open linux-image-generic", 100)
    stop = host.stop(spare=(OLDEST,))
    assert stop.cause is Cause.BOOT
    host.type("dpkg --configure -a; apt-get -f install", 100)  # what does not help
    host.type(typed(stop.repair), 0)
    assert host.is_whole()
    assert host.has("nvidia-driver-580-open")
    assert not host.has(f"linux-image-{OLDEST}")


def test_two_packages_with_one_file_leave_the_one_of_the_driver(tree):
    files = {
        name: {FIRMWARE: name} for name in ("nvidia-firmware", "nvidia-firmware-590-590.48.01")
    }
    host = tree(CUDA, files=files)
    host.type("apt-get install nvidia-firmware-590-590.48.01", 0)
    host.type("apt-get install nvidia-driver-590-open", 100)
    stop = host.stop()
    assert stop.cause is Cause.FILES
    host.type(typed(stop.repair), 0)
    assert host.is_whole()
    assert host.has("nvidia-driver-590-open")
    assert not host.has("nvidia-firmware-590-590.48.01")


@pytest.mark.parametrize("is_upgrade", [False, True])
def test_file_of_the_driver_in_a_package_of_others_ends_without_that_package(tree, is_upgrade):
    """github.com/xlibre-debian/ubuntu/issues/1: the driver stays, and what was there before the
    upgrade stays, too.
    """
    names = {
        "xserver-xorg-video-nvidia-580": {"Version": VERSION},
        "xserver-xlibre-core": {"Version": "25.0-1"},
        "xserver-xlibre": {"Version": "25.0-1", "Depends": "xserver-xlibre-core"},
    }
    files = {
        name: {"usr/share/X11/10-nvidia.conf": name} for name in names if name != "xserver-xlibre"
    }
    host = tree(names, files=files)
    host.type("apt-get install xserver-xorg-video-nvidia-580", 0)
    if is_upgrade:
        host.upgrade_from("xserver-xlibre", "24.0-1")
    host.type("apt-get install xserver-xlibre", 100)
    assert host.stop() is None
    facts = host.facts()
    evidence, repair = others_broken(facts)
    assert "xserver-xlibre (unpacked): none is of the driver" in evidence
    assert "trying to overwrite '/usr/share/X11/10-nvidia.conf'" in evidence
    words, _, steps = repair.partition("\n")
    assert words == "solve that (all of it: /var/log/apt/term.log), as dpkg does the same again"
    first, _, without = steps.partition("\nto do without what is new: ")
    host.type(typed(first), 100)
    assert without == ("" if is_upgrade else "sudo apt-get remove xserver-xlibre")
    if not is_upgrade:
        host.type(typed(without), 0)
        assert host.is_whole()
        assert host.has("xserver-xorg-video-nvidia-580")


def test_module_of_another_maker_that_fails_for_a_new_kernel_is_done_without(tree):
    """Its package is whole: the script of the kernel's headers runs DKMS, which ends with an
    error.
    """
    place = "/var/lib/dkms/v4l2loopback"
    names = {"v4l2loopback-dkms": {"Version": "0.12.7-2"}} | KERNELS
    failing = (
        f"#!/bin/sh\ntest -e {place} || exit 0\nmkdir -p {place}/0.12.7/build\necho 'DKMS make.log for "
        f"v4l2loopback-0.12.7 for kernel {NEW} (x86_64)' > {place}/0.12.7/build/make.log\nexit 11\n"
    )
    scripts = {
        "v4l2loopback-dkms": {
            "postinst": f"#!/bin/sh\nmkdir -p {place}/0.12.7\n", "prerm": f"#!/bin/sh\nrm -rf {place}\n",
        },
        f"linux-headers-{NEW}": {"postinst": failing},
    }  # fmt: skip
    host = tree(names, scripts)
    host.type("apt-get install v4l2loopback-dkms", 0)
    host.type(f"apt-get install linux-headers-{NEW}", 100)
    assert host.stop() is None
    evidence, repair = others_broken(host.facts())
    assert "DKMS could not build v4l2loopback 0.12.7" in evidence
    host.type("dpkg --configure -a; apt-get -f install", 100)  # what does not help
    newer, _, without = repair.partition("\nor do without it, on all kernels: ")
    host.type(typed(newer.rpartition(": ")[2]), 100)  # the archive has no newer one
    host.type(typed(without).splitlines()[0], 0)
    assert host.is_whole()
    assert host.has(f"linux-headers-{NEW}")


def test_compiler_that_a_build_misses_is_brought(tree):
    """gcc-13 of the kernel's makefile is not here: `make: gcc-13: No such file or directory`."""
    names = {
        name: fields
        for name, fields in CUDA.items()
        if "590-590" not in name and name[-4:] != "-590"
    }
    place = "/var/lib/dkms/nvidia/590.48.01"
    build_590 = (
        f"#!/bin/sh\ntest -e /fixed && rm -rf {place}/build && exit 0\nmkdir -p {place}/build\n(echo 'DKMS make.log for "
        f"nvidia-590.48.01 for kernel {OLD} (x86_64)'; echo 'make[3]: gcc-13: No such file or directory') > "
        f"{place}/build/make.log\nexit 10\n"
    )
    scripts = {
        "nvidia-dkms-open": {"postinst": build_590},
        "gcc-13": {"postinst": "#!/bin/sh\ntouch /fixed\n"},
    }
    host = tree(names | KERNELS | {"gcc-13": {"Version": "13.2.0-1"}}, scripts)
    host.type(f"apt-get install linux-image-{OLD} linux-headers-{OLD}", 0)
    host.type("apt-get install nvidia-driver-590-open", 100)
    stop = host.stop()
    assert stop.cause is Cause.BUILD
    first, last = stop.repair.splitlines()
    assert first == "bring what builds it: sudo apt-get install gcc-13"
    host.type(
        typed(first.rpartition(": ")[2]), 0, 100
    )  # apt configures what waits in the same run, before or after
    host.type(typed(last), 0)
    assert host.is_whole()
    assert host.has("nvidia-driver-590-open")


class InTree(FakeReader):
    """Dpkg's own account, and the answers of the tree's apt."""

    def __init__(self, tree, kernel, **more):
        files = {"/var/lib/dpkg/status": (tree / "var/lib/dpkg/status").read_text(), **more}
        super().__init__(files | {"/proc/sys/kernel/osrelease": f"{kernel}\n"})
        self.tree = tree

    def query(self, argv, *, timeout_s=10.0):
        if argv[0] != "apt-cache":
            return super().query(argv, timeout_s=timeout_s)
        done = inside(self.tree, *argv)
        return Completed(done.returncode, done.stdout.encode(), b"")


def test_libraries_of_the_other_series_bring_their_prebuilt_modules(tree):
    """The metapackages and modules as Ubuntu has them: modules need the nvidia-kernel-common of
    their own series.
    """
    plain, server = "580.126.09-0ubuntu0.24.04.2", "580.126.20-0ubuntu0.24.04.1"
    names = {"linux-image-generic": {"Version": "1"}}
    for series, version in (("580", plain), ("580-server", server)):
        common = f"nvidia-kernel-common-{series}"
        names |= {
            f"{one}-{series}": {"Version": version} for one in ("libnvidia-compute", "nvidia-utils")
        }
        names[f"nvidia-compute-utils-{series}"] = {"Version": version}
        names[common] = {
            "Version": version,
            "Conflicts": "nvidia-kernel-common",
            "Provides": "nvidia-kernel-common",
        }
        of_kernel = f"linux-modules-nvidia-{series}-open-{OLD}"
        names[of_kernel] = {"Version": "6.8.0-45.45", "Depends": f"{common} (>= 580.126)"}
        names[f"linux-modules-nvidia-{series}-open-generic"] = {
            "Version": "6.8.0-45.45",
            "Depends": of_kernel,
        }
    host = tree(names)
    ours = " ".join(
        f"{one}-580-server" for one in ("libnvidia-compute", "nvidia-utils", "nvidia-compute-utils")
    )
    host.type(
        f"apt-get install linux-image-generic {ours} linux-modules-nvidia-580-open-generic", 0
    )
    loaded = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.09  Release Build\n"
    facts = Facts(InTree(host.tree, OLD, **{"/proc/driver/nvidia/version": loaded}))
    evidence, way = other_versions(facts)
    assert "the driver is a mix of two versions: nvidia-kernel-common-580 580.126.09" in evidence
    host.type(typed(way.partition("\n")[0]), 0)
    assert host.is_whole()
    assert host.has(f"linux-modules-nvidia-580-server-open-{OLD}")
    assert host.has("linux-modules-nvidia-580-server-open-generic")
    assert not host.has(f"linux-modules-nvidia-580-open-{OLD}")
    left = Facts(InTree(host.tree, OLD, **{"/proc/driver/nvidia/version": loaded}))
    assert other_versions(left) is None


@pytest.fixture
def debian(tree):
    """A host of Debian with NVIDIA's archive, which begins with a branch that drives no Pascal, as
    Debian 13 has it (NVIDIA/cuda-repo-management issue 38).
    """
    yield from beside_nvidia(
        tree(debian_driver("550.163.01-2")), "Debian", debian_driver("590.44.01-1")
    )


def beside_nvidia(host, distribution, packages):
    """The host with a second archive, which is NVIDIA's and has these packages."""
    theirs, lists = (
        host.tree / "developer.download.nvidia.com",
        host.tree / "etc/apt/sources.list.d",
    )
    theirs.mkdir()
    rows = [build(name, row, theirs, host.base / "build") for name, row in packages.items()]
    put(theirs / "Packages", "\n".join(rows))
    for folder, origin in ((theirs, "NVIDIA"), (host.tree / "archive", distribution)):
        data = (folder / "Packages").read_bytes()
        row = f"SHA256:\n {hashlib.sha256(data).hexdigest()} {len(data)} Packages\n"
        put(folder / "Release", f"Origin: {origin}\nDate: Sun, 29 Nov 2026 12:00:00 UTC\n{row}")
    put(lists / "cuda.list", "deb [trusted=yes] file:/developer.download.nvidia.com ./\n")
    host.type("apt-get -q update", 0)
    yield host
    shutil.rmtree(theirs)
    (lists / "cuda.list").unlink(missing_ok=True)
    (host.tree / "archive/Release").unlink()


def debian_driver(version):
    needs = {
        "libnvidia-ml1": "", "libcuda1": "", "nvidia-kernel-support": "", "nvidia-smi": "libnvidia-ml1",
        "nvidia-kernel-dkms": "nvidia-kernel-support", "nvidia-driver": "nvidia-kernel-dkms, nvidia-smi, libcuda1",
    }  # fmt: skip
    exact = {name: re.sub(r"[^, ]+", rf"\g<0> (= {version})", row) for name, row in needs.items()}
    return {
        name: {"Version": version} | ({"Depends": row} if row else {})
        for name, row in exact.items()
    }


def pascal(host):
    facts = Facts(
        InTree(
            host.tree, "6.12.57+deb13-amd64", **{"/etc/os-release": "ID=debian\nVERSION_ID=13\n"}
        )
    )
    return with_gpu(facts, "pascal", "GTX 1060", "0x1c03")


def with_gpu(facts, generation, title, device_id):
    gpu = SimpleNamespace(
        generation=generation, slot="0000:10:00.0", title=title, device_id=device_id
    )
    facts.__dict__["gpus"] = SimpleNamespace(
        generations=(generation,), ours=(gpu,), summary=f"1 x {title}", devices=()
    )
    facts.__dict__["nvidia"] = SimpleNamespace(gpus=())
    facts.__dict__["packaging"] = Packaging({}, "not in this record")
    return facts


def switch_off(host, way):
    """What the person does who is told to switch the archive off."""
    look = re.search(r"switch NVIDIA's archive off \(([^)]+) shows its file\)", way)[1]
    assert inside(host.tree, "sh", "-c", look).stdout == "/etc/apt/sources.list.d/cuda.list\n"
    host.type("rm /etc/apt/sources.list.d/cuda.list", 0)


def version_of(host, name):
    return inside(host.tree, "dpkg-query", "-W", "-f", "${Version}", name).stdout


def test_debian_gets_its_own_driver_where_nvidias_does_not_drive_the_gpus(debian):
    way = replace_unfit_offer(pascal(debian), ["nvidia-driver"])
    assert "apt would install nvidia-driver 590.44.01-1, which does not drive these GPUs" in way
    switch_off(debian, way)
    debian.type(typed(way.splitlines()[-1]), 0)
    assert debian.is_whole()
    assert version_of(debian, "nvidia-driver") == "550.163.01-2"


def test_driver_of_nvidias_archive_that_drives_no_gpu_gives_way_to_debians(debian):
    debian.type("apt-get install nvidia-driver", 0)
    assert version_of(debian, "nvidia-driver") == "590.44.01-1"
    way = switch_within_archive(pascal(debian), branch="580")
    assert "has no branch 580, and Debian's own nvidia-driver 550.163.01-2 drives these GPUs" in way
    purge, _, install, boot = way.splitlines()
    assert boot == "drain the host and reboot"
    debian.type(typed(purge.partition(": ")[2]), 0)
    switch_off(debian, way)
    debian.type(typed(install), 0)
    assert debian.is_whole()
    assert version_of(debian, "libcuda1") == version_of(debian, "nvidia-driver") == "550.163.01-2"


def nvidia_driver(branch, version):
    library = {
        "Provides": "libnvidia-compute",
        "Conflicts": "libnvidia-compute",
        "Replaces": "libnvidia-compute",
    }
    needs = f"libnvidia-compute-{branch} (= {version}), nvidia-dkms-{branch}-open (= {version})"
    return {
        f"libnvidia-compute-{branch}": {"Version": version} | library,
        f"nvidia-dkms-{branch}-open": {
            "Version": version,
            "Provides": "nvidia-dkms",
            "Conflicts": "nvidia-dkms",
        },
        f"nvidia-driver-{branch}-open": {"Version": version, "Depends": needs},
        f"nvidia-open-{branch}": {"Version": version, "Depends": f"nvidia-driver-{branch}-open"},
    }


@pytest.fixture
def held(tree):
    """A driver of NVIDIA's archive for Ubuntu, whose packages an administrator holds."""
    old, new = (
        nvidia_driver("570", "570.86.15-0ubuntu1"),
        nvidia_driver("580", "580.126.20-1ubuntu1"),
    )
    for host in beside_nvidia(tree({"bash-of-ubuntu": {"Version": "1"}}), "Ubuntu", old | new):
        host.type("apt-get install nvidia-driver-570-open", 0)
        host.type(
            "apt-mark hold libnvidia-compute-570 nvidia-dkms-570-open nvidia-driver-570-open", 0
        )
        yield host


def test_held_driver_gives_way_to_another_branch_once_the_holds_are_gone(held):
    """GoogleCloudDataproc/initialization-actions pull 1323."""
    facts = with_gpu(
        Facts(InTree(held.tree, OLD, **{"/etc/os-release": UBUNTU})), "turing", "T4", "0x1eb8"
    )
    facts.__dict__["role"] = SimpleNamespace(vendor_image="")
    facts.__dict__["managers"] = SimpleNamespace(kubelet=False)
    unhold, install, boot = str(
        switch(facts, "a supported branch", when="at a maintenance")
    ).splitlines()
    assert install.startswith(
        "a supported branch, at a maintenance, from NVIDIA's archive: sudo apt-get update"
    )
    assert boot == "drain the host and reboot"
    held.type(typed(install.partition(": ")[2]), 100)  # what the holds refuse
    held.type(typed(unhold.partition(": ")[2]), 0)
    held.type(typed(install.partition(": ")[2]), 0)
    assert held.is_whole()
    assert held.has("nvidia-open-580")
    assert not held.has("libnvidia-compute-570")


@pytest.mark.parametrize("is_there", [True, False])
def test_firmware_that_debian_keeps_in_a_component_of_its_own_is_brought(tree, is_there):
    """endlessm/eos-meta pull 811: the package of the module only recommends it."""
    version, name = "550.163.01-2", "firmware-nvidia-gsp"
    module = {"nvidia-open-kernel-dkms": {"Version": version, "Recommends": name}}
    host = tree(module | ({name: {"Version": version}} if is_there else {}))
    host.type("apt-get install --no-install-recommends nvidia-open-kernel-dkms", 0)
    facts = Facts(InTree(host.tree, OLD, **{"/etc/os-release": "ID=debian\nVERSION_ID=13\n"}))
    lost = GspFailure("0000:10:00.0", MISSING, "550.163.01", "gsp_tu10x.bin", 2, "")
    install, otherwise = check_commands(facts, way_out(lost, facts))[0].splitlines()[:2]
    assert ("no list of apt has" in install) is not is_there
    assert "non-free-firmware" in otherwise
    if not is_there:
        return
    host.type(typed(install), 0)
    assert host.is_whole()
    assert host.has(name)


def test_firmware_of_the_former_series_gives_way_to_that_of_the_new_one(tree):
    """canonical/nvidia-graphics-drivers pull request 59: 535 and 535-server of one version have the
    same firmware.
    """
    version = "535.54.03-0ubuntu0.22.04.1"
    names = {}
    for series in ("535", "535-server"):
        firmware, common = f"nvidia-firmware-{series}-535.54.03", f"nvidia-kernel-common-{series}"
        names[firmware] = {"Version": version}
        names[common] = {
            "Version": version, "Depends": firmware, "Conflicts": "nvidia-kernel-common", "Provides": "nvidia-kernel-common",
        }  # fmt: skip
        names[f"nvidia-driver-{series}"] = {
            "Version": version,
            "Depends": f"{common} (= {version})",
        }
    files = {
        name: {"lib/firmware/nvidia/535.54.03/gsp_ga10x.bin": name}
        for name in names
        if "firmware" in name
    }
    host = tree(names, files=files)
    host.type("apt-get install nvidia-driver-535", 0)
    host.type("apt-get install nvidia-driver-535-server", 100)
    stop = host.stop()
    assert stop.cause is Cause.FILES
    host.type("dpkg --configure -a; apt-get -f install", 100)  # what does not help
    host.type(typed(stop.repair), 0)
    assert host.is_whole()
    assert host.has("nvidia-driver-535-server")
    assert not host.has("nvidia-firmware-535-535.54.03")


def test_half_way_packages_of_another_archive_go_to_the_version_of_the_rest(tree):
    """aws-samples/aws-deep-learning-ami-ubuntu-dcv-desktop issue 18: Ubuntu's 530.41.03 over
    NVIDIA's 530.30.02.
    """
    old, new = "530.30.02-0ubuntu1", "530.41.03-0ubuntu0.22.04.2"

    def driver(version):
        common = f"nvidia-kernel-common-530 (>= {version.partition('-')[0]})"
        rest = {
            name: {"Version": version}
            for name in ("nvidia-kernel-common-530", "libnvidia-compute-530")
        }
        rest |= {
            name: {"Version": version} for name in ("nvidia-utils-530", "nvidia-compute-utils-530")
        }
        return rest | {
            "nvidia-dkms-530": {"Version": version, "Depends": common},
            "nvidia-driver-530": {
                "Version": version,
                "Depends": f"nvidia-dkms-530 (>= {version}), {common}",
            },
        }

    host = tree(driver(old))
    host.type(
        "apt-get install nvidia-driver-530 libnvidia-compute-530 nvidia-utils-530 nvidia-compute-utils-530",
        0,
    )
    archive, files = host.tree / "archive", {}
    rows = [(archive / "Packages").read_text()]
    for name, fields in driver(new).items():
        rows.append(build(name, fields, archive, host.base / "build"))
        files[name] = re.search(r"^Filename: (?:\./)?(\S+)$", rows[-1], re.MULTILINE)[1]
    put(archive / "Packages", "\n".join(rows))
    # NVIDIA's own cuda-repository-pin-600, by version, as the tree has one archive.
    pin = host.tree / "etc/apt/preferences.d/nvidia"
    put(pin, "Package: *\nPin: version 530.30.02*\nPin-Priority: 600\n")
    try:
        host.type("apt-get -q update", 0)
        host.type(
            f"dpkg -i /archive/{files['nvidia-dkms-530']} /archive/{files['nvidia-driver-530']}", 1
        )
        facts = Facts(
            InTree(host.tree, OLD, **{"/sys/module/nvme/refcnt": "0\n"})
        )  # no driver is loaded
        facts.__dict__["boot_room"] = SimpleNamespace(is_full=False, way_out="")
        stop = find_stop(facts)
        assert stop.cause is Cause.VERSIONS
        host.type(typed(stop.repair.partition("\nsudo update-initramfs")[0]), 0)
        assert host.is_whole()
        assert host.has("nvidia-driver-530")
        facts = Facts(InTree(host.tree, OLD))
        assert {facts.packages[name].version for name in files} == {old}
        assert find_stop(facts) is None
    finally:
        pin.unlink()


@pytest.mark.parametrize("has_other_metapackage", [False, True])
def test_half_way_metapackage_of_an_unnumbered_driver_takes_all_to_the_version_that_is_left(
    tree, has_other_metapackage
):
    """illinois-scicomp/machine-shop-maintenance issue 70: Debian's 525 over NVIDIA's 520, and no
    list has either any more. A metapackage of which no list has that version goes with it.
    """
    old, half, new = "520.56.06-1", "525.85.12-1", "535.247.01-1~deb12u1"

    def driver(version):
        exact = {
            name: {"Version": version}
            for name in ("nvidia-alternative", "libnvidia-ml1", "nvidia-smi")
        }
        exact["nvidia-smi"]["Depends"] = f"libnvidia-ml1 (= {version})"
        kernel = f"nvidia-kernel-dkms (= {version}), nvidia-alternative (= {version})"
        return exact | {
            "nvidia-kernel-support": {"Version": version},
            "nvidia-kernel-dkms": {
                "Version": version,
                "Depends": f"nvidia-kernel-support (= {version})",
            },
            "nvidia-driver": {"Version": version, "Depends": f"{kernel}, nvidia-smi (= {version})"},
        }

    extra = (
        {"cuda-drivers": {"Version": old, "Depends": "nvidia-kernel-dkms"}}
        if has_other_metapackage
        else {}
    )
    host = tree(driver(old) | extra)
    host.type(f"apt-get install nvidia-driver {' '.join(extra)}", 0)
    archive, files = host.tree / "archive", {}
    (archive / "Packages").unlink()
    for name, fields in driver(half).items():
        row = build(name, fields, archive, host.base / "build")
        files[name] = re.search(r"^Filename: (?:\./)?(\S+)$", row, re.MULTILINE)[1]
    rows = [
        build(name, fields, archive, host.base / "build") for name, fields in driver(new).items()
    ]
    put(archive / "Packages", "\n".join(rows))
    host.type("apt-get -q update", 0)
    came = ("nvidia-alternative", "libnvidia-ml1", "nvidia-smi", "nvidia-driver")
    host.type(
        f"dpkg -i --force-depends-version {' '.join(f'/archive/{files[name]}' for name in came[:3])}"
    )
    host.type(f"dpkg -i /archive/{files['nvidia-driver']}", 1)
    facts = Facts(
        InTree(host.tree, OLD, **{"/sys/module/nvme/refcnt": "0\n"})
    )  # no driver is loaded
    facts.__dict__["boot_room"] = SimpleNamespace(is_full=False, way_out="")
    facts.__dict__["gpus"] = SimpleNamespace(ours=())  # no GPU is one that 535 does not drive
    stop = find_stop(facts)
    assert stop.cause is Cause.VERSIONS
    assert (
        stop.repair.count("cuda-drivers")
        == stop.repair.count("cuda-drivers-")
        == has_other_metapackage
    )
    host.type(typed(stop.repair.partition("\nsudo update-initramfs")[0].partition(": ")[2]), 0)
    assert host.is_whole()
    assert host.has("nvidia-driver")
    facts = Facts(InTree(host.tree, OLD, **{"/sys/module/nvme/refcnt": "0\n"}))
    assert {facts.packages[name].version for name in driver(new)} == {new}


def test_script_that_waits_for_a_password_gives_way_to_modules_that_ubuntu_signed(tree):
    """Azure/azure-linux-extensions issue 1754: with Secure Boot the script asks, and no one is
    there who answers.
    """
    asks = {"postinst": "#!/bin/sh\ntest -t 0 || exit 1\n"}
    host = tree(
        driver_580("nvidia-driver-580-open") | KERNELS | PREBUILT,
        {"nvidia-dkms-580-open": asks},
        kernels=(OLD,),
    )
    host.type(f"apt-get install linux-image-{OLD} linux-headers-{OLD}", 0)
    host.type("apt-get install nvidia-driver-580-open", 100)
    facts = host.facts()
    facts.__dict__["boot"] = SimpleNamespace(
        kernels=(OLD,), next_kernel=OLD, secure_boot=True, takes_own_modules=False
    )
    stop = find_stop(facts)
    assert "asks for a password" in stop.evidence
    host.type("dpkg --configure -a; apt-get -f install", 100)  # what does not help
    lock, signed, answer = stop.repair.splitlines()
    assert lock.endswith("sudo fuser -v /var/lib/dpkg/lock-frontend")
    host.type(typed(signed.partition(": ")[2]), 0)
    assert answer.startswith("or ")
    assert host.is_whole()
    assert host.has("nvidia-driver-580-open")
    assert host.has(f"linux-modules-nvidia-580-open-{OLD}")
    assert not host.has("nvidia-dkms-580-open")


def test_modules_of_an_old_kernel_that_ask_for_an_older_driver_go(tree):
    """github.com/elementary/settings-system/issues/233: what they ask for is here, in a newer
    version.
    """
    old = f"linux-modules-nvidia-580-open-{OLDEST}"
    names = {
        "nvidia-kernel-common-580": {"Version": VERSION},
        "libnvidia-compute-580": {"Version": VERSION, "Depends": "nvidia-kernel-common-580"},
        old: {"Version": "6.8.0-31.31", "Depends": "nvidia-kernel-common-580 (<= 580.95.05-1)"},
    }
    host = tree(names)
    host.upgrade_from("nvidia-kernel-common-580", "580.95.05-0ubuntu1")
    host.type(f"apt-get install libnvidia-compute-580 {old}", 0)
    host.type(f"dpkg --force-depends -i /archive/nvidia-kernel-common-580_{VERSION}_*.deb", 0)
    host.type("apt-get check", 100)
    host.type("apt-get install nvidia-kernel-common-580", 100)  # what does not help
    facts = host.facts()
    facts.__dict__["boot"] = SimpleNamespace(next_kernel=NEW)
    said, way = tell_of_unmet(facts)
    assert f"{old} needs nvidia-kernel-common-580 (<= 580.95.05-1)" in said
    host.type(typed(way), 0)
    assert host.is_whole()
    assert host.has("libnvidia-compute-580")
    assert not host.has(old)


def test_older_compiler_gives_way_to_the_one_that_built_the_kernel(tree):
    """Only the commands that bring the compiler, and then dpkg, which builds again."""
    log = (
        f"DKMS make.log for nvidia-580.142 for kernel {NEW} (x86_64)\n  The kernel was built by: x86_64-linux-gnu-gcc-12 "
        "(Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0\ngcc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'\n"
    )
    fails = f"mkdir -p {DKMS}/build && cp /etc/make.log {DKMS}/build/make.log && exit 10"
    scripts = {
        "nvidia-dkms-580-open": {
            "postinst": f"#!/bin/sh\ntest $(readlink -f /usr/bin/gcc) = /usr/bin/gcc-12 || {{ {fails}; }}\n"
        }
    }
    compilers = {f"gcc-{number}": {"Version": f"{number}.3.0-1"} for number in (11, 12)}
    files = {name: {f"usr/bin/{name}": name} for name in compilers}
    host = tree(driver_580("nvidia-driver-580-open") | KERNELS | compilers, scripts, files)
    put(host.tree / "etc/make.log", log)
    link = host.tree / "usr/bin/gcc"
    link.unlink(missing_ok=True)
    host.type(f"apt-get install gcc-11 linux-image-{OLD} linux-image-{NEW} linux-headers-{NEW}", 0)
    link.symlink_to("gcc-11")  # as the package gcc brings it
    host.type("apt-get install nvidia-driver-580-open", 100)
    _, _, repair = host.stop().repair.partition(
        "\nif apt has none: bring gcc-12, which built the kernel: "
    )
    host.type("dpkg --configure -a; apt-get -f install", 100)  # what does not help
    host.type(typed(repair), 0)
    assert host.is_whole()
    assert host.has("nvidia-driver-580-open")
    assert host.has("gcc-12")
