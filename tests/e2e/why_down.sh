#!/usr/bin/env bash
# Why there is no tunnel is said, with its time, by the log, status, snapts and paths, and so is what becomes of new flows. A
# login that is refused is not taken for a captive portal, nor is a web server on the SNAPT's host. A node whose user is
# disabled says so within five seconds.
. "$(dirname "$0")/lib.sh"
require curl ping conntrack
build_topology
start_snapt 1
add_user alice
cp "$work/cnapt.toml" "$work/good.toml"

last_error() { cnapt_json snapts | json "(d[0]['last_error'] or {}).get('$1')"; }
fails_by() { equal "$(last_error kind) $(last_error current)" "$1 True"; }
path_fails_by() { equal "$(cnapt_json paths | json "[(p['last_error'] or {}).get('kind') for p in d if p['transport'] == 'udp']")" "['$1']"; }
is_recent() { json_true "0 <= __import__('time').time() - d[0]['last_error']['at'] < 30" < <(cnapt_json snapts); }
# prints COMMAND REGEX : one of its lines is that.
prints() {
    local text
    text=$(cnapt "$1" --socket "$work/cnapt.sock")
    echo "$text"
    grep -qE -- "$2" <<<"$text"
}
logs() { grep -qE -- "$1" <(said cnapt); }
tunnel_is() { equal "$(cnapt_json status | json "(d['tunnel'], d['kill_switch'])")" "('$1', $2)"; }
state_is() { equal "$(cnapt_json status | json 'd["state"]')" "$1"; }
is_no_portal() { equal "$(cnapt_json paths | json "{p['captive'] for p in d}")" "{False}" && ! logs 'captive portal answers'; }
run_anew() {
    begin_log cnapt
    run_cnapt
    wait_for 10 test -S "$work/cnapt.sock"
}
stamp='[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z'
time_text='\([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\)'

# --- A login that is refused

refused='login refused: user unknown, key wrong or user disabled'
asked() { [ "$(snapt_json 1 status | json 'd["control"]["portal_checks"]')" -ge "$1" ]; }
portal_is_refused() {
    cnapt portal --socket "$work/cnapt.sock" >"$work/portal.out" 2>&1 && return 1
    grep -q "no uplink is behind a captive portal; zrh-1: $refused" "$work/portal.out" && ! grep -q '198.51.100.2' "$work/portal.out"
}
sed -i 's/^key = .*/key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="/' "$work/cnapt.toml"
run_anew
claim "a wrong key is a refused login" wait_for 10 fails_by login_refused
claim "with its time" is_recent
claim "snapts says it in words" prints snapts "^zrh-1: $refused $time_text$"
claim "status too, with the time" prints status "^zrh-1: $refused $time_text$"
claim "the log too, with the time of each line" logs "^$stamp warning: zrh-1: no control link to 198.51.100.2:9347 \(login_refused\): $refused; trying again"
claim "and that new flows go outside the tunnel" logs "^$stamp cnapt .* until a SNAPT answers, new flows go outside the tunnel"
claim "status has a line of that" prints status '^tunnel: new flows plain \(they go outside the tunnel\); kill switch off$'
claim "and a field" tunnel_is new_flows_plain False
claim "the SNAPT is asked whether there is a portal, and asked again" wait_for 30 asked 2
claim "but there is none" is_no_portal
claim "and cnapt portal leads nobody to the SNAPT" portal_is_refused
stop cnapt
sed 's/^user = .*/user = "mallory"/' "$work/good.toml" >"$work/cnapt.toml"
run_anew
claim "an unknown user is refused in the same words" wait_for 10 prints snapts "^zrh-1: $refused $time_text$"
stop cnapt
cp "$work/good.toml" "$work/cnapt.toml"

# --- A web server on the SNAPT's host, while snapt is down

