// Rates and quotas of users at the relay: down, packets above a rate wait; up, they are dropped.
// Once a quota with "stop" is used up, TCP is reset and other packets are answered by ICMP.
#include "common/dataplane/flow_tracking.hpp"
#include "common/packet/header_fields.hpp"
#include "common/packet/reply.hpp"
#include "snapt/relay/relay.hpp"

#include <algorithm>
#include <array>

namespace continuo::snapt::relay {

using base::DropReason;
using base::TimePoint;
using flow::Flow;

// A later session continues an account's meter, if its share was kept (drop_idle_shares).
void Relay::take_meter(UserShare& share, const SessionGrant& grant) {
    if (share.meter == nullptr || share.meter->account().id != grant.account_id) {
        share.meter = grant.meter != nullptr ? grant.meter
                                             : std::make_shared<accounting::UserMeter>(
                                                   store::Account{grant.account_id, grant.user});
        share.flows.count_into(&share.meter->counter());
    }
    apply_rate(share);
}

void Relay::apply_rate(UserShare& share) {
    const uint64_t throttled = share.meter->throttled_bits_per_s();
    share.throttled_bits_per_s = throttled;
    uint64_t rate = settings_.user_bits_per_s;
    rate = rate == 0 || throttled == 0 ? std::max(rate, throttled) : std::min(rate, throttled);
    if (rate == share.down_rate.bits_per_s()) {
        return;
    }
    // Debt at the former rate would delay the new one.
    share.down_rate = base::TokenBucket(kDownBurst);
    share.up_rate = base::TokenBucket(kUpBurst);
    share.down_rate.set_rate(rate);
    share.up_rate.set_rate(rate);
    for (const auto& node : sessions_) {
        if (node->share == &share) {
            node->session.set_class_settings(class_settings_of(share));
            engine_.touch(node->session);
        }
    }
}

// With each packet: what a late look lets through is lost.
void Relay::follow_meter(UserShare& share) {
    if (share.meter->throttled_bits_per_s() == share.throttled_bits_per_s) {
        return;
    }
    apply_rate(share);
    if (share.throttled_bits_per_s != 0) {
        events_.on_credit_used();
    }
}

// A short queue: beyond what TCP needs it only adds delay.
std::array<session::ClassSettings, base::kTrafficClasses>
Relay::class_settings_of(const UserShare& share) const {
    auto classes = settings_.classes;
    const uint64_t rate = share.down_rate.bits_per_s();
    if (rate != 0) {
        const uint64_t bytes = rate / 8 * static_cast<uint64_t>(base::to_ms(kRateQueue)) / 1000;
        for (session::ClassSettings& one : classes) {
            one.queue_bytes = std::min(one.queue_bytes, std::max(bytes, kLeastRateQueue));
        }
    }
    return classes;
}

void Relay::set_user_rate(uint64_t bits_per_s) {
    settings_.user_bits_per_s = bits_per_s;
    look_at_meters();
}

void Relay::look_at_meters() {
    for (auto& entry : shares_) {
        UserShare& share = entry.second;
        apply_rate(share);
        if (!share.meter->is_stopped()) {
            share.is_stopped = false;
        } else if (!share.is_stopped) {
            end_flows_of(share, loop_.now());
        }
    }
    drop_idle_shares();
    engine_.pump();
}

// Packets that wait for its nodes must not leave. A pass over all flows, once per used-up quota.
void Relay::end_flows_of(UserShare& share, TimePoint now) {
    share.is_stopped = true;
    flows_.for_each([&](Flow& flow) {
        if (flow::details_as<NodeSession>(flow)->share == &share) {
            note_ended(flow, now);
            end_flow(flow, now);
            flows_.erase(flow, flow::Cause::Quota);
        }
    });
}

// Some packets of a refused flow go to the rules, so that the node gets their answer.
bool Relay::may_go_up(Flow& flow, size_t bytes, TimePoint now) {
    auto& node = *flow::details_as<NodeSession>(flow);
    if (flow.state != flow::FlowState::Refused) {
        follow_meter(*node.share);
        base::TokenBucket& rate = node.share->up_rate;
        if (!rate.may_pass(now)) {
            drops_.add(DropReason::UserRate);
            return false;
        }
        rate.take(bytes, now);
        return true;
    }
    flows_.refuse(flow, now);  // it stays while packets come
    if (now - node.refusals_from >= base::seconds(1)) {
        node.refusals_from = now;
        node.refusals = 0;
    }
    if (node.refusals >= kRefusalsToAnswer) {
        drops_.add(DropReason::Refused);
        return false;
    }
    ++node.refusals;
    return true;
}

void Relay::refuse_up(NodeSession& node,
                      Flow& flow,
                      const packet::HeaderFields& fields,
                      TimePoint now) {
    drops_.add(DropReason::UsedUp);
    if ((fields.flags & packet::tcp_flag::kRst) == 0) {
        session::FlowOpening opening;
        opening.tuple = flow.tuple;
        opening.fields = &fields;
        answer_refused(node, opening, now);
    }
    if (flow.tuple.protocol == packet::Protocol::Tcp) {
        packet::HeaderFields reset;
        reset.flags = packet::tcp_flag::kRst;
        dataplane::track(flows_, flow, flow::Direction::Down, reset, now);
    }
}

// Both ends of a TCP connection are told: the program may wait for this packet and send nothing.
// Earlier data is lost or under way, so the reset may not be the next byte: then the program's host
// asks (RFC 5961, 3.2), and refuse_up() or make_flow() answers.
void Relay::refuse_down(NodeSession& node,
                        const packet::PacketSummary& summary,
                        base::ByteView packet,
                        TimePoint now) {
    drops_.add(DropReason::UsedUp);
    if (!node.share->is_stopped) {
        end_flows_of(*node.share, now);
    }
    const bool is_tcp = summary.tuple.protocol == packet::Protocol::Tcp && !summary.is_icmp_error;
    if (!is_tcp || !summary.is_first_fragment || !may_answer(node, now)) {
        return;
    }
    std::array<uint8_t, packet::kMaxReplyBytes> answer{};
    if (const size_t length = packet::write_tcp_reset(packet, answer);
        length > 0 && engine_.is_open()) {
        engine_.answer(base::ByteView(answer).first(length));
    }
    packet::HeaderFields fields;
    fields.source = summary.tuple.remote;
    fields.destination = summary.tuple.local;
    fields.source_port = summary.tuple.remote_port;
    fields.destination_port = summary.tuple.local_port;
    fields.ttl = 64;
    fields.flags = packet::tcp_flag::kRst | packet::tcp_flag::kAck;
    fields.sequence = summary.tcp_sequence;
    fields.acknowledgement = summary.tcp_acknowledgement;
    const size_t length = packet::write_headers(fields, {}, false, answer);
    send_answer(node, base::ByteView(answer).first(length), now);
}

}  // namespace continuo::snapt::relay
