// PlanBook: which revision of which price plan applies to an account at a time, by `snapt plan use`
// and `plan add`, the plans themselves, and how many times their price each SNAPT asks.
#pragma once

#include "rating/plan.hpp"
#include "snapt/store/plan_store.hpp"
#include "snapt/store/snapt_prices.hpp"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace continuo::snapt::store {

// Without a plan usage is free.
struct PlanTerms {
    int64_t plan_id = kNoPlan;
    int64_t revision = 0;

    bool operator==(const PlanTerms&) const = default;
};

class PlanBook {
  public:
    // Reads new entries; true if there were any.
    base::Result<bool> refresh(Database& database);
    // No plan was ever in use: nothing is charged.
    bool is_empty() const { return uses_.empty(); }
    // Since when any plan is in use for the account; nothing: none ever was.
    std::optional<int64_t> first_use_us(int64_t account_id) const;
    // The account's own plan, otherwise the general one; its latest valid revision.
    PlanTerms in_force(int64_t account_id, int64_t at_us) const;
    // Null: no plan. Malformed: not as it was added.
    base::Result<std::shared_ptr<const rating::Plan>> plan(Database& database,
                                                           const PlanTerms& terms);
    // For the records of that run.
    double multiplier(const std::string& snapt_id, int64_t epoch) const {
        return prices_.multiplier(snapt_id, epoch);
    }

  private:
    struct Revision {
        int64_t revision = 0;
        int64_t valid_from_us = 0;
    };
    int64_t plan_of(int64_t account_id, int64_t at_us) const;

    std::optional<std::array<int64_t, 3>> seen_;          // rows of the tables, which only grow
    std::map<int64_t, std::vector<PlanUse>> uses_;        // by account
    std::map<int64_t, std::vector<Revision>> revisions_;  // by plan
    std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const rating::Plan>> plans_;
    SnaptPrices prices_;
};

}  // namespace continuo::snapt::store
