#!/usr/bin/env bash
# Mistakes that people make, and what they are told: the message and the exit code, to the letter. A daemon is never needed,
# unless the mistake is made with one.
. "$(dirname "$0")/lib.sh"
require setpriv
cd "$work" || exit 1
made=0

# mistake CODE MESSAGE COMMAND... : what is said, without times and up to the usage, is that message. $work is written as DIR.
mistake() {
    local code=$1 want=$2 got said
    shift 2
    made=$((made + 1))
    said=$("$@" 2>&1 </dev/null)
    got=$?
    said=$(sed -E '/^usage:/,$d; s/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z //' <<<"$said")
    claim "${want%%$'\n'*}" equal "$got: ${said//"$work"/DIR}" "$code: $want"
}

cat >good.toml <<'END'
[identity]
user = "alice"
key_id = "k1"
key = "n9P1yjCoLOQ03gBHiP8ikbKqkE3xP56nGXv0J0WjsBs="

[[snapt]]
name = "zrh-1"
addresses = ["203.0.113.9:9347"]

[capture]
device = "cnapt0"
END
chmod 600 good.toml
# in_node CODE MESSAGE SED-SCRIPT : a mistake in cnapt.toml, which the script makes; DIR/c.toml stands in front.
in_node() {
    sed "$3" good.toml >c.toml
    chmod 600 c.toml
    mistake "$1" "DIR/c.toml:$2" cnapt check --config "$work/c.toml"
}
# in_server CODE MESSAGE SED-SCRIPT : the same in snapt.toml.
in_server() {
    sed "$3" server.toml >s.toml
    chmod 600 s.toml
    mistake "$1" "DIR/s.toml:$2" snapt check --config "$work/s.toml"
}
# in_policy CODE MESSAGE LINE... : a policy of these lines; DIR/p.toml stands in front.
in_policy() {
    local code=$1 message=$2
    shift 2
    printf '%s\n' "$@" >p.toml
    mistake "$code" "DIR/p.toml:$message" cnapt check --config good.toml --policy "$work/p.toml"
}

# --- On the command line
mistake 64 'cnapt: no command' cnapt
mistake 64 'cnapt: unknown command "stats"; did you mean "status"?' cnapt stats
mistake 64 'cnapt: unknown option "--jsn"; did you mean "--json"?' cnapt status --jsn
mistake 64 'cnapt: unexpected argument "extra"' cnapt flows extra
mistake 64 'cnapt: --timeout "soon"; expected seconds, such as 10' cnapt status --wait up --timeout soon
mistake 1 'cnapt: no daemon answers at DIR/no.sock; start it with `cnapt run`' cnapt status --socket "$work/no.sock"
mistake 78 'nope.toml:1:1: error: cannot be read: No such file or directory; expected a readable file' cnapt check --config nope.toml
mistake 64 'snapt: --public is missing: the addresses at which nodes reach this SNAPT, such as 203.0.113.9:9347' \
    snapt init --name zrh-1 --config server.toml --state state
snapt init --name zrh-1 --config server.toml --state state --public 203.0.113.9:9347 >/dev/null
mistake 1 'snapt: server.toml is there already; remove it first, or name another --config' \
    snapt init --name zrh-1 --config server.toml --state state --public 203.0.113.9:9347
mistake 64 'snapt: user name "al ice"; expected 1 to 64 letters, digits and . _ @ -, not . or - first' \
    snapt user add 'al ice' --config server.toml --state state --socket no.sock
mistake 64 'snapt: user name ""; expected 1 to 64 letters, digits and . _ @ -, not . or - first' \
    snapt user add '' --config server.toml --state state --socket no.sock
mistake 1 'snapt: cannot write the output: No space left on device' \
    sh -c 'snapt user add erin --config server.toml --state state --socket no.sock >/dev/full'
mistake 1 'cnapt: cannot write the output: No space left on device' sh -c 'cnapt help status >/dev/full'
mistake 1 'cnapt: cannot write the output: No space left on device' sh -c 'cnapt --version >/dev/full'
mistake 64 'snapt: --by "nonsense"; expected user, class, snapt, day, month or app' snapt usage --by nonsense
mistake 64 'snapt: --from "yesterday"; expected a day (2026-11-01), a time (2026-11-01T12:00:00Z) or Unix seconds, and a known --zone' \
    snapt usage --from yesterday

# --- In cnapt.toml
in_node 78 '11:1: error: unknown key "devise" in [capture]; expected "device"' 's/device/devise/'
in_node 78 '10:1: error: unknown key "captur"; expected "capture"' 's/^\[capture\]/[captur]/'
in_node 78 '8:14: error: "addresses" holds "203.0.113.9:99999"; expected ADDRESS:PORT, [ADDRESS]:PORT or NAME:PORT, port 1 to 65535' 's/9347/99999/'
in_node 78 '4:7: error: "key" is no base 64; expected base 64 of 32 bytes, which is 44 characters' 's/^key = .*/key = "abc"/'
in_node 78 '1:1: error: missing key "user" in [identity]; expected a user name' 's/^user.*//'
in_node 78 '11:10: error: "device" is 7; expected an interface name of at most 15 characters' 's/"cnapt0"/7/'
in_node 78 '11:12: error: "exclude" holds "10.0.0.0/33"; expected an IP prefix such as "192.0.2.0/24", host bits zero' 's/^device.*/exclude = ["10.0.0.0\/33"]/'
in_node 78 '6:1: error: "snapt" is a table; expected tables headed [[snapt]]' 's/^\[\[snapt\]\]/[snapt]/'
in_node 78 '1:1: error: missing key "snapt"; expected at least one [[snapt]] with name and addresses' '/snapt/,$d'
in_node 78 '2:8: error: "user" is "al ice"; expected a name of 1 to 64 letters, digits and "._-@+"' 's/"alice"/"al ice"/'
in_node 78 '2:8: error: invalid value; expected a string in quotes, a number, true, false, a list or a table' 's/"alice"/alice/'
in_node 78 '11:15: error: "kill_switch" is "yes"; expected true or false' 's/^device.*/kill_switch = "yes"/'
in_node 78 '11:10: error: "device" is "a-very-long-device-name"; expected an interface name of at most 15 characters' 's/cnapt0/a-very-long-device-name/'

