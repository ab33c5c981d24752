#include "cnapt/cli.hpp"
#include "common/report/flow_list.hpp"
#include "common/report/status_report.hpp"

#include <cerrno>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace continuo::cnapt {
namespace {

using report::CommandLine;
using report::CommandOutput;
using report::JsonValue;

constexpr std::string_view kStatus = R"({"version":"0.1.0","node":"laptop","state":"up",
"uptime_s":7869,"sessions":[{"snapt":"zrh-1","address":"203.0.113.9:9347","transport":"udp",
"rtt_ms":24.2,"one_way_ms":12.1,"loss":0.0123,"throughput_bits_per_s":null,"mtu":1492,
"inner_ipv4":"100.64.0.2","inner_ipv6":null,"flows":3}],
"paths":[{"interface":"wlan0","local":"192.0.2.7","snapt":"zrh-1","state":"usable","rtt_ms":24.2,
"loss":0.031,"delivery_bits_per_s":12400000,"mtu":1492,"mtu_state":"searching","black_holes":17,"active":true}],
"classes":{"lt-ld":{"packets":12,"datagrams":4,"packets_alone":1,"sent_by_timeout":3,
"sent_by_size":1,"inner_bytes":2048,"wire_bytes":1024,"saved_percent":50.0,"queue_ms_p50":4.1,
"queue_ms_p99":8.2,"queue_drops":0}},
"handovers":{"count":2,"last":{"at":1790000000,"from":"eth0 192.0.2.1","to":"wlan0 192.0.2.7",
"gap_ms":23.5}},"drops":{"replayed":2,"too_short":0},
"io":{"tun_reads":100,"tun_read_bytes":65536,"tun_writes":7,"segments_per_write":21.5,
"super_packets":9,"super_segments":180,"software_segmented":0,"uso":true,"slow_iterations":1}})";

JsonValue json(std::string_view text) {
    auto parsed = JsonValue::parse(text);
    EXPECT_TRUE(parsed) << text;
    return parsed ? std::move(*parsed) : JsonValue();
}

