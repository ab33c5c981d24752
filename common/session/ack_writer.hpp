// AckWriter: acknowledgements that a session writes: which datagrams carry them, and when one
// leaves alone. What there is to acknowledge is in the ledgers of the epochs. Pure.
#pragma once

#include "common/session/draft.hpp"
#include "common/session/session_core.hpp"

#include <optional>

namespace continuo::session {

class AckWriter {
  public:
    // An acknowledgement that no other datagram carries.
    struct Lone {
        base::TimePoint due_at;
        path::Destination destination;
        uint8_t acknowledged_path = 0;
        bool answers_ping = false;
    };

    // `core` must outlive this object.
    explicit AckWriter(SessionCore& core);

    // The one that leaves alone first, now or later, on a path with room for it.
    std::optional<Lone> next_lone(base::TimePoint now) const;
    // Writes those that are due and take the draft's path, in at most `spare_bytes`: they can wait
    // for another datagram. `alone`: the datagram has nothing else. Returns the bytes written.
    size_t write(Draft& draft,
                 base::ByteWriter& body,
                 bool alone,
                 base::TimePoint now,
                 size_t spare_bytes = SIZE_MAX);
    // Writes the numbers received recently, newest ranges first: SNAPT repeats those above them.
    void write_received(Draft& draft, base::ByteWriter& body, base::TimePoint now);
    // The numbers first to last of the space arrived: acknowledgements in them need not be
    // repeated.
    void on_acknowledged(const EpochState& epoch, uint16_t space, uint64_t first, uint64_t last);

  private:
    bool write_path(Draft& draft,
                    EpochState& epoch,
                    uint8_t path,
                    bool is_alone,
                    base::ByteWriter& body,
                    size_t room_bytes,
                    base::TimePoint now);
    bool write_frame(const AckBlock& block,
                     uint8_t path,
                     const EpochState& epoch,
                     Draft& draft,
                     base::ByteWriter& body,
                     base::TimePoint now);
    template <typename Visit>
    void each_reportable(const Visit& visit) const;

    Epochs& epochs_;
    routing::PathSet& paths_;
    SessionScratch& scratch_;
    SessionCounters& counters_;
};

}  // namespace continuo::session
