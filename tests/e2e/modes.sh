#!/usr/bin/env bash
# The strategies for two uplinks, while one of the two dies without a word and comes back, beside a call and a TCP connection in each
# direction. Mode "redundant": of the call nothing is lost, and nothing comes twice. Modes "packet" and "flow": what was on the dead
# one goes on over the other.
. "$(dirname "$0")/lib.sh"
require curl ethtool
uplink_cable=emulated_cable
build_topology
two_uplinks
cable_set gw1-wan both rate 20M delay 10ms queue 1000
cable_set gw2-wan both rate 20M delay 15ms queue 1000
start_snapt 1
add_user alice
policy_file=$work/policy.toml

mkdir "$work/www"
head -c 200000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
spawn inet voice_server "$python" "$support_dir/voice.py" server 7001
wait_for 10 listens inet 7001

with_mode() { # MODE: cnapt, anew, with that policy; "redundant" for the call alone
    printf 'version = 1\n\n' >"$policy_file"
    if [ "$1" = redundant ]; then
        printf '[[rule]]\napp = "call"\nmatch = { proto = "udp", dport = 7001 }\nclass = "ht-ld"\nmode = "%s"\n' "$1" >>"$policy_file"
    else
        printf '[default]\nmode = "%s"\n' "$1" >>"$policy_file"
    fi
    if is_alive cnapt; then stop cnapt; fi
    start_cnapt
    wait_for 10 are_usable up1 up2
}
are_usable() { cnapt_json paths | json_true "sorted(p['interface'] for p in d if p['state'] == 'usable') == '$*'.split()"; }
upload() { # to a reader that logs arrivals
    upload_reader
    spawn node writer bash -c "exec cat $work/www/file >/dev/tcp/$inet4/8080"
}
download() {
    rm -f "$work/down"
    spawn node curl curl -sS -m 100 -o "$work/down.pipe" "http://$inet4/file"
    exec_in_ns node "$python" "$support_dir/arrivals.py" "$work/down" <"$work/down.pipe" >/dev/null &
    pid_of[down]=$!
}
mkfifo "$work/down.pipe"
go_on() {
    local down up
    wait_for 10 test -s "$work/down" && wait_for 10 test -s "$work/up" || return
    down=$(have down) up=$(have up)
    wait_for 15 arrived $((down + $1)) down && wait_for 15 arrived $((up + $1)) up
}
# dies MODE N SECONDS : uplink N, for a while, in which all goes on; no silence was longer than SECONDS.
dies() {
    local began gap log
    began=$EPOCHREALTIME
    cable_set "gw$2-wan" both down
    claim "$1: up$2 dies, both transfers go on" go_on 4000000
    claim "$1: the other one is in use" wait_for 10 is_active "up$((3 - $2))"
    cable_set "gw$2-wan" both up
    for log in down up; do
        gap=$(longest_gap "$began" $log)
        claim "$1: $log: silent for $3 s at most ($gap s)" at_most "$gap" "$3"
    done
    claim "$1: both uplinks are used again" wait_for 15 are_usable up1 up2
    claim "$1: and the better one for what takes one" wait_for 60 is_active up1
}
# mode MODE SECONDS LOST : what the transfers may be silent, and how many packets the call may lose each time.
mode() {
    local sent received duplicates began
    with_mode "$1"
    began=$EPOCHREALTIME
    exec_in_ns node "$python" "$support_dir/voice.py" client $inet4 7001 100 "$work/voice" >"$work/voice.out" 2>"$work/voice.log" &
    pid_of[voice]=$!
    download
    upload
    go_on 3000000
    dies "$1" 1 "$2"
    dies "$1" 2 "$2"
    stop voice
    stop curl
    stop down
    stop writer
    stop reader
    read -r sent received duplicates <"$work/voice.out"
    echo "      $1: of the call's $sent packets $((sent - received)) were lost"
    claim "$1: the call lost $3 packets at most" lost_at_most $((sent - received)) "$3" "$began"
    claim "$1: of it nothing came twice" equal "$duplicates" 0
}
# The transfers of the first are in mode handover. What the others lose of the call was on the dead uplink until that was noticed:
# T_doubt, 2 s with the queues full, 50 packets a second, two deaths; held to three quarters of that. The transfers' TCP tries again
# after twice that and an RTO, 0.8 s with the queue (5.3 s); held to less.
mode redundant 3 0

# Both uplinks work: what the tunnel carries of a stream is twice what it costs once, in either direction, and usage says so.
carried() { snapt_json 1 usage --by class | json "sum(r['$1'] for r in d['rows'] if r['class'] == 'ht-ld')"; }
cat >"$work/stream.py" <<'PY'
import os, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(2000):
    s.sendto(os.urandom(500), (sys.argv[1], 7001))
    time.sleep(0.002)
PY
once=$(carried post) all=$(carried as_sent)
in_ns node "$python" "$work/stream.py" $inet4
sees_twice() { # 2 MB of packets; less than 16 KiB of what the tunnel carries beside them waits
    local post=$(($(carried post) - once)) sent=$(($(carried as_sent) - all))
    [ $post -gt 1500000 ] && [ $((sent * 10)) -gt $((post * 19)) ]
}
claim "redundant: usage has twice the carriage" wait_for 10 sees_twice
mode packet 3 150
mode flow 1.6 150
finish
