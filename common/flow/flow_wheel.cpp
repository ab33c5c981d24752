#include "common/flow/flow_wheel.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <bit>

namespace continuo::flow {
namespace {

constexpr size_t kBits = 64;
constexpr size_t kWords = FlowWheel::kSlots / kBits;

uint32_t tick_at_or_before(base::TimePoint at) {
    return static_cast<uint32_t>(at.time_since_epoch() / FlowWheel::kTick);
}

// Ticks begin at 1; 0 in Flow::wheel_slot says "not on the wheel".
uint32_t tick_at_or_after(base::TimePoint at) {
    const uint32_t before = tick_at_or_before(at);
    const bool is_exact = before * FlowWheel::kTick == at.time_since_epoch();
    return std::max(is_exact ? before : before + 1, 1U);
}

size_t slot_of(uint32_t tick) {
    return tick % FlowWheel::kSlots;
}

}  // namespace

FlowWheel::FlowWheel() : heads_(kSlots, nullptr) {}

void FlowWheel::arm(Flow& flow, base::TimePoint expires_at, base::TimePoint now) {
    flow.expires_at = expires_at;
    if (expires_at == base::kNever) {
        remove(flow);
        return;
    }
    if (flow.wheel_slot != 0) {
        if (tick_at_or_after(expires_at) >= flow.wheel_slot) {
            return;
        }
        remove(flow);
    }
    if (size_ == 0) {
        current_ = std::max(current_, tick_at_or_before(now));
    }
    insert(flow);
}

void FlowWheel::insert(Flow& flow) {
    const uint32_t last = current_ + static_cast<uint32_t>(kSlots) - 1;
    const uint32_t tick = std::clamp(tick_at_or_after(flow.expires_at), current_ + 1, last);
    const size_t slot = slot_of(tick);
    flow.wheel_slot = tick;
    flow.wheel_previous = nullptr;
    flow.wheel_next = heads_[slot];
    if (flow.wheel_next != nullptr) {
        flow.wheel_next->wheel_previous = &flow;
    }
    heads_[slot] = &flow;
    occupied_[slot / kBits] |= uint64_t{1} << (slot % kBits);
    ++size_;
}

void FlowWheel::remove(Flow& flow) {
    if (flow.wheel_slot == 0) {
        return;
    }
    const size_t slot = slot_of(flow.wheel_slot);
    if (flow.wheel_next != nullptr) {
        flow.wheel_next->wheel_previous = flow.wheel_previous;
    }
    if (flow.wheel_previous != nullptr) {
        flow.wheel_previous->wheel_next = flow.wheel_next;
    } else {
        heads_[slot] = flow.wheel_next;
        if (heads_[slot] == nullptr) {
            occupied_[slot / kBits] &= ~(uint64_t{1} << (slot % kBits));
        }
    }
    flow.wheel_next = nullptr;
    flow.wheel_previous = nullptr;
    flow.wheel_slot = 0;
    --size_;
}

Flow* FlowWheel::pop_due(base::TimePoint now) {
    const uint32_t target = tick_at_or_before(now);
    while (size_ > 0) {
        const uint32_t tick = next_occupied_tick();
        if (tick > target) {
            break;
        }
        current_ = tick;
        Flow* flow = heads_[slot_of(tick)];
        remove(*flow);
        if (flow->expires_at <= now) {
            return flow;
        }
        insert(*flow);
    }
    current_ = std::max(current_, target);
    return nullptr;
}

base::TimePoint FlowWheel::next_deadline() const {
    return size_ == 0 ? base::kNever : base::TimePoint(next_occupied_tick() * kTick);
}

uint32_t FlowWheel::next_occupied_tick() const {
    const size_t start = slot_of(current_);
    for (size_t step = 0; step <= kWords; ++step) {
        const size_t word = (start / kBits + step) % kWords;
        uint64_t bits = occupied_[word];
        const uint64_t from_start = ~uint64_t{0} << (start % kBits);
        if (step == 0) {
            bits &= from_start;
        } else if (step == kWords) {
            bits &= ~from_start;
        }
        if (bits != 0) {
            const size_t slot = word * kBits + static_cast<size_t>(std::countr_zero(bits));
            return current_ + static_cast<uint32_t>((slot + kSlots - start) % kSlots);
        }
    }
    CTN_ASSERT(size_ == 0);
    return current_;
}

}  // namespace continuo::flow
