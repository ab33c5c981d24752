#include "common/base/random.hpp"
#include "common/session/epoch_state.hpp"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using Carriers = std::vector<uint64_t>;

Carriers with_acks(const SendSpace& space, uint64_t first, uint64_t last) {
    Carriers numbers;
    space.each_with_acks(first, last, [&](uint64_t number) { numbers.push_back(number); });
    return numbers;
}

TEST(SendSpace, KnowsWhichDatagramsCarriedAcks) {
    SendSpace space;
    EXPECT_EQ(with_acks(space, 0, 100), Carriers{});
    for (const uint64_t number : {3U, 70U, 71U, 200U}) {
        space.next = number;
        space.note_acks();
        space.note_acks();  // of another path, in the same one
    }
    EXPECT_EQ(with_acks(space, 0, 300), (Carriers{200, 71, 70, 3}));
    EXPECT_EQ(with_acks(space, 4, 70), (Carriers{70}));
    EXPECT_EQ(with_acks(space, 3, 3), (Carriers{3}));
    EXPECT_EQ(with_acks(space, 72, 199), Carriers{});
    EXPECT_EQ(with_acks(space, 201, 5000), Carriers{});
}

TEST(SendSpace, OfTheNewestNumbersAllAndOfOthersNone) {
    base::SeededRandom random(3);
    SendSpace space;
    std::set<uint64_t> expected;
    for (int i = 0; i < 3000; ++i) {
        space.next += 1 + random.below(10);
        space.note_acks();
        expected.insert(space.next);
        const uint64_t oldest =
            space.next + 1 - std::min(space.next + 1, crypto::SequenceBitmap::kSpan);
        expected.erase(expected.begin(), expected.lower_bound(oldest));
        const uint64_t first = random.below(space.next + 1);
        const uint64_t last = first + random.below(2000);
        EXPECT_EQ(
            with_acks(space, first, last),
            Carriers(std::make_reverse_iterator(expected.upper_bound(last)),
                     std::make_reverse_iterator(expected.lower_bound(std::max(first, oldest)))));
    }
}

}  // namespace
}  // namespace continuo::session
