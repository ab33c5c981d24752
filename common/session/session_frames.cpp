// What a session does with the frames of a received datagram, of a body that was good as a whole.
#include "common/session/session.hpp"

namespace continuo::session {

using base::DropReason;
using base::Duration;
using base::TimePoint;
using flow::Flow;

namespace {

// An announcement that says what has come ends a silence, or follows its end within two round trips
// and this.
constexpr Duration kAnnouncedAfterSilence = base::seconds(1);

}  // namespace

// `may_repeat`: it ends a silence in which datagrams may have been lost.
void Session::apply_frames(const Opened& opened, bool may_repeat, TimePoint now) {
    const wire::Space space = opened.header.space();
    const bool is_announcement = scratch_.has_frame<wire::Announce>();
    const bool is_long_announcement =
        is_announcement && opened.datagram->bytes.size() >= wire::kAnnounceBodyBytes;
    // A padded CHALLENGE alone asks for the MTU: its answer is short, and nothing has moved.
    const bool is_mtu_probe = !is_announcement && scratch_.has_frame<wire::Pad>();
    bool is_repeating = false;
    bool has_ack = false;
    const auto former = paths_.active();
    if (may_repeat) {
        repeats_until_ = now + kAnnouncedAfterSilence + paths_.largest_rtt() * 2;
    }
    if (settings_.role == Role::Snapt && (is_announcement || may_repeat)) {
        spare_datagrams(now);  // ACKs beside it tell what is to be repeated
    }
    for (const wire::BodyItem& item : scratch_.frames) {
        if (const auto* ack = std::get_if<wire::Ack>(&item)) {
            apply_ack(opened, *ack, now);
            has_ack = true;
        } else if (const auto* challenge = std::get_if<wire::Challenge>(&item)) {
            paths_.on_challenge(space, *challenge, is_long_announcement);
            if (settings_.role == Role::Node && !is_mtu_probe) {
                events_.push({SessionEvent::Kind::PathChallenged, space.path});
                note_new_address(space, now);
                let_lt_ld_be_heard(space, now);
            }
        } else if (const auto* response = std::get_if<wire::Response>(&item)) {
            if (paths_.on_response(space, *response, now) && settings_.role == Role::Node) {
                events_.push({SessionEvent::Kind::PathChanged, space.path});
            }
        } else if (const auto* announce = std::get_if<wire::Announce>(&item)) {
            if (settings_.role != Role::Snapt) {
                continue;
            }
            if (paths_.on_announce(space.path, *announce, now)) {
                ++counters_.handovers;
                is_repeating = true;
                events_.push({SessionEvent::Kind::PathChanged, space.path});
            }
            const bool is_latest = announce->active && announce->path == paths_.active() &&
                                   announce->number == paths_.announcement_number();
            is_repeating = is_repeating || (is_latest && now <= repeats_until_);
        } else if (const auto* closed = std::get_if<wire::Closed>(&item)) {
            for (size_t i = 0; i < closed->count; ++i) {
                if (Flow* flow = flow_at(closed->indexes[i])) {
                    flow->begin_closing();
                }
            }
        } else if (std::holds_alternative<wire::Close>(item)) {
            events_.push({SessionEvent::Kind::PeerClosed});
            return;  // nothing that follows is of a session that goes on
        }
    }
    if (has_ack) {
        paths_.on_acks_read(now);
        retransmitter_.on_acks_read(now);
    }
    if (is_repeating) {
        // Acknowledgements of the same datagram are in.
        repeats_until_ = {};
        repeat_all(former, now);
    }
}

// On the active path SNAPT asks only what it sees at another address (PROTOCOL 5.5).
void Session::note_new_address(const wire::Space& challenged, TimePoint now) {
    if (paths_.active() == challenged.path &&
        challenged.traffic_class == base::TrafficClass::LtLd) {
        Path& path = paths_.path(challenged.path);
        path.keepalive().on_new_address(path.rtt().probe_timeout(), settings_.keepalive, now);
    }
}

// SNAPT sees another class of the path at another address. A NAT that lost that mapping may have
// lost the one of LtLd as well, where nothing may leave for long while other classes are heard.
void Session::let_lt_ld_be_heard(const wire::Space& challenged, TimePoint now) {
    if (challenged.traffic_class == base::TrafficClass::LtLd) {
        return;  // the RESPONSE does it
    }
    if (paths_.active() == challenged.path) {
        keepalive_due_ = true;
    } else {
        paths_.path(challenged.path).probe(now);
    }
}

// A number that was not known to have arrived: what is sent on that path gets through.
void Session::take_highest(const Opened& opened,
                           const wire::Space& space,
                           SendSpace& sent,
                           uint64_t highest,
                           TimePoint now) {
    if (sent.highest_acknowledged && highest <= *sent.highest_acknowledged) {
        return;
    }
    sent.highest_acknowledged = highest;
    const uint64_t outstanding = sent.next - 1 - highest;
    if (paths_.path(space.path)
            .on_feedback(opened.arrival_path() == space.path, outstanding, now)) {
        events_.push({SessionEvent::Kind::PathChanged, space.path});
    }
}

void Session::spare_datagrams(TimePoint now) {
    const TimePoint until = now + elision::skew_for(paths_.largest_rtt());
    epochs_.each([&](EpochState& epoch) { epoch.encoder.spare(until); });
}

void Session::apply_ack(const Opened& opened, const wire::Ack& ack, TimePoint now) {
    EpochState* epoch = epochs_.numbered(opened.epoch->number - (ack.previous_epoch ? 1U : 0U));
    if (epoch == nullptr) {
        return;
    }
    ++counters_.acks_received;
    if (ack.space.lane != 0) {
        return;
    }
    SendSpace& sent = epoch->send_spaces[space_slot(wire::space_number(ack.space))];
    if (ack.highest >= sent.next) {
        drops_.add(DropReason::BadBody);  // acknowledges what was never sent
        return;
    }
    take_highest(opened, ack.space, sent, ack.highest, now);
    if (retransmitter_.spares_datagrams(now)) {
        spare_datagrams(now);
    }
    wire::AckRangeReader ranges(ack.ranges, ack.highest);
    while (ranges.left() > 0) {
        const auto range = ranges.next();
        if (!range) {
            return;
        }
        on_ack_range(opened, *epoch, ack, *range, now);
    }
    paths_.path(ack.space.path).on_ack_count(epoch->number, ack);
}

// References may rely on what was applied only.
void Session::on_ack_range(const Opened& opened,
                           EpochState& epoch,
                           const wire::Ack& ack,
                           const wire::AckRange& range,
                           TimePoint now) {
    const uint16_t space = wire::space_number(ack.space);
    if (range.kind == wire::AckKind::Applied) {
        epoch.encoder.on_acknowledged(space, range.first, range.last, now);
    }
    paths_.on_ack_range(epoch.number, ack, range, opened.arrival_path());
    const uint64_t first = ack_id(epoch, space, range.first);
    const uint64_t last = ack_id(epoch, space, range.last);
    epochs_.each([&](EpochState& any) {
        any.each_ledger(
            [&](uint8_t /*path*/, AckLedger& ledger) { ledger.on_acknowledged(first, last); });
    });
}

}  // namespace continuo::session
