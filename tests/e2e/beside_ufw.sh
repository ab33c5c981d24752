#!/usr/bin/env bash
# ufw itself beside both ends: a node needs no rule, a server needs the two that docs/OPERATIONS.md gives, for its port and for what it
# forwards. A reload under way ends nothing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_firewall.sh"
require curl ufw iptables
# ufw NS ARGUMENT... : with a configuration of that host's own.
ufw() {
    local space=$1
    shift
    [ -d "$work/ufw-$space" ] || cp -a /etc/ufw "$work/ufw-$space"
    in_ns "$space" unshare -m sh -c 'mount --bind "$0" /etc/ufw && exec ufw "$@"' "$work/ufw-$space" "$@" >>"$work/ufw.log" 2>&1
}
enable() { ufw "$1" --force enable && in_ns "$1" iptables -S FORWARD | grep -q -- '-P FORWARD DROP'; }
firewall_host
enable node || skip "ufw does not run here: $(tail -n 1 "$work/ufw.log")"
node_beside_firewall ufw node reload
ufw node disable

enable snapt1
server_beside_firewall
ufw snapt1 allow 9347
server_port_is_open
ufw snapt1 route allow in on snapt0
server_forwards ufw snapt1 reload
finish
