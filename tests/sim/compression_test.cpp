// Super-packets that compress are cut into segments and compressed while the processor allows it,
// in virtual time: packets come out in order and unchanged, at a fraction of the bytes.
#include "common/packet/segmenter.hpp"
#include "tests/support/session_pair.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::Duration;
using base::milliseconds;
using base::TrafficClass;
using packet::GsoType;
using packet::HeaderFields;
using packet::Protocol;

using Packets = std::vector<std::vector<uint8_t>>;

constexpr uint16_t kSegment = 1400;
constexpr TrafficClass kClass = TrafficClass::HtHd;

// Words of a small vocabulary: about as compressible as a text in a language.
std::vector<uint8_t> text(base::Random& random, size_t bytes) {
    static constexpr std::array<std::string_view, 16> kWords{
        "the ",   "node ",    "moves ",   "between ", "gateways ", "and ",
        "its ",   "flows ",   "continue", ", which ", "nothing ",  "notices; ",
        "while ", "packets ", "are ",     "carried. "};
    std::vector<uint8_t> written;
    while (written.size() < bytes) {
        std::string word(kWords[random.below(kWords.size())]);
        word += random.below(4) == 0 ? std::to_string(random.below(10'000)) : "";
        written.insert(written.end(), word.begin(), word.end());
    }
    written.resize(bytes);
    return written;
}

std::vector<uint8_t> noise(base::Random& random, size_t bytes) {
    std::vector<uint8_t> written(bytes);
    random.fill(written);
    return written;
}

// A stream from the node, in super-packets, and the packets that SNAPT must deliver.
class Sender {
  public:
    Sender(SessionPair& pair, GsoType type) : pair_(pair), type_(type) {
        const bool is_v6 = type == GsoType::Tcp6;
        tuple_.local = *base::IpAddress::parse(is_v6 ? "64:ff9b:1::c000:5" : "192.0.0.5");
        tuple_.remote = *base::IpAddress::parse(is_v6 ? "2001:db8::80" : "198.51.100.2");
        tuple_.local_port = 5000;
        tuple_.remote_port = 80;
        tuple_.protocol = type == GsoType::Udp ? Protocol::Udp : Protocol::Tcp;
        fields_.source = tuple_.local;
        fields_.destination = tuple_.remote;
        fields_.protocol = tuple_.protocol;
        fields_.source_port = tuple_.local_port;
        fields_.destination_port = tuple_.remote_port;
        fields_.ttl = 64;
        fields_.dont_fragment = !is_v6;
        if (tuple_.protocol == Protocol::Tcp) {
            fields_.flags = packet::tcp_flag::kAck;
            fields_.has_timestamps = true;
            fields_.window = 500;
        }
    }

    flow::Flow& flow() { return pair_.node.flow(tuple_, kClass); }

    void send(const std::vector<uint8_t>& payload) {
        const bool is_tcp = tuple_.protocol == Protocol::Tcp;
        packet::Offload offload;
        const size_t headers = fields_.header_bytes();
        const size_t segments = (payload.size() + kSegment - 1) / kSegment;
        if (segments > 1) {
            offload.gso = type_;
            offload.segment_bytes = kSegment;
        }
        offload.header_bytes = static_cast<uint16_t>(headers);
        offload.partial_checksum = true;
        offload.checksum_start = fields_.source.is_v4() ? 20 : 40;
        offload.checksum_offset = is_tcp ? 16 : 6;
        HeaderFields whole = fields_;
        whole.flags |= is_tcp ? packet::tcp_flag::kPsh : 0;
        std::vector<uint8_t> bytes(headers + payload.size());
        packet::write_headers(whole, payload, true, bytes);
        std::copy(payload.begin(), payload.end(), bytes.begin() + static_cast<ptrdiff_t>(headers));
        pair_.node.send(flow(), bytes, offload, pair_.now);
        expect(payload, segments);
        fields_.sequence += is_tcp ? static_cast<uint32_t>(payload.size()) : 0;
        fields_.timestamp_value += is_tcp ? 1 : 0;
        if (fields_.source.is_v4()) {
            fields_.ip_id = static_cast<uint16_t>(fields_.ip_id + segments);
        }
    }

    Packets expected;

  private:
    void expect(const std::vector<uint8_t>& payload, size_t segments) {
        for (size_t i = 0; i < segments; ++i) {
            HeaderFields segment = fields_;
            segment.source =
                *base::IpAddress::parse(segment.source.is_v4() ? "100.64.0.2" : "fd93:47::2");
            if (tuple_.protocol == Protocol::Tcp) {
                segment.sequence += static_cast<uint32_t>(i * kSegment);
                segment.flags |= i + 1 == segments ? packet::tcp_flag::kPsh : 0;
            }
            if (segment.source.is_v4()) {
                segment.ip_id = static_cast<uint16_t>(fields_.ip_id + i);
            }
            const size_t at = i * kSegment;
            expected.push_back(
                make_packet(segment, base::ByteView(payload).subspan(
                                         at, std::min<size_t>(kSegment, payload.size() - at))));
        }
    }

    SessionPair& pair_;
    GsoType type_;
    packet::FiveTuple tuple_;
    HeaderFields fields_;
};

const session::ClassCounters& sent(const SessionPair& pair) {
    return pair.node.session->queues().counters(kClass);
}

void set_compression(SessionPair& pair, int level, bool is_automatic) {
    auto classes = pair.node.session->settings().classes;
    for (session::ClassSettings& settings : classes) {
        settings.compression_level = level;
        settings.is_compression_automatic = is_automatic;
    }
    pair.node.session->set_class_settings(classes);
}

// `count` super-packets of `segments`, one every `gap`.
void send_text(SessionPair& pair, Sender& sender, size_t count, size_t segments, Duration gap) {
    for (size_t i = 0; i < count; ++i) {
        sender.send(text(pair.random, segments * kSegment));
        pair.run_for(gap);
    }
}

struct Kind {
    GsoType type;
    crypto::Protection protection;
};

class SuperPacketSim : public testing::TestWithParam<Kind> {};

TEST_P(SuperPacketSim, TextIsCompressedAndArrivesAsItsSegments) {
    SessionPair pair({}, 1, GetParam().protection);
    Sender sender(pair, GetParam().type);
    for (size_t i = 0; i < 100; ++i) {
        sender.send(text(pair.random, 1 + pair.random.below(30 * kSegment)));
        pair.run_for(milliseconds(5));
    }
    pair.run_for(base::seconds(1));
    EXPECT_TRUE(pair.snapt.delivered == sender.expected);
    EXPECT_EQ(sent(pair).super_packets, 0U);
    EXPECT_LT(sent(pair).wire_bytes, sent(pair).inner_bytes * 6 / 10);
}

INSTANTIATE_TEST_SUITE_P(TypesAndProtections,
                         SuperPacketSim,
                         testing::Values(Kind{GsoType::Tcp4, crypto::Protection::Aes256Gcm},
                                         Kind{GsoType::Tcp6, crypto::Protection::Aes256Gcm},
                                         Kind{GsoType::Udp, crypto::Protection::Aes256Gcm},
                                         Kind{GsoType::Tcp4, crypto::Protection::HmacSha256},
                                         Kind{GsoType::Tcp6, crypto::Protection::HmacSha256}));

// Two of three segments fit a datagram: the third must not travel alone just because the next
// super-packet begins behind it.
TEST(CompressionSim, SegmentsOfSeveralSuperPacketsShareDatagrams) {
    SessionPair pair({});
    Sender sender(pair, GsoType::Tcp4);
    for (size_t i = 0; i < 100; ++i) {
        for (size_t burst = 0; burst < 4; ++burst) {
            sender.send(text(pair.random, 3 * kSegment));
        }
        pair.run_for(milliseconds(10));
    }
    pair.run_for(base::seconds(1));
    EXPECT_TRUE(pair.snapt.delivered == sender.expected);
    EXPECT_LT(sent(pair).packets_alone, sent(pair).datagrams / 5);
}

TEST(CompressionSim, SuperPacketsAndOthersOfAFlowKeepTheirOrderWhateverCompresses) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        SessionPair pair({}, seed);
        Sender sender(pair, GsoType::Tcp4);
        for (size_t i = 0; i < 200; ++i) {
            const size_t bytes = pair.random.below(2) == 0 ? 1 + pair.random.below(kSegment)
                                                           : 1 + pair.random.below(20 * kSegment);
            sender.send(pair.random.below(2) == 0 ? text(pair.random, bytes)
                                                  : noise(pair.random, bytes));
            if (pair.random.below(3) == 0) {
                pair.run_for(milliseconds(static_cast<int64_t>(pair.random.below(20))));
            }
        }
        pair.run_for(base::seconds(1));
        EXPECT_TRUE(pair.snapt.delivered == sender.expected) << "seed " << seed;
        EXPECT_GT(sent(pair).super_packets, 20U);
        EXPECT_GT(sent(pair).compressed_sections, 20U);
    }
}

