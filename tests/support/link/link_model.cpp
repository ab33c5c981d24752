#include "tests/support/link/link_model.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace continuo::tests {

using base::Duration;
using base::TimePoint;

namespace {

constexpr uint64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr double kMostDeviations = 4;
constexpr double kMostMeans = 10;

}  // namespace

LinkPacket LinkPacket::of_datagram(std::vector<uint8_t> datagram) {
    LinkPacket packet;
    packet.wire_bytes = packet.segment_bytes = static_cast<uint32_t>(datagram.size());
    packet.bytes = std::move(datagram);
    packet.protocol = LinkProtocol::Udp;
    return packet;
}

uint64_t LinkCounters::all_dropped() const {
    return std::accumulate(dropped.begin(), dropped.end(), uint64_t{0});
}

LinkModel::LinkModel(LinkSettings settings, base::Random& random)
    : settings_(std::move(settings)), random_(random) {}

bool LinkModel::is_later(const Flight& left, const Flight& right) {
    return left.due != right.due ? left.due > right.due : left.order > right.order;
}

// --- In

void LinkModel::send(LinkPacket packet, TimePoint now) {
    advance(now);
    counters_.offered_packets += packet.segments;
    counters_.offered_bytes += packet.wire_bytes;
    if (const auto cause = refusal(packet)) {
        drop(packet, *cause);
        return;
    }
    queued_packets_ += packet.segments;
    queued_bytes_ += packet.wire_bytes;
    held_bytes_ += packet.bytes.size();
    counters_.most_queued_packets = std::max(counters_.most_queued_packets, queued_packets_);
    queue_.push_back(std::move(packet));
    if (queue_.size() == 1) {
        carried_ = 0;
        seek_trace(now);
        begin_head(now);
        advance(now);
    }
}

std::optional<LinkDrop> LinkModel::refusal(const LinkPacket& packet) const {
    if (!settings_.is_up) {
        return LinkDrop::Down;
    }
    if ((settings_.blocked & bit_of(packet.protocol)) != 0) {
        return LinkDrop::Blocked;
    }
    if (settings_.mtu_bytes != 0 && packet.segment_bytes > settings_.mtu_bytes) {
        return LinkDrop::Mtu;
    }
    // An empty queue takes a super-packet of more segments than it has places.
    const bool is_over =
        queued_packets_ + packet.segments > settings_.queue_packets ||
        (settings_.queue_bytes != 0 && queued_bytes_ + packet.wire_bytes > settings_.queue_bytes);
    if (is_over && !queue_.empty()) {
        return LinkDrop::Queue;
    }
    return is_full(packet) ? std::optional(LinkDrop::Full) : std::nullopt;
}

bool LinkModel::is_full(const LinkPacket& packet) const {
    return queue_.size() + flights_.size() >= kMaxHeldPackets ||
           held_bytes_ + packet.bytes.size() > kMaxHeldBytes;
}

void LinkModel::drop(const LinkPacket& packet, LinkDrop cause) {
    counters_.dropped[static_cast<size_t>(cause)] += packet.segments;
}

void LinkModel::drop_everything() {
    for (const LinkPacket& packet : queue_) {
        drop(packet, LinkDrop::Down);
    }
    for (const Flight& flight : flights_) {
        drop(flight.packet, LinkDrop::Down);
    }
    queue_.clear();
    flights_.clear();
    queued_packets_ = queued_bytes_ = flying_packets_ = 0;
    held_bytes_ = 0;
    last_due_ = {};
}

void LinkModel::change(LinkSettings settings, TimePoint now) {
    advance(now);
    if (!queue_.empty() && settings_.trace == nullptr && settings_.bits_per_s != 0) {
        const auto since = static_cast<uint64_t>((now - head_since_).count());
        uint64_t sent = since * settings_.bits_per_s;  // in 10^-9 bit
        sent -= std::min(sent, carried_);
        head_left_bits_ -= std::min(head_left_bits_, sent / kNanosecondsPerSecond);
    }
    head_since_ = now;
    carried_ = 0;
    const bool is_new_trace =
        settings.trace != settings_.trace || settings.trace_from != settings_.trace_from;
    settings_ = std::move(settings);
    if (is_new_trace) {
        trace_began_ = now - settings_.trace_from;
    }
    seek_trace(now);
    if (!settings_.is_up) {
        drop_everything();
    }
    advance(now);
}

// --- The transmitter

void LinkModel::advance(TimePoint now) {
    while (!queue_.empty()) {
        const TimePoint at = head_end();
        if (at > now) {
            return;
        }
        if (settings_.trace != nullptr) {
            use_opportunity(at);
        } else {
            if (settings_.bits_per_s != 0) {
                carried_ =
                    (head_left_bits_ * kNanosecondsPerSecond + carried_) % settings_.bits_per_s;
            }
            launch_head(at);
        }
    }
}

void LinkModel::begin_head(TimePoint at) {
    head_left_bits_ = uint64_t{queue_.front().wire_bytes} * 8;
    head_since_ = at;
}

// When the transmitter next does something: of a trace, its next opportunity.
TimePoint LinkModel::head_end() const {
    if (settings_.trace != nullptr) {
        return trace_began_ + settings_.trace->time_of(opportunity_);
    }
    if (settings_.bits_per_s == 0) {
        return head_since_;
    }
    return head_since_ +
           Duration(static_cast<int64_t>((head_left_bits_ * kNanosecondsPerSecond + carried_) /
                                         settings_.bits_per_s));
}

