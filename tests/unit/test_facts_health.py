"""The state of GPUs from nvidia-smi: which question, what counts as unknown, and Xid errors by
GPU.
"""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.health_smi import (
    FEW,
    FIELDS,
    LIST,
    NONE,
    OLD_REMAPPED,
    OLD_REMAPPED_FIELDS,
    QUERIES,
    REMAPPED,
    REMAPPED_FIELDS,
    REPAIRS,
    mask,
    mig_devices_in,
    parse_number,
    parse_rows,
    parse_word,
    parse_yes,
    query_of,
    repairs_in,
)
from hosttune.facts.gpu.nvidia import OLD_JOURNAL
from hosttune.facts.gpu.nvidia_smi import QUERY
from hosttune.facts.kernel.kernel_log import DMESG, JOURNAL
from hosttune.host.door import Completed
from hosttune.values import NeverAsked, Unreadable
from tests.hosts.driver import smi_row
from tests.unit.fake_reader import FakeReader

SLOT = "0000:1b:00.0"
PCI = f"/sys/bus/pci/devices/{SLOT}"
LINE = "00000000:1B:00.0"
UNKNOWN_FIELD = Completed(2, b'Field "gpu_recovery_action" is not a valid field to query.\n\n', b"")


def health_of(answers, log="", *, is_privileged=True, **files):
    every = {
        f"{PCI}/vendor": "0x10de", f"{PCI}/device": "0x2330", f"{PCI}/class": "0x030200",
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.195.03  x\n",
        "/sys/module/nvidia/version": "570.195.03\n",
    }  # fmt: skip
    base = {
        QUERY: f"{LINE}, 570.195.03, Enabled, NVIDIA H100\n",
        JOURNAL: log,
        DMESG: f"[    0.000000] Linux version 6.8\n{log}",
    }
    links = {f"{PCI}/driver": "../../../bus/pci/drivers/nvidia"}
    return Facts(
        FakeReader(every | files, links=links, queries=base | answers, is_privileged=is_privileged)
    ).health


def test_health_new_driver_all_fields_are_read():
    row = smi_row(
        FIELDS[1], LINE, temperature_gpu="44", clocks_event_reasons_active="0x0000000000000048"
    )
    gpu = health_of(
        {QUERIES[1]: row, REMAPPED: smi_row(REMAPPED_FIELDS, LINE, remapped_rows_pending="Yes")}
    ).gpus[0]
    assert (gpu.slot, gpu.temperature_c, gpu.power_limit_w, gpu.ecc) == (SLOT, 44, 700.0, "Enabled")
    assert gpu.slowdowns == ("hardware slowdown (heat or power)", "hardware thermal slowdown")
    assert gpu.retirement_pending
    assert gpu.can_remap
    assert not gpu.remap_failed
    assert gpu.slowed_s == 0.0


OTHER = smi_row(REMAPPED_FIELDS, "00000000:43:00.0")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            Completed(15, b"", b"Unable to determine the device handle"),
            "Unable to determine the device handle",
        ),
        (Completed(0, b"", b""), "nothing printed"),
        (Unreadable("nvidia-smi did not answer within 30 s"), "did not answer within 30 s"),
        (OTHER, "and not of this one"),
    ],
)
def test_remapper_that_is_asked_and_does_not_tell_is_unknown_and_not_well(said, why):
    gpu = health_of({QUERIES[1]: smi_row(FIELDS[1], LINE), REMAPPED: said}).gpus[0]
    for name in ("remap_failed", "can_remap", "worn_banks", "rows_lost", "retirement_pending"):
        with pytest.raises(UnknownFact, match=why):
            getattr(gpu, name)
    assert gpu.power_limit_w == 700.0


def test_health_driver_that_lacks_a_field_is_asked_with_the_old_names():
    row = smi_row(FIELDS[3], LINE, clocks_throttle_reasons_active="0x0000000000000080")
    gpu = health_of(dict.fromkeys(QUERIES[1:3], UNKNOWN_FIELD) | {QUERIES[3]: row}).gpus[0]
    assert gpu.slowdowns == ("power brake from outside (power supply)",)
    assert gpu.slowed_s == -1.0
    assert gpu.recovery_action == ""
    assert not gpu.can_remap


