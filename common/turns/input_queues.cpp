#include "common/turns/input_queues.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <utility>

namespace continuo::turns {

namespace {

constexpr size_t kInputsInSlab = 64;

}  // namespace

InputQueues::InputQueues(size_t max_small, size_t max_large) : pool_(max_small, max_large) {}

InputQueues::~InputQueues() {
    while (!filled_.empty()) {
        clear(*filled_.back());
    }
}

size_t InputQueues::counted_bytes(size_t bytes) {
    return std::max(bytes, packet::kSmallBufferBytes);
}

bool InputQueues::is_large(const Input& input) {
    return input.packet->buffer_bytes > packet::kSmallBufferBytes;
}

bool InputQueues::admit(InputQueue& queue, size_t bytes, size_t datagrams) const {
    if (queue.bytes_ + counted_bytes(bytes) <= queue.limit_bytes_) {
        return true;
    }
    queue.dropped_ += datagrams;
    return false;
}

packet::PacketPtr InputQueues::take(size_t bytes) {
    packet::PacketPtr packet = pool_.take(bytes);
    while (packet == nullptr && make_room(bytes > packet::kSmallBufferBytes)) {
        packet = pool_.take(bytes);
    }
    return packet;
}

std::vector<packet::PacketPtr> InputQueues::take_many(size_t count) {
    std::vector<packet::PacketPtr> packets(count);
    for (packet::PacketPtr& packet : packets) {
        packet = pool_.take(packet::kLargeBufferBytes);
        CTN_ASSERT(packet != nullptr);
    }
    return packets;
}

bool InputQueues::make_room(bool is_large) {
    const auto longest =
        std::max_element(filled_.begin(), filled_.end(), [is_large](InputQueue* a, InputQueue* b) {
            return a->inputs(is_large) < b->inputs(is_large);
        });
    if (longest == filled_.end() || (*longest)->inputs(is_large) == 0) {
        return false;
    }
    drop_newer_half(**longest, is_large);
    return true;
}

// Keeps the older half, except of a single one, and all inputs of the other size.
void InputQueues::drop_newer_half(InputQueue& queue, bool of_large) {
    size_t kept = queue.inputs(of_large) / 2;
    queue.last_ = nullptr;
    for (Input** place = &queue.first_; *place != nullptr;) {
        Input* input = *place;
        const bool is_of_size = is_large(*input) == of_large;
        if (!is_of_size || kept > 0) {
            kept -= is_of_size ? 1 : 0;
            queue.last_ = input;
            place = &input->next;
            continue;
        }
        *place = input->next;
        queue.dropped_ += input->datagrams();
        release(queue, *input);
    }
    if (queue.is_empty()) {
        forget(queue);
    }
}

// It has left the list.
void InputQueues::release(InputQueue& queue, Input& input) {
    queue.bytes_ -= counted_bytes(input.packet->length);
    --queue.inputs(is_large(input));
    input.packet.reset();
    input.next = std::exchange(free_, &input);
}

Input* InputQueues::new_input() {
    if (free_ == nullptr) {
        slabs_.push_back(std::make_unique<Input[]>(kInputsInSlab));
        for (size_t i = 0; i < kInputsInSlab; ++i) {
            slabs_.back()[i].next = std::exchange(free_, &slabs_.back()[i]);
        }
    }
    return std::exchange(free_, free_->next);
}

void InputQueues::push(InputQueue& queue, Input input) {
    CTN_ASSERT(input.packet != nullptr);
    Input* added = new_input();
    *added = std::move(input);
    append(queue, *added);
}

void InputQueues::append(InputQueue& queue, Input& input) {
    if (queue.is_empty()) {
        queue.place_ = filled_.size();
        filled_.push_back(&queue);
    }
    input.next = nullptr;
    (queue.last_ != nullptr ? queue.last_->next : queue.first_) = &input;
    queue.last_ = &input;
    queue.bytes_ += counted_bytes(input.packet->length);
    ++queue.inputs(is_large(input));
}

void InputQueues::move_front(InputQueue& from, InputQueue& to) {
    Input& moved = *from.first_;
    if (!admit(to, moved.packet->length, moved.datagrams())) {
        pop(from);
        return;
    }
    from.first_ = moved.next;
    from.bytes_ -= counted_bytes(moved.packet->length);
    --from.inputs(is_large(moved));
    if (from.is_empty()) {
        forget(from);
    }
    append(to, moved);
}

void InputQueues::pop(InputQueue& queue) {
    Input* done = queue.first_;
    queue.first_ = done->next;
    release(queue, *done);
    if (queue.is_empty()) {
        forget(queue);
    }
}

void InputQueues::forget(InputQueue& queue) {
    queue.last_ = nullptr;
    filled_.back()->place_ = queue.place_;
    filled_[queue.place_] = filled_.back();
    filled_.pop_back();
}

size_t InputQueues::clear(InputQueue& queue) {
    size_t datagrams = 0;
    while (!queue.is_empty()) {
        datagrams += queue.front()->datagrams();
        pop(queue);
    }
    return datagrams;
}

}  // namespace continuo::turns
