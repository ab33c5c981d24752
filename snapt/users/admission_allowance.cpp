// Admission: reports of users' quotas and credits to their nodes.
#include "snapt/store/bounded_sum.hpp"
#include "snapt/users/admission.hpp"
#include "snapt/users/allowance_message.hpp"

#include <algorithm>

namespace continuo::snapt::users {

namespace {

// Usage is reported again when it has grown by a hundredth of the quota, or of what is left by the
// bookings, but not for less than a hundredth of a denarius.
constexpr int kToldParts = 100;
constexpr int64_t kLeastToldUd = 10'000;

bool has_spent_part(const control::Allowance& now, const control::Allowance& told) {
    if (!now.credit || !told.credit) {
        return false;
    }
    const int64_t whole_ud =
        std::max<int64_t>(store::bounded_sum(now.balance_ud.value_or(0), now.credit->limit_ud), 0);
    const int64_t part_ud = std::max(whole_ud / kToldParts, kLeastToldUd);
    return now.credit->unbooked_ud / part_ud != told.credit->unbooked_ud / part_ud;
}

bool is_news(const control::Allowance& now, const control::Allowance& told) {
    control::Allowance rest = now;
    rest.used_bytes = told.used_bytes;
    if (rest.credit && told.credit) {
        rest.credit->unbooked_ud = told.credit->unbooked_ud;
    }
    const uint64_t part = now.quota_bytes / kToldParts + 1;
    return rest != told || now.used_bytes / part != told.used_bytes / part ||
           has_spent_part(now, told);
}

}  // namespace

void Admission::tell_allowances() {
    for (auto& [id, link] : links_) {
        if (link.is_open && link.wire_id != 0) {
            tell_allowance(id, link);
        }
    }
}

void Admission::tell_allowance(links::LinkId id, Link& link) {
    const relay::NodeSession* node = relay_->find(link.wire_id);
    if (node == nullptr) {
        return;
    }
    const control::Allowance now = allowance_message(node->share->meter->allowance());
    // The relay checks it each second: it is reported once it acts.
    const bool acts =
        now.state != control::AllowanceState::Throttled || node->share->down_rate.is_limited();
    if (!is_news(now, link.told) || !acts) {
        return;
    }
    const bool is_other = now.state != link.told.state || now.kind != link.told.kind;
    link.told = now;
    server_->tell_allowance(id, now);
    if (is_other) {
        const auto state = static_cast<accounting::Allowance::State>(now.state);
        note(links::EventLog::Kind::Allowance,
             {{"user", link.grant.user},
              {"node", link.grant.node},
              {"of", now.kind == control::AllowanceKind::Credit ? "credit" : "quota"},
              {"state", std::string(to_string(state))},
              {"quota_bytes", std::to_string(now.quota_bytes)},
              {"used_bytes", std::to_string(now.used_bytes)},
              {"until", std::to_string(now.until_s)}});
    }
}

}  // namespace continuo::snapt::users
