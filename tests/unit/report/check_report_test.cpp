#include "common/report/check_report.hpp"

#include <gtest/gtest.h>

namespace continuo::report {
namespace {

FileText read(const std::string& path) {
    if (path == "absent") {
        return {"", "No such file or directory"};
    }
    return {path, ""};
}

std::vector<config::Diagnostic> check(std::string_view text, const std::string& file) {
    if (text == "good") {
        return {};
    }
    const auto severity = text == "odd" ? config::Severity::Warning : config::Severity::Error;
    return {{file, 3, 7, "\"a\" is 1", "true or false", severity}};
}

CheckReport run(const std::vector<std::string>& files, bool as_json) {
    return check_files(files, as_json, read, check);
}

TEST(CheckFiles, SaysNothingOfGoodFiles) {
    const CheckReport report = run({"good"}, false);
    EXPECT_EQ(report.exit_code, 0);
    EXPECT_EQ(report.out + report.err, "");
    EXPECT_EQ(run({"good"}, true).out, "{\"errors\":[],\"warnings\":[]}\n");
}

TEST(CheckFiles, PrintsAllOfAllFiles) {
    const CheckReport report = run({"bad", "good", "absent"}, false);
    EXPECT_EQ(report.exit_code, 78);
    EXPECT_EQ(report.out, "");
    EXPECT_EQ(report.err, "bad:3:7: error: \"a\" is 1; expected true or false\n"
                          "absent:1:1: error: cannot be read: No such file or directory; "
                          "expected a readable file\n");
}

TEST(CheckFiles, HasTheSameAsJson) {
    const CheckReport report = run({"bad"}, true);
    EXPECT_EQ(report.exit_code, 78);
    EXPECT_EQ(report.err, "");
    EXPECT_EQ(report.out, "{\"errors\":[{\"file\":\"bad\",\"line\":3,\"column\":7,"
                          "\"message\":\"\\\"a\\\" is 1; expected true or false\","
                          "\"expected\":\"true or false\"}],\"warnings\":[]}\n");
}

TEST(CheckFiles, LetsWarningsPass) {
    const CheckReport report = run({"odd"}, false);
    EXPECT_EQ(report.exit_code, 0);
    EXPECT_EQ(report.err, "odd:3:7: warning: \"a\" is 1; expected true or false\n");
}

}  // namespace
}  // namespace continuo::report
