// Who had an outer address and port at a time, from the files of NatLog. Blocking, linear in the
// size of one day's file, or two.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/result.hpp"
#include "common/report/json_value.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace continuo::snapt {

// Answers beyond are counted.
inline constexpr size_t kMaxNatUses = 1000;
// Furthest that a question looks to both sides of its time.
inline constexpr int64_t kMaxNatWithinS = 3600;

struct NatQuestion {
    base::Endpoint outer;
    std::optional<std::string> protocol;  // "tcp" or "udp"
    int64_t from_us = 0;                  // to `to_us`, both included
    int64_t to_us = 0;
};

struct NatUse {
    int64_t from_us = 0;
    bool is_from_known = true;        // false: it was there before
    std::optional<int64_t> until_us;  // nothing: it went on when the log ends
    std::string protocol;
    std::string inner;  // the lease, with its port
    uint16_t inner_port = 0;
    std::optional<base::Endpoint> destination;  // where it is logged
    int64_t account_id = 0;
    std::string user;
    std::string node;
};

struct NatAnswer {
    std::vector<NatUse> uses;
    size_t left_out = 0;
    bool is_whole = true;  // false: not all of the time asked for was logged
};

// "203.0.113.9:40001", a second of "2026-12-01T12:00:00Z" or Unix seconds, and what lies `within`
// seconds of it. Nothing, with the reason in `failure`, when one is wrong.
struct NatQuestionText {
    std::string outer;
    std::string at;
    std::string zone = "UTC";
    std::optional<std::string> protocol;
    std::optional<std::string> within;
};
std::optional<NatQuestion> parse_nat_question(const NatQuestionText& text, std::string& failure);

// `folder`: with the files. Errors: NotFound (no file of that day), LimitReached (given up),
// System.
base::Result<NatAnswer> find_nat_uses(const std::string& folder,
                                      const NatQuestion& question,
                                      const std::function<bool()>& give_up = {});

// {"ext":…,"from":s,"to":s,"logged":bool,"uses":[{…}],"left_out":n}
std::string nat_answer_json(const NatQuestion& question, const NatAnswer& answer);

}  // namespace continuo::snapt
