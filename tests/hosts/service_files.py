"""What a described machine shows of its services: time daemons, needrestart, the start of a
session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.services.clock import SYNCHRONIZED

if TYPE_CHECKING:
    from tests.hosts.machine import Machine

TIME_DAEMONS = {"26.04": "chrony"}
# As the package ships it, shortened.
NEEDRESTART = """\
# Restart services (l)ist only, (i)nteractive or (a)utomatically.
#$nrconf{restart} = 'i';

# Override service default selection (hash of regex).
$nrconf{override_rc} = {
    # DBus
    qr(^dbus) => 0,

    # gettys
    qr(^getty@.+\\.service) => 0,

    # misc
    qr(^docker) => 0,

    # don't restart systemd-logind, see #798097
    qr(^systemd-logind) => 0,
};

# Override container default selection (hash of regex).
$nrconf{override_cont} = {
};

# Read additional config snippets.
if(-d q(/etc/needrestart/conf.d)) {
      foreach my $fn (sort </etc/needrestart/conf.d/*.conf>) {
        print STDERR "$LOGPREF eval $fn\\n" if($nrconf{verbosity} > 1);
        eval do { local(@ARGV, $/) = $fn; <>};
        die "Error parsing $fn: $@" if($@);
      }
}
"""


def service_files(machine: Machine) -> dict[str, str]:
    files: dict[str, str] = {}
    if machine.has_systemd:
        daemon = TIME_DAEMONS.get(machine.os_version, "systemd-timesyncd")
        files[f"/sys/fs/cgroup/system.slice/{daemon}.service/cgroup.procs"] = "901\n"
        if daemon == "systemd-timesyncd":
            files[SYNCHRONIZED] = ""
    if "needrestart" in machine.packages:
        files["/etc/needrestart/needrestart.conf"] = NEEDRESTART
        files["/etc/needrestart/conf.d/50-site.conf"] = (
            "# people restart services here\n$nrconf{restart} = 'l';\n"
        )
    return files


def service_links(machine: Machine) -> dict[str, str]:
    if not machine.has_systemd:
        return {}
    target = (
        "graphical"
        if "/etc/systemd/system/display-manager.service" in machine.links
        else "multi-user"
    )
    return {"/etc/systemd/system/default.target": f"/usr/lib/systemd/system/{target}.target"}
