#include "cnapt/cli.hpp"
#include "cnapt/commands/ping_command.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::cnapt::commands {
namespace {

using report::CommandOutput;

constexpr std::string_view kBoth =
    R"({"snapt":"zrh-1","paths":[{"interface":"wlan0","local":"192.0.2.7","transport":"udp",)"
    R"("state":"usable","active":true,"answered":true,"rtt_ms":12.0},)"
    R"({"interface":"lte0","local":"192.0.2.8","transport":"udp","state":"dead","active":false,)"
    R"("answered":false,"rtt_ms":null}]})";
constexpr std::string_view kSlower =
    R"({"snapt":"zrh-1","paths":[{"interface":"wlan0","local":"192.0.2.7","transport":"udp",)"
    R"("state":"usable","active":true,"answered":true,"rtt_ms":16.0}]})";
constexpr std::string_view kNone =
    R"({"snapt":"zrh-1","paths":[{"interface":"wlan0","local":"192.0.2.7","transport":"udp",)"
    R"("state":"doubtful","active":true,"answered":false,"rtt_ms":null}]})";

struct PingRun {
    CommandOutput output;
    std::string lines;
    size_t requests = 0;
    base::Duration took{};
};

// A daemon that gives these answers in turn, then repeats the last one.
PingRun ping(std::vector<const char*> arguments,
             const std::vector<base::Result<std::string>>& answers) {
    PingRun run;
    arguments.insert(arguments.begin(), "ping");
    const auto line = report::parse_command_line(program_spec(), arguments);
    EXPECT_TRUE(line.command) << line.text;
    base::TimePoint clock{};
    report::DaemonAccess access;
    access.program = "cnapt";
    access.socket = "/run/x.sock";
    access.request = [&](std::string_view request, base::Duration) {
        EXPECT_NE(request.find(R"("command":"ping","snapt":"zrh-1")"), std::string_view::npos);
        return answers[std::min(++run.requests, answers.size()) - 1];
    };
    access.now = [&clock] { return clock; };
    access.pause = [&clock](base::Duration span) { clock += span; };
    run.output =
        ping_command(access, *line.command, [&run](const std::string& text) { run.lines += text; });
    run.took = clock.time_since_epoch();
    return run;
}

TEST(Ping, AsksOnceASecondAndSumsUpEachPath) {
    const PingRun run = ping({"zrh-1", "--count", "2"}, {std::string(kBoth), std::string(kSlower)});
    EXPECT_EQ(run.output.exit_code, report::kExitGood);
    EXPECT_EQ(run.requests, 2U);
    EXPECT_EQ(run.took, base::seconds(1));
    EXPECT_EQ(run.lines, "zrh-1 by wlan0 192.0.2.7 udp: 12 ms\n"
                         "zrh-1 by lte0 192.0.2.8 udp: no answer (dead)\n"
                         "zrh-1 by wlan0 192.0.2.7 udp: 16 ms\n");
    EXPECT_EQ(run.output.out,
              "zrh-1 by wlan0 192.0.2.7 udp: 2 of 2 answered, 12 ms to 16 ms, mean 14 ms\n"
              "zrh-1 by lte0 192.0.2.8 udp: 0 of 1 answered\n");
}

TEST(Ping, FailsWhenNothingAnswers) {
    const PingRun run = ping({"zrh-1"}, {std::string(kNone)});
    EXPECT_EQ(run.output.exit_code, report::kExitError);
    EXPECT_EQ(run.requests, kDefaultPings);
    EXPECT_NE(run.output.out.find("0 of 4 answered"), std::string::npos);
}

TEST(Ping, JsonIsOneObjectAndNothingElse) {
    const PingRun run = ping({"zrh-1", "--count=1", "--json"}, {std::string(kBoth)});
    EXPECT_EQ(run.lines, "");
    EXPECT_EQ(run.output.out,
              R"({"snapt":"zrh-1","paths":[{"path":"wlan0 192.0.2.7 udp","asked":1,"answered":1,)"
              R"("rtt_min_ms":12,"rtt_mean_ms":12,"rtt_max_ms":12},)"
              R"({"path":"lte0 192.0.2.8 udp","asked":1,"answered":0,)"
              R"("rtt_min_ms":null,"rtt_mean_ms":null,"rtt_max_ms":null}]})"
              "\n");
}

TEST(Ping, SaysWhyThereIsNoAnswer) {
    const PingRun unknown = ping({"zrh-1"}, {std::string(R"({"error":"no SNAPT \"zrh-1\""})")});
    EXPECT_EQ(unknown.output.exit_code, report::kExitError);
    EXPECT_EQ(unknown.output.err, "cnapt: no SNAPT \"zrh-1\"\n");
    EXPECT_EQ(unknown.requests, 1U);
    const PingRun absent = ping({"zrh-1"}, {base::Error{base::Errc::System, "connect", ENOENT}});
    EXPECT_NE(absent.output.err.find("start it with `cnapt run`"), std::string::npos);
    for (const char* odd : {"[]", "{}", R"({"paths":7})"}) {
        EXPECT_EQ(ping({"zrh-1", "--count", "1"}, {std::string(odd)}).output.exit_code,
                  report::kExitError);
    }
    for (const char* count : {"0", "1001", "-1", "x", ""}) {
        EXPECT_EQ(ping({"zrh-1", "--count", count}, {std::string(kBoth)}).output.exit_code,
                  report::kExitUsage);
    }
}

}  // namespace
}  // namespace continuo::cnapt::commands