# --- In snapt.toml
in_server 78 '5:11: error: "listen" holds "0.0.0.0"; expected ADDRESS:PORT or [ADDRESS]:PORT, port 1 to 65535' 's/^listen = .*/listen = ["0.0.0.0"]/'
in_server 78 '6:10: error: "public" is an empty list; expected at least one address' 's/^public = .*/public = []/'
in_server 78 '11:8: error: "ipv4" is "100.64.0.1/16"; expected an IPv4 prefix of length 1 to 30, or false' 's/^ipv4 = .*/ipv4 = "100.64.0.1\/16"/'
in_server 78 '80:14: error: "interval_s" is 70; expected a divisor of 900' 's/^interval_s = .*/interval_s = 70/'
in_server 78 '83:16: error: "destinations" is "all"; expected "none", "port" or "full"' 's/^destinations = .*/destinations = "all"/'
in_server 78 '7:15: error: "protection" holds "none"; expected "encrypt" or "authenticate"' 's/^protection = .*/protection = ["none"]/'
in_server 78 '40:11: error: "hold_ms" is -5; expected a number of ms from 0 to 10000' 's/^hold_ms = 5 .*/hold_ms = -5/'

# --- In policy.toml
rule='match = { proto = ["tcp"] }'
in_policy 78 '4:9: error: "class" is "fast"; expected "lt-ld", "ht-ld", "lt-hd" or "ht-hd"' '[[rule]]' 'app = "a"' "$rule" 'class = "fast"'
in_policy 78 '3:20: error: "dport" holds 70000; expected a port from 1 to 65535 or a range "A-B"' '[[rule]]' 'app = "a"' 'match = { dport = [70000] }' 'class = "lt-ld"'
in_policy 78 '3:11: error: unknown key "prot" in [rule.match]; expected "proto"' '[[rule]]' 'app = "a"' 'match = { prot = ["tcp"] }' 'class = "lt-ld"'
in_policy 78 '1:1: error: missing key "match" in [rule]; expected match = { process, parent, user, proto, dport, dst or dscp }' \
    '[[rule]]' 'app = "a"' 'class = "lt-ld"'
in_policy 78 '1:1: error: unknown key "rules"; expected "rule"' '[[rules]]' 'class = "lt-ld"'

# --- While it runs
mistake 1 'cnapt: needs the right to configure the network (CAP_NET_ADMIN); run it as root' \
    setpriv --reuid 65534 --clear-groups cnapt run --config "$work/good.toml" --state "$work/state"

# begin NAME COMMAND... : a daemon of the host `one`, until its socket answers.
begin() {
    spawn one "host-$1" "${@:2}"
    wait_for 10 in_ns one "$1" status --socket "$work/$1.sock" || true
}
new_namespace one
mkdir -p state node
begin snapt snapt run --config "$work/server.toml" --state "$work/state" --socket "$work/snapt.sock"
mistake 1 'error: cannot open the ledger in DIR/state: state folder is in use by another snapt' in_ns one snapt run --config "$work/server.toml" --state "$work/state" --socket "$work/other.sock"
mistake 1 'snapt: there is no user "bob"' in_ns one snapt user disable bob --socket "$work/snapt.sock"
in_ns one snapt user add bob --socket "$work/snapt.sock" >/dev/null
mistake 1 'snapt: there is a user of this name already; --device NAME without --quota gives it another key' in_ns one snapt user add bob --socket "$work/snapt.sock"
mistake 1 'snapt: cannot read --key-file DIR/none: No such file or directory' in_ns one snapt user add carol --key-file "$work/none" --socket "$work/snapt.sock"
echo abc >short.key
mistake 64 'snapt: --key-file DIR/short.key: no key in it; expected 32 bytes in base64 and nothing else, or the cnapt.toml of the user' in_ns one snapt user add carol --key-file "$work/short.key" --socket "$work/snapt.sock"
mistake 64 'snapt: --quota "lots"; expected a size per day or month, such as 50GiB/month' in_ns one snapt user add carol --quota lots --socket "$work/snapt.sock"
mistake 1 "cnapt: no permission for the daemon's socket at DIR/snapt.sock; use root or join the group continuo" setpriv --reuid 65534 --clear-groups cnapt status --socket "$work/snapt.sock"
begin cnapt cnapt run --config "$work/good.toml" --state "$work/node" --socket "$work/cnapt.sock"
mistake 1 'error: another cnapt uses DIR/node: lock file: Resource temporarily unavailable' in_ns one cnapt run --config "$work/good.toml" --state "$work/node" --socket "$work/other.sock"
mistake 1 'error: cannot open TUN device cnapt0: create tun interface: Device or resource busy; another program has this device: stop it, or choose another `device` in the configuration' in_ns one cnapt run --config "$work/good.toml" --state "$work/node2" --socket "$work/other.sock"

echo "$made mistakes"
claim "at least 30 are made" more_than "$made" 29
finish
