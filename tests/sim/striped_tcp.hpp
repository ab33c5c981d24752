// StripedTcp: TCP connections (TcpModel) through a tunnel with several uplinks, in virtual time.
#pragma once

#include "tests/sim/tunnel_tcp.hpp"

#include <deque>
#include <vector>

namespace continuo::tests {

struct Uplink {
    uint64_t megabits_per_s = 0;
    base::Duration delay{};
};

class StripedTcp {
  public:
    // As on most links, a queue takes 100 ms.
    static SimLink link_of_uplink(const Uplink& uplink) {
        SimLink link = link_of(uplink.delay, uplink.megabits_per_s * 1'000'000);
        link.queue_packets = 100'000;
        link.queue_bytes = uplink.megabits_per_s * 1'000'000 / 8 / 10;
        return link;
    }

    StripedTcp(const std::vector<Uplink>& uplinks, size_t flows, bool is_up, uint64_t seed = 1)
        : pair(link_of_uplink(uplinks[0]), seed) {
        pair.has_control = true;
        pair.snapt.mode_of_opened = base::PathMode::Packet;
        for (size_t i = 0; i < flows; ++i) {
            connections_.emplace_back(pair, static_cast<uint16_t>(kFirstPort + i), is_up,
                                      base::PathMode::Packet);
        }
        pair.run_for(base::milliseconds(500));
        for (size_t i = 1; i < uplinks.size(); ++i) {
            pair.add_path(static_cast<uint8_t>(i),
                          *base::Endpoint::parse("198.51.100.7:" + std::to_string(41000 + i)),
                          link_of_uplink(uplinks[i]));
            pair.node.session->paths().path(static_cast<uint8_t>(i)).node().probe(pair.now);
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
            for (TunnelTcp& connection : connections_) {
                connection.step();
            }
            pair.run_for(TunnelTcp::kStep);
            take_delivered();
        }
        return static_cast<double>(received() - before) * TunnelTcp::kSegmentBytes * 8 /
               static_cast<double>(base::to_us(span));
    }

    uint64_t received() const {
        uint64_t sum = 0;
        for (const TunnelTcp& connection : connections_) {
            sum += connection.received();
        }
        return sum;
    }

    SessionPair pair;

  private:
    static constexpr uint16_t kFirstPort = 8000;

    void take_delivered() {
        for (SessionEnd* end : {&pair.node, &pair.snapt}) {
            for (size_t i = 0; i < end->delivered.size(); ++i) {
                take(end->delivered[i], end->delivered_at[i], end == &pair.snapt);
            }
            end->delivered.clear();
            end->delivered_at.clear();
        }
    }

    void take(const std::vector<uint8_t>& packet, base::TimePoint at, bool is_up) {
        const auto port = base::load_big_endian<uint16_t>(&packet[is_up ? 20 : 22]);
        const size_t i = size_t{port} - kFirstPort;
        if (i < connections_.size()) {
            connections_[i].take(packet, at, is_up);
        }
    }

    std::deque<TunnelTcp> connections_;
};

}  // namespace continuo::tests
