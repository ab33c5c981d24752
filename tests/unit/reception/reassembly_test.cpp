#include "common/reception/reassembly.hpp"
#include "common/wire/constants.hpp"

#include <numeric>

#include <gtest/gtest.h>

namespace continuo::reception {
namespace {

using base::TimePoint;
using base::TrafficClass;

struct Pieces {
    base::DropCounters drops;
    Reassembly reassembly{drops};
    std::vector<uint8_t> entry = std::vector<uint8_t>(1000);
    TimePoint now{base::seconds(10)};

    Pieces() { std::iota(entry.begin(), entry.end(), uint8_t{0}); }
    wire::Fragment piece(uint16_t id, uint8_t index, size_t from, size_t to) const {
        wire::Fragment fragment;
        fragment.id = id;
        fragment.index = index;
        fragment.last = to == entry.size();
        fragment.piece = base::ByteView(entry).subspan(from, to - from);
        return fragment;
    }
};

TEST(Reassembly, GivesTheEntryInWhateverOrderThePiecesCome) {
    for (const bool reversed : {false, true}) {
        Pieces p;
        const auto first = p.piece(7, 0, 0, 600);
        const auto second = p.piece(7, 1, 600, 1000);
        EXPECT_FALSE(p.reassembly.add(TrafficClass::HtLd, reversed ? second : first, 700, p.now));
        const auto whole =
            p.reassembly.add(TrafficClass::HtLd, reversed ? first : second, 450, p.now);
        ASSERT_TRUE(whole);
        EXPECT_TRUE(
            std::equal(whole->entry.begin(), whole->entry.end(), p.entry.begin(), p.entry.end()));
        EXPECT_EQ(whole->outer_bytes, 1150U);
    }
}

TEST(Reassembly, KeepsClassesAndIdsApart) {
    Pieces p;
    EXPECT_FALSE(p.reassembly.add(TrafficClass::HtLd, p.piece(7, 0, 0, 600), 0, p.now));
    EXPECT_FALSE(p.reassembly.add(TrafficClass::HtHd, p.piece(7, 1, 600, 1000), 0, p.now));
    EXPECT_FALSE(p.reassembly.add(TrafficClass::HtLd, p.piece(8, 1, 600, 1000), 0, p.now));
}

TEST(Reassembly, DropsWhatIsNotWholeInTime) {
    Pieces p;
    EXPECT_FALSE(p.reassembly.add(TrafficClass::HtLd, p.piece(7, 0, 0, 600), 0, p.now));
    p.now += wire::kReassemblyTimeout + base::milliseconds(1);
    EXPECT_FALSE(p.reassembly.add(TrafficClass::HtLd, p.piece(7, 1, 600, 1000), 0, p.now));
    EXPECT_EQ(p.drops.count(base::DropReason::ReassemblyTimeout), 1U);
}

TEST(Reassembly, HoldsNoMoreThanItsLimit) {
    Pieces p;
    for (uint16_t id = 0; id < 500; ++id) {
        EXPECT_FALSE(p.reassembly.add(TrafficClass::HtLd, p.piece(id, 0, 0, 600), 0, p.now));
    }
    EXPECT_GE(p.drops.count(base::DropReason::ReassemblyLimit), 500U - Reassembly::kMaxEntries);
}

}  // namespace
}  // namespace continuo::reception
