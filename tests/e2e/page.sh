#!/usr/bin/env bash
# The web page in a browser: what an operator and what a user sees of the usage there is, without an error in the
# console, with names for all that a screen reader or a keyboard needs, in light and dark, and on a phone.
# SCREENSHOTS=DIR keeps pictures there.
. "$(dirname "$0")/lib.sh"
require curl chromium-headless-shell
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build_topology
mkdir -p "$work/s1" "$work/www" "$work/browser"
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" >/dev/null
sed -i 's|^# listen = .*|listen = ["127.0.0.1:9348"]|' "$work/snapt1.toml"
start_snapt 1
add_user alice
start_cnapt
head -c 3000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
claim "a download" in_ns node curl -sS -m 20 -o /dev/null "http://$inet4/file"
tokens() { snapt token "$@" --state "$work/s1" --config "$work/snapt1.toml"; }
snapt plan add "$source_dir/packaging/config/plan.toml.example" --from 2026-01-01 --state "$work/s1" >/dev/null
snapt plan use standard --from 2026-01-01 --state "$work/s1" >/dev/null
snapt_json 1 usage >/dev/null # seals
snapt rate --state "$work/s1" >/dev/null
snapt topup alice 50 --ref INV-1 --state "$work/s1" >/dev/null
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
claim "and nothing in the console" is_quiet "$work/office.html"
claim "the user's view opens" dom "$own" "$work/own.html"
claim "with its name" has "$work/own.html" 'alice, at zrh-1'
claim "with its balance" has "$work/own.html" '<dt>Balance, denarii</dt><dd>49\.[0-9]+'
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

# --- A quota with "stop" that is used up
quota() { snapt quota set alice "$@" --state "$work/s1" >/dev/null; }
quota 1MB/day --then stop
is_stopped() { snapt_json 1 sessions | json_true "(d[0]['allowance'] or {}).get('state') == 'stopped'"; }
claim "the session is stopped" wait_for 10 is_stopped
for view in office own; do
    claim "the page says so ($view)" eval 'dom "${!view}" "$work/$view-stopped.html" && has "$work/$view-stopped.html" "stopped, the quota is used up until"'
done
quota none
is_free() { snapt_json 1 sessions | json_true "d[0]['allowance'] is None"; }
claim "without a quota it is not" wait_for 10 is_free
claim "nor does the page say so" eval 'dom "$own" "$work/own-free.html" && ! grep -q stopped "$work/own-free.html"'

# --- Pictures: wide and narrow, light and dark
shots=${SCREENSHOTS:-$work/shots}
mkdir -p "$shots"
picture() { browse "$1" "$work/picture" --hide-scrollbars --window-size="$3" --blink-settings=preferredColorScheme="$4" --screenshot="$shots/$2.png"; }
claim "a picture in light" picture "$office" page-light 1100,1500 1
claim "in dark" picture "$office" page-dark 1100,1500 0
claim "of a phone" picture "$own" page-phone 390,1500 0
is_png() { [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ]; }
for name in page-light page-dark page-phone; do
    claim "$name is one" is_png "$shots/$name.png"
done
finish
