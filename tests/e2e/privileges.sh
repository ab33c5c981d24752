#!/usr/bin/env bash
# Both daemons give up root's rights once they run, and everything goes on with what is left. Twice: as the machine is
# (without users of their own root stays, without its capabilities), and with such users, whom the daemons see by another
# /etc/passwd and /etc/group in a mount namespace: each is its own user, and shares only the group of the command sockets.
. "$(dirname "$0")/lib.sh"
require curl ping setpriv unshare
! grep -q __tsan_init "$(command -v cnapt)" || skip "the thread sanitizer has a thread of its own, which keeps its capabilities"
build_topology
snapshot node >"$work/node.before"
snapshot snapt1 >"$work/snapt.before"
mkdir "$work/www"
echo small >"$work/www/small"
chmod 755 "$work" "$work/www"
http_server "$work/www"

# --- What the kernel says of the process

field() { sed -n "s/^$2:[[:space:]]*//p" "/proc/${pid_of[$1]}/status"; }
thread_fields() { cat "/proc/${pid_of[$1]}"/task/*/status | sed -n "s/^$2:[[:space:]]*//p" | sort -u; }
report() { if [ "$1" = cnapt ]; then cnapt_json status; else snapt_json 1 status; fi; }

# Every capability set of every thread within CAP_NET_ADMIN (bit 12), whatever the others keep.
net_admin_only() {
    local set value
    for set in CapInh CapPrm CapEff CapBnd CapAmb; do
        while read -r value; do
            [ $((0x$value & ~0x1000)) -eq 0 ] || { echo "$1 $set $value"; return 1; }
        done < <(thread_fields "$1" $set)
    done
    equal "$(field "$1" CapEff)" 0000000000001000
}
runs_as() { equal "$(thread_fields "$1" Uid)" "$(printf '%s\t%s\t%s\t%s' "$2" "$2" "$2" "$2")"; }
is_confined() { # is_confined DAEMON USER NUMBER
    local daemon=$1 user=$2 number=$3
    claim "$daemon runs as $user, every thread" runs_as "$daemon" "$number"
    claim "$daemon has CAP_NET_ADMIN and nothing else, every thread" net_admin_only "$daemon"
    claim "$daemon has a filter of system calls, every thread" equal "$(thread_fields "$daemon" Seccomp)" 2
    claim "$daemon gets no new rights" equal "$(thread_fields "$daemon" NoNewPrivs)" 1
    claim "$daemon leaves no core file" equal "$(sed -n 's/^Max core file size *//p' "/proc/${pid_of[$daemon]}/limits" | tr -s ' ')" "0 0 bytes "
    [ -n "$is_sanitized" ] || claim "$daemon is not read by another process of its user" eval "! look_into $daemon $number"
    claim "$daemon status says so" equal "$(report "$daemon" | json '[d["process"][k] for k in ("user", "capabilities", "seccomp", "no_new_privs")]')" \
        "['$user', ['CAP_NET_ADMIN'], True, True]"
}
# look_into DAEMON NUMBER : its memory, as its user and with its capability. The sanitizers' leak checker needs that.
look_into() {
    setpriv --reuid "$2" --clear-groups --inh-caps -all,+net_admin --bounding-set -all,+net_admin head -c 0 "/proc/${pid_of[$1]}/mem"
}
is_sanitized=
! grep -q __asan_init "$(command -v cnapt)" || is_sanitized=yes
# Nothing was tried that the filter refuses: the kernel's log has it where there is auditing.
refused_calls() { dmesg 2>/dev/null | grep -c 'type=1326.*comm="\(cnapt\|snapt\)[-"]'; }
refused_before=$(refused_calls)

# --- What must go on

write_policy() {
    printf 'version = 1\n\n[[rule]]\napp = "alternative"\nmatch = { proto = "tcp", dport = %s }\naction = "bypass"\n' "$1" >"$work/policy.toml"
    [ -z "$owner" ] || chown "$owner" "$work/policy.toml"
    chmod 640 "$work/policy.toml"
}
from() { # from EXPECTED : the server sees the request come from there
    equal "$(in_ns node curl -sS -m 5 "http://$inet4/small")" small &&
        equal "$(tail -n 1 "$work/http.log" | cut -d' ' -f1)" "::ffff:$1"
}
reload_says() { cnapt reload --socket "$work/cnapt.sock"; }
same() { diff "$work/$1.before" <(snapshot "$2"); }
policy_file=$work/policy.toml

everything_works() {
    local after=$1
    claim "$after: new traffic uses the tunnel" from 198.51.100.2
    claim "$after: the process of a flow is known" wait_for 5 knows_process
    in_ns node ping -n -i 0.05 -w 4 -q $inet6 >"$work/ping.out" 2>&1 &
    local ping=$!
    sleep_until_pinged
    move 2 7
    wait $ping
    claim "$after: the node moves" on_second_uplink
    claim "$after: and a ping goes on meanwhile" at_most "$(lost)" 20
    write_policy 80
    claim "$after: reload succeeds" reload_says
    claim "$after: the new bypass rule holds" wait_for 5 from 192.0.2.6
    write_policy 81
    claim "$after: reload succeeds again" reload_says
    claim "$after: and it goes again" wait_for 5 from 198.51.100.2
    move 1 2
    wait_for 10 from 198.51.100.2
}
# attach NS DEVICE FLAGS : as a member of the group of the command sockets, who may open /dev/net/tun; the name of the
# error. The flags have to be those of the device (TUN, NO_PI, VNET_HDR; SNAPT's has several queues).
attach() {
    in_ns "$1" setpriv --reuid 64790 --regid 64790 --groups "$command_group" --no-new-privs "$python" -c 'import errno, fcntl, os, struct, sys
tun = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", sys.argv[2].encode(), int(sys.argv[3], 16)))  # TUNSETIFF
    print("attached")
except OSError as error:
    print(errno.errorcode[error.errno])' "$work/tun" "$2" "$3" 2>&1
}
knows_process() {
    in_ns node curl -sS -m 5 "http://$inet4/small" &&
        cnapt_json flows | json_true 'any(f["process"] == "curl" for f in d)'
}
sleep_until_pinged() { wait_for 5 in_ns node ping -n -c 1 -W 1 $inet6; }
on_second_uplink() { wait_for 10 eval 'cnapt_json paths | json_true "any(p[\"active\"] and p[\"interface\"] == \"up2\" for p in d)"'; }
lost() { sed -n 's/.* \([0-9.]*\)% packet loss.*/\1/p' "$work/ping.out"; }

numbers() { [ "$1" = root ] && echo 0 0 || echo "$number_cnapt $number_snapt"; }
users() { [ "$1" = root ] && echo root root || echo continuo-cnapt continuo-snapt; }
confined() { # confined WHO DAEMON...
    local who=$1 daemon all
    for daemon in "${@:2}"; do
        read -ra all <<<"$(users "$who") $(numbers "$who")"
        if [ "$daemon" = cnapt ]; then is_confined cnapt "${all[0]}" "${all[2]}"; else is_confined "$daemon" "${all[1]}" "${all[3]}"; fi
    done
}
life() { # life WHO : start, work, stop, kill -9, start, stop
    start_snapt 1
    [ -e "$work/cnapt.toml" ] || add_user alice
    [ -z "$owner" ] || { chown "$owner" "$work/cnapt.toml"; chmod 640 "$work/cnapt.toml"; }
    write_policy 81
    start_cnapt
    confined "$1" cnapt snapt1
    claim "as $1: cnapt0 is closed to others" equal "$(attach node cnapt0 5001)" EPERM
    everything_works "as $1"
    check_leaks
    stop cnapt
    claim "as $1: stop leaves the node as it was" same node node
    start_cnapt
    stop cnapt KILL
    start_cnapt
    claim "as $1: after kill -9 the tunnel works again" from 198.51.100.2
    confined "$1" cnapt
    stop cnapt
    claim "as $1: and stop leaves the node as it was" same node node
    stop snapt1 KILL
    claim "as $1: after kill -9 nobody else attaches to snapt0, no member of continuo either" equal "$(attach snapt1 snapt0 5101)" EPERM
    start_snapt 1
    stop snapt1
    claim "as $1: kill -9, start and stop leave the SNAPT's host as it was" same snapt snapt1
    claim "as $1: no socket is left behind" eval '! ls "$work"/run/*.sock "$work"/*.sock'
}

owner=
number_of() { awk -F: -v name="$2" -v free="$3" '$1 == name { free = $3 } END { print free }' "$1"; }
number_cnapt=$(number_of /etc/passwd continuo-cnapt 64788)
number_snapt=$(number_of /etc/passwd continuo-snapt 64787)
command_group=$(number_of /etc/group continuo 64789)
make_tun_device
if ! getent passwd continuo continuo-cnapt continuo-snapt >/dev/null; then
    life root
    rm -rf "$work"/s1 "$work"/c "$work"/snapt1.toml "$work"/cnapt.toml
fi

# --- With users of their own: in a mount namespace whose /etc/passwd and /etc/group know them

for name in cnapt snapt; do
    number=number_$name
    echo "continuo-$name:x:${!number}:${!number}::/nonexistent:/usr/sbin/nologin" >>"$work/passwd.new"
    echo "continuo-$name:x:${!number}:" >>"$work/group.new"
done
echo "continuo:x:$command_group:" >>"$work/group.new"
cat /etc/passwd "$work/passwd.new" | awk -F: '!seen[$1]++' >"$work/passwd"
cat /etc/group "$work/group.new" | awk -F: '!seen[$1]++' >"$work/group"
chmod 644 "$work/passwd" "$work/group"
with_user='mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group && mount --bind "$0/tun" /dev/net/tun && exec "$@"'
exec_in_ns() {
    local name
    name=$(ns "$1")
    shift
    case $1 in
        cnapt | snapt) exec unshare -m ip netns exec "$name" sh -c "$with_user" "$work" "$@" ;;
        *) exec ip netns exec "$name" "$@" ;;
    esac
}
owner=root:$number_cnapt
mkdir -m 1770 "$work/run"
chgrp "$command_group" "$work/run"
snapt_socket() { echo "$work/run/snapt$1.sock"; }
cnapt_json() { cnapt "$@" --json --socket "$work/run/cnapt.sock"; }
reload_says() { cnapt reload --socket "$work/run/cnapt.sock"; }
run_cnapt() {
    mkdir -p "$work/c"
    spawn node cnapt cnapt run --config "$work/cnapt.toml" --policy "$policy_file" --state "$work/c" --socket "$work/run/cnapt.sock"
}
wait_cnapt() { cnapt status --wait up --timeout "${1:-20}" --socket "$work/run/cnapt.sock" >>"$work/cnapt.log" 2>&1; }
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" >>"$work/snapt1.log" 2>&1
chown "root:$number_snapt" "$work/snapt1.toml"
chmod 640 "$work/snapt1.toml"
life users
owned() { equal "$(find "$work/s1" ! -uid "$number_snapt"; find "$work/c" ! -uid "$number_cnapt")" ""; }
claim "what root had in the state directories is each user's own" owned
as_cnapt() { setpriv --reuid "$number_cnapt" --regid "$number_cnapt" --groups "$command_group" "$@"; }
claim "cnapt's user does not read what snapt has" eval '! as_cnapt cat "$work/snapt1.toml" && ! as_cnapt cat "$work/s1/ledger.db"'
# Both sockets lie in one directory: one daemon leaves the other's alone, and cannot take it away.
start_snapt 1
start_cnapt
stop snapt1 KILL
start_snapt 1
claim "snapt killed and started again: cnapt answers still" equal "$(cnapt_json status | json 'd["process"]["user"]')" continuo-cnapt
stop cnapt
start_cnapt
claim "cnapt stopped and started again: snapt answers still" equal "$(snapt_json 1 status | json 'd["process"]["user"]')" continuo-snapt
claim "neither removes the other's socket" eval '! as_cnapt rm -f "$work/run/snapt1.sock" && [ -S "$work/run/snapt1.sock" ]'
claim "sockets are their daemon's, and of the group" equal "$(stat -c %u:%g:%a "$work/run/cnapt.sock" "$work/run/snapt1.sock" | tr '\n' ' ')" \
    "$number_cnapt:$command_group:660 $number_snapt:$command_group:660 "
