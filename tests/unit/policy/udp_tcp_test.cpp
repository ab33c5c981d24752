// The rule for throttled UDP: TcpTrial, and PathManager with it and LossWindow.
#include "tests/unit/policy/path_host.hpp"

namespace continuo::policy {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;
using TrialVerdict = TcpTrial::Verdict;
// --- TcpTrial

TrialVerdict judge(uint64_t early, uint64_t late, double udp_bytes_per_s) {
    TimePoint now{seconds(1000)};
    TcpTrial trial;
    PathView tcp;
    trial.begin(1, udp_bytes_per_s, now);
    tcp.down.delivered_bytes = early;
    now += TcpTrial::kTrial / 2;
    EXPECT_EQ(trial.on_time(&tcp, true, now), TrialVerdict::None);
    tcp.down.delivered_bytes += late;
    now += TcpTrial::kTrial / 2;
    const TrialVerdict verdict = trial.on_time(&tcp, true, now);
    EXPECT_FALSE(trial.is_on());
    return verdict;
}

TEST(TcpTrial, TcpHasToCarryHalfAsMuchAgainInTheSecondHalf) {
    EXPECT_EQ(judge(0, 300'000, 100'000), TrialVerdict::Keep);
    EXPECT_EQ(judge(0, 299'000, 100'000), TrialVerdict::Leave);
    EXPECT_EQ(judge(900'000, 299'000, 100'000), TrialVerdict::Leave);
}

TEST(TcpTrial, WithoutAnythingToCarryItHasShownNothing) {
    EXPECT_EQ(judge(0, 0, 0), TrialVerdict::Leave);
}

TEST(TcpTrial, SilenceEndsIt) {
    const TimePoint now{seconds(1000)};
    TcpTrial trial;
    PathView tcp;
    trial.begin(1, 0, now);
    EXPECT_EQ(trial.on_time(&tcp, false, now + milliseconds(1)), TrialVerdict::Leave);
    EXPECT_FALSE(trial.is_on());
}

TEST(TcpTrial, ALateLookLeavesTheSecondHalfItsLength) {
    const TimePoint began{seconds(1000)};
    TcpTrial trial;
    PathView tcp;
    trial.begin(1, 100'000, began);
    const TimePoint half = began + TcpTrial::kTrial + seconds(1);
    tcp.down.delivered_bytes = 900'000;
    EXPECT_EQ(trial.on_time(&tcp, true, half), TrialVerdict::None);
    EXPECT_EQ(trial.next_at(), half + TcpTrial::kTrial / 2);
    EXPECT_EQ(trial.on_time(&tcp, true, half), TrialVerdict::None);
    tcp.down.delivered_bytes += 300'000;
    EXPECT_EQ(trial.on_time(&tcp, true, half + TcpTrial::kTrial / 2), TrialVerdict::Keep);
}

TEST(TcpTrial, AnotherPathOrConnectionIsTriedFromTheStart) {
    for (const bool is_other_uplink : {true, false}) {
        TimePoint now{seconds(1000)};
        TcpTrial trial;
        PathView tcp;
        trial.begin(1, 100'000, now);
        now += TcpTrial::kTrial / 2;
        tcp.down.delivered_bytes = 900'000;
        ASSERT_EQ(trial.on_time(&tcp, true, now), TrialVerdict::None);
        now += seconds(1);
        tcp.uplink = is_other_uplink ? 1 : 0;
        tcp.down.delivered_bytes = is_other_uplink ? 5'000'000 : 0;
        ASSERT_EQ(trial.on_time(&tcp, true, now), TrialVerdict::None);
        EXPECT_EQ(trial.next_at(), now + TcpTrial::kTrial / 2);
        now += TcpTrial::kTrial / 2;
        ASSERT_EQ(trial.on_time(&tcp, true, now), TrialVerdict::None);
        now += TcpTrial::kTrial / 2;
        tcp.down.delivered_bytes += 299'000;
        EXPECT_EQ(trial.on_time(&tcp, true, now), TrialVerdict::Leave);
    }
}

// --- PathManager

// A download through `host`: 1000 datagrams a second by UDP, less `loss`.
struct Download {
    PathHost host;
    double loss = 0;
    bool is_lost_everywhere = false;  // else by the first uplink
    uint64_t tcp_per_s = 1000;

    explicit Download(size_t uplinks) {
        for (uint8_t slot = 0; slot < uplinks; ++slot) {
            host.add(slot);
        }
        host.decide();
        run(seconds(20));
        EXPECT_EQ(host.in_use(), "udp0");
        host.asked.clear();
        host.moves.clear();
    }
    void run(base::Duration span) {
        const TimePoint end = host.now + span;
        while (host.now < end) {
            const auto& active = host.manager.active();
            PathView* view = active ? host.view(active->uplink, active->transport) : nullptr;
            if (view != nullptr) {
                const bool is_udp = active->transport == Transport::Udp;
                const bool is_lost = is_udp && (active->uplink == 0 || is_lost_everywhere);
                const double share = is_lost ? loss : 0;
                const auto lost = static_cast<uint64_t>(100 * share);
                const uint64_t arrived = is_udp ? 100 - lost : tcp_per_s / 10;
                view->down.lost += lost;
                view->down.arrived += arrived;
                view->down.delivered_bytes += 1000 * arrived;
            }
            host.run(milliseconds(100));
        }
    }
};

TEST(PathManager, ThrottledUdpIsLeftForTcpWhichIsKeptIfItCarriesMore) {
    Download download(1);
    const TimePoint since = download.host.now;
    download.loss = 0.9;
    download.run(seconds(3));
    ASSERT_EQ(download.host.in_use(), "tcp0");
    EXPECT_LE(download.host.moves.back().at - since, milliseconds(2200));
    download.run(seconds(50));
    EXPECT_EQ(download.host.in_use(), "tcp0");
    EXPECT_EQ(PathHost::names(download.host.asked, since), "tcp0");  // UDP is not asked
}

// The losses may be those of the other paths.
TEST(PathManager, WhatASessionThatIsSpreadLosesIsNoThrottle) {
    for (const bool is_spread : {true, false}) {
        Download download(1);
        download.loss = 0.9;
        download.host.is_spread = is_spread;
        download.run(seconds(3));
        EXPECT_EQ(download.host.in_use(), is_spread ? "udp0" : "tcp0");
    }
}

// A box lets 20 datagrams a second pass; the sender, which had 1000, tries half as many again.
TEST(PathManager, ACollapsedDownloadIsLeftForTcpWithinThreeSeconds) {
    for (const int64_t into_part_ms : {0, 100, 200, 300, 400}) {
        Download download(1);
        download.run(milliseconds(into_part_ms));
        const TimePoint since = download.host.now;
        for (int64_t at_ms = 0; at_ms < 3000 && download.host.in_use() == "udp0"; at_ms += 100) {
            PathView* view = download.host.view(0, Transport::Udp);
            view->down.lost += at_ms == 0 ? 95 : 1;
            view->down.arrived += at_ms == 0 ? 5 : 2;
            view->down.delivered_bytes += at_ms == 0 ? 5000 : 2000;
            download.host.run(milliseconds(100));
        }
        ASSERT_EQ(download.host.in_use(), "tcp0") << into_part_ms;
        EXPECT_LE(download.host.moves.back().at - since, seconds(3));
    }
}

TEST(PathManager, UdpIsTakenBackAfterAMinuteAndAfterTwoIfItIsStillThrottled) {
    Download download(1);
    download.loss = 0.9;
    for (const int64_t rest_s : {60, 120, 240, 480, 600, 600}) {
        download.run(seconds(5));
        ASSERT_EQ(download.host.in_use(), "tcp0");
        const TimePoint left = download.host.moves.back().at;
        while (download.host.in_use() == "tcp0" && download.host.now - left < seconds(900)) {
            download.run(seconds(1));
        }
        EXPECT_EQ(base::to_ms(download.host.moves.back().at - left) / 1000, rest_s);
    }
}

TEST(PathManager, WhereTcpCarriesLessUdpIsTakenBackAndTcpRests) {
    Download download(1);
    download.loss = 0.3;
    download.tcp_per_s = 100;
    for (const int64_t rest_s : {60, 120}) {
        download.run(seconds(3));
        ASSERT_EQ(download.host.in_use(), "tcp0");
        download.run(seconds(4));
        ASSERT_EQ(download.host.in_use(), "udp0");
        const TimePoint left = download.host.moves.back().at;
        while (download.host.in_use() == "udp0" && download.host.now - left < seconds(900)) {
            download.run(milliseconds(100));
        }
        EXPECT_NEAR(static_cast<double>(base::to_ms(download.host.moves.back().at - left)) / 1000,
                    static_cast<double>(rest_s), 2);
    }
}

TEST(PathManager, SilentTcpEndsItsTrialAtOnce) {
    Download download(1);
    download.loss = 0.5;
    download.run(seconds(3));
    ASSERT_EQ(download.host.in_use(), "tcp0");
    download.tcp_per_s = 0;
    const TimePoint since = download.host.now;
    download.host.fall_silent(0, Transport::Tcp);
    download.run(seconds(1));
    ASSERT_EQ(download.host.in_use(), "udp0");
    EXPECT_LE(download.host.moves.back().at - since, milliseconds(300));
}

TEST(PathManager, ThrottledUdpIsLeftForAnotherUplinkBeforeTcp) {
    Download download(2);
    const TimePoint since = download.host.now;
    download.loss = 0.9;
    download.run(seconds(50));
    EXPECT_EQ(PathHost::names(download.host.moves, since), "udp1");
    download.run(seconds(15));
    EXPECT_EQ(PathHost::names(download.host.moves, since).substr(0, 9), "udp1 udp0");
}

TEST(PathManager, AnotherAddressOfTheThrottledInterfaceIsNoOtherNetwork) {
    Download download(2);
    download.host.uplinks[1].network = download.host.uplinks[0].network;
    download.host.decide();
    const TimePoint since = download.host.now;
    download.loss = 0.9;
    download.run(seconds(20));
    EXPECT_EQ(PathHost::names(download.host.moves, since), "tcp0");
}

// The first answer came by the other uplink, and TCP carries little there.
TEST(PathManager, OnlyTheTcpThatWasTriedRests) {
    Download download(2);
    download.host.way(1, Transport::Udp).answers = false;
    download.host.way(0, Transport::Tcp).answers = false;
    download.loss = 0.9;
    download.tcp_per_s = 20;
    download.run(seconds(3));
    ASSERT_EQ(download.host.in_use(), "tcp1");
    download.run(seconds(4));
    ASSERT_EQ(download.host.in_use(), "udp0");
    EXPECT_GT(download.host.manager.rests_until(1, Transport::Tcp), download.host.now);
    EXPECT_LE(download.host.manager.rests_until(0, Transport::Tcp), download.host.now);
    download.host.way(0, Transport::Tcp).answers = true;
    download.tcp_per_s = 1000;
    download.run(seconds(5));
    EXPECT_EQ(download.host.in_use(), "tcp0");
}

TEST(PathManager, ThrottledUdpWithoutAnythingElseIsKept) {
    Download download(1);
    download.host.tcp_port = 0;
    download.loss = 0.9;
    download.run(seconds(100));
    EXPECT_TRUE(download.host.moves.empty());
}

// Nothing of a class whose mark is dropped gets through, while the path answers.
TEST(PathManager, WhereNothingGetsThroughIsNoThrottle) {
    Download download(1);
    download.loss = 1;
    download.run(seconds(10));
    EXPECT_TRUE(download.host.moves.empty());
}

TEST(PathManager, WhatIsThrottledIsNotLeftForWhatRests) {
    Download download(2);
    download.host.tcp_port = 0;
    download.is_lost_everywhere = true;
    const TimePoint since = download.host.now;
    download.loss = 0.9;
    download.run(seconds(50));
    EXPECT_EQ(PathHost::names(download.host.moves, since), "udp1");
}

}  // namespace
}  // namespace continuo::policy
