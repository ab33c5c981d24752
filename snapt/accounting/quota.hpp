// Quotas of users, and how much of them is used: payload of the period that is now, in the zone of
// the account.
#pragma once

#include "snapt/accounting/account.hpp"
#include "snapt/accounting/database.hpp"
#include "snapt/accounting/user_store.hpp"

#include <optional>
#include <string>
#include <vector>

namespace continuo::snapt {

struct QuotaUse {
    Account account;
    Quota quota;
    std::string zone;
    int64_t from_us = 0;  // the period began
    int64_t used_bytes = 0;
};

// Users with a quota, by name; with `user` that one, if it has one. Without what was counted since
// the last records.
base::Result<std::vector<QuotaUse>>
quota_uses(Database& database, const std::optional<std::string>& user, int64_t now_us);

// Commits. Nothing: none from now on. NotFound without such a user or zone; InvalidConfig for what
// is no quota.
base::Result<void> set_quota(Database& database,
                             const std::string& user,
                             const std::optional<Quota>& quota,
                             const std::optional<std::string>& zone);

}  // namespace continuo::snapt
