#!/usr/bin/env bash
# A node that sleeps longer than mappings at NATs live: when it runs again it asks at once, and what was under way goes on. Stopped
# by SIGSTOP, with which the monotonic clock goes on: deadlines of 40 s all seem to have passed unanswered.
. "$(dirname "$0")/lib.sh"
require curl ping conntrack
build_topology
two_uplinks
for n in 1 2; do
    # Every new mapping gets another port, and lives for 5 s.
    in_ns "gw$n" nft "flush chain ip nat post; add rule ip nat post oifname wan masquerade random"
    in_ns "gw$n" sysctl -qw net.netfilter.nf_conntrack_udp_timeout=5 net.netfilter.nf_conntrack_udp_timeout_stream=5
done
# The reader must wait for data that comes after the sleep, so buffers are small.
in_ns node sysctl -qw net.ipv4.tcp_rmem="4096 131072 1000000"
start_snapt 1
add_user alice
start_cnapt
first=$(session)

mkdir "$work/www"
size=20000000
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
exec_in_ns node curl -sS -m 150 --limit-rate 1500k "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
wait_for 10 arrived 4000000

tells() { cnapt_json status | json "(d['state'], d['sessions'][0]['transport'], d['handovers']['count'])"; }
before=$(tells)
seen_from() { snapt_json 1 sessions | json "d[0]['from']"; }
from=$(seen_from)
kill -STOP "${pid_of[cnapt]}"
stopped=$SECONDS
no_mapping() { ! in_ns gw1 conntrack -L -p udp 2>/dev/null | grep -q .; }
claim "while it sleeps the gateway forgets its mappings" wait_for 60 no_mapping
slept() { [ $((SECONDS - stopped)) -ge 40 ]; }
wait_for 60 slept
kill -CONT "${pid_of[cnapt]}"
woke=$EPOCHREALTIME

pings() { in_ns node ping -n -q -c 1 -W 1 $inet4; }
claim "after the sleep it carries what applications send" wait_for 3 pings
answered=$(since "$woke")
claim "and did so within 1.5 s (it took $answered s)" at_most "$answered" 1.5
is_elsewhere() { [ "$(seen_from)" != "$from" ]; }
claim "SNAPT sees it behind a new mapping" wait_for 3 is_elsewhere
claim "it has said that it slept" grep -q 'did not run for' "$work/cnapt.log"
is_lost() { grep -q 'does not answer; new flows go outside the tunnel' "$work/cnapt.log"; }
claim "no SNAPT was given up for what happened in its sleep" equal "$(is_lost && echo lost)" ""
claim "state and transport are as before, and no handover was made" equal "$(tells)" "$before"
wait "$download"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
claim "it is still the first session" equal "$(session)" "$first"
# Seconds after the sleep by which two megabytes more had come: more than lay anywhere.
resumed=$("$python" - "$work/arrivals" "$woke" <<'END'
import sys
woke = float(sys.argv[2])
arrivals = [(float(at), int(total)) for at, total in (line.split() for line in open(sys.argv[1]))]
before = max(total for at, total in arrivals if at < woke)
print(round(min(at for at, total in arrivals if total >= before + 2000000) - woke, 2))
END
)
speaks_of "$woke" "$("$python" -c "print($woke + $resumed)")"
claim "the download went on 3 s after the sleep at the latest ($resumed s)" at_most "$resumed" 3

# Idle, both uplinks: the one that is not in use is asked as well.
kill -STOP "${pid_of[cnapt]}"
stopped=$SECONDS
slept() { [ $((SECONDS - stopped)) -ge 8 ]; }
wait_for 20 slept
kill -CONT "${pid_of[cnapt]}"
both_heard() { cnapt_json paths | json_true "all(p['state'] == 'usable' and p['heard_ms_ago'] < 3000 for p in d) and len(d) == 2"; }
claim "after an idle sleep all paths have answered" wait_for 3 both_heard
control_works() { timeout 2 cnapt usage --socket "$work/cnapt.sock" >/dev/null 2>&1; }
claim "and the control link works" wait_for 15 control_works
finish
