#!/usr/bin/env bash
# snapt and cnapt are restarted as their service manager does it (SIGUSR2) in the middle of downloads over both IP versions, which
# go on, and no program's send fails meanwhile. With another configuration that is a regular stop, and a regular stop leaves nothing behind.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
ipv6_beside 1
in_ns node sysctl -qw net.ipv4.tcp_rmem="4096 65536 131072"  # what arrives has come just now
count_beside
snapshot node >"$work/node.before"
snapshot snapt1 >"$work/snapt1.before"
start_snapt 1
add_user alice
start_cnapt
size=80000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
download() { # HOST LOG
    exec_in_ns node curl -sS -m 150 --limit-rate 2500k "http://$1/file" 2>"$work/curl.$2" |
        "$python" "$support_dir/arrivals.py" "$work/$2" >"$work/result.$2" &
    pid_of[$2]=$!
}
download "$inet4" four
download "[$inet6]" six
leases() { snapt_json 1 sessions | json "[(s['inner_ipv4'], s['inner_ipv6']) for s in d]"; }
goes_on() { local from; from=$(have "$1"); wait_for 20 arrived $((from + 1000000)) "$1"; }
go_on() { goes_on four && goes_on six; }
has_session() { [ "$(snapt_json 1 sessions | json 'len(d)')" = 1 ]; }
claim "downloads begin" go_on
# Programs that send all the time, by sockets that are connected.
spawn inet sink "$python" -c 'import socket
sink = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sink.bind(("::", 7002))
while True:
    sink.recv(100)'
wait_for 5 listens inet 7002
spawn node sender "$python" -c 'import socket, sys, time
ends = [socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6)]
for end, host in zip(ends, sys.argv[1:]):
    end.connect((host, 7002))
print("from", *[end.getsockname()[0] for end in ends], flush=True)
while True:
    for end, host in zip(ends, sys.argv[1:]):
        try:
            end.send(b"x")
        except OSError as error:
            print(host, error, flush=True)
    time.sleep(0.005)' "$inet4" "$inet6"
in_tunnel() { equal "$(cat "$work/sender.log")" "from 192.0.0.5 64:ff9b:1::c000:5"; }
claim "programs send through the tunnel" wait_for 5 in_tunnel
device() { ip -n "$(ns node)" -o link show cnapt0 | cut -d: -f1; }
first=$(leases)
# ends_for_restart NAME : with exit code 0.
ends_for_restart() {
    local status
    kill -USR2 "${pid_of[$1]}"
    wait "${pid_of[$1]}"
    status=$?
    unset "pid_of[$1]"
    equal "$status" 0
}
has_table() { in_ns "$1" nft list tables | grep continuo; }  # -q would end nft by SIGPIPE
interface=$(device)
for round in 1 2; do
    claim "$round: snapt ends for a restart" ends_for_restart snapt1
    claim "$round: its table stays" has_table snapt1
    claim "$round: and its interface" ip -n "$(ns snapt1)" link show snapt0
    sleep 1.5  # a regular stop would be followed by resets
    start_snapt 1
    claim "$round: both downloads go on" go_on
    claim "$round: with the same leases" equal "$(leases)" "$first"
    claim "$round: cnapt ends for a restart" ends_for_restart cnapt
    claim "$round: its table stays" has_table node
    claim "$round: and its interface" equal "$(device)" "$interface"
    start_cnapt
    claim "$round: the new one has the same interface" equal "$(device)" "$interface"
    claim "$round: which is not marked any more" equal "$(ip -n "$(ns node)" link show cnapt0 | grep alias)" ""
    wait_for 10 has_session
    claim "$round: both downloads go on after a restart of cnapt" go_on
    claim "$round: with the same leases" equal "$(leases)" "$first"
done
for log in four six; do
    wait "${pid_of[$log]}"
    claim "the download over IP version $log is whole and right" equal "$(cat "$work/result.$log") $(cat "$work/curl.$log")" "$size $sum "
done
claim "they were two TCP connections" equal "$(grep -c . "$work/http.log")" 2

claim "no send of a program has failed" in_tunnel
claim "nothing was about to leave beside the tunnel" equal "$(sent_beside)" 0
claim "and nothing is said to have been removed" eval '! grep removed "$work/cnapt.log"'
stop sender

claim "cnapt ends for a restart once more" ends_for_restart cnapt
set_capture 'exclude = ["203.0.113.77/32"]'
start_cnapt
claim "with another configuration the new one begins anew" eval '! equal "$(device)" "$interface"'
claim "and works" in_ns node ping -n -c 2 -W 5 $inet4
claim "cnapt ends for a restart and stays away" ends_for_restart cnapt
start_cnapt
stop cnapt
claim "a start and a regular stop leave nothing" diff "$work/node.before" <(snapshot node)
sed -n 's/^key *= *"\([^"]*\)".*/\1/p' "$work/cnapt.toml" >"$work/key"
chmod 600 "$work/key"
cp "$work/cnapt.toml" "$work/with_key.toml"
sed -i "s|^key *= .*|key_file = \"$work/key\"|" "$work/cnapt.toml"
start_cnapt
rm "$work/key"
claim "cnapt ends for a restart that would find no key" ends_for_restart cnapt
claim "which cleans up" eval '! has_table node'
claim "and leaves no device" eval '! device'
cp "$work/with_key.toml" "$work/cnapt.toml"
start_cnapt
set_capture 'device = "tun9"'
claim "cnapt ends for a restart with another device" ends_for_restart cnapt
claim "which cleans up" eval '! has_table node'
ip -n "$(ns node)" tuntap add mine mode tun
ip -n "$(ns node)" link set mine alias "cnapt restarts, table 9347, layout 1, 1"
ip -n "$(ns node)" tuntap add others mode tun
ip -n "$(ns node)" link set others alias 'cnapt restarts, table 1, layout 1, 1'
start_cnapt
claim "what this cnapt left under another configuration is removed" eval '! ip -n "$(ns node)" link show mine'
claim "and what another cnapt leaves just now is not" ip -n "$(ns node)" link show others
ip -n "$(ns node)" link del others
claim "and the new one works" in_ns node ping -n -c 2 -W 5 $inet4
stop cnapt
stop snapt1
for short in node snapt1; do
    claim "$short: a regular stop leaves nothing" diff "$work/$short.before" <(snapshot $short)
done
finish
