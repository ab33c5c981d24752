// Retransmitter: what a session may have to send again, and when (docs/PROTOCOL.md section 5.6).
//
//   what is under way   when the path moves or a silence ends, what was on its way is lost. ACKs
//                       say what came last; what is above that is repeated, and gaps of the last
//                       round trips before it. SNAPT repeats sealed datagrams octet for octet, a
//                       node sends packets of high-delay classes as copies. What only looks lost,
//                       the replay window drops. What is lost again is sent again
//   lone packets        (both ends) those that were alone in their flow, as copies, when a path is
//                       left, in doubt, or a black hole: no later packet tells that one is lost.
//                       So are packets that a node sent when no ACK came any more
//
// Without that a transfer goes on only when its own TCP tries again. Who owns it seals and sends;
// on_repeated() and on_copied() tell what became of it. Pure.
#pragma once

#include "common/flow/flow.hpp"
#include "common/session/epochs.hpp"
#include "common/session/path_set.hpp"
#include "common/session/router.hpp"
#include "common/session/sent_ring.hpp"

#include <optional>

namespace continuo::session {

class Retransmitter {
  public:
    // `paths` and `epochs` must outlive it. `budget`: null for no limit but those of the rings.
    Retransmitter(Role role, const PathSet& paths, const Epochs& epochs, base::MemoryBudget* budget)
        : role_(role), paths_(paths), epochs_(epochs), sent_(budget), kept_(budget) {}

    // --- What leaves
    // Datagrams as they lie in `bytes`, or the packet, with entry.offload. `heard_at`: the peer.
    void remember(const SentEntry& entry, base::ByteView bytes, base::TimePoint heard_at);
    // A node keeps the packets that go there.
    bool is_worth_remembering(const Way& way, base::TrafficClass traffic_class) const;
    // Whether the packet that is alone in its datagram is alone in its flow, too, or leaves into a
    // silence (node). Then the newest are kept only: what keeps its rate is not to come later as a
    // burst.
    bool is_worth_keeping(const flow::Flow& flow, const Way& way, base::TimePoint now) const;
    // `packet`: as it would be without a tunnel, with entry.offload.
    void keep(const SentEntry& entry, base::ByteView packet);

    // --- What may be lost
    // Datagrams under way on these paths are lost, beside what is due already. `former`: the active
    // one until now; its round trip gives the pace.
    void on_moved(std::optional<uint8_t> former, PathMask paths, base::TimePoint now);
    // Repeats may be lost in their turn.
    void on_acks_read(base::TimePoint now);
    // Lone packets of those paths since then, beside what is due already.
    void on_left(PathMask paths, base::TimePoint since, base::TimePoint now);
    // An epoch of that number is installed.
    void on_epoch(uint32_t number);
    void forget_flow(uint32_t index) {
        if (role_ == Role::Node) {
            sent_.forget_flow(index);
        }
        kept_.forget_flow(index);
    }
    // Gives back memory that has not been needed for a while.
    void release(base::TimePoint now);

    // --- What is sent again
    // Some of what was under way is due.
    bool has_repeats() const { return sent_.has_due(); }
    // Later packets of high-delay classes wait for it. What is repeated once more is late anyway.
    bool holds_later_packets() const { return has_repeats() && repair_.is_first_round; }
    // Sealed datagrams are sent again, or soon may be: none of them is to be given up.
    bool spares_datagrams(base::TimePoint now) const {
        return role_ == Role::Snapt && (has_repeats() || is_repairing() || paths_.is_in_doubt(now));
    }
    // When more of it may leave, or is lost for want of ACKs; kNever: neither.
    base::TimePoint next_at() const { return has_repeats() ? pace_.next_at : timeout_at(); }
    struct Repeat {
        SentEntry* entry = nullptr;
        Destination destination;
        base::ByteView bytes;  // as they were sealed; of a packet, all of it
        uint16_t datagrams = 0;
        uint16_t segment_bytes = 0;   // 0: one datagram
        uint32_t datagram_bytes = 0;  // of each
    };
    // Datagrams that may leave now, together, from number entry->repeated of the entry on; or one
    // segment of a packet. Valid until the next call.
    std::optional<Repeat> next_repeat(base::TimePoint now);
    void on_repeated(const Repeat& repeat, base::TimePoint now);
    // It is of no use any more.
    void drop(const Repeat& repeat, base::TimePoint now) { sent_.done(*repeat.entry, now); }

