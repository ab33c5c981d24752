#!/usr/bin/env bash
# UDP is blocked on both uplinks, and the one that carries TCP swallows full packets or falls silent with its carrier on: a
# download and a ping go on within three seconds, by the other uplink where this one carries nothing.
. "$(dirname "$0")/lib.sh"
. "$lib_dir/lib_udp_blocked.sh"
require curl ping ethtool
uplink_cable=emulated_cable
build_topology
two_uplinks
for cable in gw1-wan gw2-wan; do cable_set $cable both rate 20M delay 10ms queue 100; done
start_snapt 1
add_user alice
start_cnapt
first=$(session)

size=120000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"

begin_download "two uplinks"
block_both "both blocked"
carrier() { cnapt_json paths | json "[p['interface'][2:] for p in d if p['active']][0]"; }
# breaks TEXT SETTING... : of the uplink that carries; then as before.
breaks() {
    local text=$1 n began=$EPOCHREALTIME
    shift
    n=$(carrier)
    cable_set "gw$n-wan" both "$@"
    silent_for 3 "$began" "$text (up$n)"
    claim "$text: over TCP" goes_over tcp
    echo "      then by up$(carrier)"
    cable_set "gw$n-wan" both up mtu 65535
    sleep 2  # the next comes in a settled state
}
breaks "packets of 1400 pass" mtu 1400
breaks "packets of 1300 pass" mtu 1300
breaks "packets of 1000 pass" mtu 1000
breaks "nothing passes" down
breaks "nothing passes once more" down
unblock 1 2
claim "UDP is taken back" wait_for 20 goes_over udp
for cable in gw1-wan gw2-wan; do cable_set $cable both rate 100M; done # of its pace nothing more is said
wait "$download"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
claim "it is still the first session" equal "$(session)" "$first"
finish
