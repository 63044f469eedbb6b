"""The words that nvidia-smi has in the place of a value mean the same to every reader of its
output.
"""

from __future__ import annotations

import pytest

from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.health_smi import error_words, find_dead_word, parse_number, parse_word
from hosttune.facts.gpu.licence import states_in
from hosttune.facts.gpu.nvidia_lost import silent_gpus
from hosttune.facts.gpu.nvidia_smi import parse_smi
from hosttune.facts.gpu.smi_words import SmiWord, asks_for_reset, word_of, worst_of
from hosttune.measure.gpu.smi_rows import FIELDS, SmiTable

LOST = ("[GPU is lost]", "GPU is lost", "[GPU is lost.  Reboot the system to recover this GPU]")
RESET = ("[GPU requires reset]", "[GPU requires restart]", "[Gpu Requires Restart]")
# nvmlErrorString of what says nothing of the GPU's state.
ERRORS = (
    "[Unknown Error]", "Unknown Error", "ERR!", "[ERR!]", "[Uninitialized]", "[Invalid Argument]", "[Not Found]",
    "[Timeout]", "[Driver Not Loaded]", "[Corrupted infoROM]", "[In use by another client]", "[Insufficient Memory]",
    "[Insufficient Resources]", "[No data]", "[Invalid State]", "[RM has detected an NVML/RM version mismatch.]",
    "[a word of next year]",
)  # fmt: skip
ABSENT = ("[N/A]", "N/A", "[Not Supported]", "[Requested functionality has been deprecated]")
DENIED = (
    "[Insufficient Permissions]",
    "Insufficient Permissions",
    "[The operating system has blocked the request.]",
)
VALUES = (
    "Enabled",
    "580.126.20",
    "0x0000000000000001",
    "NVIDIA H100 80GB HBM3",
    "Default",
    "GRID T4-16Q",
    "0",
    "",
)
SLOT, OTHER = "0000:1b:00.0", "0000:43:00.0"
WELL = "00000000:43:00.0, 580.126.20, Enabled, NVIDIA H100 80GB HBM3\n"
COLUMNS = ("580.126.20", "Enabled", "NVIDIA H100 80GB HBM3")


@pytest.mark.parametrize(
    ("spelled", "means"),
    [(one, SmiWord.LOST) for one in LOST] + [(one, SmiWord.RESET) for one in RESET] + [(one, SmiWord.ERROR) for one in ERRORS]
    + [(one, SmiWord.ABSENT) for one in ABSENT] + [(one, SmiWord.DENIED) for one in DENIED] + [(one, SmiWord.VALUE) for one in VALUES],
)  # fmt: skip
def test_word_of(spelled, means):
    assert word_of(spelled) is means
    assert word_of(f" {spelled} ") is means


def silent(row):
    return silent_gpus(parse_smi(row + WELL, 0), (), (SLOT, OTHER), (SLOT, OTHER), "")


@pytest.mark.parametrize("column", range(3))
@pytest.mark.parametrize("error", LOST + RESET + ERRORS + DENIED)
def test_no_column_hides_an_error(error, column):
    """The version is the driver's: a row of a GPU that is gone can have it."""
    cells = [*COLUMNS[:column], error, *COLUMNS[column + 1 :]]
    row = f"00000000:1B:00.0, {', '.join(cells)}\n"
    if error in DENIED and column == 1:  # the name is there, and the mode alone is not told
        assert silent(row) == ()
        with pytest.raises(UnknownFact):
            _ = parse_smi(row, 0).gpus[0].persistence
        return
    (found,) = silent(row)
    assert found.slot == SLOT
    is_unclear = error in DENIED or (error in ERRORS and column == 1)
    assert (found.sign == "not known") is is_unclear
    assert error.strip("[]")[:9] in found.why or error in DENIED
    assert (found.action == "RESET_GPU") is (error in RESET)


def test_gpu_without_a_name_does_not_answer():
    assert [one.sign for one in silent("00000000:1B:00.0, 580.126.20, [N/A], [N/A]\n")] == ["smi"]
    assert silent("00000000:1B:00.0, 580.126.20, [N/A], NVIDIA A10G\n") == ()


