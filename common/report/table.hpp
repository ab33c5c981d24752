// Tables and quantities for people: aligned columns, units, colour only where the caller says that
// a terminal reads.
#pragma once

#include "common/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::report {

enum class Align : uint8_t { Left, Right };
enum class Colour : uint8_t { None, Bold, Dim, Red, Green, Yellow };

// `text` in a colour when `is_terminal`, else as it is.
std::string coloured(std::string_view text, Colour colour, bool is_terminal);

// The last gate of all that a command prints, text and JSON: what a terminal would obey is written
// as \uNNNN, but for line feeds, tabs and the colours above.
std::string safe_output(std::string_view text);

class Table {
  public:
    struct Column {
        std::string title;
        Align align = Align::Left;
    };
    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

    // Cells that are missing are empty, those beyond the last column are dropped. Control
    // characters are replaced.
    void add_row(std::vector<std::string> cells, Colour colour = Colour::None);
    size_t rows() const { return rows_.size(); }
    // Header and rows, two blanks between columns, each line ended by a line feed.
    std::string render(bool is_terminal) const;

  private:
    struct Row {
        std::vector<std::string> cells;
        Colour colour = Colour::None;
    };
    std::vector<size_t> widths() const;
    std::string line(const std::vector<std::string>& cells,
                     const std::vector<size_t>& widths) const;

    std::vector<Column> columns_;
    std::vector<Row> rows_;
};

// What is unknown reads "-".
inline constexpr std::string_view kUnknown = "-";

std::string format_bytes(uint64_t bytes);                   // "512 B", "12.1 MiB"
std::string format_signed_bytes(int64_t bytes);             // "-1.50 KiB"
std::string format_bits_per_s(double bits_per_s);           // "12.4 Mbit/s"
std::string format_milliseconds(std::optional<double> ms);  // "0.42 ms", "38 ms"
std::string format_uptime(uint64_t seconds);                // "02:11:09", "3d 04:12"
std::string format_percent(std::optional<double> percent);  // "41.2 %"
std::string format_count(uint64_t count);                   // "1 234 567"

}  // namespace continuo::report