stop snapt1
mkdir "$work/www"
spawn snapt1 web "$python" "$support_dir/http_server.py" --directory "$work/www" --port 80
wait_for 10 listens snapt1 80
run_anew
claim "without snapt the connection is refused" wait_for 10 fails_by connection_refused
claim "by the uplink, too" path_fails_by connection_refused
questions() { grep -c 'GET /continuo/' "$work/web.log"; }
asks_web() { [ "$(questions)" -ge "$1" ]; }
claim "its web server is asked for a portal" wait_for 10 asks_web 1
claim "and is none" is_no_portal

# --- Other reasons

in_ns gw1 nft "add table ip hole; add chain ip hole pass { type filter hook forward priority 0; }; add rule ip hole pass tcp dport 9347 drop"
claim "where nothing answers, it timed out" wait_for 30 fails_by timed_out
claim "by the uplink, too" path_fails_by timed_out
claim "the web server is asked again" wait_for 30 asks_web 2
claim "and still is no portal" is_no_portal
stop web
in_ns gw1 nft "flush chain ip hole pass; add rule ip hole pass ip daddr 198.51.100.2 reject with icmp type host-unreachable"
claim "where ICMP says so, it is unreachable" wait_for 30 fails_by unreachable
in_ns gw1 nft delete table ip hole
ip -n "$(ns node)" addr del 192.168.1.2/24 dev up1
claim "without an address there is no network" wait_for 30 fails_by no_network
join 1 2
start_snapt 1
claim "and all is well again" wait_cnapt 30
claim "the last error is kept, and is over" equal "$(last_error current)" False
claim "status says that all flows take the tunnel" prints status '^tunnel: all; kill switch off$'
claim "and shows no error" eval '! prints status "^zrh-1: "'

# --- A user who is disabled

snapt user disable alice --socket "$(snapt_socket 1)"
disabled=$EPOCHREALTIME
says_why() { state_is down && prints snapts '^zrh-1: the SNAPT has ended the session: the user was disabled'; }
claim "a disabled user's node says so" wait_for 20 says_why
took=$(since "$disabled")
claim "within five seconds ($took s)" at_most "$took" 5
claim "in the log, too" logs "^$stamp warning: zrh-1 has ended the session; new flows go outside the tunnel"
claim "which they do" wait_for 5 tunnel_is new_flows_plain False
claim "the next login is refused" wait_for 30 fails_by login_refused
claim "and the reason stays" grep -q '^login refused: the user was disabled' <<<"$(last_error text)"
claim "no portal is seen in that" is_no_portal
snapt user enable alice --socket "$(snapt_socket 1)"
claim "enabled again, it comes back by itself" wait_cnapt 30

# An idle node behind a NAT that has forgotten the control link, without a word to either end.
in_ns gw1 nft "add table ip mute; add chain ip mute own { type filter hook input priority 0; }; add rule ip mute own tcp sport 9347 drop"
in_ns gw1 sysctl -qw net.netfilter.nf_conntrack_tcp_loose=0
in_ns gw1 conntrack -D -p tcp >/dev/null 2>&1
snapt user disable alice --socket "$(snapt_socket 1)"
disabled=$EPOCHREALTIME
is_refused() { state_is down && prints snapts "^zrh-1: $refused $time_text$"; }
claim "disabled behind a NAT that forgot its control link, the idle node says so" wait_for 30 is_refused
took=$(since "$disabled")
claim "within five seconds, too ($took s)" at_most "$took" 5
in_ns gw1 nft delete table ip mute
snapt user enable alice --socket "$(snapt_socket 1)"
stop cnapt

# --- The kill switch

set_capture 'kill_switch = true'
run_anew
wait_cnapt 30
claim "with the kill switch status says that it is on" prints status '^tunnel: all; kill switch on$'
stop snapt1 KILL
is_blocked() { in_ns node ping -n -c 1 -W 1 $inet4; tunnel_is blocked True; }
claim "and without a SNAPT that new flows are blocked" wait_for 30 is_blocked
claim "the log too" logs 'zrh-1 does not answer; new flows are blocked \(kill switch\)'
claim "in words" prints status '^tunnel: blocked \(nothing leaves until a SNAPT answers\); kill switch on$'
stop cnapt
finish
