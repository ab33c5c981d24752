#include "common/session/session.hpp"

#include <algorithm>

namespace continuo::session {

using base::DropReason;
using base::Duration;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;

namespace {

constexpr Duration kHousekeepingInterval = base::seconds(1);

}  // namespace

Session::Session(const SessionSettings& settings,
                 SessionHost& host,
                 SessionScratch& scratch,
                 base::Random& random)
    : core_(*this, *this, settings, host, scratch, random) {}

Session::~Session() = default;

void Session::install_epoch(EpochInstall keys, TimePoint now) {
    const Epochs::Succession succession = core_.epochs.succession(keys.epoch);
    // Kept packets name sequence numbers under keys that stay until the next ones; under other
    // keys, even for the same epoch number, they would mean something else.
    if (settings().role != Role::Node || succession != Epochs::Succession::Next) {
        send_.kept().clear();
    }
    if (succession == Epochs::Succession::Anew && core_.epochs.current()->sealed_datagrams > 0) {
        sent_.clear();
    }
    EpochState& epoch =
        core_.epochs.install(std::move(keys), elision::skew_for(core_.paths.largest_rtt()), now);
    core_.flows.each([&epoch](const Flow& flow) {
        epoch.encoder.add_flow(flow.index, {flow.app, false});
    });
    timers_.set_earlier(Timer::Housekeeping, now + kHousekeepingInterval);
    if (settings().role == Role::Node) {
        // Lets SNAPT hear the epoch even if there is nothing to send.
        core_.upkeep.send_keepalive();
        core_.paths.logs().forget_sent();
    }
}

bool Session::attach(Flow& flow) {
    if (!core_.flows.give_index(flow)) {
        core_.drops.add(DropReason::FlowLimit);
        return false;
    }
    if (!core_.flows.has(flow)) {
        receive_.delivery().forget(flow.index);
        send_.kept().forget_flow(flow.index);
    }
    core_.flows.attach(flow);
    core_.epochs.each([&flow](EpochState& epoch) {
        epoch.encoder.remove_flow(flow.index);
        epoch.encoder.add_flow(flow.index, {flow.app, false});
    });
    return true;
}

void Session::detach(Flow& flow, TimePoint /*now*/, std::optional<EndNotice> notice) {
    const bool is_snapt = settings().role == Role::Snapt;
    core_.unheard.forget(flow);
    core_.scratch.members.forget(flow);
    send_.queues().drop_flow(flow);
    if (!core_.flows.detach(flow,
                            notice.value_or(is_snapt ? EndNotice::Closed : EndNotice::None))) {
        return;
    }
    receive_.delivery().forget(flow.index);
    send_.kept().forget_flow(flow.index);
    core_.epochs.each([&flow](EpochState& epoch) { epoch.encoder.remove_flow(flow.index); });
}

void Session::requeue(Flow& flow, TrafficClass former) {
    send_.queues().requeue(flow, former);
    flow.paths.pinned = flow::FlowPaths::kNone;
    EpochState* const epoch = core_.epochs.current();
    if (core_.flows.has(flow) && epoch != nullptr) {
        epoch->encoder.remove_flow(flow.index);
        epoch->encoder.add_flow(flow.index, {flow.app, true});
    }
}

void Session::on_packet(Flow& flow, packet::PacketPtr packet, TimePoint now) {
    core_.upkeep.note_use(now);
    send_.on_packet(flow, std::move(packet), now);
}

void Session::on_datagrams(std::span<ReceivedDatagram> datagrams, TimePoint now) {
    receive_.on_datagrams(datagrams, now);
}

void Session::on_timeout(TimePoint now) {
    while (const auto silent = core_.paths.on_time(now)) {
        send_.kept().on_doubt(*silent, now);
        core_.host.on_path_silent(*this, *silent, now);
    }
    sent_.on_timeout(now);
    core_.upkeep.on_timeout(now);
    if (receive_.delivery().deliver_due(now)) {
        core_.host.on_held_delivered(*this);
    }
    if (timers_.expire(Timer::Housekeeping, now)) {
        timers_.set(Timer::Housekeeping, now + kHousekeepingInterval);
        keep_house(now);
    }
}

void Session::keep_house(TimePoint now) {
    sent_.on_time(now);
    send_.kept().on_time(now);
    core_.upkeep.tend_paths(now);
    receive_.delivery().on_time(now);
    core_.flows.on_time(now);
    core_.epochs.on_time(now);
    core_.paths.logs().tidy(now);
    const Duration skew = elision::skew_for(core_.paths.largest_rtt());
    core_.epochs.each([this, skew, now](EpochState& epoch) {
        epoch.each_ledger([this](uint8_t path, AckLedger& ledger) {
            ledger.set_rtt(core_.paths.path(path).feedback().smoothed_rtt());
        });
        epoch.encoder.set_skew(skew);
        epoch.encoder.on_time(now);
    });
    Path* const path = core_.paths.active_path();
    if (path != nullptr && settings().role == Role::Node) {
        path->node().keepalive().try_longer(settings().keepalive, now);
    }
}

bool Session::poll_transmit(TransmitBatch& batch, TimePoint now) {
    return core_.epochs.current() != nullptr && send_.poll(batch, now);
}

TimePoint Session::next_deadline(TimePoint now) const {
    if (core_.epochs.current() == nullptr) {
        return timers_.next_deadline();
    }
    return std::min({timers_.next_deadline(), core_.paths.next_deadline(),
                     core_.upkeep.keepalive_at(), receive_.delivery().next_deadline(),
                     sent_.next_deadline(now), send_.next_deadline(now)});
}

void Session::set_class_settings(const std::array<ClassSettings, base::kTrafficClasses>& classes) {
    core_.settings.classes = classes;
    send_.queues().on_settings();
}

void Session::on_too_big(const TransmitItem& item, TimePoint now) {
    const uint32_t payload = item.segment_bytes != 0 ? item.segment_bytes : item.length;
    core_.paths.on_too_big(item.path, payload + outer_overhead(item.to.address), now);
}

void Session::on_sent(const TransmitBatch& batch, const TransmitItem& item) {
    SessionCore& core = item.session->core_;
    const bool is_up = core.settings.role == Role::Node;
    for (const Attribution& part : batch.attributions(item)) {
        if (part.flow == nullptr || part.flow->counters == nullptr) {
            continue;
        }
        if (!is_up) {
            SessionFlows::count_way(*part.flow, core.paths.path(item.path), core.counters.handovers,
                                    part.packets, part.waited_us);
            core.unheard.on_sent(part);
            continue;
        }
        flow::LiveCounters& counters = part.flow->counters->counters;
        flow::add(counters.packets_up, part.packets);
        flow::add(counters.inner_up, part.inner_bytes);
        flow::add(counters.payload_up, part.payload_bytes);
        flow::add(counters.pre_up, part.inner_bytes);
        flow::add(counters.post_up, part.outer_bytes);
    }
}

}  // namespace continuo::session
