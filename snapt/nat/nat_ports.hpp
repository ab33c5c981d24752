// Ports that NAT assigns. A port that this host listens on is never among them: a user's connection
// on it would receive what others send there, since connection tracking matches its own connections
// first. Pure.
#pragma once

#include "common/process/socket_listeners.hpp"
#include "snapt/nat/nat.hpp"

#include <span>
#include <vector>

namespace continuo::snapt::nat {

// One rule per part, evaluated only for the first packet of a connection.
inline constexpr size_t kMaxPortParts = 16;
// A smaller part is soon used up by connections to one destination.
inline constexpr uint32_t kMinPartPorts = 256;

// `range` without `taken`, which is sorted: its largest parts, largest first. At most
// kMaxPortParts, and besides the largest none below kMinPartPorts; other ports are not assigned.
// Empty: all are taken.
std::vector<PortRange> ports_left(PortRange range, std::span<const uint16_t> taken);

// Remembers the previous check of the host's listeners.
class TakenPorts {
  public:
    // `own` are always taken: the SNAPT's ports, and those redirected to it.
    explicit TakenPorts(std::vector<uint16_t> own) : own_(std::move(own)) {}

    struct Taken {
        std::vector<uint16_t> ports;                  // not to be assigned; sorted, each once
        std::vector<process::ListeningPort> lasting;  // their connections must end; sorted
    };
    // The ports taken now. The kernel gives ports in `ephemeral` to sockets without a fixed one,
    // such as the hundreds of a resolver that live for one answer: a UDP port there counts from the
    // second check in a row that finds it. With `wants_all` it counts at once.
    Taken
    look(std::span<const process::ListeningPort> listeners, PortRange ephemeral, bool wants_all);

  private:
    std::vector<uint16_t> own_;
    std::vector<uint16_t> short_lived_;  // seen at the last look, sorted
};

}  // namespace continuo::snapt::nat
