#include "snapt/links/event_log.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::links {
namespace {

using Kind = EventLog::Kind;

class EventLogTest : public testing::Test {
  protected:
    std::vector<std::string> lines;
    EventLog events{[this](base::LogLevel level, const std::string& line) {
        lines.push_back((level == base::LogLevel::Warning ? "warning: " : "") + line);
    }};
    base::TimePoint now{base::seconds(1000)};
};

TEST_F(EventLogTest, WritesAKeyAndAValueForEachField) {
    events.write(Kind::Login, {{"user", "alice"}, {"from", "[2001:db8::1]:443"}}, now);
    events.write(Kind::Refusal, {{"reason", "too many sessions"}, {"cause", ""}}, now);
    events.write(Kind::End, {{"user", "a\"b\\c=d"}}, now);
    EXPECT_EQ(lines, (std::vector<std::string>{
                         "login user=alice from=[2001:db8::1]:443",
                         "warning: login_refused reason=\"too many sessions\" cause=\"\"",
                         "session_end user=\"a\\\"b\\\\c=d\""}));
}

TEST_F(EventLogTest, LeavesOutWhatIsTooMuchAndSaysHowMuch) {
    for (int i = 0; i < kEventLinesAtOnce + 5; ++i) {
        events.write(Kind::Stranger, {{"from", "x"}}, now);
    }
    EXPECT_EQ(lines.size(), static_cast<size_t>(kEventLinesAtOnce));
    now += kEventLineSpacing;
    events.write(Kind::Stranger, {{"from", "y"}}, now);
    EXPECT_EQ(lines.back(), "warning: login_refused from=y left_out=5");
}

TEST_F(EventLogTest, StrangersHideNoLogin) {
    for (int i = 0; i < 1000; ++i) {
        events.write(Kind::Stranger, {}, now);
    }
    events.write(Kind::Login, {{"user", "alice"}}, now);
    EXPECT_EQ(lines.back(), "login user=alice");
}

TEST_F(EventLogTest, NoUserHidesWhatIsDoneWithTheKeyOfAnother) {
    for (const Kind kind : {Kind::Login, Kind::Refusal, Kind::End, Kind::User}) {
        for (int i = 0; i < 1000; ++i) {
            events.write(kind, {{"user", "mallory"}, {"node", "n"}}, now);
        }
        const size_t before = lines.size();
        events.write(kind, {{"user", "alice"}}, now);
        ASSERT_EQ(lines.size(), before + 1);
        EXPECT_NE(lines.back().find("user=alice"), std::string::npos);
        EXPECT_EQ(lines.back().find("left_out"), std::string::npos) << "those are mallory's";
        EXPECT_LE(lines.size(), 4 * (kEventLinesAtOnce + 1U));
    }
}

// A name that a stranger gives counts for no user's limit.
TEST_F(EventLogTest, StrangersHaveOneLimitWhateverTheySay) {
    for (int i = 0; i < 1000; ++i) {
        events.write(Kind::Stranger, {{"user", "user" + std::to_string(i)}}, now);
    }
    EXPECT_EQ(lines.size(), static_cast<size_t>(kEventLinesAtOnce));
}

TEST_F(EventLogTest, SaysOfWhomLinesWereLeftOut) {
    for (int i = 0; i < kEventLinesAtOnce + 2; ++i) {
        events.write(Kind::Login, {{"user", "bob b"}}, now);
        events.write(Kind::Login, {{"user", "alice"}}, now);
    }
    now += kEventLineSpacing * (kEventLinesAtOnce + 1);
    lines.clear();
    events.on_tick(now);
    EXPECT_EQ(lines, (std::vector<std::string>{"login user=alice left_out=2",
                                               "login user=\"bob b\" left_out=2"}));
}

TEST_F(EventLogTest, UsersBeyondTheTableShareALimitUntilThereIsRoom) {
    const auto log_in = [this](const std::string& user) {
        const size_t before = lines.size();
        events.write(Kind::Login, {{"user", user}}, now);
        return lines.size() > before;
    };
    for (size_t i = 0; i < kMostEventLimits; ++i) {
        ASSERT_TRUE(log_in("user" + std::to_string(i)));
    }
    for (int i = 0; i < kEventLinesAtOnce; ++i) {
        EXPECT_TRUE(log_in("more" + std::to_string(i)));
    }
    EXPECT_FALSE(log_in("one too many"));
    EXPECT_TRUE(log_in("user7")) << "has its own";
    now += kEventLineSpacing * (kEventLinesAtOnce + 1);
    events.on_tick(now);
    EXPECT_EQ(lines.back(), "login left_out=1");
    for (int i = 0; i < 2 * kEventLinesAtOnce; ++i) {
        EXPECT_TRUE(log_in("again" + std::to_string(i)));
    }
}

TEST_F(EventLogTest, SaysWhatWasLeftOutWhenNothingFollows) {
    for (int i = 0; i < kEventLinesAtOnce + 2; ++i) {
        events.write(Kind::End, {}, now);
    }
    events.on_tick(now);
    EXPECT_EQ(lines.back(), "session_end");
    now += kEventLineSpacing * (kEventLinesAtOnce + 1);
    events.on_tick(now);
    EXPECT_EQ(lines.back(), "session_end left_out=2");
    const size_t before = lines.size();
    events.on_tick(now + base::seconds(60));
    EXPECT_EQ(lines.size(), before);
}

}  // namespace
}  // namespace continuo::snapt::links
