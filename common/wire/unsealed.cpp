#include "common/wire/unsealed.hpp"

#include <algorithm>

namespace continuo::wire {

using base::ByteReader;
using base::ByteView;
using base::ByteWriter;
using base::Errc;
using base::Error;
using base::Result;

namespace {

Quote read_quote(ByteReader& reader) {
    Quote quote;
    const ByteView first = reader.bytes(Quote::kFirstBytes);
    const ByteView last = reader.bytes(Quote::kLastBytes);
    std::copy(first.begin(), first.end(), quote.first.begin());
    std::copy(last.begin(), last.end(), quote.last.begin());
    return quote;
}

bool has_type(ByteReader& reader, UnsealedType type) {
    return reader.u8() == static_cast<uint8_t>(type);
}

}  // namespace

Result<Quote> Quote::of(ByteView datagram) {
    if (datagram.size() < kBytes) {
        return Error{Errc::Truncated, "quote"};
    }
    Quote quote;
    std::ranges::copy(datagram.first(kFirstBytes), quote.first.begin());
    std::ranges::copy(datagram.last(kLastBytes), quote.last.begin());
    return quote;
}

Result<Versions> Versions::parse(ByteReader& reader) {
    const bool right_type = has_type(reader, UnsealedType::Versions);
    Versions message;
    message.quote = read_quote(reader);
    if (!reader.ok() || reader.at_end()) {
        return Error{Errc::Truncated, "VERSIONS"};
    }
    if (!right_type || reader.remaining() > (kMaxVersions + 1) / 2) {
        return Error{Errc::Malformed, "VERSIONS"};
    }
    for (const uint8_t pair : reader.bytes(reader.remaining())) {
        message.supported =
            static_cast<uint16_t>(message.supported | 1U << (pair >> 4) | 1U << (pair & 0x0FU));
    }
    message.supported &= 0xFFFEU;
    if (message.supported == 0) {
        return Error{Errc::Malformed, "VERSIONS without a version"};
    }
    return message;
}

void Versions::serialize(ByteWriter& writer) const {
    CTN_ASSERT((supported & 0xFFFEU) != 0);
    writer.u8(static_cast<uint8_t>(UnsealedType::Versions));
    writer.bytes(quote.first);
    writer.bytes(quote.last);
    unsigned high = 0;
    for (uint8_t version = 1; version <= kMaxVersions; ++version) {
        if (!supports(version)) {
            continue;
        }
        if (high == 0) {
            high = version;
        } else {
            writer.u8(static_cast<uint8_t>(high << 4 | version));
            high = 0;
        }
    }
    if (high != 0) {
        writer.u8(static_cast<uint8_t>(high << 4));
    }
}

size_t Versions::size() const {
    const auto count = static_cast<size_t>(std::popcount(static_cast<unsigned>(supported >> 1)));
    return 1 + Quote::kBytes + (count + 1) / 2;
}

Result<Unknown> Unknown::parse(ByteReader& reader) {
    const bool right_type = has_type(reader, UnsealedType::Unknown);
    Unknown message;
    message.reason = static_cast<UnknownReason>(reader.u8());
    message.quote = read_quote(reader);
    if (!reader.ok()) {
        return Error{Errc::Truncated, "UNKNOWN"};
    }
    if (!right_type || !reader.at_end()) {
        return Error{Errc::Malformed, "UNKNOWN"};
    }
    return message;
}

void Unknown::serialize(ByteWriter& writer) const {
    writer.u8(static_cast<uint8_t>(UnsealedType::Unknown));
    writer.u8(static_cast<uint8_t>(reason));
    writer.bytes(quote.first);
    writer.bytes(quote.last);
}

Result<UnsealedMessage> parse_unsealed(ByteView datagram) {
    if (datagram.empty()) {
        return Error{Errc::Truncated, "unsealed message"};
    }
    ByteReader reader(datagram);
    switch (datagram[0]) {
    case static_cast<uint8_t>(UnsealedType::Versions):
        return UnsealedMessage{CTN_TRY(Versions::parse(reader))};
    case static_cast<uint8_t>(UnsealedType::Unknown):
        return UnsealedMessage{CTN_TRY(Unknown::parse(reader))};
    default:
        return Error{Errc::Unsupported, "unsealed message"};
    }
}

}  // namespace continuo::wire
