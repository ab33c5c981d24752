#!/usr/bin/env bash
# The name server that the host was given serves its own network alone: a private one behind the default route, and public ones
# that are silent to others, or refuse them, or take half a second to answer. Without [dns] names go on resolving, at once and after
# moves, and status and doctor say how; with the kill switch they say what to do. A private destination that the SNAPT denies is
# reached as without cnapt.
. "$(dirname "$0")/lib.sh"
require getent unshare dig curl
build_topology
start_snapt 1
add_user alice

# The core is the provider: customers come from 192.0.2.0/24 and 2001:db8:11::/64 or :12::/64, what the SNAPT translates comes from
# 198.51.100.2 and 2001:db8:1::2.
cat >"$work/resolver.py" <<'PY'
import socket, sys, threading, time
sys.path.insert(0, sys.argv[1])
import dns_responder
address, refuses = sys.argv[2], sys.argv[3] == "refuses"
takes = 0.5 if sys.argv[3] == "slow" else 0
def serve(query, peer):
    if not peer.startswith(("192.0.2.", "2001:db8:11:", "2001:db8:12:")):
        return query[:2] + b"\x81\x85" + query[4:6] + bytes(6) + query[12:] if refuses else None
    reply = dns_responder.answer(query)
    return reply and reply[0]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
def serve_tcp():
    listener = socket.create_server((address, 53), family=family)
    while True:
        stream, peer = listener.accept()
        reply = serve(stream.recv(4096)[2:], peer[0])
        time.sleep(takes)
        if reply: stream.sendall(len(reply).to_bytes(2, "big") + reply)
        stream.close()
threading.Thread(target=serve_tcp, daemon=True).start()
listener = socket.socket(family, socket.SOCK_DGRAM)
listener.bind((address, 53))
while True:
    query, peer = listener.recvfrom(4096)
    reply = serve(query, peer[0])
    if reply: threading.Timer(takes, listener.sendto, (reply, peer)).start()
PY
declare -A kind=([10.53.0.53]=silent [192.0.2.53]=silent [192.0.2.54]=refuses [192.0.2.55]=silent [192.0.2.56]=slow [2001:db8:53::53]=silent)
for server in "${!kind[@]}"; do
    ip -n "$(ns core)" addr add "$server" dev lo
    spawn core "dns-$server" "$python" "$work/resolver.py" "$support_dir" "$server" "${kind[$server]}"
done
wait_for 5 eval '[ "$(in_ns core ss -Hln "sport = :53" | wc -l)" -ge 12 ]'
# An intranet: what is private there is reached by the default route.
mkdir "$work/www"
echo inside >"$work/www/page"
ip -n "$(ns core)" addr add 10.53.0.80/32 dev lo
spawn core intranet "$python" "$support_dir/http_server.py" --directory "$work/www" --port 80
http_server "$work/www"

