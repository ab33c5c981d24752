// What policy::PathManager is told of a session's paths, and how it asks.
#include "cnapt/node/path_choice.hpp"
#include "tests/support/session_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::node {
namespace {

using base::milliseconds;
using base::seconds;
using path::Health;
using policy::Candidate;
using policy::PathView;
using policy::Transport;
using session::PathState;
using tests::SessionPair;
using tests::SimLink;

// A path 1 beside the active path 0.
class PathChoice : public ::testing::Test {
  protected:
    PathChoice() {
        pair_.add_path(1, *base::Endpoint::parse("192.168.2.2:40000"), SimLink{});
        pair_.run_for(seconds(1));
    }
    session::PathSet& paths() { return pair_.node.session->paths(); }
    PathView view(uint8_t slot) const { return view_of_udp(*pair_.node.session, slot); }
    Candidate candidate(uint8_t slot) const { return {slot, pair_.snapt_address, Transport::Udp}; }

    SessionPair pair_{SimLink{}};
};

TEST_F(PathChoice, APathThatAnsweredIsValidatedAndKnowsWhen) {
    paths().add(2, pair_.snapt_address, 1500, pair_.now);
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
    paths().give_up(1);
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
    paths().add(2, pair_.snapt_address, 1500, pair_.now);
    other.uplink = 2;
    ask_path(paths(), other, pair_.now);
    EXPECT_EQ(view(2).port, 443);
    EXPECT_EQ(paths().path(2).state, PathState::Dead);
}

TEST_F(PathChoice, AMoveGoesToThePortThatAnswered) {
    Candidate other = candidate(1);
    other.to.port = 443;
    move_to(paths(), other, pair_.now);
    EXPECT_EQ(paths().active(), uint8_t{1});
    EXPECT_EQ(view(1).port, 443);
}

TEST_F(PathChoice, AConnectionHasAnsweredWhenItWasMade) {
    paths().add(wire::kTcpPath, pair_.snapt_address, 1500, pair_.now);
    const PathView tcp = view_of_tcp(*pair_.node.session, 3, pair_.now - milliseconds(5));
    EXPECT_EQ(tcp.uplink, 3);
    EXPECT_EQ(tcp.transport, Transport::Tcp);
    EXPECT_TRUE(tcp.is_validated);
    EXPECT_EQ(tcp.answered_at, pair_.now - milliseconds(5));
}

}  // namespace
}  // namespace continuo::cnapt::node
