#!/usr/bin/env bash
# cnapt doctor and snapt doctor: a healthy pair, and set-ups that are broken in one place each, which its own line names with
# what to do. With and without a daemon, with and without root, within its time.
. "$(dirname "$0")/lib.sh"
require setpriv
build_topology
etc=/etc/netns/$(ns node)
trap 'status=$?; rm -rf "/etc/netns/$tag-"*; rmdir /etc/netns 2>/dev/null; (exit $status); clean_up' EXIT
# names_of NS SERVER : its hosts and resolv.conf.
names_of() {
    mkdir -p "/etc/netns/$(ns "$1")" || skip "cannot write to /etc/netns"
    echo "127.0.0.1 localhost" >"/etc/netns/$(ns "$1")/hosts"
    echo "nameserver $2" >"/etc/netns/$(ns "$1")/resolv.conf"
}
names_of node $inet4
dns_server
chmod 711 "$work"

node_files=(--state "$work/c" --socket "$work/cnapt.sock")
node_config=$work/cnapt.toml
doctor() { in_ns node cnapt doctor --config "$node_config" "${node_files[@]}" "$@" >"$work/said" 2>&1; }
doctor_of_snapt() {
    in_ns snapt1 snapt doctor --config "$work/snapt1.toml" --state "$work/s1" --socket "$(snapt_socket 1)" "$@" >"$work/said" 2>&1
}
# line VERDICT CHECK TEXT : patterns; there is such a line.
line() { grep -qE "^$1 +$2 +.*$3" "$work/said" || { grep -E "^[a-z]+ +$2 " "$work/said" || cat "$work/said"; return 1; }; }
no_line() { ! grep -E "^$1 +$2" "$work/said"; }
# finds CHECK TEXT : it fails, and that line says why.
finds() { if doctor; then cat "$work/said"; return 1; fi; line fail "$1" "$2"; }
finds_in_snapt() { if doctor_of_snapt; then cat "$work/said"; return 1; fi; line fail "$1" "$2"; }
is_well() { doctor || { cat "$work/said"; return 1; }; }
snapt_is_well() { doctor_of_snapt || { cat "$work/said"; return 1; }; }
# with LINE_OF_SED COMMAND... : with a copy of the node's configuration that is changed.
with() {
    local change=$1 status
    shift
    sed "$change" "$work/cnapt.toml" >"$work/changed.toml"
    chmod 600 "$work/changed.toml"
    node_config=$work/changed.toml
    "$@"
    status=$?
    node_config=$work/cnapt.toml
    return $status
}

# Where nothing answers a doctor takes long. Hosts of their own have it beside all the rest.
# guest NAME N NAME_SERVER [RULE] : such a host at the core; what comes from it meets the rule there.
guest() {
    new_namespace "$1"
    connect "$1" eth core "$1"
    address "$1" eth "192.0.2.$((130 + 16 * $2))/28"
    address core "$1" "192.0.2.$((129 + 16 * $2))/28"
    ip -n "$(ns "$1")" route add default via "192.0.2.$((129 + 16 * $2))"
    names_of "$1" "$3"
    [ -z "${4-}" ] || in_ns core nft "add table ip $1; add chain ip $1 from { type nat hook prerouting priority -100; };
        add chain ip $1 cut { type filter hook prerouting priority -300; }; add rule ip $1 $4"
}
# doctor_of_guest NAME CONFIGURATION : begins; finds_there has what it said.
doctor_of_guest() {
    chmod 600 "$2"
    {
        began=$EPOCHREALTIME
        in_ns "$1" cnapt doctor --config "$2" --state "$work/c" --socket "$work/guest.sock" >"$work/$1.said" 2>&1
        echo $? "$began" "$EPOCHREALTIME" >"$work/$1.end.new"
        mv "$work/$1.end.new" "$work/$1.end"
    } &
}
# finds_there NAME CHECK TEXT : as finds.
finds_there() {
    wait_for 70 test -e "$work/$1.end"
    cp "$work/$1.said" "$work/said"
    equal "$(cut -d' ' -f1 "$work/$1.end")" 1 && line fail "$2" "$3"
}

# --- Healthy

