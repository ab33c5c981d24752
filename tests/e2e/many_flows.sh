#!/usr/bin/env bash
# A program that sends to many destinations which never answer takes nobody's names and pages away: not its own host's, and not
# those of another host in the LAN. What finds no place is refused at once, and both ends tell.
. "$(dirname "$0")/lib.sh"
require dig curl
build_topology
two_lan_hosts
in_ns inet nft 'add table inet hole; add chain inet hole in { type filter hook input priority 0; }
    add rule inet hole in udp dport 10000-29999 drop'
mkdir "$work/www" "$work/s1"
echo small >"$work/www/small"
http_server "$work/www"
dns_server
spawn inet echo "$python" -c 'import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.bind(("::", 7))
while True:
    data, sender = s.recvfrom(100)
    s.sendto(data, sender)'
limit=512
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" >"$work/init.log" 2>&1
sed -i "s/^user_flows = .*/user_flows = $limit/" "$work/snapt1.toml"
claim "a user may have $limit flows" grep -q "^user_flows = $limit" "$work/snapt1.toml"
start_snapt 1
add_user mallory
mv "$work/cnapt.toml" "$work/mallory.toml"
add_user alice
set_capture 'gateway_interfaces = ["port1", "port2"]'
start_cnapt

flood() { # flood NS HOST COUNT : one datagram each to so many ports, 200 a second
    exec_in_ns "$1" "$python" -c 'import socket, sys, time
host, count = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in host else socket.AF_INET
sockets = [socket.socket(family, socket.SOCK_DGRAM) for _ in range(4)]
began = time.monotonic()
for i in range(count):
    sockets[i % 4].sendto(b"d1:ad2:id20:", (host, 10000 + i))
    time.sleep(max(0, began + i / 200 - time.monotonic()))' "$2" "$3" >"$work/flood.log" 2>&1 &
    flooding=$!
}
round=0
# looks_up NS HOST : a name and a page; `took` is the longer wait for an answer, without what the programs' start takes.
looks_up() {
    local name page host=$2
    round=$((round + 1))
    name=$(in_ns "$1" dig +time=2 +tries=1 +noall +answer +stats "@$2" "a$round.example")
    grep -qE '\sA\s+203' <<<"$name" || return
    [[ $host != *:* ]] || host="[$host]"
    page=$(in_ns "$1" curl -sf -m 3 -o /dev/null -w '%{time_total}' "http://$host/small") || return
    took=$(awk -v page="$page" '/Query time:/ { name = $4 / 1000 } END { print (name > page ? name : page) }' <<<"$name")
}
flows() { snapt_json 1 status | json "d['$1']"; }
# At either end: behind a gateway room is made before the SNAPT's limit.
gave_way() { echo $(($(flows flows_gave_way) + $(cnapt_json status | json "d['flows_gave_way']"))); }
gives_way() { more_than "$(gave_way)" "$1"; }
# Each flow is at most one connection, and those of the last half second may wait to be forgotten.
is_forgotten() { at_most "$(in_ns snapt1 cat /proc/net/nf_conntrack | grep -c UNREPLIED)" $((limit + 100)); }
agree() { at_most "$(cnapt_json status | json "d['flows']")" $(($(flows flows) + 32)); }
beside() { # beside WHAT FLOODER HOST NS : names and pages of NS while FLOODER floods
    local failed=0 good=0 slowest=0 took=0 before
    before=$(gave_way)
    flood "$2" "$3" 900
    while kill -0 $flooding 2>/dev/null; do
        if looks_up "$4" "$3"; then good=$((good + 1)); else failed=$((failed + 1)); fi
        slowest=$(printf '%s\n%s\n' "$slowest" "$took" | sort -n | tail -n 1)
        sleep 0.2
    done
    claim "$1: at the limit flows give way" gives_way "$before"
    claim "$1: no name and no page of somebody else fails" equal "$failed" 0
    claim "$1: some were asked for" more_than "$good" 2
    claim "$1: none takes more than a second ($slowest s)" at_most "$slowest" 1
    claim "$1: the kernel has forgotten those, too" wait_for 5 is_forgotten
    claim "$1: node and SNAPT agree on what is open" wait_for 10 agree
    claim "$1: nothing was refused" equal "$(snapt_json 1 status | json "d['drops']['flow_limit']")" 0
}
# Remains of a flood take nobody's names away either.
late() { # late WHAT NS HOST : 20 s after a flood
    local took=0
    sleep 20
    claim "$1, 20 s later: names and pages pass" looks_up "$2" "$3"
    claim "$1, 20 s later: in a second ($took s)" at_most "$took" 1
}
# The node hears of what gave way beside other things, so something has to be sent.
spawn node talk "$python" -c 'import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    s.sendto(bytes.fromhex("0001 0100 0001 0000 0000 0000 0161 07") + b"example" + bytes.fromhex("00 0001 0001"), (sys.argv[1], 53))
    time.sleep(0.2)' $inet4
beside "a program of the node" node $inet4 node
late "a program of the node" node $inet4
beside "a host of the LAN, IPv6" lan1 $inet6 lan2
stop talk

# The same of a user who begins one session after the other, each with flows of its own. Nobody answers: what ICMP says is no answer.
unanswered() { in_ns snapt1 cat /proc/net/nf_conntrack | grep -c UNREPLIED; }
sessions_of_mallory() { snapt_json 1 sessions | json "len([s for s in d if s['user'] == 'mallory'])"; }
spawn gw2 sessions hostile_user sessions "$work/mallory.toml" 6 --node node
most_unanswered=0
while is_alive sessions; do
    now=$(unanswered)
    most_unanswered=$((now > most_unanswered ? now : most_unanswered))
done
offered=$(json "d['packets']" <"$work/sessions.log")
claim "a user whose sessions come and go: many flows were begun ($offered)" more_than "$offered" 20000
claim "its sessions are over" equal "$(sessions_of_mallory)" 0
claim "at no time are more of its flows unanswered in the kernel ($most_unanswered) than may be" at_most "$most_unanswered" $((limit + 1024 + limit)) # those of the node, too
both_are_forgotten() { at_most "$(unanswered)" $((2 * limit + 100)); }
claim "nor after it" wait_for 5 both_are_forgotten
claim "names and pages of others pass meanwhile" looks_up node $inet4

# Flows of a single host that are answered keep their place: what is more is refused.
stop cnapt
set_capture 'gateway_interfaces = []'
start_cnapt
in_ns node "$python" -c 'import errno, socket, sys, time
flows, refused, longest = [], {}, 0
for i in range(int(sys.argv[2])):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect((sys.argv[1], 7))
    s.settimeout(3)
    began = time.monotonic()
    try:
        s.send(b"hello")
        s.recv(100)
        flows.append(s)
    except OSError as error:
        name = errno.errorcode.get(error.errno, str(error))
        refused[name] = refused.get(name, 0) + 1
        longest = max(longest, time.monotonic() - began)
        if sum(refused.values()) == 5:
            break
print(len(flows), sorted(refused), longest < 1)' $inet4 $limit >"$work/answered" 2>&1
claim "flows that are answered have seven eighths of the limit, others are refused at once" equal "$(cat "$work/answered")" "448 ['EHOSTUNREACH'] True"
claim "names and pages pass: they have a reserve" looks_up node $inet4
claim "the SNAPT logs it" grep -q 'alice/.*: too many flows' "$work/snapt1.log"
claim "its status has it" more_than "$(snapt_json 1 status | json "d['drops']['flow_limit']")" 0
finish
