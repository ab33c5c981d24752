#include "common/report/flow_list.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::report {
namespace {

constexpr std::string_view kFlows = R"([
{"flow_id":1,"proto":"tcp","src":"192.0.0.5","sport":4711,"dst":"198.51.100.2","dport":22,
"process":"ssh","app":"ssh","class":"lt-ld","path":"wlan0>zrh-1","state":"open",
"inner_bytes_up":10,"inner_bytes_down":20,"age_s":600,"idle_s":300,"refused_reason":null},
{"flow_id":2,"proto":"tcp","src":"192.0.0.5","sport":4712,"dst":"198.51.100.3","dport":443,
"process":"curl","app":"web","class":"ht-hd","path":"wlan0>zrh-1","state":"open",
"inner_bytes_up":100,"inner_bytes_down":9000,"age_s":60,"idle_s":0.1,"refused_reason":null},
{"flow_id":3,"proto":"udp","src":"192.0.0.5","sport":4713,"dst":"198.51.100.1","dport":53,
"process":null,"app":"dns","class":"lt-ld","path":"wlan0>zrh-1","state":"closed",
"inner_bytes_up":60,"inner_bytes_down":90,"age_s":6,"idle_s":1,"refused_reason":null},
{"flow_id":4,"proto":"icmp","src":"192.0.0.5","sport":7,"dst":"203.0.113.9","dport":0,
"process":"ping","app":null,"class":"lt-ld","path":null,"state":"open",
"inner_bytes_up":200,"inner_bytes_down":200,"age_s":7,"idle_s":0.5,"refused_reason":null}])";

JsonValue flows() {
    auto parsed = JsonValue::parse(kFlows);
    EXPECT_TRUE(parsed);
    return parsed ? std::move(*parsed) : JsonValue();
}

ParsedCommand command(std::vector<std::pair<std::string, std::string>> options) {
    ParsedCommand made;
    made.name = "flows";
    made.options = std::move(options);
    return made;
}

std::vector<uint64_t> ids(std::vector<std::pair<std::string, std::string>> options) {
    std::string failure;
    const auto choice = flow_choice(command(std::move(options)), failure);
    EXPECT_TRUE(choice) << failure;
    const JsonValue all = flows();
    std::vector<uint64_t> numbers;
    for (const JsonValue* flow : chosen_flows(all.items(), choice.value_or(FlowChoice{}))) {
        numbers.push_back((*flow)["flow_id"].unsigned_integer().value_or(0));
    }
    return numbers;
}

using Ids = std::vector<uint64_t>;

TEST(FlowList, HasTheOnesInUseFirstAndNoneThatIsOver) {
    EXPECT_EQ(ids({}), (Ids{2, 4, 1}));
    EXPECT_EQ(ids({{"--all", ""}}), (Ids{2, 4, 1, 3}));
}

TEST(FlowList, IsSortedAsAsked) {
    EXPECT_EQ(ids({{"--sort", "up"}}), (Ids{4, 2, 1}));
    EXPECT_EQ(ids({{"--sort", "down"}}), (Ids{2, 4, 1}));
    EXPECT_EQ(ids({{"--sort", "age"}}), (Ids{1, 2, 4}));
    EXPECT_EQ(ids({{"--sort", "process"}, {"--all", ""}}), (Ids{2, 4, 1, 3})) << "unknown last";
    EXPECT_EQ(ids({{"--sort", "class"}}), (Ids{1, 4, 2}));
    EXPECT_EQ(ids({{"--sort", "destination"}, {"--all", ""}}), (Ids{3, 1, 2, 4}));
}

TEST(FlowList, HasTheClassesAndProcessesThatAreAskedFor) {
    EXPECT_EQ(ids({{"--class", "lt-ld"}}), (Ids{4, 1}));
    EXPECT_EQ(ids({{"--process", "ssh,curl"}}), (Ids{2, 1}));
    EXPECT_EQ(ids({{"--process", "ssh"}, {"--process", "ping"}, {"--class", "lt-ld,ht-hd"}}),
              (Ids{4, 1}));
    EXPECT_EQ(ids({{"--user", "bob"}}), Ids{});
}

TEST(FlowList, SaysWhichOptionIsWrong) {
    std::string failure;
    EXPECT_FALSE(flow_choice(command({{"--class", "fast"}}), failure));
    EXPECT_EQ(failure, "--class \"fast\"; expected lt-ld, ht-ld, lt-hd or ht-hd");
    EXPECT_FALSE(flow_choice(command({{"--sort", "colour"}}), failure));
    EXPECT_NE(failure.find("--sort \"colour\"; expected active, "), std::string::npos);
}

TEST(FlowList, CountsTheClosedOnesThatItHides) {
    EXPECT_NE(flows_text(flows().items(), false, false).find("(1 closed, shown with --all)\n"),
              std::string::npos);
    FlowChoice all;
    all.with_closed = true;
    EXPECT_EQ(flows_text(flows().items(), false, false, kAnyWidth, all).find("shown with"),
              std::string::npos);
}

