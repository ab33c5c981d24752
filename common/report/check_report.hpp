// `cnapt check` and `snapt check`: reads files, has them checked, and reports all that is wrong.
#pragma once

#include "common/config/diagnostic.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::report {

struct CheckReport {
    std::string out;    // for stdout
    std::string err;    // for stderr
    int exit_code = 0;  // 0, or 78 when there is an error
};

// One line a diagnostic, each ended by a line feed.
std::string diagnostics_text(std::span<const config::Diagnostic> diagnostics);
// {"errors":[{file,line,column,message,expected}],"warnings":[...]}; `message` has the whole
// sentence.
std::string diagnostics_json(std::span<const config::Diagnostic> diagnostics);

// Gives the content of a file, or why it cannot be read.
struct FileText {
    std::string text;
    std::string failure;  // empty when it was read
};
using ReadFile = std::function<FileText(const std::string& path)>;
using CheckText =
    std::function<std::vector<config::Diagnostic>(std::string_view text, const std::string& file)>;

CheckReport check_files(std::span<const std::string> files,
                        bool as_json,
                        const ReadFile& read,
                        const CheckText& check);

}  // namespace continuo::report
