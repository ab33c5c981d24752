// Tests over the loopback device which offloads the kernel supports for UDP sockets.
#include "common/io/udp_socket.hpp"

#include <array>

#include <netinet/in.h>

namespace continuo::io {

using base::Endpoint;
using base::IpAddress;

UdpOffloadSupport probe_udp_offload() {
    constexpr size_t kSegment = 100;
    constexpr size_t kSegments = 3;
    UdpOffloadSupport support;
    UdpSocketOptions options;
    options.local = Endpoint{IpAddress::v4(INADDR_LOOPBACK), 0};
    options.offload = UdpOffloadSupport{true, true};
    options.buffer_bytes = kSuperBufferBytes;
    auto sender = UdpSocket::open(options);
    auto receiver = UdpSocket::open(options);
    if (!sender || !receiver) {
        return support;
    }
    std::array<uint8_t, kSegment * kSegments> bytes{};
    SendItem item;
    item.to = receiver->local();
    item.bytes = bytes;
    item.segment_bytes = kSegment;
    const SendResult sent = sender->send({&item, 1});
    support.segment = sender->offload().segment && sent.sent_datagrams == kSegments;
    if (!support.segment || !receiver->offload().gro) {
        support.gro = receiver->offload().gro;
        return support;
    }
    // Loopback delivers within the send.
    UdpReceiveArena arena(kSegments);
    size_t received = 0;
    for (unsigned attempt = 0; attempt < kSegments && received < bytes.size(); ++attempt) {
        const auto batches = receiver->receive(arena);
        if (!batches) {
            break;
        }
        for (const ReceivedBatch& batch : *batches) {
            received += batch.bytes.size();
            const bool is_run = batch.segment_bytes == kSegment;
            support.gro = support.gro || (is_run && batch.bytes.size() == bytes.size());
        }
    }
    support.segment = received == bytes.size();
    return support;
}

}  // namespace continuo::io
