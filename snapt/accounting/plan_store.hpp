// Price plans in the ledger database: each revision as the text that was added, never changed, so
// that any charge can be computed again.
#pragma once

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

}  // namespace continuo::snapt
