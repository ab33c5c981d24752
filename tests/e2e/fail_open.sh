#!/usr/bin/env bash
# When no SNAPT answers, new flows go plain and those in the tunnel wait; when one answers again, all is as before.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
start_snapt 1
add_user alice
mkdir "$work/www"
head -c 30000000 /dev/urandom >"$work/www/file"
echo small >"$work/www/small"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"

last_client() { tail -n 1 "$work/http.log" | cut -d' ' -f1; }
fetches() { equal "$(in_ns node curl -sS -m 5 "http://$inet4/small")" small; }
comes_from() { fetches && equal "$(last_client)" "::ffff:$1"; }

stop snapt1
run_cnapt
wait_for 5 test -S "$work/cnapt.sock"
claim "with no SNAPT from the start, traffic goes plain" comes_from 192.0.2.2
start_snapt 1
wait_cnapt 30
claim "once there is one, traffic takes the tunnel" comes_from 198.51.100.2

exec_in_ns node curl -sS -m 120 --limit-rate 1500k "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
wait_for 10 arrived 1000000
stop snapt1 KILL
claim "a dead SNAPT is noticed, and new flows go plain" wait_for 30 comes_from 192.0.2.2
is_down() { [ "$(cnapt_json status | json 'd["state"]')" = down ]; }
claim "status says that it is down" is_down
before=$(tail -n 1 "$work/arrivals" | cut -d' ' -f2)
start_snapt 1
wait_cnapt 30
claim "back again, new flows take the tunnel" wait_for 10 comes_from 198.51.100.2
wait_for 30 arrived $((before + 1000000))
wait "$download"
claim "the download that was in the tunnel went on to its end" equal "$(cat "$work/result") $(cat "$work/curl.log")" "30000000 $sum "
finish