claim "before snapt init it says what to run" finds_in_snapt configuration 'snapt init'
start_snapt 1
claim "a SNAPT without users is told what to add" eval 'doctor_of_snapt; line warn users "snapt user add NAME"'
add_user alice

guest deaf 0 192.0.2.77 'cut iifname deaf ip daddr 192.0.2.77 drop'
sed 's/198.51.100.2:9347/snapt.invalid:9347/' "$work/cnapt.toml" >"$work/deaf.toml"
doctor_of_guest deaf "$work/deaf.toml"
# Nothing answers anywhere: three SNAPTs, seven addresses.
guest cut_off 1 $inet4 'cut iifname cut_off drop'
{
    cat "$work/cnapt.toml"
    for n in 2 3; do
        printf '\n[[snapt]]\nname = "far-%s"\naddresses = ["192.0.2.%s:9347", "192.0.2.%s:443", "far%s.invalid:9347"]\n' $n $((n + 60)) $((n + 70)) $n
    done
} >"$work/many.toml"
doctor_of_guest cut_off "$work/many.toml"
spawn core portal "$python" "$support_dir/portal.py" --port 8080 --url http://192.168.1.1:8080/login
wait_for 10 listens core 8080
guest stranded 2 $inet4 'from iifname stranded tcp dport { 80, 9347 } redirect to :8080'
cp "$work/cnapt.toml" "$work/stranded.toml"
doctor_of_guest stranded "$work/stranded.toml"

claim "a healthy SNAPT has nothing that fails" snapt_is_well
for check in configuration daemon tun nftables disk files users ledger 'listen .*:9347' 'public 198.51.100.2:9347' \
    'inner .*/[0-9]+' 'way out IPv4' forwarding 'forward policy' conntrack nat; do
    claim "it has looked at: $check" line ok "$check" ''
done

claim "a node without its daemon has nothing that fails" is_well
claim "but is told that none runs" line warn daemon 'none answers at .*; start it'
for check in configuration tun nftables kernel clock disk files 'uplinks' 'tcp 198.51.100.2:9347' 'udp 198.51.100.2:9347' \
    'mtu zrh-1' 'portal up1' 'login zrh-1' dns; do
    claim "it has looked at: $check" line ok "$check" ''
done
claim "a lease is not asked for under another id" line skipped 'lease zrh-1' 'this node has no id yet; start the daemon once'
mkdir -p "$work/c"
printf 0123456789abcdef | base64 >"$work/c/node_id"
claim "with its id, it is" eval 'is_well && line ok "lease zrh-1" ""'
rm "$work/c/node_id"
claim "the tunnel needs a daemon, which is said" line skipped tunnel 'needs a running daemon; start it'
no_session() { equal "$(snapt_json 1 sessions | json 'len(d)')" 0; }
claim "the login left no session" wait_for 5 no_session

start_cnapt
claim "a healthy node has nothing that fails" is_well
for check in daemon 'login zrh-1' 'lease zrh-1' 'tunnel zrh-1' dns capture leak 'portal up1'; do
    claim "it has looked at: $check" line ok "$check" ''
done
session_before=$(session)
doctor
claim "and its session is the same as before" equal "$(session)" "$session_before"
claim "each line has a verdict, a check and what was found" eval '! grep -vE "^(ok|warn|fail|skipped) +[a-z][^ ]+ .+|^[0-9]+ ok, " "$work/said"'
doctor --json
claim "JSON has the same" eval 'json_true "d[\"result\"] in (\"ok\", \"warn\") and any(c[\"check\"] == \"tunnel zrh-1\" and c[\"result\"] == \"ok\" for c in d[\"checks\"])" <"$work/said"'
doctor_of_snapt --json
claim "and that of the SNAPT" eval 'json_true "d[\"program\"] == \"snapt\" and len(d[\"checks\"]) > 15" <"$work/said"'

