#!/usr/bin/env bash
# The page "Billing" of OPERATIONS works word for word: all its commands are taken from its blocks and typed on a server and a
# laptop (lib_typed.sh) that begin as its quick start says, from nothing to the first statement. The server's wall clock is in
# the month that the page speaks of. There is no systemd here: systemctl is stood in for.
. "$(dirname "$0")/lib.sh"
require cmake ping curl unshare nsenter
. "$lib_dir/lib_typed.sh"
library=$CONTINUO_BIN/libwall_clock.so
[ -r "$library" ] || skip "needs $library"
! grep -qE '__asan_init|__tsan_init' "$(command -v snapt)" || skip "sanitizers want to be loaded first"
document=$source_tree/docs/OPERATIONS.md

# --- A server, a laptop and an Internet host at one router
new_namespace core server laptop inet
join_core() { # join_core NAME ADDRESS
    connect "$1" eth0 core "$1"
    address "$1" eth0 "$2/24"
    address core "$1" "${2%.*}.1/24"
    ip -n "$(ns "$1")" route add default via "${2%.*}.1"
}
join_core server 203.0.113.9
join_core laptop 192.0.2.10
join_core inet 198.51.100.2
in_ns core sysctl -qw net.ipv4.ip_forward=1
mkdir "$work/www"
head -c 2000000 /dev/urandom >"$work/www/file"
http_server "$work/www"

make_shims
clock=$work/server.clock
cat >"$shims/snapt" <<END
#!/bin/sh
export WALL_CLOCK=$clock LD_PRELOAD=$library
exec /usr/local/sbin/snapt "\$@"
END
cat >"$shims/systemctl" <<'END'
#!/bin/sh
case "$*" in
    "enable --now snapt") snapt run </dev/null >>/root/snapt.log 2>&1 & snapt status --wait up --timeout 15 ;;
    "enable --now cnapt") cnapt run </dev/null >>/root/cnapt.log 2>&1 & ;;
    *) echo "systemctl: not stood in for: $*"; exit 1 ;;
esac
END
chmod +x "$shims"/*
jump() { # jump TIME : of the server's clock
    "$python" -c 'import struct, sys, time
open(sys.argv[1], "r+b").write(struct.pack("=q", (int(sys.argv[2]) - int(time.time())) * 1000000))' "$clock" "$(date -d "$1" +%s)"
}
head -c 8 /dev/zero >"$clock"
jump "2026-12-31 12:05 UTC"

new_machine server laptop
for name in server laptop; do claim "build and install, on the $name" install_on $name; done
# From source there is no example in /etc.
on server install -m 0644 "$source_tree/packaging/config/plan.toml.example" /etc/continuo/
claim "a server begins" type_block server "Quick start" 1
carry server laptop alice.toml
claim "a laptop begins" type_block laptop "Quick start" 2

# --- The page
typed=0
type_next() { # type_next MACHINE HEADING NUMBER
    typed=$((typed + 1))
    type_block "$@"
}
first="From nothing to the first statement"
balance() { on server snapt balance alice --json | json "d[0]['balance_ud']"; }
claim "a plan is in use" type_next server "$first" 1
claim "which says what a MB costs, and that it is an example" said server 'not calibrated'
claim "alice pays and has a quota" type_next server "$first" 2
claim "which is in her balance" equal "$(balance)" 50000000
claim "a download" on laptop curl -sS -m 20 -o /dev/null http://198.51.100.2/file
claim "the month is looked at" type_next server "$first" 3
claim "alice has used something" said server 'alice +ht-hd'
jump "2026-12-31 12:16 UTC"
is_booked() { [ "$(balance)" -lt 50000000 ]; }
claim "it is booked when the quarter of an hour is over" wait_for 20 is_booked
claim "alice looks, too" type_next laptop "$first" 4
claim "and sees her SNAPT" said laptop 'zrh-1'
claim "another download" on laptop curl -sS -m 20 -o /dev/null http://198.51.100.2/file
on server snapt usage >/dev/null # seals
jump "2027-01-01 02:00 UTC"
claim "the first statement" type_next server "$first" 5
claim "is of the month" said server '^statement of alice \(account 1\), 2026-12, Europe/Zurich'
statement() { on server snapt statement alice --month "$@" --json | json "${code:-d}"; }
claim "it has both downloads" more_than "$(code="d['total']['payload_down']" statement 2026-12)" 3999999
claim "they are not free" more_than "$(code="d['total']['net_ud']" statement 2026-12)" 0
claim "payment less usage is what is left" equal "$(code="d['closing_ud'] == 50000000 - d['total']['net_ud']" statement 2026-12)" True
claim "as the balance says" equal "$(code="d['closing_ud']" statement 2026-12)" "$(balance)"
claim "nothing came late" equal "$(code="d['late']['records']" statement 2026-12)" 0
claim "the page to print is there" on server grep -q '<h1>Statement of alice, 2026-12</h1>' alice-2026-12.html
claim "and the table for programs" on server grep -q '^usage,ht-hd,' alice-2026-12.csv

plans="Plans and charges"
claim "a plan is compared" type_next server "$plans" 1
on server sed -i 's/^rho_denarii_per_mb = .*/rho_denarii_per_mb = 0.0/' /etc/continuo/plan.toml
before=$(balance)
claim "a revision of it rates again" type_next server "$plans" 2
claim "as a correction" said server 'usage rated again|rated again [1-9]'
claim "which takes the discount back" equal "$(balance)" $((before - $(code="d['total']['discount_ud']" statement 2026-12)))
on server snapt user add bob >/dev/null
claim "quotas are set" type_next server "Quotas" 1
on server snapt user remove bob >/dev/null
before=$(balance)
claim "money is booked" type_next server "Money" 1
claim "the payment of before once, a debit" equal "$(balance)" $((before - 2500000))
claim "all blocks of the page were typed" equal $typed "$(block Billing count)"
claim "nothing is amiss in the ledger" on server snapt verify
finish
