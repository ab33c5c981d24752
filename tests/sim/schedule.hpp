// Schedule: one random schedule of trouble for a SessionPair with a roaming node. Uplinks have
// links of their own, and trouble comes to each apart.
#pragma once

#include "tests/support/numbered_streams.hpp"
#include "tests/support/roaming_node.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/stranger.hpp"

#include <algorithm>
#include <set>

namespace continuo::tests {

class Schedule {
  public:
    // (space, sequence) of what was sealed with one key.
    using Sealed = std::set<std::pair<uint16_t, uint64_t>>;

    // `has_tcp`: there is a control connection, and UDP is blocked at times.
    explicit Schedule(uint64_t seed, bool has_tcp = false);

    // Trouble while every flow sends.
    void trouble();
    // The network is as it should be again, and nobody tells. Flows send until none can be waiting.
    void recover();
    // Some further packets of each flow, on good links: all that were sent must arrive.
    void finish();
    // What was not delivered of them, and what went wrong anywhere else; empty: nothing.
    std::string fault();

    // Of what is allowed, how long a flow waited at most.
    double longest_wait() const {
        return std::max({watch_.worst_of_some, watch_.worst_of_all, watch_.worst_with_tcp});
    }

    uint64_t moves = 0;
    uint64_t stays_on_tcp = 0;
    uint64_t restarts = 0;
    uint64_t sealed_twice = 0;
    std::map<std::array<uint8_t, crypto::kKeyBytes>, Sealed> sealed;

  private:
    struct Outage {
        base::TimePoint ends_at = base::kNever;
        base::TimePoint udp_back_at = base::kNever;
    };
    using Sent = std::array<std::array<uint32_t, 2>, NumberedStreams::kStreams>;

    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(chance_.below(bound)); }
    bool one_in(uint32_t count) { return below(count) == 0; }
    LinkSettings random_link();
    base::Endpoint next_address();
    void randomize(uint8_t slot);

    void begin_association();
    void pass(base::Duration span, base::Duration step);
    void on_time();
    void something_happens();
    void uplink_comes_or_goes(uint8_t slot);
    void black_out(uint8_t slot);
    base::Duration random_outage();
    void tunnel();
    void end_outage(uint8_t slot);
    void cut_mtu(uint8_t slot);
    void block_udp();
    void set_udp(uint8_t slot, bool is_blocked);
    void rekey();
    void restart();
    bool knows_mappings(bool is_asked);
    bool spreads() const;
    Sent sent() const;

    base::SeededRandom chance_;
    base::SeededRandom tcp_chance_;  // so that schedules without TCP stay what they are
    bool has_tcp_;
    bool was_on_tcp_ = false;
    uint32_t addresses_ = 0;
    SessionPair pair_;
    base::PathMode mode_;
    RoamingNode node_;
    NumberedStreams streams_;
    StallWatch watch_;
    Stranger stranger_;
    std::array<Outage, RoamingNode::kUplinks> outages_;
    uint8_t generation_ = 0;  // of keys
    uint32_t epoch_ = 1;
    uint32_t late_rekey_ = 0;                       // granted, not at the node yet
    base::TimePoint associates_at_ = base::kNever;  // again, after a restart
    bool has_small_link_ = false;
    Sent before_{};  // the last packets
    bool must_arrive_ = true;
};

}  // namespace continuo::tests
