#include "tests/support/acknowledged.hpp"
#include "tests/unit/routing/path_set_fixture.hpp"

namespace continuo::routing::path_tests {
namespace {

// A datagram with packets leaves, and nothing comes.
void send_numbered(Node& node, uint32_t number) {
    const tests::Acknowledged sent{node.paths, 1, space(0, TrafficClass::HtHd)};
    sent.send(number, 1, 200, node.now);
    node.paths.on_sent(*node.paths.selector().destination(TrafficClass::HtHd, node.now), 200, true,
                       node.now);
}

// Sends what is due for that long. PINGs are acknowledged 20 ms later if `answers`; returns how
// many left.
size_t pings_in(Node& node, base::Duration span, bool answers, bool hears = false) {
    size_t pings = 0;
    for (const TimePoint end = node.now + span; node.now < end; node.now += milliseconds(10)) {
        node.paths.on_time(node.now);
        while (const auto probe = node.paths.next_probe(node.now)) {
            if (!probe->has_ping) {
                continue;
            }
            EXPECT_FALSE(probe->is_padded) << "a hole for long datagrams would swallow it";
            recovery::SentRun run;
            run.space = {1, wire::space_number(space(0))};
            run.first = static_cast<uint32_t>(1000 + pings++);
            run.count = 1;
            run.bytes = run.last_bytes = 60;
            run.asks = true;
            node.paths.on_numbered(run, node.now);
            if (answers) {
                node.now += milliseconds(20);
                node.paths.on_authenticated(space(0), kSnapt, kLocal, 60, true, node.now);
                tests::Acknowledged{node.paths, 1, space(0)}.acknowledge(run.first, run.first,
                                                                         node.now);
            }
        }
        if (hears) {
            node.paths.on_authenticated(space(0), kSnapt, kLocal, 1000, true, node.now);
        }
    }
    return pings;
}

TEST(PathSet, AProbeWithoutAnAnswerKillsThePathAsTrafficDoes) {
    Node node;
    node.paths.node().add(0, kSnapt, 1500, node.now);
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.node().activate(0, node.now);
    node.paths.path(1).node().probe(node.now);
    node.stay_silent(base::seconds(11));
    EXPECT_EQ(node.paths.path(1).state(), PathState::Dead);
}

TEST(PathSet, APathThatWasAskedInVainIsNotGivenMoreTimeByBeingChosen) {
    Node node;
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().probe(node.now);
    node.stay_silent(base::seconds(2));
    node.paths.node().activate(1, node.now);
    node.stay_silent(milliseconds(1300));
    EXPECT_EQ(node.paths.path(1).state(), PathState::Dead);
}

TEST(PathSet, APathThatHasNotAnsweredYetIsDoubtedSoon) {
    Node node;
    node.paths.node().add(0, kSnapt, 1500, node.now);
    node.paths.node().activate(0, node.now);
    node.stay_silent(milliseconds(2200));
    EXPECT_EQ(node.paths.path(0).state(), PathState::Doubtful);
}

TEST(PathSet, OnlyAnAnswerMakesAPathUsableThatNeverAnswered) {
    Node node;
    node.paths.node().add(0, kSnapt, 1500, node.now);
    node.paths.node().activate(0, node.now);
    node.stay_silent(milliseconds(2200));
    ASSERT_EQ(node.paths.path(0).state(), PathState::Doubtful);
    node.paths.on_authenticated(space(0), kSnapt, kLocal, 100, true, node.now);
    EXPECT_EQ(node.paths.path(0).state(), PathState::Doubtful) << "the way up may be dead";
}

TEST(PathSet, ADeadPathIsAskedEverLessAndInShort) {
    Node node;
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().probe(node.now);
    node.stay_silent(base::seconds(60));
    ASSERT_EQ(node.paths.path(1).state(), PathState::Dead);
    const TimePoint from = node.now;
    size_t asked = 0;
    for (; node.now - from < base::seconds(3600); node.now += base::seconds(1)) {
        while (const auto probe = node.paths.next_probe(node.now)) {
            EXPECT_FALSE(probe->is_padded);
            asked += probe->path == 1 ? size_t{1} : 0;
        }
    }
    EXPECT_GE(asked, 11U);
    EXPECT_LE(asked, 17U);
}

TEST(PathSet, ADeadPathIsAskedAtOnceWhenSomethingHasChanged) {
    Node node;
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().probe(node.now);
    node.stay_silent(base::seconds(120));
    ASSERT_EQ(node.paths.path(1).state(), PathState::Dead);
    ASSERT_FALSE(node.paths.next_probe(node.now));
    node.paths.path(1).node().ask_again(node.now);
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->challenge);
    EXPECT_TRUE(
        node.paths.on_response(space(1), {probe->challenge->token}, node.now + milliseconds(10)));
    EXPECT_EQ(node.paths.path(1).state(), PathState::Usable);
}

TEST(PathSet, ADatagramOnADeadPathIsAReasonToAskIt) {
    Node node;
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().probe(node.now);
    node.stay_silent(base::seconds(120));
    ASSERT_FALSE(node.paths.next_probe(node.now));
    node.paths.on_authenticated(space(1), kSnapt, kLocal, 100, true, node.now);
    EXPECT_TRUE(node.paths.next_probe(node.now));
    EXPECT_EQ(node.paths.path(1).state(), PathState::Dead);
}

// A node that only receives sends acknowledgements, which nobody answers.
TEST(PathSet, AStreamThatEndsIsAskedAboutOnce) {
    Node node;
    prove(node);
    node.paths.path(0).node().expect_more(node.now);
    for (int i = 0; i < 20; ++i) {
        node.now += milliseconds(10);
        node.paths.on_authenticated(space(0), kSnapt, kLocal, 1400, true, node.now);
    }
    EXPECT_EQ(node.paths.path(0).liveness().silent_since(), node.now);
    EXPECT_EQ(pings_in(node, base::seconds(20), true), 1U);
    EXPECT_EQ(node.paths.path(0).state(), PathState::Usable) << "an idle path is not asked";
}

TEST(PathSet, APauseOfTheNodeIsNoSilenceOfThePeer) {
    Node node;
    prove(node);
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.on_sent(*node.paths.selector().destination(TrafficClass::HtHd, node.now), 1000, true,
                       node.now);
    const auto number = node.paths.announcement_number();
    node.now += base::seconds(40);
    node.paths.node().on_pause(node.now);
    EXPECT_FALSE(node.paths.on_time(node.now));
    size_t announcements = 0;
    bool is_other_asked = false;
    std::optional<wire::Challenge> challenge;
    while (const auto probe = node.paths.next_probe(node.now)) {
        announcements += probe->announce && probe->announce->active ? size_t{1} : 0;
        is_other_asked = is_other_asked || (probe->path == 1 && probe->challenge);
        challenge = probe->path == 0 ? probe->challenge : challenge;
    }
    EXPECT_EQ(announcements, wire::kAnnounceCopies);
    EXPECT_TRUE(is_other_asked);
    EXPECT_EQ(node.paths.announcement_number(), number) << "it is no move";
    ASSERT_TRUE(challenge);
    EXPECT_TRUE(node.paths.on_response(space(0), {challenge->token}, node.now));
    EXPECT_EQ(node.paths.path(0).state(), PathState::Usable);
}

// Its first answer came before the doubt, and it was asked once more for a better round trip.
TEST(PathSet, AnAnswerOfAnotherPathIsNewsWhileTheActiveOneFails) {
    Node node;
    prove(node);
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().probe(node.now);
    const auto answer = [&] {
        while (const auto probe = node.paths.next_probe(node.now)) {
            if (probe->path == 1 && probe->challenge) {
                return node.paths.on_response(space(1), {probe->challenge->token}, node.now);
            }
        }
        return false;
    };
    node.paths.on_sent(*node.paths.selector().destination(TrafficClass::HtHd, node.now), 1000, true,
                       node.now);
    EXPECT_TRUE(answer()) << "the first";
    for (int i = 0; i < 300 && node.paths.path(0).state() != PathState::Doubtful; ++i) {
        node.now += milliseconds(10);
        node.paths.on_time(node.now);
    }
    ASSERT_EQ(node.paths.path(0).state(), PathState::Doubtful);
    ASSERT_EQ(node.paths.path(1).state(), PathState::Usable);
    EXPECT_TRUE(answer());
}

TEST(PathSet, ANodeThatHearsNothingAfterPacketsSendsAPing) {
    Node node;
    prove(node);
    send_numbered(node, 0);
    node.now += milliseconds(499);
    EXPECT_FALSE(node.paths.on_time(node.now));
    EXPECT_FALSE(node.paths.next_probe(node.now));
    const TimePoint due = node.paths.next_deadline();
    EXPECT_GE(due, node.now);
    EXPECT_LE(due, node.now + milliseconds(501))
        << "the probe time-out without a sample is a second";
    node.now = due;
    node.paths.on_time(node.now);
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe);
    EXPECT_TRUE(probe->has_ping);
    EXPECT_EQ(probe->path, 0);
    EXPECT_GT(node.paths.next_deadline(), node.now) << "also if it could not leave";
}

