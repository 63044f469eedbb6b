#!/bin/sh
# Written by hosttune for a trial; gone when it ends. Called by units of its own in a boot on trial:
#   early      before any mount, module or sysctl: is this boot the trial, or one after it?
#   emergency  the boot has stopped
#   deadline   nobody has confirmed in time
#   late       the boot is through: status 0 where its health is to be looked at
#   hold       early, with the seconds up to the deadline: keep what resets this host open, for the case that all else hangs
#   reboot     hosttune has taken it back itself, and leaves the reboot to this: when the GPUs are free, or at last
# It takes back, once, what a run changed for the next boot, and reboots once. It needs the root file system alone: no
# Python, no network, no /var. All is in functions, so that half of this file does nothing.
# `sync FILE` of uutils is a whole sync(2), which does as well.
R=
PATH=$R/usr/sbin:$R/usr/bin:$R/sbin:$R/bin
T=$R/etc/hosttune/trial
umask 077

note() {
    { echo "hosttune: $*" > "$R/dev/console"; } 2> /dev/null
    { echo "<4>hosttune: $*" > "$R/dev/kmsg"; } 2> /dev/null
    { echo "$*" >> "$T/log"; } 2> /dev/null || unsaid=$*
}

# Not for each file: a terminal that is blocked costs ten seconds each time.
say() {
    note "$@"
    [ "$mode" != deadline ] || timeout 10 wall "hosttune: $*" 2> /dev/null
}

has() { [ -e "$T/$1" ]; }

# A mark holds the id of the boot that made it.
mark() { { echo "$boot" > "$T/$1"; } 2> /dev/null && sync "$T/$1" "$T" && is_of_this_boot "$1"; }

is_of_this_boot() { has "$1" && read -r its < "$T/$1" && [ "$its" = "$boot" ]; }

is_writable() { { echo > "$T/probe"; } 2> /dev/null && rm -f "$T/probe"; }

# A user can take each byte and each inode that becomes free, faster than they are taken here, and give them back at any
# moment. Then the boot on trial leaves it to the next one, which acts before users do and with what is kept for it: the
# reset at the last deadline stays due. Not where the file system is read-only, which no user can bring about: access(2)
# says so (EROFS), and knows nothing of room.
is_left_to_next_boot() { is_of_this_boot trying && [ -w "$T" ]; }

keep_for_next_boot() {
    cp "$T/room" "$T/room.0"
    for number in 1 2 3 4 5 6 7 8 9 10 11 12; do
        : > "$T/room.$number"
    done
    sync "$T/room.0" "$T"
} 2> /dev/null

# On a full disk what was kept free for this has to do. Remounting merges the line of / in fstab, which may be what is wrong.
make_writable() {
    { rm -f "$T/room" && sync "$T"; } 2> /dev/null
    is_of_this_boot trying || rm -f "$T"/room.*
    is_writable || { mount --options-source=disable -o remount,rw "$R/" || mount -o remount,rw "$R/"; } 2> /dev/null
    is_writable || return
    [ -z "$unsaid" ] || { echo "$unsaid" >> "$T/log"; } # why it comes back
    unsaid=
}

words() { read -r line < "$R/proc/cmdline"; echo " $line "; }

is_trial_entry() {
    has oneshot && read -r run < "$T/oneshot" && case $(words) in *" hosttune.trial=$run "*) ;; *) false ;; esac
}

# Somebody sits before it, or the crash kernel writes its dump.
must_stay_out() {
    [ -e "$R/proc/vmcore" ] || case $(words) in
    *" rescue "* | *" emergency "* | *" single "* | *" recovery "* | *" s "* | *" S "* | *" 1 "* | *" -b "*) ;;
    *" systemd.unit=rescue.target "* | *" systemd.unit=emergency.target "* | *" hosttune.trial=off "*) ;;
    *) false ;;
    esac
}

# Compared here: not every sha256sum -c ends with 1 where it says FAILED (uutils 0.0.17).
has_digest() { said=$(sha256sum 2> /dev/null < "$T/$2") && [ "${said%% *}" = "$1" ]; }

is_as_listed() {
    while read -r digest name <&4; do
        has_digest "$digest" "$name" || return 1
    done 4< "$T/sums"
}

