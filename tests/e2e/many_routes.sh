#!/usr/bin/env bash
# Many routes, and routes and interfaces that change all the time: nothing waits for lists of them, they cost little, and
# the one route among them that decides is seen.
. "$(dirname "$0")/lib.sh"
. "$lib_dir/lib_many_routes.sh"
require ping
one_tunnel
two_uplinks
new_namespace elsewhere # the same routes where there is no cnapt
far_links node
far_links elsewhere

cpu() { awk '{ print $14 + $15 }' "/proc/${pid_of[cnapt]}/stat"; } # ticks of 10 ms
ports() { in_ns node ss -Hunap 2>/dev/null | grep cnapt | awk '{ print $4 }' | sort | tr '\n' ' '; }
# p99 of the pings that no stall of the machine met: of 500 in five seconds a single stall can delay five.
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
ping_p99() { in_ns node ping -n -D -i 0.01 -w "$1" $inet4 | "$python" "$work/p99.py" "$work/stalls"; }
# without : what the others are held against: the longer p99 of nothing else and of the same routes in another namespace, which
# keep the processors as busy; the share of the first.
without() {
    local before one other
    before=$(cpu)
    one=$(ping_p99 5)
    idle_used=$(awk "BEGIN { print ($(cpu) - $before) / 5 }") # % of a core
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
# says REGEX COMMAND...
says() { { "${@:2}" || true; } | tr -s ' \n' ' ' | grep -E "$1"; }
doctor() { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock"; }
handovers() { cnapt_json status | json "d['handovers']['count']"; }
lists() { cnapt_json status | json "d['routes']['lists']"; }

without
before=$(handovers)
measure "$many routes come" 10 batch add 4
claim "they are counted" wait_for 5 leaves_out $((many * 9 / 10))
measure "$many routes are there" 5 true
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
measure "200 changes a second of another interface" 6 changes 30.1.%d.0/24 10.201.0.2 far1 5
measure "200 changes a second by the uplink's gateway" 6 changes 30.1.%d.0/24 192.168.1.1 up1 5
claim "routes were not listed for that" equal "$(lists)" "$counted"
measure "five pairs of interfaces a second" 6 pairs 5
measure "the routes go" 10 batch del 4
claim "they are no more counted" wait_for 10 gone

# The second form: IPv6, and a default route in their midst.
measure "$((many / 5)) routes of IPv6 come" 10 batch add 6
claim "nothing has moved" equal "$(handovers)" "$before"
ip -n "$(ns node)" route replace default via 192.168.2.1 dev up2 metric 50
claim "a better default route among changes moves the session" wait_for 5 is_active up2
ip -n "$(ns node)" link set up2 down
claim "routes that the kernel drops with their link are gone" wait_for 5 is_active up1
finish
