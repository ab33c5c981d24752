#!/usr/bin/env bash
# Everyday programs work unchanged through the tunnel, over IPv4 and IPv6. The node has no IPv6 of its own.
. "$(dirname "$0")/lib.sh"
require curl wget dig ping traceroute iperf3 ssh scp sshd
one_tunnel

mkdir "$work/www"
head -c 3000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
dns_server
ssh_server inet
spawn inet iperf3 iperf3 -s
wait_for 10 listens inet 5201
node() { in_ns node timeout 60 "$@"; }

fetch_is_right() { equal "$("$@" | sha256sum | cut -d' ' -f1)" "$sum"; }
upload_is_right() { equal "$(node curl -sS -m 50 -T "$work/www/file" "http://$1/up")" "3000000 $sum"; }
for host in "$inet4" "[$inet6]"; do
    claim "curl from $host" fetch_is_right node curl -sS -m 50 "http://$host/file"
    claim "curl to $host" upload_is_right "$host"
    claim "wget from $host" fetch_is_right node wget -q -T 50 -O - "http://$host/file"
done
came_from_snapt() {
    grep -q '^::ffff:198\.51\.100\.2 ' "$work/http.log" && grep -q '^2001:db8:1::2 ' "$work/http.log" &&
        ! grep -qE '^::ffff:(192\.0\.2|192\.168|100\.)' "$work/http.log"
}
claim "the server saw the SNAPT and nobody else" came_from_snapt

for host in $inet4 $inet6; do
    resolves() { equal "$(node dig +short +tries=1 +time=5 "$@")" 203.0.113.80; }
    claim "dig over UDP at $host" resolves "@$host" www.example.org A
    claim "dig over TCP at $host" resolves "@$host" +tcp www.example.org A
done

ping_works() { node ping -n -c 5 -i 0.1 -W 5 "$@" | grep -q ' 5 received'; }
claim "ping -4" ping_works -4 $inet4
claim "ping -6" ping_works -6 $inet6
claim "ping with full packets" ping_works -4 -M do -s 1472 $inet4
claim "ping -6 with full packets" ping_works -6 -M do -s 1452 $inet6
claim "ping in fragments" ping_works -4 -s 4000 $inet4
claim "ping -6 in fragments" ping_works -6 -s 4000 $inet6
port_unreachable() { node "$python" -c '
import socket, sys
flow = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
flow.settimeout(5)
flow.connect((sys.argv[1], 9))
flow.send(b"anyone?")
try:
    flow.recv(10)
except ConnectionRefusedError:
    sys.exit(0)
sys.exit(1)' "$1"; }
claim "an ICMP error reaches its socket" port_unreachable $inet4
claim "an ICMPv6 error reaches its socket" port_unreachable $inet6

reaches() { # the last hop is the host itself
    node traceroute -n -q 1 -w 3 -m 6 "$@" >"$work/trace" || return
    cat "$work/trace"
    tail -n 1 "$work/trace" | grep -qE "^ *[0-9]+ +${*: -1} "
}
claim "traceroute" reaches -4 $inet4
claim "traceroute -6" reaches -6 $inet6

# refused HOST : curl's exit code 7 is a connection that was refused; 28 would be silence.
refused() {
    local status=0
    node curl -sS -m 10 "http://$1:81/" 2>"$work/refused" || status=$?
    equal "$status" 7
}
for host in "$inet4" "[$inet6]"; do
    claim "a closed port of $host refuses" refused "$host"
done

speed() { # speed MINIMUM ARGUMENTS... : Mbit/s at the receiver
    local least=$1
    shift
    began=$EPOCHREALTIME
    node iperf3 -t 2 -J "$@" >"$work/iperf.json" || { json 'd.get("error")' <"$work/iperf.json"; return 1; }
    speaks_of "$began" "$EPOCHREALTIME" 2
    more_than "$(json '(d["end"].get("sum_received") or d["end"]["sum"])["bits_per_second"]/1e6' <"$work/iperf.json")" "$least"
}
lossless() {
    speaks_of "$began" "$EPOCHREALTIME" 0.04  # 2 % of 2 s
    at_most "$(json 'd["end"]["sum"]["lost_percent"]' <"$work/iperf.json")" 2
}
for host in $inet4 $inet6; do
    claim "iperf3 TCP up to $host" speed 50 -c "$host"
    claim "iperf3 TCP down from $host" speed 50 -c "$host" -R
    claim "iperf3 UDP up to $host" speed 19 -c "$host" -u -b 20M
    claim "... with at most 2 % lost" lossless
    claim "iperf3 UDP down from $host" speed 19 -c "$host" -u -b 20M -R
    claim "... with at most 2 % lost" lossless
done

mapfile -t options < <(ssh_options)
ssh_works() { equal "$(echo "hello over ssh" | node ssh "${options[@]}" "root@$1" 'cat; hostname >/dev/null')" "hello over ssh"; }
scp_works() {
    rm -f "$work/copy"
    node scp -q "${options[@]}" "$work/www/file" "root@$1:$work/copy" && equal "$(sha256sum <"$work/copy" | cut -d' ' -f1)" "$sum" &&
        node scp -q "${options[@]}" "root@$1:$work/www/file" "$work/copy2" && cmp "$work/copy2" "$work/www/file"
}
claim "ssh" ssh_works $inet4
claim "ssh over IPv6" ssh_works $inet6
claim "scp up and down" scp_works $inet4
claim "scp over IPv6" scp_works "[$inet6]"
finish