TEST(FlowList, SaysWhatTheLimitLeavesOut) {
    std::string failure;
    const auto two = flow_choice(command({{"--limit", "2"}}), failure);
    ASSERT_TRUE(two) << failure;
    const JsonValue all = flows();
    const std::string text = flows_text(all.items(), false, false, kAnyWidth, *two);
    EXPECT_NE(text.find("curl"), std::string::npos) << text;
    EXPECT_EQ(text.find("ssh"), std::string::npos) << text;
    EXPECT_NE(text.find("(the first 2 of 3, see --limit)\n"), std::string::npos) << text;
    for (const char* wrong : {"0", "-1", "many", ""}) {
        EXPECT_FALSE(flow_choice(command({{"--limit", wrong}}), failure)) << wrong;
    }
}

// A daemon that hands out kFlows in pages of one flow.
struct PagedDaemon {
    std::vector<std::string> asked;
    std::string next = "after";  // as the daemon says it; or another number

    DaemonAccess access() {
        DaemonAccess made;
        made.program = "snapt";
        made.request = [this](std::string_view line, base::Duration) {
            asked.emplace_back(line);
            const auto request = JsonValue::parse(line);
            const uint64_t after = (*request)["after"].unsigned_integer().value_or(99);
            const JsonValue all = flows();
            const std::string said = next != "after"                  ? next
                                     : after + 1 < all.items().size() ? std::to_string(after + 1)
                                                                      : "null";
            return base::Result<std::string>(R"({"flows":[)" + json_text(all.items()[after]) +
                                             R"(],"next":)" + said + "}");
        };
        return made;
    }
};

TEST(FlowList, IsAskedForPageByPage) {
    PagedDaemon daemon;
    const auto run = [&](std::vector<std::pair<std::string, std::string>> options) {
        return flows_command(daemon.access(), command(std::move(options)), true, false, kAnyWidth);
    };
    const auto all = JsonValue::parse(run({{"--json", ""}}).out);
    ASSERT_TRUE(all);
    EXPECT_EQ(all->items().size(), 4U) << "closed ones, too";
    EXPECT_EQ(daemon.asked, (std::vector<std::string>{R"({"command":"flows","after":0})",
                                                      R"({"command":"flows","after":1})",
                                                      R"({"command":"flows","after":2})",
                                                      R"({"command":"flows","after":3})"}));
    const CommandOutput cut = run({{"--json", ""}, {"--limit", "1"}});
    const auto one = JsonValue::parse(cut.out);
    ASSERT_TRUE(one);
    ASSERT_EQ(one->items().size(), 1U);
    EXPECT_EQ(one->items()[0].text("process"), "curl");
    EXPECT_EQ(cut.err, "(the first 1 of 3, see --limit)\n");
    EXPECT_EQ(run({{"--json", ""}, {"--user", "nobody"}}).out, "[]\n");
}

TEST(FlowList, IsCommaSeparatedOnRequest) {
    PagedDaemon daemon;
    const auto run = [&](std::vector<std::pair<std::string, std::string>> options, bool with_user) {
        return flows_command(daemon.access(), command(std::move(options)), with_user, false,
                             kAnyWidth);
    };
    const std::string all = run({{"--csv", ""}}, true).out;
    EXPECT_TRUE(all.starts_with("user,node,flow_id,proto,src,sport,")) << all;
    EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 5) << "closed ones, too";
    const CommandOutput cut = run({{"--csv", ""}, {"--limit", "1"}}, false);
    EXPECT_TRUE(cut.out.starts_with("flow_id,proto,src,sport,")) << cut.out;
    EXPECT_NE(cut.out.find(",curl,"), std::string::npos) << cut.out;
    EXPECT_EQ(std::count(cut.out.begin(), cut.out.end(), '\n'), 2);
    EXPECT_EQ(cut.err, "(the first 1 of 3, see --limit)\n");
}

TEST(FlowList, IsNotAskedForForEver) {
    PagedDaemon daemon;
    daemon.next = "0";
    const CommandOutput output =
        flows_command(daemon.access(), command({}), true, false, kAnyWidth);
    EXPECT_EQ(output.exit_code, kExitError);
    EXPECT_EQ(daemon.asked.size(), 1U);
}

// A daemon of an earlier version has them in one answer. Flows in JSON are chosen only when an
// option says so.
TEST(FlowList, ChoosesFromJsonOnRequest) {
    DaemonAccess access;
    access.program = "cnapt";
    access.request = [](std::string_view line, base::Duration) {
        EXPECT_EQ(line, R"({"command":"flows","after":0})");
        return base::Result<std::string>(std::string(kFlows));
    };
    const auto run = [&](std::vector<std::pair<std::string, std::string>> options) {
        return flows_command(access, command(std::move(options)), false, false, kAnyWidth);
    };
    const auto all = JsonValue::parse(run({{"--json", ""}}).out);
    ASSERT_TRUE(all);
    EXPECT_EQ(json_text(*all), json_text(flows()));
    const auto chosen = JsonValue::parse(run({{"--json", ""}, {"--class", "ht-hd"}}).out);
    ASSERT_TRUE(chosen);
    ASSERT_EQ(chosen->items().size(), 1U);
    EXPECT_EQ(chosen->items()[0]["dport"].unsigned_integer(), 443U);
    EXPECT_EQ(run({{"--sort", "x"}}).exit_code, kExitUsage);
    EXPECT_NE(run({}).out.find("curl"), std::string::npos);
}

}  // namespace
}  // namespace continuo::report
