// Delivery over links of many rates, delays and losses: what it tells of a path is what the link
// did.
#include "common/recovery/delivery.hpp"

#include <cmath>
#include <deque>
#include <ostream>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::recovery {
namespace {

using base::Duration;
using base::microseconds;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr NumberSpace kSpace{3, 256};
constexpr uint16_t kBytes = 1400;

SentRun run_of(uint32_t first, uint16_t bytes, uint8_t count = 1) {
    SentRun run;
    run.space = kSpace;
    run.first = first;
    run.count = count;
    run.bytes = run.last_bytes = bytes;
    run.has_packets = true;
    return run;
}

struct Link {
    double bits_per_s = 0;
    Duration delay{};  // each way
    double loss = 0;
    Duration queue = milliseconds(50);

    friend std::ostream& operator<<(std::ostream& out, const Link& link) {
        return out << link.bits_per_s / 1e6 << " Mbit/s, " << base::to_us(link.delay) << " us, "
                   << link.loss * 100 << " % lost";
    }
};

Duration time_of(double s) {
    return Duration(static_cast<int64_t>(s * 1e9));
}

// A sender of constant rate, a link with a queue that drops its tail, and a peer that acknowledges
// as docs/PROTOCOL.md has it: after min(RTT/4, 25 ms), and no more than 2 % of the bytes.
class LinkRun {
  public:
    LinkRun(const Link& link, double load)
        : link_(link), interval_(time_of(kBytes * 8 / (link.bits_per_s * load))) {
        const double thin = 2900 * 8 / link.bits_per_s;
        ack_every_ = std::max(std::min<Duration>(link.delay / 2, milliseconds(25)), time_of(thin));
    }

    void go(Duration span) {
        const TimePoint end = now_ + span;
        while (now_ < end) {
            now_ += step();
            while (send_at_ <= now_) {
                send();
                send_at_ += interval_;
            }
            while (!arrivals_.empty() && arrivals_.front().at <= now_) {
                arrive();
            }
            if (now_ >= ack_at_ && !received_.empty()) {
                acknowledge();
            }
            while (!acks_.empty() && acks_.front().at <= now_) {
                take_ack();
            }
            delivery.on_time(now_);
        }
    }

    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    uint64_t passed_bytes = 0;
    uint64_t sent = 0;
    uint64_t dropped = 0;  // of what was sent, by the link
    uint64_t ack_bytes = 0;
    // Bytes that acknowledgements have covered.
    uint64_t told_bytes = 0;

  private:
    struct Arrival {
        TimePoint at;
        uint32_t number;
    };
    struct Ack {
        TimePoint at;
        Duration delay;
        TimePoint arrived_at;
        std::vector<std::pair<uint32_t, uint32_t>> ranges;  // newest first
    };