# on_terminal COLUMNS COMMAND... : as it is shown there, without colours.
on_terminal() {
    "$python" -c 'import fcntl, os, pty, re, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    sys.stdin.readline()
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
os.write(fd, b"\n")
text = b""
try:
    while piece := os.read(fd, 65536):
        text += piece
except OSError:
    pass
os.waitpid(pid, 0)
print(re.sub("\x1b\\[[0-9]*m", "", text.decode()).replace("\r", ""))' "$@"
}
fits() { ! grep -E "^.{$(($1 + 1)),}" "$work/said" && grep -qE '^[0-9]+ ok, ' "$work/said"; }
on_terminal 80 ip netns exec "$(ns node)" cnapt doctor --config "$node_config" "${node_files[@]}" >"$work/said"
claim "on a terminal of 80 columns no line is longer" fits 80
on_terminal 80 ip netns exec "$(ns snapt1)" snapt doctor --config "$work/snapt1.toml" --state "$work/s1" \
    --socket "$(snapt_socket 1)" >"$work/said"
claim "nor one of the SNAPT's" fits 80

# Without root, with a daemon whose socket it may not use.
as_user() {
    in_ns node setpriv --reuid=1234 --regid=1234 --clear-groups --inh-caps=-all "$(command -v cnapt)" doctor \
        --config "$node_config" "${node_files[@]}" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }
}
claim "without root nothing fails" as_user
claim "and what needs it is skipped" eval 'line skipped configuration "run it as root" && line skipped daemon "" && line skipped tcp ""'
chown 1234 "$work/cnapt.sock"
claim "who may use the socket sees the tunnel" eval 'as_user && line ok "tunnel zrh-1" ""'
chown 0 "$work/cnapt.sock"
chmod 666 "$work/cnapt.sock"
claim "that everybody may use it is seen by root" finds files 'lets everybody use the commands'
chmod 660 "$work/cnapt.sock"

# --- A daemon in trouble

in_ns gw1 nft 'add table ip cut; add chain ip cut f { type filter hook forward priority 0; policy drop; }'
doctor_beside() { in_ns node cnapt doctor --config "$node_config" "${node_files[@]}" >"$work/beside.said" 2>&1; }
doctor_beside &
beside=$!
is_down() { equal "$(cnapt_json status | json 'd["state"]')" down; }
nudged_down() { in_ns node ping -n -c 1 -W 1 $inet4; is_down; }
wait_for 60 nudged_down
claim "when the daemon has noticed, it says where new flows go" finds capture 'new flows go outside the tunnel'
claim "and that the daemon is down" line fail daemon 'state down'
wait $beside
ended=$?
mv "$work/beside.said" "$work/said"
claim "a way that is cut is found by the tunnel" eval 'equal $ended 1 && line fail "tunnel zrh-1" "no path answers: up1"'
claim "by TCP" line fail 'tcp 198.51.100.2:9347' 'no answer within 4 s; open TCP 9347'
claim "and by UDP" line fail 'udp 198.51.100.2:9347' 'no answer within 3 s'
in_ns gw1 nft delete table ip cut
claim "it is well when the way is back" wait_for 60 doctor
stop cnapt

# --- Broken in one place each, without a daemon

missing() { local node_config=$work/none.toml; finds configuration 'cannot read .*none.toml.*snapt user add'; }
claim "a configuration that is missing" missing
claim "one that is faulty, with its place" with 's/^\[\[snapt\]\]/[[snapt]/' finds configuration 'changed.toml:[0-9]+:[0-9]+: error'
chmod 644 "$work/cnapt.toml"
claim "a key that everybody can read" finds files 'cnapt.toml \(mode 0644\) holds keys and everybody can read it; chmod o='
chmod 600 "$work/cnapt.toml"
wrong_key='s/^key = .*/key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="/'
claim "a wrong key" with "$wrong_key" finds 'login zrh-1' 'refused at .*user alice or key k1 is unknown, wrong or disabled.*snapt user rotate alice'
claim "which is no captive portal" no_line fail portal
snapt user disable alice --socket "$(snapt_socket 1)" >/dev/null
claim "a user who is disabled" finds 'login zrh-1' 'unknown, wrong or disabled'
snapt user enable alice --socket "$(snapt_socket 1)" >/dev/null
claim "a wrong name of the SNAPT" with 's/^name = "zrh-1"/name = "gva-1"/' finds 'login gva-1' 'another SNAPT answers.*this is zrh-1.*correct .name.'
claim "a wrong port" with 's/:9347"/:9348"/' finds 'tcp 198.51.100.2:9348' 'Connection refused; start snapt there'
claim "of which UDP says the same" line fail 'udp 198.51.100.2:9348' 'Connection refused'
claim "a name that is not known" finds_there deaf 'name snapt.invalid' '(no address is found|no answer within 8 s); correct the name'
claim "name servers that are silent" line warn dns 'no name server answers: 192.0.2.77'
echo "198.51.100.2 snapt.example.org" >>"$etc/hosts"
claim "one that is known is followed" with 's/198.51.100.2:9347/snapt.example.org:9347/' is_well
claim "to its address" eval 'line ok "name snapt.example.org" "198.51.100.2" && line ok "udp 198.51.100.2:9347" ""'
claim "a second address that does not answer is no failure" with 's/"198.51.100.2:9347"/"198.51.100.2:9347", "198.51.100.6:9347"/' is_well
claim "but is told" line warn 'tcp 198.51.100.6:9347' ''
spawn snapt1 web "$python" -c 'import socket
server = socket.create_server(("0.0.0.0", 8080))
while True:
    peer, _ = server.accept()
    if peer.recv(4096): peer.sendall(b"SSH-2.0-none\r\n")
    peer.close()'
