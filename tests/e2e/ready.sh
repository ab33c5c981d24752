#!/usr/bin/env bash
# cnapt's notifications to a service manager: it is ready as soon as it works, with or without a network, also with a key that no
# SNAPT knows; a boot does not wait for it. Whether a SNAPT answers is in the status.
. "$(dirname "$0")/lib.sh"
require ping
new_namespace node snapt1
connect node up1 snapt1 wan
address snapt1 wan 198.51.100.2/30
start_snapt 1
add_user alice

# Keeps what comes to the service manager's socket, a line each, in told.log.
export NOTIFY_SOCKET=$work/notify
listen_to_cnapt() {
    spawn node told "$python" -u -c 'import socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1])
while True:
    print(manager.recv(4096).decode())' "$NOTIFY_SOCKET"
    wait_for 5 test -S "$NOTIFY_SOCKET"
}
told() { grep -q "$1" <(said told); }
run_anew() { # with nothing told yet
    if is_alive cnapt; then stop cnapt; fi
    begin_log told
    run_cnapt
}
listen_to_cnapt

run_anew
claim "without a network cnapt is ready" wait_for 10 told '^READY=1$'
claim "and says that no SNAPT answers" told '^STATUS=running; no SNAPT has answered yet$'
claim "it can be asked" equal "$(cnapt_json status | json 'd["state"]')" down
claim "and has its device" in_ns node ip link show cnapt0
claim "to wait for a SNAPT is another question" eval '! wait_cnapt 1'

cp "$work/cnapt.toml" "$work/good.toml"
sed -i 's|^key = "[^"]*"|key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="|' "$work/cnapt.toml"
address node up1 198.51.100.1/30
ip -n "$(ns node)" route add default via 198.51.100.2
run_anew
claim "with a wrong key cnapt is ready" wait_for 10 told '^READY=1$'
refused() { grep -q 'no control link to 198.51.100.2:9347 (login_refused)' "$work/cnapt.log"; }
claim "the log says that the login failed" wait_for 10 refused
claim "and no SNAPT answers" eval '! told "^STATUS=.*1 of"'

cp "$work/good.toml" "$work/cnapt.toml"
run_anew
claim "with the right one the status tells that it is connected" wait_for 20 told '^STATUS=running; 1 of 1 SNAPTs answer$'
claim "it was ready once" equal "$(said told | grep -c '^READY=1$')" 1
stop snapt1
ping_all() { in_ns node ping -n -q -c 1 -W 1 203.0.113.10; told '^STATUS=running; 0 of 1 SNAPTs answer; new flows go outside the tunnel$'; }
claim "and that it is not any more" wait_for 25 ping_all
stop cnapt
claim "and its end" told '^STOPPING=1$'
finish
