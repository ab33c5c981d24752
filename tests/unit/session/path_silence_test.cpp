#include "tests/support/acknowledged.hpp"
#include "tests/unit/session/path_set_fixture.hpp"

namespace continuo::session::path_tests {
namespace {

TEST(PathSet, AProbeWithoutAnAnswerKillsThePathAsTrafficDoes) {
    Node node;
    node.paths.add(0, kSnapt, 1500, node.now);
    node.paths.add(1, kSnapt, 1500, node.now);
    node.paths.activate(0, node.now);
    node.paths.probe(1, node.now);
    node.stay_silent(base::seconds(11));
    EXPECT_EQ(node.paths.path(1).state, PathState::Dead);
}

TEST(PathSet, APathThatWasAskedInVainIsNotGivenMoreTimeByBeingChosen) {
    Node node;
    node.paths.add(1, kSnapt, 1500, node.now);
    node.paths.probe(1, node.now);
    node.stay_silent(base::seconds(8));
    node.paths.activate(1, node.now);
    node.stay_silent(base::seconds(3));
    EXPECT_EQ(node.paths.path(1).state, PathState::Dead);
}

TEST(PathSet, APathThatHasNotAnsweredYetIsDoubtedSoon) {
    Node node;
    node.paths.add(0, kSnapt, 1500, node.now);
    node.paths.activate(0, node.now);
    node.stay_silent(milliseconds(2200));
    EXPECT_EQ(node.paths.path(0).state, PathState::Doubtful);
}

TEST(PathSet, OnlyAnAnswerMakesAPathUsableThatNeverAnswered) {
    Node node;
    node.paths.add(0, kSnapt, 1500, node.now);
    node.paths.activate(0, node.now);
    node.stay_silent(milliseconds(2200));
    ASSERT_EQ(node.paths.path(0).state, PathState::Doubtful);
    EXPECT_FALSE(node.paths.on_authenticated(space(0), kSnapt, kLocal, 100, true, node.now));
    EXPECT_EQ(node.paths.path(0).state, PathState::Challenged);
}

TEST(PathSet, ADeadPathIsAskedEverLessAndInShort) {
    Node node;
    node.paths.add(1, kSnapt, 1500, node.now);
    node.paths.probe(1, node.now);
    node.stay_silent(base::seconds(60));
    ASSERT_EQ(node.paths.path(1).state, PathState::Dead);
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
    node.paths.add(1, kSnapt, 1500, node.now);
    node.paths.probe(1, node.now);
    node.stay_silent(base::seconds(120));
    ASSERT_EQ(node.paths.path(1).state, PathState::Dead);
    ASSERT_FALSE(node.paths.next_probe(node.now));
    node.paths.ask_again(1, node.now);
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->challenge);
    EXPECT_TRUE(
        node.paths.on_response(space(1), {probe->challenge->token}, node.now + milliseconds(10)));
    EXPECT_EQ(node.paths.path(1).state, PathState::Usable);
}

TEST(PathSet, ADatagramOnADeadPathIsAReasonToAskIt) {
    Node node;
    node.paths.add(1, kSnapt, 1500, node.now);
    node.paths.probe(1, node.now);
    node.stay_silent(base::seconds(120));
    ASSERT_FALSE(node.paths.next_probe(node.now));
    node.paths.on_authenticated(space(1), kSnapt, kLocal, 100, true, node.now);
    EXPECT_TRUE(node.paths.next_probe(node.now));
    EXPECT_EQ(node.paths.path(1).state, PathState::Dead);
}

// A node that only receives sends nothing that is answered.
TEST(PathSet, AStreamThatEndsIsAskedAboutOnce) {
    Node node;
    prove(node);
    node.paths.on_lone_ack(0);
    node.now += milliseconds(100);
    node.paths.on_authenticated(space(0), kSnapt, kLocal, 1400, true, node.now);
    EXPECT_EQ(node.paths.path(0).unanswered_since, node.now) << "counted from its last datagram";
    node.now += base::seconds(1);
    EXPECT_FALSE(node.paths.on_time(node.now));
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->announce && probe->challenge);
    EXPECT_EQ(node.paths.path(0).state, PathState::Usable);
    node.paths.on_authenticated(space(0), kSnapt, kLocal, 100, true, node.now);
    EXPECT_FALSE(node.paths.on_response(space(0), {probe->challenge->token}, node.now));
    node.stay_silent(base::seconds(20));
    EXPECT_EQ(node.paths.path(0).state, PathState::Usable) << "an idle path is not asked";
}

