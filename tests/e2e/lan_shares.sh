#!/usr/bin/env bash
# One host of a LAN that holds as many flows as the gateway's table has, or as the SNAPT allows its user, all of them answered,
# keeps no other host out, nor the gateway itself. IPv6 as well. What a node without a LAN has no place for is refused at once.
. "$(dirname "$0")/lib.sh"
require dig curl
build_topology
two_lan_hosts
mkdir "$work/www"
echo small >"$work/www/small"
http_server "$work/www"
dns_server
# Answers datagrams, and holds what connects. Who says "talk" gets an answer each second for 30 s.
cat >"$work/echo.py" <<'PY'
import select, socket, time
heard = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
heard.bind(("::", 7))
doors = socket.create_server(("::", 7), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1000)
held, listeners, spoken_at = [], {}, 0
while True:
    ready, _, _ = select.select([heard, doors], [], [], 0.1)
    if heard in ready:
        said, peer = heard.recvfrom(100)
        heard.sendto(said, peer)
        if said == b"talk":
            listeners[peer] = time.monotonic() + 30
    if listeners and time.monotonic() - spoken_at > 1:
        spoken_at = time.monotonic()
        listeners = {peer: until for peer, until in listeners.items() if until > spoken_at}
        for peer in listeners:
            heard.sendto(b"more", peer)
    if doors in ready:
        held.append(doors.accept())
PY
exec_in_ns inet bash -c "ulimit -n 4096; exec $python $work/echo.py" >"$work/echo.log" 2>&1 &
pid_of[echo]=$!
wait_for 5 listens inet 7
start_snapt 1
add_user alice
limit=512
set_capture 'gateway_interfaces = ["port1", "port2"]'
sed -i "s/^flows = .*/flows = $limit/" "$work/cnapt.toml"
grep -q "^flows = $limit" "$work/cnapt.toml" || printf '\n[limits]\nflows = %s\n' $limit >>"$work/cnapt.toml"
start_cnapt

# fill NS HOST KIND COUNT : so many flows that are answered, which stay as they are until the program is stopped
fill() {
    rm -f "$work/filled"
    exec_in_ns "$1" bash -c 'ulimit -n 4096; exec "$@"' bash "$python" -c 'import socket, sys, time
host, kind, count, told = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
family = socket.AF_INET6 if ":" in host else socket.AF_INET
flows = []
for i in range(count):
    s = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    s.settimeout(1)
    try:
        s.connect((host, 7))
        if kind != "tcp":
            s.send(b"talk" if kind == "talk" else b"hello")
            s.recv(100)
    except OSError:
        pass
    flows.append(s)
open(told, "w").close()
time.sleep(1000)' "$2" "$3" "$4" "$work/filled" >"$work/fill.log" 2>&1 &
    pid_of[fill]=$!
}
is_filled() { [ -e "$work/filled" ]; }
round=0
answers_of_reserve() { # answers_of_reserve NS HOST : a name and a page
    local url
    round=$((round + 1))
    url="http://$([[ $2 = *:* ]] && echo "[$2]" || echo "$2")/small"
    in_ns "$1" dig +time=1 +tries=1 +short "@$2" "a$round.example" | grep -q '^203' &&
        in_ns "$1" curl -sf -m 1 -o /dev/null "$url"
}
answers() { # answers NS HOST : those, and a datagram, which has no reserve
    answers_of_reserve "$1" "$2" &&
        in_ns "$1" "$python" -c 'import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
s.connect((sys.argv[1], 7))
s.send(b"hello")
sys.exit(s.recv(100) != b"hello")' "$2"
}
beside() { # beside KIND HOST : what the others get while one host holds more than there are
    local i failed=0
    fill lan1 "$2" "$1" 600
    wait_for 60 is_filled || { cat "$work/fill.log"; exit 1; }
    for i in $(seq 10); do
        answers lan2 "$2" || failed=$((failed + 1))
    done
    claim "$1, $2: another host's names, pages and datagrams are answered ($failed of 10 not)" equal "$failed" 0
    claim "$1, $2: those of the gateway itself, too" answers node "$2"
    claim "$1, $2: the table is full" more_than "$(cnapt_json status | json "d['flows']")" $((limit * 3 / 4))
    stop fill KILL
}
beside udp $inet4
beside tcp $inet6
claim "what gave way is counted" more_than "$(cnapt_json status | json "d['flows_gave_way']")" 0

# The same where the SNAPT's limit is the smaller one: it takes all hosts for one user.
stop cnapt
sed -i "s/^flows = .*/flows = 65536/" "$work/cnapt.toml"
sed -i "s/^user_flows = .*/user_flows = $limit/" "$work/snapt1.toml"
snapt reload --socket "$(snapt_socket 1)" >>"$work/snapt1.log"
start_cnapt
beside udp $inet4
beside tcp $inet6
claim "what gave way of the SNAPT's limit is counted" more_than "$(cnapt_json status | json "d['flows_gave_way']")" 0
claim "the SNAPT has refused nothing" equal "$(snapt_json 1 status | json "d['drops']['flow_limit']")" 0
beside talk $inet4  # what goes on coming for flows that gave way keeps no place

# A full LAN that does nothing wrong: as many flows as a SNAPT allows by default, all answered.
stop cnapt
sed -i "s/^user_flows = .*/user_flows = 4096/" "$work/snapt1.toml"
snapt reload --socket "$(snapt_socket 1)" >>"$work/snapt1.log"
start_cnapt
refusals() { snapt_json 1 status | json "(d['drops']['flow_limit'], d['drops']['connection_limit'])"; }
before=$(refusals)
for host in $inet4 $inet6; do
    in_ns lan1 bash -c 'ulimit -n 5000; exec "$@"' bash "$python" -c 'import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
flows, answered = [], 0
for i in range(4096):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(3)
    s.connect((sys.argv[1], 7))
    flows.append(s)
    try:
        s.send(b"hello")
        s.recv(100)
        answered += 1
    except OSError:
        pass
print(answered)' $host >"$work/full" 2>&1
    claim "$host: all of 4096 flows of a LAN are answered" equal "$(cat "$work/full")" 4096
    claim "$host: neither SNAPT nor its kernel has refused one" equal "$(refusals)" "$before"
    claim "$host: another host is answered" answers lan2 $host
done

# A single host: nobody's flows give way to its own.
stop cnapt
sed -i "s/^flows = .*/flows = 64/" "$work/cnapt.toml"
set_capture 'gateway_interfaces = []'
start_cnapt
in_ns node "$python" -c 'import errno, socket, sys, time
flows, refused, longest = [], {}, 0
for i in range(64):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(3)
    s.connect((sys.argv[1], 7))
    began = time.monotonic()
    try:
        s.send(b"hello")
        s.recv(100)
        flows.append(s)
    except OSError as error:
        name = errno.errorcode.get(error.errno, str(error))
        refused[name] = refused.get(name, 0) + 1
        longest = max(longest, time.monotonic() - began)
print(len(flows), sorted(refused.items()), longest < 1)' $inet4 >"$work/answered" 2>&1
claim "a node's table: seven eighths for flows that are answered, the others are refused at once" equal "$(cat "$work/answered")" "56 [('EHOSTUNREACH', 8)] True"
claim "names and pages pass: they have a reserve" answers_of_reserve node $inet4
claim "the node logs it" grep -q 'too many flows: .*(limits.flows)' "$work/cnapt.log"
claim "its status has each" equal "$(cnapt_json status | json "d['drops']['flow_limit']")" 8
finish
