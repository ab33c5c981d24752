// Datagrams from addresses that no node is known to use: of nodes that are new or have moved, and
// of others.
#include "tests/unit/snapt/relay/relay_input_fixture.hpp"

namespace continuo::snapt::relay {
namespace {

// A session's number can be read on the way.
TEST_F(RelayInput, AStrangerTakesNothingOfTheSessionThatItNames) {
    const auto node = make_node(2);
    io::UdpSocket elsewhere = node->open();
    const size_t room = turns::kStrangersQueueBytes / packet::kSmallBufferBytes;
    for (size_t i = 0; i < 2 * room; ++i) {
        Bytes forged = node->packets(1);
        forged.back() ^= 1U;
        Node::send_by(elsewhere, forged);
    }
    node->send(node->packets(1));
    ASSERT_TRUE(loop.run_until([&] { return node->packets_up() == 1; }, base::seconds(20)));
    EXPECT_LT(node->at_relay().session.drops().count(DropReason::Unauthentic), room);
    EXPECT_EQ(drops(DropReason::StrangersFull), room);
    EXPECT_EQ(node->at_relay().dropped_inputs(), 0U);
}

TEST_F(RelayInput, ANodeThatMovesIsHeardWhateverItHasSentBefore) {
    const auto node = make_node(2);
    constexpr size_t kLongTurn = 600;
    node->send(node->packets(kLongTurn));
    ASSERT_TRUE(loop.run_until([&] { return node->packets_up() == kLongTurn; }, base::seconds(20)));
    pass(base::milliseconds(10));
    io::UdpSocket elsewhere = node->open();
    Node::send_by(elsewhere, node->packets(1));
    const auto is_done = [&] {
        return node->packets_up() + node->at_relay().dropped_inputs() > kLongTurn;
    };
    ASSERT_TRUE(loop.run_until(is_done, base::seconds(20)));
    EXPECT_EQ(node->at_relay().dropped_inputs(), 0U);
}

// Datagrams from a new address are handled one by one until one is authentic. The rest is the
// session's then, and nothing is lost, whatever each has cost: the first ones find cold caches.
TEST_F(RelayInput, TheFirstBurstFromANewAddressArrives) {
    constexpr size_t kDatagrams = 14;
    look = base::microseconds(300);
    const auto arrives = [&](Node& node, std::vector<io::UdpSocket>& sockets) {
        for (size_t i = 0; i < kDatagrams; ++i) {
            Node::send_by(sockets[i % sockets.size()], node.packets(1));
        }
        const auto is_done = [&] {
            return node.packets_up() + node.at_relay().dropped_inputs() >= kDatagrams;
        };
        loop.run_until(is_done, base::seconds(5));
        EXPECT_EQ(node.packets_up(), kDatagrams);
        EXPECT_EQ(node.at_relay().dropped_inputs(), 0U);
    };
    Node node(*relay, 2);
    std::vector<io::UdpSocket> sockets;
    sockets.push_back(node.open());
    arrives(node, sockets);
    // Each class has its own socket.
    Node of_classes(*relay, 3);
    for (size_t i = 0; i < base::kTrafficClasses; ++i) {
        sockets.push_back(of_classes.open());
    }
    arrives(of_classes, sockets);
}

TEST_F(RelayInput, AMoveUnderLoadLosesNothing) {
    const auto node = make_node(2);
    constexpr size_t kDatagrams = 50;
    io::UdpSocket elsewhere = node->open();
    for (size_t i = 0; i < kDatagrams; ++i) {
        node->send(node->packets(kInOne / 2));
    }
    for (size_t i = 0; i < kDatagrams; ++i) {
        Node::send_by(elsewhere, node->packets(kInOne / 2));
    }
    constexpr size_t kAll = kDatagrams * kInOne;
    const auto is_done = [&] {
        return node->packets_up() + node->at_relay().dropped_inputs() >= kAll;
    };
    loop.run_until(is_done, base::seconds(5));
    EXPECT_EQ(node->packets_up(), kAll);
    EXPECT_EQ(node->at_relay().dropped_inputs(), 0U);
}

// Else it could keep nodes that move from being heard.
TEST_F(RelayInput, WhatANodeSendsFromElsewhereCostsItsOwnTime) {
    const auto hostile = make_node(2);
    Node moving(*relay, 3);  // whose address is not known yet
    std::vector<io::UdpSocket> elsewhere;
    for (size_t i = 0; i < 10; ++i) {
        elsewhere.push_back(hostile->open());
    }
    constexpr size_t kDatagrams = 100;
    for (size_t i = 0; i < kDatagrams; ++i) {
        Node::send_by(elsewhere[i % elsewhere.size()],
                      hostile->packets(kInOne));  // never where it was before
    }
    moving.send(moving.packets(1));
    ASSERT_TRUE(loop.run_until([&] { return moving.packets_up() == 1; }, base::seconds(20)));
    EXPECT_LT(hostile->packets_up(), 10 * kInOne);
    EXPECT_GT(hostile->at_relay().dropped_inputs(), kDatagrams / 2);
}

// A datagram that names no session takes nobody's time.
TEST_F(RelayInput, AStrayDatagramBehindAFirstBurstChangesNothing) {
    look = base::microseconds(300);
    Node node(*relay, 2);
    std::vector<io::UdpSocket> sockets;
    for (size_t i = 0; i < base::kTrafficClasses; ++i) {
        sockets.push_back(node.open());
    }
    constexpr size_t kDatagrams = 14;
    for (size_t i = 0; i < kDatagrams; ++i) {
        Node::send_by(sockets[i % sockets.size()], node.packets(1));
    }
    io::UdpSocket scanner = node.open();
    Node::send_by(scanner, Bytes{0xFF, 0xFF});
    const auto is_done = [&] {
        return node.packets_up() + node.at_relay().dropped_inputs() >= kDatagrams;
    };
    loop.run_until(is_done, base::seconds(5));
    EXPECT_EQ(node.packets_up(), kDatagrams);
    EXPECT_EQ(node.at_relay().dropped_inputs(), 0U);
}

}  // namespace
}  // namespace continuo::snapt::relay
