// AckLedger: the receiver's side of acknowledgements for one path and epoch (RFC 9000, 13.2;
// draft-ietf-quic-ack-frequency): what arrived, and when to report it. Pure; each epoch has its
// own.
//
//   owed     a PING came, or kOwedBytes with packets: alone, interval() after the first of them or
//            the last ACK; at once after kEveryDatagrams
//   urgent   something came that the sender waits for (SET, a kept section, a floor): the same
//   other    only with a datagram that leaves anyway, kLazyInterval after the last ACK
//
// All of it is limited to 2 % of the outer bytes received, piggybacked ACKs included. So ACKs are
// rarer than min(RTT/4, 25 ms) on a thin link; interval() gives the spacing, and each ACK reports
// it. A PING is answered without credit, too, or the asking end would take the path for dead: by
// the newest kNewestRanges of each class, so that the answer is at most about four times as long as
// the shortest PING. Such an answer costs nothing, and what it names counts as not told.
#pragma once

#include "common/base/time.hpp"
#include "common/crypto/sequence_bitmap.hpp"
#include "common/wire/ack_ranges.hpp"
#include "common/wire/constants.hpp"
#include "common/wire/space.hpp"

#include <array>
#include <memory>
#include <optional>
#include <span>

namespace continuo::reception {

using wire::AckKind;
using wire::AckRange;

// The ACK of one class, newest range first.
struct AckBlock {
    static constexpr size_t kMostRanges = wire::kMaxAckRanges;
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    base::Duration delay{};  // since the highest number arrived
    uint32_t received = 0;   // datagrams in total
    size_t range_count = 0;
    std::array<AckRange, kMostRanges> ranges{};

    uint32_t highest() const { return ranges[0].last; }
};

class AckLedger {
  public:
    static constexpr int64_t kFrameBytes = 12;  // a frame with one range
    static constexpr int64_t kAloneBytes = 58;  // an outer datagram with nothing else
    // Bytes with packets for which a lone ACK is owed: it costs 2 % of them.
    static constexpr uint64_t kOwedBytes = 2900;
    static constexpr uint32_t kEveryDatagrams = 256;
    static constexpr base::Duration kLongestFloor = base::milliseconds(25);
    static constexpr base::Duration kLazyInterval = base::milliseconds(500);
    static constexpr base::Duration kLongestInterval = base::seconds(1);
    // Number of ACKs that repeat a range, unless one of them is acknowledged.
    static constexpr size_t kRepeats = 3;
    // Ranges of a class that are reported after a move, and to a PING without credit.
    static constexpr size_t kNewestRanges = 8;

    struct Arrival {
        base::TrafficClass traffic_class = base::TrafficClass::LtLd;
        uint32_t number = 0;
        uint32_t outer_bytes = 0;
        AckKind kind = AckKind::Applied;
        bool has_packets = false;
        bool is_asked = false;   // it carries a PING
        bool is_urgent = false;  // the sender waits for it
    };
    // An authenticated datagram passed the replay check. It is reported from now on; one without
    // packets makes no ACK due.
    void on_datagram(const Arrival& arrival, base::TimePoint now);
    // Zero: unknown.
    void set_rtt(base::Duration smoothed_rtt);

    // True when an ACK is due. `rides`: it can be piggybacked on a datagram that leaves anyway.
    bool wants(bool rides, base::TimePoint now) const;
    // When a lone ACK is due; kNever: none.
    base::TimePoint deadline() const;
    // Builds blocks for the classes with something to report, as many as `out` holds. Above
    // kMostRanges the oldest ranges of a block are left out: the sender takes them for lost. For a
    // PING without credit: above kNewestRanges.
    size_t build(std::span<AckBlock> out, base::TimePoint now) const;
    // The newest ranges of each class that received something since `from`, even if reported
    // before.
    size_t build_newest(std::span<AckBlock> out, base::TimePoint from, base::TimePoint now) const;
    // The blocks from build() left in a datagram. `id` names it for on_acknowledged(); ids of one
    // space are consecutive. `bytes`: what the blocks cost, or the whole datagram if it carries
    // nothing else. `is_all`: no block was left out, so no ACK is due any more, unless it was the
    // answer to a PING without credit.
    void on_sent(std::span<const AckBlock> blocks,
                 uint64_t id,
                 size_t bytes,
                 bool is_all,
                 base::TimePoint now);
    // The datagrams with these ids, both included, arrived: their content need not be repeated.
    void on_acknowledged(uint64_t first_id, uint64_t last_id);

