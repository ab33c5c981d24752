#include "common/packet/coalescer.hpp"

#include "common/packet/ip_layout.hpp"

#include <algorithm>

namespace continuo::packet {
namespace {

// Flows whose segments may arrive interleaved and still coalesce.
constexpr size_t kMaxRuns = 8;
// Beyond 64 the kernel refuses UDP super-packets (UDP_MAX_SEGMENTS of older kernels); TCP would
// seldom have more.
constexpr uint32_t kMaxSegments = 64;
constexpr size_t kFrameBytes = kVnetHeaderBytes + kMaxIpBytes;

constexpr uint8_t kEndsRun = tcp_flag::kPsh | tcp_flag::kFin;
constexpr uint8_t kNeverMerged = tcp_flag::kSyn | tcp_flag::kRst | tcp_flag::kUrg | tcp_flag::kCwr;

bool is_same_flow(const HeaderFields& a, const HeaderFields& b) {
    return a.source_port == b.source_port && a.destination_port == b.destination_port &&
           a.protocol == b.protocol && a.source == b.source && a.destination == b.destination;
}

bool has_partial_checksum(const HeaderFields& fields) {
    return fields.protocol == Protocol::Tcp ||
           (fields.protocol == Protocol::Udp && !fields.zero_checksum);
}

GsoType super_packet_type(const HeaderFields& fields) {
    if (fields.protocol == Protocol::Udp) {
        return GsoType::Udp;
    }
    return fields.source.is_v4() ? GsoType::Tcp4 : GsoType::Tcp6;
}

// gso stays None: for a frame of one packet.
Offload single_offload(const HeaderFields& fields) {
    Offload offload;
    offload.header_bytes = static_cast<uint16_t>(fields.header_bytes());
    if (has_partial_checksum(fields)) {
        offload.partial_checksum = true;
        offload.checksum_start =
            static_cast<uint16_t>(fields.source.is_v4() ? kIpv4HeaderBytes : kIpv6HeaderBytes);
        offload.checksum_offset = fields.protocol == Protocol::Tcp ? 16 : 6;
    }
    return offload;
}

// Whether further segments may follow this one in the same frame.
bool may_open(const HeaderFields& fields, size_t payload_bytes, bool uso) {
    if (payload_bytes == 0) {
        return false;
    }
    switch (fields.protocol) {
    case Protocol::Tcp:
        return (fields.flags & (kNeverMerged | kEndsRun)) == 0;
    case Protocol::Udp:
        return uso && !fields.zero_checksum;
    case Protocol::Icmp:
    case Protocol::IcmpV6:
        break;
    }
    return false;
}

}  // namespace

// One open frame. Its memory holds virtio_net_hdr, header and the payloads so far; the headers are
// written at the end.
struct Coalescer::Run {
    bool is_open = false;
    uint8_t last_flags = 0;
    uint32_t segments = 0;
    uint64_t opened = 0;  // order of opening
    void* owner = nullptr;
    HeaderFields first;
    size_t header_bytes = 0;
    size_t segment_bytes = 0;
    size_t payload_bytes = 0;
    std::unique_ptr<uint8_t[]> memory;

