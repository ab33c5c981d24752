// Repeats of a SNAPT are owed by the path that they took last.
#include "tests/support/acknowledged.hpp"

#include <gtest/gtest.h>

namespace continuo::routing {
namespace {

using base::Endpoint;
using base::milliseconds;
using base::seconds;
using base::TimePoint;
using base::TrafficClass;

const Endpoint kSnapt = *Endpoint::parse("203.0.113.9:9347");

// SNAPT with two paths that have answered, the first of them the return path.
struct Snapt {
    base::SeededRandom random{1};
    PathSet paths{Role::Snapt, random};
    TimePoint now{seconds(10)};

    Snapt() {
        for (const uint8_t path : {uint8_t{0}, uint8_t{1}}) {
            const wire::Space space{TrafficClass::LtLd, path, 0};
            paths.on_authenticated(space, from(path), kSnapt, 1200, true, now);
            const auto probe = paths.next_probe(now);
            paths.on_response(space, {probe->challenge->token}, now + milliseconds(20));
        }
    }
    static Endpoint from(uint8_t path) {
        return {*base::IpAddress::parse("192.0.2.2"), static_cast<uint16_t>(40000 + path)};
    }
    void receive(uint8_t path) {
        paths.on_authenticated({TrafficClass::LtLd, path, 0}, from(path), kSnapt, 500, true, now);
    }
};

// Four datagrams with packets of path 0, for which an acknowledgement is owed. SNAPT repeats them.
class SnaptRepeats {
  public:
    SnaptRepeats() {
        for (const uint8_t path : {uint8_t{0}, uint8_t{1}}) {
            snapt_.receive(path);
        }
        told_.send(0, kCount, 1400, snapt_.now);
    }
    void repeat_on(uint8_t path) {
        repeated_.space = {told_.epoch, wire::space_number(told_.space)};
        repeated_.count = 1;
        repeated_.bytes = repeated_.last_bytes = 1400;
        repeated_.has_packets = true;
        for (repeated_.first = 0; repeated_.first < kCount; ++repeated_.first) {
            snapt_.paths.logs().on_sent_again(repeated_, path, snapt_.now);
        }
    }
    bool has_timed_out(uint8_t path) const { return paths().path(path).liveness().timeouts() > 0; }
    bool is_repeated() const { return paths().logs().is_repeated(1, repeated_.space.space, 3); }
    void wait(base::Duration span) {
        for (const TimePoint end = snapt_.now + span; snapt_.now < end;) {
            snapt_.now += milliseconds(10);
            snapt_.paths.on_time(snapt_.now);
        }
    }
    bool waits_for_class_on(uint8_t path) const {
        return paths().path(path).feedback().class_ways()->has_unconfirmed(snapt_.now + seconds(1));
    }
    void acknowledge(uint32_t interval_ms = 0) {
        told_.acknowledge(0, kCount - 1, snapt_.now, std::nullopt, interval_ms);
    }
    void send_on(uint8_t path) {
        tests::Acknowledged{snapt_.paths, 1, {TrafficClass::HtHd, path, 0}}.send(100, kCount, 1400,
                                                                                 snapt_.now);
    }
    const PathSet& paths() const { return snapt_.paths; }

  private:
    static constexpr uint8_t kCount = 4;
    Snapt snapt_;
    const tests::Acknowledged told_{snapt_.paths, 1, {TrafficClass::HtHd, 0, 0}};
    recovery::SentRun repeated_;
};

TEST(PathRepeats, ARepeatIsOwedByThePathThatItTookLast) {
    SnaptRepeats snapt;
    ASSERT_TRUE(snapt.waits_for_class_on(0));
    snapt.repeat_on(1);
    EXPECT_TRUE(snapt.is_repeated());
    EXPECT_FALSE(snapt.waits_for_class_on(0)) << "its ACK confirms no class there";
    snapt.wait(seconds(3));
    EXPECT_FALSE(snapt.has_timed_out(0));
    EXPECT_TRUE(snapt.has_timed_out(1));
    snapt.acknowledge();
    EXPECT_TRUE(snapt.has_timed_out(1)) << "what left first may have come late";
    EXPECT_FALSE(snapt.is_repeated());
}

TEST(PathRepeats, AnAcknowledgedRepeatEndsNoTimeoutOfTheFormerPath) {
    SnaptRepeats snapt;
    snapt.wait(seconds(3));
    ASSERT_TRUE(snapt.has_timed_out(0));
    snapt.repeat_on(1);
    snapt.acknowledge();
    EXPECT_TRUE(snapt.has_timed_out(0));
    EXPECT_EQ(snapt.paths().path(0).feedback().measured().bytes_per_s, 0U);
}

// An ACK tells the interval of ACKs of its own path.
TEST(PathRepeats, TheIntervalOfTheFormerPathDelaysNoTimeoutOfTheNewOne) {
    SnaptRepeats snapt;
    snapt.repeat_on(1);
    snapt.acknowledge(1000);
    snapt.send_on(1);
    snapt.wait(milliseconds(400));
    EXPECT_TRUE(snapt.has_timed_out(1));
    snapt.send_on(0);
    snapt.wait(milliseconds(400));
    EXPECT_FALSE(snapt.has_timed_out(0)) << "an ACK may take a second";
}

// They are waited for there since they left first.
TEST(PathRepeats, ARepeatOnTheSamePathChangesNothing) {
    SnaptRepeats snapt;
    snapt.wait(seconds(3));
    ASSERT_TRUE(snapt.has_timed_out(0));
    snapt.repeat_on(0);
    EXPECT_FALSE(snapt.is_repeated());
    snapt.acknowledge();
    EXPECT_FALSE(snapt.has_timed_out(0));
}

// The node goes back before anything was acknowledged.
TEST(PathRepeats, ARepeatThatGoesBackIsOwedByTheFirstPathAgain) {
    SnaptRepeats snapt;
    snapt.repeat_on(1);
    snapt.repeat_on(0);
    EXPECT_TRUE(snapt.is_repeated());
    snapt.wait(milliseconds(400));
    EXPECT_TRUE(snapt.has_timed_out(0));
    EXPECT_FALSE(snapt.has_timed_out(1));
    snapt.acknowledge();
    EXPECT_FALSE(snapt.is_repeated());
}

}  // namespace
}  // namespace continuo::routing
