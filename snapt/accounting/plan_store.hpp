// Price plans in the ledger database: each revision as the text that was added, never changed, so
// that any charge can be computed again.
#pragma once

#include "snapt/accounting/account.hpp"
#include "snapt/accounting/database.hpp"

#include <optional>
#include <string>
#include <vector>

namespace continuo::snapt {

// Limit of revisions of all plans together; one more is refused.
inline constexpr int64_t kMaxPlanRevisions = 10'000;

struct PlanRevision {
    int64_t plan_id = 0;   // from 1
    int64_t revision = 0;  // from 1
    std::string name;      // one a plan_id
    int64_t valid_from_us = 0;
    std::string toml;
};

struct AddedPlan {
    PlanRevision plan;
    bool is_new = false;  // false: the latest revision has this text already
};

// The next revision of the plan of this name, or the first of a new plan.
base::Result<AddedPlan> add_plan(Database& database,
                                 const std::string& name,
                                 const std::string& toml,
                                 int64_t valid_from_us);

// All revisions, in the order of plan and revision.
base::Result<std::vector<PlanRevision>> list_plans(Database& database);

// `plan` is a name or a number; without `revision` the latest. NotFound when there is none,
// Malformed when the text is not the one that was added.
base::Result<PlanRevision>
find_plan(Database& database, const std::string& plan, const std::optional<int64_t>& revision);

// Values of PlanUse::plan_id: usage is free; or, for an account, the plan of the others holds.
inline constexpr int64_t kNoPlan = 0;
inline constexpr int64_t kPlanOfOthers = -1;
inline constexpr int64_t kMaxPlanUses = 100'000;

struct PlanUse {
    int64_t account_id = kNoAccount;  // none: all accounts without a plan of their own
    int64_t plan_id = kNoPlan;
    int64_t valid_from_us = 0;
};

// Commits; from then on until another one of the account is valid. LimitReached beyond
// kMaxPlanUses.
base::Result<void>
use_plan(Database& database, const PlanUse& use, int64_t now_us, const std::string& actor);
// In the order in which they were said.
base::Result<std::vector<PlanUse>> list_plan_uses(Database& database);

}  // namespace continuo::snapt
