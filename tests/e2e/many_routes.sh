#!/usr/bin/env bash
# Many routes, and routes and interfaces that change all the time: nothing waits for lists of them, they cost little, and
# the one route among them that decides is seen.
. "$(dirname "$0")/lib.sh"
require ping
one_tunnel
two_uplinks
many=${MANY:-100000}
new_namespace elsewhere  # the same routes where there is no cnapt
for where in node elsewhere; do
    for n in 1 2; do
        ip -n "$(ns $where)" link add "far$n" type veth peer name "end$n"
        ip -n "$(ns $where)" link set "end$n" up
        ip -n "$(ns $where)" link set "far$n" up
        address $where "far$n" "10.20$n.0.1/24" "fd20:$n::1/64"
    done
done
where=node

cpu() { awk '{ print $14 + $15 }' "/proc/${pid_of[cnapt]}/stat"; } # ticks of 10 ms
ports() { in_ns node ss -Hunap 2>/dev/null | grep cnapt | awk '{ print $4 }' | sort | tr '\n' ' '; }
# p99 of the pings that no stall of the machine met: of 500 in ten seconds a single stall can delay five.
cat >"$work/p99.py" <<'PY'
import re, sys
stalls = [tuple(map(float, line.split()[:2])) for line in open(sys.argv[1])]
times = []
for stamp, time in re.findall(r"^\[([\d.]+)\].* time=([\d.]+)", sys.stdin.read(), re.M):
    end, time = float(stamp), float(time)
    if not any(begin < end and end - time / 1000 < until for begin, until in stalls):
        times.append(time)
