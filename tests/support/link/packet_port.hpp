// PacketPort: one device of the relay's namespace as frames, by AF_PACKET in batches. Frames carry
// a virtio_net_hdr both ways (PACKET_VNET_HDR): super-packets and checksums left to the device come
// out of the other port as they came in, whatever offloads the devices beyond have. One thread.
#pragma once

#include "common/io/unique_fd.hpp"
#include "tests/support/link/link_model.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace continuo::tests {

inline constexpr size_t kPortBatch = 64;  // frames a system call

// Buffers of ordinary frames that are used again, so that a steady stream allocates nothing.
class FrameBuffers {
  public:
    static constexpr size_t kBufferBytes = 2048;
    static constexpr size_t kMaxIdle = 8192;

    std::vector<uint8_t> take();
    void give_back(std::vector<uint8_t> buffer);

  private:
    std::vector<std::vector<uint8_t>> idle_;
};

class PacketPort {
  public:
    // `buffers` must outlive the port. Nothing on a fault.
    static std::unique_ptr<PacketPort>
    open(const std::string& device, FrameBuffers& buffers, std::string& fault);

    // Takes at most one batch; false when nothing was there.
    bool receive(const std::function<void(LinkPacket)>& take);
    // Queues a frame; a full batch is sent at once.
    void send(LinkPacket packet);
    void flush();

    [[nodiscard]] int descriptor() const { return socket_.value(); }
    [[nodiscard]] uint64_t send_failures() const { return send_failures_; }
    // Frames that the kernel had no room for since the port is open.
    [[nodiscard]] uint64_t kernel_drops();

  private:
    struct Room;
    PacketPort(io::UniqueFd socket, FrameBuffers& buffers);

    io::UniqueFd socket_;
    FrameBuffers& buffers_;
    std::shared_ptr<Room> room_;
    std::vector<LinkPacket> outgoing_;
    uint64_t send_failures_ = 0;
    uint64_t kernel_drops_ = 0;
};

}  // namespace continuo::tests
