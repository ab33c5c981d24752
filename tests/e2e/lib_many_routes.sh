# Many routes of the namespace $where, and routes and interfaces of the node that come and go. Sourced after lib.sh.
many=${MANY:-100000}
where=node

# far_links NS : two interfaces, through which those routes lead.
far_links() {
    local n
    for n in 1 2; do
        ip -n "$(ns "$1")" link add "far$n" type veth peer name "end$n"
        ip -n "$(ns "$1")" link set "end$n" up
        ip -n "$(ns "$1")" link set "far$n" up
        address "$1" "far$n" "10.20$n.0.1/24" "fd20:$n::1/64"
    done
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
gone() { at_most "$(left_out)" 100; }
