"""Genuine outputs of `ubuntu-drivers`, and what chance makes of them: nothing is ever read that was
not offered.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosttune.facts.gpu.candidates import describe_refusal, merge, parse_devices
from hosttune.host.door import Completed
from hosttune.host.reading.ubuntu_drivers import parse_list, parse_sections
from tests.unit.test_facts_candidates import GPU, LISTED, NOISE, OLD, PLUGIN, WIFI

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "samples" / "ubuntu-drivers"
GENUINE = {
    path.name: path.read_text(encoding="utf-8")
    for path in (sorted(FOLDER.glob("*.txt")) if FOLDER.is_dir() else ())
    if not path.name.endswith(".err.txt")
}
needs_samples = pytest.mark.skipif(
    not GENUINE, reason="the genuine outputs lie beside a development checkout only"
)
# Where the checkout has none beside it, the made-up ones of the same formats.
DEVICES = {name: text for name, text in GENUINE.items() if "devices" in name or name.startswith("public")} or {
    "gpu": GPU, "old": OLD, "plugin": PLUGIN + GPU, "wifi": GPU + WIFI,
}  # fmt: skip
LISTS = {name: text for name, text in GENUINE.items() if "-list-gpgpu-dkms" in name} or {
    "list": LISTED
}
OTHERS = {
    name: text for name, text in GENUINE.items() if "install" in name or "recommended" in name
}
NVIDIA = re.compile(r"^driver   : (nvidia-\S+) - ", re.MULTILINE)
STDERR = (
    *NOISE.splitlines(),
    "Traceback (most recent call last):",
    '  File "/usr/share/ubuntu-drivers-common/detect/sl-modem.py", line 40, in detect',
    "WARNING:root:_pkg_get_support nvidia-driver-390: package has invalid Support Legacyheader, cannot determine support level",
    "nvidia-driver-999-open",  # a name that stands in no driver line is no offer of `devices`
    "driver   : nvidia-driver-998",
    "",
)


def names(candidates) -> set[str]:
    return {candidate.name for candidate in candidates}


@needs_samples
@pytest.mark.parametrize("name", sorted(DEVICES))
def test_parse_devices_reads_every_offer_of_a_genuine_output(name):
    found = parse_devices(DEVICES[name])
    assert names(found) == set(NVIDIA.findall(DEVICES[name]))
    marked = re.findall(r"^driver   : (nvidia-\S+) - .*\brecommended$", DEVICES[name], re.MULTILINE)
    assert [one.name for one in found if one.is_recommended] == sorted(set(marked))
    third = re.findall(r"^driver   : (nvidia-\S+) - third-party", DEVICES[name], re.MULTILINE)
    assert {one.name for one in found if one.is_third_party} == set(third)
    assert describe_refusal(Completed(0, DEVICES[name].encode(), b"")) == ""


@needs_samples
@pytest.mark.parametrize("name", sorted(LISTS))
def test_parse_list_reads_every_line_of_a_genuine_output(name):
    found = parse_list(LISTS[name])
    assert len(found) == len(LISTS[name].splitlines())
    assert all(
        provider.startswith(("linux-modules-nvidia-", "nvidia-dkms-"))
        for provider in found.values()
    )


@needs_samples
@pytest.mark.parametrize("name", sorted(OTHERS))
def test_what_other_commands_print_is_no_offer(name):
    assert parse_devices(OTHERS[name]) == ()
    assert parse_list(OTHERS[name]) == {}


@needs_samples
@pytest.mark.parametrize("release", ["jammy", "noble", "master"])
@pytest.mark.parametrize("gpu", ["a100", "gtx1080", "h100x8", "none"])
def test_merge_of_genuine_outputs_names_the_modules_of_each(release, gpu):
    listed = parse_list(GENUINE[f"{release}-list-gpgpu-dkms-{gpu}.txt"])
    found = merge(parse_devices(GENUINE[f"{release}-devices-{gpu}.txt"]), listed)
    assert {one.name: one.modules for one in found if one.modules} == listed
    assert bool(found) is (gpu != "none")


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(DEVICES)),
    st.randoms(use_true_random=False),
    st.sets(st.sampled_from(["vendor", "model", "modalias", "manual_install"])),
    st.lists(st.sampled_from(STDERR), max_size=6),
    st.booleans(),
)
def test_parse_devices_bears_shuffled_lines_missing_fields_plugins_and_noise(
    name, chance: random.Random, gone, noise, plugin
):
    """Within a section the lines come in any order; between them whatever a terminal mixed in."""
    text = (PLUGIN + WIFI if plugin else "") + DEVICES[name]
    sections = re.split(r"(?m)^(?=== )", text)
    chance.shuffle(sections)
    lines: list[str] = []
    for section in filter(str.strip, sections):
        head, *body = section.splitlines()
        kept = [line for line in body if not line.startswith(tuple(gone) or ("\0",))]
        chance.shuffle(kept)
        for line in noise:
            kept.insert(chance.randrange(len(kept) + 1), line)
        lines += [head, *kept] if head.startswith("== ") else [*kept, head]
    found = parse_devices("\n".join(lines) + "\n")
    assert found == parse_devices(DEVICES[name])
    if not gone:
        kinds = {section.is_nvidia for section in parse_sections("\n".join(lines))}
        assert kinds <= {section.is_nvidia for section in parse_sections(text)}


@settings(max_examples=150)
@given(st.sampled_from(sorted({**DEVICES, **LISTS})), st.data())
def test_a_truncated_output_names_nothing_that_was_not_offered(name, data):
    text = {**DEVICES, **LISTS}[name]
    cut = text[: data.draw(st.integers(0, len(text)))]
    whole = {one.name: one for one in parse_devices(text)}
    for found in parse_devices(cut):
        assert found.name in whole
        assert found.is_recommended <= whole[found.name].is_recommended
    listed = parse_list(text)
    for package, provider in parse_list(cut).items():
        assert listed[package] == provider


@pytest.mark.parametrize("size", range(len(LISTED) + 1))
def test_parse_list_of_every_beginning_of_an_output(size):
    whole = parse_list(LISTED)
    assert parse_list(LISTED[:size]).items() <= whole.items()


@given(
    st.lists(st.sampled_from([*STDERR, *GPU.splitlines(), *LISTED.splitlines()])), st.integers(0, 3)
)
def test_refusal_and_parsers_bear_any_lines(lines, status):
    text = "\n".join(lines)
    answer = Completed(status, text.encode(), "\n".join(STDERR).encode())
    assert isinstance(describe_refusal(answer), str)
    if parse_devices(text):
        assert describe_refusal(answer) == ""
