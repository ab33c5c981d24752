#include "common/compress/incompressible.hpp"
#include "tests/unit/compress/sample_text.hpp"

#include <algorithm>
#include <initializer_list>

#include <gtest/gtest.h>

namespace continuo::compress {
namespace {

// A TLS 1.3 application data record: 5 bytes of head, then ciphertext.
std::vector<uint8_t> tls_record(size_t bytes, uint64_t seed) {
    std::vector<uint8_t> record = test::random_bytes(bytes, seed);
    const std::array<uint8_t, 5> head = {0x17, 0x03, 0x03, static_cast<uint8_t>((bytes - 5) >> 8),
                                         static_cast<uint8_t>(bytes - 5)};
    std::copy(head.begin(), head.end(), record.begin());
    return record;
}

template <typename Make>
double share_incompressible(size_t count, Make make) {
    size_t incompressible = 0;
    for (size_t i = 0; i < count; ++i) {
        incompressible += is_incompressible(make(i)) ? 1U : 0U;
    }
    return static_cast<double>(incompressible) / static_cast<double>(count);
}

TEST(Incompressible, RandomBytesAreFoundAtEveryLength) {
    for (const size_t bytes : std::initializer_list<size_t>{16, 20, 32, 36, 48, 64, 100, 160, 192,
                                                            193, 200, 400, 1360, 1460, 9000}) {
        EXPECT_GE(share_incompressible(
                      2000, [&](size_t i) { return test::random_bytes(bytes, 7000 * bytes + i); }),
                  0.995)
            << bytes;
    }
}

TEST(Incompressible, TlsRecordsAreFound) {
    for (const size_t bytes : std::initializer_list<size_t>{64, 200, 576, 1400}) {
        EXPECT_GE(share_incompressible(1000, [&](size_t i) { return tls_record(bytes, i); }), 0.99)
            << bytes;
    }
}

TEST(Incompressible, WordsAreNot) {
    for (const size_t bytes : std::initializer_list<size_t>{24, 40, 64, 100, 192, 576, 1360}) {
        EXPECT_LE(share_incompressible(1000,
                                       [&](size_t i) {
                                           const std::string text = test::words(bytes, i);
                                           return std::vector<uint8_t>(text.begin(), text.end());
                                       }),
                  0.002)
            << bytes;
    }
}

TEST(Incompressible, MarkupJsonHttpAndDnsAreNot) {
    const std::array<std::string, 4> texts = {
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Index</title><link "
        "rel=\"stylesheet\" href=\"/style.css\"></head><body><div class=\"row\"><a "
        "href=\"/a\">A</a>",
        R"({"id":18423,"name":"sensor-7","values":[21.5,21.6,21.4,21.9],"unit":"C","ok":true})",
        "GET /api/v1/items?page=2 HTTP/1.1\r\nHost: example.org\r\nUser-Agent: probe/1.0\r\n"
        "Accept: */*\r\n\r\n",
        "topic/room/12/temperature 21.5"};
    for (const std::string& text : texts) {
        EXPECT_FALSE(is_incompressible(test::view_of(text))) << text;
    }
    // RFC 1035: a question for www.example.org, type A, and an answer with a compressed name.
    const std::string dns("\x3a\x91\x81\x80\0\x01\0\x01\0\0\0\0\x03www\x07"
                          "example\x03org\0\0\x01\0\x01"
                          "\xc0\x0c\0\x01\0\x01\0\0\x0e\x10\0\x04\xc0\0\x02\x01",
                          49);
    EXPECT_FALSE(is_incompressible(test::view_of(dns)));
}

// Four random bytes after every four zero ones: half of it is to be saved, whatever the stride.
TEST(Incompressible, FieldsOfFixedWidthAreSeenWhole) {
    for (const size_t bytes : std::initializer_list<size_t>{384, 1344, 1536, 3072, 6144}) {
        std::vector<uint8_t> records = test::random_bytes(bytes, bytes);
        for (size_t i = 0; i < records.size(); ++i) {
            records[i] = i % 8 < 4 ? 0 : records[i];
        }
        EXPECT_FALSE(is_incompressible(records)) << bytes;
    }
}

TEST(Incompressible, TooFewBytesTellNothing) {
    for (size_t bytes = 0; bytes < kMinSampledBytes; ++bytes) {
        EXPECT_FALSE(is_incompressible(test::random_bytes(bytes, bytes)));
    }
}

TEST(Incompressible, NoPieceOfSharedTextsIs) {
    for (const char* name : {"alice29.txt", "plrabn12.txt"}) {
        const std::string text = test::shared_text(name);
        if (text.empty()) {
            GTEST_SKIP() << "no " << test::shared_texts() / name;
        }
        for (const size_t bytes : std::initializer_list<size_t>{32, 100, 576, 1360}) {
            const size_t pieces = text.size() / bytes;
            EXPECT_LE(share_incompressible(
                          pieces,
                          [&](size_t i) { return test::view_of(text).subspan(i * bytes, bytes); }),
                      0.001)
                << name << " " << bytes;
        }
    }
}

}  // namespace
}  // namespace continuo::compress
