#!/usr/bin/env bash
# WireGuard itself beside cnapt: wg-quick with wireguard-go takes all traffic of both IP versions, before cnapt or after it. What is
# behind it and the Internet stay reachable, the session goes beside it and moves, and WireGuard with it.
. "$(dirname "$0")/lib.sh"
require curl ping wg wg-quick wireguard-go
build_topology
# Both ends have their socket in one directory of the machine; a device is in its namespace.
mkdir -p "$work/run"
node_shell=(unshare -m sh -c 'mount --bind "$0/run" /run && exec "$@"' "$work")
in_ns inet sysctl -qw net.ipv4.ip_forward=1
in_ns inet nft 'add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; };
    add rule ip nat post ip saddr 10.99.0.0/24 oifname eth masquerade'
ip -n "$(ns inet)" addr add 203.0.113.81/24 dev eth
ip -n "$(ns inet)" addr add 10.99.7.1/32 dev lo
mkdir "$work/www"
head -c 200000 /dev/urandom >"$work/www/file"
http_server "$work/www"

umask 077
wg genkey >"$work/server.key"
wg genkey >"$work/node.key"
umask 022
mkdir -p "$work/run9"
spawn inet wg-server unshare -m sh -c 'mount --bind "$0/run9" /run && exec wireguard-go -f wg8' "$work"
wait_for 5 ip -n "$(ns inet)" link show wg8
server() { in_ns inet unshare -m sh -c 'mount --bind "$0/run9" /run && exec "$@"' "$work" "$@"; }
wait_for 5 server wg show wg8
server wg set wg8 listen-port 51820 private-key "$work/server.key" \
    peer "$(wg pubkey <"$work/node.key")" allowed-ips 10.99.0.2/32,fd99::2/128
address inet wg8 10.99.0.1/24 fd99::1/64
ip -n "$(ns inet)" link set wg8 up mtu 1420
cat >"$work/wg9.conf" <<END
[Interface]
PrivateKey = $(cat "$work/node.key")
Address = 10.99.0.2/32, fd99::2/128
[Peer]
PublicKey = $(wg pubkey <"$work/server.key")
Endpoint = $inet4:51820
AllowedIPs = 0.0.0.0/0, ::/0
PersistentKeepalive = 1
END
chmod 600 "$work/wg9.conf"
vpn() { in_ns node wg-quick up "$work/wg9.conf" >>"$work/wg-quick.log" 2>&1; }
no_vpn() { in_ns node wg-quick down "$work/wg9.conf" >>"$work/wg-quick.log" 2>&1; }
pings() { in_ns node ping -n -c 1 -W 1 "$1"; }
fetches() { in_ns node curl -sf -m 5 -o /dev/null http://203.0.113.81/file; }
bytes() { in_ns node cat "/sys/class/net/$1/statistics/tx_bytes"; }
says() { cnapt status --socket "$work/cnapt.sock" | tr -s ' \n' ' ' | grep -E "$1"; }
moves() { cnapt_json status | json 'd["handovers"]["count"]'; }
rules() { { ip -n "$(ns node)" rule; ip -n "$(ns node)" -6 rule; } | grep -c 51820; }
leads_into_tunnel() {
    for host in 203.0.113.81 2001:db8:3::81; do
        in_ns node ip route get $host ipproto tcp | grep -q " dev cnapt0 " || return
    done
}

# beside ORDER
beside() {
    local host before before9 since slow
    if [ "$1" = "WireGuard first" ]; then
        vpn
        claim "$1: it has set its rules" more_than "$(rules)" 0
        start_cnapt
    else
        start_cnapt
        exec_in_ns node curl -sf -m 60 --limit-rate 40k -o "$work/slow" http://203.0.113.81/file &
        slow=$!
        wait_for 10 test -s "$work/slow"
        vpn
        claim "$1: it has set its rules" more_than "$(rules)" 0
        claim "$1: a connection in the tunnel goes on" eval 'wait $slow && cmp -s "$work/www/file" "$work/slow"'
    fi
    claim "$1: programs go by cnapt" wait_for 2 leads_into_tunnel
    for host in 10.99.0.1 10.99.7.1 fd99::1 203.0.113.81; do
        claim "$1: $host answers" wait_for 10 pings "$host"
    done
    since=$(moves) before=$(bytes up1) before9=$(bytes wg9)
    in_ns node ping -n -c 20 -i 0.2 -W 1 203.0.113.81 >"$work/pings"
    claim "$1: none of 20 pings is lost" equal "$(sed -n 's/.* \([0-9]*\) received.*/\1/p' "$work/pings")" 20
    # As in second_vpn.sh, and WireGuard's keepalives of each second.
    claim "$1: the cable carries them once" at_most $(($(bytes up1) - before)) $((500 * 40))
    claim "$1: so does WireGuard" at_most $(($(bytes wg9) - before9)) $((500 * 20))
    claim "$1: a file comes from the Internet" fetches
    claim "$1: the session stays where it is" eval 'is_active up1 && equal "$(moves)" '"$since"
    claim "$1: status says who has the default route" says "wg9: another VPN has the default route; data goes beside it"
    move 2 11
    claim "$1: the session moves" wait_for 10 is_active up2
    claim "$1: the Internet answers there" wait_for 10 fetches
    claim "$1: and what is behind WireGuard" wait_for 10 pings 10.99.0.1
    move 1 2
    wait_for 10 is_active up1
    no_vpn
    claim "$1: it has taken its rules away" equal "$(rules)" 0
    claim "$1: without it the Internet answers" wait_for 10 fetches
    claim "$1: and status says nothing of it" wait_for 5 eval '! says "another VPN"'
    stop cnapt
}

vpn
claim "without cnapt what is behind WireGuard answers" wait_for 10 pings 10.99.7.1
claim "and the Internet" wait_for 5 fetches
no_vpn
start_snapt 1
add_user alice
beside "cnapt first"
beside "WireGuard first"
finish
