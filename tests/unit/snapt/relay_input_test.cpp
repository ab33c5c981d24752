// A relay with devices, in a network namespace of its own: what one node sends costs it alone.
#include "tests/support/net_namespace.hpp"
#include "tests/unit/snapt/relay_node.hpp"

#include <cstring>
#include <functional>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace continuo::snapt {
namespace {

using base::DropReason;
using base::TrafficClass;
using tests::Bytes;
using tests::kFar;
using tests::kRelay;
using tests::Node;
using tests::NoEvents;

class RelayInput : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        test::NetNamespaceTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        RelaySettings settings;
        settings.listen = {kRelay};
        // Work is measured by how often the relay looks: a microsecond each.
        settings.clock = [this] {
            count_reads();
            return clock_ += base::microseconds(1);
        };
        settings.worked = [this] { return clock_ - base::TimePoint{}; };
        relay = std::make_unique<Relay>(loop, settings, slots, random, events);
        std::string failure;
        ASSERT_TRUE(relay->start(failure)) << failure;
        ASSERT_EQ(std::system("ip link set snapt0 up && ip route add 100.64.0.0/16 dev snapt0"), 0);
    }
    void TearDown() override {
        counted_ = nullptr;
        relay.reset();
        test::NetNamespaceTest::TearDown();
    }
    std::unique_ptr<Node> make_node(uint8_t number) {
        auto node = std::make_unique<Node>(*relay, number);
        node->announce(loop);
        return node;
    }
    // To take in what goes there costs time; `each` is told of so many datagrams more.
    void on_reads(const dataplane::InputQueue& queue, std::function<void(size_t)> each) {
        counted_ = &queue;
        on_reads_ = std::move(each);
    }
    void pass(base::Duration time) { clock_ += time; }
    uint64_t drops(DropReason reason) const { return relay->all_drops().count(reason); }

    // A whole ICMP error of a node about a packet that it would have got.
    static Bytes icmp_error(const base::IpAddress& from, const base::IpAddress& to) {
        Bytes packet(20 + 8 + 28);
        const auto ip = [](uint8_t* at, uint8_t protocol, size_t bytes,
                           const base::IpAddress& source, const base::IpAddress& destination) {
            at[0] = 0x45;
            base::store_big_endian(at + 2, static_cast<uint16_t>(bytes));
            at[8] = 64;
            at[9] = protocol;
            std::memcpy(at + 12, source.octets.data(), 4);
            std::memcpy(at + 16, destination.octets.data(), 4);
        };
        ip(packet.data(), IPPROTO_ICMP, packet.size(), from, to);
        packet[20] = 3;  // destination unreachable
        ip(packet.data() + 28, IPPROTO_UDP, 28, to, from);
        base::store_big_endian(packet.data() + 48, uint16_t{53});
        base::store_big_endian(packet.data() + 50, uint16_t{40000});
        return packet;
    }
    static Bytes udp_packet(const Node& node, size_t bytes) {
        Bytes packet = fragment(node, 1, true);
        packet.resize(bytes);
        base::store_big_endian(packet.data() + 2, static_cast<uint16_t>(bytes));
        base::store_big_endian(packet.data() + 6, uint16_t{0});
        base::store_big_endian(packet.data() + 24, static_cast<uint16_t>(bytes - 20));
        return packet;
    }
    // A UDP packet's first or last fragment.
    static Bytes fragment(const Node& node, uint16_t id, bool is_first) {
        Bytes packet(20 + 16);
        packet[0] = 0x45;
        base::store_big_endian(packet.data() + 2, static_cast<uint16_t>(packet.size()));
        base::store_big_endian(packet.data() + 4, id);
        base::store_big_endian(packet.data() + 6, static_cast<uint16_t>(is_first ? 0x2000 : 2));
        packet[8] = 64;
        packet[9] = IPPROTO_UDP;
        std::memcpy(packet.data() + 12, node.lease().octets.data(), 4);
        std::memcpy(packet.data() + 16, kFar.octets.data(), 4);
        base::store_big_endian(packet.data() + 20, uint16_t{40000});
        base::store_big_endian(packet.data() + 22, uint16_t{53});
        base::store_big_endian(packet.data() + 24, uint16_t{24});
        return packet;
    }
    flow::Flow* deliver(const Node& node, Bytes packet) {
        return relay->deliver_whole(node.at_relay().session, TrafficClass::LtHd, packet,
                                    loop.now());
    }

    io::EventLoop loop;
    flow::HeapSlots slots{1000};
    base::SeededRandom random{1};
    NoEvents events;
    std::unique_ptr<Relay> relay;

  private:
    static constexpr base::Duration kRead = base::microseconds(10);

    void count_reads() {
        const size_t queued =
            counted_ != nullptr ? counted_->bytes() / packet::kSmallBufferBytes : 0;
        const size_t read = queued > queued_ ? queued - queued_ : 0;
        queued_ = queued;
        if (read > 0) {
            clock_ += kRead * read;
            on_reads_(read);
        }
    }

    base::TimePoint clock_{base::seconds(1)};
    const dataplane::InputQueue* counted_ = nullptr;
    std::function<void(size_t)> on_reads_;
    size_t queued_ = 0;
};

