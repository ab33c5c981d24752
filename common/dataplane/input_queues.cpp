#include "common/dataplane/input_queues.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <utility>

namespace continuo::dataplane {

namespace {

constexpr size_t kInputsInSlab = 64;

}  // namespace

InputQueues::InputQueues(size_t max_small, size_t max_large) : pool_(max_small, max_large) {}

InputQueues::~InputQueues() {
    while (!filled_.empty()) {
        clear(*filled_.back());
    }
}

size_t InputQueues::held_bytes(size_t bytes) {
    return bytes <= packet::kSmallBufferBytes ? packet::kSmallBufferBytes
                                              : packet::kLargeBufferBytes;
}

bool InputQueues::admit(InputQueue& queue, size_t bytes, size_t datagrams) const {
    if (queue.bytes_ + held_bytes(bytes) <= queue.limit_bytes_) {
        return true;
    }
    queue.dropped_ += datagrams;
    return false;
}

packet::PacketPtr InputQueues::take(size_t bytes) {
    packet::PacketPtr packet = pool_.take(bytes);
    while (packet == nullptr && make_room()) {
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

bool InputQueues::make_room() {
    const auto longest =
        std::max_element(filled_.begin(), filled_.end(),
                         [](InputQueue* a, InputQueue* b) { return a->bytes_ < b->bytes_; });
    if (longest == filled_.end()) {
        return false;
    }
    drop_newer_half(**longest);
    return true;
}

// The older half stays, but for a single one.
void InputQueues::drop_newer_half(InputQueue& queue) {
    if (queue.inputs_ == 1) {
        queue.dropped_ += queue.first_->datagrams();
        pop(queue);
        return;
    }
    Input* last = queue.first_;
    const size_t kept = queue.inputs_ / 2;
    for (size_t i = 1; i < kept; ++i) {
        last = last->next;
    }
    Input* dropped = std::exchange(last->next, nullptr);
    queue.last_ = last;
    queue.inputs_ = kept;
    while (dropped != nullptr) {
        Input* input = dropped;
        dropped = input->next;
        queue.dropped_ += input->datagrams();
        queue.bytes_ -= input->packet->buffer_bytes;
        input->packet.reset();
        input->next = std::exchange(free_, input);
    }
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
    if (queue.is_empty()) {
        queue.place_ = filled_.size();
        filled_.push_back(&queue);
    }
    Input* added = new_input();
    *added = std::move(input);
    added->next = nullptr;
    (queue.last_ != nullptr ? queue.last_->next : queue.first_) = added;
    queue.last_ = added;
    queue.bytes_ += added->packet->buffer_bytes;
    ++queue.inputs_;
}

void InputQueues::pop(InputQueue& queue) {
    Input* done = queue.first_;
    queue.first_ = done->next;
    queue.bytes_ -= done->packet->buffer_bytes;
    --queue.inputs_;
    done->packet.reset();
    done->next = std::exchange(free_, done);
    if (queue.first_ == nullptr) {
        queue.last_ = nullptr;
        filled_.back()->place_ = queue.place_;
        filled_[queue.place_] = filled_.back();
        filled_.pop_back();
    }
}

void InputQueues::clear(InputQueue& queue) {
    while (!queue.is_empty()) {
        pop(queue);
    }
}

}  // namespace continuo::dataplane
