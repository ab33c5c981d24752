#!/usr/bin/env bash
# Each flow gets the class of its process, as `cnapt flows` shows it while the program runs.
. "$(dirname "$0")/lib.sh"
require curl dig iperf3 ssh sshd socat
one_tunnel

mkdir "$work/www"
head -c 20000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
dns_server
ssh_server inet
spawn inet iperf3 iperf3 -s
spawn inet tcp_sink socat -u TCP6-LISTEN:7000,fork,reuseaddr,ipv6-v6only=0 /dev/null
spawn inet udp_sink socat -u UDP6-RECVFROM:7000,fork,reuseaddr,ipv6-v6only=0 /dev/null
wait_for 10 listens inet 5201
wait_for 10 listens inet 7000
cp "$(readlink -f "$(command -v socat)")" "$work/zorgle"
mapfile -t options < <(ssh_options)

shown() { # shown PROCESS PROTO DESTINATION CLASS
    cnapt_json flows >"$work/flows.json" &&
        json_true "any(f['process']=='$1' and f['proto']=='$2' and f['dst']=='$3' and f['class']=='$4' and f['snapt']=='zrh-1' for f in d)" <"$work/flows.json"
}
shown_in_time() {
    wait_for 8 shown "$@" && return
    json "[(f['process'], f['proto'], f['dst'], f['dport'], f['class'], f['snapt']) for f in d]" <"$work/flows.json"
    return 1
}
# classed TEXT PROCESS PROTO DESTINATION CLASS COMMAND... : the command runs while its flow is looked for.
classed() {
    local text=$1 facts=("${@:2:4}")
    shift 5
    spawn node program "$@"
    claim "$text is ${facts[3]}" shown_in_time "${facts[@]}"
    stop program
}

for host in $inet4 $inet6; do
    at=$host version=4
    case $host in *:*) at="[$host]" version=6 ;; esac
    classed "curl over IPv$version" curl tcp "$host" ht-hd curl -sS --limit-rate 200k -o /dev/null "http://$at/file"
    classed "ssh over IPv$version" ssh tcp "$host" lt-ld ssh "${options[@]}" "root@$host" sleep 20
    classed "dig over UDP and IPv$version" dig udp "$host" lt-ld dig +tries=1 +time=8 "@$host" slow.example.org
    classed "dig over TCP and IPv$version" dig tcp "$host" lt-ld dig +tcp +tries=1 +time=8 "@$host" slow.example.org
    classed "iperf3 over TCP and IPv$version" iperf3 tcp "$host" ht-hd iperf3 -c "$host" -t 10 -b 2M
    wait_for 10 in_ns inet sh -c "! ss -Htn '( sport = :5201 )' | grep -q ."
    classed "iperf3 over UDP and IPv$version" iperf3 udp "$host" ht-ld iperf3 -c "$host" -t 10 -u -b 1M
    wait_for 10 in_ns inet sh -c "! ss -Htn '( sport = :5201 )' | grep -q ."
    classed "an unknown program over TCP and IPv$version" zorgle tcp "$host" lt-hd \
        "$work/zorgle" -u SYSTEM:"while sleep 0.2; do echo tick; done" "TCP$version:$at:7000"
    classed "an unknown program over UDP and IPv$version" zorgle udp "$host" ht-ld \
        "$work/zorgle" -u SYSTEM:"while sleep 0.2; do echo tick; done" "UDP$version:$at:7000"
done
# A name of a program may be any bytes: C1 in UTF-8, a direction of writing, C1 in one byte, ESC.
cp "$work/zorgle" "$work/"$'e\xc2\x9bvil\xe2\x80\xae\x9b\x1b'
spawn node evil "$work/"$'e\xc2\x9bvil\xe2\x80\xae\x9b\x1b' -u SYSTEM:"while sleep 0.2; do echo tick; done" "TCP4:$inet4:7000"
has_evil() { cnapt_json flows | json_true "any(f['process'] == 'e\x9bvil\u202e\ufffd\x1b' for f in d)"; }
claim "a process whose name is no plain text is shown" wait_for 8 has_evil
is_plain() { # is_plain COMMAND... : the command prints UTF-8 without characters that a terminal obeys
    "$@" >"$work/printed" && "$python" -c 'import sys, unicodedata
text = open(sys.argv[1], "rb").read().decode()
sys.exit(any(unicodedata.category(c) in ("Cc", "Cf") and c != "\n" for c in text))' "$work/printed"
}
claim "its name is made safe for a terminal" is_plain cnapt flows --socket "$work/cnapt.sock"
claim "in JSON, too" is_plain cnapt_json flows
stop evil

same_class_at_snapt() {
    local here there
    here=$(cnapt_json flows | json "sorted((f['proto'], f['dst'], f['sport'], f['class'], f['app']) for f in d if f['proto']=='udp')")
    there=$(snapt_json 1 flows | json "sorted((f['proto'], f['dst'], f['sport'], f['class'], f['app']) for f in d if f['proto']=='udp')")
    equal "$there" "$here"
}
claim "class and application hold at the SNAPT too" wait_for 5 same_class_at_snapt
finish
