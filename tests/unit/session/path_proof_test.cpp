#include "tests/support/acknowledged.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::Endpoint;
using base::milliseconds;
using base::seconds;
using base::TimePoint;
using base::TrafficClass;

const Endpoint kSnapt = *Endpoint::parse("203.0.113.9:9347");
const wire::Space kSpace{TrafficClass::LtLd, 0, 0};

// A node with one path that has answered.
struct Node {
    base::SeededRandom random{1};
    PathSet paths{Role::Node, random};
    TimePoint now{seconds(10)};

    Node() {
        paths.add(0, kSnapt, 1500, now);
        paths.activate(0, now);
        answer();
    }
    // Answers what is asked; false when nothing is.
    bool answer() {
        bool was_asked = false;
        std::optional<wire::ChallengeToken> token;
        while (const auto probe = paths.next_probe(now)) {
            was_asked = true;
            token = probe->challenge ? std::optional(probe->challenge->token) : token;
        }
        if (token) {
            now += milliseconds(20);
            receive();
            paths.on_response(kSpace, {*token}, now);
        }
        return was_asked;
    }
    void receive() { paths.on_authenticated(kSpace, kSnapt, {}, 1000, true, now); }
    void send() { paths.on_sent(*paths.destination(TrafficClass::LtLd, now), 1000, true, now); }
    // Packets leave and come, every 10 ms; nothing tells that they arrive.
    void stream(base::Duration span) {
        for (const TimePoint end = now + span; now < end; now += milliseconds(10)) {
            send();
            receive();
            while (paths.on_time(now)) {
                ++doubts;
            }
            while (paths.next_probe(now)) {
                ++probes;
            }
        }
    }
    PathState state() const { return paths.path(0).state; }

    size_t doubts = 0;
    size_t probes = 0;
};

TEST(PathProof, WhereNothingTellsThatWhatIsSentArrivesThePathIsAskedThenDoubted) {
    Node node;
    node.stream(milliseconds(490));
    EXPECT_EQ(node.probes, 0U);
    node.stream(milliseconds(30));
    EXPECT_EQ(node.probes, 1U);
    EXPECT_EQ(node.state(), PathState::Usable);
    node.stream(milliseconds(350));
    EXPECT_EQ(node.state(), PathState::Doubtful);
    EXPECT_EQ(node.doubts, 1U);
    node.stream(seconds(8));
    EXPECT_EQ(node.state(), PathState::Doubtful) << "what comes in proves nothing";
    node.stream(seconds(2));
    EXPECT_EQ(node.state(), PathState::Dead);
}

TEST(PathProof, FeedbackIsProofAndEndsADoubt) {
    Node node;
    for (int i = 0; i < 100; ++i) {
        node.stream(milliseconds(200));
        EXPECT_FALSE(node.paths.on_feedback(0, 0, 3, node.now));
    }
    EXPECT_EQ(node.probes, 0U);
    node.stream(seconds(1));
    ASSERT_EQ(node.state(), PathState::Doubtful);
    EXPECT_FALSE(node.paths.on_feedback(0, 1, 0, node.now));
    EXPECT_EQ(node.state(), PathState::Doubtful) << "it came by another way";
    EXPECT_TRUE(node.paths.on_feedback(0, 0, 0, node.now));
    EXPECT_EQ(node.state(), PathState::Usable);
}

TEST(PathProof, APeerThatAnswersButDoesNotReportIsAskedEverLess) {
    Node node;
    size_t questions = 0;
    for (const TimePoint end = node.now + seconds(60); node.now < end;) {
        node.send();
        node.receive();
        node.paths.on_time(node.now);
        questions += node.answer() ? 1U : 0U;
        node.now += milliseconds(10);
        ASSERT_EQ(node.state(), PathState::Usable);
    }
    EXPECT_GE(questions, 15U);
    EXPECT_LE(questions, 20U);
}

