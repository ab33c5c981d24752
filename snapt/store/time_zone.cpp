#include "snapt/store/time_zone.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace continuo::snapt::store {
namespace {

using base::ByteReader;
using base::Errc;
using base::Error;
using base::Result;

constexpr int64_t kDayS = 86400;
constexpr int64_t kUsPerS = 1'000'000;
constexpr size_t kMaxFileBytes = 1U << 20;

constexpr int64_t floor_div(int64_t value, int64_t by) {
    return value / by - (value % by < 0 ? 1 : 0);
}

std::chrono::year_month_day date_of(int64_t local_s) {
    return {std::chrono::sys_days(std::chrono::days(floor_div(local_s, kDayS)))};
}

int64_t first_day_of(int year) {
    using std::chrono::sys_days;
    return sys_days(std::chrono::year(year) / 1 / 1).time_since_epoch().count();
}

// Local seconds at which the rule applies in that year.
int64_t moment_of(const ZoneRule& rule, int year) {
    using namespace std::chrono_literals;
    const std::chrono::year in(year);
    int64_t day = 0;
    switch (rule.kind) {
    case ZoneRule::Kind::MonthWeekDay: {
        const auto month = in / std::chrono::month(static_cast<unsigned>(rule.month));
        const std::chrono::weekday weekday(static_cast<unsigned>(rule.day));
        const std::chrono::sys_days date =
            rule.week == 5
                ? std::chrono::sys_days(month / weekday[std::chrono::last])
                : std::chrono::sys_days(month / weekday[static_cast<unsigned>(rule.week)]);
        day = date.time_since_epoch().count();
        break;
    }
    case ZoneRule::Kind::JulianDay:  // 1 to 365, 29 February is not counted
        day = first_day_of(year) + rule.day - 1 + (in.is_leap() && rule.day >= 60 ? 1 : 0);
        break;
    case ZoneRule::Kind::DayOfYear:  // 0 to 365
        day = first_day_of(year) + rule.day;
        break;
    }
    return day * kDayS + rule.time_s;
}

// Cursor over the text of a rule or of a time; sticky failure, like ByteReader.
class TextReader {
  public:
    explicit TextReader(std::string_view text) : rest_(text) {}

    bool ok() const { return ok_; }
    bool at_end() const { return rest_.empty(); }
    bool take(char wanted) {
        if (rest_.empty() || rest_.front() != wanted) {
            return false;
        }
        rest_.remove_prefix(1);
        return true;
    }
    void need(char wanted) { ok_ = take(wanted) && ok_; }
    int number(int minimum, int maximum) {
        int value = 0;
        const char* end = rest_.data() + rest_.size();
        if (rest_.empty() || std::isdigit(static_cast<unsigned char>(rest_.front())) == 0) {
            ok_ = false;
            return minimum;
        }
        const auto [after, error] = std::from_chars(rest_.data(), end, value);
        if (error != std::errc{} || value < minimum || value > maximum) {
            ok_ = false;
            return minimum;
        }
        rest_.remove_prefix(static_cast<size_t>(after - rest_.data()));
        return value;
    }
    void zone_name() {
        const bool quoted = take('<');
        size_t length = 0;
        while (length < rest_.size() &&
               (quoted ? rest_[length] != '>'
                       : std::isalpha(static_cast<unsigned char>(rest_[length])) != 0)) {
            ++length;
        }
        ok_ = ok_ && length >= 3;
        rest_.remove_prefix(length);
        if (quoted) {
            need('>');
        }
    }
    // [+-]hh[:mm[:ss]]
    int32_t clock(int max_hours) {
        const bool negative = take('-');
        if (!negative) {
            take('+');
        }
        int32_t seconds = number(0, max_hours) * 3600;
        if (take(':')) {
            seconds += number(0, 59) * 60;
            if (take(':')) {
                seconds += number(0, 59);
            }
        }
        return negative ? -seconds : seconds;
    }
    ZoneRule rule() {
        ZoneRule rule;
        if (take('M')) {
            rule.month = number(1, 12);
            need('.');
            rule.week = number(1, 5);
            need('.');
            rule.day = number(0, 6);
        } else if (take('J')) {
            rule.kind = ZoneRule::Kind::JulianDay;
            rule.day = number(1, 365);
        } else {
            rule.kind = ZoneRule::Kind::DayOfYear;
            rule.day = number(0, 365);
        }
        if (take('/')) {
            rule.time_s = clock(167);
        }
        return rule;
    }

  private:
    std::string_view rest_;
    bool ok_ = true;
};

struct TzifCounts {
    uint32_t utc_flags = 0;
    uint32_t standard_flags = 0;
    uint32_t leaps = 0;
    uint32_t times = 0;
    uint32_t types = 0;
    uint32_t characters = 0;

