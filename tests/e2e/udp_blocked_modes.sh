#!/usr/bin/env bash
# UDP is blocked on both uplinks in the middle of a download, in each of the modes that use more than one path: data goes over TCP
# within two seconds, and over UDP again when it is given back, by both uplinks where the mode spreads one flow.
. "$(dirname "$0")/lib.sh"
. "$lib_dir/lib_udp_blocked.sh"
require curl ping ethtool
uplink_cable=emulated_cable
build_topology
two_uplinks
for cable in gw1-wan gw2-wan; do cable_set $cable both delay 10ms queue 100; done
links_have() { local n; for n in 1 2; do cable_set "gw$n-wan" both rate "$1"; done; }
start_snapt 1
add_user alice
policy_file=$work/policy.toml

size=50000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"

with_mode() { # MODE: cnapt, anew, with that policy
    printf 'version = 1\n\n[default]\nmode = "%s"\n' "$1" >"$policy_file"
    if is_alive cnapt; then stop cnapt; fi
    start_cnapt
    wait_for 10 are_usable
}
are_usable() { cnapt_json paths | json_true "sorted(p['interface'] for p in d if p['transport'] == 'udp' and p['state'] == 'usable') == ['up1', 'up2']"; }

down_by() { cable_stat "gw$1-wan" 'd["b-to-a"]["offered_packets"]'; }
# both_carry : packets of the download, each a good part of the next megabytes.
both_carry() {
    local first second before
    first=$(down_by 1) second=$(down_by 2) before=$(have)
    wait_for 20 arrived $((before + 4000000)) && more_than $(($(down_by 1) - first)) 500 && more_than $(($(down_by 2) - second)) 500
}

mode() {
    local began first
    links_have 20M
    with_mode "$1"
    first=$(session)
    rm -f "$work/arrivals"
    begin_log http
    begin_download "$1"
    block_both "$1, blocked"
    began=$EPOCHREALTIME
    unblock 1 2
    claim "$1, given back: UDP is taken back" wait_for 10 goes_over udp
    silent_for 0.7 "$began" "$1, given back"
    claim "$1, given back: both uplinks are usable" wait_for 15 are_usable
    [ "$1" = flow ] || claim "$1, given back: and both carry the download" both_carry

    links_have 100M # of its pace nothing more is said
    wait "$download"
    claim "$1: the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
    claim "$1: it was one TCP connection" equal "$(said http | grep -c .)" 1
    claim "$1: it is still the first session" equal "$(session)" "$first"
    stop ping
}
for mode in packet flow redundant; do mode $mode; done
finish