    base::MutableByteView frame() const { return {memory.get(), kFrameBytes}; }
    void begin(const HeaderFields& fields, size_t bytes, void* flow, uint64_t order);
    void append(const HeaderFields& fields, base::ByteView payload);
    bool may_append(const HeaderFields& fields, size_t bytes) const;
};

void Coalescer::Run::begin(const HeaderFields& fields, size_t bytes, void* flow, uint64_t order) {
    is_open = true;
    segments = 0;
    opened = order;
    owner = flow;
    first = fields;
    header_bytes = fields.header_bytes();
    segment_bytes = bytes;
    payload_bytes = 0;
}

void Coalescer::Run::append(const HeaderFields& fields, base::ByteView payload) {
    const size_t at = kVnetHeaderBytes + header_bytes + payload_bytes;
    std::copy(payload.begin(), payload.end(), frame().subspan(at).begin());
    payload_bytes += payload.size();
    last_flags = fields.flags;
    ++segments;
}

// Equal except for fields that the kernel restores when it cuts the frame: sequence, PSH and FIN,
// and the IPv4 identifier, which it increments. Segments with a constant identifier (all zero, with
// DF) are therefore not merged: virtio_net_hdr cannot express that, and they would arrive with
// changed identifiers.
bool Coalescer::Run::may_append(const HeaderFields& fields, size_t bytes) const {
    const auto expected_id = static_cast<uint16_t>(first.ip_id + segments);
    if (bytes == 0 || bytes > segment_bytes || segments == kMaxSegments ||
        header_bytes + payload_bytes + bytes > kMaxIpBytes || fields.tos != first.tos ||
        fields.ttl != first.ttl || fields.dont_fragment != first.dont_fragment ||
        fields.flow_label != first.flow_label ||
        (first.source.is_v4() && fields.ip_id != expected_id)) {
        return false;
    }
    if (first.protocol == Protocol::Udp) {
        return !fields.zero_checksum;
    }
    const auto expected_sequence = static_cast<uint32_t>(first.sequence + payload_bytes);
    return fields.sequence == expected_sequence &&
           fields.acknowledgement == first.acknowledgement && fields.window == first.window &&
           fields.has_timestamps == first.has_timestamps &&
           fields.timestamp_value == first.timestamp_value &&
           fields.timestamp_echo == first.timestamp_echo &&
           ((fields.flags ^ first.flags) & ~kEndsRun) == 0;
}

Coalescer::Coalescer(FrameSink& sink, bool uso)
    : sink_(sink)
    , uso_(uso)
    , runs_(std::make_unique<Run[]>(kMaxRuns))
    , single_(std::make_unique_for_overwrite<uint8_t[]>(kFrameBytes)) {
    for (size_t i = 0; i < kMaxRuns; ++i) {
        runs_[i].memory = std::make_unique_for_overwrite<uint8_t[]>(kFrameBytes);
    }
}

Coalescer::~Coalescer() = default;

Coalescer::Run* Coalescer::find_run(const HeaderFields& fields) {
    for (size_t i = 0; i < kMaxRuns; ++i) {
        if (runs_[i].is_open && is_same_flow(runs_[i].first, fields)) {
            return &runs_[i];
        }
    }
    return nullptr;
}

// A closed run; if there is none, the oldest is flushed.
Coalescer::Run& Coalescer::free_run() {
    Run* oldest = &runs_[0];
    for (size_t i = 0; i < kMaxRuns; ++i) {
        if (!runs_[i].is_open) {
            return runs_[i];
        }
        if (runs_[i].opened < oldest->opened) {
            oldest = &runs_[i];
        }
    }
    finish(*oldest);
    return *oldest;
}

void Coalescer::add(const HeaderFields& fields, base::ByteView payload, void* owner) {
    Run* run = find_run(fields);
    if (run != nullptr && (run->owner != owner || !run->may_append(fields, payload.size()))) {
        finish(*run);
        run = nullptr;
    }
    if (run == nullptr) {
        if (!may_open(fields, payload.size(), uso_) ||
            fields.header_bytes() + payload.size() > kMaxIpBytes) {
            write_single(fields, payload, owner);
            return;
        }
        run = &free_run();
        run->begin(fields, payload.size(), owner, ++opened_);
    }
    run->append(fields, payload);
    if (payload.size() < run->segment_bytes || (fields.flags & kEndsRun) != 0 ||
        run->segments == kMaxSegments) {
        finish(*run);
    }
}

void Coalescer::add_whole(base::ByteView packet, void* owner, uint64_t payload_bytes) {
    if (packet.empty() || packet.size() > kMaxIpBytes) {
        ++refused_;
        return;
    }
    // The flow of a packet without owner is unknown: everything earlier is flushed first.
    finish_runs([owner](const Run& run) { return owner == nullptr || run.owner == owner; });
    const base::MutableByteView frame(single_.get(), kFrameBytes);
    write_vnet_header(Offload{}, frame);
    std::copy(packet.begin(), packet.end(), frame.subspan(kVnetHeaderBytes).begin());
    hand_over(frame.first(kVnetHeaderBytes + packet.size()),
              {owner, 1, packet.size(), payload_bytes});
}

void Coalescer::flush() {
    finish_runs([](const Run&) { return true; });
}

void Coalescer::flush(const void* owner) {
    finish_runs([owner](const Run& run) { return run.owner == owner; });
}

template <typename Condition>
void Coalescer::finish_runs(Condition condition) {
    for (;;) {
        Run* oldest = nullptr;
        for (size_t i = 0; i < kMaxRuns; ++i) {
            Run& run = runs_[i];
            if (run.is_open && condition(run) &&
                (oldest == nullptr || run.opened < oldest->opened)) {
                oldest = &run;
            }
        }
        if (oldest == nullptr) {
            return;
        }
        finish(*oldest);
    }
}

void Coalescer::finish(Run& run) {
    run.is_open = false;
    HeaderFields fields = run.first;
    fields.flags = static_cast<uint8_t>(fields.flags | (run.last_flags & kEndsRun));
    Offload offload = single_offload(fields);
    if (run.segments > 1) {
        offload.gso = super_packet_type(fields);
        offload.segment_bytes = static_cast<uint16_t>(run.segment_bytes);
    }
    const base::MutableByteView frame =
        run.frame().first(kVnetHeaderBytes + run.header_bytes + run.payload_bytes);
    const base::MutableByteView packet = frame.subspan(kVnetHeaderBytes);
    if (write_headers(fields, packet.subspan(run.header_bytes), true, packet) == 0) {
        refused_ += run.segments;
        return;
    }
    write_vnet_header(offload, frame);
    hand_over(frame,
              {run.owner, run.segments,
               uint64_t{run.segments} * run.header_bytes + run.payload_bytes, run.payload_bytes});
}

void Coalescer::write_single(const HeaderFields& fields, base::ByteView payload, void* owner) {
    const base::MutableByteView packet(single_.get() + kVnetHeaderBytes, kMaxIpBytes);
    const size_t header_bytes = write_headers(fields, payload, true, packet);
    if (header_bytes == 0) {
        ++refused_;
        return;
    }
    const base::MutableByteView frame(single_.get(),
                                      kVnetHeaderBytes + header_bytes + payload.size());
    write_vnet_header(single_offload(fields), frame);
    std::copy(payload.begin(), payload.end(), packet.subspan(header_bytes).begin());
    hand_over(frame, {owner, 1, header_bytes + payload.size(), payload.size()});
}

void Coalescer::hand_over(base::ByteView frame, const FrameInfo& info) {
    segments_ += info.packets;
    ++frames_;
    sink_.write_frame(frame, info);
}

}  // namespace continuo::packet
