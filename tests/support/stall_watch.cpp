#include "tests/support/stall_watch.hpp"

#include <algorithm>

namespace continuo::tests {

using base::Duration;
using base::TimePoint;

namespace {

// Everything that one direction may add to a packet.
Duration longest_delay(const LinkSettings& link) {
    const Duration reordered = link.reorder_ppm != 0 ? link.reorder_by : Duration{};
    // Queue of datagrams repeated at once: at most as much as was sent in a doubt.
    const Duration queue = link.bits_per_s != 0 ? Duration(base::milliseconds(250)) : Duration{};
    return link.delay + link.jitter + reordered + queue;
}

bool loses(const LinkSettings& link) {
    return link.loss_ppm != 0;
}

double share(Duration waited, Duration allowed) {
    return static_cast<double>(waited.count()) / static_cast<double>(allowed.count());
}

}  // namespace

bool StallWatch::carries(const LinkSettings& link) {
    return link.is_up && link.loss_ppm <= kCarriesWithLossPpm && link.mtu_bytes == 0 &&
           (link.bits_per_s == 0 || link.bits_per_s >= kCarriesBitsPerS);
}

Duration StallWatch::round_trip(uint8_t slot) const {
    return longest_delay(node_.up(slot).settings()) + longest_delay(node_.down(slot).settings());
}

// T_doubt, of the path for which it is longest (recovery::Liveness): until the question of thin
// traffic, and until its probes are unanswered, too.
Duration StallWatch::doubt() const {
    using recovery::Liveness;
    constexpr Duration kProbing = (Liveness::kProbes - 1) * Liveness::kProbeInterval;
    Duration longest{};
    for (const SessionEnd* end : {&pair_.node, &pair_.snapt}) {
        for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
            const Duration timeout =
                end->session->paths().path(slot).feedback().rtt().probe_timeout();
            longest = std::max<Duration>(
                longest, std::max<Duration>(timeout, Liveness::kAskAfter) +
                             std::max<Duration>(2 * timeout + kProbing, Liveness::kDoubtfulAfter));
        }
    }
    return longest;
}

// A flow that SNAPT spreads may be put on one path after the other that it knows by a former
// mapping.
Duration StallWatch::doubts() const {
    const size_t others = node_.count() > 1 ? node_.count() - 1 : 1;
    return doubt() * static_cast<int64_t>(spreads_ ? others : 1);
}

Duration StallWatch::repeats(uint8_t slot) const {
    const bool is_lossy = loses(node_.up(slot).settings()) || loses(node_.down(slot).settings());
    return is_lossy ? kRepeats : Duration{};
}

// From the answer of that uplink on.
Duration StallWatch::bound(uint8_t slot) const {
    return round_trip(slot) * 2 + repeats(slot) + kOverhead;
}

void StallWatch::look() {
    bool do_all = true;
    for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
        const bool is_there = node_.uplink(slot).is_there;
        const bool is_carrying =
            is_there && carries(node_.up(slot).settings()) && carries(node_.down(slot).settings());
        if (!is_carrying) {
            carries_since_[slot] = base::kNever;
        } else if (carries_since_[slot] == base::kNever) {
            carries_since_[slot] = pair_.now;
        }
        do_all = do_all && (!is_there || is_carrying);
    }
    if (!do_all) {
        all_carry_since_ = base::kNever;
    } else if (all_carry_since_ == base::kNever) {
        all_carry_since_ = pair_.now;
    }
    for (size_t stream = 0; stream < NumberedStreams::kStreams; ++stream) {
        for (const size_t direction : {0U, 1U}) {
            look_at(stream, direction);
        }
    }
}

// Since the packet left, and since when it could have come.
void StallWatch::look_at(size_t stream, size_t direction) {
    const TimePoint sent_at = streams_.waiting_since(stream, direction);
    if (sent_at == base::kNever) {
        return;
    }
    const TimePoint from = std::max(sent_at, lost_at_);
    Duration longest_round_trip{};
    Duration slowest{};
    for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
        longest_round_trip = std::max(longest_round_trip, round_trip(slot));
        slowest = std::max(slowest, bound(slot));
    }
    const Duration noticed = longest_round_trip + doubts();
    const auto judge = [&](TimePoint since, Duration allowed, double& worst) {
        if (since == base::kNever) {
            return;
        }
        const Duration waited = pair_.now - std::max(from, since);
        worst = std::max(worst, share(waited, allowed));
        if (waited > allowed && fault.empty()) {
            fault = describe(stream, direction, waited, allowed);
        }
    };
    for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
        judge(carries_since_[slot], noticed + round_trip(slot) + bound(slot), worst_of_some);
    }
    judge(all_carry_since_,
          (spreads_ ? std::max<Duration>(doubts(), kAnnounced) : kAnnounced) + slowest,
          worst_of_all);
}

std::string
StallWatch::describe(size_t stream, size_t direction, Duration waited, Duration allowed) const {
    const auto ms = [](Duration span) { return std::to_string(base::to_ms(span)) + " ms"; };
    std::string text = "at " + ms(pair_.now.time_since_epoch()) + " flow " +
                       std::to_string(stream) + " " + NumberedStreams::kNames[direction] +
                       " waits for " + ms(waited) + " where " + ms(allowed) + " are allowed;";
    for (const SessionEnd* end : {&pair_.node, &pair_.snapt}) {
        const routing::PathSet& paths = end->session->paths();
        text += end == &pair_.node ? " node:" : " SNAPT:";
        for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
            text += (paths.active() == slot ? " active " : " ") +
                    std::string(path::to_string(paths.path(slot).state()));
            const auto address = pair_.path_addresses.find(slot);
            const path::Tuple& tuple = paths.path(slot).validation().tuples()[0];
            if (end == &pair_.snapt && tuple.is_known() && address != pair_.path_addresses.end() &&
                tuple.remote() != address->second) {
                text += " (rebound)";
            }
        }
    }
    for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
        text += carries_since_[slot] == base::kNever
                    ? " -"
                    : " carries for " + ms(pair_.now - carries_since_[slot]);
    }
    return text + "; loss " + ms(pair_.now - lost_at_) + " ago";
}

}  // namespace continuo::tests
