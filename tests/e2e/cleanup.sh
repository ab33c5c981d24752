#!/usr/bin/env bash
# The host is afterwards as it was before, also after kill -9; and nobody who is logged in over an uplink is locked out.
. "$(dirname "$0")/lib.sh"
require ssh sshd ping
build_topology
# The port forwarding of gateway 1, so that somebody on the Internet can log in at the node.
in_ns gw1 nft "add chain ip nat pre { type nat hook prerouting priority -100; };
    add rule ip nat pre iifname wan tcp dport 2222 dnat to 192.168.1.2:22"
ssh_server node
mapfile -t options < <(ssh_options)

snapshot node >"$work/node.before"
snapshot snapt1 >"$work/snapt.before"

# log_in NAME NS SSH_ARGUMENTS... : a session that echoes lines; its ends are descriptors in to_NAME and from_NAME.
log_in() {
    local name=$1 space=$2 input output
    shift 2
    mkfifo "$work/$name.in" "$work/$name.out"
    exec_in_ns "$space" ssh "${options[@]}" "$@" 'while read -r line; do echo "back $line"; done' <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.log" &
    pid_of[$name]=$!
    exec {input}>"$work/$name.in" {output}<"$work/$name.out"
    eval "to_$name=$input from_$name=$output"
}
said=0
echoes() { # echoes NAME : a line goes there and comes back
    local line to from
    to=to_$1 from=from_$1
    said=$((said + 1))
    echo "$said" >&"${!to}" && IFS= read -r -t 10 line <&"${!from}" && equal "$line" "back $said"
}
alive_after() {
    claim "ssh from the LAN goes on after $1" echoes lan
    claim "ssh from the Internet goes on after $1" echoes far
}
log_in lan gw1 root@192.168.1.2
log_in far inet -p 2222 root@192.0.2.2
alive_after "login"

start_snapt 1
add_user alice
start_cnapt
alive_after "start"
claim "new traffic uses the tunnel" in_ns node ping -n -c 2 -W 5 $inet6
new_login() { equal "$(in_ns inet ssh "${options[@]}" -p 2222 root@192.0.2.2 echo in </dev/null)" in; }
claim "a new login at the uplink works too" new_login
claim "reload succeeds" cnapt reload --socket "$work/cnapt.sock"
alive_after "reload"
check_leaks

same() { diff "$work/$1.before" <(snapshot "$2"); }
stop cnapt
claim "stop leaves the node as it was" same node node
alive_after "stop"

start_cnapt
alive_after "the second start"
stop cnapt KILL
alive_after "kill -9"
start_cnapt
alive_after "the start after kill -9"
claim "the tunnel works again" in_ns node ping -n -c 2 -W 5 $inet6
check_leaks
stop cnapt
claim "start and stop after kill -9 leave the node as it was" same node node

stop snapt1
claim "stop leaves the SNAPT's host as it was" same snapt snapt1
start_snapt 1
stop snapt1 KILL
start_snapt 1
stop snapt1
claim "so do start and stop after kill -9" same snapt snapt1
finish
