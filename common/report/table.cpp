#include "common/report/table.hpp"

#include "common/base/printable.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace continuo::report {
namespace {

constexpr size_t kColumnGap = 2;
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

// Columns that a text takes on a terminal: UTF-8 code points, each counted as one.
size_t width(std::string_view text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char character) {
        return (static_cast<uint8_t>(character) & 0xC0U) != 0x80U;
    }));
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
    constexpr char kEscape = '\x1b';
    std::string result;
    for (;;) {
        const size_t at = std::min(text.find(kEscape), text.size());
        result += base::printable_json(text.substr(0, at), "\n\t");
        text.remove_prefix(at);
        if (text.empty()) {
            return result;
        }
        std::string_view own = text.starts_with(kPlain) ? kPlain : std::string_view();
        for (const Colour colour : kOwn) {
            own = text.starts_with(escape_of(colour)) ? escape_of(colour) : own;
        }
        result += own.empty() ? base::printable_json(text.substr(0, 1)) : std::string(own);
        text.remove_prefix(std::max<size_t>(own.size(), 1));
    }
}

void Table::add_row(std::vector<std::string> cells, Colour colour) {
    cells.resize(columns_.size());
    for (std::string& cell : cells) {
        cell = base::replace_hidden(cell, '?');
    }
    rows_.push_back({std::move(cells), colour});
}

std::vector<size_t> Table::widths() const {
    std::vector<size_t> result;
    for (size_t i = 0; i < columns_.size(); ++i) {
        size_t widest = width(columns_[i].title);
        for (const Row& row : rows_) {
            widest = std::max(widest, width(row.cells[i]));
        }
        result.push_back(widest);
    }
    return result;
}

std::string Table::line(const std::vector<std::string>& cells,
                        const std::vector<size_t>& widths) const {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) {
        const std::string padding(widths[i] - width(cells[i]), ' ');
        text += i == 0 ? "" : std::string(kColumnGap, ' ');
        text += columns_[i].align == Align::Right ? padding + cells[i] : cells[i] + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
}

std::string Table::render(bool is_terminal) const {
    const std::vector<size_t> all_widths = widths();
    std::vector<std::string> titles;
    for (const Column& column : columns_) {
        titles.push_back(column.title);
    }
    std::string text = coloured(line(titles, all_widths), Colour::Bold, is_terminal) + "\n";
    for (const Row& row : rows_) {
        text += coloured(line(row.cells, all_widths), row.colour, is_terminal) + "\n";
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

}  // namespace continuo::report
