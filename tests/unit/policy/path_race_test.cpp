#include "tests/unit/policy/path_host.hpp"

namespace continuo::policy {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

// --- The race

TEST(PathManager, BeginsByThePreferredRouteAndGivesItAHeadStart) {
    PathHost host;
    host.add(0);
    host.add(1);
    host.way(0, Transport::Udp).answers = false;
    const TimePoint began = host.now;
    host.decide();
    EXPECT_EQ(host.in_use(), "udp0");
    host.run(milliseconds(249));
    EXPECT_TRUE(host.asked.empty());
    host.run(milliseconds(751));
    EXPECT_EQ(host.asked.front().at - began, PathManager::kHeadStart);
    EXPECT_EQ(host.in_use(), "udp1");
    EXPECT_LE(host.moves.back().at - began, seconds(1));
}

TEST(PathManager, ASlowPreferredOneIsNotOvertakenWithinItsHeadStart) {
    PathHost host;
    host.add(0);
    host.add(1);
    host.way(0, Transport::Udp).rtt = milliseconds(240);
    host.decide({1});  // whose answer comes first
    host.run(seconds(5));
    EXPECT_EQ(host.moves.size(), 1U);
    EXPECT_EQ(host.in_use(), "udp0");
}

TEST(PathManager, UdpAndTcpTakeTurnsAndLeaveOneAfterTheOther) {
    PathHost host;
    for (uint8_t slot = 0; slot < 3; ++slot) {
        host.add(slot);
        host.way(slot, Transport::Udp).answers = false;
        host.way(slot, Transport::Tcp).answers = false;
    }
    host.is_busy = false;
    const TimePoint began = host.now;
    host.decide();
    host.run(milliseconds(1500));
    EXPECT_EQ(PathHost::names(host.asked, began), "udp1 tcp0 udp2 tcp1 tcp2 udp0");
    for (size_t n = 0; n < 6; ++n) {
        EXPECT_EQ(host.asked[n].at - began, PathManager::kHeadStart * static_cast<int64_t>(n + 1));
    }
}

TEST(PathManager, AnOpenConnectionIsAskedBeforeOthersAreMade) {
    PathHost host;
    host.add(0);
    host.add(1);
    host.way(0, Transport::Udp).answers = false;
    host.way(1, Transport::Udp).answers = false;
    PathView open;
    open.uplink = 1;
    open.transport = Transport::Tcp;
    open.is_validated = true;
    host.views.push_back(open);
    const TimePoint began = host.now;
    host.decide();
    host.run(milliseconds(500));
    EXPECT_EQ(PathHost::names(host.asked, began), "udp1 tcp1");
}

// The SNAPT was reached by the other uplink while the preferred one was tried first.
TEST(PathManager, BeginsByUdpWhereTcpHasJustAnswered) {
    PathHost host;
    host.add(0);
    host.add(1);
    host.way(0, Transport::Udp).answers = false;
    PathView open;
    open.uplink = 1;
    open.transport = Transport::Tcp;
    open.is_validated = true;
    open.answered_at = host.now;
    host.views.push_back(open);
    host.decide();
    EXPECT_EQ(host.in_use(), "udp1");
    host.run(seconds(10));
    EXPECT_EQ(host.moves.size(), 1U);
    EXPECT_EQ(host.in_use(), "udp1");
}

TEST(PathManager, WhereUdpIsBlockedTcpThatHasJustAnsweredFollowsAfterTheHeadStart) {
    PathHost host;
    host.add(0);
    host.way(0, Transport::Udp).answers = false;
    PathView open;
    open.uplink = 0;
    open.transport = Transport::Tcp;
    open.is_validated = true;
    open.answered_at = host.now;
    host.views.push_back(open);
    const TimePoint began = host.now;
    host.decide();
    EXPECT_EQ(host.in_use(), "udp0");
    host.run(seconds(1));
    EXPECT_EQ(host.in_use(), "tcp0");
    EXPECT_EQ(host.moves.back().at - began, PathManager::kHeadStart);
}

// TCP takes over from blocked UDP, and then its uplink fails.
TEST(PathManager, UdpThatLeftItsLastQuestionUnansweredHoldsUpNothing) {
    PathHost host = host_of(3);
    for (uint8_t slot = 0; slot < 3; ++slot) {
        host.way(slot, Transport::Udp).answers = false;
    }
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    const TimePoint since = host.now;
    host.fall_silent(0, Transport::Tcp);
    host.run(PathManager::kHeadStart + milliseconds(20));
    EXPECT_EQ(host.in_use(), "tcp1");
    EXPECT_EQ(host.moves.back().at - since, PathManager::kHeadStart + milliseconds(20));
}

TEST(PathManager, ADoubtOfTcpThatIsOverSoonMakesNoConnection) {
    PathHost host = host_of(2);
    host.way(0, Transport::Udp).answers = false;
    host.way(1, Transport::Udp).answers = false;
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    const TimePoint since = host.now;
    host.fall_silent(0, Transport::Tcp);
    host.run(milliseconds(150));
    host.view(0, Transport::Tcp)->health = recovery::Health::Usable;
    host.recover(0, Transport::Tcp);
    host.run(seconds(1));
    EXPECT_EQ(host.in_use(), "tcp0");
    EXPECT_EQ(PathHost::names(host.asked, since).find("tcp1"), std::string::npos);
}

// Each connection has its head start.
TEST(PathManager, ConnectionsAreMadeOneAfterTheOther) {
    PathHost host = host_of(3);
    for (uint8_t slot = 0; slot < 3; ++slot) {
        host.way(slot, Transport::Udp).answers = false;
        host.way(slot, Transport::Tcp).answers = slot == 0;
    }
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    const TimePoint since = host.now;
    host.fall_silent(0, Transport::Tcp);
    host.run(seconds(3));
    TimePoint last = since - PathManager::kHeadStart;
    for (const PathHost::Asked& each : host.asked) {
        if (each.at >= since && each.candidate.transport == Transport::Tcp) {
            EXPECT_GE(each.at - last, PathManager::kHeadStart);
            last = each.at;
        }
    }
    EXPECT_GT(last, since);
}

}  // namespace
}  // namespace continuo::policy
