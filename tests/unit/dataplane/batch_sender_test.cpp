// Datagrams that are sent, kept and dropped when sockets are full.
#include "common/dataplane/batch_sender.hpp"
#include "tests/support/session_pair.hpp"

#include <map>
#include <utility>

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

// Sockets that take as many items as a test says, and of one more so many bytes; what they took is
// the first octet of each.
class Sockets final : public dataplane::SocketDirectory {
  public:
    io::UdpSocket* socket_for(const session::TransmitItem& item) override {
        if (has_gone) {
            return nullptr;
        }
        return item.traffic_class == base::TrafficClass::HtHd ? &second : &first;
    }
    std::optional<uint8_t> tos_of(const session::TransmitItem& /*item*/) override { return {}; }
    io::SendResult send(io::UdpSocket& socket, std::span<const io::SendItem> items) override {
        io::SendResult result;
        size_t& left = room[&socket];
        for (; left > 0 && result.items < items.size(); --left) {
            taken += static_cast<char>(items[result.items++].bytes[0]);
        }
        result.would_block = result.items < items.size();
        if (result.would_block) {
            result.bytes_of_next = std::exchange(part_bytes, 0);
            sizes_seen += std::to_string(items[result.items].bytes.size()) + " ";
        }
        return result;
    }
    void wait_writable(io::UdpSocket& socket) override { waited_for = &socket; }
    void on_too_big(const session::TransmitItem& /*item*/) override {}

    io::UdpSocket first = loopback_socket();
    io::UdpSocket second = loopback_socket();
    std::map<const io::UdpSocket*, size_t> room;
    size_t part_bytes = 0;
    bool has_gone = false;
    std::string taken;
    std::string sizes_seen;  // of what came first and was not taken whole
    const io::UdpSocket* waited_for = nullptr;
};

class Sender : public testing::Test {
  protected:
    static constexpr uint8_t kOtherPath = 3;
    static constexpr auto kOther = base::TrafficClass::HtHd;  // of the second socket

    Sender() { pair_.run_for(base::seconds(1)); }

