#include "common/session/session_paths.hpp"
#include "common/session/session_types.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::Endpoint;
using base::TimePoint;

std::array<int, wire::kMaxPaths>
share_out(Striper& striper, PathMask mask, const PathWeights& weights, int turns) {
    std::array<int, wire::kMaxPaths> given{};
    for (int i = 0; i < turns; ++i) {
        const uint8_t path = striper.next(mask);
        EXPECT_NE(mask & mask_of(path), 0);
        ++given[path];
        striper.on_sent(path, mask, weights, 1400);
    }
    return given;
}

PathWeights even() {
    PathWeights weights;
    weights.fill(1.0);
    return weights;
}

TEST(Striper, PathsAlikeTakeTurns) {
    Striper striper;
    const auto given = share_out(striper, 0b1010, even(), 100);
    EXPECT_EQ(given[1], 50);
    EXPECT_EQ(given[3], 50);
}

TEST(Striper, SharesFollowTheWeights) {
    Striper striper;
    PathWeights weights{};
    weights[0] = 1;
    weights[2] = 3;
    const auto given = share_out(striper, 0b101, weights, 400);
    EXPECT_NEAR(given[0], 100, 2);
    EXPECT_NEAR(given[2], 300, 2);
}

TEST(Striper, APathThatComesInDoesNotMakeUpForWhatItMissed) {
    Striper striper;
    share_out(striper, 0b1, even(), 1000);
    const auto given = share_out(striper, 0b11, even(), 20);
    EXPECT_NEAR(given[0], 10, 1);
    EXPECT_NEAR(given[1], 10, 1);
}

// A node's paths, each of which is told of one second.
struct Reported {
    base::SeededRandom random{1};
    PathSet paths{Role::Node, random};
    TimePoint now{base::seconds(10)};
    uint64_t next = 0;

    // `over`: the time in which it was sent; one that is shorter fills the path.
    void tell_rate(uint8_t path, uint64_t bytes_per_s, base::Duration over) {
        const Endpoint snapt = *Endpoint::parse("203.0.113.9:9347");
        if (!paths.path(path).tuples[0].is_known) {
            paths.add(path, snapt, 1500, now);
        }
        wire::Report report;
        report.space.path = path;
        report.interval_ms = 1000;
        report.datagrams = 20;
        report.bytes = bytes_per_s - report.datagrams * outer_overhead(snapt.address);
        paths.on_numbered(report.space, 1, next, bytes_per_s, true, now);
        now += over;
        next += report.datagrams;
        paths.on_numbered(report.space, 1, next, bytes_per_s / 2, true, now);  // not there yet
        report.highest = static_cast<uint32_t>(next - 1);
        paths.on_report(1, report, path);
        paths.on_reports_read(now);
    }
};

constexpr base::Duration kBurst = base::milliseconds(100);
constexpr base::Duration kAsItCame = base::seconds(1);

TEST(Striper, WhatOthersChoseIsNotMadeUpFor) {
    PathWeights alike{};
    alike.fill(1.0);
    Striper striper;
    static_cast<void>(striper.next(0b11));
    striper.on_sent(0, 0b11, alike, 100'000);
    EXPECT_EQ(striper.next(0b11), 1);
    striper.begin_anew();
    EXPECT_EQ(striper.next(0b11), 0) << "both begin at nothing";
}

TEST(Striper, PathsThatWereNeverFullAreAlike) {
    Reported reported;
    reported.tell_rate(0, 5'000'000, kAsItCame);
    reported.tell_rate(1, 1'000'000, kAsItCame);
    const PathWeights weights = weights_of(reported.paths, 0b111);
    EXPECT_EQ(weights[0], weights[1]);
    EXPECT_EQ(weights[0], weights[2]);
}

TEST(Striper, PathsThatWereFullShareByTheirRates) {
    Reported reported;
    reported.tell_rate(0, 5'000'000, kBurst);
    reported.tell_rate(1, 1'000'000, kBurst);
    const PathWeights weights = weights_of(reported.paths, 0b11);
    EXPECT_DOUBLE_EQ(weights[0], 5 * weights[1]);
}

TEST(Striper, APathThatWasNeverFullMayBeAsFastAsTheFastest) {
    Reported reported;
    reported.tell_rate(0, 5'000'000, kBurst);
    reported.tell_rate(1, 1'000'000, kAsItCame);
    PathWeights weights = weights_of(reported.paths, 0b11);
    EXPECT_EQ(weights[0], weights[1]);
    reported.tell_rate(1, 8'000'000, kAsItCame);
    weights = weights_of(reported.paths, 0b11);
    EXPECT_DOUBLE_EQ(weights[1], weights[0] * 8 / 5 * kUntriedShare) << "and is tried with more";
}

}  // namespace
}  // namespace continuo::session
