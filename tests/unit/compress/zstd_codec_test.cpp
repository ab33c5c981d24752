#include "common/compress/zstd_codec.hpp"
#include "tests/unit/compress/sample_text.hpp"

#include <algorithm>
#include <initializer_list>

#include <gtest/gtest.h>

namespace continuo::compress {
namespace {

using base::ByteView;
using base::Errc;

std::vector<uint8_t> compressed(ZstdCodec& codec, ByteView plain) {
    std::vector<uint8_t> content(kMaxPlainBytes);
    const auto bytes = codec.compress(plain, content);
    content.resize(bytes.value_or(0));
    return content;
}

TEST(ZstdCodec, GivesBackWhatItCompressedAtEveryLevelAndLength) {
    ZstdCodec codec;
    std::vector<uint8_t> plain_again(kMaxPlainBytes);
    for (int level = kMinLevel; level <= kMaxLevel; ++level) {
        codec.set_level(level);
        size_t shrunk = 0;
        for (const size_t bytes :
             std::initializer_list<size_t>{1, 2, 10, 64, 100, 200, 576, 1360, 1500, 3000, 9000,
                                           16384, 16385, 30000, 65535, 65536}) {
            const std::string text = test::words(bytes, bytes);
            const std::vector<uint8_t> content = compressed(codec, test::view_of(text));
            if (content.empty()) {
                EXPECT_TRUE(level == 0 || bytes < 200) << level << " " << bytes;
                continue;
            }
            ++shrunk;
            EXPECT_LT(content.size() + 1, text.size());
            const auto again = codec.decompress(content, plain_again);
            ASSERT_TRUE(again.has_value()) << level << " " << bytes;
            ASSERT_EQ(*again, bytes);
            EXPECT_TRUE(std::equal(text.begin(), text.end(), plain_again.begin(),
                                   [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; }));
        }
        EXPECT_EQ(shrunk > 0, level != 0) << level;
    }
}

TEST(ZstdCodec, StoresRawWhatDoesNotShrink) {
    ZstdCodec codec;
    std::vector<uint8_t> to(2 * kMaxPlainBytes);
    EXPECT_FALSE(codec.compress({}, to).has_value());
    for (const size_t bytes : std::initializer_list<size_t>{1, 5, 20, 100, 1400, 20000, 65536}) {
        EXPECT_FALSE(codec.compress(test::random_bytes(bytes, bytes), to).has_value()) << bytes;
    }
    const std::vector<uint8_t> too_long(kMaxPlainBytes + 1, 'a');
    EXPECT_FALSE(codec.compress(too_long, to).has_value());
}

// Equal bytes become an RLE block, which has another type and no content of its own.
TEST(ZstdCodec, ARunOfOneByteIsStoredRawOrComesBack) {
    ZstdCodec codec;
    std::vector<uint8_t> to(kMaxPlainBytes);
    std::vector<uint8_t> again(kMaxPlainBytes);
    for (const size_t bytes : std::initializer_list<size_t>{3, 50, 1400, 65536}) {
        const std::vector<uint8_t> plain(bytes, 'x');
        if (const auto content = codec.compress(plain, to)) {
            const auto back = codec.decompress(ByteView(to).first(*content), again);
            ASSERT_TRUE(back.has_value());
            EXPECT_TRUE(std::equal(plain.begin(), plain.end(), again.begin()));
            EXPECT_EQ(*back, bytes);
        }
    }
}

TEST(ZstdCodec, LevelZeroCompressesNothingAndLevelsAreClamped) {
    ZstdCodec codec;
    const std::string text = test::words(1400, 1);
    EXPECT_FALSE(compressed(codec, test::view_of(text)).empty());
    codec.set_level(0);
    EXPECT_TRUE(compressed(codec, test::view_of(text)).empty());
    codec.set_level(100);
    EXPECT_EQ(codec.level(), kMaxLevel);
    EXPECT_FALSE(compressed(codec, test::view_of(text)).empty());
    codec.set_level(-100);
    EXPECT_EQ(codec.level(), kMinLevel);
}

TEST(ZstdCodec, WritesNothingWhenTheContentDoesNotFit) {
    ZstdCodec codec;
    const std::string text = test::words(1400, 1);
    const size_t bytes = compressed(codec, test::view_of(text)).size();
    ASSERT_GT(bytes, 0U);
    std::vector<uint8_t> to(bytes + 8, 0xEE);
    EXPECT_FALSE(codec.compress(test::view_of(text), base::MutableByteView(to).first(bytes - 1))
                     .has_value());
    EXPECT_TRUE(std::all_of(to.begin(), to.end(), [](uint8_t byte) { return byte == 0xEE; }));
    EXPECT_EQ(codec.compress(test::view_of(text), base::MutableByteView(to).first(bytes)), bytes);
    EXPECT_EQ(to[bytes], 0xEE);
}

TEST(ZstdCodec, NeverWritesBeyondTheOutputBound) {
    ZstdCodec codec;
    const std::string text = test::words(4000, 2);
    const std::vector<uint8_t> content = compressed(codec, test::view_of(text));
    ASSERT_FALSE(content.empty());
    for (size_t bound = 0; bound < text.size(); bound += bound < 64 ? 1 : 37) {
        std::vector<uint8_t> to(text.size() + 64, 0xEE);
        const auto result = codec.decompress(content, base::MutableByteView(to).first(bound));
        ASSERT_FALSE(result.has_value()) << bound;
        EXPECT_EQ(result.error().code, Errc::Malformed);
        EXPECT_TRUE(std::all_of(to.begin() + static_cast<ptrdiff_t>(bound), to.end(),
                                [](uint8_t byte) { return byte == 0xEE; }))
            << bound;
    }
    std::vector<uint8_t> to(text.size());
    EXPECT_TRUE(codec.decompress(content, to).has_value());
}

// 128 KiB from a few bytes are possible in one block; the limit of a section holds even in a larger
// buffer.
TEST(ZstdCodec, NeverGivesMoreThanASectionMayHold) {
    // Literals: RLE, 131071 times 'a' (RFC 8878 section 3.1.1.3.1.1), then no sequences.
    const uint32_t head = 1U | 3U << 2 | 131071U << 4;
    const std::vector<uint8_t> content = {static_cast<uint8_t>(head),
                                          static_cast<uint8_t>(head >> 8),
                                          static_cast<uint8_t>(head >> 16), 'a', 0};
    ZstdCodec codec;
    std::vector<uint8_t> to(1 << 20, 0xEE);
    EXPECT_FALSE(codec.decompress(content, to).has_value());
    EXPECT_TRUE(std::all_of(to.begin() + kMaxPlainBytes, to.end(),
                            [](uint8_t byte) { return byte == 0xEE; }));
    const uint32_t small = 1U | 3U << 2 | 60000U << 4;
    const std::vector<uint8_t> allowed = {static_cast<uint8_t>(small),
                                          static_cast<uint8_t>(small >> 8),
                                          static_cast<uint8_t>(small >> 16), 'a', 0};
    const auto result = codec.decompress(allowed, to);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(*result, 60000U);
}

TEST(ZstdCodec, EveryTruncationFailsOrGivesSomethingBounded) {
    ZstdCodec codec;
    const std::string text = test::words(1360, 3);
    const std::vector<uint8_t> content = compressed(codec, test::view_of(text));
    std::vector<uint8_t> to(2000);
    for (size_t length = 0; length < content.size(); ++length) {
        const auto result = codec.decompress(ByteView(content).first(length), to);
        if (length == 0) {
            ASSERT_FALSE(result.has_value());
            EXPECT_EQ(result.error().code, Errc::Truncated);
        }
        if (result.has_value()) {
            EXPECT_LE(*result, to.size());
        }
    }
}

TEST(ZstdCodec, GoesOnAfterGarbage) {
    ZstdCodec codec;
    const std::string text = test::words(1360, 4);
    const std::vector<uint8_t> content = compressed(codec, test::view_of(text));
    std::vector<uint8_t> to(kMaxPlainBytes);
    base::SeededRandom random(5);
    for (int i = 0; i < 3000; ++i) {
        std::vector<uint8_t> damaged = content;
        const size_t changes = 1 + random.below(4);
        for (size_t change = 0; change < changes; ++change) {
            damaged[random.below(damaged.size())] ^= static_cast<uint8_t>(1 + random.below(255));
        }
        const auto result =
            codec.decompress(i % 2 == 0 ? damaged : test::random_bytes(80, random.u64()), to);
        EXPECT_TRUE(!result.has_value() || *result <= to.size());
    }
    const auto result = codec.decompress(content, to);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(*result, text.size());
    EXPECT_FALSE(codec.decompress(std::vector<uint8_t>(kMaxPlainBytes + 1), to).has_value());
}

TEST(ZstdCodec, SavesMostOfSharedTexts) {
    for (const char* name : {"alice29.txt", "plrabn12.txt"}) {
        const std::string text = test::shared_text(name);
        if (text.empty()) {
            GTEST_SKIP() << "no " << test::shared_texts() / name;
        }
        ZstdCodec codec;
        std::vector<uint8_t> to(kMaxPlainBytes);
        size_t plain = 0;
        size_t wire = 0;
        for (size_t at = 0; at + 4000 <= text.size(); at += 4000) {
            const auto bytes = codec.compress(test::view_of(text).subspan(at, 4000), to);
            plain += 4000;
            wire += bytes.value_or(4000);
        }
        EXPECT_LT(wire * 100, plain * 60) << name;
    }
}

}  // namespace
}  // namespace continuo::compress
