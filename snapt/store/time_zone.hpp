// TimeZone: local days and months of an IANA zone, read from the system's compiled zone files
// (TZif, RFC 8536), without touching the process's TZ. Immutable, hence safe between threads.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::store {

// One change between standard and daylight time of a POSIX TZ rule (RFC 8536 section 3.3.1).
struct ZoneRule {
    enum class Kind : uint8_t { MonthWeekDay, JulianDay, DayOfYear };
    Kind kind = Kind::MonthWeekDay;
    int month = 1;
    int week = 1;
    int day = 0;                // in the week, or in the year
    int32_t time_s = 2 * 3600;  // local time of the day; may be negative or beyond one day
};

class TimeZone {
  public:
    // "UTC" needs no file. NotFound for an unknown name, Malformed for a damaged file.
    static base::Result<TimeZone> load(std::string_view name,
                                       const std::string& folder = "/usr/share/zoneinfo");
    static base::Result<TimeZone> parse(std::string_view name, base::ByteView file);
    static TimeZone utc();

    const std::string& name() const { return name_; }
    int32_t offset_s(int64_t unix_s) const;   // local minus UTC
    std::string day(int64_t utc_us) const;    // "2026-11-01"
    std::string month(int64_t utc_us) const;  // "2026-11"
    // The quarter of an hour of the UTC day that begins then, counted from 0, with which the zone's
    // next day begins. Nothing where none or more than one begins.
    std::optional<int64_t> midnight_quarter(int64_t utc_day_us) const;

    // "2026-11", "2026-11-01", "2026-11-01T15:04", "…:05" (or a space for T), local; with "Z" at
    // the end UTC; "@1790000000" Unix seconds. A local time that exists twice is the first one, one
    // that is skipped the moment after the gap.
    std::optional<int64_t> parse_time_us(std::string_view text) const;

  private:
    struct Transition {
        int64_t at_s = 0;
        int32_t offset_s = 0;
    };
    struct Rule {
        int32_t standard_s = 0;
        int32_t daylight_s = 0;
        bool has_daylight = false;
        ZoneRule begin;
        ZoneRule end;
    };
    static std::optional<Rule> parse_rule(std::string_view text);
    int32_t rule_offset_s(int64_t unix_s) const;
    int64_t local_to_utc_s(int64_t local_s) const;

    std::string name_ = "UTC";
    int32_t first_offset_s_ = 0;
    std::vector<Transition> transitions_;
    std::optional<Rule> rule_;  // after the last transition
};

}  // namespace continuo::snapt::store
