// Random schedules of trouble in virtual time, in any mode of paths, with one to three uplinks:
// loss, reordering, duplication, narrow links, blackouts of one direction or both, moves with and
// without a moment on two uplinks, NAT rebinding, smaller MTUs, re-keys that one end gets late or
// never, restarts of either end, and datagrams of a stranger. Whatever comes, nothing is delivered
// twice or altered, no (key, space, sequence) seals twice, a stranger changes nothing, no flow is
// forgotten or waits longer than StallWatch allows, and when the trouble is over everything
// arrives. CONTINUO_SCHEDULES (default 1000; 63 with sanitizers) and CONTINUO_FIRST_SCHEDULE
// choose the seeds; a failure names its own.
#include "tests/sim/schedule.hpp"
#include "tests/support/seeds.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

uint64_t number_from(const char* name, uint64_t fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

void run(Schedule& schedule, uint64_t seed) {
    schedule.trouble();
    schedule.recover();
    schedule.finish();
    EXPECT_GE(schedule.sealed.size(), 2U);
    EXPECT_EQ(schedule.fault(), "")
        << "CONTINUO_FIRST_SCHEDULE=" << seed << " CONTINUO_SCHEDULES=1";
}

TEST(ScheduleSim, NothingStallsRepeatsOrEndsWhateverHappens) {
    const uint64_t first = number_from("CONTINUO_FIRST_SCHEDULE", first_seed());
    const uint64_t count = number_from("CONTINUO_SCHEDULES", seed_count(1000));
    std::printf("schedules %llu to %llu\n", static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(first + count - 1));
    uint64_t moves = 0;
    double longest_wait = 0;
    for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
        Schedule schedule(seed);
        run(schedule, seed);
        moves += schedule.moves;
        longest_wait = std::max(longest_wait, schedule.longest_wait());
    }
    RecordProperty("moves", std::to_string(moves));
    RecordProperty("longest_wait_of_allowed", std::to_string(longest_wait));
    EXPECT_TRUE(count < 100 || moves > count) << "the schedules have moves";
}

// 6526: the challenge of a new active path was lost, nothing came by it that allowed another, and a
// flow that is not spread waited for it beside a path that delivered.
TEST(ScheduleSim, ThoseThatFailedBefore) {
    for (const uint64_t seed : {2116U, 3774U, 6526U, 15851U}) {
        Schedule schedule(seed);
        run(schedule, seed);
    }
}

}  // namespace
}  // namespace continuo::tests