    uint64_t block_bytes(uint64_t time_bytes) const {
        return uint64_t{times} * (time_bytes + 1) + uint64_t{types} * 6 + characters +
               uint64_t{leaps} * (time_bytes + 4) + standard_flags + utc_flags;
    }
};

TzifCounts read_header(ByteReader& reader, uint8_t& version) {
    constexpr uint32_t kMagic = 0x545A6966;  // "TZif"
    if (reader.u32() != kMagic) {
        reader.fail();
    }
    version = reader.u8();
    reader.bytes(15);
    TzifCounts counts;
    counts.utc_flags = reader.u32();
    counts.standard_flags = reader.u32();
    counts.leaps = reader.u32();
    counts.times = reader.u32();
    counts.types = reader.u32();
    counts.characters = reader.u32();
    return counts;
}

bool is_plausible_name(std::string_view name) {
    return !name.empty() && name.size() < 64 && name.front() != '/' && name.front() != '.' &&
           name.find("..") == std::string_view::npos &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '_' ||
                      c == '-' || c == '+';
           });
}

std::string text_of(const std::chrono::year_month_day& date) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%04d-%02u-%02u", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
    return text.data();
}

}  // namespace

TimeZone TimeZone::utc() {
    return {};
}

Result<TimeZone> TimeZone::load(std::string_view name, const std::string& folder) {
    if (name == "UTC") {
        return utc();
    }
    const Error unknown{Errc::NotFound, "unknown time zone", 0};
    if (!is_plausible_name(name)) {
        return unknown;
    }
    std::ifstream file(folder + "/" + std::string(name), std::ios::binary);
    if (!file) {
        return unknown;
    }
    std::string bytes(kMaxFileBytes, '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    bytes.resize(static_cast<size_t>(file.gcount()));
    if (bytes.empty()) {
        return unknown;  // a folder of zones
    }
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    return parse(name, {data, bytes.size()});
}

Result<TimeZone> TimeZone::parse(std::string_view name, base::ByteView file) {
    const Error malformed{Errc::Malformed, "time zone file is damaged", 0};
    ByteReader reader(file);
    uint8_t version = 0;
    const TzifCounts old_counts = read_header(reader, version);
    reader.bytes(old_counts.block_bytes(4));
    if (!reader.ok() || version < '2') {
        return malformed;
    }
    const TzifCounts counts = read_header(reader, version);
    if (!reader.ok() || counts.types == 0 || counts.block_bytes(8) > reader.remaining()) {
        return malformed;
    }
    TimeZone zone;
    zone.name_ = name;
    zone.transitions_.resize(counts.times);
    for (Transition& transition : zone.transitions_) {
        transition.at_s = static_cast<int64_t>(reader.u64());
    }
    const base::ByteView type_of = reader.bytes(counts.times);
    std::vector<int32_t> offsets;
    for (uint32_t i = 0; i < counts.types; ++i) {
        offsets.push_back(static_cast<int32_t>(reader.u32()));
        reader.bytes(2);
    }
    for (size_t i = 0; i < zone.transitions_.size(); ++i) {
        if (type_of[i] >= offsets.size() ||
            (i > 0 && zone.transitions_[i].at_s <= zone.transitions_[i - 1].at_s)) {
            return malformed;
        }
        zone.transitions_[i].offset_s = offsets[type_of[i]];
    }
    zone.first_offset_s_ = offsets[0];
    reader.bytes(counts.characters + size_t{counts.leaps} * 12 + counts.standard_flags +
                 counts.utc_flags);
    const base::ByteView footer = reader.rest();
    if (footer.size() >= 2 && footer.front() == '\n' && footer.back() == '\n') {
        const std::string rule(footer.begin() + 1, footer.end() - 1);
        zone.rule_ = parse_rule(rule);
        if (!rule.empty() && !zone.rule_) {
            return malformed;
        }
    }
    return zone;
}

std::optional<TimeZone::Rule> TimeZone::parse_rule(std::string_view text) {
    TextReader reader(text);
    Rule rule;
    reader.zone_name();
    rule.standard_s = -reader.clock(24);
    if (!reader.at_end()) {
        rule.has_daylight = true;
        reader.zone_name();
        rule.daylight_s = rule.standard_s + 3600;
        if (!reader.take(',')) {
            rule.daylight_s = -reader.clock(24);
            reader.need(',');
        }
        rule.begin = reader.rule();
        reader.need(',');
        rule.end = reader.rule();
    }
    return reader.ok() && reader.at_end() ? std::optional(rule) : std::nullopt;
}

int32_t TimeZone::rule_offset_s(int64_t unix_s) const {
    if (!rule_->has_daylight) {
        return rule_->standard_s;
    }
    const int year = static_cast<int>(date_of(unix_s + rule_->standard_s).year());
    const int64_t begin = moment_of(rule_->begin, year) - rule_->standard_s;
    const int64_t end = moment_of(rule_->end, year) - rule_->daylight_s;
    const bool is_daylight =
        begin < end ? unix_s >= begin && unix_s < end : unix_s >= begin || unix_s < end;
    return is_daylight ? rule_->daylight_s : rule_->standard_s;
}

int32_t TimeZone::offset_s(int64_t unix_s) const {
    const auto after =
        std::upper_bound(transitions_.begin(), transitions_.end(), unix_s,
                         [](int64_t at_s, const Transition& t) { return at_s < t.at_s; });
    if (after == transitions_.end() && rule_) {
        return rule_offset_s(unix_s);
    }
    return after == transitions_.begin() ? first_offset_s_ : std::prev(after)->offset_s;
}

std::string TimeZone::day(int64_t utc_us) const {
    const int64_t unix_s = floor_div(utc_us, kUsPerS);
    return text_of(date_of(unix_s + offset_s(unix_s)));
}

std::string TimeZone::month(int64_t utc_us) const {
    return day(utc_us).substr(0, 7);
}

std::optional<int64_t> TimeZone::midnight_quarter(int64_t utc_day_us) const {
    constexpr int64_t kQuarterS = 900;
    const int64_t begin_s = floor_div(utc_day_us, kUsPerS);
    const int64_t end_s = begin_s + kDayS;
    const auto day_of = [this](int64_t unix_s) {
        return floor_div(unix_s + offset_s(unix_s), kDayS);
    };
    const int64_t offset = offset_s(begin_s);
    if (offset == offset_s(end_s)) {
        const int64_t midnight_s = (floor_div(begin_s + offset, kDayS) + 1) * kDayS - offset;
        const int64_t quarter = (midnight_s - begin_s + kQuarterS - 1) / kQuarterS;
        return quarter < kDayS / kQuarterS ? std::optional(quarter) : std::nullopt;
    }
    std::optional<int64_t> found;
    for (int64_t at_s = begin_s + kQuarterS; at_s < end_s; at_s += kQuarterS) {
        if (day_of(at_s) != day_of(at_s - kQuarterS)) {
            if (found) {
                return std::nullopt;
            }
            found = (at_s - begin_s) / kQuarterS;
        }
    }
    return found;
}

int64_t TimeZone::local_to_utc_s(int64_t local_s) const {
    // The offsets in force a day before and after bracket every change nearby.
    const int32_t before = offset_s(local_s - kDayS);
    const int32_t after = offset_s(local_s + kDayS);
    const int64_t earlier = local_s - std::max(before, after);
    const int64_t later = local_s - std::min(before, after);
    if (earlier + offset_s(earlier) == local_s) {
        return earlier;
    }
    if (later + offset_s(later) == local_s) {
        return later;
    }
    // In a gap: the change itself lies between the two candidates.
    int64_t low = earlier;
    int64_t high = later;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        (offset_s(middle) == offset_s(low) ? low : high) = middle;
    }
    return high;
}

