#include "common/daemon/handler_gate.hpp"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::daemon {
namespace {

constexpr base::Duration kPatience = base::seconds(20);

struct Handler {
    std::vector<int> numbers;
};

TEST(HandlerGate, CallsInOrderFromAnotherThread) {
    io::EventLoop loop;
    Handler handler;
    const HandlerGate<Handler> gate(loop, handler);
    std::thread teller([&] {
        for (const int number : {1, 2, 3}) {
            EXPECT_TRUE(gate.tell([number](Handler& to) { to.numbers.push_back(number); }));
        }
    });
    EXPECT_TRUE(loop.run_until([&] { return handler.numbers.size() == 3; }, kPatience));
    teller.join();
    EXPECT_EQ(handler.numbers, (std::vector<int>{1, 2, 3}));
}

TEST(HandlerGate, CallsUnderWayAreDroppedOnceShutEvenWithoutTheGate) {
    io::EventLoop loop;
    Handler handler;
    {
        HandlerGate<Handler> gate(loop, handler);
        gate.tell([](Handler& to) { to.numbers.push_back(1); });
        gate.shut();
        gate.tell([](Handler& to) { to.numbers.push_back(2); });
    }
    bool is_behind = false;
    loop.post([&] { is_behind = true; });
    EXPECT_TRUE(loop.run_until([&] { return is_behind; }, kPatience));
    EXPECT_TRUE(handler.numbers.empty());
}

}  // namespace
}  // namespace continuo::daemon
