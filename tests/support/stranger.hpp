// Stranger: hears the datagrams of a SessionPair and has no keys. Sends both ends altered and cut
// ones, noise, messages without protection that quote real ones, and what it recorded, from an
// address of its own or in the other end's name, and looks whether that changes anything.
#pragma once

#include "tests/support/session_pair.hpp"

#include <tuple>
#include <vector>

namespace continuo::tests {

class Stranger {
  public:
    explicit Stranger(SessionPair& pair, base::Random& random) : pair_(pair), random_(random) {}

    // All that an end shows of itself, but for what it drops.
    struct EndState {
        using Parts = std::tuple<std::array<session::Tuple, base::kTrafficClasses>,
                                 path::Announcements,
                                 path::Silence,
                                 path::KeepaliveSearch,
                                 path::SignOfLife,
                                 path::CopyWish>;
        std::vector<int64_t> numbers;
        std::vector<Parts> parts;
        bool operator==(const EndState&) const = default;
    };

    // Records for a moment, then attacks with that and what was recorded before.
    void interfere();

    // What happened and must not have.
    std::string fault;
    uint64_t attempts = 0;
    uint64_t taken = 0;  // recorded, had been lost, and so as good as new

  private:
    using Datagrams = std::vector<std::vector<uint8_t>>;

    void attack(SessionEnd& end, const Datagrams& fresh, const Datagrams& old);
    // What cannot be authentic.
    void forge(SessionEnd& end, std::vector<uint8_t> datagram, const char* what);
    void replay(SessionEnd& end, const std::vector<uint8_t>& datagram);
    std::vector<uint8_t> spoil(std::vector<uint8_t> datagram);
    std::vector<uint8_t> unsealed(const std::vector<uint8_t>& datagram);
    bool is_changed(const SessionEnd& end);
    void give(SessionEnd& end, const std::vector<uint8_t>& datagram);
    // SNAPT believes that the node is at the stranger's address.
    bool is_believed() const;

    SessionPair& pair_;
    base::Random& random_;
    const base::Endpoint address_ = *base::Endpoint::parse("203.0.113.66:6666");
    EndState state_;  // of the end that is attacked, before
    Datagrams old_up_;
    Datagrams old_down_;
};

}  // namespace continuo::tests