    Duration step() const {
        TimePoint next = send_at_;
        if (!arrivals_.empty()) {
            next = std::min(next, arrivals_.front().at);
        }
        if (!acks_.empty()) {
            next = std::min(next, acks_.front().at);
        }
        if (!received_.empty()) {
            next = std::min(next, std::max(ack_at_, now_));
        }
        return std::max<Duration>(next - now_, microseconds(1));
    }
    void send() {
        const SentRun run = run_of(static_cast<uint32_t>(sent), kBytes);
        delivery.on_sent(run, now_);
        const bool is_lost = std::bernoulli_distribution(link_.loss)(random_);
        const TimePoint begins = std::max(free_at_, now_);
        const bool is_full = begins - now_ > link_.queue;
        const auto number = static_cast<uint32_t>(sent++);
        if (is_full || is_lost) {
            ++dropped;
            return;
        }
        free_at_ = begins + time_of(kBytes * 8 / link_.bits_per_s);
        arrivals_.push_back({free_at_ + link_.delay, number});
    }
    void arrive() {
        if (received_.empty()) {
            ack_at_ = std::max(ack_at_, now_);
        }
        received_.push_back(arrivals_.front().number);
        received_at_ = now_;
        passed_bytes += kBytes;
        arrivals_.pop_front();
    }
    void acknowledge() {
        Ack ack{now_ + link_.delay, now_ - received_at_, received_at_, {}};
        for (size_t i = received_.size(); i-- > 0;) {
            if (!ack.ranges.empty() && ack.ranges.back().first == received_[i] + 1) {
                ack.ranges.back().first = received_[i];
            } else {
                ack.ranges.emplace_back(received_[i], received_[i]);
            }
        }
        ack_bytes += 58 + 2 * ack.ranges.size();
        received_.clear();
        ack_at_ = now_ + ack_every_;
        acks_.push_back(std::move(ack));
    }
    void take_ack() {
        const Ack& ack = acks_.front();
        for (size_t i = 0; i < ack.ranges.size(); ++i) {
            delivery.on_range(kSpace, ack.ranges[i].first, ack.ranges[i].second,
                              i == 0 ? std::optional(Delivery::Highest{
                                           ack.delay, RelativeDelay::clock_at(ack.arrived_at)})
                                     : std::nullopt);
            told_bytes += uint64_t{kBytes} * (ack.ranges[i].second - ack.ranges[i].first + 1);
        }
        liveness.on_heard(now_);
        delivery.set_peer_interval(ack_every_);
        delivery.finish_ack(true, now_);
        acks_.pop_front();
    }

