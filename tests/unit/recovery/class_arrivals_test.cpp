#include "common/recovery/delivery.hpp"
#include "common/wire/space.hpp"

#include <gtest/gtest.h>

namespace continuo::recovery {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

TEST(Delivery, TellsWhatArrivedOfEachClassByItsWay) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery(rtt, liveness);
    const TimePoint start{seconds(1)};
    const auto space_of = [](base::TrafficClass traffic_class) {
        return NumberSpace{3, wire::space_of(traffic_class, 0, 0)};
    };
    const NumberSpace bulk = space_of(base::TrafficClass::HtHd);
    const NumberSpace calls = space_of(base::TrafficClass::HtLd);
    const auto send = [&](const NumberSpace& space, uint32_t number, bool is_other_way,
                          Duration at) {
        SentRun run;
        run.space = space;
        run.first = number;
        run.count = 1;
        run.bytes = run.last_bytes = 200;
        run.has_packets = true;
        run.is_other_way = is_other_way;
        delivery.on_sent(run, start + at);
    };
    send(bulk, 0, false, {});
    send(calls, 0, false, milliseconds(1));
    send(bulk, 1, true, milliseconds(2));
    delivery.on_range(bulk, 1, 1, std::nullopt);
    Delivery::Arrived arrived = delivery.take_arrived();
    EXPECT_EQ(arrived.any, start + milliseconds(2));
    EXPECT_EQ(arrived.by_way[base::index_of(base::TrafficClass::HtHd)], TimePoint{});
    delivery.on_range(bulk, 0, 1, std::nullopt);
    delivery.on_range(calls, 0, 0, std::nullopt);
    arrived = delivery.take_arrived();
    EXPECT_EQ(arrived.any, start + milliseconds(1)) << "the other one is known";
    EXPECT_EQ(arrived.by_way[base::index_of(base::TrafficClass::HtHd)], start);
    EXPECT_EQ(arrived.by_way[base::index_of(base::TrafficClass::HtLd)], start + milliseconds(1));
    EXPECT_EQ(delivery.take_arrived().any, TimePoint{});
}

}  // namespace
}  // namespace continuo::recovery
