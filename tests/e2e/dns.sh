#!/usr/bin/env bash
# Names resolve before, during and after a move, though the host's resolver was the access point that it has left: with
# [dns] servers they are asked through the tunnel. resolv.conf is afterwards as it was, also after kill -9, as root, as user
# continuo, with a helper of the service manager, and in a user namespace. The SNAPT's own name never needs the tunnel.
. "$(dirname "$0")/lib.sh"
require ping getent unshare setpriv
build_topology
start_snapt 1
add_user alice
dns_server                                                # of the Internet: 203.0.113.80
for n in 1 2; do                                          # of the access points: SNAPT 1
    spawn "gw$n" "resolver$n" "$python" "$support_dir/dns_responder.py" --ipv4 198.51.100.2 --log "$work/asked$n"
    wait_for 10 listens "gw$n" 53
done

# The node has an /etc of its own, which all its programs see.
number=64790
cp -a /etc "$work/etc"
rm -f "$work/etc/resolv.conf"
sed -i '/^continuo:/d' "$work/etc/passwd" "$work/etc/group"
chmod 755 "$work" "$work/etc"
make_tun_device
with_etc='mount --bind "$0/etc" /etc && mount --bind "$0/tun" /dev/net/tun && exec "$@"'
node_shell=(unshare -m sh -c "$with_etc" "$work")
resolv=$work/etc/resolv.conf
lan_file() { printf 'nameserver 192.168.%s.1\nsearch home.example\noptions timeout:1 attempts:5\n' "$1"; }
state_of() { stat -c '%F %a %u %g %y %i' "$resolv" 2>&1; [ ! -L "$resolv" ] || readlink "$resolv"; cat "$resolv" 2>&1; }
is_as_before() { equal "$(state_of)" "$(cat "$work/before")"; }
resolves_to() { equal "$(in_ns node getent ahostsv4 name.example | awk 'NR == 1 { print $1 }')" "$1"; }
dns_state() { cnapt_json status | json 'd["dns"]["state"]'; }
is_dns() { equal "$(dns_state)" "$1"; }
goes_through_tunnel() { is_dns tunnel && resolves_to 203.0.113.80; }
pid_named() { for pid in $(ip netns pids "$(ns node)"); do [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$1" ] || echo "$pid"; done; }
helper_pid() { pid_named cnapt-dns; }
no_helper() { [ -z "$(helper_pid)$(pid_named cnapt-dns-keep)" ]; }
kill_all() { # the daemon, its helper, and who would start another
    local others
    others="$(pid_named cnapt-dns-keep) $(helper_pid)"
    kill -STOP $others
    stop cnapt KILL
    kill -KILL $others
}
is_new_helper() { local pid; pid=$(helper_pid); [ -n "$pid" ] && [ "$pid" != "$1" ]; }
by_resolver() { wc -l <"$work/asked$1"; }

# --- Left alone

lan_file 1 >"$resolv"
state_of >"$work/before"
claim "without cnapt the access point resolves" resolves_to 198.51.100.2
start_cnapt
claim "without [dns] nothing is changed" is_as_before
claim "and status says so" is_dns off
stop cnapt

# --- A move

printf '\n[dns]\nservers = ["203.0.113.10"]\n' >>"$work/cnapt.toml"
start_cnapt
claim "with it, names are looked up through the tunnel" wait_for 10 goes_through_tunnel
claim "search list and options stay" grep -qx 'search home.example' "$resolv"
claim "the file may be read by everybody" equal "$(stat -c '%a %u' "$resolv")" "644 0"
claim "its helper has no capability" equal "$(sed -n 's/^CapEff:\t//p' "/proc/$(helper_pid)/status")" 0000000000000000
look_up_all_the_time() {
    exec_in_ns node sh -c 'i=0; while [ ! -e "$0/enough" ]; do
        i=$((i + 1)); getent ahostsv4 "name$i.example" | grep -q "^203.0.113.80 " && echo good || echo bad; sleep 0.02; done' "$work" >"$work/lookups"
}
look_up_all_the_time &
looking=$!
done_some() { [ "$(wc -l <"$work/lookups")" -ge "$1" ]; }
wait_for 10 done_some 20
asked=$(by_resolver 1)
for host in 11 12 13 14; do
    move $((1 + host % 2)) "$host"
    count=$(wc -l <"$work/lookups")
    wait_for 10 done_some $((count + 20))
done
touch "$work/enough"
wait "$looking"
claim "before, during and after four moves every name resolves ($(wc -l <"$work/lookups") of them)" equal "$(sort -u "$work/lookups")" good
claim "and no access point is asked" equal "$(by_resolver 1)" "$asked"
move 2 15
old_is_gone() { ! in_ns node ping -n -c 1 -W 1 192.168.1.1; }
claim "the resolver of the old access point cannot be reached any more" old_is_gone

# --- Somebody else's changes

lan_file 2 >"$work/etc/resolv.new"
mv -f "$work/etc/resolv.new" "$resolv"
is_ours() { grep -q '^nameserver 203.0.113.10$' "$resolv"; }
state_of >"$work/before"
claim "what a DHCP client writes is replaced again" wait_for 10 is_ours
claim "which is told" wait_for 5 grep -q 'DNS: resolv.conf was changed by another program' "$work/cnapt.log"
claim "and names still go through the tunnel" resolves_to 203.0.113.80
stop cnapt
claim "stop puts back what the DHCP client wrote" is_as_before
claim "which works" resolves_to 198.51.100.2
claim "no helper is left" wait_for 5 no_helper
claim "nor anything beside resolv.conf" equal "$(ls -A "$work/etc" | grep -c 'resolv.conf')" 1

# --- By hand, as the package does when it is removed

start_cnapt
wait_for 10 goes_through_tunnel
restore() { in_ns node cnapt resolver --restore --state "$work/c/dns"; }
claim "nothing is put back while it runs" eval '! restore'
kill_all
claim "after kill -9 of all, names go nowhere" eval '! is_as_before'
claim "and all can be put back by hand" wait_for 5 restore
claim "as it was" is_as_before

# --- A helper that is killed alone

start_cnapt
wait_for 10 goes_through_tunnel
lone_death() { # lone_death SIGNAL LEAST_MS : before there is another one
    local helper began
    helper=$(helper_pid)
    began=$(date +%s%3N)
    kill "-$1" "$helper"
    claim "a helper that is killed alone ($1) is started again" wait_for 20 is_new_helper "$helper"
    claim "after ${2} ms at least" more_than $(($(date +%s%3N) - began)) "$2"
    claim "and names go through the tunnel again" wait_for 10 goes_through_tunnel
}
lone_death KILL 900
claim "which is told" grep -q 'the helper that changes resolv.conf has ended; it is started again' "$work/cnapt.log"
claim "status knows of no fault any more" equal "$(cnapt_json status | json 'd["dns"]["error"]')" None
lone_death TERM 1900
lone_death KILL 3900
helper=$(helper_pid)
keeper=$(pid_named cnapt-dns-keep)
kill -KILL "$helper"
kill -TERM "$keeper"
claim "who is to start it puts back what it left when it is to end" wait_for 5 is_as_before
stop cnapt
start_cnapt
wait_for 10 goes_through_tunnel
helper=$(helper_pid)
kill -KILL "$helper"
stop cnapt KILL
claim "all is put back though the daemon is killed after it" wait_for 5 is_as_before
claim "and no helper is left" wait_for 5 no_helper

# --- Each kind of file, after stop and after kill -9

life() { # life TEXT : start, stop, start, kill -9, start, stop
    state_of >"$work/before"
    start_cnapt
    claim "$1: names go through the tunnel" wait_for 10 goes_through_tunnel
    stop cnapt
    claim "$1: stop leaves resolv.conf as it was" is_as_before
    start_cnapt
    wait_for 10 goes_through_tunnel
    stop cnapt KILL
    claim "$1: kill -9 of the daemon alone does so, too" wait_for 5 is_as_before
    start_cnapt
    wait_for 10 goes_through_tunnel
    kill_all
    claim "$1: after kill -9 of all, start" start_cnapt
    wait_for 10 goes_through_tunnel
    stop cnapt
    claim "$1: and stop leave resolv.conf as it was" is_as_before
}
life "as root, a file"
chown 4711:4712 "$resolv"
chmod 664 "$resolv"
life "another user's file"
mkdir -p "$work/etc/manager"
mv "$resolv" "$work/etc/manager/resolv.conf"
ln -s manager/resolv.conf "$resolv"
life "a link"
rm -f "$resolv"
life "no file"

# --- What cannot be changed

mkdir "$resolv"
start_cnapt
claim "something that is no file is left, and told" wait_for 5 grep -q 'cannot change resolv.conf (resolv.conf is no file)' "$work/cnapt.log"
claim "status says so" is_dns failed
claim "and the tunnel works" in_ns node ping -n -c 1 -W 5 $inet4
rmdir "$resolv"
lan_file 2 >"$resolv"
state_of >"$work/before"
claim "when it can be changed, it is" wait_for 40 goes_through_tunnel
stop cnapt
claim "and put back" is_as_before
if chattr +i "$resolv" 2>/dev/null; then
    state_of >"$work/before"
    start_cnapt
    claim "an immutable file is left, and told" wait_for 5 grep -q 'cannot change resolv.conf .*immutable' "$work/cnapt.log"
    stop cnapt
    claim "as it was" is_as_before
    chattr -i "$resolv"
fi

# --- Without a SNAPT

state_of >"$work/before"
start_cnapt
wait_for 10 goes_through_tunnel
stop snapt1 KILL
noticed() { in_ns node ping -n -c 1 -W 1 $inet4; is_dns plain; }
claim "while no SNAPT answers, names are looked up as without cnapt" wait_for 40 noticed
claim "from the file as it was" is_as_before
start_snapt 1
claim "and through the tunnel again when one does" wait_for 30 goes_through_tunnel
stop cnapt

# --- The SNAPT's own name

by_name=$work/by-name.toml
sed 's/198\.51\.100\.2:9347/snapt.example.org:9347/' "$work/cnapt.toml" >"$by_name"
chmod 600 "$by_name"
cp "$work/cnapt.toml" "$work/by-address.toml"
cp "$by_name" "$work/cnapt.toml"
asked=$(by_resolver 2)
start_cnapt
claim "a SNAPT given by name is found by the access point's resolver" more_than "$(by_resolver 2)" "$asked"
wait_for 10 goes_through_tunnel
asked=$(by_resolver 2)
stop snapt1 KILL
asked_again() { in_ns node ping -n -c 1 -W 1 $inet4; more_than "$(by_resolver 2)" "$asked"; }
claim "also while the host's names go through a tunnel that does not work" wait_for 30 asked_again
stop cnapt
start_snapt 1
set_capture 'kill_switch = true'
start_cnapt
claim "and with the kill switch" wait_for 10 goes_through_tunnel
stop cnapt
cp "$work/by-address.toml" "$work/cnapt.toml"

# --- As user continuo: root starts it and gives itself up

echo "continuo:x:$number:$number::/nonexistent:/usr/sbin/nologin" >>"$work/etc/passwd"
echo "continuo:x:$number:" >>"$work/etc/group"
chown "root:$number" "$work/cnapt.toml"
chmod 640 "$work/cnapt.toml"
mkdir -m 755 "$work/run"
chown "$number" "$work/run"
cnapt_json() { cnapt "$@" --json --socket "$work/run/cnapt.sock"; }
run_cnapt() {
    mkdir -p "$work/c"
    spawn node cnapt ${as_user-} cnapt run --config "$work/cnapt.toml" --state "$work/${state_name-c}" --socket "$work/run/cnapt.sock"
}
wait_cnapt() { cnapt status --wait up --timeout "${1:-20}" --socket "$work/run/cnapt.sock" >>"$work/cnapt.log" 2>&1; }
life "as continuo"
start_cnapt
wait_for 10 goes_through_tunnel
lone_death KILL 900
claim "the next one has no capability either" equal "$(sed -n 's/^CapEff:\t//p' "/proc/$(helper_pid)/status")" 0000000000000000
claim "nor who started it" equal "$(sed -n 's/^CapEff:\t//p' "/proc/$(pid_named cnapt-dns-keep)/status")" 0000000000000000
claim "the daemon is the user's" equal "$(cnapt_json status | json 'd["process"]["user"]')" continuo
stop cnapt

# --- As a service: the daemon is never root, and a service manager starts the helper for it

mkdir -p "$work/user-state"
chown "$number" "$work/user-state"
state_name=user-state
as_user="setpriv --reuid=$number --regid=$number --clear-groups --inh-caps=-all,+net_admin --ambient-caps=+net_admin"
mkdir -m 700 "$work/resolver-state"
spawn node manager "$python" "$support_dir/spawn_on_connect.py" --socket "$work/run/cnapt-dns.sock" --owner "$number" \
    setpriv --inh-caps=-all --bounding-set=-all --no-new-privs "$(command -v cnapt)" resolver --config "$work/cnapt.toml" --state "$work/resolver-state"
wait_for 10 test -S "$work/run/cnapt-dns.sock"
helper_pid() { for pid in $(ip netns pids "$(ns node)"); do tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q '^[^ ]*cnapt resolver ' && echo "$pid"; done; }
pid_named() { :; }  # nobody: the manager starts it
life "as a service"
start_cnapt
wait_for 10 goes_through_tunnel
lone_death KILL 900
lone_death TERM 1900
stop cnapt
claim "as a service: stop leaves resolv.conf as it was after that, too" is_as_before
stop manager
rm -f "$work/run/cnapt-dns.sock"
state_of >"$work/before"
start_cnapt
claim "without that helper it is told that resolv.conf cannot be changed" wait_for 5 grep -q 'cannot change resolv.conf .*not ours to write' "$work/cnapt.log"
claim "and resolv.conf stays" is_as_before
stop cnapt
unset as_user

# --- In a user namespace: root there is nobody outside

mkdir "$work/user"
cp -a "$work/etc" "$work/user/etc"
sed -i '/^continuo:/d' "$work/user/etc/passwd" "$work/user/etc/group"
cp "$work/by-address.toml" "$work/user/cnapt.toml"
sed -i 's/^kill_switch.*//; s/^\[capture\]$/&\nkill_switch = true/' "$work/user/cnapt.toml"
chown -R "$number:$number" "$work/user"
in_user_namespace='ip link set lo up; mount --bind "$0/etc" /etc && mount --bind "$0/../tun" /dev/net/tun && exec cnapt run --config "$0/cnapt.toml" --state "$0/state" --socket "$0/cnapt.sock"'
cp "$work/user/etc/resolv.conf" "$work/user/before"
if setpriv --reuid="$number" --regid="$number" --clear-groups unshare -Urnm true 2>/dev/null; then
    spawn inet unprivileged setpriv --reuid="$number" --regid="$number" --clear-groups unshare -Urnm sh -c "$in_user_namespace" "$work/user"
    claim "in a user namespace resolv.conf is changed" wait_for 10 grep -q '^nameserver 203.0.113.10$' "$work/user/etc/resolv.conf"
    stop unprivileged
    claim "and put back" wait_for 5 cmp "$work/user/before" "$work/user/etc/resolv.conf"
fi

# --- A file that is a mount of its own, as in containers

etc=/etc/netns/$(ns node)
mkdir -p "$etc" || finish
trap 'status=$?; rm -rf "$etc"; rmdir /etc/netns 2>/dev/null; (exit $status); clean_up' EXIT
chown root:root "$work/run" "$work/cnapt.toml"
state_name=mounted
lan_file 2 >"$etc/resolv.conf"
cp -p "$etc/resolv.conf" "$work/before.conf"
in_ns() { local name; name=$(ns "$1"); shift; ip netns exec "$name" "$@"; }
exec_in_ns() { local name; name=$(ns "$1"); shift; exec ip netns exec "$name" "$@"; }
start_cnapt
claim "a file that is a mount is written in place" wait_for 10 goes_through_tunnel
stop cnapt
claim "and put back" cmp "$work/before.conf" "$etc/resolv.conf"
claim "with its time" equal "$(stat -c %Y "$etc/resolv.conf")" "$(stat -c %Y "$work/before.conf")"
finish