    Link link_;
    Duration interval_;
    Duration ack_every_;
    TimePoint now_{seconds(100)};
    TimePoint send_at_{seconds(100)};
    TimePoint free_at_{};
    TimePoint ack_at_{};
    TimePoint received_at_{};
    std::deque<Arrival> arrivals_;
    std::vector<uint32_t> received_;
    std::deque<Ack> acks_;
    std::mt19937 random_{42};
};

class DeliveryOverLink : public testing::TestWithParam<Link> {};

Duration shortest_round_trip(const Link& link) {
    return 2 * link.delay + time_of(kBytes * 8 / link.bits_per_s);
}

TEST_P(DeliveryOverLink, AFullLinkIsKnownAsItIs) {
    const Link link = GetParam();
    LinkRun run(link, 1.2);
    const double bytes_per_s = link.bits_per_s / 8;
    run.go(2 * shortest_round_trip(link) + time_of(20 * kBytes / bytes_per_s));
    for (int window = 0; window < 2; ++window) {
        const uint64_t passed = run.passed_bytes;
        const uint64_t delivered = run.delivery.rate().delivered_bytes();
        run.go(seconds(5));
        const auto truth = static_cast<double>(run.passed_bytes - passed);
        const auto told = static_cast<double>(run.delivery.rate().delivered_bytes() - delivered);
        EXPECT_NEAR(told, truth, truth * 0.1) << "window " << window;
    }
    EXPECT_NEAR(static_cast<double>(run.delivery.rate().bytes_per_s()), bytes_per_s,
                bytes_per_s * 0.1);
    EXPECT_TRUE(run.delivery.rate().is_known());
    if (run.sent >= 2000) {
        const double truth = static_cast<double>(run.dropped) / static_cast<double>(run.sent);
        const auto counters = run.delivery.counters();
        const double told =
            static_cast<double>(counters.lost_datagrams) /
            static_cast<double>(counters.lost_datagrams + counters.delivered_datagrams);
        EXPECT_NEAR(told, truth, 0.01);
    }
    EXPECT_LE(static_cast<double>(run.ack_bytes), static_cast<double>(run.passed_bytes) * 0.025);
    EXPECT_EQ(run.delivery.liveness().timeouts(), 0U) << "the path answers";
    EXPECT_EQ(run.delivery.counters().refused_ranges, 0U);
}

TEST_P(DeliveryOverLink, ALinkThatIsNotFullTellsItsRoundTripAndNoHigherRate) {
    const Link link = GetParam();
    LinkRun run(link, 0.3);
    for (int i = 0; i < 100; ++i) {
        run.delivery.on_app_limited();
        run.go(milliseconds(50));
    }
    const RttEstimator& rtt = run.rtt;
    const auto truth = static_cast<double>(base::to_us(shortest_round_trip(link)));
    EXPECT_NEAR(static_cast<double>(base::to_us(rtt.minimum())), truth,
                std::max(truth * 0.05, 300.0));
    EXPECT_NEAR(static_cast<double>(base::to_us(rtt.smoothed())), truth,
                std::max(truth * 0.05, 1000.0));
    EXPECT_LE(static_cast<double>(run.delivery.rate().bytes_per_s()), link.bits_per_s / 8 * 1.1);
    if (const auto loss = run.delivery.loss(TimePoint{seconds(105)}); loss && run.sent >= 2000) {
        EXPECT_NEAR(*loss, link.loss, 0.015);
    }
}

INSTANTIATE_TEST_SUITE_P(Links,
                         DeliveryOverLink,
                         testing::Values(Link{64e3, milliseconds(100), 0, milliseconds(1000)},
                                         Link{64e3, milliseconds(20), 0.02, milliseconds(1000)},
                                         Link{1e6, milliseconds(300), 0.05, milliseconds(200)},
                                         Link{5e6, milliseconds(25), 0.01, milliseconds(100)},
                                         Link{20e6, milliseconds(300), 0.1, milliseconds(100)},
                                         Link{50e6, milliseconds(10), 0, milliseconds(50)},
                                         Link{100e6, microseconds(500), 0.001, milliseconds(20)},
                                         Link{1e9, milliseconds(1), 0, milliseconds(5)}));

// Bytes under way are counted once, even for duplicate, late and lost datagrams.
TEST(Delivery, CountsAreExactUnderRepeatedAndOverlappingRanges) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    std::mt19937 random(7);
    TimePoint now{seconds(1)};
    std::set<uint32_t> acknowledged;
    uint32_t next = 0;
    for (int round = 0; round < 5000; ++round) {
        now += milliseconds(1);
        const SentRun run = run_of(next, 100, static_cast<uint8_t>(1 + random() % 20));
        next += run.count;
        delivery.on_sent(run, now);
        const uint32_t last = next - 1 - static_cast<uint32_t>(random() % std::min(next, 40U));
        const uint32_t first = last - std::min(last, static_cast<uint32_t>(random() % 30));
        delivery.on_range(kSpace, first, last, Delivery::Highest{});
        delivery.finish_ack(true, now);
        delivery.on_time(now);
        for (uint32_t number = first; number <= last; ++number) {
            acknowledged.insert(number);
        }
        const DeliveryCounters& counters = delivery.counters();
        ASSERT_LE(counters.delivered_datagrams + counters.lost_datagrams, counters.sent_datagrams);
        ASSERT_EQ(
            delivery.unacknowledged_bytes(),
            (counters.sent_datagrams - counters.delivered_datagrams - counters.lost_datagrams) *
                100);
        ASSERT_EQ(delivery.rate().in_flight_bytes(), delivery.unacknowledged_bytes());
    }
    EXPECT_EQ(delivery.counters().delivered_datagrams, acknowledged.size());
    EXPECT_EQ(delivery.rate().delivered_bytes(), acknowledged.size() * 100);
}

TEST(Delivery, ALostSizeProbeIsNoLoss) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    TimePoint now{seconds(1)};
    for (uint32_t i = 0; i < 10; ++i) {
        SentRun run = run_of(i, kBytes);
        run.is_size_probe = i == 2;
        run.has_packets = i != 2;
        delivery.on_sent(run, now);
        now += milliseconds(1);
    }
    delivery.on_range(kSpace, 3, 9, Delivery::Highest{});
    delivery.on_range(kSpace, 0, 1, std::nullopt);
    delivery.finish_ack(true, now);
    EXPECT_EQ(delivery.counters().lost_datagrams, 0U);
    EXPECT_EQ(delivery.rate().in_flight_bytes(), 0U) << "but nobody waits for it";
    // It comes after all.
    delivery.on_range(kSpace, 2, 2, std::nullopt);
    delivery.finish_ack(true, now);
    EXPECT_EQ(delivery.counters().lost_datagrams, 0U);
    EXPECT_EQ(delivery.counters().delivered_datagrams, 10U);
}

