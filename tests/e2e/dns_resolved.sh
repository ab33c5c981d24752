#!/usr/bin/env bash
# Names go through the tunnel where systemd-resolved looks them up: it is told so, resolv.conf is left alone while it leads
# there, and all is afterwards as it was, also after kill -9. The SNAPT's own name is asked of the servers that resolved has.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_resolved.sh"
resolved_host
start_resolved

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

# --- Without resolvectl the link is replaced, and resolved takes our server from what is there

ours_of_all_links() { tell dns | grep '^Global:.*203.0.113.10'; }
with_all=("${node_shell[@]}")
node_shell=(unshare -m sh -c "${with_places% && exec*} && mount --bind /dev/null /usr/bin/resolvectl && exec \"\$@\"" "$work")
start_cnapt
node_shell=("${with_all[@]}")
claim "where it cannot be told the link is replaced" wait_for 10 grep -qx 'nameserver 203.0.113.10' "$resolv"
tell query c.example
claim "and it takes our server from there" ours_of_all_links
stop cnapt
claim "resolv.conf is as it was" leads_to_stub
claim "no server of ours is left" eval '! ours_of_all_links'
claim "and the access point is asked" eval 'for i in 1 2 3 4 5; do in_ns node getent ahostsv4 "b$i.example" | grep -q "^198.51.100.2 " || exit 1; done'

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
