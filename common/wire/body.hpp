// Body of a datagram: frames, then sections, then at most one fragment to the end. BodyReader walks
// it without allocation; section heads are written in front of content that is put in place later.
// docs/PROTOCOL.md sections 3.3 to 3.5.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/wire/frame.hpp"

#include <variant>

namespace continuo::wire {

// Limits of one body; one with more is void. Two classes with an ACK of 255 ranges each fit, or the
// four classes of 16 paths with their 8 newest ranges.
inline constexpr size_t kMaxFrames = 128;
inline constexpr size_t kMaxBodyAckRanges = 512;

enum class SectionMode : uint8_t { Raw = 0, RawKept = 1, Zstd = 2 };

struct SectionHead {
    SectionMode mode = SectionMode::Raw;
    uint16_t slot = 0;       // trust group; 0 is nobody's
    uint8_t generation = 0;  // Zstd only

    // The last section of a body: content of any length follows up to the end.
    void serialize_last(base::ByteWriter& writer) const { serialize(writer, true, 0); }
    // Another section or a fragment follows the content.
    void serialize_sized(base::ByteWriter& writer, size_t content_bytes) const {
        serialize(writer, false, content_bytes);
    }
    size_t size_last() const;
    size_t size_sized(size_t content_bytes) const;
    bool operator==(const SectionHead&) const = default;

  private:
    void serialize(base::ByteWriter& writer, bool last, size_t content_bytes) const;
};

struct Section {
    SectionHead head;
    bool last = false;
    base::ByteView content;  // never empty
};

// A frame of type A0 to BF that this implementation does not know.
struct UnknownFrame {
    uint8_t type = 0;
    base::ByteView content;
};

using BodyItem = std::variant<Section,
                              Pad,
                              Ack,
                              Copy,
                              Floor,
                              Generation,
                              Confirm,
                              Refuse,
                              Fragment,
                              Challenge,
                              Response,
                              Announce,
                              Ping,
                              Closed,
                              Caps,
                              Close,
                              Order,
                              UnknownFrame>;

// Reads a section head with its content. Errors: Truncated, Malformed, Unsupported (mode 3).
base::Result<Section> parse_section(base::ByteReader& reader);

// The body is one section and nothing else, which is what most datagrams are: one comparison.
constexpr bool is_single_section(base::ByteView body) {
    return !body.empty() && (body[0] & 0xC0U) == 0x40U;
}

class BodyReader {
  public:
    // `body` must outlive the reader and every item it gave.
    explicit BodyReader(base::ByteView body) : reader_(body) {}

    // True: `item` is the next one. False: the end. Errors: Truncated, Malformed, Unsupported; the
    // whole datagram is void, items given before included.
    base::Result<bool> next(BodyItem& item);

    // The part that is not read yet.
    base::ByteView rest() const { return reader_.rest(); }

  private:
    enum class Phase : uint8_t { First, Frames, Sections };

    base::Result<bool> next_frame(uint8_t type, BodyItem& item);
    base::Result<bool> next_ack(BodyItem& item);
    base::Result<bool> next_section(BodyItem& item);

    base::ByteReader reader_;
    Phase phase_ = Phase::First;
    size_t frames_ = 0;
    size_t ack_ranges_ = 0;
};

struct BodySummary {
    uint32_t frame_types = 0;      // bit n: a frame of type 0x80 + n occurs
    uint32_t skippable_types = 0;  // bit n: a frame of type 0xA0 + n occurs, known or not
    size_t sections = 0;

    bool has(FrameType type) const {
        const auto value = static_cast<unsigned>(type);
        return value < kFirstSkippableType
                   ? (frame_types >> (value - kFirstFrameType) & 1U) != 0
                   : (skippable_types >> (value - kFirstSkippableType) & 1U) != 0;
    }
    bool is_keepalive() const { return frame_types == 0 && skippable_types == 0 && sections == 0; }
};

// Walks the whole body, so that a caller can apply items knowing that none behind them is
// malformed. Entries inside the sections are not looked at. Errors: as BodyReader.
base::Result<BodySummary> check_body(base::ByteView body);

}  // namespace continuo::wire
