// Real captures, read where they are present beside the source tree.
#include "common/packet/rewrite.hpp"
#include "tests/unit/packet/packet_support.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace continuo::packet {
namespace {

using test::Bytes;

constexpr size_t kFileHeaderBytes = 24;
constexpr size_t kRecordHeaderBytes = 16;
constexpr uint32_t kLinkEthernet = 1;

uint32_t load_little_endian(const uint8_t* from) {
    return __builtin_bswap32(base::load_big_endian<uint32_t>(from));
}

// IP packets of a little-endian pcap file with link type Ethernet or raw IP, without link-layer
// padding.
std::vector<Bytes> read_capture(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const Bytes bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::vector<Bytes> packets;
    if (bytes.size() < kFileHeaderBytes || load_little_endian(bytes.data()) != 0xA1B2C3D4) {
        ADD_FAILURE() << "not a little-endian pcap file: " << path;
        return packets;
    }
    const size_t link_bytes = load_little_endian(bytes.data() + 20) == kLinkEthernet ? 14 : 0;
    size_t at = kFileHeaderBytes;
    while (at + kRecordHeaderBytes <= bytes.size()) {
        const size_t captured = load_little_endian(bytes.data() + at + 8);
        at += kRecordHeaderBytes;
        if (captured > bytes.size() - at || captured < link_bytes + 20) {
            break;
        }
        const uint8_t* ip = bytes.data() + at + link_bytes;
        const bool is_v4 = ip[0] >> 4 == 4;
        const size_t length = is_v4 ? base::load_big_endian<uint16_t>(ip + 2)
                                    : base::load_big_endian<uint16_t>(ip + 4) + size_t{40};
        packets.emplace_back(ip, ip + std::min(length, captured - link_bytes));
        at += captured;
    }
    return packets;
}

struct Counts {
    size_t packets = 0;
    size_t summarized = 0;
    size_t regular = 0;
};

// Some captures were made on the sending host, before the checksum was completed.
Offload partial_udp() {
    Offload offload;
    offload.partial_checksum = true;
    offload.checksum_start = 20;
    offload.checksum_offset = 6;
    return offload;
}

// Is the packet regular, and does writing it again give its bytes?
bool is_restored(const Bytes& packet) {
    if (const auto whole = parse_regular(packet, Offload{})) {
        EXPECT_EQ(test::make_packet(whole->fields, whole->payload), packet);
        return true;
    }
    const auto partial = parse_regular(packet, partial_udp());
    return partial && test::make_packet(partial->fields, partial->payload, true) == packet;
}

Counts examine(const std::filesystem::path& path) {
    Counts counts;
    for (const Bytes& packet : read_capture(path)) {
        ++counts.packets;
        const SummaryResult result = summarize(packet, NodeSide::Source);
        counts.summarized += result.summary ? 1U : 0U;
        if (is_restored(packet)) {
            ++counts.regular;
            EXPECT_TRUE(result.summary.has_value());
        }
        Bytes rewritten = packet;
        const base::IpAddress any =
            base::IpAddress::any(packet[0] >> 4 == 4 ? base::IpVersion::V4 : base::IpVersion::V6);
        if (result.summary) {
            EXPECT_TRUE(rewrite_node_address(rewritten, NodeSide::Source, any, false));
            EXPECT_TRUE(rewrite_node_address(rewritten, NodeSide::Source,
                                             result.summary->tuple.local, false));
            EXPECT_EQ(rewritten, packet);
        }
    }
    return counts;
}

struct Expectation {
    const char* file;
    size_t least_regular_percent;
    bool is_carried;  // else: a protocol that is not
};

class Capture : public testing::TestWithParam<Expectation> {};

TEST_P(Capture, IsSummarizedAndRestored) {
    const std::filesystem::path path =
        std::filesystem::path(CONTINUO_SOURCE_DIR "/../shared/data/pcaps") / GetParam().file;
    if (!std::filesystem::exists(path)) {
        GTEST_SKIP() << "no capture " << path;
    }
    const Counts counts = examine(path);
    EXPECT_GT(counts.packets, 0U);
    EXPECT_EQ(counts.summarized, GetParam().is_carried ? counts.packets : 0U);
    EXPECT_GE(counts.regular * 100, counts.packets * GetParam().least_regular_percent);
    RecordProperty("packets", static_cast<int>(counts.packets));
    RecordProperty("regular", static_cast<int>(counts.regular));
}

INSTANTIATE_TEST_SUITE_P(Captures,
                         Capture,
                         testing::Values(Expectation{"rfc3095-ipv4-icmp.pcap", 100, true},
                                         Expectation{"rfc3095-ipv4-ipv4-udp-rtp-video2.pcap", 0,
                                                     false},
                                         Expectation{"rfc3095-ipv4-udp-rtp-voip.pcap", 100, true},
                                         Expectation{"rfc3095-ipv6-icmp.pcap", 90, true},
                                         Expectation{"rfc3095-ipv6ext-udp.pcap", 0, true},
                                         Expectation{"rfc6846-ipv4-tcp.pcap", 40, true}));

}  // namespace
}  // namespace continuo::packet
