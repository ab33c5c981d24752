// StripedTcp: TCP connections (TcpModel) through a tunnel with several uplinks, in virtual time.
#pragma once

#include "tests/sim/two_paths.hpp"
#include "tests/support/tcp_model.hpp"

#include <memory>
#include <vector>

namespace continuo::tests {

struct Uplink {
    uint64_t megabits_per_s = 0;
    base::Duration delay{};
};

class StripedTcp {
  public:
    static constexpr size_t kSegmentBytes = 1300;  // of payload

    // As on most links, a queue takes 100 ms.
    static SimLink link_of_uplink(const Uplink& uplink) {
        SimLink link = link_of(uplink.delay, uplink.megabits_per_s * 1'000'000);
        link.queue_packets = 100'000;
        link.queue_bytes = uplink.megabits_per_s * 1'000'000 / 8 / 10;
        return link;
    }

    StripedTcp(const std::vector<Uplink>& uplinks, size_t flows, bool is_up, uint64_t seed = 1)
        : pair(link_of_uplink(uplinks[0]), seed), is_up_(is_up) {
        pair.has_control = true;
        pair.snapt.mode_of_opened = base::PathMode::Packet;
        for (size_t i = 0; i < flows; ++i) {
            add_flow(i);
        }
        pair.run_for(base::milliseconds(500));
        for (size_t i = 1; i < uplinks.size(); ++i) {
            pair.add_path(static_cast<uint8_t>(i),
                          *base::Endpoint::parse("198.51.100.7:" + std::to_string(41000 + i)),
                          link_of_uplink(uplinks[i]));
            pair.node.session->paths().probe(static_cast<uint8_t>(i), pair.now);
        }
        pair.run_for(base::seconds(1));
        take_delivered();
    }

    void set_striping(base::Striping striping) {
        for (SessionEnd* end : {&pair.node, &pair.snapt}) {
            auto classes = end->session->settings().classes;
            for (session::ClassSettings& settings : classes) {
                settings.striping = striping;
            }
            end->session->set_class_settings(classes);
        }
    }

    // Gives Mbit/s of payload that came in order.
    double run(base::Duration span) {
        const base::TimePoint began = pair.now;
        const uint64_t before = received();
        while (pair.now - began < span) {
            for (Connection& connection : connections_) {
                step(connection);
            }
            pair.run_for(kStep);
            take_delivered();
        }
        return static_cast<double>(received() - before) * kSegmentBytes * 8 /
               static_cast<double>(base::to_us(span));
    }

    uint64_t received() const {
        uint64_t sum = 0;
        for (const Connection& connection : connections_) {
            sum += connection.receiver->received();
        }
        return sum;
    }

    SessionPair pair;

  private:
    static constexpr base::Duration kStep = base::microseconds(100);

    struct Connection {
        packet::HeaderFields fields;  // as the node writes them
        flow::Flow* node_flow = nullptr;
        flow::Flow* snapt_flow = nullptr;
        std::unique_ptr<TcpSender> sender = std::make_unique<TcpSender>();
        std::unique_ptr<TcpReceiver> receiver = std::make_unique<TcpReceiver>();
        std::vector<TcpAck> acks;
        uint16_t sent = 0;
    };

    void add_flow(size_t i) {
        Connection connection;
        packet::HeaderFields& fields = connection.fields;
        fields.source = *base::IpAddress::parse("192.0.0.5");
        fields.destination = *base::IpAddress::parse("198.51.100.2");
        fields.protocol = packet::Protocol::Tcp;
        fields.source_port = static_cast<uint16_t>(8000 + i);
        fields.destination_port = 5201;
        fields.ttl = 64;
        fields.flags = packet::tcp_flag::kAck;
        fields.has_timestamps = true;
        packet::FiveTuple tuple;
        tuple.local = fields.source;
        tuple.remote = fields.destination;
        tuple.local_port = fields.source_port;
        tuple.remote_port = fields.destination_port;
        tuple.protocol = fields.protocol;
        connection.node_flow = &pair.node.flow(tuple, base::TrafficClass::HtHd);
        pair.node.session->set_mode(*connection.node_flow, base::PathMode::Packet);
        pair.node.send(*connection.node_flow, make_packet(fields, {}), {}, pair.now);
        pair.run_for(base::milliseconds(200));
        tuple.local = kLease;
        connection.snapt_flow = pair.snapt.find(tuple);
        connections_.push_back(std::move(connection));
    }

    // From the node or to it.
    void send(Connection& connection,
              bool is_from_node,
              packet::HeaderFields fields,
              base::ByteView payload) {
        fields.ip_id = connection.sent++;
        if (is_from_node) {
            pair.node.send(*connection.node_flow, make_packet(fields, payload), {}, pair.now);
            return;
        }
        std::swap(fields.source, fields.destination);
        fields.destination = kLease;
        std::swap(fields.source_port, fields.destination_port);
        pair.snapt.send(*connection.snapt_flow, make_packet(fields, payload), {}, pair.now);
    }

    void send_ack(Connection& connection, const TcpAck& ack) {
        packet::HeaderFields fields = connection.fields;
        fields.acknowledgement = static_cast<uint32_t>(connection.acks.size());
        connection.acks.push_back(ack);
        send(connection, !is_up_, fields, {});
    }

    void step(Connection& connection) {
        if (connection.sender->next_deadline() <= pair.now) {
            connection.sender->on_timeout(pair.now);
        }
        if (connection.receiver->next_deadline() <= pair.now) {
            if (const auto ack = connection.receiver->on_timeout(pair.now)) {
                send_ack(connection, *ack);
            }
        }
        while (const auto number = connection.sender->next_segment(pair.now)) {
            std::vector<uint8_t> payload(kSegmentBytes);
            pair.random.fill(payload);
            base::store_big_endian<uint64_t>(
                payload.data(),
                static_cast<uint64_t>(pair.now.time_since_epoch() / base::microseconds(1)));
            packet::HeaderFields fields = connection.fields;
            fields.sequence = static_cast<uint32_t>(*number);
            send(connection, is_up_, fields, payload);
        }
    }

    void take_delivered() {
        for (SessionEnd* end : {&pair.node, &pair.snapt}) {
            for (size_t i = 0; i < end->delivered.size(); ++i) {
                take(end->delivered[i], end->delivered_at[i],
                     end == (is_up_ ? &pair.snapt : &pair.node));
            }
            end->delivered.clear();
            end->delivered_at.clear();
        }
    }

    void take(const std::vector<uint8_t>& packet, base::TimePoint at, bool is_data) {
        constexpr size_t kHeaders = 52;
        const bool is_from_node = is_data == is_up_;
        const auto port = base::load_big_endian<uint16_t>(&packet[is_from_node ? 20 : 22]);
        const size_t i = size_t{port} - 8000U;
        if (i >= connections_.size()) {
            return;
        }
        Connection& connection = connections_[i];
        if (!is_data) {
            const auto ack = base::load_big_endian<uint32_t>(&packet[28]);
            if (ack < connection.acks.size()) {
                connection.sender->on_ack(connection.acks[ack], at);
            }
            return;
        }
        if (packet.size() < kHeaders + 8) {
            return;
        }
        const auto sent_at =
            base::TimePoint{} + base::microseconds(static_cast<int64_t>(
                                    base::load_big_endian<uint64_t>(&packet[kHeaders])));
        const auto number = base::load_big_endian<uint32_t>(&packet[24]);
        if (const auto ack = connection.receiver->on_segment(number, sent_at, at)) {
            send_ack(connection, *ack);
        }
    }

    bool is_up_;
    std::vector<Connection> connections_;
};

}  // namespace continuo::tests
