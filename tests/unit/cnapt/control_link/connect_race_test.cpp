#include "cnapt/control_link/connect_race.hpp"
#include "common/io/socket_address.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace continuo::cnapt::control_link {
namespace {

constexpr base::Duration kLong = base::seconds(20);

// A port that takes connections; once it is full it answers no more, like one behind a firewall.
class Port {
  public:
    Port() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const io::SocketAddress any(*base::Endpoint::parse("127.0.0.1:0"));
        EXPECT_EQ(::bind(fd_.value(), any.data(), any.size()), 0);
        EXPECT_EQ(::listen(fd_.value(), 0), 0);
        io::SocketAddress name;
        socklen_t length = io::SocketAddress::capacity();
        EXPECT_EQ(::getsockname(fd_.value(), name.data(), &length), 0);
        endpoint_ = name.endpoint().value_or(base::Endpoint{});
    }
    const base::Endpoint& endpoint() const { return endpoint_; }
    void fill() {
        fillers_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const io::SocketAddress to(endpoint_);
        ASSERT_EQ(::connect(fillers_.back().value(), to.data(), to.size()), 0);
    }
    void empty() {
        fillers_.clear();
        const io::UniqueFd taken(::accept(fd_.value(), nullptr, nullptr));
        EXPECT_TRUE(taken.is_open());
    }

  private:
    io::UniqueFd fd_;
    base::Endpoint endpoint_;
    std::deque<io::UniqueFd> fillers_;
};

class ConnectRaceTest : public ::testing::Test {
  protected:
    void begin(std::vector<ConnectWay> ways, base::Duration timeout) {
        race = std::make_unique<ConnectRace>(
            loop, std::move(ways), 0, timeout,
            ConnectRace::Events{[this](io::UniqueFd fd, size_t, const ConnectWay& way) {
                                    connected.push_back(way);
                                    connections.push_back(std::move(fd));
                                },
                                [this](int) {
                                    is_lost = true;
                                    race.reset();
                                }});
    }
    // True: the race goes on.
    bool goes_on_for(base::Duration span) {
        bool is_over = false;
        io::DeadlineTimer timer(loop, [&] { is_over = true; });
        timer.set(loop.refresh_now() + span);
        loop.run_until([&] { return is_over || is_lost; }, kLong);
        return !is_lost;
    }
    bool wait(const std::function<bool()>& done) { return loop.run_until(done, kLong); }
    static ConnectWay way(const base::Endpoint& to, const char* from = "127.0.0.1") {
        return {to, ControlUplink{"lo", *base::IpAddress::parse(from), false}};
    }

    io::EventLoop loop;
    std::vector<ConnectWay> connected;
    std::vector<io::UniqueFd> connections;
    bool is_lost = false;
    std::unique_ptr<ConnectRace> race;
};

TEST_F(ConnectRaceTest, AWayThatBeginsAnewIsGivenUpAtTheSameTime) {
    Port silent;
    silent.fill();
    const base::Duration timeout = kRepeatDelay + kRepeatDelay / 2;
    begin({way(silent.endpoint())}, timeout);
    ASSERT_TRUE(goes_on_for(kRepeatDelay + base::milliseconds(100)));
    const base::TimePoint again_at = loop.refresh_now();
    race->add({way(silent.endpoint())});
    ASSERT_TRUE(wait([this] { return is_lost; }));
    EXPECT_LT(loop.refresh_now() - again_at, timeout);
}

// TCP itself would send the next one two seconds later (RFC 6298, 5.5).
TEST_F(ConnectRaceTest, AWayThatIsAskedForAgainSendsAtOnce) {
    Port port;
    port.fill();
    begin({way(port.endpoint())}, kLong);
    ASSERT_TRUE(goes_on_for(kRepeatDelay + base::milliseconds(200)));
    port.empty();
    const base::TimePoint again_at = loop.refresh_now();
    race->add({way(port.endpoint())});
    ASSERT_TRUE(wait([this] { return !connected.empty(); }));
    EXPECT_LT(loop.refresh_now() - again_at, base::seconds(1));
}

TEST_F(ConnectRaceTest, AnotherAddressByTheSameUplinkIsAnotherWay) {
    Port silent;
    silent.fill();
    const Port port;
    begin({way(silent.endpoint())}, kLong);
    ASSERT_TRUE(goes_on_for(kRepeatDelay));
    race->add({way(port.endpoint())});
    ASSERT_TRUE(wait([this] { return !connected.empty(); }));
    EXPECT_EQ(connected[0], way(port.endpoint()));
    EXPECT_EQ(race->ways(), (std::vector{way(silent.endpoint()), way(port.endpoint())}));
}

std::vector<ConnectWay> refused_ways() {
    std::vector<ConnectWay> ways;
    for (uint16_t port = 1; port <= kMaxConnectWays; ++port) {
        ways.push_back({{*base::IpAddress::parse("127.0.0.9"), port}, std::nullopt});
    }
    return ways;
}

TEST_F(ConnectRaceTest, WhatIsAskedForHasAPlaceWhereAllAreTaken) {
    for (const bool have_begun : {false, true}) {
        connected.clear();
        Port silent;
        silent.fill();
        const Port port;
        std::vector<ConnectWay> ways = refused_ways();
        ways.front() = way(silent.endpoint());
        begin(ways, kLong);
        ASSERT_TRUE(goes_on_for(have_begun ? static_cast<int>(kMaxConnectWays) * kAttemptDelay
                                           : kAttemptDelay / 2));
        race->add({way(port.endpoint()), way(port.endpoint(), "127.0.0.7")});
        ASSERT_TRUE(wait([this] { return !connected.empty(); }));
        EXPECT_EQ(connected[0], way(port.endpoint()));
        EXPECT_EQ(race->ways().size(), kMaxConnectWays);
        EXPECT_EQ(race->first(), ways.front());
    }
}

}  // namespace
}  // namespace continuo::cnapt::control_link