# The second line of `armed` is the digest of the list of digests.
is_whole() { { read -r its && read -r digest; } < "$T/armed" && has_digest "$digest" sums && is_as_listed; }

# Whether a file is as the kept one: where that is missing there must be none.
is_as() {
    if [ -e "$2" ]; then
        [ -f "$1" ] && [ ! -L "$1" ] && cmp -s "$1" "$2"
    else
        [ ! -e "$1" ] && [ ! -L "$1" ]
    fi
}

put_back() { # number, mode, owner, path
    folder=${4%/*} now=$R$4
    mark put || return 1
    if has "$1.old"; then
        # As an interrupted write of hosttune calls its temporary file; another guard may be at work.
        temporary=$R$folder/.${4##*/}.hosttune-000000000000$tag
        rm -f "$temporary"
        if [ -e "$now" ]; then
            cp -a "$now" "$temporary" # with its access list and attributes, which the run has kept
        else
            (umask 022 && mkdir -p "$R$folder") && cat < /dev/null > "$temporary" &&
                chmod "$2" "$temporary" && chown "$3" "$temporary"
        fi && cat "$T/$1.old" > "$temporary" && cmp -s "$T/$1.old" "$temporary" && sync "$temporary" &&
            mv -f "$temporary" "$now" || {
            rm -f "$temporary"
            return 1
        }
    else
        rm -f "$now" || return 1
        case $folder in */systemd/system/*.d) rmdir "$R$folder" 2> /dev/null ;; esac
    fi
    [ ! -d "$R$folder" ] || sync "$R$folder" || return 1
    note "put back $4"
}

restore() {
    while read -r number mode_of owner path <&3; do
        if is_as "$R$path" "$T/$number.old"; then
            continue
        elif is_as "$R$path" "$T/$number.new"; then
            put_back "$number" "$mode_of" "$owner" "$path" || return 1
        else
            note "$path was changed in the meantime: it is left as it is"
            mark partly
        fi
    done 3< "$T/set"
}

# Who makes this file first has decided, a confirmation or the return; what was cut off here is empty.
decide() {
    [ -e "$T/decided" ] || { (set -C && echo returned > "$T/decided") 2> /dev/null && sync "$T/decided" "$T"; }
    has decided && ! is_confirmed
}

is_confirmed() { has decided && read -r its < "$T/decided" && [ "$its" = confirmed ]; }

# At most one return for a run, whoever comes first.
take_turn() { (set -C && echo "$boot" > "$T/returned") 2> /dev/null && sync "$T/returned" "$T" && is_of_this_boot returned; }

# Any local user chooses the name of a process, and of the files that it has open. No such word becomes an argument here,
# and none decides: a name counts only for processes of root, a device by its numbers.
read_process() { # folder of a process: its name and user, and for how many open files it has room
    name= uid= size=
    while read -r key value rest; do
        case $key in
        Name:) name=$value${rest:+ $rest} ;;
        Uid:) uid=$value ;;
        FDSize:) size=$value; break ;;
        esac
    done 2> /dev/null < "$1/status"
    [ "$size" ] # else it has ended
}

is_monitor() {
    [ "$uid" = 0 ] && case $monitors in *"
$name
"*) ;; *) false ;; esac
}

# What a user has open hides only their own: each has a share, with what it costs to look at a file that is only called like
# a GPU. All subordinate ids have one together: one user has 65,536 of them (subuid(5)).
most=1048576
has_share_left() { # of uid, to look at so many files
    owner=$uid
    [ "$uid" != 0 ] || return 0
    [ -z "$first" ] || [ "$uid" -lt "$first" ] || [ "$uid" -ge "$behind" ] || owner=others
    eval "used=\$((\${used_$owner:-0} + $1)) used_$owner=\$used"
    [ "$used" -le "$most" ]
}

find_subordinates() {
    first= behind=0
    while IFS=: read -r name begin count rest; do
        case $begin:$count in :* | *: | *[!0-9:]*) continue ;; esac
        [ "${first:-$begin}" -lt "$begin" ] || first=$begin
        [ "$behind" -ge $((begin + count)) ] || behind=$((begin + count))
    done 2> /dev/null < "$R/etc/subuid"
}

# NVIDIA's GPUs are character devices of major 195; its minors 254 and 255 are no GPU (nv-linux.h: NV_MINOR_DEVICE_NUMBER_*).
# AMD's are used through /dev/kfd, whose major number is drawn at the load (proc_devices(5)).
is_gpu() {
    [ -c "$1" ] && numbers=$(stat -L -c %t:%T "$1" 2> /dev/null) || return 1
    case $numbers in c3:fe | c3:ff) false ;; c3:* | "$kfd:"*) ;; *) false ;; esac
}

find_kfd() {
    kfd=none
    while read -r number word; do
        [ "$word" != kfd ] || kfd=$(printf %x "$number")
    done 2> /dev/null < "$R/proc/devices"
}

# With O_PATH anybody may point at a file, whatever its mode (open(2)): bit 21 of the flags, which are octal digits.
is_open() {
    while read -r key value rest; do
        case $key:$value in
        flags:: | flags::*[!0-7]*) ;;
        flags::*) [ $((0$value & 010000000)) = 0 ]; return ;;
        esac
    done 2> /dev/null < "$1"
    return 0 # it cannot be read
}

# In a mount namespace of their own a user mounts at /dev/nvidia0 what never answers. Where the file is tells the mount
# table of the process, which asks no server: nodes of devices are on few types.
is_of_kernel() { # folder of a process, number of an open file
    mount=
    while read -r key value rest; do
        [ "$key" != mnt_id: ] || mount=$value
    done 2> /dev/null < "$1/fdinfo/$2"
    case $mount in '' | *[!0-9]*) return 1 ;; esac
    line=$(timeout 2 grep -h -m 1 "^$mount " "$1/mountinfo" "$R/proc/1/mountinfo" 2> /dev/null)
    case ${line#* - } in "devtmpfs "* | "tmpfs "* | "ext4 "* | "xfs "* | "btrfs "*) ;; *) false ;; esac
}

# Only what is called like a GPU is looked at: a look at an open file of a dead server (NFS, FUSE) does not end. What find(1)
# prints has no name of a user's: open files have numbers.
find_gpu_files() { # folder
    find "$1" -maxdepth 1 "(" -lname "/dev/nvidia[0-9]" -o -lname "/dev/nvidia[0-9][0-9]" -o -lname /dev/kfd ")" 2> /dev/null
}

has_gpu_open() { # folder of a process; status 3 where it has files that are only called so
    find_gpu_files "$1/fd/" | {
        looked=0
        while [ "$looked" -lt 4 ] && read -r entry; do
            number=${entry##*/} looked=$((looked + 1))
            is_open "$1/fdinfo/$number" && is_of_kernel "$1" "$number" && is_gpu "$1/fd/$number" && exit 0
        done
        [ "$looked" = 0 ] || exit 3
        exit 1
    }
}

