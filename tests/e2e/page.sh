#!/usr/bin/env bash
# The web page in a browser: what an operator and what a user sees of the usage there is, without an error in the
# console, with names for all that a screen reader or a keyboard needs, in light and dark, and on a phone.
# SCREENSHOTS=DIR keeps pictures there.
. "$(dirname "$0")/lib.sh"
require curl chromium-headless-shell
library=$CONTINUO_BIN/libwall_clock.so
[ -r "$library" ] || skip "needs $library"
! grep -qE '__asan_init|__tsan_init' "$(command -v snapt)" || skip "sanitizers want to be loaded first"
source_dir=$(cd "$(dirname "$0")/../.." && pwd)

# SNAPT with a wall clock of its own: it has seen some days before the page is opened.
mkdir "$work/bin"
head -c 8 /dev/zero >"$work/snapt.clock"
printf '#!/bin/sh\nexport WALL_CLOCK=%s LD_PRELOAD=%s\nexec %s "$@"\n' "$work/snapt.clock" "$library" "$CONTINUO_BIN/snapt" >"$work/bin/snapt"
chmod +x "$work/bin/snapt"
PATH=$work/bin:$PATH
hash -r
jump() { "$python" -c 'import struct, sys
with open(sys.argv[1], "r+b") as clock:
    clock.write(struct.pack("=q", int(sys.argv[2]) * 1000000))' "$work/snapt.clock" "$1"; }
days=12
jump $((-days * 86400))
build_topology
mkdir -p "$work/s1" "$work/www" "$work/browser"
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" >/dev/null
sed -i 's|^# listen = .*|listen = ["127.0.0.1:9348"]|' "$work/snapt1.toml"
start_snapt 1
snapt plan add "$source_dir/packaging/config/plan.toml.example" --from 2026-01-01 --state "$work/s1" >/dev/null
snapt plan use standard --from 2026-01-01 --state "$work/s1" >/dev/null
# Bob and carol have nodes elsewhere.
n=0
for user in bob carol; do
    n=$((n + 1))
    add_user $user
    mv "$work/cnapt.toml" "$work/$user.toml"
    sed -i "1i node = \"$user-laptop\"" "$work/$user.toml"
    new_namespace $user
    connect $user eth core $user
    address $user eth "203.0.113.$((126 + 4 * n))/30"
    address core $user "203.0.113.$((125 + 4 * n))/30"
    ip -n "$(ns $user)" route add default via "203.0.113.$((125 + 4 * n))"
    mkdir "$work/$user"
    spawn $user $user cnapt run --config "$work/$user.toml" --state "$work/$user" --socket "$work/$user.sock"
    claim "the node of $user is up" cnapt status --wait up --timeout 20 --socket "$work/$user.sock"
done
add_user alice
sed -i '1i node = "alice-router"' "$work/cnapt.toml"
start_cnapt
# Text, of which the tunnel saves some.
"$python" -c 'import random, sys
words = ["".join(random.choices("etaoinshrdlu", k=random.randrange(2, 9))) for _ in range(4000)]
for size in (200000, 1000000, 3000000):
    with open(f"{sys.argv[1]}/{size}", "w") as file:
        file.write(" ".join(random.choices(words, k=size // 3))[:size])' "$work/www"
http_server "$work/www"
spawn inet voice "$python" "$support_dir/voice.py" server 7001
wait_for 10 listens inet 7001
snapt quota set alice 1200kB/day --state "$work/s1" >/dev/null

# Usage of each on a day; the daemon books it when the quarter of an hour is over.
sizes=(1000000 3000000 200000 3000000 1000000)
on_a_day() { # on_a_day NS DAY
    in_ns "$1" "$python" "$support_dir/voice.py" client $inet4 7001 1 "$work/voice-$1" >/dev/null
    in_ns "$1" curl -sS -m 20 -o /dev/null "http://$inet4/${sizes[$((($2 + ${#1}) % ${#sizes[@]}))]}"
}
failed=0
for ((day = days; day >= 0; day--)); do
    jump $((-day * 86400))
    users=()
    for user in node bob carol; do
        on_a_day $user $day &
        users+=($!)
    done
    for user in "${users[@]}"; do wait "$user" || failed=$((failed + 1)); done
    sleep 1 # a tick at this day
done
claim "three users have downloads of $((days + 1)) days" equal $failed 0
tokens() { snapt token "$@" --state "$work/s1" --config "$work/snapt1.toml"; }
snapt_json 1 usage >/dev/null # seals
snapt rate --state "$work/s1" >/dev/null
snapt topup alice 50 --ref INV-1 --state "$work/s1" >/dev/null
for user in bob carol; do snapt topup $user 20 --ref INV-$user --state "$work/s1" >/dev/null; done
claim "the ledger is whole" snapt verify --state "$work/s1"
link_of() { tokens add "$@" --json | json "d['link']"; }
office=$(link_of office --scope admin)
own=$(link_of alice-page --self alice)
reader=$(link_of grafana --scope read)

# browse URL OUT OPTIONS... : the page after all that its script has asked for; the console goes to OUT.err.
browse() {
    local url=$1 out=$2
    shift 2
    in_ns snapt1 timeout 60 chromium-headless-shell --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$work/browser" --enable-logging=stderr --virtual-time-budget=9000 "$@" "$url" >"$out" 2>"$out.err"
}
dom() { browse "$1" "$2" --dump-dom; }
has() { grep -qE "$2" "$1" || { head -c 3000 "$1"; return 1; }; }
is_quiet() { ! grep "CONSOLE" "$1.err"; }

claim "the operator's view opens" dom "$office" "$work/office.html"
claim "with the name of the SNAPT" has "$work/office.html" 'zrh-1, as office'
claim "with a chart of days" has "$work/office.html" '<svg[^>]*aria-label="Payload by day and class'
claim "with bars in it" has "$work/office.html" '<rect class="ht-hd"'
claim "of users" has "$work/office.html" 'Payload of the users with most'
claim "with the session and its handovers" has "$work/office.html" 'handovers</th>.*alice'
claim "with money" has "$work/office.html" '<dt>To pay</dt><dd>[0-9]+\.[0-9]+'
claim "with the balances of users" has "$work/office.html" '<caption>Usage by user</caption>.*balance</th>'
claim "users and classes add up to the payload, and the discount to what is to pay" "$source_dir/tests/support/check_sums.py" "$work/office.html"
claim "all sessions began in the past" eval 'snapt_json 1 sessions | json_true "len(d) == 3 and all(s['"'since'"'] <= $EPOCHSECONDS for s in d)"'
claim "one is near the end of its quota" has "$work/office.html" 'near the end of the quota until'
claim "and nothing in the console" is_quiet "$work/office.html"
claim "the user's view opens" dom "$own" "$work/own.html"
claim "with its name" has "$work/own.html" 'alice, at zrh-1'
balance=$(snapt balance alice --json --state "$work/s1" | json "'%.6f' % ((d[0] if isinstance(d, list) else d)['balance_ud'] / 1e6)")
claim "with its balance ($balance)" has "$work/own.html" "<dt>Balance, denarii</dt><dd>${balance%%0*}"
claim "without those of users" has "$work/own.html" '<section id="users-part"[^>]* hidden'
claim "and nothing in the console" is_quiet "$work/own.html"
claim "a reader's view has no money" eval "dom '$reader' '$work/reader.html' && ! grep -q 'To pay' '$work/reader.html'"
claim "and nothing in the console" is_quiet "$work/reader.html"
claim "without a token there is the form" eval "dom http://127.0.0.1:9348/ '$work/login.html' && has '$work/login.html' '<main[^>]* hidden'"
claim "with a wrong one, too, and it says so" eval \
    "dom http://127.0.0.1:9348/#token=snapt_wrong '$work/wrong.html' && has '$work/wrong.html' 'not, or no longer, valid'"
for page in office own login; do
    claim "names and contrasts are right ($page)" \
        "$source_dir/tests/support/check_page.py" "$work/$page.html" "$source_dir/snapt/rest/page/page.css"
done

# --- Without a mouse, on a phone
for token in "$office" "$own"; do
    view=$([ "$token" = "$office" ] && echo operator || echo user)
    claim "it is used by keys, on 360 pixels ($view)" in_ns snapt1 timeout 120 \
        "$source_dir/tests/support/check_keyboard.py" "$work/browser-$view" http://127.0.0.1:9348/ "${token#*#token=}"
done

claim "an export has a limit, and says so" in_ns snapt1 timeout 120 \
    "$source_dir/tests/support/check_export.py" "$work/browser-export" http://127.0.0.1:9348/ "${office#*#token=}"

# --- A quota with "stop" that is used up
quota() { snapt quota set alice "$@" --state "$work/s1" >/dev/null; }
quota 1MB/day --then stop
allowance_of_alice() { snapt_json 1 sessions | json "[s['allowance'] for s in d if s['user'] == 'alice'][0]"; }
is_stopped() { allowance_of_alice | grep -q "'state': 'stopped'"; }
claim "the session is stopped" wait_for 10 is_stopped
for view in office own; do
    claim "the page says so ($view)" eval 'dom "${!view}" "$work/$view-stopped.html" && has "$work/$view-stopped.html" "stopped, the quota is used up until"'
done
claim "and the user how much of the quota is used" has "$work/own-stopped.html" '<dt>Quota</dt><dd>[0-9.]+ [KM]iB of 977 KiB used, until '
quota none
is_free() { equal "$(allowance_of_alice)" None; }
claim "without a quota it is not" wait_for 10 is_free
claim "nor does the page say so" eval 'dom "$own" "$work/own-free.html" && ! grep -q stopped "$work/own-free.html"'

# --- Pictures: wide and narrow, light and dark
quota 1200kB/day --then notify
is_warned() { allowance_of_alice | grep -q "'state': 'warned'"; }
claim "the quota warns again" wait_for 10 is_warned
shots=${SCREENSHOTS:-$work/shots}
mkdir -p "$shots"
picture() { browse "$1" "$work/picture" --hide-scrollbars --window-size="$3" --blink-settings=preferredColorScheme="$4" --screenshot="$shots/$2.png"; }
claim "a picture in light" picture "$office" page-light 1400,1500 1
claim "in dark" picture "$office" page-dark 1400,1500 0
claim "of a phone" picture "$own" page-phone 390,1500 0
is_png() { [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ]; }
for name in page-light page-dark page-phone; do
    claim "$name is one" is_png "$shots/$name.png"
done
finish
