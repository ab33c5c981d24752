#include "common/report/check_report.hpp"

#include "common/report/command_line.hpp"
#include "common/report/json.hpp"

namespace continuo::report {
namespace {

void write_list(JsonWriter& json,
                std::string_view name,
                std::span<const config::Diagnostic> diagnostics,
                config::Severity severity) {
    json.key(name).begin_array();
    for (const config::Diagnostic& diagnostic : diagnostics) {
        if (diagnostic.severity != severity) {
            continue;
        }
        std::string message = diagnostic.message;
        if (!diagnostic.expected.empty()) {
            message += "; expected " + diagnostic.expected;
        }
        json.begin_object();
        json.field("file", diagnostic.file);
        json.field("line", diagnostic.line);
        json.field("column", diagnostic.column);
        json.field("message", message);
        json.field("expected", diagnostic.expected);
        json.end_object();
    }
    json.end_array();
}

}  // namespace

std::string diagnostics_text(std::span<const config::Diagnostic> diagnostics) {
    std::string text;
    for (const config::Diagnostic& diagnostic : diagnostics) {
        text += to_text(diagnostic) + "\n";
    }
    return text;
}

std::string diagnostics_json(std::span<const config::Diagnostic> diagnostics) {
    JsonWriter json;
    json.begin_object();
    write_list(json, "errors", diagnostics, config::Severity::Error);
    write_list(json, "warnings", diagnostics, config::Severity::Warning);
    json.end_object();
    return json.take();
}

CheckReport check_files(std::span<const std::string> files,
                        bool as_json,
                        const ReadFile& read,
                        const CheckText& check) {
    std::vector<config::Diagnostic> all;
    for (const std::string& file : files) {
        const FileText content = read(file);
        if (!content.failure.empty()) {
            all.push_back({file, 1, 1, "cannot be read: " + content.failure, "a readable file",
                           config::Severity::Error});
            continue;
        }
        for (config::Diagnostic& diagnostic : check(content.text, file)) {
            all.push_back(std::move(diagnostic));
        }
    }
    CheckReport report;
    report.exit_code = config::has_errors(all) ? kExitConfig : kExitGood;
    if (as_json) {
        report.out = diagnostics_json(all) + "\n";
    } else {
        report.err = diagnostics_text(all);
    }
    return report;
}

}  // namespace continuo::report
