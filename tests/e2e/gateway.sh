#!/usr/bin/env bash
# A node that is the gateway of a LAN: clients without software of their own, IPv4 and IPv6, and the LAN's own traffic.
. "$(dirname "$0")/lib.sh"
require curl dig ping socat
build_topology
new_namespace lan1 lan2
ip -n "$(ns node)" link add br-lan type bridge
ip -n "$(ns node)" link set br-lan up
for n in 1 2; do
    connect "lan$n" eth node "port$n"
    ip -n "$(ns node)" link set "port$n" master br-lan
    address "lan$n" eth "192.168.50.1$n/24" "fd50::1$n/64"
    ip -n "$(ns "lan$n")" route add default via 192.168.50.1
    ip -n "$(ns "lan$n")" -6 route add default via fd50::1
done
address node br-lan 192.168.50.1/24 fd50::1/64
in_ns node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
# Traffic outside the tunnel is translated to the uplink's address by rules of the host; IPv6 has a route, too.
in_ns node nft 'add table inet host; add chain inet host post { type nat hook postrouting priority srcnat + 1; };
    add rule inet host post oifname { "up1", "up2" } masquerade'
address node up2 2001:db8:12::2/64
address gw2 lan 2001:db8:12::1/64
ip -n "$(ns node)" -6 route add default via 2001:db8:12::1

start_snapt 1
add_user alice
set_capture 'gateway_interfaces = ["br-lan"]'
start_cnapt

mkdir "$work/www"
for n in 1 2; do head -c 2000000 /dev/urandom >"$work/www/file$n"; done
http_server "$work/www"
dns_server
sum_of() { sha256sum <"$1" | cut -d' ' -f1; }
wait_for 10 in_ns lan1 ping -6 -n -c 1 -W 1 fd50::1

# Both clients at once, from the same source port to the same server.
both_at_once() { # both_at_once HOST
    local n downloads=()
    for n in 1 2; do
        exec_in_ns "lan$n" curl -sS -m 40 --local-port 5555 --limit-rate 2M -o "$work/got$n" "http://$1/file$n" &
        downloads+=($!)
    done
    wait "${downloads[@]}"
    for n in 1 2; do equal "$(sum_of "$work/got$n")" "$(sum_of "$work/www/file$n")" || return; done
}
claim "two clients use one source port at once over IPv4" both_at_once $inet4
claim "two clients use one source port at once over IPv6" both_at_once "[$inet6]"

# UDP and ping likewise, which have nothing but a port or an identifier to tell the clients apart.
answers=40
answers_of() { grep -c "$1" "$work/out$2"; }
has_answer() { [ "$(answers_of "$pattern" "$1")" -gt 0 ]; } # client N of run_both
# The second begins when the first has an answer: the kernel's connection tracking drops one of two first packets that meet and
# would have the same translated source (insert_failed; 2 of 400 pairs of pings through a router without Continuo).
# run_both PATTERN COMMAND... : by both clients, {} is the client's number; output in $work/out1 and out2. True if there was a
# time at which both had answers, lines with PATTERN, and neither all.
run_both() {
    local pattern=$1 n clients=() were_at_once
    shift
    for n in 1 2; do
        : >"$work/out$n"
        exec_in_ns "lan$n" "${@//\{\}/$n}" >"$work/out$n" 2>&1 &
        clients+=($!)
        wait_for 10 has_answer $n
    done
    were_at_once=$(($(answers_of "$pattern" 1) < answers && $(answers_of "$pattern" 2) < answers))
    wait "${clients[@]}"
    equal "at once: $were_at_once" "at once: 1"
}
lines_of() { seq -f "client $1, line %g" $answers; }
udp_at_once() { # udp_at_once HOST VERSION : lines there and back, from port 6666 both
    local n
    local say="for line in {1..$answers}; do echo client {}, line \$line; sleep 0.05; done"
    run_both line bash -c "$say | socat -t 2 - UDP$2:$1:7777,sourceport=6666" || return
    for n in 1 2; do equal "$(cat "$work/out$n")" "$(lines_of $n)" || return; done
}
tell_unanswered() { # of client N: which pings, and what the node dropped
    seq $answers | grep -vxf <(grep -o 'icmp_seq=[0-9]*' "$work/out$1" | cut -d= -f2) | sed "s/^/      client $1 has no answer to /"
    cnapt_json status | json 'd["drops"]'
}
pings_at_once() { # pings_at_once HOST : with one identifier, and a payload of each client's own, which ping compares
    local n
    run_both 'bytes from' ping -n -e 4242 -p "0{}" -c $answers -i 0.05 -W 5 "$1" || return
    for n in 1 2; do
        ! grep -i -m 3 'wrong\|DUP' "$work/out$n" || return
        equal "$(answers_of 'bytes from' $n)" $answers || { tell_unanswered $n; return 1; }
    done
}
# One socket for all: a server that opens one for each peer loses what a second sends while it does that for the first.
spawn inet echo "$python" "$support_dir/voice.py" server 7777
wait_for 5 listens inet 7777
claim "UDP of two clients from one source port at once over IPv4" udp_at_once $inet4 4
claim "UDP of two clients from one source port at once over IPv6" udp_at_once "[$inet6]" 6
claim "pings of two clients with one identifier at once" pings_at_once $inet4
claim "pings of two clients with one identifier at once over IPv6" pings_at_once $inet6
came_from_snapt_now() { in_ns lan1 curl -sS -m 10 -o "$work/got" "http://$inet4/file1" && came_from_snapt; }
came_from_snapt() { ! grep -qvE '^(::ffff:198\.51\.100\.2|2001:db8:1::2) ' "$work/http.log"; }
claim "the server saw the SNAPT and nobody else" came_from_snapt
no_process() { cnapt_json flows | json_true "d and all(f['process'] is None for f in d)"; }
claim "forwarded flows have no process" no_process

