#!/usr/bin/env bash
# Who had an outer address and port at a time: TCP and UDP over IPv4 and IPv6, by the command and by REST, after the end, over a
# restart of the SNAPT, and of a time at which nobody was logging.
. "$(dirname "$0")/lib.sh"
require curl
build_topology
mkdir -p "$work/s1"
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" >/dev/null
sed -i "s|^# listen = .*|listen = [\"127.0.0.1:9348\"]|" "$work/snapt1.toml"
sed -i "s|^# retention_days = .*|retention_days = 7\ndestinations = true|" "$work/snapt1.toml"
start_snapt 1
add_user alice
start_cnapt

# Answers each datagram and connection on port 8080 with what it sees of the other end: "ADDRESS:PORT".
cat >"$work/peers.py" <<'PY'
import selectors, socket
ready = selectors.DefaultSelector()
def text(peer):
    return (f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}").encode()
def accept(listener):
    connection, peer = listener.accept()
    connection.sendall(text(peer))
    ready.register(connection, selectors.EVENT_READ, drain)
def drain(connection):
    if not connection.recv(64):
        ready.unregister(connection)
        connection.close()
def answer(one):
    peer = one.recvfrom(64)[1]
    one.sendto(text(peer), peer)
for family in (socket.AF_INET, socket.AF_INET6):
    for kind, on_ready in ((socket.SOCK_STREAM, accept), (socket.SOCK_DGRAM, answer)):
        one = socket.socket(family, kind)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(("", 8080))
        if kind == socket.SOCK_STREAM:
            one.listen()
        ready.register(one, selectors.EVENT_READ, on_ready)
while True:
    for key, _ in ready.select():
        key.data(key.fileobj)
PY
cat >"$work/ask.py" <<'PY'
import socket, sys, time
host, kind = sys.argv[1], socket.SOCK_STREAM if sys.argv[2] == "tcp" else socket.SOCK_DGRAM
one = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
one.settimeout(10)
one.connect((host, 8080))
if kind == socket.SOCK_DGRAM:
    one.send(b"?")
print(one.recv(64).decode(), flush=True)
if len(sys.argv) > 3:
    time.sleep(float(sys.argv[3]))
PY
spawn inet peers "$python" "$work/peers.py"
wait_for 10 listens inet 8080 || { echo "no server"; exit 1; }
seen() { in_ns node "$python" "$work/ask.py" "$@"; }
who() { snapt nat who --state "$work/s1" --ext "$1" --at "$2" "${@:3}" --json; }
# is_of EXT AT PROTO : alice alone had it, to the server.
is_of() {
    who "$1" "$2" --proto "$3" >"$work/who" &&
        json_true "d['logged'] and [(u['user'], u['node'], u['dport']) for u in d['uses']] == [('alice', '$node_name', 8080)]" <"$work/who"
}
node_name=$(snapt_json 1 sessions | json "d[0]['node']")

# A question is of a whole second: not of that in which the log begins.
begun=$(date +%s)
wait_for 5 eval '[ "$(date +%s)" -gt "$begun" ]'
for to in "$inet4" "$inet6"; do
    for proto in tcp udp; do
        ext=$(seen "$to" "$proto")
        at=$(date +%s)
        claim "$proto to $to: $ext was alice's" wait_for 5 is_of "$ext" "$at" "$proto"
        [ "$proto" != tcp ] || tcp_ext=$ext tcp_at=$at
    done
done
claim "of a time before the start nothing is said" eval 'who "$tcp_ext" $((tcp_at - 100)) | json_true "not d[\"uses\"] and not d[\"logged\"]"'
claim "nobody has another port" eval 'who "203.0.113.200:9" "$tcp_at" | json_true "not d[\"uses\"] and d[\"logged\"]"'
claim "the table names the user" eval 'snapt nat who --state "$work/s1" --ext "$tcp_ext" --at "$tcp_at" --within 1 | grep -q "^alice "'
claim "without a time it is a mistake" eval 'snapt nat who --ext "$tcp_ext" 2>/dev/null; [ $? = 64 ]'
admin=$(snapt token add office --scope admin --state "$work/s1" --config "$work/snapt1.toml" --json | json "d['token']")
rest() { in_ns snapt1 curl -sS -m 20 -G -H "Authorization: Bearer $admin" --data-urlencode "ext=$tcp_ext" --data "at=$tcp_at&within=1" http://127.0.0.1:9348/v1/nat; }
claim "so does REST" equal "$(rest | json "d['uses'][0]['user']")" alice

# --- A connection goes on over a crash: the kernel keeps its translation
spawn node long "$python" "$work/ask.py" "$inet4" tcp 120
wait_for 10 test -s "$work/long.log"
long=$(cat "$work/long.log")
stop snapt1 KILL
stopped=$(date +%s)
start_snapt 1
after() { who "$long" "$(date +%s)" | json_true "[(u['user'], u['from_known']) for u in d['uses']] == [('alice', False)]"; }
claim "what was there before the start is found, with its user" wait_for 5 after
claim "while nothing was logged, it is said" eval 'who "$long" "$stopped" --within 1 | json_true "not d[\"logged\"]"'
claim "status counts" eval 'snapt_json 1 status | json_true "d[\"nat_log\"][\"open\"] > 0 and d[\"nat_log\"][\"lost_lines\"] == 0"'
stop long

# --- Without [nat_log] there is nothing
stop snapt1
sed -i 's/^retention_days = 7/retention_days = 0/' "$work/snapt1.toml"
rm -r "$work/s1/nat"
start_snapt 1
claim "by default nothing is logged" eval '[ ! -e "$work/s1/nat" ] && snapt_json 1 status | json_true "d[\"nat_log\"] is None"'
claim "and nobody is named" eval '! snapt nat who --state "$work/s1" --ext "$tcp_ext" --at "$tcp_at" 2>"$work/none" && grep -q "nothing was logged" "$work/none"'
finish
