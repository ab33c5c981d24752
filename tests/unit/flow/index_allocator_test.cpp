#include "common/base/random.hpp"
#include "common/flow/index_allocator.hpp"

#include <set>

#include <gtest/gtest.h>

namespace continuo::flow {
namespace {

TEST(IndexAllocator, GivesTheLowestFreeIndexFirst) {
    IndexAllocator indices;
    for (uint16_t i = 0; i < 200; ++i) {
        EXPECT_EQ(indices.take(), i);
    }
    indices.release(7);
    indices.release(150);
    indices.make_reusable(150);
    indices.make_reusable(7);
    EXPECT_EQ(indices.take(), 7);
    EXPECT_EQ(indices.take(), 150);
    EXPECT_EQ(indices.take(), 200);
}

TEST(IndexAllocator, ReleasedIndexRestsUntilToldReusable) {
    IndexAllocator indices(2);
    EXPECT_EQ(indices.take(), 0);
    EXPECT_EQ(indices.take(), 1);
    EXPECT_FALSE(indices.take().has_value());
    indices.release(0);
    EXPECT_EQ(indices.in_use(), 1U);
    EXPECT_EQ(indices.resting(), 1U);
    EXPECT_FALSE(indices.take().has_value());
    indices.make_reusable(0);
    EXPECT_EQ(indices.take(), 0);
}

TEST(IndexAllocator, CoversAll65536IndicesOnce) {
    IndexAllocator indices;
    for (size_t i = 0; i < IndexAllocator::kMaxIndices; ++i) {
        ASSERT_EQ(indices.take(), i);
    }
    EXPECT_FALSE(indices.take().has_value());
}

TEST(IndexAllocator, AgreesWithASetUnderRandomUse) {
    base::SeededRandom random(3);
    IndexAllocator indices(300);
    std::set<uint16_t> free;
    for (uint16_t i = 0; i < 300; ++i) {
        free.insert(i);
    }
    std::vector<uint16_t> used;
    std::vector<uint16_t> resting;
    const auto draw = [&](std::vector<uint16_t>& from) {
        std::swap(from[random.below(from.size())], from.back());
        const uint16_t index = from.back();
        from.pop_back();
        return index;
    };
    for (int step = 0; step < 20000; ++step) {
        const uint64_t choice = random.below(4);
        if (choice < 2) {
            const auto index = indices.take();
            ASSERT_EQ(index.has_value(), !free.empty());
            if (index) {
                ASSERT_EQ(*index, *free.begin());
                free.erase(free.begin());
                used.push_back(*index);
            }
        } else if (choice == 2 && !used.empty()) {
            resting.push_back(draw(used));
            indices.release(resting.back());
        } else if (!resting.empty()) {
            const uint16_t index = draw(resting);
            indices.make_reusable(index);
            free.insert(index);
        }
    }
}

}  // namespace
}  // namespace continuo::flow
