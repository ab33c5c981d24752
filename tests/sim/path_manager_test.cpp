// PathManager over random schedules: one to three uplinks, each with its own round trip, that come
// and go, fall silent, lose their carrier or route, let no UDP or little of it pass, lose much,
// answer questions but swallow data, get a hole for TCP's segments, or wake up slowly; a NAT that
// forgets connections; and pauses in which nothing is sent. Nothing stalls for longer or fails more
// often than docs/PATHS.md says, nothing returns before its rest or rests without a reason, and in
// the end the best that works and need not rest is in use. Not in it: several
// addresses of an interface, another address of the SNAPT, round trips that change.
// CONTINUO_SCHEDULES (default 1000) and CONTINUO_FIRST_SCHEDULE choose the seeds; a failure names
// its own.
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

// The host is told of these changes.
void change_facts(PathWorld& world, uint8_t slot, uint32_t what, PathWorld::Link& link) {
    switch (what) {
    case 0:
        link.has_carrier = !link.has_carrier;
        break;
    case 1:
        link.has_route = !link.has_route;
        break;
    case 2:
        link.is_weak = !link.is_weak;
        break;
    default:
        link.cost = world.below(100) * PathWorld::kUplinks + slot;
        break;
    }
}

// The host has to find these out.
void change_path(PathWorld& world, uint32_t what, PathWorld::Link& link) {
    switch (what) {
    case 0:
    case 1:
        link.passes = !link.passes;
        break;
    case 2:
    case 3:
        link.passes_udp = !link.passes_udp;
        break;
    case 4:
        link.passes_first_port = !link.passes_first_port;
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
    default:
        link.loses_upward = !link.loses_upward;
        link.has_full_queue = link.loses_upward && world.one_in(2);
        break;
    }
}

void something_happens(PathWorld& world) {
    const auto slot = static_cast<uint8_t>(world.below(PathWorld::kUplinks));
    PathWorld::Link link = world.link(slot);
    if (!link.is_there) {
        world.appear(slot);
        return;
    }
    const uint32_t what = world.below(19);
    if (what < 4) {
        change_facts(world, slot, what, link);
    } else if (what < 14) {
        change_path(world, what - 4, link);
    } else if (what == 14) {
        world.readdress(slot);
        return;
    } else if (what == 15) {
        world.vanish(slot);
        return;
    } else if (what < 18) {
        world.set_busy(!world.is_busy());
        return;
    } else {
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
        link.has_route = true;
        link.passes = !has_one || world.one_in(2);
        link.passes_udp = world.one_in(2);
        link.swallows_data = false;
        link.has_hole = link.passes_udp && world.one_in(4);
        link.is_throttled = false;
        link.loss_percent = 0;
        has_one = true;
        world.change(slot, link);
    }
    // The longest interval of questions, and the longest rest of UDP. TCP's may end at any moment.
    constexpr base::Duration kToConnect = seconds(10);
    world.run(2 * policy::PathManager::kLongestRest + kToConnect);
    while (world.fault.empty() && world.has_rest_ended_since(world.now() - kToConnect)) {
        world.run(kToConnect);
    }
}

struct Totals {
    uint64_t moves = 0;
    uint64_t returns = 0;
    uint32_t most_failures = 0;
    base::Duration longest_stall{};
    base::Duration longest_trouble{};
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
    world.set_busy(true);
    const std::string again = "CONTINUO_FIRST_SCHEDULE=" + std::to_string(seed);
    if (world.fault.empty()) {
        calm(world);
        EXPECT_EQ(world.in_use(), world.best()) << again;
    }
    EXPECT_EQ(world.fault, "") << again << " CONTINUO_SCHEDULES=1";
    totals.moves += world.moves;
    totals.returns += world.returns;
    totals.most_failures = std::max(totals.most_failures, world.most_failures);
    totals.longest_stall = std::max(totals.longest_stall, world.longest_stall);
    totals.longest_trouble = std::max(totals.longest_trouble, world.longest_trouble);
    totals.longest_of_allowed = std::max(totals.longest_of_allowed, world.longest_of_allowed);
}

TEST(PathManagerSim, NothingStallsOrFlapsAndTheBestIsInUseInTheEnd) {
    const uint64_t first = number_from("CONTINUO_FIRST_SCHEDULE", first_seed());
    const uint64_t count = number_from("CONTINUO_SCHEDULES", seed_count(1000));
    Totals totals;
    for (uint64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
        run(seed, totals);
    }
    std::printf(
        "schedules %llu to %llu: %llu moves, %llu of them back; longest stall %lld ms, "
        "%.2f of what is allowed; over several moves %lld ms, one fails at most %u times\n",
        static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + count - 1),
        static_cast<unsigned long long>(totals.moves),
        static_cast<unsigned long long>(totals.returns),
        static_cast<long long>(base::to_ms(totals.longest_stall)), totals.longest_of_allowed,
        static_cast<long long>(base::to_ms(totals.longest_trouble)), totals.most_failures);
    EXPECT_TRUE(count < 100 || totals.moves > count) << "the schedules have moves";
}

// Two uplinks answer questions at once and swallow everything else; by the third only TCP passes,
// and a connection takes longer than the others need to answer and to be found out.
TEST(PathManagerSim, UplinksThatSwallowDataDoNotKeepASlowConnectionFromBeingMade) {
    PathWorld world(1);
    for (uint8_t slot = 0; slot < PathWorld::kUplinks; ++slot) {
        world.appear(slot);
        PathWorld::Link link = world.link(slot);
        link.slow_until = {};
        link.rtt = milliseconds(slot == 2 ? 300 : 10);
        link.passes_udp = slot != 2;
        link.swallows_data = slot != 2;
        link.has_hole = slot != 2;
        link.tells_hole = false;
        world.change(slot, link);
    }
    world.run(seconds(100));
    EXPECT_EQ(world.fault, "");
    EXPECT_EQ(world.in_use(), "tcp2");
}

}  // namespace
}  // namespace continuo::tests