    // Time between owed ACKs: min(RTT/4, 25 ms), or longer if 2 % of the bytes received then do not
    // pay for one.
    base::Duration interval(base::TimePoint now) const;
    // When the highest number of the class arrived; TimePoint{}: none has.
    base::TimePoint heard_at(base::TrafficClass traffic_class) const {
        const auto& state = classes_[base::index_of(traffic_class)];
        return state != nullptr ? state->highest_at : base::TimePoint{};
    }
    // A PING is not answered yet.
    bool is_asked() const { return asked_classes_ != 0; }
    int64_t credit_bytes() const { return credit_ / kCreditUnits; }

  private:
    static constexpr int64_t kCreditUnits = 1000;  // units in one byte
    static constexpr size_t kRemembered = 8;       // ACKs that may still be acknowledged

    struct Class {
        crypto::SequenceBitmap all;
        // Allocated when the first such number arrives.
        std::unique_ptr<crypto::SequenceBitmap> received_only;
        base::TimePoint highest_at{};
        uint32_t received = 0;
        uint32_t told_from = 0;  // lower numbers need no report any more
        // `all.next()` at the last ACKs, newest first.
        std::array<uint32_t, kRepeats> told_to{};
    };
    struct SentAck {
        uint64_t id = 0;
        bool is_open = false;
        std::array<uint32_t, base::kTrafficClasses> told_to{};
    };

    struct Part {
        uint64_t floor = 0;  // the lowest number
        size_t most = AckBlock::kMostRanges;
    };
    // `part_of` gives what to report of a class, if anything.
    template <typename PartOf>
    size_t build_from(std::span<AckBlock> out, base::TimePoint now, const PartOf& part_of) const;
    static void fill(const Class& state, const Part& part, AckBlock& block);
    void record(Class& state, const Arrival& arrival, base::TimePoint now);
    void count_rate(uint32_t bytes, base::TimePoint now);
    base::TimePoint due_at(bool rides) const;
    bool has_credit(int64_t bytes) const { return credit_ >= bytes * kCreditUnits; }
    bool may_cost(int64_t bytes) const { return asked_classes_ != 0 || has_credit(bytes); }
    // Only PINGs are answered, for want of credit.
    bool is_bare_answer() const { return asked_classes_ != 0 && !has_credit(kAloneBytes); }

    std::array<std::unique_ptr<Class>, base::kTrafficClasses> classes_;
    std::array<SentAck, kRemembered> sent_{};
    size_t next_sent_ = 0;
    base::Duration floor_ = kLongestFloor;
    std::optional<base::TimePoint> sent_at_;
    bool has_news_ = false;
    base::TimePoint owed_since_ = base::kNever;  // PINGs aside
    base::TimePoint asked_since_ = base::kNever;
    uint8_t asked_classes_ = 0;   // bits; a PING came in that class and is not answered yet
    uint64_t pending_bytes_ = 0;  // with packets
    uint32_t pending_datagrams_ = 0;
    int64_t credit_ = int64_t{wire::kAckCreditStartBytes} * kCreditUnits;
    // Receive rate over the last half-second intervals.
    base::TimePoint rate_since_{};
    uint64_t rate_bytes_ = 0;
    double bytes_per_s_ = 0;
};

}  // namespace continuo::reception