def test_health_field_that_a_newer_driver_has_dropped_is_left_out():
    gone = Completed(2, b'Field "retired_pages.pending" is not a valid field to query.\n\n', b"")
    fields = tuple(name for name in FIELDS[1] if name != "retired_pages.pending")
    answers = {
        QUERIES[1]: gone,
        query_of(fields): smi_row(fields, LINE, ecc_mode_current="Disabled"),
    }
    gpu = health_of(answers).gpus[0]
    assert gpu.ecc == "Disabled"
    assert not gpu.retirement_pending


def test_health_other_refusal_is_not_asked_again():
    health = health_of(
        {
            QUERIES[1]: Completed(
                15, b"Unable to determine the device handle for GPU0: Unknown Error\n", b""
            )
        }
    )
    assert "Unable to determine" in health.problem
    with pytest.raises(UnknownFact, match="Unable to determine"):
        _ = health.gpus[0].ecc


def test_health_gpu_that_does_not_answer_keeps_its_place_and_its_xids():
    log = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\nNVRM: Xid (PCI:0000:1b:00): 31, x\n"
    other = smi_row(FIELDS[1], "00000000:43:00.0")
    gpu = health_of({QUERIES[1]: other, REMAPPED: ""}, log).gpus[0]
    assert gpu.xids == (79, 31)
    assert gpu.hardware_xids == ("Xid 79 (the GPU has fallen off the bus)",)
    with pytest.raises(UnknownFact, match="at first, and then no more"):
        _ = gpu.remap_failed
    gone = health_of(
        {QUERY: "00000000:43:00.0, 570.195.03, Enabled, NVIDIA H100\n", QUERIES[1]: other}, log
    ).gpus
    assert (gone[0].slot, gone[0].silence) == (SLOT, "it has fallen off the bus (Xid 79)")
    with pytest.raises(UnknownFact, match=r"fallen off the bus \(Xid 79\)"):
        _ = gone[0].remap_failed


def test_health_without_loaded_module_nothing_is_asked():
    pci = {f"{PCI}/vendor": "0x10de", f"{PCI}/device": "0x2330", f"{PCI}/class": "0x030200"}
    facts = Facts(FakeReader(pci, folders=["/sys/module"]))
    assert facts.health.gpus == ()
    assert not any(argv[0] == "nvidia-smi" for argv in facts.reader.asked)


@pytest.mark.parametrize(
    "spelled", ["[N/A]", "ERR!", "[Unknown Error]", "[GPU requires reset]", "", "N/A"]
)
def test_number_no_number_is_unknown_and_never_0(spelled):
    with pytest.raises(ValueError, match="nvidia-smi says"):
        parse_number(spelled, "power.draw")
    with pytest.raises(ValueError, match="nvidia-smi says"):
        mask(spelled, "reasons")


@pytest.mark.parametrize(
    ("spelled", "value"), [("700.00", 700.0), ("700.00 W", 700.0), ("12 us", 12.0), ("0", 0.0)]
)
def test_number_with_and_without_unit(spelled, value):
    assert parse_number(spelled, "x") == value


def test_word_mode_that_a_gpu_has_not_is_empty_and_an_error_is_unknown():
    assert parse_word("Enabled", "ecc") == "Enabled"
    assert parse_word("[N/A]", "ecc") == ""
    with pytest.raises(ValueError, match="nvidia-smi says"):
        parse_word("[Unknown Error]", "ecc")
    with pytest.raises(ValueError, match="nvidia-smi says"):
        parse_word("ERR!", "ecc")


def test_yes_words_counts_and_errors():
    assert [parse_yes(one, "x") for one in ("Yes", "No", "0", "3", "[N/A]")] == [
        True,
        False,
        False,
        True,
        False,
    ]
    with pytest.raises(ValueError, match="nvidia-smi says"):
        parse_yes("[Unknown Error]", "x")


