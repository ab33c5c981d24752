#include "common/config/diagnostic.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace continuo::config {
namespace {

constexpr size_t kMaxPrintedBytes = 80;
constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_control(char character) {
    const auto byte = static_cast<uint8_t>(character);
    return byte < 0x20 || byte == 0x7F;
}

void append_hex(std::string& to, char character) {
    const auto byte = static_cast<uint8_t>(character);
    to += kHexDigits[byte >> 4U];
    to += kHexDigits[byte & 0xFU];
}

}  // namespace

std::string to_text(const Diagnostic& diagnostic) {
    std::string text = diagnostic.file + ":" + std::to_string(diagnostic.line) + ":" +
                       std::to_string(diagnostic.column) + ": " +
                       (diagnostic.severity == Severity::Error ? "error: " : "warning: ") +
                       diagnostic.message;
    if (!diagnostic.expected.empty()) {
        text += "; expected " + diagnostic.expected;
    }
    return text;
}

bool has_errors(std::span<const Diagnostic> diagnostics) {
    return std::any_of(diagnostics.begin(), diagnostics.end(), [](const Diagnostic& diagnostic) {
        return diagnostic.severity == Severity::Error;
    });
}

std::string printable(std::string_view text) {
    std::string result;
    for (const char character : text.substr(0, kMaxPrintedBytes)) {
        if (is_control(character)) {
            result += "\\x";
            append_hex(result, character);
        } else {
            result += character;
        }
    }
    if (text.size() > kMaxPrintedBytes) {
        result += "...";
    }
    return result;
}

std::string quote(std::string_view text) {
    std::string result = "\"";
    for (const char character : text) {
        if (character == '"' || character == '\\') {
            result += '\\';
            result += character;
        } else if (is_control(character)) {
            result += "\\u00";
            append_hex(result, character);
        } else {
            result += character;
        }
    }
    return result + '"';
}

std::string quoted_choices(std::span<const std::string_view> names) {
    std::string result;
    for (size_t i = 0; i < names.size(); ++i) {
        if (i > 0) {
            result += i + 1 == names.size() ? " or " : ", ";
        }
        result += quote(names[i]);
    }
    return result;
}

void DiagnosticSink::error(Place place, std::string message, std::string expected) {
    diagnostics_.push_back({file_, place.line, place.column, std::move(message),
                            std::move(expected), Severity::Error});
}

void DiagnosticSink::warning(Place place, std::string message, std::string expected) {
    diagnostics_.push_back({file_, place.line, place.column, std::move(message),
                            std::move(expected), Severity::Warning});
}

std::vector<Diagnostic> DiagnosticSink::take() {
    std::stable_sort(diagnostics_.begin(), diagnostics_.end(),
                     [](const Diagnostic& left, const Diagnostic& right) {
                         return std::tie(left.line, left.column) <
                                std::tie(right.line, right.column);
                     });
    return std::move(diagnostics_);
}

}  // namespace continuo::config
