#include "tests/unit/routing/path_set_fixture.hpp"

#include <vector>

namespace continuo::routing::path_tests {
namespace {

using base::Duration;

// Asks three times, `apart` from each other. The answer to number `answered` arrives 20 ms after
// the last.
Duration round_trip_of(size_t answered, base::Duration apart) {
    Snapt snapt;
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 1200, true, snapt.now);
    std::vector<wire::ChallengeToken> tokens;
    for (size_t i = 0; i < 3; ++i) {
        const auto probe = snapt.paths.next_probe(snapt.now);
        tokens.push_back(probe->challenge->token);
        snapt.now += apart;
    }
    snapt.now += milliseconds(20) - apart;
    EXPECT_TRUE(snapt.paths.on_response(space(0), {tokens[answered]}, snapt.now));
    return snapt.paths.path(0).feedback().smoothed_rtt();
}

TEST(PathChallenge, AnAnswerTellsTheRoundTripOfTheQuestionThatItAnswers) {
    const Duration apart = milliseconds(300);
    EXPECT_EQ(round_trip_of(0, apart), 2 * apart + milliseconds(20));
    EXPECT_EQ(round_trip_of(1, apart), Duration{}) << "when that left is not kept";
    EXPECT_EQ(round_trip_of(2, apart), milliseconds(20));
    EXPECT_EQ(round_trip_of(0, base::seconds(5)), Duration{}) << "the link was away";
    EXPECT_EQ(round_trip_of(2, base::seconds(5)), milliseconds(20));
}

TEST(PathChallenge, AnswersAreCountedWithTheirRoundTrip) {
    Node node;
    prove(node);
    EXPECT_EQ(node.paths.path(0).traffic().counters().answers, 1U);
    node.now += base::seconds(1);
    node.paths.node().ask(0, node.now);
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->challenge);
    EXPECT_EQ(node.paths.path(0).traffic().counters().answers, 1U) << "not answered yet";
    node.now += milliseconds(70);
    node.paths.on_response(space(0), {probe->challenge->token}, node.now);
    EXPECT_EQ(node.paths.path(0).traffic().counters().answers, 2U);
    EXPECT_EQ(node.paths.path(0).traffic().counters().last_round_trip, milliseconds(70));
    node.paths.on_response(space(0), {probe->challenge->token}, node.now);
    EXPECT_EQ(node.paths.path(0).traffic().counters().answers, 2U)
        << "a repetition answers nothing";
}

// A change below the path asks it again at once, each time (ask_again).
TEST(PathChallenge, WhoIsAskedAgainBeforeItsTimeTellsTheRoundTripOfThatQuestionToo) {
    Node node;
    node.paths.node().add(0, kSnapt, 1500, node.now);
    node.paths.node().activate(0, node.now);
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().probe(node.now);
    node.stay_silent(base::seconds(12));
    ASSERT_EQ(node.paths.path(1).state(), PathState::Dead);
    std::vector<wire::ChallengeToken> tokens;
    for (int i = 0; i < 3; ++i) {
        node.paths.path(1).node().ask_again(node.now);
        while (const auto probe = node.paths.next_probe(node.now)) {
            if (probe->path == 1 && probe->challenge) {
                tokens.push_back(probe->challenge->token);
            }
        }
        node.now += milliseconds(40);
    }
    ASSERT_EQ(tokens.size(), 3U);
    node.now += milliseconds(20);  // 140 ms after the first
    node.paths.on_response(space(1), {tokens[0]}, node.now);
    EXPECT_NE(node.paths.path(1).feedback().smoothed_rtt(), milliseconds(60)) << "of the newest";
}

// Another network, of which the round trips of the former tell nothing.
TEST(PathChallenge, ATupleAtAnotherAddressBeginsWithoutARoundTrip) {
    Snapt snapt;
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 1200, true, snapt.now);
    const auto asked = snapt.paths.next_probe(snapt.now);
    ASSERT_TRUE(asked && asked->challenge);
    snapt.now += milliseconds(5);
    snapt.paths.on_response(space(0), {asked->challenge->token}, snapt.now);
    ASSERT_EQ(snapt.paths.path(0).feedback().smoothed_rtt(), milliseconds(5));
    snapt.paths.on_authenticated(space(0), kAway, kLocal, 1200, true, snapt.now);
    EXPECT_EQ(snapt.paths.path(0).feedback().smoothed_rtt(), Duration{});
}

TEST(PathChallenge, OfManyQuestionsAtOnceTheNewestIsAnswered) {
    Node node;
    prove(node);
    wire::ChallengeToken token{};
    for (uint8_t i = 0; i < 40; ++i) {
        token.back() = i;
        node.paths.on_challenge(space(0), {token}, false, false);
    }
    bool is_answered = false;
    while (const auto probe = node.paths.next_probe(node.now)) {
        is_answered = is_answered || (probe->response && probe->response->token == token);
    }
    EXPECT_TRUE(is_answered);
}

