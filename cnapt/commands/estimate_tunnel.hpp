// EstimateTunnel: both ends of a tunnel, joined by a link, in virtual time: the packets of a
// capture go in at the times when they were captured and are counted as they would be. The ends are
// those of the daemons, with their class queues, holds, headers that are left out, compression and
// seals; so are the acknowledgements, keepalives and probes that they send. Pure.
#pragma once

#include "common/base/random.hpp"
#include "common/dataplane/class_settings.hpp"
#include "common/tunnel/session.hpp"

#include <memory>

namespace continuo::cnapt::commands {

// Datagrams under way each way, in bytes of memory. Above it time goes on, to the arrival of
// the first, before the next packet of the capture. A choice: of the memory of any host.
inline constexpr size_t kMostUnderWay = size_t{64} * 1024 * 1024;

struct EstimateLink {
    uint64_t bits_per_s = 0;  // each way; 0: no limit
    base::Duration rtt = base::milliseconds(50);
    size_t most_under_way = kMostUnderWay;
};

// Longest queue in front of the link, at its rate. More is dropped. A choice: a router's.
inline constexpr base::Duration kLinkQueue = base::milliseconds(250);

struct EstimateEnds {
    dataplane::ClassTable classes;
    size_t max_flows = 65536;
    uint64_t hash_seed = 0;  // random, so that nobody can make a capture that takes for ever
};

// The same packets give the same figures: what the ends draw is not random.
class EstimateTunnel {
  public:
    EstimateTunnel(const EstimateLink& link, const EstimateEnds& ends);
    EstimateTunnel(const EstimateTunnel&) = delete;
    EstimateTunnel& operator=(const EstimateTunnel&) = delete;
    ~EstimateTunnel();

    // A packet of the flow, at the end that sends it. `at` is the time since the first one, which
    // does not go back (CaptureClock). False: it is none that a node would take, or there is no
    // room for its flow.
    struct Sender {
        const packet::FiveTuple& tuple;  // as captured
        base::TrafficClass traffic_class = base::TrafficClass::LtLd;
        bool may_compress = true;
        bool is_up = true;
    };
    bool send(const Sender& sender, base::ByteView packet, base::Duration at);
    // Until nothing is under way.
    void finish();

    const session::ClassCounters& counters(bool is_up, base::TrafficClass traffic_class) const;
    // Outer bytes and datagrams that the end sent without packets, from the first packet on.
    uint64_t overhead_bytes(bool is_up) const;
    uint64_t overhead_datagrams(bool is_up) const;
    uint64_t link_drops() const;
    uint64_t delivered_bytes() const;  // inner packets, at the other end

  private:
    class End;
    class Link;
    void run_until(base::TimePoint until);
    void flush();
    void pump(End& end);

    base::Duration rtt_;
    base::SeededRandom random_{1};
    base::TimePoint now_{base::seconds(1000)};
    base::TimePoint began_at_;  // time of the first packet
    base::Duration last_at_{};  // time of the captured packet before
    std::unique_ptr<Link> up_link_;
    std::unique_ptr<Link> down_link_;
    std::unique_ptr<End> node_;
    std::unique_ptr<End> snapt_;
    session::TransmitBatch batch_;
};

}  // namespace continuo::cnapt::commands
