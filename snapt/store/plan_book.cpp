#include "snapt/store/plan_book.hpp"

#include <algorithm>

namespace continuo::snapt::store {

using base::Error;
using base::Result;

Result<bool> PlanBook::refresh(Database& database) {
    Statement count = CTN_TRY(database.prepare(
        "SELECT (SELECT coalesce(max(use_id),0) FROM plan_use),(SELECT count(*) FROM plan),"
        "(SELECT count(*) FROM snapt_price)"));
    if (!CTN_TRY(count.step())) {
        return Error{base::Errc::Malformed, "ledger.db is damaged", 0};
    }
    const std::array rows = {count.integer(0), count.integer(1), count.integer(2)};
    if (seen_ == rows) {
        return false;
    }
    seen_.reset();
    const std::vector<PlanUse> uses = CTN_TRY(list_plan_uses(database));
    uses_.clear();
    for (const PlanUse& use : uses) {
        uses_[use.account_id].push_back(use);
    }
    Statement select =
        CTN_TRY(database.prepare("SELECT plan_id,rev,valid_from FROM plan ORDER BY plan_id,rev"));
    revisions_.clear();
    while (CTN_TRY(select.step())) {
        revisions_[select.integer(0)].push_back({select.integer(1), select.integer(2)});
    }
    prices_ = CTN_TRY(SnaptPrices::load(database));
    seen_ = rows;
    return true;
}

// The plan set last wins among those valid from the same time.
int64_t PlanBook::plan_of(int64_t account_id, int64_t at_us) const {
    const auto uses = uses_.find(account_id);
    const PlanUse* latest = nullptr;
    if (uses != uses_.end()) {
        for (const PlanUse& use : uses->second) {
            const bool is_later = latest == nullptr || use.valid_from_us >= latest->valid_from_us;
            latest = use.valid_from_us <= at_us && is_later ? &use : latest;
        }
    }
    if (latest == nullptr || latest->plan_id == kPlanOfOthers) {
        return account_id == kNoAccount ? kNoPlan : plan_of(kNoAccount, at_us);
    }
    return latest->plan_id;
}

std::optional<int64_t> PlanBook::first_use_us(int64_t account_id) const {
    std::optional<int64_t> first_us;
    for (const int64_t user_of_plan : {account_id, kNoAccount}) {
        const auto uses = uses_.find(user_of_plan);
        if (uses == uses_.end()) {
            continue;
        }
        for (const PlanUse& use : uses->second) {
            if (use.plan_id != kNoPlan && use.plan_id != kPlanOfOthers) {
                first_us = std::min(first_us.value_or(use.valid_from_us), use.valid_from_us);
            }
        }
    }
    return first_us;
}

PlanTerms PlanBook::in_force(int64_t account_id, int64_t at_us) const {
    const int64_t plan_id = plan_of(account_id, at_us);
    const auto revisions = revisions_.find(plan_id);
    const Revision* latest = nullptr;
    if (revisions != revisions_.end()) {
        for (const Revision& one : revisions->second) {
            const bool is_later = latest == nullptr || one.valid_from_us >= latest->valid_from_us;
            latest = one.valid_from_us <= at_us && is_later ? &one : latest;
        }
    }
    return latest == nullptr ? PlanTerms{} : PlanTerms{plan_id, latest->revision};
}

Result<std::shared_ptr<const rating::Plan>> PlanBook::plan(Database& database,
                                                           const PlanTerms& terms) {
    if (terms.plan_id == kNoPlan) {
        return std::shared_ptr<const rating::Plan>();
    }
    const std::pair key{terms.plan_id, terms.revision};
    auto known = plans_.find(key);
    if (known == plans_.end()) {
        const PlanRevision stored =
            CTN_TRY(find_plan(database, std::to_string(terms.plan_id), terms.revision));
        // Null, and kept, where it cannot be parsed: a revision never changes.
        known =
            plans_
                .emplace(key,
                         rating::parse_plan(stored.toml, stored.name, rating::PlanUse::Stored).plan)
                .first;
    }
    if (known->second == nullptr) {
        return Error{base::Errc::Malformed, "a price plan in ledger.db cannot be read", 0};
    }
    return known->second;
}

}  // namespace continuo::snapt::store
