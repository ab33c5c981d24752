// What a node with the keys makes a SNAPT send: packets of few bytes, and what it has moved away
// from, again. Both are bounded by what came from it.
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

// --- Moves

// A SNAPT with packets under way to a node that acknowledges nothing.
class Mover {
  public:
    explicit Mover(size_t paths) : paths_(paths) {
        std::array<session::ClassSettings, base::kTrafficClasses> classes;
        for (session::ClassSettings& settings : classes) {
            settings.hold = {};
        }
        victim.session().set_class_settings(classes);
        for (uint8_t path = 0; path < paths; ++path) {
            victim.receive_body({TrafficClass::LtLd, path, 0}, {});
        }
        Bytes body{0x40};
        const Bytes open = short_packets();
        body.insert(body.end(), open.begin(), open.begin() + 18);
        victim.receive_body(kBulk, body);
        prove(0);
        victim.drain();
    }
    void prove(uint8_t path) {
        for (const TrafficClass any : base::kAllTrafficClasses) {
            victim.session().paths().trust({any, path, 0});
        }
    }
    void prove_all() {
        for (uint8_t path = 0; path < paths_; ++path) {
            prove(path);
        }
    }
    void send(size_t packets) {
        for (size_t i = 0; i < packets; ++i) {
            victim.send_packet(0, 1000);
            victim.drain();
        }
    }
    void announce(uint8_t path) {
        Bytes body(wire::kAnnounceBodyBytes);
        base::ByteWriter writer(body);
        wire::Announce frame;
        frame.path = path;
        frame.active = true;
        frame.number = ++number_;
        frame.serialize(writer);
        wire::Pad{writer.room()}.serialize(writer);
        victim.receive_body({TrafficClass::LtLd, path, 0}, body);
    }
    void run_for(base::Duration span) {
        for (base::Duration passed{}; passed < span; passed += milliseconds(5)) {
            victim.drain();
            victim.advance(milliseconds(5));
        }
        victim.drain();
    }
    uint64_t repeated() { return victim.session().counters().repeated_datagrams; }
    uint64_t told() const { return victim.path_changes; }

    Victim victim{Role::Snapt};

  private:
    size_t paths_;
    uint16_t number_ = 0;
};

TEST(Moves, NothingIsRepeatedTwiceOnAPath) {
    constexpr size_t kPackets = 200;
    for (const uint8_t paths : {uint8_t{2}, uint8_t{5}}) {
        Mover mover(paths);
        mover.prove_all();
        mover.send(kPackets);
        for (size_t i = 1; i <= 100; ++i) {
            mover.announce(static_cast<uint8_t>(i % paths));
            mover.run_for(milliseconds(100));
        }
        EXPECT_GE(mover.repeated(), kPackets) << int{paths};
        EXPECT_LE(mover.repeated(), kPackets * paths) << int{paths};
    }
}

TEST(Moves, EachIsMadeButABurstAndTwoASecondAreFollowed) {
    Mover mover(2);
    mover.prove_all();
    const uint64_t before = mover.told();
    for (size_t i = 1; i <= 1000; ++i) {
        mover.announce(static_cast<uint8_t>(i % 2));
        EXPECT_EQ(mover.victim.session().paths().active(), i % 2);
        mover.run_for(milliseconds(10));
    }
    EXPECT_LE(mover.told() - before, 8U + 2 * 10);
    EXPECT_GE(mover.told() - before, 2U * 10);
}

TEST(Moves, WhatIsUnderWayIsRepeatedLaterAfterABurst) {
    Mover mover(3);
    mover.prove_all();
    for (size_t i = 1; i <= 20; ++i) {
        mover.announce(static_cast<uint8_t>(i % 2));
    }
    mover.send(10);
    mover.announce(2);
    EXPECT_EQ(mover.victim.session().paths().active(), 2);
    EXPECT_LE(mover.victim.session().next_deadline(mover.victim.now),
              mover.victim.now + milliseconds(500));
    mover.run_for(milliseconds(510));
    EXPECT_EQ(mover.repeated(), 10U);
}

// Whoever is there: it gets three times what it sent, repeats and all.
TEST(Moves, WhoHasNotAnsweredGetsNoMoreThanTheLimitAgain) {
    constexpr size_t kPackets = 600;  // more than the limit allows, compressed as they are
    Mover mover(2);
    mover.send(kPackets);
    const uint64_t sent = mover.victim.sent_bytes;
    const uint64_t received = mover.victim.received_bytes;
    for (size_t i = 0; i < 4; ++i) {
        mover.announce(1);
        mover.run_for(milliseconds(200));
    }
    EXPECT_EQ(mover.victim.session().paths().active(), 1);
    EXPECT_LT(mover.repeated(), kPackets);
    const uint64_t came = mover.victim.received_bytes - received + kOuterHeaders;
    EXPECT_LE(mover.victim.sent_bytes - sent, wire::kAmplificationFactor * came);
    mover.prove(1);
    mover.run_for(milliseconds(500));
    EXPECT_EQ(mover.repeated(), kPackets);
}

}  // namespace
}  // namespace continuo::tests
