#include "common/base/log.hpp"
#include "common/base/printable.hpp"

#include <array>

#include <gtest/gtest.h>

namespace continuo::base {
namespace {

// As UTF-8: C0, DEL, C1, and each control of the direction of writing.
constexpr std::array kHidden = {
    "\x01",         "\x1b",         "\r",           "\x7f",         "\xC2\x80",
    "\xC2\x9B",     "\xC2\x9F",     "\xD8\x9C",     "\xE2\x80\x8E", "\xE2\x80\x8F",
    "\xE2\x80\xAA", "\xE2\x80\xAE", "\xE2\x81\xA6", "\xE2\x81\xA9",
};
// Their neighbours, which are letters or harmless.
constexpr std::array kShown = {" ",
                               "~",
                               "\xC2\xA0",
                               "\xD8\x9B",
                               "\xD8\x9D",
                               "\xE2\x80\x8D",
                               "\xE2\x80\x90",
                               "\xE2\x80\xA9",
                               "\xC3\xA4",
                               "\xE2\x81\xA5",
                               "\xE2\x81\xAA",
                               "\xF0\x9F\x98\x80"};

TEST(Printable, WritesOutWhatATerminalObeys) {
    for (const char* text : kHidden) {
        const std::string around = std::string("a") + text + "b";
        EXPECT_EQ(printable(around).find(text), std::string::npos) << printable(around);
        EXPECT_EQ(printable_json(around).find(text), std::string::npos);
        EXPECT_EQ(replace_hidden(around, '?'), "a?b");
    }
    EXPECT_EQ(printable("\xC2\x9B\x1b[31m"), "\\xc2\\x9b\\x1b[31m");
    EXPECT_EQ(printable_json("\xE2\x80\xAE\x9B"), "\\u202e\xEF\xBF\xBD");
    EXPECT_EQ(printable_json("a\nb\tc\r", "\n\t"), "a\nb\tc\\u000d");
}

TEST(Printable, LeavesTextAlone) {
    for (const char* text : kShown) {
        EXPECT_EQ(printable(text), text);
        EXPECT_EQ(printable_json(text), text);
        EXPECT_EQ(replace_hidden(text, '?'), text);
    }
}

TEST(Printable, WhatIsNoUtf8MayBeAnything) {
    // C1 in one byte, a sequence cut short, an overlong form of ESC, a surrogate.
    for (const char* text : {"\x9B", "\xE2\x80", "\xC0\x9B", "\xED\xA0\x80"}) {
        for (const char byte : printable(text)) {
            EXPECT_LT(static_cast<uint8_t>(byte), 0x80) << printable(text);
        }
        EXPECT_EQ(replace_hidden(text, '?'), std::string(std::string_view(text).size(), '?'));
    }
}

TEST(Log, IsOneSafeLineAMessage) {
    testing::internal::CaptureStderr();
    log(LogLevel::Info, "%s", "node \xC2\x9B\xE2\x80\xAE\x1b[2J\x9Bx\ny\tz");
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "node \\xc2\\x9b\\xe2\\x80\\xae\\x1b[2J\\x9bx y z\n");
}

}  // namespace
}  // namespace continuo::base