TEST(PathProof, AFewPacketsAreNoReasonToAsk) {
    Node node;
    for (int i = 0; i < 3; ++i) {
        node.send();
    }
    for (int i = 0; i < 1000; ++i) {
        node.now += milliseconds(10);
        node.receive();
        node.paths.on_time(node.now);
    }
    EXPECT_FALSE(node.paths.next_probe(node.now));
}

TEST(PathProof, ARequestForASignOfLifeWhileDatagramsComeIsAReasonToAsk) {
    Node node;
    node.now += seconds(5);
    node.receive();
    EXPECT_FALSE(node.paths.on_request(node.now, node.now));
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->challenge);
    EXPECT_FALSE(probe->announce);
    for (int i = 0; i < 60; ++i) {
        node.now += milliseconds(10);
        node.receive();
        node.paths.on_time(node.now);
    }
    EXPECT_EQ(node.state(), PathState::Doubtful);
}

TEST(PathProof, AnAnnouncementThatIsNotAnsweredWhileDatagramsComeMakesADoubt) {
    Node node;
    node.paths.announce_again(node.now);
    for (int i = 0; i < 100; ++i) {
        node.now += milliseconds(10);
        node.receive();
        node.paths.on_time(node.now);
    }
    EXPECT_EQ(node.state(), PathState::Doubtful);
}

TEST(PathProof, SilenceAloneEndsWithAnyDatagram) {
    Node node;
    for (int i = 0; i < 200 && node.state() != PathState::Doubtful; ++i) {
        node.send();
        node.now += milliseconds(10);
        node.paths.on_time(node.now);
    }
    ASSERT_EQ(node.state(), PathState::Doubtful);
    node.receive();
    EXPECT_EQ(node.state(), PathState::Usable);
}

TEST(PathProof, APathThatIsUsedBesideTheActiveOneIsJudgedAsWell) {
    Node node;
    node.paths.add(1, kSnapt, 1500, node.now);
    node.paths.probe(1, node.now);
    const wire::Space other{TrafficClass::LtLd, 1, 0};
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->path == 1 && probe->challenge);
    EXPECT_FALSE(probe->copies) << "nothing is in doubt";
    node.now += milliseconds(20);
    ASSERT_TRUE(node.paths.on_response(other, {probe->challenge->token}, node.now));
    for (int i = 0; i < 100 && node.paths.path(1).state == PathState::Usable; ++i) {
        node.paths.on_sent(*node.paths.destination_on(1, TrafficClass::HtHd, node.now), 1000, true,
                           node.now);
        node.paths.on_authenticated(other, kSnapt, {}, 1000, true, node.now);
        node.paths.on_time(node.now);
        node.now += milliseconds(10);
    }
    EXPECT_EQ(node.paths.path(1).state, PathState::Doubtful);
    EXPECT_EQ(node.state(), PathState::Usable);
    EXPECT_EQ(node.paths.spread(seconds(1), node.now), mask_of(0));
}

// SNAPT with two paths that have answered, the first of them the return path.
struct Snapt {
    base::SeededRandom random{1};
    PathSet paths{Role::Snapt, random};
    TimePoint now{seconds(10)};
    std::optional<wire::Challenge> asked{};  // on the second

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
    // Packets come by both and leave by both; nothing tells of those on the second.
    void spread(base::Duration span) {
        for (const TimePoint end = now + span; now < end; now += milliseconds(10)) {
            for (const uint8_t path : {uint8_t{0}, uint8_t{1}}) {
                receive(path);
                if ((paths.spread(seconds(1), now) & mask_of(path)) != 0) {
                    paths.on_sent(*paths.destination_on(path, TrafficClass::HtHd, now), 1000, true,
                                  now);
                }
            }
            paths.on_feedback(0, 0, 0, now);
            EXPECT_FALSE(paths.on_time(now)) << "nothing for control to ask";
            while (const auto probe = paths.next_probe(now)) {
                EXPECT_EQ(probe->path, 1);
                asked = probe->challenge;
            }
        }
    }
};