TEST(CompressionSim, RandomBytesLeaveAsSuperPackets) {
    SessionPair pair({});
    Sender sender(pair, GsoType::Tcp4);
    for (size_t i = 0; i < 50; ++i) {
        sender.send(noise(pair.random, 20 * kSegment));
        pair.run_for(milliseconds(30));
    }
    EXPECT_TRUE(pair.snapt.delivered == sender.expected);
    EXPECT_EQ(sent(pair).compressed_sections, 0U);
    EXPECT_GE(sent(pair).super_packets, 45U) << "contexts must be there after the first round trip";
}

TEST(CompressionSim, AStreamThatIsFasterThanTheProcessorLeavesAsItIs) {
    SessionPair pair({});
    Sender sender(pair, GsoType::Tcp4);
    send_text(pair, sender, 20, 4, milliseconds(30));  // the flow's context is there
    EXPECT_EQ(sent(pair).super_packets, 0U);
    send_text(pair, sender, 300, 40, milliseconds(1));  // 56 MB/s
    EXPECT_GT(sent(pair).super_packets, 200U);
    pair.run_for(milliseconds(400));
    const uint64_t fast = sent(pair).super_packets;
    send_text(pair, sender, 20, 4, milliseconds(30));
    EXPECT_EQ(sent(pair).super_packets, fast) << "compressed again";
    pair.run_for(base::seconds(1));
    EXPECT_TRUE(pair.snapt.delivered == sender.expected);
}

