#!/usr/bin/env bash
# The README works word for word: the commands are taken from its blocks and typed on machines of their own (namespaces for the
# network, mounts and processes each), in the order in which a newcomer would. Two commands would take minutes and are replaced:
# apt-get, by a check that all that it is to install is there, and the build, by the programs under test.
. "$(dirname "$0")/lib.sh"
require cmake ping curl unshare nsenter
. "$lib_dir/lib_typed.sh"

# --- The network: servers, the Internet and the access network hang on one router

make_network() {
    new_namespace core server second laptop router client radio inet
    local name
    local -A at=([server]=203.0.113.9 [second]=203.0.113.77 [laptop]=192.0.2.10
        [router]=192.0.2.20 [radio]=192.0.2.30 [inet]=198.51.100.2)
    in_ns core sh -c 'for name in servers access internet; do ip link add $name type bridge; ip link set $name up; done'
    address core servers 203.0.113.1/24
    address core access 192.0.2.1/24
    address core internet 198.51.100.1/24
    for name in "${!at[@]}"; do
        connect "$name" eth0 core "to_$name"
        address "$name" eth0 "${at[$name]}/24"
        ip -n "$(ns "$name")" route add default via "${at[$name]%.*}.1"
        case ${at[$name]} in
            203.*) ip -n "$(ns core)" link set "to_$name" master servers ;;
            192.*) ip -n "$(ns core)" link set "to_$name" master access ;;
            *) ip -n "$(ns core)" link set "to_$name" master internet ;;
        esac
    done
    in_ns core sysctl -qw net.ipv4.ip_forward=1
    connect router port client eth0
    ip -n "$(ns router)" link add br-lan type bridge
    ip -n "$(ns router)" link set br-lan up
    ip -n "$(ns router)" link set port master br-lan
    address router br-lan 192.168.8.1/24
    address client eth0 192.168.8.2/24
    ip -n "$(ns client)" route add default via 192.168.8.1
}

# Who the Internet host sees: $work/seen has a line for each request.
serve_web() {
    cat >"$work/web.py" <<'END'
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(sys.argv[1], "a") as seen:
            print(self.client_address[0], file=seen)
        self.send_response(204)
        self.end_headers()
http.server.HTTPServer(("", 80), Handler).serve_forever()
END
    spawn inet web "$python" "$work/web.py" "$work/seen"
    wait_for 10 in_ns inet sh -c 'ss -tlnH | grep -q ":80 "'
}
ask() { : >"$work/seen" && "$@" curl -s --max-time 10 http://198.51.100.2/; }
seen_from() { ask "${@:2}" && equal "$(head -n 1 "$work/seen")" "$1"; }
# One request: with two equal servers the next one may come from the other.
seen_from_either() { ask on laptop && grep -qx '203\.0\.113\.\(9\|77\)' "$work/seen"; }

# Each command of a block on the machine whose program it is.
type_each() {
    local line
    while read -r line; do
        line=${line%%#*}
        case $line in
            cnapt*) type_on "$1" <<<"$line" >/dev/null ;;
            snapt*) type_on "$2" <<<"$line" >/dev/null ;;
            *) echo "not a command of either program: $line"; return 1 ;;
        esac || { echo "$line"; return 1; }
    done
}

make_network
make_shims
machines=(server second laptop router radio)
new_machine "${machines[@]}"
serve_web
for name in "${machines[@]}"; do
    claim "build and install, on the machine $name" install_on "$name"
done

first="A server and a laptop"
claim "a server begins" type_block server "$first" 1
carry server laptop alice.toml
claim "a laptop begins" type_block laptop "$first" 2
claim "its ping is answered" said laptop ' 3 received'
claim "its flow is shown" said laptop 'icmp.*198\.51\.100\.2'
claim "the Internet sees the server" seen_from 203.0.113.9 on laptop
claim "the commands that look whether it works" type_each laptop server < <(block "Does it work?" 1)

more="A second server"
claim "the second server begins" type_block second "$first" 1 's/zrh-1/gva-1/; s/203\.0\.113\.9:/203.0.113.77:/; /user add/d'
carry laptop second alice.toml
claim "the second server has the same user" type_block second "$more" 1
carry second laptop gva-1.toml
claim "cnapt ends" end_program laptop cnapt
claim "the laptop gets the second server" type_block laptop "$more" 2
claim "cnapt begins again" type_on laptop <<<'cnapt check; cnapt run &
cnapt status --wait up --timeout 10'
both_up() { equal "$(on laptop cnapt snapts --json | json 'sorted(s["snapt"] for s in d if s["state"] == "up")')" "['gva-1', 'zrh-1']"; }
claim "both servers are up" wait_for 10 both_up
claim "cnapt ends" end_program laptop cnapt

claim "with a kill switch" type_block laptop "A kill switch" 1
claim "with name servers" type_block laptop "Names" 1
claim "it begins" type_on laptop <<<'cnapt check; cnapt run &
cnapt status --wait up --timeout 10'
claim "the name server is the one that README names" on laptop grep -q '^nameserver 198\.51\.100\.53' /etc/resolv.conf
claim "the Internet sees a server" seen_from_either
claim "nothing leaves beside the tunnel" not_on laptop ping -c 1 -W 1 -I eth0 192.0.2.1
claim "cnapt ends" end_program laptop cnapt
claim "names are as before" not_on laptop grep -q '198\.51\.100\.53' /etc/resolv.conf

lan="A mesh router as the gateway of a LAN"
claim "a user for the router" type_on server <<<'(umask 077; snapt user add router > router.toml)'
carry server router router.toml
claim "a mesh router begins" type_block router "$lan" 1
claim "the Internet sees the server for a client of its LAN" seen_from 203.0.113.9 in_ns client

air="An amateur-radio node"
claim "the server ends" end_program server snapt
claim "it takes what is authenticated only" type_on server < <(
    block "$air" 1
    block "$first" 1 | sed '/snapt init/d; s/alice/hb9xyz/g')
carry server radio hb9xyz.toml
claim "the radio node has the configuration that README shows" eval 'block "$air" 2 | on radio sh -c "umask 077; cat >/etc/continuo/cnapt.toml"'
claim "and its key" type_on radio <<<'sed -n "s/^key *= *\"\([^\"]*\)\".*/\1/p" hb9xyz.toml >/etc/continuo/hb9xyz.key
chgrp continuo-cnapt /etc/continuo/*; chmod 0640 /etc/continuo/*'
claim "the radio node begins" type_on radio <<<'cnapt check; cnapt run &
cnapt status --wait up --timeout 10; cnapt snapts'
claim "it is authenticated only" said radio 'hmac-sha256'
claim "the Internet sees the server" seen_from 203.0.113.9 on radio
finish
