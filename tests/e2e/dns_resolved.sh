#!/usr/bin/env bash
# Names go through the tunnel where systemd-resolved looks them up: it is told so, resolv.conf is left alone while it leads
# there, and all is afterwards as it was, also after kill -9. The SNAPT's own name is asked of the servers that resolved has.
. "$(dirname "$0")/lib.sh"
tools=$(realpath "$(dirname "$0")/../..")/build/tools  # where ./test has unpacked what is not installed
PATH=$PATH:$tools/usr/bin
require ping getent unshare dbus-daemon resolvectl
resolved=/lib/systemd/systemd-resolved
[ -x "$resolved" ] || resolved=$tools$resolved
[ -x "$resolved" ] || skip "needs $resolved"
build_topology
start_snapt 1
add_user alice
printf '\n[dns]\nservers = ["203.0.113.10"]\n' >>"$work/cnapt.toml"
dns_server                                                # of the Internet: 203.0.113.80
for n in 1 2; do                                          # of the access points: SNAPT 1
    spawn "gw$n" "resolver$n" "$python" "$support_dir/dns_responder.py" --ipv4 198.51.100.2 --log "$work/asked$n"
    wait_for 10 listens "gw$n" 53
done

# The node has an /etc and a /run of its own, with a bus and resolved.
cp -a /etc "$work/etc"
mkdir -p "$work/run/dbus" "$work/run/systemd" "$work/etc/systemd" "$work/etc/dbus-1/system.d"
policy=usr/share/dbus-1/system.d/org.freedesktop.resolve1.conf
[ -e "/$policy" ] || cp "$tools/$policy" "$work/etc/dbus-1/system.d/"
sed -i '/^continuo:/d; /^systemd-resolve:/d; /^messagebus:/d' "$work/etc/passwd" "$work/etc/group"
for user in systemd-resolve:64791 messagebus:64792; do
    echo "${user%:*}:x:${user#*:}:${user#*:}::/:/usr/sbin/nologin" >>"$work/etc/passwd"
    echo "${user%:*}:x:${user#*:}:" >>"$work/etc/group"
done
printf '[Resolve]\nFallbackDNS=\nDNSSEC=no\nLLMNR=no\nMulticastDNS=no\nCache=no\n' >"$work/etc/systemd/resolved.conf"
printf 'hosts: files dns\n' >"$work/etc/nsswitch.conf"
resolv=$work/etc/resolv.conf
rm -f "$resolv"
ln -s ../run/systemd/resolve/stub-resolv.conf "$resolv"
chmod 755 "$work" "$work/etc" "$work/run"
with_places='mount --bind "$0/etc" /etc && mount --bind "$0/run" /run && exec "$@"'
# cnapt looks for resolvectl where the package has it.
[ -x /usr/bin/resolvectl ] || with_places="mount -t overlay -o lowerdir=$tools/usr/bin:/usr/bin overlay /usr/bin && $with_places"
node_shell=(unshare -m sh -c "$with_places" "$work")
spawn node bus dbus-daemon --config-file=/usr/share/dbus-1/system.conf --nofork --nopidfile
wait_for 10 test -S "$work/run/dbus/system_bus_socket"
spawn node resolved "$resolved"
wait_for 10 test -S "$work/run/systemd/resolve/io.systemd.Resolve"
tell() { in_ns node resolvectl "$@"; }
resolves_to() { equal "$(in_ns node getent ahostsv4 name.example | awk 'NR == 1 { print $1 }')" "$1"; }
is_dns() { equal "$(cnapt_json status | json 'd["dns"]["state"]')" "$1"; }
goes_through_tunnel() { is_dns tunnel && resolves_to 203.0.113.80; }
leads_to_stub() { equal "$(readlink "$resolv")" ../run/systemd/resolve/stub-resolv.conf; }
by_resolver() { wc -l <"$work/asked$1"; }