look_for_gpu_work() { # status 1: there is none; 2: none was seen, and some processes were not looked at
    find_kfd
    find_subordinates
    none=1
    for process in "$R"/proc/[0-9]*; do
        if ! read_process "$process" || is_monitor; then
            continue
        elif has_share_left "$size"; then
            has_gpu_open "$process"
            case $? in
            0) return 0 ;;
            3) has_share_left $((most / 8)) ;;
            esac
        else
            none=2
        fi
    done
    return "$none"
}

# What was not looked at, or not in time, counts as work for ten looks: then a user could only hold the reboot so.
is_gpu_at_work() {
    in_time 60 look_for_gpu_work
    case $? in
    0) ;;
    1) false ;;
    *) unseen=$((unseen + 1)) && [ "$unseen" -le 10 ] ;;
    esac
}

uptime_s() { read -r up rest < "$R/proc/uptime" && echo "${up%%.*}"; }

# The status of a command, 124 when its time is over. It is left behind then: a driver that is stuck in the kernel keeps
# a process that asks it, and timeout(1) waits for that. Turns of the loop are not counted: on a busy host each takes longer.
in_time() { # seconds, command
    end=$(($(uptime_s) + $1))
    shift
    "$@" &
    asked=$!
    while kill -0 "$asked" 2> /dev/null; do
        [ "$(uptime_s)" -lt "$end" ] || { kill -9 "$asked"; return 124; }
        sleep 1
    done
    wait "$asked"
}

