// TwoPaths: a node with two uplinks, in virtual time, and one flow of numbered packets both ways.
#pragma once

#include "tests/support/acknowledged.hpp"
#include "tests/support/session_pair.hpp"

#include <set>

#include <gtest/gtest.h>

namespace continuo::tests {

inline const base::IpAddress kLease = *base::IpAddress::parse("100.64.0.2");
inline const base::Endpoint kOther = *base::Endpoint::parse("198.51.100.7:41000");

inline SimLink link_of(base::Duration delay, uint64_t bits_per_s = 0) {
    SimLink link;
    link.delay = delay;
    link.bits_per_s = bits_per_s;
    link.keeps_order = true;
    link.queue_packets = 100;
    return link;
}

// Header fields of a packet that a program at the node writes.
inline packet::HeaderFields
node_fields(packet::Protocol protocol, uint16_t source_port, uint16_t destination_port) {
    packet::HeaderFields fields;
    fields.source = *base::IpAddress::parse("192.0.0.5");
    fields.destination = *base::IpAddress::parse("198.51.100.2");
    fields.protocol = protocol;
    fields.source_port = source_port;
    fields.destination_port = destination_port;
    fields.ttl = 64;
    return fields;
}
// Header fields of its answer, as SNAPT gets it from the Internet.
inline packet::HeaderFields to_lease(packet::HeaderFields fields) {
    std::swap(fields.source, fields.destination);
    fields.destination = kLease;
    std::swap(fields.source_port, fields.destination_port);
    return fields;
}
inline packet::FiveTuple tuple_of(const packet::HeaderFields& fields) {
    packet::FiveTuple tuple;
    tuple.local = fields.source;
    tuple.remote = fields.destination;
    tuple.local_port = fields.source_port;
    tuple.remote_port = fields.destination_port;
    tuple.protocol = fields.protocol;
    return tuple;
}

// Path 0 is the active one.
class TwoPaths {
  public:
    TwoPaths(base::TrafficClass traffic_class,
             base::PathMode mode,
             const SimLink& first,
             const SimLink& second,
             uint64_t seed = 1,
             size_t payload_bytes = 160)
        : pair(first, seed), payload_bytes_(payload_bytes) {
        pair.has_control = true;
        pair.path_addresses[0] = pair.node_address;  // what comes there came by path 0
        pair.snapt.mode_of_opened = mode;
        packet::FiveTuple tuple = tuple_of(fields_);
        up_flow_ = &pair.node.flow(tuple, traffic_class);
        pair.node.session->set_mode(*up_flow_, mode);
        send_up();
        pair.run_for(base::milliseconds(500));
        tuple.local = kLease;
        down_flow_ = pair.snapt.find(tuple);
        pair.add_path(1, kOther, second);
        pair.node.session->paths().path(1).node().probe(pair.now);
        send_up();
        send_down();
        pair.run_for(base::milliseconds(500));
    }

    void send_up() {
        fields_.ip_id = static_cast<uint16_t>(sent_up);
        pair.node.send(*up_flow_, make_packet(fields_, payload(sent_up++)), {}, pair.now);
    }
    void send_down() {
        packet::HeaderFields fields = to_lease(fields_);
        fields.ip_id = static_cast<uint16_t>(sent_down);
        pair.snapt.send(*down_flow_, make_packet(fields, payload(sent_down++)), {}, pair.now);
    }
    // A call: a packet each way every 20 ms.
    void talk(base::Duration span) {
        for (const base::TimePoint end = pair.now + span; pair.now < end;) {
            send_up();
            send_down();
            pair.run_for(base::milliseconds(20));
        }
    }
    void move() { pair.node.session->paths().node().activate(1, pair.now); }
    // The node hears that the path was full up at that rate.
    void tell_rate(uint8_t path, uint64_t bytes_per_s) {
        const Acknowledged told{pair.node.session->paths(),
                                *pair.node.session->epochs().newest(),
                                {base::TrafficClass::HtHd, path, 0}};
        told.deliver_at(bytes_per_s, true, 1'000'000, pair.now, [&](base::Duration span) {
            pair.run_for(span);
            return pair.now;
        });
        told.acknowledge(1'000'000, 1'000'219, pair.now);  // nothing of it is owed
    }
    void cut(uint8_t path) {
        pair.lose(pair.up_link(path), kCertain);
        pair.lose(pair.down_link(path), kCertain);
    }

    static std::vector<uint32_t> numbers(const SessionEnd& end) {
        std::vector<uint32_t> numbers;
        for (const auto& packet : end.delivered) {
            numbers.push_back(base::load_big_endian<uint32_t>(&packet[28]));
        }
        return numbers;
    }
    // Everything came, and nothing twice.
    void expect_all() const {
        for (const SessionEnd* end : {&pair.snapt, &pair.node}) {
            const bool is_up = end == &pair.snapt;
            const std::vector<uint32_t> all = numbers(*end);
            const std::set<uint32_t> different(all.begin(), all.end());
            EXPECT_EQ(different.size(), all.size()) << (is_up ? "up" : "down") << ": came twice";
            EXPECT_EQ(different.size(), is_up ? sent_up : sent_down) << (is_up ? "up" : "down");
        }
    }
    // These numbers of the packets sent up arrived, and none twice.
    void expect_up(uint32_t first, uint32_t end) const {
        const std::vector<uint32_t> all = numbers(pair.snapt);
        const std::set<uint32_t> different(all.begin(), all.end());
        EXPECT_EQ(different.size(), all.size()) << "nothing comes twice";
        for (uint32_t number = first; number < end; ++number) {
            EXPECT_TRUE(different.contains(number)) << number;
        }
    }
    // Longest gap between consecutive packets at that end since `since`.
    static base::Duration longest_gap(const SessionEnd& end, base::TimePoint since) {
        base::Duration longest{};
        for (size_t i = 1; i < end.delivered_at.size(); ++i) {
            if (end.delivered_at[i - 1] >= since) {
                longest = std::max<base::Duration>(longest,
                                                   end.delivered_at[i] - end.delivered_at[i - 1]);
            }
        }
        return longest;
    }

    static constexpr base::Duration kBound = base::milliseconds(200);
    SessionPair pair;
    uint32_t sent_up = 0;
    uint32_t sent_down = 0;
    flow::Flow* up_flow_ = nullptr;
    flow::Flow* down_flow_ = nullptr;

  private:
    std::vector<uint8_t> payload(uint32_t number) {
        std::vector<uint8_t> bytes(payload_bytes_);
        pair.random.fill(bytes);
        base::store_big_endian<uint32_t>(bytes.data(), number);
        return bytes;
    }

    size_t payload_bytes_;
    packet::HeaderFields fields_ = node_fields(packet::Protocol::Udp, 5000, 5001);
};

}  // namespace continuo::tests