// The round trip becomes 600 times as long: what was sent meanwhile must not all be forgotten
// before it is acknowledged, or nothing would ever be learned again.
TEST(Delivery, ALogThatFillsUpStillSeesAcknowledgements) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    TimePoint now{seconds(1)};
    const auto send = [&](uint32_t number) {
        const SentRun run = run_of(number, kBytes);
        delivery.on_sent(run, now);
    };
    uint32_t next = 0;
    send(next++);
    now += milliseconds(1);
    delivery.on_range(kSpace, 0, 0, Delivery::Highest{});
    delivery.finish_ack(true, now);
    ASSERT_EQ(rtt.minimum(), milliseconds(1));
    const TimePoint began = now;
    const uint32_t first = next;
    for (; now < began + seconds(2); now += microseconds(300)) {
        send(next++);
    }
    EXPECT_EQ(delivery.log().forgotten_datagrams(), 0U);
    delivery.on_range(kSpace, first, first + 9, Delivery::Highest{});
    delivery.finish_ack(true, now);
    EXPECT_NEAR(static_cast<double>(base::to_ms(rtt.latest())), 2000, 30);
}

// 1 MB/s by a path that is not full; acknowledgements come back through a queue that grows.
TEST(Delivery, AQueueOnTheWayBackIsNoneOfThePath) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    const TimePoint began{seconds(1)};
    const auto sent_at = [&](uint32_t number) { return began + milliseconds(number); };
    struct Ack {
        TimePoint at;
        uint32_t number;
    };
    std::deque<Ack> acks;
    for (uint32_t number = 0; number < 3000; ++number) {
        const SentRun run = run_of(number, 1000);
        delivery.on_sent(run, sent_at(number));
        delivery.on_app_limited();
        const Duration back = milliseconds(10) + microseconds(number < 1000 ? 0 : number * 30);
        acks.push_back({sent_at(number) + milliseconds(10) + back, number});
        while (acks.front().at <= sent_at(number)) {
            const auto [at, told] = acks.front();
            acks.pop_front();
            const TimePoint arrived_at = sent_at(told) + milliseconds(10);
            delivery.on_range(kSpace, told, told,
                              Delivery::Highest{{}, RelativeDelay::clock_at(arrived_at)});
            delivery.finish_ack(true, at);
        }
    }
    EXPECT_GT(rtt.smoothed(), milliseconds(80));
    EXPECT_FALSE(delivery.rate().has_queue());
    EXPECT_FALSE(delivery.rate().is_known()) << "it may deliver more";
    EXPECT_NEAR(static_cast<double>(delivery.rate().bytes_per_s()), 1e6, 3e4);
}

TEST(Delivery, WhatLeavesWaitsForWhatIsUnderWay) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    TimePoint now{seconds(1)};
    const SentRun run = run_of(0, 1250, 50);
    delivery.on_sent(run, now);
    EXPECT_EQ(delivery.queueing(1250, now), milliseconds(51)) << "at the rate that is assumed";
    now += milliseconds(20);
    EXPECT_EQ(delivery.queueing(1250, now), milliseconds(31));
    EXPECT_FALSE(delivery.is_named(kSpace, 0));
    delivery.on_range(kSpace, 0, 49, Delivery::Highest{{}, RelativeDelay::clock_at(now)});
    delivery.finish_ack(true, now);
    EXPECT_LE(delivery.queueing(1250, now), milliseconds(1)) << "all of it is there";
    EXPECT_TRUE(delivery.is_named(kSpace, 49));
    EXPECT_FALSE(delivery.is_named(kSpace, 50));
}

