#include "cnapt/cli.hpp"
#include "cnapt/commands/top_command.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::cnapt::commands {
namespace {

using report::CommandOutput;
using report::JsonValue;

struct FlowNow {
    int id = 0;
    const char* process = "curl";
    uint64_t up = 0;
    uint64_t down = 0;
    const char* traffic_class = "ht-hd";
};

std::string answer_of(const std::vector<FlowNow>& flows) {
    std::string text;
    for (const FlowNow& flow : flows) {
        text += text.empty() ? "" : ",";
        text += R"({"flow_id":)" + std::to_string(flow.id);
        text += R"(,"proto":"tcp","src":"192.0.0.5","sport":4711,"dst":"198.51.100.2","dport":)";
        text += std::to_string(4430 + flow.id);
        text += R"(,"process":")" + std::string(flow.process);
        text += R"(","app":null,"class":")" + std::string(flow.traffic_class);
        text += R"(","snapt":"zrh-1","path":"wlan0>zrh-1","inner_bytes_up":)";
        text += std::to_string(flow.up);
        text += R"(,"inner_bytes_down":)" + std::to_string(flow.down) + "}";
    }
    return R"({"flows":[)" + text + R"(],"next":null})";
}

// A daemon with these flows at first, and those two seconds later.
class CnaptTop : public testing::Test {
  protected:
    CommandOutput run(const std::vector<const char*>& words) {
        const report::CommandLine line = report::parse_command_line(program_spec(), words);
        EXPECT_TRUE(line.command) << line.text;
        asked_ = 0;
        base::TimePoint clock{};
        report::DaemonAccess access;
        access.program = "cnapt";
        access.request = [this](std::string_view, base::Duration) {
            return base::Result<std::string>(answer_of(asked_++ == 0 ? first_ : later_));
        };
        access.now = [&clock] { return clock; };
        access.pause = [&clock](base::Duration span) { clock += 2 * span; };  // a slow machine
        return top_command(access, *line.command, false);
    }
    JsonValue json(std::vector<const char*> words) {
        words.push_back("--json");
        auto parsed = JsonValue::parse(run(words).out);
        EXPECT_TRUE(parsed);
        return parsed ? std::move(*parsed) : JsonValue();
    }

    std::vector<FlowNow> first_ = {
        {1, "curl", 100, 1000}, {2, "ssh", 50, 50, "lt-ld"}, {3, "idle", 7, 7}, {4, "ends", 9, 9}};
    std::vector<FlowNow> later_ = {{1, "curl", 100, 251'000},
                                   {2, "ssh", 550, 300, "lt-ld"},
                                   {3, "idle", 7, 7},
                                   {5, "curl", 2500, 0}};
    int asked_ = 0;
};

TEST_F(CnaptTop, HasTheRatesOfTheTimeBetweenTwoLooksTheBusiestFirst) {
    const JsonValue top = json({"top"});
    EXPECT_EQ(asked_, 2);
    EXPECT_EQ(top["span_ms"].integer(), 2000);
    const auto& rows = top["rows"].items();
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_EQ(rows[0]["flow_id"].integer(), 1);
    EXPECT_EQ(rows[0]["down_bits_per_s"].integer(), 1'000'000);
    EXPECT_EQ(rows[0]["up_bits_per_s"].integer(), 0);
    EXPECT_EQ(rows[0]["inner_bytes_down"].integer(), 251'000);
    EXPECT_EQ(rows[1]["flow_id"].integer(), 5) << "began in between";
    EXPECT_EQ(rows[1]["up_bits_per_s"].integer(), 10'000);
    EXPECT_EQ(rows[2].text("process"), "ssh");
    EXPECT_EQ(top["idle_flows"].integer(), 1);
    EXPECT_EQ(top["others"]["rows"].integer(), 0);
}

// Its counters begin at 0 again.
TEST_F(CnaptTop, AFlowThatGetsAnotherClassIsNotLost) {
    first_ = {{1, "curl", 0, 100'000'000, "ht-ld"}, {2, "ssh", 0, 500, "ht-ld"}};
    later_ = {{1, "curl", 0, 250'000, "ht-hd"}, {2, "ssh", 0, 900, "ht-hd"}};
    const JsonValue top = json({"top"});
    const auto& rows = top["rows"].items();
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0]["down_bits_per_s"].integer(), 1'000'000);
    EXPECT_EQ(rows[1]["down_bits_per_s"].integer(), 3'600);
}

TEST_F(CnaptTop, SumsUpByProcessAndClass) {
    const JsonValue top = json({"top", "--by", "class,process"});
    const auto& rows = top["rows"].items();
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].text("process"), "curl");
    EXPECT_EQ(rows[0].text("class"), "ht-hd");
    EXPECT_EQ(rows[0]["flows"].integer(), 2);
    EXPECT_EQ(rows[0]["up_bits_per_s"].integer(), 10'000);
    EXPECT_FALSE(rows[0].has("flow_id"));
    const std::string text = run({"top", "--by", "process"}).out;
    EXPECT_EQ(text.find("CLASS"), std::string::npos) << text;
    EXPECT_NE(text.find("1.00 Mbit/s"), std::string::npos) << text;
}

TEST_F(CnaptTop, SumsUpWhatTheLimitLeavesOut) {
    const JsonValue top = json({"top", "--limit", "1"});
    EXPECT_EQ(top["rows"].items().size(), 1U);
    EXPECT_EQ(top["others"]["rows"].integer(), 2);
    EXPECT_EQ(top["others"]["up_bits_per_s"].integer(), 12'000);
    EXPECT_EQ(top["others"]["down_bits_per_s"].integer(), 1'000);
    const std::string text = run({"top", "--limit", "1"}).out;
    for (const char* part :
         {"198.51.100.2:4431", "1.00 Mbit/s", "2 others", "12.0 kbit/s", "(1 without traffic)"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    }
    first_ = later_ = {};
    EXPECT_EQ(run({"top"}).out, "no traffic\n");
}

TEST_F(CnaptTop, RefusesWhatIsWrongAndAsksNobody) {
    for (const std::vector<const char*>& words :
         std::vector<std::vector<const char*>>{{"top", "--by", "user"},
                                               {"top", "--by", ""},
                                               {"top", "--limit", "0"},
                                               {"top", "--limit", "1001"}}) {
        EXPECT_EQ(run(words).exit_code, report::kExitUsage) << words[2];
        EXPECT_EQ(asked_, 0);
    }
}

}  // namespace
}  // namespace continuo::cnapt::commands
