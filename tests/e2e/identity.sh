#!/usr/bin/env bash
# The user's name is not to be read on the wire by those who do not have the SNAPT's identity key; a configuration without that key
# works too, with the name in clear.
. "$(dirname "$0")/lib.sh"
require ping tcpdump
build_topology
start_snapt 1
add_user alice
cp "$work/cnapt.toml" "$work/sealed.toml"
claim "user add prints the SNAPT's identity key" grep -q '^identity_key = ' "$work/cnapt.toml"

# logs_in NAME : what passes between gateway and core meanwhile is in NAME.pcap.
logs_in() {
    begin_log tcpdump
    spawn core tcpdump tcpdump -Z root -i gw1 -U -s 0 -w "$work/$1.pcap" tcp port 9347
    wait_for 5 is_listening || return
    start_cnapt
    in_ns node ping -n -q -c 3 -i 0.1 -W 5 $inet4 >/dev/null || return
    wait_for 5 has_handshake "$1" || return
    stop cnapt
    stop tcpdump INT
}
is_listening() { grep -q 'listening on' <(said tcpdump); }
has_name() { grep -q -a 'alice/' "$work/$1.pcap"; }
has_handshake() { [ "$(tcpdump -r "$work/$1.pcap" -nn 2>/dev/null | wc -l)" -ge 8 ]; }
claim "a node with it logs in, and its handshake is seen" logs_in sealed
claim "and does not show the name" eval '! has_name sealed'
grep -v '^identity_key' "$work/sealed.toml" >"$work/cnapt.toml"
claim "a node without it logs in, and its handshake is seen" logs_in clear
claim "and shows the name" has_name clear
sed 's/^identity_key = .*/identity_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="/' "$work/sealed.toml" >"$work/cnapt.toml"
run_cnapt
claim "a node with another one does not get in" eval '! wait_cnapt 3'
claim "and SNAPT has no session" equal "$(snapt_json 1 sessions | json 'len(d)')" 0
stop cnapt

cp "$work/sealed.toml" "$work/cnapt.toml"
start_cnapt
no_sessions() { equal "$(snapt_json 1 sessions | json 'len(d)')" 0; }
no_links() { ! in_ns snapt1 ss -Htn state established 'sport = :9347' | grep .; }
claim "a user is disabled while its node is here" snapt user disable alice --socket "$(snapt_socket 1)"
claim "its session ends at once" no_sessions
claim "its connection, too" wait_for 5 no_links
claim "its node was told why" wait_for 5 grep -q 'has ended the session: the user was disabled' "$work/cnapt.log"
claim "and a new handshake gets it nowhere" eval 'stop cnapt; run_cnapt; ! wait_cnapt 3'
finish
