// StreamLink: one direction of a TCP connection in virtual time, as datagrams over it see it: all
// arrive in order, later when the link below stands still, since TCP then waits for its
// retransmission timer, which doubles (RFC 6298 section 5.5).
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace continuo::tests {

class StreamLink {
  public:
    static constexpr base::Duration kFirstTimeout = base::milliseconds(200);  // Linux, TCP_RTO_MIN

    void push(std::vector<uint8_t> datagram, base::TimePoint now) {
        last_due_ = std::max(last_due_, now + delay_);
        waiting_.push_back({last_due_, std::move(datagram)});
    }
    std::optional<std::vector<uint8_t>> receive(base::TimePoint now) {
        if (waiting_.empty() || next_due() > now) {
            return std::nullopt;
        }
        std::vector<uint8_t> datagram = std::move(waiting_.front().datagram);
        waiting_.pop_front();
        return datagram;
    }
    base::TimePoint next_due() const {
        return waiting_.empty() || stands_since_ != base::kNever
                   ? base::kNever
                   : std::max(waiting_.front().due, goes_on_at_);
    }
    // As the link below is now.
    void follow(bool carries, base::Duration delay, base::TimePoint now) {
        delay_ = delay;
        if (!carries) {
            stands_since_ = std::min(stands_since_, now);
        } else if (stands_since_ != base::kNever) {
            goes_on_at_ = stands_since_ + timeout_after(now - stands_since_);
            stands_since_ = base::kNever;
        }
    }
    bool stands() const { return stands_since_ != base::kNever; }
    base::TimePoint stands_since() const { return stands_since_; }

  private:
    // The first retransmission that leaves after the link stood still for so long, from then on.
    static base::Duration timeout_after(base::Duration stood) {
        base::Duration at = kFirstTimeout;
        for (base::Duration wait = kFirstTimeout * 2; at < stood; wait *= 2) {
            at += wait;
        }
        return at;
    }

    struct Waiting {
        base::TimePoint due;
        std::vector<uint8_t> datagram;
    };
    std::deque<Waiting> waiting_;
    base::Duration delay_{};
    base::TimePoint last_due_{};
    base::TimePoint stands_since_ = base::kNever;
    base::TimePoint goes_on_at_{};
};

}  // namespace continuo::tests
