// Paths that fall silent, copies of an aggregate on a second path, and what unsealed messages may
// cause, in virtual time.
#include "tests/support/session_pair.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::seconds;
using base::TrafficClass;
using path::PathState;

packet::FiveTuple voice_tuple() {
    packet::FiveTuple tuple;
    tuple.local = *base::IpAddress::parse("192.0.0.5");
    tuple.remote = *base::IpAddress::parse("198.51.100.2");
    tuple.local_port = 5000;
    tuple.remote_port = 5001;
    tuple.protocol = packet::Protocol::Udp;
    return tuple;
}

// One packet up, its number in the payload.
void send_up(SessionPair& pair, uint16_t number) {
    const packet::FiveTuple tuple = voice_tuple();
    packet::HeaderFields fields;
    fields.source = tuple.local;
    fields.destination = tuple.remote;
    fields.protocol = tuple.protocol;
    fields.source_port = tuple.local_port;
    fields.destination_port = tuple.remote_port;
    fields.ttl = 64;
    fields.ip_id = number;
    std::vector<uint8_t> payload(160);
    pair.random.fill(payload);
    payload[0] = static_cast<uint8_t>(number);
    pair.node.send(pair.node.flow(tuple, TrafficClass::HtLd), make_packet(fields, payload), {},
                   pair.now);
}

void send_for(SessionPair& pair, base::Duration span) {
    const base::TimePoint end = pair.now + span;
    for (uint16_t number = 0; pair.now < end; ++number) {
        send_up(pair, number);
        pair.run_for(milliseconds(20));
    }
}

void cut(SessionPair& pair, uint32_t loss_ppm) {
    pair.lose(pair.up, loss_ppm);
    pair.lose(pair.down, loss_ppm);
}

PathState state(const SessionPair& pair) {
    return pair.node.session->paths().path(0).state();
}

TEST(PathSim, APathThatFallsSilentIsDoubtedThenDiesAndComesBackByItself) {
    SessionPair pair({});
    send_for(pair, seconds(2));
    ASSERT_EQ(state(pair), PathState::Usable);
    cut(pair, kCertain);
    send_for(pair, milliseconds(250));
    EXPECT_EQ(state(pair), PathState::Usable) << "asked, not yet doubted";
    send_for(pair, milliseconds(600));
    EXPECT_EQ(state(pair), PathState::Doubtful);
    send_for(pair, seconds(10));
    EXPECT_EQ(state(pair), PathState::Dead);
    EXPECT_EQ(pair.node.silent_paths,
              (std::vector<PathState>{PathState::Doubtful, PathState::Dead}));
    const size_t before = pair.node.paths_changed.size();
    cut(pair, 0);
    send_for(pair, seconds(3));
    EXPECT_EQ(state(pair), PathState::Usable);
    EXPECT_EQ(pair.node.paths_changed.size(), before + 1);
}

TEST(PathSim, ADoubtfulPathIsUsableAgainWithTheFirstAnswer) {
    SessionPair pair({});
    send_for(pair, seconds(2));
    cut(pair, kCertain);
    send_for(pair, milliseconds(1000));
    ASSERT_EQ(state(pair), PathState::Doubtful);
    cut(pair, 0);
    send_for(pair, milliseconds(600));
    EXPECT_EQ(state(pair), PathState::Usable) << "announcements at intervals that double";
    EXPECT_EQ(pair.node.silent_paths, std::vector<PathState>{PathState::Doubtful});
}

TEST(PathSim, TrafficInOneDirectionOnlyDoesNotMakeAGoodPathDoubtful) {
    SimLink far;
    far.delay = milliseconds(300);
    far.loss_ppm = 50'000;
    SessionPair pair(far);
    send_for(pair, seconds(2));
    for (int second = 0; second < 60; ++second) {
        send_for(pair, seconds(1));
        ASSERT_EQ(state(pair), PathState::Usable) << "in second " << second;
    }
    EXPECT_TRUE(pair.node.silent_paths.empty());
}

