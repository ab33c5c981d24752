// Every protection: round trips, and that nothing but what was sealed opens.
#include "common/base/random.hpp"
#include "common/crypto/datagram_cipher.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::crypto {
namespace {

constexpr uint8_t kHeaderBytes = 6;

KeyMaterial keys_of(uint64_t seed) {
    base::SeededRandom random(seed);
    KeyMaterial keys;
    random.fill(keys.key);
    random.fill(keys.iv);
    return keys;
}

std::unique_ptr<DatagramCipher> cipher_of(Protection protection, size_t tag_bytes, uint64_t seed) {
    auto cipher = make_cipher(protection, keys_of(seed), tag_bytes);
    EXPECT_TRUE(cipher.has_value());
    return std::move(cipher).value();
}

class CipherTest : public testing::TestWithParam<std::tuple<Protection, size_t>> {
  protected:
    static Protection protection() { return std::get<0>(GetParam()); }
    static size_t tag_bytes() { return std::get<1>(GetParam()); }
    static bool open(DatagramCipher& cipher, std::vector<uint8_t> datagram, SealedUnit like) {
        like.datagram = datagram;
        like.authentic = true;
        cipher.open(std::span(&like, 1));
        return like.authentic;
    }
    static SealedUnit unit_of(std::vector<uint8_t>& datagram) {
        SealedUnit unit;
        unit.datagram = datagram;
        unit.header_bytes = kHeaderBytes;
        unit.space = 0x0123;
        unit.sequence = 0x0102030405060708;
        return unit;
    }
    std::vector<uint8_t> plain(size_t body_bytes) {
        std::vector<uint8_t> datagram(kHeaderBytes + body_bytes + tag_bytes());
        random_.fill(datagram);
        return datagram;
    }

    base::SeededRandom random_{11};
};

TEST_P(CipherTest, OpensWhatWasSealedAtEveryLength) {
    const auto sealer = cipher_of(protection(), tag_bytes(), 1);
    const auto opener = cipher_of(protection(), tag_bytes(), 1);
    for (size_t body = 0; body < 300; ++body) {
        const std::vector<uint8_t> before = plain(body);
        std::vector<uint8_t> datagram = before;
        SealedUnit unit = unit_of(datagram);
        sealer->seal(std::span(&unit, 1));
        EXPECT_TRUE(std::equal(datagram.begin(), datagram.begin() + kHeaderBytes, before.begin()));
        opener->open(std::span(&unit, 1));
        ASSERT_TRUE(unit.authentic) << body;
        const auto end = static_cast<ptrdiff_t>(kHeaderBytes + body);
        ASSERT_TRUE(std::equal(datagram.begin(), datagram.begin() + end, before.begin())) << body;
    }
}

TEST_P(CipherTest, BodyIsReadableOnlyWhenAuthenticating) {
    const auto cipher = cipher_of(protection(), tag_bytes(), 1);
    const std::vector<uint8_t> before = plain(64);
    std::vector<uint8_t> datagram = before;
    SealedUnit unit = unit_of(datagram);
    cipher->seal(std::span(&unit, 1));
    const bool is_readable =
        std::equal(before.begin(), before.begin() + kHeaderBytes + 64, datagram.begin());
    EXPECT_EQ(is_readable, protection() == Protection::HmacSha256);
}

TEST_P(CipherTest, EveryChangedBitOfEveryByteFails) {
    const auto cipher = cipher_of(protection(), tag_bytes(), 1);
    std::vector<uint8_t> datagram = plain(40);
    SealedUnit unit = unit_of(datagram);
    cipher->seal(std::span(&unit, 1));
    for (size_t i = 0; i < datagram.size(); ++i) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            std::vector<uint8_t> changed = datagram;
            changed[i] ^= static_cast<uint8_t>(1U << bit);
            EXPECT_FALSE(open(*cipher, changed, unit)) << i << "." << bit;
        }
    }
    EXPECT_TRUE(open(*cipher, datagram, unit));
}

TEST_P(CipherTest, EveryTruncationAndExtensionFails) {
    const auto cipher = cipher_of(protection(), tag_bytes(), 1);
    std::vector<uint8_t> datagram = plain(40);
    SealedUnit unit = unit_of(datagram);
    cipher->seal(std::span(&unit, 1));
    for (size_t length = 0; length < datagram.size(); ++length) {
        const auto end = datagram.begin() + static_cast<ptrdiff_t>(length);
        EXPECT_FALSE(open(*cipher, {datagram.begin(), end}, unit)) << length;
    }
    std::vector<uint8_t> longer = datagram;
    longer.push_back(0);
    EXPECT_FALSE(open(*cipher, longer, unit));
}

