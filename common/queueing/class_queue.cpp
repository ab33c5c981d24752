#include "common/queueing/class_queue.hpp"

#include "common/base/assert.hpp"

namespace continuo::queueing {

using flow::Flow;
using packet::Packet;
using packet::PacketPtr;

namespace {

// TCP, or most likely QUIC (RFC 9000).
bool is_clocked(const packet::FiveTuple& tuple) {
    constexpr uint16_t kHttps = 443;
    return tuple.protocol == packet::Protocol::Tcp ||
           (tuple.protocol == packet::Protocol::Udp && tuple.remote_port == kHttps);
}

}  // namespace

ClassQueue::~ClassQueue() {
    while (round_head_ != nullptr) {
        drop_flow(*round_head_);
    }
}

size_t ClassQueue::push(Flow& flow, PacketPtr packet, base::TimePoint now) {
    if (packets_ == 0) {
        waiting_since_ = now;
        has_clocked_ = false;
    }
    has_clocked_ = has_clocked_ || is_clocked(flow.tuple);
    packet->queued_at = now;
    auto& queue = flow.queue;
    packet->next = nullptr;
    packet->previous = queue.tail;
    const uint32_t length = packet->length;
    Packet* raw = packet.release();
    if (queue.tail != nullptr) {
        queue.tail->next = raw;
    } else {
        queue.head = raw;
    }
    queue.tail = raw;
    queue.bytes += length;
    ++queue.packets;
    bytes_ += length;
    ++packets_;
    if (!queue.in_round) {
        queue.deficit_bytes = kQuantumBytes;
        append_to_round(flow);
    }
    size_t dropped = 0;
    while (bytes_ > limit_bytes_ && packets_ > 0) {
        drop_newest_of_fattest();
        ++dropped;
    }
    return dropped;
}

const Packet* ClassQueue::peek() {
    Flow* flow = turn();
    return flow == nullptr ? nullptr : flow->queue.head;
}

ClassQueue::Item ClassQueue::take() {
    Flow* flow = turn();
    CTN_ASSERT(flow != nullptr);
    auto& queue = flow->queue;
    PacketPtr packet(queue.head);
    queue.deficit_bytes -= static_cast<int32_t>(packet->length);
    unlink_head(*flow);
    packet->next = nullptr;
    if (queue.head == nullptr) {
        round_head_ = queue.next_in_round;
        if (round_head_ == nullptr) {
            round_tail_ = nullptr;
        }
        queue.in_round = false;
        queue.next_in_round = nullptr;
        --flows_;
    }
    if (packets_ == 0) {
        waiting_since_ = base::kNever;
    } else {
        CTN_ASSERT(round_head_ != nullptr && round_head_->queue.head != nullptr);
        waiting_since_ = round_head_->queue.head->queued_at;
    }
    return {flow, std::move(packet)};
}

void ClassQueue::put_back(Item item) {
    Flow& flow = *item.flow;
    auto& queue = flow.queue;
    Packet* raw = item.packet.release();
    queue.deficit_bytes += static_cast<int32_t>(raw->length);
    raw->next = queue.head;
    raw->previous = nullptr;
    (queue.head == nullptr ? queue.tail : queue.head->previous) = raw;
    queue.head = raw;
    queue.bytes += raw->length;
    ++queue.packets;
    bytes_ += raw->length;
    ++packets_;
    waiting_since_ = raw->queued_at;
    if (!queue.in_round) {
        queue.in_round = true;
        queue.next_in_round = round_head_;
        round_head_ = &flow;
        if (round_tail_ == nullptr) {
            round_tail_ = &flow;
        }
        ++flows_;
    } else if (round_head_ != &flow) {
        // The flow's turn had ended with that packet: the flow becomes the head of the round again.
        Flow* before = round_head_;
        while (before->queue.next_in_round != &flow) {
            before = before->queue.next_in_round;
        }
        before->queue.next_in_round = queue.next_in_round;
        if (round_tail_ == &flow) {
            round_tail_ = before;
        }
        queue.next_in_round = round_head_;
        round_head_ = &flow;
    }
}

size_t ClassQueue::drop_flow(Flow& flow) {
    auto& queue = flow.queue;
    size_t dropped = 0;
    while (queue.head != nullptr) {
        const PacketPtr packet(queue.head);
        unlink_head(flow);
        ++dropped;
    }
    remove_from_round(flow);
    return dropped;
}

void ClassQueue::move_flow(Flow& flow, ClassQueue& to) {
    auto& queue = flow.queue;
    if (!queue.in_round) {
        return;
    }
    bytes_ -= queue.bytes;
    packets_ -= queue.packets;
    remove_from_round(flow);
    if (to.packets_ == 0) {
        to.waiting_since_ = queue.head->queued_at;
        to.has_clocked_ = false;
    }
    to.has_clocked_ = to.has_clocked_ || is_clocked(flow.tuple);
    to.bytes_ += queue.bytes;
    to.packets_ += queue.packets;
    to.append_to_round(flow);
}

void ClassQueue::remove_from_round(Flow& flow) {
    auto& queue = flow.queue;
    if (queue.in_round) {
        Flow* before = nullptr;
        for (Flow* at = round_head_; at != &flow; at = at->queue.next_in_round) {
            before = at;
        }
        (before == nullptr ? round_head_ : before->queue.next_in_round) = queue.next_in_round;
        if (round_tail_ == &flow) {
            round_tail_ = before;
        }
        queue.in_round = false;
        queue.next_in_round = nullptr;
        --flows_;
    }
    if (packets_ == 0) {
        waiting_since_ = base::kNever;
    }
}

void ClassQueue::append_to_round(Flow& flow) {
    flow.queue.in_round = true;
    flow.queue.next_in_round = nullptr;
    if (round_tail_ != nullptr) {
        round_tail_->queue.next_in_round = &flow;
    } else {
        round_head_ = &flow;
    }
    round_tail_ = &flow;
    ++flows_;
}

void ClassQueue::unlink_head(Flow& flow) {
    auto& queue = flow.queue;
    const Packet* packet = queue.head;
    queue.head = packet->next;
    if (queue.head == nullptr) {
        queue.tail = nullptr;
    } else {
        queue.head->previous = nullptr;
    }
    queue.bytes -= packet->length;
    --queue.packets;
    bytes_ -= packet->length;
    --packets_;
}

// A super-packet may overdraw the deficit by up to 64 KiB; its flow then waits until the others
// have had as much. A flow that is alone in the round has no debt.
Flow* ClassQueue::turn() {
    while (round_head_ != nullptr && round_head_->queue.deficit_bytes <= 0) {
        Flow& flow = *round_head_;
        if (flow.queue.next_in_round == nullptr) {
            flow.queue.deficit_bytes = kQuantumBytes;
            break;
        }
        flow.queue.deficit_bytes += kQuantumBytes;
        round_head_ = flow.queue.next_in_round;
        flow.queue.next_in_round = nullptr;
        round_tail_->queue.next_in_round = &flow;
        round_tail_ = &flow;
    }
    return round_head_;
}

bool ClassQueue::pass_turn() {
    Flow* flow = turn();
    if (flow == nullptr || flow->queue.next_in_round == nullptr) {
        return false;
    }
    round_head_ = flow->queue.next_in_round;
    flow->queue.next_in_round = nullptr;
    round_tail_->queue.next_in_round = flow;
    round_tail_ = flow;
    return true;
}

void ClassQueue::drop_newest_of_fattest() {
    CTN_ASSERT(round_head_ != nullptr);
    Flow* fattest = round_head_;
    for (Flow* at = round_head_; at != nullptr; at = at->queue.next_in_round) {
        if (at->queue.bytes > fattest->queue.bytes) {
            fattest = at;
        }
    }
    if (fattest->queue.packets == 1) {
        drop_flow(*fattest);
    } else {
        drop_newest(*fattest);
    }
}

// The flow must hold more than one packet.
void ClassQueue::drop_newest(Flow& flow) {
    auto& queue = flow.queue;
    CTN_ASSERT(queue.tail != nullptr && queue.tail->previous != nullptr);
    const PacketPtr newest(queue.tail);
    queue.tail = newest->previous;
    queue.tail->next = nullptr;
    queue.bytes -= newest->length;
    --queue.packets;
    bytes_ -= newest->length;
    --packets_;
}

size_t ClassQueue::halve() {
    const uint32_t before = packets_;
    for (Flow* flow = round_head_; flow != nullptr; flow = flow->queue.next_in_round) {
        for (uint32_t left = flow->queue.packets / 2; left > 0; --left) {
            drop_newest(*flow);
        }
    }
    if (packets_ == before) {  // one of each flow
        while (round_head_ != nullptr) {
            drop_flow(*round_head_);
        }
    }
    return before - packets_;
}

}  // namespace continuo::queueing