    void add(char name,
             uint8_t path,
             base::TrafficClass traffic_class = base::TrafficClass::LtLd,
             uint32_t length = 1) {
        session::TransmitItem item;
        item.session = pair_.node.session.get();
        item.path = path;
        item.traffic_class = traffic_class;
        item.length = length;
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
    sender_.flush(now_);
    EXPECT_TRUE(sender_.is_holding());
    EXPECT_EQ(sockets_.waited_for, &sockets_.first);
    sockets_.room[&sockets_.first] = 8;
    EXPECT_TRUE(sender_.retry(now_));
    EXPECT_FALSE(sender_.is_holding());
    EXPECT_EQ(sockets_.taken, "ab");
    EXPECT_EQ(dropped(), 0U);
}

TEST_F(Sender, OtherSocketsGoOnWhileOneIsFull) {
    add('a', active());
    add('b', active(), kOther);
    add('c', active());
    add('d', active(), kOther);
    sockets_.room[&sockets_.second] = 8;
    sender_.flush(now_);
    EXPECT_EQ(sockets_.taken, "bd");
    add('e', active(), kOther);
    sender_.flush(now_);
    EXPECT_EQ(sockets_.taken, "bde");
    sockets_.room[&sockets_.first] = 8;
    EXPECT_TRUE(sender_.retry(now_));
    EXPECT_EQ(sockets_.taken, "bdeac");
    EXPECT_EQ(dropped(), 0U);
}

TEST_F(Sender, WhatComesLaterOvertakesNothingThatWaitsForTheSameSocket) {
    add('a', active());
    sender_.flush(now_);
    sockets_.room[&sockets_.first] = 8;
    add('b', active());
    sender_.flush(now_);
    EXPECT_EQ(sockets_.taken, "");
    EXPECT_TRUE(sender_.retry(now_));
    EXPECT_EQ(sockets_.taken, "ab");
}

TEST_F(Sender, OfARunThatWasTakenInPartTheRestIsSent) {
    add('a', active(), base::TrafficClass::LtLd, 100);
    add('b', active(), base::TrafficClass::LtLd, 30);
    sockets_.part_bytes = 40;
    sender_.flush(now_);
    sockets_.room[&sockets_.first] = 1;
    EXPECT_FALSE(sender_.retry(now_));
    EXPECT_EQ(sockets_.sizes_seen, "100 60 30 ") << "100, of which 40 were taken, then b whole";
}

TEST_F(Sender, TwoFullSocketsWaitEachForItself) {
    add('a', active());
    add('b', active(), kOther);
    sender_.flush(now_);
    sockets_.room[&sockets_.second] = 1;
    EXPECT_TRUE(sender_.retry(now_));
    EXPECT_EQ(sockets_.taken, "b");
    EXPECT_TRUE(sender_.is_holding());
    EXPECT_FALSE(sender_.retry(now_));
}

TEST_F(Sender, ABacklogTakesAsMuchAsABatchAndTheRestIsCounted) {
    constexpr uint32_t kLarge = 60000;
    constexpr size_t kFitting = session::kBatchArenaBytes / kLarge;
    for (size_t i = 0; i < kFitting + 2; ++i) {
        add('a', active(), base::TrafficClass::LtLd, kLarge);
        sender_.flush(now_);
    }
    EXPECT_EQ(dropped(), 2U);
    sockets_.room[&sockets_.first] = 100;
    EXPECT_TRUE(sender_.retry(now_));
    EXPECT_EQ(sockets_.taken, std::string(kFitting, 'a'));
}

TEST_F(Sender, WhatWaitedIsCountedOnce) {
    packet::FiveTuple tuple;
    flow::Flow& flow = pair_.node.flow(tuple, base::TrafficClass::LtLd);
    for (const char name : {'a', 'b'}) {
        sender_.batch().attribute({&flow, 1, 100, 60, 128});
        add(name, active());
    }
    const uint64_t before = flow.counters->counters.packets_up;
    sender_.flush(now_);
    EXPECT_EQ(flow.counters->counters.packets_up, before);
    sockets_.room[&sockets_.first] = 1;
    sender_.retry(now_);
    EXPECT_EQ(flow.counters->counters.packets_up, before + 1);
    sender_.forget(flow);  // it ends while the other one waits
    sockets_.room[&sockets_.first] = 1;
    sender_.retry(now_);
    EXPECT_EQ(sockets_.taken, "ab");
    EXPECT_EQ(flow.counters->counters.packets_up, before + 1);
}

TEST_F(Sender, APathToAFullSocketHasNoRoomUntilItIsSent) {
    tunnel::Session& session = *pair_.node.session;
    const auto budget = [&](base::TrafficClass traffic_class) {
        return session.paths().selector().destination(traffic_class, pair_.now)->budget_bytes;
    };
    add('a', active(), kOther);
    sender_.flush(now_);
    EXPECT_TRUE(sender_.set_rooms(session));
    EXPECT_EQ(budget(kOther), 0U);
    EXPECT_GT(budget(base::TrafficClass::LtLd), 1500U) << "its socket takes more";
    add('b', active());
    sender_.flush(now_);
    EXPECT_TRUE(sender_.set_rooms(session));
    EXPECT_EQ(budget(base::TrafficClass::LtLd), 0U);
    sockets_.room[&sockets_.first] = 1;
    sockets_.room[&sockets_.second] = 1;
    EXPECT_TRUE(sender_.retry(now_));
    EXPECT_FALSE(sender_.set_rooms(session));
    EXPECT_EQ(budget(kOther), UINT64_MAX);
}

TEST_F(Sender, WhatASessionHasGivenUpHoldsNobodyUpAndTakesNobodyAlong) {
    add('a', kOtherPath);
    add('b', active());
    add('c', kOtherPath);
    sender_.flush(now_);
    EXPECT_TRUE(sender_.is_holding());
    EXPECT_EQ(dropped(), 1U);  // b waits, c behind it is not judged yet
    sockets_.room[&sockets_.first] = 1;
    EXPECT_TRUE(sender_.retry(now_));
    EXPECT_EQ(sockets_.taken, "b");
    EXPECT_EQ(dropped(), 2U);
}

TEST_F(Sender, AJammedSocketLosesWhatWaitsForItAndNothingElse) {
    add('a', active());
    add('b', active());
    add('c', active(), kOther);
    sender_.flush(now_);
    EXPECT_FALSE(sender_.retry(now_ + kMaxBlocked / 2));
    sockets_.room[&sockets_.second] = 1;
    EXPECT_TRUE(sender_.retry(now_ + kMaxBlocked - base::milliseconds(1)));
    EXPECT_EQ(dropped(), 0U);
    EXPECT_TRUE(sender_.retry(now_ + kMaxBlocked));
    EXPECT_FALSE(sender_.is_holding());
    EXPECT_EQ(sockets_.taken, "c");
    EXPECT_EQ(dropped(), 2U);
}

TEST_F(Sender, ASocketThatTakesALittleIsNotJammed) {
    add('a', active());
    add('b', active());
    sender_.flush(now_);
    sockets_.room[&sockets_.first] = 1;
    EXPECT_FALSE(sender_.retry(now_ + kMaxBlocked / 2));
    EXPECT_FALSE(sender_.retry(now_ + kMaxBlocked));
    EXPECT_EQ(dropped(), 0U);
    sockets_.room[&sockets_.first] = 1;
    EXPECT_TRUE(sender_.retry(now_ + kMaxBlocked));
    EXPECT_EQ(sockets_.taken, "ab");
}

TEST_F(Sender, WhatWaitsForAnUplinkThatHasGoneIsDropped) {
    add('a', active());
    sender_.flush(now_);
    sockets_.has_gone = true;
    EXPECT_TRUE(sender_.retry(now_));
    EXPECT_EQ(dropped(), 1U);
}

TEST_F(Sender, ItemsOfAnEndedSessionAreSentAndCountedForNobody) {
    add('a', active());
    sender_.flush(now_);
    sender_.forget(*pair_.node.session);
    sockets_.room[&sockets_.first] = 1;
    EXPECT_TRUE(sender_.retry(now_));
    EXPECT_EQ(sockets_.taken, "a");
}

}  // namespace
