"""Files that steer root: followed only where nobody else has a say in them."""

import os
import subprocess

import pytest

from hosttune.actions.gate.ready import approvals_of
from hosttune.engine.policy.file import load_policy
from hosttune.engine.policy.policy import AtBoot
from hosttune.engine.rules.catalog import builtin_catalog, load_catalog
from hosttune.errors import HosttuneError
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.branches import SITE
from hosttune.host.reading.rooted import RootReader
from hosttune.values import Risk

POLICY = "etc/hosttune/policy.yaml"
RULE = """\
{id: site-example, title: x, risk: low, disturbs: nothing, since: "0.1", gain: none, why: x, sources: [x],
 want: [{sysctl: vm.swappiness, at_most: 1}]}
"""


def root_with_policy(tmp_path):
    file = tmp_path / POLICY
    file.parent.mkdir(parents=True)
    file.write_text("max_risk: low\n")
    (tmp_path / "srv").mkdir()
    os.chown(tmp_path / "srv", 1000, 1000)
    os.chown(tmp_path, 1000, 1000)  # whoever unpacked the image
    return file


def behind_a_link(file, link):
    file.rename(file.parent / "real.yaml")
    link.symlink_to("/etc/hosttune/real.yaml")
    file.symlink_to("/" + str(link.relative_to(file.parents[2])))


def link_in_somebodys_folder(file):
    behind_a_link(file, file.parents[2] / "srv/policy.yaml")


def link_over_somebodys_folder(file):
    """A folder of root's, reached by a link that another user can exchange."""
    top = file.parents[2]
    (top / "opt").mkdir()
    file.rename(top / "opt" / file.name)
    (top / "srv/way").symlink_to("/opt")
    file.symlink_to(f"/srv/way/{file.name}")


def somebodys_link_in_a_sticky_folder(file):
    (file.parents[2] / "tmp").mkdir(mode=0o1777)
    (file.parents[2] / "tmp").chmod(0o1777)
    behind_a_link(file, file.parents[2] / "tmp/policy.yaml")
    os.chown(file.parents[2] / "tmp/policy.yaml", 1000, 1000, follow_symlinks=False)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda file: os.chown(file, 1000, 1000), "policy.yaml can be written by others .uid 1000"),
        (lambda file: file.chmod(0o666), "mode 0666"),
        (
            lambda file: file.parent.chmod(0o775),
            "/etc/hosttune can be written by others .mode 0775",
        ),
        (
            lambda file: os.chown(file.parent, 1000, 1000),
            "/etc/hosttune can be written by others .uid 1000",
        ),
        (link_in_somebodys_folder, "/srv can be written by others"),
        (somebodys_link_in_a_sticky_folder, "/tmp/policy.yaml can be written by others .uid 1000"),
    ],
    ids=["owner", "mode", "folder mode", "folder owner", "link in a folder", "link in /tmp"],
)
def test_policy_that_somebody_else_could_write_is_refused(tmp_path, spoil, said):
    spoil(root_with_policy(tmp_path))
    with pytest.raises(HosttuneError, match=said):
        load_policy(RootReader(str(tmp_path)), builtin_catalog())


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("etc/hosttune/policy.yaml", lambda reader: load_policy(reader, builtin_catalog())),
        ("etc/hosttune/rules.d/site-example.yaml", load_catalog),
        ("etc/hosttune/approved", lambda reader: approvals_of(reader, AtBoot(), "")),
    ],
)
@pytest.mark.parametrize("spoilt", ["file", "folder", "both", "owner"])
def test_way_out_gives_what_is_at_fault_to_root_alone(tmp_path, name, load, spoilt):
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text(RULE if "rules.d" in name else "")
    file.chmod(0o666 if spoilt in ("file", "both") else 0o644)
    file.parent.chmod(0o777 if spoilt in ("folder", "both") else 0o755)
    os.chown(file, 1000 if spoilt == "owner" else 0, 0)
    reader = RootReader(str(tmp_path))

    with pytest.raises(HosttuneError) as caught:
        load(reader)

    places = {
        "file": [file],
        "owner": [file],
        "folder": [file.parent],
        "both": [file.parent, file],
    }[spoilt]
    names = " ".join(map(str, places))
    assert (
        caught.value.hint
        == f"look at what it says, then: sudo chown -h root: {names}; sudo chmod go-w {names}"
    )
    for command in caught.value.hint.partition("then: ")[2].replace("sudo ", "").split("; "):
        subprocess.run(command.split(), check=True)
    load(reader)


