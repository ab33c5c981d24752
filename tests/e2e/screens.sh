#!/usr/bin/env bash
# Whatever the daemons have to say, at 80 columns no line of it is longer, and --watch shows it again.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
start_snapt 1
start_snapt 2
add_user alice 1 2
start_cnapt
mkdir "$work/www"
head -c 20000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
in_ns node sysctl -qw net.ipv4.ping_group_range="0 2147483647"
spawn node ping4 ping -n -i 0.2 $inet4
spawn node ping6 ping -n -i 0.2 $inet6
in_ns gw1 tc qdisc add dev lan root tbf rate 1mbit burst 16kb latency 200ms  # a whole file would fit the buffers
spawn node curl curl -sS -m 120 -o /dev/null "http://[$inet6]/file"

flow() { cnapt_json flows | json_true "any($1 for f in d)"; }
claim "a ping has its process" wait_for 5 flow "f['proto'] == 'icmp' and f['process'] == 'ping'"
claim "over IPv6, too" wait_for 5 flow "f['proto'] == 'icmpv6' and f['process'] == 'ping'"
claim "a download has its process" wait_for 5 flow "f['process'] == 'curl' and f['idle_s'] < 10"
rate() { cnapt_json status | json "$1"; }
claim "the rate of a download is that of the direction down" wait_for 15 eval 'rate "400000 < (d[\"traffic\"][\"down\"][\"bits_per_s\"] or 0) < 4000000" | grep -c True'
claim "that of its path as well" wait_for 5 eval 'rate "any((p[\"down_bits_per_s\"] or 0) > 400000 for p in d[\"paths\"] if p[\"active\"])" | grep -c True'
claim "and that of its session at the SNAPT" eval '[ "$(for n in 1 2; do snapt_json $n sessions; done | grep -c "down_bits_per_s\":[1-9]")" -ge 1 ]'

too_long() { LC_ALL=C.UTF-8 awk 'length($0) > 80' "$1"; }
for columns in 80 100; do
    for words in "cnapt status" "cnapt flows --all" "cnapt paths" "cnapt snapts" "cnapt usage --by day,class,app" \
        "snapt status" "snapt sessions" "snapt flows --all" "snapt usage --by user,day,class" "snapt user list"; do
        case $words in cnapt*) socket=$work/cnapt.sock ;; *) socket=$(snapt_socket 1) ;; esac
        COLUMNS=$columns $words --socket "$socket" >"$work/screen" 2>&1
        claim "$words says something" test -s "$work/screen"
        claim "$words fits $columns columns" equal "$(LC_ALL=C.UTF-8 awk -v most=$columns 'length($0) > most' "$work/screen")" ""
    done
done
claim "--wide has all columns" eval 'COLUMNS=80 cnapt flows --wide --socket "$work/cnapt.sock" >"$work/screen"; grep -q "WIRE DOWN" "$work/screen"'
claim "flows are chosen by process" equal "$(cnapt_json flows --process curl | json "{f['process'] for f in d}")" "{'curl'}"
claim "a wrong class is a mistake of the caller" eval 'cnapt flows --class fast --socket "$work/cnapt.sock"; [ $? = 64 ]'

timeout 5 cnapt flows --watch 0.2 --socket "$work/cnapt.sock" >"$work/watched" 2>&1
claim "--watch shows it again and again" more_than "$(grep -c '^PROTO' "$work/watched")" 2
finish
