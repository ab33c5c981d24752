#include "tests/support/acknowledged.hpp"
#include "tests/unit/routing/path_set_fixture.hpp"

namespace continuo::routing::path_tests {
namespace {

TEST(PathSet, ANodeAnnouncesANewPathFourTimesAtOnce) {
    base::SeededRandom random(1);
    PathSet paths(Role::Node, random);
    const TimePoint now{base::seconds(10)};
    paths.node().add(3, kSnapt, 1500, now);
    paths.node().activate(3, now);
    size_t copies = 0;
    while (const auto probe = paths.next_probe(now)) {
        EXPECT_TRUE(probe->announce && probe->announce->active && probe->is_padded);
        ++copies;
    }
    EXPECT_EQ(copies, wire::kAnnounceCopies);
    EXPECT_GT(paths.next_deadline(), now);
}

TEST(PathSet, TheReturnPathFollowsTheNewestAnnouncementOnly) {
    Snapt snapt;
    snapt.prove(0, kHome);
    EXPECT_FALSE(snapt.paths.snapt().on_announce(0, announce(0, 1), snapt.now));
    snapt.paths.on_authenticated(space(1), kAway, kLocal, 1200, true, snapt.now);
    EXPECT_TRUE(snapt.paths.snapt().on_announce(1, announce(1, 2), snapt.now));
    EXPECT_EQ(snapt.paths.active(), 1);
    EXPECT_FALSE(snapt.paths.snapt().on_announce(0, announce(0, 1), snapt.now))
        << "a late one of the old path";
    EXPECT_EQ(snapt.paths.active(), 1);
}

TEST(PathSet, APathIndexThatIsUsedAgainKeepsNoTupleOfItsFormerSockets) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.paths.snapt().on_announce(0, announce(0, 1), snapt.now);
    snapt.paths.on_authenticated(space(0, TrafficClass::HtLd), kHome, kLocal, 200, true, snapt.now);
    const auto probe = snapt.paths.next_probe(snapt.now);
    ASSERT_TRUE(probe && probe->challenge);
    snapt.paths.on_response(space(0, TrafficClass::HtLd), {probe->challenge->token}, snapt.now);
    ASSERT_EQ(snapt.paths.selector().destination(TrafficClass::HtLd, snapt.now)->tuple_class,
              TrafficClass::HtLd);

    snapt.paths.on_authenticated(space(0), kAway, kLocal, 1200, true, snapt.now);
    snapt.paths.snapt().on_announce(0, announce(0, 2), snapt.now);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::HtLd, snapt.now)->to, kAway);
}

TEST(PathSet, AnUnprovenAddressGetsThreeTimesWhatItSent) {
    Snapt snapt;
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 1200, true, snapt.now);
    auto destination = snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now);
    ASSERT_TRUE(destination);
    EXPECT_EQ(destination->budget_bytes, 3600U - path::kChallengeRoomBytes);
    snapt.paths.on_sent(*destination, 3000, true, snapt.now);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now)->budget_bytes,
              600U - path::kChallengeRoomBytes);
}

TEST(PathSet, OnlyTheHighestNumberMovesAnAddress) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.paths.on_authenticated(space(0), kAway, kLocal, 100, false, snapt.now);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::LtLd, snapt.now)->to, kHome);
    snapt.paths.on_authenticated(space(0), kAway, kLocal, 100, true, snapt.now);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::LtLd, snapt.now)->to, kAway);
    EXPECT_LT(snapt.paths.selector().destination(TrafficClass::LtLd, snapt.now)->budget_bytes,
              1000U);
}

TEST(PathSet, AWrongResponseProvesNothing) {
    Snapt snapt;
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 1200, true, snapt.now);
    EXPECT_FALSE(snapt.paths.on_response(space(0), {{1, 2, 3}}, snapt.now));
    EXPECT_NE(snapt.paths.path(0).state(), PathState::Usable);
}

