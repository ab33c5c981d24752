#include "tests/unit/policy/path_host.hpp"

namespace continuo::policy {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

TEST(PathManager, WhilePacketsWaitForUdpItIsAskedEachSecondAndOtherwiseEverMoreRarely) {
    for (const bool is_busy : {true, false}) {
        PathHost host = host_of(1);
        host.fall_silent(0);
        host.run(seconds(5));
        ASSERT_EQ(host.in_use(), "tcp0");
        host.is_busy = is_busy;
        host.decide();
        const size_t before = host.asked.size();
        host.run(seconds(600));
        EXPECT_EQ(host.asked.size() - before > 590, is_busy);
        EXPECT_EQ(host.asked.size() - before < 18, !is_busy);
    }
}

TEST(PathManager, WhenNothingWorksTcpIsConnectedMoreOftenWhilePacketsWait) {
    for (const bool is_busy : {true, false}) {
        PathHost host = host_of(1);
        host.way(0, Transport::Tcp).answers = false;
        host.fall_silent(0);
        host.is_busy = is_busy;
        host.run(seconds(100));
        const TimePoint since = host.now;
        host.run(seconds(100));
        const auto attempts =
            std::count_if(host.asked.begin(), host.asked.end(), [&](const PathHost::Asked& each) {
                return each.at > since && each.candidate.transport == Transport::Tcp;
            });
        EXPECT_EQ(attempts >= 9, is_busy);
        EXPECT_LE(attempts, 11);
    }
}

TEST(PathManager, PacketsThatWaitAfterAPauseDoNotInheritTheIntervals) {
    for (const int64_t pause_ms : {1000, 2000, 4000, 8000}) {
        PathHost host = host_of(1);
        host.way(0, Transport::Tcp).answers = false;
        host.fall_silent(0);
        host.run(seconds(100));
        host.is_busy = false;
        host.decide();
        host.run(milliseconds(pause_ms));
        host.recover(0, Transport::Tcp);  // UDP stays blocked
        const TimePoint since = host.now;
        host.is_busy = true;
        host.decide();
        host.run(seconds(1));
        ASSERT_EQ(host.in_use(), "tcp0") << pause_ms;
        EXPECT_LE(host.moves.back().at - since, 2 * PathManager::kHeadStart);
    }
}

TEST(PathManager, PacketsNowAndThenAskEachCandidateOnceASecondAtMost) {
    PathHost host = host_of(1);
    host.way(0, Transport::Tcp).answers = false;
    host.fall_silent(0);
    const TimePoint since = host.now;
    for (int n = 0; n < 50; ++n) {
        host.is_busy = n % 2 == 0;
        host.decide();
        host.run(milliseconds(200));
    }
    const auto attempts =
        std::count_if(host.asked.begin(), host.asked.end(), [&](const PathHost::Asked& each) {
            return each.at > since && each.candidate.transport == Transport::Tcp;
        });
    EXPECT_LE(attempts, 10);
}

TEST(PathManager, EachQuestionWithoutAnAnswerTakesTheNextPort) {
    PathHost host = host_of(1);
    host.udp_ports = {9347, 443, 53};
    host.tcp_port = 0;
    host.way(0, Transport::Udp).port = 53;
    const TimePoint since = host.now;
    host.view(0, Transport::Udp)->health = recovery::Health::Doubtful;
    host.decide();
    host.run(seconds(10));
    std::vector<uint16_t> ports;
    for (const PathHost::Asked& each : host.asked) {
        if (each.at > since) {
            ports.push_back(each.candidate.to.port);
        }
    }
    EXPECT_EQ(ports, (std::vector<uint16_t>{9347, 443, 53}));
    EXPECT_EQ(host.view(0, Transport::Udp)->health, recovery::Health::Usable);
}

// Each trouble asks all others at once: more often than a port has time for its answer.
TEST(PathManager, TroublesThatFollowSoonDoNotKeepTheNextPortFromBeingAsked) {
    PathHost host = host_of(3);
    host.udp_ports = {9347, 443};
    host.tcp_port = 0;
    host.fall_silent(0);
    host.way(0, Transport::Udp) = {true, milliseconds(20), 443};
    host.run(milliseconds(300));
    ASSERT_EQ(host.in_use(), "udp1");
    uint8_t silent = 1;
    for (int n = 0; n < 10 && host.in_use() != "udp0"; ++n) {
        host.fall_silent(silent);
        silent = silent == 1 ? 2 : 1;  // answers, and falls silent when it is in use
        host.recover(silent);
        host.run(milliseconds(600));
    }
    EXPECT_EQ(host.in_use(), "udp0");
}

TEST(PathManager, NewsOfAnUplinkAsksAtOnce) {
    PathHost host = host_of(2);
    host.fall_silent(0);
    host.run(seconds(100));
    ASSERT_EQ(host.in_use(), "udp1");
    host.recover(0);
    const TimePoint since = host.now;
    host.decide({0});
    EXPECT_EQ(PathHost::names(host.asked, since), "udp0");
    host.run(milliseconds(20));
    EXPECT_EQ(host.in_use(), "udp0");
}

TEST(PathManager, AnotherConnectionIsMadeAsSoonAsTheOneThatWasAskedIsDead) {
    PathHost host = host_of(2);
    host.way(1, Transport::Udp).answers = false;
    PathView open;
    open.uplink = 1;
    open.transport = Transport::Tcp;
    open.is_validated = true;
    host.views.push_back(open);
    host.way(0, Transport::Tcp).answers = false;
    host.way(1, Transport::Tcp).answers = false;  // a NAT has forgotten it
    host.fall_silent(0);
    host.run(milliseconds(1800));  // asked twice
    host.way(1, Transport::Tcp).answers = true;
    host.view(1, Transport::Tcp)->health = recovery::Health::Doubtful;
    const TimePoint since = host.now;
    host.decide();
    host.run(seconds(1));
    EXPECT_EQ(host.in_use(), "tcp1");
    ASSERT_FALSE(host.moves.empty());
    EXPECT_LE(host.moves.back().at - since, PathManager::kHeadStart + milliseconds(40));
}

TEST(PathManager, HintsThatComeOftenAskOnceASecond) {
    PathHost host = host_of(2);
    host.udp_ports = {9347, 443, 53};
    host.way(0, Transport::Udp).rtt = milliseconds(300);
    const TimePoint since = host.now;
    for (int n = 0; n < 4900; ++n) {
        host.decide({0});
        host.run(milliseconds(1));
    }
    ASSERT_EQ(host.asked.size(), 5U);
    EXPECT_EQ(PathHost::names(host.asked, since), "udp0 udp0 udp0 udp0 udp0");
    for (const PathHost::Asked& each : host.asked) {
        EXPECT_EQ(each.candidate.to.port, 9347);
    }
    EXPECT_TRUE(host.moves.empty());
}

TEST(PathManager, AHintSoonAfterAQuestionAsksOnceMore) {
    for (const int64_t after_ms : {1, 100}) {
        PathHost host = host_of(2);
        host.way(1, Transport::Udp).answers = false;
        host.fall_silent(0);  // asks udp1
        const TimePoint asked_at = host.asked.back().at;
        ASSERT_EQ(PathHost::names(host.asked, asked_at), "udp1");
        host.run(milliseconds(after_ms));
        host.way(1, Transport::Udp).answers = true;
        host.decide({1});
        host.run(milliseconds(300));
        EXPECT_EQ(PathHost::names(host.asked, asked_at + PathManager::kHeadStart), "udp1 tcp0");
        EXPECT_EQ(host.in_use(), "udp1");
        ASSERT_FALSE(host.moves.empty());
        EXPECT_LE(host.moves.back().at - asked_at, PathManager::kHeadStart + milliseconds(20));
    }
}

TEST(PathManager, AnEarlyQuestionByAHintKeepsThePort) {
    PathHost host = host_of(2);
    host.udp_ports = {9347, 443};
    host.way(1, Transport::Udp).answers = false;
    host.fall_silent(0);
    host.decide({1});
    host.run(milliseconds(1700));
    std::vector<uint16_t> ports;
    for (const PathHost::Asked& each : host.asked) {
        if (PathHost::name(each.candidate) == "udp1") {
            ports.push_back(each.candidate.to.port);
        }
    }
    EXPECT_EQ(ports, (std::vector<uint16_t>{9347, 9347, 443}));
}

// A heartbeat of a program each five seconds.
TEST(PathManager, PacketsNowAndThenDoNotBeginTheIntervalsAnewWhileAWayWorks) {
    PathHost host = host_of(2);
    for (const uint8_t slot : {uint8_t{0}, uint8_t{1}}) {
        host.way(slot, Transport::Udp).answers = false;
    }
    host.way(0, Transport::Tcp).answers = false;
    host.fall_silent(0);
    host.run(seconds(20));
    ASSERT_EQ(host.in_use(), "tcp1");
    const TimePoint since = host.now;
    for (int n = 0; n < 60; ++n) {
        host.is_busy = true;
        host.decide();
        host.run(seconds(1));
        host.is_busy = false;
        host.decide();
        host.run(seconds(4));
    }
    const auto attempts =
        std::count_if(host.asked.begin(), host.asked.end(), [&](const PathHost::Asked& each) {
            return each.at > since && PathHost::name(each.candidate) == "tcp0";
        });
    EXPECT_LE(attempts, 9);  // 300 s, by intervals that double to 60 s
}

TEST(PathManager, AWeakSignalCostsAnIdleNodeNothing) {
    PathHost host = host_of(2);
    host.is_busy = false;
    host.uplinks[0].is_weak = true;
    const TimePoint since = host.now;
    host.decide();
    host.run(seconds(100));
    EXPECT_EQ(PathHost::names(host.asked, since), "");
}

TEST(PathManager, AWeakSignalHasTheOthersReady) {
    PathHost host = host_of(2);
    host.uplinks[0].is_weak = true;
    const TimePoint since = host.now;
    host.decide();
    host.run(milliseconds(100));
    EXPECT_EQ(PathHost::names(host.asked, since), "udp1");
    for (int n = 0; n < 600; ++n) {
        host.run(milliseconds(100));
        ASSERT_LE(host.now - host.view(1, Transport::Udp)->answered_at,
                  PathManager::kProofLifetime);
    }
    EXPECT_EQ(PathHost::names(host.asked, since).find("tcp"), std::string::npos);
    EXPECT_TRUE(host.moves.empty());
}

// A connection would displace the one that is open.
TEST(PathManager, AWeakSignalAsksAnOpenConnectionAndMakesNone) {
    PathHost host = host_of(2);
    host.uplinks[0].is_weak = true;
    host.views.push_back({});
    host.views.back().uplink = 1;
    host.views.back().transport = Transport::Tcp;
    host.views.back().is_validated = true;
    const TimePoint since = host.now;
    host.run(seconds(1));
    host.decide();
    host.run(seconds(60));
    const std::string asked = PathHost::names(host.asked, since);
    EXPECT_NE(asked.find("tcp1"), std::string::npos);
    EXPECT_EQ(asked.find("tcp0"), std::string::npos);
}

TEST(PathManager, AWorkingBestPathAsksNothingAndNeedsNoDeadline) {
    PathHost host = host_of(3);
    host.run(seconds(1000));
    EXPECT_TRUE(host.asked.empty());
    const PathPlan plan = host.manager.decide(
        {host.uplinks, host.views, host.udp_ports, host.tcp_port, {}, false}, host.now);
    EXPECT_EQ(plan.next_at, base::kNever);
}

}  // namespace
}  // namespace continuo::policy
