#!/usr/bin/env bash
# kill -9 of a SNAPT, again and again, at random moments under UDP and TCP both ways of a user with a plan. A router counts what
# really passed, and the node what came to it: the records have no byte more, and for each kill at most a batch less.
# KILLS: how many. SEED repeats the moments.
. "$(dirname "$0")/lib.sh"
. "$lib_dir/lib_billing.sh"
. "$lib_dir/lib_tally.sh"
require curl ethtool
kills=${KILLS:-20}
seed=${SEED:-$RANDOM}
echo "      seed $seed"
RANDOM=$seed
build_topology
tally_at_router
mkdir -p "$work/s1"
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" >/dev/null
# So that kills come before, within and after seals.
sed -i 's/^interval_s = .*/interval_s = 1/' "$work/snapt1.toml"
claim "records are of a second" grep -qx 'interval_s = 1' "$work/snapt1.toml"
start_snapt 1
use_flat_plan "$work/s1" 1
add_user alice
start_cnapt

mkdir "$work/www"
truncate -s $((kills * 60))M "$work/www/file"
http_server "$work/www"
exec_in_ns node curl -sS -o /dev/null "http://$inet4/file?rate=2000000" 2>"$work/curl.log" &
pid_of[download]=$!
upload_reader
exec_in_ns node curl -sS -T "$work/www/file" --limit-rate 1M "http://$inet4:8080/" >/dev/null 2>"$work/upload.log" &
pid_of[upload]=$!
# 500 datagrams of a kilobyte a second each way.
cat >"$work/echo.py" <<'PY'
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("0.0.0.0", 7000))
while True:
    data, peer = server.recvfrom(2048)
    server.sendto(data, peer)
PY
cat >"$work/ask.py" <<'PY'
import socket, sys, time
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect((sys.argv[1], 7000))
client.setblocking(False)
while True:
    try:
        client.send(bytes(1000))
    except OSError:
        pass
    try:
        while client.recv(2048):
            pass
    except OSError:
        pass
    time.sleep(0.002)
PY
spawn inet echo "$python" "$work/echo.py"
wait_for 10 listens inet 7000
spawn node ask "$python" "$work/ask.py" $inet4

bytes_after() { [ "$(metered_bytes up)" -gt $(($1 + 200000)) ] && [ "$(metered_bytes down)" -gt $(($2 + 200000)) ]; }
moved=0
began=$EPOCHREALTIME
for ((i = 0; i < kills; i++)); do
    # Both ways again since the start, and then any moment.
    wait_for 20 bytes_after "$(metered_bytes up)" "$(metered_bytes down)" && moved=$((moved + 1))
    sleep "0.$(printf '%03d' $((RANDOM % 700)))"
    stop snapt1 KILL
    start_snapt 1
done
claim "bytes passed both ways before each kill ($(since "$began") s)" equal $moved $kills
claim "and after the last" wait_for 20 bytes_after "$(metered_bytes up)" "$(metered_bytes down)"
# Payload of the connections: what the reader got, and what curl wrote.
uploaded() { tail -n 1 "$work/up" | cut -d' ' -f2; }
downloaded() { sed -n 's/^wchar: //p' "/proc/${pid_of[download]}/io"; }
go_on() { [ "$(uploaded)" -gt $(($1 + 200000)) ] && [ "$(downloaded)" -gt $(($2 + 200000)) ]; }
claim "upload and download go on" wait_for 60 go_on "$(uploaded)" "$(downloaded)"
# The connections stay open: their flows have the counts of the node.
kill -STOP "${pid_of[ask]}" "${pid_of[http]}" "${pid_of[upload]}"
claim "nothing moves any more" wait_for 30 router_is_silent

used() { snapt_json 1 usage --by user | json "sum(r['$1'] for r in d['rows'] if r['user'] == 'alice')"; }
counts() { echo "$(metered_bytes up) $(metered_bytes down) $(cnapt_json flows | json "sum(f['inner_bytes_down'] for f in d)")"; }
# A kernel may send again after any silence: nothing came between all readings.
is_read() {
    read -r up down got <<<"$(counts)"
    recorded_up=$(used inner_up) recorded_down=$(used inner_down)
    [ "$up $down $got" = "$(counts)" ]
}
claim "nor between the readings" wait_for 30 is_read
echo "      up: $up at the router, $recorded_up recorded; down: $down at the router, $got at the node, $recorded_down recorded"
claim "each kill was one" equal "$(snapt_json 1 status | json "d['ledger']['epoch']")" $((kills + 1))
claim "no byte up is recorded that did not pass" at_most "$recorded_up" "$up"
claim "nor down, which the node did not get" at_most "$recorded_down" "$got"
claim "nor a byte more than came for it" at_most "$got" "$down"
# A batch of 64 packets that was forwarded and not yet counted (bench ledger), for each kill.
batch=$((64 * 1500))
claim "of the bytes up a batch at most is lost with each kill ($((up - recorded_up)))" at_most $((up - recorded_up)) $((kills * batch))
claim "of those that the node got, too ($((got - recorded_down)))" at_most $((got - recorded_down)) $((kills * batch))
claim "the ledger is whole" snapt verify --state "$work/s1"
snapt rate --state "$work/s1" >/dev/null
# Runs and classes whose charges differ from the payload of their records.
uncharged() { "$python" -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=10) as ledger:
    now = ledger.execute("SELECT v FROM state WHERE k=?", ("epoch",)).fetchone()[0]
    sums = [dict(ledger.execute(f"SELECT epoch || \" class \" || cls, sum({what}) FROM {table} WHERE epoch < ? GROUP BY epoch, cls HAVING sum({what}) > 0", (now,)))
            for what, table in (("pay_up + pay_down", "usage_record"), ("gross_ud", "charge"))]
    print(*(f"{epoch}: {have} bytes, {sums[1].get(epoch)} micro-denarii" for epoch, have in sums[0].items() if have != sums[1].get(epoch)),
          f"{len(set(name.split()[0] for name in sums[0]))} runs", sep="; ")' "$work/s1/ledger.db"; }
claim "what the killed runs recorded is charged, at one micro-denarius a byte" equal "$(uncharged)" "$kills runs"
claim "and the ledger is whole" snapt verify --state "$work/s1"
kill -CONT "${pid_of[ask]}" "${pid_of[http]}" "${pid_of[upload]}"
finish
