// Two sessions over an emulated link, in virtual time: packets that enter at one end leave at the
// other, once and unchanged, whatever the link does.
#include "tests/support/seeds.hpp"
#include "tests/support/session_pair.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::TrafficClass;
using packet::FiveTuple;
using packet::HeaderFields;
using packet::Offload;
using packet::Protocol;

using Packets = std::vector<std::vector<uint8_t>>;

FiveTuple tuple_of(Protocol protocol, uint16_t port, bool is_v6 = false) {
    FiveTuple tuple;
    tuple.local = *base::IpAddress::parse(is_v6 ? "64:ff9b:1::c000:5" : "192.0.0.5");
    tuple.remote = *base::IpAddress::parse(is_v6 ? "2001:db8::80" : "198.51.100.2");
    tuple.local_port = port;
    tuple.remote_port = 80;
    tuple.protocol = protocol;
    return tuple;
}

HeaderFields fields_up(const FiveTuple& tuple) {
    HeaderFields fields;
    fields.source = tuple.local;
    fields.destination = tuple.remote;
    fields.protocol = tuple.protocol;
    fields.source_port = tuple.local_port;
    fields.destination_port = tuple.remote_port;
    fields.ttl = 64;
    fields.dont_fragment = tuple.local.is_v4();
    return fields;
}

// The packet that SNAPT delivers for one that the node sent: with the lease in the node's place.
std::vector<uint8_t> as_delivered_up(HeaderFields fields, base::ByteView payload) {
    fields.source = *base::IpAddress::parse(fields.source.is_v4() ? "100.64.0.2" : "fd93:47::2");
    return make_packet(fields, payload);
}

std::vector<uint8_t> random_payload(base::Random& random, size_t bytes) {
    std::vector<uint8_t> payload(bytes);
    random.fill(payload);
    return payload;
}

std::vector<uint8_t> text_payload(size_t bytes, size_t offset) {
    static constexpr std::string_view kText = "the node moves between access points, gateways and "
                                              "providers, and nothing that runs over it notices; ";
    std::vector<uint8_t> payload(bytes);
    for (size_t i = 0; i < bytes; ++i) {
        payload[i] = static_cast<uint8_t>(kText[(i + offset * 7) % kText.size()]);
    }
    return payload;
}

// Sends `count` packets of one flow, `gap` apart, and gives what SNAPT should deliver.
Packets send_stream(SessionPair& pair,
                    const FiveTuple& tuple,
                    TrafficClass traffic_class,
                    size_t count,
                    base::Duration gap,
                    bool text) {
    Packets expected;
    flow::Flow& flow = pair.node.flow(tuple, traffic_class);
    HeaderFields fields = fields_up(tuple);
    if (tuple.protocol == Protocol::Tcp) {
        fields.flags = packet::tcp_flag::kAck;
        fields.has_timestamps = true;
        fields.window = 500;
        fields.sequence = 1000;
    }
    for (size_t i = 0; i < count; ++i) {
        const size_t bytes = 40 + pair.random.below(1200);
        const auto payload = text ? text_payload(bytes, i) : random_payload(pair.random, bytes);
        fields.ip_id = static_cast<uint16_t>(tuple.local.is_v4() ? i : 0);
        pair.node.send(flow, make_packet(fields, payload), {}, pair.now);
        expected.push_back(as_delivered_up(fields, payload));
        fields.sequence += tuple.protocol == Protocol::Tcp ? static_cast<uint32_t>(bytes) : 0;
        fields.timestamp_value += tuple.protocol == Protocol::Tcp ? 1 : 0;
        pair.run_for(gap);
    }
    return expected;
}

// Everything that was delivered had been sent, and nothing twice.
void expect_subset_without_duplicates(const Packets& delivered, const Packets& expected) {
    const std::multiset<std::vector<uint8_t>> allowed(expected.begin(), expected.end());
    std::set<std::vector<uint8_t>> seen;
    for (const auto& packet : delivered) {
        EXPECT_TRUE(allowed.contains(packet)) << "a packet that was never sent";
        EXPECT_TRUE(seen.insert(packet).second) << "a packet delivered twice";
    }
}