TEST_P(CipherTest, OtherSpaceSequenceHeaderLengthOrKeyFails) {
    const auto cipher = cipher_of(protection(), tag_bytes(), 1);
    std::vector<uint8_t> datagram = plain(40);
    const SealedUnit sealed = unit_of(datagram);
    SealedUnit unit = sealed;
    cipher->seal(std::span(&unit, 1));
    for (unsigned bit = 0; bit < 16; ++bit) {
        SealedUnit other = sealed;
        other.space = static_cast<uint16_t>(other.space ^ 1U << bit);
        EXPECT_FALSE(open(*cipher, datagram, other)) << "space bit " << bit;
    }
    for (unsigned bit = 0; bit < 64; ++bit) {
        SealedUnit other = sealed;
        other.sequence ^= uint64_t{1} << bit;
        EXPECT_FALSE(open(*cipher, datagram, other)) << "sequence bit " << bit;
    }
    if (protection() != Protection::HmacSha256) {
        SealedUnit other = sealed;
        other.header_bytes = kHeaderBytes + 2;
        EXPECT_FALSE(open(*cipher, datagram, other));
    }
    EXPECT_FALSE(open(*cipher_of(protection(), tag_bytes(), 2), datagram, sealed));
    EXPECT_TRUE(open(*cipher, datagram, sealed));
}

TEST_P(CipherTest, OneBadDatagramInABatchSpoilsNoOther) {
    const auto cipher = cipher_of(protection(), tag_bytes(), 1);
    std::vector<std::vector<uint8_t>> before;
    std::vector<std::vector<uint8_t>> datagrams;
    std::vector<SealedUnit> units;
    for (size_t i = 0; i < 32; ++i) {
        before.push_back(plain(17 * i));
        datagrams.push_back(before.back());
    }
    for (size_t i = 0; i < datagrams.size(); ++i) {
        units.push_back(unit_of(datagrams[i]));
        units.back().sequence = i;
    }
    cipher->seal(units);
    for (size_t i = 0; i < units.size(); i += 3) {
        datagrams[i].back() ^= 1;
    }
    units[4].datagram = units[4].datagram.first(3);
    cipher->open(units);
    for (size_t i = 0; i < units.size(); ++i) {
        const bool is_good = i % 3 != 0 && i != 4;
        EXPECT_EQ(units[i].authentic, is_good) << i;
        if (is_good) {
            const auto end = datagrams[i].end() - static_cast<ptrdiff_t>(tag_bytes());
            EXPECT_TRUE(std::equal(datagrams[i].begin(), end, before[i].begin())) << i;
        }
    }
}

std::string test_name(const testing::TestParamInfo<std::tuple<Protection, size_t>>& info) {
    constexpr std::array<const char*, 3> kNames = {"Aes256Gcm", "ChaCha20Poly1305", "HmacSha256"};
    return kNames[static_cast<size_t>(std::get<0>(info.param))] +
           std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All,
                         CipherTest,
                         testing::Values(std::tuple{Protection::Aes256Gcm, 16U},
                                         std::tuple{Protection::ChaCha20Poly1305, 16U},
                                         std::tuple{Protection::HmacSha256, 16U},
                                         std::tuple{Protection::HmacSha256, 10U}),
                         test_name);

TEST(MakeCipher, RefusesTagLengthsThatAreNotDefined) {
    for (const Protection protection :
         {Protection::Aes256Gcm, Protection::ChaCha20Poly1305, Protection::HmacSha256}) {
        for (size_t tag = 0; tag < 40; ++tag) {
            const bool is_defined =
                tag == 16 || (tag == 10 && protection == Protection::HmacSha256);
            const auto cipher = make_cipher(protection, KeyMaterial{}, tag);
            ASSERT_EQ(cipher.has_value(), is_defined) << tag;
            if (!is_defined) {
                EXPECT_EQ(cipher.error().code, base::Errc::Unsupported);
            }
        }
    }
}

}  // namespace
}  // namespace continuo::crypto