TEST(CompressionSim, AFullPathIsCompressedForThoughItTakesMoreOfTheProcessor) {
    SimLink link;
    link.bits_per_s = 150'000'000;
    link.queue_packets = 2000;
    SessionPair pair(link);
    Sender sender(pair, GsoType::Tcp4);
    send_text(pair, sender, 20, 4, milliseconds(30));
    send_text(pair, sender, 700, 23, milliseconds(1));  // 32 MB/s, of which 19 fit
    const session::ClassCounters before = sent(pair);
    send_text(pair, sender, 100, 23, milliseconds(1));
    EXPECT_EQ(sent(pair).super_packets, before.super_packets);
    EXPECT_LT(sent(pair).wire_bytes - before.wire_bytes,
              (sent(pair).inner_bytes - before.inner_bytes) * 6 / 10);
}

struct Upload {
    const char* name;
    std::vector<uint8_t> (*payload)(size_t bytes);
    size_t segments;
};

// An upload that compresses to almost nothing is no flood: a node keeps within what the SNAPT takes
// (docs/PROTOCOL.md section 7.1).
TEST(CompressionSim, AnUploadThatCompressesExtremelyWellIsAsFastAsAny) {
    const auto zeros = [](size_t bytes) { return std::vector<uint8_t>(bytes); };
    const auto log_lines = [](size_t bytes) {
        constexpr std::string_view kLine = "Nov 27 17:00:00 host daemon[4711]: nothing to do\n";
        std::vector<uint8_t> lines(bytes);
        for (size_t i = 0; i < bytes; ++i) {
            lines[i] = static_cast<uint8_t>(kLine[i % kLine.size()]);
        }
        return lines;
    };
    constexpr size_t kSegments = 7;  // a millisecond
    constexpr size_t kMilliseconds = 3000;
    for (const Upload& upload :
         {Upload{"zeros", zeros, 1}, Upload{"zeros, super-packets", zeros, kSegments},
          Upload{"log lines", log_lines, 1},
          Upload{"log lines, super-packets", log_lines, kSegments}}) {
        SessionPair pair({});
        Sender sender(pair, GsoType::Tcp4);
        for (size_t i = 0; i < kMilliseconds; ++i) {
            for (size_t sent = 0; sent < kSegments; sent += upload.segments) {
                sender.send(upload.payload(upload.segments * kSegment));
            }
            pair.run_for(milliseconds(1));
        }
        const size_t in_time = pair.snapt.delivered.size();
        pair.run_for(base::seconds(1));
        RecordProperty(upload.name,
                       std::to_string(in_time * kSegment * 8 / kMilliseconds / 1000) + " Mbit/s");
        EXPECT_TRUE(pair.snapt.delivered == sender.expected) << upload.name;
        EXPECT_EQ(pair.snapt.session->drops().count(base::DropReason::InflationLimit), 0U)
            << upload.name;
        EXPECT_LT(sent(pair).wire_bytes * 12, sent(pair).inner_bytes) << upload.name;
    }
}