// Small packets share an opportunity, a packet that does not fit ends in a later one, and what
// nobody waits for is gone (Mahimahi's rules).
void LinkModel::use_opportunity(TimePoint at) {
    uint64_t left_bits = uint64_t{kOpportunityBytes} * 8;
    ++opportunity_;
    while (left_bits > 0 && !queue_.empty()) {
        const uint64_t used = std::min(left_bits, head_left_bits_);
        left_bits -= used;
        head_left_bits_ -= used;
        if (head_left_bits_ == 0) {
            launch_head(at);
        }
    }
}

void LinkModel::seek_trace(TimePoint now) {
    if (settings_.trace != nullptr) {
        opportunity_ = settings_.trace->first_after(now - trace_began_);
    }
}

void LinkModel::launch_head(TimePoint at) {
    LinkPacket packet = std::move(queue_.front());
    queue_.pop_front();
    queued_packets_ -= packet.segments;
    queued_bytes_ -= packet.wire_bytes;
    held_bytes_ -= packet.bytes.size();
    if (!queue_.empty()) {
        begin_head(at);
    }
    if ((settings_.impaired & bit_of(packet.protocol)) == 0) {
        fly(std::move(packet), at);
        return;
    }
    if (chance(settings_.loss_ppm)) {
        drop(packet, LinkDrop::Loss);
        return;
    }
    if (burst_loses()) {
        drop(packet, LinkDrop::Burst);
        return;
    }
    if (chance(settings_.duplicate_ppm) && !is_full(packet)) {
        counters_.duplicated += packet.segments;
        fly(packet, at);
    }
    if (chance(settings_.corrupt_ppm)) {
        corrupt(packet);
    }
    fly(std::move(packet), at);
}

// --- The air

double LinkModel::fraction() {
    constexpr uint64_t kSteps = uint64_t{1} << 53;
    return static_cast<double>(random_.below(kSteps) + 1) / static_cast<double>(kSteps);
}

bool LinkModel::burst_loses() {
    const BurstLoss& burst = settings_.burst;
    if (burst.good_to_bad_ppm == 0) {
        is_burst_ = false;
        return false;
    }
    if (chance(is_burst_ ? burst.bad_to_good_ppm : burst.good_to_bad_ppm)) {
        is_burst_ = !is_burst_;
    }
    return chance(is_burst_ ? burst.loss_in_bad_ppm : burst.loss_in_good_ppm);
}

void LinkModel::corrupt(LinkPacket& packet) {
    if (packet.corruptible_at >= packet.bytes.size()) {
        return;
    }
    const uint64_t place = random_.below(packet.bytes.size() - packet.corruptible_at);
    packet.bytes[packet.corruptible_at + place] ^= static_cast<uint8_t>(1U << random_.below(8));
    ++counters_.corrupted;
}

Duration LinkModel::draw_jitter() {
    if (settings_.jitter <= Duration{}) {
        return {};
    }
    double times = 0;
    switch (settings_.jitter_shape) {
    case JitterShape::Uniform:
        times = fraction();
        break;
    case JitterShape::Normal: {
        // Box and Muller 1958.
        const double radius = std::sqrt(-2 * std::log(fraction()));
        times = std::min(std::abs(radius * std::cos(2 * std::numbers::pi * fraction())),
                         kMostDeviations);
        break;
    }
    case JitterShape::Exponential:
        times = std::min(-std::log(fraction()), kMostMeans);
        break;
    }
    return Duration(std::llround(times * static_cast<double>(settings_.jitter.count())));
}

void LinkModel::fly(LinkPacket packet, TimePoint at) {
    const bool is_impaired = (settings_.impaired & bit_of(packet.protocol)) != 0;
    TimePoint due = at + settings_.delay;
    if (is_impaired) {
        due += draw_jitter();
    }
    if (is_impaired && chance(settings_.reorder_ppm)) {
        due += settings_.reorder_by;
        counters_.reordered += packet.segments;
    } else if (settings_.keeps_order) {
        due = last_due_ = std::max(due, last_due_);
    }
    held_bytes_ += packet.bytes.size();
    flying_packets_ += packet.segments;
    flights_.push_back({due, order_++, std::move(packet)});
    std::push_heap(flights_.begin(), flights_.end(), is_later);
}

// --- Out

std::optional<LinkPacket> LinkModel::receive(TimePoint now) {
    advance(now);
    if (flights_.empty() || flights_.front().due > now) {
        return std::nullopt;
    }
    std::pop_heap(flights_.begin(), flights_.end(), is_later);
    LinkPacket packet = std::move(flights_.back().packet);
    flights_.pop_back();
    held_bytes_ -= packet.bytes.size();
    flying_packets_ -= packet.segments;
    counters_.delivered_packets += packet.segments;
    counters_.delivered_bytes += packet.wire_bytes;
    return packet;
}

TimePoint LinkModel::next_due() const {
    const TimePoint flight = flights_.empty() ? base::kNever : flights_.front().due;
    return queue_.empty() ? flight : std::min(flight, head_end());
}

}  // namespace continuo::tests
