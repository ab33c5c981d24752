#include "common/config/diagnostic.hpp"

#include "common/base/utf8.hpp"

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

// Length of the control character at the front: C0, DEL, or C1 in UTF-8, which terminals obey too;
// 0 when it is another character.
size_t unprintable_bytes(std::string_view text) {
    if (is_control(text[0])) {
        return 1;
    }
    const bool is_c1 =
        text.size() >= 2 && text[0] == '\xC2' && static_cast<uint8_t>(text[1]) < 0xA0;
    return is_c1 ? 2 : 0;
}

// As much of `text` as a message shows, no character cut.
size_t shown_bytes(std::string_view text) {
    if (text.size() <= kMaxPrintedBytes) {
        return text.size();
    }
    size_t at = 0;
    for (;;) {
        const size_t next = at + std::max<size_t>(base::utf8_length(text.substr(at)), 1);
        if (next > kMaxPrintedBytes) {
            return at;
        }
        at = next;
    }
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
    const std::string_view shown = text.substr(0, shown_bytes(text));
    for (size_t at = 0; at < shown.size();) {
        const size_t length = unprintable_bytes(shown.substr(at));
        for (size_t i = 0; i < length; ++i) {
            result += "\\x";
            append_hex(result, shown[at + i]);
        }
        if (length == 0) {
            result += shown[at];
        }
        at += std::max<size_t>(length, 1);
    }
    return shown.size() < text.size() ? result + "..." : result;
}

std::string quoted_value(std::string_view text) {
    const std::string_view shown = text.substr(0, shown_bytes(text));
    return quote(shown.size() < text.size() ? std::string(shown) + "..." : std::string(shown));
}

std::string quote(std::string_view text) {
    std::string result = "\"";
    for (size_t at = 0; at < text.size(); ++at) {
        const char character = text[at];
        const size_t length = unprintable_bytes(text.substr(at));
        if (length > 0) {
            at += length - 1;  // the code point is the last byte in both forms
            result += "\\u00";
            append_hex(result, text[at]);
            continue;
        }
        if (character == '"' || character == '\\') {
            result += '\\';
        }
        result += character;
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
