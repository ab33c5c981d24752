// An error in a configuration file, and its place. One form for syntax and meaning, for people and
// for JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::config {

enum class Severity : uint8_t { Error, Warning };

// Line and column count from 1, columns in bytes.
struct Place {
    uint32_t line = 1;
    uint32_t column = 1;

    auto operator<=>(const Place&) const = default;
};

struct Diagnostic {
    std::string file;
    uint32_t line = 1;
    uint32_t column = 1;
    std::string message;
    std::string expected;
    Severity severity = Severity::Error;
};

// "FILE:LINE:COL: error: MESSAGE; expected EXPECTED", without a line feed.
std::string to_text(const Diagnostic& diagnostic);
bool has_errors(std::span<const Diagnostic> diagnostics);

// Printable form of foreign text: control characters as \xNN, long texts cut.
std::string printable(std::string_view text);
// Foreign text as quote() writes it, cut like printable().
std::string quoted_value(std::string_view text);
// A TOML basic string, with quotes and escapes.
std::string quote(std::string_view text);
// "a", "b" or "c", each quoted.
std::string quoted_choices(std::span<const std::string_view> names);

// Collects the diagnostics of one file.
class DiagnosticSink {
  public:
    explicit DiagnosticSink(std::string file) : file_(std::move(file)) {}

    void error(Place place, std::string message, std::string expected);
    void warning(Place place, std::string message, std::string expected);
    bool has_errors() const { return config::has_errors(diagnostics_); }
    // In the order of the file.
    std::vector<Diagnostic> take();

  private:
    std::string file_;
    std::vector<Diagnostic> diagnostics_;
};

}  // namespace continuo::config