wait_for 10 listens snapt1 8080
claim "something that is no SNAPT" with 's/:9347"/:8080"/' finds 'login zrh-1' 'what answers at 198.51.100.2:8080 is no SNAPT'

in_ns gw1 nft 'add table ip cut; add chain ip cut f { type filter hook forward priority 0; }; add rule ip cut f udp dport 9347 drop'
claim "UDP that is blocked is no failure" is_well
claim "but is told with what it costs" line warn 'udp 198.51.100.2:9347' 'data goes over TCP, slower; open UDP 9347'
in_ns gw1 nft 'flush chain ip cut f; add rule ip cut f ip length 1401-65535 drop'
claim "a path that takes less is no failure" is_well
claim "but is measured" line ok 'mtu zrh-1' '1400 of 1500 bytes pass by up1'
in_ns gw1 nft 'flush chain ip cut f; add rule ip cut f ip length 1000-65535 drop'
claim "one that takes too little" finds 'mtu zrh-1' 'not even 1280 bytes pass'
in_ns gw1 nft delete table ip cut

claim "a captive portal, with its page" finds_there stranded 'portal eth' 'a captive portal answers in place of the SNAPT; log in at http://192.168.1.1:8080/login'

ip -n "$(ns node)" route del default
claim "no default route" finds uplinks 'no interface leads to a SNAPT: .*up1 has no route'
ip -n "$(ns node)" route add default via 192.168.1.1 dev up1
claim "uplinks that the configuration leaves out" with '$a[uplinks]\nallow = ["wlan*"]' finds uplinks 'up1 is left out by \[uplinks\]'
full_disk() {
    ! in_ns node unshare -m bash -c 'mount -t tmpfs -o size=64k none "$1" && cnapt doctor --config "$2" --state "$1" --socket "$1/s"' - \
        "$work/c" "$work/cnapt.toml" >"$work/said" 2>&1 && line fail disk 'full: .* free at'
}
claim "a full disk" full_disk
closed='add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'
in_ns node sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=1
in_ns node nft "$closed"
cp "$work/cnapt.toml" "$work/plain.toml"
set_capture 'gateway_interfaces = ["up2", "br-lam"]'
claim "an interface of the LAN that is misspelt" finds 'gateway br-lam' 'there is no such interface, but there are .*up2'
claim "forwarding that is off" line fail forwarding 'is off.*sysctl -w net.ipv4.ip_forward=1'
claim "a firewall that drops" line fail 'forward policy' 'chain ip filter FORWARD drops what is forwarded by cnapt0 and up2'
cp "$work/plain.toml" "$work/cnapt.toml"
in_ns node nft delete table ip filter

claim "where nothing answers it fails" finds_there cut_off 'tcp 192.0.2.62:9347' 'no answer within 4 s'
read -r _ began ended <"$work/cut_off.end"
took=$(awk -v from="$began" -v to="$ended" 'BEGIN { printf "%.1f", to - from }')
speaks_of "$began" "$ended"
claim "and ends within its time ($took s)" at_most "$took" 62
claim "with a line for each address" equal "$(grep -cE '^fail +tcp ' "$work/said")" 5

# --- A SNAPT that is broken

