"""What is on trial, for the texts: a plan with each part, and runs in each state."""

from dataclasses import replace

from hosttune.actions.trial.state import TrialRecord, TrialRun, TrialState
from hosttune.engine.decide.plan import stage
from hosttune.engine.decide.trial import plan_trial
from hosttune.engine.trial_terms import TrialTerms
from hosttune.facts.losses import Aspect, Loss
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    Confirmer,
    FileValue,
    Trigger,
)
from hosttune.views.plan import PlannedTrial
from hosttune.views.trial import planned_trial
from tests.golden import scenarios as made

NOW = 1_760_000_000.0
NAME = "GRUB_CMDLINE_LINUX_DEFAULT"
IOMMU = Change(
    Address("file", "/etc/default/grub.d/60-hosttune-kernel-iommu.cfg"), Action.CREATE, ABSENT,
    FileValue(f'{NAME}="${NAME} iommu=pt"\n'.encode()), "kernel-iommu", activation=Activation.REBOOT,
    triggers=(Trigger("update-grub"),),
)  # fmt: skip
CHANGES = (*made.SWAPPINESS, *made.NOATIME, made.TMP, IOMMU)
PLAN = replace(made.SMALL, stages=(stage(CHANGES),))
NOTES = (
    "A kernel that hangs needs one power cycle: no hardware watchdog is fed here.",
    "A second reboot before the confirmation counts as no.",
    "unattended-upgrades may reboot by itself (02:00).",
)
PLANNED = replace(plan_trial(PLAN, TrialTerms(900), notes=NOTES), boot_within_s=900)
REFUSED = plan_trial(
    replace(PLAN, stages=(stage((*CHANGES, made.DRIVER)),)), TrialTerms(900, Confirmer.HEALTH), notes=NOTES[1:2],
    one_boot=("GRUB cannot clear what asks for one boot where its environment block lies on lvm",),
)  # fmt: skip
RECORD = TrialRecord(
    made.RUN, made.DIGEST, 900, 900, Confirmer.OPERATOR, "boot", NOW - 120, 1000.0, 1010.0,
    ("memory-swappiness", "storage-noatime"), ("storage-tmp-tmpfs",), ("kernel-iommu",), ("iommu=pt",),
)  # fmt: skip
LIVE = TrialRun(RECORD, TrialState.LIVE, 765.4)
NEXT_BOOT = TrialRun(RECORD, TrialState.NEXT_BOOT)
FAILED = TrialRun(RECORD, TrialState.FAILED, None, "vm.swappiness: the kernel says no")
LOSSES = (
    Loss(Aspect.MOUNT, "/scratch", "/scratch is not mounted any more"),
    Loss(Aspect.CLOCK, "", "not known: clock: timedatectl does not answer", is_known=False),
)


def part(planned=PLANNED):
    return PlannedTrial((planned_trial(planned),), " --confirm-within 15m")
