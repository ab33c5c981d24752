#!/usr/bin/env bash
# A network drops one DSCP, up, down or both ways, or blocks the port of one of the four sockets, while everything else
# passes: the class goes on without its mark, or by another socket; paths, status and doctor say so.
. "$(dirname "$0")/lib.sh"
require curl
policy_file=$work/policy.toml
classes=(lt-ld ht-ld lt-hd ht-hd)
marks=(ef af41 af21 cs1)
echo 'version = 1' >"$policy_file"
for i in 0 1 2 3; do
    printf '\n[[rule]]\napp = "call%s"\nmatch = { proto = "udp", dport = 700%s }\nclass = "%s"\n' $i $i ${classes[i]} >>"$policy_file"
done
one_tunnel
mkdir "$work/www"
head -c 100000 /dev/urandom >"$work/www/file"
http_server "$work/www"
for i in 0 1 2 3; do
    spawn inet voice_server$i "$python" "$support_dir/voice.py" server 700$i
    wait_for 10 listens inet 700$i
done

in_ns gw1 nft 'add table ip swallow; add set ip swallow ports { type inet_service; flags dynamic; };
    add chain ip swallow upward { type filter hook forward priority 0; }; add chain ip swallow downward { type filter hook forward priority 1; }'
# drops WAY DSCP : of the tunnel, for packets up or down.
drops() {
    case $1 in
        up) in_ns gw1 nft "add rule ip swallow upward iifname lan udp dport 9347 ip dscp $2 counter drop" ;;
        down) in_ns gw1 nft "add rule ip swallow downward oifname lan udp sport 9347 ip dscp $2 counter drop" ;;
    esac
}
# learns_port DSCP : of the socket whose datagrams have that mark.
learns_port() { in_ns gw1 nft "add rule ip swallow upward iifname lan udp dport 9347 ip dscp $1 add @ports { udp sport }"; }
has_port() { in_ns gw1 nft list set ip swallow ports | grep elements; }
blocks_port() {
    case $1 in
        up) in_ns gw1 nft "add rule ip swallow upward iifname lan udp dport 9347 udp sport @ports counter drop" ;;
        down) in_ns gw1 nft "add rule ip swallow downward oifname lan udp sport 9347 udp dport @ports counter drop" ;;
    esac
}
passes_all() { in_ns gw1 nft 'flush chain ip swallow upward; flush chain ip swallow downward; flush set ip swallow ports'; }
dropped() { in_ns gw1 nft list chain ip swallow "${1}ward" | grep -E 'counter packets [1-9]'; }
# The ways at node and SNAPT, of classes that have left theirs.
at_node() { cnapt_json paths | json "[(w['class'], w['way']) for p in d for w in p.get('ways', [])]"; }
at_snapt() { snapt_json 1 sessions | json "[(w['class'], w['way']) for s in d for w in s['ways']]"; }
ways_are() { equal "$(at_node) $(at_snapt)" "$1 $2"; }
carried_by() { cnapt_json paths | json "[(p['state'], p['transport']) for p in d]"; }
goes_over_udp() { equal "$(carried_by)" "[('usable', 'udp')]"; }
# says REGEX COMMAND...
says() { { "${@:2}" || true; } | tr -s ' \n' ' ' | grep -E "$1"; }
doctor() { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock"; }
# Each form on a new session: ways are known of a path.
begin_anew() {
    stop cnapt
    passes_all
    start_cnapt
    wait_for 5 in_ns node ping -n -c 1 -W 1 $inet4
    wait_for 10 goes_over_udp  # a busy machine may begin over TCP
    rm -f "$work/voice"
}
# call CLASS : its index.
call() { spawn node voice "$python" "$support_dir/voice.py" client $inet4 700$1 60 "$work/voice"; }
called() { [ "$(cat "$work/voice" 2>/dev/null | wc -l)" -gt "$1" ]; }
# silent_at_most SECONDS FROM
silent_at_most() { local gap; wait_for 10 called "$lines"; gap=$(longest_gap "$2" voice); at_most "$gap" "$1"; }

for i in 0 1 2 3; do
    class=${classes[i]} mark=${marks[i]}
    for form in "up" "down" "up down"; do
        begin_anew
        for way in $form; do drops "$way" $mark; done
        began=$EPOCHREALTIME lines=50
        call $i
        # Both ends mend it one after the other.
        [ "$form" = "up down" ] && bound=4.1 || bound=2.2
        claim "$mark dropped $form: the call is answered" silent_at_most "$bound" "$began"
        for way in $form; do claim "$mark dropped $form: it was dropped" dropped "$way"; done
        stop voice
        unmarked="[('$class', 'unmarked')]"
        case $form in
            up) claim "$mark dropped $form: the node sends $class unmarked" wait_for 5 ways_are "$unmarked" "[]" ;;
            down) claim "$mark dropped $form: the SNAPT sends $class unmarked" wait_for 5 ways_are "[]" "$unmarked" ;;
            *) claim "$mark dropped $form: both send $class unmarked" wait_for 5 ways_are "$unmarked" "$unmarked" ;;
        esac
        claim "$mark dropped $form: the path is usable, over UDP" goes_over_udp
    done
    claim "paths says so of $class" says "$class is sent without its DSCP, which the network drops" cnapt paths --socket "$work/cnapt.sock"
done
claim "and status" says "ht-hd is sent without its DSCP" cnapt status --socket "$work/cnapt.sock"
claim "and doctor" says "ok classes ht-hd is sent without its DSCP on up1>zrh-1" doctor

# A connection, whose first packets come a second apart.
begin_anew
drops up af21
drops down af21
claim "af21 dropped both ways: a page is there" in_ns node timeout 15 curl -sS -o "$work/got" "http://$inet4/file"
claim "af21 dropped both ways: it is whole" cmp -s "$work/got" "$work/www/file"
claim "af21 dropped both ways: it was dropped" dropped up
claim "af21 dropped both ways: the class goes unmarked" wait_for 5 ways_are "[('lt-hd', 'unmarked')]" "[('lt-hd', 'unmarked')]"

# The second form: one port of four, in the middle of a call.
for i in 1 2 3; do
    class=${classes[i]}
    for form in "up" "down" "up down"; do
        begin_anew
        learns_port ${marks[i]}
        call $i
        claim "$class: a call is under way" wait_for 10 called 50
        claim "$class: its port is known" has_port
        lines=$(($(wc -l <"$work/voice") + 100))
        began=$EPOCHREALTIME
        for way in $form; do blocks_port "$way"; done
        claim "the port of $class blocked $form: the call goes on" silent_at_most 2.3 "$began"
        claim "the port of $class blocked $form: it was" dropped "${form%% *}"  # the call is an echo
        case $form in
            down) claim "the port of $class blocked $form: the SNAPT takes another" wait_for 5 says "'$class', 'detour'" at_snapt ;;
            *) claim "the port of $class blocked $form: the node takes another socket" wait_for 5 says "'$class', 'detour'" at_node ;;
        esac
        stop voice
    done
    claim "paths says so of $class" says "$class is sent from the lt-ld socket" cnapt paths --socket "$work/cnapt.sock"
done
finish
