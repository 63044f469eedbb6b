"""From what room on the kubelet ends pods, by its settings (kubernetes/kubernetes#112293)."""

import pytest

from hosttune.facts.containers.kubelet_eviction import parse_thresholds

OWN = {"nodefs": ("10", "%"), "imagefs": ("15", "%")}


@pytest.mark.parametrize(
    ("flag", "texts", "thresholds"),
    [
        (None, ["kind: KubeletConfiguration\n"], OWN),
        (None, ["# evictionHard:\n#   nodefs.available: 3%\n"], OWN),
        (None, ["evictionHard:\n  imagefs.available: 5%\n  nodefs.available: '4%'\n"], {"imagefs": ("5", "%"), "nodefs": ("4", "%")}),
        (None, ["evictionHard:\n  memory.available: 100Mi\nfailSwapOn: true\n"], {}),
        (None, ["evictionHard:\n  # nodefs.available: 3%\n  nodefs.available: 1Gi\nclusterDNS: []\n"], {"nodefs": ("1", "Gi")}),
        (None, ['{"evictionHard": {"nodefs.available": "7%",\n "imagefs.available": "8%"}, "x": 1}'], {"nodefs": ("7", "%"), "imagefs": ("8", "%")}),
        (None, ["evictionHard: {nodefs.available: 6%}\n"], {"nodefs": ("6", "%")}),
        (None, ["evictionSoft:\n  nodefs.available: 20%\n"], OWN),
        (None, ["evictionHard:\n  nodefs.available: 6%\nmergeDefaultEvictionSettings: true\n"], {**OWN, "nodefs": ("6", "%")}),
        (None, ["evictionHard:\n  nodefs.available: 6%\n", "evictionHard:\n  nodefs.available: 3%\n"], {"nodefs": ("3", "%")}),
        ("memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%", ["evictionHard:\n  nodefs.available: 6%\n"], {"nodefs": ("10", "%")}),
        ("", [""], {}),
    ],
)  # fmt: skip
def test_the_flag_counts_then_the_last_file_then_what_the_kubelet_has_itself(
    flag, texts, thresholds
):
    assert parse_thresholds(flag, texts) == thresholds


def test_a_block_without_an_end_takes_no_longer_than_its_text():
    text = "evictionHard:" + "\n  x: 1" * 200_000 + "evictionHard: {" * 50_000
    assert parse_thresholds(None, [text]) == {}