TEST(SessionSim, DeliversEveryPacketOnceAndUnchangedOnAGoodLink) {
    for (const Protocol protocol : {Protocol::Tcp, Protocol::Udp}) {
        for (const bool is_v6 : {false, true}) {
            for (const bool text : {false, true}) {
                SessionPair pair({});
                const auto expected = send_stream(pair, tuple_of(protocol, 5000, is_v6),
                                                  TrafficClass::HtHd, 300, milliseconds(2), text);
                pair.run_for(base::seconds(2));
                ASSERT_EQ(pair.snapt.delivered.size(), expected.size());
                EXPECT_TRUE(
                    std::equal(expected.begin(), expected.end(), pair.snapt.delivered.begin()));
                EXPECT_EQ(pair.snapt.last_app, 7);
            }
        }
    }
}

TEST(SessionSim, CompressesTextAndNotRandomBytes) {
    SessionPair text({});
    send_stream(text, tuple_of(Protocol::Udp, 5000), TrafficClass::HtHd, 300, milliseconds(1),
                true);
    text.run_for(base::seconds(1));
    const auto& saved = text.node.session->queues().counters(TrafficClass::HtHd);
    EXPECT_LT(saved.wire_bytes * 2, saved.inner_bytes);
    SessionPair noise({});
    send_stream(noise, tuple_of(Protocol::Udp, 5000), TrafficClass::HtHd, 300, milliseconds(1),
                false);
    noise.run_for(base::seconds(1));
    EXPECT_EQ(noise.node.session->queues().counters(TrafficClass::HtHd).compressed_sections, 0U);
}

TEST(SessionSim, AggregatesSmallPacketsThatComeCloseTogether) {
    SessionPair pair({});
    flow::Flow& flow = pair.node.flow(tuple_of(Protocol::Udp, 6000), TrafficClass::HtLd);
    HeaderFields fields = fields_up(flow.tuple);
    for (size_t i = 0; i < 500; ++i) {
        fields.ip_id = static_cast<uint16_t>(i);
        pair.node.send(flow, make_packet(fields, random_payload(pair.random, 20)), {}, pair.now);
        pair.run_for(milliseconds(1));
    }
    pair.run_for(base::seconds(1));
    EXPECT_EQ(pair.snapt.delivered.size(), 500U);
    const auto& counters = pair.node.session->queues().counters(TrafficClass::HtLd);
    EXPECT_EQ(counters.packets, 500U);
    EXPECT_LT(counters.datagrams, 130U);
    EXPECT_LT(counters.queue_delay.quantile_ms(0.99), 20.0);
}

TEST(SessionSim, SuperPacketsArriveAsTheSegmentsTheKernelWouldHaveCut) {
    SessionPair pair({});
    const FiveTuple tuple = tuple_of(Protocol::Tcp, 7000);
    flow::Flow& flow = pair.node.flow(tuple, TrafficClass::HtHd);
    HeaderFields fields = fields_up(tuple);
    fields.flags = packet::tcp_flag::kAck;
    fields.has_timestamps = true;
    fields.sequence = 1;
    fields.window = 500;
    Packets expected;
    constexpr uint16_t kSegment = 1400;
    for (size_t round = 0; round < 20; ++round) {
        const auto payload = random_payload(pair.random, size_t{kSegment} * 20 + 300);
        HeaderFields super = fields;
        super.flags |= packet::tcp_flag::kPsh;
        Offload offload;
        offload.gso = packet::GsoType::Tcp4;
        offload.segment_bytes = kSegment;
        offload.header_bytes = 52;
        offload.partial_checksum = true;
        offload.checksum_start = 20;
        offload.checksum_offset = 16;
        std::vector<uint8_t> bytes(52 + payload.size());
        packet::write_headers(super, payload, true, bytes);
        std::copy(payload.begin(), payload.end(), bytes.begin() + 52);
        pair.node.send(flow, bytes, offload, pair.now);
        for (size_t at = 0; at < payload.size(); at += kSegment) {
            const base::ByteView piece = base::ByteView(payload).subspan(
                at, std::min<size_t>(kSegment, payload.size() - at));
            HeaderFields segment = fields;
            segment.sequence = fields.sequence + static_cast<uint32_t>(at);
            segment.ip_id = static_cast<uint16_t>(fields.ip_id + at / kSegment);
            if (at + kSegment >= payload.size()) {
                segment.flags |= packet::tcp_flag::kPsh;
            }
            expected.push_back(as_delivered_up(segment, piece));
        }
        fields.sequence += static_cast<uint32_t>(payload.size());
        fields.ip_id = static_cast<uint16_t>(fields.ip_id + 21);
        pair.run_for(milliseconds(30));
    }
    pair.run_for(base::seconds(1));
    EXPECT_TRUE(pair.snapt.delivered == expected);
    const auto& counters = pair.node.session->queues().counters(TrafficClass::HtHd);
    EXPECT_GE(counters.super_packets, 15U) << "contexts must be there after the first round trip";
}