cp -a /etc "$work/etc"
rm -f "$work/etc/resolv.conf"
chmod 755 "$work" "$work/etc"
printf 'hosts: files dns\n' >"$work/etc/nsswitch.conf"
node_shell=(unshare -m sh -c 'mount --bind "$0/etc" /etc && exec "$@"' "$work")
given() { printf 'nameserver %s\n' "$@" >"$work/etc/resolv.conf"; } # given SERVER... : by DHCP
# The library asks each server once, and waits for 4 s. By its own clock: a busy machine may take seconds to start programs.
resolves() { in_ns node env RES_OPTIONS='attempts:1 timeout:4' getent ahostsv4 "n$RANDOM.example" | grep -q 203.0.113.80; }
fails() { ! resolves; }
resolves_by_tcp() { in_ns node dig +tcp +short +time=2 +tries=1 "@$1" "n$RANDOM.example" | grep -q 203.0.113.80; }
state() { cnapt_json status | json 'd["dns"]["state"]'; }
bypassed() { cnapt_json status | json '" ".join(d["dns"]["bypassed"])'; }
is_state() { equal "$(state)" "$1"; }
says() { cnapt status --socket "$work/cnapt.sock" | tr -s ' \n' ' ' | grep -qE "$1"; }
doctor() { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" || true; }
finds() { doctor | tr -s ' \n' ' ' | grep -qE "$1"; }
intranet() { in_ns node curl -sf -m 3 http://10.53.0.80/page | grep -q inside; }
tunnelled() { in_ns node curl -sf -m 3 "http://$inet4/page" | grep -q inside && tail -n 1 "$work/http.log" | grep -q '^::ffff:198\.51\.100\.2 '; }

# own_server SERVER [SECONDS] : it is bypassed from the start on, and known as such then at the latest; leaves cnapt running.
own_server() {
    local server=$1 known=()
    [ -z "${2-}" ] || known=(wait_for "$2")
    given "$server"
    claim "$server: without cnapt names resolve" resolves
    start_cnapt
    claim "$server: with cnapt names resolve at once" resolves
    claim "$server: by TCP as well" resolves_by_tcp "$server"
    claim "$server: all else goes through the tunnel" tunnelled
    claim "$server: it is named in dns.bypassed" "${known[@]}" eval 'equal "$(state) $(bypassed)" "beside $server"'
    claim "$server: status says so" says "names $server asked beside the tunnel.*\[dns\] servers"
    claim "$server: and so does doctor" finds "ok dns $server is asked beside the tunnel.*\[dns\] servers"
}
for server in 10.53.0.53 192.0.2.53 192.0.2.54 192.0.2.56; do
    own_server "$server" $([ "${kind[$server]}" != slow ] || echo 5)
    move 2 11
    claim "$server: after a move names resolve at once" resolves
    move 1 2
    stop cnapt
done

# DHCP in the next network names another one, which serves that network alone as well.
given 192.0.2.53
start_cnapt
claim "one server: names resolve" resolves
move 2 11
given 192.0.2.55
claim "another network with another server: names resolve" wait_for 5 resolves
claim "and the one before is bypassed no more" equal "$(bypassed)" 192.0.2.55
ask_before() { in_ns node ip route get 192.0.2.53 ipproto udp dport 53 | grep -q cnapt0; }
claim "but goes through the tunnel" ask_before
# A network that begins to serve everybody: known with the next change of the network.
given 192.0.2.55 $inet4
dns_server
claim "a second server that answers everybody is asked through the tunnel" wait_for 5 eval 'equal "$(bypassed)" 192.0.2.55 && grep -q "name server 203.0.113.10 answers through the tunnel" "$work/cnapt.log"'
move 1 2

# One that answers everybody, over IPv6.
stop cnapt
ipv6_beside 1
wait_for 10 eval 'in_ns node dig +short +time=1 +tries=1 "@$inet6" six.example | grep -q 203.0.113.80'
given "$inet6"
start_cnapt
six() { in_ns node ip -6 route get "$inet6" ipproto udp dport 53 | grep -q cnapt0; }
claim "a server that answers everybody, over IPv6: names resolve" resolves
claim "through the tunnel, which is found out" wait_for 10 grep -q "name server $inet6 answers through the tunnel" "$work/cnapt.log"
claim "and it was never asked elsewhere" eval 'six && ! grep -q "$inet6 answers its own network only" "$work/cnapt.log"'

# The first again, over IPv6.
stop cnapt
ipv6_beside 2
leave_ipv6 2
own_server 2001:db8:53::53
leave_ipv6 1
join_ipv6 2
claim "2001:db8:53::53: after a move names resolve at once" resolves
claim "2001:db8:53::53: and it is bypassed there, too" wait_for 5 eval 'equal "$(state) $(bypassed)" "beside 2001:db8:53::53"'
leave_ipv6 2
join_ipv6 1
given 192.0.2.55

# The intranet.
claim "a private destination behind the default route is reached" intranet
claim "and doctor says so" finds 'ok private destinations behind the default route in 10.0.0.0/8, .* are reached beside the tunnel: no SNAPT forwards them; \[relay\] allow of a SNAPT leads them through'
stop cnapt
sed -i 's|^allow = .*|allow = ["10.53.0.0/16"]|' "$work/snapt1.toml"
stop snapt1
start_snapt 1
start_cnapt
through() { in_ns node ip route get 10.53.0.80 | grep -q cnapt0 && in_ns node ip route get 10.54.0.80 | grep -vq cnapt0; }
claim "where the SNAPT allows it, it goes through the tunnel, and its neighbour does not" through
claim "and doctor says so of the others" finds 'ok private destinations behind the default route in parts of 10.0.0.0/8, .* are reached beside the tunnel'
stop cnapt
sed -i 's|^allow = .*|allow = []|' "$work/snapt1.toml"
stop snapt1
start_snapt 1

# The kill switch.
set_capture 'kill_switch = true'
for server in 10.53.0.53 192.0.2.53 2001:db8:53::53; do
    given "$server"
    start_cnapt
    claim "$server, kill switch: it is not asked beside the tunnel" fails
    claim "$server, kill switch: dns.state says unreachable" wait_for 5 is_state unreachable
    claim "$server, kill switch: status says what to do" says "names $server silent through the tunnel, and the kill switch.*set \[dns\] servers, or put it into capture.exclude"
    claim "$server, kill switch: and so does doctor" finds "fail dns $server is silent.*set \[dns\] servers, or put it into capture.exclude"
    stop cnapt
done
given 192.0.2.53
claim "kill switch: a private destination is not reached" eval 'start_cnapt; ! intranet'
claim "kill switch: doctor says why, and what to do" finds 'ok private destinations behind the default route in 10.0.0.0/8, .* are refused: .* the kill switch stops the way beside; \[capture\] exclude reaches them'
stop cnapt
set_capture 'exclude = ["192.0.2.53/32", "10.0.0.0/8"]'
start_cnapt
claim "kill switch, in exclude: a private destination is reached" intranet
claim "kill switch, in exclude: doctor does not name it" finds 'ok private destinations behind the default route in 172.16.0.0/12'
claim "kill switch, in exclude: names resolve" resolves
claim "and nothing is said" is_state off
finish
