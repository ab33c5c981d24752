// TcpModel: one TCP connection that sends without end, in virtual time: CUBIC with HyStart, RACK
// with its reordering window, SACK, delayed acknowledgements, and undo of what was spurious, as
// Linux does them (net/ipv4/tcp_cubic.c, tcp_recovery.c, tcp_input.c). Counts segments, not bytes.
// Pure: what has to be sent comes out of next_segment(); acknowledgements are values.
#pragma once

#include "common/base/time.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>

namespace continuo::tests {

struct TcpAck {
    uint64_t next = 0;  // all before have come
    // The newest first; [first, end).
    struct Block {
        uint64_t first = 0;
        uint64_t end = 0;
    };
    std::array<Block, 3> blocks{};
    size_t block_count = 0;
    base::TimePoint echo{};  // when what caused it was sent
    bool is_duplicate = false;
};

class TcpReceiver {
  public:
    // An acknowledgement that is to be sent now, if any.
    std::optional<TcpAck> on_segment(uint64_t number, base::TimePoint sent_at, base::TimePoint now);
    std::optional<TcpAck> on_timeout(base::TimePoint now);
    base::TimePoint next_deadline() const { return acknowledge_at_; }
    uint64_t received() const { return next_; }

  private:
    TcpAck acknowledge(bool is_duplicate);

    uint64_t next_ = 0;
    std::set<uint64_t> beyond_;
    uint64_t newest_ = 0;
    base::TimePoint echo_{};
    uint32_t unacknowledged_ = 0;
    base::TimePoint acknowledge_at_ = base::kNever;
    uint64_t segments_ = 0;
};

class TcpSender {
  public:
    // The number of the segment that may leave now.
    std::optional<uint64_t> next_segment(base::TimePoint now);
    void on_ack(const TcpAck& ack, base::TimePoint now);
    void on_timeout(base::TimePoint now);
    base::TimePoint next_deadline() const { return std::min(reorder_at_, timeout_at_); }

  private:
    struct Segment {
        base::TimePoint sent_at{};
        bool is_sacked = false;
        bool is_lost = false;
        bool is_sent_again = false;
    };
    struct Delivery {
        uint64_t segments = 0;
        base::Duration rtt{};
        base::TimePoint newest_sent{};
        bool is_retransmitted = false;
    };

    uint64_t pipe() const;
    Delivery take_delivered(const TcpAck& ack, base::TimePoint now);
    void take(Segment& segment, uint64_t number, Delivery& delivery, base::TimePoint now);
    void detect_losses(base::TimePoint now);
    base::Duration reordering_window() const;
    void enter_recovery();
    void reduce(const Delivery& delivery, bool has_lost);
    void grow(uint64_t segments, base::TimePoint now);
    void grow_cubic(uint64_t segments, base::TimePoint now);
    void watch_delay(base::Duration rtt, base::TimePoint now);
    void note_rtt(base::Duration rtt);
    void undo();
    bool is_in_slow_start() const { return window_ < threshold_; }

    std::deque<Segment> flight_;
    uint64_t first_ = 0;  // number of flight_[0]
    uint64_t sacked_ = 0;
    uint64_t lost_ = 0;  // and not sent again
    uint64_t highest_sacked_ = 0;
    double window_ = 10;
    double threshold_ = 1e9;
    // RFC 6298
    base::Duration smoothed_rtt_{};
    base::Duration variation_{};
    base::Duration smallest_rtt_ = base::Duration::max();
    base::TimePoint timeout_at_ = base::kNever;
    uint32_t backoff_ = 0;
    // RACK
    base::TimePoint rack_sent_at_{};
    base::Duration rack_rtt_{};
    bool saw_reordering_ = false;
    uint32_t reordering_steps_ = 1;
    base::TimePoint reorder_at_ = base::kNever;
    // Recovery, with the proportional rate reduction of RFC 6937.
    bool is_recovering_ = false;
    bool was_timeout_ = false;
    uint64_t recovery_point_ = 0;
    double window_before_ = 0;
    double threshold_before_ = 0;
    uint64_t delivered_in_recovery_ = 0;
    uint64_t sent_in_recovery_ = 0;
    base::TimePoint first_retransmission_ = base::kNever;
    uint64_t retransmissions_to_undo_ = 0;
    // CUBIC (RFC 9438) and HyStart
    double last_largest_ = 0;
    double origin_ = 0;
    double k_ = 0;
    double reno_ = 0;
    double partial_ = 0;
    base::TimePoint epoch_ = base::kNever;
    base::Duration delay_min_{};
    base::Duration round_rtt_{};
    uint32_t round_samples_ = 0;
    uint64_t round_end_ = 0;
    base::TimePoint round_began_{};
    base::TimePoint last_train_ack_{};
    bool left_slow_start_ = false;
};

}  // namespace continuo::tests
