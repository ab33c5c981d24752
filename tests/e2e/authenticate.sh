#!/usr/bin/env bash
# protection = "authenticate": the same job with readable payload and an HMAC of 16 or 10 bytes, as amateur radio needs it.
. "$(dirname "$0")/lib.sh"
require curl ping tcpdump
build_topology
start_snapt 1
add_user alice
cp "$work/cnapt.toml" "$work/encrypt.toml"

mkdir "$work/www"
head -c 3000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
cat /usr/share/common-licenses/* >"$work/www/text"
http_server "$work/www"

# with_settings LINE... : cnapt.toml with these lines in front. What is compressed cannot be found again by its bytes.
with_settings() {
    printf '%s\n' "$@" | cat - <(grep -v '^protection\|^tag_bytes' "$work/encrypt.toml") \
        <(printf '[class.%s]\ncompression = "off"\n' lt-ld ht-ld lt-hd ht-hd) >"$work/cnapt.toml"
    chmod 600 "$work/cnapt.toml"
}
is_right() { equal "$(in_ns node curl -sS -m 30 "http://$inet4/file" | sha256sum | cut -d' ' -f1)" "$sum"; }
# The kernel hands a text over in super-packets. It comes slowly: on a busy machine a burst would leave as it is.
sent_down() { snapt_json 1 status | json 'sum(c["wire_bytes"] for c in d["classes"].values())'; }
text_is_compressed() {
    local before size
    before=$(sent_down) && size=$(stat -c %s "$work/www/text") || return
    in_ns node curl -sS -m 30 --limit-rate 300k "http://$inet4/text" | cmp - "$work/www/text" || return
    at_most $(($(sent_down) - before)) $((size * 9 / 10))
}
# Traffic between gateway and core during a marked request and then pings, some of which have a datagram of their own: others share
# it with an ACK.
ping_mark=a-ping-of-it-16b
marked_capture() {
    local marker=$1
    begin_log tcpdump
    spawn core tcpdump tcpdump -Z root -i gw1 -U -s 0 -w "$work/$marker.pcap" udp port 9347
    wait_for 5 is_listening || return
    in_ns node curl -sS -m 10 -o /dev/null -H "X-Marker: $marker" "http://$inet4/nothing" || return
    in_ns node ping -n -q -c 30 -i 0.02 -s 120 -W 5 -p "$(printf %s $ping_mark | od -An -tx1 | tr -d ' ')" $inet4 >/dev/null || return
    wait_for 5 has_datagrams "$work/$marker.pcap" || return
    stop tcpdump INT
}
is_listening() { grep -q 'listening on' <(said tcpdump); }
has_datagrams() { tcpdump -r "$1" -nn 2>/dev/null | grep -q UDP; }
# shortest_ping MARKER : bytes of the shortest frame with a ping in that capture (libpcap's format, in the machine's byte order).
shortest_ping() {
    "$python" - "$ping_mark" "$work/$1.pcap" <<'END'
import struct, sys
data, at, lengths = open(sys.argv[2], "rb").read(), 24, []
while at < len(data):
    length = struct.unpack_from("=IIII", data, at)[2]
    if data[at + 16:at + 16 + length].count(sys.argv[1].encode()) >= 5:
        lengths.append(length)
    at += 16 + length
print(min(lengths))
END
}

for octets in 16 10; do
    with_settings 'protection = "authenticate"' "tag_bytes = $octets"
    start_cnapt
    claim "$octets-byte tag: a download is right" is_right
    [ "$octets" = 10 ] || claim "a text is right and takes fewer bytes than it has" text_is_compressed
    claim "$octets-byte tag: ping works" in_ns node ping -n -c 3 -i 0.1 -W 5 $inet4
    claim "$octets-byte tag: ping -6 works" in_ns node ping -6 -n -c 3 -i 0.1 -W 5 $inet6
    claim "$octets-byte tag: traffic was captured" marked_capture "marker-readable-$octets"
    claim "$octets-byte tag: the payload is readable on the way" grep -aq "marker-readable-$octets" "$work/marker-readable-$octets.pcap"
    exec_in_ns node curl -sS -m 60 --limit-rate 1500k "http://$inet4/file" 2>"$work/curl.log" | sha256sum >"$work/result" &
    download=$!
    wait_for 5 eval '[ "$(cnapt_json flows | json "sum(f[\"inner_bytes_down\"] for f in d if f[\"dport\"] == 80)")" -gt 300000 ]'
    move $((3 - here_gateway)) $((20 + octets))
    wait "$download"
    claim "$octets-byte tag: a download goes on over a move" equal "$(cut -d' ' -f1 "$work/result") $(cat "$work/curl.log")" "$sum "
    move 1 $((40 + octets))
    wait_for 10 in_ns node ping -n -c 1 -W 1 $inet4
    stop cnapt
done

with_settings 'protection = "encrypt"'
start_cnapt
claim "encrypting: traffic was captured" marked_capture marker-hidden
hidden() { ! grep -aq marker-hidden "$work/marker-hidden.pcap"; }
claim "encrypting: the payload is not readable" hidden
# A field of the short headers may be an octet longer or shorter.
saved=$(($(shortest_ping marker-readable-16) - $(shortest_ping marker-readable-10)))
claim "with the 10-byte tag a ping is shorter by about 6 octets ($saved)" eval "more_than $saved 3 && at_most $saved 8"

stop cnapt

# A SNAPT that takes only encrypted sessions says so.
stop snapt1
sed -i 's/^protection = .*/protection = ["encrypt"]/' "$work/snapt1.toml"
start_snapt 1
with_settings 'protection = "authenticate"'
run_cnapt
refused() { grep -q 'refused: no protection that both accept' "$work/cnapt.log"; }
claim "a SNAPT that only encrypts refuses, and the node says why" wait_for 10 refused
stop cnapt
finish
