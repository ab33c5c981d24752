#include "common/packet/coalescer.hpp"
#include "common/packet/segmenter.hpp"
#include "tests/unit/packet/packet_support.hpp"

#include <map>

#include <gtest/gtest.h>

namespace continuo::packet {
namespace {

using test::Bytes;

struct Frame {
    Offload offload;
    Bytes packet;
    FrameInfo info;
};

class RecordingSink final : public FrameSink {
  public:
    void write_frame(base::ByteView frame, const FrameInfo& info) override {
        Frame recorded;
        ASSERT_TRUE(parse_vnet_header(frame, recorded.offload));
        recorded.packet.assign(frame.begin() + kVnetHeaderBytes, frame.end());
        recorded.info = info;
        frames.push_back(std::move(recorded));
    }
    std::vector<Frame> frames;
};

// The packets a frame stands for, cut by the reference and compared with the product's own
// segmenter.
std::vector<Bytes> packets_of(const Frame& frame) {
    if (frame.offload.gso == GsoType::None) {
        Bytes packet = frame.packet;
        if (frame.offload.partial_checksum) {
            test::set_checksums(packet);
        }
        return {packet};
    }
    EXPECT_TRUE(frame.offload.partial_checksum);
    std::vector<Bytes> packets = test::cut(frame.packet, frame.offload);
    EXPECT_GE(packets.size(), 2U);
    EXPECT_EQ(segment_count(frame.packet, frame.offload), packets.size());
    for (size_t i = 0; i < packets.size(); ++i) {
        Bytes segment(2000);
        segment.resize(
            write_segment(frame.packet, frame.offload, static_cast<uint32_t>(i), segment));
        EXPECT_EQ(segment, packets[i]) << i;
    }
    return packets;
}

// Feeds a coalescer and keeps what must come out of it, by flow.
class CoalescerTest : public testing::Test {
  protected:
    void add(const HeaderFields& fields, const Bytes& payload, void* owner = nullptr) {
        const HeaderFields& f = fields;
        expected_[key(f.source_port, f.protocol)].push_back(test::make_packet(fields, payload));
        bytes_ += expected_[key(f.source_port, f.protocol)].back().size();
        payload_bytes_ += payload.size();
        ++added_;
        coalescer_.add(fields, payload, owner);
    }
    // `count` segments that follow `fields`, which is moved on.
    void add_run(HeaderFields& fields, size_t count, size_t payload_bytes) {
        for (size_t i = 0; i < count; ++i) {
            add(fields, test::random_bytes(random_, payload_bytes));
            step(fields, payload_bytes);
        }
    }
    static void step(HeaderFields& fields, size_t payload_bytes) {
        fields.sequence = static_cast<uint32_t>(fields.sequence + payload_bytes);
        if (fields.source.is_v4()) {
            ++fields.ip_id;
        }
    }
    // Everything that was added came out, per flow in order and byte for byte.
    void expect_all_out() {
        coalescer_.flush();
        std::map<uint32_t, std::vector<Bytes>> got;
        uint64_t packets = 0;
        uint64_t bytes = 0;
        uint64_t payload_bytes = 0;
        for (const Frame& frame : sink_.frames) {
            const std::vector<Bytes> cut = packets_of(frame);
            EXPECT_EQ(frame.info.packets, cut.size());
            packets += frame.info.packets;
            bytes += frame.info.inner_bytes;
            payload_bytes += frame.info.payload_bytes;
            for (const Bytes& packet : cut) {
                const size_t ip_bytes = packet[0] >> 4 == 4 ? 20 : 40;
                const uint8_t protocol = packet[0] >> 4 == 4 ? packet[9] : packet[6];
                const bool is_echo = protocol == 1 || protocol == 58;
                const auto port =
                    base::load_big_endian<uint16_t>(packet.data() + ip_bytes + (is_echo ? 4 : 0));
                got[key(port, static_cast<Protocol>(protocol))].push_back(packet);
            }
        }
        EXPECT_EQ(got, expected_);
        EXPECT_EQ(packets, added_);
        EXPECT_EQ(bytes, bytes_);
        EXPECT_EQ(payload_bytes, payload_bytes_);
        EXPECT_EQ(coalescer_.segments(), added_);
        EXPECT_EQ(coalescer_.frames(), sink_.frames.size());
        EXPECT_EQ(coalescer_.refused(), 0U);
    }
    std::vector<uint32_t> frame_sizes() const {
        std::vector<uint32_t> sizes;
        for (const Frame& frame : sink_.frames) {
            sizes.push_back(frame.info.packets);
        }
        return sizes;
    }
    static uint32_t key(uint16_t port, Protocol protocol) {
        return static_cast<uint32_t>(protocol) << 16 | port;
    }

