// Amplification by a node with the keys: packets made from few bytes, and repeats after its moves.
// Both are bounded by the bytes that the node sent.
#include "common/compress/zstd_codec.hpp"
#include "common/elision/encoder.hpp"
#include "common/reception/expansion_budget.hpp"
#include "common/wire/body.hpp"
#include "tests/support/hostile_peer.hpp"
#include "tests/support/session_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::DropReason;
using base::milliseconds;
using base::TrafficClass;
using path::Role;

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

packet::HeaderFields udp_fields() {
    packet::HeaderFields fields;
    fields.protocol = packet::Protocol::Udp;
    fields.source = *base::IpAddress::parse("0.0.0.0");
    fields.destination = *base::IpAddress::parse("198.51.100.2");
    fields.source_port = 40000;
    fields.destination_port = 53;
    fields.ttl = 64;
    return fields;
}

// UDP packets of zeros.
Bytes whole_packets() {
    const Bytes packet = make_packet(udp_fields(), Bytes(kWholeBytes - 28));
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
        const uint64_t allowed = outer * (reception::ExpansionBudget::kTimes + 1) +
                                 kSeconds * reception::ExpansionBudget::kFreeBytes;
        EXPECT_LE(made, allowed + reception::ExpansionBudget::kFreeBytes) << kind.name;
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
                  outer * (reception::ExpansionBudget::kTimes + 1) +
                      reception::ExpansionBudget::kFreeBytes)
            << kind.name;
    }
}

Bytes entry_of(const Bytes& packet) {
    Bytes entry(packet.size() + 5);
    base::ByteWriter writer(entry);
    elision::write_whole_entry(packet, writer);
    entry.resize(writer.size());
    return entry;
}

// A raw section to the end of a body, behind what it begins with.
Bytes raw(const Bytes& content, Bytes body = {}) {
    Bytes head(1);
    base::ByteWriter writer(head);
    wire::SectionHead{}.serialize_last(writer);
    body.insert(body.end(), head.begin(), head.end());
    body.insert(body.end(), content.begin(), content.end());
    return body;
}

Bytes piece_of(const Bytes& entry, uint16_t id, size_t from, size_t bytes) {
    wire::Fragment piece;
    piece.id = id;
    piece.index = from == 0 ? 0 : 1;
    piece.last = from != 0;
    piece.piece = base::ByteView(entry).subspan(from, bytes);
    Bytes body(bytes + wire::Fragment::kHeadBytes);
    base::ByteWriter writer(body);
    piece.serialize(writer);
    return body;
}

TEST(Expansion, WhatComesAsItIsPassesBesideAFlood) {
    Victim victim(Role::Snapt);
    const Bytes flood = compressed(whole_packets(), 3);
    const Bytes large = entry_of(make_packet(udp_fields(), Bytes(1300)));
    const Bytes small = entry_of(make_packet(udp_fields(), {}));
    constexpr uint16_t kRounds = 1000;
    size_t passed = 0;
    for (uint16_t i = 0; i < kRounds; ++i) {
        for (size_t j = 0; j < 4; ++j) {  // what comes as it is adds to the budget
            victim.receive_body(kBulk, flood);
        }
        const size_t before = victim.delivered;
        victim.receive_body(kBulk, raw(large));
        victim.receive_body(kBulk, raw(small));
        victim.receive_body(kBulk, piece_of(large, i, 0, 1250));
        victim.receive_body(kBulk, piece_of(large, i, 1250, large.size() - 1250));
        passed += victim.delivered - before;
        victim.advance(milliseconds(1));
    }
    EXPECT_EQ(passed, 3U * kRounds);
    EXPECT_GT(victim.session().drops().count(DropReason::InflationLimit), kRounds / 2U);
}

constexpr size_t kElided = 300;

// Packets without payload, against the first of them; they set nothing, so that they may be copied.
Bytes elided_packets() {
    elision::Encoder encoder(packet::NodeSide::Source);
    CTN_ASSERT(encoder.add_flow(5, {}));
    Bytes content(1300);
    base::ByteWriter writer(content);
    encoder.begin_datagram(wire::space_number(kBulk), 0, base::TimePoint{base::seconds(1)},
                           elision::Setting::Forbidden);
    encoder.begin_section();
    for (size_t i = 0; i < kElided; ++i) {
        CTN_ASSERT(encoder.append(5, udp_fields(), {}, elision::Extent::Counted, writer));
    }
    encoder.end_datagram();
    content.resize(writer.size());
    return content;
}

// Neither the resequencer nor the record of delivered datagrams learns of it.
TEST(Expansion, ABodyBeyondTheBudgetIsVoidAsAWhole) {
    Victim victim(Role::Snapt);
    const Bytes flood = compressed(whole_packets(), 3);
    const Bytes body = raw(elided_packets());
    uint32_t number = 0;
    uint32_t dropped = 0;  // the last that was
    size_t drops = 0;
    for (size_t i = 0; i < 1000; ++i) {
        for (size_t j = 0; j < 4; ++j, ++number) {
            victim.receive_body(kBulk, flood);
        }
        const size_t before = victim.delivered;
        victim.receive_body(kBulk, body);
        const size_t passed = victim.delivered - before;
        EXPECT_TRUE(passed == 0 || passed == kElided) << passed;
        drops += passed == 0 ? 1U : 0U;
        dropped = passed == 0 ? number : dropped;
        ++number;
        victim.advance(milliseconds(1));
    }
    EXPECT_GT(drops, 0U);
    victim.advance(base::seconds(2));
    Bytes copy(wire::Copy{}.size() + 4);
    base::ByteWriter writer(copy);
    wire::Copy{kBulk, dropped}.serialize(writer);
    copy.resize(writer.size());
    const size_t before = victim.delivered;
    victim.receive_body({kBulk.traffic_class, 1, 0}, raw(elided_packets(), copy));
    EXPECT_EQ(victim.delivered - before, kElided) << "a copy brings what was dropped";
}

// A SNAPT is not bounded: its node has asked for the packets, and nobody else gets them.
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
            victim.session().paths().path(path).snapt().trust(any);
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
        victim.arrived_on = path == wire::kTcpPath ? std::optional(path) : std::nullopt;
        victim.receive_body({TrafficClass::LtLd, path, 0}, body);
        victim.arrived_on.reset();
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

// A connection that ends loses all that it had taken, so each new one gets everything again. A node
// that connects without end gets it as often as it may move, and only by TCP, which has proven its
// address.
TEST(Moves, NewTcpConnectionsGetEverythingAgainWithinTheLimitOfMoves) {
    constexpr size_t kPackets = 200;
    constexpr size_t kSeconds = 10;
    Mover mover(1);
    mover.send(kPackets);
    const uint64_t before = mover.told();
    for (size_t i = 0; i < 20 * kSeconds; ++i) {
        mover.announce(wire::kTcpPath);
        EXPECT_EQ(mover.victim.session().paths().active(), wire::kTcpPath);
        mover.run_for(milliseconds(50));
    }
    constexpr size_t kMoves = 8 + 2 * kSeconds;
    EXPECT_LE(mover.told() - before, kMoves);
    EXPECT_LE(mover.repeated(), kPackets * kMoves);
    EXPECT_GE(mover.repeated(), kPackets * kMoves / 2);
}

// Whoever is there gets at most three times the bytes that it sent, including repeats.
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
