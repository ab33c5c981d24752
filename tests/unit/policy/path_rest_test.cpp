// PathManager: how long what failed is left alone.
#include "tests/unit/policy/path_host.hpp"

namespace continuo::policy {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

// Chaos with seed 2: the preferred uplink, which had lost the race, had a hole.
TEST(PathManager, AConnectionThatHasWonIsNotDisplacedForAMinute) {
    PathHost host = host_of(2);
    host.way(1, Transport::Udp).answers = false;
    host.way(0, Transport::Tcp).answers = false;
    host.fall_silent(0);
    host.run(seconds(1));
    ASSERT_EQ(host.in_use(), "tcp1");
    const TimePoint since = host.moves.back().at;
    host.way(0, Transport::Tcp).answers = true;
    host.run(since + PathManager::kLongestRest - milliseconds(1) - host.now);
    EXPECT_EQ(PathHost::names(host.asked, since).find("tcp"), std::string::npos);
    host.run(seconds(2));
    EXPECT_EQ(host.in_use(), "tcp0");
}

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

// Chaos with seed 5: the preferred uplink had a hole, and each connection by it took the place of
// the one that worked.
TEST(PathManager, AConnectionThatFailedIsNotMadeAgainForAMinuteBesideOneThatWorks) {
    PathHost host = host_of(2);
    host.way(1, Transport::Udp).answers = false;
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    for (const int64_t rest_s : {60, 120, 240, 480, 600, 600}) {
        host.fall_silent(0, Transport::Tcp);
        host.run(seconds(1));
        ASSERT_EQ(host.in_use(), "tcp1");
        const TimePoint left = host.moves.back().at;
        host.way(0, Transport::Tcp).answers = true;
        host.asked.clear();
        host.run(left + seconds(rest_s) - milliseconds(1) - host.now);
        EXPECT_EQ(PathHost::names(host.asked, left).find("tcp"), std::string::npos);
        host.run(seconds(1));
        EXPECT_EQ(host.in_use(), "tcp0") << "after " << rest_s;
    }
}

// Its answer waits for UDP's.
TEST(PathManager, AConnectionByWhatRestsDoesNotEndOneThatHasAnswered) {
    PathHost host = host_of(2);
    host.way(1, Transport::Udp).answers = false;
    host.way(1, Transport::Tcp).rtt = milliseconds(300);
    host.fall_silent(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "tcp0");
    host.fall_silent(0, Transport::Tcp);
    host.run(seconds(2));
    ASSERT_EQ(host.in_use(), "tcp1");
    host.way(0, Transport::Tcp).answers = true;
    host.recover(0);
    host.run(seconds(5));
    ASSERT_EQ(host.in_use(), "udp0");
    const TimePoint since = host.now;
    host.fall_silent(0);
    host.run(seconds(2));
    EXPECT_EQ(host.in_use(), "tcp1");
    EXPECT_EQ(PathHost::names(host.asked, since).find("tcp0"), std::string::npos);
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
        host.view(0, Transport::Tcp)->health =
            n % 2 == 0 ? recovery::Health::Doubtful : recovery::Health::Usable;
        host.decide();
        host.run(milliseconds(n % 2 == 0 ? 260 : 100));
    }
    ASSERT_GT(host.manager.rests_until(0, Transport::Udp), host.now);
    const std::string asked = PathHost::names(host.asked, since);
    EXPECT_NE(asked.find("udp0"), std::string::npos) << asked;
}

}  // namespace
}  // namespace continuo::policy