TEST(PathSet, ASnaptSendsNoPingOfItsOwn) {
    Snapt snapt;
    snapt.prove(0, kHome);
    const tests::Acknowledged sent{snapt.paths, 1, space(0, TrafficClass::HtHd)};
    sent.send(0, 1, 200, snapt.now);
    for (const TimePoint end = snapt.now + base::seconds(5); snapt.now < end;
         snapt.now += milliseconds(10)) {
        snapt.paths.on_time(snapt.now);
        EXPECT_FALSE(snapt.paths.next_probe(snapt.now)) << "it asks over control";
    }
}

// Packets leave and come, and nothing tells that they arrive.
TEST(PathSet, WhatComesIsNoAnswerToWhatIsSent) {
    Node node;
    prove(node);
    for (uint32_t i = 0; i < 4; ++i) {
        send_numbered(node, i);
    }
    const TimePoint began = node.now;
    size_t pings = 0;
    while (node.paths.path(0).state() == PathState::Usable && node.now - began < base::seconds(5)) {
        pings += pings_in(node, milliseconds(10), false, true);
    }
    EXPECT_EQ(node.paths.path(0).state(), PathState::Doubtful);
    EXPECT_GE(pings, 1 + recovery::Liveness::kProbes);
    pings_in(node, base::seconds(3), false, true);
    EXPECT_EQ(node.paths.path(0).state(), PathState::Dead);
}

