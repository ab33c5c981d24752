#include "common/dataplane/plain_stream.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace continuo::dataplane {
namespace {

using Records = std::vector<std::vector<uint8_t>>;

control::EpochKeys keys_of(uint32_t epoch) {
    control::EpochKeys keys;
    keys.epoch = epoch;
    keys.up.key.fill(static_cast<uint8_t>(epoch));
    return keys;
}

wire::Hello hello_of(uint32_t number, const control::EpochKeys& keys) {
    return make_hello(77, number, keys, wire::kFullTagBytes);
}

class PlainStreamTest : public testing::Test {
  protected:
    void SetUp() override {
        std::array<int, 2> fds{};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()),
                  0);
        peer = io::UniqueFd(fds[0]);
        stream.emplace(io::TcpStream(io::UniqueFd(fds[1])));
    }
    void write(base::ByteView bytes) {
        ASSERT_EQ(::send(peer.value(), bytes.data(), bytes.size(), 0),
                  static_cast<ssize_t>(bytes.size()));
    }
    // False: the connection is over.
    bool receive() {
        return stream->receive([this](base::ByteView record) {
            records.emplace_back(record.begin(), record.end());
            return true;
        });
    }
    std::vector<uint8_t> read_peer() {
        std::vector<uint8_t> all(1U << 20U);
        const ssize_t count = ::recv(peer.value(), all.data(), all.size(), 0);
        all.resize(count > 0 ? static_cast<size_t>(count) : 0);
        return all;
    }

    io::UniqueFd peer;
    std::optional<PlainStream> stream;
    Records records;
};

TEST_F(PlainStreamTest, ARecordMayComeInAnyPieces) {
    const std::vector<uint8_t> bytes = {0, 3, 1, 2, 3, 0, 1, 9};
    for (const uint8_t byte : bytes) {
        write({&byte, 1});
        EXPECT_TRUE(receive());
    }
    EXPECT_EQ(records, (Records{{1, 2, 3}, {9}}));
}

TEST_F(PlainStreamTest, WhatIsLeftWaitsForTheNextCall) {
    write(std::vector<uint8_t>{0, 1, 7, 0, 1, 8});
    EXPECT_TRUE(stream->receive([this](base::ByteView record) {
        records.emplace_back(record.begin(), record.end());
        return false;
    }));
    EXPECT_EQ(records.size(), 1U);
    EXPECT_TRUE(receive());
    EXPECT_EQ(records, (Records{{7}, {8}}));
}

TEST_F(PlainStreamTest, ARecordOfNoLengthOrTooLongEndsIt) {
    write(std::vector<uint8_t>{0, 0});
    EXPECT_FALSE(receive());
    EXPECT_FALSE(receive());
    EXPECT_TRUE(records.empty());
}

TEST_F(PlainStreamTest, TheEndOfTheStreamIsTold) {
    write(std::vector<uint8_t>{0, 5, 1});
    peer = {};
    EXPECT_FALSE(receive());
    EXPECT_TRUE(records.empty());
}

TEST_F(PlainStreamTest, HelloGoesFirstThenDatagramsAsRecords) {
    DatagramQueue queue;
    queue.push(std::vector<uint8_t>{0, 1, 2}, 0);
    const wire::Hello hello = hello_of(1, keys_of(1));
    stream->set_hello(hello);
    const auto flushed = stream->flush(queue);
    ASSERT_TRUE(flushed);
    EXPECT_TRUE(flushed->is_done);
    const auto bytes = read_peer();
    ASSERT_EQ(bytes.size(), 2 + hello.size() + 2 + 3);
    base::ByteReader reader(base::ByteView(bytes).subspan(2, hello.size()));
    EXPECT_EQ(wire::Hello::parse(reader).value(), hello);
    EXPECT_EQ(std::vector<uint8_t>(bytes.end() - 5, bytes.end()),
              (std::vector<uint8_t>{0, 3, 0, 1, 2}));
}