TEST(SessionSim, SplitsAPacketThatIsLongerThanADatagram) {
    SessionPair pair({});
    const FiveTuple tuple = tuple_of(Protocol::Udp, 7100);
    flow::Flow& flow = pair.node.flow(tuple, TrafficClass::HtLd);
    HeaderFields fields = fields_up(tuple);
    Packets expected;
    for (size_t i = 0; i < 50; ++i) {
        fields.ip_id = static_cast<uint16_t>(i);
        const auto payload = random_payload(pair.random, 1472);
        pair.node.send(flow, make_packet(fields, payload), {}, pair.now);
        expected.push_back(as_delivered_up(fields, payload));
        pair.run_for(milliseconds(3));
    }
    pair.run_for(base::seconds(1));
    EXPECT_TRUE(pair.snapt.delivered == expected);
    EXPECT_GE(pair.node.session->queues().counters(TrafficClass::HtLd).fragments, 100U);
}

TEST(SessionSim, DeliversNothingWrongUnderLossReorderingDuplicationAndJitter) {
    SimLink link;
    link.loss_ppm = 100'000;
    link.reorder_ppm = 200'000;
    link.duplicate_ppm = 50'000;
    link.jitter = milliseconds(30);
    for (const uint64_t seed : seeds(10)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        SessionPair pair(link, seed);
        Packets expected;
        for (const auto& [protocol, text] :
             {std::pair{Protocol::Tcp, false}, {Protocol::Tcp, true}, {Protocol::Udp, true}}) {
            const auto sent =
                send_stream(pair, tuple_of(protocol, static_cast<uint16_t>(8000 + (text ? 1 : 0))),
                            TrafficClass::HtHd, 300, milliseconds(2), text);
            expected.insert(expected.end(), sent.begin(), sent.end());
        }
        pair.run_for(base::seconds(5));
        expect_subset_without_duplicates(pair.snapt.delivered, expected);
        EXPECT_GT(pair.snapt.delivered.size(), expected.size() / 2);
        EXPECT_EQ(pair.node.session->queues().bytes(), 0U);
    }
}

TEST(SessionSim, CorruptedDatagramsChangeNothing) {
    SimLink link;
    link.corrupt_ppm = kCertain;
    SessionPair pair(link);
    send_stream(pair, tuple_of(Protocol::Udp, 9000), TrafficClass::HtHd, 100, milliseconds(2),
                false);
    pair.run_for(base::seconds(1));
    EXPECT_TRUE(pair.snapt.delivered.empty());
    EXPECT_FALSE(pair.snapt.session->paths().active().has_value());
    EXPECT_EQ(pair.snapt.session->counters().datagrams_received, 0U);
}

TEST(SessionSim, ReplayedDatagramsAreDroppedAndDoNotMoveThePath) {
    SessionPair pair({});
    pair.record = true;
    send_stream(pair, tuple_of(Protocol::Udp, 9100), TrafficClass::HtHd, 50, milliseconds(5),
                false);
    pair.run_for(base::seconds(1));
    const size_t delivered = pair.snapt.delivered.size();
    const Packets recorded = pair.recorded_up;
    const auto evil = *base::Endpoint::parse("192.0.2.66:666");
    for (auto datagram : recorded) {
        session::ReceivedDatagram received{datagram, evil,
                                           base::IpAddress::any(base::IpVersion::V4)};
        pair.snapt.session->on_datagrams(std::span(&received, 1), pair.now);
    }
    pair.run_for(base::seconds(1));
    EXPECT_EQ(pair.snapt.delivered.size(), delivered);
    EXPECT_EQ(pair.misdirected, 0U);
    EXPECT_GE(pair.snapt.session->drops().count(base::DropReason::Replayed), recorded.size());
}

// With it SNAPT can say unasked that the session has ended.
TEST(SessionSim, WhatSnaptQuotesOfAnIdleNodeTheNodeKnowsAsItsOwn) {
    SessionPair pair({});
    EXPECT_FALSE(pair.snapt.session->latest()) << "nothing came yet";
    send_stream(pair, tuple_of(Protocol::Udp, 9150), TrafficClass::LtLd, 20, milliseconds(5),
                false);
    pair.run_for(base::seconds(60));
    const auto latest = pair.snapt.session->latest();
    ASSERT_TRUE(latest);
    EXPECT_TRUE(pair.node.session->epochs().may_have_sent(latest->quote));
    EXPECT_FALSE(pair.node.session->latest()) << "a node tells nobody";
    auto other = latest->quote;
    other.first[3] ^= 1U;
    EXPECT_FALSE(pair.node.session->epochs().may_have_sent(other)) << "of another session";
}

