#include "common/dataplane/figures.hpp"
#include "common/flow/counter_values.hpp"
#include "tests/unit/dataplane/one_flow.hpp"

#include <cmath>

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
        flows_json(table_, now_, [](report::FlowFigures& figures, const flow::Flow& flow) {
            figures.snapt = "zrh-" + std::to_string(flow.tuple.remote_port);
        });
    const auto json = report::JsonValue::parse(text);
    ASSERT_TRUE(json);
    ASSERT_EQ(json->items().size(), 1U);
    EXPECT_EQ(json->items()[0].text("snapt"), "zrh-443");
    EXPECT_EQ(json->items()[0].text("state"), "opening");
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
