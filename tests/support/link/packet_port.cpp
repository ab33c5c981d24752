#include "tests/support/link/packet_port.hpp"

#include "tests/support/link/frame.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace continuo::tests {

namespace {

constexpr int kSocketBufferBytes = 32 << 20;

bool set_option(int socket, int level, int name, int value) {
    return ::setsockopt(socket, level, name, &value, sizeof value) == 0;
}

bool bind_to(int socket, unsigned index) {
    packet_mreq promiscuous{};
    promiscuous.mr_ifindex = static_cast<int>(index);
    promiscuous.mr_type = PACKET_MR_PROMISC;
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(index);
    return ::setsockopt(socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous,
                        sizeof promiscuous) == 0 &&
           ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

std::vector<uint8_t> FrameBuffers::take() {
    std::vector<uint8_t> buffer;
    if (idle_.empty()) {
        buffer.reserve(kBufferBytes);
    } else {
        buffer = std::move(idle_.back());
        idle_.pop_back();
    }
    return buffer;
}

void FrameBuffers::give_back(std::vector<uint8_t> buffer) {
    if (buffer.capacity() <= kBufferBytes && idle_.size() < kMaxIdle) {
        buffer.clear();
        idle_.push_back(std::move(buffer));
    }
}

struct PacketPort::Room {
    std::vector<uint8_t> bytes = std::vector<uint8_t>(kPortBatch * kMaxFrameBytes);
    std::array<iovec, kPortBatch> incoming{};
    std::array<iovec, kPortBatch> outgoing{};
    std::array<mmsghdr, kPortBatch> messages{};
};

PacketPort::PacketPort(io::UniqueFd socket, FrameBuffers& buffers)
    : socket_(std::move(socket)), buffers_(buffers), room_(std::make_shared<Room>()) {
    for (size_t i = 0; i < kPortBatch; ++i) {
        room_->incoming[i] = {room_->bytes.data() + i * kMaxFrameBytes, kMaxFrameBytes};
    }
    outgoing_.reserve(kPortBatch);
}

std::unique_ptr<PacketPort>
PacketPort::open(const std::string& device, FrameBuffers& buffers, std::string& fault) {
    const unsigned index = ::if_nametoindex(device.c_str());
    if (index == 0) {
        fault = "no device " + device + " here";
        return nullptr;
    }
    // Protocol 0: nothing comes in before it is bound to the device.
    io::UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int fd = socket.value();
    if (fd < 0 || !set_option(fd, SOL_PACKET, PACKET_VNET_HDR, 1) ||
        !set_option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) || !bind_to(fd, index)) {
        fault = "cannot take frames of " + device + ": " + std::strerror(errno);
        return nullptr;
    }
    // Without CAP_NET_ADMIN the buffers stay as they are.
    set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, kSocketBufferBytes);
    set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, kSocketBufferBytes);
    return std::unique_ptr<PacketPort>(new PacketPort(std::move(socket), buffers));
}

bool PacketPort::receive(const std::function<void(LinkPacket)>& take) {
    for (size_t i = 0; i < kPortBatch; ++i) {
        room_->messages[i].msg_hdr = {};
        room_->messages[i].msg_hdr.msg_iov = &room_->incoming[i];
        room_->messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int got =
        ::recvmmsg(socket_.value(), room_->messages.data(), kPortBatch, MSG_DONTWAIT, nullptr);
    for (int i = 0; i < got; ++i) {
        const auto* const from = room_->bytes.data() + static_cast<size_t>(i) * kMaxFrameBytes;
        LinkPacket packet;
        packet.bytes = buffers_.take();
        packet.bytes.assign(from, from + room_->messages[static_cast<size_t>(i)].msg_len);
        if (describe_frame(packet)) {
            take(std::move(packet));
        }
    }
    return got > 0;
}

void PacketPort::send(LinkPacket packet) {
    outgoing_.push_back(std::move(packet));
    if (outgoing_.size() == kPortBatch) {
        flush();
    }
}

void PacketPort::flush() {
    const size_t count = outgoing_.size();
    for (size_t i = 0; i < count; ++i) {
        room_->outgoing[i] = {outgoing_[i].bytes.data(), outgoing_[i].bytes.size()};
        room_->messages[i].msg_hdr = {};
        room_->messages[i].msg_hdr.msg_iov = &room_->outgoing[i];
        room_->messages[i].msg_hdr.msg_iovlen = 1;
    }
    size_t sent = 0;
    while (sent < count) {
        const int done = ::sendmmsg(socket_.value(), room_->messages.data() + sent,
                                    static_cast<unsigned>(count - sent), 0);
        if (done > 0) {
            sent += static_cast<size_t>(done);
        } else if (errno != EINTR) {
            ++sent;  // a device that is down loses it
            ++send_failures_;
        }
    }
    for (LinkPacket& packet : outgoing_) {
        buffers_.give_back(std::move(packet.bytes));
    }
    outgoing_.clear();
}

uint64_t PacketPort::kernel_drops() {
    tpacket_stats stats{};
    socklen_t bytes = sizeof stats;
    if (::getsockopt(socket_.value(), SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) == 0) {
        kernel_drops_ += stats.tp_drops;  // the kernel counts anew after each question
    }
    return kernel_drops_;
}

}  // namespace continuo::tests