def test_parse_rows_lines_of_other_lengths_are_no_rows():
    said = parse_rows(f"warning, x\n{LINE}, 1\n{LINE}, Yes, No, 0, 0, 0\n", REMAPPED_FIELDS, 0)
    assert list(said.rows) == [SLOT]
    assert said.rows[SLOT]["remapped_rows.pending"] == "Yes"


def test_health_errors_of_the_log_meet_what_the_driver_says_of_recovery():
    """A GPU that asks for no recovery was reset after an error of which its driver (580) would ask
    for one.
    """
    log = "NVRM: Xid (PCI:0000:1b:00): 95, pid=1, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No\n"
    for said, reported in (("None", 0), ("Reset", 1), ("[N/A]", 1)):
        row = smi_row(FIELDS[1], LINE, gpu_recovery_action=said)
        gpu = health_of({QUERIES[1]: row, REMAPPED: ""}, log).gpus[0]
        assert len(gpu.hardware_xids) == reported, said
    assert "nvidia-smi -r -i 0000:1b:00.0" in gpu.way_out


@pytest.mark.parametrize(
    ("said", "way"),
    [
        ("Reset", "nvidia-smi -r"),
        ("Reboot", "reboot"),
        ("Drain P2P", "talk to other GPUs"),
        ("New", "-r"),
    ],
)
def test_health_every_recovery_has_its_way_out(said, way):
    row = smi_row(FIELDS[1], LINE, gpu_recovery_action=said)
    assert way in health_of({QUERIES[1]: row, REMAPPED: ""}).gpus[0].way_out


def test_health_errors_of_switches():
    log = "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up\n"
    health = health_of({QUERIES[1]: smi_row(FIELDS[1], LINE), REMAPPED: ""}, log)
    assert health.switch_errors == ("NVSwitch 0000:06:00.0: SXid 20034 (LTSSM fault up, fatal)",)
    assert health.is_switch_fatal


def test_health_old_record_without_times_is_still_read():
    log = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n"
    gone = Unreadable(NeverAsked("not in this record: the answer of journalctl"))
    answers = {
        JOURNAL: gone,
        DMESG: gone,
        OLD_JOURNAL: log,
        QUERIES[1]: smi_row(FIELDS[1], LINE),
        REMAPPED: "",
    }
    assert health_of(answers).gpus[0].xids == (79,)


def test_health_with_mig_a_retired_row_may_wait_for_a_reset():
    """--query-remapped-rows answers [N/A] while MIG is on."""
    hidden = {f"remapped_rows_{name}": "[N/A]" for name in ("pending", "failure", "uncorrectable")}
    row = smi_row(FIELDS[1], LINE, mig_mode_current="Enabled", gpu_recovery_action="[N/A]")
    answers = {QUERIES[1]: row, REMAPPED: smi_row(REMAPPED_FIELDS, LINE, **hidden)}
    assert health_of(answers).gpus[0].retirement_pending is False
    log = "NVRM: Xid (PCI:0000:1b:00): 63, pid=1, Row Remapper: New row marked for remapping, reset gpu to activate.\n"
    with pytest.raises(UnknownFact, match="with MIG nvidia-smi does not tell"):
        _ = health_of(answers, log).gpus[0].retirement_pending


def test_newer_driver_is_asked_for_all_at_once():
    new = {"/sys/module/nvidia/version": "580.126.20\n", "/proc/driver/nvidia/version": "x"}
    row = smi_row(
        FIELDS[0], LINE, remapped_rows_pending="Yes", inforom_checksum_validation="invalid"
    )
    gpu = health_of({QUERIES[0]: row}, **new).gpus[0]
    assert (gpu.retirement_pending, gpu.remap_failed, gpu.rows_lost, gpu.worn_banks) == (
        True,
        False,
        0,
        0,
    )
    assert (gpu.inforom, gpu.is_sram_over, gpu.fabric_state, gpu.repairs) == (
        "invalid",
        False,
        "Completed",
        (),
    )
    refused = Completed(2, b'Field "fabric.status" is not a valid field to query.\n', b"")
    fields = tuple(name for name in FIELDS[0] if name != "fabric.status")
    assert (
        health_of({QUERIES[0]: refused, query_of(fields): smi_row(fields, LINE)}, **new)
        .gpus[0]
        .temperature_c
        == 31
    )


