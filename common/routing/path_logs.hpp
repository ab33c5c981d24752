// PathLogs: which path's log a datagram, its repeat and its acknowledgement belong to
// (docs/PROTOCOL.md section 6.7). Pure.
#pragma once

#include "common/routing/path_types.hpp"
#include "common/wire/ack_ranges.hpp"

namespace continuo::routing {

class PathLogs {
  public:
    // `paths` must outlive this object.
    explicit PathLogs(Paths& paths) : paths_(paths) {}

    // A datagram that no ACK has named left again under its number on path `index`. If it left last
    // on another one, the log of `index` has it from now on.
    void on_sent_again(recovery::SentRun run, uint8_t index, base::TimePoint now);
    // Datagrams sent before `now`, on any path, are excluded from rate samples: they are sent again
    // under the same number.
    void distrust_samples(base::TimePoint now);
    // Keys have changed: the peer owes no ACK for what left under the former ones.
    void forget_sent();
    // A range of an ACK for a space of that epoch, received on path `arrived_on`. Call
    // on_acks_read() after the last range of a datagram.
    void on_ack_range(uint32_t epoch,
                      const wire::Ack& ack,
                      const wire::AckRange& range,
                      uint8_t arrived_on);
    // After the ranges of a frame.
    void on_ack_count(uint32_t epoch, const wire::Ack& ack);
    // The paths whose doubt has ended (node).
    PathMask on_acks_read(base::TimePoint now);
    // Forgets acknowledgements that are too old.
    void tidy(base::TimePoint now);

    // An ACK has named that number, or a higher one, and it is not lost.
    bool is_named(uint32_t epoch, uint16_t space, uint64_t sequence) const;
    bool is_lost(uint32_t epoch, uint16_t space, uint64_t sequence) const;
    // The number left last as a repeat, on whatever path, and no ACK has named it yet.
    bool is_repeated(uint32_t epoch, uint16_t space, uint64_t sequence) const;

  private:
    Paths& paths_;
    PathMask repeating_ = 0;  // paths with repeats in their logs, and some that had
    // Paths named by the acknowledgements being read.
    PathMask acknowledged_ = 0;
    PathMask answered_ = 0;        // of these for the first time, by themselves
    uint8_t acknowledged_by_ = 0;  // the path that brought them
    uint32_t named_repeats_ = 0;   // repeated datagrams that this frame named
};

}  // namespace continuo::routing
