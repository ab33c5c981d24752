#include "common/report/table.hpp"

#include "common/base/printable.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>

namespace continuo::report {
namespace {

constexpr size_t kColumnGap = 2;
// A shortened column keeps this much, and the title.
constexpr size_t kShortestColumn = 8;
constexpr std::string_view kCutMark = "...";
constexpr std::string_view kPlain = "\x1b[0m";

std::string fixed(double value, int decimals) {
    // The largest double has 309 digits before the point.
    std::array<char, 340> text{};
    const auto result = std::to_chars(text.data(), text.data() + text.size(), value,
                                      std::chars_format::fixed, decimals);
    return {text.data(), result.ptr};
}

std::string two_digits(uint64_t value) {
    return (value < 10 ? "0" : "") + std::to_string(value);
}

bool begins_character(char character) {
    return (static_cast<uint8_t>(character) & 0xC0U) != 0x80U;
}

// Bytes at the front of `text` that take no place on a terminal: a change of colour.
size_t colour_bytes(std::string_view text) {
    constexpr std::string_view kBegin = "\x1b[";
    const size_t end = text.starts_with(kBegin) ? text.find('m') : std::string_view::npos;
    return end == std::string_view::npos ? 0 : end + 1;
}

// The front of a text that takes at most `columns` on a terminal: UTF-8 code points, each counted
// as one.
std::string_view front(std::string_view text, size_t columns) {
    size_t used = 0;
    size_t at = 0;
    while (at < text.size()) {
        if (const size_t colour = colour_bytes(text.substr(at)); colour > 0) {
            at += colour;
            continue;
        }
        if (begins_character(text[at]) && used++ == columns) {
            break;
        }
        ++at;
    }
    return text.substr(0, at);
}

size_t width(std::string_view text) {
    size_t columns = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t colour = colour_bytes(text.substr(at));
        columns += colour == 0 && begins_character(text[at]) ? 1U : 0U;
        at += std::max<size_t>(colour, 1);
    }
    return columns;
}

std::string shortened(const std::string& text, size_t columns) {
    if (width(text) <= columns) {
        return text;
    }
    const size_t kept = columns > kCutMark.size() ? columns - kCutMark.size() : 0;
    return std::string(front(text, kept)) + std::string(kCutMark.substr(0, columns));
}

// Where to break `line` so that the first part fits; nothing: nowhere. The blank there is dropped.
std::optional<size_t> break_of(std::string_view line, size_t columns, size_t indent) {
    const std::string_view room = front(line, columns);
    // The blank behind the last word that fits may be just beyond.
    const std::string_view candidates = line.substr(0, room.size() + 1);
    const size_t comma = candidates.rfind(", ");
    const size_t at = comma != std::string_view::npos ? comma + 1 : candidates.rfind(' ');
    const bool is_progress = at != std::string_view::npos && at > indent;
    return is_progress ? std::optional(at) : std::nullopt;
}

std::string wrapped_line(std::string_view line, size_t columns, size_t indent) {
    const std::string margin(indent, ' ');
    std::string result;
    std::string rest(line);
    while (width(rest) > columns) {
        const size_t own_indent = result.empty() ? 0 : indent;
        const auto at = break_of(rest, columns, own_indent);
        if (!at) {
            break;
        }
        std::string_view before(rest.data(), *at);
        before.remove_suffix(before.size() - before.find_last_not_of(' ') - 1);
        result += std::string(before) + "\n";
        const size_t next = rest.find_first_not_of(' ', *at);
        rest = margin + (next == std::string::npos ? "" : rest.substr(next));
    }
    return result + rest;
}

// Three significant digits, as in "1.02", "18.4", "210".
std::string three_digits(double value) {
    if (value < 9.995) {
        return fixed(value, 2);
    }
    return value < 99.95 ? fixed(value, 1) : fixed(value, 0);
}

template <size_t N>
std::string scaled(double value, double step, const std::array<const char*, N>& units) {
    size_t unit = 0;
    while (unit + 1 < N && value >= step - 0.5) {
        value /= step;
        ++unit;
    }
    const std::string digits = unit == 0 ? fixed(value, 0) : three_digits(value);
    return digits + " " + units[unit];
}

const char* escape_of(Colour colour) {
    switch (colour) {
    case Colour::Bold:
        return "\x1b[1m";
    case Colour::Dim:
        return "\x1b[2m";
    case Colour::Red:
        return "\x1b[31m";
    case Colour::Green:
        return "\x1b[32m";
    case Colour::Yellow:
        return "\x1b[33m";
    default:
        return "";
    }
}

}  // namespace