TEST(PathSet, AClassWithoutAProvenAddressUsesThatOfLtLd) {
    Snapt snapt;
    snapt.prove(0, kHome);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now)->to, kHome);
    snapt.paths.on_authenticated(space(0, TrafficClass::HtHd), kAway, kLocal, 1200, true,
                                 snapt.now);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now)->to, kHome);
    const auto probe = snapt.paths.next_probe(snapt.now);
    ASSERT_TRUE(probe && probe->challenge);
    EXPECT_EQ(probe->to, kAway);
    snapt.paths.on_response(space(0, TrafficClass::HtHd), {probe->challenge->token}, snapt.now);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now)->to, kAway);
    const TimePoint later = snapt.now + base::seconds(60);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::HtHd, later)->to, kHome)
        << "its mapping may have expired";
}

TEST(PathSet, TheStateOfAPathFollowsFromValidationAndHealth) {
    using recovery::Health;
    for (const Health health : {Health::Usable, Health::Doubtful, Health::Dead}) {
        EXPECT_EQ(state_of(Validation::None, health), PathState::Unknown);
        EXPECT_EQ(state_of(Validation::Failed, health), PathState::Dead);
    }
    EXPECT_EQ(state_of(Validation::Pending, Health::Usable), PathState::Challenged);
    EXPECT_EQ(state_of(Validation::Done, Health::Usable), PathState::Usable);
    EXPECT_EQ(state_of(Validation::Pending, Health::Doubtful), PathState::Doubtful);
    EXPECT_EQ(state_of(Validation::Done, Health::Doubtful), PathState::Doubtful);
}

// A question is no validation: an answer to it is missed no sooner.
TEST(PathSet, AMereQuestionLeavesTheState) {
    Node node;
    prove(node);
    node.paths.node().ask(0, node.now);
    EXPECT_EQ(node.paths.path(0).state(), PathState::Usable);
    node.paths.node().announce_again(node.now);
    EXPECT_EQ(node.paths.path(0).state(), PathState::Challenged);
    node.paths.path(0).node().give_up();
    node.paths.path(0).node().retry(kSnapt, node.now);
    EXPECT_EQ(node.paths.path(0).state(), PathState::Dead);
}

TEST(PathSet, ANewMappingOfLtLdServesAllClassesUntilTheyAreHeard) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.paths.on_authenticated(space(0, TrafficClass::HtHd), kHome, kLocal, 1200, true,
                                 snapt.now);
    const auto probe = snapt.paths.next_probe(snapt.now);
    ASSERT_TRUE(probe && probe->challenge);
    snapt.paths.on_response(space(0, TrafficClass::HtHd), {probe->challenge->token}, snapt.now);
    ASSERT_EQ(snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now)->tuple_class,
              TrafficClass::HtHd);
    snapt.prove(0, kAway);
    const auto destination = snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now);
    EXPECT_EQ(destination->tuple_class, TrafficClass::LtLd);
    EXPECT_EQ(destination->to, kAway);
}

// A silent path cannot say what was lost on it (docs/PROTOCOL.md section 6.6).
TEST(PathSet, AcksTakeAPathThatIsHeardWhileTheActiveOneIsSilent) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.prove(1, kAway);
    EXPECT_EQ(snapt.paths.selector().acknowledges_by(0, snapt.now), 0);
    snapt.now += milliseconds(300);
    snapt.paths.on_authenticated(space(1), kAway, kLocal, 100, true, snapt.now);
    EXPECT_EQ(snapt.paths.selector().acknowledges_by(0, snapt.now), 1);
    EXPECT_EQ(snapt.paths.selector().upkeep_destination(snapt.now)->path, 1);
    snapt.now += milliseconds(1100);
    EXPECT_EQ(snapt.paths.selector().acknowledges_by(0, snapt.now), 0) << "neither is heard";
    snapt.paths.on_authenticated(space(1), kAway, kLocal, 100, true, snapt.now);
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 100, true, snapt.now);
    EXPECT_EQ(snapt.paths.selector().acknowledges_by(0, snapt.now), 0);
    EXPECT_EQ(snapt.paths.selector().acknowledges_by(1, snapt.now), 1);
}

