// Tables and quantities for people: aligned columns that fit the screen, units, colour only where
// the caller says that a terminal reads.
#pragma once

#include "common/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::report {

// Width of a screen that takes lines of any length.
inline constexpr size_t kAnyWidth = SIZE_MAX;

enum class Align : uint8_t { Left, Right };
enum class Colour : uint8_t { None, Bold, Dim, Red, Green, Yellow };

// `text` in a colour when `is_terminal`, else as it is.
std::string coloured(std::string_view text, Colour colour, bool is_terminal);

// The last gate of all that a command prints, text and JSON: what a terminal would obey is written
// as \uNNNN, but for line ends, tabs and the colours above.
std::string safe_output(std::string_view text);

// `text` with its lines broken to at most `columns`: after a comma if there is one, otherwise at a
// blank. Continued lines are indented by `indent`. Longer words stay whole.
std::string wrapped(std::string_view text, size_t columns, size_t indent);
// The first `lines` lines of the text.
std::string_view first_lines(std::string_view text, size_t lines);

class Table {
  public:
    struct Column {
        std::string title;
        Align align = Align::Left;
        // Order in which columns are left out on a narrow screen: empty ones, then the highest
        // rank, all of a rank together. Rank 0 stays; its text may be shortened.
        uint8_t rank = 0;
        // Text beyond this width is cut before any column is left out; 0: as late as possible.
        uint8_t enough = 0;
    };
    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

    // Cells that are missing are empty, those beyond the last column are dropped. Control
    // characters are replaced.
    void add_row(std::vector<std::string> cells, Colour colour = Colour::None);
    size_t rows() const { return rows_.size(); }
    // Header and rows, two blanks between columns, each line ended by a line feed and at most
    // `columns` wide, unless even the shortest form of the columns of rank 0 is wider.
    std::string render(bool is_terminal, size_t columns = kAnyWidth) const;

  private:
    struct Row {
        std::vector<std::string> cells;
        Colour colour = Colour::None;
    };
    struct ShownColumn {
        size_t index = 0;
        size_t width = 0;
        size_t whole = 0;  // width at which nothing is cut
    };
    static size_t total_width(const std::vector<ShownColumn>& shown);
    std::vector<ShownColumn> all_columns() const;
    std::vector<ShownColumn> fit(size_t columns) const;
    void leave_out(std::vector<ShownColumn>& shown, size_t columns) const;
    void shorten(std::vector<ShownColumn>& shown, size_t columns) const;
    bool is_blank(size_t column) const;
    std::string line(const std::vector<std::string>& cells,
                     const std::vector<ShownColumn>& shown) const;

    std::vector<Column> columns_;
    std::vector<Row> rows_;
};

// An unknown value reads "-".
inline constexpr std::string_view kUnknown = "-";

std::string format_bytes(uint64_t bytes);                   // "512 B", "12.1 MiB"
std::string format_signed_bytes(int64_t bytes);             // "-1.50 KiB"
std::string format_bits_per_s(double bits_per_s);           // "12.4 Mbit/s"
std::string format_milliseconds(std::optional<double> ms);  // "0.42 ms", "38 ms"
std::string format_uptime(uint64_t seconds);                // "02:11:09", "3d 04:12"
std::string format_percent(std::optional<double> percent);  // "41.2 %"
std::string format_count(uint64_t count);                   // "1 234 567"
std::string format_denarii(int64_t micro);                  // "51.220418", of micro-denarii
// Micro-denarii for 10^6 bytes, up and down together, to the nearest; nothing: unknown, or there
// are no bytes.
std::optional<int64_t>
ud_per_mb(const std::optional<int64_t>& ud, int64_t bytes_up, int64_t bytes_down);
// Unix time in seconds as UTC text, as in the log: "2026-11-23T18:05:09Z"
std::string format_utc(int64_t seconds);

}  // namespace continuo::report
