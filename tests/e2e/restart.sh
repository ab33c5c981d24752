#!/usr/bin/env bash
# SNAPT and cnapt are killed in the middle and started again, twice, with a second SNAPT at hand: sessions come back with the
# same leases, flows keep their SNAPT, and a download through the kernel's NAT goes on.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
start_snapt 1
start_snapt 2
add_user alice 1 2
start_cnapt
mkdir "$work/www"
head -c 80000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
exec_in_ns node curl -sS -m 150 "http://$inet4/file?rate=2500000" 2>"$work/curl.log" |
    "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
goes_on() { local from; from=$(have); wait_for 20 arrived $((from + 1000000)); }
leases() { snapt_json "$1" sessions | json "[(s['inner_ipv4'], s['inner_ipv6']) for s in d]"; }
has_session() { [ "$(snapt_json "$1" sessions | json 'len(d)')" = 1 ]; }
snapt_of_download() { cnapt_json flows | json "[f['snapt'] for f in d if f['dport'] == 80 and f['state'] != 'refused'][0][-1]"; }
knows_again() { cnapt_json snapts | json_true "any(s['snapt'] == 'zrh-$1' and s['state'] == 'up' for s in d)"; }
wait_for 10 arrived 1000000
n=$(snapt_of_download)
first=$(leases "$n")

for round in 1 2; do
    rto=$(rto_s) killed=$EPOCHREALTIME
    stop "snapt$n" KILL
    sleep 0.3
    start_snapt "$n"
    up=$EPOCHREALTIME
    wait_for 20 has_session "$n"
    away=$(since "$killed") took=$(since "$up")
    claim "$round: the session is back two seconds after a killed snapt is ($took s)" at_most "$took" 2
    claim "$round: with the same leases" equal "$(leases "$n")" "$first"
    claim "$round: and the download goes on" goes_on
    claim "$round: silent until its sender's second attempt at most (RTO $rto s, $(longest_gap "$killed") s)" silent_since "$killed" "$away"
    rto=$(rto_s) killed=$EPOCHREALTIME
    stop cnapt KILL
    start_cnapt
    wait_for 20 knows_again "$n"  # it is up as soon as either SNAPT answers
    took=$(since "$killed")
    claim "$round: the session is back two seconds after a cnapt is killed and started ($took s)" at_most "$took" 2
    claim "$round: the download goes on" goes_on
    claim "$round: silent until its sender's second attempt at most (RTO $rto s, $(longest_gap "$killed") s)" silent_since "$killed" "$took"
    claim "$round: through the same SNAPT" equal "$(snapt_of_download)" "$n"
    claim "$round: with the same leases" equal "$(leases "$n")" "$first"
done
stop cnapt
start_cnapt
claim "the download goes on after a regular restart" goes_on
wait "$download"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "80000000 $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
finish