// Down-only traffic moves within a round trip although the node has nothing to send.
TEST(SessionSim, ADownloadMovesWithinOneRoundTripWhileTheNodeIsSilent) {
    for (const uint64_t seed : seeds(20)) {
        SessionPair pair({}, seed);
        const FiveTuple tuple = tuple_of(Protocol::Udp, 9200);
        send_stream(pair, tuple, TrafficClass::HtHd, 3, milliseconds(5), false);
        pair.run_for(base::seconds(1));
        flow::Flow* down = nullptr;
        for (auto& [key, flow] : pair.snapt.flows) {
            down = flow.get();
        }
        ASSERT_NE(down, nullptr);
        HeaderFields fields = fields_up(tuple);
        fields.source = tuple.remote;
        fields.destination = *base::IpAddress::parse("100.64.0.2");
        std::swap(fields.source_port, fields.destination_port);
        const auto stream = [&](base::Duration span, base::TimePoint& first) {
            const base::TimePoint end = pair.now + span;
            const size_t before = pair.node.delivered.size();
            while (pair.now < end) {
                ++fields.ip_id;
                pair.snapt.send(*down, make_packet(fields, random_payload(pair.random, 900)), {},
                                pair.now);
                pair.run_for(milliseconds(1));
                if (first == base::kNever && pair.node.delivered.size() > before) {
                    first = pair.now;
                }
            }
        };
        base::TimePoint ignored = base::kNever;
        stream(milliseconds(200), ignored);
        pair.run_for(milliseconds(50));
        const base::TimePoint moved = pair.now;
        pair.move_node(*base::Endpoint::parse("198.51.100.77:41000"),
                       static_cast<uint8_t>(1 + seed % 15));
        base::TimePoint first = base::kNever;
        stream(milliseconds(300), first);
        EXPECT_LE(base::to_ms(first - moved), 20 + 10) << "seed " << seed;
    }
}

TEST(SessionSim, SnaptSendsAtMostThreeTimesWhatAnUnprovenAddressSent) {
    SessionPair pair({});
    const FiveTuple tuple = tuple_of(Protocol::Udp, 9300);
    send_stream(pair, tuple, TrafficClass::HtHd, 3, milliseconds(5), false);
    pair.run_for(base::seconds(1));
    flow::Flow* down = nullptr;
    for (auto& [key, flow] : pair.snapt.flows) {
        down = flow.get();
    }
    ASSERT_NE(down, nullptr);
    HeaderFields fields = fields_up(tuple);
    fields.source = tuple.remote;
    fields.destination = *base::IpAddress::parse("100.64.0.2");
    std::swap(fields.source_port, fields.destination_port);
    // The node announces itself from an address at which nothing is heard: the answer goes nowhere.
    pair.move_node(*base::Endpoint::parse("198.51.100.78:41000"), 5);
    pair.node_address = *base::Endpoint::parse("198.51.100.78:41000");
    pair.run_for(milliseconds(11));
    pair.node_address = *base::Endpoint::parse("192.0.2.2:40000");
    const uint64_t before =
        pair.snapt.session->paths().path(5).validation().tuples()[0].unproven_sent_bytes();
    for (size_t i = 0; i < 200; ++i) {
        ++fields.ip_id;
        pair.snapt.send(*down, make_packet(fields, random_payload(pair.random, 900)), {}, pair.now);
    }
    pair.lose(pair.up, kCertain);
    pair.run_for(base::seconds(5));
    const auto& tuple_state = pair.snapt.session->paths().path(5).validation().tuples()[0];
    EXPECT_FALSE(tuple_state.is_proven());
    EXPECT_GE(tuple_state.unproven_sent_bytes(), before);
    EXPECT_LE(tuple_state.unproven_sent_bytes(), tuple_state.unproven_received_bytes() * 3);
}

TEST(SessionSim, RekeysWithoutLosingAPacket) {
    SessionPair pair({});
    Packets expected;
    for (uint32_t epoch = 1; epoch <= 6; ++epoch) {
        if (epoch > 1) {
            pair.install_epoch(epoch);
        }
        const auto sent = send_stream(pair, tuple_of(Protocol::Tcp, 9400), TrafficClass::HtHd, 60,
                                      milliseconds(2), true);
        expected.insert(expected.end(), sent.begin(), sent.end());
    }
    pair.run_for(base::seconds(2));
    EXPECT_TRUE(pair.snapt.delivered == expected);
}

