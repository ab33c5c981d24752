#include "common/dataplane/stream_input.hpp"

#include <gtest/gtest.h>

namespace continuo::dataplane {
namespace {

using Bytes = std::vector<uint8_t>;

class StreamInputTest : public testing::Test {
  protected:
    StreamInputTest() {
        input.set_on_room([this] {
            ++told;
            return can_be_told;
        });
    }
    // As one read of the connection: a buffer, and the rest of a TLS record.
    void read() {
        for (size_t bytes = 0; bytes + kDatagram.size() + 2 <= StreamInput::kReadAheadBytes;
             bytes += kDatagram.size() + 2) {
            input.on_datagram(kDatagram);
            ++came;
        }
    }
    // The data loop: takes `most`, and tells of room as DatagramReceiver does.
    uint64_t pull(size_t most) {
        const DatagramQueue::Pulled pulled =
            input.queue()->pull([&](base::MutableByteView) { return most > 0 && most-- > 0; });
        if (pulled.tells_room) {
            input.queue()->tell_room();
        }
        return pulled.refused;
    }

    // Bulk: the class that is refused first.
    const Bytes kDatagram = [] {
        Bytes bytes(1400);
        bytes[0] = 0x10 | static_cast<uint8_t>(base::TrafficClass::HtHd);
        return bytes;
    }();
    StreamInput input;
    size_t came = 0;
    int told = 0;
    bool can_be_told = true;
};

TEST_F(StreamInputTest, NothingOfWhatIsReadWhileItMayBeIsLost) {
    while (input.may_read()) {
        read();
    }
    EXPECT_GE(came * kDatagram.size(), StreamInput::kEnoughBytes - 3000);
    size_t taken = 0;
    const auto pulled = input.queue()->pull([&](base::MutableByteView) { return ++taken > 0; });
    EXPECT_EQ(taken, came);
    EXPECT_EQ(pulled.refused, 0U);
}

TEST_F(StreamInputTest, TheReaderIsToldOfRoomOnceAndOnlyIfItAsked) {
    read();
    EXPECT_TRUE(input.may_read());
    EXPECT_EQ(pull(SIZE_MAX), 0U);
    EXPECT_EQ(told, 0);
    while (input.may_read()) {
        read();
    }
    pull(1);
    EXPECT_EQ(told, 0) << "too little has gone";
    pull(SIZE_MAX);
    EXPECT_EQ(told, 1);
    EXPECT_TRUE(input.may_read());
    pull(SIZE_MAX);
    EXPECT_EQ(told, 1);
}

TEST_F(StreamInputTest, WhoCouldNotBeToldIsToldAgain) {
    while (input.may_read()) {
        read();
    }
    can_be_told = false;
    pull(SIZE_MAX);
    can_be_told = true;
    pull(SIZE_MAX);
    EXPECT_EQ(told, 2);
}

TEST_F(StreamInputTest, ASessionThatEndsLeavesRoom) {
    while (input.may_read()) {
        read();
    }
    input.queue()->discard();
    EXPECT_EQ(told, 1);
    EXPECT_TRUE(input.may_read());
    EXPECT_TRUE(input.take_wake());
    read();
    EXPECT_TRUE(input.take_wake()) << "the data loop does not know of what came since";
}

}  // namespace
}  // namespace continuo::dataplane
