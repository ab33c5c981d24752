// Datagrams over TCP: a record is a 2-byte length and a datagram, byte for byte as over UDP. A
// plain connection begins with one HELLO record. docs/PROTOCOL.md section 3.7.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/wire/constants.hpp"
#include "common/wire/limits.hpp"

#include <array>
#include <cstdint>

namespace continuo::wire {

inline constexpr size_t kRecordLengthBytes = 2;

// Takes one record from the front of received bytes and gives its content, which lies in `stream`;
// the record occupies kRecordLengthBytes + content. Errors: Truncated (wait for more), Malformed
// (length 0 or above kMaxTcpRecordBytes: end the connection).
base::Result<base::ByteView> parse_record(base::ByteView stream);

// Writes the length in front of a datagram of that size, which the caller puts behind it. Fails the
// writer when it is 0 or above kMaxTcpRecordBytes.
void write_record_length(base::ByteWriter& writer, size_t datagram_bytes);

// Content of the first record from the node. The tag is made and checked by the caller over the
// bytes before it.
struct Hello {
    static constexpr size_t kSignedBytes = 9;
    static constexpr size_t kMinBytes = kSignedBytes + kShortTagBytes;
    static constexpr size_t kMaxBytes = kSignedBytes + kFullTagBytes;

    uint8_t version = kProtocolVersion;
    uint8_t epoch = 0;  // modulo kEpochModulus
    uint16_t session_id = 0;
    uint32_t number = 0;  // number of the connection, higher than any before with the same key
    std::array<uint8_t, kFullTagBytes> tag{};
    uint8_t tag_bytes = kFullTagBytes;  // or kShortTagBytes; the rest of `tag` is zero

    // `reader` holds the content of one record. Errors: Truncated, Malformed.
    static base::Result<Hello> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    // The bytes that the tag protects.
    std::array<uint8_t, kSignedBytes> signed_part() const;
    size_t size() const { return kSignedBytes + tag_bytes; }
    bool operator==(const Hello&) const = default;
};

}  // namespace continuo::wire
