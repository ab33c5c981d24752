// SentDatagrams: the sealed datagrams that SNAPT keeps until they are acknowledged, and which of
// them leave again, and how fast, after its node has moved: those on their way to the old address.
// The node's announcements say what it received last, so the only needless repeats are of datagrams
// that reordering makes look lost; the replay window drops those, counted apart from other replays
// (docs/PROTOCOL.md section 5.6). Sends nothing itself: Retransmitter does. Pure.
#pragma once

#include "common/session/draft.hpp"
#include "common/session/sent_ring.hpp"
#include "common/session/session_core.hpp"

#include <optional>

namespace continuo::session {

class SentDatagrams {
  public:
    // `core` must outlive this object.
    explicit SentDatagrams(SessionCore& core);

    // Keeps what carries something new, for when the node moves or comes back: `bytes` of `info`
    // leave now, numbered already. A node chooses when it moves, so it has then sent what it had.
    void remember(const DatagramInfo& info, base::ByteView bytes, base::TimePoint now);
    // Looks for datagrams under way and tells the host of the move, within RepeatLimit. The path
    // itself has already moved.
    void follow_move(Announced move, base::TimePoint now);
    // A move that was postponed is followed when its time has come.
    void on_timeout(base::TimePoint now);
    // Call once a second: frees memory.
    void on_time(base::TimePoint now);
    // Nothing that was sealed so far can be read any more.
    void clear() { ring_.clear(); }

    // --- Repeats
    bool has_due() const { return ring_.has_due(); }
    // The next one to leave; null: none, or not yet.
    SentEntry* next_due(base::TimePoint now);
    base::ByteView bytes(const SentEntry& entry) const { return ring_.bytes(entry); }
    // How many datagrams of the entry, of `step` bytes each, may leave now by their pace.
    uint64_t allowed(const SentEntry& entry, uint32_t step, base::TimePoint now) const;
    // The first `datagrams` of the entry that were due, of `bytes` together, left on that path.
    void on_repeated(
        SentEntry& entry, uint16_t datagrams, uint64_t bytes, uint8_t path, base::TimePoint now);
    // It fits no datagram of the path.
    void skip(SentEntry& entry, base::TimePoint now) { ring_.done(entry, now); }
    // When something may leave, or a postponed move is followed; kNever: nothing waits for time.
    base::TimePoint next_deadline(base::TimePoint now) const;

  private:
    void mark_lost(const Announced& move, base::TimePoint now);
    bool is_under_way(const SentEntry& entry, base::TimePoint now) const;
    uint64_t repeatable(uint32_t step, base::TimePoint now) const;
    void pay_repeat(uint64_t bytes, base::TimePoint now);

    SessionCore& core_;
    PathSet& paths_;
    Epochs& epochs_;
    SentRing ring_;
    RepeatPace pace_;
    RepeatLimit limit_;
    std::optional<Announced> waiting_move_;  // postponed by limit_
};

}  // namespace continuo::session
