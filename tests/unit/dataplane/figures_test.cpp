#include "common/dataplane/figures.hpp"
#include "common/flow/counter_values.hpp"
#include "tests/unit/dataplane/one_flow.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace continuo::dataplane {
namespace {

using Figures = OneFlow;

TEST_F(Figures, OfAFlowSayWhoTalksAndHowMuch) {
    flow::LiveCounters& counters = flow_->counters->counters;
    flow::count_packets(counters, flow::Direction::Up, 2, 200, 120);
    flow::count_packets(counters, flow::Direction::Down, 3, 4500, 4380);
    flow::add(counters.post_up, 90);
    flow::add(counters.post_down, 4000);
    const report::FlowFigures figures = flow_figures(*flow_, now_ + base::milliseconds(2500));
    EXPECT_EQ(figures.proto, "tcp");
    EXPECT_EQ(figures.state, "opening");
    EXPECT_EQ(figures.src, "192.0.2.2");
    EXPECT_EQ(figures.sport, 40000);
    EXPECT_EQ(figures.dst, "198.51.100.2");
    EXPECT_EQ(figures.dport, 443);
    EXPECT_EQ(figures.packets_up, 2U);
    EXPECT_EQ(figures.packets_down, 3U);
    EXPECT_EQ(figures.inner_bytes_up, 200U);
    EXPECT_EQ(figures.inner_bytes_down, 4500U);
    EXPECT_EQ(figures.wire_bytes_up, 90U);
    EXPECT_EQ(figures.wire_bytes_down, 4000U);
    EXPECT_DOUBLE_EQ(figures.age_s, 2.5);
    EXPECT_FALSE(figures.snapt || figures.user || figures.process);
}

TEST_F(Figures, OfAllFlowsAreCompletedByTheDaemon) {
    const std::string text =
        flows_json(table_, now_, 0, [](report::FlowFigures& figures, const flow::Flow& flow) {
            figures.snapt = "zrh-" + std::to_string(flow.tuple.remote_port);
        });
    const auto json = report::JsonValue::parse(text);
    ASSERT_TRUE(json);
    const auto& listed = (*json)["flows"].items();
    ASSERT_EQ(listed.size(), 1U);
    EXPECT_EQ(listed[0].text("snapt"), "zrh-443");
    EXPECT_EQ(listed[0].text("state"), "opening");
    EXPECT_TRUE(json->has("next") && (*json)["next"].is_null());
}

// All flows of a table, by pages.
struct Pages {
    std::set<uint64_t> ids;
    size_t flows = 0;
    size_t pages = 0;
    size_t largest = 0;

    explicit Pages(flow::FlowTable& table) {
        for (std::optional<uint64_t> after = 0; after && pages < 100; ++pages) {
            const auto page = report::JsonValue::parse(
                flows_json(table, {}, *after, [](report::FlowFigures&, const flow::Flow&) {}));
            for (const report::JsonValue& flow : (*page)["flows"].items()) {
                ids.insert(flow["flow_id"].unsigned_integer().value_or(0));
            }
            const size_t size = (*page)["flows"].items().size();
            flows += size;
            largest = std::max(largest, size);
            after = (*page)["next"].unsigned_integer();
        }
    }
};

TEST(FlowPages, HaveEachFlowOnceAndNoMoreThanTheirLimit) {
    constexpr size_t kFlows = 5000;
    flow::HeapSlots slots(kFlows);
    flow::FlowTable table(kFlows, slots);
    packet::FiveTuple tuple;
    tuple.local = *base::IpAddress::parse("192.0.2.2");
    tuple.remote = *base::IpAddress::parse("198.51.100.2");
    tuple.protocol = packet::Protocol::Udp;
    for (size_t i = 0; i < kFlows; ++i) {
        tuple.local_port = static_cast<uint16_t>(1024 + i);
        ASSERT_NE(table.create(tuple, base::TrafficClass::LtHd, {}), nullptr);
    }
    const Pages full(table);
    EXPECT_EQ(full.ids.size(), kFlows);
    EXPECT_EQ(full.flows, kFlows);
    EXPECT_LE(full.largest, kPageFlows);
    EXPECT_LE(full.pages, kFlows / (kPageFlows - 64) + 1);
    // Few flows in the same places.
    size_t number = 0;
    table.for_each([&](flow::Flow& flow) {
        if (++number % 500 != 0) {
            table.erase(flow);
        }
    });
    const Pages few(table);
    EXPECT_EQ(few.ids.size(), kFlows / 500);
    EXPECT_EQ(few.pages, 1U) << "of a table with fewer than kPagePlaces places";
}

TEST(FlowPages, BehindTheLastPlaceThereIsNothing) {
    flow::HeapSlots slots(4);
    flow::FlowTable table(4, slots);
    for (const size_t after : {size_t{0}, size_t{64}, size_t{1} << 40U, ~size_t{0}}) {
        EXPECT_EQ(flows_json(table, {}, after, [](report::FlowFigures&, const flow::Flow&) {}),
                  R"({"flows":[],"next":null})");
    }
}

TEST(FigureParts, TheUnknownIsNotZero) {
    EXPECT_TRUE(std::isnan(milliseconds_or_nan(base::Duration{})));
    EXPECT_DOUBLE_EQ(milliseconds_or_nan(base::microseconds(1500)), 1.5);
    EXPECT_EQ(text_of(std::nullopt), std::nullopt);
    EXPECT_EQ(if_any(""), std::nullopt);
    EXPECT_EQ(if_any("dns"), "dns");
}

}  // namespace
}  // namespace continuo::dataplane
