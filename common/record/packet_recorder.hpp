// PacketRecorder: `capture_file`. Writes the packets of the TUN device and the UDP sockets of one
// loop to a pcapng file; a null pointer where it is not wanted. It never waits: packets that find
// the buffer full, or come after the size limit or a disk error, are counted and left out.
// docs/OPERATIONS.md describes the file.
#pragma once

#include "common/io/delayed_writer.hpp"
#include "common/io/udp_socket.hpp"
#include "common/packet/packet.hpp"
#include "common/packet/pcapng.hpp"
#include "common/report/json.hpp"

#include <array>
#include <optional>
#include <string>

namespace continuo::record {

struct PacketRecorderOptions {
    std::string path;  // for log lines
    uint64_t limit_bytes = 0;
    std::string inner_name;
};

class PacketRecorder {
  public:
    using Direction = packet::CaptureDirection;

    // `loop` must outlive this.
    PacketRecorder(io::EventLoop& loop, io::UniqueFd file, PacketRecorderOptions options);
    PacketRecorder(const PacketRecorder&) = delete;
    PacketRecorder& operator=(const PacketRecorder&) = delete;
    // Ends the file.
    ~PacketRecorder();

    // A packet or super-packet, as one packet; its checksum is completed in the copy.
    void inner(base::ByteView packet, const packet::Offload& offload, Direction direction);
    // The same behind its virtio_net_hdr.
    void inner_frame(base::ByteView frame, Direction direction);
    // Records datagrams sent or received on a socket, one by one.
    void sent(const io::UdpSocket& socket, const io::SendItem& item);
    void received(const io::UdpSocket& socket, const io::ReceivedBatch& batch);

    // Records datagrams on a TCP connection that replaces the sockets: one, or a run of
    // `segment_bytes`.
    void streamed(const packet::DatagramHeader& header,
                  base::ByteView bytes,
                  size_t segment_bytes,
                  Direction direction);

    // The value of "capture_file" in `status`.
    void write_status(report::JsonWriter& json) const;

  private:
    enum class State : uint8_t { Writing, Full, Failed };
    void datagrams(packet::CaptureInterface interface,
                   packet::DatagramHeader header,
                   base::ByteView bytes,
                   size_t segment_bytes,
                   Direction direction);
    // The place of the packet in the file's buffer; empty: it is left out.
    base::MutableByteView
    begin(packet::CaptureInterface interface, size_t packet_bytes, Direction direction);
    uint64_t utc_ns();
    void on_failure(int error);

    io::EventLoop& loop_;
    PacketRecorderOptions options_;
    State state_ = State::Writing;
    bool has_told_drop_ = false;
    uint64_t bytes_ = 0;
    std::array<packet::CaptureCounts, packet::kCaptureInterfaces> counts_{};  // by CaptureInterface
    base::TimePoint clock_read_at_{};
    base::Duration utc_offset_{};
    std::optional<io::DelayedWriter> writer_;
};

}  // namespace continuo::record