TEST(PathProof, SnaptLeavesOutAPathOnWhichNothingArrivesUntilItAnswers) {
    Snapt snapt;
    snapt.spread(milliseconds(400));
    EXPECT_EQ(snapt.paths.spread(seconds(1), snapt.now), mask_of(0) | mask_of(1));
    snapt.spread(milliseconds(600));
    EXPECT_EQ(snapt.paths.spread(seconds(1), snapt.now), mask_of(0));
    for (int i = 0; i < 20; ++i) {
        snapt.spread(seconds(5));
        EXPECT_EQ(snapt.paths.spread(seconds(1), snapt.now), mask_of(0)) << i;
    }
    ASSERT_TRUE(snapt.asked);
    snapt.paths.on_response({TrafficClass::LtLd, 1, 0}, {snapt.asked->token}, snapt.now);
    EXPECT_EQ(snapt.paths.spread(seconds(1), snapt.now), mask_of(0) | mask_of(1));
}

TEST(PathProof, SnaptAsksNobodyForeverOnAPathThatTheNodeHasLeft) {
    Snapt snapt;
    snapt.spread(seconds(2));
    const TimePoint left_at = snapt.now;
    TimePoint asked_at{};
    while (snapt.now - left_at < seconds(120)) {
        snapt.now += milliseconds(10);
        snapt.paths.on_time(snapt.now);
        while (snapt.paths.next_probe(snapt.now)) {
            asked_at = snapt.now;
        }
    }
    EXPECT_GT(asked_at, left_at);
    EXPECT_LT(asked_at, left_at + seconds(61));
}

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
            snapt_.paths.on_sent_again(repeated_, path, snapt_.now);
        }
    }
    bool has_timed_out(uint8_t path) const { return paths().path(path).liveness.timeouts() > 0; }
    bool is_repeated() const { return paths().is_repeated(1, repeated_.space.space, 3); }
    void wait(base::Duration span) {
        for (const TimePoint end = snapt_.now + span; snapt_.now < end;) {
            snapt_.now += milliseconds(10);
            snapt_.paths.on_time(snapt_.now);
        }
    }
    bool waits_for_class_on(uint8_t path) const {
        return paths().class_ways(path)->has_unconfirmed(snapt_.now + seconds(1));
    }
    void acknowledge() { told_.acknowledge(0, kCount - 1, snapt_.now); }
    const PathSet& paths() const { return snapt_.paths; }

  private:
    static constexpr uint8_t kCount = 4;
    Snapt snapt_;
    const tests::Acknowledged told_{snapt_.paths, 1, {TrafficClass::HtHd, 0, 0}};
    path::SentRun repeated_;
};

TEST(PathProof, ARepeatIsOwedByThePathThatItTookLast) {
    SnaptRepeats snapt;
    ASSERT_TRUE(snapt.waits_for_class_on(0));
    snapt.repeat_on(1);
    EXPECT_TRUE(snapt.is_repeated());
    EXPECT_FALSE(snapt.waits_for_class_on(0)) << "its ACK confirms no class there";
    snapt.wait(seconds(3));
    EXPECT_FALSE(snapt.has_timed_out(0));
    EXPECT_TRUE(snapt.has_timed_out(1));
    snapt.acknowledge();
    EXPECT_FALSE(snapt.has_timed_out(1));
    EXPECT_FALSE(snapt.is_repeated());
}

TEST(PathProof, AnAcknowledgedRepeatEndsNoTimeoutOfTheFormerPath) {
    SnaptRepeats snapt;
    snapt.wait(seconds(3));
    ASSERT_TRUE(snapt.has_timed_out(0));
    snapt.repeat_on(1);
    snapt.acknowledge();
    EXPECT_TRUE(snapt.has_timed_out(0));
    EXPECT_EQ(snapt.paths().path(0).delivery_bytes_per_s, 0U);
}

