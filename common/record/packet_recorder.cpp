#include "common/record/packet_recorder.hpp"

#include "common/base/log.hpp"
#include "common/base/version.hpp"
#include "common/packet/coalescer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace continuo::record {

using base::log;
using base::LogLevel;
using packet::CaptureInterface;

namespace {

// Interval at which the wall clock is read: it may be set meanwhile.
constexpr base::Duration kClockInterval = base::seconds(1);
// Reserved for the statistics at the end.
constexpr uint64_t kEndBytes = packet::kCaptureInterfaces * packet::kStatisticsBlockBytes;
constexpr std::array<CaptureInterface, packet::kCaptureInterfaces> kInterfaces = {
    CaptureInterface::Inner, CaptureInterface::Outer, CaptureInterface::Streamed};

base::Duration wall_clock() {
    return std::chrono::duration_cast<base::Duration>(
        std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace

PacketRecorder::PacketRecorder(io::EventLoop& loop,
                               io::UniqueFd file,
                               PacketRecorderOptions options)
    : loop_(loop)
    , options_(std::move(options))
    , utc_offset_(wall_clock() - std::chrono::steady_clock::now().time_since_epoch()) {
    writer_.emplace(loop, std::move(file), [this](int error) { on_failure(error); });
    const auto beginning =
        packet::pcapng_beginning(std::string("continuo ") + base::kVersion, options_.inner_name);
    const base::MutableByteView place = writer_->reserve(beginning.size());
    std::copy(beginning.begin(), beginning.end(), place.begin());
    bytes_ = beginning.size();
}

PacketRecorder::~PacketRecorder() {
    uint64_t written = 0;
    uint64_t dropped = 0;
    for (const CaptureInterface interface : kInterfaces) {
        const packet::CaptureCounts& counts = counts_[static_cast<size_t>(interface)];
        written += counts.written;
        dropped += counts.dropped;
        const base::MutableByteView place = writer_->reserve(packet::kStatisticsBlockBytes);
        if (!place.empty()) {
            packet::write_statistics_block(interface, counts, utc_ns(), place);
        }
    }
    if (const int error = writer_->finish(); error != 0) {
        on_failure(error);
    }
    if (state_ == State::Failed) {
        return;  // it is unknown how much of the latest packets was written
    }
    log(LogLevel::Info, "%s: %llu packets written, %llu not", options_.path.c_str(),
        static_cast<unsigned long long>(written), static_cast<unsigned long long>(dropped));
}

void PacketRecorder::inner(base::ByteView packet,
                           const packet::Offload& offload,
                           Direction direction) {
    const base::MutableByteView place = begin(CaptureInterface::Inner, packet.size(), direction);
    if (place.empty()) {
        return;
    }
    std::memcpy(place.data(), packet.data(), packet.size());
    if (offload.partial_checksum) {
        packet::complete_checksum(place, offload.checksum_start, offload.checksum_offset);
    }
}

void PacketRecorder::inner_frame(base::ByteView frame, Direction direction) {
    packet::Offload offload;
    if (packet::parse_vnet_header(frame, offload)) {
        inner(frame.subspan(packet::kVnetHeaderBytes), offload, direction);
    }
}

void PacketRecorder::sent(const io::UdpSocket& socket, const io::SendItem& item) {
    const base::Endpoint local = socket.local();
    const base::IpAddress& from = item.from.is_unspecified() ? local.address : item.from;
    datagrams(CaptureInterface::Outer, {{from, local.port}, item.to, item.tos.value_or(0)},
              item.bytes, item.segment_bytes, Direction::Outbound);
}

void PacketRecorder::received(const io::UdpSocket& socket, const io::ReceivedBatch& batch) {
    const base::Endpoint local = socket.local();
    base::IpAddress to = batch.to.is_unspecified() ? local.address : batch.to;
    if (to.version != batch.from.address.version) {
        to = base::IpAddress::any(batch.from.address.version);
    }
    datagrams(CaptureInterface::Outer, {batch.from, {to, local.port}, 0}, batch.bytes,
              batch.segment_bytes, Direction::Inbound);
}

void PacketRecorder::streamed(const packet::DatagramHeader& header,
                              base::ByteView bytes,
                              size_t segment_bytes,
                              Direction direction) {
    datagrams(CaptureInterface::Streamed, header, bytes, segment_bytes, direction);
}

void PacketRecorder::datagrams(CaptureInterface interface,
                               packet::DatagramHeader header,
                               base::ByteView bytes,
                               size_t segment_bytes,
                               Direction direction) {
    const size_t step = segment_bytes == 0 ? bytes.size() : segment_bytes;
    const size_t header_bytes = packet::datagram_header_bytes(header);
    for (size_t offset = 0; offset < bytes.size(); offset += step) {
        const base::ByteView datagram =
            bytes.subspan(offset, std::min(step, bytes.size() - offset));
        const base::MutableByteView place =
            begin(interface, header_bytes + datagram.size(), direction);
        if (!place.empty()) {
            packet::write_datagram_header(header, datagram, place.first(header_bytes));
            std::memcpy(place.data() + header_bytes, datagram.data(), datagram.size());
        }
    }
}

base::MutableByteView
PacketRecorder::begin(CaptureInterface interface, size_t packet_bytes, Direction direction) {
    packet::CaptureCounts& counts = counts_[static_cast<size_t>(interface)];
    const size_t block_bytes = packet::packet_block_bytes(packet_bytes);
    if (state_ == State::Writing && bytes_ + block_bytes + kEndBytes > options_.limit_bytes) {
        state_ = State::Full;
        log(LogLevel::Warning, "%s: capture_limit_bytes reached; further packets are not written",
            options_.path.c_str());
    }
    const base::MutableByteView block =
        state_ == State::Writing ? writer_->reserve(block_bytes) : base::MutableByteView();
    if (block.empty()) {
        ++counts.dropped;
        if (state_ == State::Writing && !has_told_drop_) {
            has_told_drop_ = true;
            log(LogLevel::Warning, "%s: the disk is too slow; packets are left out",
                options_.path.c_str());
        }
        return {};
    }
    ++counts.written;
    bytes_ += block_bytes;
    return packet::write_packet_block(
        {interface, direction, utc_ns(), static_cast<uint32_t>(packet_bytes)}, block);
}

// Time of this wake-up.
uint64_t PacketRecorder::utc_ns() {
    const base::TimePoint now = loop_.now();
    if (now - clock_read_at_ >= kClockInterval) {
        clock_read_at_ = now;
        utc_offset_ = wall_clock() - std::chrono::steady_clock::now().time_since_epoch();
    }
    return static_cast<uint64_t>((now.time_since_epoch() + utc_offset_).count());
}

void PacketRecorder::on_failure(int error) {
    state_ = State::Failed;
    log(LogLevel::Error, "%s: %s; the capture has ended", options_.path.c_str(),
        std::strerror(error));
}

void PacketRecorder::write_status(report::JsonWriter& json) const {
    constexpr std::array<std::string_view, 3> kStates = {"writing", "full", "failed"};
    constexpr std::array<std::string_view, kInterfaces.size()> kNames = {"inner", "outer", "tcp"};
    json.begin_object();
    json.field("path", options_.path);
    json.field("state", kStates[static_cast<size_t>(state_)]);
    json.field("bytes", bytes_);
    for (const CaptureInterface interface : kInterfaces) {
        const auto index = static_cast<size_t>(interface);
        json.key(kNames[index]).begin_object();
        json.field("written", counts_[index].written);
        json.field("dropped", counts_[index].dropped);
        json.end_object();
    }
    json.end_object();
}

}  // namespace continuo::record
