// RoamingNode: what cnapt does with the paths of a session (cnapt/node_paths.cpp), for the node of
// a SessionPair: uplinks that come and go, each with an address and two links of its own.
// policy::PathManager says which of them is active. Nothing else moves the session; the test only
// changes the network. With a control connection datagrams may go over TCP, too (path 15).
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

    // From now on there is a control connection, whenever some uplink lets one through.
    void connect();
    // The session is a new one.
    void on_session_began();
    // To be called every few milliseconds.
    void on_time();

    const Uplink& uplink(uint8_t slot) const { return uplinks_[slot]; }
    size_t count() const;
    // The uplink of the control connection, if there is one.
    std::optional<uint8_t> stream_slot() const { return stream_slot_; }
    bool is_on_stream() const { return manager_.is_on_stream(); }
    // TCP would get through there: both ways, with full segments.
    bool carries_stream(uint8_t slot) const;
    std::optional<uint8_t> active() const { return manager_.active(); }
    LinkModel& up(uint8_t slot) const { return pair_.path_links.at(slot).up; }
    LinkModel& down(uint8_t slot) const { return pair_.path_links.at(slot).down; }

  private:
    void update();
    void add_paths();
    policy::PathFacts facts() const;
    policy::WayFacts way_facts(uint8_t slot) const;
    void carry_out(const policy::PathSteps& steps);
    void carry_out(const policy::PathStep& step);
    void on_path_changed(uint8_t path);
    // roaming_node_stream.cpp
    void use_stream();
    void reconnect_at(base::TimePoint at, std::optional<uint8_t> slot);
    void follow_stream();
    void begin_connecting();
    void open_stream();
    void close_stream();
    void lose_stream(uint8_t slot);
    void consider_stream();
    void choose();
    void on_path_silent(uint8_t slot);

    SessionPair& pair_;
    std::array<Uplink, kUplinks> uplinks_{};
    policy::PathManager manager_;
    base::TimePoint tick_at_{};
    // The control connection: the uplink that it was made by, and the one that is being made.
    bool connects_ = false;
    std::optional<uint8_t> stream_slot_;
    std::optional<uint8_t> next_slot_;
    base::TimePoint opens_at_ = base::kNever;
    base::TimePoint connect_at_ = base::kNever;
    std::optional<uint8_t> connect_by_;  // nothing: by all side by side
    uint16_t connections_ = 0;
};

}  // namespace continuo::tests