stop cnapt
stop snapt1
as_cnapt "$python" -c 'import socket, sys
socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$work/run/snapt1.sock"
start_snapt 1
claim "a socket that another user left there is replaced" equal "$(stat -c %u "$work/run/snapt1.sock")" "$number_snapt"
stop snapt1

# State that is of the user that both were before.
{ cat "$work/passwd"; echo "continuo:x:64786:$command_group::/nonexistent:/usr/sbin/nologin"; } | awk -F: '!seen[$1]++' >"$work/passwd.both"
mv "$work/passwd.both" "$work/passwd"
chmod 644 "$work/passwd"
former=$(number_of "$work/passwd" continuo 0)
chown -R "$former" "$work/s1"
start_snapt 1
claim "what the user of an earlier version had is the daemon's after its start" owned
stop snapt1

# Only root may open the device: root stays, and the tunnel works.
chmod 600 "$work/tun"
spawn snapt1 snapt1 snapt run --config "$work/snapt1.toml" --state "$work/s1" --socket "$work/run3/snapt.sock"
claim "with a device that only root may open, the daemon comes up" \
    snapt status --wait up --timeout 15 --socket "$work/run3/snapt.sock"
claim "root stays, and says why" \
    grep -q "stays user root, without root's capabilities: continuo-snapt may not open /dev/net/tun" "$work/snapt1.log"
