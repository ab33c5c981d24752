#!/usr/bin/env bash
# The disk of a SNAPT is full: both ends say so, what is there goes on, and it mends itself when there is room again. What passed
# meanwhile is recorded then.
. "$(dirname "$0")/lib.sh"
. "$lib_dir/lib_tally.sh"
require curl unshare ethtool
build_topology
tally_at_router
mkdir -p "$work/s1" "$work/www"
head -c 200000 /dev/urandom >"$work/www/file"
http_server "$work/www"

# The state directory is a disk of its own, which the daemon alone sees.
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/unused" --name zrh-1 --public "$(snapt_address 1):9347" >/dev/null
sed -i 's/^live_slots *=.*/live_slots = 1024/' "$work/snapt1.toml"
spawn snapt1 snapt1 unshare -m sh -c "mount -t tmpfs -o size=8m none '$work/s1' &&
    exec snapt run --config '$work/snapt1.toml' --state '$work/s1' --socket '$(snapt_socket 1)'"
snapt status --wait up --timeout 15 --socket "$(snapt_socket 1)" >>"$work/snapt1.log" 2>&1 || { echo "snapt1 did not come up"; show_logs; exit 1; }
disk=/proc/${pid_of[snapt1]}/root$work/s1
add_user alice
start_cnapt
download() { in_ns node curl -sS -m 10 -o /dev/null "http://$inet4/file"; }
claim "there is a tunnel" download

used() { snapt_json 1 usage --by user | json "sum(r['inner_up'] + r['inner_down'] for r in d['rows'])"; }
passed() { echo $(($(metered_bytes up) + $(metered_bytes down))); }
before=$(passed)
fill() { head -c 16m /dev/zero >"$disk/filling" 2>/dev/null || true; }
fill
claim "the disk is full" eval '! head -c 100k /dev/zero >"$disk/more"'
rm -f "$disk/more"
fill  # what that was
claim "a session that is there goes on" download
# Longer than a checkpoint (5 s), in which nothing can be written.
for round in 1 2 3 4; do
    claim "and goes on ($round)" download
    sleep 2
done
meanwhile=$(passed)
claim "bytes have passed meanwhile ($((meanwhile - before)))" more_than $((meanwhile - before)) 1000000

# --- A node that logs in anew, by another name: it needs a lease of its own
stop cnapt
sed -i '1i node = "other"' "$work/cnapt.toml"
run_cnapt
refused() { grep -qF "refused: the disk of this SNAPT is full" "$work/cnapt.log"; }
claim "the node hears that the disk is full" wait_for 20 refused
claim "and not that there is no address" eval '! grep -q "no address is free" "$work/cnapt.log"'
logged() { grep -qE "$1" "$work/snapt1.log"; }
claim "the SNAPT logs who was refused, and why" wait_for 5 \
    logged 'login_refused user=alice node=other from=[^ ]+ reason="the disk of this SNAPT is full" cause=".*full'
claim "and once that it cannot write" equal "$(grep -c 'the ledger cannot be written (disk of ledger.db is full)' "$work/snapt1.log")" 1
status() { snapt status --socket "$(snapt_socket 1)" "$@"; }
state_is() { [ "$(snapt_json 1 status | json "d['state'], d['ledger']['disk_full'], d['ledger']['write_error']")" = "$1" ]; }
claim "status is degraded, and says why" state_is "('degraded', True, 'disk of ledger.db is full')"
status >"$work/status.txt"
claim "with the exit code of an alarm" equal "$?" 2
claim "in words, too" grep -q 'cannot be written, disk of ledger.db is full' "$work/status.txt"

# --- Room again
rm -f "$disk/filling"
claim "with room the node is let in" wait_cnapt 60
claim "and has a tunnel" download
claim "status is up again" wait_for 20 state_is "('up', False, None)"
claim "the log says that it can write again" logged 'the ledger can be written again'
claim "nothing moves any more" wait_for 20 router_is_silent
claim "every byte is recorded, also those of the time without room" equal "$(used)" "$(passed)"
claim "and the ledger is whole" nsenter -t "${pid_of[snapt1]}" -m snapt verify --state "$work/s1"
finish
