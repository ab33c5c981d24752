#include "common/recovery/relative_delay.hpp"

#include <gtest/gtest.h>

namespace continuo::recovery {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr Duration kRoundTrip = milliseconds(20);

// A peer whose clock has another zero, behind a path of 10 ms and a queue.
struct Peer {
    explicit Peer(Duration clock_ahead) : ahead(clock_ahead) {}

    void deliver(Duration queue) {
        const TimePoint arrived = now + milliseconds(10) + queue;
        delay.on_sample(now, RelativeDelay::clock_at(arrived + ahead), kRoundTrip, arrived);
        sent_at = now;
        now += milliseconds(5);
    }

    Duration ahead;
    RelativeDelay delay;
    TimePoint now{seconds(100)};
    TimePoint sent_at{};
};

// Also where the peer's clock, or the difference, goes round.
TEST(RelativeDelay, TheQueueIsToldWhateverTheZerosOfTheClocks) {
    constexpr Duration kTurn = RelativeDelay::kUnit * RelativeDelay::kModulus;
    for (const Duration ahead : {Duration{}, Duration(seconds(33)), kTurn - seconds(100),
                                 kTurn - milliseconds(100'005), kTurn / 2}) {
        Peer peer(ahead);
        for (int i = 0; i < 20; ++i) {
            peer.deliver({});
        }
        EXPECT_EQ(peer.delay.standing_queue(), Duration{});
        for (int i = 0; i < 20; ++i) {
            peer.deliver(milliseconds(40));
        }
        EXPECT_EQ(peer.delay.standing_queue(), milliseconds(40)) << base::to_ms(ahead);
        EXPECT_EQ(peer.delay.latest_queue(), milliseconds(40));
    }
}

TEST(RelativeDelay, AQueueThatIsEmptyNowAndThenDoesNotStand) {
    Peer peer(seconds(7));
    for (int i = 0; i < 100; ++i) {
        peer.deliver(milliseconds(i % 3 == 0 ? 0 : 60));
    }
    EXPECT_EQ(peer.delay.standing_queue(), Duration{});
}

TEST(RelativeDelay, ArrivalsAreAsFarApartAsThePeerSawThem) {
    Peer peer(seconds(7));
    peer.deliver({});
    const TimePoint first = peer.delay.arrival(peer.sent_at, kRoundTrip);
    EXPECT_EQ(first, peer.sent_at + kRoundTrip);
    peer.deliver(milliseconds(16));
    EXPECT_EQ(peer.delay.arrival(peer.sent_at, kRoundTrip), first + milliseconds(5 + 16));
    peer.delay.rebase();
    EXPECT_EQ(peer.delay.arrival(peer.sent_at, kRoundTrip), peer.sent_at + kRoundTrip);
}

TEST(RelativeDelay, PathsToOnePeerAreCompared) {
    Peer peer(seconds(7));
    Peer slower(seconds(7));
    peer.deliver({});
    slower.deliver(milliseconds(24));
    ASSERT_TRUE(peer.delay.smallest() && slower.delay.smallest());
    EXPECT_EQ(RelativeDelay::kUnit *
                  RelativeDelay::above(*slower.delay.smallest(), *peer.delay.smallest()),
              milliseconds(24));
    EXPECT_EQ(RelativeDelay::kUnit *
                  RelativeDelay::above(*peer.delay.smallest(), *slower.delay.smallest()),
              -Duration(milliseconds(24)));
}

}  // namespace
}  // namespace continuo::recovery
