#include "common/crypto/key_ring.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::crypto {
namespace {

using base::Errc;

void fill(EpochKeys& keys, uint32_t epoch) {
    keys.epoch = epoch;
    keys.send.key.fill(static_cast<uint8_t>(epoch + 1));
    keys.receive.key.fill(static_cast<uint8_t>(epoch + 1));
}

base::Result<void> install(KeyRing& ring, uint32_t epoch) {
    EpochKeys keys;
    fill(keys, epoch);
    return ring.install(keys);
}

bool is_zero(const KeyMaterial& keys) {
    const auto zero = [](uint8_t byte) { return byte == 0; };
    return std::all_of(keys.key.begin(), keys.key.end(), zero) &&
           std::all_of(keys.iv.begin(), keys.iv.end(), zero);
}

struct Datagram {
    std::vector<uint8_t> bytes = std::vector<uint8_t>(6 + 20 + 16, 0x33);
    SealedUnit unit;
    Datagram() {
        unit.datagram = bytes;
        unit.header_bytes = 6;
    }
    std::span<SealedUnit> units() { return {&unit, 1}; }
};

TEST(KeyRing, EmptyHasNeitherSenderNorReceiver) {
    KeyRing ring;
    EXPECT_EQ(ring.sending(), nullptr);
    for (uint8_t modulo = 0; modulo < 4; ++modulo) {
        EXPECT_EQ(ring.receiving(modulo), nullptr);
    }
    EXPECT_FALSE(ring.send_with(0));
    EXPECT_FALSE(ring.retire(0));
}

TEST(KeyRing, HoldsTwoConsecutiveEpochsAndNoOthers) {
    for (uint32_t first = 0; first < 9; ++first) {
        KeyRing ring;
        ASSERT_TRUE(install(ring, first).has_value());
        for (const uint32_t other : {first + 2, first + 4, first}) {
            const auto refused = install(ring, other);
            ASSERT_FALSE(refused.has_value());
            EXPECT_EQ(refused.error().code, Errc::InvalidState);
        }
        ASSERT_TRUE(install(ring, first + 1).has_value());
        const auto third = install(ring, first + 2);
        ASSERT_FALSE(third.has_value());
        EXPECT_EQ(third.error().code, Errc::LimitReached);
        EXPECT_EQ(ring.size(), 2U);
        EXPECT_EQ(ring.receiving(first % 4)->epoch(), first);
        EXPECT_EQ(ring.receiving((first + 1) % 4)->epoch(), first + 1);
        EXPECT_EQ(ring.receiving((first + 2) % 4), nullptr);
        EXPECT_EQ(ring.receiving((first + 3) % 4), nullptr);
    }
}

TEST(KeyRing, SendsWithTheOldEpochUntilToldOtherwise) {
    KeyRing ring;
    ASSERT_TRUE(install(ring, 6).has_value());
    ASSERT_TRUE(install(ring, 7).has_value());
    EXPECT_EQ(ring.sending()->epoch(), 6U);
    EXPECT_FALSE(ring.retire(6));
    EXPECT_TRUE(ring.send_with(7));
    EXPECT_EQ(ring.sending()->epoch(), 7U);
    EXPECT_NE(ring.receiving(6 % 4), nullptr);
    EXPECT_TRUE(ring.retire(6));
    EXPECT_EQ(ring.receiving(6 % 4), nullptr);
    EXPECT_TRUE(install(ring, 8).has_value());
}

TEST(KeyRing, EpochsDoNotOpenEachOther) {
    KeyRing ring;
    ASSERT_TRUE(install(ring, 2).has_value());
    ASSERT_TRUE(install(ring, 3).has_value());
    Datagram datagram;
    ASSERT_TRUE(ring.find(2)->seal(datagram.units()));
    const std::vector<uint8_t> sealed = datagram.bytes;
    ring.receiving(3)->open(datagram.units());
    EXPECT_FALSE(datagram.unit.authentic);
    std::copy(sealed.begin(), sealed.end(), datagram.bytes.begin());
    ring.receiving(2)->open(datagram.units());
    EXPECT_TRUE(datagram.unit.authentic);
}

TEST(KeyRing, SealsUpToTheLimitAndNotOneMore) {
    KeyRing ring;
    ASSERT_TRUE(install(ring, 0).has_value());
    EpochCiphers& epoch = *ring.sending();
    EXPECT_FALSE(epoch.wants_rekey());
    epoch.add_sealed(kRekeyAtDatagrams);
    EXPECT_TRUE(epoch.wants_rekey());
    epoch.add_sealed(kMaxDatagramsPerKey - kRekeyAtDatagrams - 1);
    Datagram datagram;
    std::array<SealedUnit, 2> two = {datagram.unit, datagram.unit};
    EXPECT_FALSE(epoch.seal(two));
    EXPECT_TRUE(epoch.seal(datagram.units()));
    EXPECT_EQ(epoch.sealed(), kMaxDatagramsPerKey);
    const std::vector<uint8_t> before = datagram.bytes;
    EXPECT_FALSE(epoch.seal(datagram.units()));
    EXPECT_EQ(datagram.bytes, before);
    static_assert(kMaxDatagramsPerKey == uint64_t{1} << 27);
}

TEST(KeyRing, ErasesTheKeysItWasGiven) {
    KeyRing ring;
    EpochKeys keys;
    fill(keys, 1);
    ASSERT_TRUE(ring.install(keys).has_value());
    EXPECT_TRUE(is_zero(keys.send));
    EXPECT_TRUE(is_zero(keys.receive));
}

TEST(KeyRing, RefusedKeysStayWithTheCaller) {
    KeyRing ring;
    EpochKeys keys;
    fill(keys, 1);
    keys.tag_bytes = 12;
    const auto refused = ring.install(keys);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::Unsupported);
    EXPECT_FALSE(is_zero(keys.send));
    EXPECT_EQ(ring.size(), 0U);
}

TEST(EpochKeys, EraseThemselvesOnDestruction) {
    alignas(EpochKeys) std::array<unsigned char, sizeof(EpochKeys)> memory{};
    auto* const keys = new (memory.data()) EpochKeys();
    keys->send.key.fill(0xA7);
    keys->receive.key.fill(0xA7);
    keys->send.iv.fill(0xA7);
    keys->~EpochKeys();
    const volatile unsigned char* const bytes = memory.data();
    size_t left = 0;
    for (size_t i = 0; i < memory.size(); ++i) {
        left += bytes[i] == 0xA7 ? 1U : 0U;
    }
    EXPECT_EQ(left, 0U);
}

}  // namespace
}  // namespace continuo::crypto
