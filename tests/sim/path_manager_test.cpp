// PathManager over random schedules: one to three uplinks, each with its own round trip, that come,
// go, fall silent, lose their carrier, let no UDP or little of it pass, lose much, answer questions
// but swallow data, get a hole for TCP's segments, or wake up slowly; and a NAT that forgets
// connections. Nothing stalls for longer than docs/PATHS.md says, nothing flaps beyond what the
// backoff allows, and in the end the best that works is in use. CONTINUO_SCHEDULES (default 3000)
// and CONTINUO_FIRST_SCHEDULE choose the seeds; a failure names its own.
#include "tests/sim/path_world.hpp"
#include "tests/support/seeds.hpp"

#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::seconds;

uint64_t number_from(const char* name, uint64_t fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

void something_happens(PathWorld& world) {
    const auto slot = static_cast<uint8_t>(world.below(PathWorld::kUplinks));
    PathWorld::Link link = world.link(slot);
    if (!link.is_there) {
        world.appear(slot);
        return;
    }
    switch (world.below(12)) {
    case 0:
        link.has_carrier = !link.has_carrier;
        break;
    case 1:
    case 2:
        link.passes = !link.passes;
        break;
    case 3:
    case 4:
        link.passes_udp = !link.passes_udp;
        break;
    case 5:
        link.swallows_data = !link.swallows_data && world.one_in(2);
        break;
    case 6:
        link.has_hole = !link.has_hole;
        link.tells_hole = world.one_in(2);
        break;
    case 7:
        link.is_throttled = !link.is_throttled;
        break;
    case 8:
        link.loss_percent = world.one_in(2) ? 0 : world.below(40);
        break;
    case 9:
        link.cost = world.below(100) * PathWorld::kUplinks + slot;
        break;
    case 10:
        world.readdress(slot);
        return;
    default:
        world.forget_connections();
        return;
    }
    world.change(slot, link);
}

// Everything works, but for some uplinks that stay silent, or let no UDP or no full segment pass.
void calm(PathWorld& world) {
    bool has_one = false;
    for (uint8_t slot = 0; slot < PathWorld::kUplinks; ++slot) {
        PathWorld::Link link = world.link(slot);
        if (!link.is_there) {
            continue;
        }
        link.has_carrier = true;
        link.passes = !has_one || world.one_in(2);
        link.passes_udp = world.one_in(2);
        link.swallows_data = false;
        link.has_hole = link.passes_udp && world.one_in(4);
        link.is_throttled = false;
        link.loss_percent = 0;
        has_one = true;
        world.change(slot, link);
    }
    // The longest interval of questions, and the longest rest.
    world.run(2 * policy::PathManager::kLongestRest + seconds(10));
}

struct Totals {
    uint64_t moves = 0;
    uint64_t returns = 0;
    uint32_t most_tries = 0;
    base::Duration longest_stall{};
    double longest_of_allowed = 0;
};

void run(uint64_t seed, Totals& totals) {
    PathWorld world(seed * 104'729);
    const uint32_t uplinks = 1 + world.below(PathWorld::kUplinks);
    for (uint8_t slot = 0; slot < uplinks; ++slot) {
        world.appear(slot);
    }
    for (uint32_t left = 10 + world.below(30); left > 0 && world.fault.empty(); --left) {
        something_happens(world);
        world.run(milliseconds(world.one_in(4) ? world.below(300) : world.below(6000)));
    }
    // Each way: as often as its rests allow in that time, and once more for what makes them end.
    const auto span_s = base::to_ms(world.now().time_since_epoch()) / 1000 - 1000;
    const auto may_return = static_cast<uint32_t>(6 * (7 + span_s / 60)) + 6 * world.news;
    const std::string again = "CONTINUO_FIRST_SCHEDULE=" + std::to_string(seed);
    EXPECT_LE(world.returns, may_return) << again;
    if (world.fault.empty()) {
        calm(world);
        EXPECT_EQ(world.in_use(), world.best()) << again;
    }
    EXPECT_EQ(world.fault, "") << again << " CONTINUO_SCHEDULES=1";
    totals.moves += world.moves;
    totals.returns += world.returns;
    totals.most_tries = std::max(totals.most_tries, world.most_tries);
    totals.longest_stall = std::max(totals.longest_stall, world.longest_stall);
    totals.longest_of_allowed = std::max(totals.longest_of_allowed, world.longest_of_allowed);
}

TEST(PathManagerSim, NothingStallsOrFlapsAndTheBestIsInUseInTheEnd) {
    const uint64_t first = number_from("CONTINUO_FIRST_SCHEDULE", first_seed());
    const uint64_t count = number_from("CONTINUO_SCHEDULES", seed_count(3000));
    Totals totals;
    for (uint64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
        run(seed, totals);
    }
    std::printf("schedules %llu to %llu: %llu moves, %llu of them back; longest stall %lld ms, "
                "%.2f of what is allowed; at most %u tries in one stall\n",
                static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(first + count - 1),
                static_cast<unsigned long long>(totals.moves),
                static_cast<unsigned long long>(totals.returns),
                static_cast<long long>(base::to_ms(totals.longest_stall)),
                totals.longest_of_allowed, totals.most_tries);
    EXPECT_TRUE(count < 100 || totals.moves > count) << "the schedules have moves";
}

}  // namespace
}  // namespace continuo::tests
