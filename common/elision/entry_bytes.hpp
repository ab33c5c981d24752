// Writes entry head and elided header of one packet, without payload, into a small buffer
// (docs/PROTOCOL.md section 6.3). Pure functions: which reference is used and whether it may be set
// is the encoder's business.
#pragma once

#include "common/elision/types.hpp"

namespace continuo::elision {

// How an entry tells the length of its payload. Implied: as the reference or the entry before has
// it; a first TCP entry then has none.
enum class LengthCode : uint8_t { Implied, Counted, ToEnd };
// The form of an OPEN: with a packet, or only a flow's context.
enum class OpenForm : uint8_t { Packet, Context };

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): of `bytes`
struct EntryBytes {
    // The first `size` are written; clearing them all would cost on every packet.
    std::array<uint8_t, kMaxOpenBytes> bytes;
    uint8_t size = 0;
    // Positions; 0: not there.
    uint8_t bits_at = 0;  // mask, or the subtype of an OPEN
    uint8_t extension_at = 0;
    uint8_t length_at = 0;
    uint8_t length_bytes = 0;
    uint8_t sequence_at = 0;
    uint8_t sequence_bytes = 0;
    uint8_t id_at = 0;
    uint8_t id_bytes = 0;
    uint8_t flags_at = 0;

    ByteView view() const { return ByteView(bytes).first(size); }
    void u8(uint8_t value) { bytes[size++] = value; }
    void u16(uint16_t value) { put(value); }
    void u32(uint32_t value) { put(value); }
    void varint(uint32_t value) {
        while (value > 0x7F) {
            u8(static_cast<uint8_t>(value | 0x80U));
            value >>= 7;
        }
        u8(static_cast<uint8_t>(value));
    }
    // The low `count` bytes of `value`.
    void low(uint32_t value, unsigned count) {
        for (unsigned i = count; i-- > 0;) {
            u8(static_cast<uint8_t>(value >> (8 * i)));
        }
    }

  private:
    template <std::unsigned_integral T>
    void put(T value) {
        base::store_big_endian(bytes.data() + size, value);
        size = static_cast<uint8_t>(size + sizeof value);
    }
};

void write_open(EntryBytes& to,
                uint32_t index,
                const FlowStatics& statics,
                const PacketValues& values,
                const OpenInfo& info,
                bool set,
                OpenForm form,
                LengthCode length);

// Bits that a first entry needs, without those of length and SET. `extension` is 0 but for TCP.
struct FirstBits {
    uint8_t mask = 0;
    uint8_t extension = 0;
    bool wants_set = false;  // section 6.5, end
};
FirstBits
first_bits(const FlowStatics& statics, const PacketValues& values, const PacketValues& reference);
LengthCode first_length(const FlowStatics& statics,
                        const PacketValues& values,
                        const PacketValues& reference,
                        bool to_end);
// Adds length and SET to bits.
void add_length(const FlowStatics& statics, LengthCode length, FirstBits& bits);
void add_set(const FlowStatics& statics, FirstBits& bits);
// `bits` complete; a TCP extension byte is written when it is not 0 or tcp::kExtension is set.
void write_first(EntryBytes& to,
                 uint32_t index,
                 uint32_t reference,
                 const FlowStatics& statics,
                 const PacketValues& values,
                 const FirstBits& bits);

// False when the packet cannot be coded against the entry before it.
bool write_later(EntryBytes& to,
                 uint32_t index,
                 const FlowStatics& statics,
                 const PacketValues& values,
                 const PacketValues& before,
                 bool to_end);

// Masks by which "length counted" becomes "to the end": XOR of the byte at bits_at. 0 for an OPEN,
// where only the length field changes.
uint8_t to_end_change(const FlowStatics& statics, bool is_later);

}  // namespace continuo::elision
