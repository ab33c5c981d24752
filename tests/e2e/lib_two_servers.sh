# Two SNAPTs, of which zrh-2 is farther away, and a node that knows both. Sourced after lib.sh; needs ethtool.

# two_servers BYTES [SYSCTL...] : the network and both SNAPTs, the first with these settings; $work/www/file has so many bytes, `small`
# some. start_at_both starts the node.
two_servers() {
    build_topology
    ip -n "$(ns snapt2)" link del wan
    emulated_cable snapt2 wan core snapt2 both delay 10ms
    address snapt2 wan 198.51.100.6/30 2001:db8:2::2/64
    address core snapt2 198.51.100.5/30 2001:db8:2::1/64
    ip -n "$(ns snapt2)" route add default via 198.51.100.5
    ip -n "$(ns snapt2)" -6 route add default via 2001:db8:2::1
    [ $# -eq 1 ] || in_ns snapt1 sysctl -qw "${@:2}"
    start_snapt 1
    start_snapt 2
    add_user alice 1 2
    mkdir "$work/www"
    truncate -s "$1" "$work/www/file"
    echo small >"$work/www/small"
    http_server "$work/www"
}
has_both() { equal "$(cnapt_json snapts | json "[s['state'] for s in d]")" "['up', 'up']"; }
start_at_both() {
    start_cnapt
    wait_for 10 has_both
}