def test_driver_without_a_group_of_fields_is_still_asked_for_the_others():
    """As a 580 may be that knows no fabric: it names one field in each refusal."""
    new = {"/sys/module/nvidia/version": "580.126.20\n", "/proc/driver/nvidia/version": "x"}
    answers, left = {}, FIELDS[0]
    for group in ("fabric.", "remapped_rows."):
        first = next(name for name in left if name.startswith(group))
        answers[query_of(left)] = Completed(
            2, f'Field "{first}" is not a valid field to query.\n'.encode(), b""
        )
        left = tuple(name for name in left if not name.startswith(group))
    over = {
        "inforom_checksum_validation": "invalid",
        "ecc_errors_uncorrected_aggregate_sram_thresholdExceeded": "Yes",
    }
    answers[query_of(left)] = smi_row(left, LINE, **over)
    gpu = health_of(
        answers | {REMAPPED: smi_row(REMAPPED_FIELDS, LINE, remapped_rows_pending="Yes")}, **new
    ).gpus[0]
    assert (gpu.inforom, gpu.is_sram_over, gpu.retirement_pending) == ("invalid", True, True)


def test_driver_without_the_field_for_mig_tells_of_the_rest():
    gone = Completed(2, b'Field "mig.mode.current" is not a valid field to query.\n\n', b"")
    also = Completed(2, b'Field "mig.mode.pending" is not a valid field to query.\n\n', b"")
    one = tuple(name for name in FIELDS[1] if name != "mig.mode.current")
    none = tuple(name for name in one if name != "mig.mode.pending")
    hidden = {f"remapped_rows_{name}": "[N/A]" for name in ("pending", "failure", "uncorrectable")}
    answers = {
        QUERIES[1]: gone,
        query_of(one): also,
        query_of(none): smi_row(none, LINE),
        REMAPPED: smi_row(REMAPPED_FIELDS, LINE, **hidden),
    }
    gpu = health_of(answers).gpus[0]
    assert (gpu.remap_failed, gpu.retirement_pending, gpu.mig) == (False, False, "")


def test_older_record_holds_the_answer_to_the_older_question():
    new = {"/sys/module/nvidia/version": "580.126.20\n", "/proc/driver/nvidia/version": "x"}
    missing = Unreadable(NeverAsked("not in this record: the answer of nvidia-smi"))
    gpu = health_of(
        {QUERIES[0]: missing, QUERIES[1]: smi_row(FIELDS[1], LINE), REMAPPED: ""}, **new
    ).gpus[0]
    assert (gpu.temperature_c, gpu.inforom, gpu.is_sram_over, gpu.fabric_faults) == (
        31,
        "",
        False,
        (),
    )


def test_vgpu_is_not_asked_for_banks_of_its_memory_which_fills_the_kernel_log():
    new = {"/sys/module/nvidia/version": "580.126.20\n", "/proc/driver/nvidia/version": "x"}
    vgpu = {f"{PCI}/subsystem_vendor": "0x10de", f"{PCI}/subsystem_device": "0x1880"}
    missing = Unreadable(NeverAsked("not in this record: the answer of nvidia-smi"))
    fields = tuple(name for name in FIELDS[0] if name not in {FEW, NONE})
    live = health_of({query_of(fields): smi_row(fields, LINE)}, **new, **vgpu)
    kept = health_of(
        {query_of(fields): missing, QUERIES[0]: smi_row(FIELDS[0], LINE)}, **new, **vgpu
    )
    row = {QUERIES[1]: smi_row(FIELDS[1], LINE)}
    old = health_of(row | {OLD_REMAPPED: smi_row(OLD_REMAPPED_FIELDS, LINE)}, **vgpu)
    old_kept = health_of(
        row | {OLD_REMAPPED: missing, REMAPPED: smi_row(REMAPPED_FIELDS, LINE)}, **vgpu
    )
    for health, banks in ((live, -1), (kept, 0), (old, -1), (old_kept, 0)):
        gpu = health.gpus[0]
        assert (gpu.temperature_c, gpu.remap_failed, gpu.rows_lost, gpu.worn_banks) == (
            31,
            False,
            0,
            banks,
        )


