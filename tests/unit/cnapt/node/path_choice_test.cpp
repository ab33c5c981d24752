// A session's paths as policy::PathManager is told of them, and its questions.
#include "cnapt/node/path_choice.hpp"
#include "tests/support/acknowledged.hpp"
#include "tests/support/session_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::node {
namespace {

using base::milliseconds;
using base::seconds;
using path::PathState;
using policy::Candidate;
using policy::PathView;
using policy::Transport;
using recovery::Health;
using tests::SessionPair;
using tests::SimLink;

// A path 1 beside the active path 0.
class PathChoice : public ::testing::Test {
  protected:
    PathChoice() {
        pair_.add_path(1, *base::Endpoint::parse("192.168.2.2:40000"), SimLink{});
        pair_.run_for(seconds(1));
    }
    routing::PathSet& paths() { return pair_.node.session->paths(); }
    PathView view(uint8_t slot) const { return view_of_udp(*pair_.node.session, slot); }
    Candidate candidate(uint8_t slot) const { return {slot, pair_.snapt_address, Transport::Udp}; }

    SessionPair pair_{SimLink{}};
};

TEST_F(PathChoice, APathThatAnsweredIsValidatedAndKnowsWhen) {
    paths().node().add(2, pair_.snapt_address, 1500, pair_.now);
    EXPECT_FALSE(view(2).is_validated);
    EXPECT_EQ(view(2).answered_at, base::TimePoint{});
    EXPECT_TRUE(view(0).is_validated);
    EXPECT_EQ(view(0).health, Health::Usable);
    EXPECT_EQ(view(0).port, pair_.snapt_address.port);
    EXPECT_GT(view(0).smoothed_rtt, base::Duration{});
    const base::TimePoint before = pair_.now;
    ask_path(paths(), candidate(1), pair_.now);
    pair_.run_for(seconds(1));
    EXPECT_GT(view(1).answered_at, before);
}

TEST_F(PathChoice, AQuestionToThePathInUseIsAnswered) {
    const base::TimePoint before = pair_.now;
    ask_path(paths(), candidate(0), pair_.now);
    pair_.run_for(seconds(1));
    EXPECT_GT(view(0).answered_at, before);
}

TEST_F(PathChoice, APathGivenUpIsDeadUntilItAnswers) {
    paths().path(1).node().give_up();
    EXPECT_EQ(view(1).health, Health::Dead);
    EXPECT_FALSE(view(1).is_validated);
    ask_path(paths(), candidate(1), pair_.now);
    pair_.run_for(seconds(1));
    EXPECT_EQ(view(1).health, Health::Usable);
    EXPECT_TRUE(view(1).is_validated);
}

TEST_F(PathChoice, ASilentPathIsDoubtful) {
    tests::LinkSettings off = pair_.up_link(0).settings();
    off.is_up = false;
    pair_.up_link(0).change(off, pair_.now);
    ask_path(paths(), candidate(0), pair_.now);
    pair_.run_for(seconds(3));
    EXPECT_NE(view(0).health, Health::Usable);
}

TEST_F(PathChoice, OnlyAPathThatDoesNotAnswerIsAskedAtAnotherPort) {
    ask_path(paths(), candidate(1), pair_.now);
    pair_.run_for(seconds(1));
    Candidate other = candidate(1);
    other.to.port = 443;
    ask_path(paths(), other, pair_.now);
    EXPECT_EQ(view(1).port, pair_.snapt_address.port);
    paths().node().add(2, pair_.snapt_address, 1500, pair_.now);
    other.uplink = 2;
    ask_path(paths(), other, pair_.now);
    EXPECT_EQ(view(2).port, 443);
    EXPECT_EQ(paths().path(2).state(), PathState::Dead);
}

// The path in use hiccups, so a dead one is asked as well, at the same port or another; or there is
// a hint. Its network returns later.
TEST_F(PathChoice, ADeadPathIsFoundByItsAnnouncementsAfterOtherQuestions) {
    for (const auto& [first_asked, port] : {std::pair(seconds(1), pair_.snapt_address.port),
                                            {seconds(40), pair_.snapt_address.port},
                                            {seconds(1), uint16_t{443}}}) {
        tests::LinkSettings settings = pair_.up_link(1).settings();
        settings.is_up = false;
        pair_.up_link(1).change(settings, pair_.now);
        paths().path(1).node().mark_dead(pair_.now);
        pair_.run_for(first_asked);
        Candidate other = candidate(1);
        other.to.port = port;
        ask_path(paths(), other, pair_.now);
        pair_.run_for(seconds(2));
        ask_path(paths(), other, pair_.now);
        pair_.run_for(seconds(70));
        ASSERT_EQ(paths().path(1).state(), PathState::Dead);
        settings.is_up = true;
        pair_.up_link(1).change(settings, pair_.now);
        pair_.run_for(seconds(200));
        EXPECT_EQ(paths().path(1).state(), PathState::Usable)
            << "asked after " << first_asked.count() << " s at port " << port;
    }
}

TEST_F(PathChoice, AMoveGoesToThePortThatAnswered) {
    Candidate other = candidate(1);
    other.to.port = 443;
    move_to(paths(), other, pair_.now);
    EXPECT_EQ(paths().active(), uint8_t{1});
    EXPECT_EQ(view(1).port, 443);
}

TEST_F(PathChoice, NothingMovesToAConnectionThatHasEnded) {
    move_to(paths(), {0, pair_.snapt_address, Transport::Tcp}, pair_.now);
    EXPECT_EQ(paths().active(), uint8_t{0});
}

// A challenge lives for 30 s; a later question is another one.
TEST_F(PathChoice, ADeadPathIsAskedAgainHoweverOldTheLastQuestionIs) {
    tests::LinkSettings off = pair_.up_link(1).settings();
    off.is_up = false;
    pair_.up_link(1).change(off, pair_.now);
    paths().path(1).node().give_up();
    ask_path(paths(), candidate(1), pair_.now);
    pair_.run_for(seconds(31));
    ASSERT_EQ(view(1).health, Health::Dead);
    off.is_up = true;
    pair_.up_link(1).change(off, pair_.now);
    ask_path(paths(), candidate(1), pair_.now);
    pair_.run_for(seconds(1));
    EXPECT_EQ(view(1).health, Health::Usable);
}

// It may be of the port before.
TEST_F(PathChoice, AnAcknowledgementAfterARedirectIsNoAnswerOfTheNewPort) {
    const tests::Acknowledged told{
        paths(), *pair_.node.session->epochs().newest(), {base::TrafficClass::HtHd, 0, 0}};
    for (const bool is_redirected : {false, true}) {
        const uint32_t number = is_redirected ? 2000 : 1000;
        told.send(number, 1, 1400, pair_.now);
        pair_.run_for(milliseconds(1));
        if (is_redirected) {
            base::Endpoint other = pair_.snapt_address;
            other.port = 443;
            paths().node().redirect(other, pair_.now);
        }
        told.acknowledge(number, number, pair_.now);
        EXPECT_EQ(view(0).answered_at == pair_.now, !is_redirected);
    }
    pair_.run_for(seconds(1));
    told.send(3000, 1, 1400, pair_.now);
    pair_.run_for(milliseconds(1));
    told.acknowledge(3000, 3000, pair_.now);
    EXPECT_EQ(view(0).answered_at, pair_.now) << "the new port has answered";
}

TEST_F(PathChoice, AConnectionHasAnsweredWhenItWasMade) {
    paths().node().add(wire::kTcpPath, pair_.snapt_address, 1500, pair_.now);
    const PathView tcp = view_of_tcp(*pair_.node.session, 3, pair_.now - milliseconds(5), false);
    EXPECT_EQ(tcp.uplink, 3);
    EXPECT_EQ(tcp.transport, Transport::Tcp);
    EXPECT_TRUE(tcp.is_validated);
    EXPECT_EQ(tcp.answered_at, pair_.now - milliseconds(5));
    EXPECT_EQ(tcp.health, Health::Usable);
}

TEST_F(PathChoice, AConnectionThatRepeatsTheSameBytesIsDoubtful) {
    paths().node().add(wire::kTcpPath, pair_.snapt_address, 1500, pair_.now);
    EXPECT_EQ(view_of_tcp(*pair_.node.session, 3, pair_.now, true).health, Health::Doubtful);
    paths().path(wire::kTcpPath).node().give_up();
    EXPECT_EQ(view_of_tcp(*pair_.node.session, 3, pair_.now, true).health, Health::Dead);
}

}  // namespace
}  // namespace continuo::cnapt::node