    // The packet that is to be copied next, of those that are worth it still; null: none.
    // `flow_at(index)` gives the flow, or null.
    template <typename FlowAt>
    SentEntry* next_kept(const FlowAt& flow_at, base::TimePoint now) {
        while (kept_.has_due()) {
            SentEntry& entry = kept_.next_due();
            if (is_worth_sending(entry, flow_at(entry.flow_index), now)) {
                return &entry;
            }
            kept_.done(entry, entry.sent_at);
        }
        return nullptr;
    }
    base::ByteView packet(const SentEntry& entry) const { return kept_.bytes(entry); }
    // It takes its own path again only when the original cannot arrive any more: it is lost, too
    // long, or was in a TCP connection that another one has replaced.
    bool may_copy_to(const SentEntry& entry, const Destination& destination) const;
    void on_copied(SentEntry& entry, bool is_sent);

    // --- Node
    // It has asked its SNAPT, by an announcement, to send again.
    void on_asked(base::TimePoint now) { asked_at_ = now; }
    // Whether SNAPT may have sent again what has come twice. It does so only when the node asks,
    // and then most often by another path than the one in the header; by the same one soon.
    bool may_be_repeat(bool is_elsewhere, base::TimePoint now) const;

  private:
    const Path& path_of(const SentEntry& entry) const;
    static bool is_passed(const SentEntry& entry, const EpochState& epoch);
    bool is_recent(const SentEntry& entry) const;
    bool is_obsolete(const SentEntry& entry, base::TimePoint heard_at) const;
    bool is_of_use(const SentEntry& entry) const;
    static uint64_t own_datagrams(const SentEntry& entry);
    uint64_t missing(const SentEntry& entry) const;
    uint64_t missing_bytes(const SentEntry& entry) const;
    bool
    is_worth_sending(const SentEntry& entry, const flow::Flow* flow, base::TimePoint now) const;
    Repeat repeat_of(SentEntry& entry, const Destination& destination, uint16_t count) const;
    void mark_too_long(const SentEntry& sealed);
    uint64_t allowed_bytes(base::TimePoint now) const;
    void pay(uint64_t bytes, base::TimePoint now);

    // --- retransmitter_repair.cpp
    struct Look {
        base::TimePoint newest{};  // of what came, when it left
        bool has_news = false;     // more came than before
    };
    bool is_repairing() const { return repair_.waits_since != base::kNever; }
    bool is_in_repair(const SentEntry& entry) const;
    Look look_at_repeats(base::TimePoint now);
    void on_repair_timeout(base::TimePoint now);
    void repeat_overtaken(const Look& look, base::TimePoint now);
    template <typename IsLost>
    void repeat_once_more(const IsLost& is_lost, base::TimePoint now);
    base::TimePoint timeout_at() const;

    Role role_;
    const PathSet& paths_;
    const Epochs& epochs_;
    SentRing sent_;                // what is under way
    PathMask lost_paths_ = 0;      // of which some is due
    base::Duration latest_rtt_{};  // of a path by which something left
    RepeatPace pace_;
    // The repeats since the latest move, and what became of them.
    struct Repair {
        base::TimePoint since = base::kNever;
        base::TimePoint waits_since = base::kNever;  // for more ACKs; kNever: for none
        uint64_t missing_bytes = 0;                  // the fewest so far; UINT64_MAX: unknown
        base::TimePoint looked_at{};
        base::TimePoint slowed_at{};
        bool is_first_round = true;
        uint8_t vain_rounds = 0;  // of repeats, of which nothing came
        uint8_t path = 0;         // by which the latest left
    };
    Repair repair_;
    SentRing kept_;  // lone packets
    base::TimePoint asked_at_ = base::kNever;
};

}  // namespace continuo::session
