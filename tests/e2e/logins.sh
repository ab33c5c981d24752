#!/usr/bin/env bash
# A SNAPT logs logins, refusals, changes of users and ends of sessions, each as a line of key=value.
. "$(dirname "$0")/lib.sh"
require
one_tunnel

log=$work/snapt1.log
logged() { grep -qE "$1" "$log"; }
node='[^ ]+'
at_gateway='192\.0\.2\.[26]:[0-9]+'
claim "a login, with user, node, address and leases" \
    wait_for 5 logged "login user=alice node=$node from=$at_gateway session=[0-9]+ continued=no ipv4=100\.64\.[0-9.]+ ipv6="

# --- A user that is disabled, refused, and enabled again
snapt_user() { snapt user "$@" --socket "$(snapt_socket 1)"; }
snapt_user disable alice >/dev/null
claim "the change of the user, with the sessions it ended" wait_for 5 logged 'user_changed user=alice change=disable sessions_ended=1'
claim "the end of the session, and why" \
    logged "session_end user=alice node=$node from=$at_gateway session=[0-9]+ reason=not_allowed duration_s=[0-9]+ up_bytes=[0-9]+ down_bytes=[0-9]+"
claim "its further attempts" wait_for 30 logged "login_refused user=alice key_id=k1 from=$at_gateway reason=\"unknown user or key, or disabled\""
snapt_user enable alice >/dev/null
claim "that it is enabled" wait_for 5 logged 'user_changed user=alice change=enable sessions_ended=0'
claim "and its next login" wait_for 30 eval '[ "$(grep -c " *login user=alice" "$log")" -ge 2 ]'
wait_cnapt 30
# --- The operator ends its session, and it comes back
logins() { grep -c " *login user=alice" "$log"; }
before=$(logins)
claim "who has no session cannot be disconnected" eval '! snapt disconnect carol --socket "$(snapt_socket 1)"'
claim "an operator ends the sessions of a user" equal "$(snapt disconnect alice --socket "$(snapt_socket 1)")" "ended 1 session"
claim "which is logged as that" wait_for 5 logged "session_end user=alice node=$node from=$at_gateway session=[0-9]+ reason=ended_by_operator "
claim "the node says why" wait_for 5 grep -q "the operator ended the session" "$work/cnapt.log"
is_back() { more_than "$(logins)" "$before"; }
claim "and comes back" wait_for 30 is_back
wait_cnapt 30
stop cnapt
claim "a node that says goodbye" wait_for 5 logged "session_end user=alice .* reason=left duration_s="

# --- Keys and users that are wrong: the node hears the same of both
cp "$work/cnapt.toml" "$work/right.toml"
sed -i 's|^key *=.*|key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="|' "$work/cnapt.toml"
run_cnapt
claim "a key that is wrong" wait_for 10 logged 'login_refused user=alice key_id=k1 from=[^ ]+ reason="wrong key"'
stop cnapt
sed 's|^user *=.*|user = "carol"|' "$work/right.toml" >"$work/cnapt.toml"
run_cnapt
claim "a user that is unknown" wait_for 10 logged 'login_refused user=carol key_id=k1 from=[^ ]+ reason="unknown user or key, or disabled"'
stop cnapt
claim "no key is in the log" eval '! grep -q "$(key_of "$work/right.toml")" "$log"'

# --- A crowd: its lines are few, and say how many were left out
cp "$work/right.toml" "$work/cnapt.toml"
before=$(grep -c login_refused "$log") began=$EPOCHREALTIME
in_ns node "$python" - "$(snapt_address 1)" <<'END'
import socket, sys
for _ in range(150):
    with socket.create_connection((sys.argv[1], 9347), 5) as connection:
        connection.sendall(b"\x16\x03\x01\x00\x04junk")
        connection.settimeout(5)
        try:
            connection.recv(1)
        except OSError:
            pass
END
left_out() { grep -qE 'login_refused.* left_out=[0-9]+' "$log"; }
claim "strangers are counted beyond the limit" wait_for 30 left_out
lines=$(($(grep -c login_refused "$log") - before))
most=$("$python" -c "print(int(32 + 2 * $(since "$began") + 1))")
claim "and not logged one by one: 32 at once, then two a second ($lines of $most)" at_most "$lines" "$most"
start_cnapt
claim "a login among them is logged" wait_for 5 eval '[ "$(logins)" -ge 4 ]'
finish
