#!/usr/bin/env bash
# Runs in the booted system: a station roams between two access points of one network name, each the way into another network, and has a
# cable beside it. What nl80211 tells is seen and used; the host sleeps and wakes.
#
#            192.168.1.0/24 (channel 1)  ap1 (NAT) ── 192.0.2.0/30 ───┐
#   node ── wlan0                                                     this host (snapt) ── 203.0.113.0/24 ── inet
#     │      192.168.2.0/24 (channel 6)  ap2 (NAT) ── 192.0.2.4/30 ───┤
#     └ eth  192.168.3.0/24              lte (NAT) ── 192.0.2.8/30 ───┘
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
        sleep 0.2
    done
}
json() { python3 -c 'import json,sys; d=json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"; }
give_up() {
    echo "FAIL  $*"
    journalctl -q --no-pager -o cat -u cnapt -u snapt | tail -n 20
    tail -n 5 /tmp/*.log
    echo "$held held, $((failed + 1)) failed"
    exit 1
}
in_node() { ip netns exec node "$@"; }

# --- Radios, access points, networks
modprobe -a tun veth nf_tables nft_masq && modprobe mac80211_hwsim radios=3 || give_up "no emulated radios"
mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
for space in node ap1 ap2 lte inet; do
    ip netns add $space
    ip -n $space link set lo up
done
wait_for 20 test -e /sys/class/net/wlan2
place=(node ap1 ap2)
declare -A phy_of
for n in 0 1 2; do
    phy_of[${place[n]}]=$(cat /sys/class/net/wlan$n/phy80211/name)
    iw phy "${phy_of[${place[n]}]}" set netns name "${place[n]}" || give_up "radio $n stays"
done
number=0
for space in ap1 ap2 lte; do
    number=$((number + 1))
    ip link add $space type veth peer name wan netns $space
    ip addr add 192.0.2.$((4 * number - 3))/30 dev $space
    ip link set $space up
    ip -n $space addr add 192.0.2.$((4 * number - 2))/30 dev wan
    ip -n $space link set wan up
    ip -n $space route add default via 192.0.2.$((4 * number - 3))
    ip netns exec $space sysctl -qw net.ipv4.ip_forward=1
    ip netns exec $space nft 'add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; };
        add rule ip nat post oifname wan masquerade'
done
ip link add inet type veth peer name eth netns inet
ip addr add 203.0.113.1/24 dev inet
ip link set inet up
ip -n inet addr add 203.0.113.10/24 dev eth
ip -n inet link set eth up
ip -n inet route add default via 203.0.113.1
sysctl -qw net.ipv4.ip_forward=1
ip -n lte link add lan type veth peer name eth netns node
ip -n lte addr add 192.168.3.1/24 dev lan
ip -n lte link set lan up
ip -n node link set eth up
ip -n node addr add 192.168.3.2/24 dev eth
ip -n node route add default via 192.168.3.1 dev eth metric 200
for n in 1 2; do
    cat >/tmp/ap$n.conf <<END
interface=wlan$n
driver=nl80211
ctrl_interface=/run/hostapd$n
ssid=continuo
hw_mode=g
channel=$((5 * n - 4))
wpa=2
wpa_key_mgmt=WPA-PSK
rsn_pairwise=CCMP
wpa_passphrase=a network of tests
END
    ip netns exec ap$n hostapd -B -f /tmp/hostapd$n.log /tmp/ap$n.conf >/dev/null || give_up "no access point $n"
    ip -n ap$n addr add 192.168.$n.1/24 dev wlan$n
done
bssid() { ip -n "ap$1" -br link show "wlan$1" | awk '{print $3}'; }
bssid1=$(bssid 1)
bssid2=$(bssid 2)
cat >/tmp/station.conf <<'END'
ctrl_interface=/run/wpa
network={
    ssid="continuo"
    psk="a network of tests"
}
END
# The DHCP client's part: an address of the network behind each access point that is joined. One that is left keeps its address.
follow_access_points() {
    local line n
    in_node iw event | while read -r line; do
        case $line in
            *"connected to $bssid1"*) n=1 ;;
            *"connected to $bssid2"*) n=2 ;;
            *) continue ;;
        esac
        wait_for 10 is_operational
        ip -n node addr flush dev wlan0 scope global
        ip -n node addr add 192.168.$n.2/24 dev wlan0
        ip -n node route replace default via 192.168.$n.1 dev wlan0 metric 100
    done
}
is_operational() { [ "$(in_node cat /sys/class/net/wlan0/operstate)" = up ]; }
follow_access_points &
in_node wpa_supplicant -B -f /tmp/station.log -i wlan0 -D nl80211 -c /tmp/station.conf >/dev/null || give_up "no supplicant"
wpa() { in_node wpa_cli -p /run/wpa -i wlan0 "$@"; }
joined() { [ "$(wpa status | sed -n 's/^bssid=//p; s/^wpa_state=//p' | tr '\n' ' ')" = "$1 COMPLETED " ] && in_node ping -n -q -c 1 -W 2 "192.168.$2.1"; }
wait_for 90 joined "$bssid1" 1 || wpa roam "$bssid1" >/dev/null
wait_for 60 joined "$bssid1" 1 || give_up "the station does not join an access point"

# --- The daemons, as shipped
head -c 30000000 /dev/urandom >/srv/file
sum=$(sha256sum </srv/file | cut -d' ' -f1)
cat >/tmp/serve.py <<'END'
import http.server
class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        print(*args, flush=True)
http.server.ThreadingHTTPServer(("203.0.113.10", 80), Handler).serve_forever()
END
(cd /srv && exec ip netns exec inet python3 /tmp/serve.py >/tmp/http.log 2>&1) &
dpkg -i /continuo.deb >/tmp/dpkg.log 2>&1 || give_up "the package cannot be installed"
snapt init --name zrh-1 --public 192.0.2.1:9347 >/dev/null && snapt user add alice >/etc/continuo/cnapt.toml || give_up "snapt init"
systemctl start snapt || give_up "snapt does not start"
mkdir -p /etc/systemd/system/cnapt.service.d
printf '[Service]\nNetworkNamespacePath=/run/netns/node\n' >/etc/systemd/system/cnapt.service.d/place.conf
systemctl daemon-reload
timeout 60 systemctl start cnapt && cnapt status --wait up --timeout 120 >/dev/null || give_up "cnapt does not start"

paths() { cnapt paths --json | json "$1"; }
is_over() { [ "$(paths "','.join(p['interface'] + ' ' + p['local'] for p in d if p['active'])")" = "$1" ]; }
of_wifi() { paths "[p['$1'] for p in d if p['interface'] == 'wlan0'][0]"; }
of_cable() { paths "[p['$1'] for p in d if p['interface'] == 'eth'][0]"; }
pings() { in_node ping -n -q -c 1 -W 1 203.0.113.10; }
claim "the tunnel goes over Wi-Fi" wait_for 20 is_over "wlan0 192.168.1.2"
claim "and carries a ping" wait_for 10 pings

# The last figure of a ping every 20 ms: how long nothing came back around that time. Seconds.
in_node ping -n -D -i 0.02 -W 1 203.0.113.10 >/tmp/ping.out 2>&1 &
longest_since() {
    python3 - "$1" <<'END'
import re, sys
since = float(sys.argv[1])
times = [float(m.group(1)) for m in (re.match(r"\[([0-9.]+)\] .*bytes from", line) for line in open("/tmp/ping.out")) if m]
around = [t for t in times if t > since - 1]
print(round(max(b - a for a, b in zip(around, around[1:])), 3))
END
}
# set_signal N DBM : from -80 on. What arrives is the setting, -100 at least, and the power of the sender, 20 dBm; the kernel reads the
# bits of the number, not its sign.
set_signal() { printf '%u\n' $(($2 - 20)) >"/sys/kernel/debug/ieee80211/${phy_of[ap$1]}/hwsim/rx_rssi"; }
near() { local have; have=$(of_wifi signal_dbm) && [ "$have" != None ] && [ "$have" -ge $(($1 - 3)) ] && [ "$have" -le $(($1 + 3)) ] || { echo "signal $have"; return 1; }; }
set_signal 1 -50
set_signal 2 -50
claim "the signal of the access point is told" wait_for 30 near -50
claim "that of a cable is none" equal "$(of_cable signal_dbm)" None

# --- Roaming: break before make, with another address
in_node curl -sS -m 900 --limit-rate 100k http://203.0.113.10/file 2>/tmp/curl.log | python3 /arrivals.py /tmp/arrivals >/tmp/result &
download=$!
have() { tail -n 1 /tmp/arrivals | cut -d' ' -f2; }
arrived() { [ "$(have)" -gt "$1" ]; }
wait_for 60 arrived 300000
# roam N : in slow emulation an access point may answer too late, which makes the supplicant ignore it for a while.
roam() {
    local to attempt
    eval "to=\$bssid$1"
    for attempt in 1 2 3 4 5; do
        wpa bssid_ignore clear >/dev/null
        wpa scan >/dev/null
        wait_for 20 knows "$to"
        wpa roam "$to" >/dev/null
        wait_for 15 joined "$to" "$1" && return
    done
}
knows() { wpa scan_results | grep -q "$1"; }
goes_on() { wait_for 60 arrived $(($(have) + 200000)); }
for n in 2 1 2 1; do
    roamed_at=$EPOCHREALTIME
    roam $n
    claim "the session roams to access point $n and its network" wait_for 60 is_over "wlan0 192.168.$n.2"
    claim "the download goes on (longest silence of a ping $(longest_since "$roamed_at") s, scan included)" goes_on
done

# --- A signal that fades, with and without the hint. The access point goes on being there, but nothing gets through it.
swallow() { ip netns exec "ap$1" nft 'add table inet hole; add chain inet hole pass { type filter hook forward priority 0; policy drop; }'; }
deliver() { ip netns exec "ap$1" nft delete table inet hole; }
fades() { # fades : silence until the cable has taken over, then back
    local since gap
    wait_for 30 is_over "wlan0 192.168.1.2" || return
    since=$EPOCHREALTIME
    swallow 1
    wait_for 30 is_over "eth 192.168.3.2" && wait_for 10 pings || return
    sleep 1
    longest_since "$since"
    deliver 1
    set_signal 1 -50
    wait_for 90 is_over "wlan0 192.168.1.2"
}
unwarned=$(fades)
echo "info  without a hint the cable took over after a silence of ${unwarned:-?} s"
set_signal 1 -80
is_weak() { [ "$(of_wifi signal_weak) $(of_cable state)" = "True usable" ]; }
claim "a signal of -80 dBm is seen to be weak, and the cable is asked" wait_for 30 is_weak
warned=$(fades)
echo "info  with the hint of a weak signal after ${warned:-?} s"
less() { python3 -c 'import sys; sys.exit(not float(sys.argv[1]) < float(sys.argv[2]))' "$1" "$2"; }
claim "the hint makes the handover quicker" less "$warned" "$unwarned"
claim "the download goes on" goes_on

# --- The access point sends the station away
claim "Wi-Fi is in use again" wait_for 90 is_over "wlan0 192.168.1.2"
since=$EPOCHREALTIME
wpa disconnect >/dev/null
claim "without an access point the cable takes over" wait_for 10 is_over "eth 192.168.3.2"
sleep 1
lost=$(longest_since "$since")
claim "sooner than silence would tell ($lost s)" less "$lost" 0.8
claim "Wi-Fi is shown without carrier" equal "$(of_wifi carrier)" False
wpa reconnect >/dev/null
over_wifi() { is_over "wlan0 192.168.1.2" || is_over "wlan0 192.168.2.2"; }
claim "and is taken back when there is one again" wait_for 90 over_wifi
claim "the download goes on" goes_on

# --- Sleep: the access points' NATs forget meanwhile
forget() { for space in ap1 ap2 lte; do ip netns exec $space conntrack -F; done; }
slept() { journalctl -q -o cat -u cnapt -g 'did not run for' | wc -l; }
before=$(slept)
if rtcwake -m mem -s 15 >/tmp/rtcwake.log 2>&1; then
    forget >/dev/null 2>&1
    woke() { [ "$(slept)" -gt "$before" ]; }
    claim "the host slept and woke, and cnapt noticed" wait_for 5 woke
    claim "the tunnel works after it" wait_for 20 pings
else
    echo "info  this machine does not sleep: $(tail -n 1 /tmp/rtcwake.log)"
fi
claim "the download goes on" goes_on

wait $download
claim "the download is whole and right" equal "$(cat /tmp/result) $(cat /tmp/curl.log)" "30000000 $sum "
claim "it was one TCP connection" equal "$(grep -c GET /tmp/http.log)" 1
claim "SNAPT had one session" equal "$(snapt sessions --json | json 'len(d)')" 1
claim "no call was refused by a filter" equal "$(journalctl -q -k -o cat -g 'type=1326' | head -n 3)" ""
claim "systemctl stop of both" timeout 60 systemctl stop cnapt snapt
echo "info  kernel $(uname -r)"
[ "$failed" -eq 0 ] || journalctl -q --no-pager -o cat -u cnapt -u snapt | tail -n 30
echo "$held held, $failed failed"
