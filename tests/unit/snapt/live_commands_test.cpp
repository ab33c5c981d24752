#include "common/report/status_report.hpp"
#include "snapt/cli.hpp"
#include "snapt/live_commands.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::snapt {
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
        return live_command(access, *line.command);
    }
    std::string reply_;
    std::vector<std::string> requests_;
};

TEST_F(LiveCommands, DisconnectAsksTheDaemonAndSaysHowManySessionsEnded) {
    reply_ = R"({"who":"alice","sessions_ended":1})";
    EXPECT_EQ(run({"disconnect", "alice"}).out, "ended 1 session\n");
    EXPECT_EQ(requests_.back(), R"({"command":"disconnect","who":"alice"})");
    EXPECT_EQ(run({"disconnect", "alice", "--json"}).out, reply_ + "\n");
    reply_ = R"({"who":"alice","sessions_ended":2})";
    EXPECT_EQ(run({"disconnect", "alice"}).out, "ended 2 sessions\n");
    reply_ = report::error_json("nobody");
    const CommandOutput failed = run({"disconnect", "carol"});
    EXPECT_EQ(failed.exit_code, report::kExitError);
    EXPECT_NE(failed.err.find("nobody"), std::string::npos);
    const std::vector<const char*> nobody = {"disconnect"};
    EXPECT_FALSE(report::parse_command_line(program_spec(), nobody).command);
}

}  // namespace
}  // namespace continuo::snapt
