#include "common/base/version.hpp"
#include "common/daemon/doctor.hpp"
#include "common/daemon/doctor_context.hpp"
#include "common/daemon/doctor_files.hpp"

#include <cerrno>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::daemon {
namespace {

using report::Finding;
using report::Verdict;

struct Context {
    report::Findings findings;
    Deadline deadline;
    int runs = 0;
};

TEST(Doctor, RunsChecksInTheirOrder) {
    static constexpr DoctorCheck<Context> kChecks[] = {
        {"one", [](Context& context) { context.findings.ok("one", "first"); }},
        {"two", [](Context& context) { context.findings.fail("two", "second", "mend it"); }}};
    Context context;
    run_checks(std::span<const DoctorCheck<Context>>(kChecks), context);
    ASSERT_EQ(context.findings.all().size(), 2U);
    EXPECT_EQ(context.findings.all()[0].check, "one");
    EXPECT_TRUE(context.findings.has(Verdict::Fail));
}

TEST(Doctor, WhatComesAfterItsTimeIsSkippedAndSaysSo) {
    static constexpr DoctorCheck<Context> kChecks[] = {
        {"late", [](Context& context) { ++context.runs; }}};
    Context context;
    context.deadline = Deadline(base::Duration{});
    EXPECT_EQ(context.deadline.time_for(base::seconds(5)), base::Duration{});
    run_checks(std::span<const DoctorCheck<Context>>(kChecks), context);
    EXPECT_EQ(context.runs, 0);
    ASSERT_EQ(context.findings.all().size(), 1U);
    EXPECT_EQ(context.findings.all()[0].verdict, Verdict::Skipped);
    EXPECT_EQ(context.findings.all()[0].check, "late");
}

TEST(Doctor, WorkThatDoesNotEndIsLeftBehind) {
    const auto gate = std::make_shared<std::promise<void>>();
    const auto ended = std::make_shared<std::promise<void>>();
    const std::vector<std::function<int()>> works = {[] { return 7; },
                                                     [gate, ended] {
                                                         gate->get_future().wait();
                                                         ended->set_value();
                                                         return 8;
                                                     }};
    const auto results = within(base::milliseconds(50), works);
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(results[0], 7);
    EXPECT_EQ(results[1], std::nullopt);
    gate->set_value();
    ended->get_future().wait();
    EXPECT_TRUE(within(base::seconds(1), std::vector<std::function<int()>>{}).empty());
}

report::DaemonAccess access_with(base::Result<std::string> reply) {
    report::DaemonAccess access;
    access.program = "cnapt";
    access.socket = "/run/x.sock";
    access.request = [reply](std::string_view, base::Duration) { return reply; };
    return access;
}

DaemonAnswer::Kind kind_of(base::Result<std::string> reply) {
    return ask(access_with(std::move(reply)), "status", base::seconds(1)).kind;
}

TEST(Doctor, TellsADaemonThatIsAbsentFromOneThatDoesNotAnswer) {
    using base::Errc;
    using base::Error;
    EXPECT_EQ(kind_of(std::string(R"({"state":"up"})")), DaemonAnswer::Kind::Answer);
    EXPECT_EQ(kind_of(Error{Errc::System, "connect", ENOENT}), DaemonAnswer::Kind::Absent);
    EXPECT_EQ(kind_of(Error{Errc::System, "connect", ECONNREFUSED}), DaemonAnswer::Kind::Absent);
    EXPECT_EQ(kind_of(Error{Errc::System, "connect", EACCES}), DaemonAnswer::Kind::Unknown);
    EXPECT_EQ(kind_of(Error{Errc::WouldBlock, "answer", 0}), DaemonAnswer::Kind::Unknown);
    EXPECT_EQ(kind_of(std::string("x")), DaemonAnswer::Kind::Unknown);
    EXPECT_EQ(kind_of(std::string(R"({"error":"no"})")), DaemonAnswer::Kind::Unknown);
}

DoctorContext context_with(base::Result<std::string> reply = std::string("{}")) {
    DoctorContext context(access_with(std::move(reply)), {}, "/etc/x.toml", "/var/lib/x");
    context.is_root = false;
    return context;
}

Finding only_finding(const DoctorContext& context) {
    EXPECT_EQ(context.findings.all().size(), 1U);
    return context.findings.all().empty() ? Finding{} : context.findings.all()[0];
}

TEST(Doctor, WhatOnlyRootReadsIsNoFailure) {
    const base::Error refused{base::Errc::System, "open", EACCES};
    DoctorContext context = context_with();
    say_unread(context, "policy", "/etc/x.toml", refused, "mend it");
    EXPECT_EQ(only_finding(context),
              (Finding{Verdict::Skipped, "policy", "/etc/x.toml may not be read by this user",
                       "run it as root"}));
    context = context_with();
    context.is_root = true;
    say_unread(context, "policy", "/etc/x.toml", refused, "mend it");
    EXPECT_EQ(only_finding(context).verdict, Verdict::Fail);
    EXPECT_EQ(only_finding(context).remedy, "mend it");
}

TEST(Doctor, TellsTheFirstErrorOfAFileAndHowManyFollow) {
    using config::Severity;
    const std::vector<config::Diagnostic> both = {{"f", 1, 1, "odd", "even", Severity::Warning},
                                                  {"f", 2, 1, "bad", "good", Severity::Error}};
    DoctorContext context = context_with();
    EXPECT_FALSE(say_diagnostics(context, "configuration", "f", both));
    EXPECT_EQ(only_finding(context),
              (Finding{Verdict::Fail, "configuration", config::to_text(both[1]) + ", and 1 more",
                       "correct it; `cnapt check f` shows all"}));
    context = context_with();
    EXPECT_TRUE(say_diagnostics(context, "configuration", "f", std::span(both).first(1)));
    EXPECT_EQ(only_finding(context).verdict, Verdict::Warn);
    context = context_with();
    EXPECT_TRUE(say_diagnostics(context, "configuration", "f", {}));
    EXPECT_TRUE(context.findings.all().empty());
}

TEST(Doctor, ADaemonThatDoesNotAnswerIsAFailureForRootOnly) {
    DoctorContext context = context_with(base::Error{base::Errc::System, "connect", ENOENT});
    EXPECT_FALSE(daemon_answers(context));
    EXPECT_EQ(only_finding(context),
              (Finding{Verdict::Warn, "daemon", "none answers at /run/x.sock",
                       "start it: systemctl start cnapt, or cnapt run"}));
    for (const bool is_root : {false, true}) {
        context = context_with(base::Error{base::Errc::WouldBlock, "answer", 0});
        context.is_root = is_root;
        EXPECT_FALSE(daemon_answers(context));
        EXPECT_EQ(only_finding(context).verdict, is_root ? Verdict::Fail : Verdict::Skipped);
    }
}

TEST(Doctor, VersionAndStateOfADaemonMakeTheVerdict) {
    const auto finding = [](const std::string& version, const std::string& state) {
        DoctorContext context = context_with(R"({"version":")" + version + R"(","state":")" +
                                             state + R"(","uptime_s":61})");
        EXPECT_TRUE(daemon_answers(context));
        EXPECT_TRUE(context.findings.all().empty());
        say_status(context, "runs as zrh-1", "3 sessions");
        return only_finding(context);
    };
    const std::string here(base::kVersion);
    EXPECT_EQ(finding(here, "up"),
              (Finding{Verdict::Ok, "daemon",
                       "runs as zrh-1, state up, 3 sessions, up for 00:01:01", ""}));
    EXPECT_EQ(finding(here, "connecting").verdict, Verdict::Warn);
    EXPECT_EQ(finding(here, "down").verdict, Verdict::Fail);
    EXPECT_EQ(finding("0.0.1", "up").verdict, Verdict::Warn);
    EXPECT_EQ(finding("0.0.1", "up").remedy, "restart it: systemctl restart cnapt");
}