// Nothing may come from the new address that would allow another challenge (section 5.4).
TEST(PathSet, WhatExceedsTheLimitTakesAProvenPathThatIsHeard) {
    Snapt snapt;
    snapt.prove(1, kAway);
    snapt.paths.on_authenticated(space(0), kHome, kLocal, 300, true, snapt.now);
    snapt.paths.snapt().on_announce(0, announce(0, 1), snapt.now);
    ASSERT_EQ(snapt.paths.active(), 0);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now)->path, 0);
    snapt.now += milliseconds(300);
    snapt.paths.on_authenticated(space(1), kAway, kLocal, 100, true, snapt.now);
    const auto instead = snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now);
    EXPECT_EQ(instead->path, 1);
    EXPECT_GE(instead->budget_bytes, instead->mtu);
}

wire::Announce wish(uint8_t path, uint16_t number) {
    wire::Announce announce;
    announce.path = path;
    announce.copy_wanted = true;
    announce.number = number;
    return announce;
}

TEST(PathSet, CopiesAreMadeWhereTheNodeWantsThemUntilTheWishIsOld) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.prove(1, kAway);
    snapt.now += milliseconds(100);
    const auto copy = [&] {
        return snapt.paths.selector().copy_destination(TrafficClass::HtLd, 0, false, snapt.now);
    };
    EXPECT_FALSE(copy()) << "nothing is in doubt";
    snapt.paths.snapt().on_announce(0, announce(0, 5), snapt.now);
    EXPECT_FALSE(snapt.paths.snapt().on_announce(0, wish(1, 5), snapt.now));
    ASSERT_TRUE(copy());
    EXPECT_EQ(copy()->path, 1);
    EXPECT_EQ(copy()->to, kAway);
    snapt.now += milliseconds(250);
    EXPECT_FALSE(copy());
    snapt.paths.snapt().on_announce(0, wish(1, 4), snapt.now);
    EXPECT_FALSE(copy()) << "that of an older announcement";
}

TEST(PathSet, AWishForCopiesThatIsRepeatedLastsTwoSecondsAtMost) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.prove(1, kAway);
    snapt.paths.snapt().on_announce(0, announce(0, 5), snapt.now);
    for (int64_t wait = 40; wait < 3000; wait *= 2) {
        snapt.paths.snapt().on_announce(0, wish(1, 5), snapt.now);
        snapt.now += milliseconds(std::min<int64_t>(wait, 1000));
        EXPECT_TRUE(snapt.paths.selector().is_in_doubt(snapt.now)) << "until the next repetition";
    }
    snapt.now += base::seconds(2);
    EXPECT_FALSE(snapt.paths.selector().is_in_doubt(snapt.now));
}

TEST(PathSet, NothingIsCopiedToAPathThatIsNotKnown) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.paths.snapt().on_announce(0, announce(0, 5), snapt.now);
    snapt.paths.snapt().on_announce(0, wish(3, 5), snapt.now);
    EXPECT_FALSE(snapt.paths.selector().copy_destination(TrafficClass::LtLd, 0, true, snapt.now));
}

TEST(PathSet, LowDelayGoesByTheOldPathWhileTheNewOneHasNoBudget) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.paths.snapt().on_announce(0, announce(0, 1), snapt.now);
    snapt.paths.on_authenticated(space(1), kAway, kLocal, 300, true, snapt.now);
    ASSERT_TRUE(snapt.paths.snapt().on_announce(1, announce(1, 2), snapt.now));
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::LtLd, snapt.now)->path, 0);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::HtHd, snapt.now)->path, 1)
        << "that waits";
    EXPECT_FALSE(snapt.paths.selector().copy_destination(TrafficClass::LtLd, 0, false, snapt.now))
        << "the new one may not be sent any more";
    snapt.paths.on_authenticated(space(1), kAway, kLocal, 1200, true, snapt.now);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::LtLd, snapt.now)->path, 1);
    EXPECT_EQ(
        snapt.paths.selector().copy_destination(TrafficClass::LtLd, 1, false, snapt.now)->path, 0);
}