// It could not travel alone either.
TEST(CompressionSim, PacketsOfZerosThatAreLongerThanAnyPathTakesArriveAsWell) {
    SessionPair pair({});
    Sender sender(pair, GsoType::Udp);
    HeaderFields fields;
    fields.source = sender.flow().tuple.local;
    fields.destination = sender.flow().tuple.remote;
    fields.protocol = Protocol::Udp;
    fields.source_port = sender.flow().tuple.local_port;
    fields.destination_port = sender.flow().tuple.remote_port;
    fields.ttl = 64;
    const auto packet = make_packet(fields, std::vector<uint8_t>(8900));
    constexpr size_t kPackets = 2000;
    for (size_t i = 0; i < kPackets; ++i) {
        pair.node.send(sender.flow(), packet, {}, pair.now);
        pair.run_for(milliseconds(1));
    }
    pair.run_for(base::seconds(1));
    EXPECT_EQ(pair.snapt.delivered.size(), kPackets);
    EXPECT_EQ(pair.snapt.session->drops().count(base::DropReason::InflationLimit), 0U);
}

TEST(CompressionSim, PolicyAndSettingsSwitchItOffOrOn) {
    struct Row {
        int level;
        bool is_automatic;
        bool may_compress;
        bool is_fast;
        bool is_compressed;
    };
    const Row rows[] = {{3, true, true, false, true},  {3, true, false, false, false},
                        {0, true, true, false, false}, {0, false, true, false, false},
                        {3, true, true, true, false},  {3, false, true, true, true}};
    for (const Row& row : rows) {
        SessionPair pair({});
        set_compression(pair, row.level, row.is_automatic);
        Sender sender(pair, GsoType::Tcp4);
        sender.flow().may_compress = row.may_compress;
        send_text(pair, sender, 20, 4, milliseconds(30));
        const session::ClassCounters before = sent(pair);
        send_text(pair, sender, 100, 40, row.is_fast ? milliseconds(1) : milliseconds(30));
        pair.run_for(base::seconds(1));
        EXPECT_TRUE(pair.snapt.delivered == sender.expected);
        EXPECT_EQ(sent(pair).super_packets - before.super_packets < 20, row.is_compressed)
            << row.level << row.is_automatic << row.may_compress << row.is_fast;
    }
}

TEST(CompressionSim, WithoutPacketsForTheSegmentsASuperPacketLeavesAsItIs) {
    SessionPair pair({});
    Sender sender(pair, GsoType::Tcp4);
    send_text(pair, sender, 5, 4, milliseconds(30));
    std::vector<packet::PacketPtr> taken;
    while (auto packet = pair.node.pool.take(packet::kSmallBufferBytes)) {
        taken.push_back(std::move(packet));
    }
    taken.resize(taken.size() - 10);
    send_text(pair, sender, 20, 40, milliseconds(30));
    EXPECT_EQ(sent(pair).super_packets, 20U);
    taken.clear();
    send_text(pair, sender, 20, 40, milliseconds(30));
    EXPECT_EQ(sent(pair).super_packets, 20U);
    pair.run_for(base::seconds(1));
    EXPECT_TRUE(pair.snapt.delivered == sender.expected);
}

}  // namespace
}  // namespace continuo::tests
