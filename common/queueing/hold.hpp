// HoldEstimator: whether it pays to hold a packet so that others share its datagram. A packet is
// held only while the arrival estimate predicts another within the hold time of its class
// (docs/PROTOCOL.md section 6.1; knobs as in the packet-aggregation qdisc of Karlstad 2008, section
// 3.3.3). Pure; one per class and session.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <cstdint>

namespace continuo::queueing {

// Why an aggregate went out; counted per class.
enum class ReleaseReason : uint8_t {
    Size,     // the target is reached
    Timeout,  // the hold time of the class is over
    Alone,    // no other packet is expected within it
};

struct HoldKnobs {
    base::Duration hold = base::milliseconds(5);
    uint32_t min_bytes =
        0;  // hold until so much, whatever the estimate says; 0: the estimate decides
    uint32_t target_bytes = 0;  // predicted datagram payload that makes an aggregate full
    // Bound of the hold for packets of ACK-clocked flows (TCP, QUIC): the hold adds to each round
    // trip of such a flow and lowers its throughput accordingly.
    base::Duration clocked_hold = base::Duration::max();
};

struct Release {
    base::TimePoint at{};
    ReleaseReason reason = ReleaseReason::Alone;
};

class HoldEstimator {
  public:
    // `is_gathered`: the arrivals reported with the same time were spread over the time since the
    // previous report.
    void on_arrival(base::TimePoint now, const HoldKnobs& knobs, bool is_gathered = false) {
        if (brief_since_ != base::kNever) {
            weigh_brief_hold(now < brief_since_ + worthwhile(knobs.hold));
            brief_since_ = base::kNever;
        }
        if (has_last_ && is_gathered && now == last_arrival_ && gathered_ > 0) {
            ++gathered_;
            mean_gap_ = mean_before_;
            for (int64_t i = 0; i < std::min(gathered_, kMostWeighed); ++i) {
                weigh(span_ / gathered_);
            }
        } else if (has_last_) {
            span_ = std::min(now - last_arrival_, knobs.hold * kLongestGapInHolds);
            mean_before_ = has_mean_ ? mean_gap_ : span_;
            mean_gap_ = mean_before_;
            weigh(span_);
            gathered_ = 1;
            has_mean_ = true;
        }
        last_arrival_ = now;
        has_last_ = true;
    }

    // A datagram left with `packets` in it. A hold during which nothing else came is followed by
    // packets that are not held, eight times as many each time (otherwise a request that is
    // followed only by the consequences of its answer would always pay the hold time). If the
    // packets came all at once, like answers to packets that the peer held, the next holds are
    // short, so that such a burst still shares a datagram, until further packets are seen to come
    // within the hold time. The run of short holds grows each time that proves wrong.
    void on_released(ReleaseReason reason,
                     size_t packets,
                     base::TimePoint waiting_since,
                     base::TimePoint now) {
        if (brief_left_ > 0) {
            brief_since_ = reason == ReleaseReason::Size ? base::kNever : waiting_since;
            was_single_ = packets == 1;
        } else if (unheld_left_ > 0) {
            --unheld_left_;
        } else if (reason == ReleaseReason::Timeout) {
            judge(packets, waiting_since, now);
        }
    }

    // After a move the packets have already waited: the next ones are not held, or held briefly.
    void on_path_changed() { unheld_left_ = std::max(unheld_left_, kFirstUnheld); }