// Sends with packets at once, and hears nothing.
TEST(PathSet, TheSilenceOfASuspectPathIsBelievedSooner) {
    Node plain;
    prove(plain);
    Node suspect;
    prove(suspect);
    suspect.paths.suspect(0, true);
    // A round trip of 20 ms is known.
    for (Node* node : {&plain, &suspect}) {
        node->paths.ask(0, node->now);
        const auto probe = node->paths.next_probe(node->now);
        ASSERT_TRUE(probe && probe->announce && probe->challenge);
        EXPECT_EQ(node->paths.path(0).state, PathState::Usable) << "asked, not doubted";
        node->now += milliseconds(20);
        node->paths.on_authenticated(space(0), kSnapt, kLocal, 100, true, node->now);
        EXPECT_FALSE(node->paths.on_response(space(0), {probe->challenge->token}, node->now));
        send_in_vain(*node, milliseconds(500));
    }
    EXPECT_EQ(plain.paths.path(0).state, PathState::Usable);
    EXPECT_EQ(suspect.paths.path(0).state, PathState::Doubtful);
    suspect.paths.on_authenticated(space(0), kSnapt, kLocal, 100, true, suspect.now);
    EXPECT_EQ(suspect.paths.path(0).state, PathState::Usable);
    suspect.paths.suspect(0, false);
    send_in_vain(suspect, milliseconds(500));
    EXPECT_EQ(suspect.paths.path(0).state, PathState::Usable);
}

TEST(PathSet, APauseOfTheNodeIsNoSilenceOfThePeer) {
    Node node;
    prove(node);
    node.paths.add(1, kSnapt, 1500, node.now);
    node.paths.on_sent(*node.paths.destination(TrafficClass::HtHd, node.now), 1000, true, node.now);
    const auto number = node.paths.announcement_number();
    node.now += base::seconds(40);
    node.paths.on_pause(node.now);
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
    EXPECT_EQ(node.paths.path(0).state, PathState::Usable);
}

TEST(PathSet, AFewDatagramsAreNoStream) {
    Node node;
    prove(node);
    for (int i = 0; i < 5; ++i) {
        node.paths.on_authenticated(space(0), kSnapt, kLocal, 1400, true, node.now);
    }
    node.now += base::seconds(5);
    EXPECT_FALSE(node.paths.on_time(node.now));
    EXPECT_FALSE(node.paths.next_probe(node.now));
}

// A datagram with packets leaves, and nothing comes.
void send_numbered(Node& node, uint32_t number) {
    const tests::Acknowledged sent{node.paths, 1, space(0, TrafficClass::HtHd)};
    sent.send(number, 1, 200, node.now);
    node.paths.on_sent(*node.paths.destination(TrafficClass::HtHd, node.now), 200, true, node.now);
}

// Its first answer came before the doubt, and it was asked once more for a better round trip.
TEST(PathSet, AnAnswerOfAnotherPathIsNewsWhileTheActiveOneFails) {
    Node node;
    prove(node);
    node.paths.add(1, kSnapt, 1500, node.now);
    node.paths.probe(1, node.now);
    const auto answer = [&] {
        while (const auto probe = node.paths.next_probe(node.now)) {
            if (probe->path == 1 && probe->challenge) {
                return node.paths.on_response(space(1), {probe->challenge->token}, node.now);
            }
        }
        return false;
    };
    node.paths.on_sent(*node.paths.destination(TrafficClass::HtHd, node.now), 1000, true, node.now);
    EXPECT_TRUE(answer()) << "the first";
    for (int i = 0; i < 300 && node.paths.path(0).state != PathState::Doubtful; ++i) {
        node.now += milliseconds(10);
        node.paths.on_time(node.now);
    }
    ASSERT_EQ(node.paths.path(0).state, PathState::Doubtful);
    ASSERT_EQ(node.paths.path(1).state, PathState::Usable);
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

constexpr base::Duration kLongest = base::seconds(25);

// SNAPT asks after an idle time; what was lost follows after `delay`.
void be_asked(Node& node, base::Duration idle, base::Duration delay) {
    const TimePoint idle_since = node.now;
    node.now += idle;
    EXPECT_TRUE(node.paths.on_request(idle_since, node.now));
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->announce && probe->challenge);
    node.paths.on_response(space(0), {probe->challenge->token}, node.now + milliseconds(50));
    node.now += delay;
    node.paths.on_packets(0, node.now, kLongest, node.now);
}