reboot_once() {
    # Of the machine: not the kernel that somebody has loaded by kexec, and not /run/nextroot (systemctl(1)).
    export SYSTEMCTL_SKIP_AUTO_KEXEC=1 SYSTEMCTL_SKIP_AUTO_SOFT_REBOOT=1
    {
        sleep 300 # a stuck driver can stop an ordinary reboot
        systemctl reboot -f &
        sleep 60
        echo b > "$R/proc/sysrq-trigger"
    } > /dev/null 2>&1 < /dev/null &
    systemctl reboot
}

wait_killably() { # seconds
    trap 'kill "$!"; exit' TERM
    sleep "$1" &
    wait "$!"
}

# The last deadline: from here on the host reboots after so many seconds, whatever holds this script up. What is not put
# back by then, the next boot puts back. A user can hold the lock of /proc, and then no name is found there that is not
# known already: so this comes before any look into it, and a process of its own opens sysrq-trigger at once.
begin_last_deadline() {
    { read -r last < "$T/last"; } 2> /dev/null
    case $last in '' | *[!0-9]*) last=3600 ;; esac
    {
        wait_killably "$last"
        reboot_once
    } > /dev/null 2>&1 < /dev/null &
    watcher=$!
    {
        exec 9> "$R/proc/sysrq-trigger"
        wait_killably $((last + 400))
        echo b >&9
    } > /dev/null 2>&1 < /dev/null &
    resetter=$!
}

# A user who holds the lock of /proc before the deadline keeps its script from finding sysrq-trigger. So it is opened before
# users log in, and what comes after that starts no program, makes no process (a user can take every place for one, and
# sh ends where it gets none) and looks up no name but in this folder, which is root's: no user can hold its lock. A power
# cut ends this; the folder goes when the trial ends, and then nothing is reset.
hold_reset() { # seconds up to the deadline
    cd "$T" && [ -e "$R/proc/sysrq-trigger" ] && exec 9> "$R/proc/sysrq-trigger" || return
    { read -r last < last; } 2> /dev/null
    case $last in '' | *[!0-9]*) last=3600 ;; esac
    {
        sleep $(($1 + last + 500)) &
        second=$!
        {
            sleep $(($1 + last + 440))
            is_still_on_trial || kill "$second"
        } &
        wait "$second" && echo b >&9
    } > /dev/null 2>&1 < /dev/null &
}

is_still_on_trial() { [ -e armed ] && [ ! -e failed ] && ! { read -r its < decided && [ "$its" = confirmed ]; }; }

# Nothing is rebooted in this boot any more.
release_reset() { ! is_of_this_boot trying || timeout 30 systemctl --no-block stop hosttune-trial-reset.service; }

end_last_deadline() {
    [ -z "$watcher" ] || kill "$watcher" "$resetter" 2> /dev/null
    watcher=
}

reboot_when_idle() {
    {
        while is_gpu_at_work; do
            sleep 60
        done
        reboot_once
    } > /dev/null 2>&1 < /dev/null &
}

fail() {
    say "rollback failed: $*"
    mark failed || release_reset
}

# What a user can bring about by taking all room.
fail_to_write() {
    if is_left_to_next_boot; then
        say "rollback failed: $*; the host is reset after the last deadline, and the next boot tries it again"
    else
        fail "$*; the host is not rebooted"
    fi
}

# GRUB could not clear what asked for the entry, or a journal has brought it back since.
clean_grub() {
    block=$R/boot/grub/grubenv entry=$R/boot/grub/custom.cfg
    if grub-editenv "$block" list 2> /dev/null | grep -qx next_entry=hosttune-trial; then
        grub-editenv "$block" unset next_entry
    fi
    if grep -q '^# Written by hosttune for the trial' "$entry" 2> /dev/null; then
        rm -f "$entry"
    fi
    sync -f "$R/boot/grub" 2> /dev/null
}

