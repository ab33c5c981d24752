// PacketEngine without a TUN device: its sums, and what a session sends over TCP.
#include "common/dataplane/packet_engine.hpp"
#include "tests/support/session_pair.hpp"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace continuo;
using base::DropReason;

// No socket: everything that is to leave by UDP is dropped.
class NoSockets final : public dataplane::SocketDirectory {
  public:
    io::UdpSocket* socket_for(const session::TransmitItem& /*item*/) override { return nullptr; }
    std::optional<uint8_t> tos_of(const session::TransmitItem& /*item*/) override { return {}; }
    void wait_writable(io::UdpSocket& /*socket*/) override {}
    void on_too_big(const session::TransmitItem& /*item*/) override {}
};

class Engine : public testing::Test {
  protected:
    Engine() {
        pair_.run_for(base::seconds(1));
        packet::HeaderFields fields;
        fields.protocol = packet::Protocol::Udp;
        fields.source = *base::IpAddress::parse("192.0.0.5");
        fields.destination = *base::IpAddress::parse("203.0.113.9");
        fields.ttl = 64;
        const std::vector<uint8_t> payload(100, 1);
        pair_.node.send(flow(), tests::make_packet(fields, payload), {}, pair_.now);
        pair_.run_for(base::seconds(1));
        engine_.add(session());
    }

    flow::Flow& flow() {
        packet::FiveTuple tuple;
        tuple.local = *base::IpAddress::parse("192.0.0.5");
        tuple.remote = *base::IpAddress::parse("203.0.113.9");
        tuple.protocol = packet::Protocol::Udp;
        return pair_.node.flow(tuple, base::TrafficClass::LtLd);
    }
    tunnel::Session& session() { return *pair_.node.session; }
    uint64_t packets() const {
        uint64_t sum = 0;
        for (const report::ClassFigures& figures : engine_.sent()) {
            sum += figures.packets;
        }
        return sum;
    }

    tests::SessionPair pair_{tests::SimLink{}};
    io::EventLoop loop_;
    NoSockets sockets_;
    base::DropCounters drops_;
    dataplane::PacketEngine engine_{loop_, sockets_, drops_, {16, 2, 4096}};
};

TEST_F(Engine, SumsKeepWhatEndedSessionsCounted) {
    EXPECT_EQ(packets(), 1U);
    const uint64_t received = engine_.received().wire_bytes;
    engine_.end(session());
    EXPECT_TRUE(engine_.driver().sessions().empty());
    EXPECT_EQ(packets(), 1U);
    EXPECT_EQ(engine_.received().wire_bytes, received);
}

TEST_F(Engine, AllDropsAreTheDaemonsAndTheSessions) {
    std::vector<uint8_t> broken(wire::kShortHeaderBytes - 1);
    pair_.inject(pair_.node, broken, pair_.snapt_address);
    const uint64_t of_session = session().drops().count(DropReason::TooShort);
    ASSERT_GT(of_session, 0U);
    drops_.add(DropReason::TooShort, 3);
    EXPECT_EQ(engine_.all_drops().count(DropReason::TooShort), of_session + 3);
    engine_.end(session());
    EXPECT_EQ(engine_.all_drops().count(DropReason::TooShort), of_session + 3);
}

TEST_F(Engine, ASessionsTcpConnectionTakesDatagramsWhileThereIsOne) {
    session::TransmitItem item;
    item.session = &session();
    const std::array<uint8_t, 40> bytes{};
    EXPECT_FALSE(engine_.send_stream({}, item, bytes, 0));
    dataplane::StreamPort port{std::make_shared<dataplane::DatagramQueue>(), [] { return true; }};
    EXPECT_TRUE(engine_.send_stream(port, item, bytes, 0));
    size_t taken = 0;
    port.queue->pull([&](base::MutableByteView datagram) {
        taken += datagram.size();
        return true;
    });
    EXPECT_EQ(taken, bytes.size());
    engine_.end(session());
}

TEST_F(Engine, WithoutADeviceThereIsNothingToFlush) {
    EXPECT_FALSE(engine_.is_open());
    engine_.flush();
    engine_.flush(flow());
    engine_.end(session());
}

}  // namespace
