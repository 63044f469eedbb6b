"""Every built-in rule is complete, typed against the facts, and named as the conventions say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hosttune.engine.decide.evaluate import evaluate, subject_of
from hosttune.engine.rules import lint
from hosttune.engine.rules.catalog import RULES_FOLDER, builtin_catalog, load_catalog
from hosttune.engine.rules.compiled import builtin_documents
from hosttune.engine.rules.lint import checked_rule, rule_faults
from hosttune.engine.rules.profile import build_profile, resolve_profiles
from hosttune.engine.rules.rule import Status, build_rule, choice_module
from hosttune.engine.rules.shapes import profile_faults
from hosttune.engine.rules.yamlio import load_document
from hosttune.errors import MOST_FAULTS, BadInput, HosttuneError
from hosttune.facts import Facts
from hosttune.values import Verdict
from tests.unit.fake_reader import FakeReader

DOCUMENTS = {document.name: document for document in builtin_documents()}
RULES = sorted(name for name in DOCUMENTS if name.startswith("rules/"))
MOST_OF_A_TITLE = 50  # characters


CLAIMS = (
    "is are was were be been has have had do does can may must should will there that what which agree complain fit get"
    " keep know need reach report run see stay work no not nothing all every each enough any"
)  # verbs, and words of a claim


@pytest.mark.parametrize("rule", builtin_catalog().rules.values(), ids=lambda rule: rule.id)
def test_title_is_a_noun_phrase_for_what_is_judged_because_it_is_printed_beside_faults(rule):
    words = rule.title.lower().replace(",", " ").split()
    found = [one for one in words if {one, one.removesuffix("s")} & set(CLAIMS.split())]
    assert not found, rule.title
    assert len(rule.title) <= MOST_OF_A_TITLE
    assert not rule.title.endswith((".", "?"))


def test_titles_are_different():
    titles = [rule.title for rule in builtin_catalog().rules.values()]
    assert len(set(titles)) == len(titles)


def test_a_rule_names_the_units_of_its_choice_so_that_a_start_need_not_import_it():
    chosen = [rule for rule in builtin_catalog().rules.values() if rule.choice]
    units = {rule.id: set(getattr(choice_module(rule.choice), "UNITS", ())) for rule in chosen}
    assert any(units.values())
    assert all(units[rule.id] <= rule.units for rule in chosen)


GOOD = """\
id: memory-example
title: An example
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: because
sources: [sysctl(8)]
params:
  value: {type: int, default: 10, minimum: 1, maximum: 100, help: The value}
want:
  - sysctl: vm.swappiness
    at_most: "{{ params.value }}"
