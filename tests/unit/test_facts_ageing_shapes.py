"""Each way to write a purge by access time holds noatime, wherever it is written; what asks for no
access times does not.
"""

import json

import pytest

from hosttune.facts import Facts
from hosttune.values import FileValue
from tests.unit.fake_reader import FakeReader

PURGE = "#!/bin/sh\nfind /data -atime +30 -delete\n"
PROGRAM = FileValue(PURGE.encode(), 0o755)
MOUNTS = "20 1 8:2 / / rw - ext4 /dev/sda2 rw\n30 20 0:50 / /nfs rw - nfs4 server:/x rw\n"
SITE = {
    "/proc/self/mountinfo": MOUNTS,
    **dict.fromkeys(("/opt/purge", "/opt/purge.sh", "/opt/night/a", "/usr/local/bin/purge"), PROGRAM),
    **dict.fromkeys(("/opt/lib", "/opt/clean.py", "/root/.env", "/home/bob/.env", "/etc/shadow"), PURGE),
    "/opt/big": PURGE + "#" * (1 << 20),
}  # fmt: skip
UNIT = "/etc/systemd/system/p.service"
CARRIERS = {
    "a table of cron": lambda line: {"/etc/cron.d/x": f"# x\n0 3 * * * root {line}\n"},
    "the crontab of the system": lambda line: {"/etc/crontab": f"@daily root {line}\n"},
    "the crontab of a user": lambda line: {"/var/spool/cron/crontabs/bob": f"0 3 * * mon {line}\n"},
    "anacron": lambda line: {"/etc/anacrontab": f"1 5 job {line}\n"},
    "a script of cron": lambda line: {"/etc/cron.daily/x": f"#!/bin/sh\n{line}\n"},
    "continued lines": lambda line: {
        "/etc/cron.daily/x": "#!/bin/sh\n" + line.replace(" ", " \\\n  ", 2) + "\n"
    },
    "a function": lambda line: {"/etc/cron.daily/x": f"#!/bin/sh\nf() {{\n\t{line}\n}}\nf\n"},
    "a here-document": lambda line: {"/etc/cron.daily/x": f"#!/bin/sh\nsh <<EOF\n{line}\nEOF\n"},
    "a unit": lambda line: {UNIT: f"[Service]\nExecStart=-{line}\n"},
    "a unit with a comment inside": lambda line: {
        UNIT: "[Service]\nExecStart=" + line.replace(" ", " \\\n# x\n ", 1)
    },
    "a drop-in": lambda line: {f"{UNIT}.d/a.conf": f"[Service]\nExecStartPost={line}\n"},
    "a unit of a timer": lambda line: {
        "/etc/systemd/system/q.timer": "[Timer]\nUnit=p@x.service\n",
        "/usr/lib/systemd/system/p@.service": f"[Service]\nExecStart={line}\n",
    },
    "a unit of a user": lambda line: {
        "/home/bob/.config/systemd/user/p.service": f"[Service]\nExecStart={line}\n"
    },
    "a script": lambda line: {
        "/etc/cron.d/x": "0 3 * * * root /opt/job\n",
        "/opt/job": f"#!/bin/bash\n{line}\n",
    },
    "an epilog": lambda line: {
        "/etc/slurm/slurm.conf": "Epilog=ep.d/*\n",
        "/etc/slurm/ep.d/1": f"#!/bin/sh\n{line}\n",
    },
}
INDIRECT = {
    "a script in Python": lambda line: {
        "/etc/cron.d/x": "0 3 * * * root /opt/job.py\n", "/opt/job.py": f"#!/usr/bin/python3\nos.system({json.dumps(line)})\n"
    },
    "a file that is read in": lambda line: {"/etc/cron.daily/x": "#!/bin/sh\n. /opt/s\n", "/opt/s": f"{line}\n"},
    "a file of variables": lambda line: {
        UNIT: "[Service]\nEnvironmentFile=-/etc/p\nExecStart=/bin/sh -c $J\n", "/etc/p": f"J='{line}'\n"
    },
}  # fmt: skip
PURGES = r"""find /data -atime +30 -delete
find /data/x -type f -amin +600 -exec rm {} \;
find "/data" -anewer /x
find /da'ta' -used +3 | xargs rm
find /data -a\time +1
find /data "-at"ime +1
find $DIR -atime +30
find "${DIR}/x" -atime +30
find . -atime +3
cd /data && find . -atime +3
FIND=/usr/bin/find; $FIND /data -atime +3
OPTS="-atime +3"; find /data $OPTS
busybox find /data -atime +3
/bin/busybox find /data -atime +3 -delete
find /data -printf '%A@ %p\n'
stat -c %X /data/a
stat --format='%x %n' /data/*
ls -ltu /data
ls --time=atime /data
tmpreaper 7d /data
tmpreaper --mtime 7d /data
tmpwatch -umc 30d /data
/usr/sbin/tmpwatch -x /a -X '/b/*' 10d /data
tmpwatch $FLAGS 30d /data
xargs --arg-file=x -n1 find -amin +3
ls /data | xargs -I{} find {} -atime +3
bash -c "find /data -atime +30 -delete"
sh -c 'cd /data; find . -atime +3'
su bob -c "find /data -atime +3"
env A=1 find /data -atime +3
A=1 nice -n 19 ionice -c3 find /data -atime +3
x=$(find /data -atime +30)
rm `find /data -atime +3`
for f in $(find /data -atime +3); do rm $f; done
(find /data -atime +30 -delete)
find /data ! -neweraa /x
python3 -c 'import os; os.stat(x).st_atime'
perl -e 'unlink if -A $_ > 30'
rm /data/**/*(.a+30)
systemd-tmpfiles --clean /opt/x.conf
docker run -v /data:/x c find /x -atime +3
chroot /data find /x -atime +3
find /x/*/../../data -atime +3
find /data/`date`/x -atime +3"""
STARTS = r"""/opt/purge
/opt/purge.sh --all
sh /opt/purge
bash -x /opt/purge --all
python3 -u /opt/clean.py --days 3
purge
run-parts --report /opt/night
flock -n /run/l /opt/purge
flock -w 5 /run/l sh /opt/purge
sudo -u bob /opt/purge
su bob -c "/opt/purge --all"
env X=1 /opt/purge
exec /opt/purge
x=$(/opt/purge)
test -x /opt/purge && /opt/purge
/opt/purge | logger
cd /opt && ./purge.sh
cd /opt && sh purge.sh
find /x -mtime +3 -exec /opt/purge {} +
ls | xargs -n1 /opt/purge
sh -c '/opt/purge; true'
. /opt/lib
[ -r /opt/lib ] && . /opt/lib
sh -c '. /opt/lib; clean'
. $CONF/lib
. lib
. "$(command -v lib)"
. /opt/*/lib
. ~/.env
. /etc/shadow
/nfs/purge
/opt/big"""
HARMLESS = r"""find /data -mtime +3 -delete
find /data -name '*-atime' -delete
find /data -printf '%T@ %p'
find /other -atime +3
tmpreaper 7d /other
mount -o remount,noatime /data
stat -c '%s %y' /data
ls -l /data
systemd-tmpfiles --clean
rsync -a /data /nfs/backup
apt install tmpreaper
/usr/bin/true /opt/purge
echo /opt/purge"""


def is_held(files):
    found = Facts(FakeReader({**SITE, **files}, links={"/lib": "usr/lib"})).ageing
    return bool(found.hidden) or any(
        rule.uses_atime and f"{rule.path}/".startswith(("//", "/data/")) for rule in found.rules
    )


@pytest.mark.parametrize("carrier", [*CARRIERS, *INDIRECT])
def test_every_shape_of_a_purge_holds(carrier):
    assert [
        line for line in PURGES.splitlines() if not is_held((CARRIERS | INDIRECT)[carrier](line))
    ] == []


@pytest.mark.parametrize(
    "carrier", [one for one in CARRIERS if one != "a script"]
)  # one level is followed
def test_every_shape_of_a_start_is_followed(carrier):
    assert [line for line in STARTS.splitlines() if not is_held(CARRIERS[carrier](line))] == []


@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_other_line_holds(carrier):
    assert [line for line in HARMLESS.splitlines() if is_held(CARRIERS[carrier](line))] == []