// Each end has its own time-outs, and a packet lost on the way renewed only one of them.
TEST(SessionSim, AFlowThatEndedAtSnaptFirstGoesOn) {
    SessionPair pair({});
    const FiveTuple tuple = tuple_of(Protocol::Udp, 5000);
    auto expected = send_stream(pair, tuple, TrafficClass::LtLd, 20, milliseconds(100), true);
    FiveTuple leased = tuple;
    leased.local = *base::IpAddress::parse("100.64.0.2");
    ASSERT_NE(pair.snapt.find(leased), nullptr);
    for (const bool has_word_come_down : {false, true}) {
        pair.snapt.end_flow(leased, pair.now);
        if (has_word_come_down) {
            pair.snapt.flow(leased, TrafficClass::LtHd);  // of which the index is not known
        }
        pair.snapt.last_app = 0;
        for (auto& packet :
             send_stream(pair, tuple, TrafficClass::LtLd, 5, milliseconds(100), true)) {
            expected.push_back(std::move(packet));
        }
        pair.run_for(base::seconds(1));
        EXPECT_EQ(pair.snapt.delivered, expected);
        ASSERT_NE(pair.snapt.find(leased), nullptr);
        EXPECT_EQ(pair.snapt.find(leased)->owner, pair.snapt.session.get());
        EXPECT_EQ(pair.snapt.last_app, 7) << "as when it was opened";
    }
}

TEST(SessionSim, WhatWaitsForCompanySaysForHowLong) {
    SessionPair pair({});
    const FiveTuple tuple = tuple_of(Protocol::Udp, 9700);
    const HeaderFields fields = fields_up(tuple);
    flow::Flow& flow = pair.node.flow(tuple, TrafficClass::HtLd);
    const tunnel::Session& session = *pair.node.session;
    EXPECT_EQ(session.queues().patience(pair.now), std::nullopt) << "nothing waits";
    constexpr base::Duration kGap = base::microseconds(500);
    constexpr base::Duration kMoment = base::microseconds(1);
    int ended = 0;
    for (int i = 0; i < 500; ++i) {
        pair.node.send(flow, make_packet(fields, random_payload(pair.random, 40)), {}, pair.now);
        const base::Duration patience =
            session.queues().patience(pair.now).value_or(base::Duration{});
        EXPECT_LE(patience, milliseconds(10)) << "the hold of its class";
        if (patience == base::Duration{}) {
            pair.run_for(kMoment);
            EXPECT_EQ(session.queues().bytes(), 0U);
        } else if (i % 10 != 9) {
            const uint64_t waiting = session.queues().bytes();
            pair.run_for(std::min(kGap, patience) - kMoment);
            EXPECT_EQ(session.queues().bytes(), waiting);
        } else {  // nothing else comes
            pair.run_for(patience - kMoment);
            EXPECT_GT(session.queues().bytes(), 0U);
            pair.run_for(2 * kMoment);
            EXPECT_EQ(session.queues().bytes(), 0U);
            EXPECT_EQ(session.queues().patience(pair.now), std::nullopt);
            ++ended;
        }
    }
    EXPECT_GT(ended, 10);
}

TEST(SessionSim, AnIdleNodeSendsKeepalivesOnly) {
    SessionPair pair({});
    pair.run_for(base::seconds(5));
    const uint64_t before = pair.snapt.session->counters().datagrams_received;
    pair.run_for(base::seconds(600));
    const uint64_t in_ten_minutes = pair.snapt.session->counters().datagrams_received - before;
    EXPECT_GE(in_ten_minutes, 20U);
    EXPECT_LE(in_ten_minutes, 30U);
}

TEST(SessionSim, BothEndsCountTheSameBytesOfEachFlow) {
    SessionPair pair({});
    const FiveTuple tuple = tuple_of(Protocol::Udp, 9500);
    send_stream(pair, tuple, TrafficClass::HtHd, 200, milliseconds(1), true);
    pair.run_for(base::seconds(1));
    const auto& sent = pair.node.find(tuple)->counters->counters;
    const auto& received = pair.snapt.flows.begin()->second->counters->counters;
    EXPECT_EQ(flow::value(sent.pre_up), flow::value(received.pre_up));
    EXPECT_EQ(flow::value(sent.post_up), flow::value(received.post_up));
}

}  // namespace
}  // namespace continuo::tests
