#include "common/base/secret.hpp"
#include "common/control/identity.hpp"
#include "common/control/portal_check.hpp"
#include "common/dataplane/epoch_install.hpp"

#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::dataplane {
namespace {

using control::ProtectionKind;
using path::Role;

constexpr uint8_t kHeaderBytes = 6;
constexpr size_t kBodyBytes = 20;

control::EpochKeys make_keys() {
    control::EpochKeys keys;
    keys.epoch = 5;
    keys.up.key.fill(0x11);
    keys.up.iv.fill(0x12);
    keys.down.key.fill(0x21);
    keys.down.iv.fill(0x22);
    return keys;
}

// Whether what `sealer` seals comes out as it was at `opener`.
bool passes(crypto::DatagramCipher& sealer, crypto::DatagramCipher& opener) {
    std::vector<uint8_t> bytes(kHeaderBytes + kBodyBytes + sealer.tag_bytes());
    std::iota(bytes.begin(), bytes.end(), uint8_t{0});
    const std::vector<uint8_t> before = bytes;
    crypto::SealedUnit unit;
    unit.datagram = bytes;
    unit.header_bytes = kHeaderBytes;
    unit.sequence = 9;
    sealer.seal(std::span(&unit, 1));
    opener.open(std::span(&unit, 1));
    const auto end = static_cast<std::ptrdiff_t>(kHeaderBytes + kBodyBytes);
    return unit.authentic && std::equal(before.begin(), before.begin() + end, bytes.begin());
}

class EpochInstalls : public testing::TestWithParam<control::ProtectionOffer> {};

// Each copy is overwritten when it dies; no optimizer leaves that out (base/secret.hpp).
static_assert(std::is_same_v<control::UserKey, base::Secret<32>>);
static_assert(std::is_same_v<control::Psk, base::Secret<32>>);
static_assert(std::is_same_v<control::IdentityKey, base::Secret<32>>);
static_assert(std::is_same_v<control::PortalKey, base::Secret<32>>);
static_assert(!std::is_trivially_destructible_v<control::EpochKeys>);
static_assert(!std::is_trivially_destructible_v<crypto::KeyMaterial>);

TEST_P(EpochInstalls, EachEndOpensWhatTheOtherSealsAndNothingElse) {
    const control::EpochKeys keys = make_keys();
    auto node = make_install(Role::Node, GetParam(), keys);
    auto snapt = make_install(Role::Snapt, GetParam(), keys);
    ASSERT_TRUE(node && snapt);
    EXPECT_EQ(node->epoch, 5U);
    EXPECT_EQ(node->sealer->tag_bytes(), GetParam().tag_bytes);
    EXPECT_TRUE(passes(*node->sealer, *snapt->opener));
    EXPECT_TRUE(passes(*snapt->sealer, *node->opener));
    EXPECT_FALSE(passes(*node->sealer, *node->opener));
    EXPECT_FALSE(passes(*snapt->sealer, *snapt->opener));
}

INSTANTIATE_TEST_SUITE_P(Protections,
                         EpochInstalls,
                         testing::Values(control::ProtectionOffer{ProtectionKind::Aes256Gcm, 16},
                                         control::ProtectionOffer{ProtectionKind::ChaCha20Poly1305,
                                                                  16},
                                         control::ProtectionOffer{ProtectionKind::HmacSha256, 10}));

TEST(EpochInstall, UsesTheProtectionThatWasAgreedUpon) {
    const control::EpochKeys keys = make_keys();
    auto aes = make_install(Role::Node, {ProtectionKind::Aes256Gcm, 16}, keys);
    auto chacha = make_install(Role::Snapt, {ProtectionKind::ChaCha20Poly1305, 16}, keys);
    ASSERT_TRUE(aes && chacha);
    EXPECT_FALSE(passes(*aes->sealer, *chacha->opener));
}

TEST(EpochInstall, RefusesATagThatTheProtectionDoesNotHave) {
    const auto made = make_install(Role::Node, {ProtectionKind::Aes256Gcm, 3}, make_keys());
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, base::Errc::Unsupported);
}

}  // namespace
}  // namespace continuo::dataplane
