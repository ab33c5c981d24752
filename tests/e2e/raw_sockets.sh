#!/usr/bin/env bash
# Programs that write their own headers (mtr, and whatever uses IP_HDRINCL), or choose interface or source (ping -I): what has
# cnapt0's address goes through the tunnel, what has another goes beside it, and nothing counts as a leak.
. "$(dirname "$0")/lib.sh"
require ping traceroute mtr tracepath
build_topology
ipv6_beside 1
count_beside
start_snapt 1
add_user alice
start_cnapt
node() { in_ns node timeout 60 "$@"; }

# An echo by a raw socket that takes the header as it is. raw_echo SOURCE DESTINATION : "auto" as mtr does, by asking which source
# a UDP socket would have; the kernel sets 0.0.0.0. Prints the source that answers go to.
cat >"$work/raw_echo.py" <<'END2'
import os, socket, struct, sys, time
source, to = sys.argv[1:]
six = ":" in to
family = socket.AF_INET6 if six else socket.AF_INET
if source == "auto":
    probe = socket.socket(family, socket.SOCK_DGRAM)
    probe.connect((to, 33434))
    source = probe.getsockname()[0]
def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
number = os.getpid() & 0xFFFF
addresses = socket.inet_pton(family, source) + socket.inet_pton(family, to)
def echo(sum):
    return struct.pack("!BBHHH", 128 if six else 8, 0, sum, number, 1) + b"raw header"
if six:
    message = echo(checksum(addresses + struct.pack("!II", len(echo(0)), 58) + echo(0)))
    packet = struct.pack("!IHBB", 6 << 28, len(message), 58, 64) + addresses + message
else:
    message = echo(checksum(echo(0)))
    packet = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(message), 1, 0, 64, 1, 0) + addresses + message
listener = socket.socket(family, socket.SOCK_RAW, 58 if six else 1)
sender = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
for attempt in range(5):
    sender.sendto(packet, (to, 0))
    end = time.monotonic() + 1
    while time.monotonic() < end:
        listener.settimeout(max(0.01, end - time.monotonic()))
        try:
            answer, _, _, from_ = listener.recvmsg(2000, 100)
        except TimeoutError:
            break
        inner = answer if six else answer[20:]
        if inner[0] == (129 if six else 0) and inner[4:6] == struct.pack("!H", number):
            print("six" if six else socket.inet_ntoa(answer[16:20]))
            sys.exit(0)
sys.exit("no answer")
END2
raw_echo() { node "$python" "$work/raw_echo.py" "$1" "$2"; }
claim "a header with the source that a program has asked for goes through the tunnel" equal "$(raw_echo auto $inet4)" 192.0.0.5
claim "over IPv6, too" equal "$(raw_echo auto $inet6)" six
claim "one without a source gets cnapt0's" equal "$(raw_echo 0.0.0.0 $inet4)" 192.0.0.5
claim "one with the uplink's source goes beside the tunnel" equal "$(raw_echo 192.168.1.2 $inet4)" 192.168.1.2
claim "over IPv6, too" equal "$(raw_echo 2001:db8:11::2 $inet6)" six
claim "to the LAN it goes as it is" equal "$(raw_echo auto 192.168.1.1)" 192.168.1.2

pings() { node ping -n -c 2 -i 0.1 -W 5 "$@"; }
for where in up1 cnapt0 192.168.1.2 192.0.0.5; do claim "ping -I $where" pings -I $where $inet4; done
for where in up1 cnapt0 2001:db8:11::2 64:ff9b:1::c000:5; do claim "ping -6 -I $where" pings -6 -I $where $inet6; done
# They mostly wait for the last answers, so some run at once: begin TEXT COMMAND..., all_end, and printed TEXT prints what that command
# did. More at once would be asked more often than hosts answer with ICMP errors.
declare -A process_of=() status_of=()
begin() {
    node "${@:2}" >"$work/printed.$1" 2>&1 &
    process_of[$1]=$!
}
all_end() {
    local text
    for text in "${!process_of[@]}"; do
        wait "${process_of[$text]}"
        status_of[$text]=$?
    done
    process_of=()
}
printed() { cat "$work/printed.$1" && return "${status_of[$1]}"; }
for host in $inet4 $inet6; do
    for how in -I -T -U; do begin "traceroute $how $host" traceroute -n -q 1 -w 3 -m 6 $how $host; done
    for how in "" -u -T; do begin "mtr $how $host" mtr -n -r -c 1 $how $host; done
    begin "tracepath $host" tracepath -n $host
    all_end
done
begin "traceroute by up1" traceroute -n -q 1 -w 3 -m 6 -T -i up1 $inet4
for where in cnapt0 up1; do begin "mtr by $where" mtr -n -r -c 1 -m 1 -I $where $inet4; done
all_end
reaches() { printed "$1" && tail -n 1 "$work/printed.$1" | grep -qE "^ *[0-9]+ +$2 "; }
mtr_reaches() { printed "$1" && tail -n 1 "$work/printed.$1" | grep -qF "$2"; }
for host in $inet4 $inet6; do
    for how in -I -T -U; do claim "traceroute $how $host" reaches "traceroute $how $host" $host; done
    for how in "" -u -T; do claim "mtr $how $host" mtr_reaches "mtr $how $host" $host; done
    claim "tracepath $host" eval 'printed "tracepath $host" | grep " reached"'
done
claim "traceroute -T by an interface goes beside the tunnel" reaches "traceroute by up1" $inet4
first_hop() { equal "$(printed "mtr by $1" | awk 'END { print $2 }')" "$2"; }
claim "mtr -I cnapt0 goes through the tunnel" first_hop cnapt0 100.64.0.1
claim "mtr -I up1 goes beside it" first_hop up1 192.168.1.1

# A program keeps its source while no SNAPT answers, and new flows go plain.
stop snapt1
is_plain() { equal "$(cnapt_json status | json 'd["state"]')" down && ! in_ns node ip rule | grep '^9353:'; }
down() { in_ns node ping -n -c 1 -W 1 -I 192.0.0.5 $inet4; is_plain; }
claim "without a SNAPT new flows go plain" wait_for 60 down
claim "a header with cnapt0's source waits for the tunnel" eval '! raw_echo 192.0.0.5 $inet4'
start_snapt 1
claim "and goes through it again" wait_for 20 raw_echo 192.0.0.5 $inet4
claim "nothing was about to leave beside the tunnel" equal "$(sent_beside)" 0
finish