"""


def custom(contents):
    """A host with these files in its folder of rules."""
    files = {
        f"{RULES_FOLDER}/site-a{number}.yaml": content.encode()
        for number, content in enumerate(contents)
    }
    return FakeReader(files)


def test_custom_rules_are_checked_until_there_are_too_many_faults(monkeypatch):
    checked = []
    monkeypatch.setattr(
        lint, "checked_rule", lambda text, name: checked.append(name) or checked_rule(text, name)
    )
    with pytest.raises(BadInput, match="more faults"):
        load_catalog(custom(["id: Not Kebab\n"] * 500))
    assert len(checked) <= MOST_FAULTS + 1


def test_custom_rules_have_a_limit_together():
    rules = [
        GOOD.replace("memory-example", f"site-a{number}") + f"# {'x' * (1 << 19)}\n"
        for number in range(9)
    ]
    assert "site-a6" in load_catalog(custom(rules[:7])).rules
    with pytest.raises(BadInput, match="larger than 4 MiB"):
        load_catalog(custom(rules))


@pytest.mark.parametrize("name", RULES)
def test_builtin_rule_has_no_faults(name):
    assert [str(fault) for fault in rule_faults(DOCUMENTS[name])] == []


@pytest.mark.parametrize("name", RULES)
def test_builtin_rule_lies_in_the_folder_of_its_domain(name):
    data = DOCUMENTS[name].data
    assert name == f"rules/{data['id'].partition('-')[0]}/{data['id']}.yaml"


@pytest.mark.parametrize("name", ["train-single", "train-multinode", "slurm-node"])
def test_profile_has_what_base_has_and_the_update_hold(name):
    profiles = builtin_catalog().profiles
    assert set(profiles[name].rules) >= {*profiles["base"].rules, "gpu-update-hold"}


PROFILES = sorted(name for name in DOCUMENTS if name.startswith("profiles/"))


@pytest.mark.parametrize("name", PROFILES)
def test_profile_has_no_faults_and_its_file_is_named_for_it(name):
    assert [str(fault) for fault in profile_faults(DOCUMENTS[name], builtin_catalog())] == []
    assert name == f"profiles/{DOCUMENTS[name].data['id']}.yaml"


def test_profile_runs_stable_rules_that_expose_nothing_in_base():
    catalog = builtin_catalog()
    for profile in catalog.profiles.values():
        assert {catalog.rules[rule].status for rule in profile.rules} <= {
            Status.STABLE,
            Status.DEPRECATED,
        }, profile.id
    assert [rule for rule in catalog.profiles["base"].rules if catalog.rules[rule].exposes] == []


def test_every_stable_rule_is_in_a_profile_or_left_to_policies():
    catalog = builtin_catalog()
    stable = {rule.id for rule in catalog.rules.values() if rule.status is Status.STABLE}
    in_profiles = {rule for profile in catalog.profiles.values() for rule in profile.rules}
    assert stable - in_profiles == {"kernel-init-on-alloc", "memory-dirty-limits"}


def test_profiles_are_the_eight_and_extend_each_other():
    profiles = builtin_catalog().profiles
    assert {name: profile.extends for name, profile in profiles.items()} == {
        "base": "",
        "cloud-vm": "base",
        "inference-latency": "base",
        "k8s-node": "base",
        "slurm-node": "train-multinode",
        "train-multinode": "train-single",
        "train-single": "base",
        "workstation": "base",
    }
    assert {*profiles["base"].rules, "gpu-update-hold"} <= set(profiles["slurm-node"].rules)
    assert "memory-swappiness" not in profiles["k8s-node"].rules
    assert profiles["inference-latency"].params["memory-swappiness"] == {"value": 1}


def profile(text: str):
    return build_profile(load_document(text, "profiles/x.yaml"))


def test_profile_takes_over_rules_and_params_and_leaves_out():
    profiles = resolve_profiles(
        {
            "a": profile(
                "{id: a, title: a, why: a, rules: [x-one, x-two], params: {x-one: {value: 1, other: 2}}}"
            ),
            "b": profile(
                "{id: b, title: b, why: b, extends: a, rules: [x-three], without: [x-two]}"
            ),
            "c": profile(
                "{id: c, title: c, why: c, extends: b, rules: [x-two], params: {x-one: {value: 3}}}"
            ),
        }
    )
    assert profiles["b"].rules == ("x-one", "x-three")
    assert profiles["c"].rules == ("x-one", "x-three", "x-two")
    assert profiles["b"].params == {"x-one": {"value": 1, "other": 2}}
    assert profiles["c"].params == {"x-one": {"value": 3, "other": 2}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("extends: base", "extends: bass", "x.yaml:4: extends: no profile is called bass"),
        ("[memory-swappiness]", "[memory-swapiness]", "did you mean memory-swappiness"),
        ("{value: 5}", "{value: 99}", "above the maximum"),
        ("{value: 5}", "{valeu: 5}", "unknown parameter"),
        (
            "[memory-swappiness]",
            "[{rule: memory-swappiness, until: '2026.1'}]",
            "rules[0]: must be a text",
        ),
        ("extends: base", "extend: base", "unknown key"),
    ],
)
def test_profile_fault_names_the_line_and_the_way_out(old, new, expected):
    text = "id: x\ntitle: x\nwhy: x\nextends: base\nrules: [memory-swappiness]\nparams:\n  memory-swappiness: {value: 5}\n"
    faults = profile_faults(
        load_document(text.replace(old, new), "profiles/x.yaml"), builtin_catalog()
    )
    assert expected in "\n".join(map(str, faults))


def test_names_of_the_past_are_nobodys_now_and_lead_to_a_rule():
    catalog = builtin_catalog()
    for rule in catalog.rules.values():
        assert not set(rule.renamed_from) & set(catalog.rules), rule.id
        assert not rule.replaced_by or rule.replaced_by in catalog.rules, rule.id
        assert not rule.replaces, f"{rule.id}: only a custom rule replaces one"


def faults_of(text: str) -> list[str]:
    with pytest.raises(BadInput) as caught:
        checked_rule(text, "memory-example.yaml")
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("memory.sold_bytes", "is not a yes-or-no question"),
        ("'a'", "is not a yes-or-no question"),
        (
            "starts_with(params.value, '1')",
            "starts_with does not take int",
        ),  # by the type that the rule gives it
        ("params.valeu > 1", "valeu"),
    ],
)
def test_condition_that_cannot_be_answered_is_a_fault_before_the_rule_runs(condition, says):
    (fault,) = faults_of(GOOD + f'applies_when:\n  - {{if: "{condition}", else: no}}\n')
    assert says in fault
    checked_rule(
        GOOD + "applies_when:\n  - {if: params.value > 1, else: no}\n", "memory-example.yaml"
    )


def test_rule_good_builds():
    rule = checked_rule(GOOD, "memory-example.yaml")
    assert (rule.id, rule.domain, rule.defaults) == ("memory-example", "memory", {"value": 10})
    assert rule.subjects == frozenset()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("risk: low", "risk: tiny", "memory-example.yaml:3: risk: 'tiny' is not one of the choices"),
        ("id: memory-example", "id: memory-other", "the file is called memory-example"),
        ("sysctl: vm.swappiness", "sysctl: '{{ memroy.total_bytes }}'", "did you mean memory"),
        ('at_most: "{{ params.value }}"', "at_mots: 3", "memory-example.yaml:13: want[0].at_mots: unknown key"),
        ("params.value }}", "params.valeu }}", "params"),
        ("default: 10", "default: 1000", "above the maximum"),
        ("default: 10", "default: ten", "not of type int"),
        ("sources: [sysctl(8)]\n", "", "sources: is missing"),
        ("since:", "why: twice\nsince:", "given twice"),
    ],
)  # fmt: skip
def test_rule_fault_names_the_line_and_the_way_out(old, new, expected):
    assert expected in "\n".join(faults_of(GOOD.replace(old, new)))


def test_rule_with_many_faults_reports_all_at_once():
    text = GOOD.replace("risk: low", "risk: tiny").replace(
        "disturbs: nothing", "disturbs: everybody"
    )
    assert len(faults_of(text.replace("gain: none", "gian: none"))) >= 3


def test_rule_named_for_an_act_is_refused():
    with pytest.raises(BadInput, match="names an act"):
        checked_rule(
            GOOD.replace("memory-example", "memory-set-swappiness"), "memory-set-swappiness.yaml"
        )


LISTED = GOOD.replace(
    'want:\n  - sysctl: vm.swappiness\n    at_most: "{{ params.value }}"\n',
    'want:\n  - packages: [git, "{{ os.id }}-tools"]\n    state: installed\n',
)


def test_list_of_names_is_evaluated_item_by_item():
    rule = checked_rule(LISTED, "memory-example.yaml")
    assert "os" in rule.subjects
    assert rule.want[0].name.evaluate({"os": SimpleNamespace(id="debian")}) == (
        "git",
        "debian-tools",
    )


def test_expression_in_a_list_is_checked():
    (fault,) = faults_of(LISTED.replace("os.id", "os.idd"))
    assert "idd" in fault
    assert "id" in fault


def test_rule_sees_the_data_mounts_of_the_policy():
    text = GOOD.replace("want:", "for_each: policy.data_mounts\nwant:")
    rule = checked_rule(text, "memory-example.yaml")
    assert rule.subjects == frozenset()
    assert "targett" in faults_of(text.replace("{{ params.value }}", "{{ item.targett }}"))[0]


@pytest.mark.parametrize(
    ("fields", "called"),
    [
        (("path", "name", "slot", "target"), "the target"),
        (("path", "name", "slot"), "the slot"),
        (("path", "name"), "the name"),
        (("path",), "the path"),
    ],
)
def test_item_is_called_by_its_target_slot_name_or_path(fields, called):
    item = type("Item", (), {name: f"the {name}" for name in fields})()
    assert subject_of(item) == called
    assert subject_of("a key") == "a key"


def test_round_does_not_compute_with_millions_of_digits():
    rule = checked_rule(
        GOOD.replace('at_most: "{{ params.value }}"', 'exactly: "{{ round(5, -30000000) }}"'),
        "memory-example.yaml",
    )
    assert rule.want[0].bounds[0][1].evaluate({}) == 0


@pytest.mark.parametrize("value", ["ten", "\"{{ 'ten' }}\"", "1.5", "true", '"{{ 3 / 2 }}"'])
def test_bound_that_is_no_whole_number_is_a_fault_of_the_file(value):
    with pytest.raises(BadInput, match=r"want\[0\].at_most"):
        checked_rule(GOOD.replace('"{{ params.value }}"', value), "memory-example.yaml")


def test_bound_that_turns_out_to_be_no_whole_number_is_an_error_with_the_way_out():
    rule = build_rule(
        load_document(GOOD, "memory-example.yaml"), is_builtin=False
    )  # without the checks of a file
    with pytest.raises(
        HosttuneError, match="at_most of a sysctl must be a whole number, and is 'many'"
    ):
        evaluate(rule, Facts(FakeReader()), {"value": "many"})


_FAULT = "expect:\n  - {if: params.value > 10, else: broken, do: look, fault: true}\n"
_UNKNOWN = """- {if: 'packages["x"].is_installed', else: no x}"""


@pytest.mark.parametrize(
    ("others", "verdict", "says"),
    [
        ("- {if: params.value > 10, else: too small}", Verdict.NOT_APPLICABLE, "too small"),
        ("- {if: params.value >= 10, else: too small}", Verdict.UNKNOWN, "needs root"),
        ("- {if: 1 / (params.value - 10) > 0, else: too small}", Verdict.UNKNOWN, "needs root"),
    ],
)
def test_condition_that_does_not_hold_decides_whatever_is_not_known_of_the_others(
    others, verdict, says
):
    rule = checked_rule(f"{GOOD}applies_when:\n  {_UNKNOWN}\n  {others}\n", "memory-example.yaml")
    facts = Facts(FakeReader(unreadable={"/var/lib/dpkg/status": "needs root"}))
    (finding,) = evaluate(rule, facts, {"value": 10}).findings
    assert (finding.verdict, finding.reason) == (verdict, says)


def test_condition_decides_nothing_about_what_is_in_doubt_and_no_fault_away():
    facts = Facts(FakeReader(unreadable={"/var/lib/dpkg/status": "needs root"}))
    same = (
        GOOD
        + f"applies_when:\n  {_UNKNOWN}\n  - {{if: host.is_image and len(packages.held) > 0, else: no}}\n"
    )
    fault = GOOD + f"applies_when:\n  {_UNKNOWN}\n  - {{if: params.value > 10, else: no}}\n"
    fault = fault.replace(
        'want:\n  - sysctl: vm.swappiness\n    at_most: "{{ params.value }}"\n', _FAULT
    )
    for text in (same, fault):
        (finding,) = evaluate(
            checked_rule(text, "memory-example.yaml"), facts, {"value": 10}
        ).findings
        assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, "needs root")


def test_condition_that_cannot_be_worked_out_is_an_error_where_nothing_before_it_is_unknown():
    rule = checked_rule(
        f"{GOOD}applies_when:\n  - {{if: 1 / (params.value - 10) > 0, else: no}}\n",
        "memory-example.yaml",
    )
    with pytest.raises(HosttuneError, match="cannot work out"):
        evaluate(rule, Facts(FakeReader()), {"value": 10})


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("noatime", "storage-noatime"),
        ("torch", "framework-torch-cuda"),
        ("gpu-driver", "gpu-driver"),  # others begin so
        ("gpu", "gpu"),  # of many
        ("tor", "tor"),  # no whole word
    ],
)
def test_rule_is_found_by_whole_words_that_only_it_has(typed, meant):
    assert builtin_catalog().find_id(typed) == meant
