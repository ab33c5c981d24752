#include "common/base/assert.hpp"
#include "common/packet/packet.hpp"

#include <algorithm>
#include <new>

namespace continuo::packet {
namespace {

// Buffers taken from the system at a time: 128 KiB of small ones, 512 KiB of large ones.
constexpr size_t kSmallBuffersInSlab = 64;
constexpr size_t kLargeBuffersInSlab = 8;

size_t buffers_in_slab(size_t buffer_bytes) {
    return buffer_bytes == kSmallBufferBytes ? kSmallBuffersInSlab : kLargeBuffersInSlab;
}

}  // namespace

void PacketDeleter::operator()(Packet* packet) const {
    packet->pool->give_back(packet);
}

PacketPool::PacketPool(size_t max_small, size_t max_large) {
    small_.buffer_bytes = kSmallBufferBytes;
    small_.maximum = max_small;
    large_.buffer_bytes = kLargeBufferBytes;
    large_.maximum = max_large;
    for (SizeClass* size_class : {&small_, &large_}) {
        const size_t in_slab = buffers_in_slab(size_class->buffer_bytes);
        const size_t slabs = (size_class->maximum + in_slab - 1) / in_slab;
        size_class->slabs.reserve(slabs);
        size_class->headers.reserve(slabs);
    }
}

PacketPool::~PacketPool() {
    CTN_ASSERT(in_use_ == 0);
}

PacketPtr PacketPool::take(size_t capacity) {
    if (capacity > kLargeBufferBytes) {
        return nullptr;
    }
    SizeClass& size_class = capacity <= kSmallBufferBytes ? small_ : large_;
    if (size_class.free == nullptr) {
        grow(size_class);
        if (size_class.free == nullptr) {
            return nullptr;
        }
    }
    Packet* packet = size_class.free;
    size_class.free = packet->next;
    packet->next = nullptr;
    packet->offload = Offload{};
    packet->queued_at = base::TimePoint{};
    packet->length = 0;
    packet->storage = packet->buffer_start;
    packet->capacity = packet->buffer_bytes;
    ++in_use_;
    return PacketPtr(packet);
}

// Leaves the free list empty when the limit is reached or the system has no memory.
void PacketPool::grow(SizeClass& size_class) {
    const size_t count =
        std::min(buffers_in_slab(size_class.buffer_bytes), size_class.maximum - size_class.made);
    if (count == 0) {
        return;
    }
    std::unique_ptr<uint8_t[]> slab(new (std::nothrow) uint8_t[count * size_class.buffer_bytes]);
    std::unique_ptr<Packet[]> headers(new (std::nothrow) Packet[count]);
    if (!slab || !headers) {
        return;
    }
    for (size_t i = count; i > 0; --i) {
        Packet& packet = headers[i - 1];
        packet.pool = this;
        packet.buffer_start = slab.get() + (i - 1) * size_class.buffer_bytes;
        packet.buffer_bytes = static_cast<uint32_t>(size_class.buffer_bytes);
        packet.next = size_class.free;
        size_class.free = &packet;
    }
    size_class.made += count;
    size_class.slabs.push_back(std::move(slab));
    size_class.headers.push_back(std::move(headers));
}

void PacketPool::give_back(Packet* packet) {
    CTN_ASSERT(packet->pool == this && in_use_ > 0);
    SizeClass& size_class = packet->buffer_bytes == kSmallBufferBytes ? small_ : large_;
    packet->next = size_class.free;
    size_class.free = packet;
    --in_use_;
}

}  // namespace continuo::packet
