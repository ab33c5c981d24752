#include "common/config/diagnostic.hpp"

#include "common/base/printable.hpp"
#include "common/base/utf8.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace continuo::config {
namespace {

constexpr size_t kMaxPrintedBytes = 80;

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
    const std::string_view shown = text.substr(0, shown_bytes(text));
    return base::printable(shown) + (shown.size() < text.size() ? "..." : "");
}

std::string quoted_value(std::string_view text) {
    const std::string_view shown = text.substr(0, shown_bytes(text));
    return quote(shown.size() < text.size() ? std::string(shown) + "..." : std::string(shown));
}

std::string quote(std::string_view text) {
    std::string escaped;
    for (const char character : text) {
        if (character == '"' || character == '\\') {
            escaped += '\\';
        }
        escaped += character;
    }
    return '"' + base::printable_json(escaped) + '"';
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
