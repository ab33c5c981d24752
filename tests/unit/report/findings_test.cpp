#include "common/report/findings.hpp"
#include "common/report/json_value.hpp"

#include <sstream>

#include <gtest/gtest.h>

namespace continuo::report {
namespace {

Findings some() {
    Findings findings;
    findings.ok("tun", "/dev/net/tun can be opened");
    findings.fail("udp 203.0.113.9:9347", "no answer within 3 s",
                  "open 9347/udp at the server and on the way; until then data goes over TCP");
    findings.skip("nftables", "needs root", "run it with sudo");
    return findings;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
    }
    return lines;
}

TEST(Findings, OneLineEachWithWhatToDo) {
    const auto lines = lines_of(findings_text(some(), false, 0));
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[0], "ok       tun                   /dev/net/tun can be opened");
    EXPECT_EQ(lines[1], "fail     udp 203.0.113.9:9347  no answer within 3 s; open 9347/udp at the "
                        "server and on the way; until then data goes over TCP");
    EXPECT_EQ(lines[3], "1 ok, 0 to look at, 1 failed, 1 skipped");
}

TEST(Findings, FitTheTerminalAndLoseNoWord) {
    const std::string whole = findings_text(some(), false, 0);
    for (const size_t columns : {20U, 60U, 80U, 200U}) {
        const std::string text = findings_text(some(), false, columns);
        std::string words;
        std::string wanted;
        std::istringstream have(text);
        std::istringstream want(whole);
        for (std::string word; have >> word;) {
            words += word + " ";
        }
        for (std::string word; want >> word;) {
            wanted += word + " ";
        }
        EXPECT_EQ(words, wanted);
        for (const std::string& line : lines_of(text)) {
            EXPECT_LE(line.size(), std::max<size_t>(columns, 51)) << line;
        }
    }
}

TEST(Findings, ALongNamePushesItsOwnLineOnly) {
    Findings findings = some();
    findings.ok("udp [2001:db8:1234:5678:9abc:def0:1234:5678]:9347", "answers in 12 ms");
    const auto lines = lines_of(findings_text(findings, false, 80));
    EXPECT_EQ(lines[0], "ok       tun                   /dev/net/tun can be opened");
    for (const std::string& line : lines) {
        EXPECT_LE(line.size(), 80U) << line;
    }
}

TEST(Findings, WhatATerminalWouldObeyIsNotPrinted) {
    Findings findings;
    findings.warn("snapt \x1b[2J", "said \x9b\r\n\xff", "\x07");
    const std::string text = findings_text(findings, true, 80);
    for (const char hidden : {'\r', '\x07', '\x9b'}) {
        EXPECT_EQ(text.find(hidden), std::string::npos);
    }
    EXPECT_EQ(text.find("\x1b[2J"), std::string::npos);
    EXPECT_EQ(to_text(findings.all()[0]).find('\x1b'), std::string::npos);
    EXPECT_TRUE(JsonValue::parse(findings_json("cnapt", findings)));
}

TEST(Findings, JsonHasTheWorstVerdict) {
    const auto json = JsonValue::parse(findings_json("cnapt", some()));
    ASSERT_TRUE(json);
    EXPECT_EQ(json->text("program"), "cnapt");
    EXPECT_EQ(json->text("result"), "fail");
    ASSERT_EQ((*json)["checks"].items().size(), 3U);
    const JsonValue& udp = (*json)["checks"].items()[1];
    EXPECT_EQ(udp.text("check"), "udp 203.0.113.9:9347");
    EXPECT_EQ(udp.text("result"), "fail");
    EXPECT_FALSE(udp.text("remedy").empty());
    EXPECT_TRUE((*json)["checks"].items()[0]["remedy"].is_null());
}

TEST(Findings, AreLimitedAndSaySo) {
    Findings findings;
    for (size_t i = 0; i < kMaxFindings + 3; ++i) {
        findings.ok("x", "y");
    }
    EXPECT_EQ(findings.all().size(), kMaxFindings);
    EXPECT_NE(findings_text(findings, false, 0).find(", 3 not shown"), std::string::npos);
}

}  // namespace
}  // namespace continuo::report
