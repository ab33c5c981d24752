// Frames of a received datagram whose body was valid as a whole.
#include "common/session/session.hpp"

#include <algorithm>
#include <bit>

namespace continuo::session {

using base::DropReason;
using base::TimePoint;
using flow::Flow;

// Their places may be needed for packets of the same datagram.
void Session::end_closed_flows(TimePoint now) {
    for (const wire::BodyItem& item : scratch_.frames) {
        const auto* closed = std::get_if<wire::Closed>(&item);
        for (size_t i = 0; closed != nullptr && i < closed->count; ++i) {
            if (Flow* flow = flow_at(closed->indexes[i])) {
                host_.on_flows_closed(*this, *flow, now);
            }
        }
    }
}

// `may_repeat`: the datagram ends a silence in which datagrams may have been lost.
void Session::apply_frames(const Opened& opened, bool may_repeat, TimePoint now) {
    const wire::Space space = opened.header.space();
    const bool is_announcement = scratch_.has_frame<wire::Announce>();
    const bool is_long_announcement =
        is_announcement && opened.datagram->bytes.size() >= wire::kAnnounceBodyBytes;
    // A padded CHALLENGE alone asks for the MTU, or for the way of a class: its answer is short,
    // and nothing has moved.
    const bool is_mere_question = !is_announcement && scratch_.has_frame<wire::Pad>();
    // A short announcement is a repetition.
    const bool is_doubted = is_mere_question || (is_announcement && !is_long_announcement);
    bool is_repeating = false;
    ClassMask remapped = 0;
    bool has_moved = false;
    bool has_ack = false;
    const auto former = paths_.active();
    for (const wire::BodyItem& item : scratch_.frames) {
        if (const auto* ack = std::get_if<wire::Ack>(&item)) {
            apply_ack(opened, *ack, now);
            has_ack = true;
        } else if (const auto* challenge = std::get_if<wire::Challenge>(&item)) {
            paths_.on_challenge(space, *challenge, is_long_announcement, is_doubted,
                                is_mere_question);
            if (settings_.role == Role::Node && !is_mere_question) {
                if (!paths_.path(space.path)
                         .feedback()
                         .has_changed_socket(space.traffic_class, now)) {
                    host_.on_path_challenged(*this, space.path, now);
                }
                let_lt_ld_be_heard(space, now);
                if (space.traffic_class == base::TrafficClass::LtLd &&
                    paths_.active() == space.path) {
                    paths_.path(space.path)
                        .node()
                        .keepalive()
                        .on_remapped(settings_.keepalive, now);
                    asked_to_repeat_at_ = now;
                }
            }
        } else if (const auto* response = std::get_if<wire::Response>(&item)) {
            const bool is_news = paths_.on_response(space, *response, now);
            if (settings_.role == Role::Snapt) {
                remapped |= paths_.snapt().take_remapping();
            } else if (is_news) {
                host_.on_path_changed(*this, space.path, now);
            }
        } else if (const auto* announce = std::get_if<wire::Announce>(&item)) {
            if (settings_.role != Role::Snapt) {
                continue;
            }
            is_repeating = is_repeating || (may_repeat && announce->active);
            if (paths_.snapt().on_announce(space.path, *announce, now)) {
                ++counters_.handovers;
                has_moved = true;
            }
        } else if (std::holds_alternative<wire::Close>(item)) {
            host_.on_peer_closed(*this, now);
            return;  // the frames that follow belong to a session that has ended
        }
    }
    for (unsigned left = has_ack ? paths_.logs().on_acks_read(now) : 0U; left != 0;
         left &= left - 1) {
        host_.on_path_changed(*this, static_cast<uint8_t>(std::countr_zero(left)), now);
    }
    const bool is_announced = is_repeating || has_moved;
    if (is_announced || remapped != 0) {
        // The acknowledgements of the same datagram have been read.
        follow_move({former, has_moved, has_moved && former == paths_.active(),
                     is_announced ? kAllClasses : remapped},
                    now);
    }
}

// SNAPT sees another class of the path at a new address. A NAT that lost that mapping may also have
// lost LtLd's, which may send nothing for long while other classes are heard.
void Session::let_lt_ld_be_heard(const wire::Space& challenged, TimePoint now) {
    if (challenged.traffic_class == base::TrafficClass::LtLd) {
        return;  // its RESPONSE does that
    }
    if (paths_.active() == challenged.path) {
        keepalive_due_ = true;
    } else {
        paths_.path(challenged.path).node().probe(now);
    }
}

EpochState* Session::acknowledged_epoch(const Opened& opened, bool previous) {
    if (!previous) {
        return opened.epoch;
    }
    return opened.epoch == current_.get() ? previous_.get() : nullptr;
}

void Session::apply_ack(const Opened& opened, const wire::Ack& ack, TimePoint now) {
    EpochState* epoch = acknowledged_epoch(opened, ack.previous_epoch);
    if (epoch == nullptr) {
        return;
    }
    ++counters_.acks_received;
    if (ack.space.lane != 0) {
        return;
    }
    SendSpace& sent = epoch->send_spaces[space_slot(wire::space_number(ack.space))];
    if (ack.highest >= sent.next) {
        drops_.add(DropReason::BadBody);  // acknowledges numbers that were never sent
        return;
    }
    auto& highest =
        epoch->send_spaces[space_slot(wire::space_number(ack.space))].highest_acknowledged;
    highest = std::max<uint64_t>(highest.value_or(0), ack.highest);
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
void Session::on_ack_range(const Opened& opened,
                           EpochState& epoch,
                           const wire::Ack& ack,
                           const wire::AckRange& range,
                           TimePoint now) {
    const uint16_t space = wire::space_number(ack.space);
    if (range.kind == wire::AckKind::Applied) {
        epoch.encoder.on_acknowledged(space, range.first, range.last, now);
    }
    paths_.logs().on_ack_range(epoch.number, ack, range, arrival_path(opened));
    const SendSpace& sent = epoch.send_spaces[space_slot(space)];
    sent.each_with_acks(range.first, range.last, [&](uint64_t number) {
        const uint64_t id = ack_id(epoch, space, number);
        for (EpochState* any : {current_.get(), previous_.get()}) {
            if (any != nullptr) {
                any->each_ledger(
                    [id](uint8_t /*path*/, AckLedger& ledger) { ledger.on_acknowledged(id, id); });
            }
        }
    });
}

}  // namespace continuo::session