    // When the packets waiting since `waiting_since`, predicted to fill `predicted_bytes`, leave.
    Release
    release(base::TimePoint waiting_since, uint64_t predicted_bytes, const HoldKnobs& knobs) const {
        if (predicted_bytes >= knobs.target_bytes) {
            return {waiting_since, ReleaseReason::Size};
        }
        // The bound for ACK-clocked flows applies only where many packets are expected; a thin flow
        // is held for the full time of its class.
        const bool is_stream = has_mean_ && mean_gap_ * kStreamPackets < knobs.hold;
        const base::Duration hold =
            is_stream ? std::min(knobs.hold, knobs.clocked_hold) : knobs.hold;
        const base::TimePoint latest = waiting_since + worthwhile(hold);
        if (knobs.min_bytes > 0) {
            return predicted_bytes >= knobs.min_bytes
                       ? Release{waiting_since, ReleaseReason::Size}
                       : Release{waiting_since + knobs.hold, ReleaseReason::Timeout};
        }
        if (!has_mean_ || last_arrival_ + mean_gap_ > latest) {
            return {waiting_since, ReleaseReason::Alone};
        }
        if (brief_left_ > 0) {
            return {std::min(latest, waiting_since + knobs.hold / kBriefShare),
                    ReleaseReason::Timeout};
        }
        if (unheld_left_ > 0) {
            return {waiting_since, ReleaseReason::Alone};
        }
        return {latest, ReleaseReason::Timeout};
    }

  private:
    // An aggregate of kWorthwhilePackets gains little from each further packet. A fast stream is
    // therefore held far shorter than the hold time, which keeps TCP's ACK clock going.
    base::Duration worthwhile(base::Duration hold) const {
        return has_mean_ ? std::min(hold, mean_gap_ * kWorthwhilePackets) : hold;
    }

    void judge(size_t packets, base::TimePoint waiting_since, base::TimePoint now) {
        const base::Duration waited = now - waiting_since;
        const bool came_at_once =
            waited >= kLongWait && (last_arrival_ - waiting_since) * kBriefShare <= waited;
        if (packets == 1) {
            penalty_ = std::clamp(penalty_ * 8, kFirstUnheld, kMostUnheld);
            unheld_left_ = penalty_;
        } else if (came_at_once) {
            brief_ = std::clamp(brief_ * 4, kFirstBrief, kMostBrief);
            brief_left_ = brief_;
        } else {
            penalty_ = 0;
            brief_ = 0;
        }
    }

    // A single packet that was soon followed by another is a better sign than a burst.
    void weigh_brief_hold(bool has_company_come) {
        const uint32_t weight = was_single_ ? kFirstBrief : 1;
        brief_left_ = has_company_come ? brief_left_ - std::min(brief_left_, weight)
                                       : std::min(brief_left_ + 1, brief_);
    }

    void weigh(base::Duration gap) { mean_gap_ += (gap - mean_gap_) / kGain; }

    static constexpr int64_t kMostWeighed = 16;  // limit of equal gaps: more change nothing
    static constexpr int64_t kWorthwhilePackets = 8;
    static constexpr int64_t kBriefShare = 8;  // fraction of the hold
    static constexpr base::Duration kLongWait = base::milliseconds(1);
    static constexpr int64_t kStreamPackets = 2;  // expected within the hold
    static constexpr uint32_t kFirstUnheld = 16;
    static constexpr uint32_t kMostUnheld = 1024;
    static constexpr uint32_t kFirstBrief = 4;
    static constexpr uint32_t kMostBrief = 64;
    static constexpr int64_t kGain = 4;  // weight of a new gap: 1/4
    static constexpr int64_t kLongestGapInHolds =
        4;  // a pause counts as so many hold times at most
    base::TimePoint last_arrival_{};
    base::Duration mean_gap_{};
    // The last batch reported together: its time, its packets, and the mean gap before it.
    base::Duration span_{};
    int64_t gathered_ = 0;
    base::Duration mean_before_{};
    uint32_t penalty_ = 0;  // packets that are not held after the next hold in vain
    uint32_t unheld_left_ = 0;
    uint32_t brief_ = 0;  // number of short holds that must succeed before holding is trusted again
    uint32_t brief_left_ = 0;
    bool was_single_ = false;                     // the latest short hold was one packet
    base::TimePoint brief_since_ = base::kNever;  // until the next arrival
    bool has_last_ = false;
    bool has_mean_ = false;
};

}  // namespace continuo::queueing
