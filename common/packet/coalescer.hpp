// Coalescer: writes restored segments to the TUN in as few frames as possible. Each payload is
// placed directly after the previous one. A run ends when the flow changes, at a header difference
// that the kernel's segmentation would not produce, after a short segment, PSH or FIN, and before
// 64 KiB would be exceeded. Pure: a flush passes a finished frame (virtio_net_hdr, headers,
// payload; partial checksum) to the sink.
#pragma once

#include "common/packet/header_fields.hpp"

namespace continuo::packet {

inline constexpr size_t kVnetHeaderBytes = 10;

// The packets in a flushed frame; `owner` is the caller's (the flow), null for none.
struct FrameInfo {
    void* owner = nullptr;
    uint32_t packets = 0;        // segments
    uint64_t inner_bytes = 0;    // sum of the segments' IP lengths
    uint64_t payload_bytes = 0;  // sum of transport payload
};

class FrameSink {
  public:
    virtual ~FrameSink() = default;
    // `frame` begins with virtio_net_hdr and is valid during the call.
    virtual void write_frame(base::ByteView frame, const FrameInfo& info) = 0;
};

class Coalescer {
  public:
    // `uso`: the kernel takes UDP super-packets (TUN_F_USO4/6).
    Coalescer(FrameSink& sink, bool uso);
    Coalescer(const Coalescer&) = delete;
    Coalescer& operator=(const Coalescer&) = delete;
    ~Coalescer();

    // One restored segment. The payload is copied.
    void add(const HeaderFields& fields, base::ByteView payload, void* owner);
    // A packet that was carried whole; it keeps its order with earlier segments of the same flow.
    void add_whole(base::ByteView packet, void* owner, uint64_t payload_bytes);
    // Flushes pending frames: call when the socket is drained.
    void flush();
    // Flushes those of `owner` only: nobody else's wait ends for it.
    void flush(const void* owner);

    uint64_t segments() const { return segments_; }
    uint64_t frames() const { return frames_; }
    // Segments dropped: no IP packet can have that length, or the fields are inconsistent.
    uint64_t refused() const { return refused_; }

  private:
    struct Run;
    Run* find_run(const HeaderFields& fields);
    Run& free_run();
    template <typename Condition>
    void finish_runs(Condition condition);
    void finish(Run& run);
    void write_single(const HeaderFields& fields, base::ByteView payload, void* owner);
    void hand_over(base::ByteView frame, const FrameInfo& info);

    FrameSink& sink_;
    bool uso_;
    std::unique_ptr<Run[]> runs_;
    std::unique_ptr<uint8_t[]> single_;  // a frame of one packet
    uint64_t opened_ = 0;
    uint64_t segments_ = 0;
    uint64_t frames_ = 0;
    uint64_t refused_ = 0;
};

// Reads and writes virtio_net_hdr (10 bytes, native order); false for a type that was not asked
// for. The header length read is the kernel's hint, not a bound. Own definition: linux/virtio_net.h
// is not C++.
bool parse_vnet_header(base::ByteView frame, Offload& offload);
void write_vnet_header(const Offload& offload, base::MutableByteView to);

}  // namespace continuo::packet
