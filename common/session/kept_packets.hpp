// KeptPackets: packets that are kept, to be sent again as copies (docs/PROTOCOL.md section 5.6),
// and which of them are due. Otherwise a transfer goes on only at its TCP's next retransmission,
// whose time-out doubles with each try. Kept are packets that were alone in their datagram, as in
// most transfers, or too long for one:
//
//   what a node sent into the silence of a path   sent again by the path that takes over
//   what has nothing of its flow around it        the same (node; SNAPT repeats as it sealed),
//                                                 and in pieces when a black hole swallowed it
//
// Compressed segments of a super-packet share datagrams and are not kept. Sends nothing itself:
// Retransmitter does. Pure.
#pragma once

#include "common/session/draft.hpp"
#include "common/session/router.hpp"
#include "common/session/sent_ring.hpp"
#include "common/session/session_core.hpp"

#include <optional>

namespace continuo::session {

class KeptPackets {
  public:
    // `core` must outlive this object.
    explicit KeptPackets(SessionCore& core);

    // --- Keeping
    // Whether datagrams sent there now meet a silent path, so that their packets are kept.
    bool is_silent(const Way& way, base::TrafficClass traffic_class, base::TimePoint now) const;
    // The packet left in the datagram with that number. `packet`: as it would be without a tunnel,
    // with complete checksums.
    void keep(const Draft& draft,
              uint64_t sequence,
              const flow::Flow& flow,
              base::ByteView packet,
              base::TimePoint now);
    // The same if the packet, which is alone in its datagram, is worth it.
    void keep_if_wanted(const Draft& draft,
                        uint64_t sequence,
                        const PendingPacket& pending,
                        const Way& way,
                        base::TimePoint now);
    void forget_flow(uint32_t index) { ring_.forget_flow(index); }
    void clear() { ring_.clear(); }
    // Call once a second: frees memory.
    void on_time(base::TimePoint now);

    // --- Repeats
    // Call before datagrams leave. True when the active path has changed: then the packets sent
    // into the silence of the former one are due, and of an earlier one if the former took over in
    // vain. What was in a former connection is lost as well.
    bool follow_active(base::TimePoint now);
    // The path has become doubtful: flows on it, if it is not the active one, change over.
    void on_doubt(uint8_t path, base::TimePoint now);
    // A path has become narrower: whatever was too long for it is due.
    void on_narrowed(base::TimePoint now);
    // The datagram, sealed by SNAPT, is too long for the path on which it would be repeated.
    void on_too_long(const SentEntry& sealed);
    bool has_due() const { return ring_.has_due(); }
    // Requires has_due().
    SentEntry& next_due() { return ring_.next_due(); }
    base::ByteView bytes(const SentEntry& entry) const { return ring_.bytes(entry); }
    // On the path that it took, only packets that cannot arrive any more are repeated.
    bool may_leave(const SentEntry& entry, const Destination& destination) const;
    // It left, or is of no use.
    void done(SentEntry& entry) { ring_.done(entry, entry.sent_at); }

  private:
    bool is_alone(const flow::Flow& flow, const Way& way) const;
    void mark_left(PathMask paths, base::TimePoint since, base::TimePoint now);

    const SessionSettings& settings_;
    SessionScratch& scratch_;
    PathSet& paths_;
    SentRing ring_;
    std::optional<uint8_t> sends_on_;  // the active path at the last follow_active()
    base::TimePoint sends_on_since_{};
    uint32_t sends_on_connection_ = 0;
};

}  // namespace continuo::session
