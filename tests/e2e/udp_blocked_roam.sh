#!/usr/bin/env bash
# A node moves between networks that all block UDP: a download goes on over TCP by each of them. A NAT that forgets the TCP
# connections does not keep it for long.
. "$(dirname "$0")/lib.sh"
require curl tc
build_topology
start_snapt 1
add_user alice
start_cnapt
for gateway in gw1 gw2; do
    in_ns $gateway nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; };
        add rule inet hole pass udp dport 9347 drop; add rule inet hole pass udp sport 9347 drop"
done

size=44000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
server_has() { ip netns exec "$(ns inet)" tc qdisc replace dev eth root handle 1: tbf rate "$1" burst 64kb latency 40ms; }
transport() { cnapt_json status | json "d['sessions'][0]['transport']"; }
goes_over() { equal "$(transport)" "$1"; }

for protection in encrypt authenticate; do
    [ $protection = encrypt ] || {
        stop cnapt
        sed -i '/^protection/d; 1i protection = "authenticate"' "$work/cnapt.toml"
        start_cnapt
    }
    server_has 16mbit
    begin_log http
    rm -f "$work/arrivals"
    exec_in_ns node curl -sS -m 100 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
    download=$!
    claim "$protection: data goes over TCP" wait_for 20 goes_over tcp
    claim "$protection: a download begins" wait_for 20 arrived 2000000
    host=10
    for gateway in 2 1; do
        host=$((host + 1))
        have=$(tail -n 1 "$work/arrivals" | cut -d' ' -f2)
        most=$(awk -v rto="$(rto_s)" 'BEGIN { print 2 * (0.5 + 0.25) + rto }')  # TCP(0.5 s + M)
        began=$EPOCHREALTIME
        move $gateway $host
        claim "$protection: it goes on by gateway $gateway" wait_for 20 arrived $((have + 3500000))
        gap=$(longest_gap "$began")
        claim "$protection: after $most s at most ($gap s)" at_most "$gap" "$most"
        claim "$protection: over TCP" goes_over tcp
    done

    ports=$(in_ns node ss -Htn state established "dport = :9347" | awk '{ sub(/.*:/, "", $3); printf "%s%s", sep, $3; sep = "," }')
    have=$(tail -n 1 "$work/arrivals" | cut -d' ' -f2)
    most=$(awk -v rto="$(rto_s)" 'BEGIN { print 2 * (3 + 0.25) + rto }')  # TCP(3 s + M)
    began=$EPOCHREALTIME
    in_ns gw1 nft "add rule inet hole pass tcp sport { $ports } drop; add rule inet hole pass tcp dport { $ports } drop"
    claim "$protection: it goes on when its TCP connections are dead" wait_for 20 arrived $((have + 2000000))
    gap=$(longest_gap "$began")
    claim "$protection: after $most s at most ($gap s)" at_most "$gap" "$most"
    server_has 100mbit # of its pace nothing more is said
    wait "$download"
    claim "$protection: the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
    claim "$protection: it was one TCP connection" equal "$(said http | grep -c .)" 1
    move 1 10
done
finish
