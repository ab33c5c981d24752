// ReceiveLedger: the receiver's side of acknowledgements for one epoch (docs/PROTOCOL.md
// section 6.6): which datagrams of each space were accepted, what the next ACK says, and when one
// is worth its bytes. A new epoch gets a new object.
//
//                   on reverse data                      alone
//   urgent          20 ms after the last ACK             the same, but 100 ms after it became
//   urgent while there is
//                                                        reverse data it may ride on
//   not urgent      500 ms after the first is waiting    1 s after it
//   2048 waiting    at once                              at once
//
// And only with byte credit: 2 % of the outer bytes received. Ask for next_deadline() again after
// on_outer_bytes, on_accepted, want_ack, build and on_ack_sent. A space that is used costs about
// 600 bytes, others nothing.
#pragma once

#include "common/base/time.hpp"
#include "common/crypto/sequence_bitmap.hpp"
#include "common/wire/constants.hpp"

#include <array>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace continuo::session {

// Spaces with stateful datagrams in one epoch. Datagrams of further ones are not acknowledged: the
// sender takes them for lost and does without references there.
inline constexpr size_t kMaxLedgerSpaces = 128;
// An ACK is due when so many stateful datagrams of a space wait for one: twice that is what an ACK
// reaches back.
inline constexpr uint32_t kAckEveryDatagrams = wire::kAckReach / 2;
// A number is repeated in at least so many ACKs of its space, and at most twice as many.
inline constexpr uint32_t kAckRepeats = 8;
// What an ACK in order costs, and what the datagram costs that carries nothing else.
inline constexpr int64_t kAckFrameBytes = 6;
inline constexpr int64_t kAloneBytes = 50;

struct AckContent {
    // Both ends included.
    struct Run {
        uint64_t first = 0;
        uint64_t last = 0;
    };

    uint16_t space = 0;
    uint8_t run_count = 0;                      // at least 1
    std::array<Run, wire::kMaxAckRuns> runs{};  // newest first

    uint64_t highest() const { return runs[0].last; }
    // Of the frame that carries it.
    size_t wire_bytes() const;
};

class ReceiveLedger {
  public:
    // Every authenticated datagram, whatever it carries.
    void on_outer_bytes(size_t bytes);
    // A stateful datagram that was authenticated and applied. Urgent: it carried something that the
    // sender waits for (kept plaintext, SET, GENERATION, PING).
    void on_accepted(uint16_t space, uint64_t sequence, bool urgent, base::TimePoint now);
    // Any other one: makes no ACK due, but keeps the runs of a space whole that has stateful ones.
    void on_stateless(uint16_t space, uint64_t sequence);

    // `reverse_data_waiting`: the ACK can ride on a datagram that is sent now anyway.
    bool want_ack(base::TimePoint now, bool reverse_data_waiting);
    // What to send after want_ack() said so, and from then on counted as sent: newest runs of each
    // waiting space first, then what did not fit into one frame, as room and credit allow. Gives
    // the number of frames.
    size_t build(std::span<AckContent> out,
                 base::TimePoint now,
                 size_t room_bytes = std::numeric_limits<size_t>::max());
    // What the ACK cost: its frames, and the whole datagram if it carries nothing else.
    void on_ack_sent(size_t bytes);

    // When an ACK is to be sent alone; kNever while none waits or the credit does not suffice.
    base::TimePoint next_deadline() const;
    int64_t credit_bytes() const { return credit_ / kCreditUnits; }
    bool is_pending() const { return waiting_spaces_ > 0; }
    uint64_t refused_spaces() const { return refused_spaces_; }

  private:
    static constexpr int64_t kCreditUnits = 1000;  // of one byte

    struct Space {
        explicit Space(uint16_t space_number) : number(space_number) {}
        uint16_t number;
        bool urgent = false;
        bool is_built = false;       // during build()
        uint32_t waiting = 0;        // stateful datagrams since the last ACK
        uint32_t acks = 0;           // since repeat_from moved
        uint64_t repeat_from = 0;    // runs are repeated down to here
        uint64_t repeat_next = 0;    // repeat_from after kAckRepeats ACKs
        uint64_t unbuilt_below = 0;  // during build(): what further frames go on with
        crypto::SequenceBitmap accepted;
    };

    Space* find(uint16_t number);
    Space* find_or_make(uint16_t number);
    static void record(Space& space, uint64_t sequence);
    base::TimePoint due_at(bool riding) const;
    static bool fill(Space& space, size_t room_bytes, AckContent& content);
    void settle(base::TimePoint now);

    std::vector<std::unique_ptr<Space>> spaces_;
    size_t last_found_ = 0;
    size_t next_built_ = 0;  // where the next ACK begins, so that all spaces get their turn
    size_t waiting_spaces_ = 0;
    bool urgent_ = false;
    bool overdue_ = false;
    bool riding_ = false;
    bool has_sent_ = false;
    bool has_reverse_data_ = false;
    base::TimePoint waiting_since_{};
    base::TimePoint urgent_since_{};
    base::TimePoint sent_at_{};
    base::TimePoint reverse_data_at_{};
    int64_t credit_ = wire::kAckCreditStartBytes * kCreditUnits;
    uint64_t refused_spaces_ = 0;
};

}  // namespace continuo::session
