// A TCP download that fills its link while the node moves, break before make, in virtual time. Data
// under way filled the queue of the old link, and fills that of the new one when it is repeated.
#include "tests/sim/tunnel_tcp.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;

constexpr uint64_t kQueueMs = 30;
constexpr Duration kQueue = milliseconds(kQueueMs);

// One connection; each address of the node has links of its own, with a queue of kQueue down.
class FullDownload {
  public:
    FullDownload(uint64_t megabits_per_s, Duration one_way, uint64_t seed)
        : pair(link_of(one_way), seed), megabits_per_s_(megabits_per_s), one_way_(one_way) {
        pair.has_control = true;
        join(0);
        tcp_.emplace(pair, kPort, false);
        take_delivered();
    }

    void run_for(Duration span) {
        for (const base::TimePoint end = pair.now + span; pair.now < end;) {
            tcp_->step();
            pair.run_for(TunnelTcp::kStep);
            take_delivered();
        }
    }

    // The old address is gone with what is under way there, and there is another.
    void move() {
        const uint8_t former = path_;
        path_ = static_cast<uint8_t>((path_ + 1) % wire::kTcpPath);
        pair.path_addresses.erase(former);
        pair.node.session->paths().node().remove(former);
        join(path_);
    }

    // Longest time without a byte in order, from the last one before `since` on.
    Duration longest_silence(base::TimePoint since) const {
        return longest_between(progress_, since);
    }
    // Longest time in which no segment came at all.
    Duration longest_without_data(base::TimePoint since) const {
        return longest_between(arrivals_, since);
    }

    LinkModel& down() { return pair.down_link(path_); }

    SessionPair pair;

  private:
    Duration longest_between(const std::vector<base::TimePoint>& times,
                             base::TimePoint since) const {
        Duration longest = pair.now - times.back();
        for (size_t i = 1; i < times.size(); ++i) {
            if (times[i] >= since) {
                longest = std::max<Duration>(longest, times[i] - times[i - 1]);
            }
        }
        return longest;
    }

    static constexpr uint16_t kPort = 8000;

    void join(uint8_t path) {
        SimLink link = link_of(one_way_, megabits_per_s_ * 1'000'000);
        link.queue_packets = 100'000;
        link.queue_bytes = megabits_per_s_ * 1'000'000 / 8 * kQueueMs / 1000;
        pair.add_path(
            path, *base::Endpoint::parse("198.51.100.7:" + std::to_string(41000 + moves_++)), link);
        LinkSettings up = pair.up_link(path).settings();
        up.bits_per_s = 0;
        pair.up_link(path).change(up, pair.now);
        pair.node.session->paths().node().activate(path, pair.now);
    }

    void take_delivered() {
        for (size_t i = 0; i < pair.snapt.delivered.size(); ++i) {
            tcp_->take(pair.snapt.delivered[i], pair.snapt.delivered_at[i], true);
        }
        for (size_t i = 0; i < pair.node.delivered.size(); ++i) {
            const base::TimePoint at = pair.node.delivered_at[i];
            arrivals_.push_back(at);
            const uint64_t before = tcp_->received();
            tcp_->take(pair.node.delivered[i], at, false);
            if (tcp_->received() > before) {
                progress_.push_back(at);
            }
        }
        for (SessionEnd* end : {&pair.node, &pair.snapt}) {
            end->delivered.clear();
            end->delivered_at.clear();
        }
    }

    uint64_t megabits_per_s_;
    Duration one_way_;
    uint8_t path_ = 0;
    size_t moves_ = 0;
    std::optional<TunnelTcp> tcp_;
    std::vector<base::TimePoint> arrivals_;
    std::vector<base::TimePoint> progress_;
};

// The old queue and the link together held the data, and the new queue is as long: the repeats fill
// it at once. TCP itself tries two or three packets beyond both.
TEST(FullLinkHandoverSim, ADownloadGoesOnAfterARoundTripAndDoesNotOverrunTheNewQueue) {
    constexpr int kMoves = 6;
    for (const uint64_t rate : {20U, 100U}) {
        for (const auto one_way : {milliseconds(0), milliseconds(10)}) {
            SCOPED_TRACE(std::to_string(rate) + " Mbit/s, " + std::to_string(base::to_ms(one_way)) +
                         " ms each way");
            FullDownload tcp(rate, one_way, 1);
            tcp.run_for(seconds(2));
            std::vector<Duration> silences;
            for (int i = 0; i < kMoves; ++i) {
                tcp.run_for(milliseconds(613));
                const base::TimePoint began = tcp.pair.now;
                tcp.move();
                tcp.run_for(milliseconds(400));
                silences.push_back(tcp.longest_silence(began));
                EXPECT_LE(tcp.longest_without_data(began), 2 * one_way + milliseconds(3));
                EXPECT_LE(tcp.down().counters().dropped_by(LinkDrop::Queue), 3U);
            }
            EXPECT_GT(tcp.pair.snapt.session->counters().repeated_datagrams, 20U * kMoves)
                << "the link was full";
            std::sort(silences.begin(), silences.end());
            EXPECT_LE(silences[kMoves / 2], 2 * one_way + kQueue + milliseconds(10));
        }
    }
}

}  // namespace
}  // namespace continuo::tests
