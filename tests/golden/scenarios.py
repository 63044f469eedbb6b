"""Plans and receipts of a made-up server, `gpu-017`, for the exact texts beside this file."""

from dataclasses import replace

from hosttune.actions.journal.journal import Journal
from hosttune.actions.journal.lines import JournalStep, Run, StepId
from hosttune.engine.decide.ready import ReadyState, Standing
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    Disturbs,
    FileValue,
    Finding,
    Hold,
    HoldKind,
    Outcome,
    Phase,
    Plan,
    Receipt,
    Risk,
    Stage,
    Trigger,
    Verdict,
)
from hosttune.views.comparison import Side, compare
from hosttune.views.page import Page
from hosttune.views.terminal import Screen

DIGEST = "5f0c6d1b7c1e4a2f9c8d3e6b7a90112233445566778899aabbccddeeff001122"
PROGRAM = "/opt/hosttune/bin/hosttune"
PAGE = Page("gpu-017", Screen(80), program=PROGRAM, sudo="sudo ")
MACHINE = {
    "product": "SYS-821GE-TNHR",
    "GPUs": "8 x NVIDIA H100 80GB HBM3",
    "driver": "580.126.20",
    "kernel": "6.8.0-60-generic",
    "system": "Ubuntu 24.04.3 LTS",
}
RUN = "20261009T031502Z-5f0c6d1b"

DROPIN = (
    b"# hosttune, rule memory-swappiness. Take it back with hosttune undo.\nvm.swappiness = 10\n"
)

SWAPPINESS = (
    Change(Address("sysctl", "vm.swappiness"), Action.UPDATE, "60", "10", "memory-swappiness"),
    Change(
        Address("file", "/etc/sysctl.d/60-hosttune-memory-swappiness.conf"),
        Action.CREATE,
        ABSENT,
        FileValue(DROPIN),
        "memory-swappiness",
    ),
)
NOATIME = (
    Change(
        Address("mount", "/data"),
        Action.UPDATE,
        "relatime",
        "noatime",
        "storage-noatime",
        activation=Activation.REMOUNT,
    ),
    Change(
        Address("fstab", "/data"),
        Action.UPDATE,
        "defaults,nofail",
        "defaults,nofail,noatime",
        "storage-noatime",
        triggers=(Trigger("daemon-reload"),),
        details=(
            "-UUID=0d6e9f0e-2b5c-4c0e-9c3e-0a1b2c3d4e5f\t/data\text4\tdefaults,nofail\t0\t2",
            "+UUID=0d6e9f0e-2b5c-4c0e-9c3e-0a1b2c3d4e5f\t/data\text4\tdefaults,nofail,noatime\t0\t2",
        ),
    ),
)
TMP = Change(
    Address("file", "/etc/systemd/system/tmp.mount.d/60-hosttune-storage-tmp-tmpfs.conf"),
    Action.CREATE,
    ABSENT,
    FileValue(b"[Mount]\nOptions=mode=1777,strictatime,nosuid,nodev,size=206158430208\n"),
    "storage-tmp-tmpfs",
    Risk.MEDIUM,
    activation=Activation.REBOOT,
    reversible="after a reboot",
    triggers=(Trigger("daemon-reload"),),
)
DRIVER = Change(
    Address("package", "nvidia-driver-580-server-open"),
    Action.CREATE,
    ABSENT,
    "580.95.05-0ubuntu0.24.04.2",
    "gpu-driver",
    Risk.MEDIUM,
    Disturbs.NOTHING,
    Activation.REBOOT,
    "no, packages stay installed; apt lists them in /var/log/apt/history.log",
    details=(
        "installs nvidia-driver-580-server-open 580.95.05-0ubuntu0.24.04.2",
        "installs linux-modules-nvidia-580-server-open-6.8.0-85-generic 6.8.0-85.85",
        "and 41 more, 412 MB to download",
    ),
)
DAEMON_CONFIG = Change(
    Address("file", "/etc/docker/daemon.json"),
    Action.UPDATE,
    FileValue(b'{\n  "log-driver": "json-file",\n  "storage-driver": "overlay2"\n}\n'),
    FileValue(
        b'{\n  "log-driver": "json-file",\n  "log-opts": {"max-size": "100m"},\n  "storage-driver": "overlay2"\n}'
    ),
    "storage-docker-logs",
    Risk.MEDIUM,
    Disturbs.SERVICE,
    Activation.RESTART,
    triggers=(Trigger("restart", "docker.service"),),
)