# The LAN's own business.
spawn node lan_dns "$python" "$support_dir/dns_responder.py" --port 53
wait_for 5 listens node 53
claim "the gateway answers names" equal "$(in_ns lan1 dig +short +tries=2 +time=2 @192.168.50.1 printer.example.org)" 203.0.113.80
claim "the gateway answers names over IPv6" equal "$(in_ns lan1 dig +short +tries=2 +time=2 @fd50::1 printer.example.org)" 203.0.113.80
claim "clients reach each other" in_ns lan1 ping -n -c 2 -i 0.1 -W 5 192.168.50.12
claim "clients reach each other over IPv6" in_ns lan1 ping -6 -n -c 2 -i 0.1 -W 5 fd50::12
spawn node dhcp socat -u UDP4-RECV:67,reuseaddr "CREATE:$work/dhcp.got"
wait_for 5 listens node 67
broadcasts() {
    echo discover | in_ns lan1 socat -u - UDP4-DATAGRAM:255.255.255.255:67,broadcast,so-bindtodevice=eth &&
        wait_for 5 grep -q discover "$work/dhcp.got"
}
claim "a broadcast to the DHCP server arrives" broadcasts

# A move of the gateway in the middle of a client's download.
exec_in_ns lan1 curl -sS -m 40 --limit-rate 1M "http://$inet4/file1" 2>"$work/curl.log" | sha256sum >"$work/result" &
download=$!
wait_for 10 eval '[ "$(cnapt_json flows | json "max([f[\"inner_bytes_down\"] for f in d if f[\"state\"] == \"open\" and f[\"proto\"] == \"tcp\"] or [0])")" -gt 300000 ]'
move 2 9
wait "$download"
claim "a client's download goes on while the gateway moves" equal "$(cut -d' ' -f1 "$work/result") $(cat "$work/curl.log")" "$(sum_of "$work/www/file1") "

# The end, in the middle of flows of the LAN.
for kind in UDP TCP; do
    if [ $kind = UDP ]; then listen=UDP6-RECV:7002 port=7002; else listen=TCP6-LISTEN:7001,fork port=7001; fi
    spawn inet "sink$kind" socat -u "$listen,reuseaddr,ipv6-v6only=0" "OPEN:$work/sunk,creat,append"
    wait_for 5 listens inet $port
    for host in "$inet4" "[$inet6]"; do
        spawn lan1 "lines$kind$host" sh -c "while echo $kind$host; do sleep 0.02; done 2>/dev/null | socat -u - $kind:$host:$port"
    done
done
goes_on() { local had; had=$(grep -cF "$1" "$work/sunk"); wait_for 10 eval "[ \$(grep -cF '$1' $work/sunk) -gt $((had + 20)) ]"; }
all_go_on() { local kind host; for kind in UDP TCP; do for host in "$inet4" "[$inet6]"; do goes_on "$kind$host" || return; done; done; }
claim "flows of the LAN use the tunnel" all_go_on
count_beside
stop cnapt USR2
start_cnapt
claim "they go on after a restart" all_go_on
claim "in which nothing was about to leave beside the tunnel" equal "$(sent_beside)" 0
stop cnapt KILL
start_cnapt
claim "they go on after kill -9 and a start" all_go_on
check_leaks
stop cnapt
claim "after stop none of their packets leaves an uplink with cnapt0's address" stays_without_inner_packets
claim "and datagrams go on plain" goes_on "UDP$inet4"
start_cnapt
claim "what goes plain by then stays so" goes_on "UDP$inet4"
claim "new flows use the tunnel again" came_from_snapt_now
finish
