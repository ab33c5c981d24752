#!/usr/bin/env bash
# With the kill switch nothing but outer datagrams leaves an uplink, whatever happens: moves, dead SNAPTs, reloads,
# kill -9 and new starts, for a minute, under traffic of every kind.
. "$(dirname "$0")/lib.sh"
require curl dig ping socat tcpdump
build_topology
# IPv6 has ways beside the tunnel, too, which a link that goes down loses.
six() {
    local n
    for n in 1 2; do
        ip -n "$(ns node)" -6 addr replace "2001:db8:1$n::2/64" dev "up$n" nodad
        ip -n "$(ns node)" -6 route replace default via "2001:db8:1$n::1" dev "up$n" metric $n
    done
}
for n in 1 2; do ipv6_beside $n; done
goes_plain() { in_ns node ping -n -c 1 -W 2 "$1"; }
wait_for 5 goes_plain $inet6
claim "without cnapt IPv4 has a way" goes_plain $inet4
claim "without cnapt IPv6 has a way" goes_plain $inet6
start_snapt 1
add_user alice
set_capture 'kill_switch = true'
mkdir "$work/www"
head -c 300000 /dev/urandom >"$work/www/file"
http_server "$work/www"
dns_server

start_cnapt
claim "traffic passes" in_ns node ping -n -c 2 -i 0.1 -W 5 $inet4
for n in 1 2; do spawn node "capture$n" tcpdump -Z root -n -Q out -i "up$n" -U -s 100 -w "$work/up$n.pcap"; done
for n in 1 2; do wait_for 5 grep -q 'listening on' "$work/capture$n.log"; done

# Traffic without end; what fails in between is no matter.
cat >"$work/traffic.sh" <<END
while :; do
    curl -s -m 2 -o /dev/null http://$inet4/file
    curl -s -m 2 -o /dev/null "http://[$inet6]/file"
    dig +tries=1 +time=1 @$inet4 www.example.org >/dev/null
    ping -n -c 2 -i 0.2 -W 1 $inet4 >/dev/null
    ping -n -c 2 -i 0.2 -W 1 192.0.2.1 >/dev/null
    dig +tries=1 +time=1 @192.168.1.1 www.example.org >/dev/null
    ping -n -c 2 -i 0.2 -W 1 $inet6 >/dev/null
    ping -n -c 1 -W 1 -I 2001:db8:11::2 $inet6 >/dev/null
    ping -n -c 1 -W 1 2001:db8:11::1 >/dev/null
    for to in UDP4-DATAGRAM:$inet4:5000,bind=192.168.1.2 UDP6-DATAGRAM:[$inet6]:5000,bind=[2001:db8:12::2] \\
        IP4-SENDTO:$inet4:132 IP6-SENDTO:[$inet6]:132 UDP4-DATAGRAM:239.1.2.3:5000 UDP4-DATAGRAM:255.255.255.255:5000,broadcast \\
        UDP6-DATAGRAM:[ff02::fb%up1]:5353; do
        echo x | socat -u - "\$to" 2>/dev/null
    done
done
END
for n in 1 2 3; do spawn node "traffic$n" bash "$work/traffic.sh"; done

RANDOM=${SEED:-9347}
echo "      seed ${SEED:-9347}"
rounds=0
end=$((SECONDS + ${CHAOS_SECONDS:-60}))
host=20
while [ "$SECONDS" -lt "$end" ]; do
    rounds=$((rounds + 1))
    case $((RANDOM % 7)) in
        0 | 1) host=$((20 + (host - 19) % 200)); move $((RANDOM % 2 + 1)) $host ;;
        2) stop snapt1 KILL; start_snapt 1 ;;
        3) stop cnapt KILL; run_cnapt ;;
        6) stop cnapt USR2; run_cnapt ;;
        4) cnapt reload --socket "$work/cnapt.sock" >/dev/null 2>&1 ;;
        5) ip -n "$(ns node)" link set "up$here_gateway" down; ip -n "$(ns node)" link set "up$here_gateway" up
           ip -n "$(ns node)" route replace default via "192.168.$here_gateway.1" dev "up$here_gateway" ;;
    esac
    six
    wait_cnapt 2
done
for n in 1 2 3; do stop "traffic$n"; done
for n in 1 2; do stop "capture$n" INT; done
claim "there was chaos" more_than "$rounds" 15
# ICMPv6 may only be used for neighbours and routers (133 to 136). ff02::16: listener reports of the kernel for its own
# groups, with a hop-by-hop header. To the SNAPT's port 80 goes the question whether there is a captive portal, and to name
# servers that for the NAT64 prefix, where there is no IPv4.
plain() { tcpdump -n -r "$work/up$1.pcap" "not arp and not (icmp6 and ip6[40] >= 133 and ip6[40] <= 136) and not dst ff02::16 and not (host 198.51.100.2 and (port 9347 or tcp port 80))" 2>/dev/null | grep -v 'A? ipv4only\.arpa\. ' | head -n 5; }
outer() { tcpdump -n -r "$work/up$1.pcap" "udp and host 198.51.100.2 and port 9347" 2>/dev/null | wc -l; }
for n in 1 2; do
    claim "nothing plain left up$n" equal "$(plain $n)" ""
done
claim "outer datagrams did" more_than $(($(outer 1) + $(outer 2))) 100
wait_cnapt 30
claim "traffic passes afterwards" wait_for 20 in_ns node ping -n -c 1 -W 2 $inet4
insists() {
    in_ns node ping -n -c 1 -W 1 -I "192.168.$here_gateway.$here_host" $inet4 || in_ns node ping -n -c 1 -W 1 -I 2001:db8:11::2 $inet6
}
stopped() { ! insists; }
# A reload that is still under way makes the counters anew.
counted() {
    stopped && in_ns node nft list counter inet continuo_cnapt_cnapt0 kill_switch | grep -q 'packets [1-9]'
}
claim "what insists on the uplink's address is stopped" stopped
claim "and counted" wait_for 5 counted

# The state that a restart leaves for the next run stays closed when that run cannot begin, or is configured differently.
is_closed() { stopped && ! goes_plain $inet4 && ! goes_plain $inet6; }
refuses() {
    local status=0
    in_ns node cnapt run --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" || status=$?
    equal $status 78
}
cp "$work/cnapt.toml" "$work/good.toml"
echo 'what is this' >>"$work/cnapt.toml"
stop cnapt USR2
claim "after SIGUSR2 with a faulty file all is closed" is_closed
claim "the next run refuses the file" refuses
claim "and all is closed" is_closed
cp "$work/good.toml" "$work/cnapt.toml"
start_cnapt
claim "with the file mended traffic passes" in_ns node ping -n -c 2 -i 0.1 -W 5 $inet4
set_capture 'exclude = ["203.0.113.77/32"]'
stop cnapt USR2
claim "after SIGUSR2 with other settings all is closed" is_closed
start_cnapt
claim "the next run takes what it finds away" in_ns node ping -n -c 2 -i 0.1 -W 5 $inet4
claim "and keeps it closed" stopped
stop cnapt
claim "a regular end opens it" wait_for 5 goes_plain $inet4
finish
