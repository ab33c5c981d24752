// RelayInput: a relay with devices, in a network namespace of its own, and nodes that send to it
// what they like. Time is how often the relay looks at its clock.
#pragma once

#include "common/dataplane/epoch_install.hpp"
#include "tests/support/net_namespace.hpp"
#include "tests/unit/snapt/relay/relay_fixture.hpp"

#include <cstring>
#include <functional>
#include <map>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace continuo::snapt::relay {

using base::DropReason;
using base::TrafficClass;
using Bytes = std::vector<uint8_t>;

inline const base::Endpoint kRelay = *base::Endpoint::parse("127.0.0.1:9347");
inline const base::IpAddress kFar = *base::IpAddress::parse("198.51.100.7");

inline control::EpochKeys keys_of(uint8_t node) {
    control::EpochKeys keys;
    keys.epoch = 1;
    keys.up.key[0] = node;
    keys.down.key[0] = static_cast<uint8_t>(node + 100);
    return keys;
}

// A node's end: a session that tells where it is, and the same keys for what a session would not
// send.
class Node final : public session::SessionHost {
  public:
    Node(Relay& relay, uint8_t number) : relay_(relay), number_(number) {
        SessionGrant grant;
        grant.user = "user" + std::to_string(number);
        grant.node = "node";
        grant.lease_ipv4 = lease();
        grant.peer_id = number;
        wire_id_ = relay.reserve(grant).value().wire_id;
        EXPECT_TRUE(relay.install(wire_id_, keys_of(number)));
        session::SessionSettings settings;
        settings.local_id = number;
        settings.peer_id = wire_id_;
        session_ = std::make_unique<tunnel::Session>(settings, *this, scratch_, random_);
        session_->install_epoch(install(), base::TimePoint{base::seconds(1)});
        sealer_ = install().sealer;
    }
    base::IpAddress lease() const {
        return *base::IpAddress::parse("100.64.0." + std::to_string(number_));
    }
    NodeSession& at_relay() const { return *relay_.table().find(wire_id_); }
    uint16_t wire_id() const { return wire_id_; }
    uint64_t packets_up() const { return at_relay().up_bytes / kPacketBytes; }
    io::UdpSocket open() const {
        io::UdpSocketOptions options;
        options.local = {kRelay.address, 0};
        return io::UdpSocket::open(options).value();
    }

    // Until the relay knows where it is.
    void announce(io::EventLoop& loop) {
        session_->paths().node().add(0, kRelay, 1500, loop.refresh_now());
        session_->paths().node().activate(0, loop.now());
        const auto is_known = [&] {
            exchange(loop.refresh_now());
            return at_relay().session.paths().is_known(socket_.local());
        };
        ASSERT_TRUE(loop.run_until(is_known, base::seconds(20)));
    }

    // `count` UDP packets without payload of one flow, in one datagram of that class.
    Bytes packets(size_t count, TrafficClass traffic_class = TrafficClass::HtHd) {
        Bytes body{0x40};  // a raw section to the end
        // UDP to kFar, from 40000 to 53, not to be remembered: no payload
        const Bytes open{0x3F, 0x01, 0x05, 0xC6, 0x33, 0x64, 0x07, 0x9C, 0x40,
                         0x00, 0x35, 0x01, 0x00, 0x40, 0x00, 0x01, 0x10, 0x00};
        body.insert(body.end(), open.begin(), open.end());
        body.insert(body.end(), count - 1, 0x05);  // the next one of the same flow
        return seal(body, 0, traffic_class);
    }
    Bytes seal(const Bytes& body, uint8_t path, TrafficClass traffic_class = TrafficClass::HtHd) {
        wire::TunnelHeader header;
        header.epoch = 1;
        header.traffic_class = traffic_class;
        header.path = path;
        header.session_id = wire_id_;
        header.long_sequence = true;
        header.sequence = static_cast<uint32_t>(next_[header.space_number()]);
        Bytes datagram(header.size() + body.size() + sealer_->tag_bytes());
        base::ByteWriter writer(datagram);
        header.serialize(writer);
        std::copy(body.begin(), body.end(),
                  datagram.begin() + static_cast<ptrdiff_t>(header.size()));
        crypto::SealedUnit unit;
        unit.datagram = datagram;
        unit.header_bytes = static_cast<uint8_t>(header.size());
        unit.space = header.space_number();
        unit.sequence = next_[unit.space]++;
        sealer_->seal(std::span(&unit, 1));
        return datagram;
    }
    void send(const Bytes& datagram) { send_by(socket_, datagram); }
    static void send_by(io::UdpSocket& socket, const Bytes& datagram) {
        const io::SendItem item{kRelay, base::IpAddress::any(base::IpVersion::V4), datagram, 0, 0};
        EXPECT_EQ(socket.send(std::span(&item, 1)).sent_datagrams, 1U);
    }

