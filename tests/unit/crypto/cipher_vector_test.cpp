// Published vectors. Space and sequence 0 leave the IV as it is, so that it is the nonce of the
// vector.
#include "common/crypto/datagram_cipher.hpp"
#include "common/crypto/hmac_sha256.hpp"
#include "common/crypto/nonce.hpp"
#include "tests/unit/crypto/hex.hpp"

#include <string>

#include <gtest/gtest.h>

namespace continuo::crypto {
namespace {

using test::array_from_hex;
using test::from_hex;

struct AeadVector {
    const char* source;
    Protection protection;
    const char* key;
    const char* iv;
    const char* header;
    const char* plain;
    const char* sealed;
    const char* tag;
};

// McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B (with SP 800-38D); RFC 8439.
const std::array<AeadVector, 5> kAeadVectors = {{
    {"GCM test case 13", Protection::Aes256Gcm, "", "", "", "", "",
     "530f8afbc74536b9a963b4f1c4cb738b"},
    {"GCM test case 14", Protection::Aes256Gcm, "", "", "", "00000000000000000000000000000000",
     "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
    {"GCM test case 15", Protection::Aes256Gcm,
     "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
     "b094dac5d93471bdec1a502270e3cc6c"},
    {"GCM test case 16", Protection::Aes256Gcm,
     "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
    {"RFC 8439 section 2.8.2", Protection::ChaCha20Poly1305,
     "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f", "070000004041424344454647",
     "50515253c0c1c2c3c4c5c6c7",
     "4c616469657320616e642047656e746c656d656e206f662074686520636c6173"
     "73206f66202739393a204966204920636f756c64206f6666657220796f75206f"
     "6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73"
     "637265656e20776f756c642062652069742e",
     "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
     "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
     "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
     "3ff4def08e4b7a9de576d26586cec64b6116",
     "1ae10b594f09e26a7e902ecbd0600691"},
}};

std::vector<uint8_t> joined(std::initializer_list<const char*> parts) {
    std::vector<uint8_t> all;
    for (const char* part : parts) {
        const std::vector<uint8_t> bytes = from_hex(part);
        all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
}

TEST(CipherVectors, SealAndOpenPublishedAeadVectors) {
    for (const AeadVector& vector : kAeadVectors) {
        SCOPED_TRACE(vector.source);
        const KeyMaterial keys{array_from_hex<kKeyBytes>(vector.key),
                               array_from_hex<kIvBytes>(vector.iv)};
        const auto cipher = make_cipher(vector.protection, keys, 16);
        ASSERT_TRUE(cipher.has_value());
        const std::vector<uint8_t> plain = joined({vector.header, vector.plain});
        const std::vector<uint8_t> sealed = joined({vector.header, vector.sealed, vector.tag});
        std::vector<uint8_t> datagram = plain;
        datagram.resize(plain.size() + 16);
        SealedUnit unit;
        unit.datagram = datagram;
        unit.header_bytes = static_cast<uint8_t>(from_hex(vector.header).size());
        (*cipher)->seal(std::span(&unit, 1));
        EXPECT_EQ(datagram, sealed);
        (*cipher)->open(std::span(&unit, 1));
        EXPECT_TRUE(unit.authentic);
        datagram.resize(plain.size());
        EXPECT_EQ(datagram, plain);
    }
}

TEST(CipherVectors, NonceIsIvXorZerosSpaceSequence) {
    SealedUnit unit;
    unit.space = 0x0128;
    unit.sequence = 0x1122334455667788;
    const auto iv = array_from_hex<kIvBytes>("ffffffff0000000000000000");
    EXPECT_EQ(nonce_of(iv, unit), array_from_hex<kIvBytes>("fffffed71122334455667788"));
    EXPECT_EQ(sequence_prefix(unit.space, unit.sequence),
              array_from_hex<kIvBytes>("000001281122334455667788"));
}

std::vector<uint8_t> bytes_of(const std::string& text) {
    return {text.begin(), text.end()};
}

struct HmacVector {
    const char* source;
    std::vector<uint8_t> key;
    std::vector<uint8_t> message;
    const char* digest;
};

// RFC 4231 sections 4.2 to 4.5. The other test cases have keys that are longer than a block.
TEST(CipherVectors, HmacGivesPublishedDigestsHoweverTheInputIsSplit) {
    const std::array<HmacVector, 4> vectors = {{
        {"test case 1", std::vector<uint8_t>(20, 0x0B), bytes_of("Hi There"),
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {"test case 2", bytes_of("Jefe"), bytes_of("what do ya want for nothing?"),
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {"test case 3", std::vector<uint8_t>(20, 0xAA), std::vector<uint8_t>(50, 0xDD),
         "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
        {"test case 4", from_hex("0102030405060708090a0b0c0d0e0f10111213141516171819"),
         std::vector<uint8_t>(50, 0xCD),
         "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
    }};
    for (const HmacVector& vector : vectors) {
        SCOPED_TRACE(vector.source);
        const HmacSha256 hmac(vector.key);
        const base::ByteView message(vector.message);
        for (size_t split = 0; split <= message.size(); ++split) {
            EXPECT_EQ(hmac.digest(message.first(split), message.subspan(split)),
                      array_from_hex<32>(vector.digest))
                << split;
        }
    }
}

// The tag is the front of HMAC-SHA256(key, 0^16 space16 sequence64 header body).
TEST(CipherVectors, HmacTagCoversSpaceSequenceHeaderAndBody) {
    KeyMaterial keys;
    keys.key.fill(0x5A);
    const std::vector<uint8_t> input = from_hex("000001280000000000000123 154a310123ff 68656c6c6f");
    const HmacSha256::Digest expected = HmacSha256(keys.key).digest({}, input);
    for (const size_t tag : {size_t{16}, size_t{10}}) {
        const auto cipher = make_cipher(Protection::HmacSha256, keys, tag);
        ASSERT_TRUE(cipher.has_value());
        std::vector<uint8_t> datagram(input.begin() + 12, input.end());
        datagram.resize(datagram.size() + tag);
        SealedUnit unit;
        unit.datagram = datagram;
        unit.header_bytes = 6;
        unit.space = 0x0128;
        unit.sequence = 0x0123;
        (*cipher)->seal(std::span(&unit, 1));
        EXPECT_TRUE(std::equal(datagram.end() - static_cast<ptrdiff_t>(tag), datagram.end(),
                               expected.begin()));
    }
}

}  // namespace
}  // namespace continuo::crypto