wait_for 10 tell dns up1 192.168.1.1
claim "without cnapt the access point resolves, by resolved" wait_for 10 resolves_to 198.51.100.2
start_cnapt
claim "with it, names are looked up through the tunnel" wait_for 10 goes_through_tunnel
claim "resolved has been told" eval 'tell dns cnapt0 | grep -q "203.0.113.10" && tell domain cnapt0 | grep -q "~\."'
claim "resolv.conf still leads to it" leads_to_stub
asked=$(by_resolver 1)
claim "names go on resolving" eval 'for i in 1 2 3 4 5; do in_ns node getent ahostsv4 "a$i.example" | grep -q "^203.0.113.80 " || exit 1; done'
claim "without the access point" equal "$(by_resolver 1)" "$asked"
move 2 11
tell dns up2 192.168.2.1
claim "after a move, too" wait_for 10 goes_through_tunnel
claim "the new access point is not asked either" equal "$(by_resolver 2)" 0


# --- A helper that is killed alone, while no SNAPT answers

helper_pid() { for pid in $(ip netns pids "$(ns node)"); do [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != cnapt-dns ] || echo "$pid"; done; }
helper=$(helper_pid)
kill -STOP "$helper"
stop snapt1 KILL
noticed() { in_ns node ping -n -c 1 -W 1 203.0.113.10; grep -q 'does not answer' "$work/cnapt.log"; }
wait_for 40 noticed
kill -KILL "$helper"
claim "what it had told resolved is undone by the next one" wait_for 10 resolves_to 198.51.100.2
start_snapt 1
claim "and told anew when a SNAPT answers" wait_for 30 goes_through_tunnel
stop cnapt
claim "stop gives resolved back what it had" wait_for 5 resolves_to 198.51.100.2
nothing_of_ours() { ! in_ns node grep -q 203.0.113.10 /run/systemd/resolve/resolv.conf; }
claim "no server of ours is left" wait_for 5 nothing_of_ours
claim "and resolv.conf" leads_to_stub
start_cnapt
wait_for 10 goes_through_tunnel
stop cnapt KILL
claim "so does kill -9" wait_for 10 resolves_to 198.51.100.2
claim "resolv.conf is as it was" leads_to_stub

# --- A file that does not lead to resolved is changed as well

rm "$resolv"
printf 'nameserver 192.168.2.1\n' >"$resolv"
start_cnapt
claim "a resolv.conf of somebody else's is replaced as well" wait_for 10 grep -qx 'nameserver 203.0.113.10' "$resolv"
claim "and resolved told" eval 'tell dns cnapt0 | grep -q "203.0.113.10"'
stop cnapt
claim "the file is as before" equal "$(cat "$resolv")" "nameserver 192.168.2.1"
claim "and resolved" wait_for 5 nothing_of_ours
rm "$resolv"
ln -s ../run/systemd/resolve/stub-resolv.conf "$resolv"

# --- The link is replaced while names go through the tunnel

start_cnapt
wait_for 10 goes_through_tunnel
rm "$resolv"
printf 'nameserver 192.168.2.1\n' >"$resolv"
claim "one that is put there later is replaced, too" wait_for 10 grep -qx 'nameserver 203.0.113.10' "$resolv"
stop cnapt
claim "and comes back" equal "$(cat "$resolv")" "nameserver 192.168.2.1"
rm "$resolv"
ln -s ../run/systemd/resolve/stub-resolv.conf "$resolv"

# --- The SNAPT's own name

sed -i 's/198\.51\.100\.2:9347/snapt.example.org:9347/' "$work/cnapt.toml"
set_capture 'kill_switch = true'
asked=$(by_resolver 2)
start_cnapt
claim "a SNAPT given by name is asked of the server that resolved asks, with the kill switch too" more_than "$(by_resolver 2)" "$asked"
claim "names go through the tunnel" wait_for 10 goes_through_tunnel
stop cnapt
finish