@pytest.mark.parametrize("error", LOST + RESET + ERRORS[:2])
def test_error_of_a_gpu_without_its_address(error):
    row = f"{error}, 580.126.20, {error}, {error}\n"
    assert [one.sign for one in silent(row)] == ["left out"]
    with pytest.raises(UnknownFact, match="and not of which"):
        silent_gpus(parse_smi(row + WELL, 0), (), (OTHER,), (OTHER,), "")
    assert parse_smi(row, 0).refusal == ("gpu lost" if error in LOST + RESET else "other")


@pytest.mark.parametrize("error", LOST + RESET + ERRORS)
def test_error_is_no_value_of_a_gpus_health(error):
    assert (
        find_dead_word({"pci.bus_id": "x", "temperature.gpu": error, "memory.used": error}) == error
    )
    assert error_words({"temperature.gpu": error, "memory.used": "1"}) == {
        error: ("temperature.gpu",)
    }
    for read in (parse_word, parse_number):
        with pytest.raises(ValueError, match="of ecc"):
            read(error, "ecc")


@pytest.mark.parametrize("column", range(3, len(FIELDS) - 1))
@pytest.mark.parametrize("error", LOST + RESET + ERRORS)
def test_error_is_no_value_of_a_watched_gpu(error, column):
    table = SmiTable()
    table.feed(", ".join(FIELDS))
    cells = [
        "0",
        "GPU-1",
        "00000000:1B:00.0",
        "5",
        "10",
        "20",
        "70.00",
        "700.00",
        "345",
        "0x1",
        "Disabled",
        "NVIDIA H100",
    ]
    cells[column] = error
    assert table.feed(", ".join(cells)) == 0
    sample = table.rows[0].sample
    assert sample.lost is (error in LOST + RESET)
    assert error not in map(
        str, (sample.util_percent, sample.power_w, sample.memory_used_bytes, sample.name)
    )


SLOT = "0000:1b:00.0"


def test_name_of_a_process_says_nothing_of_a_licence():
    """nvidia-smi -q prints the names of programs on the GPU, which users choose, with line
    breaks.
    """
    said = (
        "GPU {}\n    vGPU Software Licensed Product\n        License Status                    : Licensed\n"
        "    Processes\n        Process ID                        : 4711\n            Name                          : {}\n"
    )
    evil = "x\n    vGPU Software Licensed Product\n        License Status                    : Unlicensed (Restricted)"
    first, second = "00000000:1B:00.0", "00000000:1C:00.0"
    both = [SLOT, "0000:1c:00.0"]

    assert states_in(said.format(first, evil) + said.format(second, "python"), both) == (
        "Licensed",
    )
    assert states_in(said.format(first, f"x\nGPU 00000000:FF:00.0\n{evil}"), both) == ("Licensed",)
    forged = said.format(first, f"x\nGPU {second}\n{evil}") + said.format(second, "python")
    with pytest.raises(UnknownFact, match=r"0000:1c:00\.0 twice"):
        states_in(forged, both)


def test_error_in_the_place_of_a_licence_is_no_licence():
    said = "GPU 00000000:1B:00.0\n    vGPU Software Licensed Product\n        License Status        : {}\n"
    assert states_in(said.format("N/A"), [SLOT]) == ()
    assert states_in(said.format("Licensed (Expiry: 2027-1-1)"), [SLOT]) == (
        "Licensed (Expiry: 2027-1-1)",
    )
    with pytest.raises(UnknownFact, match="says Unknown Error of a licence"):
        states_in(said.format("Unknown Error"), [SLOT])


def test_sentences_that_ask_for_a_reset():
    assert asks_for_reset("does not answer nvidia-smi: GPU requires restart")
    assert asks_for_reset("nvidia-smi says [GPU requires reset] of temperature.gpu")
    assert not asks_for_reset(
        "does not answer nvidia-smi: GPU is lost.  Reboot the system to recover this GPU"
    )
    assert worst_of(("[N/A]", "[Unknown Error]", "[GPU is lost]", "7")) == "[GPU is lost]"
    assert worst_of(("[N/A]", "7")) == ""
