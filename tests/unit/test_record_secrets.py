"""Secrets planted in every kind of place where hosts keep them: none is in a record."""

from __future__ import annotations

import json
import shlex

import pytest

from hosttune.actions.record.record import take_record
from hosttune.facts import Facts
from hosttune.host.door import Completed, Process
from hosttune.host.masking.secrets import mask_secrets
from hosttune.host.record.record import RecordReader
from hosttune.values import FileValue
from tests.unit.fake_reader import FakeReader

# {} is the secret. A line that begins with `~` says by nothing that it is one: it may be in a
# record that is not shared.
COMMANDS = """
mysqldump -p{} db
mysql -u root -p{} -e 'select 1'
curl -u bob:{} https://h
curl -sSfu bob:{} https://h
curl -H 'Authorization: Bearer {}' https://h
sshpass -p {} ssh h
lftp -u bob,{} sftp://h
smbclient -U bob%{} //h/s
smbclient //h/s {}
docker login -u bob -p {} registry.example
wandb login {}
train --wandb-key={}
train --wandb-key {}
ldapsearch -D cn=x -w {}
mc alias set m https://h KEY {}
/opt/site/agent -u user:{}
aws configure set aws_secret_access_key {}
huggingface-cli login --token {}
kubectl create secret generic x --from-literal=k={}
openssl enc -d -pass pass:{}
openssl rsa -passin pass:{}
rclone sync --sftp-pass {} a b
restic -r rest:https://bob:{}@h/ backup /data
az login -u bob -p {}
ngc config set apikey {}
helm upgrade x --set a=1,password={}
env PGPASSWORD={} psql
net use x: '//h/s' {} /user:bob
mount -t cifs -o username=bob,password={} //h/s /m
redis-cli -a {}
vault login {}
ipmitool -H h -U a -P {} power status
htpasswd -b /etc/x bob {}
nmcli con modify x wifi-sec.psk {}
git clone https://x:{}@h/r
sh -c "mysql -p'{}' x"
sh -c 'echo -n {} >/sys/kernel/config/nvmet/hosts/nqn.x/dhchap_key'
mc alias set aws https://s3.amazonaws.com KEY {}
ldapsearch -x -D cn=a,o=net -w {}
ldapsearch -D o=net -b dc=corp,dc=net -w {}
wpa_passphrase net {}
smbclient //h/net {}
redis-cli -h curl -a {}
mysqldump -h db wandb -p{}
zip -r /backup/docker -P {} a
openssl enc -in /b/docker -k {}
htpasswd -b /etc/docker curl {}
xargs -p mysql -p{}
docker run --entrypoint=redis-cli image -a {}
docker run --env OPENAI_KEY={} image
docker run --rm --env K={} image
megacli -SecurityKey {} -a0
mlflow --basic-auth bob:{} x
mlflow --basic-auth=bob:{}
train +wandb.key={}
env LITELLM_MASTER_KEY={} REDISCLI_AUTH={} x
env 'OPENAI_KEY={}' x
spark-submit --conf spark.hadoop.fs.s3a.secret.key={} -Dfs.s3a.access.key={}
age -d AGE-SECRET-KEY-1{}
ngrok config add-authtoken {}
rabbitmqctl add_user a {}
rabbitmqctl change_password a {}
ipa-client-install -p bob -w {}
bcp d in f -U bob -P {}
curl https://api.telegram.org/bot123456:{}/sendMessage
curl https://discord.com/api/webhooks/123/{}
~/opt/site/agent -x {}
~/opt/site/agent --mode {}
nvme connect -t tcp -S {}
ipmitool user set password 2 {}
lftp -e "open -u a,{} h"
samba-tool user create a {}
unrar x -p{} a.rar
sqlplus -S a/{}@db
wg set wg0 private-key {}
scontrol token {}
weka user login a {}
tsql -S h -U a -P {}
isql -v dsn a {}
grafana-cli admin reset-admin-password {}
pkcs11-tool --so-pin {}
pkcs11-tool --login --pin {}
rman target sys/{}@db
skopeo copy --src-creds a:{} docker://h/x dir:/y
skopeo copy --dest-creds=a:{} dir:/y docker://h/x
valkey-cli -a {}
keydb-cli -h h -a {}
mc admin user add m bob {}
kadmin -p bob -w {}
wbinfo -a bob%{}
ncat --proxy-auth bob:{} h 1
socat - PROXY:h:80,proxyauth=bob:{}
transmission-remote h -n bob:{} -l
transmission-remote h --auth bob:{} -l
ttyd -c bob:{} bash
htpasswd -nb bob {}
radtest bob {} h 0 x
vercel -t {} deploy
netlify deploy --auth {}
wsgidav --auth bob:{}
openai api -k {} models.list
bw login bob {}
bw unlock {}
snyk auth {}
gotty -c bob:{} bash
p4 -P {} info
ipmiutil power -P {}
SMCIPMITool h bob {} ipmi
sedutil-cli --initialSetup {} /dev/sda
sedutil-cli --yesIreallywanttoERASEALLmydatausingthePSID {} /dev/sda
hdparm --user-master u --security-unlock {} /dev/sda
hdparm --security-erase-enhanced {} /dev/sda
iwconfig wlan0 key s:{}
iw dev wlan0 connect net keys 0:{}
ip xfrm state add src a dst b proto esp spi 1 enc 'cbc(aes)' {}
ip xfrm state add src a dst b proto esp spi 1 aead 'rfc4106(gcm(aes))' {} 128
sendemail -xu bob -xp {}
swaks -au bob -ap {}
mkpasswd -m sha-512 {}
openssl dgst -sha256 -hmac {} f
pppd user a password {}
dsmc set password {} b
cargo login {}
poetry config http-basic.x a {}
curl -b session={} http://h
vault kv put secret/x value={}
doctl auth init -t {}
virsh secret-set-value u {}
conda config --set token {}
gluster volume set x auth.password {}
db2 connect to x user a using {}
yarn config set npmAuthToken {}
microk8s join h:25000/{}
newrelic-install -k {}
promtail -client.basic-auth {}
hadoop fs -Dfs.azure.account.key.x={} -ls /
msmtp --passwordeval 'echo {}' x
""".strip().splitlines()  # fmt: skip
PIPES = (
    "echo {} | gpg --batch --passphrase-fd 0 -d /x",
    "printf %s {} | docker login --password-stdin h",
    "chpasswd <<< bob:{}",
    "chpasswd 0<<< bob:{}",
    "redis-cli -a {} echo x | docker login h",
    "echo {} | docker login h -u cat",
    "yes {} | passwd bob",
    "echo {} | tee f | docker login --password-stdin h",
    "echo {} |& docker login --password-stdin h",
    "echo {} 2>&1 | docker login --password-stdin h",
    "(cd /; echo {}) 2>/dev/null | docker login --password-stdin h",
    "docker login --password-stdin h < <(echo {})",
    "cryptsetup open /dev/x y --key-file <(echo -n {})",
    "mysql -u `whoami` -p{}",
    "mysql -u $(whoami) -p{}",
    "mysql 2>&1 -p{}",
    "export OPENAI_KEY='{}'",
    "echo {} > /sys/kernel/config/target/iscsi/iqn.2003-01.org.x/tpgt_1/auth/password",
    "printf %s {} | sudo tee /sys/class/nvme/nvme0/dhchap_secret",
)
FILES = (
    ("/etc/fstab", "//h/s /m cifs username=bob%{},uid=1 0 0\n"),
    ("/etc/fstab", "//h/t /n cifs credentials=/etc/cifs,pass={} 0 0\n"),
    ("/etc/fstab", "bob:{}@h:/x /o fuse.sshfs defaults 0 0\n"),
    ("/etc/fstab", "u@h:/y /p fuse.sshfs rw,ssh_command=sshpass\\040-p\\040{}\\040ssh 0 0\n"),
    ("/etc/fstab", "u@h:/z /q fuse.sshfs rw,ssh_command=curl\\040-ubob:{} 0 0\n"),
    ("/etc/fstab", "//h/u /r cifs uid=1,pass=a,,b{},gid=1 0 0\n"),
    ("/etc/fstab", "curlftpfs#h /t fuse user=bob:{},uid=1 0 0\n"),
    ("/etc/fstab", "~# the old one was {}\n"),
    ("/etc/fstab", "//h/v /u cifs username=bob,pass=true;{},uid=1 0 0\n"),
    ("/etc/fstab", '//h/w /v cifs username=bob,password=""{},uid=1 0 0\n'),
    ("/etc/fstab", '//h/x /w cifs username=bob,password="a"{},uid=1 0 0\n'),
    ("/etc/fstab", "//h/y /x cifs username=bob%a,,{},uid=1 0 0\n"),
    ("/etc/fstab", 'https://u:a"{}@h/d /y davfs rw 0 0\n'),
    ("/etc/environment", "DB_PASSWORD=none){}\n"),
    ("/etc/environment", 'https_proxy=http://bob:a"{}@proxy:3128\n'),
    ("/etc/profile.d/b.sh", "export DB_TOKEN='a'{} DB_PASSWORD=\"\"{}\n"),
    ("/opt/site/agent.conf", "password: off]{}\n"),
    ("/opt/site/agent.conf", 'Authorization: Bearer a"{}\n'),
    ("/etc/sysctl.d/10-a.conf", "~# root is {}\nvm.swappiness = 10\n"),
    ("/etc/modprobe.d/a.conf", "install foo curl -u bob:{} http://h; modprobe --ignore-install foo\n"),
    ("/etc/modprobe.d/b.conf", "options wifi psk={}\n"),
    ("/etc/default/grub", 'GRUB_CMDLINE_LINUX="quiet systemd.set_credential=a:{} iommu=pt"\n'),
    ("/etc/default/grub", "~SITE={}\n"),
    ("/etc/default/agent", "DB_PASSWORD={}\n"),
    ("/etc/default/agent", "~SITE={}\n"),
    ("/etc/environment", 'http_proxy="http://bob:{}@proxy:3128"\n'),
    ("/etc/environment", "~SITE={}\n"),
    ("/etc/environment", "HF_TOKEN={}\n"),
    ("/etc/profile.d/a.sh", "export WANDB_API_KEY={}\n"),
    ("/etc/profile.d/a.sh", "~export SITE={}\n"),
    ("/etc/apt/apt.conf.d/90proxy", 'Acquire::http::Proxy "http://bob:{}@proxy:3128";\n'),
    ("/etc/apt/apt.conf.d/91hook", 'DPkg::Post-Invoke {{"curl -u bob:{} http://h";}};\n'),
    ("/etc/apt/sources.list.d/a.list", "deb https://bob:{}@h/ubuntu noble main\n"),
    ("/etc/apt/auth.conf.d/a.conf", "machine h login bob password {}\n"),
    ("/etc/slurm/slurm.conf", "AccountingStoragePass={}\n"),
    ("/etc/slurm/slurm.conf", "~# {}\nClusterName=a\n"),
    ("/etc/docker/daemon.json", '{{"log-opts": {{"splunk-token": "{}"}}}}'),
    ("/etc/containerd/config.toml", '[plugins.x.auth]\nusername = "bob"\npassword = "{}"\n'),
    ("/etc/containerd/config.toml", 'auth = "{}"\n'),
    ("/etc/systemd/system.conf.d/a.conf", "[Manager]\nDefaultEnvironment=DB_TOKEN={}\n"),
    ("/etc/systemd/system.conf.d/b.conf", "~[Manager]\nDefaultEnvironment=SITE={}\n"),
    ("/etc/systemd/system/env.service", '[Service]\nEnvironment="DB_PASSWORD={} x"\n'),
    ("/etc/systemd/system/env.service", "~Environment=SITE={}\n"),
    ("/etc/systemd/system/env.service", "SetCredential=a:{}\n"),
    ("/etc/systemd/system/env.service", "~# {}\n"),
    ("/etc/systemd/system/env.service", "~Description=the password is {}\n"),
    ("/etc/systemd/system/env.timer", "~[Timer]\nX-Site={}\n"),
    ("/etc/udev/rules.d/10-a.rules", 'ACTION=="add", RUN+="/usr/bin/curl -u bob:{} http://h"\n'),
    ("/etc/udev/rules.d/11-a.rules", '~ACTION=="add", RUN+="/opt/site/agent {}"\n'),
    ("/etc/logrotate.d/a", "/x {{\n postrotate\n  mysqladmin -p{} flush-logs\n endscript\n}}\n"),
    ("/etc/cron.daily/a", "echo {} |\n docker login --password-stdin h\n"),
    ("/etc/cron.daily/a", "sudo -S true <<EOF\n{}\nEOF\n"),
    ("/etc/cron.daily/a", "docker login --password-stdin h <<-'EOF'\n{}\n\tEOF\n"),
    ("/etc/cron.daily/a", "sudo -S true <<A\n{}\n\n"),
    ("/opt/site/purge.sh", "find /s -mtime +9 -delete; echo {} |\n docker login --password-stdin h\n"),
    ("/opt/site/purge.sh", "find /s -mtime +9 -delete; sudo -S true <<EOF\n{}\nEOF\n"),
    ("/etc/cron.daily/a", "KEY='-----BEGIN RSA PRIVATE KEY-----\n{}\n{}\n-----END RSA PRIVATE KEY-----'\n"),
    ("/etc/cron.daily/a", "cat >/x <<EOF\n-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\nEOF\n"),
    ("/etc/cron.daily/a", "~TOKENS=(\n  {}\n  {}\n)\nPASSWORD='x\n{}'\n"),
    ("/etc/cron.daily/a", "export API_TOKEN=/{}\nsudo wandb login /{}\nsudo -u bob mysql -p /{}\n"),
    ("/etc/cron.d/b", "API_KEY=/{}\n* * * * * root env TOKEN=/{} /opt/x --token /{} --password=/{} -atime +3\n"),
    ("/var/spool/cron/crontabs/bob", "TOKEN=/{}\n* * * * * sh -c 'MYSQL_PWD=/{} mysql'\n"),
    ("/etc/systemd/system/s.service", '[Service]\nEnvironment=API_TOKEN=/{} "B_PASSWORD=/{} x"\n'),
    ("/etc/systemd/system/s.service", "ExecStart=/usr/bin/env TOKEN=/{} /opt/x --token /{} --password=/{}\n"),
    ("/home/alice/.config/systemd/user/s.service", "[Service]\nEnvironment=API_TOKEN=/{}\nExecStart=sh -c 'TOKEN=/{} x'\n"),
    ("/opt/site/purge.sh", "~ARRAY=(\n{}\n)\n"),
    ("/opt/site/purge.sh", "KEY='-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----'\n"),
    ("/etc/docker/daemon.json", '{{"runtimes": {{"a": {{"runtimeArgs": ["--token","{}"]}}}}}}'),
    ("/etc/docker/daemon.json", '{{"runtimes": {{"a": {{"runtimeArgs": ["--license","{}","-t", "{}"]}}}}}}'),
    ("/etc/docker/daemon.json", '{{"labels": ["key=AAAAbbbb1111{}"]}}'),
    ("/etc/nfs.conf", "[x]\nkey=AAAAbbbb1111{}\n"),
    ("/etc/containerd/config.toml", "[h.header]\nx-token = [\n 'a',\n '{}'\n]\ny_token = [\n \"{}\",\n]\n"),
    ("/etc/lact/config.yaml", "daemon:\n  admin_key: >-\n    {}\n"),
    ("/etc/default/grub.d/a.cfg", "password root {}\n"),
    ("/etc/ssh/sshd_config.d/a.conf", "~# {}\n"),
    ("/etc/motd", "~the password of the lab is {}\n"),
    ("/etc/cloud/cloud.cfg.d/a.cfg", "chpasswd:\n  password: {}\n"),
    ("/var/lib/cloud/instance/user-data.txt", "~{}\n"),
    ("/etc/netplan/50-a.yaml", "~password: {}\n"),
    ("/etc/NetworkManager/system-connections/wifi", "~{}\n"),
    ("/etc/wpa_supplicant/wpa.conf", "~{}\n"),
    ("/etc/sudoers.d/a", "~{}\n"),
    ("/etc/rc.local", "#!/bin/sh\nmysqldump -p{} all\n"),
    ("/etc/tmpfiles.d/iscsi.conf", "w /sys/kernel/config/target/iscsi/iqn.x/tpgt_1/auth/password_mutual - - - - {}\n"),
    ("/etc/grub.d/40_custom", "set superusers=root\npassword root {}\n"),
    ("/boot/grub/grub.cfg", "password root {}\n"),
    ("/boot/grub/grub.cfg", "if true; then password root '{} x'; fi\n"),
    ("/proc/cmdline", "root=/dev/sda1 rd.luks.key={} systemd.set_credential=x:y quiet\n"),
    ("/proc/cmdline", "agent.token={}\n"),
    ("/proc/cmdline", 'quiet systemd.setenv=SITE={} systemd.setenv="OTHER={} {}" ro\n'),
    ("/proc/cmdline", "~BOOT_IMAGE=/vmlinuz quiet SITE={} NCCL_DEBUG=INFO\n"),
    ("/proc/cmdline", '~quiet SITE="{} {}" "OTHER={} {}" A="{}\n'),
    ("/etc/kernel/cmdline", "~SITE={} quiet\n"),
    ("/boot/grub/grub.cfg", "~linux /vmlinuz ro quiet SITE={}\n"),
    ("/etc/default/grub", 'GRUB_CMDLINE_LINUX="quiet systemd.setenv=SITE={} systemd.setenv=\\"OTHER={} {}\\" ro"\n'),
    ("/etc/default/grub.d/a.cfg", '~GRUB_CMDLINE_LINUX_DEFAULT="quiet SITE={}"\n'),
    ("/opt/site/blob.conf", "sas = {}\nSharedAccessSignature={}\nAZURE_STORAGE_SAS={}\nconnection_string={}\nGH_PAT={}\n"),
    ("/opt/site/lower.conf", "pat={}\ngithub_pat: {}\njwt = {}\nexport site_jwt='{}'\nopenai_key={}\n"),
    ("/proc/4711/environ", "~A={}\0"),
    ("/opt/site/agent.conf", "password = {}\n"),
    ("/etc/udev/rules.d/12-a.rules", 'ACTION=="add", ENV{{API_KEY}}="{}", ATTR{{dhchap_secret}}+="{}"\n'),
    ("/etc/needrestart/conf.d/a.conf", '$nrconf{{smtp_password}} = "{} x";\n'),
    ("/opt/site/agent.pl", '$x->{{password}} = "{}"; %y = ("password" => "{}", token => {});\n'),
    ("/opt/site/agent.py", "cfg['password'] = '{}'; password := \"{}\"\n"),
    ("/etc/cdi/a.yaml", 'x:\n- name: DB_PASSWORD\n  value: {}\n  password: |-\n    {}\n    {}\n  token:\n    "{}"\n'),
    ("/etc/docker/x.json", '[{{"name": "DB_PASSWORD", "value": "{}"}}]'),
    ("/opt/spark/conf/spark-defaults.conf", "spark.local.dir /tmp\nspark.authenticate.secret {}\n"),
    ("/opt/site/core.xml", "<name>fs.s3a.secret.key</name>\n<value>{}</value><db.password>{}</db.password>\n"),
    ("/etc/sysctl.d/11-a.conf", "~kernel.core_pattern = |/opt/site/agent {} -p%p --key={}\n"),
    ("/proc/sys/kernel/core_pattern", "~|/opt/site/agent {} -p%p\n"),
    ("/etc/crypttab", "data UUID=1-2 {} luks,keyscript=/bin/echo\n b\t/dev/sdb1  {}\tluks,keyscript=printf\n"),
    ("/etc/crypttab", "c PARTUUID=3 {}\n"),
    ("/etc/tmpfiles.d/a.conf", "~f+ /root/.agent 0600 root root - {} {}\n"),
    ("/opt/site/agent.conf", "requirepass {}\nbindpw {}\n auth_pass {}\nmachine h login b password {}\nclient-key-data: {}\n"),
    ("/opt/site/agent.conf", 'proxy_set_header Authorization "Bearer {}";\nMYPW={}\n'),
    ("/opt/site/agent.conf", "~plain {}\n"),
)  # fmt: skip


