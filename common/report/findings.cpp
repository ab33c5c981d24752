#include "common/report/findings.hpp"

#include "common/base/printable.hpp"
#include "common/report/json.hpp"
#include "common/report/table.hpp"

#include <algorithm>

namespace continuo::report {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kVerdictWidth = 7;  // "skipped"
// A longer name moves only its own line to the right.
constexpr size_t kMaxCheckWidth = 24;
// Least width of continued lines, however narrow the terminal is.
constexpr size_t kMinTextWidth = 20;

Colour colour_of(Verdict verdict) {
    switch (verdict) {
    case Verdict::Warn:
        return Colour::Yellow;
    case Verdict::Fail:
        return Colour::Red;
    case Verdict::Skipped:
        return Colour::Dim;
    default:
        return Colour::Green;
    }
}

// Names of checks, verdicts and texts are ASCII except foreign parts: a multi-byte character may
// break a line too early, never too late.
std::string padded(std::string text, size_t width) {
    text.resize(std::max(text.size(), width), ' ');
    return text;
}

std::string found_text(const Finding& finding) {
    std::string text = finding.found;
    if (!finding.remedy.empty()) {
        text += (text.empty() ? "" : "; ") + finding.remedy;
    }
    return base::replace_hidden(text, '?');
}

// Broken between words into lines of at most `width`; all but the first are indented by `indent`.
std::string broken(std::string_view text, size_t width, size_t indent) {
    std::string result;
    while (text.size() > width) {
        size_t end = text.rfind(' ', width);
        if (end == std::string_view::npos || end == 0) {
            end = std::min(text.find(' '), text.size());  // one long word
        }
        result += text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (!text.empty()) {
            result += "\n" + std::string(indent, ' ');
        }
    }
    return result.append(text);
}

std::string sums_text(const Findings& findings) {
    std::string text = std::to_string(findings.count(Verdict::Ok)) + " ok, " +
                       std::to_string(findings.count(Verdict::Warn)) + " to look at, " +
                       std::to_string(findings.count(Verdict::Fail)) + " failed, " +
                       std::to_string(findings.count(Verdict::Skipped)) + " skipped";
    if (findings.left_out() != 0) {
        text += ", " + std::to_string(findings.left_out()) + " not shown";
    }
    return text + "\n";
}

}  // namespace

std::string_view to_string(Verdict verdict) {
    switch (verdict) {
    case Verdict::Ok:
        return "ok";
    case Verdict::Warn:
        return "warn";
    case Verdict::Fail:
        return "fail";
    case Verdict::Skipped:
        return "skipped";
    }
    return "unknown";
}

void Findings::add(Finding finding) {
    if (all_.size() >= kMaxFindings) {
        ++left_out_;
        return;
    }
    all_.push_back(std::move(finding));
}

size_t Findings::count(Verdict verdict) const {
    return static_cast<size_t>(std::count_if(
        all_.begin(), all_.end(), [&](const Finding& one) { return one.verdict == verdict; }));
}

std::string to_text(const Finding& finding) {
    return base::replace_hidden(finding.check, '?') + ": " + found_text(finding);
}

std::string findings_text(const Findings& findings, bool is_terminal, size_t columns) {
    size_t check_width = 0;
    for (const Finding& finding : findings.all()) {
        if (finding.check.size() <= kMaxCheckWidth) {
            check_width = std::max(check_width, finding.check.size());
        }
    }
    const size_t indent = kVerdictWidth + kGap + check_width + kGap;
    const size_t width =
        columns == 0 ? SIZE_MAX : std::max(columns, indent + kMinTextWidth) - indent;
    std::string text;
    for (const Finding& finding : findings.all()) {
        const std::string verdict(to_string(finding.verdict));
        text += coloured(verdict, colour_of(finding.verdict), is_terminal) +
                std::string(kVerdictWidth - verdict.size() + kGap, ' ');
        const std::string check = padded(base::replace_hidden(finding.check, '?'), check_width);
        text += check + std::string(kGap, ' ');
        const std::string found = found_text(finding);
        if (columns != 0 && check.size() > check_width && check.size() + found.size() > width) {
            text += "\n" + std::string(indent, ' ');
        }
        text += broken(found, width, indent) + "\n";
    }
    return text + sums_text(findings);
}

std::string findings_json(std::string_view program, const Findings& findings) {
    const Verdict worst = findings.has(Verdict::Fail)   ? Verdict::Fail
                          : findings.has(Verdict::Warn) ? Verdict::Warn
                                                        : Verdict::Ok;
    JsonWriter json;
    json.begin_object();
    json.field("program", program);
    json.field("result", to_string(worst));
    json.key("checks").begin_array();
    for (const Finding& finding : findings.all()) {
        json.begin_object();
        json.field("check", finding.check);
        json.field("result", to_string(finding.verdict));
        json.field("found", finding.found);
        json.field("remedy", finding.remedy.empty() ? std::optional<std::string>()
                                                    : std::optional(finding.remedy));
        json.end_object();
    }
    json.end_array();
    json.field("left_out", findings.left_out());
    json.end_object();
    return json.take();
}

}  // namespace continuo::report
