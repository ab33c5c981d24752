// Every kind of bad file that we could think of, with the exact words of `cnapt check` and `snapt
// check`.
#include "cnapt/cli.hpp"
#include "cnapt/settings/node_config.hpp"
#include "common/report/check_report.hpp"
#include "common/report/command_line.hpp"
#include "rating/plan.hpp"
#include "snapt/cli.hpp"
#include "snapt/snapt_config.hpp"
#include "tests/unit/config/bad_file_manifest.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

namespace continuo {
namespace {

using tests::BadFile;

constexpr size_t kFewestKinds = 60;
const std::string kFolder = CONTINUO_SOURCE_DIR "/tests/vectors/bad_config";

std::vector<config::Diagnostic> check_snapt_text(std::string_view text, const std::string& file) {
    return snapt::parse_snapt_config(text, file).diagnostics;
}

std::vector<config::Diagnostic> check_plan_text(std::string_view text, const std::string& file) {
    return rating::parse_plan(text, file, rating::PlanUse::New).diagnostics;
}

struct Manifest {
    std::string name;  // and that of the file in the messages, but for the extension
    std::vector<report::CheckText> programs;
};

const std::vector<Manifest>& manifests() {
    static const std::vector<Manifest> kAll = {
        {"cnapt.txt", {cnapt::settings::check_node_text}},
        {"plan.txt", {check_plan_text}},
        {"policy.txt", {cnapt::settings::check_node_text}},
        {"snapt.txt", {check_snapt_text}},
        {"syntax.txt", {cnapt::settings::check_node_text, check_snapt_text}},
    };
    return kAll;
}

report::CheckReport
check(const BadFile& entry, const std::string& file, const report::CheckText& program) {
    const std::vector<std::string> files = {file};
    return report::check_files(
        files, false,
        [&entry](const std::string&) {
            return report::FileText{entry.text, ""};
        },
        program);
}

TEST(BadConfig, EveryKindIsToldInTheseWords) {
    size_t kinds = 0;
    std::set<std::string> seen;
    for (const Manifest& manifest : manifests()) {
        const std::string file = manifest.name.substr(0, manifest.name.find('.')) + ".toml";
        for (const BadFile& entry : tests::read_manifest(kFolder, manifest.name)) {
            const std::string place = entry.place + ": " + entry.claim;
            ++kinds;
            EXPECT_FALSE(entry.expected.empty()) << place << ": no expectation";
            EXPECT_TRUE(seen.insert(manifest.name + entry.claim).second) << place << ": twice";
            for (const report::CheckText& program : manifest.programs) {
                const report::CheckReport report = check(entry, file, program);
                EXPECT_EQ(report.err, entry.expected) << place;
                const bool has_error = entry.expected.find(": error: ") != std::string::npos;
                EXPECT_EQ(report.exit_code, has_error ? report::kExitConfig : report::kExitGood)
                    << place;
            }
        }
    }
    EXPECT_GE(kinds, kFewestKinds);
}

TEST(BadConfig, NoManifestIsForgotten) {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
        if (entry.path().extension() == ".txt") {
            found.insert(entry.path().filename());
        }
    }
    std::set<std::string> known;
    for (const Manifest& manifest : manifests()) {
        known.insert(manifest.name);
    }
    EXPECT_EQ(found, known);
}

TEST(BadConfig, EveryMessageHasOneFormAndAPlaceInTheFile) {
    for (const Manifest& manifest : manifests()) {
        for (const BadFile& entry : tests::read_manifest(kFolder, manifest.name)) {
            const auto lines =
                static_cast<size_t>(std::count(entry.text.begin(), entry.text.end(), '\n'));
            for (const config::Diagnostic& diagnostic : manifest.programs[0](entry.text, "f")) {
                EXPECT_GE(diagnostic.column, 1U) << entry.place;
                EXPECT_LE(diagnostic.line, lines + 1) << entry.place;
                EXPECT_FALSE(diagnostic.message.empty()) << entry.place;
                EXPECT_FALSE(diagnostic.expected.empty()) << entry.place;
                EXPECT_EQ(to_text(diagnostic).find_first_of("\n\r\x1b"), std::string::npos)
                    << entry.place;
            }
        }
    }
}

TEST(BadConfig, AKeyIsNeverPrinted) {
    for (const BadFile& entry : tests::read_manifest(kFolder, "cnapt.txt")) {
        const report::CheckReport report =
            check(entry, "cnapt.toml", cnapt::settings::check_node_text);
        for (const std::string_view secret :
             {"not base 64, but", "AAECAwQF", "3q2+7wABAg", "12345"}) {
            EXPECT_EQ(report.err.find(secret), std::string::npos) << entry.place;
        }
    }
}

// Cases that are too long for a manifest.
struct LongFile {
    std::string text;
    std::string expected;
};

std::string repeated(size_t count, std::string_view text) {
    std::string result;
    for (size_t i = 0; i < count; ++i) {
        result += text;
    }
    return result;
}

TEST(BadConfig, WhatIsTooLongIsRefusedInTheseWords) {
    const std::vector<LongFile> files = {
        {repeated(30'000, "# a comment\n"),
         "f:1:1: error: the file is too long; expected at most 262144 bytes\n"},
        {"\nnode = \"" + repeated(5000, "x") + "\"\n",
         "f:2:1: error: the line is too long; expected at most 4096 bytes in a line\n"},
        {"a = " + repeated(100, "["),
         "f:1:37: error: nested too deeply; expected at most 32 brackets, keys of 16 parts\n"},
        {"a = " + repeated(100, "{b="),
         "f:1:101: error: nested too deeply; expected at most 32 brackets, keys of 16 parts\n"},
        {repeated(100, "a.") + "b = 1\n",
         "f:1:32: error: nested too deeply; expected at most 32 brackets, keys of 16 parts\n"},
        {"[" + repeated(100, "a.") + "b]\n",
         "f:1:33: error: nested too deeply; expected at most 32 brackets, keys of 16 parts\n"},
    };
    for (const LongFile& file : files) {
        const BadFile entry{"", "", file.text, ""};
        EXPECT_EQ(check(entry, "f", cnapt::settings::check_node_text).err, file.expected);
        EXPECT_EQ(check(entry, "f", check_snapt_text).err, file.expected);
    }
    const BadFile rules{"", "", repeated(4097, "[[rule]]\napp=\"x\"\nmatch={}\n"), ""};
    EXPECT_EQ(check(rules, "f", cnapt::settings::check_node_text).err,
              "f:1:1: error: 4097 rules; expected at most 4096\n");
}

TEST(BadConfig, AFileThatCannotBeReadIsToldInTheseWords) {
    const std::vector<std::pair<std::string, std::string>> paths = {
        {"/", "Is a directory"},
        {"/nonexistent/f.toml", "No such file or directory"},
        {"/dev/zero", "file too long"},
    };
    for (const auto& [path, reason] : paths) {
        const std::string expected =
            path + ":1:1: error: cannot be read: " + reason + "; expected a readable file\n";
        const std::array<const char*, 2> words = {"check", path.c_str()};
        for (const auto run : {cnapt::run_program, snapt::run_program}) {
            testing::internal::CaptureStderr();
            EXPECT_EQ(run(words), report::kExitConfig);
            EXPECT_EQ(testing::internal::GetCapturedStderr(), expected);
        }
    }
}

}  // namespace
}  // namespace continuo