come_back() {
    say "$*"
    # As far as its file system is mounted by now; `late` looks again.
    ! has oneshot || is_trial_entry || { make_writable && clean_grub; }
    if ! make_writable; then
        # No mark, which would be an empty file on a full disk: the next boot, or hosttune, takes it back where there is room.
        why="the root file system cannot be written to, it is read-only or full; nothing was done"
        if is_left_to_next_boot; then
            fail_to_write "$why"
        else
            say "rollback failed: $why"
            release_reset
        fi
    elif ! is_whole; then
        fail "what was kept in $T is damaged; nothing was done"
    elif ! decide; then
        is_confirmed || fail_to_write "the rollback cannot be recorded; nothing was done"
    elif ! restore; then
        fail_to_write "the file could not be put back"
    elif ! take_turn && ! { [ "$gave_up" ] && is_of_this_boot returned; }; then
        has returned || fail_to_write "the return cannot be recorded"
    else
        rm -f "$T/failed" # of an earlier try
        leave_trial
    fi
}

leave_trial() {
    if ! is_of_this_boot put && ! is_trial_entry && ! { [ "$gave_up" ] && is_of_this_boot trying; }; then
        say "rolled back: this boot has nothing of the trial"
        release_reset
    elif [ "$mode" = deadline ] && is_gpu_at_work; then
        say "rolled back: in force after a reboot, which waits for the end of the work on the GPUs, at most $last s"
        reboot_when_idle
        watcher= # it goes on
    else
        say "reboots once, for the rollback"
        reboot_once
    fi
}

main() {
    mode=$1
    case $mode in
    check) # a dry run at arming: can this host do it?
        for tool in cat chmod chown cmp cp find grep mkdir mount mv rm rmdir sha256sum sleep stat sync systemctl timeout; do
            command -v "$tool" > /dev/null || { echo "$tool is missing"; return 1; }
        done
        find_gpu_files "$T" > /dev/null || { echo "find(1) looks for no targets of links (-lname)"; return 1; }
        has sums && is_as_listed || { echo "what was kept does not read back"; return 1; }
        sync "$T/set" "$T" || { echo "sync(1) takes no file"; return 1; }
        return
        ;;
    early) tag=ea17 ;;
    emergency) tag=e9e9 ;;
    *) tag=dead ;;
    esac
    boot=unknown gave_up= unsaid= watcher= resetter= last=3600 within=$2 unseen=0
    case $mode in deadline | reboot) begin_last_deadline ;; esac
    guard
    status=$?
    end_last_deadline
    return "$status"
}

guard() {
    read -r boot < "$R/proc/sys/kernel/random/boot_id"
    # A unit can be pulled in again, in the boot that armed it, too.
    if ! has armed || is_confirmed || is_of_this_boot armed || must_stay_out; then
        [ "$mode" != late ]
        return
    fi
    monitors="
$(cat "$T/monitors" 2> /dev/null)
"
    case $mode in
    early)
        if has returned || is_of_this_boot trying; then
            return 0
        elif ! has settled; then
            come_back "the host went down before the changes in force at once were confirmed"
        elif has decided; then
            come_back "the host went down while the trial was being rolled back"
        elif has trying; then
            come_back "a second boot without a confirmation"
        elif has oneshot && ! is_trial_entry; then
            come_back "this boot did not take the entry on trial, or one that took it did not come as far as here"
        elif ! is_writable; then
            come_back "the root file system is read-only in the boot on trial"
        else
            if mark trying; then
                keep_for_next_boot
            else
                come_back "the boot on trial cannot be recorded"
            fi
        fi
        ;;
    emergency) has returned || come_back "the boot on trial has stopped in emergency mode" ;;
    deadline)
        has returned && return 0
        is_of_this_boot trying || end_last_deadline
        if has come-back && timeout 30 systemctl is-active --quiet multi-user.target; then
            in_time 910 timeout 900 sh "$T/come-back" && return 0
            gave_up=1 # what it has put back is in force after a reboot, which it has not begun
        fi
        come_back "nobody has confirmed in time"
        ;;
    reboot)
        reboot_when_idle
        wait # so that systemctl stop ends it
        ;;
    late)
        is_of_this_boot trying && ! has returned && return 0
        ! has oneshot || clean_grub
        has returned # then the journal is told
        return
        ;;
    hold) ! is_of_this_boot trying || has returned || hold_reset "$within" ;;
    esac
    return 0
}

main "$@"
