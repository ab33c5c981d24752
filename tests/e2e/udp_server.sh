#!/usr/bin/env bash
# UDP servers of the node on 0.0.0.0 and :: answer from the uplink's address that was asked, over IPv4 and IPv6, connected or not,
# with the kill switch, after a move and while the rules are replaced as well. A forged datagram leads no flow out of the tunnel.
. "$(dirname "$0")/lib.sh"
require iperf3
build_topology
ipv6_beside 1
for n in 1 2; do
    in_ns gw$n nft "add chain ip nat pre { type nat hook prerouting priority -100; }; add rule ip nat pre iifname wan meta l4proto { tcp, udp } th dport 5000-5300 dnat to 192.168.$n.$((n == 1 ? 2 : 11))"
done
cat >"$work/echo.py" <<'PY'
import socket, sys
version, port, connects = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "connects"
family = socket.AF_INET6 if version == "6" else socket.AF_INET
def listener():
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if version == "6": s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind(("::" if version == "6" else "0.0.0.0", port))
    return s
s = listener()
while True:
    data, peer = s.recvfrom(4096)
    if not connects:
        s.sendto(peer[0].encode() if data == b"who" else data, peer)
        continue
    s.connect(peer)  # from now on that peer's, until it says so or is gone
    s.settimeout(3)
    try:
        while data != b"bye":
            s.send(data)
            data = s.recv(4096)
    except OSError as error:
        print(peer, error, flush=True)
    s.close()
    s = listener()
PY
cat >"$work/ask.py" <<'PY'
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
if sys.argv[3:] == ["one-port"]: s.bind(("::" if ":" in sys.argv[1] else "0.0.0.0", 7001))
s.connect((sys.argv[1], int(sys.argv[2]))); s.settimeout(1)
right = 0
for i in range(3):
    s.send(b"%d" % i)
    try: right += s.recv(100) == b"%d" % i
    except OSError: pass
if sys.argv[3:] == ["bye"]: s.send(b"bye")
print(right); sys.exit(right != 3)
PY
spawn node echo4 "$python" "$work/echo.py" 4 5000 plain
spawn node echo6 "$python" "$work/echo.py" 6 5001 plain
spawn node echo_connected "$python" "$work/echo.py" 6 5002 connects
spawn node iperf iperf3 -s -p 5200
wait_for 5 listens node 5200
asks() { # asks WHEN PUBLIC_ADDRESS
    claim "$1: a server on 0.0.0.0" in_ns inet "$python" "$work/ask.py" "$2" 5000
    claim "$1: a server on ::" in_ns inet "$python" "$work/ask.py" "$2" 5001
    claim "$1: a server that connects its socket" in_ns inet "$python" "$work/ask.py" "$2" 5002 bye
    claim "$1: asked by a peer that keeps its port" in_ns inet "$python" "$work/ask.py" "$2" 5000 one-port
    claim "$1: iperf3" in_ns inet iperf3 -u -c "$2" -p 5200 -t 1 -b 1M
}
asks6() { # asks6 WHEN N : at the node's address behind gateway N
    claim "$1: over IPv6" in_ns inet "$python" "$work/ask.py" "2001:db8:1$2::2" 5001
    claim "$1: over IPv6, connected" in_ns inet "$python" "$work/ask.py" "2001:db8:1$2::2" 5002 bye
    claim "$1: iperf3 over IPv6" in_ns inet iperf3 -6 -u -c "2001:db8:1$2::2" -p 5200 -t 1 -b 1M
}
wait_for 10 in_ns inet "$python" "$work/ask.py" 2001:db8:11::2 5001
asks plain 192.0.2.2
asks6 plain 1
start_snapt 1
add_user alice
policy_file=$work/policy.toml
printf 'version = 1\n' >"$policy_file"
start_cnapt
asks "with cnapt" 192.0.2.2
asks6 "with cnapt" 1
finds() { { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" || true; } | tr -s ' \n' ' ' | grep -qE "$1"; }
claim "doctor says that they answer so" finds 'ok udp servers those on 0.0.0.0 or :: answer from the address that was asked, beside the tunnel \([1-9][0-9]* datagrams\); nothing to do'

# A server that has connected its socket keeps its peer when the rules are replaced.
cat >"$work/talk.py" <<'PY'
import os, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((sys.argv[1], 5002)); s.settimeout(1)
def answers(word):
    for _ in range(3):
        s.send(word)
        try:
            if s.recv(100) == word: return
        except OSError: pass
    sys.exit(f"no answer to {word}")
answers(b"before")
open(sys.argv[2] + "/talks", "w")
while not os.path.exists(sys.argv[2] + "/reloaded"): answers(b"meanwhile"); time.sleep(0.05)
answers(b"after"); s.send(b"bye")
PY
spawn inet talk "$python" "$work/talk.py" 192.0.2.2 "$work"
talk=${pid_of[talk]}
wait_for 5 test -e "$work/talks"
printf 'version = 1\n[default]\nudp = "ht-hd"\n' >"$policy_file"
claim "rules are replaced" cnapt reload --socket "$work/cnapt.sock"
touch "$work/reloaded"
wait "$talk"
claim "and a server that connected its socket before answers still" equal "$?" 0
in_ns node nft delete table inet continuo_cnapt_cnapt0_answers
claim "their table is put back within two seconds when somebody deletes it" wait_for 2 in_ns node nft list chain inet continuo_cnapt_cnapt0_answers asked

# A flow of the node's own, from a socket without an address: its peer says who asks. Then somebody forges its datagrams.
spawn inet who "$python" "$work/echo.py" 6 7777 plain
wait_for 5 listens inet 7777
cat >"$work/flow.py" <<'PY'
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 6000)); s.settimeout(1)
while True:
    s.sendto(b"who", (sys.argv[1], 7777))
    try: print(s.recvfrom(100)[0].decode(), flush=True)
    except OSError: print("nothing", flush=True)
    time.sleep(0.1)
PY
spawn node flow "$python" "$work/flow.py" $inet4
wait_for 10 grep -q '198\.51\.100\.2' "$work/flow.log"
ip -n "$(ns gw1)" addr add $inet4/32 dev lo
forged=$(in_ns node nft list counter inet continuo_cnapt_cnapt0_answers answered | sed -n 's/.*packets \([0-9]*\).*/\1/p')
in_ns gw1 "$python" -c 'import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 7777))
for i in range(20):
    for port in (6000, 6001): s.sendto(b"forged", ("192.168.1.2", port))
    time.sleep(0.02)' $inet4
ip -n "$(ns gw1)" addr del $inet4/32 dev lo
claim "forged datagrams came" grep -q forged "$work/flow.log"
begin_log flow
wait_for 10 eval '[ "$(said flow | grep -c .)" -ge 10 ]'
stays() { ! said flow | grep -v -e '198\.51\.100\.2$' -e '^forged$'; }
claim "and the flow stays in the tunnel" stays
answered() { in_ns node nft list counter inet continuo_cnapt_cnapt0_answers answered | sed -n 's/.*packets \([0-9]*\).*/\1/p'; }
claim "nothing of it was taken for an answer" equal "$(answered)" "$forged"
stop flow

ipv6_beside 2
leave_ipv6 2
move 2 11
leave_ipv6 1
join_ipv6 2
asks "after a move" 192.0.2.6
asks6 "after a move" 2
move 1 2
leave_ipv6 2
join_ipv6 1
stop cnapt
set_capture 'kill_switch = true'
start_cnapt
asks "with the kill switch" 192.0.2.2
asks6 "with the kill switch" 1
finish
