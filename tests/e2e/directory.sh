#!/usr/bin/env bash
# A node with one SNAPT in its configuration learns the others of the realm from it, uses them, knows them after a restart, and gives
# no new flows to one that is not listed any more. A false name in the directory leads to nobody.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
start_snapt 1
add_user alice
key_of "$work/cnapt.toml" >"$work/alice.key"
identity_key=$(grep '^identity_key' "$work/snapt1.toml")
start_snapt 2
stop snapt2
sed -i "s|^identity_key.*|$identity_key|" "$work/snapt2.toml"
start_snapt 2
snapt user add alice --key-file "$work/alice.key" --socket "$(snapt_socket 2)" >/dev/null
# names NAME[=ADDRESS]... : what zrh-1 tells of, by the address of snapt2 if none is given; reloaded.
cp "$work/snapt1.toml" "$work/alone.toml"
names() {
    local name
    cp "$work/alone.toml" "$work/snapt1.toml"
    for name in "$@"; do
        printf '\n[[snapt]]\nname = "%s"\naddresses = ["%s:9347"]\n' "${name%%=*}" "$(
            [[ $name == *=* ]] && echo "${name#*=}" || snapt_address 2
        )" >>"$work/snapt1.toml"
    done
    [ -z "${pid_of[snapt1]-}" ] || kill -HUP "${pid_of[snapt1]}"
}
etc=/etc/netns/$(ns node)
mkdir -p "$etc" || skip "cannot write to /etc/netns"
trap 'status=$?; rm -rf "$etc"; rmdir /etc/netns 2>/dev/null; (exit $status); clean_up' EXIT
echo "192.168.1.1 inside.example.org" >"$etc/hosts"
: >"$etc/resolv.conf"
policy_file=$work/policy.toml
printf 'version = 1\n\n[[rule]]\napp = "web"\nmatch = { dport = 80 }\nsnapt = ["zrh-2"]\n' >"$policy_file"
start_cnapt
snapts() { cnapt_json snapts | json "$1"; }
are() { equal "$(snapts "' '.join(s['snapt'] + '=' + s['state'] for s in d)")" "$1"; }
claim "the node knows the one of its configuration" are "zrh-1=up"

# Hosts that are no SNAPTs: what the node asks them for is counted.
in_ns gw1 nft 'add table inet called; add counter inet called inside; add counter inet called closed;
    add chain inet called pre { type filter hook prerouting priority -350; };
    add rule inet called pre iifname lan ip daddr 192.168.1.1 tcp dport 9347 tcp flags & syn == syn counter name inside;
    add rule inet called pre iifname lan ip daddr 203.0.113.10 tcp dport 9347 tcp flags & syn == syn counter name closed'
called() { in_ns gw1 nft -j list counter inet called "$1" | json '[o["counter"]["packets"] for o in d["nftables"] if "counter" in o][0]'; }
names zrh-2 fake-1 closed=$inet4 inside=192.168.1.1 within=inside.example.org
claim "zrh-1 tells of others, and the node uses the one that is true" wait_for 15 are "zrh-1=up closed=down fake-1=down within=down zrh-2=up"
listed() { equal "$(snapts "' '.join(s['snapt'] for s in d if s['listed'])")" "$1"; }
claim "all are listed but the one at a private address, of which a public SNAPT knows nothing" listed "zrh-1 closed fake-1 within zrh-2"
for _ in {1..5}; do ip -n "$(ns node)" addr add 192.168.1.9/24 dev up1 && ip -n "$(ns node)" addr del 192.168.1.9/24 dev up1; done
sessions() { equal "$(snapt_json 2 sessions | json 'len(d)')" "$1"; }
claim "snapt2 has one session" sessions 1
claim "fake-1 is told that it is none" grep -q 'fake-1 refused: this is zrh-2' "$work/cnapt.log"

mkdir -p "$work/www"
head -c 80000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
flow_snapt() { equal "$(cnapt_json flows | json "' '.join(sorted({f['snapt'] for f in d if f['dport'] == 80}))")" "$1"; }
spawn node download curl -sS --limit-rate 1M -o "$work/got" -m 120 "http://$inet4/file"
claim "a download prefers the learned one, as the policy says" wait_for 10 flow_snapt zrh-2
had() { [ "$(stat -c %s "$work/got" 2>/dev/null || echo 0)" -gt "$1" ]; }
claim "and comes" wait_for 15 had 2000000
claim "one that does not answer was called once by now, whatever changed" equal "$(called closed)" 1

stop cnapt KILL
stop snapt1 KILL
start_cnapt
claim "after a restart the node comes up by it, with the SNAPT of its configuration dead" wait_for 15 equal "$(snapts "' '.join(s['snapt'] for s in d if s['state'] == 'up')")" zrh-2
# The kernel may have held megabytes for curl: what came down through this run of cnapt counts.
came_down() { cnapt_json flows | json "sum(f['inner_bytes_down'] for f in d if f['dport'] == 80)"; }
comes_down() { more_than "$(came_down)" "$1"; }
claim "the download goes on" wait_for 20 comes_down 3000000
claim "by it" flow_snapt zrh-2
pings() { in_ns node ping -n -c 2 -i 0.2 -W 5 "$inet4"; }
claim "new flows, too" wait_for 10 pings
made() { equal "$(grep -c 'zrh-2: session' "$work/cnapt.log")" "$1"; }
claim "its session was made twice, before and after the restart" made 2

names
start_snapt 1
claim "zrh-1 is back and tells of nobody" wait_for 20 listed zrh-1
claim "the download still goes on" wait_for 20 comes_down $(($(came_down) + 1000000))
reaches() { in_ns node curl -sS -m 10 -o /dev/null -r 0-99 "http://$inet4/file"; }
claim "another request is answered" reaches
claim "it went by zrh-1, the download by zrh-2" flow_snapt "zrh-1 zrh-2"
stop download
sum() { sha256sum | cut -d' ' -f1; }
right() { equal "$(head -c "$(stat -c %s "$work/got")" "$work/www/file" | sum)" "$(sum <"$work/got")"; }
claim "what came of the download is right" right
claim "private addresses were never called, not by a name either" equal "$(called inside)" 0

bytes() { json "sum(r['inner_up'] + r['inner_down'] for r in d['rows'])"; }
of_snapt() { snapt_json "$1" usage --user alice | bytes; }
adds_up() { [ "$(of_snapt 1)" -gt 0 ] && [ "$(of_snapt 2)" -gt 0 ] && equal "$(cnapt_json usage | bytes)" "$(($(of_snapt 1) + $(of_snapt 2)))"; }
claim "cnapt usage is the sum of what both SNAPTs counted" wait_for 10 adds_up
by_snapt() { equal "$(cnapt_json usage --by snapt | json "' '.join(r['snapt'] for r in d['rows'])")" "zrh-1 zrh-2"; }
claim "or each for itself" by_snapt
stop snapt2
names_missing() { cnapt usage --socket "$work/cnapt.sock" | grep -q 'not included: zrh-2 (no control link)'; }
claim "and names the one that does not answer" wait_for 10 names_missing
finish