ECC = """
==============NVSMI LOG==============

Attached GPUs                                          : 2
GPU 00000000:1B:00.0
    ECC Mode
        Current                                        : Enabled
    ECC Errors
        Channel Repair Pending                         : Yes
        TPC Repair Pending                             : No
        Unrepairable Memory                            : Yes
GPU 00000000:43:00.0
    ECC Errors
        Channel Repair Pending                         : No
        Unrepairable Memory                            : N/A
"""


def test_repairs_of_memory_are_told_from_branch_590_on():
    assert repairs_in(ECC) == {
        SLOT: ("Channel Repair Pending", "Unrepairable Memory"),
        "0000:43:00.0": (),
    }
    new = {"/sys/module/nvidia/version": "595.71.05\n", "/proc/driver/nvidia/version": "x"}
    row = smi_row(FIELDS[0], LINE)
    gpu = health_of({QUERIES[0]: row, REPAIRS: ECC}, **new).gpus[0]
    assert gpu.repairs == ("Channel Repair Pending", "Unrepairable Memory")
    assert health_of({QUERIES[1]: smi_row(FIELDS[1], LINE), REPAIRS: ECC}).gpus[0].repairs == ()
    assert health_of({QUERIES[0]: row}, **new).gpus[0].repairs == ()
    hangs = health_of(
        {QUERIES[0]: row, REPAIRS: Unreadable("nvidia-smi did not end within 30 s")}, **new
    ).gpus[0]
    with pytest.raises(UnknownFact, match="did not end"):
        _ = hangs.repairs


WARNING = "WARNING: infoROM is corrupted at gpu 0000:1B:00.0\n"


@pytest.mark.parametrize(
    "said",
    [
        Completed(14, f"{LINE}, 570.195.03, Enabled, NVIDIA H100\n{WARNING}".encode(), b""),
        Completed(0, f"{WARNING}{LINE}, 570.195.03, Enabled, NVIDIA H100\n".encode(), b""),
        Completed(14, f"{LINE}, 570.195.03, Enabled, NVIDIA H100\n".encode(), WARNING.encode()),
    ],
)
def test_health_inforom_of_an_older_driver_is_told_by_a_warning(said):
    health = health_of({QUERY: said, QUERIES[1]: smi_row(FIELDS[1], LINE), REMAPPED: ""})
    assert health.gpus[0].inforom == "corrupted"
    assert (health.gpus[0].silence, health.problem) == ("", "")


def test_health_inforom_that_is_corrupted_on_a_gpu_that_is_not_named_is_unknown():
    row = f"{LINE}, 570.195.03, Enabled, NVIDIA H100\n".encode()
    answers = {QUERIES[1]: smi_row(FIELDS[1], LINE), REMAPPED: ""}
    with pytest.raises(UnknownFact, match="ends with status 14"):
        _ = health_of({QUERY: Completed(14, row, b""), **answers}).gpus[0].inforom
    other = WARNING.replace("1B", "43").encode()
    assert health_of({QUERY: Completed(14, row + other, b""), **answers}).gpus[0].inforom == ""


