// Stranger: overhears the datagrams of a SessionPair without keys. Sends both ends altered and
// truncated ones, noise, messages without protection that quote real ones, and recorded datagrams,
// from its own address or with the other end's, and checks whether anything changes.
#pragma once

#include "tests/support/session_pair.hpp"

namespace continuo::tests {

class Stranger {
  public:
    explicit Stranger(SessionPair& pair, base::Random& random) : pair_(pair), random_(random) {}

    // Records for a moment, then attacks with that and what was recorded before.
    void interfere();

    // A forbidden event that happened.
    std::string fault;
    uint64_t attempts = 0;
    uint64_t taken = 0;  // recorded, had been lost, and so as good as new

  private:
    using Datagrams = std::vector<std::vector<uint8_t>>;

    void attack(SessionEnd& end, const Datagrams& fresh, const Datagrams& old);
    // Datagrams that cannot be authentic.
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
    std::vector<int64_t> state_;  // of the end that is attacked, before
    Datagrams old_up_;
    Datagrams old_down_;
};

}  // namespace continuo::tests