TEST_F(PlainStreamTest, AStalledPeerLeavesInTheQueueWhatItDoesNotTake) {
    DatagramQueue queue;
    const std::vector<uint8_t> bulk(1400, 3);  // ht-hd
    size_t pushed = 0;
    base::Result<PlainStream::Flushed> flushed = PlainStream::Flushed{};
    while (queue.push(bulk, 0).is_taken) {
        ++pushed;
        flushed = stream->flush(queue);
        ASSERT_TRUE(flushed);
    }
    EXPECT_FALSE(flushed->is_done);
    const std::vector<uint8_t> voice(60, 1);  // ht-ld
    ASSERT_TRUE(queue.push(voice, 0).is_taken) << "low delay has its part";
    std::vector<uint8_t> all;
    while (!flushed->is_done) {
        const auto more = read_peer();
        all.insert(all.end(), more.begin(), more.end());
        flushed = stream->flush(queue);
        ASSERT_TRUE(flushed);
    }
    const auto rest = read_peer();
    all.insert(all.end(), rest.begin(), rest.end());
    size_t at = 0;
    size_t bulk_count = 0;
    size_t bulk_after_voice = 0;
    bool has_voice = false;
    while (at < all.size()) {
        const auto record = wire::parse_record(base::ByteView(all).subspan(at));
        ASSERT_TRUE(record);
        has_voice = has_voice || record->size() == voice.size();
        bulk_count += record->size() == bulk.size() ? 1U : 0U;
        bulk_after_voice += has_voice && record->size() == bulk.size() ? 1U : 0U;
        at += wire::kRecordLengthBytes + record->size();
    }
    EXPECT_EQ(bulk_count, pushed);
    EXPECT_TRUE(has_voice);
    EXPECT_GT(bulk_after_voice * bulk.size(), DatagramQueue::kLimitBytes -
                                                  DatagramQueue::kReservedBytes -
                                                  3 * kMaxUnwrittenStreamBytes);
}

TEST(HelloCheck, BelievesANodeThatHasTheKeysOnce) {
    HelloCheck check;
    check.add(keys_of(1));
    const wire::Hello first = hello_of(1, keys_of(1));
    EXPECT_TRUE(check.accepts(first, wire::kFullTagBytes));
    EXPECT_FALSE(check.accepts(first, wire::kFullTagBytes)) << "overheard and sent again";
    EXPECT_TRUE(check.accepts(hello_of(5, keys_of(1)), wire::kFullTagBytes));
    EXPECT_FALSE(check.accepts(hello_of(4, keys_of(1)), wire::kFullTagBytes));
}

TEST(HelloCheck, RefusesOtherKeysNumbersAndTags) {
    HelloCheck check;
    EXPECT_FALSE(check.accepts(hello_of(1, keys_of(1)), wire::kFullTagBytes)) << "no keys yet";
    check.add(keys_of(1));
    wire::Hello hello = hello_of(1, keys_of(1));
    hello.number = 2;
    EXPECT_FALSE(check.accepts(hello, wire::kFullTagBytes));
    EXPECT_FALSE(check.accepts(hello_of(1, keys_of(5)), wire::kFullTagBytes));
    EXPECT_FALSE(
        check.accepts(make_hello(77, 1, keys_of(1), wire::kShortTagBytes), wire::kFullTagBytes));
    EXPECT_TRUE(check.accepts(hello_of(1, keys_of(1)), wire::kFullTagBytes));
}

TEST(HelloCheck, TwoEpochsAreGoodAndTheThirdIsGone) {
    HelloCheck check;
    for (uint32_t epoch = 1; epoch <= 3; ++epoch) {
        check.add(keys_of(epoch));
    }
    EXPECT_FALSE(check.accepts(hello_of(9, keys_of(1)), wire::kFullTagBytes));
    EXPECT_TRUE(check.accepts(hello_of(2, keys_of(2)), wire::kFullTagBytes));
    EXPECT_TRUE(check.accepts(hello_of(1, keys_of(3)), wire::kFullTagBytes));
}

}  // namespace
}  // namespace continuo::dataplane
