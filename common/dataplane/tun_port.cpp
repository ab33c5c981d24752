#include "common/dataplane/tun_port.hpp"

#include <cstring>

namespace continuo::dataplane {

using base::DropReason;
using packet::PacketPtr;

TunPort::TunPort(host::TunDevice& device,
                 packet::PacketPool& pool,
                 base::DropCounters& drops,
                 Written on_written)
    : device_(device)
    , pool_(pool)
    , drops_(drops)
    , on_written_(std::move(on_written))
    , coalescer_(*this, device.supports_uso())
    , overflow_(std::make_unique<uint8_t[]>(host::kTunFrameBytes)) {}

TunPort::~TunPort() = default;

// The half that the largest holder drops usually contains a buffer of the wanted size.
PacketPtr TunPort::take(size_t capacity) {
    constexpr int kTries = 4;
    PacketPtr packet = pool_.take(capacity);
    for (int i = 0; packet == nullptr && make_room_ && i < kTries; ++i) {
        if (!make_room_(capacity > packet::kSmallBufferBytes)) {
            break;
        }
        packet = pool_.take(capacity);
    }
    return packet;
}

PacketPtr TunPort::read_one() {
    for (;;) {
        if (spare_ == nullptr) {
            spare_ = take(packet::kLargeBufferBytes);
        }
        const base::MutableByteView into =
            spare_ != nullptr ? spare_->buffer()
                              : base::MutableByteView(overflow_.get(), host::kTunFrameBytes);
        const auto length = device_.read(into);
        if (!length) {
            if (length.error().code == base::Errc::Truncated) {
                drops_.add(DropReason::TooLong);
                continue;
            }
            return nullptr;
        }
        if (spare_ == nullptr) {
            drops_.add(DropReason::PoolEmpty);
            continue;
        }
        packet::Offload offload;
        if (*length <= packet::kVnetHeaderBytes ||
            !packet::parse_vnet_header(into.first(*length), offload)) {
            drops_.add(DropReason::MalformedPacket);
            continue;
        }
        const size_t bytes = *length - packet::kVnetHeaderBytes;
        PacketPtr packet;
        if (bytes <= packet::kSmallBufferBytes) {
            packet = take(bytes);
            if (packet == nullptr) {
                drops_.add(DropReason::PoolEmpty);
                continue;
            }
            std::memcpy(packet->storage, into.data() + packet::kVnetHeaderBytes, bytes);
        } else {
            packet = std::move(spare_);
            packet->storage += packet::kVnetHeaderBytes;
            packet->capacity -= static_cast<uint32_t>(packet::kVnetHeaderBytes);
        }
        packet->length = static_cast<uint32_t>(bytes);
        packet->offload = offload;
        if (recorder_ != nullptr) {
            recorder_->inner(packet->bytes(), offload, record::PacketRecorder::Direction::Outbound);
        }
        return packet;
    }
}

void TunPort::write_packet(base::ByteView packet, void* owner, uint64_t payload_bytes) {
    coalescer_.add_whole(packet, owner, payload_bytes);
}

void TunPort::write_frame(base::ByteView frame, const packet::FrameInfo& info) {
    if (!holds_back_ || !holds_back_(frame, info)) {
        write_held(frame, info);
    }
}

void TunPort::write_held(base::ByteView frame, const packet::FrameInfo& info) {
    const auto written = device_.write(frame);
    if (!written) {
        drops_.add(DropReason::TunWriteFailed, info.packets);
    } else if (recorder_ != nullptr) {
        recorder_->inner_frame(frame, record::PacketRecorder::Direction::Inbound);
    }
    on_written_(info, written.has_value());
}

}  // namespace continuo::dataplane
