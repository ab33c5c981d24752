// Parts of tests of a relay with devices: its events, and nodes that send what a session would
// not.
#pragma once

#include "common/dataplane/epoch_install.hpp"
#include "common/flow/slot_source.hpp"
#include "snapt/relay.hpp"

#include <map>

#include <gtest/gtest.h>

namespace continuo::snapt::tests {

using Bytes = std::vector<uint8_t>;

inline const base::Endpoint kRelay = *base::Endpoint::parse("127.0.0.1:9347");
inline const base::IpAddress kFar = *base::IpAddress::parse("198.51.100.7");

class NoEvents final : public RelayEvents {
  public:
    void on_session_closed(const NodeSession& /*session*/) override {}
    void on_session_moved(const NodeSession& /*session*/) override {}
    void on_session_silent(const NodeSession& /*session*/) override {}
    void on_flows_gave_way(std::vector<packet::FiveTuple> flows) override {
        gone = std::move(flows);
    }
    std::vector<packet::FiveTuple> gone;
};

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
        session_ = std::make_unique<session::Session>(settings, *this, scratch_, random_);
        session_->install_epoch(install(), base::TimePoint{base::seconds(1)});
        sealer_ = install().sealer;
    }
    base::IpAddress lease() const {
        return *base::IpAddress::parse("100.64.0." + std::to_string(number_));
    }
    NodeSession& at_relay() const { return *relay_.find(wire_id_); }
    uint16_t wire_id() const { return wire_id_; }
    uint64_t packets_up() const { return at_relay().up_bytes / kPacketBytes; }
    io::UdpSocket open() const {
        io::UdpSocketOptions options;
        options.local = {kRelay.address, 0};
        return io::UdpSocket::open(options).value();
    }

    // Until the relay knows where it is.
    void announce(io::EventLoop& loop) {
        session_->paths().add(0, kRelay, 1500, loop.refresh_now());
        session_->paths().activate(0, loop.now());
        const auto is_known = [&] {
            exchange(loop.refresh_now());
            return at_relay().session.paths().is_known(socket_.local());
        };
        ASSERT_TRUE(loop.run_until(is_known, base::seconds(20)));
    }

    // `count` UDP packets without payload of one flow, in one datagram of that class.
    Bytes packets(size_t count, base::TrafficClass traffic_class = base::TrafficClass::HtHd) {
        Bytes body{0x40};  // a raw section to the end
        // UDP to kFar, from 40000 to 53, not to be remembered: no payload
        const Bytes open{0x3F, 0x01, 0x05, 0xC6, 0x33, 0x64, 0x07, 0x9C, 0x40,
                         0x00, 0x35, 0x01, 0x00, 0x40, 0x00, 0x01, 0x10, 0x00};
        body.insert(body.end(), open.begin(), open.end());
        body.insert(body.end(), count - 1, 0x05);  // the next one of the same flow
        return seal(body, 0, traffic_class);
    }
    Bytes seal(const Bytes& body,
               uint8_t path,
               base::TrafficClass traffic_class = base::TrafficClass::HtHd) {
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
    on_flow_opened(session::Session&, const session::FlowOpening&, base::TimePoint) override {
        return nullptr;
    }
    flow::Flow* find_flow(session::Session&, const packet::FiveTuple&) override { return nullptr; }
    void deliver(session::Session&,
                 flow::Flow&,
                 const packet::HeaderFields&,
                 base::ByteView,
                 base::TimePoint) override {}
    flow::Flow* deliver_whole(session::Session&,
                              base::TrafficClass,
                              base::MutableByteView,
                              base::TimePoint) override {
        return nullptr;
    }
    void on_flows_closed(session::Session&, flow::Flow&, base::TimePoint) override {}
    void on_path_changed(session::Session&, uint8_t, base::TimePoint) override {}
    void on_path_silent(session::Session&, uint8_t, base::TimePoint) override {}
    void on_peer_closed(session::Session&, base::TimePoint) override {}

    static constexpr size_t kPacketBytes = 28;

  private:
    session::EpochInstall install() const {
        return dataplane::make_install(session::Role::Node, {}, keys_of(number_)).value();
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
                session::Session::on_sent(batch_, item);
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
    std::unique_ptr<session::Session> session_;
    std::unique_ptr<crypto::DatagramCipher> sealer_;
    std::map<uint16_t, uint64_t> next_;  // by space
    io::UdpSocket socket_ = open();
};

}  // namespace continuo::snapt::tests