// They are waited for there since they left first.
TEST(PathProof, ARepeatOnTheSamePathChangesNothing) {
    SnaptRepeats snapt;
    snapt.wait(seconds(3));
    ASSERT_TRUE(snapt.has_timed_out(0));
    snapt.repeat_on(0);
    EXPECT_FALSE(snapt.is_repeated());
    snapt.acknowledge();
    EXPECT_FALSE(snapt.has_timed_out(0));
}

// The node goes back before anything was acknowledged.
TEST(PathProof, ARepeatThatGoesBackIsOwedByTheFirstPathAgain) {
    SnaptRepeats snapt;
    snapt.repeat_on(1);
    snapt.repeat_on(0);
    EXPECT_TRUE(snapt.is_repeated());
    snapt.wait(seconds(3));
    EXPECT_TRUE(snapt.has_timed_out(0));
    EXPECT_FALSE(snapt.has_timed_out(1));
    snapt.acknowledge();
    EXPECT_FALSE(snapt.has_timed_out(0));
}

// Nothing comes up on the return path any more, the node sends by the other one. That is no
// silence while it tells that what goes down arrives, and else one until something comes.
TEST(PathProof, SnaptLeavesOutTheReturnPathWhenNothingTellsThatItDelivers) {
    for (const bool delivers : {true, false}) {
        Snapt snapt;
        snapt.receive(0);
        for (int ms = 0; ms < 20'000; ms += 10) {
            snapt.now += milliseconds(10);
            snapt.receive(1);
            const auto mask = snapt.paths.spread(seconds(1), snapt.now);
            if (delivers) {
                ASSERT_EQ(mask, mask_of(0) | mask_of(1)) << ms;
                snapt.paths.on_feedback(0, 1, 0, snapt.now);
            } else if (ms >= 900) {
                ASSERT_EQ(mask, mask_of(1)) << ms;
            }
            snapt.paths.on_feedback(1, 1, 0, snapt.now);
            for (const uint8_t path : {uint8_t{0}, uint8_t{1}}) {
                snapt.paths.on_sent(
                    *snapt.paths.destination_on(path, TrafficClass::HtHd, snapt.now), 1000, true,
                    snapt.now);
            }
            snapt.paths.on_time(snapt.now);
            while (snapt.paths.next_probe(snapt.now)) {
            }
        }
        snapt.receive(0);
        EXPECT_EQ(snapt.paths.spread(seconds(1), snapt.now), mask_of(0) | mask_of(1));
    }
}

TEST(PathProof, AnAnnouncementEndsWhatThePathsOwed) {
    Snapt snapt;
    snapt.spread(seconds(2));
    ASSERT_TRUE(snapt.paths.path(1).needs_proof);
    wire::Announce announce;
    announce.path = 1;
    announce.active = true;
    announce.number = 1;
    ASSERT_TRUE(snapt.paths.on_announce(1, announce, snapt.now));
    EXPECT_FALSE(snapt.paths.path(1).needs_proof);
    EXPECT_FALSE(snapt.paths.is_overdue(1, snapt.now));
}

TEST(PathProof, TcpCarriesBothWaysOrNone) {
    base::SeededRandom random(1);
    PathSet paths(Role::Node, random);
    TimePoint now{seconds(10)};
    paths.add(wire::kTcpPath, kSnapt, 1500, now);
    paths.activate(wire::kTcpPath, now);
    const wire::Space space{TrafficClass::LtLd, wire::kTcpPath, 0};
    for (int i = 0; i < 500; ++i) {
        paths.on_sent(*paths.destination(TrafficClass::LtLd, now), 100, true, now);
        paths.on_authenticated(space, kSnapt, {}, 100, true, now);
        EXPECT_FALSE(paths.on_time(now));
        now += milliseconds(10);
    }
}

}  // namespace
}  // namespace continuo::session
