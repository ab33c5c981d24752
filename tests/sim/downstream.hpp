// Downstream: a session pair with a flow of numbered packets down, for simulations of moves.
#pragma once

#include "tests/sim/two_paths.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::tests {

// A stream of numbered packets down to a node that says nothing by itself.
class Downstream {
  public:
    Downstream(const SimLink& link, uint64_t seed) : pair(link, seed) {
        while (pair.snapt.flows.empty()) {  // the link may lose the first packet
            pair.node.send(pair.node.flow(tuple_of(fields_), base::TrafficClass::HtHd),
                           make_packet(fields_, payload(0)), {}, pair.now);
            pair.run_for(base::seconds(1));
        }
        flow_ = pair.snapt.flows.begin()->second.get();
        fields_ = to_lease(fields_);
    }

    void run_for(base::Duration span) {
        for (const base::TimePoint end = pair.now + span; pair.now < end;) {
            pair.snapt.send(*flow_, make_packet(fields_, payload(++sent)), {}, pair.now);
            pair.run_for(base::milliseconds(1));
        }
    }

    // `count` packets of a super-packet, which leave as one run.
    void send_run(uint32_t count) {
        std::vector<uint8_t> whole;
        for (uint32_t i = 0; i < count; ++i) {
            const std::vector<uint8_t> bytes = payload(++sent);
            whole.insert(whole.end(), bytes.begin(), bytes.end());
        }
        packet::Offload offload;
        offload.gso = packet::GsoType::Udp;
        offload.segment_bytes = kPayloadBytes;
        offload.header_bytes = 28;
        offload.partial_checksum = true;
        offload.checksum_start = 20;
        offload.checksum_offset = 6;
        std::vector<uint8_t> bytes(offload.header_bytes + whole.size());
        packet::write_headers(fields_, whole, true, bytes);
        std::copy(whole.begin(), whole.end(), bytes.begin() + offload.header_bytes);
        pair.snapt.send(*flow_, bytes, offload, pair.now);
    }

    void move(uint8_t path) {
        const std::string address = "198.51.100." + std::to_string(10 + path) + ":41000";
        pair.move_node(*base::Endpoint::parse(address), path);
    }

    // The numbers that came; fails when one came twice.
    std::set<uint32_t> arrived() const {
        std::set<uint32_t> numbers;
        for (const auto& packet : pair.node.delivered) {
            const uint32_t number = base::load_big_endian<uint32_t>(&packet[28]);
            EXPECT_TRUE(numbers.insert(number).second) << number << " was delivered twice";
        }
        return numbers;
    }

    SessionPair pair;
    uint32_t sent = 0;

  private:
    std::vector<uint8_t> payload(uint32_t number) {
        std::vector<uint8_t> bytes(kPayloadBytes);
        pair.random.fill(bytes);
        base::store_big_endian<uint32_t>(bytes.data(), number);
        return bytes;
    }

    static constexpr uint16_t kPayloadBytes = 600;

    packet::HeaderFields fields_ = node_fields(packet::Protocol::Udp, 5000, 5001);
    flow::Flow* flow_ = nullptr;
};

}  // namespace continuo::tests
