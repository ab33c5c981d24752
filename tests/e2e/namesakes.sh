#!/usr/bin/env bash
# Two nodes with one user and one host name keep a session each, told apart by the id in their state folders. A copy of a node,
# with the same id, is refused as long as the other one is here, and both are told.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
new_stranger
start_snapt 1
add_user alice
sed -i '1i node = "debian"' "$work/cnapt.toml"
start_cnapt
# run_other STATE : a second node in the stranger's place.
run_other() {
    mkdir -p "$work/$1"
    spawn stranger other cnapt run --config "$work/cnapt.toml" --state "$work/$1" --socket "$work/other.sock"
}
wait_other() { cnapt status --wait up --timeout "$1" --socket "$work/other.sock" >/dev/null 2>&1; }
nodes() { snapt_json 1 sessions | json "sorted((s['node'], s['inner_ipv4']) for s in d)"; }
works() { in_ns "$1" ping -n -q -c 20 -i 0.05 -W 5 $inet4 >/dev/null; }
first=$(session)
run_other c2
claim "the second node gets in" wait_other 20
both=$(nodes)
claim "each has a name and a lease" equal "$(json "[n for n, _ in $both], len({a for _, a in $both})" <<<null)" "(['debian', 'debian-2'], 2)"
claim "traffic of the first passes" works node
claim "and of the second" works stranger
claim "the first did not notice" equal "$(snapt_json 1 sessions | json "[(s['session_id'], s['inner_ipv4'], s['since']) for s in d if s['node'] == 'debian']")" "$first"
claim "the second was told what it is called" grep -q 'another node of this user is called debian; this one is debian-2 there' "$work/other.log"
claim "the SNAPT, too" grep -q 'alice: another node is called debian: this one is debian-2 here' "$work/snapt1.log"
stop other
run_other c2
claim "it is let in again" wait_other 20
claim "by the same name, with the same lease" equal "$(nodes)" "$both"
stop other

# --- A copy
mkdir "$work/c3"
cp "$work/c/node_id" "$work/c3/node_id"
run_other c3
claim "a copy takes the session over" wait_other 20
claim "of which the first is told" wait_for 10 grep -q 'took the session over' "$work/cnapt.log"
claim "and that it is refused" wait_for 20 grep -q "zrh-1 refused: another node has this one's name and id: is it a copy?" "$work/cnapt.log"
claim "the copy keeps it" works stranger
claim "there is one session" equal "$(snapt_json 1 sessions | json 'len(d)')" 1
stop other
claim "when it has gone the first gets in again" wait_cnapt 30
claim "and works" works node
finish
