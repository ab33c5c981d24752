#!/usr/bin/env bash
# SNAPTs that carry one IP version only. Flows of a version go to a SNAPT that carries it; where none does they are refused at
# once, never plain, and status and doctor say so. Programs try the addresses of a site in the order of the plain host where IPv6
# is carried, and IPv4 first where it is not.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
ipv6_beside 1
mkdir "$work/www"
echo hello >"$work/www/f"
http_server "$work/www"
printf '%s both.test\n%s both.test\n127.0.0.1 localhost\n' $inet6 $inet4 >"$work/hosts"
node_shell=(unshare -m sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$work/hosts")
in_ns inet nft 'add table inet t; add counter inet t plain; add chain inet t i { type filter hook input priority 0; };
    add rule inet t i ip6 saddr 2001:db8:11::2 tcp dport 80 counter name plain; add rule inet t i ip saddr 192.0.2.0/24 tcp dport 80 counter name plain'
plain() { in_ns inet nft list counter inet t plain | sed -n 's/.*packets \([0-9]*\).*/\1/p'; }
first() { in_ns node getent ahosts both.test | awk 'NR == 1 { print $1 }'; }
# ends_as STATUS HOST : curl ends so before TCP repeats its first segment (RFC 6298): nobody waits. By curl's clock, since a busy
# machine may take seconds to start it.
ends_as() {
    local status=0 took began=$EPOCHREALTIME
    took=$(in_ns node curl -gsf -m 8 -o /dev/null -w '%{time_total}' "http://$2/f") || status=$?
    speaks_of "$began" "$EPOCHREALTIME"
    [ "$status" != "$1" ] || ! at_most "$took" 1 || return 0
    echo "curl ended with $status after $took s; dropped: $(cnapt_json status | json "{k: v for k, v in d['drops'].items() if v}")"
    return 1
}
refused() { ends_as 7 "$1"; }
quickly() { ends_as 0 "$1"; }
says() { cnapt status --socket "$work/cnapt.sock" | grep -qE "^$1: refused, no SNAPT carries it"; }
silent() { ! cnapt status --socket "$work/cnapt.sock" | grep -q 'refused, no SNAPT'; }
doctor_says() { { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" || true; } | tr -s ' \n' ' ' | grep -E "$1"; }
finds() { doctor_says "warn versions $1 is refused at once"; }
snapt_of() { cnapt_json flows | json "','.join(sorted({f['snapt'] or '-' for f in d if f['dst'] == '$1' and f['proto'] == 'tcp'}))"; }
# server N VERSION : makes the configuration of snaptN without that version.
server() {
    mkdir -p "$work/s$1"
    in_ns "snapt$1" snapt init --config "$work/snapt$1.toml" --state "$work/s$1" --name "zrh-$1" --public "$(snapt_address "$1"):9347" >/dev/null
    cp "$work/snapt$1.toml" "$work/well$1.toml"
    [ -z "$2" ] || sed -i "s/^$2 *=.*/$2 = \"\"/" "$work/snapt$1.toml"
}
plain_first=$(first)
claim "the plain host tries IPv6 first" equal "$plain_first" $inet6

# --- One SNAPT, without IPv6
server 1 ipv6
start_snapt 1
add_user alice
start_cnapt
before=$(plain)
claim "without IPv6: it is refused at once" refused "[$inet6]"
claim "without IPv6: a site with both is reached by IPv4, at once" quickly both.test
claim "without IPv6: IPv4 is tried first" equal "$(first)" $inet4
unreachable() { { in_ns node ping -n -c 1 -W 1 $inet6 || true; } | grep -qi prohibited; }
claim "without IPv6: a ping is told" unreachable
claim "without IPv6: status says so" says IPv6
claim "without IPv6: so does doctor" finds IPv6
claim "without IPv6: nothing goes plain" equal $(($(plain) - before)) 0
stop cnapt

# --- Another one beside it, without IPv4
server 2 ipv4
start_snapt 2
add_user bob 1 2
start_cnapt
both_up() { cnapt_json snapts | json_true 'all(s["state"] == "up" for s in d)'; }
wait_for 10 both_up
claim "each version has a SNAPT: IPv6 is reached" quickly "[$inet6]"
claim "each version has a SNAPT: IPv4 is reached" quickly $inet4
claim "each by the one that carries it" equal "$(snapt_of $inet4) $(snapt_of $inet6)" "zrh-1 zrh-2"
claim "and status says nothing" silent
claim "doctor says who carries IPv6 in place of the first" doctor_says 'ok lease zrh-1 [0-9.]+, no IPv6; flows of IPv6 go by zrh-2; an \[inner\] prefix'
claim "and who carries IPv4 in place of the second" doctor_says 'ok lease zrh-2 no IPv4, [0-9a-f:]+; flows of IPv4 go by zrh-1; an \[inner\] prefix'
claim "the order is that of the plain host" wait_for 5 eval '[ "$(first)" = "$plain_first" ]'
# A datagram socket that goes on asking while the one that carries IPv6 is away.
spawn inet echo "$python" "$support_dir/voice.py" server 7777
wait_for 5 listens inet 7777
cat >"$work/ask.py" <<'PY'
import socket, sys, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.connect((sys.argv[1], 7777)); s.settimeout(0.2)
while True:
    try:
        s.send(b"hello"); s.recv(100); print("answered", flush=True)
    except OSError as error: print(type(error).__name__, flush=True)
    time.sleep(0.05)
PY
spawn node ask "$python" "$work/ask.py" $inet6
wait_for 10 grep -q answered "$work/ask.log"
stop snapt2 KILL
before=$(plain)
# Its first segments go to the dead one.
spawn node early curl -gsf -m 60 -o /dev/null "http://[$inet6]/f"
claim "the one with IPv6 dies: IPv6 is refused, and status says so" wait_for 30 says IPv6
claim "doctor names nobody any more" doctor_says 'warn lease zrh-1 [0-9.]+, no IPv6; \[inner\] of the SNAPT has no prefix for the other'
claim "at once" refused "[$inet6]"
claim "IPv4 goes on" quickly $inet4
claim "IPv4 is tried first" wait_for 5 eval '[ "$(first)" = $inet4 ]'
early() { wait "${pid_of[early]}"; equal $? 7; }
claim "a connection that began before that was known is refused, too, with its next segment" early
unset 'pid_of[early]'
claim "nothing goes plain" equal $(($(plain) - before)) 0
start_snapt 2
claim "it comes back: IPv6 is reached" wait_for 30 quickly "[$inet6]"
claim "and nothing is said" wait_for 5 silent
begin_log ask
answered_again() { said ask | grep -q answered; }
claim "the datagram socket is answered again" wait_for 20 answered_again
stop ask
stop cnapt
stop snapt1

# --- IPv6 alone
add_user carol 2
start_cnapt
claim "without IPv4: it is refused at once" refused $inet4
claim "without IPv4: status says so" says IPv4
claim "without IPv4: IPv6 is reached" quickly "[$inet6]"
stop cnapt
stop snapt2

# --- IPv6 that leads nowhere from the SNAPT
cp "$work/well1.toml" "$work/snapt1.toml"
ip -n "$(ns snapt1)" -6 route del default
start_snapt 1
tells() { snapt_json 1 status | json_true "d['state'] == 'up' and d['forwarding_error'] == 'no way out for IPv6: no default route'"; }
claim "a host that has not had IPv6: its server says so, and is up" tells
cp "$work/well2.toml" "$work/snapt2.toml"
start_snapt 2
add_user dora 1 2
stop snapt2
start_cnapt
before=$(plain)
no_way() { cnapt status --socket "$work/cnapt.sock" | grep -qF "$1"; }
claim "no route behind the SNAPT: IPv6 is refused at once" refused "[$inet6]"
claim "no route behind the SNAPT: a site with both is reached by IPv4, at once" quickly both.test
claim "no route behind the SNAPT: IPv4 is tried first" wait_for 5 eval '[ "$(first)" = $inet4 ]'
claim "no route behind the SNAPT: status says so" no_way 'IPv6: refused, no way out at zrh-1 (`snapt doctor` there'
claim "no route behind the SNAPT: so does doctor" doctor_says 'warn versions IPv6: refused, no way out at zrh-1'
claim "no route behind the SNAPT: nothing goes plain" equal $(($(plain) - before)) 0
start_snapt 2
claim "another SNAPT has one: IPv6 is reached" wait_for 30 quickly "[$inet6]"
claim "another SNAPT has one: IPv6 goes there" equal "$(snapt_of $inet6)" zrh-2
claim "another SNAPT has one: the order is that of the plain host" wait_for 5 eval '[ "$(first)" = "$plain_first" ]'
claim "another SNAPT has one: status names the first" no_way 'zrh-1 has no way out for IPv6, new flows take another SNAPT'
claim "another SNAPT has one: doctor says nothing of a missing prefix" eval '! doctor_says "no prefix for the other"'
stop snapt2
claim "it goes: IPv6 is refused again" wait_for 30 no_way 'IPv6: refused, no way out at zrh-1'
ip -n "$(ns snapt1)" -6 route add default via 2001:db8:1::1
claim "with a route IPv6 is reached" wait_for 10 quickly "[$inet6]"
claim "with a route nothing is said" wait_for 5 eval '! no_way "no way out"'
claim "and the order is that of the plain host" wait_for 5 eval '[ "$(first)" = "$plain_first" ]'
finish
