#include "snapt/links/hello_desk.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::links {
namespace {

constexpr uint16_t kSession = 77;
constexpr uint8_t kTagBytes = 16;

control::EpochKeys keys_of(uint32_t epoch, uint8_t fill) {
    control::EpochKeys keys;
    keys.epoch = epoch;
    keys.up.key.fill(fill);
    return keys;
}

wire::Hello hello(uint32_t number, const control::EpochKeys& keys, uint16_t session = kSession) {
    return dataplane::make_hello(session, number, keys, kTagBytes);
}

TEST(HelloDesk, TellsTheLinksOfASessionApartByTheirKeys) {
    HelloDesk desk;
    desk.add(1, kSession, kTagBytes, keys_of(1, 1));
    desk.add(2, kSession, kTagBytes, keys_of(2, 2));
    desk.add(3, kSession + 1, kTagBytes, keys_of(2, 3));
    EXPECT_EQ(desk.judge(hello(1, keys_of(1, 1))), 1U);
    EXPECT_EQ(desk.judge(hello(1, keys_of(2, 2))), 2U);
    EXPECT_EQ(desk.judge(hello(1, keys_of(2, 3))), std::nullopt) << "of another session";
    EXPECT_EQ(desk.judge(hello(1, keys_of(2, 3), kSession + 1)), 3U);
    EXPECT_EQ(desk.judge(hello(2, keys_of(1, 9))), std::nullopt) << "of nobody";
}

TEST(HelloDesk, BelievesAHelloOnce) {
    HelloDesk desk;
    desk.add(1, kSession, kTagBytes, keys_of(1, 1));
    EXPECT_EQ(desk.judge(hello(5, keys_of(1, 1))), 1U);
    EXPECT_EQ(desk.judge(hello(5, keys_of(1, 1))), std::nullopt);
    EXPECT_EQ(desk.judge(hello(6, keys_of(1, 1))), 1U);
}

TEST(HelloDesk, KeepsTheKeysOfTwoEpochs) {
    HelloDesk desk;
    desk.add(1, kSession, kTagBytes, keys_of(1, 1));
    desk.add(1, kSession, kTagBytes, keys_of(2, 2));
    EXPECT_EQ(desk.judge(hello(1, keys_of(1, 1))), 1U);
    desk.add(1, kSession, kTagBytes, keys_of(3, 3));
    EXPECT_EQ(desk.judge(hello(2, keys_of(1, 1))), std::nullopt);
    EXPECT_EQ(desk.judge(hello(1, keys_of(3, 3))), 1U);
}

TEST(HelloDesk, ForgetsALinkThatIsGone) {
    HelloDesk desk;
    desk.add(1, kSession, kTagBytes, keys_of(1, 1));
    desk.remove(1, kSession + 1);
    EXPECT_EQ(desk.judge(hello(1, keys_of(1, 1))), 1U);
    desk.remove(1, kSession);
    EXPECT_EQ(desk.judge(hello(2, keys_of(1, 1))), std::nullopt);
}

}  // namespace
}  // namespace continuo::snapt::links
