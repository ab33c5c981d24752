// What a node with the keys makes a SNAPT send: packets of few bytes, bounded by what came from it.
#include "common/compress/zstd_codec.hpp"
#include "common/elision/encoder.hpp"
#include "common/session/expansion_budget.hpp"
#include "common/wire/body.hpp"
#include "tests/support/hostile_peer.hpp"
#include "tests/support/session_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::DropReason;
using base::milliseconds;
using base::TrafficClass;
using session::Role;

using Bytes = std::vector<uint8_t>;

constexpr wire::Space kBulk{TrafficClass::HtHd, 0, 0};
constexpr size_t kOuterHeaders = 28;

// --- Expansion

// Compressed sections of slot 0 that hold `content` each.
Bytes compressed(const Bytes& content, size_t sections) {
    static compress::ZstdCodec codec;
    Bytes packed(wire::kDefaultSectionOutputBytes);
    packed.resize(codec.compress(content, packed).value());
    Bytes body(sections * (packed.size() + 8));
    base::ByteWriter writer(body);
    for (size_t i = 0; i < sections; ++i) {
        wire::SectionHead head;
        head.mode = wire::SectionMode::Zstd;
        head.serialize_sized(writer, packed.size());
        writer.bytes(packed);
    }
    body.resize(writer.size());
    return body;
}

constexpr size_t kWholeBytes = 1400;

// UDP packets of zeros.
Bytes whole_packets() {
    packet::HeaderFields fields;
    fields.protocol = packet::Protocol::Udp;
    fields.source = *base::IpAddress::parse("0.0.0.0");
    fields.destination = *base::IpAddress::parse("198.51.100.2");
    fields.source_port = 40000;
    fields.destination_port = 53;
    fields.ttl = 64;
    const Bytes packet = make_packet(fields, Bytes(kWholeBytes - 28));
    Bytes content(46 * (kWholeBytes + 4));
    base::ByteWriter writer(content);
    for (size_t i = 0; i < 46; ++i) {
        elision::write_whole_entry(packet, writer);
    }
    content.resize(writer.size());
    return content;
}

constexpr size_t kShortBytes = 28;

// UDP to 198.51.100.7, from 40000 to 53, without payload: all but the first are one byte.
Bytes short_packets() {
    Bytes content{0x3F, 0x01, 0x05, 0xC6, 0x33, 0x64, 0x07, 0x9C, 0x40,
                  0x00, 0x35, 0x01, 0x00, 0x40, 0x00, 0x01, 0x10, 0x00};
    content.insert(content.end(), 340, 0x05);
    return content;
}

struct Kind {
    const char* name;
    Bytes content;
    size_t packet_bytes;
};

std::vector<Kind> kinds() {
    return {{"whole packets of zeros", whole_packets(), kWholeBytes},
            {"packets of one byte", short_packets(), kShortBytes}};
}

TEST(Expansion, WhatANodeSendsBecomesNoMoreThanItsBudget) {
    for (const Kind& kind : kinds()) {
        Victim victim(Role::Snapt);
        const Bytes body = compressed(kind.content, 3);
        constexpr uint64_t kSeconds = 3;
        uint64_t outer = 0;
        for (size_t i = 0; i < kSeconds * 1000; ++i) {
            const uint64_t before = victim.received_bytes;
            victim.receive_body(kBulk, body);
            outer += victim.received_bytes - before + kOuterHeaders;
            victim.advance(milliseconds(1));
        }
        const uint64_t made = victim.delivered * kind.packet_bytes;
        const uint64_t allowed = outer * session::ExpansionBudget::kTimes +
                                 kSeconds * session::ExpansionBudget::kFreeBytes;
        EXPECT_LE(made, allowed + session::ExpansionBudget::kFreeBytes) << kind.name;
        EXPECT_GE(made, allowed / 2) << kind.name << ": up to there it is allowed";
        EXPECT_GT(victim.session().drops().count(DropReason::InflationLimit), 0U) << kind.name;
        EXPECT_EQ(victim.session().drops().count(DropReason::DecompressFailed), 0U) << kind.name;
    }
}

TEST(Expansion, ABurstOfItIsBounded) {
    for (const Kind& kind : kinds()) {
        Victim victim(Role::Snapt);
        const Bytes body = compressed(kind.content, 3);
        for (size_t i = 0; i < 1000; ++i) {
            victim.receive_body(kBulk, body);
        }
        const uint64_t outer = victim.received_bytes + 1000 * kOuterHeaders;
        EXPECT_LE(victim.delivered * kind.packet_bytes,
                  outer * session::ExpansionBudget::kTimes + session::ExpansionBudget::kFreeBytes)
            << kind.name;
    }
}

// What it asked for compresses as it likes, and goes to nobody else.
TEST(Expansion, ANodeTakesWhatItsSnaptSends) {
    Victim victim(Role::Node);
    const Bytes body = compressed(whole_packets(), 3);
    constexpr size_t kDatagrams = 500;
    for (size_t i = 0; i < kDatagrams; ++i) {
        victim.receive_body(kBulk, body);
    }
    EXPECT_EQ(victim.delivered, kDatagrams * 3 * 46);
}

}  // namespace
}  // namespace continuo::tests