CommandLine parse(std::vector<const char*> arguments) {
    return report::parse_command_line(program_spec(), arguments);
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

// A daemon whose answers are prepared; pauses only move its clock.
struct FakeDaemon {
    std::vector<base::Result<std::string>> answers;  // the last one for ever
    std::vector<std::string> requests;
    base::TimePoint clock{};

    report::DaemonAccess access() {
        report::DaemonAccess result;
        result.program = "cnapt";
        result.socket = "/run/x.sock";
        result.request = [this](std::string_view line,
                                base::Duration) -> base::Result<std::string> {
            requests.emplace_back(line);
            return answers[std::min(requests.size(), answers.size()) - 1];
        };
        result.now = [this] { return clock; };
        result.pause = [this](base::Duration span) { clock += span; };
        return result;
    }
    CommandOutput run(std::vector<const char*> arguments) {
        const CommandLine line = parse(std::move(arguments));
        EXPECT_TRUE(line.command) << line.text;
        return line.command ? ask_command(access(), *line.command, false) : CommandOutput{};
    }
};

const base::Error kNobody{base::Errc::System, "connect", ENOENT};
const base::Error kRefused{base::Errc::System, "connect", ECONNREFUSED};

TEST(CnaptCommandLine, KnowsTheCommandsOfTheContract) {
    for (const char* name : {"run", "resolver", "status", "flows", "paths", "snapts", "portal",
                             "usage", "reload", "doctor", "check"}) {
        EXPECT_TRUE(parse({name}).command) << name;
    }
    EXPECT_EQ(parse({"fly"}).exit_code, report::kExitUsage);
    EXPECT_EQ(parse({"flows", "extra"}).exit_code, report::kExitUsage);
    EXPECT_EQ(parse({"status", "--config", "x"}).exit_code, report::kExitUsage);
    EXPECT_EQ(parse({"--help"}).exit_code, report::kExitGood);
}

TEST(CnaptCommandLine, TakesSocketAndJsonOnEitherSideOfTheCommand) {
    for (const auto& words : std::vector<std::vector<const char*>>{
             {"--socket", "/s", "--json", "flows"}, {"flows", "--json", "--socket=/s"}}) {
        const CommandLine line = parse(words);
        ASSERT_TRUE(line.command);
        EXPECT_EQ(line.command->value("--socket"), "/s");
        EXPECT_TRUE(line.command->has("--json"));
    }
}

TEST(CnaptStatus, ShowsSessionsPathsClassesAndHandovers) {
    const std::string text = status_text(json(kStatus), false);
    for (const char* part :
         {"node laptop", "up for 02:11:09", "203.0.113.9:9347", "24 ms", "1.2 %", "wlan0>zrh-1",
          "usable", "1492", "searching", "17", "lt-ld", "2.00 KiB", "50.0 %", "handovers  2",
          "replayed 2", "21.5 segments a write"}) {
        EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
    }
    EXPECT_FALSE(contains(text, "too_short")) << "a reason that did not occur is shown";
    EXPECT_FALSE(contains(text, "\x1b")) << "colour without a terminal";
    EXPECT_TRUE(contains(status_text(json(kStatus), true), "\x1b"));
}

TEST(CnaptStatus, SaysHowNamesAreLookedUpIfThatIsItsBusiness) {
    const auto names = [](const std::string& dns) {
        return status_text(json(R"({"state":"up","dns":)" + dns + "}"), false);
    };
    EXPECT_TRUE(contains(names(R"({"state":"tunnel"})"), "names      through the tunnel\n"));
    EXPECT_TRUE(contains(names(R"({"state":"plain"})"), "names      as without cnapt\n"));
    EXPECT_TRUE(contains(names(R"({"state":"failed","error":"no file"})"), "cnapt: no file\n"));
    EXPECT_FALSE(contains(names(R"({"state":"off"})"), "names "));
    EXPECT_FALSE(contains(status_text(json(kStatus), false), "names "));
}

TEST(CnaptStatus, SaysWhatBecomesOfManyRoutes) {
    const auto routes = [](const std::string& text) {
        return status_text(json(R"({"state":"up","routes":)" + text + "}"), false);
    };
    EXPECT_TRUE(contains(routes(R"({"left_out":99936,"unseen":0})"),
                         "routes     99936 of the main table are ignored"));
    EXPECT_TRUE(contains(routes(R"({"left_out":5,"unseen":3})"), "routes     3 default routes"));
    EXPECT_FALSE(contains(routes(R"({"left_out":0,"unseen":0})"), "routes "));
    EXPECT_TRUE(contains(routes(R"({"left_out":5,"unseen":0,"unwatched":7})"),
                         "routes     7 addresses of SNAPTs or name servers are too many"));
    EXPECT_TRUE(
        contains(routes(R"({"unwatched":7,"sources_left_out":2})"),
                 "routes     2 of uplinks are left out, too many: a strict reverse path filter"));
}

TEST(CnaptStatus, SaysThatFlowsGoOutsideTheTunnelAndWhy) {
    const std::string_view error =
        R"("last_error":{"kind":"timed_out","text":"timed out: no answer","at":0,"current":true})";
    const std::string text = status_text(
        json(R"({"node":"laptop","state":"down","tunnel":"new_flows_plain","kill_switch":false,
"snapts":[{"snapt":"zrh-1",)" +
             std::string(error) + R"(}],
"paths":[{"interface":"up1","snapt":"zrh-1",)" +
             std::string(error) + "}]}"),
        false);
    EXPECT_TRUE(contains(text, "\ntunnel: new flows plain (they go outside the tunnel); "
                               "kill switch off\nzrh-1: timed out: no answer (1970"))
        << text;
    EXPECT_TRUE(contains(text, "\nup1>zrh-1: timed out: no answer (1970")) << text;
}

TEST(CnaptPaths, AClassThatIsNotSentTheNormalWayIsNamed) {
    const auto paths = [](const std::string& ways) {
        return paths_text(
            json(R"([{"interface":"wlan0","snapt":"zrh-1","state":"usable","ways":)" + ways + "}]"),
            false);
    };
    EXPECT_TRUE(contains(paths(R"([{"class":"ht-ld","way":"unmarked"}])"),
                         "wlan0>zrh-1: ht-ld is sent without its DSCP"));
    EXPECT_TRUE(contains(paths(R"([{"class":"ht-hd","way":"detour"}])"),
                         "wlan0>zrh-1: ht-hd is sent from the lt-ld socket"));
    EXPECT_FALSE(contains(paths("[]"), "is sent"));
}

TEST(CnaptPaths, OneBehindAPortalSaysSo) {
    const std::string text = paths_text(
        json(R"([{"interface":"wlan0","snapt":"zrh-1","state":"dead","captive":true}])"), false);
    EXPECT_TRUE(contains(text, "portal"));
    EXPECT_FALSE(contains(text, "dead"));
}

TEST(CnaptPortal, AsksForTheUserWhoTypesAndSaysWhereToLogIn) {
    ::unsetenv("SUDO_UID");
    FakeDaemon daemon;
    daemon.answers = {std::string(
        R"({"interface":"wlan0","url":"http://login.example/","user":1000,"seconds":300})")};
    const CommandOutput output = daemon.run({"portal", "wlan0"});
    EXPECT_EQ(output.exit_code, report::kExitGood);
    EXPECT_TRUE(contains(output.out, "wlan0: log in at http://login.example/\n"));
    EXPECT_TRUE(contains(output.out, "user 1000 go to that portal for 300 s"));
    EXPECT_FALSE(contains(output.out, "did not say"));
    daemon.answers = {std::string(
        R"({"interface":"wlan0","url":"http://example.com/","url_is_told":false,"user":1})")};
    EXPECT_TRUE(contains(daemon.run({"portal"}).out, "any http:// page leads to it"));
    const std::string user = R"("user":)" + std::to_string(::getuid());
    ASSERT_EQ(daemon.requests.size(), 2U);
    EXPECT_TRUE(contains(daemon.requests[0], R"("interface":"wlan0")"));
    EXPECT_FALSE(contains(daemon.requests[1], "interface"));
    for (const std::string& request : daemon.requests) {
        EXPECT_TRUE(contains(request, R"("command":"portal")"));
        EXPECT_TRUE(contains(request, user));
    }
}

TEST(CnaptStatus, SurvivesAnswersOfAnotherShape) {
    for (const char* text : {"{}", "[]", "null", R"({"sessions":{},"paths":7,"state":[]})"}) {
        EXPECT_FALSE(status_text(json(text), false).empty());
        EXPECT_FALSE(paths_text(json(text), false).empty());
        EXPECT_FALSE(snapts_text(json(text), false).empty());
        EXPECT_FALSE(report::flows_text(json(text).items(), false, false).empty());
    }
}

TEST(CnaptStatus, IsAnAlarmUnlessUp) {
    FakeDaemon daemon;
    daemon.answers = {std::string(kStatus), std::string(R"({"state":"degraded"})")};
    EXPECT_EQ(daemon.run({"status"}).exit_code, report::kExitGood);
    EXPECT_EQ(daemon.run({"status"}).exit_code, report::kExitAlarm);
}

TEST(CnaptStatus, JsonIsPrintedAsItCame) {
    FakeDaemon daemon;
    daemon.answers = {std::string(kStatus) + "\n"};
    EXPECT_EQ(daemon.run({"status", "--json"}).out, std::string(kStatus) + "\n");
}

TEST(CnaptWait, GoesOnUntilTheStateIsThere) {
    FakeDaemon daemon;
    daemon.answers = {kNobody, kRefused, std::string(R"({"state":"down"})"), std::string(kStatus)};
    const CommandOutput output = daemon.run({"status", "--wait", "up", "--timeout", "10"});
    EXPECT_EQ(output.exit_code, report::kExitGood);
    EXPECT_EQ(daemon.requests.size(), 4U);
    EXPECT_EQ(daemon.clock.time_since_epoch(), 3 * report::kPollInterval);
}

TEST(CnaptWait, EndsAtItsTimeoutWithTheReason) {
    FakeDaemon daemon;
    daemon.answers = {std::string(R"({"state":"down"})")};
    CommandOutput output = daemon.run({"status", "--wait", "--timeout", "0.5"});
    EXPECT_EQ(output.exit_code, report::kExitError);
    EXPECT_TRUE(contains(output.err, "\"down\"")) << output.err;
    EXPECT_LE(daemon.clock.time_since_epoch(), base::milliseconds(500));

    FakeDaemon absent;
    absent.answers = {kNobody};
    output = absent.run({"status", "--wait=up", "--timeout=1"});
    EXPECT_EQ(output.exit_code, report::kExitError);
    EXPECT_TRUE(contains(output.err, "no daemon answers at /run/x.sock")) << output.err;
}

TEST(CnaptWait, DoesNotWaitForWhatCannotCome) {
    FakeDaemon daemon;
    daemon.answers = {base::Error{base::Errc::System, "connect", EACCES}};
    EXPECT_EQ(daemon.run({"status", "--wait", "up"}).exit_code, report::kExitError);
    EXPECT_EQ(daemon.requests.size(), 1U);
    EXPECT_EQ(daemon.run({"status", "--wait", "flying"}).exit_code, report::kExitUsage);
    EXPECT_EQ(daemon.run({"status", "--timeout", "soon"}).exit_code, report::kExitUsage);
}

TEST(CnaptCommands, PassTheDaemonsErrorOn) {
    FakeDaemon daemon;
    daemon.answers = {std::string(R"({"error":"no SNAPT answers"})"), std::string("nonsense"),
                      std::string()};
    for (const char* part : {"no SNAPT answers", "not JSON", "without an answer"}) {
        const CommandOutput output = daemon.run({"flows"});
        EXPECT_EQ(output.exit_code, report::kExitError);
        EXPECT_TRUE(output.out.empty());
        EXPECT_TRUE(contains(output.err, part)) << output.err;
    }
}

TEST(CnaptFlows, ShowsEndpointsProcessAndReason) {
    FakeDaemon daemon;
    daemon.answers = {std::string(
        R"([{"flow_id":1,"proto":"tcp","src":"fd43::1","sport":4711,"dst":"2001:db8::2","dport":22,
"process":"ssh","app":"ssh","class":"lt-ld","snapt":"zrh-1","path":"wlan0>zrh-1","state":"open",
"packets_up":10,"packets_down":12,"inner_bytes_up":1024,"inner_bytes_down":4096,
"wire_bytes_up":512,"wire_bytes_down":2048,"age_s":61.5,"refused_reason":null},
{"flow_id":2,"proto":"icmp","src":"192.0.0.5","sport":0,"dst":"198.51.100.2","dport":0,
"process":null,"app":null,"class":"lt-ld","snapt":null,"path":null,"state":"refused",
"packets_up":0,"packets_down":0,"inner_bytes_up":0,"inner_bytes_down":0,"wire_bytes_up":0,
"wire_bytes_down":0,"age_s":0,"refused_reason":"denied by policy"}])")};
    const std::string text = daemon.run({"flows"}).out;
    EXPECT_EQ(daemon.requests.back(), R"({"command":"flows","after":0})");
    for (const char* part :
         {"[2001:db8::2]:22", "wlan0>zrh-1", "4.00 KiB", "00:01:01", "refused: denied by policy"}) {
        EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
    }
}

TEST(CnaptUsage, AsksWithKeysTimesAndZone) {
    FakeDaemon daemon;
    daemon.answers = {std::string(R"({"from":null,"to":null,"zone":"UTC","rows":[{"class":"lt-ld",
"flows":3,"payload_up":10,"payload_down":20,"pre":2048,"post":4096,"saved":-2048,
"saved_percent":-100.0}]})")};
    const CommandOutput output = daemon.run(
        {"usage", "--by", "class,day", "--by=app", "--from", "2026-11-01", "--to", "1793534400"});
    EXPECT_EQ(daemon.requests.back(),
              R"({"command":"usage","by":["class","day","app"],"from":1793491200000000,)"
              R"("to":1793534400000000,"zone":"UTC","user":null})");
    EXPECT_TRUE(contains(output.out, "-2.00 KiB")) << output.out;
    EXPECT_FALSE(contains(output.out, "USER")) << "a column that was not asked for";
    EXPECT_EQ(daemon.run({"usage", "--by", "colour"}).exit_code, report::kExitUsage);
    EXPECT_EQ(daemon.run({"usage", "--from", "yesterday"}).exit_code, report::kExitUsage);
}

TEST(CnaptUsage, AsValuesNamesWhatIsNotIncludedBesideThem) {
    FakeDaemon daemon;
    daemon.answers = {std::string(
        R"({"rows":[{"class":"lt-ld","flows":3}],"snapts":[{"snapt":"zrh-1","error":null},)"
        R"({"snapt":"ber-1","error":"no control link"}]})")};
    const CommandOutput output = daemon.run({"usage", "--by", "class", "--csv"});
    EXPECT_EQ(output.exit_code, report::kExitGood);
    EXPECT_TRUE(output.out.starts_with("class,flows,payload_up,")) << output.out;
    EXPECT_TRUE(contains(output.out, "\r\nlt-ld,3,,")) << output.out;
    EXPECT_EQ(output.err, "cnapt: not included: ber-1 (no control link)\n");
    EXPECT_EQ(daemon.run({"usage", "--csv", "--json"}).exit_code, report::kExitUsage);
}

TEST(CnaptTimes, AreReadInTheZoneOrInUtc) {
    EXPECT_EQ(parse_time_us("2026-11-01", "UTC"), 1793491200000000);
    EXPECT_EQ(parse_time_us("2026-11-01T12:00:00Z", "UTC"), 1793534400000000);
    EXPECT_EQ(parse_time_us("2026-11-01T12:00:00", "UTC"), 1793534400000000);
    for (const char* wrong : {"", "2026-11-01Z", "2026-11-01x", "2026-13-01", "12:00"}) {
        EXPECT_FALSE(parse_time_us(wrong, "UTC")) << wrong;
    }
    EXPECT_FALSE(parse_time_us("2026-11-01", "../etc/passwd"));
    EXPECT_FALSE(parse_time_us("2026-11-01", "No/Such"));
}

}  // namespace
}  // namespace continuo::cnapt