TEST(PathSet, AWithdrawnPathIsForgotten) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.prove(1, kAway);
    EXPECT_EQ(snapt.paths.selector().spread(milliseconds(100), snapt.now), mask_of(0) | mask_of(1));
    wire::Announce gone;
    gone.path = 1;
    gone.withdrawn = true;
    snapt.paths.snapt().on_announce(0, gone, snapt.now);
    EXPECT_EQ(snapt.paths.selector().spread(milliseconds(100), snapt.now), mask_of(0));
    snapt.prove(1, kAway);
    EXPECT_EQ(snapt.paths.selector().spread(milliseconds(100), snapt.now), mask_of(0) | mask_of(1));
}

TEST(PathSet, TrafficIsSpreadOverProvenPathsThatAnswer) {
    Snapt snapt;
    snapt.prove(0, kHome);
    snapt.paths.on_authenticated(space(3), kAway, kLocal, 1200, true, snapt.now);
    EXPECT_EQ(snapt.paths.selector().spread(milliseconds(100), snapt.now), mask_of(0));
    snapt.prove(2, kAway);
    EXPECT_EQ(snapt.paths.selector().spread(milliseconds(100), snapt.now), mask_of(0) | mask_of(2));
    const tests::Acknowledged sent{snapt.paths, 1, space(2, TrafficClass::HtHd)};
    sent.send(0, 4, 1400, snapt.now);
    for (const TimePoint end = snapt.now + base::seconds(3); snapt.now < end;
         snapt.now += milliseconds(10)) {
        snapt.paths.on_time(snapt.now);
    }
    EXPECT_EQ(snapt.paths.selector().spread(milliseconds(100), snapt.now), mask_of(0))
        << "it owes an answer";
    snapt.paths.on_authenticated(space(2), kAway, kLocal, 100, false, snapt.now);
    EXPECT_EQ(snapt.paths.selector().spread(milliseconds(100), snapt.now), mask_of(0))
        << "the way down may be dead";
    sent.acknowledge(0, 3, snapt.now);
    EXPECT_EQ(snapt.paths.selector().spread(milliseconds(100), snapt.now), mask_of(0) | mask_of(2));
}

TEST(PathSet, TheFirstQuestionLetsSnaptAskAsWell) {
    Node node;
    prove(node);
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().probe(node.now);
    const auto asked = node.paths.next_probe(node.now);
    ASSERT_TRUE(asked && asked->challenge);
    EXPECT_TRUE(asked->is_padded);
    node.now += milliseconds(60);
    const auto again = node.paths.next_probe(node.now);
    ASSERT_TRUE(again && again->challenge);
    EXPECT_FALSE(again->is_padded);
    node.paths.on_response(space(1), {again->challenge->token}, node.now);
    node.paths.path(1).node().probe(node.now);
    const auto later = node.paths.next_probe(node.now);
    ASSERT_TRUE(later && later->challenge);
    EXPECT_FALSE(later->is_padded) << "it has answered";
}

TEST(PathSet, APathThatWasGivenUpIsAskedOnceARetryAndComesBackWithTheAnswer) {
    Node node;
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().give_up();
    EXPECT_FALSE(node.paths.next_probe(node.now));
    node.paths.on_authenticated(space(1), kSnapt, kLocal, 1400, true, node.now);
    EXPECT_FALSE(node.paths.next_probe(node.now)) << "what was on its way when it was given up";
    std::optional<Probe> asked;
    for (int i = 0; i < 3; ++i) {
        node.paths.path(1).node().retry(kSnapt, node.now);
        asked = node.paths.next_probe(node.now);
        ASSERT_TRUE(asked && asked->challenge);
        EXPECT_FALSE(asked->announce || asked->is_padded) << "an idle node stays cheap";
        node.stay_silent(milliseconds(900));
        EXPECT_FALSE(node.paths.next_probe(node.now));
    }
    node.paths.on_authenticated(space(1), kSnapt, kLocal, 60, true, node.now);
    EXPECT_EQ(node.paths.path(1).state(), PathState::Dead) << "only an answer shows both ways";
    EXPECT_TRUE(node.paths.on_response(space(1), {asked->challenge->token}, node.now));
    EXPECT_EQ(node.paths.path(1).state(), PathState::Usable);
}