TEST(PathSet, TheSecondLossAfterAnIdleTimeShortensTheKeepalive) {
    Node node;
    prove(node);
    be_asked(node, base::seconds(20), milliseconds(50));
    EXPECT_EQ(node.paths.keepalive(kLongest), kLongest) << "one loss may be chance";
    be_asked(node, base::seconds(10), milliseconds(50));
    EXPECT_EQ(node.paths.keepalive(kLongest), base::seconds(5));
    node.now += base::seconds(601);
    node.paths.try_longer_keepalive(kLongest, node.now);
    EXPECT_EQ(node.paths.keepalive(kLongest), base::seconds(10));
}

// A keepalive leaves after an idle time; SNAPT's CHALLENGE comes `delay` later.
void be_remapped(Node& node, base::Duration idle, base::Duration delay) {
    const TimePoint idle_since = node.now;
    node.now += idle;
    node.paths.on_keepalive(idle_since, node.now);
    node.now += delay;
    node.paths.on_remapped(kLongest, node.now);
}

TEST(PathSet, AKeepaliveThatFindsTheMappingGoneShortensTheInterval) {
    Node node;
    prove(node);
    be_remapped(node, base::seconds(20), milliseconds(50));
    be_remapped(node, base::seconds(25), milliseconds(50));
    EXPECT_EQ(node.paths.keepalive(kLongest), base::seconds(10));
}

TEST(PathSet, ARequestAfterWhichNothingIsRepeatedTeachesNothing) {
    Node node;
    prove(node);
    for (int i = 0; i < 3; ++i) {
        be_asked(node, base::seconds(10), base::seconds(3));
    }
    EXPECT_EQ(node.paths.keepalive(kLongest), kLongest);
}

TEST(PathSet, ARequestOnAPathThatDeliversTeachesNothing) {
    Node node;
    prove(node);
    const TimePoint idle_since = node.now;
    node.now += base::seconds(10);
    node.paths.on_authenticated(space(0), kSnapt, kLocal, 1400, true, node.now);
    EXPECT_FALSE(node.paths.on_request(idle_since, node.now));
    EXPECT_EQ(node.paths.keepalive(kLongest), kLongest);
}

TEST(PathSet, SnaptMissesASignOfLifeEverLessOften) {
    Snapt snapt;
    snapt.prove(0, kHome);
    const auto destination = snapt.paths.destination(TrafficClass::LtLd, snapt.now);
    size_t requests = 0;
    for (const TimePoint end = snapt.now + base::seconds(60); snapt.now < end;
         snapt.now += milliseconds(100)) {
        snapt.paths.on_sent(*destination, 1400, true, snapt.now);
        requests += snapt.paths.on_time(snapt.now) ? 1U : 0U;
    }
    EXPECT_GE(requests, 4U);
    EXPECT_LE(requests, 8U);
    EXPECT_EQ(snapt.paths.path(0).state, PathState::Usable) << "a node that is silent is no fault";
}

TEST(PathSet, AnAnswerOfSeveralDatagramsDoesNotMakeSnaptLessPatient) {
    Snapt snapt;
    snapt.prove(0, kHome);
    const auto destination = snapt.paths.destination(TrafficClass::LtLd, snapt.now);
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
    EXPECT_FALSE(snapt.paths.on_announce(0, beside, snapt.now));
    EXPECT_TRUE(snapt.paths.on_announce(1, announce(1, 7), snapt.now));
    EXPECT_FALSE(snapt.paths.path(1).tuples[base::index_of(TrafficClass::HtHd)].is_known)
        << "other sockets may be behind the index";
}

TEST(PathSet, WhatWasLostBeforeARequestIsOverdueWhenTheAnswerComes) {
    Snapt snapt;
    snapt.prove(0, kHome);
    const auto destination = snapt.paths.destination(TrafficClass::LtLd, snapt.now);
    snapt.paths.on_sent(*destination, 1400, true, snapt.now);
    EXPECT_FALSE(snapt.paths.is_overdue(0, snapt.now));
    snapt.now += base::seconds(1);
    ASSERT_TRUE(snapt.paths.on_time(snapt.now));
    EXPECT_TRUE(snapt.paths.is_overdue(0, snapt.now + milliseconds(10)));
}

TEST(PathSet, AnOpenQuestionIsNotPutAnew) {
    Node node;
    node.paths.add(1, kSnapt, 1500, node.now);
    node.paths.probe(1, node.now);
    const auto first = node.paths.next_probe(node.now);
    node.paths.probe(1, node.now + milliseconds(5));
    EXPECT_FALSE(node.paths.next_probe(node.now + milliseconds(5)));
    ASSERT_TRUE(first && first->challenge);
    EXPECT_TRUE(
        node.paths.on_response(space(1), {first->challenge->token}, node.now + milliseconds(10)));
}

}  // namespace
}  // namespace continuo::session::path_tests
