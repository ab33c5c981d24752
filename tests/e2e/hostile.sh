#!/usr/bin/env bash
# Who has no key changes nothing: forged, altered, cut and replayed datagrams are dropped and counted, and the traffic
# does not notice.
. "$(dirname "$0")/lib.sh"
require curl ping
one_tunnel
new_stranger

mkdir "$work/www"
head -c 6000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
attack() { local from=$1; shift; in_ns "$from" timeout 30 "$python" "$support_dir/attack.py" "$@"; }
drops() { snapt_json 1 status | json "sum(d['drops'].get(name, 0) for name in '$*'.split())"; }
node_drops() { cnapt_json status | json "sum(d['drops'].values())"; }
session_facts() { snapt_json 1 sessions | json "[(s['user'], s['node'], s['session_id'], s['from'], s['handovers'], s['inner_ipv4']) for s in d]"; }

in_ns node ping -n -q -c 2 -W 5 $inet4 >/dev/null
facts=$(session_facts)
exec_in_ns node curl -sS -m 60 --limit-rate 400k "http://$inet4/file" 2>"$work/curl.log" | sha256sum >"$work/result" &
download=$!

# Material: what passes between gateway and core.
spawn core capture "$python" "$support_dir/attack.py" capture gw1 9347 60 "$work/datagrams"
in_ns node ping -n -q -c 150 -i 0.02 -W 2 $inet4 >/dev/null
wait_for 5 test -s "$work/datagrams"
wait_for 10 eval '! is_alive capture'
claim "datagrams were captured" test -s "$work/datagrams"

rises() { # rises COUNTERS COMMAND... : the sum of the counters is larger after the command
    local counters=$1 before
    shift
    before=$(drops $counters)
    "$@" || return
    wait_for 5 eval "[ \$(drops $counters) -gt $before ]" || { echo "$counters stay at $before"; return 1; }
}
claim "garbage is counted" rises "too_short bad_version unknown_session unknown_epoch unauthentic" attack stranger garbage 198.51.100.2 9347 500 1
claim "altered datagrams are counted" rises "unauthentic" attack core alter "$work/datagrams" 9347 2
claim "cut datagrams are counted" rises "too_short unauthentic" attack core truncate "$work/datagrams" 9347 3
claim "replayed datagrams are counted" rises "replayed" attack core replay "$work/datagrams" 9347
claim "replayed datagrams from elsewhere are counted" rises "replayed" attack core steal "$work/datagrams" 9347
node_counts() {
    local before
    before=$(node_drops)
    attack core answers "$work/datagrams" 9347 4 || return
    wait_for 5 eval "[ \$(node_drops) -gt $before ]"
}
claim "altered answers are counted at the node" node_counts

# Messages without protection, in the names of both ends, about datagrams that they sent a moment ago: the node may ask over control
# whether it is true, and nothing else.
states() {
    cnapt_json snapts | json "[(s['epoch'], s['control_open'], s['transport'], s['handovers']) for s in d]"
    cnapt_json paths | json "[(p['transport'], p['state'], p['active']) for p in d]"
    snapt_json 1 sessions | json "[(s['epoch'], s['transport'], s['since']) for s in d]"
}
states=$(states)
log_lines=$(wc -l <"$work/cnapt.log")
unsealed() {
    rm -f "$work/fresh"
    spawn core capture "$python" "$support_dir/attack.py" capture gw1 9347 5 "$work/fresh"
    in_ns node ping -n -q -c 40 -i 0.02 -W 2 $inet4 >/dev/null
    wait_for 10 eval '! is_alive capture' && attack core unsealed "$work/fresh" 9347
}
for round in 1 2 3; do claim "forged UNKNOWN and VERSIONS are sent ($round)" unsealed; done
believed() { tail -n "+$((log_lines + 1))" "$work/cnapt.log" | grep .; }
claim "the node did not do more than ask" equal "$(believed)" ""
claim "connections with a forged HELLO are ended" attack core hello "$work/fresh" 9347 5
claim "neither end has changed its keys, its path or its control link" equal "$(states)" "$states"

# A stranger with a wrong key, and one whom nobody knows. They look alike to it.
intruder() { # intruder NAME SED_SCRIPT
    mkdir -p "$work/$1"
    sed "$2" "$work/cnapt.toml" >"$work/$1.toml"
    chmod 600 "$work/$1.toml"
    spawn stranger "$1" cnapt run --config "$work/$1.toml" --state "$work/$1" --socket "$work/$1.sock"
}
stays_out() {
    wait_for 5 test -S "$work/$1.sock"
    ! cnapt status --wait up --timeout 4 --socket "$work/$1.sock"
}
intruder wrong_key 's/^key = .*/key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="/'
claim "a wrong key does not get in" stays_out wrong_key
stop wrong_key
intruder unknown 's/^user = .*/user = "mallory"/'
claim "an unknown user does not get in" stays_out unknown
stop unknown
garbage_on_control() {
    local n
    for n in 1 2 3 4 5; do
        head -c 2000 /dev/urandom | in_ns stranger timeout 3 "$python" -c '
import socket, sys
link = socket.create_connection(("198.51.100.2", 9347), timeout=2)
try:
    link.sendall(sys.stdin.buffer.read())
    link.recv(1000)
except OSError:
    pass'
    done
    snapt_json 1 status >/dev/null
}
claim "garbage on the control port does no harm" garbage_on_control

claim "no session changed" equal "$(session_facts)" "$facts"
wait "$download"
claim "the download was right all the same" equal "$(cut -d' ' -f1 "$work/result")" "$sum"
claim "new traffic works" in_ns node ping -n -c 3 -i 0.1 -W 5 $inet4
finish
