#include "tests/support/hostile_user/bodies.hpp"

#include "common/base/random.hpp"
#include "common/compress/zstd_codec.hpp"
#include "common/elision/encoder.hpp"
#include "common/packet/header_fields.hpp"
#include "common/wire/ack_ranges.hpp"
#include "common/wire/body.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace continuo::tests {

namespace {

using Bytes = std::vector<uint8_t>;

// As account and attacks have it; on the way the node has no address.
packet::HeaderFields fields_of(packet::Protocol protocol) {
    packet::HeaderFields fields;
    fields.protocol = protocol;
    fields.source = base::IpAddress::any(base::IpVersion::V4);
    fields.destination = *base::IpAddress::parse("203.0.113.10");
    fields.source_port = 30000;
    fields.ttl = 64;
    return fields;
}

// `seed`: of a payload that does not compress; 0: zeros.
Bytes packet_of(const packet::HeaderFields& fields, size_t payload_bytes, uint64_t seed = 0) {
    Bytes payload(payload_bytes);
    if (seed != 0) {
        base::SeededRandom(seed).fill(payload);
    }
    Bytes packet(fields.header_bytes() + payload_bytes);
    CTN_ASSERT(packet::write_headers(fields, payload, false, packet) != 0);
    std::copy(payload.begin(), payload.end(),
              packet.begin() + static_cast<std::ptrdiff_t>(fields.header_bytes()));
    return packet;
}

template <typename Frame>
void write_frames(base::ByteWriter& writer,
                  const std::function<Frame(uint32_t)>& frame,
                  size_t most = wire::kMaxFrames) {
    for (uint32_t i = 0; i < most; ++i) {
        const Frame one = frame(i);
        if (one.size() > writer.room()) {
            return;
        }
        one.serialize(writer);
    }
}

// A whole packet, since a copy must not set contexts, behind a COPY of what never came: of the
// class of the datagram, on another path.
void write_copy(base::ByteWriter& writer, uint32_t round) {
    packet::HeaderFields fields = fields_of(packet::Protocol::Udp);
    fields.destination_port = 9;
    wire::Copy copy;
    copy.space = {base::TrafficClass::LtLd, 1, 0};
    copy.sequence = round;
    copy.serialize(writer);
    wire::SectionHead{}.serialize_last(writer);
    elision::write_whole_entry(packet_of(fields, 1000), writer);
}

}  // namespace

Body frames_body(uint32_t round) {
    constexpr std::array<uint8_t, 8> kPiece{};
    constexpr uint32_t kKinds = 6;
    const uint32_t turn = round / kKinds;
    Bytes body(Body::kMaxBytes);
    base::ByteWriter writer(body);
    const auto number_of = [turn](uint32_t i) { return turn * uint32_t{wire::kMaxFrames} + i; };
    switch (round % kKinds) {
    case 0:  // pieces of entries of which no other piece comes
        write_frames<wire::Fragment>(writer, [&](uint32_t i) {
            return wire::Fragment{static_cast<uint16_t>(number_of(i) % wire::kMaxFragmentIds), 1,
                                  false, false, kPiece};
        });
        break;
    case 1:  // of as many spaces as may have one, which carry nothing
        write_frames<wire::Floor>(
            writer,
            [&](uint32_t i) {
                return wire::Floor{{base::TrafficClass::HtHd,
                                    static_cast<uint8_t>(i / wire::kMaxLanes),
                                    static_cast<uint8_t>(i % wire::kMaxLanes)},
                                   number_of(i)};
            },
            elision::kMaxSpaces);
        break;
    case 2:
        write_frames<wire::Challenge>(writer, [&](uint32_t i) {
            wire::Challenge challenge;
            base::store_big_endian(challenge.token.data(), number_of(i));
            return challenge;
        });
        break;
    case 3:  // flows that were never opened
        write_frames<wire::Closed>(writer, [&](uint32_t i) {
            wire::Closed closed;
            for (uint32_t n = 0; closed.add((number_of(i) + n * 7) % 65536);) {
                ++n;
            }
            return closed;
        });
        break;
    case 4:
        write_frames<wire::Order>(writer, [&](uint32_t i) {
            wire::Order order;
            order.paths = 3;
            for (uint32_t n = 0;
                 order.add((number_of(i) * 16 + n) % 65536, static_cast<uint16_t>(number_of(i)));) {
                ++n;
            }
            return order;
        });
        break;
    default:
        write_copy(writer, turn);
        break;
    }
    CTN_ASSERT(writer.ok());
    return {writer.written(), 0};
}

Body expanding_body() {
    constexpr size_t kPackets = 45;
    constexpr size_t kSections = 3;
    packet::HeaderFields fields = fields_of(packet::Protocol::Udp);
    fields.destination_port = 9;
    const Bytes packet = packet_of(fields, 1400);
    Bytes content(kPackets * (packet.size() + 4));
    base::ByteWriter plain(content);
    for (size_t i = 0; i < kPackets; ++i) {
        elision::write_whole_entry(packet, plain);
    }
    compress::ZstdCodec codec;
    Bytes packed(wire::kDefaultSectionOutputBytes);
    packed.resize(codec.compress(plain.written(), packed).value());
    Bytes body(kSections * (packed.size() + 4));
    base::ByteWriter writer(body);
    for (size_t i = 0; i < kSections; ++i) {
        wire::SectionHead head;
        head.mode = wire::SectionMode::Zstd;
        head.serialize_sized(writer, packed.size());
        writer.bytes(packed);
    }
    CTN_ASSERT(writer.ok());
    return {writer.written(), kSections * kPackets};
}

Body ack_body(uint32_t highest) {
    constexpr size_t kFrames = 2;
    Bytes body(Body::kMaxBytes);
    base::ByteWriter writer(body);
    wire::Ack head;
    head.space.traffic_class = base::TrafficClass::HtHd;
    head.highest = std::min<uint32_t>(highest, highest / 4 + 2 * wire::kMaxAckRanges);
    std::vector<wire::AckRange> ranges;
    for (uint32_t number = head.highest;
         ranges.size() < wire::kMaxAckRanges && number <= head.highest; number -= 2) {
        ranges.push_back({number, number, wire::AckKind::Applied});
    }
    for (size_t i = 0; i < kFrames; ++i) {
        static_cast<void>(wire::write_ack(writer, head, ranges));
    }
    return {writer.written(), 0};
}

std::vector<uint8_t> echo_request(size_t number) {
    packet::HeaderFields fields = fields_of(packet::Protocol::Icmp);
    fields.echo_sequence = static_cast<uint16_t>(number);
    const Bytes packet = packet_of(fields, number % 2 == 0 ? 1200 : 1210, number + 1);
    Bytes body(packet.size() + 8);
    base::ByteWriter writer(body);
    wire::SectionHead{}.serialize_last(writer);
    elision::write_whole_entry(packet, writer);
    CTN_ASSERT(writer.ok());
    body.resize(writer.size());
    return body;
}

std::vector<uint8_t> announcement(uint8_t path, uint16_t number) {
    Bytes body(wire::kAnnounceBodyBytes);
    base::ByteWriter writer(body);
    wire::Announce frame;
    frame.path = path;
    frame.active = true;
    frame.number = number;
    frame.serialize(writer);
    wire::Pad{writer.room()}.serialize(writer);
    return body;
}

}  // namespace continuo::tests