constexpr size_t kInOne = 1024;  // packets in a datagram

TEST_F(RelayInput, AFloodOfPacketsKeepsNoOtherUserWaiting) {
    const auto hostile = make_node(2);
    const auto other = make_node(3);
    constexpr size_t kDatagrams = 25;
    for (size_t i = 0; i < kDatagrams; ++i) {
        hostile->send(hostile->packets(kInOne));
    }
    other->send(other->packets(1));
    ASSERT_TRUE(loop.run_until([&] { return other->packets_up() == 1; }, base::seconds(20)));
    EXPECT_LT(hostile->packets_up(), kInOne) << "that had come before";
    const auto is_done = [&] {
        return hostile->packets_up() + hostile->at_relay().dropped_inputs() == kDatagrams * kInOne;
    };
    EXPECT_TRUE(loop.run_until(is_done, base::seconds(20)));
    EXPECT_EQ(hostile->packets_up(), kDatagrams * kInOne) << "it takes its time, nothing else";
    EXPECT_EQ(other->at_relay().dropped_inputs(), 0U);
}

// However the flow was opened. Back only after a while: what is late of the class before shall not
// change it to and fro.
TEST_F(RelayInput, PacketsAreChargedInTheClassOfTheirDatagrams) {
    const auto node = make_node(2);
    const auto send = [&](size_t count, TrafficClass traffic_class) {
        const uint64_t until = node->packets_up() + count;
        node->send(node->packets(count, traffic_class));
        return loop.run_until([&] { return node->packets_up() == until; }, base::seconds(20));
    };
    const auto packets_of = [&](TrafficClass traffic_class) {
        uint64_t packets = flow::value(slots.released_totals(traffic_class).packets_up);
        relay->flows().for_each([&](const flow::Flow& flow) {
            packets += flow.traffic_class == traffic_class
                           ? flow::value(flow.counters->counters.packets_up)
                           : 0;
        });
        return packets;
    };
    ASSERT_TRUE(send(3, TrafficClass::HtHd));
    ASSERT_TRUE(send(100, TrafficClass::HtLd));
    EXPECT_EQ(packets_of(TrafficClass::HtHd), 3U);
    EXPECT_EQ(packets_of(TrafficClass::HtLd), 100U);
    ASSERT_TRUE(send(5, TrafficClass::HtHd));
    EXPECT_EQ(packets_of(TrafficClass::HtLd), 105U) << "late";
    const base::TimePoint until = loop.refresh_now() + kClassStays;
    ASSERT_TRUE(loop.run_until([&] { return loop.refresh_now() >= until; }, base::seconds(20)));
    ASSERT_TRUE(send(7, TrafficClass::HtHd));
    EXPECT_EQ(packets_of(TrafficClass::HtHd), 10U);
    ASSERT_TRUE(send(1, TrafficClass::HtLd));
    EXPECT_EQ(packets_of(TrafficClass::HtLd), 106U) << "at once";
}

// Control, padding, copies, repeats: of a session and class, as it goes on and to the last byte.
TEST_F(RelayInput, WhatTheTunnelCarriesBesidePacketsIsCounted) {
    const auto node = make_node(2);
    const auto& counters = node->at_relay().session.counters();
    const auto tunnel_bytes = [&] {
        uint64_t bytes = 0;
        for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
            const flow::LiveCounters& sums = slots.released_totals(traffic_class);
            bytes += flow::value(sums.tunnel_up) + flow::value(sums.tunnel_down);
        }
        return bytes;
    };
    Bytes padding(1300);
    base::ByteWriter writer(padding);
    wire::Pad{padding.size()}.serialize(writer);
    for (size_t i = 0; i < 20; ++i) {
        node->send(node->seal(padding, 0));
    }
    ASSERT_TRUE(loop.run_until([&] { return counters.overhead_received() > 20 * padding.size(); },
                               base::seconds(20)));
    EXPECT_EQ(slots.in_use(), 0U);
    relay->look_at_rates(loop.now());
    EXPECT_EQ(slots.in_use(), 1U) << "what is less than a step waits";
    const uint64_t bytes = counters.overhead_received() + counters.overhead_sent();
    relay->close(node->wire_id());
    EXPECT_EQ(slots.in_use(), 0U);
    EXPECT_EQ(tunnel_bytes(), bytes);
}