in_ns snapt1 nft flush ruleset
claim "a SNAPT whose rules were taken away puts them back" wait_for 5 snapt_is_well
stop snapt1
doctor_of_snapt
claim "one that does not run is told to start" line warn daemon 'none answers at .*; start it'
claim "its ports are free" line ok 'listen .*:9347' 'TCP and UDP are free'
claim "and its users are known" line ok users '1 of 1 may log in'
claim "the node says that nobody is there" finds 'tcp 198.51.100.2:9347' 'Connection refused; start snapt there'
spawn snapt1 squatter "$python" -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 9347)); time.sleep(1000)'
taken() { [ -n "$(in_ns snapt1 ss -Hlun 'sport = :9347')" ]; }
wait_for 10 taken
claim "a port that another program has" finds_in_snapt 'listen 0.0.0.0:9347' 'Address already in use; another program has this port'
stop squatter
cp "$work/snapt1.toml" "$work/kept.toml"
# broken_snapt LINE_OF_SED CHECK TEXT
broken_snapt() {
    sed -i "$1" "$work/snapt1.toml"
    finds_in_snapt "$2" "$3"
    local status=$?
    cp "$work/kept.toml" "$work/snapt1.toml"
    return $status
}
claim "an egress interface that is misspelt" broken_snapt 's/^egress = .*/egress = ["wann"]/' 'egress wann' 'there is no such interface, but there are .*wan'
lease=$(sed -n 's/^ok *inner \([0-9.]*\)\.[0-9]*\/.*/\1.77/p' "$work/said" | head -n 1)
address snapt1 wan "$lease/24"
claim "leases that meet a network of the host" finds_in_snapt 'inner .*' "wan has $lease in the prefix of the leases"
ip -n "$(ns snapt1)" addr del "$lease/24" dev wan
in_ns snapt1 nft "$closed"
claim "a firewall that drops what is forwarded" finds_in_snapt 'forward policy' 'chain ip filter FORWARD drops what is forwarded by snapt0'
in_ns snapt1 nft delete table ip filter
ip -n "$(ns snapt1)" route del default
claim "no way out" finds_in_snapt 'way out IPv4' 'no default route'
ip -n "$(ns snapt1)" route add default via 198.51.100.1
in_ns snapt1 sysctl -qw net.ipv4.ip_forward=0
claim "forwarding that is off and left alone" broken_snapt 's/^set_forwarding = .*/set_forwarding = false/' forwarding 'is off.*sysctl -w'
in_ns snapt1 sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.wan.forwarding=0
claim "an interface that does not forward" broken_snapt 's/^set_forwarding = .*/set_forwarding = false/' forwarding 'is off.*sysctl -w net.ipv4.conf.wan.forwarding=1'
sed -i 's/198\.51\.100\.2:9347/203.0.113.99:9347/' "$work/snapt1.toml"
doctor_of_snapt
claim "a public address that is not this host's" line warn 'public 203.0.113.99:9347' 'no interface of this host has 203.0.113.99'
cp "$work/kept.toml" "$work/snapt1.toml"
mv "$work/s1/ledger.db" "$work/ledger.away"
claim "a database that is not there" finds_in_snapt users 'there is no database .*; run snapt init'
mv "$work/ledger.away" "$work/s1/ledger.db"
doctor_of_snapt
claim "a sound database" line ok ledger 'every page of the database can be read'
cp "$work/s1/ledger.db" "$work/ledger.sound"
dd if=/dev/urandom of="$work/s1/ledger.db" bs=1024 seek=24 count=40 conv=notrunc 2>/dev/null
claim "a database with damaged pages" finds_in_snapt ledger 'the database is damaged: .*; restore a copy'
cp "$work/ledger.sound" "$work/s1/ledger.db"
spawn snapt1 locker "$python" -c 'import sqlite3, sys, time
ledger = sqlite3.connect(sys.argv[1], isolation_level=None)
ledger.execute("PRAGMA locking_mode = EXCLUSIVE")
ledger.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(600)' "$work/s1/ledger.db"
wait_for 10 grep -q locked "$work/locker.log"
claim "a database that another program has locked is not called damaged" finds_in_snapt ledger 'the database cannot be read: .*locked'
stop locker
claim "mended, nothing fails" snapt_is_well
finish
