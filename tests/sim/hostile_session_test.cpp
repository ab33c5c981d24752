// A peer that has the keys and breaks every rule: bodies of every kind, with flipped bits,
// truncated, in any order and role, with absurd values. The victim never crashes, never answers
// without bound, and never sends to an address that has not proven itself.
#include "common/wire/body.hpp"
#include "tests/support/hostile_peer.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/session_pair.hpp"
#include "tests/unit/wire/vector_file.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::DropReason;
using base::TrafficClass;
using path::Role;

constexpr std::array<Role, 2> kRoles = {Role::Node, Role::Snapt};
const wire::Space kFirst{TrafficClass::LtLd, 0, 0};

template <typename Frame>
std::vector<uint8_t> body_of(const Frame& frame) {
    std::vector<uint8_t> body(frame.size());
    base::ByteWriter writer(body);
    frame.serialize(writer);
    EXPECT_TRUE(writer.ok());
    return body;
}

// Every frame type, and whole bodies.
std::vector<std::vector<uint8_t>> sample_bodies() {
    std::vector<std::vector<uint8_t>> bodies;
    for (const char* file : {"frames.hex", "bodies.hex", "bodies_invalid.hex"}) {
        for (const wire::test::VectorRecord& record : wire::test::read_vectors(file)) {
            bodies.push_back(record.bytes);
        }
    }
    return bodies;
}

uint64_t count(Victim& victim, DropReason reason) {
    return victim.session().drops().count(reason);
}

void expect_bounded(Victim& victim) {
    EXPECT_LE(victim.session().flows(), Victim::kMaxFlows);
    EXPECT_LE(victim.known().size(), Victim::kMaxFlows);
    EXPECT_LE(victim.session().queues().bytes(), 4U << 20U);
}

// It still works: a good datagram is taken, and own packets go out.
void expect_alive(Victim& victim) {
    const uint64_t before = victim.session().counters().datagrams_received;
    victim.receive_body(kFirst, {});
    EXPECT_EQ(victim.session().counters().datagrams_received, before + 1);
    victim.advance(base::seconds(2));
    victim.drain();
}

TEST(HostilePeer, EveryFlippedBitAndEveryCutOfABodyIsSurvived) {
    for (const Role role : kRoles) {
        Victim victim(role);
        for (std::vector<uint8_t> body : sample_bodies()) {
            for (size_t length = 0; length <= body.size(); ++length) {
                victim.receive_body(kFirst, base::ByteView(body).first(length));
            }
            for (size_t bit = 0; bit < body.size() * 8; ++bit) {
                const auto mask = static_cast<uint8_t>(1U << (bit % 8));
                body[bit / 8] ^= mask;
                victim.receive_body(kFirst, body);
                body[bit / 8] ^= mask;
            }
            victim.advance(base::milliseconds(5));
            victim.drain();
        }
        EXPECT_EQ(count(victim, DropReason::Unauthentic), 0U);
        EXPECT_GT(count(victim, DropReason::BadBody), 100U);
        expect_bounded(victim);
        expect_alive(victim);
    }
}

TEST(HostilePeer, AVoidBodyIsCountedAsBadAndChangesNoPath) {
    for (const wire::test::VectorRecord& record : wire::test::read_vectors("bodies_invalid.hex")) {
        Victim victim(Role::Snapt);
        victim.receive_body(kFirst, record.bytes);
        EXPECT_EQ(count(victim, DropReason::BadBody), 1U) << record.name;
        EXPECT_FALSE(victim.session().paths().active()) << record.name;
        EXPECT_EQ(victim.session().flows(), 0U) << record.name;
        EXPECT_TRUE(victim.drain().empty()) << record.name;
    }
}