    flow::Flow*
    on_flow_opened(tunnel::Session&, const session::FlowOpening&, base::TimePoint) override {
        return nullptr;
    }
    flow::Flow* find_flow(tunnel::Session&, const packet::FiveTuple&) override { return nullptr; }
    void deliver(tunnel::Session&,
                 flow::Flow&,
                 const packet::HeaderFields&,
                 base::ByteView,
                 base::TimePoint) override {}
    flow::Flow*
    deliver_whole(tunnel::Session&, TrafficClass, base::MutableByteView, base::TimePoint) override {
        return nullptr;
    }
    void on_flows_closed(tunnel::Session&, flow::Flow&, base::TimePoint) override {}
    void on_path_changed(tunnel::Session&, uint8_t, base::TimePoint) override {}
    void on_path_silent(tunnel::Session&, uint8_t, base::TimePoint) override {}
    void on_peer_closed(tunnel::Session&, base::TimePoint) override {}

    static constexpr size_t kPacketBytes = 28;

  private:
    session::EpochInstall install() const {
        return dataplane::make_install(path::Role::Node, {}, keys_of(number_)).value();
    }
    void exchange(base::TimePoint now) {
        while (const auto batches = socket_.receive(arena_)) {
            for (const io::ReceivedBatch& batch : *batches) {
                session::ReceivedDatagram datagram{batch.bytes, batch.from,
                                                   base::IpAddress::any(base::IpVersion::V4)};
                session_->on_datagrams(std::span(&datagram, 1), now);
            }
        }
        session_->on_timeout(now);
        for (bool more = true; more;) {
            batch_.clear();
            more = session_->poll_transmit(batch_, now);
            for (const session::TransmitItem& item : batch_.items()) {
                const base::ByteView bytes = batch_.bytes(item);
                send(Bytes(bytes.begin(), bytes.end()));
                tunnel::Session::on_sent(batch_, item);
            }
        }
    }

    Relay& relay_;
    uint8_t number_;
    uint16_t wire_id_ = 0;
    base::SeededRandom random_{1};
    session::SessionScratch scratch_;
    session::TransmitBatch batch_;
    io::UdpReceiveArena arena_;
    std::unique_ptr<tunnel::Session> session_;
    std::unique_ptr<crypto::DatagramCipher> sealer_;
    std::map<uint16_t, uint64_t> next_;  // by space
    io::UdpSocket socket_ = open();
};

class RelayInput : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        test::NetNamespaceTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        RelaySettings settings;
        settings.listen = {kRelay};
        settings.sign_of_life_wait = {};
        // Work is measured by how often the relay looks.
        settings.clock = [this] {
            count_reads();
            return clock_ += look;
        };
        settings.worked = [this] {
            ++worked_reads;
            return clock_ - base::TimePoint{};
        };
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
    void on_reads(const turns::InputQueue& queue, std::function<void(size_t)> each) {
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
        return relay->flows().deliver_whole(node.at_relay().session, TrafficClass::LtHd, packet,
                                            loop.now());
    }

    base::Duration look = base::microseconds(1);  // what each takes
    size_t worked_reads = 0;                      // of the processor time
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
    const turns::InputQueue* counted_ = nullptr;
    std::function<void(size_t)> on_reads_;
    size_t queued_ = 0;
};

inline constexpr size_t kInOne = 1024;  // packets in a datagram

}  // namespace continuo::snapt::relay
