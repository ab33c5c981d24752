#!/usr/bin/env bash
# A SNAPT given by name is found when its name can be looked up, though that was not so at the start (a laptop that boots
# without a network), and again when the name leads elsewhere. A key that is wrong is told in the log.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
start_snapt 1
add_user alice
sed -i 's/198\.51\.100\.2:9347/snapt.example.org:9347/' "$work/cnapt.toml"
etc=/etc/netns/$(ns node)
mkdir -p "$etc" || skip "cannot write to /etc/netns"
trap 'rm -rf "$etc"; rmdir /etc/netns 2>/dev/null; clean_up' EXIT
echo "127.0.0.1 localhost" >"$etc/hosts"
echo "nameserver 127.0.0.1" >"$etc/resolv.conf"  # nobody there

run_cnapt
wait_for 10 test -S "$work/cnapt.sock"
unresolved() { grep -q 'cannot resolve snapt.example.org' "$work/cnapt.log"; }
claim "a name that is not known is told" wait_for 20 unresolved
claim "and does not end the daemon" eval '[ "$(cnapt_json status | json "d[\"state\"]")" = down ]'
echo "198.51.100.2 snapt.example.org" >>"$etc/hosts"
claim "once it is known the tunnel comes up" wait_cnapt 30
claim "traffic passes" in_ns node ping -n -c 2 -i 0.1 -W 5 $inet4

# The SNAPT moves to another address.
stop snapt1
ip -n "$(ns snapt1)" addr del 198.51.100.2/30 dev wan
address snapt1 wan 198.51.100.130/26
address core snapt1 198.51.100.129/26
ip -n "$(ns snapt1)" route replace default via 198.51.100.129
echo "198.51.100.130 snapt.example.org" >"$etc/hosts"
start_snapt 1
reached_there() { cnapt_json status | json_true "any(s['address'] == '198.51.100.130:9347' for s in d['sessions'])"; }
claim "where its name leads now, it is found again" wait_for 40 reached_there
claim "and traffic passes again" wait_for 20 in_ns node ping -n -c 1 -W 1 $inet4
stop cnapt

sed -i 's/^key = .*/key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="/' "$work/cnapt.toml"
run_cnapt
told() { [ "$(grep -c 'no control link to 198.51.100.130:9347 (handshake_failed)' "$work/cnapt.log")" = 1 ]; }
claim "a wrong key is told, once" wait_for 20 told
stop cnapt
finish
