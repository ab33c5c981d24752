#include "common/daemon/startup.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <regex>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::daemon {
namespace {

struct ParsedNumber {
    std::optional<int> config;
    std::vector<config::Diagnostic> diagnostics;
};

// "7" is good, "odd" is taken with a warning, whatever else is wrong in two places.
ParsedNumber parse_number(std::string_view text, const std::string& file) {
    if (text == "7") {
        return {7, {}};
    }
    if (text == "odd") {
        return {1, {{file, 1, 1, "odd", "even", config::Severity::Warning}}};
    }
    return {std::nullopt, {{file, 1, 2, "first", "a 7"}, {file, 3, 4, "second", "a 7"}}};
}

class ConfigFile : public testing::Test {
  protected:
    void SetUp() override {
        path_ = testing::TempDir() + "continuo-startup-" + std::to_string(::getpid()) + ".toml";
    }
    void TearDown() override { ::unlink(path_.c_str()); }

    LoadedConfig<int> load(std::string_view text, DiagnosticsTo where = DiagnosticsTo::Log) {
        std::ofstream(path_) << text;
        return load_config<int>(path_, parse_number, where);
    }
    std::string path_;
};

TEST(Describe, NamesThePlaceOrElseTheCodeAndTheSystemsReason) {
    EXPECT_EQ(describe({base::Errc::System, "TCP bind", EADDRINUSE}),
              "TCP bind: Address already in use");
    EXPECT_EQ(describe({base::Errc::LimitReached, "sessions"}), "sessions");
    EXPECT_EQ(describe({base::Errc::NotFound, ""}), base::to_string(base::Errc::NotFound));
}

TEST(BeginProcess, LeavesNoWayToReadItsMemory) {
    const pid_t child = ::fork();
    if (child == 0) {
        begin_process(false);
        rlimit core{1, 1};
        const bool is_closed = ::getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0 &&
                               core.rlim_max == 0 && ::prctl(PR_GET_DUMPABLE) == 0;
        ::_exit(is_closed ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

// The log of a process that starts; `before` gets the descriptor of its log.
std::string logged(const std::function<void(int fd)>& before) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], STDERR_FILENO);
        before(STDERR_FILENO);
        begin_process(false);
        base::log(base::LogLevel::Warning, "%s", "it rains");
        ::_exit(0);
    }
    ::close(ends[1]);
    std::array<char, 256> text{};
    const ssize_t count = ::read(ends[0], text.data(), text.size());
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return {text.data(), count > 0 ? static_cast<size_t>(count) : 0};
}

TEST(LogTime, StandsInFrontUnlessTheJournalReads) {
    const auto stat_of = [](int fd) {
        struct stat own {};
        EXPECT_EQ(::fstat(fd, &own), 0);
        return std::to_string(own.st_dev) + ":" + std::to_string(own.st_ino);
    };
    const std::regex timed(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning: it rains\n)");
    for (const char* journal : {"", "1:2", "nonsense"}) {
        const std::string text = logged([&](int) { ::setenv("JOURNAL_STREAM", journal, 1); });
        EXPECT_TRUE(std::regex_match(text, timed)) << text;
    }
    EXPECT_TRUE(std::regex_match(logged([](int) { ::unsetenv("JOURNAL_STREAM"); }), timed));
    EXPECT_EQ(logged([&](int fd) { ::setenv("JOURNAL_STREAM", stat_of(fd).c_str(), 1); }),
              "warning: it rains\n");
}

TEST(LogTime, IsUtcWithMilliseconds) {
    EXPECT_EQ(log_time(0), "1970-01-01T00:00:00.000Z ");
    EXPECT_EQ(log_time(1795435509042999), "2026-11-23T12:05:09.042Z ");
}

TEST_F(ConfigFile, GivesAGoodOneWithoutComplaint) {
    const auto loaded = load("7");
    EXPECT_EQ(loaded.config, 7);
    EXPECT_EQ(loaded.complaint, "");
}

TEST_F(ConfigFile, WarningsAreNoReasonToRefuseIt) {
    const auto loaded = load("odd");
    EXPECT_EQ(loaded.config, 1);
    EXPECT_EQ(loaded.complaint, path_ + ":1:1: warning: odd; expected even");
}

TEST_F(ConfigFile, SaysAllThatIsWrongAndComplainsOfTheFirst) {
    testing::internal::CaptureStderr();
    const auto loaded = load("8", DiagnosticsTo::Stderr);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), path_ + ":1:2: error: first; expected a 7\n" +
                                                          path_ +
                                                          ":3:4: error: second; expected a 7\n");
    EXPECT_FALSE(loaded.config);
    EXPECT_EQ(loaded.complaint, path_ + ":1:2: error: first; expected a 7");
}

TEST_F(ConfigFile, AFileThatCannotBeReadIsNotParsed) {
    const auto loaded =
        load_config<int>("/nonexistent/continuo.toml", parse_number, DiagnosticsTo::Log);
    EXPECT_FALSE(loaded.config);
    EXPECT_EQ(loaded.complaint, "cannot read /nonexistent/continuo.toml");
}

TEST(Reload, AnswersWithWhatWasAppliedAndWhatWasNot) {
    const std::vector<std::string> applied = {"class.lt-ld.hold"};
    const std::vector<std::string> restart = {"listen"};
    EXPECT_EQ(reloaded("f.toml", applied, restart),
              R"({"applied":["class.lt-ld.hold"],"needs_restart":["listen"]})");
}

struct RecordedApp {
    base::Result<void> start(std::string& failure) {
        failure = "cannot listen";
        calls += "start ";
        return result;
    }
    void run() { calls += "run "; }
    void stop() { calls += "stop"; }

    base::Result<void> result;
    std::string calls;
};

TEST(RunApp, RunsWhatStartedAndStopsIt) {
    RecordedApp app;
    EXPECT_EQ(run_app(app), 0);
    EXPECT_EQ(app.calls, "start run stop");
}

TEST(RunApp, SaysWhyItCannotStartAndTakesBackWhatWasDone) {
    RecordedApp app;
    app.result = base::Error{base::Errc::System, "bind", EACCES};
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_app(app), 1);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("cannot listen: bind: Permission denied"),
              std::string::npos);
    EXPECT_EQ(app.calls, "start stop");
}

}  // namespace
}  // namespace continuo::daemon