// Nobody waits for it; the test above has two.
TEST_F(RelayInput, OneThatSendsAloneIsServedInLongRounds) {
    const auto node = make_node(2);
    node->send(node->packets(kInOne));
    ASSERT_TRUE(loop.run_until([&] { return node->packets_up() > 0; }, base::seconds(20)));
    EXPECT_EQ(node->packets_up(), kInOne) << "in one round";
}

TEST_F(RelayInput, WhatIsBeyondItsQueueIsTheSendersLoss) {
    const auto hostile = make_node(2);
    const auto other = make_node(3);
    const size_t fits = dataplane::kInputQueueBytes / packet::kSmallBufferBytes;
    const size_t more = 200;
    for (size_t i = 0; i < fits + more; ++i) {
        hostile->send(hostile->packets(200));
    }
    other->send(other->packets(1));
    ASSERT_TRUE(loop.run_until([&] { return other->packets_up() == 1; }, base::seconds(20)));
    EXPECT_GE(hostile->at_relay().dropped_inputs(), more - 100);
    EXPECT_LE(hostile->at_relay().dropped_inputs(), more);
    EXPECT_EQ(drops(DropReason::InputFull), hostile->at_relay().dropped_inputs());
    const uint64_t dropped = drops(DropReason::InputFull);
    relay->close(hostile->wire_id());
    EXPECT_EQ(drops(DropReason::InputFull), dropped) << "counted beyond the session's end";
}

