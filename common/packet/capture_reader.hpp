// CaptureReader: the IP packets of a capture file, one after the other: pcap
// (draft-ietf-opsawg-pcap) or pcapng (draft-ietf-opsawg-pcapng), of either byte order, with the
// headers of common links. Pure: the caller has the file. It may be of any size; one block at a
// time is in memory.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace continuo::packet {

// Longest block that is read: a packet of any link, with room for options. Longer ones are an error
// if they hold a packet, and are skipped otherwise.
inline constexpr size_t kMaxCaptureBlock = size_t{512} * 1024;
// Interfaces of a section of pcapng.
inline constexpr size_t kMaxCaptureInterfaces = 1024;

struct CapturedPacket {
    uint64_t at_ns = 0;    // since 1970; of the packet before where the file has no time for it
    base::ByteView bytes;  // from the IP header on, without padding of the link
    size_t length = 0;     // as sent; more than `bytes` where the capture cut it off
};

class CaptureReader {
  public:
    // Fills `to`; fewer bytes only at the end of the file.
    using Read = std::function<size_t(base::MutableByteView to)>;
    explicit CaptureReader(Read read) : read_(std::move(read)) {}

    // The next IP packet, whose bytes are valid until the next call; nothing at the end. Errors, of
    // which `where` says what is wrong: Malformed; Truncated, the file ends within a block;
    // LimitReached. After an error there is nothing more to read.
    base::Result<std::optional<CapturedPacket>> next();

    uint64_t frames() const { return frames_; }  // so far, of all protocols
    uint64_t not_ip() const { return not_ip_; }  // frames that are not IP
    // Link type of the latest frame whose type is not known here; such a frame counts as not IP.
    std::optional<uint16_t> unknown_link() const { return unknown_link_; }

  private:
    enum class Format : uint8_t { Unknown, Pcap, PcapNg };
    // pcapng; of pcap there is one.
    struct Interface {
        uint16_t link = 0;
        uint32_t snap_bytes = 0;  // 0: no limit
        uint8_t resolution = 6;   // if_tsresol
    };
    struct Frame {
        uint16_t link = 0;
        uint64_t at_ns = 0;
        base::ByteView bytes;
        size_t length = 0;
    };
    using MaybeFrame = std::optional<Frame>;

    base::Result<void> begin();
    base::Result<MaybeFrame> next_frame();
    base::Result<MaybeFrame> next_record();
    base::Result<MaybeFrame> next_block(bool& is_end);
    base::Result<void> begin_section(base::ByteView beginning);
    base::Result<void> add_interface(base::ByteView body);
    base::Result<MaybeFrame> packet_of(uint32_t type, base::ByteView body);
    std::optional<CapturedPacket> packet_in(const Frame& frame);
    // The next bytes into buffer_, or fewer at the end.
    base::ByteView take(size_t bytes);
    bool skip(size_t bytes);
    uint16_t u16(const uint8_t* from) const;
    uint32_t u32(const uint8_t* from) const;

    Read read_;
    Format format_ = Format::Unknown;
    bool is_little_endian_ = false;
    bool is_over_ = false;
    bool has_ns_ = false;  // pcap
    std::vector<Interface> interfaces_;
    std::vector<uint8_t> buffer_;
    uint64_t at_ns_ = 0;  // the latest packet's
    uint64_t frames_ = 0;
    uint64_t not_ip_ = 0;
    std::optional<uint16_t> unknown_link_;
};

}  // namespace continuo::packet
