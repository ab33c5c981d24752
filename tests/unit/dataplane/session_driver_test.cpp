// Sessions and paths that are served while a socket is full.
#include "common/dataplane/session_driver.hpp"
#include "tests/support/session_pair.hpp"

#include <array>
#include <map>

#include <gtest/gtest.h>

namespace {

using namespace continuo;
using base::TrafficClass;

constexpr uint8_t kSecondPath = 3;
const base::Endpoint kSecondAddress = *base::Endpoint::parse("192.0.2.77:4000");

// A socket for each path; those of `full` take nothing.
class Sockets final : public dataplane::SocketDirectory {
  public:
    io::UdpSocket* socket_for(const session::TransmitItem& item) override {
        auto& socket = sockets_[item.path];
        if (!socket) {
            io::UdpSocketOptions options;
            options.local = {*base::IpAddress::parse("127.0.0.1"), 0};
            socket = std::make_unique<io::UdpSocket>(io::UdpSocket::open(options).value());
        }
        return socket.get();
    }
    std::optional<uint8_t> tos_of(const session::TransmitItem& /*item*/) override { return {}; }
    io::SendResult send(io::UdpSocket& socket, std::span<const io::SendItem> items) override {
        io::SendResult result;
        for (auto& [path, own] : sockets_) {
            if (own.get() == &socket) {
                result.would_block = is_full[path];
                result.items = is_full[path] ? 0 : items.size();
                sent[path] += result.items;
            }
        }
        return result;
    }
    void wait_writable(io::UdpSocket& /*socket*/) override {}
    void on_too_big(const session::TransmitItem& /*item*/) override {}

    std::array<bool, wire::kMaxPaths> is_full{};
    std::array<size_t, wire::kMaxPaths> sent{};

  private:
    std::map<uint8_t, std::unique_ptr<io::UdpSocket>> sockets_;
};

class Driver : public testing::Test {
  protected:
    Driver() {
        pair_.add_path(kSecondPath, kSecondAddress, tests::SimLink{});
        pair_.run_for(base::seconds(1));
        driver_.add(session());
        driver_.pump(pair_.now);
    }
    ~Driver() override { driver_.remove(session()); }

    tunnel::Session& session() { return *pair_.node.session; }
    uint8_t active() { return *session().paths().active(); }
    void offer(TrafficClass traffic_class, int packets) {
        queue(pair_, packets, traffic_class);
        driver_.touch(session());
        driver_.pump(pair_.now);
    }
    static void
    queue(tests::SessionPair& pair, int packets, TrafficClass traffic_class = TrafficClass::HtLd) {
        packet::HeaderFields fields;
        fields.protocol = packet::Protocol::Udp;
        fields.source = *base::IpAddress::parse("192.0.0.5");
        fields.destination = *base::IpAddress::parse("203.0.113.9");
        fields.source_port = 5000;
        fields.destination_port = 7;
        fields.ttl = 64;
        const packet::FiveTuple tuple{fields.source, fields.destination, fields.source_port,
                                      fields.destination_port, fields.protocol};
        flow::Flow& flow = pair.node.flow(tuple, traffic_class);
        const std::vector<uint8_t> payload(1200, 1);
        for (int i = 0; i < packets; ++i) {
            pair.node.send(flow, tests::make_packet(fields, payload), {}, pair.now);
        }
    }

    tests::SessionPair pair_{tests::SimLink{}};
    io::EventLoop loop_;
    base::DropCounters drops_;
    Sockets sockets_;
    dataplane::SessionDriver driver_{loop_, sockets_, drops_};
};

TEST_F(Driver, AFullSocketKeepsNoOtherPathWaiting) {
    sockets_.is_full[active()] = true;
    offer(TrafficClass::HtLd, 3);
    const size_t before = sockets_.sent[kSecondPath];
    session().paths().path(kSecondPath).node().probe(pair_.now);
    driver_.touch(session());
    driver_.pump(pair_.now);
    EXPECT_EQ(sockets_.sent[kSecondPath], before + 1);
    EXPECT_EQ(sockets_.sent[active()], 0U);
}

TEST_F(Driver, PacketsWaitUnsealedWhileTheirSocketIsFull) {
    sockets_.is_full[active()] = true;
    offer(TrafficClass::HtLd, 1);
    EXPECT_EQ(session().queues().bytes(), 0U) << "that it is full is seen with the first one";
    offer(TrafficClass::HtLd, 20);
    EXPECT_GT(session().queues().bytes(), size_t{20} * 1200);
    sockets_.is_full[active()] = false;
    driver_.pump(pair_.now);
    EXPECT_EQ(session().queues().bytes(), 0U);
    EXPECT_GT(sockets_.sent[active()], 0U);
    EXPECT_EQ(drops_.count(base::DropReason::SendFailed), 0U);
}

// One that has much to send does not keep the others, nor the loop, from what they have to do.
TEST_F(Driver, SessionsTakeTurns) {
    tests::SessionPair other{tests::SimLink{}};
    other.run_for(base::seconds(1));
    driver_.add(*other.node.session);
    driver_.pump(pair_.now);
    base::TimePoint clock{};
    driver_.set_clock([&] { return clock += base::microseconds(200); });
    queue(other, 1);
    queue(pair_, 600);
    EXPECT_GT(session().queues().bytes(), size_t{600} * 1200);
    driver_.touch(*other.node.session);
    driver_.touch(session());
    driver_.pump(pair_.now);
    EXPECT_EQ(other.node.session->queues().bytes(), 0U);
    EXPECT_GT(session().queues().bytes(), size_t{200} * 1200) << "its time was up";
    for (int i = 0; i < 20; ++i) {
        driver_.pump(pair_.now);
    }
    EXPECT_EQ(session().queues().bytes(), 0U);
    driver_.remove(*other.node.session);
}

}  // namespace
