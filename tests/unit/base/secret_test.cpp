#include "common/base/secret.hpp"

#include <algorithm>
#include <new>

#include <gtest/gtest.h>

namespace continuo::base {
namespace {

TEST(Secret, IsOverwrittenWhenItDies) {
    alignas(Secret<32>) std::array<uint8_t, sizeof(Secret<32>)> place{};
    auto* secret = new (place.data()) Secret<32>();
    secret->fill(0xA5);
    {
        const Secret<32> copy = *secret;
        EXPECT_EQ(copy, *secret);
    }
    EXPECT_EQ((*secret)[31], 0xA5);  // the copy's end is its own
    secret->~Secret();
    // Through a pointer that the compiler knows nothing of.
    const volatile uint8_t* bytes = place.data();
    EXPECT_TRUE(std::all_of(bytes, bytes + place.size(), [](uint8_t byte) { return byte == 0; }));
}

TEST(Secret, TextIsWipedWhenItsWatcherGoes) {
    std::string text = "a key in base 64, longer than what a string holds in itself";
    const size_t length = text.size();
    {
        const WipedAtEnd wiped(text);
        EXPECT_EQ(text.front(), 'a');
    }
    EXPECT_EQ(text, std::string(length, '\0'));
}

}  // namespace
}  // namespace continuo::base