FINDINGS = (
    Finding(
        "memory-swappiness",
        "vm.swappiness",
        Verdict.DIFFERS,
        reason="vm.swappiness should be at most 10",
        evidence=("now 60", "no file sets it at boot"),
        changes=SWAPPINESS,
    ),
    Finding(
        "storage-noatime",
        "/data",
        Verdict.DIFFERS,
        reason="/data should be mounted noatime",
        evidence=("now relatime", "/etc/fstab:7 says defaults,nofail"),
        changes=NOATIME,
    ),
    Finding(
        "storage-noatime",
        "/scratch",
        Verdict.DIFFERS,
        Hold(HoldKind.OWNED, "tmpfiles.d (/etc/tmpfiles.d/scratch.conf:3 ages by atime)"),
        "/scratch should be mounted noatime",
        ("now relatime",),
        todo="age by mtime (prefix the age with m:), or ignore storage-noatime",
    ),
    Finding(
        "storage-tmp-tmpfs",
        "/tmp",
        Verdict.DIFFERS,
        reason="/tmp should be a tmpfs of 192 GiB",
        evidence=("now a folder of the ext4 file system at /",),
        changes=(TMP,),
    ),
    Finding(
        "gpu-driver",
        "",
        Verdict.DIFFERS,
        reason="no driver is installed for 8 GPUs of generation hopper",
        evidence=("nvidia-driver-580-server-open is recommended by ubuntu-drivers",),
        changes=(DRIVER,),
    ),
    Finding(
        "memory-max-map-count",
        "vm.max_map_count",
        Verdict.DIFFERS,
        Hold(HoldKind.OWNED, "TuneD profile accelerator-performance"),
        "vm.max_map_count should be at least 1048576",
        ("now 65530", "next boot 65530 (/usr/lib/sysctl.d/10-map-count.conf:2)"),
        todo="set vm.max_map_count in a child profile of TuneD, or ignore memory-max-map-count",
    ),
    Finding(
        "gpu-persistence",
        "",
        Verdict.DIFFERS,
        Hold(HoldKind.BUSY, "python3 (pid 48211, user lena) computes on GPU 0, 1, 2 and 3"),
        "nvidia-persistenced should be active",
        todo="drain the host, then run it again",
    ),
    Finding(
        "gpu-driver-health",
        "",
        Verdict.UNKNOWN,
        reason="needs root: permission denied on /var/log/nvidia-installer.log",
    ),
    Finding(
        "storage-fstrim",
        "fstrim.timer",
        Verdict.ADVICE,
        reason="fstrim.timer is disabled against its preset: somebody switched it off",
        todo="sudo systemctl enable --now fstrim.timer, if nobody minds",
    ),
    Finding(
        "storage-data-placement", "", Verdict.OK, evidence=("/data lies on nvme1n1, / on nvme0n1",)
    ),
    Finding(
        "memory-zram",
        "",
        Verdict.NOT_APPLICABLE,
        reason="64 GiB of RAM or more: nothing to gain from compressed swap",
    ),
    Finding(
        "gpu-fabric-manager",
        "",
        Verdict.DIFFERS,
        Hold(HoldKind.WAIVED, "until 2026-12-31: the vendor's image ships its own"),
        "nvidia-fabricmanager should be installed",
    ),
)

PLAN = Plan(
    digest=DIGEST,
    tool_version="0.1.0",
    machine="3f1c0a9b8d7e6f50",
    created_at="2026-10-09T03:15:02+00:00",
    policy_digest=DIGEST[::-1],
    stages=(
        Stage(
            (*SWAPPINESS, *NOATIME, TMP, DRIVER),
            (Trigger("daemon-reload"), Trigger("update-initramfs")),
        ),
        Stage((DAEMON_CONFIG,), (Trigger("restart", "docker.service"),)),
    ),
    findings=FINDINGS,
    complete=False,
)
CLEAN = replace(
    PLAN,
    stages=(),
    findings=tuple(f for f in FINDINGS if f.verdict in {Verdict.OK, Verdict.NOT_APPLICABLE}),
    complete=True,
)
SMALL = replace(
    PLAN, stages=(Stage(SWAPPINESS),), findings=(FINDINGS[0], *CLEAN.findings), complete=True
)

