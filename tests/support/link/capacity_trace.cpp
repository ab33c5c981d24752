#include "tests/support/link/capacity_trace.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace continuo::tests {

using base::Duration;
using base::milliseconds;

namespace {

std::string at_line(std::string_view name, size_t line, const std::string& what) {
    return std::string(name) + ":" + std::to_string(line) + ": " + what;
}

}  // namespace

std::optional<CapacityTrace>
CapacityTrace::parse(std::string_view text, std::string_view name, std::string& fault) {
    std::vector<uint32_t> at_ms;
    size_t line = 0;
    while (!text.empty()) {
        ++line;
        const std::string_view word = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        uint32_t value = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc{} || end != word.data() + word.size()) {
            fault = at_line(name, line,
                            "not a whole number of milliseconds: \"" +
                                std::string(word.substr(0, 40)) + "\"");
            return std::nullopt;
        }
        if (!at_ms.empty() && value < at_ms.back()) {
            fault = at_line(name, line,
                            std::to_string(value) + " is before " + std::to_string(at_ms.back()) +
                                " of the line above");
            return std::nullopt;
        }
        if (at_ms.size() == kMaxOpportunities) {
            fault =
                at_line(name, line, "more than " + std::to_string(kMaxOpportunities) + " lines");
            return std::nullopt;
        }
        at_ms.push_back(value);
    }
    if (at_ms.empty()) {
        fault = at_line(name, 1, "no opportunity in it");
        return std::nullopt;
    }
    if (at_ms.back() == 0) {
        fault = at_line(name, line, "the last line is the period and must be above 0");
        return std::nullopt;
    }
    return CapacityTrace(std::move(at_ms));
}

std::optional<CapacityTrace> CapacityTrace::load(const std::string& path, std::string& fault) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) {
        fault = path + ": cannot be read";
        return std::nullopt;
    }
    const std::streamoff bytes = file.tellg();
    if (bytes < 0 || static_cast<uint64_t>(bytes) > kMaxTraceBytes) {
        fault = path + ": not a file of at most " + std::to_string(kMaxTraceBytes) + " bytes";
        return std::nullopt;
    }
    std::string text(static_cast<size_t>(bytes), '\0');
    file.seekg(0);
    if (!file.read(text.data(), bytes)) {
        fault = path + ": cannot be read";
        return std::nullopt;
    }
    return parse(text, path, fault);
}

Duration CapacityTrace::time_of(uint64_t opportunity) const {
    return period() * static_cast<int64_t>(opportunity / at_ms_.size()) +
           milliseconds(at_ms_[opportunity % at_ms_.size()]);
}

uint64_t CapacityTrace::first_after(Duration since_beginning) const {
    if (since_beginning < Duration{}) {
        return 0;
    }
    const auto round = static_cast<uint64_t>(since_beginning / period());
    const Duration within = since_beginning % period();
    const auto later =
        std::upper_bound(at_ms_.begin(), at_ms_.end(), within,
                         [](Duration limit, uint32_t ms) { return limit < milliseconds(ms); });
    // `within` is below the period, which is the last line: there always is a later one.
    return round * at_ms_.size() + static_cast<uint64_t>(later - at_ms_.begin());
}

Duration CapacityTrace::period() const {
    return milliseconds(at_ms_.back());
}

}  // namespace continuo::tests