// A session's number can be read on the way.
TEST_F(RelayInput, AStrangerTakesNothingOfTheSessionThatItNames) {
    const auto node = make_node(2);
    io::UdpSocket elsewhere = node->open();
    const size_t room = dataplane::kStrangersQueueBytes / packet::kSmallBufferBytes;
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

// More comes than can be handled, and to take it in alone takes longer than a round.
TEST_F(RelayInput, AFloodDoesNotKeepTheRelayFromItsWork) {
    const auto hostile = make_node(2);
    const auto other = make_node(3);
    const auto flood = [&](size_t datagrams) {
        for (size_t i = 0; i < datagrams; ++i) {
            hostile->send(hostile->packets(1));
        }
    };
    on_reads(hostile->at_relay().lane.queue, flood);
    other->send(other->packets(1));
    flood(200);
    constexpr int kMostWakes = 2;
    int wakes = 0;
    const auto is_done = [&] { return other->packets_up() == 1 || wakes++ == kMostWakes; };
    ASSERT_TRUE(loop.run_until(is_done, base::seconds(20)));
    EXPECT_EQ(other->packets_up(), 1U);
    EXPECT_GT(hostile->packets_up(), 0U);
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

// Else it could keep nodes that move from being heard.
TEST_F(RelayInput, WhatANodeSendsFromElsewhereCostsItsOwnTime) {
    const auto hostile = make_node(2);
    Node moving(*relay, 3);  // whose address is not known yet
    io::UdpSocket elsewhere = hostile->open();
    constexpr size_t kDatagrams = 100;
    for (size_t i = 0; i < kDatagrams; ++i) {
        Node::send_by(elsewhere, hostile->packets(kInOne));
    }
    moving.send(moving.packets(1));
    ASSERT_TRUE(loop.run_until([&] { return moving.packets_up() == 1; }, base::seconds(20)));
    EXPECT_LT(hostile->packets_up(), 10 * kInOne);
    EXPECT_GT(hostile->at_relay().dropped_inputs(), kDatagrams / 2);
}

TEST_F(RelayInput, ANodeThatComesByTcpHasItsTurnsToo) {
    const auto hostile = make_node(2);
    const auto other = make_node(3);
    const auto queue = std::make_shared<dataplane::DatagramQueue>();
    constexpr size_t kDatagrams = 25;
    for (size_t i = 0; i < kDatagrams; ++i) {
        const Bytes body = [&] {
            Bytes made{0x40, 0x3F, 0x01, 0x05, 0xC6, 0x33, 0x64, 0x07, 0x9C, 0x40,
                       0x00, 0x35, 0x01, 0x00, 0x40, 0x00, 0x01, 0x10, 0x00};
            made.insert(made.end(), kInOne - 1, 0x05);
            return made;
        }();
        ASSERT_TRUE(queue->push(hostile->seal(body, wire::kTcpPath), 0).is_taken);
    }
    other->send(other->packets(1));
    relay->on_stream(hostile->wire_id(), *queue, kRelay);
    EXPECT_LT(hostile->packets_up(), kInOne);
    ASSERT_TRUE(loop.run_until([&] { return other->packets_up() == 1; }, base::seconds(20)));
    EXPECT_LT(hostile->packets_up(), 2 * kInOne);
    const auto is_done = [&] { return hostile->packets_up() == kDatagrams * kInOne; };
    EXPECT_TRUE(loop.run_until(is_done, base::seconds(20)));
}

TEST_F(RelayInput, ASessionMayEndWhileItsWorkWaits) {
    const auto hostile = make_node(2);
    const auto queue = std::make_shared<dataplane::DatagramQueue>();
    for (size_t i = 0; i < 25; ++i) {
        hostile->send(hostile->packets(kInOne));
    }
    ASSERT_TRUE(loop.run_until([&] { return hostile->packets_up() > 0; }, base::seconds(20)));
    const auto& backlog = hostile->at_relay().lane.backlog;
    ASSERT_TRUE(loop.run_until([&] { return !backlog.is_empty(); }, base::seconds(20)));
    const uint64_t packets = backlog.packets();
    ASSERT_GT(packets, 0U);
    relay->close(hostile->wire_id());
    EXPECT_EQ(drops(DropReason::NoSession), packets);
    const uint64_t datagrams = drops(DropReason::UnknownSession);
    EXPECT_GT(datagrams, 15U);
    EXPECT_LT(datagrams, 25U);
    const auto other = make_node(3);
    other->send(other->packets(1));
    EXPECT_TRUE(loop.run_until([&] { return other->packets_up() == 1; }, base::seconds(20)));
}

// As what a resequencer lets go when its wait is over, outside of any turn.
TEST_F(RelayInput, WhatWasHeldForItsOrderGoesOnAtOnceWhileNobodyWaits) {
    const auto node = make_node(2);
    const Bytes packet = udp_packet(*node, 1400);
    for (size_t i = 0; i < session::Resequencer::kPackets; ++i) {
        EXPECT_NE(deliver(*node, packet), nullptr);
    }
    relay->tun().coalescer().flush();
    EXPECT_EQ(node->at_relay().up_bytes, session::Resequencer::kPackets * packet.size());
    EXPECT_EQ(node->at_relay().dropped_inputs(), 0U);
    EXPECT_EQ(relay->kept_memory().used_bytes(), 0U);
}

TEST_F(RelayInput, IcmpErrorsOfNoFlowAreDropped) {
    const auto node = make_node(2);
    const uint64_t before = relay->tun().coalescer().frames();
    EXPECT_EQ(deliver(*node, icmp_error(node->lease(), kFar)), nullptr);
    EXPECT_EQ(drops(DropReason::NoBinding), 1U);
    EXPECT_EQ(relay->tun().coalescer().frames(), before);
    // The other way, by the kernel.
    const io::UniqueFd raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
    const Bytes packet = icmp_error(kFar, node->lease());
    sockaddr_in to{};
    to.sin_family = AF_INET;
    std::memcpy(&to.sin_addr, node->lease().octets.data(), 4);
    ASSERT_EQ(::sendto(raw.value(), packet.data(), packet.size(), 0,
                       reinterpret_cast<const sockaddr*>(&to), sizeof to),
              static_cast<ssize_t>(packet.size()));
    EXPECT_TRUE(
        loop.run_until([&] { return drops(DropReason::NoBinding) == 2; }, base::seconds(20)));
    EXPECT_EQ(relay->flows().size(), 0U);
}

TEST_F(RelayInput, FragmentsOfOneUserDisplaceNoOthers) {
    const auto node = make_node(2);
    const auto hostile = make_node(3);
    EXPECT_NE(deliver(*node, fragment(*node, 1, true)), nullptr);
    for (uint16_t id = 0; id < 1000; ++id) {
        EXPECT_NE(deliver(*hostile, fragment(*hostile, id, true)), nullptr);
    }
    EXPECT_NE(deliver(*node, fragment(*node, 1, false)), nullptr);
    EXPECT_EQ(drops(DropReason::NoBinding), 0U);
}

}  // namespace
}  // namespace continuo::snapt
