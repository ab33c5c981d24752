// Reads the parts of a packet entry (docs/PROTOCOL.md section 6.3) and says which bits a kind of
// flow may have. Pure; errors are the reader's unless a function says otherwise.
#pragma once

#include "common/elision/types.hpp"

namespace continuo::elision {

// The parts of a first entry beside the header.
struct FirstEntry {
    bool sets = false;
    bool to_end = false;
    size_t payload_bytes = 0;
};

// A payload length; larger than any packet makes the reader fail.
uint16_t read_length(base::ByteReader& reader);

// First entry of UDP and ICMP echo: `values` come in as the reference has them.
bool is_valid_plain(const FlowStatics& statics, uint8_t mask);
void read_first_plain(base::ByteReader& reader,
                      const FlowStatics& statics,
                      uint8_t mask,
                      PacketValues& values,
                      FirstEntry& entry);

// First entry of TCP; `extra` is the extension byte or 0.
bool is_valid_tcp(const FlowStatics& statics, uint8_t mask, uint8_t extra);
void read_first_tcp(base::ByteReader& reader,
                    const FlowStatics& statics,
                    uint8_t mask,
                    uint8_t extra,
                    PacketValues& values,
                    FirstEntry& entry);

// Later entry: `values` come in as the entry before has them; of TCP all behind length and id.
bool is_valid_later(const FlowStatics& statics, uint8_t mask);
void read_later_tcp(base::ByteReader& reader, uint8_t mask, PacketValues& values);

// OPEN. False for a kind that is reserved or not spoken (RTP).
bool is_known_kind(uint8_t kind);
// Behind the index, without template; `statics` comes in with its kind. False when a value is not
// allowed.
bool read_statics(base::ByteReader& reader,
                  FlowStatics& statics,
                  PacketValues& values,
                  OpenInfo& open);
// Behind the length.
void read_opened_values(base::ByteReader& reader, const FlowStatics& statics, PacketValues& values);

}  // namespace continuo::elision
