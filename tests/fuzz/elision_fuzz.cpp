// Fuzzes the decoder of packet entries with a sequence of datagrams, so that later ones can use the
// contexts that earlier ones set. Input: datagrams as `control length content`; bit 0 of control
// begins a new datagram, bit 1 ends it with commit (else rollback), bit 2 makes the content a
// FLOOR.
#include "common/elision/decoder.hpp"

namespace {

using continuo::base::ByteReader;
using continuo::base::ByteView;
using continuo::elision::DecodedEntry;
using continuo::elision::Decoder;
using continuo::elision::DecodeScratch;
using continuo::elision::EntryKind;
using continuo::elision::kMaxPacketBytes;

void check_entries(const Decoder& decoder, ByteView input) {
    for (const DecodedEntry& entry : decoder.entries()) {
        CTN_ASSERT(entry.payload.size() <= kMaxPacketBytes);
        CTN_ASSERT(entry.payload.data() >= input.data());
        CTN_ASSERT(entry.payload.data() + entry.payload.size() <= input.data() + input.size());
        CTN_ASSERT(entry.kind == EntryKind::Whole ||
                   entry.fields.source.version == entry.fields.destination.version);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static DecodeScratch scratch;
    const ByteView input(data, size);
    Decoder decoder(continuo::packet::NodeSide::Source, scratch, 1000);
    ByteReader reader(input);
    uint64_t sequence = 0;
    bool is_good = true;
    decoder.begin(0, sequence);
    while (!reader.at_end()) {
        const uint8_t control = reader.u8();
        const size_t length = reader.u8();
        const ByteView content = reader.bytes(std::min(length, reader.remaining()));
        if ((control & 1) != 0) {
            decoder.begin(control >> 6, ++sequence);
            is_good = true;
        }
        if ((control & 4) != 0) {
            is_good = is_good && decoder.apply_floor(control >> 6, length);
        } else if (is_good) {
            is_good = bool(decoder.decode_section(content));
            check_entries(decoder, input);
        }
        if ((control & 2) != 0) {
            if (is_good) {
                decoder.commit();
            } else {
                decoder.rollback();
            }
            decoder.begin(0, ++sequence);
            is_good = true;
        }
    }
    return 0;
}
