// Schedule: one random schedule of faults for a SessionPair with a roaming node. Each uplink has
// its own links and faults.
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
    // (space, sequence) pairs sealed with one key.
    using Sealed = std::set<std::pair<uint16_t, uint64_t>>;

    explicit Schedule(uint64_t seed);

    // Trouble while every flow sends.
    void trouble();
    // The network works again, without notification. Flows send until none can be waiting.
    void recover();
    // Some further packets of each flow, on good links: all that were sent must arrive.
    void finish();
    // Undelivered packets of them, and any other fault; empty: none.
    std::string fault();

    // The longest wait of a flow, as a share of the allowed time.
    double longest_wait() const { return std::max(watch_.worst_of_some, watch_.worst_of_all); }

    uint64_t moves = 0;
    uint64_t restarts = 0;
    uint64_t sealed_twice = 0;
    std::map<std::array<uint8_t, crypto::kKeyBytes>, Sealed> sealed;

  private:
    struct Outage {
        base::TimePoint ends_at = base::kNever;
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
    void rekey();
    void restart();
    bool knows_mappings(bool is_asked);
    bool spreads() const;
    Sent sent() const;

    base::SeededRandom chance_;
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
