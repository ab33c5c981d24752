# Shared by the tests with ufw and firewalld: what holds at a node, and at a server before and after its rules. Sourced behind lib.sh.

firewall_host() {
    build_topology
    mkdir "$work/www"
    echo small >"$work/www/small"
    head -c 4000000 /dev/zero >"$work/www/file"
    http_server "$work/www"
    start_snapt 1
    add_user alice
}
fetches() { in_ns node curl -gsf -m 4 -o /dev/null "http://$inet4/small" && in_ns node curl -gsf -m 4 -o /dev/null "http://[$inet6]/small"; }
# goes_on COMMAND... : downloads of both versions pass, each as one connection, while the command runs again and again.
goes_on() {
    local one two
    in_ns node curl -gsf -m 60 -o /dev/null "http://$inet4/file?rate=1000000" &
    one=$!
    in_ns node curl -gsf -m 60 -o /dev/null "http://[$inet6]/file?rate=1000000" &
    two=$!
    sleep 1
    "$@" || return
    "$@" || return
    wait "$one" && wait "$two"
}
node_beside_firewall() { # node_beside_firewall RELOAD...
    start_cnapt
    claim "the node, without a rule: pages pass" wait_for 5 fetches
    claim "the node: a reload ends no download" goes_on "$@"
    move 2 11
    claim "the node: pages pass after a move" wait_for 10 fetches
    "$@"
    claim "the node: and after a reload there" wait_for 5 fetches
    stop cnapt
}
is_in() { cnapt_json snapts | json_true "d[0]['control_open']"; }
server_beside_firewall() {
    run_cnapt
    wait_for 5 test -S "$work/cnapt.sock"
    claim "the server, without a rule: nobody is let in" eval '! wait_for 4 is_in'
}
doctor_of_server() { { in_ns snapt1 snapt doctor --config "$work/snapt1.toml" --state "$work/s1" --socket "$(snapt_socket 1)" || true; } | tr -s ' \n' ' '; }
server_port_is_open() {
    claim "the server, its port open: the node is let in" wait_for 30 is_in
    claim "what it forwards is dropped" eval '! fetches'
    claim "doctor says so" eval 'doctor_of_server | grep -qE "(warn|fail) forward policy [^;]*drops"'
}
server_forwards() { # server_forwards RELOAD...
    claim "with the rule for its device: the server is up" wait_for 10 eval 'snapt_json 1 status | json_true "d[\"state\"] == \"up\""'
    claim "pages pass" wait_for 10 fetches
    claim "a reload ends no download" goes_on "$@"
    claim "doctor finds nothing that drops" eval 'doctor_of_server | grep -qE "ok forward policy"'
    stop cnapt
    stop snapt1
}
