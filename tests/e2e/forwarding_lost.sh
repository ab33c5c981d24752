#!/usr/bin/env bash
# Somebody changes the firewall or the forwarding of a server while nodes use it. What is the server's own is put back, and the
# downloads go on; what is not makes it degraded, and nodes take the other server for new flows. Meanwhile no packet of a lease
# leaves without NAT.
. "$(dirname "$0")/lib.sh"
. "$lib_dir/lib_two_servers.sh"
require ping curl ethtool
two_servers 900000000 net.ipv4.conf.all.rp_filter=2 # as systemd sets it: it looks routes up with the routing rules
in_ns core nft 'add table inet seen; add chain inet seen pre { type filter hook prerouting priority -300; }
    add rule inet seen pre ip saddr 100.64.0.0/16 counter; add rule inet seen pre ip6 saddr fc00::/7 counter'
seen() { in_ns core nft list table inet seen | sed -n 's/.*packets \([0-9]*\).*/\1/p' | awk '{ n += $1 } END { print n + 0 }'; }
start_at_both
for version in 4 6; do
    host=$inet4
    [ $version = 4 ] || host=[$inet6]
    exec_in_ns node curl -sS -m 170 "http://$host/file?rate=1000000" 2>>"$work/curl.log" |
        "$python" "$support_dir/arrivals.py" "$work/arrivals$version" >"$work/result$version" &
    wait_for 10 arrived 500000 arrivals$version
done
# Flows begin all the time, of both versions.
spawn node begins "$python" -c 'import socket, sys, time
while True:
    for family, host in ((socket.AF_INET, sys.argv[1]), (socket.AF_INET6, sys.argv[2])):
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.sendto(b"hello", (host, 9))
    time.sleep(0.05)' $inet4 $inet6

fetches() { in_ns node curl -sf -m 2 -o /dev/null "http://$inet4/small" && in_ns node curl -sf -m 2 -o /dev/null "http://[$inet6]/small"; }
goes_on() { # goes_on VERSION...
    local version
    for version in "$@"; do wait_for 10 arrived $(($(have "arrivals$version") + 300000)) "arrivals$version" || return; done
}
state_of() { equal "$(snapt_json "$1" status | json "d['state']")" "$2"; }
at_snapt() { cnapt_json flows | json "sorted({f['snapt'] for f in d if f['dst'] == '$1' and f['dport'] == 80})"; }
whole() { in_ns snapt1 nft -s -t list ruleset | sort; }
whole=$(whole)
is_whole() { equal "$(whole)" "$whole"; }
downloads=$(at_snapt $inet4)

is_back() { # is_back WHAT IS_THERE... : everything passes again; IS_THERE tells that what was changed is as before
    local what=$1
    shift
    claim "$what: put back" wait_for 5 "$@"
    claim "$what: new flows pass" wait_for 5 fetches
    claim "$what: the downloads go on" goes_on 4 6
    claim "$what: the server is up" state_of 1 up
}
is_on() { equal "$(in_ns snapt1 sysctl -n "$1")" 1; }
in_ns snapt1 nft flush ruleset
is_back "nft flush ruleset" is_whole
for table in $(in_ns snapt1 nft list tables | sed -n 's/table inet \(continuo_.*\)/\1/p'); do
    in_ns snapt1 nft delete table inet "$table"
    is_back "nft delete table inet $table" is_whole
done
relay_table='inet continuo_snapt_snapt0'
in_ns snapt1 nft flush chain $relay_table nat
is_back "nft flush chain $relay_table nat" is_whole
in_ns snapt1 nft "add table $relay_table { flags dormant; }"
is_back "a dormant table" is_whole
handle=$(in_ns snapt1 nft -a list chain $relay_table prerouting | sed -n 's/.*jump from_node # handle //p')
in_ns snapt1 nft replace rule $relay_table prerouting handle "$handle" iifname snapt0 drop
is_back "a rule that another one replaces" is_whole
in_ns snapt1 sh -c 'for i in $(seq 100); do nft flush ruleset; done'
is_back "a hundred flushes in a row" is_whole
in_ns snapt1 nft flush set $relay_table denied4 2>"$work/refused" && touch "$work/flushed"
claim "the deny list cannot be flushed" [ ! -e "$work/flushed" ]
for key in net.ipv4.ip_forward net.ipv4.conf.wan.forwarding net.ipv4.conf.snapt0.forwarding; do
    in_ns snapt1 sysctl -qw "$key=0"
    is_back "$key = 0" is_on "$key"
