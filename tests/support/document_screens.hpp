// Compares the screens of commands in docs/OPERATIONS.md with what the programs print from the
// reports in tests/unit/PROGRAM/screens.
#pragma once

#include "common/report/command_line.hpp"
#include "common/report/daemon_client.hpp"
#include "common/report/findings.hpp"
#include "common/report/json_value.hpp"
#include "common/report/table.hpp"

#include <algorithm>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::test {

inline constexpr size_t kScreenColumns = 80;

inline std::string file_of_source(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(std::string(CONTINUO_SOURCE_DIR) + "/" + path).rdbuf();
    return text.str();
}

// The text behind "$ COMMAND" in a block of the document, up to the end of the block.
inline std::string screen_of(const std::string& command) {
    const std::string document = file_of_source("docs/OPERATIONS.md");
    const std::string head = "```\n$ " + command + "\n";
    const size_t at = document.find(head);
    if (at == std::string::npos) {
        return {};
    }
    const size_t begin = at + head.size();
    return document.substr(begin, document.find("```", begin) - begin);
}

// UTF-8 characters of the longest line.
inline size_t longest_line(const std::string& text) {
    size_t longest = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const auto width = std::count_if(line.begin(), line.end(), [](char c) {
            return (static_cast<uint8_t>(c) & 0xC0U) != 0x80U;
        });
        longest = std::max(longest, static_cast<size_t>(width));
    }
    return longest;
}

// A daemon that answers everything with one report.
inline report::DaemonAccess daemon_with(const std::string& program, const std::string& report) {
    report::DaemonAccess access;
    access.program = program;
    access.request = [report](std::string_view, base::Duration) {
        return base::Result<std::string>(report);
    };
    return access;
}

// A command that a daemon answers, and the report in the folder of screens that stands for the
// answer.
struct Screen {
    std::vector<const char*> words;
    const char* report;
};

// One program: how its commands are read and rendered, and which of them the document shows.
struct ScreenedProgram {
    std::string name;
    const report::ProgramSpec& spec;
    report::CommandOutput (*ask)(const report::DaemonAccess& access,
                                 const report::ParsedCommand& command,
                                 bool is_terminal,
                                 size_t columns);
    std::span<const Screen> screens;
};

inline std::string screen_report(const ScreenedProgram& program, const std::string& name) {
    return file_of_source("tests/unit/" + program.name + "/screens/" + name + ".json");
}

inline std::string shown(const ScreenedProgram& program, const Screen& screen, size_t columns) {
    const auto line = report::parse_command_line(program.spec, screen.words);
    EXPECT_TRUE(line.command) << line.text;
    const auto access = daemon_with(program.name, screen_report(program, screen.report));
    return program.ask(access, *line.command, false, columns).out;
}

inline void expect_screens_of_document(const ScreenedProgram& program) {
    for (const Screen& screen : program.screens) {
        std::string command = program.name;
        for (const char* word : screen.words) {
            command += std::string(" ") + word;
        }
        EXPECT_EQ(screen_of(command), shown(program, screen, kScreenColumns)) << command;
    }
}

inline void expect_screens_fit(const ScreenedProgram& program) {
    for (const Screen& screen : program.screens) {
        const std::string all = shown(program, screen, report::kAnyWidth);
        EXPECT_GT(longest_line(all), kScreenColumns) << "columns are left out for that";
        for (size_t columns = 60; columns <= 200; columns += 5) {
            const std::string text = shown(program, screen, columns);
            EXPECT_LE(longest_line(text), columns) << text;
        }
    }
}

// The findings in an answer of `doctor --json`.
inline report::Findings findings_of(const std::string& json) {
    report::Findings findings;
    const auto answer = report::JsonValue::parse(json);
    EXPECT_TRUE(answer) << json;
    if (!answer) {
        return findings;
    }
    for (const report::JsonValue& one : (*answer)["checks"].items()) {
        const std::string result = one.text("result");
        auto verdict = report::Verdict::Fail;
        for (const auto candidate :
             {report::Verdict::Ok, report::Verdict::Warn, report::Verdict::Skipped}) {
            verdict = to_string(candidate) == result ? candidate : verdict;
        }
        EXPECT_EQ(to_string(verdict), result);
        findings.add({verdict, one.text("check"), one.text("found"), one.text("remedy")});
    }
    return findings;
}

inline void expect_doctor_of_document(const ScreenedProgram& program) {
    const report::Findings findings = findings_of(screen_report(program, "doctor"));
    EXPECT_EQ(screen_of(program.name + " doctor"),
              report::findings_text(findings, false, kScreenColumns));
    for (size_t columns = 60; columns <= 200; columns += 5) {
        EXPECT_LE(longest_line(report::findings_text(findings, false, columns)), columns);
    }
}

}  // namespace continuo::test
