# Shared by the tests with systemd-resolved: the node has an /etc and a /run of its own, with a bus and resolved. Sourced behind
# lib.sh, it skips where the programs are not there.
tools=$(realpath "$(dirname "$0")/../..")/build/tools  # where ./test has unpacked what is not installed
PATH=$PATH:$tools/usr/bin
require ping getent unshare dbus-daemon resolvectl
resolved=/lib/systemd/systemd-resolved
[ -x "$resolved" ] || resolved=$tools$resolved
[ -x "$resolved" ] || skip "needs $resolved"

# start_resolved [LINE...] : with these in resolved.conf beside the usual ones; also a second time.
start_resolved() {
    printf '%s\n' '[Resolve]' 'FallbackDNS=' 'LLMNR=no' 'MulticastDNS=no' 'Cache=no' "${@:-DNSSEC=no}" >"$work/etc/systemd/resolved.conf"
    spawn node resolved "$resolved"
    wait_for 10 test -S "$work/run/systemd/resolve/io.systemd.Resolve"
}

# resolved_host [MOUNT] : its topology, with SNAPT 1, user alice and [dns], and a name server at each gateway. The node's programs
# run after the command MOUNT, too, in which $0 is $work, and after $with_places.
resolved_host() {
    local n policy user
    build_topology
    start_snapt 1
    add_user alice
    printf '\n[dns]\nservers = ["203.0.113.10"]\n' >>"$work/cnapt.toml"
    dns_server                                                # of the Internet: 203.0.113.80
    for n in 1 2; do                                          # of the access points: SNAPT 1
        spawn "gw$n" "resolver$n" "$python" "$support_dir/dns_responder.py" --ipv4 198.51.100.2 --log "$work/asked$n"
        wait_for 10 listens "gw$n" 53
    done
    cp -a /etc "$work/etc"
    mkdir -p "$work/run/dbus" "$work/run/systemd" "$work/etc/systemd" "$work/etc/dbus-1/system.d"
    policy=usr/share/dbus-1/system.d/org.freedesktop.resolve1.conf
    [ -e "/$policy" ] || cp "$tools/$policy" "$work/etc/dbus-1/system.d/"
    sed -i '/^continuo:/d; /^systemd-resolve:/d; /^messagebus:/d' "$work/etc/passwd" "$work/etc/group"
    for user in systemd-resolve:64791 messagebus:64792; do
        echo "${user%:*}:x:${user#*:}:${user#*:}::/:/usr/sbin/nologin" >>"$work/etc/passwd"
        echo "${user%:*}:x:${user#*:}:" >>"$work/etc/group"
    done
    printf 'hosts: files dns\n' >"$work/etc/nsswitch.conf"
    resolv=$work/etc/resolv.conf
    rm -f "$resolv"
    ln -s ../run/systemd/resolve/stub-resolv.conf "$resolv"
    chmod 755 "$work" "$work/etc" "$work/run"
    with_places="${1:+$1 && }"'mount --bind "$0/etc" /etc && mount --bind "$0/run" /run && exec "$@"'
    # cnapt looks for resolvectl where the package has it.
    [ -x /usr/bin/resolvectl ] || with_places="mount -t overlay -o lowerdir=$tools/usr/bin:/usr/bin overlay /usr/bin && $with_places"
    node_shell=(unshare -m sh -c "$with_places" "$work")
    spawn node bus dbus-daemon --config-file=/usr/share/dbus-1/system.conf --nofork --nopidfile
    wait_for 10 test -S "$work/run/dbus/system_bus_socket"
}

tell() { in_ns node resolvectl "$@"; }
resolves_to() { equal "$(in_ns node getent ahostsv4 name.example | awk 'NR == 1 { print $1 }')" "$1"; }
is_dns() { equal "$(cnapt_json status | json 'd["dns"]["state"]')" "$1"; }
goes_through_tunnel() { is_dns tunnel && resolves_to 203.0.113.80; }
leads_to_stub() { equal "$(readlink "$resolv")" ../run/systemd/resolve/stub-resolv.conf; }
by_resolver() { wc -l <"$work/asked$1"; }
