#!/usr/bin/env bash
# With the kill switch nothing but outer datagrams leaves an uplink, whatever happens: moves, dead SNAPTs, reloads,
# kill -9 and new starts, for a minute, under traffic of every kind.
. "$(dirname "$0")/lib.sh"
require curl dig ping tcpdump
build_topology
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
    case $((RANDOM % 6)) in
        0 | 1) host=$((20 + (host - 19) % 200)); move $((RANDOM % 2 + 1)) $host ;;
        2) stop snapt1 KILL; start_snapt 1 ;;
        3) stop cnapt KILL; run_cnapt ;;
        4) cnapt reload --socket "$work/cnapt.sock" >/dev/null 2>&1 ;;
        5) ip -n "$(ns node)" link set "up$here_gateway" down; ip -n "$(ns node)" link set "up$here_gateway" up
           ip -n "$(ns node)" route replace default via "192.168.$here_gateway.1" dev "up$here_gateway" ;;
    esac
    wait_cnapt 2
done
for n in 1 2 3; do stop "traffic$n"; done
for n in 1 2; do stop "capture$n" INT; done
claim "there was chaos" more_than "$rounds" 15
# ff02::16: listener reports of the kernel for its own groups, with a hop-by-hop header.
plain() { tcpdump -n -r "$work/up$1.pcap" "not arp and not icmp6 and not dst ff02::16 and not (host 198.51.100.2 and port 9347)" 2>/dev/null | head -n 5; }
outer() { tcpdump -n -r "$work/up$1.pcap" "udp and host 198.51.100.2 and port 9347" 2>/dev/null | wc -l; }
for n in 1 2; do
    claim "nothing plain left up$n" equal "$(plain $n)" ""
done
claim "outer datagrams did" more_than $(($(outer 1) + $(outer 2))) 100
wait_cnapt 30
claim "traffic passes afterwards" wait_for 20 in_ns node ping -n -c 1 -W 2 $inet4
insists() { in_ns node ping -n -c 1 -W 1 -I "192.168.$here_gateway.$here_host" $inet4; }
stopped() { ! insists; }
# A reload that is still under way makes the counters anew.
counted() {
    stopped && in_ns node nft list counter inet continuo_cnapt_cnapt0 kill_switch | grep -q 'packets [1-9]'
}
claim "what insists on the uplink's address is stopped" stopped
claim "and counted" wait_for 5 counted
finish