def test_way_out_of_a_link_that_leads_away_puts_a_file_in_its_place(tmp_path):
    file = root_with_policy(tmp_path)
    link_in_somebodys_folder(file)
    with pytest.raises(HosttuneError) as caught:
        load_policy(RootReader(str(tmp_path)), builtin_catalog())
    assert (
        caught.value.hint
        == f"put a file of root's in place of the link: sudo install -m 644 FILE {file}"
    )


def test_way_out_of_a_file_elsewhere_is_the_folder_where_it_belongs(tmp_path):
    root_with_policy(tmp_path)
    (tmp_path / "rules").mkdir()
    for name, text in (("p.yaml", ""), ("rules/site-example.yaml", RULE)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o666)
    with pytest.raises(HosttuneError) as policy:
        load_policy(RootReader(str(tmp_path)), builtin_catalog(), str(tmp_path / "p.yaml"))
    with pytest.raises(HosttuneError) as rule:
        load_catalog(RootReader(str(tmp_path / "srv")), str(tmp_path / "rules"))
    # the copy that was read is what is kept: the file itself may be another one by then
    assert policy.value.hint.endswith(
        f": sudo install -m 600 -t /root {tmp_path}/p.yaml; sudo less /root/p.yaml; "
        "sudo install -D -m 644 -t /etc/hosttune /root/p.yaml"
    )
    assert rule.value.hint.endswith(
        "sudo install -D -m 644 -t /etc/hosttune/rules.d /root/site-example.yaml"
    )


def test_policy_of_root_is_followed(tmp_path):
    root_with_policy(tmp_path)
    assert load_policy(RootReader(str(tmp_path)), builtin_catalog()).max_risk is Risk.LOW


@pytest.mark.parametrize(
    "spoil", [lambda path: os.chown(path, 1000, 1000), lambda path: path.chmod(0o666)]
)
def test_rule_that_somebody_else_could_write_is_refused(tmp_path, spoil):
    path = tmp_path / "etc/hosttune/rules.d/site-example.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(RULE)
    other = tmp_path / "other"
    other.mkdir()
    assert "site-example" in load_catalog(RootReader(str(tmp_path))).rules
    assert "site-example" in load_catalog(RootReader(str(other)), str(path.parent)).rules
    spoil(path)
    with pytest.raises(HosttuneError, match="root does not follow it"):
        load_catalog(RootReader(str(tmp_path)))
    with pytest.raises(HosttuneError, match="root does not follow it"):
        load_catalog(RootReader(str(other)), str(path.parent))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda file: os.chown(file, 1000, 1000),
            "driver-branches.tsv belongs to uid 1000, not to root",
        ),
        (
            lambda file: file.chmod(0o664),
            "others than root can write /etc/hosttune/driver-branches.tsv",
        ),
        (lambda file: file.parent.chmod(0o777), "others than root can write /etc/hosttune "),
        (lambda file: os.chown(file.parent, 1000, 1000), "/etc/hosttune belongs to uid 1000"),
        (link_in_somebodys_folder, "/srv"),
        (link_over_somebodys_folder, "/srv"),
    ],
    ids=["owner", "mode", "folder mode", "folder owner", "link in a folder", "link over a folder"],
)
def test_table_of_branches_that_somebody_else_could_write_is_not_followed(tmp_path, spoil, said):
    file = tmp_path / SITE[1:]
    file.parent.mkdir(parents=True)
    file.write_text("branch 640 lts 2030-06 turing blackwell\n")
    (tmp_path / "srv").mkdir()
    assert Facts(RootReader(str(tmp_path))).branches.branch(640).ends == "2030-06"
    os.chown(tmp_path / "srv", 1000, 1000)
    spoil(file)
    with pytest.raises(UnknownFact, match="is not followed, because") as error:
        _ = Facts(RootReader(str(tmp_path))).branches.rows
    assert said in error.value.reason
