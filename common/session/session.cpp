#include "common/session/session.hpp"

#include "common/base/assert.hpp"
#include "common/wire/constants.hpp"

#include <algorithm>

namespace continuo::session {

using base::DropReason;
using base::Duration;
using base::index_of;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;
using packet::NodeSide;

namespace {

// Bytes that an unproven tuple must still be allowed for acknowledgements to be sent there.
constexpr Duration kHousekeepingInterval = base::seconds(1);
// The resequencer's memory is freed when it was not needed for this long.
constexpr Duration kTrimAfter = base::seconds(30);
// The hold may take this fraction of the round trip of an ACK-clocked flow.
constexpr int64_t kClockedShare = 4;
// Half of the datagrams that a key may seal, so that the new epoch is there in time.
constexpr uint64_t kWantRekeyDatagrams = wire::kRekeyDatagrams / 2;

}  // namespace

Session::Session(const SessionSettings& settings,
                 SessionHost& host,
                 SessionScratch& scratch,
                 base::Random& random)
    : settings_(settings)
    , host_(host)
    , scratch_(scratch)
    , random_(random)
    , paths_(settings.role, random, settings.memory)
    , classes_{ClassState(settings.classes[0]), ClassState(settings.classes[1]),
               ClassState(settings.classes[2]), ClassState(settings.classes[3])}
    , reassembly_(drops_)
    , sent_ring_(settings.memory)
    , kept_ring_(settings.memory)
    , resequencer_(settings.memory) {}

Session::~Session() = default;

EpochState* Session::sending() const {
    if (settings_.role == Role::Snapt && current_ && !current_->is_heard && previous_) {
        return previous_.get();
    }
    return current_.get();
}

// For a copy, which names its original under the keys of that epoch. A node's copies come behind
// new keys where the path that takes over is a new connection.
EpochState* Session::sealing(uint32_t epoch) const {
    const bool is_previous =
        settings_.role == Role::Node && previous_ && previous_->number == epoch;
    EpochState* const found = is_previous ? previous_.get() : sending();
    return found != nullptr && found->number == epoch ? found : nullptr;
}

std::optional<uint32_t> Session::send_epoch() const {
    return current_ ? std::optional(current_->number) : std::nullopt;
}

bool Session::wants_rekey() const {
    return current_ &&
           current_->sealed_datagrams >= std::min(kWantRekeyDatagrams, settings_.rekey_datagrams);
}

NodeSide Session::sends_side() const {
    return settings_.role == Role::Node ? NodeSide::Source : NodeSide::Destination;
}

NodeSide Session::receives_side() const {
    return settings_.role == Role::Node ? NodeSide::Destination : NodeSide::Source;
}

const base::IpAddress& Session::node_address(base::IpVersion version) const {
    return version == base::IpVersion::V4 ? settings_.node_ipv4 : settings_.node_ipv6;
}

void Session::install_epoch(EpochInstall keys, TimePoint now) {
    CTN_ASSERT(!is_receiving_);
    auto epoch = std::make_unique<EpochState>(keys.epoch, sends_side(), receives_side(),
                                              scratch_.decode, settings_.memory);
    epoch->sealer = std::move(keys.sealer);
    epoch->opener = std::move(keys.opener);
    epoch->installed_at = now;
    epoch->encoder.set_skew(elision::skew_for(paths_.largest_rtt()));
    const bool is_granted_anew = current_ && current_->number == epoch->number;
    const bool is_next = current_ && current_->number + 1 == epoch->number;
    // Kept entries name sequence numbers under keys that stay until the next ones; under other
    // keys, even for the same epoch number, they would mean something else.
    if (settings_.role != Role::Node || !is_next) {
        kept_ring_.clear();
    }
    if (is_granted_anew && current_->sealed_datagrams > 0) {
        sent_ring_.clear();
    }
    if (!is_granted_anew) {
        // The first epoch after a lost association shares nothing with the one before.
        judge_losses();
        for (const EpochState* ended : {previous_.get(), is_next ? nullptr : current_.get()}) {
            retired_losses_ += ended != nullptr ? ended->missing() : 0;
        }
        previous_ = is_next ? std::move(current_) : nullptr;
    }
    current_ = std::move(epoch);
    reopen_flows(*current_);
    timers_.set_earlier(Timer::Housekeeping, now + kHousekeepingInterval);
    if (settings_.role == Role::Node) {
        keepalive_due_ = true;  // lets SNAPT hear the epoch even if there is nothing to send
        paths_.logs().forget_sent();
    }
}

bool Session::may_grant(uint32_t epoch) const {
    return current_ == nullptr || epoch == current_->number + 1 ||
           (epoch == current_->number && !current_->is_heard);
}

void Session::reopen_flows(EpochState& epoch) {
    for (Flow* flow : flows_) {
        if (flow != nullptr) {
            epoch.encoder.add_flow(flow->index, {flow->app, false});
        }
    }
}

bool Session::attach(Flow& flow) {
    if (settings_.role == Role::Node) {
        const auto index = indexes_.take();
        if (!index) {
            drops_.add(DropReason::FlowLimit);
            return false;
        }
        flow.index = *index;
    }
    if (flow.index > elision::kMaxFlowIndex) {
        drops_.add(DropReason::FlowLimit);
        return false;
    }
    flow.paths.moves_seen = flow::FlowPaths::kNotSeen;
    if (flows_.size() <= flow.index) {
        flows_.resize(std::max<size_t>(flow.index + size_t{1}, flows_.size() * 2));
    }
    if (flows_[flow.index] != nullptr) {
        // SNAPT: the node gave the index to another flow; the old one stays in the daemon's table.
        Flow& former = *flows_[flow.index];
        count_mode(former, -1);
        former.paths.pinned = flow::FlowPaths::kNone;
        former.owner = nullptr;
        --attached_;
    }
    if (flows_[flow.index] != &flow) {
        drops_.add(DropReason::QueueFull, resequencer_.forget(flow.index));
        kept_ring_.forget_flow(flow.index);
    }
    flows_[flow.index] = &flow;
    flow.owner = this;
    ++attached_;
    count_mode(flow, 1);
    for (EpochState* epoch : {current_.get(), previous_.get()}) {
        if (epoch != nullptr) {
            epoch->encoder.remove_flow(flow.index);
            epoch->encoder.add_flow(flow.index, {flow.app, false});
        }
    }
    return true;
}

void Session::detach(Flow& flow, TimePoint /*now*/, EndNotice notice) {
    unheard_.forget(flow);
    scratch_.members.forget(flow);
    ClassState& state = classes_[index_of(flow.traffic_class)];
    const size_t dropped = state.queue.drop_flow(flow);
    state.counters.queue_drops += dropped;
    for (ClassState& any : classes_) {
        if (any.split_attribution.flow == &flow) {
            any.split_entry.clear();
            any.split_attribution = {};
        }
    }
    if (flow.owner != this || flow_at(flow.index) != &flow) {
        return;
    }
    flows_[flow.index] = nullptr;
    flow.owner = nullptr;
    --attached_;
    count_mode(flow, -1);
    flow.paths.pinned = flow::FlowPaths::kNone;
    drops_.add(DropReason::QueueFull, resequencer_.forget(flow.index));
    kept_ring_.forget_flow(flow.index);
    for (EpochState* epoch : {current_.get(), previous_.get()}) {
        if (epoch != nullptr) {
            epoch->encoder.remove_flow(flow.index);
        }
    }
    const bool is_told = notice == EndNotice::Closed && closed_.add(flow.index);
    counters_.closed_untold += notice == EndNotice::Closed && !is_told ? 1U : 0U;
    if (settings_.role == Role::Node) {
        indexes_.release(static_cast<uint16_t>(flow.index));
        if (!is_told) {
            indexes_.make_reusable(static_cast<uint16_t>(flow.index));
        }
    }
}

void Session::requeue(Flow& flow, TrafficClass former) {
    classes_[index_of(former)].queue.move_flow(flow, classes_[index_of(flow.traffic_class)].queue);
    flow.paths.pinned = flow::FlowPaths::kNone;
    if (flow_at(flow.index) == &flow && current_) {
        current_->encoder.remove_flow(flow.index);
        current_->encoder.add_flow(flow.index, {flow.app, true});
    }
}

void Session::on_packet(Flow& flow, packet::PacketPtr packet, TimePoint now) {
    note_use(now);
    ClassState& state = classes_[index_of(flow.traffic_class)];
    const auto destination = paths_.selector().destination(flow.traffic_class, now);
    state.estimator.on_arrival(now, knobs(state, destination.value_or(Destination{})),
                               are_arrivals_gathered_);
    if (packet->offload.gso != packet::GsoType::None && is_compressible(state, flow, *packet)) {
        compression_.on_arrival(packet->length, now);
    }
    flow.paths.gap = now - flow.paths.queued_at;
    flow.paths.queued_at = now;
    const size_t dropped = state.queue.push(flow, std::move(packet), now);
    if (dropped > 0) {
        state.counters.queue_drops += dropped;
        drops_.add(DropReason::QueueFull, dropped);
    }
}

void Session::set_class_settings(const std::array<ClassSettings, base::kTrafficClasses>& classes) {
    settings_.classes = classes;
    for (size_t i = 0; i < classes.size(); ++i) {
        classes_[i].settings = classes[i];
        classes_[i].queue.set_limit_bytes(classes[i].queue_bytes);
    }
}

uint64_t Session::queued_bytes() const {
    uint64_t bytes = 0;
    for (const ClassState& state : classes_) {
        bytes += state.queue.bytes();
    }
    return bytes;
}

uint32_t Session::queued_packets() const {
    uint32_t packets = 0;
    for (const ClassState& state : classes_) {
        packets += state.queue.packets();
    }
    return packets;
}

size_t Session::shed(bool by_bytes) {
    const auto held = [by_bytes](const ClassState& state) {
        return by_bytes ? state.queue.bytes() : state.queue.packets();
    };
    ClassState* const most = std::max_element(
        classes_.begin(), classes_.end(),
        [&](const ClassState& one, const ClassState& other) { return held(one) < held(other); });
    const size_t dropped = most->queue.halve();
    most->counters.queue_drops += dropped;
    drops_.add(DropReason::QueueFull, dropped);
    return dropped;
}

// The path that the hold of the class is computed for. Any other would wake us before it may send.
std::optional<Destination> Session::next_destination(TrafficClass traffic_class,
                                                     TimePoint now) const {
    const auto& goes_to = classes_[index_of(traffic_class)].goes_to;
    return goes_to ? goes_to : paths_.selector().destination(traffic_class, now);
}

std::optional<Duration> Session::patience(TimePoint now) const {
    TimePoint earliest = base::kNever;
    for (size_t i = 0; i < classes_.size(); ++i) {
        const ClassState& state = classes_[i];
        if (state.queue.empty() && state.split_entry.empty()) {
            continue;
        }
        const auto destination = next_destination(base::kAllTrafficClasses[i], now);
        earliest = destination
                       ? std::min(earliest, ready_at(state, knobs(state, *destination), nullptr))
                       : now;
    }
    return earliest == base::kNever ? std::nullopt
                                    : std::optional(std::max(earliest - now, Duration{}));
}

void Session::on_too_big(const TransmitItem& item, TimePoint now) {
    const uint32_t payload = item.segment_bytes != 0 ? item.segment_bytes : item.length;
    paths_.on_too_big(item.path, payload + outer_overhead(item.to.address), now);
}

bool Session::may_have_sent(const wire::Quote& quote) const {
    // Numbers that count as recent: some seconds on a thin link.
    constexpr uint64_t kReach = 4096;
    constexpr unsigned kUnquotedBits = 16;  // lower bits of a long sequence number
    std::array<uint8_t, wire::kLongHeaderBytes> bytes{};
    std::copy(quote.first.begin(), quote.first.end(), bytes.begin());
    base::ByteReader reader(bytes);
    const auto header = wire::TunnelHeader::parse(reader);
    if (!header || header->session_id != settings_.peer_id || header->lane != 0) {
        return false;
    }
    const auto is_lately = [&](const EpochState* epoch) {
        if (epoch == nullptr || epoch->number % wire::kEpochModulus != header->epoch) {
            return false;
        }
        const uint64_t next = epoch->send_spaces[space_slot(header->space_number())].next;
        const uint64_t oldest = next > kReach ? next - kReach : 0;
        const uint64_t quoted = header->whole_sequence(next);
        const unsigned unquoted = header->long_sequence ? kUnquotedBits : 0;
        return next > 0 && quoted >> unquoted >= oldest >> unquoted &&
               quoted >> unquoted <= (next - 1) >> unquoted;
    };
    return is_lately(current_.get()) || is_lately(previous_.get());
}

HoldKnobs Session::knobs(const ClassState& state, const Destination& destination) const {
    const uint32_t overhead =
        outer_overhead(destination.to.address) + wire::kLongHeaderBytes + wire::kFullTagBytes;
    uint32_t outer = destination.mtu;
    if (state.settings.max_bytes != 0) {
        outer = std::min(outer, state.settings.max_bytes);
    }
    HoldKnobs knobs;
    knobs.hold = state.settings.hold;
    const auto full = static_cast<uint32_t>(static_cast<double>(outer) * state.settings.fill);
    knobs.target_bytes = full > overhead ? full - overhead : 1;
    if (const Duration rtt = paths_.path(destination.path).feedback().smoothed_rtt();
        state.queue.has_clocked() && rtt != Duration{}) {
        knobs.clocked_hold = rtt / kClockedShare;
    }
    knobs.min_bytes = state.settings.min_bytes > overhead ? state.settings.min_bytes - overhead : 0;
    return knobs;
}

TimePoint
Session::ready_at(const ClassState& state, const HoldKnobs& knobs, ReleaseReason* reason) const {
    if (!state.split_entry.empty()) {
        return TimePoint{};
    }
    if (state.queue.empty()) {
        return base::kNever;
    }
    const auto predicted =
        static_cast<uint64_t>(static_cast<double>(state.queue.bytes()) * state.compressed_ratio);
    const Release release = state.estimator.release(state.queue.waiting_since(), predicted, knobs);
    if (reason != nullptr) {
        *reason = release.reason;
    }
    return release.at;
}

void Session::on_timeout(TimePoint now) {
    while (const auto silent = paths_.on_time(now)) {
        on_doubt(*silent, now);
        host_.on_path_silent(*this, *silent, now);
    }
    if (waiting_move_ && repeat_limit_.free_at() <= now) {
        follow_move(*waiting_move_, now);
    }
    keepalive_due_ = keepalive_due_ || keepalive_at() <= now;
    if (deliver_due(now)) {
        host_.on_held_delivered(*this);
    }
    if (!timers_.expire(Timer::Housekeeping, now)) {
        return;
    }
    timers_.set(Timer::Housekeeping, now + kHousekeepingInterval);
    release_sent(now);
    if (is_used(now) || flows_by_mode_[static_cast<size_t>(base::PathMode::Redundant)] > 0) {
        keep_paths_ready(now);
    }
    resequencer_.trim(now - std::min<Duration>(kTrimAfter, now.time_since_epoch()));
    judge_losses();
    closed_.wake(now,
                 [this](uint32_t index) { indexes_.make_reusable(static_cast<uint16_t>(index)); });
    if (previous_ && previous_->retire_at <= now && !is_receiving_) {
        retired_losses_ += previous_->missing();
        previous_.reset();
    }
    const Duration skew = elision::skew_for(paths_.largest_rtt());
    paths_.logs().tidy(now);
    for (EpochState* epoch : {current_.get(), previous_.get()}) {
        if (epoch != nullptr) {
            epoch->each_ledger([&](uint8_t path, AckLedger& ledger) {
                ledger.set_rtt(paths_.path(path).feedback().smoothed_rtt());
            });
            epoch->encoder.set_skew(skew);
            epoch->encoder.on_time(now);
        }
    }
    Path* const path = paths_.active_path();
    if (path != nullptr && settings_.role == Role::Node) {
        path->node().keepalive().try_longer(settings_.keepalive, now);
    }
}

TimePoint Session::keepalive_at() const {
    const bool is_wanted = keeps_idle_alive_ || flows() != 0;
    const Path* const path = paths_.active_path();
    return settings_.role == Role::Node && is_wanted && !keepalive_due_ && path != nullptr
               ? kept_alive_at_ + path->node().keepalive().interval(settings_.keepalive)
               : base::kNever;
}

void Session::request_keepalive(TimePoint now) {
    if (settings_.role == Role::Snapt || !paths_.node().on_request(kept_alive_at_, now)) {
        keepalive_due_ = true;
    }
}

TimePoint Session::next_deadline(TimePoint now) const {
    if (current_ == nullptr) {
        return timers_.next_deadline();
    }
    TimePoint earliest = std::min({timers_.next_deadline(), paths_.next_deadline(), keepalive_at(),
                                   resequencer_.next_deadline()});
    if (const auto ack = next_lone_ack(now)) {
        earliest = std::min(earliest, ack->due_at);
    }
    if (waiting_move_) {
        earliest = std::min(earliest, repeat_limit_.free_at());
    }
    if (sent_ring_.has_due() && repeat_pace_.next_at > now) {
        earliest = std::min(earliest, repeat_pace_.next_at);
    }
    const TimePoint paced_at = settings_.rate != nullptr ? settings_.rate->free_at() : TimePoint{};
    for (size_t i = 0; i < classes_.size(); ++i) {
        const ClassState& state = classes_[i];
        const auto destination = next_destination(base::kAllTrafficClasses[i], now);
        const bool is_open = destination && destination->budget_bytes >= destination->mtu;
        if (destination && (is_open || has_spread_flows()) && !state.is_blocked) {
            const TimePoint at = ready_at(state, knobs(state, *destination), nullptr);
            earliest = std::min(earliest, std::max(at, paced_at));
        }
    }
    return earliest;
}

// A number is lost if it is still missing a second or more after a higher one came.
void Session::judge_losses() {
    uint64_t lost = retired_losses_;
    for (EpochState* epoch : {current_.get(), previous_.get()}) {
        if (epoch != nullptr) {
            lost += epoch->lost();
            epoch->judge();
        }
    }
    counters_.lost_datagrams = lost;
}

uint64_t Session::missing_datagrams() const {
    uint64_t missing = retired_losses_;
    for (const EpochState* epoch : {current_.get(), previous_.get()}) {
        missing += epoch != nullptr ? epoch->missing() : 0;
    }
    return missing - std::min(missing, lost_in_silence_);
}

}  // namespace continuo::session
