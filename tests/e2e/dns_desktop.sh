#!/usr/bin/env bash
# Names go through the tunnel where systemd-resolved is set up as on desktops: a network manager gives the uplinks all domains, too,
# all links have DNS over TLS and DNSSEC, and somebody takes away what cnapt has set. The access points' servers are never asked
# meanwhile, and dns.state and doctor say what a look-up by the host's own resolver says.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_resolved.sh"
resolved_host
start_resolved
# As NetworkManager does for the uplink of the default route.
manages() { tell dns "up$1" "192.168.$1.1" && tell domain "up$1" '~.' && tell default-route "up$1" yes; }
refused() { in_ns node nft list counter inet continuo_cnapt_cnapt0_names resolver_refused | sed -n 's/.*packets \([0-9]*\).*/\1/p'; }
asked=0
# twelve_names PREFIX : look-ups through the tunnel, of names that nobody has asked for.
twelve_names() {
    local i
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
        in_ns node getent ahostsv4 "$1$i.example" | grep -q '^203.0.113.80 ' || { echo "$1$i.example is not found through the tunnel"; return 1; }
    done
}
# nothing_beside N TEXT : the server of that access point has not been asked since `asked` was counted.
nothing_beside() { claim "$2" equal "$(by_resolver "$1")" "$asked"; }
finds() { { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" || true; } | tr -s ' \n' ' ' | grep -qE "$1"; }

wait_for 10 manages 1
claim "without cnapt the access point resolves" wait_for 10 resolves_to 198.51.100.2
start_cnapt
claim "with it, names are looked up through the tunnel" wait_for 10 goes_through_tunnel
asked=$(by_resolver 1)
claim "all domains are the uplink's, too: names resolve through the tunnel" twelve_names a
nothing_beside 1 "and the access point is not asked"
claim "what resolved sends there is refused, and counted" more_than "$(refused)" 0
claim "doctor says by whom names are looked up" finds 'ok dns 203.0.113.10 answers through the tunnel, and so does 127.0.0.53'
claim "that an uplink has all domains, too, and what becomes of that" finds \
    '127.0.0.53; up1 has all domains \(~\.\), too: what systemd-resolved asks there is refused, nothing to do; refused so far: [1-9][0-9]* packets'
# A domain of the network's own, as DHCP tells it, in place of all.
tell domain up1 corp.example
claim "doctor says what a domain of the uplink's own needs" finds \
    '127.0.0.53; corp.example of uplinks are not looked up there: without \[dns\] they are; refused so far: [1-9][0-9]* packets'
set_again() { cnapt_json status | json "d['dns']['set_again']"; }
claim "nothing was set again yet" equal "$(set_again)" 0
manages 1

move 2 11
asked=$(by_resolver 2)
wait_for 5 manages 2
claim "after a move to another such uplink" wait_for 10 goes_through_tunnel
claim "names resolve through the tunnel" twelve_names b
nothing_beside 2 "and its access point is not asked"

# --- Somebody else's hand

has_servers() { tell dns cnapt0 | grep -q 203.0.113.10 && tell domain cnapt0 | grep -q '~\.'; }
tell revert cnapt0
claim "after resolvectl revert they are set again" wait_for 15 has_servers
claim "and names resolve through the tunnel" wait_for 10 twelve_names c
tell domain cnapt0 example.net
tell dnssec cnapt0 yes
claim "after a change of domains, too" wait_for 30 has_servers
claim "and names resolve through the tunnel" wait_for 10 twelve_names d
nothing_beside 2 "the access point was not asked meanwhile"

claim "status counts both" more_than "$(set_again)" 1
claim "and when that was last" eval 'cnapt_json status | json_true "0 <= __import__(\"time\").time() - d[\"dns\"][\"set_again_at\"] < 120"'
claim "doctor says that settings were set again" finds 'somebody took the settings of cnapt0 away: set again [2-9] times, last 20[0-9-]+'

# --- DNS over TLS and DNSSEC for all links, which our servers do not have

stop resolved
start_resolved DNSSEC=yes DNSOverTLS=yes
wait_for 10 manages 2
claim "DNS over TLS and DNSSEC for all: names resolve through the tunnel" wait_for 30 twelve_names e
claim "and dns.state says so" wait_for 30 is_dns tunnel
claim "doctor says what of that cnapt0 does not have" finds \
    'DNS over TLS \(yes\) and DNSSEC \(yes\) of all links: off for cnapt0, nothing to do'
stop cnapt
begin_log cnapt
start_cnapt
claim "so they do after a start" wait_for 10 twelve_names f
claim "and dns.state says so" wait_for 10 is_dns tunnel

# --- A resolver that says nothing

kill -STOP "${pid_of[resolved]}"
claim "one that hangs is told in dns.state" wait_for 30 is_dns failed
claim "and by doctor" finds 'fail dns 203.0.113.10 answers through the tunnel, but not 127.0.0.53, whom this host asks'
kill -CONT "${pid_of[resolved]}"
claim "and no more when it goes on" wait_for 20 is_dns tunnel
claim "names resolve through the tunnel" wait_for 10 twelve_names g
stop cnapt KILL
stop resolved
start_resolved
wait_for 10 manages 2
claim "after kill -9 nothing is refused any more" wait_for 10 resolves_to 198.51.100.2
start_cnapt
claim "after the next start names go through the tunnel" wait_for 10 goes_through_tunnel
asked=$(by_resolver 2)
claim "and resolve there" twelve_names h
nothing_beside 2 "the access point was not asked meanwhile"

stop cnapt
stop resolved
start_resolved
wait_for 10 manages 2
claim "stop gives resolved back what it had" wait_for 10 resolves_to 198.51.100.2
finish
