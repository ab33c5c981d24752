"""What the benches share: processes, namespaces, tunnels and their peers, measuring, results."""
