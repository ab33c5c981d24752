# Shared by the end-to-end tests and ./demo: a small Internet in network namespaces, the two daemons, claims.
#
#            192.168.1.0/24        192.0.2.0/30           198.51.100.0/30
#         up1 ───────────── gw1 ─────────────┐        ┌───────────────── snapt1
#   node                    (NAT)            core ────┤
#         up2 ───────────── gw2 ─────────────┘  │     └───────────────── snapt2
#            192.168.2.0/24        192.0.2.4/30 │          198.51.100.4/30
#                           (NAT)               └ 203.0.113.0/24 ── inet
#
# The node is IPv4 outside; snapt1, snapt2 and inet have 2001:db8:{1,2,3}::/64 too. A test sources this file, calls
# build_topology, makes claims and ends with `finish`. Everything is removed on exit, also after INT and TERM.
set -uo pipefail
export LC_ALL=C
lib_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
support_dir=$(cd "$lib_dir/../support" && pwd)
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)

inet4=203.0.113.10
inet6=2001:db8:3::10
tag=ctn$$
work=
namespaces=()
declare -A pid_of=()
claims_held=0
claims_failed=0
claims_void=0

# Programs beside are installed where CONTINUO_BESIDE is set (./test --soak): a missing one is no reason to skip then.
skip() {
    echo "skipped: $*"
    [[ -z ${CONTINUO_BESIDE-} || ${0##*/} != beside_* ]] || exit 1
    exit 77
}

# require TOOL... : skips the test where the machine cannot run it. May be called again for more tools.
require() {
    local tool
    [ "$(id -u)" = 0 ] || skip "needs root (network namespaces)"
    [ -c /dev/net/tun ] || skip "needs /dev/net/tun"
    for tool in ip nft "$@"; do
        command -v "$tool" >/dev/null || skip "needs $tool"
    done
    [ -z "$work" ] || return 0  # a library has called it
    if [ -n "${CONTINUO_BIN-}" ]; then PATH=$(cd "$CONTINUO_BIN" && pwd):$PATH; fi
    command -v cnapt >/dev/null && command -v snapt >/dev/null || { echo "no cnapt and snapt in CONTINUO_BIN"; exit 1; }
    work=$(mktemp -d "${TMPDIR:-/tmp}/e2e.XXXXXX")
    trap clean_up EXIT
    watch_stalls
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

clean_up() {
    local status=$? name
    trap '' INT TERM HUP PIPE  # a reader that has gone, as in `| head`, must not end the clearing up
    if [ "$status" -ne 0 ] && [ "$status" -ne 77 ] && [ "$status" -lt 128 ] && [ -z "${quiet_logs-}" ]; then
        show_logs
        show_stalls
    fi
    exec 2>/dev/null  # the shell's own words on what it ends
    for name in "${!pid_of[@]}"; do kill "${pid_of[$name]}" 2>/dev/null; done
    for name in "${namespaces[@]}"; do
        wait_for 5 no_process_in "$name" || ip netns pids "$name" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
        ip netns del "$name" 2>/dev/null
    done
    wait 2>/dev/null
    [ -z "$work" ] || rm -rf "$work"
    exit "$status"
}

# True once the namespace is empty; asks what is left in it to end.
no_process_in() {
    local left
    left=$(ip netns pids "$1" 2>/dev/null) || return 0
    [ -n "$left" ] || return 0
    echo "$left" | xargs -r kill 2>/dev/null
    return 1
}

show_logs() {
    local log
    for log in "$work"/*.log; do
        [ -s "$log" ] || continue
        echo "--- ${log##*/}"
        tail -n 15 "$log"
    done
}

# --- Claims
. "$lib_dir/lib_stalls.sh"

# claim TEXT COMMAND... : runs the command and tells whether the claim held. One that fails is void where the machine
# stalled in the time that it speaks of (lib_stalls.sh).
claim() {
    local text=$1 stall
    shift
    if "$@" >"$work/claim.out" 2>&1; then
        claims_held=$((claims_held + 1))
        echo "ok    $text"
    elif stall=$(void_by); then
        claims_void=$((claims_void + 1))
        echo "VOID  $text"
        echo "      $stall"
    else
        claims_failed=$((claims_failed + 1))
        echo "FAIL  $text"
        head -n 6 "$work/claim.out" | sed 's/^/      /'
    fi
    forget_window
}

equal() { [ "$1" = "$2" ] || { echo "have: $1"; echo "want: $2"; return 1; }; }
# compare NUMBER OPERATOR NUMBER : false, too, when one of them is no number.
compare() { awk -v a="$1" -v b="$3" "BEGIN { n = \"^[-+]?[0-9]+([.][0-9]*)?(e[-+]?[0-9]+)?\$\"; exit !(a ~ n && b ~ n && a + 0 $2 b + 0) }"; }
at_most() { compare "$1" "<=" "$2" || { bound_is "$2"; echo "$1 is above $2"; return 1; }; }
more_than() { compare "$1" ">" "$2" || { echo "$1 is not above $2"; return 1; }; }

finish() {
    check_leaks
    check_sanitizers
    if [ "$claims_void" -eq 0 ]; then
        echo "$claims_held held, $claims_failed failed"
    else
        echo "$claims_held held, $claims_failed failed, $claims_void void"
    fi
    [ "$claims_failed" -eq 0 ] || exit 1
    [ "$claims_void" -eq 0 ] || exit $exit_void
    exit 0
}

# Reports of a sanitized build about a daemon, including leaks at its end.
check_sanitizers() {
    local name log
    for name in "${!pid_of[@]}"; do
        [[ $name != cnapt* && $name != snapt* ]] || ! is_alive "$name" || stop "$name"
    done
    for log in "$work"/*.log; do
        [ -e "$log" ] || continue
        if grep -qE 'ERROR: [A-Z][a-z]+Sanitizer|WARNING: ThreadSanitizer|: runtime error: ' "$log"; then
            claims_failed=$((claims_failed + 1))
            echo "FAIL  no sanitizer complains in ${log##*/}"
            grep -E -A 25 -m 4 'ERROR: [A-Z][a-z]+Sanitizer|WARNING: ThreadSanitizer|: runtime error: ' "$log" | head -n 80
        fi
    done
}

# wait_for SECONDS COMMAND... : polls until the command succeeds; 1 when the time is over.
wait_for() {
    local end=$((SECONDS + $1 + 1)) seconds=$1 began=$EPOCHREALTIME
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$end" ]; then
            speaks_of "$began" "$EPOCHREALTIME" "$seconds"
            return 1
        fi
        sleep 0.05
    done
}

# json EXPRESSION : evaluates a Python expression on `d`, the JSON of standard input.
json() { "$python" -IS -c 'import json,sys; d=json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"; }
json_true() { [ "$(json "$1")" = True ]; }

# A TUN device that everybody may open, as udev makes it, to mount over the machine's: $work/tun.
make_tun_device() { mknod -m 666 "$work/tun" c 10 200; }

# --- Namespaces and links
ns() { echo "$tag-$1"; }
# Command that runs programs in the node's namespace, if any: a shell that mounts something first.
node_shell=()
in_ns() {
    local name=$1 shell=()
    shift
    [ "$name" != node ] || shell=("${node_shell[@]}")
    ip netns exec "$(ns "$name")" "${shell[@]}" "$@"
}
# The same in place of the calling subshell, so that $! is the command's own.
exec_in_ns() {
    local name=$1 shell=()
    shift
    [ "$name" != node ] || shell=("${node_shell[@]}")
    exec ip netns exec "$(ns "$name")" "${shell[@]}" "$@"
}

new_namespace() {
    local short name
    for short in "$@"; do
        name=$(ns "$short")
        ip netns add "$name" || { echo "cannot make a network namespace"; exit 1; }
        namespaces+=("$name")
        # No duplicate address detection: an address is there when it is set.
        ip netns exec "$name" sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.dad_transmits=0
        ip -n "$name" link set lo up
    done
}

# connect NS DEV NS DEV : a veth pair, both ends up.
connect() {
    ip link add "$2" netns "$(ns "$1")" type veth peer name "$4" netns "$(ns "$3")" &&
        ip -n "$(ns "$1")" link set "$2" up && ip -n "$(ns "$3")" link set "$4" up
}

# emulated_cable NS DEV NS DEV [SETTING...] : as connect, with an emulated link between the two. Its name is NS-DEV of the
# first end, from which a-to-b leads away; `link_relay` without arguments lists the settings. No segmentation offload at
# either end: each frame is one packet with a fate of its own.
emulated_cable() {
    local cable=$1-$2
    command -v link_relay >/dev/null || { echo "no link_relay in CONTINUO_BIN"; exit 1; }
    new_namespace "$cable"
    in_ns "$cable" sysctl -qw net.ipv6.conf.default.disable_ipv6=1
    connect "$1" "$2" "$cable" end_a && connect "$cable" end_b "$3" "$4" &&
        offload "$1" "$2" off && offload "$3" "$4" off || { echo "cannot make the cable $cable"; exit 1; }
    spawn "$cable" "cable-$cable" link_relay end_a end_b --control "$(cable_socket "$cable")" \
        --seed $((${SEED:-9347} + ${#namespaces[@]})) "${@:5}"
    wait_for 10 cable_set "$cable" stats || { echo "no emulated link $cable"; show_logs; exit 1; }
}
cable_socket() { echo "$work/$1.link"; }
# cable_set CABLE [a-to-b|b-to-a|both] SETTING... : changes it at once, as in `cable_set gw1-wan both loss 0.1 b-to-a rate 2M`.
cable_set() { link_relay --tell "$(cable_socket "$1")" "${@:2}"; }
# cable_stat CABLE EXPRESSION : of its counters, as in `cable_stat gw1-wan 'd["a-to-b"]["dropped_loss"]'`.
cable_stat() { cable_set "$1" stats | json "$2"; }
# cable_plug CABLE up|down : the carrier at the first end, which `cable_set CABLE down` leaves on.
cable_plug() { ip -n "$(ns "$1")" link set end_a "$2"; }
offload() { in_ns "$1" ethtool -K "$2" tso "$3" gso "$3" gro "$3" tx-udp-segmentation "$3" >/dev/null; }

address() {
    local name dev one
    name=$(ns "$1") dev=$2
    shift 2
    for one in "$@"; do
        case $one in
            *:*) ip -n "$name" addr add "$one" dev "$dev" nodad ;;
            *) ip -n "$name" addr add "$one" dev "$dev" ;;
        esac
    done
}

gateway() {
    in_ns "$1" sysctl -qw net.ipv4.ip_forward=1
    in_ns "$1" nft "add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; };
        add rule ip nat post oifname wan masquerade"
}

# uplink_cable=emulated_cable before it makes the links gw1-wan and gw2-wan to the core emulated ones.
build_topology() {
    new_namespace node gw1 gw2 core snapt1 snapt2 inet
    local n
    for n in 1 2; do
        connect node "up$n" "gw$n" lan
        "${uplink_cable:-connect}" "gw$n" wan core "gw$n"
        connect "snapt$n" wan core "snapt$n"
        address "gw$n" lan "192.168.$n.1/24"
        gateway "gw$n"
        count_inner "gw$n"
        address "snapt$n" wan "198.51.100.$((4 * n - 2))/30" "2001:db8:$n::2/64"
        address core "snapt$n" "198.51.100.$((4 * n - 3))/30" "2001:db8:$n::1/64"
        address "gw$n" wan "192.0.2.$((4 * n - 2))/30"
        address core "gw$n" "192.0.2.$((4 * n - 3))/30"
        ip -n "$(ns "gw$n")" route add default via "192.0.2.$((4 * n - 3))"
        ip -n "$(ns "snapt$n")" route add default via "198.51.100.$((4 * n - 3))"
        ip -n "$(ns "snapt$n")" -6 route add default via "2001:db8:$n::1"
    done
    connect inet eth core inet
    address inet eth $inet4/24 $inet6/64
    address core inet 203.0.113.1/24 2001:db8:3::1/64
    ip -n "$(ns inet)" route add default via 203.0.113.1
    ip -n "$(ns inet)" -6 route add default via 2001:db8:3::1
    in_ns core sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    join 1 2
}

# ipv6_beside N : by gateway N IPv6 has a way to the Internet beside the tunnel, without NAT.
ipv6_beside() {
    address "gw$1" lan "2001:db8:1$1::1/64"
    address "gw$1" wan "2001:db8:2$1::2/64"
    address core "gw$1" "2001:db8:2$1::1/64"
    in_ns "gw$1" sysctl -qw net.ipv6.conf.all.forwarding=1
    ip -n "$(ns "gw$1")" -6 route add default via "2001:db8:2$1::1"
    ip -n "$(ns core)" -6 route add "2001:db8:1$1::/64" via "2001:db8:2$1::2"
    join_ipv6 "$1"
}
# join_ipv6 N, leave_ipv6 N : the node's own part of that.
join_ipv6() {
    address node "up$1" "2001:db8:1$1::2/64"
    ip -n "$(ns node)" -6 route add default via "2001:db8:1$1::1" dev "up$1" metric "$1"
}
leave_ipv6() {
    ip -n "$(ns node)" -6 route del default via "2001:db8:1$1::1" dev "up$1" metric "$1"
    ip -n "$(ns node)" -6 addr del "2001:db8:1$1::2/64" dev "up$1"
}

# --- The node's place: gateway GW (1 or 2) as host HOST

here_gateway=
here_host=
join_lines() { printf 'addr add 192.168.%s.%s/24 dev up%s\nroute replace default via 192.168.%s.1 dev up%s\n' "$1" "$2" "$1" "$1" "$1"; }
join() {
    join_lines "$1" "$2" | ip -n "$(ns node)" -batch - || return
    here_gateway=$1 here_host=$2
}

# move GW HOST : break before make. Appends "began done" (Unix seconds) to $work/moves.
move() {
    local began
    {
        echo "addr del 192.168.$here_gateway.$here_host/24 dev up$here_gateway"
        join_lines "$1" "$2"
    } >"$work/batch"
    began=$EPOCHREALTIME
    ip -n "$(ns node)" -batch "$work/batch" || return
    echo "$began $EPOCHREALTIME" >>"$work/moves"
    here_gateway=$1 here_host=$2
}

# two_uplinks : the node is on both access networks at once; up1 has the better metric.
two_uplinks() {
    ip -n "$(ns node)" route flush default
    ip -n "$(ns node)" route add default via 192.168.1.1 dev up1 metric 100
    ip -n "$(ns node)" addr add 192.168.2.2/24 dev up2
    ip -n "$(ns node)" route add default via 192.168.2.1 dev up2 metric 200
}
# --- What arrives
. "$lib_dir/lib_arrivals.sh"

is_active() { equal "$(cnapt_json paths | json "','.join(p['interface'] for p in d if p['active'])")" "$1"; }

# wire_session N USER : the id on the wire, up, of the session of USER at SNAPT N that began last.
wire_session() { sed -n "s/.*login user=$2 .* session=\([0-9]*\) .*/\1/p" "$work/snapt$1.log" | tail -n 1; }

. "$lib_dir/lib_hosts.sh"

# --- Processes
# spawn NS NAME COMMAND... : in the background; output in $work/NAME.log, process id in pid_of[NAME].
spawn() {
    local space=$1 name=$2
    shift 2
    exec_in_ns "$space" "$@" </dev/null >>"$work/$name.log" 2>&1 &
    pid_of[$name]=$!
}

is_alive() { [ -n "${pid_of[$1]-}" ] && kill -0 "${pid_of[$1]}" 2>/dev/null; }

# stop NAME [SIGNAL] : and waits for its end. What a daemon's leak counter has, goes with it: it is read before.
stop() {
    note_leaks "$1"
    kill "-${2:-TERM}" "${pid_of[$1]}" 2>/dev/null
    wait "${pid_of[$1]}" 2>/dev/null
    unset "pid_of[$1]"
}

# begin_log NAME : what is logged from now on is what `said NAME` prints. The log itself stays whole, for check_sanitizers.
declare -A log_begins=()
begin_log() { log_begins[$1]=$(stat -c %s "$work/$1.log" 2>/dev/null || echo 0); }
said() { tail -c "+$((${log_begins[$1]:-0} + 1))" "$work/$1.log"; }

listens() { in_ns "$1" ss -Hln "sport = :$2" | grep -q .; }

http_server() { # http_server DIRECTORY: on port 80 of inet, both versions
    spawn inet http "$python" "$support_dir/http_server.py" --directory "$1" --port 80
    wait_for 10 listens inet 80 || { echo "no HTTP server"; exit 1; }
}
# Takes one TCP connection on port 8080 of inet; arrivals go to $work/up, "BYTES SUM" in the end to reader.log.
upload_reader() {
    rm -f "$work/up"
    spawn inet reader "$python" -c 'import os, socket, sys
server = socket.create_server(("0.0.0.0", 8080))
connection, _ = server.accept()
server.close()
os.dup2(connection.fileno(), 0)
os.execv(sys.executable, [sys.executable] + sys.argv[1:])' "$support_dir/arrivals.py" "$work/up"
    wait_for 10 listens inet 8080
}
dns_server() {
    spawn inet dns "$python" "$support_dir/dns_responder.py" --port 53
    wait_for 10 listens inet 53 || { echo "no DNS responder"; exit 1; }
}

# ssh_server NS : sshd with throw-away keys. It wants a directory /run/sshd: it gets a /run of its own.
ssh_server() {
    if [ ! -e "$work/ssh_key" ]; then
        ssh-keygen -q -t ed25519 -N '' -f "$work/ssh_key"
        ssh-keygen -q -t ed25519 -N '' -f "$work/ssh_host_key"
        cp "$work/ssh_key.pub" "$work/authorized_keys"
        chmod 711 "$work"
        cat >"$work/sshd_config" <<END
HostKey $work/ssh_host_key
AuthorizedKeysFile $work/authorized_keys
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
END
    fi
    spawn "$1" "sshd-$1" sh -c 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"' - \
        "$(command -v sshd || echo /usr/sbin/sshd)" -D -e -f "$work/sshd_config"
    wait_for 10 listens "$1" 22 || { echo "no sshd"; exit 1; }
}
ssh_options() {
    printf '%s\n' -F none -i "$work/ssh_key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
        -o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=10
}

# --- The daemons

snapt_address() { echo "198.51.100.$((4 * $1 - 2))"; }
snapt_socket() { echo "$work/snapt$1.sock"; }
snapt_json() { local n=$1; shift; snapt "$@" --json --socket "$(snapt_socket "$n")"; }
cnapt_json() { cnapt "$@" --json --socket "$work/cnapt.sock"; }
# session : what tells the sessions of snapt1 from others. The id alone is the same as long as cnapt runs.
session() { snapt_json 1 sessions | json "[(s['session_id'], s['inner_ipv4'], s['since']) for s in d]"; }

# start_snapt N [STATE] : snaptN as zrh-N, its configuration made by `snapt init` unless it is there. Waits for that state (up).
start_snapt() {
    local n=$1 state=${2:-up}
    mkdir -p "$work/s$n"
    [ -e "$work/snapt$n.toml" ] ||
        in_ns "snapt$n" snapt init --config "$work/snapt$n.toml" --state "$work/s$n" --name "zrh-$n" \
            --public "$(snapt_address "$n"):9347" >>"$work/snapt$n.log" 2>&1 ||
        { echo "snapt init failed"; show_logs; exit 1; }
    spawn "snapt$n" "snapt$n" snapt run --config "$work/snapt$n.toml" --state "$work/s$n" --socket "$(snapt_socket "$n")"
    snapt status --wait "$state" --timeout 15 --socket "$(snapt_socket "$n")" >>"$work/snapt$n.log" 2>&1 ||
        { echo "snapt$n did not come up"; exit 1; }
}

# key_of FILE : of a cnapt.toml.
key_of() { sed -n 's/^key *= *"\([^"]*\)".*/\1/p' "$1"; }

# add_user NAME [N...] : a user of the SNAPTs N (default 1), the same key on all; its file is $work/cnapt.toml.
add_user() {
    local user=$1 n
    shift
    [ $# -gt 0 ] || set -- 1
    snapt user add "$user" --socket "$(snapt_socket "$1")" >"$work/cnapt.toml" || { echo "snapt user add failed"; exit 1; }
    chmod 600 "$work/cnapt.toml"
    shift
    for n in "$@"; do
        key_of "$work/cnapt.toml" | snapt user add "$user" --key-file - --socket "$(snapt_socket "$n")" >/dev/null || { echo "snapt user add --key-file failed"; exit 1; }
        printf '\n[[snapt]]\nname = "zrh-%s"\naddresses = ["%s:9347"]\n' "$n" "$(snapt_address "$n")" >>"$work/cnapt.toml"
    done
}

# set_capture LINE : a key of [capture] in cnapt.toml.
set_capture() {
    sed -i "/^${1%% =*} *=/d" "$work/cnapt.toml"
    if grep -q '^\[capture\]' "$work/cnapt.toml"; then
        sed -i "s|^\[capture\].*|&\n$1|" "$work/cnapt.toml"
    else
        printf '\n[capture]\n%s\n' "$1" >>"$work/cnapt.toml"
    fi
}

run_cnapt() {
    mkdir -p "$work/c"
    spawn node cnapt cnapt run --config "$work/cnapt.toml" ${policy_file:+--policy "$policy_file"} --state "$work/c" \
        --socket "$work/cnapt.sock"
}
wait_cnapt() { cnapt status --wait up --timeout "${1:-20}" --socket "$work/cnapt.sock" >>"$work/cnapt.log" 2>&1; }
start_cnapt() {
    run_cnapt
    wait_cnapt || { echo "cnapt did not come up"; exit 1; }
}

# one_tunnel : the usual beginning: one SNAPT, one user, one node.
one_tunnel() {
    build_topology
    start_snapt 1
    add_user alice
    start_cnapt
}

. "$lib_dir/lib_leaks.sh"

# --- What a host looks like

# snapshot NS : rules, routes, nftables and sysctls, for comparison.
snapshot() {
    local name
    name=$(ns "$1")
    ip -n "$name" -4 rule
    ip -n "$name" -6 rule
    ip -n "$name" -4 route show table all | sed 's/ *$//' | sort
    ip -n "$name" -6 route show table all | sed 's/ *$//' | sort
    ip -n "$name" -br link | awk '{print $1}'
    in_ns "$1" nft -s list ruleset
    in_ns "$1" sysctl -a -r '^net\.' 2>/dev/null | grep -Ev 'nf_conntrack_count|fastopen_key|tcp_mem|udp_mem|stable_secret|netdev_rss|flow_limit' |
        grep -Ev '\.(cnapt0|snapt0)\.'
}
