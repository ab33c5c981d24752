#!/usr/bin/env bash
# A captive portal on uplink 2 is recognised by what it answers in place of the SNAPT, reported, and not used: flows stay on
# uplink 1, though uplink 2 has the better metric. Its login page can be reached meanwhile; once it lets through, the uplink
# is used. The same without another uplink, and with a portal that intercepts port 80 only.
. "$(dirname "$0")/lib.sh"
require curl ping setpriv
build_topology
start_snapt 1
add_user alice
mkdir "$work/www"
echo the-internet >"$work/www/page"
http_server "$work/www"

login=http://192.168.2.1:8080/login
spawn gw2 portal "$python" "$support_dir/portal.py" --port 8080 --url "$login"
wait_for 10 listens gw2 8080
# close_portal PORTS : web (and control) connections are led to the login page, everything else is dropped.
close_portal() {
    in_ns gw2 nft "add table ip portal
        add chain ip portal lead { type nat hook prerouting priority -100; }
        add rule ip portal lead iifname lan ip daddr != 192.168.2.1 tcp dport { $1 } redirect to :8080
        add chain ip portal refuse { type filter hook forward priority 0; }
        add counter ip portal dropped
        add rule ip portal refuse iifname lan counter name dropped drop"
}
open_portal() { in_ns gw2 nft delete table ip portal; }
path_field() { cnapt_json paths | json "next(str(p['$2']) for p in d if p['interface'] == '$1' and p['transport'] == 'udp')"; }
is_captive() { equal "$(path_field "$1" captive)" "$2"; }
questions() { grep -c "b'GET /continuo/" "$work/portal.log"; }
tunnel_page() { equal "$(in_ns node curl -sS -m 5 "http://$inet4/page")" the-internet && equal "$(tail -n 1 "$work/http.log" | cut -d' ' -f1)" ::ffff:198.51.100.2; }
replies() { grep -c 'bytes from' "$work/ping.out"; }
more_replies() { [ "$(replies)" -gt "$1" ]; }
# Losses up to the last answered ping: those under way when ping ends are not lost.
lost() { sed -n 's/.*bytes from.*icmp_seq=\([0-9]*\).*/\1/p' "$work/ping.out" | sort -nu | awk '{ last = $1 } END { print last - NR }'; }

# --- With another uplink

close_portal '80, 443, 9347'
ip -n "$(ns node)" route flush default
ip -n "$(ns node)" route add default via 192.168.1.1 dev up1 metric 200
start_cnapt
pinged_from=$EPOCHREALTIME
exec_in_ns node ping -n -i 0.1 $inet4 >"$work/ping.out" 2>&1 &
ping=$!
ip -n "$(ns node)" addr add 192.168.2.2/24 dev up2
ip -n "$(ns node)" route add default via 192.168.2.1 dev up2 metric 100
claim "a portal on a new uplink is recognised" wait_for 15 is_captive up2 True
claim "with its login page" equal "$(path_field up2 portal_url)" "$login"
claim "the other uplink is none" is_captive up1 False
claim "flows stay there" is_active up1
paths_text() { cnapt paths --socket "$work/cnapt.sock"; }
claim "cnapt paths says portal" eval 'paths_text | grep -q "^up2>zrh-1 .* portal "'
claim "status too" eval 'cnapt_json status | json_true "any(p[\"captive\"] and p[\"portal_url\"] == \"$login\" for p in d[\"paths\"])"'
claim "it is logged once" equal "$(grep -c 'up2: a captive portal answers in place of the SNAPT ('"$login"')' "$work/cnapt.log")" 1
claim "the node is up" equal "$(cnapt_json status | json 'd["state"]')" up
claim "new flows take the tunnel" tunnel_page
asked_again() { [ "$(questions)" -gt "$1" ]; }
before=$(questions)
claim "the portal is asked again" wait_for 15 asked_again "$before"
claim "in words that name nobody" eval '! grep -q "alice\|k1" "$work/portal.log"'

# --- Its page, while flows stay

claim "the login page itself is near" equal "$(in_ns node curl -sS -m 5 "$login")" "log in here"
says() { env -u SUDO_UID cnapt portal --socket "$work/cnapt.sock" >"$work/said" && grep -q "up2: log in at $login" "$work/said"; }
claim "cnapt portal says where to log in" says
leads_to_portal() { equal "$(in_ns node curl -sS -m 5 -o /dev/null -w '%{http_code} %{redirect_url}' "http://$inet4/page")" "302 $login"; }
claim "web pages of that user lead there now" wait_for 5 leads_to_portal
other_user() { equal "$(in_ns node setpriv --reuid=1234 --clear-groups curl -sS -m 5 "http://$inet4/page")" the-internet; }
claim "those of others do not" other_user
claim "what is no web traffic stays in the tunnel" eval 'is_active up1 && in_ns node ping -n -c 1 -W 2 $inet4'
asks_for_another() {
    in_ns node setpriv --reuid=1234 --clear-groups "$python" -c 'import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b"{\"command\":\"portal\",\"user\":0}\n"); print(s.recv(4096))' "$work/cnapt.sock"
}
chmod 711 "$work"
chmod 666 "$work/cnapt.sock"
claim "but root nobody may ask for another user" eval 'asks_for_another | grep -q "only root may ask"'
claim "a wrong interface is refused" eval '! cnapt portal up1 --socket "$work/cnapt.sock"'

# --- Login

open_portal
began=$EPOCHREALTIME
claim "after the login the uplink is no portal" wait_for 20 is_captive up2 False
claim "and is used, since its metric is better" wait_for 10 is_active up2
took=$(since "$began")
# While somebody logs in it is asked 2 s after the last question, which waits 3 s for an answer; a CHALLENGE comes each second.
claim "while somebody logs in that takes 6 s at most ($took s)" at_most "$took" 6
claim "which is told" grep -q 'up2: the captive portal lets traffic through' "$work/cnapt.log"
claim "the user's web pages take the tunnel again" wait_for 5 tunnel_page
no_portal_rules() { ! in_ns node ip rule | grep -q 'lookup 9348' && equal "$(in_ns node ip route show table 9348 2>/dev/null)" ""; }
claim "no rule and no route is left of the way to the portal" wait_for 3 no_portal_rules
wait_for 3 more_replies $(($(replies) + 1))
kill -INT $ping
wait $ping
speaks_of "$pinged_from" "$EPOCHREALTIME" 0.1  # one ping
claim "no ping was lost from before the portal to after it" equal "$(lost)" 0
stop cnapt
claim "nor after the end" no_portal_rules

# --- Without another uplink

ip -n "$(ns node)" addr del 192.168.1.2/24 dev up1
close_portal '80, 443, 9347'
run_cnapt
wait_for 10 test -S "$work/cnapt.sock"
claim "without another uplink it is recognised, too" wait_for 20 is_captive up2 True
claim "the state is down" equal "$(cnapt_json status | json 'd["state"]')" down
claim "and a browser finds the login page by itself" leads_to_portal
open_portal
claim "after the login the tunnel comes up" wait_cnapt 60
claim "and the mark goes" wait_for 60 is_captive up2 False
claim "traffic passes" tunnel_page

# --- A portal that leads port 80 only, and comes later

close_portal 80
is_silent() { in_ns node ping -n -c 1 -W 1 $inet4; is_captive up2 True; }
claim "a portal that comes later and leads port 80 only is recognised" wait_for 60 is_silent
open_portal
back() { in_ns node ping -n -c 1 -W 1 $inet4; }
claim "and traffic passes when it is gone" wait_for 60 back
claim "without a mark" wait_for 60 is_captive up2 False
stop cnapt

# --- The kill switch

set_capture 'kill_switch = true'
close_portal '80, 443, 9347'
run_cnapt
claim "with the kill switch a portal is recognised" wait_for 20 is_captive up2 True
refused() { ! cnapt portal --socket "$work/cnapt.sock" 2>"$work/refused" && grep -q 'kill switch' "$work/refused"; }
claim "but nothing is let out to it" refused
stop cnapt
finish
