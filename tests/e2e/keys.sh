#!/usr/bin/env bash
# A user has a key for each device: each is seen, rotated and revoked alone, and a rotation with an overlap interrupts nothing.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
start_snapt 1
user() { snapt user "$@" --socket "$(snapt_socket 1)"; }
# key ID WHAT : of alice, as the list tells it; None when it has no such key.
key() { user list --json | json "next((k['$2'] for u in d for k in u['devices'] if k['key_id'] == '$1'), 'gone')"; }
user add alice --device laptop >"$work/laptop.toml"
user add alice --device phone >"$work/phone.toml"
claim "a second key without a device is refused" eval '! user add alice 2>"$work/refused"'
claim "and it is said why" grep -q -- '--device NAME without --quota gives it another key' "$work/refused"
claim "no key has been seen" equal "$(key k1 last_seen) $(key k2 last_seen)" "None None"

cp "$work/laptop.toml" "$work/cnapt.toml"
chmod 600 "$work/cnapt.toml"
began=$(date +%s)
start_cnapt
seen=$(key k1 last_seen)
claim "the laptop's key is seen" json_true "$began - 1 <= $seen <= $began + 60" <<<null
claim "the phone's is not" equal "$(key k2 last_seen)" None

# --- Revoked alone
first=$(session)
in_ns node ping -n -i 0.2 $inet4 >"$work/pings" &
pinging=$!
claim "the phone is revoked" user revoke alice --device phone
claim "its key is gone" equal "$(key k2 key_id)" gone
claim "the laptop did not notice" equal "$(session)" "$first"

# --- Rotation with an overlap
claim "the laptop's key is rotated with an overlap" eval 'user rotate alice --device laptop --overlap 15s >"$work/new.toml"'
claim "the key before has an end" json_true "$(key k1 expires) > $began" <<<null
claim "the new one none" equal "$(key k3 expires)" None
claim "the session goes on" equal "$(session)" "$first"
stop cnapt
start_cnapt
claim "and the key before still logs in" json_true "len(d) == 1" < <(snapt_json 1 sessions)
no_sessions() { equal "$(snapt_json 1 sessions | json 'len(d)')" 0; }
claim "until the overlap is over" wait_for 20 no_sessions
claim "of which the node is told" wait_for 5 grep -q 'has ended the session' "$work/cnapt.log"
claim "the key is gone" equal "$(key k1 key_id)" gone
stop cnapt
cp "$work/new.toml" "$work/cnapt.toml"
start_cnapt
claim "the new file logs in" json_true "len(d) == 1" < <(snapt_json 1 sessions)
kill $pinging

# --- A key that was in use is remembered
seen=$(key k3 last_seen)
stop cnapt
stop snapt1
seen_offline=$(snapt user list --json --config "$work/snapt1.toml" --state "$work/s1" --socket "$(snapt_socket 1)" |
    json "next(k['last_seen'] for u in d for k in u['devices'] if k['key_id'] == 'k3')")
claim "when a key was last in use is on the disk" json_true "$seen_offline >= $seen" <<<null

# --- Revoked while its node is here
start_snapt 1
start_cnapt
claim "the laptop is revoked" user revoke alice --key-id k3
claim "its session ends at once" no_sessions
claim "nothing of it is left in the list" equal "$(user list --json | json 'd[0]["devices"]')" "[]"
stop cnapt

# --- A second SNAPT after a rotation on the first: README's recipe
start_snapt 2
second() { snapt user "$@" --socket "$(snapt_socket 2)"; }
user add alice --device laptop >"$work/alice.toml"
claim "the second SNAPT takes the key with its id" eval 'second add alice --device laptop --key-file "$work/alice.toml" --block >"$work/gva-1.toml"'
claim "user rotate on the first" eval 'user rotate alice --device laptop --overlap 1h >"$work/alice.toml"'
claim "and with its result on the second" \
    eval 'second rotate alice --device laptop --overlap 1h --key-file "$work/alice.toml" --block >"$work/gva-1.toml"'
claim "both know the key by one id" equal "$(second list --json | json "d[0]['keys']")" "$(user list --json | json "d[0]['keys']")"
claim "the block has the second SNAPT's identity key" \
    equal "$(grep '^identity_key' "$work/gva-1.toml" | cut -d'"' -f2)" "$(grep '^identity_key' "$work/snapt2.toml" | cut -d'"' -f2)"
cat "$work/alice.toml" "$work/gva-1.toml" >"$work/cnapt.toml"
start_cnapt
both_up() { equal "$(cnapt_json status | json "sorted(s['snapt'] for s in d['sessions'])")" "['zrh-1', 'zrh-2']"; }
claim "the node has sessions with both" wait_for 10 both_up
claim "a mistake is an error, and prints no file" eval '! second add bob --key-file "$work/alice.toml" --block >"$work/none" 2>"$work/wrong" && ! test -s "$work/none"'
claim "which says what is wrong" grep -q 'of another user, "alice"' "$work/wrong"
finish
