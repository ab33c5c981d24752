// PathFeedback: what acknowledgements and answers tell of one path (docs/PROTOCOL.md section 5.1):
// the round trip and, while the path carries packets, delivery and the ways that its classes take.
// Pure.
#pragma once

#include "common/path/class_ways.hpp"
#include "common/recovery/delivery.hpp"

#include <memory>
#include <optional>

namespace continuo::path {

// In the direction that this end sends, from acknowledgements (Delivery).
struct Measured {
    uint64_t bytes_per_s = 0;    // outer IP packets; 0: unknown
    bool is_full = false;        // a queue stands in it
    bool was_full = false;       // at the last measurement; else it may deliver far more
    std::optional<double> loss;  // fraction of datagrams; nothing: unknown
    uint64_t lost_datagrams = 0;
    uint64_t late_datagrams = 0;  // arrived after they had been declared lost
};

class PathFeedback {
  public:
    // `liveness`, `search` and `memory` as in Delivery.
    PathFeedback(recovery::Liveness& liveness,
                 recovery::MtuSearch& search,
                 base::MemoryBudget* memory,
                 bool is_tcp)
        : liveness_(liveness), search_(search), memory_(memory), is_tcp_(is_tcp) {}

    // --- What is known
    const recovery::RttEstimator& rtt() const { return rtt_; }
    // Zero: no sample.
    base::Duration smoothed_rtt() const {
        return rtt_.has_sample() ? rtt_.smoothed() : base::Duration{};
    }
    base::Duration rtt_variation() const {
        return rtt_.has_sample() ? rtt_.variation() : base::Duration{};
    }
    base::Duration probe_timeout() const;
    // P of CONTRIBUTING.md: after this long without a sign of the other end something is wrong.
    base::Duration patience() const;
    const Measured& measured() const { return measured_; }
    // Null for a path that carries no packets.
    const recovery::Delivery* delivery() const { return delivery_.get(); }
    recovery::Delivery* delivery() { return delivery_.get(); }
    uint64_t unacknowledged_bytes() const {
        return delivery_ != nullptr ? delivery_->unacknowledged_bytes() : 0;
    }
    // A PING is not acknowledged yet.
    bool has_pings() const { return delivery_ != nullptr && delivery_->has_pings(); }
    // When a datagram will be lost by time.
    base::TimePoint loss_deadline() const;
    // The ways that the classes take; null: each its own.
    const ClassWays* class_ways() const { return class_ways_.get(); }
    ClassWays* class_ways() { return class_ways_.get(); }
    ClassWay way_of(base::TrafficClass traffic_class) const {
        return class_ways_ == nullptr ? ClassWay::Own : class_ways_->way(traffic_class);
    }
    ClassWays::Times class_times() const;
    // Node: datagrams of that class have taken another socket, so that the SNAPT sees them at
    // another address although nothing has moved.
    bool has_changed_socket(base::TrafficClass traffic_class, base::TimePoint now) const;
    // Something that could have been acknowledged is not.
    bool has_unconfirmed_class(base::TimePoint now) const;

    // --- Datagrams and their acknowledgements
    // A run of datagrams of the class left. One that no answer is due to costs nothing.
    void on_numbered(base::TrafficClass traffic_class,
                     const recovery::SentRun& run,
                     base::TimePoint now);
    // Makes it, for a path that begins to carry packets.
    recovery::Delivery& ensure_delivery();
    // A run is repeated by another path. True if it was in the log.
    bool take_out(const recovery::SentRun& run);
    // After all ranges of a datagram. `came_back`: it came by this path. The path must have a log.
    void on_acks_read(bool came_back, base::TimePoint now);
    // A challenge was answered.
    void on_exchange(base::Duration round_trip, base::TimePoint now) {
        rtt_.on_exchange(round_trip, now);
    }
    // Losses by time.
    void on_time(base::TimePoint now);

    // --- What does not count any more
    void distrust_round_trips(base::TimePoint now);
    // Nothing that has left by a class's way is missed.
    void forget_class_sendings();
    // Forgets what has left, and what it told.
    void forget_delivery();
    // The other end is in another network: its round trip and ways say nothing any more.
    void forget_network();
    // Forgets acknowledgements that are too old, and frees memory. True: nothing is left.
    bool tidy(base::TimePoint now);

  private:
    void note_class_sent(base::TrafficClass traffic_class,
                         const recovery::SentRun& run,
                         base::TimePoint now);
    void note_class_arrived(bool came_back, base::TimePoint now);

    recovery::Liveness& liveness_;
    recovery::MtuSearch& search_;
    base::MemoryBudget* const memory_;
    const bool is_tcp_;
    recovery::RttEstimator rtt_;
    Measured measured_;
    std::unique_ptr<recovery::Delivery> delivery_;
    // Null for a path that carries no packets, and for TCP; kept while the path is in the same
    // network.
    std::unique_ptr<ClassWays> class_ways_;
};

}  // namespace continuo::path