// The first of a round asks the way that is preferred.
TEST(PathChallenge, QuestionsOfAClassAreAnsweredInTheirOrderAfterAllOthers) {
    Node node;
    prove(node);
    wire::ChallengeToken token{};
    const auto space_of_class = space(0, TrafficClass::HtHd);
    for (uint8_t i = 0; i < 3; ++i) {
        token.back() = i;
        node.paths.on_challenge(space_of_class, {token}, false, true, true);
    }
    token.back() = 9;
    node.paths.on_challenge(space_of_class, {token}, false, false);
    std::vector<uint8_t> answered;
    while (const auto probe = node.paths.next_probe(node.now)) {
        if (probe->response) {
            answered.push_back(probe->response->token.back());
        }
    }
    EXPECT_EQ(answered, (std::vector<uint8_t>{9, 0, 1, 2}));
}

// Nothing is asked by class there.
TEST(PathChallenge, AnAnswerOfARepetitionTellsNothingOfClassesWithoutPackets) {
    for (const uint8_t path : {uint8_t{1}, wire::kTcpPath}) {
        Node node;
        node.paths.node().add(path, kSnapt, 1500, node.now);
        node.paths.path(path).node().probe(node.now);
        const auto first = node.paths.next_probe(node.now);
        node.now += milliseconds(50);
        const auto second = node.paths.next_probe(node.now);
        ASSERT_TRUE(first && second && second->challenge);
        ASSERT_TRUE(node.paths.on_response(space(path), {second->challenge->token}, node.now));
        EXPECT_EQ(node.paths.path(path).feedback().class_ways(), nullptr) << int{path};
    }
}

TEST(PathChallenge, AnAnswerToNoQuestionProvesNothing) {
    Snapt snapt;
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 1200, true, snapt.now);
    auto token = snapt.paths.next_probe(snapt.now)->challenge->token;
    token.front() ^= 1U;
    EXPECT_FALSE(snapt.paths.on_response(space(0), {token}, snapt.now));
    EXPECT_FALSE(snapt.paths.path(0).validation().tuples()[0].is_proven());
}

void answer_after(Node& node, uint8_t path, milliseconds round_trip) {
    const auto asked = node.paths.next_probe(node.now);
    ASSERT_TRUE(asked && asked->challenge && asked->path == path);
    node.stay_silent(round_trip);
    node.paths.on_response(space(path), {asked->challenge->token}, node.now);
}

// The first exchange looks up addresses below.
TEST(PathChallenge, ANewPathIsAskedTwiceAndTheFasterAnswerCounts) {
    Node node;
    prove(node);
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().probe(node.now);
    for (const auto round_trip : {milliseconds(200), milliseconds(100)}) {
        answer_after(node, 1, round_trip);
        EXPECT_EQ(node.paths.path(1).feedback().smoothed_rtt(), round_trip);
        EXPECT_EQ(node.paths.path(1).state(), PathState::Usable);
    }
    const auto more = node.paths.next_probe(node.now);
    EXPECT_FALSE(more && more->path == 1 && more->challenge);
}

// An empty datagram is heard first, of which three times the length is less than a challenge takes.
TEST(PathChallenge, WhatWasTooMuchForAnAddressLeavesAsSoonAsMoreIsHeardFromThere) {
    Snapt snapt;
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 20, true, snapt.now);
    const auto first = snapt.paths.next_probe(snapt.now);
    ASSERT_TRUE(first && first->challenge);
    snapt.paths.path(0).on_withheld(*first);
    EXPECT_FALSE(snapt.paths.next_probe(snapt.now)) << "nothing has changed";
    snapt.now += milliseconds(1);
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 1200, true, snapt.now);
    EXPECT_LE(snapt.paths.next_deadline(), snapt.now);
    const auto second = snapt.paths.next_probe(snapt.now);
    ASSERT_TRUE(second && second->challenge);
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 1200, true, snapt.now);
    EXPECT_FALSE(snapt.paths.next_probe(snapt.now)) << "that one left";
    EXPECT_TRUE(snapt.paths.on_response(space(0), {second->challenge->token}, snapt.now));
}

TEST(PathChallenge, DataLeavesRoomForItsRepetitions) {
    Snapt snapt;
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 1200, true, snapt.now);
    const auto destination = snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now);
    ASSERT_TRUE(destination);
    EXPECT_LE(destination->budget_bytes + 4 * path::kShortProbeBytes, 3600U);
    snapt.paths.on_sent(*destination, destination->budget_bytes, true, snapt.now);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now)->budget_bytes, 0U);
    const Tuple& tuple = snapt.paths.path(0).validation().tuples()[0];
    EXPECT_LE(tuple.unproven_sent_bytes() + 4 * path::kShortProbeBytes, 3600U);
}

}  // namespace
}  // namespace continuo::routing::path_tests
