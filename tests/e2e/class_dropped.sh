#!/usr/bin/env bash
# A network drops one DSCP, up, down or both ways, or a NAT loses the mapping of one of four sockets, while everything else
# passes: the class goes on without its mark, or by another socket; paths, status and doctor say so.
. "$(dirname "$0")/lib.sh"
require curl
policy_file=$work/policy.toml
printf 'version = 1\n\n[[rule]]\napp = "call"\nmatch = { proto = "udp", dport = 7001 }\nclass = "ht-ld"\n' >"$policy_file"
one_tunnel
mkdir "$work/www"
head -c 100000 /dev/urandom >"$work/www/file"
http_server "$work/www"
spawn inet voice_server "$python" "$support_dir/voice.py" server 7001
wait_for 10 listens inet 7001

in_ns gw1 nft 'add table ip swallow; add set ip swallow ports { type inet_service; flags dynamic; };
    add chain ip swallow upward { type filter hook forward priority 0; }; add chain ip swallow downward { type filter hook forward priority 1; }'
# drops WAY DSCP : of the tunnel, for packets up or down.
drops() {
    case $1 in
        up) in_ns gw1 nft "add rule ip swallow upward iifname lan udp dport 9347 ip dscp $2 counter drop" ;;
        down) in_ns gw1 nft "add rule ip swallow downward oifname lan udp sport 9347 ip dscp $2 counter drop" ;;
    esac
}
# loses_mapping DSCP : of the socket whose datagrams have that mark.
loses_mapping() {
    in_ns gw1 nft "add rule ip swallow upward iifname lan udp dport 9347 ip dscp $1 add @ports { udp sport };
        add rule ip swallow upward iifname lan udp dport 9347 udp sport @ports counter drop;
        add rule ip swallow downward oifname lan udp sport 9347 udp dport @ports counter drop"
}
passes_all() { in_ns gw1 nft 'flush chain ip swallow upward; flush chain ip swallow downward; flush set ip swallow ports'; }
dropped() { in_ns gw1 nft list chain ip swallow "${1}ward" | grep -E 'counter packets [1-9]'; }
# The ways at node and SNAPT, of classes that have left theirs.
at_node() { cnapt_json paths | json "[(w['class'], w['way']) for p in d for w in p.get('ways', [])]"; }
at_snapt() { snapt_json 1 sessions | json "[(w['class'], w['way']) for s in d for w in s['ways']]"; }
ways_are() { equal "$(at_node) $(at_snapt)" "$1 $2"; }
# says REGEX COMMAND...
says() { { "${@:2}" || true; } | tr -s ' \n' ' ' | grep -E "$1"; }
doctor() { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock"; }
# Each form on a new session: ways are known of a path.
begin_anew() {
    stop cnapt
    passes_all
    start_cnapt
    wait_for 5 in_ns node ping -n -c 1 -W 1 $inet4
}
call() { spawn node voice "$python" "$support_dir/voice.py" client $inet4 7001 60 "$work/voice"; }
called() { [ "$(cat "$work/voice" 2>/dev/null | wc -l)" -gt "$1" ]; }
# silent_at_most SECONDS FROM
silent_at_most() { local gap; wait_for 10 called "$lines"; gap=$(longest_gap "$2" voice); at_most "$gap" "$1"; }

for form in "up" "down" "up down"; do
    begin_anew
    for way in $form; do drops "$way" af41; done
    rm -f "$work/voice"
    began=$EPOCHREALTIME lines=50
    call
    case $form in
        up) bound=1.2 ;;
        down) bound=2.2 ;;      # the SNAPT may have no round trip yet
        "up down") bound=3.0 ;; # both ends, one after the other
    esac
    claim "AF41 dropped $form: the call is answered" silent_at_most "$bound" "$began"
    for way in $form; do claim "AF41 dropped $form: it was dropped" dropped "$way"; done
    stop voice
    case $form in
        up) claim "AF41 dropped $form: the node sends it unmarked" wait_for 5 ways_are "[('ht-ld', 'unmarked')]" "[]" ;;
        down) claim "AF41 dropped $form: the SNAPT sends it unmarked" wait_for 5 ways_are "[]" "[('ht-ld', 'unmarked')]" ;;
        *) claim "AF41 dropped $form: both send it unmarked" wait_for 5 ways_are "[('ht-ld', 'unmarked')]" "[('ht-ld', 'unmarked')]" ;;
    esac
    claim "AF41 dropped $form: the path is usable, over UDP" equal "$(cnapt_json paths | json "[(p['state'], p['transport']) for p in d]")" "[('usable', 'udp')]"
done
claim "paths says so" says "ht-ld is sent without its DSCP, which the network drops" cnapt paths --socket "$work/cnapt.sock"
claim "and status" says "ht-ld is sent without its DSCP" cnapt status --socket "$work/cnapt.sock"
claim "and doctor" says "ok classes ht-ld is sent without its DSCP on up1>zrh-1" doctor

# Another class, of a transfer.
begin_anew
drops up af21
drops down af21
claim "AF21 dropped both ways: a page is there" in_ns node timeout 15 curl -sS -o "$work/got" "http://$inet4/file"
claim "AF21 dropped both ways: it is whole" cmp -s "$work/got" "$work/www/file"
claim "AF21 dropped both ways: it was dropped" dropped up
claim "AF21 dropped both ways: the class goes unmarked" wait_for 5 ways_are "[('lt-hd', 'unmarked')]" "[('lt-hd', 'unmarked')]"

# The second form: one mapping of the NAT, in the middle of a call.
begin_anew
rm -f "$work/voice"
call
claim "a call is under way" wait_for 10 called 50
lines=$(($(wc -l <"$work/voice") + 100))
began=$EPOCHREALTIME
loses_mapping af41
claim "a mapping is lost: the call goes on" silent_at_most 1.4 "$began"
claim "a mapping is lost: it was" dropped up
claim "a mapping is lost: by another socket" wait_for 5 says "'ht-ld', 'detour'" at_node
claim "and paths says so" says "ht-ld is sent from the lt-ld socket" cnapt paths --socket "$work/cnapt.sock"
stop voice
finish
