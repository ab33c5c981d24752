// Decoder: restores packets from entries (docs/PROTOCOL.md sections 6.3 to 6.5). One for each
// (session, epoch, direction, lane). Input is authenticated and not replayed, but nothing else in
// it is trusted. A datagram is decoded entirely against the state before it, and changes state only
// in commit:
//
//   begin, apply_floor for each FLOOR, is_below_floor -> drop, decode_section..., read entries(),
//   commit or rollback
//
// entries() lie in the DecodeScratch, which all decoders of a thread may share, and refer to the
// section contents.
#pragma once

#include "common/base/drop_reason.hpp"
#include "common/base/memory_budget.hpp"
#include "common/base/result.hpp"
#include "common/elision/paged_table.hpp"

#include <span>

namespace continuo::elision {

enum class EntryKind : uint8_t {
    Elided,   // coded against state; `open` is from the OPEN
    Opened,   // an OPEN
    Context,  // an OPEN without packet
    Whole,    // `payload` is the packet; index, fields and `open` are not valid
};

struct DecodedEntry {
    EntryKind kind = EntryKind::Whole;
    uint32_t index = 0;
    HeaderFields fields;  // complete, but the node's address is unspecified
    ByteView payload;
    OpenInfo open;
};

// Working memory of one datagram: about 300 KiB.
class DecodeScratch {
  public:
    DecodeScratch();

  private:
    friend class Decoder;
    // A change that commit makes: an OPEN with SET, or a SET, by an entry.
    struct Change {
        uint16_t entry = 0;
        uint8_t reference = 0;
        bool opens = false;
    };
    struct Detail {
        PacketValues values;
        FlowStatics opened;                    // said by an OPEN
        const FlowStatics* statics = nullptr;  // `opened`, or a context's
    };
    std::unique_ptr<DecodedEntry[]> entries_;  // kMaxEntries
    std::unique_ptr<Detail[]> details_;        // one for each entry
    std::unique_ptr<uint16_t[]> latest_;       // by flow index: entry number; checked there
    std::vector<Change> changes_;
    std::vector<Floor> floors_;
};

class Decoder {
  public:
    // Contexts of some 20 000 flows. The other end chooses the indexes.
    static constexpr size_t kMaxContextBytes = size_t{2} << 20;

    // Flow indexes from `index_limit` on are refused. `memory`, for contexts, must outlive this;
    // null: no limit but kMaxContextBytes.
    Decoder(packet::NodeSide side,
            DecodeScratch& scratch,
            uint32_t index_limit = kMaxFlowIndex + 1,
            base::MemoryBudget* memory = nullptr);
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;
    ~Decoder() = default;

    void begin(uint16_t space, uint64_t sequence);
    // A FLOOR frame of this datagram. False, and the body is bad, when it is above the datagram
    // itself or there are more than kMaxSpaces spaces.
    bool apply_floor(uint16_t space, uint64_t sequence);
    // The sender has given the datagram up: drop it as BelowFloor and do not acknowledge it.
    bool is_below_floor() const { return is_below_floor_; }
    // The content of one section, plain. After an error only rollback is allowed; see drop_reason.
    base::Result<void> decode_section(ByteView content);
    std::span<const DecodedEntry> entries() const {
        return {scratch_.entries_.get(), entry_count_};
    }
    // True when the datagram is stateful: it is to be acknowledged.
    bool commit();
    // True when the latest commit found no memory for a context. The datagram must then not be
    // acknowledged, so that the sender does not rely on the context.
    bool is_short_of_memory() const { return is_short_of_memory_; }
    // True when a reference was set: the acknowledgement is urgent. Valid before commit.
    bool has_set() const { return !scratch_.changes_.empty(); }
    void rollback();

    // Optional: frees nothing but makes later use of the index an error until it is opened.
    void remove_flow(uint32_t index);
    bool has_flow(uint32_t index) const;

  private:
    struct Context {
        FlowStatics statics;
        std::array<PacketValues, 2> references{};
        OpenInfo open;
        std::array<bool, 2> is_valid{};
        uint8_t tos = 0;  // as opened, for templates
        uint8_t ttl = 0;
        bool is_open = false;
    };
    static constexpr uint32_t kNone = UINT32_MAX;

    // Null when it went well.
    const base::Error* decode_entry(base::ByteReader& reader);
    const base::Error* decode_whole(base::ByteReader& reader);
    const base::Error* decode_open(base::ByteReader& reader, uint8_t kind_bits);
    const base::Error* read_template(base::ByteReader& reader, uint8_t kind_bits);
    const base::Error* decode_first(base::ByteReader& reader, uint8_t first, uint32_t index);
    const base::Error* decode_later(base::ByteReader& reader, uint8_t first, uint32_t before);
    const base::Error*
    finish(base::ByteReader& reader, uint32_t index, size_t payload_bytes, EntryKind kind);
    uint32_t latest(uint32_t index) const;
    void apply(const DecodeScratch::Change& change);
    bool make_room(uint32_t index);

    packet::NodeSide side_;
    DecodeScratch& scratch_;
    base::MemoryShare memory_;
    PagedTable<Context> flows_;
    std::vector<Floor> floors_;
    uint64_t sequence_ = 0;
    uint32_t index_limit_;
    uint32_t entry_count_ = 0;
    uint32_t section_first_ = 0;
    uint16_t space_ = 0;
    bool is_below_floor_ = false;
    bool is_stateful_ = false;
    bool is_short_of_memory_ = false;
};

// The counter for a datagram whose section did not decode.
base::DropReason drop_reason(const base::Error& error);

}  // namespace continuo::elision
