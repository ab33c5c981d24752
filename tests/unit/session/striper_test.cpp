#include "common/session/session_paths.hpp"
#include "common/session/session_types.hpp"
#include "tests/support/acknowledged.hpp"

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

// A node's paths, each of which has delivered at some rate.
struct Told {
    base::SeededRandom random{1};
    PathSet paths{Role::Node, random};
    TimePoint now{base::seconds(10)};
    uint32_t next = 0;

    void deliver_at(uint8_t path, uint64_t bytes_per_s, bool is_full) {
        const Endpoint snapt = *Endpoint::parse("203.0.113.9:9347");
        if (!paths.path(path).tuples()[0].is_known()) {
            paths.add(path, snapt, 1500, now);
        }
        const tests::Acknowledged told{paths, 1, {base::TrafficClass::LtLd, path, 0}};
        if (!is_full) {
            paths.on_app_limited();
        }
        told.deliver_at(bytes_per_s, is_full, next, now,
                        [&](base::Duration span) { return now += span; });
        next += 1000;
    }
};

constexpr bool kFull = true;
constexpr bool kAsItCame = false;

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
    Told told;
    told.deliver_at(0, 5'000'000, kAsItCame);
    told.deliver_at(1, 1'000'000, kAsItCame);
    const PathWeights weights = weights_of(told.paths, 0b111);
    EXPECT_EQ(weights[0], weights[1]);
    EXPECT_EQ(weights[0], weights[2]);
}

TEST(Striper, PathsThatWereFullShareByTheirRates) {
    Told told;
    told.deliver_at(0, 5'000'000, kFull);
    told.deliver_at(1, 1'000'000, kFull);
    const PathWeights weights = weights_of(told.paths, 0b11);
    EXPECT_DOUBLE_EQ(weights[0], 5 * weights[1]);
}

TEST(Striper, APathThatWasNeverFullMayBeAsFastAsTheFastest) {
    Told told;
    told.deliver_at(0, 5'000'000, kFull);
    told.deliver_at(1, 1'000'000, kAsItCame);
    PathWeights weights = weights_of(told.paths, 0b11);
    EXPECT_EQ(weights[0], weights[1]);
    told.deliver_at(1, 8'000'000, kAsItCame);
    weights = weights_of(told.paths, 0b11);
    EXPECT_DOUBLE_EQ(weights[1], 8e6 * kUntriedShare) << "and is tried with more";
}

}  // namespace
}  // namespace continuo::session
