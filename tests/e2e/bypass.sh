#!/usr/bin/env bash
# Traffic that the policy or the configuration excludes never enters the tunnel: by prefix, port, protocol and user.
. "$(dirname "$0")/lib.sh"
require curl dig ping setpriv
build_topology
address inet eth 203.0.113.20/24 203.0.113.30/24
ipv6_beside 1
start_snapt 1
add_user alice
set_capture 'exclude = ["203.0.113.20/32"]'
policy_file=$work/policy.toml
cat >"$policy_file" <<'END'
version = 1

[[rule]]
app = "not-this-port"
match = { dst = "203.0.113.30/32", dport = 81 }
class = "ht-hd"

[[rule]]
app = "voice"
match = { proto = ["tcp", "icmp"], dscp = "ef" }
class = "lt-ld"

[[rule]]
app = "curl"
match = { process = "curl", dport = [80, 8080] }
class = "ht-hd"

[[rule]]
app = "near"
match = { dst = "203.0.113.30/32" }
action = "bypass"

[[rule]]
app = "alternative"
match = { proto = "tcp", dport = [8080, "8090-8099"] }
action = "bypass"

[[rule]]
app = "nobody"
match = { user = "nobody" }
action = "bypass"
END
claim "the policy is good" cnapt check "$policy_file"
start_cnapt
mkdir "$work/www"
echo small >"$work/www/small"
chmod 755 "$work" "$work/www"
for port in 80 81 8080 8095 8100; do
    spawn inet "http$port" "$python" "$support_dir/http_server.py" --directory "$work/www" --port $port
    wait_for 10 listens inet $port
done
from() { # from EXPECTED PORT HOST COMMAND... : the server on the port sees the request come from there
    local expected=$1 port=$2 host=$3
    shift 3
    equal "$(in_ns node "$@" curl -sS -m 5 "http://$host:$port/small")" small &&
        equal "$(tail -n 1 "$work/http$port.log" | cut -d' ' -f1)" "::ffff:$expected"
}
plain=192.0.2.2 tunnelled=198.51.100.2
claim "what no rule names is tunnelled" from $tunnelled 80 $inet4
claim "an excluded prefix is not" from $plain 80 203.0.113.20
claim "a prefix that the policy bypasses is not" from $plain 80 203.0.113.30
claim "but what an earlier rule serves is" from $tunnelled 81 203.0.113.30
claim "a port is not" from $plain 8080 $inet4
claim "a port of a range is not" from $plain 8095 $inet4
claim "the port behind the range is" from $tunnelled 8100 $inet4
claim "a user's traffic is not" from $plain 80 $inet4 setpriv --reuid nobody --clear-groups
claim "bypassed pings are answered" in_ns node ping -n -c 2 -i 0.1 -W 5 203.0.113.30
none_in_tunnel() { cnapt_json flows | json_true "not any(f['dst'] == '203.0.113.20' or (f['dst'] == '203.0.113.30' and f['dport'] != 81) or f['dport'] in (8080, 8095) for f in d)"; }
claim "none of it was ever a flow of the tunnel" none_in_tunnel

# All ICMP, which is that of IPv6, too: counted where it would go plain.
in_ns gw1 nft 'add table inet seen; add chain inet seen forward { type filter hook forward priority 0; };
    add counter inet seen four; add counter inet seen six;
    add rule inet seen forward iifname lan icmp type echo-request counter name four;
    add rule inet seen forward iifname lan icmpv6 type echo-request counter name six'
seen() { in_ns gw1 nft -j list counter inet seen "$1" | json '[o["counter"]["packets"] for o in d["nftables"] if "counter" in o][0]'; }
pings() { in_ns node ping "-$1" -n -c 2 -i 0.1 -W 5 "$2" >/dev/null && equal "$(seen four) $(seen six)" "$3"; }
claim "pings are tunnelled" pings 4 $inet4 "0 0"
claim "pings over IPv6 are, too" pings 6 $inet6 "0 0"
cat >"$policy_file" <<'END'
version = 1

[[rule]]
app = "diagnosis"
match = { proto = "icmp" }
action = "bypass"
END
cnapt reload --socket "$work/cnapt.sock" >/dev/null
claim "pings that the policy bypasses go plain" wait_for 5 eval 'pings 4 $inet4 "$(($(seen four) + 2)) $(seen six)"'
claim "those over IPv6, too" pings 6 $inet6 "$(seen four) 2"

# After a reload the new rules hold, in their order.
cat >"$policy_file" <<'END'
version = 1

[[rule]]
app = "alternative"
match = { proto = "tcp", dport = 8100 }
action = "bypass"
END
claim "the policy is reloaded" cnapt reload --socket "$work/cnapt.sock"
claim "what was bypassed is tunnelled now" wait_for 5 from $tunnelled 8080 $inet4
claim "and the new rule holds" wait_for 5 from $plain 8100 $inet4
claim "an excluded prefix stays so" from $plain 80 203.0.113.20

# A cgroup, where there is such a tree and eBPF may be loaded.
tree=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
group=${tree:-/nonexistent}/$tag
remove_group() { [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null; }
if mkdir "$group" 2>/dev/null; then
    trap 'remove_group; clean_up' EXIT
    cat >"$policy_file" <<END
version = 1

[[rule]]
app = "first"
match = { dport = 8100 }
class = "ht-hd"

[[rule]]
app = "backup"
match = { cgroup = "$tag" }
action = "bypass"
END
    reload_says() { cnapt reload --socket "$work/cnapt.sock" | grep -q 'needs restart.*cgroup'; }
    claim "that cgroups are others takes a restart, says reload" reload_says
    stop cnapt
    start_cnapt
fi
if [ -d "$group" ] && ! grep -qE 'is not bypassed: .*(not permitted|Function not)' "$work/cnapt.log"; then
    # of_group COMMAND... : in the node's namespace, of the cgroup
    of_group() { (echo $BASHPID >"$group/cgroup.procs" && "$@"); }
    claim "what a cgroup sends is not tunnelled" of_group from $plain 80 $inet4
    claim "nor in a cgroup below it" eval 'mkdir "$group/below" && (echo $BASHPID >"$group/below/cgroup.procs" && from $plain 80 $inet4)'
    claim "but what an earlier rule serves is" of_group from $tunnelled 8100 $inet4
    claim "what others send is tunnelled" from $tunnelled 80 $inet4
    claim "pings of it are not" of_group pings 4 $inet4 "$(($(seen four) + 2)) $(seen six)"
else
    echo "      skipped: bypass by cgroup: no cgroup v2 tree, or eBPF may not be loaded"
fi

for wrong in 'process = "curl"' 'dscp = "ef"'; do
    printf 'version = 1\n\n[[rule]]\napp = "x"\nmatch = { %s }\naction = "bypass"\n' "$wrong" >"$work/wrong.toml"
    refused() { ! cnapt check "$work/wrong.toml"; }
    claim "check refuses to bypass by ${wrong%% *}" refused
done
finish
