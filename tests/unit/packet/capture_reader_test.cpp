#include "common/packet/capture_reader.hpp"
#include "common/packet/pcapng.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::packet {
namespace {

using Bytes = std::vector<uint8_t>;

// A number of that many bytes.
template <typename T>
Bytes number(T value, bool is_little_endian) {
    Bytes bytes(sizeof(T));
    base::store_big_endian<T>(bytes.data(), value);
    if (is_little_endian) {
        std::reverse(bytes.begin(), bytes.end());
    }
    return bytes;
}

Bytes joined(std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts) {
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

// An IPv4 packet without payload, of that length.
Bytes ipv4(uint16_t length = 20) {
    Bytes packet(length, 0);
    packet[0] = 0x45;
    base::store_big_endian<uint16_t>(&packet[2], length);
    return packet;
}

Bytes ipv6(uint16_t payload) {
    Bytes packet(40U + payload, 0);
    packet[0] = 0x60;
    base::store_big_endian<uint16_t>(&packet[4], payload);
    return packet;
}

struct Record {
    uint32_t seconds = 0;
    uint32_t fraction = 0;
    Bytes bytes;
    uint32_t sent = 0;  // 0: as many
};

Bytes pcap(uint32_t link,
           const std::vector<Record>& records,
           bool is_little_endian = true,
           uint32_t magic = 0xA1B2C3D4) {
    const bool le = is_little_endian;
    Bytes file =
        joined({number<uint32_t>(magic, le), number<uint16_t>(2, le), number<uint16_t>(4, le),
                Bytes(8, 0), number<uint32_t>(262144, le), number<uint32_t>(link, le)});
    for (const Record& record : records) {
        const auto size = static_cast<uint32_t>(record.bytes.size());
        const Bytes one =
            joined({number<uint32_t>(record.seconds, le), number<uint32_t>(record.fraction, le),
                    number<uint32_t>(size, le),
                    number<uint32_t>(record.sent == 0 ? size : record.sent, le), record.bytes});
        file.insert(file.end(), one.begin(), one.end());
    }
    return file;
}

Bytes block(uint32_t type, Bytes body, bool le) {
    body.resize((body.size() + 3) / 4 * 4, 0);
    const auto length = static_cast<uint32_t>(body.size() + 12);
    return joined({number<uint32_t>(type, le), number<uint32_t>(length, le), body,
                   number<uint32_t>(length, le)});
}

Bytes section(bool le) {
    return block(0x0A0D0D0A,
                 joined({number<uint32_t>(0x1A2B3C4D, le), number<uint16_t>(1, le),
                         number<uint16_t>(0, le), Bytes(8, 0xFF)}),
                 le);
}

// `options` as in the file.
Bytes interface(uint16_t link, bool le, const Bytes& options = {}, uint32_t snap = 0) {
    return block(
        1, joined({number<uint16_t>(link, le), Bytes(2, 0), number<uint32_t>(snap, le), options}),
        le);
}

Bytes enhanced(uint32_t of, uint64_t time, const Bytes& packet, bool le, uint32_t sent = 0) {
    const auto size = static_cast<uint32_t>(packet.size());
    return block(
        6,
        joined({number<uint32_t>(of, le), number<uint32_t>(static_cast<uint32_t>(time >> 32), le),
                number<uint32_t>(static_cast<uint32_t>(time), le), number<uint32_t>(size, le),
                number<uint32_t>(sent == 0 ? size : sent, le), packet}),
        le);
}

// Packets that were read of `file`: "TIME:LENGTH[/CAPTURED]" each, and the error.
struct ReadBack {
    std::vector<std::string> packets;
    std::optional<base::Error> error;
    uint64_t frames = 0;
    uint64_t not_ip = 0;
    std::optional<uint16_t> unknown_link;
};
ReadBack read(const Bytes& file) {
    size_t at = 0;
    CaptureReader reader([&](base::MutableByteView to) {
        const size_t bytes = std::min(to.size(), file.size() - at);
        std::copy_n(file.begin() + static_cast<long>(at), bytes, to.begin());
        at += bytes;
        return bytes;
    });
    ReadBack back;
    while (true) {
        const auto packet = reader.next();
        if (!packet) {
            back.error = packet.error();
            break;
        }
        if (!*packet) {
            break;
        }
        std::string text =
            std::to_string((*packet)->at_ns) + ":" + std::to_string((*packet)->length);
        if ((*packet)->bytes.size() != (*packet)->length) {
            text += "/" + std::to_string((*packet)->bytes.size());
        }
        back.packets.push_back(text);
    }
    EXPECT_TRUE(reader.next() && !*reader.next()) << "after the end, or an error, there is nothing";
    back.frames = reader.frames();
    back.not_ip = reader.not_ip();
    back.unknown_link = reader.unknown_link();
    return back;
}
using Packets = std::vector<std::string>;

TEST(CaptureReader, ReadsPcapOfBothByteOrdersAndResolutions) {
    for (const bool le : {true, false}) {
        const Bytes us = pcap(101, {{1, 2, ipv4()}, {3, 4, ipv6(8)}}, le);
        EXPECT_EQ(read(us).packets, (Packets{"1000002000:20", "3000004000:48"}));
        EXPECT_FALSE(read(us).error);
        EXPECT_EQ(read(pcap(101, {{1, 2, ipv4()}}, le, 0xA1B23C4D)).packets,
                  Packets{"1000000002:20"});
    }
}

TEST(CaptureReader, ReadsPcapngOfBothByteOrdersAndResolutions) {
    for (const bool le : {true, false}) {
        const Bytes ns = joined({number<uint16_t>(9, le), number<uint16_t>(1, le), {9, 0, 0, 0}});
        const Bytes halves =
            joined({number<uint16_t>(9, le), number<uint16_t>(1, le), {0x81, 0, 0, 0}});
        const Bytes file = joined(
            {section(le), interface(101, le), interface(1, le, ns), interface(101, le, halves, 24),
             enhanced(0, 7'000'000'000ULL, ipv4(), le), block(5, Bytes(9, 1), le),  // statistics
             enhanced(1, 5, joined({Bytes(12, 0), {0x08, 0x00}, ipv4()}), le),
             enhanced(2, 3, ipv4(24), le, 1400), section(le), interface(101, le, {}, 22),
             block(3, joined({number<uint32_t>(30, le), ipv4(30)}), le)});
        const ReadBack back = read(file);
        EXPECT_FALSE(back.error) << back.error->where;
        EXPECT_EQ(back.packets,
                  (Packets{"7000000000000:20", "5:20", "1500000000:24", "1500000000:30/22"}));
    }
}

// A file as the daemons write it by [debug].
TEST(CaptureReader, ReadsItsOwn) {
    Bytes file = pcapng_beginning("cnapt", "cnapt0");
    const Bytes packet = ipv6(5);
    Bytes one(packet_block_bytes(packet.size()));
    const auto place = write_packet_block({CaptureInterface::Inner, CaptureDirection::Outbound, 42,
                                           static_cast<uint32_t>(packet.size())},
                                          one);
    std::copy(packet.begin(), packet.end(), place.begin());
    file.insert(file.end(), one.begin(), one.end());
    EXPECT_EQ(read(file).packets, Packets{"42:45"});
}

TEST(CaptureReader, TakesOffTheHeadersOfLinksAndTheirPadding) {
    const Bytes macs(12, 0xAA);
    const std::vector<std::pair<uint32_t, Bytes>> frames = {
        {1, joined({macs, {0x08, 0x00}, ipv4(), Bytes(26, 0)})},
        {1, joined({macs, {0x81, 0x00, 0, 5, 0x08, 0x00}, ipv4()})},
        {1, joined({macs, {0x88, 0xA8, 0, 5, 0x81, 0x00, 0, 6, 0x86, 0xDD}, ipv6(0)})},
        {1, joined({macs, {0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0x00, 0x21}, ipv4()})},
        {113, joined({Bytes(14, 0), {0x08, 0x00}, ipv4()})},
        {276, joined({{0x86, 0xDD}, Bytes(18, 0), ipv6(0)})},
        {0, joined({{2, 0, 0, 0}, ipv4()})},
        {108, joined({{0, 0, 0, 2}, ipv4()})},
        {228, ipv4()},
        {229, ipv6(0)}};
    for (const auto& [link, frame] : frames) {
        const ReadBack back = read(pcap(link, {{0, 0, frame}}));
        ASSERT_EQ(back.packets.size(), 1U) << link;
        EXPECT_TRUE(back.packets[0] == "0:20" || back.packets[0] == "0:40") << back.packets[0];
    }
}

TEST(CaptureReader, WhatIsNoIpIsCounted) {
    const Bytes arp = joined({Bytes(12, 0xFF), {0x08, 0x06}, Bytes(28, 0)});
    ReadBack back = read(pcap(1, {{0, 0, arp}, {0, 0, Bytes(3, 0)}, {0, 0, {}}}));
    EXPECT_TRUE(back.packets.empty());
    EXPECT_EQ(back.frames, 3U);
    EXPECT_EQ(back.not_ip, 3U);
    EXPECT_FALSE(back.unknown_link);
    back = read(pcap(105, {{0, 0, ipv4()}}));
    EXPECT_EQ(back.not_ip, 1U);
    EXPECT_EQ(back.unknown_link, 105);
    back = read(pcap(1, {{0, 0, joined({Bytes(12, 0), {0x08, 0x00}, {0x45, 0, 0, 9}})}}));
    EXPECT_EQ(back.not_ip, 1U) << "no whole header";
}

// A packet of segmentation offload: nothing in the header says how long the packet is.
TEST(CaptureReader, ALengthOfZeroIsThatOfTheFrame) {
    Bytes packet = ipv4(60);
    base::store_big_endian<uint16_t>(&packet[2], 0);
    EXPECT_EQ(read(pcap(101, {{0, 0, packet, 70000}})).packets, Packets{"0:70000/60"});
}

TEST(CaptureReader, WhatIsNoCaptureSaysSo) {
    const auto error_of = [](const Bytes& file) {
        const ReadBack back = read(file);
        EXPECT_TRUE(back.packets.empty());
        return back.error ? std::string(back.error->where) : "none";
    };
    EXPECT_EQ(error_of({}), "is empty");
    const char* const text = "#!/usr/bin/env bash\nexit 0\n";
    EXPECT_EQ(error_of(Bytes(text, text + 27)), "is no capture file (neither pcap nor pcapng)");
    EXPECT_EQ(error_of(Bytes(100, 0)), "is no capture file (neither pcap nor pcapng)");
    EXPECT_EQ(error_of({0xA1, 0xB2}), "is no capture file (neither pcap nor pcapng)");
    Bytes other_version = pcap(1, {});
    other_version[4] = 3;
    EXPECT_EQ(error_of(other_version), "is no capture file (neither pcap nor pcapng)");
    Bytes order = section(true);
    order[8] = 0;
    EXPECT_EQ(error_of(order), "is no capture file (neither pcap nor pcapng)");
}

TEST(CaptureReader, LengthsThatCannotBeAreErrors) {
    const auto error_of = [](const Bytes& file) {
        const ReadBack back = read(file);
        return back.error ? std::string(back.error->where) : "none";
    };
    Bytes huge = pcap(1, {{0, 0, ipv4()}});
    std::fill_n(huge.begin() + 24 + 8, 4, uint8_t{0xFF});
    EXPECT_EQ(error_of(huge), "has a packet longer than 512 KiB: is the file damaged?");
    const Bytes head = joined({section(true), interface(101, true)});
    for (const size_t at : {head.size() + 4, head.size() + 20}) {  // of the block, of the packet
        Bytes file = joined({head, enhanced(0, 0, ipv4(), true)});
        file[at] = 0xFD;
        EXPECT_EQ(error_of(file), "is damaged: a block has a wrong length") << at;
    }
    Bytes twice = joined({head, enhanced(0, 0, ipv4(), true)});
    twice[twice.size() - 4] ^= 4;
    EXPECT_EQ(error_of(twice), "is damaged: a block has a wrong length");
    EXPECT_EQ(error_of(joined({head, enhanced(1, 0, ipv4(), true)})),
              "is damaged: a packet of an interface that it does not name");
    EXPECT_EQ(error_of(joined({section(true), block(6, Bytes(4, 0), true)})),
              "is damaged: a block has a wrong length");
    EXPECT_EQ(error_of(joined({section(true), block(1, {}, true)})),
              "is damaged: a block has a wrong length");
    Bytes many = section(true);
    for (size_t i = 0; i <= kMaxCaptureInterfaces; ++i) {
        const Bytes one = interface(101, true);
        many.insert(many.end(), one.begin(), one.end());
    }
    EXPECT_EQ(error_of(many), "has more than 1024 interfaces");
    Bytes skipped =
        joined({head, block(0x0BAD, Bytes(600 * 1024, 0), true), enhanced(0, 0, ipv4(), true)});
    EXPECT_EQ(error_of(skipped), "none") << "an unknown block may be long";
    EXPECT_EQ(read(skipped).packets.size(), 1U);
}

TEST(CaptureReader, EveryTruncationEndsWithWhatWasWhole) {
    const Bytes packet = ipv4(40);
    const std::vector<Bytes> files = {
        pcap(101, {{1, 0, packet}, {2, 0, packet}, {3, 0, packet}}),
        joined({section(false), interface(101, false), enhanced(0, 1, packet, false),
                enhanced(0, 2, packet, false), section(false), interface(101, false),
                block(3, joined({number<uint32_t>(40, false), packet}), false)})};
    for (const Bytes& file : files) {
        size_t before = 0;
        for (size_t size = 0; size <= file.size(); ++size) {
            const ReadBack back = read(Bytes(file.begin(), file.begin() + static_cast<long>(size)));
            EXPECT_GE(back.packets.size(), before) << size;
            before = back.packets.size();
            if (back.error && back.error->code != base::Errc::Malformed) {
                EXPECT_EQ(back.error->code, base::Errc::Truncated) << size;
            }
        }
        EXPECT_EQ(before, 3U);
        EXPECT_EQ(read(Bytes(file.begin(), file.end() - 5)).error->where,
                  "ends within a packet: the file is cut off");
    }
}

// Units finer than any clock, and more than fit.
TEST(CaptureReader, ResolutionsOfAllValuesAreRead) {
    for (unsigned resolution = 0; resolution < 256; ++resolution) {
        const Bytes option = {9, 0, 1, 0, static_cast<uint8_t>(resolution), 0, 0, 0};
        const ReadBack back = read(joined(
            {section(true), interface(101, true, option), enhanced(0, UINT64_MAX, ipv4(), true)}));
        EXPECT_EQ(back.packets.size(), 1U) << resolution;
    }
}

}  // namespace
}  // namespace continuo::packet
