#include "policy/snapt_choice.hpp"

#include <gtest/gtest.h>

namespace continuo::policy {
namespace {

using base::milliseconds;
using base::TrafficClass;
using classifier::WhenUnmet;

constexpr std::nullopt_t kNothing = std::nullopt;

struct Snapt {
    std::string_view name;
    std::optional<int> delay_ms;
    std::optional<uint64_t> bits_per_s;
    uint64_t committed = 0;
    double load = 0;
    double price = 1;
    bool is_alive = true;
};

struct Row {
    const char* claim;
    std::vector<Snapt> snapts;
    FlowNeeds needs;
    WhenUnmet when_unmet;
    Verdict verdict;
    std::string_view chosen;  // empty: none
    TrafficClass traffic_class;
    std::string_view reason;
};

const std::vector<std::string> kPreferB = {"b"};
const std::vector<std::string> kPreferCThenB = {"c", "b"};
const FlowNeeds kCall = {TrafficClass::HtLd, 128'000, milliseconds(200), {}};
const FlowNeeds kAny = {TrafficClass::LtHd, 0, std::nullopt, {}};

FlowNeeds preferring(FlowNeeds needs, const std::vector<std::string>& names) {
    needs.preferred = names;
    return needs;
}

constexpr auto kServe = WhenUnmet::Serve;
constexpr std::string_view kDelay = "no SNAPT meets the delay";
constexpr std::string_view kThroughput = "no SNAPT has the throughput left";
constexpr std::string_view kBoth = "no SNAPT meets delay and throughput together";
constexpr std::string_view kDead = "no SNAPT is alive";

const Row kRows[] = {
    {"no SNAPT at all", {}, kAny, kServe, Verdict::NoSnapt, "", TrafficClass::LtHd, kDead},
    {"the dead get none",
     {{"a", 1, 9'000'000, 0, 0, 1, false}},
     kAny,
     kServe,
     Verdict::NoSnapt,
     "",
     TrafficClass::LtHd,
     kDead},
    {"the cheapest that meets the needs",
     {{"a", 10, 9'000'000, 0, 0, 3}, {"b", 150, 1'000'000, 0, 0, 2}},
     kCall,
     kServe,
     Verdict::Serve,
     "b",
     TrafficClass::HtLd,
     ""},
    {"not the cheapest that is too late",
     {{"a", 10, 9'000'000, 0, 0, 3}, {"b", 250, 1'000'000, 0, 0, 2}},
     kCall,
     kServe,
     Verdict::Serve,
     "a",
     TrafficClass::HtLd,
     ""},
    {"what own flows need is taken off",
     {{"a", 10, 1'000'000, 900'000, 0, 1}, {"b", 10, 1'000'000, 0, 0, 2}},
     kCall,
     kServe,
     Verdict::Serve,
     "b",
     TrafficClass::HtLd,
     ""},
    {"committed beyond the throughput leaves nothing",
     {{"a", 10, 100'000, 900'000, 0, 1}},
     kCall,
     WhenUnmet::Refuse,
     Verdict::Refuse,
     "",
     TrafficClass::HtLd,
     kThroughput},
    {"at the same price the less loaded",
     {{"a", 10, 9'000'000, 0, 0.9}, {"b", 90, 9'000'000, 0, 0.1}},
     kCall,
     kServe,
     Verdict::Serve,
     "b",
     TrafficClass::HtLd,
     ""},
    {"at the same load the nearer",
     {{"a", 90, 9'000'000}, {"b", 10, 9'000'000}},
     kCall,
     kServe,
     Verdict::Serve,
     "b",
     TrafficClass::HtLd,
     ""},
    {"all equal: the first",
     {{"a", 10, 9'000'000}, {"b", 10, 9'000'000}},
     kCall,
     kServe,
     Verdict::Serve,
     "a",
     TrafficClass::HtLd,
     ""},
    {"unknown counts as met",
     {{"a", kNothing, kNothing}},
     kCall,
     WhenUnmet::Refuse,
     Verdict::Serve,
     "a",
     TrafficClass::HtLd,
     ""},
    {"known to meet wins over cheap and unknown",
     {{"a", kNothing, kNothing, 0, 0, 0}, {"b", 10, 9'000'000}},
     kCall,
     kServe,
     Verdict::Serve,
     "b",
     TrafficClass::HtLd,
     ""},
    {"unknown wins over known to fail",
     {{"a", 900, 9'000'000}, {"b", kNothing, kNothing}},
     kCall,
     kServe,
     Verdict::Serve,
     "b",
     TrafficClass::HtLd,
     ""},
    {"preference wins over cost",
     {{"a", 10, 9'000'000, 0, 0, 1}, {"b", 100, 9'000'000, 0, 0, 5}},
     preferring(kCall, kPreferB),
     kServe,
     Verdict::Serve,
     "b",
     TrafficClass::HtLd,
     ""},
    {"preference is in order",
     {{"a", 10, 9'000'000}, {"b", 10, 9'000'000}, {"c", 10, 9'000'000}},
     preferring(kCall, kPreferCThenB),
     kServe,
     Verdict::Serve,
     "c",
     TrafficClass::HtLd,
     ""},
    {"needs win over preference",
     {{"a", 10, 9'000'000}, {"b", 900, 9'000'000}},
     preferring(kCall, kPreferB),
     kServe,
     Verdict::Serve,
     "a",
     TrafficClass::HtLd,
     ""},
    {"a dead preference is passed over",
     {{"a", 10, 9'000'000}, {"b", 10, 9'000'000, 0, 0, 1, false}},
     preferring(kCall, kPreferB),
     kServe,
     Verdict::Serve,
     "a",
     TrafficClass::HtLd,
     ""},
    {"unmet delay: serve takes the nearest",
     {{"a", 900, 9'000'000, 0, 0, 1}, {"b", 300, 9'000'000, 0, 0, 5}},
     kCall,
     kServe,
     Verdict::Serve,
     "b",
     TrafficClass::HtLd,
     kDelay},
    {"unmet throughput: serve takes the most left",
     {{"a", 20, 100'000, 0, 0, 5}, {"b", 20, 64'000}},
     kCall,
     kServe,
     Verdict::Serve,
     "a",
     TrafficClass::HtLd,
     kThroughput},
    {"in time wins over plenty",
     {{"a", 900, 9'000'000}, {"b", 20, 64'000}},
     kCall,
     kServe,
     Verdict::Serve,
     "b",
     TrafficClass::HtLd,
     kBoth},
    {"unmet and preferred: serve stays there",
     {{"a", 300, 9'000'000}, {"b", 900, 9'000'000}},
     preferring(kCall, kPreferB),
     kServe,
     Verdict::Serve,
     "b",
     TrafficClass::HtLd,
     kDelay},
    {"degrade takes a high-delay class",
     {{"a", 900, 9'000'000}},
     kCall,
     WhenUnmet::Degrade,
     Verdict::Degrade,
     "a",
     TrafficClass::HtHd,
     kDelay},
    {"refuse tells why",
     {{"a", 900, 9'000'000}},
     kCall,
     WhenUnmet::Refuse,
     Verdict::Refuse,
     "",
     TrafficClass::HtLd,
     kDelay},
    {"no needs are always met",
     {{"a", 9000, 1}},
     kAny,
     WhenUnmet::Refuse,
     Verdict::Serve,
     "a",
     TrafficClass::LtHd,
     ""},
};

TEST(SnaptChoice, FollowsTheTable) {
    for (const Row& row : kRows) {
        std::vector<SnaptView> views;
        for (const Snapt& snapt : row.snapts) {
            SnaptView view;
            view.name = snapt.name;
            if (snapt.delay_ms) {
                view.one_way_delay = milliseconds(*snapt.delay_ms);
            }
            view.throughput_bits_per_s = snapt.bits_per_s;
            view.committed_bits_per_s = snapt.committed;
            view.load = snapt.load;
            view.price = snapt.price;
            view.is_alive = snapt.is_alive;
            views.push_back(view);
        }
        const Decision decision = choose_snapt(views, row.needs, row.when_unmet);
        EXPECT_EQ(decision.verdict, row.verdict) << row.claim;
        EXPECT_EQ(decision.snapt ? views[*decision.snapt].name : "", row.chosen) << row.claim;
        EXPECT_EQ(decision.traffic_class, row.traffic_class) << row.claim;
        EXPECT_EQ(decision.reason, row.reason) << row.claim;
        EXPECT_EQ(decision.are_needs_met, row.reason.empty()) << row.claim;
        EXPECT_EQ(decision.committed_bits_per_s, decision.snapt ? row.needs.min_bits_per_s : 0)
            << row.claim;
    }
}

TEST(FlowNeeds, ComeFromTheRuleElseFromTheClass) {
    classifier::Classification classification;
    classification.traffic_class = TrafficClass::HtLd;
    FlowNeeds needs = needs_of(classification);
    EXPECT_EQ(needs.min_bits_per_s, 64'000U);
    EXPECT_EQ(needs.max_delay, base::seconds(1));
    classification.min_bits_per_s = 10'000;
    classification.max_delay_ms = 200;
    needs = needs_of(classification);
    EXPECT_EQ(needs.min_bits_per_s, 10'000U);
    EXPECT_EQ(needs.max_delay, milliseconds(200));
    classification = {};
    classification.traffic_class = TrafficClass::LtHd;
    needs = needs_of(classification);
    EXPECT_EQ(needs.min_bits_per_s, 0U);
    EXPECT_FALSE(needs.max_delay);
}

}  // namespace
}  // namespace continuo::policy