TEST(PathSet, ThreePacketsWithoutAnAnswerBesideOthersThatComeAreNoReasonToAsk) {
    Node node;
    prove(node);
    for (uint32_t i = 0; i < recovery::Liveness::kUnconfirmedDatagrams - 1; ++i) {
        send_numbered(node, i);
    }
    EXPECT_EQ(pings_in(node, base::seconds(10), false, true), 0U);
}

// Nothing but a PING, which is due at once.
TEST(PathSet, AHintIsAReasonForAPing) {
    Node node;
    prove(node);
    node.now += base::seconds(5);
    node.paths.node().ask(0, node.now);
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe);
    EXPECT_TRUE(probe->has_ping && probe->challenge);
    EXPECT_FALSE(probe->announce || probe->is_padded);
    EXPECT_FALSE(node.paths.next_probe(node.now));
    EXPECT_FALSE(node.paths.selector().is_in_doubt(node.now));
    EXPECT_EQ(node.paths.path(0).state(), PathState::Usable);
}

// A probe alone is no doubt: nothing is copied for it.
TEST(PathSet, AfterOneTimeoutThePathIsAskedAndNotDoubted) {
    Node node;
    prove(node);
    send_numbered(node, 0);
    while (node.paths.path(0).liveness().timeouts() == 0) {
        pings_in(node, milliseconds(10), false);
        ASSERT_LT(node.now, TimePoint{base::seconds(20)});
    }
    EXPECT_EQ(node.paths.path(0).state(), PathState::Usable);
    EXPECT_FALSE(node.paths.selector().is_in_doubt(node.now));
    EXPECT_TRUE(node.paths.path(0).validation().lt_ld().challenge().is_open())
        << "asked by CHALLENGEs, without DSCP in turn";
    pings_in(node, base::seconds(3), false);
    EXPECT_TRUE(node.paths.selector().is_in_doubt(node.now));
}

// A datagram that comes while the way up is dead is no reason to ask each time.
TEST(PathSet, AFailingPathIsAskedTwoTimesASecondAtMost) {
    Node node;
    prove(node);
    send_in_vain(node, base::seconds(20));
    ASSERT_EQ(node.paths.path(0).state(), PathState::Dead);
    size_t asked = 0;
    for (const TimePoint end = node.now + base::seconds(10); node.now < end;
         node.now += milliseconds(1)) {
        node.paths.path(0).node().expect_more(node.now);
        node.paths.on_authenticated(space(0), kSnapt, kLocal, 1000, true, node.now);
        node.paths.on_time(node.now);
        while (node.paths.next_probe(node.now)) {
            ++asked;
        }
    }
    EXPECT_GE(asked, 9U);
    EXPECT_LE(asked, 21U);
}

