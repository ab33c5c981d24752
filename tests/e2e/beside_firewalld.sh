#!/usr/bin/env bash
# firewalld itself beside both ends: a node needs no rule, a server needs the two that docs/OPERATIONS.md gives, for its port and for
# what it forwards. A reload under way ends nothing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_firewall.sh"
require curl firewalld firewall-cmd dbus-daemon
# within NS COMMAND... : on that host, which has a bus and a configuration of its own.
within() {
    local space=$1
    shift
    in_ns "$space" unshare -m sh -c 'mount --bind "$0/run" /run && mount --bind "$0/etc" /etc/firewalld && exec "$@"' "$work/firewalld-$space" "$@"
}
firewall_cmd() { within "$1" firewall-cmd "${@:2}" >>"$work/firewall-cmd.log" 2>&1; }
enable() {
    local space=$1 home=$work/firewalld-$1
    mkdir -p "$home/run/dbus"
    cp -a /etc/firewalld "$home/etc"
    chmod 755 "$work" "$home" "$home/run"
    within "$space" dbus-daemon --config-file=/usr/share/dbus-1/system.conf --nofork --nopidfile </dev/null >>"$work/bus-$space.log" 2>&1 &
    pid_of[bus-$space]=$!
    wait_for 10 test -S "$home/run/dbus/system_bus_socket"
    within "$space" firewalld --nofork --nopid </dev/null >>"$work/firewalld-$space.log" 2>&1 &
    pid_of[firewalld-$space]=$!
    wait_for 30 firewall_cmd "$space" --state
}
firewall_host
enable node || skip "firewalld does not run here: $(tail -n 1 "$work/firewalld-node.log")"
node_beside_firewall firewall_cmd node --reload
stop firewalld-node

enable snapt1
server_beside_firewall
firewall_cmd snapt1 --permanent --add-port=9347/tcp --add-port=9347/udp
firewall_cmd snapt1 --reload
server_port_is_open
firewall_cmd snapt1 --permanent --zone=trusted --add-interface=snapt0
firewall_cmd snapt1 --reload
server_forwards firewall_cmd snapt1 --reload
stop firewalld-snapt1
finish
