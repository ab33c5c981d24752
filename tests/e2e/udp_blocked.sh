#!/usr/bin/env bash
# UDP is blocked in the middle of transfers and given back: data goes over TCP within two seconds and back, and no
# connection notices. A node also begins where UDP never worked.
. "$(dirname "$0")/lib.sh"
require curl ping ethtool
uplink_cable=emulated_cable
build_topology
cable=gw1-wan
cable_set $cable both rate 30M delay 10ms queue 100
start_snapt 1
add_user alice
start_cnapt

size=60000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
head -c 1000000 "$work/www/file" >"$work/www/small"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"

transport() { cnapt_json status | json "d['sessions'][0]['transport']"; }
goes_over() { equal "$(transport)" "$1"; }
snapt_goes_over() { equal "$(snapt_json 1 sessions | json "d[0]['transport']")" "$1"; }
active_path() { cnapt_json paths | json "[p['transport'] + ' ' + p['state'] for p in d if p['active']][0]"; }
# Replies as "TIME MILLISECONDS", from ping -D.
replies() { sed -n 's/^\[\([0-9.]*\)\].*bytes from.*time=\([0-9.]*\) ms/\1 \2/p' "$work/ping.log" >"$work/replies"; }
# median_ms FROM : of the replies since then.
median_ms() { awk -v from="$1" '$1 >= from { print $2 }' "$work/replies" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# upload : the file over one TCP connection to a reader, which logs arrivals.
upload() {
    rm -f "$work/reader.log"
    upload_reader && spawn node writer bash -c "cat $work/www/file >/dev/tcp/$inet4/8080"
}
is_uploaded() { equal "$(cat "$work/reader.log")" "$size $sum"; }
download() {
    rm -f "$work/down"
    begin_log http
    exec_in_ns node curl -sS -m 150 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/down" >"$work/result" &
    download=$!
}
# moves PROTECTION FROM SECONDS : both directions and ping, since FROM; no gap was longer.
moves() {
    local log gap before
    for log in down up; do
        before=$(have $log)
        claim "$1: $log: bytes go on" wait_for 30 arrived $((before + 3000000)) $log
        gap=$(longest_gap "$2" $log)
        claim "$1: $log: silent for $3 s at most ($gap s)" at_most "$gap" "$3"
    done
    replies
    gap=$(longest_gap "$2" replies)
    claim "$1: ping: silent for $3 s at most ($gap s)" at_most "$gap" "$3"
}

# blocked_in_the_middle PROTECTION : cnapt runs with it.
blocked_in_the_middle() {
    local download began median gap
    download
    upload
    spawn node ping ping -n -D -i 0.1 "$inet4"
    wait_for 20 arrived 3000000 down
    wait_for 20 arrived 3000000 up
    claim "$1: data goes over UDP" wait_for 10 goes_over udp

    began=$EPOCHREALTIME
    cable_set $cable both block udp
    claim "$1: blocked UDP makes data go over TCP" wait_for 10 goes_over tcp
    claim "$1: the SNAPT says so too" wait_for 5 snapt_goes_over tcp
    claim "$1: and the list of paths" equal "$(active_path)" "tcp usable"
    moves "$1" "$began" 2
    began=$EPOCHREALTIME
    sleep 2  # of replies
    replies
    median=$(median_ms "$began")
    speaks_of "$began" "$EPOCHREALTIME" 0.3
    claim "$1: over TCP ping does not wait behind the transfers (median $median ms)" at_most "$median" 300

    began=$EPOCHREALTIME
    cable_set $cable both unblock udp
    claim "$1: UDP is taken back when it is given back" wait_for 10 goes_over udp
    claim "$1: the SNAPT says so too" wait_for 5 snapt_goes_over udp
    claim "$1: and the log, of both moves" eval 'grep -q "zrh-1: UDP gets through again by up1, data leaves TCP" "$work/cnapt.log" && grep -q "zrh-1: moved from up1 .* to tcp, " "$work/cnapt.log"'
    moves "$1" "$began" 0.7  # a round trip (0.06 s) and 0.2 s of repeats; for TCP twice that and an RTO: 0.8 s, held to less
    cable_set $cable both rate 100M # of their pace nothing more is said
    wait "$download"
    claim "$1: the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
    claim "$1: it was one TCP connection" equal "$(said http | grep -c .)" 1
    claim "$1: the upload is whole and right" wait_for 60 is_uploaded
    cable_set $cable both rate 30M

    began=$EPOCHREALTIME
    cable_set $cable both block udp
    claim "$1: blocked again, TCP is used again" wait_for 10 goes_over tcp
    sleep 1  # of replies
    replies
    gap=$(longest_gap "$began" replies)
    claim "$1: ping: silent for 2 s at most ($gap s)" at_most "$gap" 2
    cable_set $cable both unblock udp
    claim "$1: and UDP is taken back" wait_for 20 goes_over udp
    stop ping
}

blocked_in_the_middle encrypt
stop cnapt
sed -i '/^protection/d; 1i protection = "authenticate"' "$work/cnapt.toml"
start_cnapt
blocked_in_the_middle authenticate

# --- Where UDP never works
fetches() { equal "$(in_ns node curl -sS -m 20 "http://$inet4/small" | wc -c)" 1000000; }
for protection in authenticate encrypt; do
    stop cnapt
    sed -i "s/^protection.*/protection = \"$protection\"/" "$work/cnapt.toml"
    cable_set $cable both block udp
    start_cnapt
    claim "$protection: a node comes up where UDP is blocked" goes_over tcp
    claim "$protection: and carries what applications send" fetches
    cable_set $cable both unblock udp
    claim "$protection: and UDP is used as soon as it works" wait_for 40 goes_over udp
    claim "$protection: over which it goes on" fetches
done
finish