TEST(Delivery, WhatMayBeSentAgainTellsNoRoundTrip) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    const TimePoint now{seconds(1)};
    delivery.on_sent(run_of(0, kBytes), now);
    delivery.distrust_round_trips(now + milliseconds(1));
    delivery.on_sent(run_of(1, kBytes), now + milliseconds(2));
    delivery.on_range(kSpace, 0, 0, Delivery::Highest{});
    delivery.finish_ack(true, now + milliseconds(30));
    EXPECT_FALSE(rtt.has_sample());
    delivery.on_range(kSpace, 1, 1, Delivery::Highest{});
    delivery.finish_ack(true, now + milliseconds(32));
    EXPECT_EQ(rtt.latest(), milliseconds(30));
}

// 1 MB/s fills a path: a queue of 40 ms stands, and what left last is still in it.
class FullPath {
  public:
    static constexpr uint32_t kSent = 1000;
    static constexpr uint32_t kArrived = kSent - 40;

    FullPath() {
        for (uint32_t number = 0; number < kSent; ++number) {
            now += milliseconds(1);
            delivery.on_sent(run_of(number, 1000), now);
            if (number < 10 || number >= 50) {
                arrive(number < 10 ? number : number - 40, microseconds(500));
            }
        }
        EXPECT_TRUE(delivery.rate().has_queue());
        expect_rate();
    }
    void arrive(uint32_t number, Duration after) {
        delivery.on_range(kSpace, number, number,
                          Delivery::Highest{{}, RelativeDelay::clock_at(now + after)});
        delivery.finish_ack(true, now + after + milliseconds(1));
    }
    void expect_rate() const {
        EXPECT_NEAR(static_cast<double>(delivery.rate().bytes_per_s()), 1e6, 2e5);
    }

    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    TimePoint now{seconds(1)};
};

// It loses all; another path takes over, by which the same numbers are sent again.
TEST(Delivery, WhatIsSentAgainElsewhereDoesNotMakeAPathSlow) {
    FullPath path;
    path.delivery.distrust_samples(path.now += seconds(2));
    EXPECT_FALSE(path.delivery.rate().has_queue());
    for (uint32_t number = FullPath::kArrived; number < FullPath::kSent; ++number) {
        path.now += milliseconds(5);
        path.arrive(number, {});
        path.expect_rate();
    }
    EXPECT_EQ(path.delivery.rate().delivered_bytes(), FullPath::kSent * 1000) << "all of it came";
}

// Once more it is filled, at half the rate.
TEST(Delivery, WhatLeavesAfterwardsTellsTheRateAnew) {
    FullPath path;
    path.delivery.distrust_samples(path.now);
    for (uint32_t number = FullPath::kArrived; number < FullPath::kSent + 500; ++number) {
        path.now += milliseconds(2);
        path.delivery.on_sent(run_of(number + 40, 1000), path.now);
        path.arrive(number, microseconds(500));
    }
    EXPECT_NEAR(static_cast<double>(path.delivery.rate().bytes_per_s()), 5e5, 5e4);
}

// The queue drains. Then there is a thin flow alone, which waits behind others' packets.
TEST(Delivery, AThinFlowBehindOthersPacketsDoesNotMakeAPathSlow) {
    FullPath path;
    for (uint32_t number = FullPath::kArrived; number < FullPath::kSent; ++number) {
        path.now += milliseconds(1);
        path.arrive(number, microseconds(500));
        path.delivery.on_app_limited();
    }
    for (uint32_t number = FullPath::kSent; number < FullPath::kSent + 50; ++number) {
        path.now += milliseconds(100);
        path.delivery.on_sent(run_of(number, 100), path.now);
        path.delivery.on_app_limited();
        path.arrive(number, milliseconds(30));
        path.expect_rate();
    }
}

TEST(Delivery, AnAcknowledgementByAnotherPathTellsNoRoundTrip) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    const TimePoint now{seconds(1)};
    const SentRun run = run_of(0, kBytes);
    delivery.on_sent(run, now);
    delivery.on_range(kSpace, 0, 0, Delivery::Highest{});
    delivery.finish_ack(false, now + milliseconds(500));
    EXPECT_FALSE(rtt.has_sample());
    EXPECT_EQ(delivery.counters().delivered_datagrams, 1U);
}

}  // namespace
}  // namespace continuo::recovery
