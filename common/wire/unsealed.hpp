// Messages without protection, version nibble 0. They must never change state on their own.
// docs/PROTOCOL.md section 3.6.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/wire/constants.hpp"

#include <array>
#include <cstdint>
#include <variant>

namespace continuo::wire {

// First and last bytes of the datagram that caused a message: its sender recognises it, a stranger
// cannot make it up.
struct Quote {
    static constexpr size_t kFirstBytes = 6;
    static constexpr size_t kLastBytes = 8;
    static constexpr size_t kBytes = kFirstBytes + kLastBytes;

    std::array<uint8_t, kFirstBytes> first{};
    std::array<uint8_t, kLastBytes> last{};

    // Errors: Truncated (fewer than kBytes).
    static base::Result<Quote> of(base::ByteView datagram);
    bool operator==(const Quote&) const = default;
};

// "I do not speak the version of that datagram, but these."
struct Versions {
    static constexpr size_t kMaxVersions = 15;

    Quote quote;
    uint16_t supported = 0;  // bit n: version n; bit 0 is never set

    bool supports(uint8_t version) const {
        return version < 16 && (supported >> version & 1U) != 0;
    }
    static base::Result<Versions> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const;
    bool operator==(const Versions&) const = default;
};

enum class UnknownReason : uint8_t { Session = 1, Epoch = 2, Tag = 3 };

// "I cannot open that datagram."
struct Unknown {
    static constexpr size_t kBytes = 2 + Quote::kBytes;

    UnknownReason reason = UnknownReason::Session;  // others may come from a newer peer
    Quote quote;

    static base::Result<Unknown> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const { return kBytes; }
    bool operator==(const Unknown&) const = default;
};

using UnsealedMessage = std::variant<Versions, Unknown>;

// Parses a datagram of kind Unsealed. Errors: Truncated, Malformed, Unsupported (type).
base::Result<UnsealedMessage> parse_unsealed(base::ByteView datagram);

// An answer may be sent only if it is no longer than its cause.
constexpr bool may_answer(size_t answer_bytes, size_t cause_bytes) {
    return answer_bytes <= cause_bytes;
}

}  // namespace continuo::wire
