// StallWatch: how long flows may wait for their path to be replaced or to recover, from the
// protocol's own timers, and whether one waited longer (docs/PROTOCOL.md sections 5.1, 5.3, 5.9).
//
// A flow waits from when a packet leaves until it or a later one arrives. Time counts only while
// one and the same uplink carries both ways, and since the network last took another uplink away:
// that may have been the active one, if only for a moment.
//
// When only some uplinks carry, the active one may be dead, and the flow waits for
//   1. the doubt, as recovery::Liveness has it, after the last acknowledgement: a round trip after
//      what it names;
//   2. the answer of an uplink that carries, to a CHALLENGE that leaves with the doubt: a round
//      trip;
//   3. the announcement, which carries packets up at once; down go those for which the limit of
//      5.4 has room, the rest when the tuple has answered: two round trips;
//   4. kRepeats, where challenges of steps 2 and 3 may be lost;
//   5. what the ends add: kOverhead.
// When all carry, the active one does. Up nothing is missing. Down SNAPT may know it by another
// path or mapping, of which it learns with the next announcement at the latest: kAnnounced, and
// then from step 3 on. Where it spreads flows over other paths, one of these may have another
// mapping and carry nothing up that would tell: it is left out when it owes an answer for T_doubt.
// And so may each of the others be, one after the other: a doubt for each.
#pragma once

#include "tests/support/numbered_streams.hpp"
#include "tests/support/roaming_node.hpp"

namespace continuo::tests {

// Between announcements, and between questions to a dead uplink while packets are sent in vain.
inline constexpr base::Duration kAnnounced = base::seconds(1);
// Repetitions of a challenge come after 40, 80, 160, 320 and 640 ms. Where a link that carries
// loses 1 % each way, as many are lost in one of 10^8 cases.
inline constexpr base::Duration kRepeats = base::milliseconds(1240);
// The longest pause of the flows, the hold of a class, and what a receiver of packets in disorder
// waits.
inline constexpr base::Duration kOverhead = base::milliseconds(350);
inline constexpr uint32_t kCarriesWithLossPpm = 10'000;
// So fast that what is repeated after a silence is no queue to speak of.
inline constexpr uint64_t kCarriesBitsPerS = 20'000'000;

class StallWatch {
  public:
    // `spreads`: flows take paths that are not active.
    StallWatch(SessionPair& pair, RoamingNode& node, NumberedStreams& streams, bool spreads)
        : pair_(pair), node_(node), streams_(streams), spreads_(spreads) {}

    // An uplink was taken away, in one direction or both, or the association.
    void on_loss() { lost_at_ = pair_.now; }
    // After each few milliseconds and whatever was changed.
    void look();
    static bool carries(const LinkSettings& link);

    std::string fault;
    // As a share of the allowed time.
    double worst_of_some = 0;
    double worst_of_all = 0;

  private:
    base::Duration round_trip(uint8_t slot) const;
    base::Duration doubt() const;
    base::Duration doubts() const;
    base::Duration repeats(uint8_t slot) const;
    base::Duration bound(uint8_t slot) const;
    std::string
    describe(size_t stream, size_t direction, base::Duration waited, base::Duration allowed) const;
    void look_at(size_t stream, size_t direction);

    SessionPair& pair_;
    RoamingNode& node_;
    NumberedStreams& streams_;
    bool spreads_;
    base::TimePoint lost_at_{};
    std::array<base::TimePoint, RoamingNode::kUplinks> carries_since_{};
    base::TimePoint all_carry_since_ = base::kNever;
};

}  // namespace continuo::tests