TEST(PathSim, APathWithLossAndJitterIsNotDoubtedEasily) {
    SimLink poor;
    poor.delay = milliseconds(40);
    poor.jitter = milliseconds(60);
    poor.loss_ppm = 100'000;
    SessionPair pair(poor);
    send_for(pair, seconds(2));
    for (int second = 0; second < 120; ++second) {
        send_for(pair, seconds(1));
    }
    EXPECT_LE(pair.node.silent_paths.size(), 1U);
}

TEST(PathSim, AnIdleNodeAsksNothing) {
    SessionPair pair({});
    send_for(pair, seconds(2));
    pair.run_for(seconds(5));
    pair.record = true;
    cut(pair, kCertain);
    pair.run_for(seconds(250));
    EXPECT_EQ(pair.recorded_up.size(), 10U) << "keepalives, one in 25 s";
    EXPECT_EQ(state(pair), PathState::Usable);
}

// A packet every five seconds that nobody answers, over a long round trip. The PING is acknowledged
// before the path would be asked by an announcement of 1200 bytes.
TEST(PathSim, APacketWithoutAnAnswerOverALongRoundTripCostsAPing) {
    SimLink link;
    link.delay = milliseconds(100);
    SessionPair pair(link);
    send_for(pair, seconds(2));
    pair.run_for(seconds(5));
    pair.record = true;
    for (uint16_t number = 0; number < 30; ++number) {
        send_up(pair, number);
        pair.run_for(seconds(5));
    }
    size_t bytes = 0;
    for (const auto& datagram : pair.recorded_up) {
        bytes = std::max(bytes, datagram.size());
    }
    EXPECT_LE(pair.recorded_up.size(), 67U) << "30 packets, 30 PINGs, keepalives";
    EXPECT_LE(bytes, 300U);
    EXPECT_EQ(state(pair), PathState::Usable);
    EXPECT_TRUE(pair.node.silent_paths.empty());
}

// A node that only receives sends nothing but acknowledgements, which nobody answers.
TEST(PathSim, AStreamThatEndsSuddenlyIsAskedAbout) {
    SessionPair pair({});
    send_for(pair, milliseconds(100));
    const auto stream_for = [&](base::Duration span) {
        const flow::Flow& up = pair.node.flow(voice_tuple(), TrafficClass::HtLd);
        flow::Flow* const down = pair.snapt.session->flow_table().at(up.index);
        ASSERT_NE(down, nullptr);
        packet::HeaderFields fields;
        fields.source = voice_tuple().remote;
        fields.destination = voice_tuple().local;
        fields.protocol = packet::Protocol::Udp;
        fields.source_port = voice_tuple().remote_port;
        fields.destination_port = voice_tuple().local_port;
        fields.ttl = 64;
        for (const base::TimePoint end = pair.now + span; pair.now < end;) {
            pair.snapt.send(*down, make_packet(fields, std::vector<uint8_t>(1000)), {}, pair.now);
            pair.run_for(milliseconds(10));
        }
    };
    stream_for(seconds(2));
    pair.record = true;
    pair.run_for(seconds(20));
    EXPECT_LE(pair.recorded_up.size(), 3U) << "a PING at its end, and a keepalive";
    EXPECT_EQ(state(pair), PathState::Usable);
    stream_for(seconds(2));
    cut(pair, kCertain);
    stream_for(milliseconds(900));
    EXPECT_EQ(state(pair), PathState::Doubtful);
}

TEST(PathSim, ANodeCanKeepPathsAliveForFlowsOnly) {
    SessionPair pair({});
    pair.node.session->upkeep().keep_alive_for_flows_only();
    send_for(pair, seconds(2));
    pair.run_for(seconds(5));
    pair.record = true;
    pair.run_for(seconds(100));
    EXPECT_EQ(pair.recorded_up.size(), 4U) << "a flow is there: one in 25 s";
    pair.node.session->detach(*pair.node.find(voice_tuple()), pair.now);
    pair.run_for(seconds(5));
    pair.recorded_up.clear();
    pair.run_for(seconds(250));
    EXPECT_TRUE(pair.recorded_up.empty());
    send_for(pair, seconds(2));
    EXPECT_EQ(state(pair), PathState::Usable);
}

