// UsageSum: the sum of several SNAPTs' answers to one question for usage. Each counts its own
// traffic.
#pragma once

#include "common/report/json_value.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace continuo::cnapt::snapts {

class UsageSum {
  public:
    // `request`: the question, whose grouping keys are used here.
    explicit UsageSum(const report::JsonValue& request);

    void expect(const std::string& snapt) { snapts_[snapt] = kNoAnswer; }
    // A SNAPT's answer, or {"error":…}. Unexpected answers have no effect.
    void add(const std::string& snapt, std::string_view json);
    void fail(const std::string& snapt, std::string reason);
    // JSON of what the user may still use there, and of its money.
    struct Terms {
        std::string allowance;
        std::string money;
    };
    void set_terms(const std::string& snapt, Terms terms) { terms_[snapt] = std::move(terms); }
    // No answer is outstanding.
    bool is_complete() const;

    // As the answer of one SNAPT but for its price, and
    // "snapts":[{"snapt","error"|null,"price"|null,"allowance"|null,"money"|null}].
    // {"error":…} when none has answered.
    std::string json() const;

  private:
    static constexpr const char* kNoAnswer = "no answer";

    static constexpr size_t kNumbers = 12;
    static constexpr size_t kPriced = 3;
    struct Row {
        std::vector<std::string> keys;  // as JSON
        std::array<int64_t, kNumbers> sums{};
        std::array<std::optional<int64_t>, kPriced> prices{0, 0, 0};  // unknown if one of them is
    };
    void add_row(const report::JsonValue& row);

    std::vector<std::string> by_;
    std::map<std::vector<std::string>, Row> rows_;              // in the order of the keys
    std::map<std::string, std::optional<std::string>> snapts_;  // what is missing, if anything
    std::map<std::string, Terms> terms_;
    std::map<std::string, double> multipliers_;  // each SNAPT's `price`
    std::optional<int64_t> from_;
    std::optional<int64_t> to_;
    std::string zone_ = "UTC";
    bool has_answer_ = false;
};

}  // namespace continuo::cnapt::snapts
