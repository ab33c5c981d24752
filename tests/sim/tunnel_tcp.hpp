// TunnelTcp: a TCP connection (TcpModel) through the tunnel of a SessionPair, in virtual time. Its
// fixture hands it the packets that were delivered.
#pragma once

#include "tests/sim/two_paths.hpp"
#include "tests/support/tcp_model.hpp"

#include <optional>
#include <vector>

namespace continuo::tests {

class TunnelTcp {
  public:
    static constexpr size_t kSegmentBytes = 1300;  // of payload
    static constexpr base::Duration kStep = base::microseconds(100);

    // The node opens it from `port`. `is_up`: the node sends the data. Runs until SNAPT knows it.
    TunnelTcp(SessionPair& pair,
              uint16_t port,
              bool is_up,
              std::optional<base::PathMode> mode = std::nullopt)
        : pair_(pair), is_up_(is_up), fields_(node_fields(packet::Protocol::Tcp, port, 5201)) {
        fields_.flags = packet::tcp_flag::kAck;
        fields_.has_timestamps = true;
        packet::FiveTuple tuple = tuple_of(fields_);
        node_flow_ = &pair.node.flow(tuple, base::TrafficClass::HtHd);
        if (mode) {
            pair.node.session->set_mode(*node_flow_, *mode);
        }
        pair.node.send(*node_flow_, make_packet(fields_, {}), {}, pair.now);
        pair.run_for(base::milliseconds(200));
        tuple.local = kLease;
        snapt_flow_ = pair.snapt.find(tuple);
    }

    // Segments in order.
    uint64_t received() const { return receiver_.received(); }

    // Sends what is due by now.
    void step() {
        if (sender_.next_deadline() <= pair_.now) {
            sender_.on_timeout(pair_.now);
        }
        if (receiver_.next_deadline() <= pair_.now) {
            if (const auto ack = receiver_.on_timeout(pair_.now)) {
                send_ack(*ack);
            }
        }
        while (const auto number = sender_.next_segment(pair_.now)) {
            std::vector<uint8_t> payload(kSegmentBytes);
            pair_.random.fill(payload);
            base::store_big_endian<uint64_t>(
                payload.data(),
                static_cast<uint64_t>(pair_.now.time_since_epoch() / base::microseconds(1)));
            packet::HeaderFields fields = fields_;
            fields.sequence = static_cast<uint32_t>(*number);
            send(is_up_, fields, payload);
        }
    }

    // A packet of it that came to SNAPT (`is_up`) or to the node.
    void take(const std::vector<uint8_t>& packet, base::TimePoint at, bool is_up) {
        if (is_up == is_up_) {
            take_data(packet, at);
            return;
        }
        const auto ack = base::load_big_endian<uint32_t>(&packet[28]);
        if (ack < acks_.size()) {
            sender_.on_ack(acks_[ack], at);
        }
    }

  private:
    static constexpr size_t kHeaders = 52;

    // From the node or to it.
    void send(bool is_up, packet::HeaderFields fields, base::ByteView payload) {
        fields.ip_id = sent_++;
        if (is_up) {
            pair_.node.send(*node_flow_, make_packet(fields, payload), {}, pair_.now);
        } else {
            pair_.snapt.send(*snapt_flow_, make_packet(to_lease(fields), payload), {}, pair_.now);
        }
    }

    void send_ack(const TcpAck& ack) {
        packet::HeaderFields fields = fields_;
        fields.acknowledgement = static_cast<uint32_t>(acks_.size());
        acks_.push_back(ack);
        send(!is_up_, fields, {});
    }

    void take_data(const std::vector<uint8_t>& packet, base::TimePoint at) {
        if (packet.size() < kHeaders + 8) {
            return;
        }
        const auto sent_at =
            base::TimePoint{} + base::microseconds(static_cast<int64_t>(
                                    base::load_big_endian<uint64_t>(&packet[kHeaders])));
        const auto number = base::load_big_endian<uint32_t>(&packet[24]);
        if (const auto ack = receiver_.on_segment(number, sent_at, at)) {
            send_ack(*ack);
        }
    }

    SessionPair& pair_;
    bool is_up_;
    packet::HeaderFields fields_;  // as the node writes them
    flow::Flow* node_flow_ = nullptr;
    flow::Flow* snapt_flow_ = nullptr;
    TcpSender sender_;
    TcpReceiver receiver_;
    std::vector<TcpAck> acks_;
    uint16_t sent_ = 0;
};

}  // namespace continuo::tests