std::string coloured(std::string_view text, Colour colour, bool is_terminal) {
    if (!is_terminal || colour == Colour::None) {
        return std::string(text);
    }
    return escape_of(colour) + std::string(text) + std::string(kPlain);
}

std::string safe_output(std::string_view text) {
    constexpr std::array kOwn = {Colour::Bold, Colour::Dim, Colour::Red, Colour::Green,
                                 Colour::Yellow};
    constexpr std::string_view kMarks = "\x1b\r";
    constexpr std::string_view kLineEnd = "\r\n";  // ends lines of comma-separated values
    std::string result;
    for (;;) {
        const size_t at = std::min(text.find_first_of(kMarks), text.size());
        result += base::printable_json(text.substr(0, at), "\n\t");
        text.remove_prefix(at);
        if (text.empty()) {
            return result;
        }
        std::string_view own = text.starts_with(kPlain)     ? kPlain
                               : text.starts_with(kLineEnd) ? kLineEnd
                                                            : std::string_view();
        for (const Colour colour : kOwn) {
            own = text.starts_with(escape_of(colour)) ? escape_of(colour) : own;
        }
        result += own.empty() ? base::printable_json(text.substr(0, 1)) : std::string(own);
        text.remove_prefix(std::max<size_t>(own.size(), 1));
    }
}

std::string wrapped(std::string_view text, size_t columns, size_t indent) {
    std::string result;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        result += wrapped_line(text.substr(0, end), columns, indent);
        result += end < text.size() ? "\n" : "";
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return result;
}

std::string_view first_lines(std::string_view text, size_t lines) {
    size_t at = 0;
    for (; lines > 0 && at < text.size(); --lines) {
        at = std::min(text.find('\n', at), text.size() - 1) + 1;
    }
    return text.substr(0, at);
}

void Table::add_row(std::vector<std::string> cells, Colour colour) {
    cells.resize(columns_.size());
    for (std::string& cell : cells) {
        cell = base::replace_hidden(cell, '?');
    }
    rows_.push_back({std::move(cells), colour});
}

// At the width that is enough.
std::vector<Table::ShownColumn> Table::all_columns() const {
    std::vector<ShownColumn> result;
    for (size_t i = 0; i < columns_.size(); ++i) {
        size_t widest = width(columns_[i].title);
        const size_t enough = std::max<size_t>(widest, columns_[i].enough);
        for (const Row& row : rows_) {
            widest = std::max(widest, width(row.cells[i]));
        }
        const bool is_cut = columns_[i].enough != 0 && widest > enough;
        result.push_back({i, is_cut ? enough : widest, widest});
    }
    return result;
}

bool Table::is_blank(size_t column) const {
    return std::all_of(rows_.begin(), rows_.end(), [column](const Row& row) {
        return row.cells[column].empty() || row.cells[column] == kUnknown;
    });
}

size_t Table::total_width(const std::vector<ShownColumn>& shown) {
    size_t sum = shown.empty() ? 0 : kColumnGap * (shown.size() - 1);
    for (const ShownColumn& column : shown) {
        sum += column.width;
    }
    return sum;
}

void Table::leave_out(std::vector<ShownColumn>& shown, size_t columns) const {
    // How dispensable a column is; 0: not at all.
    const auto weight = [this](const ShownColumn& column) {
        constexpr unsigned kBlank = 1U + UINT8_MAX;
        const unsigned rank = columns_[column.index].rank;
        return rank == 0 ? 0 : rank + (is_blank(column.index) ? kBlank : 0);
    };
    while (total_width(shown) > columns) {
        unsigned most = 0;
        for (const ShownColumn& column : shown) {
            most = std::max(most, weight(column));
        }
        if (most == 0) {
            return;
        }
        std::erase_if(shown, [&](const ShownColumn& column) { return weight(column) == most; });
    }
}

void Table::shorten(std::vector<ShownColumn>& shown, size_t columns) const {
    const auto spare = [this](const ShownColumn& column) {
        const Column& own = columns_[column.index];
        const size_t least = std::max(kShortestColumn, width(own.title));
        return own.align == Align::Left && column.width > least ? column.width : 0;
    };
    while (total_width(shown) > columns) {
        const auto widest = std::max_element(
            shown.begin(), shown.end(),
            [&spare](const ShownColumn& a, const ShownColumn& b) { return spare(a) < spare(b); });
        if (widest == shown.end() || spare(*widest) == 0) {
            return;
        }
        --widest->width;
    }
}

