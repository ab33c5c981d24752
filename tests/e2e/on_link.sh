#!/usr/bin/env bash
# Hosts with a public address in the uplink's own network: a NAS with IPv6, whose network lets nothing in from the Internet, and a
# printer with IPv4. New flows there are refused at once (IPv6, unless configured), go beside the tunnel, or through it; what is in
# the tunnel stays there.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
ipv6_beside 1
ipv6_beside 2
# Both are at gateway 1: the NAS has a private address, too.
nas4=192.168.1.50 nas6=2001:db8:11::50 printer=198.51.100.150
address gw1 lan $nas4/24 $nas6/64 $printer/25
address node up1 198.51.100.130/25
in_ns gw1 nft 'add table inet home; add counter inet home nas; add counter inet home printer; add counter inet home outside;
    add chain inet home in { type filter hook input priority 0; };
    add rule inet home in iifname wan ct state new counter name outside drop;
    add rule inet home in ip6 daddr 2001:db8:11::50 counter name nas; add rule inet home in ip daddr 198.51.100.150 counter name printer'
ip -n "$(ns core)" route add 198.51.100.128/25 via 192.0.2.2
mkdir "$work/nas" "$work/www"
echo nas >"$work/nas/f"
head -c 3000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
spawn gw1 nas "$python" "$support_dir/http_server.py" --directory "$work/nas" --port 80
wait_for 10 listens gw1 80
printf '%s nas.test\n%s nas.test\n127.0.0.1 localhost\n' $nas6 $nas4 >"$work/hosts"
node_shell=(unshare -m sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$work/hosts")

count() { in_ns gw1 nft list counter inet home "$1" | sed -n 's/.*packets \([0-9]*\).*/\1/p'; }
gets() { equal "$(in_ns node curl -gsf -m "${2:-8}" "http://$1/f")" nas; }
quickly() {
    local began=$EPOCHREALTIME
    gets "$1" && at_most "$(since "$began")" 1
}
# refused HOST : before TCP repeats its first segment (RFC 6298), so that nobody waits.
refused() {
    local began=$EPOCHREALTIME
    ! gets "$1" || { echo "it was answered"; return 1; }
    at_most "$(since "$began")" 1
}
# through HOST : it goes through the tunnel, where the network lets nothing in.
through() {
    local before
    before=$(count outside)
    ! gets "$1" 2 || { echo "it was answered"; return 1; }
    more_than "$(count outside)" "$before"
}
doctor_says() {
    in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" >"$work/said"
    tr -s ' \n' ' ' <"$work/said" | grep -F "$1" >"$work/found" || { cat "$work/said"; return 1; }
}
# with LINE : another run, with that line in [capture].
with() {
    stop cnapt
    set_capture "$1"
    start_cnapt
}
refused_flow() { cnapt_json flows | json_true "any(f['dst'] == '$nas6' and 'up1' in (f['refused_reason'] or '') for f in d)"; }

claim "the plain host reaches the NAS by IPv6" wait_for 5 gets "[$nas6]"
start_snapt 1
add_user alice
start_cnapt

# --- As it comes
before=$(count nas)
claim "its IPv6 address is refused at once" refused "[$nas6]"
claim "flows says why" refused_flow
claim "by name it is reached at once, by its private address" quickly nas.test
pings() { { in_ns node ping -n -c 1 -W 1 "$1" || true; } | grep -qi prohibited; }
claim "a ping is told" pings $nas6
claim "nothing went there plain" equal $(($(count nas) - before)) 0
claim "doctor says so, and what to do" doctor_says 'hosts in 2001:db8:11::/64 (up1), 2001:db8:12::/64 (up2) are refused at once, so that programs take another address; [capture] on_link = "near"'
claim "a public IPv4 address goes through the tunnel" through $printer
claim "which doctor says, too" doctor_says 'hosts in 198.51.100.128/25 (up1) are reached through the tunnel'
# A bridge of containers leads nowhere: its public addresses go the way of all others.
new_namespace box
connect node br-box box eth
address node br-box 2001:db8:77::1/64
address box eth 2001:db8:77::2/64
ip -n "$(ns box)" -6 route add default via 2001:db8:77::1
into_tunnel() { cnapt_json flows | json_true "any(f['dst'] == '2001:db8:77::2' and not f['refused_reason'] for f in d)"; }
in_ns node curl -gsf -m 0.3 -o /dev/null "http://[2001:db8:77::2]/"
claim "a public address behind a bridge is not refused" wait_for 5 into_tunnel
ip -n "$(ns node)" link set br-box down

claim "other IPv6 addresses are reached" in_ns node curl -gsf -m 5 -o /dev/null "http://[$inet6]/file"

# A network that claims the server's addresses, with a download from it in the tunnel.
exec_in_ns node curl -gsS -m 60 --limit-rate 1M "http://[$inet6]/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
wait_for 10 arrived 500000
address node up1 2001:db8:3::77/64
server_refused() { ! in_ns node curl -gsf -m 5 -o /dev/null "http://[$inet6]/file"; }
claim "a network that claims the server's prefix is followed" wait_for 5 server_refused
wait "$download"
claim "what is in the tunnel stays there" equal "$(cut -d' ' -f1 "$work/result") $(cat "$work/curl.log")" "3000000 "
ip -n "$(ns node)" addr del 2001:db8:3::77/64 dev up1
claim "and afterwards the server is reached" wait_for 5 in_ns node curl -gsf -m 5 -o /dev/null "http://[$inet6]/file"

# --- Near
with 'on_link = { "up1" = "near", "*" = "tunnel" }'
before=$(count nas) printed=$(count printer)
claim "near: it is reached by IPv6" quickly "[$nas6]"
claim "near: the printer, too" quickly $printer
claim "both beside the tunnel" eval 'more_than "$(count nas)" "$before" && more_than "$(count printer)" "$printed"'
claim "near: doctor says so" doctor_says 'are reached beside the tunnel ([capture] on_link)'

# Without carrier that network is no more the host's own.
ip -n "$(ns gw1)" link set lan down
near_rules() { in_ns node ip -6 rule show | grep -c 'to 2001:db8:11::/64'; }
claim "without carrier nothing is near" wait_for 5 eval '[ "$(near_rules)" = 0 ]'
ip -n "$(ns gw1)" link set lan up
address gw1 lan $nas6/64 2001:db8:11::1/64
claim "with carrier it is again" wait_for 10 eval '[ "$(near_rules)" = 1 ]'

# --- Refused, both versions
with 'on_link = "refuse"'
printed=$(count printer)
claim "refuse: IPv4 is refused, too" refused $printer
claim "IPv6 as before" refused "[$nas6]"
claim "nothing went there plain" equal $(($(count printer) - printed)) 0
stop cnapt
set_capture 'kill_switch = true'
start_cnapt
claim "with the kill switch, too" refused "[$nas6]"
with 'on_link = "near"'
claim "near with the kill switch: it is refused, not left to wait" refused "[$nas6]"
claim "which doctor says" doctor_says 'are refused at once, so that programs take another address; [capture] exclude reaches them beside the tunnel'
stop cnapt
set_capture 'kill_switch = false'

# --- Through the tunnel
set_capture 'on_link = "tunnel"'
start_cnapt
claim "tunnel: it goes through the tunnel" through "[$nas6]"
finish
