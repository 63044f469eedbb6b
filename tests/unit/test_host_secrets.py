"""What must not leave a host is masked, and what rules decide with is not."""

from __future__ import annotations

import json

import pytest

from hosttune.host.door import Process
from hosttune.host.redact import Redactor, people, places, serials
from hosttune.host.secrets import is_secret_file, is_serial_file, mask_command, mask_text
from hosttune.host.survey import take_record
from tests.unit.fake_reader import FakeReader

S = "hunter2-XyZ"


@pytest.mark.parametrize(
    "text",
    [
        f"//nas/x /mnt cifs username=u,password={S},uid=1 0 0",
        f"//nas/x /mnt cifs pass={S} 0 0",
        f"password={S}",
        f"password=/{S}",
        f"Password: {S}",
        f"password='a b {S}' rest",
        f'{{"auth": {{"token": "{S} with blanks"}}}}',
        f'Environment="WANDB_API_KEY={S}" "X=1"',
        f"export AWS_SECRET_ACCESS_KEY={S}",
        f"MYSQL_PWD={S}",
        f"ExecStart=/usr/bin/agent --auth-token {S} --verbose",
        f"root=/dev/sda1 rd.luks.key={S} quiet",
        f"systemd.set_credential=name:{S}",
        f"http_proxy=http://user:{S}@proxy:3128",
        f"deb https://user:{S}@archive.example/ubuntu noble main",
        f"Authorization: Bearer {S}",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{S}\n{S}\n-----END OPENSSH PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{S}",
        "passwd: $6$saltsalt$hunter2-XyZ",
        f"psk={S}",
    ],
)
def test_secret_is_masked(text):
    assert S not in mask_text(text)


@pytest.mark.parametrize(
    "token",
    [
        "AKIAIOSFODNN7EXAMPLE", "ghp_0123456789abcdefghijABCDEFGHIJ", "hf_0123456789abcdefghijABCD", "glpat-0123456789abcdefghij",
        "nvapi-0123456789_abcdefghij-ABC", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "GPU-01234567-89ab-cdef-0123-456789abcdef",
    ],
)  # fmt: skip
def test_known_token_is_masked_wherever_it_stands(token):
    assert token not in mask_text(f"docker run -e X {token} image")


@pytest.mark.parametrize(
    "text",
    [
        "vm.swappiness = 10", "UUID=0a-b1 / ext4 errors=remount-ro 0 1", "//nas/x /mnt cifs credentials=/etc/cifs,uid=1 0 0",
        "kernel.keys.maxkeys = 200", "PasswordAuthentication no", "lock_passwd: True", "nvme_core.default_ps_max_latency_us=0 iommu=pt",
        "options nvidia NVreg_EnableGpuFirmware=1", "[Install]\nWantedBy=timers.target", "* soft memlock unlimited",
        "Package: libpam-passwdqc\nVersion: 1.4-1", "bypass=1", "http://proxy:3128", "net.ipv4.tcp_fastopen = 3",
    ],
)  # fmt: skip
def test_what_rules_decide_with_is_left(text):
    assert mask_text(text) == text


def test_masking_twice_is_masking_once():
    once = mask_text(f'password={S} token: "x y" http://u:{S}@h')
    assert mask_text(once) == once


def test_command_line_is_masked_word_by_word():
    command = ("train", "--password", S, "--api-key=" + S, f"TOKEN={S}", "--passive", "keep", "https://u:" + S + "@h/x")
    masked = mask_command(command)
    assert S not in " ".join(masked)
    assert (masked[1], masked[2], masked[5:7]) == ("--password", "(masked)", ("--passive", "keep"))
    assert mask_command(("/usr/bin/curl", "-u", "bob:pw", "url")) == ("/usr/bin/curl", "-u", "(masked)", "url")
    assert mask_command(()) == ()


@pytest.mark.parametrize(
    "text",
    ["a-" * 50_000 + "password", "password" * 10_000, '"' * 50_000 + "token=", "x:" * 50_000 + "//@", "=" * 50_000],
)
def test_hostile_text_does_not_hang(text):
    mask_text(text)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow", "/etc/ssh/ssh_host_ed25519_key", "/root/.ssh/id_rsa", "/etc/modprobe.d/x.pem", "/etc/apt/auth.conf.d/a",
        "/etc/NetworkManager/system-connections/wifi", "/proc/1/environ", "/sys/class/dmi/id/product_serial",
        "/proc/sys/net/ipv4/tcp_fastopen_key", "/sys/class/net/eth0/address", "/etc/munge/munge.key", "/etc/netplan/50.yaml",
    ],
)  # fmt: skip
def test_secret_file_is_known_by_its_path(path):
    assert is_secret_file(path)