TEST(PathSet, ARetryAtAnotherPortIsAnotherQuestion) {
    Node node;
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().give_up();
    node.paths.path(1).node().retry(kSnapt, node.now);
    const auto first = node.paths.next_probe(node.now);
    const Endpoint other{kSnapt.address, 443};
    node.paths.path(1).node().retry(other, node.now);
    const auto second = node.paths.next_probe(node.now);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(second->to, other);
    EXPECT_FALSE(node.paths.on_response(space(1), {first->challenge->token}, node.now));
    EXPECT_TRUE(node.paths.on_response(space(1), {second->challenge->token}, node.now));
}

TEST(PathSet, ARedirectedPathIsAnnouncedAtItsNewPortAndStaysInDoubt) {
    Node node;
    node.paths.node().add(0, kSnapt, 1500, node.now);
    node.paths.node().activate(0, node.now);
    node.stay_silent(base::seconds(11));
    ASSERT_EQ(node.paths.path(0).state(), PathState::Dead);
    const Endpoint other{kSnapt.address, 443};
    node.paths.node().redirect(other, node.now);
    EXPECT_EQ(node.paths.path(0).state(), PathState::Dead);
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->announce && probe->challenge);
    EXPECT_EQ(probe->to, other);
    EXPECT_TRUE(node.paths.on_response(space(0), {probe->challenge->token}, node.now));
    EXPECT_EQ(node.paths.selector().destination(TrafficClass::HtHd, node.now)->to, other);
}

TEST(PathSet, APathTakesWhatItsSenderHasRoomFor) {
    Node node;
    node.paths.node().add(wire::kTcpPath, kSnapt, 1500, node.now);
    node.paths.node().activate(wire::kTcpPath, node.now);
    node.paths.path(wire::kTcpPath).set_room(3000 + path::kReservedRoomBytes);
    auto destination = node.paths.selector().destination(TrafficClass::HtHd, node.now);
    ASSERT_TRUE(destination);
    EXPECT_EQ(destination->budget_bytes, 3000U);
    node.paths.on_sent(*destination, 2000, true, node.now);
    node.paths.on_sent(*destination, 2000, true, node.now);
    EXPECT_EQ(node.paths.selector().destination(TrafficClass::HtHd, node.now)->budget_bytes, 0U);
    EXPECT_EQ(node.paths.selector().destination(TrafficClass::HtLd, node.now)->budget_bytes,
              path::kReservedRoomBytes - 1000)
        << "what is short of delay has a part of its own";
}

TEST(PathSet, ANewConnectionIsAMoveAndItsRepetitionIsNone) {
    Snapt snapt;
    const wire::Space tcp = space(wire::kTcpPath);
    snapt.paths.on_authenticated(tcp, kHome, kLocal, 60, true, snapt.now);
    wire::Announce announce;
    announce.path = wire::kTcpPath;
    announce.mtu = 1500;
    announce.active = true;
    for (uint16_t number = 1; number <= 2; ++number) {
        announce.number = number;
        // The first path that was heard is the active one already.
        EXPECT_TRUE(snapt.paths.snapt().on_announce(wire::kTcpPath, announce, snapt.now));
        EXPECT_FALSE(snapt.paths.snapt().on_announce(wire::kTcpPath, announce, snapt.now));
    }
}

