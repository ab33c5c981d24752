// Price plans in the ledger database: each revision is the text that was added, never changed, so
// that any charge can be recomputed.
#pragma once

#include "snapt/store/account.hpp"
#include "snapt/store/database.hpp"

#include <optional>
#include <string>
#include <vector>

namespace continuo::snapt::store {

// Most revisions of all plans together; one more is refused.
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
    bool is_new = false;  // false: the latest revision already has this text
};

// The next revision of the plan of this name, or the first of a new plan.
base::Result<AddedPlan> add_plan(Database& database,
                                 const std::string& name,
                                 const std::string& toml,
                                 int64_t valid_from_us);

// All revisions, ordered by plan and revision.
base::Result<std::vector<PlanRevision>> list_plans(Database& database);

// `plan` is a name or a number; without `revision` the latest. NotFound when there is none,
// Malformed when the text has changed since it was added.
base::Result<PlanRevision>
find_plan(Database& database, const std::string& plan, const std::optional<int64_t>& revision);

// Values of PlanUse::plan_id: usage is free; or, for an account, the general plan applies.
inline constexpr int64_t kNoPlan = 0;
inline constexpr int64_t kPlanOfOthers = -1;
inline constexpr int64_t kMaxPlanUses = 100'000;

struct PlanUse {
    int64_t account_id = kNoAccount;  // none: all accounts without their own plan
    int64_t plan_id = kNoPlan;
    int64_t valid_from_us = 0;
};

// Commits; valid until another one for the account starts. LimitReached beyond kMaxPlanUses.
base::Result<void>
use_plan(Database& database, const PlanUse& use, int64_t now_us, const std::string& actor);
// In the order in which they were set.
base::Result<std::vector<PlanUse>> list_plan_uses(Database& database);

}  // namespace continuo::snapt::store
