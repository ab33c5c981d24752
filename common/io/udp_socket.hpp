// UdpSocket: a non-blocking, never connected UDP socket that moves runs of datagrams: sendmmsg with
// UDP_SEGMENT, recvmmsg with UDP_GRO, each with a plain fall-back. No allocation per call. One
// owner, one thread.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"
#include "common/packet/packet.hpp"

#include <bitset>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace continuo::io {

inline constexpr size_t kMaxSegments =
    64;  // a UDP_SEGMENT send (kernel: UDP_MAX_SEGMENTS, at least 64)
inline constexpr size_t kMaxSendBytes = 65507;  // IPv4 UDP payload; also used for IPv6
inline constexpr size_t kMessagesPerSend = 32;  // sendmmsg
inline constexpr size_t kSuperBufferBytes = 65536;
inline constexpr size_t kSuperBuffers = 8;  // recvmmsg
inline constexpr size_t kSocketBufferBytes = size_t{8} << 20;

struct UdpOffloadSupport {
    bool segment = false;  // UDP_SEGMENT
    bool gro = false;      // UDP_GRO

    bool operator==(const UdpOffloadSupport&) const = default;
};
// Sends and receives a run on loopback. Anything unexpected counts as "not supported".
UdpOffloadSupport probe_udp_offload();

struct UdpSocketOptions {
    base::Endpoint local;  // port 0: any
    std::string device;    // SO_BINDTODEVICE: sends and receives only by it; empty: none
    // IPv4, IP_UNICAST_IF: sends by that interface, receives by any; 0: as the kernel routes.
    uint32_t leaves_by = 0;
    uint32_t mark = 0;         // SO_MARK; 0: none
    uint8_t tos = 0;           // whole octet: DSCP << 2
    bool packet_info = false;  // servers: learn and choose the local address of each datagram
    bool reuse_port = false;
    UdpOffloadSupport offload;  // as probed; default: none
    size_t buffer_bytes = kSocketBufferBytes;
};

// One received datagram, or with segment_bytes > 0 several of that size (the last may be shorter).
struct ReceivedBatch {
    base::Endpoint from;
    base::IpAddress to;  // unspecified without packet_info
    base::MutableByteView bytes;
    uint16_t segment_bytes = 0;
};

// Super-buffers and message headers for recvmmsg; one serves all sockets of a loop.
class UdpReceiveArena {
  public:
    explicit UdpReceiveArena(size_t buffers = kSuperBuffers);
    // With buffers of a pool, each of at least kSuperBufferBytes: received ones can be taken out.
    explicit UdpReceiveArena(std::vector<packet::PacketPtr> buffers);
    UdpReceiveArena(const UdpReceiveArena&) = delete;
    UdpReceiveArena& operator=(const UdpReceiveArena&) = delete;
    ~UdpReceiveArena();

    // Returns the buffer that holds `batch` of the latest receive(), replaced by `fresh`.
    packet::PacketPtr exchange(const ReceivedBatch& batch, packet::PacketPtr fresh);

  private:
    friend class UdpSocket;
    struct Inner;
    std::unique_ptr<Inner> inner_;
};

struct SendItem {
    base::Endpoint to;
    base::IpAddress from =
        base::IpAddress::any(base::IpVersion::V4);  // unspecified: kernel's choice
    base::ByteView bytes;                           // not empty
    uint16_t segment_bytes =
        0;  // 0: one datagram; else datagrams of that size, the last may be shorter
    std::optional<uint8_t> tos{};  // whole octet; nothing: the socket's own
};

// Items of one send() beyond this are not marked in SendResult::dropped_items.
inline constexpr size_t kMaxMarkedItems = 256;

struct SendResult {
    size_t items = 0;          // done with: sent, or dropped and counted
    size_t bytes_of_next = 0;  // bytes of items[items] that are done with
    bool would_block = false;  // wait for writability, then go on from there
    uint64_t sent_datagrams = 0;
    uint64_t dropped_datagrams = 0;
    std::bitset<kMaxMarkedItems> dropped_items;  // items that lost datagrams
    bool too_big = false;                        // EMSGSIZE occurred: a datagram exceeds the MTU
    int last_errno = 0;                          // errno of the last drop
};

struct UdpCounters {
    uint64_t send_calls = 0;     // sendmmsg
    uint64_t sent_messages = 0;  // runs; datagrams / messages = segments per send
    uint64_t sent_datagrams = 0;
    uint64_t sent_bytes = 0;
    uint64_t send_would_block = 0;
    // Dropped datagrams by reason.
    uint64_t dropped_too_big = 0;  // EMSGSIZE
    uint64_t dropped_unreachable =
        0;  // ENETUNREACH, EHOSTUNREACH, ENETDOWN, EADDRNOTAVAIL, EINVAL source, ENODEV
    uint64_t dropped_denied = 0;     // EPERM, EACCES
    uint64_t dropped_refused = 0;    // ECONNREFUSED
    uint64_t dropped_no_buffer = 0;  // ENOBUFS, ENOMEM
    uint64_t dropped_other = 0;
    uint64_t segment_fallbacks =
        0;  // device without checksum offload: UDP_SEGMENT off for this socket
    uint64_t receive_calls = 0;
    uint64_t received_messages = 0;
    uint64_t received_datagrams = 0;
    uint64_t received_bytes = 0;
    uint64_t receive_truncated = 0;  // dropped
    uint64_t receive_errors = 0;     // pending socket errors, ignored
};

class UdpSocket {
  public:
    // Errors: System.
    static base::Result<UdpSocket> open(const UdpSocketOptions& options);
    UdpSocket(UdpSocket&& other) noexcept;
    UdpSocket& operator=(UdpSocket&& other) noexcept;
    ~UdpSocket();

    int fd() const { return fd_.value(); }
    base::Endpoint local() const { return local_; }
    UdpOffloadSupport offload() const { return offload_; }

    // Up to the arena's number of super-buffers; the views are valid until its next use. May be
    // empty when all that came was faulty. Errors: WouldBlock, System.
    base::Result<std::span<const ReceivedBatch>> receive(UdpReceiveArena& arena);

    // Sends in order. Neighbours to and from the same addresses with equal sizes become one run.
    // Blocks never.
    SendResult send(std::span<const SendItem> items);

    const UdpCounters& counters() const { return counters_; }

  private:
    struct SendArrays;
    UdpSocket();
    void flush(SendResult& result, std::span<const SendItem> items);
    void count_drop(SendResult& result, int error, uint64_t datagrams);

    UniqueFd fd_;
    base::Endpoint local_;
    UdpOffloadSupport offload_;
    std::unique_ptr<SendArrays> arrays_;
    UdpCounters counters_;
};

}  // namespace continuo::io