constexpr base::Duration kLongest = base::seconds(25);

// SNAPT asks after an idle time; what was lost follows after `delay`.
void be_asked(Node& node, base::Duration idle, base::Duration delay) {
    const TimePoint idle_since = node.now;
    node.now += idle;
    EXPECT_TRUE(node.paths.node().on_request(idle_since, node.now));
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->announce && probe->challenge);
    node.paths.on_response(space(0), {probe->challenge->token}, node.now + milliseconds(50));
    node.now += delay;
    node.paths.path(0).node().keepalive().on_packets({}, kLongest, node.now);
}

TEST(PathSet, TheSecondLossAfterAnIdleTimeShortensTheKeepalive) {
    Node node;
    prove(node);
    be_asked(node, base::seconds(20), milliseconds(50));
    EXPECT_EQ(node.paths.path(0).node().keepalive().interval(kLongest), kLongest)
        << "one loss may be chance";
    be_asked(node, base::seconds(10), milliseconds(50));
    EXPECT_EQ(node.paths.path(0).node().keepalive().interval(kLongest), base::seconds(5));
    node.now += base::seconds(601);
    node.paths.path(0).node().keepalive().try_longer(kLongest, node.now);
    EXPECT_EQ(node.paths.path(0).node().keepalive().interval(kLongest), base::seconds(10));
}

// A keepalive leaves after an idle time; SNAPT's CHALLENGE comes `delay` later.
void be_remapped(Node& node, base::Duration idle, base::Duration delay) {
    const TimePoint idle_since = node.now;
    node.now += idle;
    node.paths.path(0).node().on_keepalive(idle_since, node.now);
    node.now += delay;
    node.paths.path(0).node().keepalive().on_remapped(kLongest, node.now);
}

TEST(PathSet, AKeepaliveThatFindsTheMappingGoneShortensTheInterval) {
    Node node;
    prove(node);
    be_remapped(node, base::seconds(20), milliseconds(50));
    be_remapped(node, base::seconds(25), milliseconds(50));
    EXPECT_EQ(node.paths.path(0).node().keepalive().interval(kLongest), base::seconds(10));
}

TEST(PathSet, ARequestAfterWhichNothingIsRepeatedTeachesNothing) {
    Node node;
    prove(node);
    for (int i = 0; i < 3; ++i) {
        be_asked(node, base::seconds(10), base::seconds(3));
    }
    EXPECT_EQ(node.paths.path(0).node().keepalive().interval(kLongest), kLongest);
}

TEST(PathSet, ARequestOnAPathThatDeliversTeachesNothing) {
    Node node;
    prove(node);
    const TimePoint idle_since = node.now;
    node.now += base::seconds(10);
    node.paths.on_authenticated(space(0), kSnapt, kLocal, 1400, true, node.now);
    EXPECT_FALSE(node.paths.node().on_request(idle_since, node.now));
    EXPECT_EQ(node.paths.path(0).node().keepalive().interval(kLongest), kLongest);
}

TEST(PathSet, SnaptMissesASignOfLifeEverLessOften) {
    Snapt snapt;
    snapt.prove(0, kHome);
    const auto destination = snapt.paths.selector().destination(TrafficClass::LtLd, snapt.now);
    size_t requests = 0;
    for (const TimePoint end = snapt.now + base::seconds(60); snapt.now < end;
         snapt.now += milliseconds(100)) {
        snapt.paths.on_sent(*destination, 1400, true, snapt.now);
        requests += snapt.paths.on_time(snapt.now) ? 1U : 0U;
    }
    EXPECT_GE(requests, 4U);
    EXPECT_LE(requests, 8U);
    EXPECT_EQ(snapt.paths.path(0).state(), PathState::Usable)
        << "a node that is silent is no fault";
}

