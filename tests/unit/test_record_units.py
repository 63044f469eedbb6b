"""Units in a record answer to whoever asks for them, whatever was asked together when it was
made.
"""

import pytest

from hosttune.actions.record import commands as record_commands
from hosttune.facts import UnknownFact
from hosttune.facts.services.units import read_units, show_command
from hosttune.host.record.record import RecordReader
from hosttune.host.record.units import assemble_answer


def block(name, state, names=""):
    return f"Id={name}\nNames={names or name}\nLoadState=loaded\nActiveState={state}\n"


def answer(argv, stdout):
    return {"argv": list(argv), "status": 0, "stdout": stdout, "stderr": ""}


QUERIES = {
    show_command(("a.service", "b.timer")): answer(
        (), block("a.service", "active") + "\n" + block("b.timer", "failed")
    ),
    show_command(("c.service",)): answer(
        (), block("real.service", "active", "c.service real.service")
    ),
    ("systemctl", "show", "--property=Id", "--", "d.service"): answer((), "Id=d.service\n"),
    show_command(("e.service",)): {"argv": [], "absent": True},
}


def record():
    queries = [{**entry, "argv": list(argv)} for argv, entry in QUERIES.items()]
    data = {
        "format_version": 1, "kind": "hosttune record", "tool_version": "0", "made_at": 0.0, "name": "x", "machine": "",
        "privileged": True, "persistent_only": False, "shared": False, "queries": queries,
        "stats": {"/run/systemd/system": ["directory", 493, 0, 0, 0, 0, 1, 1, 1, 0]},
    }  # fmt: skip
    return RecordReader(data)


def test_units_asked_for_apart_answer_together():
    units = read_units(record(), ("a.service", "c.service"))
    assert (units["a.service"].active_state, units["c.service"].active_state) == (
        "active",
        "active",
    )


def test_unit_that_nobody_asked_about_is_not_in_the_record():
    with pytest.raises(UnknownFact, match="not in this record"):
        read_units(record(), ("z.service",))
    assert assemble_answer(QUERIES, show_command(("e.service",))) is None


def test_other_options_and_other_programs_are_not_mixed_in():
    assert assemble_answer(QUERIES, show_command(("d.service",))) is None
    assert assemble_answer(QUERIES, ("uname", "-m")) is None


def test_line_of_many_kernel_values_is_kept_in_time_that_grows_with_it():
    """Each value is joined once: of a user's line of 500 KiB the whole row was split and joined
    anew for each.
    """
    joined = []

    class Row(str):
        __slots__ = ()

        def split(self, *words):
            joined.append(len(self))
            return super().split(*words)

    values = "; ".join(f"sysctl -w vm.a{number}=1" for number in range(2000))
    rows = record_commands._merge_rows(
        [Row("first")], [(1, f"value {number}") for number in (*range(2000), 0)]
    )
    assert rows == ["; ".join(["first", *(f"value {number}" for number in range(2000))])]
    assert joined == [5]
    assert record_commands.short_job(values, "script").count("sysctl -w") == 2000
