#include "tests/unit/policy/path_host.hpp"

namespace continuo::policy {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

// --- The choice

TEST(PathManager, AWorkingPathIsLeftForAPreferredOneThatAnswers) {
    PathHost host = host_of(2);
    const TimePoint since = host.now;
    host.add(2).cost = 0;
    host.uplinks[0].cost = 1;
    host.decide();
    EXPECT_EQ(host.in_use(), "udp0");
    EXPECT_EQ(PathHost::names(host.asked, since), "udp2");
    host.run(milliseconds(20));
    EXPECT_EQ(host.in_use(), "udp2");
    host.run(seconds(100));
    EXPECT_EQ(host.moves.size(), 1U);
}

TEST(PathManager, AnOldAnswerIsNoProof) {
    PathHost host = host_of(2);
    host.uplinks[1].cost = 0;
    host.uplinks[0].cost = 1;
    PathView known;
    known.uplink = 1;
    known.is_validated = true;
    known.answered_at = host.now - seconds(3);
    host.views.push_back(known);
    host.decide();
    EXPECT_EQ(host.in_use(), "udp0");
    host.view(1, Transport::Udp)->answered_at = host.now - seconds(1);
    host.decide();
    EXPECT_EQ(host.in_use(), "udp1");
}

TEST(PathManager, ASilentPathIsLeftForTheFirstAnswerSinceThen) {
    PathHost host = host_of(2);
    PathView lately;
    lately.uplink = 1;
    lately.is_validated = true;
    lately.answered_at = host.now;
    host.views.push_back(lately);
    host.run(milliseconds(1));
    const TimePoint since = host.now;
    host.fall_silent(0);
    EXPECT_EQ(host.in_use(), "udp0");  // a pause of both would look the same
    EXPECT_EQ(PathHost::names(host.asked, since), "udp1");
    host.run(milliseconds(20));
    EXPECT_EQ(host.in_use(), "udp1");
}

TEST(PathManager, ASilentPathThatAnswersAgainIsKept) {
    PathHost host = host_of(2);
    host.fall_silent(0);
    host.run(milliseconds(10));
    host.view(0, Transport::Udp)->health = recovery::Health::Usable;
    host.decide();
    host.run(seconds(100));
    EXPECT_EQ(host.in_use(), "udp0");
    EXPECT_TRUE(host.moves.empty());
}

TEST(PathManager, AnUplinkWithoutCarrierOrRouteIsLeftAtOnce) {
    for (const bool has_carrier : {true, false}) {
        PathHost host = host_of(2);
        host.uplinks[0].can_carry = has_carrier;
        host.uplinks[0].has_route = !has_carrier;
        host.decide();
        EXPECT_EQ(host.in_use(), "udp1");
    }
}

TEST(PathManager, WithoutAnotherRouteItStays) {
    PathHost host = host_of(2);
    for (UplinkFacts& uplink : host.uplinks) {
        uplink.has_route = false;
    }
    host.decide();
    EXPECT_EQ(host.in_use(), "udp0");
}

TEST(PathManager, ATunnelMustAnswerFirst) {
    PathHost host = host_of(2);
    host.uplinks[1].must_answer_first = true;
    host.uplinks[0].can_carry = false;
    const TimePoint since = host.now;
    host.decide();
    EXPECT_EQ(host.in_use(), "udp0");
    host.run(milliseconds(20));
    EXPECT_EQ(PathHost::names(host.asked, since), "udp1");
    EXPECT_EQ(host.in_use(), "udp1");
}

TEST(PathManager, AnotherAddressOfTheSnaptIsAnnounced) {
    PathHost host = host_of(2);
    host.udp_ports = {9347, 443};
    const auto other = *base::IpAddress::parse("198.51.100.3");
    host.uplinks[0].remote = other;
    host.decide();
    ASSERT_EQ(host.moves.size(), 1U);
    EXPECT_EQ(host.moves.back().candidate, (Candidate{0, {other, 9347}, Transport::Udp}));
    EXPECT_EQ(host.manager.active(), host.moves.back().candidate);
    host.view(0, Transport::Udp)->is_validated = false;  // another tuple
    host.decide();
    host.run(seconds(100));
    EXPECT_EQ(host.moves.size(), 1U);
    EXPECT_EQ(host.in_use(), "udp0");
}

TEST(PathManager, AnotherAddressThatDoesNotAnswerIsLeftAfterItsHeadStart) {
    PathHost host = host_of(2);
    host.uplinks[0].remote = *base::IpAddress::parse("198.51.100.3");
    host.way(0, Transport::Udp).answers = false;
    const TimePoint since = host.now;
    host.decide();
    host.view(0, Transport::Udp)->is_validated = false;
    host.decide();
    host.run(PathManager::kHeadStart - milliseconds(1));
    EXPECT_EQ(PathHost::names(host.asked, since), "");
    host.run(milliseconds(21));
    EXPECT_EQ(host.in_use(), "udp1");
}

// There is no path to activate before a connection is made (it aborted).
TEST(PathManager, AnotherAddressOfTheSnaptWhileNoConnectionIsOpenIsNotActivated) {
    PathHost host = host_of(1);
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    host.way(0, Transport::Tcp).answers = false;
    host.views.erase(host.views.begin() + (host.view(0, Transport::Tcp) - host.views.data()));
    host.decide();
    const size_t moves = host.moves.size();
    host.uplinks[0].remote = *base::IpAddress::parse("198.51.100.3");
    host.decide();
    EXPECT_EQ(host.moves.size(), moves);
    EXPECT_EQ(host.in_use(), "tcp0");
    EXPECT_EQ(host.manager.active()->to.address, host.uplinks[0].remote);
}

TEST(PathManager, AWayThatLosesItsProofIsNotLeftForAnAnswerFromBefore) {
    PathHost host = host_of(2);
    PathView known;
    known.uplink = 1;
    known.is_validated = true;
    known.answered_at = host.now;  // a minute before
    host.views.push_back(known);
    host.way(1, Transport::Udp).answers = false;
    host.run(seconds(60));
    host.view(0, Transport::Udp)->is_validated = false;
    host.decide();
    host.run(PathManager::kHeadStart);
    EXPECT_EQ(host.in_use(), "udp0");
}

TEST(PathManager, APortThatTheSnaptHasNoMoreIsLeft) {
    PathHost host = host_of(1);
    host.udp_ports = {443};
    host.decide();
    ASSERT_EQ(host.moves.size(), 1U);
    EXPECT_EQ(host.moves.back().candidate.to.port, 443);
    host.view(0, Transport::Udp)->port = 443;
    host.run(seconds(10));
    EXPECT_EQ(host.moves.size(), 1U);
}

TEST(PathManager, ANewWayBeginsAtThePortThatGotThrough) {
    PathHost host;
    host.udp_ports = {9347, 443};
    host.known_port = 443;
    host.add(0);
    host.decide();
    ASSERT_EQ(host.moves.size(), 1U);
    EXPECT_EQ(host.moves.back().candidate.to.port, 443);
}

TEST(PathManager, WhatAnsweredFromTheFormerAddressIsNoProofAndHasNoPast) {
    PathHost host = host_of(2);
    host.fall_silent(0);
    host.run(milliseconds(20));
    host.recover(0);
    ASSERT_EQ(host.in_use(), "udp1");
    ASSERT_GT(host.manager.rests_until(0, Transport::Udp), host.now);
    const size_t moves = host.moves.size();
    PathView* view = host.view(0, Transport::Udp);
    view->health = recovery::Health::Usable;
    view->answered_at = host.now;
    host.uplinks[0].remote = *base::IpAddress::parse("198.51.100.3");
    host.decide();
    EXPECT_LE(host.manager.rests_until(0, Transport::Udp), host.now);
    EXPECT_EQ(host.moves.size(), moves);
    host.run(PathManager::kFirstRest + milliseconds(20));
    EXPECT_EQ(host.in_use(), "udp0");
    EXPECT_EQ(host.moves.back().candidate.to.address, host.uplinks[0].remote);
}

TEST(PathManager, AnotherPortThatAnswersIsActivated) {
    PathHost host = host_of(1);
    host.udp_ports = {9347, 443, 53};
    host.tcp_port = 0;
    host.way(0, Transport::Udp).port = 53;
    host.view(0, Transport::Udp)->health = recovery::Health::Doubtful;
    host.decide();
    host.run(seconds(10));
    ASSERT_EQ(host.moves.size(), 1U);
    EXPECT_EQ(host.moves.back().candidate.to.port, 53);
    EXPECT_EQ(host.manager.active(), host.moves.back().candidate);
}

// What was sent to the former port is still owed (schedule 20371 of the simulation).
TEST(PathManager, AnotherPortThatAnswersIsActivatedWhileTheWayIsDoubtful) {
    PathHost host = host_of(1);
    host.udp_ports = {9347, 443};
    host.tcp_port = 0;
    host.fall_silent(0);
    host.run(seconds(3));
    PathView* view = host.view(0, Transport::Udp);
    ASSERT_EQ(view->health, recovery::Health::Doubtful);
    ASSERT_TRUE(host.moves.empty());
    view->port = 443;
    view->answered_at = host.now;
    host.decide();
    ASSERT_EQ(host.moves.size(), 1U);
    EXPECT_EQ(host.moves.back().candidate.to.port, 443);
}

// --- UDP before TCP

TEST(PathManager, TcpTakesOverAProbeTimeoutAfterItsAnswer) {
    PathHost host = host_of(1);
    host.way(0, Transport::Udp).rtt = milliseconds(100);
    host.view(0, Transport::Udp)->smoothed_rtt = milliseconds(100);
    host.view(0, Transport::Udp)->probe_timeout = milliseconds(300);
    const TimePoint since = host.now;
    host.fall_silent(0);
    host.run(milliseconds(319));
    EXPECT_EQ(host.in_use(), "udp0");
    host.run(milliseconds(1));
    EXPECT_EQ(host.in_use(), "tcp0");
    EXPECT_EQ(host.moves.back().at - since, milliseconds(320));
}

// The control connection is open, and nothing is measured yet.
TEST(PathManager, AtTheStartUdpHasAnInitialTimeoutAfterTcp) {
    for (const bool answers : {true, false}) {
        PathHost host;
        host.add(0);
        host.way(0, Transport::Udp) = {answers, milliseconds(700), 0};
        host.way(0, Transport::Tcp).rtt = milliseconds(700);
        PathView tcp;
        tcp.transport = Transport::Tcp;
        tcp.is_validated = true;
        tcp.answered_at = host.now;
        host.views.push_back(tcp);
        PathView udp;
        udp.probe_timeout = seconds(1);
        host.views.push_back(udp);
        host.decide();
        host.run(seconds(3));
        EXPECT_EQ(host.in_use(), answers ? "udp0" : "tcp0");
        EXPECT_EQ(host.moves.size(), answers ? 1U : 2U);
    }
}

TEST(PathManager, TheQueuesOfTcpsLastStayDoNotKeepDataOnSilentUdp) {
    PathHost host = host_of(1);
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    host.recover(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "udp0");
    host.way(0, Transport::Tcp).rtt = milliseconds(300);
    host.view(0, Transport::Tcp)->smoothed_rtt = milliseconds(300);
    host.view(0, Transport::Tcp)->probe_timeout = milliseconds(900);
    const TimePoint since = host.now;
    host.fall_silent(0);
    host.run(seconds(2));
    EXPECT_EQ(host.in_use(), "tcp0");
    EXPECT_EQ(host.moves.back().at - since, milliseconds(300 + 60));  // its answer, UDP's PTO
}

TEST(PathManager, APauseOfTheLinkDoesNotMakeItTcp) {
    PathHost host = host_of(1);
    host.fall_silent(0);
    host.run(milliseconds(20));
    host.view(0, Transport::Udp)->health = recovery::Health::Usable;  // just after TCP's answer
    host.decide();
    host.run(seconds(10));
    EXPECT_TRUE(host.moves.empty());
}

TEST(PathManager, UdpByAnotherUplinkComesBeforeTcp) {
    PathHost host = host_of(2);
    host.way(1, Transport::Udp).rtt = milliseconds(40);
    const TimePoint since = host.now;
    host.fall_silent(0);
    host.run(seconds(20));
    EXPECT_EQ(PathHost::names(host.moves, since), "udp1");
}

TEST(PathManager, UdpIsTakenBackFromTcp) {
    PathHost host = host_of(1);
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    host.recover(0);
    host.run(PathManager::kFirstRest + milliseconds(20));
    EXPECT_EQ(host.in_use(), "udp0");
}

TEST(PathManager, AHoleOnTcpsUplinkIsLeft) {
    PathHost host = host_of(2);
    host.way(0, Transport::Udp).answers = false;
    host.way(1, Transport::Udp).answers = false;
    host.way(1, Transport::Tcp).rtt = milliseconds(60);  // a connection
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    const TimePoint since = host.now;
    host.view(0, Transport::Tcp)->health = recovery::Health::Doubtful;
    host.view(0, Transport::Tcp)->answered_at = host.now;
    host.decide();
    host.run(seconds(1));
    EXPECT_EQ(host.in_use(), "tcp1");
    EXPECT_EQ(host.moves.back().at >= since, true);
    EXPECT_GT(host.manager.rests_until(0, Transport::Tcp), since);
}

TEST(PathManager, TheRaceGoesOnWhileAConnectionMadeThroughAHoleWorks) {
    PathHost host = host_of(2);
    host.way(1, Transport::Udp).answers = false;
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    host.view(0, Transport::Tcp)->health = recovery::Health::Doubtful;
    host.decide();
    host.run(milliseconds(100));
    const TimePoint since = host.now;
    host.view(0, Transport::Tcp)->health = recovery::Health::Usable;
    host.view(0, Transport::Tcp)->opened_at = host.now;
    host.decide();
    host.run(seconds(1));
    EXPECT_EQ(host.in_use(), "tcp0");
    EXPECT_NE(PathHost::names(host.asked, since).find("tcp1"), std::string::npos);
    host.view(0, Transport::Tcp)->health = recovery::Health::Doubtful;
    host.decide();
    EXPECT_EQ(host.in_use(), "tcp1");
}

// One by another uplink would take its place.
TEST(PathManager, NoConnectionIsMadeBesideOneThatRecovered) {
    PathHost host = host_of(2);
    host.way(1, Transport::Udp).answers = false;
    host.way(1, Transport::Tcp).answers = false;
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    host.has_ended_attempts = false;
    host.fall_silent(0, Transport::Tcp);
    host.run(milliseconds(600));
    EXPECT_FALSE(host.has_ended_attempts);
    host.view(0, Transport::Tcp)->health = recovery::Health::Usable;
    host.decide();
    EXPECT_TRUE(host.has_ended_attempts);
    const TimePoint since = host.now;
    host.run(seconds(1));
    EXPECT_EQ(host.in_use(), "tcp0");
    EXPECT_EQ(PathHost::names(host.asked, since).find("tcp"), std::string::npos);
}

TEST(PathManager, AMoveEndsAttemptsToConnect) {
    PathHost host = host_of(2);
    host.way(0, Transport::Tcp).answers = false;
    host.fall_silent(0);
    EXPECT_FALSE(host.has_ended_attempts);
    host.run(milliseconds(100));
    EXPECT_EQ(host.in_use(), "udp1");
    EXPECT_TRUE(host.has_ended_attempts);
}

TEST(PathManager, AConnectionThatEndedIsTheNextToBeMade) {
    PathHost host = host_of(2);
    host.way(1, Transport::Udp).answers = false;
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    host.run(milliseconds(1));
    const TimePoint since = host.now;
    const size_t moves = host.moves.size();
    host.views.erase(host.views.begin() + (host.view(0, Transport::Tcp) - host.views.data()));
    host.decide();
    host.run(PathManager::kHeadStart);  // after the last question
    EXPECT_EQ(PathHost::names(host.asked, since).substr(0, 4), "tcp0");
    EXPECT_EQ(host.in_use(), "tcp0");
    EXPECT_EQ(host.moves.size(), moves);
}

}  // namespace
}  // namespace continuo::policy
