// What is sent, kept and dropped when sockets are full.
#include "common/dataplane/batch_sender.hpp"
#include "tests/support/session_pair.hpp"

#include <map>

#include <gtest/gtest.h>

namespace {

using namespace continuo;
using base::DropReason;
using dataplane::BatchSender;
using dataplane::kMaxBlocked;

io::UdpSocket loopback_socket() {
    io::UdpSocketOptions options;
    options.local = {*base::IpAddress::parse("127.0.0.1"), 0};
    auto socket = io::UdpSocket::open(options);
    CTN_ASSERT(socket.has_value());
    return std::move(socket).value();
}

// Sockets that take as many items as a test says; what they took is the first octet of each.
class Sockets final : public dataplane::SocketDirectory {
  public:
    io::UdpSocket* socket_for(const session::TransmitItem& item) override {
        return item.marked_class == base::TrafficClass::LtLd ? &first : &second;
    }
    uint8_t tos_of(const session::TransmitItem& /*item*/) override { return 0; }
    io::SendResult send(io::UdpSocket& socket, std::span<const io::SendItem> items) override {
        io::SendResult result;
        size_t& left = room[&socket];
        for (; left > 0 && result.items < items.size(); --left) {
            taken += static_cast<char>(items[result.items++].bytes[0]);
        }
        result.would_block = result.items < items.size();
        return result;
    }
    void wait_writable(io::UdpSocket& socket) override { waited_for = &socket; }
    void on_too_big(const session::TransmitItem& /*item*/) override {}

    io::UdpSocket first = loopback_socket();
    io::UdpSocket second = loopback_socket();
    std::map<const io::UdpSocket*, size_t> room;
    std::string taken;
    const io::UdpSocket* waited_for = nullptr;
};

class Sender : public testing::Test {
  protected:
    static constexpr uint8_t kOtherPath = 3;

    Sender() { pair_.run_for(base::seconds(1)); }

    void add(char name, uint8_t path, base::TrafficClass traffic_class = base::TrafficClass::LtLd) {
        session::TransmitItem item;
        item.session = pair_.node.session.get();
        item.path = path;
        item.marked_class = traffic_class;
        item.length = 1;
        sender_.batch().free_space()[0] = static_cast<uint8_t>(name);
        sender_.batch().commit(item);
    }
    uint8_t active() { return *pair_.node.session->paths().active(); }
    uint64_t dropped() { return drops_.count(DropReason::SendFailed); }

    tests::SessionPair pair_{tests::SimLink{}};
    base::TimePoint now_{base::seconds(1)};
    base::DropCounters drops_;
    Sockets sockets_;
    BatchSender sender_{sockets_, drops_};
};

TEST_F(Sender, KeepsWhatAFullSocketDoesNotTake) {
    add('a', active());
    add('b', active());
    sockets_.room[&sockets_.first] = 1;
    EXPECT_FALSE(sender_.flush(now_));
    EXPECT_EQ(sockets_.waited_for, &sockets_.first);
    sockets_.room[&sockets_.first] = 8;
    EXPECT_TRUE(sender_.flush(now_));
    EXPECT_EQ(sockets_.taken, "ab");
    EXPECT_EQ(dropped(), 0U);
}

TEST_F(Sender, WhatASessionHasGivenUpHoldsNobodyUpAndTakesNobodyAlong) {
    add('a', kOtherPath);
    add('b', active());
    add('c', kOtherPath);
    EXPECT_FALSE(sender_.flush(now_));
    EXPECT_EQ(dropped(), 1U);  // b waits, c behind it is not judged yet
    sockets_.room[&sockets_.first] = 1;
    EXPECT_TRUE(sender_.flush(now_));
    EXPECT_EQ(sockets_.taken, "b");
    EXPECT_EQ(dropped(), 2U);
}

TEST_F(Sender, AJammedSocketLosesWhatWaitsForItAndNothingElse) {
    add('a', active());
    add('b', active());
    add('c', active(), base::TrafficClass::HtHd);
    sockets_.room[&sockets_.second] = 1;
    EXPECT_FALSE(sender_.flush(now_));
    EXPECT_FALSE(sender_.flush(now_ + kMaxBlocked - base::milliseconds(1)));
    EXPECT_EQ(dropped(), 0U);
    EXPECT_TRUE(sender_.flush(now_ + kMaxBlocked));
    EXPECT_EQ(sockets_.taken, "c");
    EXPECT_EQ(dropped(), 2U);
}

TEST_F(Sender, ASocketThatTakesALittleIsNotJammed) {
    add('a', active());
    add('b', active());
    EXPECT_FALSE(sender_.flush(now_));
    sockets_.room[&sockets_.first] = 1;
    EXPECT_FALSE(sender_.flush(now_ + kMaxBlocked / 2));
    EXPECT_FALSE(sender_.flush(now_ + kMaxBlocked));
    EXPECT_EQ(dropped(), 0U);
    sockets_.room[&sockets_.first] = 1;
    EXPECT_TRUE(sender_.flush(now_ + kMaxBlocked));
    EXPECT_EQ(sockets_.taken, "ab");
}

TEST_F(Sender, ItemsOfAnEndedSessionAreSentAndCountedForNobody) {
    add('a', active());
    sender_.forget(*pair_.node.session);
    sockets_.room[&sockets_.first] = 1;
    EXPECT_TRUE(sender_.flush(now_));
    EXPECT_EQ(sockets_.taken, "a");
}

}  // namespace