    base::SeededRandom random_{41};
    RecordingSink sink_;
    Coalescer coalescer_{sink_, true};
    std::map<uint32_t, std::vector<Bytes>> expected_;
    uint64_t added_ = 0;
    uint64_t bytes_ = 0;
    uint64_t payload_bytes_ = 0;
};

using Sizes = std::vector<uint32_t>;

TEST_F(CoalescerTest, TcpRunBecomesOneFrame) {
    for (const bool is_v4 : {true, false}) {
        HeaderFields fields = test::plain_fields(Protocol::Tcp, is_v4);
        fields.source_port = is_v4 ? 1 : 2;
        add_run(fields, 20, 1400);
        fields.flags |= tcp_flag::kPsh;
        add(fields, Bytes(77, 1));
    }
    EXPECT_EQ(frame_sizes(), (Sizes{21, 21})) << "PSH must not wait for the flush";
    EXPECT_EQ(sink_.frames[0].offload.gso, GsoType::Tcp4);
    EXPECT_EQ(sink_.frames[1].offload.gso, GsoType::Tcp6);
    for (const Frame& frame : sink_.frames) {
        EXPECT_EQ(frame.offload.segment_bytes, 1400);
        EXPECT_EQ(frame.offload.checksum_offset, 16);
    }
    EXPECT_EQ(sink_.frames[0].offload.checksum_start, 20);
    EXPECT_EQ(sink_.frames[0].offload.header_bytes, 52);
    EXPECT_EQ(sink_.frames[1].offload.checksum_start, 40);
    EXPECT_EQ(sink_.frames[1].offload.header_bytes, 72);
    expect_all_out();
}

TEST_F(CoalescerTest, UdpRunBecomesOneFrame) {
    for (const bool is_v4 : {true, false}) {
        HeaderFields fields = test::plain_fields(Protocol::Udp, is_v4);
        fields.source_port = is_v4 ? 1 : 2;
        add_run(fields, 10, 100);
        add_run(fields, 1, 40);
    }
    EXPECT_EQ(frame_sizes(), (Sizes{11, 11}));
    EXPECT_EQ(sink_.frames[0].offload.gso, GsoType::Udp);
    EXPECT_EQ(sink_.frames[0].offload.checksum_offset, 6);
    EXPECT_EQ(sink_.frames[0].offload.segment_bytes, 100);
    expect_all_out();
}

TEST_F(CoalescerTest, WithoutUsoUdpStaysSingle) {
    Coalescer coalescer(sink_, false);
    HeaderFields fields = test::plain_fields(Protocol::Udp, true);
    for (int i = 0; i < 5; ++i) {
        coalescer.add(fields, Bytes(100), nullptr);
        step(fields, 100);
    }
    EXPECT_EQ(frame_sizes(), (Sizes{1, 1, 1, 1, 1}));
    EXPECT_EQ(coalescer.segments(), 5U);
    EXPECT_EQ(coalescer.frames(), 5U);
}

TEST_F(CoalescerTest, SingleSegmentHasNoGsoType) {
    HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
    add_run(fields, 1, 500);
    expect_all_out();
    ASSERT_EQ(sink_.frames.size(), 1U);
    EXPECT_EQ(sink_.frames[0].offload.gso, GsoType::None);
    EXPECT_TRUE(sink_.frames[0].offload.partial_checksum);
    EXPECT_EQ(sink_.frames[0].offload.checksum_start, 20);
    EXPECT_EQ(sink_.frames[0].offload.checksum_offset, 16);
}

TEST_F(CoalescerTest, InterleavedFlowsStillCoalesce) {
    std::vector<HeaderFields> flows(8, test::plain_fields(Protocol::Tcp, true));
    for (size_t i = 0; i < flows.size(); ++i) {
        flows[i].source_port = static_cast<uint16_t>(1000 + i);
    }
    for (int round = 0; round < 30; ++round) {
        for (HeaderFields& flow : flows) {
            add_run(flow, 1, 1400);
        }
    }
    EXPECT_TRUE(sink_.frames.empty());
    expect_all_out();
    EXPECT_EQ(frame_sizes(), Sizes(8, 30));
    for (size_t i = 0; i < flows.size(); ++i) {
        const uint8_t* ports = sink_.frames[i].packet.data() + 20;
        EXPECT_EQ(base::load_big_endian<uint16_t>(ports), 1000 + i) << "order of opening";
    }
}

TEST_F(CoalescerTest, NinthFlowPushesTheOldestOut) {
    for (uint16_t i = 0; i < 9; ++i) {
        HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
        fields.source_port = static_cast<uint16_t>(100 + i);
        add_run(fields, 2, 1000);
    }
    ASSERT_EQ(frame_sizes(), Sizes{2});
    EXPECT_EQ(base::load_big_endian<uint16_t>(sink_.frames[0].packet.data() + 20), 100);
    expect_all_out();
}

TEST_F(CoalescerTest, LongRunsAreSplitAtTheLimits) {
    HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
    add_run(fields, 100, 1448);  // 45 fit 65535 bytes
    fields = test::plain_fields(Protocol::Udp, false);
    add_run(fields, 130, 100);
    expect_all_out();
    EXPECT_EQ(frame_sizes(), (Sizes{45, 45, 64, 64, 10, 2}));
}

TEST_F(CoalescerTest, FrameMayBeExactlyAsLongAsAnIpPacket) {
    HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
    add_run(fields, 60, 1091);  // 60 * 1091 + 52 = 65512
    add_run(fields, 1, 23);
    EXPECT_EQ(frame_sizes(), Sizes{61});
    EXPECT_EQ(sink_.frames[0].packet.size(), 65535U);
    expect_all_out();
}

TEST_F(CoalescerTest, LongerSegmentOpensANewRun) {
    HeaderFields fields = test::plain_fields(Protocol::Udp, true);
    add_run(fields, 3, 100);
    add_run(fields, 2, 101);
    expect_all_out();
    EXPECT_EQ(frame_sizes(), (Sizes{3, 2}));
}

TEST_F(CoalescerTest, PureAcknowledgementsAreNeverMergedAndKeepTheirPlace) {
    HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
    add_run(fields, 2, 1000);
    add_run(fields, 2, 0);
    add_run(fields, 2, 1000);
    expect_all_out();
    EXPECT_EQ(frame_sizes(), (Sizes{2, 1, 1, 2}));
}

TEST_F(CoalescerTest, EmptyDatagramIsNotLost) {
    HeaderFields fields = test::plain_fields(Protocol::Udp, true);
    add_run(fields, 2, 10);
    add_run(fields, 2, 0);
    expect_all_out();
    EXPECT_EQ(frame_sizes(), (Sizes{2, 1, 1}));
}

TEST_F(CoalescerTest, EchoIsNeverMerged) {
    for (const bool is_v4 : {true, false}) {
        HeaderFields fields = test::plain_fields(is_v4 ? Protocol::Icmp : Protocol::IcmpV6, is_v4);
        add_run(fields, 3, 56);
    }
    EXPECT_EQ(frame_sizes(), Sizes(6, 1));
    for (const Frame& frame : sink_.frames) {
        EXPECT_FALSE(frame.offload.partial_checksum);
    }
    expect_all_out();
}

TEST_F(CoalescerTest, DatagramsWithoutChecksumAreNotMerged) {
    HeaderFields fields = test::plain_fields(Protocol::Udp, true);
    add_run(fields, 2, 100);
    fields.zero_checksum = true;
    add_run(fields, 2, 100);
    expect_all_out();
    EXPECT_EQ(frame_sizes(), (Sizes{2, 1, 1}));
    EXPECT_FALSE(sink_.frames[1].offload.partial_checksum);
}

// The identifier stands still: the kernel could not make that again.
TEST_F(CoalescerTest, FixedIdentifiersAreNotMerged) {
    HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
    for (int i = 0; i < 3; ++i) {
        fields.ip_id = 0;
        add_run(fields, 1, 1000);
    }
    expect_all_out();
    EXPECT_EQ(frame_sizes(), (Sizes{1, 1, 1}));
}

// Each change of one field must end the run before it; bytes and order stay right.
TEST_F(CoalescerTest, EveryFieldThatTheKernelWouldNotMakeAgainEndsTheRun) {
    const std::vector<void (*)(HeaderFields&)> changes = {
        [](HeaderFields& f) { f.tos ^= 1; },
        [](HeaderFields& f) { f.ttl ^= 1; },
        [](HeaderFields& f) { f.dont_fragment = !f.dont_fragment; },
        [](HeaderFields& f) { f.ip_id += 2; },
        [](HeaderFields& f) { f.sequence += 1; },
        [](HeaderFields& f) { f.sequence -= 1; },
        [](HeaderFields& f) { f.acknowledgement += 1; },
        [](HeaderFields& f) { f.window += 1; },
        [](HeaderFields& f) { f.timestamp_value += 1; },
        [](HeaderFields& f) { f.timestamp_echo += 1; },
        [](HeaderFields& f) { f.flags ^= tcp_flag::kEce; },
        [](HeaderFields& f) {
            f.has_timestamps = false;
            f.timestamp_value = f.timestamp_echo = 0;
        }};
    Sizes expected;
    for (size_t i = 0; i < changes.size(); ++i) {
        HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
        fields.source_port = static_cast<uint16_t>(2000 + i);
        add_run(fields, 3, 1200);
        changes[i](fields);
        add_run(fields, 2, 1200);
        coalescer_.flush();
        expected.insert(expected.end(), {3, 2});
    }
    HeaderFields fields = test::plain_fields(Protocol::Udp, false);
    add_run(fields, 3, 1200);
    fields.flow_label ^= 1;
    add_run(fields, 2, 1200);
    expected.insert(expected.end(), {3, 2});
    expect_all_out();
    EXPECT_EQ(frame_sizes(), expected);
}

TEST_F(CoalescerTest, FlagsThatMustStayAloneDo) {
    for (const uint8_t flag : {tcp_flag::kSyn, tcp_flag::kRst, tcp_flag::kCwr}) {
        HeaderFields fields = test::plain_fields(Protocol::Tcp, false);
        add_run(fields, 2, 700);
        fields.flags |= flag;
        add_run(fields, 2, 700);
        fields.flags = tcp_flag::kAck;
        add_run(fields, 2, 700);
        coalescer_.flush();
    }
    EXPECT_EQ(frame_sizes(), (Sizes{2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2}));
    expect_all_out();
}

TEST_F(CoalescerTest, FinStaysInTheLastSegment) {
    HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
    add_run(fields, 4, 1300);
    fields.flags |= tcp_flag::kFin | tcp_flag::kPsh;
    add_run(fields, 1, 1300);
    EXPECT_EQ(frame_sizes(), Sizes{5});
    expect_all_out();
}

TEST_F(CoalescerTest, WholePacketKeepsItsPlaceInTheFlow) {
    int one = 0;
    int other = 0;
    HeaderFields first = test::plain_fields(Protocol::Tcp, true);
    HeaderFields second = first;
    second.source_port = 99;
    coalescer_.add(first, Bytes(100), &one);
    coalescer_.add(second, Bytes(100), &other);
    const Bytes whole = test::make_packet(first, Bytes(5, 5));
    coalescer_.add_whole(whole, &one, 5);
    ASSERT_EQ(sink_.frames.size(), 2U);
    EXPECT_EQ(sink_.frames[0].info.owner, &one);
    EXPECT_EQ(sink_.frames[1].packet, whole);
    EXPECT_EQ(sink_.frames[1].info.inner_bytes, whole.size());
    EXPECT_EQ(sink_.frames[1].info.payload_bytes, 5U);
    EXPECT_FALSE(sink_.frames[1].offload.partial_checksum);
    coalescer_.add_whole(whole, nullptr, 5);
    ASSERT_EQ(sink_.frames.size(), 4U) << "of unknown flow: all goes first";
    EXPECT_EQ(sink_.frames[2].info.owner, &other);
    EXPECT_EQ(coalescer_.segments(), 4U);
}

TEST_F(CoalescerTest, AnotherOwnerEndsTheRun) {
    int one = 0;
    int other = 0;
    HeaderFields fields = test::plain_fields(Protocol::Udp, true);
    coalescer_.add(fields, Bytes(100), &one);
    step(fields, 100);
    coalescer_.add(fields, Bytes(100), &other);
    coalescer_.flush();
    ASSERT_EQ(sink_.frames.size(), 2U);
    EXPECT_EQ(sink_.frames[0].info.owner, &one);
    EXPECT_EQ(sink_.frames[1].info.owner, &other);
}

TEST_F(CoalescerTest, WhatIsNoIpPacketIsRefusedAndCounted) {
    HeaderFields fields = test::plain_fields(Protocol::Udp, true);
    coalescer_.add(fields, Bytes(65535 - 27), nullptr);
    coalescer_.add_whole(Bytes(65536), nullptr, 0);
    coalescer_.add_whole({}, nullptr, 0);
    fields.destination = test::address("2001:db8::1");
    coalescer_.add(fields, Bytes(10), nullptr);
    coalescer_.flush();
    EXPECT_EQ(coalescer_.refused(), 4U);
    EXPECT_TRUE(sink_.frames.empty());
    fields = test::plain_fields(Protocol::Udp, true);
    add(fields, Bytes(65535 - 28, 7));
    coalescer_.flush();
    EXPECT_EQ(sink_.frames.size(), 1U);
}

TEST_F(CoalescerTest, RandomTrafficComesOutAsItWentIn) {
    constexpr size_t kFlows = 12;
    std::vector<HeaderFields> flows;
    for (uint16_t i = 0; i < kFlows; ++i) {
        const Protocol protocol = i % 3 == 0 ? Protocol::Udp : Protocol::Tcp;
        flows.push_back(test::plain_fields(protocol, i % 2 == 0));
        flows.back().source_port = static_cast<uint16_t>(3000 + i);
    }
    for (int round = 0; round < 20000; ++round) {
        // Mostly a few flows; now and then more of them than there are runs.
        const size_t active = round % 1000 < 900 ? 4 : kFlows;
        HeaderFields& fields = flows[random_.below(active)];
        HeaderFields sent = fields;
        size_t bytes = 600;
        switch (random_.below(40)) {
        case 0:
            bytes = random_.below(1400);
            break;
        case 1:
            fields.tos ^= 1;
            sent = fields;
            break;
        case 2:
            if (fields.protocol == Protocol::Tcp) {
                sent.flags |= static_cast<uint8_t>(random_.u64() & 0xDF);
            }
            break;
        case 3:
            step(fields, 600);  // one was lost
            sent = fields;
            break;
        case 4:
            coalescer_.flush();
            break;
        default:
            break;
        }
        add(sent, test::random_bytes(random_, bytes));
        step(fields, bytes);
    }
    expect_all_out();
    EXPECT_GT(coalescer_.segments(), 3 * coalescer_.frames());
}

TEST(VnetHeader, IsReadAsItWasWritten) {
    Offload offload;
    offload.gso = GsoType::Udp;
    offload.segment_bytes = 1200;
    offload.header_bytes = 48;
    offload.partial_checksum = true;
    offload.checksum_start = 40;
    offload.checksum_offset = 6;
    Bytes frame(kVnetHeaderBytes);
    write_vnet_header(offload, frame);
    EXPECT_EQ(frame[0], 1);
    EXPECT_EQ(frame[1], 5);
    Offload read;
    ASSERT_TRUE(parse_vnet_header(frame, read));
    EXPECT_EQ(read.gso, offload.gso);
    EXPECT_EQ(read.segment_bytes, 1200);
    EXPECT_EQ(read.header_bytes, 48);
    EXPECT_TRUE(read.partial_checksum);
    EXPECT_EQ(read.checksum_start, 40);
    EXPECT_EQ(read.checksum_offset, 6);
}

TEST(VnetHeader, TypeCodesAreThoseOfTheKernel) {
    const auto type_of = [](uint8_t code, uint8_t gso_bytes) -> std::optional<GsoType> {
        Bytes frame(kVnetHeaderBytes);
        frame[1] = code;
        frame[4] = gso_bytes;
        Offload offload;
        return parse_vnet_header(frame, offload) ? std::optional(offload.gso) : std::nullopt;
    };
    EXPECT_EQ(type_of(0, 0), GsoType::None);
    EXPECT_EQ(type_of(1, 9), GsoType::Tcp4);
    EXPECT_EQ(type_of(0x81, 9), GsoType::Tcp4) << "ECN bit";
    EXPECT_EQ(type_of(4, 9), GsoType::Tcp6);
    EXPECT_EQ(type_of(0x84, 9), GsoType::Tcp6);
    EXPECT_EQ(type_of(5, 9), GsoType::Udp);
    EXPECT_EQ(type_of(3, 9), std::nullopt) << "UFO was not asked for";
    EXPECT_EQ(type_of(1, 0), std::nullopt) << "no segment length";
    Offload offload;
    EXPECT_FALSE(parse_vnet_header(Bytes(kVnetHeaderBytes - 1), offload));
}

}  // namespace
}  // namespace continuo::packet