TEST(PathSet, AConnectionProvesAnAddress) {
    Snapt snapt;
    const wire::Space tcp = space(wire::kTcpPath);
    snapt.paths.on_authenticated(tcp, kHome, kLocal, 60, true, snapt.now);
    EXPECT_LT(snapt.paths.selector().destination(TrafficClass::LtLd, snapt.now)->budget_bytes,
              200U);
    snapt.paths.path(tcp.path).snapt().trust(tcp.traffic_class);
    EXPECT_EQ(snapt.paths.selector().destination(TrafficClass::LtLd, snapt.now)->budget_bytes,
              UINT64_MAX);
}

TEST(PathSet, AfterAMoveThePathThatWasLeftTakesCopiesUntilTheNewOneAnswers) {
    Node node;
    prove(node);
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.node().activate(1, node.now);
    ASSERT_EQ(node.paths.selector().second_path(node.now), 0);
    const auto copy =
        node.paths.selector().copy_destination(TrafficClass::HtLd, 1, false, node.now);
    ASSERT_TRUE(copy);
    EXPECT_EQ(copy->path, 0);
    EXPECT_FALSE(
        node.paths.selector().copy_destination(TrafficClass::LtLd, 1, false, node.now)->path == 1);
    const auto probe = node.paths.next_probe(node.now);
    ASSERT_TRUE(probe && probe->announce && probe->announce->active && probe->copies);
    EXPECT_EQ(probe->copies->path, 0);
    EXPECT_TRUE(probe->copies->copy_wanted);
    EXPECT_EQ(probe->copies->number, probe->announce->number);
    node.paths.on_response(space(1), {probe->challenge->token}, node.now + milliseconds(30));
    EXPECT_FALSE(node.paths.selector().is_in_doubt(node.now));
    EXPECT_FALSE(node.paths.selector().copy_destination(TrafficClass::HtLd, 1, false, node.now));
}

TEST(PathSet, APathThatHasEndedIsWithdrawnOnceOthersAreUsedToo) {
    Node node;
    prove(node);
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.node().keep_ready(base::seconds(15), node.now);
    while (node.paths.next_probe(node.now)) {
    }
    node.paths.node().remove(1);
    size_t told = 0;
    while (const auto probe = node.paths.next_probe(node.now)) {
        ASSERT_TRUE(probe->announce && probe->announce->withdrawn);
        EXPECT_EQ(probe->announce->path, 1);
        EXPECT_EQ(probe->path, 0);
        ++told;
    }
    EXPECT_EQ(told, 3U);
}

TEST(PathSet, WhatAMoveLeftIsWithdrawnWhenTheNewPathHasAnsweredAndAgainAfterEachAnnouncement) {
    Node node;
    prove(node);
    node.paths.node().keep_ready(base::seconds(15), node.now);
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.node().remove(0);
    node.paths.node().activate(1, node.now);
    for (const size_t expected : {3U, 1U, 1U}) {
        std::optional<wire::Challenge> challenge;
        while (const auto probe = node.paths.next_probe(node.now)) {
            ASSERT_TRUE(probe->announce && probe->announce->active);
            challenge = probe->challenge;
        }
        ASSERT_TRUE(challenge);
        node.now += milliseconds(20);
        node.paths.on_response(space(1), {challenge->token}, node.now);
        size_t withdrawn = 0;
        while (const auto probe = node.paths.next_probe(node.now)) {
            ASSERT_TRUE(probe->announce && probe->announce->withdrawn);
            EXPECT_EQ(probe->announce->path, 0);
            ++withdrawn;
        }
        EXPECT_EQ(withdrawn, expected);
        node.paths.node().announce_again(node.now);
    }
    node.paths.node().add(0, kSnapt, 1500, node.now);
    while (const auto probe = node.paths.next_probe(node.now)) {
        EXPECT_FALSE(probe->announce && probe->announce->withdrawn);
    }
}

}  // namespace
}  // namespace continuo::routing::path_tests
