#include "common/reception/resequencer.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace continuo::reception {

using base::Duration;
using base::TimePoint;

namespace {

// RFC 1982: by how much `number` is ahead of `of`.
int ahead(uint16_t number, uint16_t of) {
    return static_cast<int16_t>(static_cast<uint16_t>(number - of));
}

}  // namespace

Resequencer::FlowState* Resequencer::find(uint32_t index) {
    if (flows_.empty()) {
        return nullptr;
    }
    const size_t first = index % (kFlows / kWays) * kWays;
    for (size_t i = first; i < first + kWays; ++i) {
        if (flows_[i].index == index) {
            return &flows_[i];
        }
    }
    return nullptr;
}

// Null when every place belongs to a flow with packets held, or memory is short.
Resequencer::FlowState* Resequencer::find_or_make(uint32_t index, uint16_t number, TimePoint now) {
    if (FlowState* known = find(index)) {
        const bool is_idle = known->head == kNoPacket && now - known->used_at > kNothingIsLate;
        known->used_at = now;
        // The sender has opened the flow anew; a number slightly behind was sent again after a
        // silence.
        const int distance = ahead(number, known->expected);
        if (is_idle && distance < 0 && (number < kBeginning || distance < -kMostLate)) {
            known->expected = number < kBeginning ? uint16_t{0} : number;
            known->seen = 0;
            known->paths = 0;
        }
        return known;
    }
    if (flows_.empty()) {
        if (!memory_.take(kFlowStatesBytes)) {
            return nullptr;
        }
        flows_.resize(kFlows);
    }
    const size_t first = index % (kFlows / kWays) * kWays;
    FlowState* oldest = nullptr;
    for (size_t i = first; i < first + kWays; ++i) {
        FlowState& state = flows_[i];
        if (state.head == kNoPacket && (oldest == nullptr || state.used_at < oldest->used_at)) {
            oldest = &state;
        }
    }
    if (oldest != nullptr) {
        *oldest = FlowState{};
        oldest->index = index;
        oldest->used_at = now;
        oldest->expected = number < kBeginning ? uint16_t{0} : number;
    }
    return oldest;
}

bool Resequencer::arrive(
    const wire::Order::Place& place, uint8_t path, uint16_t paths, Duration bound, TimePoint now) {
    if (bound <= Duration{}) {
        return false;
    }
    FlowState* state = find_or_make(place.index, place.number, now);
    if (state == nullptr) {
        ++counters_.overflows;
        return false;
    }
    const auto bit = static_cast<uint16_t>(1U << path);
    if (ahead(place.number, state->expected) > kReach ||
        ahead(place.number, state->expected) < -kReach) {
        state->is_renumbered = state->head != kNoPacket;
        state->expected = place.number;
        state->seen = 0;
        state->paths = 0;
    }
    if (state->paths == 0 || ahead(place.number, state->told_by) >= 0) {
        state->paths = paths;
        state->told_by = place.number;
        // A path that was left out is forgotten: its newest number means nothing after a
        // wrap-around.
        state->seen &= static_cast<uint16_t>(paths | bit);
    }
    if ((state->seen & bit) == 0 || ahead(place.number, state->newest[path]) > 0) {
        state->newest[path] = place.number;
    }
    state->seen |= bit;
    const int distance = ahead(place.number, state->expected);
    if (distance < 0) {
        ++counters_.late;
        return false;
    }
    if (distance == 0 && !state->is_renumbered) {
        state->expected = static_cast<uint16_t>(place.number + 1);
        return false;
    }
    return true;
}

bool Resequencer::make_packets() {
    if (!memory_.take(kHeldBytes)) {
        return false;
    }
    packets_.resize(kPackets);
    bytes_ = std::make_unique<uint8_t[]>(kPackets * kPacketBytes);
    for (size_t i = kPackets; i-- > 0;) {
        free_packet(static_cast<uint16_t>(i));
    }
    return true;
}

