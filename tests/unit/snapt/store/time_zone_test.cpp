#include "snapt/store/time_zone.hpp"

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::snapt::store {
namespace {

constexpr int64_t kUsPerSecond = 1'000'000;

std::vector<uint8_t> file_of(const std::string& name) {
    std::ifstream file("/usr/share/zoneinfo/" + name, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    const std::string bytes = content.str();
    return {bytes.begin(), bytes.end()};
}

// A file of version 2 with one type, no transitions and this rule.
std::vector<uint8_t> rule_only(const std::string& rule) {
    std::vector<uint8_t> file;
    const auto header = [&](uint32_t types, uint32_t characters) {
        const std::string magic = "TZif2";
        file.insert(file.end(), magic.begin(), magic.end());
        file.insert(file.end(), 15, 0);
        for (const uint32_t count : {0U, 0U, 0U, 0U, types, characters}) {
            for (int shift = 24; shift >= 0; shift -= 8) {
                file.push_back(static_cast<uint8_t>(count >> shift));
            }
        }
    };
    header(0, 0);
    header(1, 4);
    file.insert(file.end(), {0, 0, 0, 0, 0, 0, 'X', 'X', 'X', 0});
    file.push_back('\n');
    file.insert(file.end(), rule.begin(), rule.end());
    file.push_back('\n');
    return file;
}

TimeZone zone(const char* name) {
    auto loaded = TimeZone::load(name);
    EXPECT_TRUE(loaded) << name;
    return std::move(loaded).value();
}

TEST(TimeZone, KnowsSummerAndWinterOfZurich) {
    const TimeZone zurich = zone("Europe/Zurich");
    EXPECT_EQ(zurich.offset_s(1'795'176'000), 3600);  // 2026-11-20
    EXPECT_EQ(zurich.offset_s(1'784'548'800), 7200);  // 2026-07-20
    EXPECT_EQ(zurich.offset_s(1'774'745'999), 3600);  // 2026-03-29 00:59:59 UTC
    EXPECT_EQ(zurich.offset_s(1'774'746'000), 7200);
    EXPECT_EQ(zurich.offset_s(2'541'067'200), 7200);  // July 2050, by the rule
    EXPECT_EQ(zurich.offset_s(2'524'608'000), 3600);  // January 2050
}

TEST(TimeZone, RuleAloneAgreesWithTheListedTransitions) {
    struct Case {
        const char* name;
        const char* rule;
    };
    for (const auto& [name, rule] : {Case{"Europe/Zurich", "CET-1CEST,M3.5.0,M10.5.0/3"},
                                     {"America/New_York", "EST5EDT,M3.2.0,M11.1.0"},
                                     {"Australia/Sydney", "AEST-10AEDT,M10.1.0,M4.1.0/3"},
                                     {"Asia/Kathmandu", "<+0545>-5:45"},
                                     {"America/St_Johns", "NST3:30NDT,M3.2.0,M11.1.0"}}) {
        const TimeZone listed = zone(name);
        const TimeZone ruled = TimeZone::parse(name, rule_only(rule)).value();
        // 2012 to 2037, each half hour and the second before
        for (int64_t t = 1'325'376'000; t < 2'114'380'800; t += 1800) {
            ASSERT_EQ(listed.offset_s(t), ruled.offset_s(t)) << name << ' ' << t;
            ASSERT_EQ(listed.offset_s(t - 1), ruled.offset_s(t - 1)) << name << ' ' << t;
        }
    }
}

TEST(TimeZone, JulianDaysAndNegativeTimesAreUnderstood) {
    // Day 60 counts from 1 without 29 February: 1 March; day 60 from 0 with it: 29 February or 1
    // March.
    const TimeZone julian = TimeZone::parse("x", rule_only("AAA0BBB,J60/0,J300/0")).value();
    EXPECT_EQ(julian.offset_s(1'709'251'199), 0);  // 2024-02-29 23:59:59
    EXPECT_EQ(julian.offset_s(1'709'251'200), 3600);
    const TimeZone counted = TimeZone::parse("x", rule_only("AAA0BBB,59/-1,300/0")).value();
    EXPECT_EQ(counted.offset_s(1'709'161'199), 0);  // 2024-02-28 22:59:59
    EXPECT_EQ(counted.offset_s(1'709'161'200), 3600);
}

TEST(TimeZone, DamagedFilesAreErrorsAndNeverCrash) {
    const auto good = file_of("Europe/Zurich");
    ASSERT_GT(good.size(), 1000U);
    ASSERT_TRUE(TimeZone::parse("x", good));
    for (size_t size = 0; size < good.size(); ++size) {
        const auto result = TimeZone::parse("x", base::ByteView(good).first(size));
        if (result) {
            result->offset_s(4'000'000'000);
        }
    }
    for (size_t i = 0; i < good.size(); ++i) {
        auto bad = good;
        bad[i] ^= 0xFFU;
        const auto result = TimeZone::parse("x", bad);
        if (result) {
            result->offset_s(0);
            result->day(kUsPerSecond);
        }
    }
    for (const char* rule :
         {"X", "CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0",
          "CET-1CEST,M3.5.0,M10.5.0/3x", "<CET-1", "CET-99"}) {
        EXPECT_FALSE(TimeZone::parse("x", rule_only(rule))) << rule;
    }
}

TEST(TimeZone, ReadsLocalTimes) {
    const TimeZone zurich = zone("Europe/Zurich");
    const auto seconds = [&](const char* text) {
        const auto us = zurich.parse_time_us(text);
        return us ? *us / kUsPerSecond : -1;
    };
    EXPECT_EQ(seconds("2026-11"), 1'793'487'600);
    EXPECT_EQ(seconds("2026-11-01"), 1'793'487'600);  // 2026-10-31 23:00 UTC
    EXPECT_EQ(seconds("2026-11-01T00:00"), 1'793'487'600);
    EXPECT_EQ(seconds("2026-11-01 00:00:05"), 1'793'487'605);
    EXPECT_EQ(seconds("2026-11-01T00:00Z"), 1'793'491'200);
    EXPECT_EQ(seconds("@1793487600"), 1'793'487'600);
    EXPECT_EQ(seconds("2026-10-25T02:30"), 1'792'888'200);  // twice: the first
    EXPECT_EQ(seconds("2026-03-29T02:30"), 1'774'746'000);  // skipped: when the clock jumped
    for (const char* bad : {"", "2026", "2026-13", "2026-02-30", "2026-11-1x", "2026-11-01T", "@",
                            "@-5", "2026-11-01T24:00", "yesterday", "@99999999999999999999"}) {
        EXPECT_EQ(seconds(bad), -1) << bad;
    }
}

// The same as what day() says of each quarter of an hour.
TEST(TimeZone, KnowsTheQuarterOfItsMidnight) {
    constexpr int64_t kQuarterUs = 900'000'000;
    constexpr int64_t kQuarters = 96;
    for (const char* name : {"UTC", "Europe/Zurich", "Asia/Kathmandu", "America/St_Johns",
                             "Pacific/Kiritimati", "Pacific/Apia", "America/Santiago"}) {
        const TimeZone zone = TimeZone::load(name).value();
        for (int64_t number = 0; number < 1000; ++number) {
            const int64_t day = number < 600 ? 14'900 + number : 20'000 + number;  // 2010, 2026
            const int64_t begin_us = day * kQuarters * kQuarterUs;
            std::vector<int64_t> begun;
            std::string before = zone.day(begin_us);
            for (int64_t quarter = 1; quarter < kQuarters; ++quarter) {
                const std::string now = zone.day(begin_us + quarter * kQuarterUs);
                if (now != before) {
                    begun.push_back(quarter);
                }
                before = now;
            }
            const auto expected = begun.size() == 1 ? std::optional(begun[0]) : std::nullopt;
            ASSERT_EQ(zone.midnight_quarter(begin_us), expected) << name << ' ' << day;
        }
    }
}

TEST(TimeZone, DaysBeforeTheEpochAreRoundedDown) {
    EXPECT_EQ(TimeZone::utc().day(-1), "1969-12-31");
    EXPECT_EQ(TimeZone::utc().day(0), "1970-01-01");
    EXPECT_EQ(TimeZone::utc().month(-1), "1969-12");
}

}  // namespace
}  // namespace continuo::snapt::store
