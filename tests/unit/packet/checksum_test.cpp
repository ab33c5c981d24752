#include "common/packet/checksum.hpp"
#include "tests/unit/packet/packet_support.hpp"

#include <unordered_set>

#include <gtest/gtest.h>

namespace continuo::packet {
namespace {

using test::Bytes;

TEST(Checksum, ExampleOfRfc1071) {
    const Bytes bytes = test::from_hex("0001 f203 f4f5 f6f7");
    EXPECT_EQ(fold(sum_words(bytes)), 0xDDF2);
}

TEST(Checksum, EveryLengthAndAlignmentEqualsTheReference) {
    base::SeededRandom random(1);
    const Bytes bytes = test::random_bytes(random, 200);
    for (size_t begin = 0; begin < 9; ++begin) {
        for (size_t count = 0; begin + count <= bytes.size(); ++count) {
            const base::ByteView view = base::ByteView(bytes).subspan(begin, count);
            ASSERT_EQ(fold(sum_words(view)), test::reference_sum(view)) << begin << "+" << count;
        }
    }
}

TEST(Checksum, CarriesAreNeverLost) {
    for (const size_t count : {2U, 8U, 30U, 32U, 64U, 1500U, 65534U, 65535U}) {
        const Bytes ones(count, 0xFF);
        EXPECT_EQ(fold(sum_words(ones)), test::reference_sum(ones)) << count;
        EXPECT_EQ(fold(sum_words(ones, 0xFFFFFFFFFFFU)),
                  test::reference_sum(ones, fold(0xFFFFFFFFFFFU)));
    }
    EXPECT_EQ(fold(~uint64_t{0}), 0xFFFF);
    EXPECT_EQ(sum_words(Bytes(100, 0)), 0U);
}

TEST(Checksum, SumsOfEvenPartsAddUp) {
    base::SeededRandom random(2);
    const Bytes bytes = test::random_bytes(random, 1501);
    const base::ByteView view(bytes);
    for (size_t at = 0; at < bytes.size(); at += 2) {
        ASSERT_EQ(fold(sum_words(view.subspan(at), sum_words(view.first(at)))),
                  test::reference_sum(view));
    }
}

TEST(Checksum, UpdateEqualsRecomputation) {
    base::SeededRandom random(3);
    for (int round = 0; round < 20000; ++round) {
        Bytes bytes = test::random_bytes(random, 8);
        if (round % 7 == 0) {
            std::fill(bytes.begin(), bytes.begin() + 6, uint8_t{0});
        }
        bytes[7] |= 1;  // some other word is not zero, as in every IP packet
        const auto before = static_cast<uint16_t>(~fold(sum_words(bytes)));
        const Bytes from(bytes.begin(), bytes.begin() + 4);
        const Bytes to = round % 5 == 0 ? Bytes(4, 0xFF) : test::random_bytes(random, 4);
        std::copy(to.begin(), to.end(), bytes.begin());
        const auto after = static_cast<uint16_t>(~fold(sum_words(bytes)));
        ASSERT_EQ(update_checksum(before, from, to), after) << round;
    }
}

// The case in which RFC 1141 gives 0xFFFF (RFC 1624 section 4).
TEST(Checksum, ExampleOfRfc1624) {
    const Bytes from = test::from_hex("5555");
    const Bytes to = test::from_hex("3285");
    EXPECT_EQ(update_checksum(0xDD2F, from, to), 0x0000);
}

TEST(Checksum, PseudoHeaderEqualsTheReference) {
    const base::IpAddress source = test::address("2001:db8::ffff");
    const base::IpAddress destination = test::address("2001:db8:ffff::1");
    Bytes bytes(source.bytes().begin(), source.bytes().end());
    bytes.insert(bytes.end(), destination.bytes().begin(), destination.bytes().end());
    const Bytes tail = test::from_hex("0001 1170 0000 0011");  // 70000 bytes of UDP
    bytes.insert(bytes.end(), tail.begin(), tail.end());
    EXPECT_EQ(fold(pseudo_header_sum(source, destination, 17, 70000)), test::reference_sum(bytes));
}

TEST(FiveTuple, HashSeparatesNeighbours) {
    std::unordered_set<size_t> low_bits;
    constexpr size_t kTuples = 4096;
    FiveTuple tuple;
    tuple.local = test::address("192.0.2.1");
    tuple.remote = test::address("198.51.100.1");
    for (uint16_t i = 0; i < kTuples; ++i) {
        tuple.local_port = static_cast<uint16_t>(40000 + i % 64);
        tuple.remote = base::IpAddress::v4(uint32_t{0xC6336400} + i / 64U);
        low_bits.insert(hash_value(tuple) & 0xFFFFU);
    }
    // 4096 balls into 65536 bins: 3970 different ones are expected, with a deviation of about 11.
    EXPECT_GT(low_bits.size(), 3900U);
}

TEST(FiveTuple, HashDependsOnEveryField) {
    FiveTuple tuple;
    tuple.local = test::address("2001:db8::1");
    tuple.remote = test::address("2001:db8::2");
    std::unordered_set<size_t> hashes = {hash_value(tuple)};
    const auto expect_new = [&hashes](const FiveTuple& changed) {
        EXPECT_TRUE(hashes.insert(std::hash<FiveTuple>{}(changed)).second);
    };
    for (size_t i = 0; i < 16; ++i) {
        FiveTuple changed = tuple;
        changed.local.octets[i] ^= 0x40;
        expect_new(changed);
        changed = tuple;
        changed.remote.octets[i] ^= 0x40;
        expect_new(changed);
    }
    FiveTuple changed = tuple;
    changed.local_port = 1;
    expect_new(changed);
    changed = tuple;
    changed.remote_port = 1;
    expect_new(changed);
    changed = tuple;
    changed.protocol = Protocol::Udp;
    expect_new(changed);
    changed = tuple;
    std::swap(changed.local, changed.remote);
    expect_new(changed);
}

}  // namespace
}  // namespace continuo::packet
