// NumberedStreams: flows of numbered packets through a SessionPair, one of each class, both ways.
// The content of a packet follows from flow, number and direction, so that altered, invented and
// duplicate packets are detected; each flow's waiting time is known.
#pragma once

#include "tests/support/session_pair.hpp"

#include <array>
#include <deque>
#include <set>

namespace continuo::tests {

// One direction of one flow.
struct StreamWay {
    uint32_t sent = 0;
    std::set<uint32_t> arrived;
    // Sent, and neither they nor later ones have come.
    struct Waiting {
        uint32_t number = 0;
        base::TimePoint since{};
    };
    std::deque<Waiting> waiting;
};

class NumberedStreams {
  public:
    static constexpr size_t kStreams = base::kTrafficClasses;
    static constexpr std::array<const char*, 2> kNames = {"up", "down"};

    NumberedStreams(SessionPair& pair, base::PathMode mode);

    // One packet of each flow each way; down only of flows that SNAPT has heard of.
    void send();
    // Takes what was delivered.
    void collect();
    // The association is lost and what is under way with it.
    void give_up_waiting();
    // The packet for which this flow waits longest; kNever: it does not wait.
    base::TimePoint waiting_since(size_t stream, size_t direction) const;
    const StreamWay& way(size_t stream, size_t direction) const { return ways_[stream][direction]; }
    // Flows that are not attached to their session at that end.
    size_t detached(SessionEnd& end);

    uint64_t altered = 0;  // or never sent
    uint64_t delivered_twice = 0;

  private:
    struct Stream {
        packet::HeaderFields fields;  // from node to the other host
        packet::FiveTuple tuple;
        packet::FiveTuple leased;  // as SNAPT sees it
        base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    };
    void make_stream(size_t index);
    void send(size_t index, size_t direction);
    void collect(SessionEnd& end, size_t direction);
    std::vector<uint8_t>
    packet_of(size_t index, uint32_t number, size_t direction, bool at_snapt) const;
    bool is_as_sent(const std::vector<uint8_t>& packet,
                    size_t index,
                    uint32_t number,
                    size_t direction) const;
    flow::Flow* flow_of(size_t index, SessionEnd& end);

    SessionPair& pair_;
    base::PathMode mode_;
    std::array<Stream, kStreams> streams_;
    std::array<std::array<StreamWay, 2>, kStreams> ways_;
};

}  // namespace continuo::tests