TEST(PathSim, ADatagramTooLongForTheHostMakesTheNextOnesShorter) {
    SessionPair pair({});
    send_for(pair, seconds(1));
    session::TransmitItem item;
    item.to = pair.snapt_address;
    item.length = 1472;
    pair.node.session->on_too_big(item, pair.now);
    EXPECT_EQ(pair.node.session->paths().path(0).mtu(), 1492);
    pair.run_for(seconds(1));
    EXPECT_EQ(pair.snapt.session->paths().path(0).mtu(), 1492) << "SNAPT was told";
}

// --- TCP's path

TEST(PathSim, WhatTcpHasNoRoomForWaitsInTheClassQueues) {
    SessionPair pair({});
    pair.move_node(pair.node_address, wire::kTcpPath);
    send_for(pair, seconds(1));
    const size_t before = pair.snapt.delivered.size();
    routing::PathSet& paths = pair.node.session->paths();
    paths.path(wire::kTcpPath).set_room(0);
    send_for(pair, milliseconds(500));
    EXPECT_EQ(pair.snapt.delivered.size(), before);
    EXPECT_GT(pair.node.session->queues().bytes(), 4000U);
    paths.path(wire::kTcpPath).set_room(100'000);
    pair.run_for(seconds(1));
    EXPECT_EQ(pair.snapt.delivered.size(), before + 25);
    EXPECT_EQ(pair.node.session->queues().bytes(), 0U);
}

TEST(PathSim, OverTcpBothEndsCountRecordsAndTheirShareOfFullSegments) {
    SessionPair pair({});
    pair.move_node(pair.node_address, wire::kTcpPath);
    send_for(pair, seconds(2));
    pair.run_for(seconds(1));
    const flow::Flow* sent = &pair.node.flow(voice_tuple(), TrafficClass::HtLd);
    ASSERT_FALSE(pair.snapt.flows.empty());
    const flow::Flow* received = pair.snapt.flows.begin()->second.get();
    const uint64_t up = sent->counters->counters.post_up.load();
    EXPECT_GT(up, 0U);
    EXPECT_EQ(up, received->counters->counters.post_up.load());
    const base::IpAddress v4 = *base::IpAddress::parse("192.0.2.1");
    const base::IpAddress v6 = *base::IpAddress::parse("2001:db8::1");
    EXPECT_EQ(session::outer_bytes(wire::kTcpPath, v4, 1458), 1460U + 40);
    EXPECT_EQ(session::outer_bytes(wire::kTcpPath, v6, 1438), 1440U + 60);
    EXPECT_EQ(session::outer_bytes(wire::kTcpPath, v4, 71), 73U + 2);
    EXPECT_EQ(session::outer_bytes_of_run(wire::kTcpPath, v4, 2987, 1458), 2 * 1500U + 75);
    EXPECT_EQ(session::outer_bytes_of_run(0, v4, 2987, 1458), 2987U + 3 * 28);
}

// --- Copies

class CopySim : public testing::Test {
  protected:
    // Lets the flow settle, then catches the datagram of one more packet before it arrives.
    void SetUp() override {
        send_for(pair_, seconds(1));
        pair_.record = true;
        pair_.recorded_up.clear();
        cut(pair_, kCertain);
        send_up(pair_, number_);
        pair_.run_for(milliseconds(50));
        cut(pair_, 0);
        pair_.record = false;
        for (auto& datagram : pair_.recorded_up) {
            base::ByteReader reader(datagram);
            const auto header = wire::TunnelHeader::parse(reader);
            ASSERT_TRUE(header);
            if (header->traffic_class == TrafficClass::HtLd) {
                original_ = datagram;
                header_ = *header;
            }
        }
        ASSERT_FALSE(original_.empty());
        delivered_ = pair_.snapt.delivered.size();
    }

    // The same packets behind COPY, sealed for path 1; or for the original's own path, `beyond`
    // numbers after it.
    std::vector<uint8_t> make_copy(wire::Space of, std::optional<uint32_t> beyond = {}) {
        crypto::KeyMaterial keys;
        keys.key[0] = 1;
        const auto cipher =
            std::move(crypto::make_cipher(crypto::Protection::Aes256Gcm, keys, 16)).value();
        std::vector<uint8_t> opened = original_;
        uint64_t sequence = header_.sequence;
        crypto::SealedUnit unit;
        for (; sequence < 8U * 65536; sequence += 65536) {  // a short number tells 16 bits
            opened = original_;
            unit = {};
            unit.datagram = opened;
            unit.header_bytes = static_cast<uint8_t>(header_.size());
            unit.space = header_.space_number();
            unit.sequence = sequence;
            cipher->open(std::span(&unit, 1));
            if (unit.authentic) {
                break;
            }
        }
        EXPECT_TRUE(unit.authentic);
        const base::ByteView body = base::ByteView(opened).subspan(
            header_.size(), opened.size() - header_.size() - cipher->tag_bytes());
        sequence_ = sequence;
        const auto write = [&](base::ByteWriter& writer) {
            wire::Copy{of, static_cast<uint32_t>(sequence)}.serialize(writer);
            writer.bytes(body);
        };
        return beyond ? seal(header_.path, static_cast<uint32_t>(sequence) + *beyond, write)
                      : seal_on_other(write);
    }
    // Drops all of the original's space below that number.
    std::vector<uint8_t> make_floor(uint64_t sequence) {
        return seal_on_other([&](base::ByteWriter& writer) {
            wire::Floor{header_.space(), static_cast<uint32_t>(sequence)}.serialize(writer);
        });
    }
    // A datagram of path 1 with that body.
    template <typename WriteBody>
    std::vector<uint8_t> seal_on_other(const WriteBody& write_body) {
        return seal(1, copies_++, write_body);
    }
    template <typename WriteBody>
    std::vector<uint8_t> seal(uint8_t path, uint32_t sequence, const WriteBody& write_body) {
        crypto::KeyMaterial keys;
        keys.key[0] = 1;
        const auto cipher =
            std::move(crypto::make_cipher(crypto::Protection::Aes256Gcm, keys, 16)).value();
        wire::TunnelHeader header = header_;
        header.path = path;
        header.long_sequence = true;
        header.sequence = sequence;
        std::vector<uint8_t> datagram(original_.size() + 64);
        base::ByteWriter writer(datagram);
        header.serialize(writer);
        write_body(writer);
        datagram.resize(writer.size() + cipher->tag_bytes());
        crypto::SealedUnit unit;
        unit.datagram = datagram;
        unit.header_bytes = static_cast<uint8_t>(header.size());
        unit.space = header.space_number();
        unit.sequence = header.sequence;
        cipher->seal(std::span(&unit, 1));
        return datagram;
    }
    void arrive(std::vector<uint8_t> datagram) {
        session::ReceivedDatagram received;
        received.bytes = datagram;
        received.from = pair_.node_address;
        received.to = {base::IpAddress::any(base::IpVersion::V4), 0};
        pair_.snapt.session->on_datagrams(std::span(&received, 1), pair_.now);
    }
    size_t delivered_since() const { return pair_.snapt.delivered.size() - delivered_; }

    SessionPair pair_{{}};
    uint16_t number_ = 50;  // the next in its row: no reference is set anew
    std::vector<uint8_t> original_;
    wire::TunnelHeader header_;
    size_t delivered_ = 0;
    uint64_t sequence_ = 0;  // of the original, once it was copied
    uint32_t copies_ = 0;
};

TEST_F(CopySim, OfOriginalAndCopyTheFirstIsDelivered) {
    arrive(original_);
    EXPECT_EQ(delivered_since(), 1U);
    arrive(make_copy(header_.space()));
    EXPECT_EQ(delivered_since(), 1U);
    EXPECT_EQ(pair_.snapt.session->counters().copies_dropped, 1U);
}

TEST_F(CopySim, ACopyThatOvertakesItsOriginalIsDeliveredInItsPlace) {
    arrive(make_copy(header_.space()));
    EXPECT_EQ(delivered_since(), 1U);
    arrive(original_);
    arrive(make_copy(header_.space()));
    EXPECT_EQ(delivered_since(), 1U);
    EXPECT_EQ(pair_.snapt.session->counters().copies_dropped, 2U);
}

TEST_F(CopySim, ACopyByTheOriginalsOwnPathComesAfterIt) {
    arrive(make_copy(header_.space(), 0));
    EXPECT_EQ(delivered_since(), 0U) << "a datagram is no copy of itself";
    EXPECT_EQ(pair_.snapt.session->drops().count(base::DropReason::BadBody), 1U);
    arrive(make_copy(header_.space(), 3));
    EXPECT_EQ(delivered_since(), 1U);
    arrive(make_copy(header_.space(), 4));
    EXPECT_EQ(delivered_since(), 1U);
    EXPECT_EQ(pair_.snapt.session->counters().copies_dropped, 1U);
}

TEST_F(CopySim, ACopyOfAVoidOriginalIsDeliveredOnce) {
    const auto copy = make_copy(header_.space());
    const auto second = make_copy(header_.space());
    arrive(make_floor(sequence_ + 1));
    arrive(original_);
    EXPECT_EQ(pair_.snapt.session->drops().count(base::DropReason::BelowFloor), 1U);
    EXPECT_EQ(delivered_since(), 0U);
    arrive(copy);
    EXPECT_EQ(delivered_since(), 1U);
    arrive(second);
    arrive(original_);
    EXPECT_EQ(delivered_since(), 1U);
    EXPECT_EQ(pair_.snapt.session->counters().copies_dropped, 1U);
}

TEST_F(CopySim, ACopyOfAnotherClassOrOfALaterNumberOfItsOwnPathIsVoid) {
    wire::Space other = header_.space();
    other.traffic_class = TrafficClass::LtLd;
    arrive(make_copy(other));
    wire::Space own = header_.space();
    own.path = 1;
    arrive(make_copy(own));
    EXPECT_EQ(delivered_since(), 0U);
    EXPECT_EQ(pair_.snapt.session->drops().count(base::DropReason::BadBody), 2U);
}

class SettingCopySim : public CopySim {
  protected:
    SettingCopySim() { number_ = 999; }
};

TEST_F(SettingCopySim, ACopyThatSetsAReferenceIsVoid) {
    arrive(make_copy(header_.space()));
    EXPECT_EQ(delivered_since(), 0U);
    EXPECT_EQ(pair_.snapt.session->drops().count(base::DropReason::BadBody), 1U);
}

// --- Unsealed messages

TEST_F(CopySim, OnlyAQuoteOfWhatWasSentLatelyIsBelieved) {
    const auto quote = wire::Quote::of(original_);
    ASSERT_TRUE(quote);
    EXPECT_TRUE(pair_.node.session->epochs().may_have_sent(*quote));
    EXPECT_FALSE(pair_.snapt.session->epochs().may_have_sent(*quote)) << "the other direction";
    wire::Quote never = *quote;
    never.first[5] = static_cast<uint8_t>(never.first[5] + 100);
    EXPECT_FALSE(pair_.node.session->epochs().may_have_sent(never)) << "a number not yet used";
    wire::Quote other_epoch = *quote;
    other_epoch.first[0] ^= 0x0C;
    EXPECT_FALSE(pair_.node.session->epochs().may_have_sent(other_epoch));
}

}  // namespace
}  // namespace continuo::tests
