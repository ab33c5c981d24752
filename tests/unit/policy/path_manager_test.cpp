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
    host.view(0, Transport::Udp)->health = path::Health::Usable;
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

TEST(PathManager, WhatAnsweredFromTheFormerAddressIsNoProofAndHasNoPast) {
    PathHost host = host_of(2);
    host.fall_silent(0);
    host.run(milliseconds(20));
    host.recover(0);
    ASSERT_EQ(host.in_use(), "udp1");
    ASSERT_GT(host.manager.rests_until(0, Transport::Udp), host.now);
    const size_t moves = host.moves.size();
    PathView* view = host.view(0, Transport::Udp);
    view->health = path::Health::Usable;
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
    host.view(0, Transport::Udp)->health = path::Health::Doubtful;
    host.decide();
    host.run(seconds(10));
    ASSERT_EQ(host.moves.size(), 1U);
    EXPECT_EQ(host.moves.back().candidate.to.port, 53);
    EXPECT_EQ(host.manager.active(), host.moves.back().candidate);
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

TEST(PathManager, APauseOfTheLinkDoesNotMakeItTcp) {
    PathHost host = host_of(1);
    host.fall_silent(0);
    host.run(milliseconds(20));
    host.view(0, Transport::Udp)->health = path::Health::Usable;  // just after TCP's answer
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
    host.view(0, Transport::Tcp)->has_hole = true;  // short segments are answered
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
    host.view(0, Transport::Tcp)->has_hole = true;
    host.decide();
    host.run(milliseconds(100));
    const TimePoint since = host.now;
    host.view(0, Transport::Tcp)->has_hole = false;
    host.view(0, Transport::Tcp)->opened_at = host.now;
    host.decide();
    host.run(seconds(1));
    EXPECT_EQ(host.in_use(), "tcp0");
    EXPECT_NE(PathHost::names(host.asked, since).find("tcp1"), std::string::npos);
    host.view(0, Transport::Tcp)->has_hole = true;
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
    host.view(0, Transport::Tcp)->health = path::Health::Usable;
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

// --- Backoff

TEST(PathManager, WhatFailedInUseRestsTwiceAsLongEachTime) {
    PathHost host = host_of(2);
    for (const int64_t rest_s : {1, 2, 4, 8, 16, 32, 60, 60}) {
        host.fall_silent(0);
        host.run(milliseconds(20));
        ASSERT_EQ(host.in_use(), "udp1");
        const TimePoint left = host.now;
        host.recover(0);
        host.run(seconds(rest_s) - milliseconds(1));
        EXPECT_EQ(host.in_use(), "udp1");
        host.run(milliseconds(21));
        EXPECT_EQ(host.in_use(), "udp0") << "after " << rest_s;
        EXPECT_EQ(host.moves.back().at - left, seconds(rest_s) + milliseconds(20));
        host.run(seconds(2));
    }
}

TEST(PathManager, WhatRestsIsTakenIfNothingElseAnswers) {
    PathHost host = host_of(2);
    host.tcp_port = 0;
    host.fall_silent(0);
    host.run(milliseconds(20));
    ASSERT_EQ(host.in_use(), "udp1");
    host.recover(0);
    host.fall_silent(1);
    host.run(milliseconds(100));
    EXPECT_EQ(host.in_use(), "udp0");
}

TEST(PathManager, WhatRestsWaitsForAConnectionThatIsBeingMade) {
    for (const bool connects : {true, false}) {
        PathHost host = host_of(2);
        host.way(0, Transport::Tcp).answers = false;
        host.way(1, Transport::Tcp) = {connects, milliseconds(900), 0};
        for (int n = 0; n < 4; ++n) {  // the last rest is 8 s
            host.run(seconds(10));
            ASSERT_EQ(host.in_use(), "udp0");
            host.fall_silent(0);
            host.run(milliseconds(20));
            ASSERT_EQ(host.in_use(), "udp1");
            host.recover(0);
        }
        host.fall_silent(1);
        host.run(milliseconds(900));  // udp0 has answered
        EXPECT_EQ(host.in_use(), "udp1");
        host.run(seconds(4));  // among it a probe time-out of TCP
        EXPECT_EQ(host.in_use(), connects ? "tcp1" : "udp0");
    }
}

TEST(PathManager, OfThoseThatRestTheOneWithTheLeastRestIsTaken) {
    PathHost host = host_of(3);
    host.tcp_port = 0;
    for (int i = 0; i < 4; ++i) {  // 0 has failed more often
        host.fall_silent(0);
        host.run(milliseconds(100));
        ASSERT_EQ(host.in_use(), "udp1");
        if (i < 3) {
            host.recover(0);
            host.run(seconds(10));
            ASSERT_EQ(host.in_use(), "udp0");
        }
    }
    host.fall_silent(1);
    host.run(milliseconds(600));
    ASSERT_EQ(host.in_use(), "udp2");
    host.recover(0);
    host.recover(1);
    host.fall_silent(2);
    host.run(milliseconds(100));
    EXPECT_EQ(host.in_use(), "udp1");
}

TEST(PathManager, TheOtherAddressesOfTheInterfaceRestToo) {
    for (const bool is_beside : {true, false}) {
        PathHost host = host_of(3);
        host.uplinks[1].network = is_beside ? host.uplinks[0].network : 99;
        host.way(1, Transport::Udp).answers = false;
        host.way(0, Transport::Tcp).answers = false;
        host.decide();
        host.fall_silent(0);
        host.run(seconds(1));
        ASSERT_EQ(host.in_use(), "udp2");
        EXPECT_EQ(host.manager.rests_until(1, Transport::Udp) != TimePoint{}, is_beside);
    }
}

TEST(PathManager, AnotherNetworkBehindTheUplinkHasNoPast) {
    for (const bool is_address : {true, false}) {
        PathHost host = host_of(2);
        host.fall_silent(0);
        host.run(milliseconds(20));
        host.recover(0);
        ASSERT_EQ(host.in_use(), "udp1");
        if (is_address) {
            host.uplinks[0].local = *base::IpAddress::parse("192.0.2.7");
        } else {
            host.uplinks[0].can_carry = false;
            host.decide();
            host.uplinks[0].can_carry = true;
        }
        host.decide();
        host.run(milliseconds(20));
        EXPECT_EQ(host.in_use(), "udp0");
    }
}

TEST(PathManager, AConnectionThatWorksForAMomentDoesNotKeepWhatRestsFromBeingAsked) {
    PathHost host = host_of(3);
    for (const uint8_t slot : {uint8_t{1}, uint8_t{2}}) {
        host.way(slot, Transport::Udp).answers = false;
        host.way(slot, Transport::Tcp).answers = false;
    }
    for (int n = 0; n < 4; ++n) {  // the last rest is 8 s
        host.recover(0);
        host.run(seconds(5));
        ASSERT_EQ(host.in_use(), "udp0");
        host.fall_silent(0);
        host.run(milliseconds(700));
        ASSERT_EQ(host.in_use(), "tcp0");
    }
    const TimePoint since = host.now;
    for (int n = 0; n < 16; ++n) {  // a hole, and connections through it
        host.view(0, Transport::Tcp)->has_hole = n % 2 == 0;
        host.decide();
        host.run(milliseconds(n % 2 == 0 ? 260 : 100));
    }
    ASSERT_GT(host.manager.rests_until(0, Transport::Udp), host.now);
    const std::string asked = PathHost::names(host.asked, since);
    EXPECT_NE(asked.find("udp0"), std::string::npos) << asked;
}

}  // namespace
}  // namespace continuo::policy