@pytest.mark.parametrize(
    "path", ["/etc/fstab", "/etc/sysctl.d/10-a.conf", "/proc/sys/vm/swappiness", "/sys/block/sda/queue/scheduler"]
)
def test_other_file_is_not_taken_for_secret(path):
    assert not is_secret_file(path)
    assert not is_serial_file(path)


def test_serial_is_one_word_wherever_it_stands():
    files = {
        "/sys/block/nvme0n1/device/serial": b"S4EV NF0M123456  \n",
        "/sys/block/nvme0n1/wwid": b"eui.0025385b01405b1a\n",
        "/sys/class/dmi/id/board_serial": b"To be filled by O.E.M.\n",
        "/sys/class/dmi/id/chassis_serial": b"None\n",
    }
    redactor = Redactor(serials(files), share=False)
    text = redactor.text("/dev/disk/by-id/nvme-SAMSUNG_S4EV_NF0M123456 /dev/disk/by-id/nvme-eui.0025385B01405B1A None")
    assert "NF0M" not in text
    assert "0025385" not in text.lower()
    assert text.endswith(" None")


def shared(text: str, **words: str) -> str:
    return Redactor(words, share=True).text(text)


def test_addresses_are_replaced_alike_and_what_only_looks_like_one_stays():
    kept = "127.0.0.1 ::1 0.0.0.0 255.255.255.0 0000:3b:00.0 12:34:56 580.65.06 96.00.74.00.01 1.2.3.4-1ubuntu2"
    assert shared(kept) == kept
    text = shared("10.1.2.3:/vol fe80::1 2001:db8::5 10.1.2.3 10.1.2.4/24 aa:bb:cc:dd:ee:ff enx001122334455")
    assert text == "address1:/vol address3 address4 address1 address2/24 mac1 enxmac2"


def test_host_and_domain_are_replaced_and_generic_names_are_not():
    words = places(["gpu17.cluster.example\n", "vm", "ubuntu"])
    text = Redactor(words, share=True).text(
        "gpu17 GPU17.cluster.example nas.cluster.example vm.swappiness ubuntu gpu170"
    )
    assert text == "host host nas.domain vm.swappiness ubuntu gpu170"


def test_people_are_replaced_and_accounts_of_the_system_are_not():
    passwd = "root:x:0:0::/root:/bin/sh\nsyslog:x:104:1::/:/bin/false\nalice:x:1000:1000:A:/home/alice:/bin/sh\nnobody:x:65534:1::/:/x\n"
    words = people(passwd, ["root", "syslog", "ldapuser", "4711"])
    assert words == {"alice": "user1", "ldapuser": "user2"}
    assert shared("/home/alice alice@x malice", **words) == "/home/user1 user1@x malice"


def test_shared_record_names_nobody_in_any_key_or_value():
    files = {
        "/etc/hostname": "trainbox\n",
        "/etc/passwd": "alice:x:1000:1000::/home/alice:/bin/sh\n",
        "/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "/etc/sysctl.d/trainbox-alice.conf": "# of alice at 192.168.7.9\n",
        "/boot/0123456789abcdef0123456789abcdef/linux": "x",
        "/proc/cmdline": "ip=192.168.7.9 root=/dev/sda1 machine=0123456789abcdef0123456789abcdef",
    }
    process = Process(1, "python", "alice", ("python", "/home/alice/train.py"), 1, 0, (), "/user.slice/alice", 1.0)
    reader = FakeReader(files, processes=(process,), name="trainbox")
    data = take_record(reader, lambda door: door.list("/boot"), share=True, tool_version="0")
    text = json.dumps(data)
    assert [
        word for word in ("trainbox", "alice", "192.168.7.9", "0123456789abcdef0123456789abcdef") if word in text
    ] == []
    assert data["listings"]["/etc/sysctl.d"] == ["host-user1.conf"]
    assert data["files"]["/etc/sysctl.d/host-user1.conf"] == "# of user1 at address1\n"


def test_versions_of_packages_are_no_addresses():
    status = "Package: a\nStatus: install ok installed\nVersion: 1.2.3.4\nDescription: long\n"
    data = take_record(FakeReader({"/var/lib/dpkg/status": status}), lambda _: None, share=True, tool_version="0")
    assert data["files"]["/var/lib/dpkg/status"] == status.replace("Description: long\n", "")