claim "and has no capability but CAP_NET_ADMIN" net_admin_only snapt1
stop snapt1
chmod 666 "$work/tun"

# A directory that the user cannot reach: root stays, and says so.
mkdir -m 700 "$work/closed"
cp "$work/cnapt.toml" "$work/closed/"
chmod 600 "$work/closed/cnapt.toml"
mkdir "$work/theirs"
echo theirs >"$work/theirs/file"
chown -R "$number_cnapt" "$work/theirs"
chmod 777 "$work/theirs"
spawn node closed cnapt run --config "$work/closed/cnapt.toml" --state "$work/c2" --socket "$work/theirs/cnapt.sock"
stays() { grep -q "stays user root, without root's capabilities: continuo-cnapt may not read $work/closed/cnapt.toml" "$work/closed.log"; }
claim "with a file that its user may not read, root stays and says why" wait_for 5 stays
pid_of[cnapt]=${pid_of[closed]}
wait_for 5 net_admin_only cnapt
claim "and has no capability but CAP_NET_ADMIN" net_admin_only cnapt
unset 'pid_of[cnapt]'
is_theirs() { equal "$(stat -c %u "$work/theirs" "$work/theirs/file" | sort -u)" "$number_cnapt"; }
claim "a directory that was there for the socket is whose it was, with all in it" is_theirs
stop closed

# One that was not there serves the user and, after that, root.
shared_socket=$work/made/cnapt.sock
listens_as() { [ -S "$shared_socket" ] && runs_as either "$1"; }
spawn node either cnapt run --config "$work/cnapt.toml" --state "$work/c3" --socket "$shared_socket"
claim "a directory made for the socket serves the user" wait_for 5 listens_as "$number_cnapt"
claim "it is as the one of the package" equal "$(stat -c %a:%u:%g "$work/made")" "1770:0:$command_group"
stop either
spawn node either cnapt run --config "$work/closed/cnapt.toml" --state "$work/c3" --socket "$shared_socket"
claim "and root, if it has to stay root" wait_for 5 listens_as 0
stop either
claim "no socket is left in it" eval '[ -d "$work/made" ] && [ ! -e "$shared_socket" ]'
claim "no refused system call is in the kernel's log" equal "$(refused_calls)" "$refused_before"
finish
