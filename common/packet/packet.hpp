// Packet: sole owner of one inner packet or super-packet, with the kernel's offload information.
// PacketPool: its memory; one pool per loop, not thread-safe. Two buffer sizes, so that queued
// small packets do not hold 64 KiB each. An empty pool returns an empty handle: the caller drops
// and counts PoolEmpty.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/time.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace continuo::packet {

// The fields of virtio_net_hdr for a packet (Linux Documentation/networking/tuntap, virtio 1.2
// section 5.1.6).
enum class GsoType : uint8_t { None, Tcp4, Tcp6, Udp };  // Udp: VIRTIO_NET_HDR_GSO_UDP_L4 (USO)

struct Offload {
    GsoType gso = GsoType::None;
    uint16_t segment_bytes = 0;  // payload bytes of each segment but the last; 0 when gso is None
    uint16_t header_bytes = 0;   // IP and transport header
    // The checksum field holds the folded, not inverted, pseudo-header sum.
    bool partial_checksum = false;
    uint16_t checksum_start = 0;   // offset of the transport header
    uint16_t checksum_offset = 0;  // from checksum_start to the field
};

inline constexpr size_t kSmallBufferBytes = 2048;
// The longest packet and a virtio_net_hdr in front, so that a TUN frame is read into a packet
// directly.
inline constexpr size_t kLargeBufferBytes = 65536 + 64;

class PacketPool;

// Intrusive list link and owner in one: `next` belongs to the queue that holds the packet.
struct Packet {
    Offload offload;
    base::TimePoint queued_at{};
    uint32_t length = 0;
    uint32_t capacity = 0;
    Packet* next = nullptr;
    Packet* previous = nullptr;  // in a flow's queue
    PacketPool* pool = nullptr;
    uint8_t* storage = nullptr;  // first byte of the packet; may be moved up inside the buffer
    uint8_t* buffer_start = nullptr;
    uint32_t buffer_bytes = 0;  // the pool's: `capacity` shrinks when `storage` is moved up

    base::MutableByteView bytes() { return {storage, length}; }
    base::ByteView bytes() const { return {storage, length}; }
    base::MutableByteView buffer() { return {storage, capacity}; }
};

struct PacketDeleter {
    void operator()(Packet* packet) const;
};
using PacketPtr = std::unique_ptr<Packet, PacketDeleter>;

class PacketPool {
  public:
    // Limits in buffers of each size. Memory is taken from the system in slabs when first needed.
    PacketPool(size_t max_small, size_t max_large);
    PacketPool(const PacketPool&) = delete;
    PacketPool& operator=(const PacketPool&) = delete;
    ~PacketPool();

    // A packet with at least `capacity` bytes of room and length 0; null when the limit is reached.
    PacketPtr take(size_t capacity);
    size_t in_use() const { return in_use_; }

  private:
    friend struct PacketDeleter;
    struct SizeClass {
        size_t buffer_bytes = 0;
        size_t maximum = 0;
        size_t made = 0;
        Packet* free = nullptr;
        std::vector<std::unique_ptr<uint8_t[]>> slabs;
        std::vector<std::unique_ptr<Packet[]>> headers;
    };
    void grow(SizeClass& size_class);
    void give_back(Packet* packet);

    SizeClass small_;
    SizeClass large_;
    size_t in_use_ = 0;
};

}  // namespace continuo::packet
