#!/usr/bin/env python3
"""TCP throughput, 1-byte round trip and tunnel CPU per GB of Continuo beside wireguard-go, in one run and one topology.

usage: beside_wireguard.py --bin DIR [--wireguard PATH] [--seconds N] [--rounds N]   (root)

node - router - server: plain veth, no emulation. Rounds are interleaved; medians are printed. The ratio counts, not the
absolute value. Not a test: it never fails because something is slow.
"""
import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PID = os.getpid()
NODE, ROUTER, SERVER = (f"ctnb-{PID}-{name}" for name in ("node", "relay", "server"))
TICKS = os.sysconf("SC_CLK_TCK")
LAUNCHED = []  # everything that must not outlive this program


def sh(command, **keywords):
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True, **keywords).stdout


def start(namespace, command, log):
    LAUNCHED.append(subprocess.Popen(["ip", "netns", "exec", namespace] + command, stdout=log, stderr=log))
    return LAUNCHED[-1]


def topology():
    for name in (NODE, ROUTER, SERVER):
        sh(f"ip netns add {name} && ip -n {name} link set lo up")
    sh(f"ip link add u0 netns {NODE} type veth peer name d0 netns {ROUTER}")
    sh(f"ip link add u1 netns {ROUTER} type veth peer name d1 netns {SERVER}")
    for name, device, address in ((NODE, "u0", "192.0.2.2/24"), (ROUTER, "d0", "192.0.2.1/24"),
                                  (ROUTER, "u1", "198.51.100.1/24"), (SERVER, "d1", "198.51.100.2/24")):
        sh(f"ip -n {name} addr add {address} dev {device} && ip -n {name} link set {device} up")
    sh(f"ip -n {NODE} route add default via 192.0.2.1")


def remove_topology():
    for name in (NODE, ROUTER, SERVER):
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


class Continuo:
    name = "continuo"

    def __init__(self, folder, options):
        self.log = open(f"{folder}/continuo.log", "w")
        cnapt, snapt = f"{options.bin}/cnapt", f"{options.bin}/snapt"
        os.makedirs(f"{folder}/s"), os.makedirs(f"{folder}/c")
        sh(f"{snapt} init --config {folder}/snapt.toml --state {folder}/s --name bench --public 192.0.2.1:9347")
        self.processes = [start(ROUTER, [snapt, "run", "--config", f"{folder}/snapt.toml", "--state", f"{folder}/s",
                                         "--socket", f"{folder}/snapt.sock"], self.log)]
        sh(f"{snapt} status --wait up --timeout 10 --socket {folder}/snapt.sock")
        sh(f"{snapt} user add bench --socket {folder}/snapt.sock > {folder}/cnapt.toml")
        self.processes.append(start(NODE, [cnapt, "run", "--config", f"{folder}/cnapt.toml", "--state", f"{folder}/c",
                                           "--socket", f"{folder}/cnapt.sock"], self.log))
        sh(f"{cnapt} status --wait up --timeout 10 --socket {folder}/cnapt.sock")
        self.status = lambda: [json.loads(sh(f"{program} status --json --socket {folder}/{name}.sock"))
                               for name, program in (("cnapt", cnapt), ("snapt", snapt))]

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(10)


class Wireguard:
    name = "wireguard-go"

    def __init__(self, folder, options):
        self.log = open(f"{folder}/wireguard.log", "w")
        keys = {}
        for side in ("node", "relay"):
            private = sh("wg genkey").strip()
            keys[side] = (private, sh("wg pubkey", input=private).strip())
            with open(f"{folder}/{side}.key", "w") as file:
                file.write(private)
        self.processes = []
        for namespace, device in ((ROUTER, "wgb0"), (NODE, "wgb1")):
            environment = dict(os.environ, WG_PROCESS_FOREGROUND="1", LOG_LEVEL="error")
            self.processes.append(subprocess.Popen(
                ["ip", "netns", "exec", namespace, options.wireguard, "-f", device],
                stdout=self.log, stderr=self.log, env=environment))
            LAUNCHED.append(self.processes[-1])
        for namespace, device in ((ROUTER, "wgb0"), (NODE, "wgb1")):
            for _ in range(200):
                if subprocess.run(["ip", "-n", namespace, "link", "show", device], capture_output=True).returncode == 0:
                    break
                time.sleep(0.02)
        run = "ip netns exec"
        sh(f"{run} {ROUTER} wg set wgb0 private-key {folder}/relay.key listen-port 51820 "
           f"peer {keys['node'][1]} allowed-ips 10.99.0.2/32")
        sh(f"{run} {NODE} wg set wgb1 private-key {folder}/node.key peer {keys['relay'][1]} endpoint 192.0.2.1:51820 "
           f"allowed-ips 0.0.0.0/0 persistent-keepalive 25")
        sh(f"ip -n {ROUTER} addr add 10.99.0.1/24 dev wgb0 && ip -n {ROUTER} link set wgb0 mtu 1420 up")
        sh(f"ip -n {NODE} addr add 10.99.0.2/24 dev wgb1 && ip -n {NODE} link set wgb1 mtu 1420 up")
        sh(f"ip -n {NODE} route add 198.51.100.0/24 dev wgb1")
        sh(f"{run} {ROUTER} sysctl -q -w net.ipv4.ip_forward=1")
        sh(f"{run} {ROUTER} nft 'add table ip bench; add chain ip bench post {{ type nat hook postrouting priority 100 ; "
           f"}}; add rule ip bench post oifname \"u1\" masquerade'")
        sh(f"ip netns exec {NODE} ping -c 1 -W 3 198.51.100.2")

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(10)
        subprocess.run(["ip", "netns", "exec", ROUTER, "nft", "delete", "table", "ip", "bench"], check=False)
        subprocess.run(["ip", "-n", NODE, "route", "del", "198.51.100.0/24"], check=False, capture_output=True)


