#!/usr/bin/env bash
# A TCP connection of which one side is closed lives as long as one that is open: the kernels of the SNAPT and of a gateway are
# set to forget it soon. And one that the node knows no more is reset when the other side goes on with it.
. "$(dirname "$0")/lib.sh"
require ss
build_topology
new_namespace lan
connect node br-lan lan eth
address node br-lan 192.168.50.1/24 fd50::1/64
address lan eth 192.168.50.2/24 fd50::2/64
ip -n "$(ns lan)" route add default via 192.168.50.1
ip -n "$(ns lan)" -6 route add default via fd50::1
in_ns node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1

forget_after=2
states=(close_wait fin_wait last_ack max_retrans unacknowledged)
for host in snapt1 node; do
    for state in "${states[@]}"; do in_ns $host sysctl -qw "net.netfilter.nf_conntrack_tcp_timeout_$state=$forget_after"; done
done
pause=$((forget_after * 3))
spawn inet server "$python" "$support_dir/half_closed.py" serve $pause "$work/pushes"
wait_for 10 listens inet 9004
start_snapt 1
add_user alice
set_capture 'gateway_interfaces = ["br-lan"]'
start_cnapt

# All at once; the node moves meanwhile.
asking=()
for from in node lan; do
    for host in $inet4 $inet6; do
        exec_in_ns $from "$python" "$support_dir/half_closed.py" ask "$host" $pause >"$work/$from-$host.log" 2>&1 &
        asking+=($!)
    done
done
is_half_closed() { [ "$(in_ns inet ss -Htn state close-wait 'sport = :9001' | wc -l)" -ge 4 ]; }
claim "four connections are half closed" wait_for 10 is_half_closed
move 2 11
wait "${asking[@]}"
for from in node lan; do
    for host in $inet4 $inet6; do
        claim "$from, $host: after $pause s the answer arrives, and what is sent to a server that has closed its side" \
            equal "$(cat "$work/$from-$host.log")" "300000 300000"
    done
done

# The node is killed and has lost the record of its connections; its program has nothing to say.
spawn node reader "$python" -c 'import socket, sys, time
connection = socket.create_connection((sys.argv[1], 9003))
while connection.recv(100): pass' $inet4
is_open() { in_ns inet ss -Htn state established 'sport = :9003' | grep -q .; }
claim "a server pushes" wait_for 5 is_open
stop cnapt KILL
rm -f "$work/c/bindings"
start_cnapt
has_ended() { grep -q ECONNRESET "$work/pushes"; }
claim "the server is told that nobody knows its connection any more" wait_for 30 has_ended

stop cnapt
stop snapt1
timeouts() { for state in "${states[@]}"; do in_ns "$1" sysctl -n "net.netfilter.nf_conntrack_tcp_timeout_$state"; done | sort -u; }
claim "the gateway's kernel has its own timeouts again" equal "$(timeouts node)" $forget_after
claim "the SNAPT's, too" equal "$(timeouts snapt1)" $forget_after
finish