done
# A kernel that knows `force_forwarding` opens the two interfaces, another one all of them.
six=net.ipv6.conf.all.forwarding
in_ns snapt1 sysctl -n net.ipv6.conf.wan.force_forwarding >/dev/null 2>&1 && six=net.ipv6.conf.wan.force_forwarding
in_ns snapt1 sysctl -qw net.ipv6.conf.all.forwarding=0
is_back "net.ipv6.conf.all.forwarding = 0" is_on $six
# An interface that an administrator has closed, and that nodes do not use.
ip -n "$(ns snapt1)" link add closed0 type bridge
in_ns snapt1 sysctl -qw net.ipv4.ip_forward=1
in_ns snapt1 sysctl -qw net.ipv4.conf.closed0.forwarding=0
in_ns snapt1 sysctl -qw net.ipv4.ip_forward=0
is_back "net.ipv4.ip_forward = 0, another interface" is_on net.ipv4.conf.wan.forwarding
claim "an interface that is closed stays so" equal "$(in_ns snapt1 sysctl -n net.ipv4.conf.closed0.forwarding)" 0
in_ns snapt1 ip rule delete priority 934
is_back "no routing rule" eval 'in_ns snapt1 ip rule | grep -q "^934:.*snapt0"'
claim "the downloads were at zrh-1 all the time" equal "$(at_snapt $inet4) $downloads" "['zrh-1'] ['zrh-1']"

# Not the server's own.
in_ns snapt1 nft 'add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'
claim "another chain drops what is forwarded: the server is degraded" wait_for 5 state_of 1 degraded
says_why() { # says_why FAMILY
    local error
    error=$(snapt_json 1 status | json "d['forwarding_error']")
    grep -q "chain $1 filter FORWARD drops" <<<"$error" || { echo "$error"; return 1; }
}
claim "its status has the cause" says_why ip
claim "the node is told" wait_for 5 eval "cnapt_json snapts | json_true \"not d[0]['forwards'] and d[1]['forwards']\""
claim "new flows pass: by the other server" wait_for 3 fetches
in_ns node ping -n -c 1 -W 2 $inet4 >/dev/null
claim "their server is zrh-2" equal "$(cnapt_json flows --all | json "[f['snapt'] for f in d if f['proto'].startswith('icmp')][-1:]")" "['zrh-2']"
in_ns snapt1 nft delete table ip filter
claim "the chain has gone: the server is up" wait_for 5 state_of 1 up
claim "the node is told that, too" wait_for 5 eval "cnapt_json snapts | json_true \"d[0]['forwards']\""

# IPv6 has chains of its own.
in_ns snapt1 nft 'add table ip6 filter; add chain ip6 filter FORWARD { type filter hook forward priority 0; policy drop; }'
claim "another chain drops what is forwarded of IPv6: the server is degraded" wait_for 5 state_of 1 degraded
claim "its status has that cause" says_why ip6
claim "the node is told of that" wait_for 5 eval "cnapt_json snapts | json_true \"not d[0]['forwards'] and d[1]['forwards']\""
claim "new flows of both versions pass: by the other server" wait_for 3 fetches
in_ns snapt1 nft delete table ip6 filter
claim "that chain has gone: the server is up" wait_for 5 state_of 1 up
claim "and the node is told" wait_for 5 eval "cnapt_json snapts | json_true \"d[0]['forwards']\""

claim "no packet of a lease was seen outside" equal "$(seen)" 0
claim "what was put back is in the log" grep -q 'nftables table inet continuo_snapt_snapt0 was changed by another program' "$work/snapt1.log"
claim "each download was one TCP connection" equal "$(grep -c /file "$work/http.log") $(cat "$work/curl.log")" "2 "