@pytest.mark.parametrize("spelled", ["[N/A]", "N/A", "[Not Supported]"])
@pytest.mark.parametrize("place", [1, 3])
def test_health_gpu_without_reasons_for_its_clocks_is_not_held_down(spelled, place):
    name = FIELDS[place][-1].replace(".", "_") if place == 3 else "clocks_event_reasons_active"
    answers = dict.fromkeys(QUERIES[1:place], UNKNOWN_FIELD) | {
        QUERIES[place]: smi_row(FIELDS[place], LINE, **{name: spelled})
    }
    gpu = health_of(answers | {REMAPPED: ""}).gpus[0]
    assert (gpu.event_reasons, gpu.slowdowns, gpu.has_set_clocks) == (0, (), False)


def test_health_reasons_that_nvidia_smi_cannot_tell_are_unknown():
    row = smi_row(FIELDS[1], LINE, clocks_event_reasons_active="[Unknown Error]")
    with pytest.raises(UnknownFact, match="Unknown Error"):
        _ = health_of({QUERIES[1]: row, REMAPPED: ""}).gpus[0].slowdowns


def test_health_error_words_in_the_place_of_a_value():
    def of(**said):
        return health_of({QUERIES[1]: smi_row(FIELDS[1], LINE, **said), REMAPPED: ""}).gpus[0]

    assert of().breakdown == ""
    assert (
        of(
            power_draw="[N/A]",
            utilization_gpu="[Not Supported]",
            temperature_gpu="[Insufficient Permissions]",
        ).breakdown
        == ""
    )
    reset = of(temperature_gpu="[GPU requires reset]", power_draw="[Unknown Error]")
    assert reset.breakdown == "nvidia-smi says [GPU requires reset] of temperature.gpu"
    assert "nvidia-smi -r -i 0000:1b:00.0" in reset.way_out
    assert "power the host off and on" in of(power_draw="[GPU is lost]").way_out
    for spelled in ("[Unknown Error]", "ERR!"):
        with pytest.raises(UnknownFact, match=r"of temperature\.gpu, power\.draw"):
            _ = of(temperature_gpu=spelled, power_draw=spelled).breakdown


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            Completed(15, b"", b"Unable to determine the device handle"),
            "Unable to determine the device handle",
        ),
        (Completed(0, b"", b""), "nothing printed"),
        (f"GPU {OTHER[:16]}\n        Unrepairable Memory       : No\n", "and not of this one"),
        (f"GPU {LINE}\n        Unrepairable Memory       : [Unknown Error]\n", "Unknown Error"),
    ],
)
def test_repairs_that_are_asked_for_and_not_told_are_unknown_and_not_none(said, why):
    new = {
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.71.05  x\n",
        "/sys/module/nvidia/version": "595.71.05\n",
    }
    with pytest.raises(UnknownFact, match=why):
        _ = health_of({QUERIES[0]: smi_row(FIELDS[0], LINE), REPAIRS: said}, **new).gpus[0].repairs
    sound = f"GPU {LINE}\n        Unrepairable Memory       : N/A\n        TPC Repair Pending       : No\n"
    assert (
        health_of({QUERIES[0]: smi_row(FIELDS[0], LINE), REPAIRS: sound}, **new).gpus[0].repairs
        == ()
    )
    assert health_of({QUERIES[0]: smi_row(FIELDS[0], LINE)}, **new).gpus[0].repairs == ()


LISTED = "GPU 0: NVIDIA H100 (UUID: GPU-(masked))\n"
DEVICES = "  MIG 1c.3g.40gb  Device  0: (UUID: MIG-(masked))\n  MIG 1g.10gb+me  Device  1: (UUID: MIG-GPU-1/7/0)\n"
MIG = {QUERIES[1]: smi_row(FIELDS[1], LINE, mig_mode_current="Enabled", mig_mode_pending="Enabled")}


