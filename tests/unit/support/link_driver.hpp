// One direction in virtual time: what goes in, and what came out when.
#pragma once

#include "tests/support/link/link_model.hpp"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::tests {

struct Arrival {
    base::TimePoint at;
    uint32_t number = 0;
    LinkPacket packet;
};

class LinkDriver {
  public:
    explicit LinkDriver(LinkSettings settings, uint64_t seed = 1)
        : random(seed), link(std::move(settings), random) {}

    // A packet that carries its number.
    void send(uint32_t bytes, LinkProtocol protocol = LinkProtocol::Udp) {
        std::vector<uint8_t> data(std::max<size_t>(bytes, sizeof sent));
        base::store_big_endian(data.data(), sent++);
        LinkPacket packet = LinkPacket::of_datagram(std::move(data));
        packet.wire_bytes = packet.segment_bytes = bytes;
        packet.protocol = protocol;
        packet.corruptible_at = sizeof sent;
        link.send(std::move(packet), now);
    }
    // Until `end`, waking exactly when the model asks to.
    void run_until(base::TimePoint end) {
        while (link.next_due() <= end) {
            ASSERT_GE(link.next_due(), now) << "due in the past";
            now = link.next_due();
            while (auto packet = link.receive(now)) {
                const auto number = base::load_big_endian<uint32_t>(packet->bytes.data());
                arrivals.push_back({now, number, std::move(*packet)});
            }
        }
        now = end;
    }
    void run_for(base::Duration span) { run_until(now + span); }
    // `count` packets, one each `interval`.
    void stream(uint32_t count, base::Duration interval, uint32_t bytes) {
        for (uint32_t i = 0; i < count; ++i) {
            send(bytes);
            run_for(interval);
        }
    }
    void change(const std::function<void(LinkSettings&)>& how) {
        LinkSettings settings = link.settings();
        how(settings);
        link.change(std::move(settings), now);
    }
    void expect_all_accounted_for() const {
        const LinkCounters& counters = link.counters();
        EXPECT_EQ(counters.offered_packets + counters.duplicated,
                  counters.delivered_packets + counters.all_dropped() + link.queued_packets() +
                      link.in_flight_packets());
        EXPECT_EQ(counters.delivered_packets, arrivals.size());
    }

    base::TimePoint now{base::seconds(100)};
    const base::TimePoint began = now;
    base::SeededRandom random;
    LinkModel link;
    uint32_t sent = 0;
    std::vector<Arrival> arrivals;
};

}  // namespace continuo::tests
