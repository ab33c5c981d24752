// RoamingNode: what cnapt does with the paths of a session (cnapt/node/node_paths.cpp,
// node_hints.cpp), for the node of a SessionPair: uplinks that come and go, each with an address
// and two links of its own, and which of them is active. Nothing else moves the session; the test
// only changes the network. TCP (path 15) is left out.
#pragma once

#include "tests/support/session_pair.hpp"

#include <array>

namespace continuo::tests {

class RoamingNode {
  public:
    static constexpr uint8_t kUplinks = 3;
    struct Uplink {
        bool is_there = false;
        uint32_t metric = 0;  // of its default route: the smallest is preferred
        uint16_t mtu = 1500;
        base::TimePoint barred_until{};
        base::Duration bar{};
    };

    // Takes over `pair`: the path that it began with ends. No uplink is there yet.
    explicit RoamingNode(SessionPair& pair);

    // --- The network, of which netlink tells
    void appear(uint8_t slot, const base::Endpoint& address, uint32_t metric);
    void vanish(uint8_t slot);
    // Another address on the same interface: another network behind it.
    void readdress(uint8_t slot, const base::Endpoint& address);
    void set_metric(uint8_t slot, uint32_t metric);
    void resize(uint8_t slot, uint16_t mtu);
    // --- and of which nobody tells
    void rebind(uint8_t slot, const base::Endpoint& address);

    // The session is a new one.
    void on_session_began();
    // To be called every few milliseconds.
    void on_time();

    const Uplink& uplink(uint8_t slot) const { return uplinks_[slot]; }
    size_t count() const;
    std::optional<uint8_t> active() const { return active_; }
    LinkModel& up(uint8_t slot) { return pair_.path_links.at(slot).up; }
    LinkModel& down(uint8_t slot) { return pair_.path_links.at(slot).down; }

  private:
    void update();
    void add_paths();
    void choose();
    void activate(uint8_t slot);
    void bar_if_failing(uint8_t slot);
    void on_path_silent(uint8_t slot);
    void probe_others(uint8_t slot);
    template <typename Predicate>
    std::optional<uint8_t> best_without(const Predicate& is_left_out) const;

    SessionPair& pair_;
    std::array<Uplink, kUplinks> uplinks_{};
    std::optional<uint8_t> active_;
    base::TimePoint bar_ends_at_ = base::kNever;
};

}  // namespace continuo::tests