# No way out: a default route or the carrier of its link goes. Nodes are reached by a route of their own all the time.
ip -n "$(ns snapt1)" route add 192.0.2.0/24 via 198.51.100.1
connect snapt1 out core out1
address snapt1 out 198.51.100.10/30 2001:db8:9::2/64
address core out1 198.51.100.9/30 2001:db8:9::1/64
ways_out() {
    ip -n "$(ns snapt1)" route replace default via 198.51.100.9
    ip -n "$(ns snapt1)" -6 route replace default via 2001:db8:9::1
}
ip -n "$(ns snapt1)" -6 route del default
ways_out
goes_by() { # goes_by HOST : the server that a new flow there gets
    local port=$((20000 + RANDOM % 20000))
    in_ns node "$python" -c 'import socket, sys
socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hello", (sys.argv[1], int(sys.argv[2])))' "$1" $port
    wait_for 5 eval "cnapt_json flows --all | json_true \"any(f['dport'] == $port for f in d)\""
    cnapt_json flows --all | json "','.join(str(f['snapt']) for f in d if f['dport'] == $port)"
}
go_by() { equal "$(goes_by $inet4) $(goes_by $inet6)" "$1 $2"; }
has_lost() { equal "$(snapt_json 1 status | json "d['state'] + ': ' + str(d['forwarding_error'])")" "degraded: $1"; }
is_told() { cnapt_json snapts | json_true "d[0]['no_way_out'] == $1 and not d[1]['no_way_out']"; }
says() { grep -qxF "$1 (\`snapt doctor\` there says why, and the remedy)" <<<"$(cnapt status --socket "$work/cnapt.sock")"; }
doctor_says() { { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" || true; } | tr -s ' \n' ' ' | grep -F "$1"; }
loses() { # loses WHAT ERROR VERSIONS SERVER4 SERVER6
    claim "$1: the server is degraded, with the cause" wait_for 5 has_lost "$2"
    claim "$1: the node is told" wait_for 5 is_told "$3"
    claim "$1: new flows go to a server with a way out" go_by "$4" "$5"
    claim "$1: both versions are reached" wait_for 3 fetches
}
has_back() {
    claim "$1: the server is up" wait_for 6 state_of 1 up
    claim "$1: the node is told that" wait_for 5 is_told '[]'
    claim "$1: new flows go to the first server" go_by zrh-1 zrh-1
}
has_back "another way out"
no_route='no default route'
ip -n "$(ns snapt1)" -6 route del default
loses "no route of IPv6" "no way out for IPv6: $no_route" "['IPv6']" zrh-1 zrh-2
claim "no route of IPv6: status of the node has a line" says 'zrh-1 has no way out for IPv6, new flows take another SNAPT'
claim "no route of IPv6: so has doctor" doctor_says 'warn versions zrh-1 has no way out for IPv6, new flows take another SNAPT'
ways_out
has_back "a route of IPv6"
ip -n "$(ns snapt1)" route del default
loses "no route of IPv4" "no way out for IPv4: $no_route" "['IPv4']" zrh-2 zrh-1
ways_out
has_back "a route of IPv4"
ip -n "$(ns core)" link set out1 down
no_carrier='out has no carrier'
loses "no carrier" "no way out for IPv4: $no_carrier; no way out for IPv6: $no_carrier" "['IPv4', 'IPv6']" zrh-2 zrh-2
# Nobody has a way out: a connection ends before TCP repeats its first segment (RFC 6298).
stop snapt2
refused() {
    local status=0 took began=$EPOCHREALTIME
    took=$(in_ns node curl -gsf -m 8 -o /dev/null -w '%{time_total}' "http://$1/small") || status=$?
    speaks_of "$began" "$EPOCHREALTIME"
    equal $status 7 && at_most "$took" 1
}
is_refusing() { equal "$(cnapt_json status | json "[d['state']] + d['refused_versions']")" "['degraded', 'IPv4', 'IPv6']"; }
claim "nobody has a way out: the node is degraded" wait_for 30 is_refusing
claim "nobody has a way out: IPv4 is refused at once" refused $inet4
claim "nobody has a way out: IPv6 is refused at once" refused "[$inet6]"
claim "nobody has a way out: status says so" says 'IPv4: refused, no way out at zrh-1'
claim "nobody has a way out: doctor says so" doctor_says 'fail capture no SNAPT takes new flows'
ip -n "$(ns core)" link set out1 up
address core out1 2001:db8:9::1/64
ways_out
claim "a carrier: new flows pass" wait_for 15 fetches
claim "a carrier: the node is up" equal "$(cnapt_json status | json "d['state']")" up
claim "no packet of a lease was seen outside all that time" equal "$(seen)" 0

# The routing rule alone: the daemon is killed, its table that nobody can flush has gone with it, and all others are flushed. Packets
# come from its device as if it wrote them. Without the rule they leave, so that only the rule has kept them.
stop snapt1 KILL
in_ns snapt1 nft flush ruleset
packets_from_lease() {
    in_ns snapt1 "$python" - $inet4 $inet6 <<'END'
import fcntl, os, socket, struct, sys, time
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"snapt0", 0x5001))  # TUNSETIFF: IFF_TUN, IFF_NO_PI, IFF_VNET_HDR
time.sleep(0.2)  # its carrier
def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
udp = struct.pack("!HHHH", 4000, 9, 8, 0)
four = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 0, 0, 64, 17, 0, socket.inet_aton("100.64.0.77"), socket.inet_aton(sys.argv[1]))
four = four[:10] + struct.pack("!H", checksum(four)) + four[12:]
lease6 = socket.inet_pton(socket.AF_INET6, "fd93::77")
pseudo = lease6 + socket.inet_pton(socket.AF_INET6, sys.argv[2]) + struct.pack("!IHBB", 8, 0, 0, 17) + udp
six = struct.pack("!IHBB", 6 << 28, 8, 17, 64) + lease6 + socket.inet_pton(socket.AF_INET6, sys.argv[2])
for _ in range(5):
    os.write(tun, bytes(10) + four + udp)
    os.write(tun, bytes(10) + six + udp[:6] + struct.pack("!H", checksum(pseudo)))
END
}
claim "packets are sent from the device" packets_from_lease
claim "none leaves without the daemon and its tables" equal "$(seen)" 0
in_ns snapt1 ip rule delete priority 934
in_ns snapt1 ip -6 rule delete priority 934
packets_from_lease
claim "without the rule they leave" equal "$(seen)" 10
start_snapt 1
stop snapt1
claim "no rule and no table is left" equal "$(in_ns snapt1 ip rule | grep -c snapt0) $(in_ns snapt1 ip -6 rule | grep -c snapt0) $(in_ns snapt1 nft list ruleset)" "0 0 "
finish