class DoctorFiles : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
        files_.secrets = {write("cnapt.toml", 0600)};
        files_.read = {write("policy.toml", 0644), folder_ + "/none"};
        files_.state = folder_;
        files_.socket = folder_ + "/socket";
        files_.user = "continuo-nobody-has-this-name";
    }
    void TearDown() override {
        for (const char* name : {"/cnapt.toml", "/policy.toml"}) {
            ::unlink((folder_ + name).c_str());
        }
        ::rmdir(folder_.c_str());
    }
    std::string write(const char* name, mode_t mode) {
        const std::string path = folder_ + "/" + name;
        std::ofstream(path) << "x";
        EXPECT_EQ(::chmod(path.c_str(), mode), 0);
        return path;
    }
    std::vector<Finding> look() const {
        report::Findings findings;
        check_files(files_, findings);
        return findings.all();
    }

    std::string folder_ = testing::TempDir() + "doctor-XXXXXX";
    CheckedFiles files_;
};

TEST_F(DoctorFiles, RightOnesHaveOneLine) {
    const auto found = look();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].verdict, Verdict::Ok);
}

TEST_F(DoctorFiles, AKeyThatEverybodyReadsFails) {
    write("cnapt.toml", 0644);
    const auto found = look();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].verdict, Verdict::Fail);
    EXPECT_NE(found[0].found.find("(mode 0644) holds keys"), std::string::npos);
    EXPECT_NE(found[0].remedy.find("chmod o= " + folder_), std::string::npos);
}

TEST_F(DoctorFiles, WhatOthersMayWriteFails) {
    write("policy.toml", 0666);
    ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
    const auto found = look();
    ASSERT_EQ(found.size(), 2U);
    EXPECT_NE(found[0].found.find("policy.toml (mode 0666)"), std::string::npos);
    EXPECT_NE(found[1].found.find("can be written by everybody"), std::string::npos);
}

}  // namespace
}  // namespace continuo::daemon