std::vector<Table::ShownColumn> Table::fit(size_t columns) const {
    std::vector<ShownColumn> shown = all_columns();
    leave_out(shown, columns);
    shorten(shown, columns);
    // The remaining width goes to the columns that were cut.
    for (ShownColumn& column : shown) {
        const size_t used = total_width(shown);
        const size_t room = columns > used ? columns - used : 0;
        column.width += std::min(room, column.whole - column.width);
    }
    return shown;
}

std::string Table::line(const std::vector<std::string>& cells,
                        const std::vector<ShownColumn>& shown) const {
    std::string text;
    for (const ShownColumn& column : shown) {
        const std::string cell = shortened(cells[column.index], column.width);
        const std::string padding(column.width - width(cell), ' ');
        text += &column == shown.data() ? "" : std::string(kColumnGap, ' ');
        text += columns_[column.index].align == Align::Right ? padding + cell : cell + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
}

std::string Table::render(bool is_terminal, size_t columns) const {
    const std::vector<ShownColumn> shown = fit(columns);
    std::vector<std::string> titles;
    for (const Column& column : columns_) {
        titles.push_back(column.title);
    }
    std::string text = coloured(line(titles, shown), Colour::Bold, is_terminal) + "\n";
    for (const Row& row : rows_) {
        text += coloured(line(row.cells, shown), row.colour, is_terminal) + "\n";
    }
    return text;
}

std::string format_bytes(uint64_t bytes) {
    constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    return scaled(static_cast<double>(bytes), 1024.0, kUnits);
}

std::string format_signed_bytes(int64_t bytes) {
    if (bytes >= 0) {
        return format_bytes(static_cast<uint64_t>(bytes));
    }
    return "-" + format_bytes(uint64_t{0} - static_cast<uint64_t>(bytes));
}

std::string format_bits_per_s(double bits_per_s) {
    constexpr std::array<const char*, 5> kUnits = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
    if (!std::isfinite(bits_per_s) || bits_per_s < 0) {
        return std::string(kUnknown);
    }
    return scaled(bits_per_s, 1000.0, kUnits);
}

std::string format_milliseconds(std::optional<double> ms) {
    if (!ms || !std::isfinite(*ms)) {
        return std::string(kUnknown);
    }
    if (std::abs(*ms) >= 9'999.5) {
        return fixed(*ms / 1000.0, 1) + " s";
    }
    return std::abs(*ms) < 9.995 ? fixed(*ms, 2) + " ms" : fixed(*ms, 0) + " ms";
}

std::string format_uptime(uint64_t seconds) {
    const uint64_t hours = seconds / 3600;
    const std::string minutes = two_digits(seconds / 60 % 60);
    if (hours < 24) {
        return two_digits(hours) + ":" + minutes + ":" + two_digits(seconds % 60);
    }
    return std::to_string(hours / 24) + "d " + two_digits(hours % 24) + ":" + minutes;
}

std::string format_percent(std::optional<double> percent) {
    if (!percent || !std::isfinite(*percent)) {
        return std::string(kUnknown);
    }
    return fixed(*percent, 1) + " %";
}

std::string format_count(uint64_t count) {
    std::string digits = std::to_string(count);
    for (size_t at = digits.size(); at > 3; at -= 3) {
        digits.insert(at - 3, 1, ' ');
    }
    return digits;
}

std::string format_denarii(int64_t micro) {
    constexpr uint64_t kMicro = 1'000'000;
    const uint64_t size =
        micro < 0 ? 0 - static_cast<uint64_t>(micro) : static_cast<uint64_t>(micro);
    const std::string below = std::to_string(kMicro + size % kMicro).substr(1);
    return (micro < 0 ? "-" : "") + std::to_string(size / kMicro) + "." + below;
}

std::optional<int64_t>
ud_per_mb(const std::optional<int64_t>& ud, int64_t bytes_up, int64_t bytes_down) {
    const double bytes = static_cast<double>(bytes_up) + static_cast<double>(bytes_down);
    if (!ud || bytes <= 0) {
        return std::nullopt;
    }
    constexpr double kMegabyte = 1e6;
    constexpr double kMost = 0x1p62;
    const double each = static_cast<double>(*ud) / bytes * kMegabyte;
    return static_cast<int64_t>(std::nearbyint(std::clamp(each, -kMost, kMost)));
}

std::string format_utc(int64_t seconds) {
    const std::time_t time = seconds;
    std::tm fields{};
    std::array<char, 64> text{};
    if (gmtime_r(&time, &fields) == nullptr ||
        std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &fields) == 0) {
        return std::string(kUnknown);
    }
    return text.data();
}

}  // namespace continuo::report
