// Reads tests/vectors/bad_config/*.txt: bad files with what is said of them. README.md there tells
// the format.
#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace continuo::tests {

struct BadFile {
    std::string claim;
    std::string place;     // "cnapt.txt:12" of the case
    std::string text;      // the file
    std::string expected;  // each line ended by a line feed
};

// Stands for the first case, named "rest", where a case ends with it.
inline constexpr const char* kRestLine = "+rest\n";

inline unsigned hex_digit(char character) {
    return static_cast<unsigned>(character <= '9' ? character - '0' : character - 'a' + 10);
}

// "\xNN" as the byte it names.
inline std::string unescaped(const std::string& text) {
    std::string bytes;
    for (size_t at = 0; at < text.size(); ++at) {
        if (text.compare(at, 2, "\\x") == 0 && at + 3 < text.size()) {
            bytes += static_cast<char>(hex_digit(text[at + 2]) << 4U | hex_digit(text[at + 3]));
            at += 3;
        } else {
            bytes += text[at];
        }
    }
    return bytes;
}

inline std::vector<BadFile> read_manifest(const std::string& folder, const std::string& name) {
    std::vector<BadFile> cases;
    std::ifstream file(folder + "/" + name);
    std::string rest;
    std::string line;
    bool is_expectation = false;
    for (size_t number = 1; std::getline(file, line); ++number) {
        if (line.starts_with("=== ")) {
            cases.push_back({line.substr(4), name + ":" + std::to_string(number), "", ""});
            is_expectation = false;
        } else if (line == "---") {
            is_expectation = true;
        } else if (is_expectation && !line.empty()) {
            cases.back().expected += line + "\n";
        } else if (!is_expectation && !cases.empty()) {
            cases.back().text += line + "\n";
        }
    }
    if (!cases.empty() && cases.front().claim == "rest") {
        rest = cases.front().text;
        cases.erase(cases.begin());
    }
    for (BadFile& entry : cases) {
        const std::string mark = kRestLine;
        if (entry.text.ends_with(mark)) {
            entry.text.replace(entry.text.size() - mark.size(), mark.size(), rest);
        }
        if (entry.claim.starts_with("bytes: ")) {
            entry.text = unescaped(entry.text);
        }
    }
    return cases;
}

}  // namespace continuo::tests
