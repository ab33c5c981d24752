// Which ports NAT hands out. One that somebody at this host listens on is never among them: a user
// whose connection had it would get what others send to that port, for connection tracking asks
// for its own connections first. Pure.
#pragma once

#include "common/io/socket_listeners.hpp"
#include "snapt/nat.hpp"

#include <span>
#include <vector>

namespace continuo::snapt {

// A rule each, looked at by the first packet of a connection only.
inline constexpr size_t kMaxPortParts = 16;
// A smaller part would soon be used up by connections to one destination.
inline constexpr uint32_t kMinPartPorts = 256;

// `range` without `taken`, which is sorted: the largest parts, the largest first. No more than
// kMaxPortParts, and none but the largest below kMinPartPorts; the ports of the others are not
// handed out. Empty: all are taken.
std::vector<PortRange> ports_left(PortRange range, std::span<const uint16_t> taken);

// Remembers the last look at the host's listeners.
class TakenPorts {
  public:
    // `own` are taken whatever is listened on: the SNAPT's, and those redirected to it.
    explicit TakenPorts(std::vector<uint16_t> own) : own_(std::move(own)) {}

    struct Taken {
        std::vector<uint16_t> ports;             // not to be handed out; sorted, each once
        std::vector<io::ListeningPort> lasting;  // whose connections must end; sorted, each once
    };
    // The ports that are taken now. From `ephemeral` the kernel gives ports to sockets that want
    // any, such as the hundreds of a resolver that live for an answer: a UDP port there counts from
    // the second look on that finds it. With `wants_all` it is not handed out from the first look
    // on; in the very first look of all, it lasts: what an earlier run left there has to end.
    Taken look(std::span<const io::ListeningPort> listeners, PortRange ephemeral, bool wants_all);

  private:
    std::vector<uint16_t> own_;
    std::vector<uint16_t> short_lived_;  // of the last look, sorted
    bool has_looked_ = false;
};

}  // namespace continuo::snapt
