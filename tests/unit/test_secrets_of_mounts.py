"""A random secret in any place of a line that mounts something is in no output of any command."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hosttune.actions.examine import examine_everything
from hosttune.actions.record.record import take_record
from hosttune.cli import app
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts.storage.fstab_lines import line_problem, parse
from hosttune.host.record.record import RecordReader
from hosttune.resources.storage.fstab_lint import lint
from hosttune.views.fstab import fstab_json, lint_text
from hosttune.views.terminal import Screen
from tests.hosts.built import HOSTS

NAMES = (
    "pass", "password", "Password", "password2", "passwd", "pwd", "passphrase", "secret", "client_secret", "key",
    "access_key", "secret_access_key", "api-key", "token", "psk", "credential", "fs.s3a.secret.key",
)  # fmt: skip
# {} is the secret, NAME one of the names above.
LINES = (
    "//nas/a /m cifs username=u,NAME={},_netdev 0 0", "//nas/a /m cifs NAME={}", "//nas/a /m cifs user=u;NAME={} 0 0",
    "//nas/a NAME={} cifs /m 0 0", "//nas/a /m username=u,NAME={} 0 0", "//nas/a /m cifs rw 0 0 NAME={}",
    '//nas/a /m cifs NAME="{}" 0 zero', "//nas/a /m cifs NAME=a\\040{} 0 0", "//nas/a /m cifs NAME=a,,{} 0 0",
    "//nas/a /m cifs user=u%{} 0 0", "curlftpfs#me:{}@h /m fuse rw 0 0", "https://me:{}@h/x /m davfs rw 0 0",
    "me:{}@h:/x /m fuse.sshfs rw 0 0", "//u:{}@nas/a /m cifs rw", "x /m fuse.curlftpfs user=me:{} 0 0",
    "/swap.img none swap sw,NAME={} 0 0", "UUID=b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f /m ext4 nofail,NAME={} 0 0",
    "//nas/a /m cifs username=u,NAME\\075{} 0 0", "//nas/a /m cifs NAME=a\\054{} 0 0", "https://me:{}\\100h/x /m davfs rw 0 0",
    "https://h/b?sv=1&sig={} /m fuse rw 0 0", "https://h/b\\077sig={} /m fuse rw 0 0", "https://h/b?sig=a\\040{} /m fuse rw 0 0",
    '//nas/a /m cifs NAME=""{} 0 0', '//nas/a /m cifs NAME="a"{} 0 0', "//nas/a /m cifs NAME=true;{} 0 0", "//nas/a /m cifs NAME=no'{} 0 0",
    '//nas/a /m cifs user=u%a"{} 0 0', "//nas/a /m cifs user=u%a,,{} 0 0", 'https://me:a"{}@h/x /m davfs rw 0 0', "me:a'{}@h:/x /m fuse.sshfs rw 0 0",
    "# managed by ansible, NAME={}", "NAME={} /m", "LABEL=a /m ext4 x-systemd.device-timeout,NAME={} 0 0",
)  # fmt: skip
MOUNTS = (
    ("me:{}@h:/x", "rw,NAME={}"),
    ("https://me:{}@h/", "rw"),
    ("curlftpfs#me:{}@h", "rw,user=me:{}"),
)
FILES = {
    "/etc/systemd/system/srv-a.mount": "[Mount]\nWhat=//nas/a\nWhere=/srv/a\nType=cifs\nOptions=username=u,NAME={}\n",
    "/etc/systemd/system/data.mount.d/x.conf": "[Mount]\nWhat=https://u:{}@h/b\nOptions=NAME={}\n",
    "/etc/crypttab": "a /dev/nvme2n1 none luks,NAME={}\n",
    "/etc/auto.master": "/auto /etc/auto.nas\n",
    "/etc/auto.nas": "x -fstype=cifs,username=u,NAME={} ://nas/a\ny -fstype=cifs ://u:{}@nas/a\n",
}
COMMANDS = (
    ("fstab",), ("check", "--verbose"), ("health",), ("plan", "--verbose"), ("disks", "--verbose"),
    ("facts", "fstab", "mounts", "stopped"),
)  # fmt: skip
SECRETS = st.text(alphabet="abcxyzABC0123456789!$%^&*()+~?<>[]{}|-._", min_size=4, max_size=20).map(
    "Zq{}".format
)


def planted(text: str, secret: str, name: str) -> str:
    return text.replace("{}", secret).replace("NAME", name)


@settings(max_examples=400, deadline=None)
@given(SECRETS, st.sampled_from(NAMES), st.sampled_from(LINES))
def test_secret_of_a_line_is_in_nothing_that_is_said_of_it(secret, name, line):
    document = parse(planted(f"LABEL=r / ext4 defaults 0 1\n{line}\n", secret, name).encode())
    remarks = lint(document)
    problems = [problem for one in document.lines if (problem := line_problem(document, one))]
    text = lint_text(document, remarks, Screen(0))
    told = (
        text,
        json.dumps(fstab_json(document, remarks, None)),
        *(f"{one} {one.hint}" for one in problems),
    )
    assert not [one for one in told if secret in one]


@pytest.mark.parametrize("form", ["text", "json"])
@settings(
    max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(secret=SECRETS, name=st.sampled_from(NAMES))
def test_secret_of_a_host_is_in_no_output(form, secret, name, tmp_path):
    record = tmp_path / "host.json"
    record.write_text(json.dumps(host_with(secret, name)))
    for words in COMMANDS:
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out):
            app.run([*words, "--format", form, "--host", str(record)])
        assert len(out.getvalue()) > 100, words
        assert secret not in out.getvalue(), words


@settings(max_examples=2, deadline=None)
@given(SECRETS, st.sampled_from(NAMES))
def test_secret_of_a_host_is_in_no_record(secret, name):
    def collect(door):
        examine_everything(door, builtin_catalog(), Policy())
        for path in ("/etc/fstab", *FILES):
            door.read(path)

    for share in (True, False):
        reader = RecordReader(host_with(secret, name))
        assert secret not in json.dumps(take_record(reader, collect, share=share, tool_version="0"))


def host_with(secret: str, name: str) -> dict:
    """A built host with the secret in all files that mount something."""
    data = json.loads((HOSTS / "h100-8x-2socket.json").read_text())
    lines = [line.replace(" /m", f" /m{number}", 1) for number, line in enumerate(LINES)]
    data["files"]["/etc/fstab"] += planted("".join(f"{line}\n" for line in lines), secret, name)
    for number, (source, options) in enumerate(MOUNTS):
        row = f"9{number} 22 0:9{number} / /w{number} rw - fuse.x {source} {options}\n"
        data["files"]["/proc/self/mountinfo"] += planted(row, secret, name)
    data["files"] |= {path: planted(text, secret, name) for path, text in FILES.items()}
    return data
