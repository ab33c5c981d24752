#!/usr/bin/env bash
# Runs in the booted system, where systemd is process 1: the units as the package ships them, on Debian's own kernel.
set -uo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
held=0
failed=0
claim() {
    local text=$1
    shift
    if "$@" >/tmp/claim.out 2>&1; then
        held=$((held + 1))
        echo "ok    $text"
    else
        failed=$((failed + 1))
        echo "FAIL  $text"
        head -n 8 /tmp/claim.out | sed 's/^/      /'
    fi
}
equal() { [ "$1" = "$2" ] || { echo "have: $1"; echo "want: $2"; return 1; }; }
wait_for() {
    local end=$((SECONDS + $1 + 1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}
is() { [ "$(systemctl is-active "$1")" = "$2" ] || { systemctl status --no-pager -n 20 "$1"; return 1; }; }

# node -- this host, where snapt runs -- inet
modprobe -a tun veth nf_tables
for short in node inet; do
    ip netns add $short
    ip link add $short type veth peer name eth netns $short
    ip -n $short link set lo up
    ip -n $short link set eth up
    ip link set $short up
done
ip addr add 192.0.2.1/24 dev node
ip -n node addr add 192.0.2.2/24 dev eth
ip -n node route add default via 192.0.2.1
ip addr add 203.0.113.1/24 dev inet
ip -n inet addr add 203.0.113.10/24 dev eth
head -c 5000000 /dev/urandom >/srv/file
(cd /srv && exec ip netns exec inet python3 -m http.server 80 >/dev/null 2>&1) &

claim "the package of a version with one user can be installed" dpkg -i /one-user.deb
claim "nothing runs without a configuration" is cnapt.service inactive
claim "snapt init" snapt init --name zrh-1 --public 192.0.2.1:9347
add_user() { snapt user add alice >/etc/continuo/cnapt.toml; }
claim "snapt user add" add_user
claim "systemctl start snapt" systemctl start snapt
claim "it is active, as it said itself" is snapt.service active
mkdir -p /etc/systemd/system/cnapt.service.d
printf '[Service]\nNetworkNamespacePath=/run/netns/node\n' >/etc/systemd/system/cnapt.service.d/place.conf
systemctl daemon-reload
systemctl stop snapt
claim "systemctl start cnapt returns though no SNAPT answers" timeout 20 systemctl start cnapt
claim "it is active" is cnapt.service active
says() { systemctl show -P StatusText cnapt | grep -q "$1"; }
claim "and says that no SNAPT answers" says 'no SNAPT has answered yet'
claim "systemctl start snapt" systemctl start snapt
is_up() { cnapt status --wait up --timeout 30; }
claim "then the tunnel comes up" is_up
claim "as the status of the unit says" says '1 of 1 SNAPTs answer'

process() { "$1" status --json | sed -n 's/.*"process":{\([^}]*\)}.*/\1/p'; }
rights='"capabilities":["CAP_NET_ADMIN"],"seccomp":true,"no_new_privs":true'
fetch() { ip netns exec node curl -sS -m 60 http://203.0.113.10/file | cmp - /srv/file; }
claim "curl gets a file through it" fetch
through() { cnapt flows --json | grep -q '"process":"curl"'; }
claim "and the flow is known by its process" through

# The upgrade gives each daemon its own user, while both run.
owners() { find "/var/lib/$1" -printf '%u:%g\n' | sort -u; }
claim "both are the user continuo" equal "$(owners cnapt) $(owners snapt)" "continuo:continuo continuo:continuo"
ip netns exec node ping -n -i 0.2 203.0.113.10 >/tmp/ping.out &
pinged=$!
ip netns exec node curl -sS -m 120 --limit-rate 250k http://203.0.113.10/file 2>/tmp/curl.err | cmp - /srv/file &
download=$!
claim "the package can be installed over it" dpkg -i /continuo.deb
is_own() { process "$1" | grep -q "\"user\":\"continuo-$1\""; }
for daemon in snapt cnapt; do
    claim "$daemon is started again as continuo-$daemon" wait_for 30 is_own $daemon
done
claim "the tunnel comes up again" is_up
claim "state is each one's own" equal "$(owners cnapt) $(owners snapt)" "continuo-cnapt:continuo-cnapt continuo-snapt:continuo-snapt"
claim "each configuration is its daemon's group's" equal "$(stat -c %G /etc/continuo/cnapt.toml /etc/continuo/snapt.toml | tr '\n' ' ')" "continuo-cnapt continuo-snapt "
claim "/run/continuo is for both" equal "$(stat -c %a:%U:%G /run/continuo)" 1770:root:continuo
claim "the download went on" wait $download
kill -INT $pinged
wait $pinged
echo "info  ping during the upgrade: $(tail -n 2 /tmp/ping.out | head -n 1)"
claim "systemctl restart snapt" timeout 60 systemctl restart snapt
claim "cnapt's socket is there" test -S /run/continuo/cnapt.sock
claim "and cnapt answers" wait_for 10 is_own cnapt
claim "systemctl restart cnapt" timeout 60 systemctl restart cnapt
claim "snapt's socket is there" test -S /run/continuo/snapt.sock
claim "and snapt answers" wait_for 10 is_own snapt
claim "the tunnel comes up again" is_up
for daemon in snapt cnapt; do
    claim "$daemon runs as its user with CAP_NET_ADMIN alone and a seccomp filter" equal "$(process $daemon)" "\"user\":\"continuo-$daemon\",$rights"
done
claim "ping" ip netns exec node ping -n -q -c 3 -i 0.2 -W 2 203.0.113.10

claim "systemctl reload of both" systemctl reload cnapt snapt
claim "curl after that" fetch
restarted() { [ "$(systemctl show -P NRestarts "$1")" -ge 1 ] && [ "$(systemctl is-active "$1")" = active ]; }
for daemon in cnapt snapt; do
    kill -9 "$(systemctl show -P MainPID $daemon)"
    claim "$daemon killed: systemd starts it again" wait_for 30 restarted $daemon
done
claim "curl after that" wait_for 30 fetch
# Names through the tunnel: resolv.conf is root's, and nothing of cnapt.service is.
printf 'nameserver 192.0.2.53\n' >/etc/resolv.conf
touch -d @1000000000 /etc/resolv.conf
printf '\n[dns]\nservers = ["203.0.113.10"]\n' >>/etc/continuo/cnapt.toml
claim "systemctl restart of cnapt with name servers" timeout 60 systemctl restart cnapt
claim "the tunnel comes up" is_up
in_tunnel() { grep -qx 'nameserver 203.0.113.10' /etc/resolv.conf; }
as_before() { equal "$(stat -c %Y /etc/resolv.conf) $(cat /etc/resolv.conf)" "1000000000 nameserver 192.0.2.53"; }
claim "resolv.conf names them" wait_for 10 in_tunnel
systemctl stop cnapt
claim "and not after its stop" as_before
systemctl start cnapt
wait_for 10 in_tunnel
helper() { pgrep -f '^/usr/sbin/cnapt resolver$'; }
# resolv.conf says nothing before the killed one's is put back: another helper has to, to cnapt.
another() { [ -n "$(helper)" ] && [ "$(helper)" != "$killed" ] && in_tunnel && cnapt status --json | grep -q '"dns":{"state":"tunnel"'; }
killed=$(helper)
systemctl kill -s KILL cnapt 'cnapt-resolver@*'
claim "killed with its helper, it starts again and names them" wait_for 30 another
killed=$(helper)
systemctl kill -s KILL 'cnapt-resolver@*'
claim "a helper that is killed alone is started again and names them" wait_for 30 another
systemctl stop cnapt
claim "and resolv.conf is as it was after its stop" as_before
systemctl start cnapt

claim "no call was refused by a filter" equal "$(journalctl -q -k -o cat -g 'type=1326' | head -n 3)" ""

claim "systemctl stop of both" timeout 60 systemctl stop cnapt snapt
claim "nothing of them is left" equal "$(ip -o link | grep -c snapt0) $(ip netns exec node nft list ruleset | grep -c continuo) $(ip netns exec node ip rule | grep -c 9347)" "0 0 0"
for unit in cnapt snapt; do
    echo "info  systemd-analyze security $unit: $(systemd-analyze security --no-pager $unit.service 2>/dev/null | tail -n 1 | sed 's/^[^ ]* *//')"
done
echo "info  kernel $(uname -r)"
[ "$failed" -eq 0 ] || journalctl -q --no-pager -o short-precise -u cnapt -u snapt -u "cnapt-resolver@*" | tail -n 50
echo "$held held, $failed failed"