TEST(PathSet, AnAnswerOfSeveralDatagramsDoesNotMakeSnaptLessPatient) {
    Snapt snapt;
    snapt.prove(0, kHome);
    const auto destination = snapt.paths.selector().destination(TrafficClass::LtLd, snapt.now);
    size_t requests = 0;
    for (const TimePoint end = snapt.now + base::seconds(60); snapt.now < end;
         snapt.now += milliseconds(100)) {
        snapt.paths.on_sent(*destination, 1400, true, snapt.now);
        if (snapt.paths.on_time(snapt.now)) {
            ++requests;
            for (int i = 0; i < 3; ++i) {
                snapt.paths.on_authenticated(space(0), kHome, kLocal, 100, true, snapt.now);
            }
        }
    }
    EXPECT_GE(requests, 4U);
    EXPECT_LE(requests, 8U);
}

TEST(PathSet, AnAnnouncementOfAPathBesideDoesNotHideTheMove) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.prove(1, kAway);
    snapt.paths.on_authenticated(space(1, TrafficClass::HtHd), kAway, kLocal, 100, true, snapt.now);
    wire::Announce beside = announce(0, 7);
    beside.active = false;
    EXPECT_FALSE(snapt.paths.snapt().on_announce(0, beside, snapt.now));
    EXPECT_TRUE(snapt.paths.snapt().on_announce(1, announce(1, 7), snapt.now));
    EXPECT_FALSE(snapt.paths.path(1).validation().tuple(TrafficClass::HtHd).is_known())
        << "other sockets may be behind the index";
}

TEST(PathSet, WhatWasLostBeforeARequestIsOverdueWhenTheAnswerComes) {
    Snapt snapt;
    snapt.prove(0, kHome);
    const auto destination = snapt.paths.selector().destination(TrafficClass::LtLd, snapt.now);
    snapt.paths.on_sent(*destination, 1400, true, snapt.now);
    EXPECT_FALSE(snapt.paths.snapt().is_overdue(0, snapt.now));
    snapt.now += base::seconds(1);
    ASSERT_TRUE(snapt.paths.on_time(snapt.now));
    EXPECT_TRUE(snapt.paths.snapt().is_overdue(0, snapt.now + milliseconds(10)));
}

// The round trip has grown from 30 ms to more than a second.
TEST(PathSet, AnAnswerFromBeforeTheDeathOfAPathCounts) {
    Node node;
    prove(node);
    node.paths.on_sent(*node.paths.selector().destination(TrafficClass::HtHd, node.now), 1000, true,
                       node.now);
    std::optional<Probe> asked;
    while (node.paths.path(0).state() != PathState::Dead) {
        ASSERT_LT(node.now, TimePoint{base::seconds(30)});
        node.paths.on_time(node.now += milliseconds(10));
        while (const auto probe = node.paths.next_probe(node.now)) {
            asked = probe->challenge && !asked ? probe : asked;
        }
    }
    ASSERT_TRUE(asked);
    EXPECT_TRUE(node.paths.on_response(space(0), {asked->challenge->token}, node.now));
    EXPECT_EQ(node.paths.path(0).state(), PathState::Usable);
}

// Nothing is sent by a dead path, so its log is forgotten: the next datagram then ends its death.
TEST(PathSet, ASnaptJudgesADeadPathAnewWhenItIsHeard) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.prove(1, kAway);
    const tests::Acknowledged sent{snapt.paths, 1, space(1, TrafficClass::HtHd)};
    sent.send(0, 10, 1000, snapt.now);
    const auto health = [&] { return snapt.paths.path(1).liveness().health(); };
    while (health() != recovery::Health::Dead) {
        ASSERT_LT(snapt.now, TimePoint{base::seconds(30)});
        snapt.paths.on_time(snapt.now += milliseconds(10));
        while (snapt.paths.next_probe(snapt.now)) {
        }
    }
    snapt.paths.logs().tidy(snapt.now += base::seconds(120));
    ASSERT_EQ(health(), recovery::Health::Dead);
    snapt.paths.on_authenticated(space(1), kAway, kLocal, 100, true, snapt.now);
    EXPECT_EQ(health(), recovery::Health::Usable);
}

TEST(PathSet, AnOpenQuestionIsNotPutAnew) {
    Node node;
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().probe(node.now);
    const auto first = node.paths.next_probe(node.now);
    node.paths.path(1).node().probe(node.now + milliseconds(5));
    EXPECT_FALSE(node.paths.next_probe(node.now + milliseconds(5)));
    ASSERT_TRUE(first && first->challenge);
    EXPECT_TRUE(
        node.paths.on_response(space(1), {first->challenge->token}, node.now + milliseconds(10)));
}

}  // namespace
}  // namespace continuo::routing::path_tests
