// RoamingNode: the node of a SessionPair with uplinks that come and go, each with an address and
// two links of its own. policy::PathManager chooses the active one, told and carried out as in
// cnapt/node/node_choice.cpp. Nothing else moves the session; the test only changes the network.
// TCP (path 15) is left out: PathManagerSim has it.
#pragma once

#include "policy/path_manager.hpp"
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
        base::IpAddress address;
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
    std::optional<uint8_t> active() const {
        return manager_.active() ? std::optional(manager_.active()->uplink) : std::nullopt;
    }
    LinkModel& up(uint8_t slot) { return pair_.path_links.at(slot).up; }
    LinkModel& down(uint8_t slot) { return pair_.path_links.at(slot).down; }

  private:
    void update();
    void add_paths();
    void choose();
    bool is_busy();

    SessionPair& pair_;
    std::array<Uplink, kUplinks> uplinks_{};
    policy::PathManager manager_;
    std::vector<uint8_t> hints_;
    base::TimePoint choose_at_ = base::kNever;
    uint64_t traffic_ = 0;
    base::TimePoint busy_at_{};
};

}  // namespace continuo::tests
