#include "common/wire/tcp_record.hpp"
#include "common/wire/unsealed.hpp"
#include "tests/unit/wire/vector_file.hpp"

#include <map>

namespace continuo::wire {
namespace {

using base::ByteReader;
using base::ByteView;
using base::ByteWriter;
using base::Errc;
using test::Bytes;
using test::read_vectors;
using test::to_hex;
using test::VectorRecord;

Errc errc_of(const std::string& text) {
    const std::map<std::string, Errc> codes = {{"truncated", Errc::Truncated},
                                               {"malformed", Errc::Malformed},
                                               {"unsupported", Errc::Unsupported}};
    return codes.at(text);
}

std::string text_of(const Quote& quote) {
    return to_hex(quote.first) + to_hex(quote.last);
}

std::string describe(const Versions& message) {
    std::string text = "VERSIONS quote=" + text_of(message.quote) + " supported=";
    bool first = true;
    for (uint8_t version = 0; version < 16; ++version) {
        if (message.supports(version)) {
            text += (first ? "" : ",") + std::to_string(version);
            first = false;
        }
    }
    return text;
}

std::string describe(const Unknown& message) {
    return "UNKNOWN reason=" + std::to_string(static_cast<unsigned>(message.reason)) +
           " quote=" + text_of(message.quote);
}

template <typename Message>
Bytes bytes_of(const Message& message) {
    Bytes bytes(message.size());
    ByteWriter writer(bytes);
    message.serialize(writer);
    EXPECT_TRUE(writer.ok());
    EXPECT_EQ(writer.size(), bytes.size());
    return bytes;
}

TEST(UnsealedTest, ParsesAndSerializesTheVectors) {
    for (const VectorRecord& record : read_vectors("unsealed.hex")) {
        SCOPED_TRACE(record.name);
        const auto parsed = parse_unsealed(record.bytes);
        if (const auto error = record.find("error")) {
            ASSERT_FALSE(parsed);
            EXPECT_EQ(parsed.error().code, errc_of(*error));
            continue;
        }
        ASSERT_TRUE(parsed);
        std::visit(
            [&record](const auto& message) {
                EXPECT_EQ(describe(message), record.text("message"));
                EXPECT_EQ(bytes_of(message), record.bytes);
            },
            *parsed);
    }
}

TEST(UnsealedTest, TruncationsAndFlippedBitsAreRefusedOrAnotherMessage) {
    for (const VectorRecord& record : read_vectors("unsealed.hex")) {
        for (size_t length = 0; length < record.bytes.size(); ++length) {
            const Bytes cut(record.bytes.begin(),
                            record.bytes.begin() + static_cast<std::ptrdiff_t>(length));
            const auto parsed = parse_unsealed(cut);
            EXPECT_TRUE(!parsed || cut.size() > Quote::kBytes + 1) << record.name;
        }
        for (size_t bit = 0; bit < record.bytes.size() * 8; ++bit) {
            Bytes flipped = record.bytes;
            flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ 0x80U >> bit % 8);
            const auto parsed = parse_unsealed(flipped);
            if (parsed) {
                std::visit([](const auto& message) { bytes_of(message); }, *parsed);
            }
        }
    }
}

TEST(UnsealedTest, EveryOtherTypeIsUnsupported) {
    for (unsigned first = 0; first < 256; ++first) {
        Bytes bytes(16, 0x11);
        bytes[0] = static_cast<uint8_t>(first);
        const auto parsed = parse_unsealed(bytes);
        if (first == 1 || first == 2) {
            EXPECT_TRUE(parsed) << first;
        } else {
            ASSERT_FALSE(parsed) << first;
            EXPECT_EQ(parsed.error().code, Errc::Unsupported) << first;
        }
    }
}

TEST(UnsealedTest, QuoteTakesBothEndsOfTheCause) {
    Bytes cause(40);
    for (size_t i = 0; i < cause.size(); ++i) {
        cause[i] = static_cast<uint8_t>(i);
    }
    const auto quote = Quote::of(cause);
    ASSERT_TRUE(quote);
    EXPECT_EQ(text_of(*quote), "0001020304052021222324252627");
    EXPECT_TRUE(Quote::of(ByteView(cause).first(14)));
    EXPECT_FALSE(Quote::of(ByteView(cause).first(13)));
}

// The smallest sealed datagram has a header of 6 and a tag of 10 bytes.
TEST(UnsealedTest, UnknownIsNeverLongerThanASealedDatagram) {
    EXPECT_LE(Unknown::kBytes, kShortHeaderBytes + kShortTagBytes);
    EXPECT_TRUE(may_answer(Unknown::kBytes, 16));
    EXPECT_FALSE(may_answer(Unknown::kBytes, 15));
}

TEST(TcpRecordTest, FollowsTheVectors) {
    for (const VectorRecord& record : read_vectors("tcp_record.hex")) {
        SCOPED_TRACE(record.name);
        ByteReader reader(record.bytes);
        if (const auto content = record.find("content")) {
            const auto parsed = parse_record(record.bytes);
            ASSERT_TRUE(parsed);
            EXPECT_EQ(to_hex(*parsed), *content);
        } else if (const auto error = record.find("error")) {
            const auto parsed = parse_record(record.bytes);
            ASSERT_FALSE(parsed);
            EXPECT_EQ(parsed.error().code, errc_of(*error));
        } else if (const auto hello_error = record.find("hello_error")) {
            const auto parsed = Hello::parse(reader);
            ASSERT_FALSE(parsed);
            EXPECT_EQ(parsed.error().code, errc_of(*hello_error));
        } else {
            const auto parsed = Hello::parse(reader);
            ASSERT_TRUE(parsed);
            const uint8_t id[] = {static_cast<uint8_t>(parsed->session_id >> 8),
                                  static_cast<uint8_t>(parsed->session_id)};
            std::array<uint8_t, 4> number{};
            base::store_big_endian(number.data(), parsed->number);
            EXPECT_EQ("version=" + std::to_string(parsed->version) +
                          " epoch=" + std::to_string(parsed->epoch) + " session_id=" + to_hex(id) +
                          " number=" + to_hex(number) +
                          " tag=" + to_hex(ByteView(parsed->tag).first(parsed->tag_bytes)),
                      record.text("hello"));
            EXPECT_EQ(bytes_of(*parsed), record.bytes);
        }
    }
}

TEST(TcpRecordTest, LargestRecordPassesAndOneMoreDoesNot) {
    Bytes buffer(kRecordLengthBytes + kMaxTcpRecordBytes);
    ByteWriter writer(buffer);
    write_record_length(writer, kMaxTcpRecordBytes);
    ASSERT_TRUE(writer.ok());
    const auto parsed = parse_record(buffer);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->size(), kMaxTcpRecordBytes);
    for (const size_t wrong : {size_t{0}, kMaxTcpRecordBytes + 1}) {
        ByteWriter refused(buffer);
        write_record_length(refused, wrong);
        EXPECT_FALSE(refused.ok());
        EXPECT_EQ(refused.size(), 0U);
    }
}

TEST(TcpRecordTest, HelloSignsAllButItsTag) {
    Hello hello;
    hello.epoch = 2;
    hello.session_id = 0x4A31;
    hello.number = 0x01020304;
    const Bytes bytes = bytes_of(hello);
    EXPECT_EQ(to_hex(hello.signed_part()), to_hex(ByteView(bytes).first(Hello::kSignedBytes)));
}

}  // namespace
}  // namespace continuo::wire
