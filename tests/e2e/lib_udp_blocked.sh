# For scripts that block UDP on two uplinks in the middle of a download whose arrivals are in $work/arrivals, beside ping -D.

# goes_over udp|tcp : both ends say so.
transport() { cnapt_json status | json "d['sessions'][0]['transport']"; }
snapt_transport() { snapt_json 1 sessions | json "d[0]['transport']"; }
goes_over() { equal "$(transport) $(snapt_transport)" "$1 $1"; }
block() { local n; for n in "$@"; do cable_set "gw$n-wan" both block udp; done; }
unblock() { local n; for n in "$@"; do cable_set "gw$n-wan" both unblock udp; done; }
# Times of ping's replies, and now.
replies() {
    sed -n 's/^\[\([0-9.]*\)\].*bytes from.*/\1/p' "$work/ping.log" >"$work/replies"
    echo "$EPOCHREALTIME" >>"$work/replies"
}
# silent_for SECONDS FROM TEXT : the download goes on; neither it nor ping was silent for longer.
silent_for() {
    local before gap log
    before=$(have)
    claim "$3: the download goes on" wait_for 20 arrived $((before + 2500000))
    replies
    for log in arrivals replies; do
        gap=$(longest_gap "$2" $log)
        claim "$3: $log: silent for $1 s at most ($gap s)" at_most "$gap" "$1"
    done
}
# begin_download TEXT : of the file, beside ping; its process is $download.
begin_download() {
    exec_in_ns node curl -sS -m 150 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
    download=$!
    spawn node ping ping -n -D -i 0.1 "$inet4"
    claim "$1: a download begins" wait_for 20 arrived 3000000
    claim "$1: over UDP" wait_for 10 goes_over udp
}
# block_both TEXT : UDP, on both uplinks.
block_both() {
    local began=$EPOCHREALTIME
    block 1 2
    claim "$1: data goes over TCP" wait_for 10 goes_over tcp
    silent_for 2 "$began" "$1"
}
