#include "common/report/status_report.hpp"
#include "snapt/cli.hpp"
#include "snapt/commands/live_commands.hpp"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::snapt::commands {
namespace {

using report::CommandOutput;

// Commands that the daemon answers by `reply_`.
class LiveCommands : public testing::Test {
  protected:
    CommandOutput run(const std::vector<const char*>& words) {
        const report::CommandLine line = report::parse_command_line(program_spec(), words);
        EXPECT_TRUE(line.command) << line.text;
        report::DaemonAccess access;
        access.program = "snapt";
        access.request = [this](std::string_view request, base::Duration) {
            requests_.emplace_back(request);
            return base::Result<std::string>(reply_);
        };
        access.pause = pause_;
        return live_command(access, *line.command, false, report::kAnyWidth);
    }
    std::string reply_;
    std::function<void(base::Duration)> pause_ = [](base::Duration) { FAIL() << "waits"; };
    std::vector<std::string> requests_;
};

TEST_F(LiveCommands, DisconnectAsksTheDaemonAndSaysHowManySessionsEnded) {
    reply_ = R"({"who":"alice","sessions_ended":1})";
    EXPECT_EQ(run({"disconnect", "alice"}).out, "ended 1 session\n");
    EXPECT_EQ(requests_.back(), R"({"command":"disconnect","who":"alice"})");
    EXPECT_EQ(run({"disconnect", "alice", "--json"}).out, reply_ + "\n");
    reply_ = R"({"who":"alice","sessions_ended":2})";
    EXPECT_EQ(run({"disconnect", "alice"}).out, "ended 2 sessions\n");
    reply_ = R"({"who":"alice","sessions_ended":0,"logins_ended":1})";
    EXPECT_EQ(run({"disconnect", "alice"}).out, "ended 0 sessions and 1 login\n");
    reply_ = report::error_json("nobody");
    const CommandOutput failed = run({"disconnect", "carol"});
    EXPECT_EQ(failed.exit_code, report::kExitError);
    EXPECT_NE(failed.err.find("nobody"), std::string::npos);
    const std::vector<const char*> nobody = {"disconnect"};
    EXPECT_FALSE(report::parse_command_line(program_spec(), nobody).command);
}

TEST_F(LiveCommands, DrainAsksTheDaemonAndSaysWhatIsLeft) {
    reply_ = R"({"draining":true,"since":1,"ends_at":null,"sessions":2,"flows":1})";
    EXPECT_EQ(run({"drain"}).out, "draining: no new sessions and flows; 2 sessions, 1 flow left\n");
    EXPECT_EQ(requests_.back(), R"({"command":"drain","action":"begin"})");
    EXPECT_EQ(run({"drain", "--timeout", "10min", "--json"}).out, reply_ + "\n");
    EXPECT_EQ(requests_.back(), R"({"command":"drain","action":"begin","timeout_ms":600000})");
    reply_ = R"({"draining":false,"since":null,"ends_at":null,"sessions":2,"flows":1})";
    EXPECT_EQ(run({"drain", "--undo"}).out,
              "new sessions and flows are taken again; 2 sessions, 1 flow\n");
    EXPECT_EQ(requests_.back(), R"({"command":"drain","action":"undo"})");
    const size_t asked = requests_.size();
    for (const char* time : {"soon", "-1", "25h", ""}) {
        EXPECT_EQ(run({"drain", "--timeout", time}).exit_code, report::kExitUsage) << time;
    }
    EXPECT_EQ(run({"drain", "--undo", "--wait"}).exit_code, report::kExitUsage);
    EXPECT_EQ(run({"drain", "--undo", "--timeout", "1s"}).exit_code, report::kExitUsage);
    EXPECT_EQ(requests_.size(), asked) << "what is wrong is asked of nobody";
}

TEST_F(LiveCommands, DrainWaitsUntilNoFlowIsLeftOrItIsUndone) {
    reply_ = R"({"draining":true,"since":1,"ends_at":null,"sessions":2,"flows":3})";
    size_t pauses = 0;
    pause_ = [&](base::Duration) {
        if (++pauses == 3) {
            reply_ = R"({"draining":true,"since":1,"ends_at":null,"sessions":2,"flows":0})";
        }
    };
    CommandOutput output = run({"drain", "--wait"});
    EXPECT_EQ(output.out, "draining: no new sessions and flows; 2 sessions, 0 flows left\n");
    EXPECT_EQ(output.exit_code, report::kExitGood);
    EXPECT_EQ(pauses, 3U);
    EXPECT_EQ(requests_.back(), R"({"command":"drain","action":"show"})");
    EXPECT_EQ(run({"drain", "--wait", "--json"}).out, reply_ + "\n");

    reply_ = R"({"draining":true,"since":1,"ends_at":null,"sessions":2,"flows":3})";
    pause_ = [&](base::Duration) {
        reply_ = R"({"draining":false,"since":null,"ends_at":null,"sessions":2,"flows":3})";
    };
    output = run({"drain", "--wait"});
    EXPECT_EQ(output.exit_code, report::kExitError);
    EXPECT_EQ(output.err, "snapt: the drain was undone\n");
    reply_ = R"({"draining":true,"since":1,"ends_at":null,"sessions":2,"flows":3})";
    pause_ = [&](base::Duration) { reply_ = report::error_json("gone"); };
    EXPECT_EQ(run({"drain", "--wait"}).exit_code, report::kExitError);
}

TEST_F(LiveCommands, TopShowsTheBusiestAndSumsUpTheOthers) {
    reply_ =
        R"({"rows":[{"user":"alice","class":"ht-hd","sessions":1,"up_bits_per_s":1000,)"
        R"("down_bits_per_s":2000000,"up_bytes":1024,"down_bytes":2048,"down_saved_percent":40.5}],)"
        R"("others":{"rows":17,"sessions":12,"up_bits_per_s":0,"down_bits_per_s":500,)"
        R"("up_bytes":0,"down_bytes":0,"down_saved_percent":null}})";
    const std::string text = run({"top", "--by", "user,class", "--limit", "1"}).out;
    EXPECT_EQ(requests_.back(), R"({"command":"top","by":"user,class","limit":1})");
    EXPECT_NE(text.find("USER"), std::string::npos) << text;
    EXPECT_NE(text.find("alice"), std::string::npos) << text;
    EXPECT_NE(text.find("2.00 Mbit/s"), std::string::npos) << text;
    EXPECT_NE(text.find("17 others"), std::string::npos) << text;
    EXPECT_EQ(run({"top", "--json"}).out, reply_ + "\n");
    for (const char* limit : {"0", "1001", "many", "-1"}) {
        EXPECT_EQ(run({"top", "--limit", limit}).exit_code, report::kExitUsage) << limit;
    }
    for (const char* by : {"node", "", "user,", "class,app"}) {
        EXPECT_EQ(run({"top", "--by", by}).exit_code, report::kExitUsage) << by;
    }
    EXPECT_EQ(requests_.size(), 2U) << "what is wrong is asked of nobody";
    reply_ = R"({"rows":[],"others":{"rows":0}})";
    EXPECT_EQ(run({"top"}).out, "no sessions\n");
}

TEST_F(LiveCommands, TopIsCommaSeparatedOnRequest) {
    reply_ =
        R"({"rows":[{"user":"alice","class":"ht-hd","sessions":1,"up_bits_per_s":1000,)"
        R"("down_bits_per_s":2000000,"up_bytes":1024,"down_bytes":2048,"down_saved_percent":40.5}],)"
        R"("others":{"rows":17}})";
    EXPECT_EQ(run({"top", "--by", "user,class", "--csv"}).out,
              "user,class,sessions,up_bits_per_s,down_bits_per_s,up_bytes,down_bytes,"
              "down_saved_percent\r\nalice,ht-hd,1,1000,2000000,1024,2048,40.5\r\n");
    EXPECT_TRUE(run({"top", "--csv"}).out.starts_with("user,sessions,")) << "as without --by";
}

}  // namespace
}  // namespace continuo::snapt::commands
