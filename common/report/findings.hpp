// Findings: results of checks of a host, as lines for people and as JSON. A finding has the check,
// the verdict, what was found and what to do. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::report {

enum class Verdict : uint8_t {
    Ok,
    Warn,     // it works, and may not for long, or not as meant
    Fail,     // it does not work
    Skipped,  // it could not be checked; the finding says what is needed
};
std::string_view to_string(Verdict verdict);

struct Finding {
    Verdict verdict = Verdict::Ok;
    std::string check;   // "udp 203.0.113.9:9347"
    std::string found;   // "no answer within 3 s"
    std::string remedy;  // advice; empty: none

    bool operator==(const Finding&) const = default;
};

// Further findings are only counted. Bounds memory; a choice, not measured.
inline constexpr size_t kMaxFindings = 256;

class Findings {
  public:
    void add(Finding finding);
    void ok(std::string check, std::string found) {
        add({Verdict::Ok, std::move(check), std::move(found), {}});
    }
    void warn(std::string check, std::string found, std::string remedy) {
        add({Verdict::Warn, std::move(check), std::move(found), std::move(remedy)});
    }
    void fail(std::string check, std::string found, std::string remedy) {
        add({Verdict::Fail, std::move(check), std::move(found), std::move(remedy)});
    }
    void skip(std::string check, std::string found, std::string remedy) {
        add({Verdict::Skipped, std::move(check), std::move(found), std::move(remedy)});
    }

    const std::vector<Finding>& all() const { return all_; }
    size_t left_out() const { return left_out_; }
    bool has(Verdict verdict) const { return count(verdict) != 0; }
    size_t count(Verdict verdict) const;

  private:
    std::vector<Finding> all_;
    size_t left_out_ = 0;
};

// "CHECK: FOUND; REMEDY", for a log.
std::string to_text(const Finding& finding);
// One line per finding, "VERDICT  CHECK  FOUND; REMEDY", and a summary line. Longer lines are
// broken between words and continue below the finding; `columns` 0: no breaks.
std::string findings_text(const Findings& findings, bool is_terminal, size_t columns);
// {"program","result","checks":[{"check","result","found","remedy"}],"left_out"}; `result` is the
// worst verdict: "fail", "warn" or "ok".
std::string findings_json(std::string_view program, const Findings& findings);

}  // namespace continuo::report
