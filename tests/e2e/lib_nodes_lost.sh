# For tests of nodes that end without a word and have lost their state; after lib.sh.
# shellcheck disable=SC2154

set_snapt() { # set_snapt KEY NUMBER : of snapt1
    sed -i "s/^#* *$1 *=.*/$1 = $2/" "$work/snapt1.toml"
    claim "$1 is set" grep -q "^$1 = $2" "$work/snapt1.toml"
}
# Another node, as the user's other devices are.
begin_anew() { rm -rf "$work/c"; run_cnapt; }
kill_node() {
    stop cnapt KILL
    ip -n "$(ns node)" link del cnapt0 2>/dev/null
}
works() { in_ns node ping -n -c 1 -W 3 $inet4; }
sessions() { snapt_json 1 sessions | json "$1"; }