std::optional<int64_t> TimeZone::parse_time_us(std::string_view text) const {
    if (!text.empty() && text.front() == '@') {
        constexpr int64_t kMaxUnixS = 253'402'300'799;  // end of year 9999
        int64_t unix_s = 0;
        const char* end = text.data() + text.size();
        const auto [after, error] = std::from_chars(text.data() + 1, end, unix_s);
        const bool ok = error == std::errc{} && after == end && unix_s >= 0 && unix_s <= kMaxUnixS;
        return ok ? std::optional(unix_s * kUsPerS) : std::nullopt;
    }
    TextReader reader(text);
    const std::chrono::year year(reader.number(1970, 9999));
    reader.need('-');
    const std::chrono::month month(static_cast<unsigned>(reader.number(1, 12)));
    std::chrono::day day(1);
    int64_t of_day_s = 0;
    bool is_utc = false;
    if (reader.take('-')) {
        day = std::chrono::day(static_cast<unsigned>(reader.number(1, 31)));
        if (reader.take('T') || reader.take(' ')) {
            of_day_s = int64_t{reader.number(0, 23)} * 3600;
            reader.need(':');
            of_day_s += int64_t{reader.number(0, 59)} * 60;
            of_day_s += reader.take(':') ? reader.number(0, 59) : 0;
        }
        is_utc = reader.take('Z');
    }
    const auto date = year / month / day;
    if (!reader.ok() || !reader.at_end() || !date.ok()) {
        return std::nullopt;
    }
    const int64_t local_s =
        std::chrono::sys_days(date).time_since_epoch().count() * kDayS + of_day_s;
    return (is_utc ? local_s : local_to_utc_s(local_s)) * kUsPerS;
}

}  // namespace continuo::snapt::store