bool Resequencer::hold(const wire::Order::Place& place,
                       flow::Flow& flow,
                       const packet::HeaderFields& fields,
                       base::ByteView payload,
                       Duration bound,
                       TimePoint now) {
    FlowState* state = find(place.index);
    if (state == nullptr || payload.size() > kPacketBytes ||
        (packets_.empty() && !make_packets()) || free_ == kNoPacket) {
        ++counters_.overflows;
        return false;
    }
    const uint16_t taken = free_;
    Held& held = packets_[taken];
    free_ = held.next;
    held.flow = &flow;
    held.fields = fields;
    held.due = now + bound;
    held.index = place.index;
    held.number = place.number;
    held.place = taken;
    held.length = static_cast<uint16_t>(payload.size());
    uint8_t* to = bytes_.get() + size_t{taken} * kPacketBytes;
    if (!payload.empty()) {
        std::memcpy(to, payload.data(), payload.size());
    }
    held.payload = base::ByteView(to, payload.size());
    // A packet is usually the newest and goes to the end.
    uint16_t before = kNoPacket;
    if (state->tail != kNoPacket && ahead(place.number, packets_[state->tail].number) >= 0) {
        before = state->tail;
    } else {
        for (uint16_t at = state->head;
             at != kNoPacket && ahead(place.number, packets_[at].number) >= 0;
             at = packets_[at].next) {
            before = at;
        }
    }
    uint16_t& link = before == kNoPacket ? state->head : packets_[before].next;
    held.next = link;
    if (held.next != kNoPacket) {
        held.due = std::min(held.due, packets_[held.next].due);  // it precedes that packet
    }
    link = taken;
    state->tail = held.next == kNoPacket ? taken : state->tail;
    ++held_;
    ++counters_.held;
    held_at_ = now;
    earliest_due_ = std::min(earliest_due_, held.due);
    return true;
}

// Every path that the flow is striped over has brought this number or a later one: earlier numbers
// that are missing will not come any more.
bool Resequencer::is_overtaken(const FlowState& state, uint16_t number) {
    if (state.paths == 0 || (state.paths & ~state.seen) != 0) {
        return false;
    }
    for (uint16_t left = state.paths; left != 0; left &= static_cast<uint16_t>(left - 1)) {
        if (ahead(state.newest[static_cast<size_t>(std::countr_zero(left))], number) < 0) {
            return false;
        }
    }
    return true;
}

Resequencer::Held* Resequencer::pop(FlowState& state) {
    Held& first = packets_[state.head];
    state.head = first.next;
    if (state.head == kNoPacket) {
        state.tail = kNoPacket;
        state.is_renumbered = false;
    }
    const auto following = static_cast<uint16_t>(first.number + 1);
    if (ahead(following, state.expected) > 0 && !state.is_renumbered) {
        state.expected = following;
    }
    --held_;
    if (held_ == 0) {
        earliest_due_ = base::kNever;
    }
    return &first;
}

Resequencer::Held* Resequencer::take(uint32_t index, TimePoint now) {
    FlowState* state = find(index);
    if (state == nullptr || state->head == kNoPacket) {
        return nullptr;
    }
    const Held& first = packets_[state->head];
    if (state->is_renumbered || ahead(first.number, state->expected) <= 0) {
        return pop(*state);
    }
    if (is_overtaken(*state, first.number)) {
        ++counters_.given_up;
        return pop(*state);
    }
    if (first.due <= now) {
        ++counters_.timeouts;
        return pop(*state);
    }
    return nullptr;
}

void Resequencer::done(Held& held) {
    free_packet(held.place);
}

void Resequencer::free_packet(uint16_t place) {
    packets_[place].next = free_;
    packets_[place].flow = nullptr;
    free_ = place;
}

Resequencer::Held* Resequencer::take_due(TimePoint now) {
    if (held_ == 0 || earliest_due_ > now) {
        return nullptr;
    }
    for (const FlowState& state : flows_) {
        if (state.head != kNoPacket) {
            if (Held* held = take(state.index, now)) {
                return held;
            }
        }
    }
    update_deadline();
    return nullptr;
}

void Resequencer::update_deadline() {
    earliest_due_ = base::kNever;
    for (const FlowState& state : flows_) {
        for (uint16_t at = state.head; at != kNoPacket; at = packets_[at].next) {
            earliest_due_ = std::min(earliest_due_, packets_[at].due);
        }
    }
}

size_t Resequencer::forget(uint32_t index) {
    FlowState* state = find(index);
    if (state == nullptr) {
        return 0;
    }
    size_t dropped = 0;
    while (state->head != kNoPacket) {
        done(*pop(*state));
        ++dropped;
    }
    *state = FlowState{};
    return dropped;
}

void Resequencer::trim(TimePoint idle_since) {
    if (held_ == 0 && !packets_.empty() && held_at_ < idle_since) {
        packets_ = {};
        bytes_.reset();
        free_ = kNoPacket;
        memory_.give_back(kHeldBytes);
    }
    if (held_ == 0 && !flows_.empty() &&
        std::all_of(flows_.begin(), flows_.end(),
                    [&](const FlowState& state) { return state.used_at < idle_since; })) {
        flows_ = {};
        memory_.give_back(kFlowStatesBytes);
    }
}

}  // namespace continuo::reception