DONE = Receipt(
    RUN,
    DIGEST,
    tuple(Outcome(change, Phase.DONE) for change in PLAN.changes[:6]),
    waiting=("restart docker.service: GPU containers run (trainer-7); the next apply does it",),
    reboot_reasons=("/tmp becomes a tmpfs", "the new driver 580.95.05 is loaded"),
)
FAILED = Receipt(
    RUN,
    DIGEST,
    (
        Outcome(SWAPPINESS[0], Phase.DONE),
        Outcome(
            SWAPPINESS[1],
            Phase.FAILED,
            "/etc/sysctl.d is on a read-only file system",
            "mount it read-write, or ignore memory-swappiness; then sudo hosttune apply --yes",
        ),
        Outcome(replace(SWAPPINESS[0], before="10", after="60"), Phase.DONE),
        Outcome(NOATIME[0], Phase.DONE),
        Outcome(NOATIME[1], Phase.DONE),
    ),
    verified=False,
)
NOTHING = Receipt("", DIGEST, ())
APPLIED = replace(
    SMALL, stages=(Stage(PLAN.changes[:6]),), findings=(*FINDINGS[:2], *CLEAN.findings)
)
AFTER_APPLY = replace(
    CLEAN,
    findings=(
        *CLEAN.findings,
        Finding(
            "storage-tmp-tmpfs",
            "/tmp",
            Verdict.DIFFERS,
            Hold(HoldKind.WAITING, "reboot"),
            "/tmp becomes a tmpfs at the next boot",
            (TMP.address.name,),
        ),
    ),
)
BACK_CHANGES = tuple(
    replace(
        change,
        action=Action.DELETE if change.before is ABSENT else Action.UPDATE,
        before=change.after,
        after=change.before,
    )
    for change in reversed(SWAPPINESS)
)
BACK = replace(
    CLEAN,
    stages=(Stage(BACK_CHANGES),),
    findings=(
        Finding(
            "storage-noatime",
            "fstab:/data",
            Verdict.DIFFERS,
            Hold(HoldKind.EDITED, f"/data in /etc/fstab since run {RUN}"),
            "is left as it is",
            todo="look at /data; remove it or put it back by hand, then undo again",
        ),
    ),
)
GONE = replace(CLEAN, findings=())
TAKEN_BACK = Receipt(RUN, DIGEST, tuple(Outcome(change, Phase.DONE) for change in BACK_CHANGES))


def run_of(receipt, command, at, who, undoes=""):
    """The run that left this receipt, as the journal tells it; of an undo which run it took
    back.
    """
    steps = tuple(
        JournalStep(
            StepId(receipt.run_id, number), one.change, one.phase, one.error or "",
            StepId(undoes, number) if undoes else None,
        )
        for number, one in enumerate(receipt.outcomes)
    )  # fmt: skip
    return Run(receipt.run_id, command, at, who, "boot-1", DIGEST, "0.1.0", steps, is_finished=True)


OLDER = replace(DONE, run_id="20261001T020000Z-00aa11bb")
JOURNAL = Journal((
    run_of(OLDER, "apply", "2026-10-01T02:00:00+00:00", "root"),
    run_of(FAILED, "apply", "2026-10-09T03:15:02+00:00", "lena (sudo)"),
))  # fmt: skip
TUNED = replace(
    FINDINGS[0],
    verdict=Verdict.OK,
    reason="",
    evidence=("now 10, set by /etc/sysctl.d/90-site.conf:2",),
)
TWINS = compare(
    Side("gpu-017", "m1", "2026-10-08T03:15:02+00:00", "0.1.0", "", (TUNED, *FINDINGS[1:])),
    Side("gpu-018", "m2", "2026-10-09T03:15:02+00:00", "0.1.0", "", FINDINGS),
    {},
)

HEALTH_FINDINGS = (
    Finding(
        "gpu-lost", "0000:1a:00.0", Verdict.DIFFERS, reason="the GPU does not answer", is_fault=True
    ),
    Finding("gpu-pcie-link", "0000:3b:00.0", Verdict.DIFFERS, reason="8 lanes of 16", impairs=True),
    Finding("storage-hangs", "", Verdict.UNKNOWN, reason="needs root"),
)
HELD = ReadyState(
    Standing.HELD, "boot", "the plan is not approved", "d" * 64, 1791515702, ("before",)
)
