#!/usr/bin/env bash
# Runs as root of a minimal Debian, in namespaces of its own; /first.deb, /second.deb, /third.deb are the package.
set -uo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
held=0
failed=0
claim() {
    local text=$1
    shift
    if "$@" >/tmp/claim.out 2>&1; then
        held=$((held + 1))
        echo "ok    $text"
    else
        failed=$((failed + 1))
        echo "FAIL  $text"
        head -n 8 /tmp/claim.out | sed 's/^/      /'
    fi
}
equal() { [ "$1" = "$2" ] || { echo "have: $1"; echo "want: $2"; return 1; }; }
wait_for() {
    local end=$((SECONDS + $1 + 1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.05
    done
}
files() { find / -xdev \( -path /proc -o -path /sys -o -path /tmp -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache \) -prune -o -print | grep -v '^/etc/\(passwd\|group\|shadow\|gshadow\)-$' | sort; }
network() { network_here; nsenter --net=/run/netns/node bash -c "$(declare -f network_here); network_here"; }
network_here() {
    ip -4 rule; ip -6 rule
    ip -4 route show table all; ip -6 route show table all
    ip -br link | awk '{print $1}'
    nft -s list ruleset
    sysctl -a -r '^net\.' 2>/dev/null | grep -Ev 'nf_conntrack_count|fastopen_key|tcp_mem|udp_mem|stable_secret|\.(cnapt0|snapt0)\.'
}
# The network of the node, where cnapt runs with a way to snapt; beside the one that snapt runs in.
in_node() { nsenter --net=/run/netns/node "$@"; }
accounts() { cat /etc/passwd /etc/group /etc/shadow /etc/gshadow; }
ip netns add node
ip link set lo up
in_node ip link set lo up
ip link add lan type veth peer name eth netns node
ip link set lan addrgenmode none  # a link-local address would come some time later
in_node ip link set eth addrgenmode none
ip addr add 192.0.2.1/24 dev lan
ip link set lan up
in_node ip addr add 192.0.2.2/24 dev eth
in_node ip link set eth up
in_node ip route add default via 192.0.2.1
for where in env in_node; do
    $where nft 'add table ip warm; add chain ip warm c { type nat hook postrouting priority 0; }; delete table ip warm'
done
printf 'nameserver 192.0.2.53\n' >/etc/resolv.conf
touch -d @1000000000 /etc/resolv.conf
files >/tmp/files.before
accounts >/tmp/accounts.before
network >/tmp/network.before

claim "the package can be installed" dpkg -i /first.deb
version=$(dpkg-query -W -f '${Version}' continuo)
claim "cnapt runs" equal "$(cnapt --version)" "cnapt $version"
claim "snapt runs" equal "$(snapt --version)" "snapt $version"
for name in cnapt snapt; do
    claim "there is a user continuo-$name with a group of its own" equal "$(id -un continuo-$name):$(id -Gn continuo-$name)" continuo-$name:continuo-$name
done
claim "and a group for the commands" getent group continuo
claim "only root writes to /etc/continuo, and the group reads it" equal "$(stat -c %a:%U:%G /etc/continuo)" 2750:root:continuo
claim "the state is each user's alone" equal "$(stat -c %a:%U:%G /var/lib/snapt /var/lib/cnapt | tr '\n' ' ')" \
    "750:continuo-snapt:continuo-snapt 750:continuo-cnapt:continuo-cnapt "
claim "sockets have a folder for both" equal "$(stat -c %a:%U:%G /run/continuo)" 1770:root:continuo
claim "the policy as shipped is good" cnapt check /etc/continuo/policy.toml
head -c 32 /dev/urandom | base64 >/tmp/alice.key  # which the example of cnapt.toml names, and check wants to read
chmod 600 /tmp/alice.key
for example in cnapt snapt; do
    check_example() { sed 's|/etc/continuo/alice.key|/tmp/alice.key|' /etc/continuo/$example.toml.example >/tmp/example.toml && $example check /tmp/example.toml; }
    claim "so is the example of $example.toml" check_example
done
claim "so is the example of plan.toml" snapt plan check /etc/continuo/plan.toml.example
claim "the dissector for Wireshark is there" test -s /usr/share/continuo/wireshark/continuo.lua
claim "nothing runs yet" equal "$(pgrep -x 'cnapt|snapt')" ""

# run_daemon NAME COMMAND... : with the files of the package; then it says who it is and ends.
process() { "$1" status --json | sed -n 's/.*"process":{\([^}]*\)}.*/\1/p'; }
run_daemon() {
    local name=$1 daemon
    shift
    "$@" "$name" run >>"/tmp/$name.log" 2>&1 &
    daemon=$!
    wait_for 10 answers "$name"
    process "$name"
    kill $daemon
    wait $daemon || { tail -n 3 "/tmp/$name.log"; return 1; }
}
answers() { [ -n "$(process "$1")" ]; }
rights_of() { echo "\"user\":\"continuo-$1\",$rights"; }
rights='"capabilities":["CAP_NET_ADMIN"],"seccomp":true,"no_new_privs":true'
as_unit() { # as_unit CAPABILITIES COMMAND... : in place of the subshell
    local capabilities=-all,$1 user=continuo-$2
    shift
    exec setpriv --reuid "$user" --regid "$user" --groups continuo --bounding-set "$capabilities" --inh-caps "$capabilities" \
        --ambient-caps "$capabilities" --no-new-privs "$@"
}
unchanged() { diff /tmp/network.before <(network); }
claim "snapt init writes a configuration" snapt init --name zrh-1 --public 192.0.2.1:9347
claim "which the daemon's group can read" equal "$(stat -c %a:%U:%G /etc/continuo/snapt.toml)" 640:root:continuo-snapt
add_user() { snapt user add alice >/etc/continuo/cnapt.toml; }
claim "and a user can be added while no daemon runs" add_user
for daemon in snapt cnapt; do
    claim "$daemon, started by root, runs as continuo-$daemon" equal "$(run_daemon $daemon env)" "$(rights_of $daemon)"
    claim "and leaves the network as it was" unchanged
done
# As the units do: no root at all.
claim "snapt runs with no more than its unit gives" equal "$(run_daemon snapt as_unit +net_admin)" "$(rights_of snapt)"
claim "and leaves the network as it was, forwarding included" unchanged
claim "so does cnapt" equal "$(run_daemon cnapt as_unit +net_admin,+bpf)" "$(rights_of cnapt)"
claim "and leaves the network as it was" unchanged

# Both run, started by hand, while the package changes beneath them.
printf '\n[dns]\nservers = ["203.0.113.10"]\n' >>/etc/continuo/cnapt.toml
resolv_conf() { stat -c '%a %u %g %Y %i' /etc/resolv.conf; cat /etc/resolv.conf; }
resolv_conf >/tmp/resolv.before
in_tunnel() { grep -qx 'nameserver 203.0.113.10' /etc/resolv.conf; }
names_unchanged() { diff /tmp/resolv.before <(resolv_conf); }
is_up() { in_node cnapt status --wait up --timeout 15; }
start_both() {
    snapt run >>/tmp/snapt.log 2>&1 &
    both=$!
    wait_for 10 answers snapt
    nsenter --net=/run/netns/node cnapt run >>/tmp/cnapt.log 2>&1 &
    both="$both $!"
    is_up >/dev/null && wait_for 10 in_tunnel || { tail -n 3 /tmp/cnapt.log /tmp/snapt.log; return 1; }
}
wait_both() { # for those that were told to end, and their helpers
    local daemon
    for daemon in $both; do wait "$daemon" || { tail -n 3 /tmp/cnapt.log /tmp/snapt.log; return 1; }; done
    wait_for 5 nothing_runs
}
nothing_runs() { ! pgrep -x 'cnapt|snapt|cnapt-dns.*'; }
start_both
claim "both run, and names go through the tunnel" in_tunnel

echo '# changed here' >>/etc/continuo/policy.toml
is_kept() { tail -n 1 /etc/continuo/policy.toml | grep -qx '# changed here'; }
claim "a newer version can be installed over it" dpkg -i /second.deb
claim "which keeps a changed configuration file" is_kept
claim "also one that ships another" dpkg --force-confdef -i /third.deb
claim "keeps it" is_kept
claim "and puts its own beside it" grep -qx '# A newer policy.' /etc/continuo/policy.toml.dpkg-dist
claim "users and state stay" snapt user list
claim "the same as before" grep -q alice <(snapt user list)
claim "both daemons went on meanwhile" is_up
claim "and names through the tunnel" in_tunnel
replaced() { local daemon; for daemon in $both; do readlink "/proc/$daemon/exe" | grep -q '(deleted)' || return 1; done; }
claim "of programs that are replaced" replaced
kill $both
claim "they end" wait_both
claim "rules, routes, nftables and sysctls are as before" unchanged
claim "and resolv.conf" names_unchanged
start_both
claim "the new version starts with the same configuration" in_tunnel
kill $both
claim "and ends" wait_both

# A run that was killed has left its resolv.conf.
resolv=/etc/resolv.conf
mv $resolv /tmp/resolv.conf
echo 'nameserver 203.0.113.10' >$resolv
mkdir -m 700 /var/lib/cnapt-resolver
printf 'continuo kept resolv.conf 1\nkind 1\nmode 420\nuser 0\ngroup 0\nseconds 1000000000\nnanoseconds 0\nours 24\n\n%s\n%s\n' \
    'nameserver 203.0.113.10' 'nameserver 192.0.2.53' >/var/lib/cnapt-resolver/resolv.conf
claim "the package can be removed" dpkg -r continuo
claim "which puts the original of resolv.conf back" equal "$(stat -c '%a %Y' $resolv) $(cat $resolv)" "644 1000000000 nameserver 192.0.2.53"
rm $resolv
mv /tmp/resolv.conf $resolv
resolv_conf >/tmp/resolv.before
claim "its configuration and state stay" test -e /etc/continuo/policy.toml -a -e /etc/continuo/snapt.toml -a -e /var/lib/snapt/ledger.db
cp -a /etc/continuo /tmp/etc.before
claim "it can be installed again" dpkg -i /third.deb
kept() { diff -r /tmp/etc.before /etc/continuo; }
claim "and finds its configuration as it was" kept

# A run that was killed together with both helpers, and a purge before another one.
helpers() { pgrep -x 'cnapt-dns|cnapt-dns-keep'; }
kill_cnapt() { # so that none of them sees the others go
    local cnapt=${both#* } others
    others=$(helpers)
    equal "$(echo "$others" | wc -l)" 2 || return
    kill -STOP $others
    kill -KILL "$cnapt"
    wait "$cnapt"
    kill -KILL $others
    both=${both% *}
    wait_for 5 eval '! helpers'
}
start_both
claim "both run, and names go through the tunnel" in_tunnel
claim "cnapt and its helpers are killed" kill_cnapt
claim "names still go there, where nobody answers" in_tunnel
claim "only root can look for the original" eval '! setpriv --reuid continuo-snapt --regid continuo-snapt --clear-groups cnapt resolver --restore'
claim "the package can be purged" dpkg -P continuo
claim "which puts resolv.conf back" names_unchanged
claim "and ends the other daemon" wait_both

claim "it can be installed once more" dpkg -i /third.deb
configure() {
    snapt init --name zrh-1 --public 192.0.2.1:9347 && snapt user add alice >/etc/continuo/cnapt.toml &&
        printf '\n[dns]\nservers = ["203.0.113.10"]\n' >>/etc/continuo/cnapt.toml
}
claim "and configured" configure
start_both
claim "both run again, and names go through the tunnel" in_tunnel
kill -KILL ${both#* }
wait ${both#* } 2>/dev/null
both=${both% *}
claim "its helper puts resolv.conf back when cnapt alone is killed" wait_for 5 names_unchanged
nsenter --net=/run/netns/node cnapt run >>/tmp/cnapt.log 2>&1 &
both="$both $!"
claim "and the next one starts" wait_for 15 in_tunnel
restore() { cnapt resolver --restore ${1-} 2>&1; }
claim "nothing is put back while it runs" eval '! restore'
kill_cnapt
claim "the command finds the original" equal "$(restore)" "/etc/resolv.conf is as it was"
claim "and says so when there is none" equal "$(restore)" "nothing to put back"
claim "resolv.conf is as it was" names_unchanged
nsenter --net=/run/netns/node cnapt run >>/tmp/cnapt.log 2>&1 &
both="$both $!"
wait_for 15 in_tunnel
kill_cnapt
claim "with the state directory, too" equal "$(restore "--state /var/lib/cnapt")" "/etc/resolv.conf is as it was"
claim "as it was" names_unchanged
nsenter --net=/run/netns/node cnapt run >>/tmp/cnapt.log 2>&1 &
both="$both $!"
claim "both run again, and names go through the tunnel" wait_for 15 in_tunnel
claim "the package can be purged while they run" dpkg -P continuo
claim "which ends them" wait_both
claim "resolv.conf is as it was" names_unchanged
files >/tmp/files.after
accounts >/tmp/accounts.after
claim "no file is left" diff /tmp/files.before /tmp/files.after
claim "no user and no group" diff /tmp/accounts.before /tmp/accounts.after
claim "rules, routes, nftables and sysctls are as before" unchanged
echo "$held held, $failed failed"
[ "$failed" -eq 0 ]
