// Screens of commands as docs/OPERATIONS.md shows them, and the reports they are made of.
#pragma once

#include "common/report/daemon_client.hpp"

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace continuo::test {

inline constexpr size_t kScreenColumns = 80;

inline std::string file_of_source(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(std::string(CONTINUO_SOURCE_DIR) + "/" + path).rdbuf();
    return text.str();
}

// What stands behind "$ COMMAND" in a block of the document, up to the end of the block.
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

}  // namespace continuo::test
