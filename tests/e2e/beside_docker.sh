#!/usr/bin/env bash
# Docker itself beside cnapt: what containers begin goes beside the tunnel, is dropped with the kill switch, or goes through the
# tunnel as docs/OPERATIONS.md says; published ports answer; a dockerd that starts anew changes nothing of that.
. "$(dirname "$0")/lib.sh"
require curl ping dockerd docker containerd runc iptables nsenter
busybox=$(command -v busybox) || skip "needs busybox"
! ldd "$busybox" >/dev/null 2>&1 || skip "needs busybox without libraries"
build_topology
mkdir "$work/www"
echo small >"$work/www/small"
http_server "$work/www"

# engine NS : dockerd there, with its state in $work/docker-NS. It needs the machine's /sys/fs/cgroup, which `ip netns exec` hides.
engine() {
    mkdir -p "$work/docker-$1"
    exec nsenter --net="/run/netns/$(ns "$1")" unshare -m dockerd --data-root "$work/docker-$1/data" --exec-root "$work/docker-$1/run" \
        --pidfile "$work/docker-$1/pid" --host "unix://$work/docker-$1/socket" --cgroup-parent "/$tag-$1" --storage-driver vfs </dev/null >>"$work/dockerd-$1.log" 2>&1
}
start_engine() {
    engine "$1" &
    pid_of[dockerd-$1]=$!
    wait_for 30 docker_at "$1" version || skip "dockerd does not run here: $(tail -n 1 "$work/dockerd-$1.log")"
}
docker_at() {
    local space=$1
    shift
    docker --host "unix://$work/docker-$space/socket" "$@"
}
d() { docker_at node "$@"; }
start_engine node
mkdir -p "$work/root/bin"
cp "$busybox" "$work/root/bin/busybox"
for tool in sh true printf ping nc httpd sleep; do ln -s busybox "$work/root/bin/$tool"; done
tar -C "$work/root" -c . | d import - probe >/dev/null
echo "page of the container" >"$work/page"
container() { d run --detach --name "$1" "${@:2}" probe sleep 3600 >/dev/null; }
container one --publish 8080:80
container two
wait_for 10 d exec one true || skip "containers do not run here: $(tail -n 1 "$work/dockerd-node.log")"
d cp "$work/page" one:/page
d exec --detach one httpd -f -p 80 -h /
address_of() { d inspect --format '{{.NetworkSettings.IPAddress}}' "$1"; }
reaches() { d exec "$1" ping -c 1 -W 2 "$2"; }
loads() { d exec "$1" sh -c "printf 'GET /small HTTP/1.0\\r\\n\\r\\n' | nc -w 4 $inet4 80" | grep -q small; }
by() { tail -n 1 "$work/http.log" | cut -d' ' -f1; }
published() { in_ns gw1 curl -sf -m 4 http://192.168.1.2:8080/page | grep -q container; }
# containers TEXT ADDRESS|none : whom the server sees when a container asks it; and what holds in any case.
containers() {
    if [ "$2" = none ]; then
        claim "$1: what a container begins is dropped" eval '! loads two'
    else
        claim "$1: a container reaches the Internet" wait_for 10 loads two
        claim "$1: the server sees $2" equal "$(by)" "$2"
    fi
    claim "$1: a published port answers" wait_for 5 published
    claim "$1: containers reach each other" wait_for 5 reaches two "$(address_of one)"
}
restart_engine() {
    stop dockerd-node
    start_engine node
    d start one two >/dev/null
    d exec --detach one httpd -f -p 80 -h /
}
gateway=::ffff:192.0.2.2 snapt=::ffff:198.51.100.2

containers "without cnapt" "$gateway"
start_snapt 1
add_user alice
start_cnapt
in_tunnel() { in_ns node curl -sf -m 4 -o /dev/null "http://$inet4/small" && equal "$(by)" "$snapt"; }
claim "the host is in the tunnel" wait_for 5 in_tunnel
containers "beside the tunnel" "$gateway"
restart_engine
containers "beside the tunnel, dockerd started anew" "$gateway"
claim "the host is in the tunnel still" wait_for 5 in_tunnel
stop cnapt

set_capture 'kill_switch = true'
start_cnapt
containers "kill switch" none
restart_engine
containers "kill switch, dockerd started anew" none
claim "kill switch: the host is in the tunnel" wait_for 5 in_tunnel
stop cnapt

set_capture 'gateway_interfaces = ["docker*", "br-*"]'
start_cnapt
containers "LAN side, kill switch" "$snapt"
stop cnapt
set_capture 'kill_switch = false'
start_cnapt
containers "LAN side" "$snapt"
d network create later >/dev/null
container three --network later
claim "LAN side: a bridge that comes later is one, too" wait_for 10 eval 'loads three && equal "$(by)" "$snapt"'
restart_engine
containers "LAN side, dockerd started anew" "$snapt"
stop cnapt
finish