def test_mig_devices_are_counted_below_the_gpu_that_they_are_of():
    warned = f"{LISTED}WARNING: infoROM is corrupted at gpu 0000:1B:00.0\n\n"
    assert mig_devices_in(f"{warned}GPU 1: NVIDIA H100 (UUID: x)\n{DEVICES}") == {0: 0, 1: 2}
    assert mig_devices_in(f"{LISTED}{DEVICES}Unable to query a device\n") == {0: 2}
    assert mig_devices_in(f"{LISTED}Unable to query a device\nGPU 1: x\n") == {0: None, 1: 0}
    assert mig_devices_in(f"{LISTED}Unable to query a device\n{DEVICES}") == {0: 2}
    assert mig_devices_in("No devices found.\n") == {}


@pytest.mark.parametrize(("said", "count"), [(LISTED, 0), (f"{LISTED}{DEVICES}", 2)])
def test_mig_devices_of_a_gpu_in_mig_mode(said, count):
    assert health_of(MIG | {LIST: said}).gpus[0].mig_devices == count


def test_no_mig_devices_are_none_for_root_alone():
    with pytest.raises(UnknownFact, match="ask as root"):
        _ = health_of(MIG | {LIST: LISTED}, is_privileged=False).gpus[0].mig_devices


@pytest.mark.parametrize("mode", [{"mig_mode_pending": "Enabled"}, {"mig_mode_current": "[N/A]"}])
def test_mig_devices_are_not_asked_for_where_no_gpu_is_in_mig_mode(mode):
    row = smi_row(FIELDS[1], LINE, **mode)
    seen = health_of({QUERIES[1]: row, LIST: Unreadable("it would take its time")})
    assert seen.gpus[0].mig_devices == -1


def test_mig_devices_are_not_told_by_an_older_record_nor_in_a_guest_nor_where_they_are_lent():
    missing = Unreadable(NeverAsked("not in this record: the answer of nvidia-smi"))
    vgpu = {f"{PCI}/subsystem_vendor": "0x10de", f"{PCI}/subsystem_device": "0x1880"}
    lends = {"/sys/module/nvidia_vgpu_vfio/refcnt": "1\n"}
    job = {"/proc/self/cgroup": "0::/system.slice/slurmstepd.scope/slurm/uid_1000/job_7/step_0\n"}
    guest = MIG | {LIST: LISTED, OLD_REMAPPED: smi_row(OLD_REMAPPED_FIELDS, LINE)}
    for health in (
        health_of(MIG | {LIST: missing}),
        health_of(guest, **vgpu),
        health_of(MIG | {LIST: LISTED}, **lends),
        health_of(MIG | {LIST: LISTED}, **job),
    ):
        assert health.gpus[0].mig_devices == -1
    assert health_of(MIG | {LIST: f"{LISTED}{DEVICES}"}, **lends).gpus[0].mig_devices == 2


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Unreadable("nvidia-smi did not end within 30 s"), "did not end"),
        (
            Completed(15, b"Unable to determine the device handle\n", b""),
            "Unable to determine the device handle",
        ),
        (Completed(0, b"", b""), "nothing printed"),
        ("GPU 1: NVIDIA H100 (UUID: x)\n", "does not tell of MIG devices"),
        (f"{LISTED}  MIG devices: ERR!\n", "of the MIG devices of this GPU"),
    ],
)
def test_mig_devices_that_are_asked_for_and_not_told_are_unknown_and_not_none(said, why):
    with pytest.raises(UnknownFact, match=why):
        _ = health_of(MIG | {LIST: said}).gpus[0].mig_devices


def test_word_of_an_error_in_the_status_of_the_fabric_is_no_doubt_about_the_gpu():
    new = {"/sys/module/nvidia/version": "580.126.20\n", "/proc/driver/nvidia/version": "x"}

    def of(**said):
        return health_of({QUERIES[0]: smi_row(FIELDS[0], LINE, **said)}, **new).gpus[0]

    assert of(fabric_status="Insufficient Resources").breakdown == ""  # gpu-nvlink reports it
    assert "requires reset" in of(fabric_status="[GPU requires reset]").breakdown
    with pytest.raises(UnknownFact, match=r"power\.draw"):
        _ = of(
            fabric_status="Insufficient Resources", power_draw="Insufficient Resources"
        ).breakdown
