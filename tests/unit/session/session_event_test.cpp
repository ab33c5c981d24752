#include "common/session/session_event.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using Kind = SessionEvent::Kind;

TEST(SessionEvents, ComeInTheirOrder) {
    SessionEvents events;
    EXPECT_FALSE(events.pop());
    events.push({Kind::PathChanged, 3});
    events.push({Kind::PathSilent, 3});
    events.push({Kind::PeerClosed});
    EXPECT_EQ(events.pop(), (SessionEvent{Kind::PathChanged, 3}));
    EXPECT_EQ(events.pop(), (SessionEvent{Kind::PathSilent, 3}));
    EXPECT_EQ(events.pop(), (SessionEvent{Kind::PeerClosed}));
    EXPECT_FALSE(events.pop());
}

TEST(SessionEvents, OneThatHappensAgainIsToldOnceAndLast) {
    SessionEvents events;
    events.push({Kind::PathChanged, 1});
    events.push({Kind::PathSilent, 1});
    events.push({Kind::PathChanged, 1});
    EXPECT_EQ(events.pop(), (SessionEvent{Kind::PathSilent, 1}));
    EXPECT_EQ(events.pop(), (SessionEvent{Kind::PathChanged, 1}));
    EXPECT_FALSE(events.pop());
}

TEST(SessionEvents, AllThatCanHappenHasRoom) {
    SessionEvents events;
    size_t different = 0;
    for (int round = 0; round < 3; ++round) {
        different = 2;
        events.push({Kind::HeldDelivered});
        events.push({Kind::PeerClosed});
        for (uint8_t path = 0; path < wire::kMaxPaths; ++path) {
            for (const Kind kind : {Kind::PathChanged, Kind::PathSilent, Kind::PathChallenged}) {
                events.push({kind, path});
                ++different;
            }
        }
    }
    size_t told = 0;
    while (events.pop()) {
        ++told;
    }
    EXPECT_EQ(told, different);
}

}  // namespace
}  // namespace continuo::session