times.sort()
print(times[int(len(times) * 0.99)] if times else "none")
PY
ping_p99() { in_ns node ping -n -D -i 0.02 -w "$1" $inet4 | "$python" "$work/p99.py" "$work/stalls"; }
# without : what the others are held against: the longer p99 of nothing else and of the same routes in another namespace, which
# keep the processors as busy; the share of the first.
without() {
    local before one other
    before=$(cpu)
    one=$(ping_p99 8)
    idle_used=$(awk "BEGIN { print ($(cpu) - $before) / 8 }") # % of a core
    where=elsewhere batch add 4 &
    other=$(ping_p99 10)
    wait $!
    idle_p99=$(printf '%s\n' "$one" "$other" | sort -g | tail -n 1)
    echo "      without: p99 $one ms, $other ms beside routes elsewhere, $idle_used % of a core"
}
# measure TEXT SECONDS COMMAND... : a ping through the tunnel beside the command.
measure() {
    local text=$1 seconds=$2 before sockets load p99 used
    shift 2
    before=$(cpu) sockets=$(ports)
    "$@" &
    load=$!
    p99=$(ping_p99 "$seconds")
    wait $load
    used=$(awk "BEGIN { print ($(cpu) - $before) / $seconds }")
    echo "      $text: p99 $p99 ms, $used % of a core, $(cnapt_json status | json "'%d lists, %d overruns' % (d['routes']['lists'], d['routes']['overruns'])")"
    claim "$text: the ping's p99 at most 5 ms above that without" at_most "$p99" "$(awk "BEGIN { print $idle_p99 + 5 }")"
    claim "$text: at most 5 % of a core more" at_most "$used" "$(awk "BEGIN { print $idle_used + 5 }")"
    claim "$text: the sockets are the same" equal "$(ports)" "$sockets"
}
# lines ADD|DEL VERSION : the routes of `ip -batch`.
lines() {
    awk -v verb="$1" -v version="$2" -v many="$many" 'BEGIN { for (i = 0; i < many; ++i)
        if (version == 4) printf "route %s 20.%d.%d.%d/32 via 10.201.0.2 dev far1\n", verb, i / 65536, i / 256 % 256, i % 256
        else if (i % 5 == 0) printf "-6 route %s 2001:db8:f000:%x::/64 via fd20:1::2 dev far1\n", verb, i / 5 }'
}
batch() { lines "$1" "$2" | ip -n "$(ns $where)" -force -batch - 2>/dev/null; }
# changes PREFIX GATEWAY DEVICE SECONDS : 200 a second.
changes() {
    "$python" - "$@" <<'PY' | ip -n "$(ns node)" -force -batch - 2>/dev/null
import sys, time
prefix, gateway, device, end, i = *sys.argv[1:4], time.time() + float(sys.argv[4]), 0
while time.time() < end:
    for _ in range(10):
        print("route %s %s via %s dev %s" % ("add" if i % 2 == 0 else "del", prefix % (i // 2 % 250), gateway, device))
        i += 1
    sys.stdout.flush()
    time.sleep(0.05)
PY
}
# Interfaces with addresses come and go, five pairs a second.
pairs() {
    local i end=$((SECONDS + $1))
    for ((i = 0; SECONDS < end; i++)); do
        printf 'link add va%s type veth peer name vb%s\naddr add 172.31.%s.1/24 dev vb%s\nlink set va%s up\nlink set vb%s up\n' $i $i $((i % 250)) $i $i $i | ip -n "$(ns node)" -batch -
        sleep 0.15
        ip -n "$(ns node)" link del "va$i"
    done
}
left_out() { cnapt_json status | json "d['routes']['left_out']"; }
leaves_out() { more_than "$(left_out)" "$1"; }
# says REGEX COMMAND...
says() { { "${@:2}" || true; } | tr -s ' \n' ' ' | grep -E "$1"; }
doctor() { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock"; }
handovers() { cnapt_json status | json "d['handovers']['count']"; }
lists() { cnapt_json status | json "d['routes']['lists']"; }

without
before=$(handovers)
measure "$many routes come" 10 batch add 4
claim "they are counted" wait_for 5 leaves_out $((many * 9 / 10))
measure "$many routes are there" 8 true
claim "status says what becomes of them" says "routes [0-9]+ of the main table are ignored" cnapt status --socket "$work/cnapt.sock"
claim "and doctor" says "ok routes [0-9]+ in the main table: those that lead out, .* the others decide nothing; nothing to do" doctor
claim "nothing has moved" equal "$(handovers)" "$before"

# One that decides, after all those.
ip -n "$(ns node)" route add 198.51.100.2/32 via 192.168.2.1 dev up2
claim "a host route to the SNAPT beyond the ${many}th moves the session" wait_for 5 is_active up2
claim "and the tunnel works there" wait_for 5 in_ns node ping -n -c 1 -W 1 $inet4
ip -n "$(ns node)" route del 198.51.100.2/32 via 192.168.2.1 dev up2
claim "without it the session is back" wait_for 5 is_active up1

before=$(handovers) counted=$(lists)
measure "200 changes a second of another interface" 10 changes 30.1.%d.0/24 10.201.0.2 far1 8
measure "200 changes a second by the uplink's gateway" 10 changes 30.1.%d.0/24 192.168.1.1 up1 8
claim "routes were not listed for that" equal "$(lists)" "$counted"
measure "five pairs of interfaces a second" 10 pairs 8
measure "the routes go" 10 batch del 4
gone() { at_most "$(left_out)" 100; }
claim "they are no more counted" wait_for 10 gone

# The second form: IPv6, and a default route in their midst.
measure "$((many / 5)) routes of IPv6 come" 10 batch add 6
claim "nothing has moved" equal "$(handovers)" "$before"
ip -n "$(ns node)" route replace default via 192.168.2.1 dev up2 metric 50
claim "a better default route among changes moves the session" wait_for 5 is_active up2
ip -n "$(ns node)" link set up2 down
claim "routes that the kernel drops with their link are gone" wait_for 5 is_active up1

# An idle node sends no more because of routes and their changes. It is idle when it has sent nothing for 5 s: a question for the
# MTU, which follows traffic by itself, comes within a second (PATHS, Search for the MTU).
in_ns gw1 nft 'add table ip idle; add counter ip idle up; add chain ip idle in { type filter hook prerouting priority -300; };
    add rule ip idle in iifname "lan" meta l4proto { tcp, udp } th dport 9347 counter name up'
sent() { in_ns gw1 nft list counter ip idle up | sed -n 's/.*bytes \([0-9]*\).*/\1/p'; }
sends_nothing() {
    local before
    before=$(sent)
    sleep 5
    equal "$(sent)" "$before"
}
# sent_idle COMMAND... : the bytes of an idle node in 30 s, the first 28 of them beside the command.
sent_idle() {
    local before load
    wait_for 60 sends_nothing || return
    before=$(sent)
    "$@" &
    load=$!
    sleep 30
    echo $(($(sent) - before))
    wait $load
}
nothing() { :; }
restless() {
    changes 30.1.%d.0/24 192.168.1.1 up1 "$1" &
    pairs "$1"
    wait $!
}
batch add 4
claim "the routes are there again" wait_for 5 leaves_out $((many * 9 / 10))
beside=$(sent_idle restless 28)
batch del 4
batch del 6
claim "and gone" wait_for 10 gone
alone=$(sent_idle nothing)
claim "the node was idle before both" eval 'more_than "$beside" -1 && more_than "$alone" -1'
echo "      an idle node sends $beside bytes in 30 s beside routes that change, $alone without"
claim "routes that change cost an idle node at most 1 MB a day more" at_most $(((beside - alone) * 86400 / 30)) 1000000
finish
