#include "snapt/links/event_log.hpp"

#include <algorithm>
#include <array>

namespace continuo::snapt::links {
namespace {

struct KindFacts {
    std::string_view event;
    base::LogLevel level;
};
constexpr std::array<KindFacts, static_cast<size_t>(EventLog::Kind::Count)> kKindFacts = {
    {{"login", base::LogLevel::Info},
     {"login_refused", base::LogLevel::Warning},
     {"login_refused", base::LogLevel::Warning},
     {"session_end", base::LogLevel::Info},
     {"user_changed", base::LogLevel::Info},
     {"allowance", base::LogLevel::Info}}};

// The value as it is, or quoted, with a backslash before quotes and backslashes.
std::string value_text(std::string_view value) {
    const bool is_word = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
        return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '=';
    });
    if (is_word) {
        return std::string(value);
    }
    std::string text = "\"";
    for (const char c : value) {
        text += c == '"' || c == '\\' ? "\\" : "";
        text += c;
    }
    return text + "\"";
}

}  // namespace

bool EventLog::take(Budget& budget, base::TimePoint now) {
    const base::TimePoint from = std::max(budget.paid_until, now);
    if (from - now >= kEventLineSpacing * kEventLinesAtOnce) {
        return false;
    }
    budget.paid_until = from + kEventLineSpacing;
    return true;
}

// A stranger's `user` is an unproven claim.
EventLog::Budget& EventLog::budget_of(Kind kind, Fields fields) {
    const auto user = std::find_if(fields.begin(), fields.end(),
                                   [](const auto& field) { return field.first == "user"; });
    if (kind == Kind::Stranger || user == fields.end()) {
        return budgets_[{kind, {}}];
    }
    const Key key{kind, user->second};
    const auto known = budgets_.find(key);
    if (known != budgets_.end()) {
        return known->second;
    }
    return budgets_.size() < kMostEventLimits ? budgets_[key] : budgets_[{kind, {}}];
}

void EventLog::put(Kind kind, std::string line, Budget& budget) {
    if (const uint64_t left_out = std::exchange(budget.left_out, 0); left_out > 0) {
        line += " left_out=" + std::to_string(left_out);
    }
    const KindFacts& facts = kKindFacts[static_cast<size_t>(kind)];
    line.insert(0, facts.event);
    if (sink_) {
        sink_(facts.level, line);
    } else {
        base::log(facts.level, "%s", line.c_str());
    }
}

void EventLog::write(Kind kind, Fields fields, base::TimePoint now) {
    const std::scoped_lock lock(mutex_);
    Budget& budget = budget_of(kind, fields);
    if (!take(budget, now)) {
        ++budget.left_out;
        return;
    }
    std::string line;
    for (const auto& [key, value] : fields) {
        line.append(" ").append(key).append("=").append(value_text(value));
    }
    put(kind, std::move(line), budget);
}

void EventLog::on_tick(base::TimePoint now) {
    const std::scoped_lock lock(mutex_);
    for (auto& [key, budget] : budgets_) {
        if (budget.left_out > 0 && budget.paid_until <= now) {
            budget.paid_until = now + kEventLineSpacing;
            const auto& [kind, user] = key;
            put(kind, user.empty() ? std::string() : " user=" + value_text(user), budget);
        }
    }
    std::erase_if(budgets_, [now](const auto& entry) {
        return entry.second.left_out == 0 && entry.second.paid_until <= now;
    });
}

}  // namespace continuo::snapt::links
