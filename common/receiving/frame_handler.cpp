#include "common/receiving/frame_handler.hpp"

#include <algorithm>
#include <bit>

namespace continuo::receiving {

using base::DropReason;
using base::TimePoint;
using flow::Flow;
using path::kAllClasses;
using path::Role;
using session::AckWriter;
using session::EpochState;
using session::NamedNumbers;
using session::SendSpace;
using session::SentDatagrams;
using session::SessionCore;
using session::space_slot;

FrameHandler::FrameHandler(SessionCore& core, SentDatagrams& sent, AckWriter& acks)
    : core_(core)
    , settings_(core.settings)
    , host_(core.host)
    , scratch_(core.scratch)
    , paths_(core.paths)
    , epochs_(core.epochs)
    , sent_(sent)
    , acks_(acks) {}

void FrameHandler::end_closed_flows(TimePoint now) {
    for (const wire::BodyItem& item : scratch_.frames) {
        const auto* closed = std::get_if<wire::Closed>(&item);
        for (size_t i = 0; closed != nullptr && i < closed->count; ++i) {
            if (Flow* flow = core_.flows.at(closed->indexes[i])) {
                host_.on_flows_closed(core_.session, *flow, now);
            }
        }
    }
}

void FrameHandler::apply(const Opened& opened, bool may_repeat, TimePoint now) {
    Frames frames;
    frames.space = opened.header.space();
    frames.is_announcement = scratch_.has_frame<wire::Announce>();
    frames.is_long_announcement =
        frames.is_announcement && opened.datagram->bytes.size() >= wire::kAnnounceBodyBytes;
    // A padded CHALLENGE alone asks for the MTU, or for the way of a class: its answer is short,
    // and nothing has moved.
    frames.is_mere_question = !frames.is_announcement && scratch_.has_frame<wire::Pad>();
    frames.may_repeat = may_repeat;
    const auto former = paths_.active();
    for (const wire::BodyItem& item : scratch_.frames) {
        if (const auto* ack = std::get_if<wire::Ack>(&item)) {
            apply_ack(opened, *ack, now);
            frames.has_ack = true;
        } else if (const auto* challenge = std::get_if<wire::Challenge>(&item)) {
            apply_challenge(frames, *challenge, now);
        } else if (const auto* response = std::get_if<wire::Response>(&item)) {
            apply_response(frames, *response, now);
        } else if (const auto* announce = std::get_if<wire::Announce>(&item)) {
            apply_announce(frames, *announce, now);
        } else if (std::holds_alternative<wire::Close>(item)) {
            host_.on_peer_closed(core_.session, now);
            return;  // the frames that follow belong to a session that has ended
        }
    }
    follow(frames, former, now);
}

void FrameHandler::apply_challenge(const Frames& frames,
                                   const wire::Challenge& challenge,
                                   TimePoint now) {
    const wire::Space& space = frames.space;
    // A short announcement is a repetition.
    const bool is_doubted =
        frames.is_mere_question || (frames.is_announcement && !frames.is_long_announcement);
    paths_.on_challenge(space, challenge, frames.is_long_announcement, is_doubted,
                        frames.is_mere_question);
    if (settings_.role != Role::Node || frames.is_mere_question) {
        return;
    }
    if (!paths_.path(space.path).feedback().has_changed_socket(space.traffic_class, now)) {
        host_.on_path_challenged(core_.session, space.path, now);
    }
    let_lt_ld_be_heard(space, now);
    if (space.traffic_class == base::TrafficClass::LtLd && paths_.active() == space.path) {
        paths_.path(space.path).node().keepalive().on_remapped(settings_.keepalive, now);
        core_.expected_repeats.on_asked(now);
    }
}

void FrameHandler::apply_response(Frames& frames, const wire::Response& response, TimePoint now) {
    const bool is_news = paths_.on_response(frames.space, response, now);
    if (settings_.role == Role::Snapt) {
        frames.remapped |= paths_.snapt().take_remapping();
    } else if (is_news) {
        host_.on_path_changed(core_.session, frames.space.path, now);
    }
}

void FrameHandler::apply_announce(Frames& frames, const wire::Announce& announce, TimePoint now) {
    if (settings_.role != Role::Snapt) {
        return;
    }
    frames.is_repeating = frames.is_repeating || (frames.may_repeat && announce.active);
    if (paths_.snapt().on_announce(frames.space.path, announce, now)) {
        ++core_.counters.handovers;
        frames.has_moved = true;
    }
}

// All frames are read, acknowledgements among them: tells the host of paths that changed, and looks
// for datagrams that a move has lost. `former`: the active path before.
void FrameHandler::follow(const Frames& frames, std::optional<uint8_t> former, TimePoint now) {
    for (unsigned left = frames.has_ack ? paths_.logs().on_acks_read(now) : 0U; left != 0;
         left &= left - 1) {
        host_.on_path_changed(core_.session, static_cast<uint8_t>(std::countr_zero(left)), now);
    }
    const bool is_announced = frames.is_repeating || frames.has_moved;
    if (is_announced || frames.remapped != 0) {
        sent_.follow_move({former, frames.has_moved, frames.has_moved && former == paths_.active(),
                           is_announced ? kAllClasses : frames.remapped},
                          now);
    }
}

// SNAPT sees another class of the path at a new address. A NAT that lost that mapping may also have
// lost LtLd's, which may send nothing for long while other classes are heard.
void FrameHandler::let_lt_ld_be_heard(const wire::Space& challenged, TimePoint now) {
    if (challenged.traffic_class == base::TrafficClass::LtLd) {
        return;  // its RESPONSE does that
    }
    if (paths_.active() == challenged.path) {
        core_.upkeep.send_keepalive();
    } else {
        paths_.path(challenged.path).node().probe(now);
    }
}

void FrameHandler::apply_ack(const Opened& opened, const wire::Ack& ack, TimePoint now) {
    EpochState* epoch = ack.previous_epoch ? epochs_.before(*opened.epoch) : opened.epoch;
    if (epoch == nullptr) {
        return;
    }
    ++core_.counters.acks_received;
    if (ack.space.lane != 0) {
        return;
    }
    SendSpace& sent = epoch->send_spaces[space_slot(wire::space_number(ack.space))];
    if (ack.highest >= sent.next) {
        core_.drops.add(DropReason::BadBody);  // acknowledges numbers that were never sent
        return;
    }
    sent.highest_acknowledged =
        std::max<uint64_t>(sent.highest_acknowledged.value_or(0), ack.highest);
    if (sent.named == nullptr) {
        sent.named = std::make_unique<NamedNumbers>();
    }
    wire::AckRangeReader ranges(ack.ranges, ack.highest);
    while (ranges.left() > 0) {
        const auto range = ranges.next();
        if (!range) {
            return;
        }
        sent.named->take_new(range->first, range->last, [&](uint32_t first, uint32_t last) {
            on_ack_range(opened, *epoch, ack, {first, last, range->kind}, now);
        });
    }
    paths_.logs().on_ack_count(epoch->number, ack);
}

// Takes numbers that no ACK has named before. References may rely only on applied ones.
void FrameHandler::on_ack_range(const Opened& opened,
                                EpochState& epoch,
                                const wire::Ack& ack,
                                const wire::AckRange& range,
                                TimePoint now) {
    const uint16_t space = wire::space_number(ack.space);
    if (range.kind == wire::AckKind::Applied) {
        epoch.encoder.on_acknowledged(space, range.first, range.last, now);
    }
    paths_.logs().on_ack_range(epoch.number, ack, range, opened.arrival_path());
    acks_.on_acknowledged(epoch, space, range.first, range.last);
}

}  // namespace continuo::receiving