TEST(HostilePeer, AnySequenceOfBodiesInAnySpaceIsSurvived) {
    const auto samples = sample_bodies();
    for (const uint64_t seed : seeds(20)) {
        base::SeededRandom random(seed);
        Victim victim(seed % 2 == 0 ? Role::Node : Role::Snapt);
        for (size_t i = 0; i < 4000; ++i) {
            std::vector<uint8_t> body;
            for (size_t parts = random.below(4); parts > 0; --parts) {
                const auto& sample = samples[random.below(samples.size())];
                body.insert(body.end(), sample.begin(), sample.end());
            }
            for (size_t flips = random.below(3); flips > 0 && !body.empty(); --flips) {
                body[random.below(body.size())] = static_cast<uint8_t>(random.below(256));
            }
            const wire::Space space{base::kAllTrafficClasses[random.below(4)],
                                    static_cast<uint8_t>(random.below(wire::kMaxPaths)), 0};
            victim.receive_body(space, body);
            if (i % 7 == 0) {
                victim.send_packet(random.below(64), random.below(1400));
            }
            if (i % 5 == 0) {
                victim.advance(base::microseconds(static_cast<int64_t>(random.below(200'000))));
                victim.drain();
            }
        }
        expect_bounded(victim);
        expect_alive(victim);
    }
}

TEST(HostilePeer, AFloodOfChallengesIsAnsweredWithinBounds) {
    Victim victim(Role::Snapt);
    for (uint32_t i = 0; i < 5000; ++i) {
        wire::Challenge challenge;
        base::store_big_endian(challenge.token.data(), i);
        victim.receive_body(kFirst, body_of(challenge));
    }
    EXPECT_LE(victim.drain().size(), 32U);
    EXPECT_LE(victim.sent_bytes, victim.received_bytes * wire::kAmplificationFactor);
}

TEST(HostilePeer, AnUnprovenAddressGetsAtMostThreeTimesWhatItSent) {
    base::SeededRandom random(3);
    Victim victim(Role::Snapt);
    for (size_t i = 0; i < 500; ++i) {
        wire::Announce announce;
        announce.path = static_cast<uint8_t>(random.below(wire::kMaxPaths));
        announce.mtu = UINT16_MAX;
        announce.active = true;
        announce.number = static_cast<uint16_t>(i);
        const wire::Space space{TrafficClass::LtLd, announce.path, 0};
        victim.receive_body(space, body_of(announce));
        wire::Response wrong;
        random.fill(wrong.token);
        victim.receive_body(space, body_of(wrong));
        victim.advance(base::milliseconds(50));
        victim.drain();
        ASSERT_LE(victim.sent_bytes, victim.received_bytes * wire::kAmplificationFactor) << i;
    }
    for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
        EXPECT_NE(victim.session().paths().path(index).state(), path::PathState::Usable);
    }
}

TEST(HostilePeer, ASnaptCannotMoveANode) {
    Victim victim(Role::Node);
    victim.drain();
    wire::Announce announce;
    announce.path = 5;
    announce.active = true;
    announce.number = 1000;
    victim.receive_body({TrafficClass::LtLd, 5, 0}, body_of(announce));
    announce.path = 0;
    announce.active = false;
    announce.withdrawn = true;
    victim.receive_body(kFirst, body_of(announce));
    EXPECT_EQ(victim.session().paths().active(), 0);
    EXPECT_EQ(victim.session().counters().handovers, 0U);
    EXPECT_NE(victim.session().paths().path(0).state(), path::PathState::Dead);
    EXPECT_EQ(victim.session().paths().path(5).state(), path::PathState::Unknown);
}

TEST(HostilePeer, AnAcknowledgementOfWhatWasNeverSentIsABadBody) {
    for (const Role role : kRoles) {
        Victim victim(role);
        const std::array<uint8_t, 2> one_range = {1, 10};
        wire::Ack ack;
        ack.space = kFirst;
        ack.highest = wire::kMaxSequence;
        ack.ranges = one_range;
        const uint64_t before = count(victim, DropReason::BadBody);
        victim.receive_body(kFirst, body_of(ack));
        EXPECT_EQ(count(victim, DropReason::BadBody), before + 1);
        expect_alive(victim);
    }
}

// SNAPT sends under the former keys until a valid body comes under the new ones, and cannot
// acknowledge a datagram of theirs before.
TEST(HostilePeer, AVoidBodyUnderNewKeysLeavesNoDeadlineInThePast) {
    Victim victim(Role::Snapt);
    wire::Announce announce;
    announce.mtu = 1500;
    announce.active = true;
    announce.number = 1;
    std::vector<uint8_t> body = body_of(announce);
    const std::vector<uint8_t> padding = body_of(wire::Pad{1200});
    body.insert(body.end(), padding.begin(), padding.end());  // three times as much may be sent
    victim.receive_body(kFirst, body);
    victim.receive_body(kFirst, body_of(wire::Ping{}));
    victim.advance(base::seconds(1));
    ASSERT_FALSE(victim.drain().empty());

    victim.install_next_epoch();
    const std::vector<uint8_t> void_body(1200, 0xFF);
    for (int i = 0; i < 4; ++i) {  // an ACK is owed for them
        victim.receive_body(kFirst, void_body);
    }
    ASSERT_EQ(count(victim, DropReason::BadBody), 4U);
    victim.advance(base::milliseconds(40));
    victim.drain();
    EXPECT_GT(victim.session().next_deadline(victim.now), victim.now);
}

TEST(HostilePeer, PiecesThatNeverCompleteAreCountedAndGiveWay) {
    Victim victim(Role::Snapt);
    const std::vector<uint8_t> piece(1200, 0xEE);
    for (uint32_t i = 0; i < 3000; ++i) {
        wire::Fragment fragment;
        fragment.id = static_cast<uint16_t>(i);
        fragment.index = static_cast<uint8_t>(i % wire::kMaxFragments);
        fragment.last = i % 3 == 0;
        fragment.piece = piece;
        victim.receive_body(kFirst, body_of(fragment));
    }
    EXPECT_GT(count(victim, DropReason::ReassemblyLimit), 2000U);
    EXPECT_EQ(victim.delivered, 0U);
    expect_alive(victim);
}

TEST(HostilePeer, ClosedFlowsThatNeverWereAreIgnored) {
    for (const Role role : kRoles) {
        Victim victim(role);
        wire::Closed closed;
        for (uint32_t i = 0; i < wire::kMaxClosedFlows; ++i) {
            ASSERT_TRUE(closed.add(wire::kMaxFlowIndexes - 1 - i));
        }
        const size_t flows = victim.session().flows();
        victim.receive_body(kFirst, body_of(closed));
        EXPECT_EQ(victim.session().flows(), flows);
        expect_alive(victim);
    }
}

// The peer chooses where in the table a flow is. A flow without memory is not acknowledged, so that
// a conforming node goes on without it.
TEST(HostilePeer, ContextsOfFlowsTakeABoundedMemory) {
    constexpr size_t kFlows = 25'000;
    constexpr size_t kStep = 16;  // each page
    SessionPair pair{SimLink{}};
    packet::HeaderFields fields;
    fields.protocol = packet::Protocol::Udp;
    fields.source = *base::IpAddress::parse("192.0.0.5");
    fields.destination = *base::IpAddress::parse("198.51.100.2");
    fields.destination_port = 7;
    fields.ttl = 64;
    size_t sent = 0;
    const auto send = [&](size_t number) {
        fields.source_port = static_cast<uint16_t>(10'000 + number);
        const packet::FiveTuple tuple{fields.source, fields.destination, fields.source_port,
                                      fields.destination_port, fields.protocol};
        flow::Flow& flow = pair.node.flow(tuple, TrafficClass::LtLd);
        if (number % kStep == 0) {
            pair.node.send(flow, make_packet(fields, std::vector<uint8_t>(10, 1)), {}, pair.now);
            pair.run_for(base::milliseconds(1));
            ++sent;
        }
    };
    for (size_t number = 0; number < kFlows; ++number) {
        send(number);
    }
    for (int i = 0; i < 10; ++i) {
        send(kFlows / kStep * kStep);
        send(0);
        pair.run_for(base::milliseconds(100));
    }
    pair.run_for(base::seconds(1));
    EXPECT_EQ(pair.snapt.delivered.size(), sent);
    EXPECT_GT(pair.snapt.session->drops().count(DropReason::FlowLimit), 10U);
    EXPECT_EQ(pair.snapt.session->drops().count(DropReason::UnknownReference), 0U);
}

}  // namespace
}  // namespace continuo::tests