class Plain:
    name = "plain"

    def __init__(self, folder, options):
        self.processes = []
        sh(f"ip netns exec {ROUTER} sysctl -q -w net.ipv4.ip_forward=1")
        sh(f"ip -n {SERVER} route add default via 198.51.100.1")

    def stop(self):
        sh(f"ip -n {SERVER} route del default")
        sh(f"ip netns exec {ROUTER} sysctl -q -w net.ipv4.ip_forward=0")


def cpu_seconds(processes):
    total = 0
    for process in processes:
        pids = [process.pid] + [int(pid) for pid in
                                subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
                                .stdout.split()]
        for pid in pids:
            try:
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
                total += (int(fields[11]) + int(fields[12])) / TICKS
            except OSError:
                pass
    return total


def throughput(tunnel, reverse, seconds):
    before = cpu_seconds(tunnel.processes)
    report = json.loads(sh(f"ip netns exec {NODE} iperf3 -J -c 198.51.100.2 -t {seconds} {'-R' if reverse else ''}"))
    bits = report["end"]["sum_received"]["bits_per_second"]
    gigabytes = report["end"]["sum_received"]["bytes"] / 1e9
    return bits / 1e9, (cpu_seconds(tunnel.processes) - before) / gigabytes


ECHO = """
import socket
s = socket.create_server(("198.51.100.2", 7777)); 
while True:
    c, _ = s.accept(); c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while (d := c.recv(64)): c.sendall(d)
"""
ASK = """
import socket, time, sys
c = socket.create_connection(("198.51.100.2", 7777)); c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
end = time.monotonic() + float(sys.argv[1]); times = []
while time.monotonic() < end:
    at = time.perf_counter(); c.sendall(b"x"); c.recv(1); times.append((time.perf_counter() - at) * 1e6)
times.sort(); print(times[len(times) // 2], times[int(len(times) * 0.99)])
"""


def round_trip(seconds):
    return [float(value) for value in
            sh(f"ip netns exec {NODE} {sys.executable} -c '{ASK}' {seconds}").split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--wireguard", default=shutil.which("wireguard-go") or "")
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    contestants = [Plain, Continuo] + ([Wireguard] if options.wireguard else [])
    if not options.wireguard:
        print("wireguard-go is not installed: skipped")
    rows = {}
    folder = tempfile.mkdtemp(prefix="ctn-bench-")
    servers = []
    try:
        topology()
        servers.append(start(SERVER, ["iperf3", "-s"], subprocess.DEVNULL))
        servers.append(start(SERVER, [sys.executable, "-c", ECHO], subprocess.DEVNULL))
        time.sleep(0.5)
        segments = None
        for number in range(options.rounds):
            for contestant in contestants:
                place = f"{folder}/{contestant.name}-{number}"
                os.makedirs(place)
                tunnel = contestant(place, options)
                try:
                    values = rows.setdefault(contestant.name, {})
                    for name, reverse in (("up", False), ("down", True)):
                        rate, cpu = throughput(tunnel, reverse, options.seconds)
                        values.setdefault(f"{name} Gbit/s", []).append(rate)
                        values.setdefault(f"{name} CPU s/GB", []).append(cpu)
                        time.sleep(0.5)
                    median, tail = round_trip(1)
                    values.setdefault("round trip us p50", []).append(median)
                    values.setdefault("round trip us p99", []).append(tail)
                    if contestant is Continuo:
                        segments = [end["io"]["segments_per_write"] for end in tunnel.status()]
                finally:
                    tunnel.stop()
                print(f"round {number + 1} of {options.rounds}: {contestant.name} done", file=sys.stderr)
    finally:
        for process in LAUNCHED:
            process.terminate()
        remove_topology()
        shutil.rmtree(folder, ignore_errors=True)
    columns = list(next(iter(rows.values())))
    print(f"{'':14}" + "".join(f"{column:>20}" for column in columns))
    for name, values in rows.items():
        print(f"{name:14}" + "".join(f"{statistics.median(values[column]):20.2f}" for column in columns))
    if "wireguard-go" in rows:
        print(f"{'ratio':14}" + "".join(
            f"{statistics.median(rows['continuo'][c]) / max(1e-9, statistics.median(rows['wireguard-go'][c])):20.2f}"
            for c in columns))
    print(f"segments per TUN write, node and SNAPT: {segments}")


if __name__ == "__main__":
    main()