class Planter:
    """Gives every secret a name of its own."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self.telling: set[str] = set()

    def plant(self, text: str) -> str:
        secret = f"HUNTER{len(self.all):03}-xYz"
        self.all.append(secret)
        if not text.startswith("~"):
            self.telling.add(secret)
        return text.removeprefix("~").replace("{}", secret).replace("{{", "{").replace("}}", "}")

    def commands(self, before: str, *, pipes: bool = True) -> str:
        return "".join(
            f"{before}{self.plant(one)}\n" for one in (*COMMANDS, *(PIPES if pipes else ()))
        )


def _processes(planter: Planter) -> tuple[Process, ...]:
    found = []
    for pid, line in enumerate(COMMANDS, 1):
        command = tuple(shlex.split(planter.plant(line)))
        found.append(Process(pid, "x", "root", command, 1, 0, ("/dev/nvidia0",), "/", 1.0))
    return tuple(found)


def _host(planter: Planter) -> FakeReader:
    files: dict[str, str] = {}
    for path, text in FILES:
        files[path] = files.get(path, "") + planter.plant(text)
    files["/var/spool/cron/crontabs/alice"] = planter.commands(
        "0 1 * * * find /s -atime +3 -delete; "
    )
    files["/etc/crontab"] = planter.commands("0 1 * * * root ")
    files["/etc/cron.d/a"] = planter.commands("0 1 * * * root cd /x && ")
    files["/etc/cron.daily/a"] = "#!/bin/sh\n" + files["/etc/cron.daily/a"] + planter.commands("")
    files["/opt/site/purge.sh"] = (
        "#!/bin/bash\n"
        + files["/opt/site/purge.sh"]
        + planter.commands("find /scratch -atime +30 -delete && ")
    )
    files["/etc/systemd/system/a.service"] = "[Service]\n" + planter.commands(
        "ExecStart=/bin/env ", pipes=False
    )
    files["/etc/systemd/system/b.service.d/a.conf"] = "[Service]\n" + planter.commands(
        "ExecStartPre=-", pipes=False
    )
    files["/home/alice/.config/systemd/user/a.service"] = "[Service]\n" + planter.commands(
        "ExecStop=", pipes=False
    )
    queries = {
        ("ps", "-C", "slurmd", "-o", "args="): planter.commands("", pipes=False),
        ("dmesg",): planter.plant("[    1.0] Kernel command line: quiet agent.token={}\n")
        + planter.plant("[    2.0] NVRM: Xid (PCI:0000:1b:00): 31, pid=1, name=train --token={}\n"),
        ("apt-config", "dump"): Completed(
            0, planter.plant('Acquire::https::Proxy "https://b:{}@p";\n').encode(), b""
        ),
    }
    return FakeReader(files, processes=_processes(planter), queries=queries)


SHARED = {
    "/etc/udev/rules.d/1.rules": 'ACTION=="add", ENV{DM_TOKEN}=="x", ATTR{queue/scheduler}="none", ENV{API_KEY}="(masked)"\n',
    "/proc/sys/kernel/core_pattern": "|/usr/share/apport/apport -p%p -s%s -- %E",
    "/etc/sysctl.d/1.conf": "kernel.core_pattern = |/usr/lib/systemd/systemd-coredump %P %u %h\nvm.swappiness = 1\n",
    "/etc/tmpfiles.d/1.conf": "w /sys/kernel/mm/ksm/run - - - - 0\nd /tmp 1777 root root 10d\n",
    "/etc/docker/daemon.json": '{"x": [{"name": "token", "value": "(masked)"}]}',
    "/etc/crypttab": (
        "a UUID=1-2 none luks,discard\nb /dev/sdb1 /etc/keys/b luks\nc /dev/sdc - luks\nd LABEL=x\n"
        "s /dev/sdd /dev/urandom swap\nk UUID=3 UUID=4 luks\np UUID=5 /dev/disk/by-label/usb:/k:5 keyscript=/lib/x\n"
    ),
    "/etc/cdi/1.yaml": "token:\n  a: 1\n  password:\n  - b\nname: password\n",
}


@pytest.mark.parametrize("path", SHARED)
def test_no_secret_is_left_in_a_shared_record(path):
    data = take_record(
        FakeReader(SHARED), lambda door: door.read(path), share=True, tool_version="0"
    )
    assert data["files"][path] == SHARED[path]


@pytest.mark.parametrize("share", [False, True])
def test_no_planted_secret_is_in_a_record(share):
    planter = Planter()
    host = _host(planter)
    assert len(planter.all) > 60

    def collect(door):
        for path in host.files:
            door.read(path)
        for argv in host.queries:
            door.query(argv)
        assert Facts(door).ageing.rules

    text = json.dumps(take_record(host, collect, share=share, tool_version="0"))
    expected = planter.all if share else sorted(planter.telling)
    assert [secret for secret in expected if secret in text] == []


def test_shared_record_removes_by_age_what_the_host_removes():
    host = _host(Planter())
    data = json.loads(
        json.dumps(take_record(host, lambda door: Facts(door).ageing, share=True, tool_version="0"))
    )
    live, replayed = (Facts(one).ageing.rules for one in (host, RecordReader(data)))
    assert [(one.path, one.age, one.source.partition(":")[2]) for one in replayed] == [
        (one.path, one.age, one.source.partition(":")[2]) for one in live
    ]


@pytest.mark.parametrize("share", [False, True])
def test_file_that_is_no_utf_8_is_replayed_to_the_byte_and_without_secrets(share):
    """Latin-1, as in comments of old configurations. In a record for others nothing of it is
    kept.
    """
    path, content = "/etc/modprobe.d/l.conf", b"# caf\xe9\noptions x psk=geheim\n"
    host = FakeReader({path: FileValue(content, 0o644)}, links={"/lib": "usr/lib"})
    data = json.loads(
        json.dumps(take_record(host, lambda door: door.read(path), share=share, tool_version="0"))
    )
    kept = RecordReader(data).read(path)
    assert kept == (b"# caf\xe9\noptions x psk=(masked)\n" if not share else kept)
    assert b"geheim" not in (kept if isinstance(kept, bytes) else b"")


@pytest.mark.parametrize(
    "line", ["ImportCredential=tty.virtual.%I.agetty.*:agetty.", "LoadCredential=a:/etc/a"]
)
def test_credential_that_a_unit_names_is_no_secret(line):
    assert mask_secrets(line) == line
    assert mask_secrets("SetCredential=a:geheim") == "SetCredential=(masked)"
