#!/usr/bin/env bash
# A SNAPT given by name is found when its name can be looked up, though that was not so at the start (a laptop that boots
# without a network), and again when the name leads elsewhere. A key that is wrong is told in the log.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
start_snapt 1
add_user alice
sed -i 's/198\.51\.100\.2:9347/snapt.example.org:9347/' "$work/cnapt.toml"
# Before it another one whose name is never known.
sed -i '0,/^\[\[snapt\]\]/s//[[snapt]]\nname = "zrh-0"\naddresses = ["dead.example.org:9347"]\n\n&/' "$work/cnapt.toml"
etc=/etc/netns/$(ns node)
mkdir -p "$etc" || skip "cannot write to /etc/netns"
trap 'status=$?; rm -rf "$etc"; rmdir /etc/netns 2>/dev/null; (exit $status); clean_up' EXIT
echo "127.0.0.1 localhost" >"$etc/hosts"
echo "nameserver 127.0.0.1" >"$etc/resolv.conf"  # nobody there

run_cnapt
wait_for 10 test -S "$work/cnapt.sock"
unresolved() { grep -q 'cannot resolve snapt.example.org' "$work/cnapt.log"; }
claim "a name that is not known is told" wait_for 20 unresolved
claim "so is one before it, which holds up nobody" grep -q 'cannot resolve dead.example.org' "$work/cnapt.log"
# The kind of the last error and the address of both SNAPTs.
errors() { cnapt_json snapts | json "[(s['last_error']['kind'], s['address']) for s in d]"; }
unknown="[('name_not_found', 'dead.example.org:9347'), ('name_not_found', 'snapt.example.org:9347')]"
are_unknown() { equal "$(errors)" "$unknown"; }
claim "both are said to have no address, by name" wait_for 20 are_unknown
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
refusals() { snapt_json 1 status | json 'd["control"]["failed_handshakes"]'; }
told() { grep -c 'no control link to 198.51.100.130:9347 (login_refused)' "$work/cnapt.log"; }
before=$(refusals)
run_cnapt
refused_again() { [ "$(refusals)" -ge $((before + 3)) ]; }
claim "with a wrong key the handshake fails again and again" wait_for 30 refused_again
claim "which is told once" equal "$(told)" 1
stop cnapt

# Nobody answers the resolver, and a look-up takes as long as the library waits.
new_namespace hole
connect node hole hole eth
address node hole 192.0.2.65/30
address hole eth 192.0.2.66/30
in_ns hole nft "add table inet hole; add chain inet hole in { type filter hook input priority 0; policy drop; }; add counter inet hole asked;
    add rule inet hole in udp dport 53 counter name asked"
sed -i '/snapt.example.org/d' "$etc/hosts"
printf 'nameserver 192.0.2.66\noptions timeout:30 attempts:3\n' >"$etc/resolv.conf"
run_cnapt
asked() { in_ns hole nft list counter inet hole asked | grep -q 'packets [1-9]'; }
claim "a name is looked up" wait_for 10 asked
wait_for 10 test -S "$work/cnapt.sock"
began=$EPOCHREALTIME
stop cnapt
claim "stop does not wait for the answer" at_most "$(since "$began")" 2
finish
