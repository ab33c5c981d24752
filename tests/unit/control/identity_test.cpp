#include "common/control/identity.hpp"

#include <gtest/gtest.h>

namespace continuo::control {
namespace {

const Identity kAlice{"alice", "k1"};
constexpr IdentityKey kRealmKey{7, 8, 9};

std::string hex(base::ByteView bytes) {
    std::string text;
    for (const uint8_t byte : bytes) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        text += kDigits[byte >> 4];
        text += kDigits[byte & 0xFU];
    }
    return text;
}

TEST(Psk, IsHkdfSha256OfKeySaltAndRealm) {
    UserKey key;
    for (size_t i = 0; i < key.size(); ++i) {
        key[i] = static_cast<uint8_t>(i);
    }
    EXPECT_EQ(hex(derive_psk(key, "mesh.example")),
              "54ddf6db2da31898f422f201afb782865225b772168e27fa3ace759449de3906");
}

TEST(Psk, DiffersByRealmAndKey) {
    UserKey key{1};
    const Psk psk = derive_psk(key, "a");
    EXPECT_NE(psk, derive_psk(key, "b"));
    key[0] = 2;
    EXPECT_NE(psk, derive_psk(key, "a"));
}

TEST(Identity, RefusesEmptyLongAndSeparators) {
    EXPECT_TRUE(is_valid_identity(kAlice));
    EXPECT_TRUE(
        is_valid_identity({std::string(kMaxUserBytes, 'u'), std::string(kMaxKeyIdBytes, 'k')}));
    for (const std::string& bad :
         {std::string(), std::string("a/b"), std::string("a b"), std::string("a\n"),
          std::string(1, '\0'), std::string(kMaxUserBytes + 1, 'u')}) {
        EXPECT_FALSE(is_valid_identity({bad, "k"})) << bad;
        EXPECT_FALSE(is_valid_identity({"u", bad})) << bad;
    }
}

TEST(Identity, BothFormsComeBack) {
    base::SeededRandom random(1);
    for (const std::optional<IdentityKey>& key :
         {std::optional<IdentityKey>(), std::optional(kRealmKey)}) {
        for (const Identity& identity : {kAlice, Identity{std::string(kMaxUserBytes, 'u'),
                                                          std::string(kMaxKeyIdBytes, 'k')}}) {
            const auto wire = encode_identity(identity, key, random);
            EXPECT_LE(wire.size(), kMaxWireIdentityBytes);
            const auto decoded = decode_identity(wire, key);
            ASSERT_TRUE(decoded);
            EXPECT_EQ(*decoded, identity);
        }
    }
}

TEST(Identity, SealedFormHidesNameLengthAndRepetition) {
    base::SeededRandom random(1);
    const auto first = encode_identity(kAlice, kRealmKey, random);
    const auto second = encode_identity(kAlice, kRealmKey, random);
    const auto longer = encode_identity({"christopher", "laptop-2"}, kRealmKey, random);
    EXPECT_NE(first, second);
    EXPECT_EQ(first.size(), longer.size());
    EXPECT_EQ(std::string(first.begin(), first.end()).find("alice"), std::string::npos);
}

TEST(Identity, EveryTruncationAndEveryChangedBitIsRefused) {
    base::SeededRandom random(1);
    const auto wire = encode_identity(kAlice, kRealmKey, random);
    for (size_t length = 0; length < wire.size(); ++length) {
        EXPECT_FALSE(decode_identity(base::ByteView(wire).first(length), kRealmKey)) << length;
    }
    for (size_t bit = 0; bit < wire.size() * 8; ++bit) {
        auto changed = wire;
        changed[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
        EXPECT_FALSE(decode_identity(changed, kRealmKey)) << bit;
    }
}

TEST(Identity, SealedFormNeedsTheRightKey) {
    base::SeededRandom random(1);
    const auto wire = encode_identity(kAlice, kRealmKey, random);
    EXPECT_EQ(decode_identity(wire, IdentityKey{1}).error().code, base::Errc::Unauthentic);
    EXPECT_EQ(decode_identity(wire, std::nullopt).error().code, base::Errc::UnknownKey);
}

}  // namespace
}  // namespace continuo::control
