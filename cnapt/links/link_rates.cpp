#include "cnapt/links/link_rates.hpp"

#include "common/dataplane/figures.hpp"

namespace continuo::cnapt::links {

using base::TimePoint;

namespace {

constexpr base::Duration kThroughputInterval = base::seconds(1);

}  // namespace

void LinkRates::look(const tunnel::Session& session, TimePoint now) {
    inner_.look(dataplane::inner_bytes_sent(session), session.counters().inner_bytes_received, now);
    for (uint8_t i = 0; i < wire::kMaxPaths; ++i) {
        const path::Path& path = session.paths().path(i);
        outer_[i].look(path.traffic().counters().sent_bytes,
                       path.traffic().counters().received_bytes, now);
    }
}

void LinkRates::measure_throughput(const tunnel::Session& session, TimePoint now) {
    const base::Duration span = now - measured_at_;
    if (span < kThroughputInterval) {
        return;
    }
    const session::SessionCounters& counters = session.counters();
    uint64_t bytes = counters.bytes_received + counters.overhead_sent();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        bytes += session.queues().counters(traffic_class).wire_bytes;
    }
    if (measured_at_ != TimePoint{} && bytes >= measured_bytes_) {
        constexpr uint64_t kBitsPerByteAndSecond = 8'000'000;
        throughput_bits_per_s_ = (bytes - measured_bytes_) * kBitsPerByteAndSecond /
                                 static_cast<uint64_t>(base::to_us(span));
    }
    measured_bytes_ = bytes;
    measured_at_ = now;
}

}  // namespace continuo::cnapt::links
