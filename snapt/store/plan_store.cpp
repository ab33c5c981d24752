#include "snapt/store/plan_store.hpp"

#include "common/config/units.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <openssl/evp.h>

namespace continuo::snapt::store {
namespace {

using base::Errc;
using base::Error;
using base::Result;

// The query for plans; `rest` is its condition and order.
std::string select_plans(std::string_view rest) {
    std::string sql = "SELECT plan_id,rev,name,valid_from,toml,sha FROM plan ";
    sql += rest;
    return sql;
}

Result<std::array<uint8_t, 32>> sha_of(std::string_view text) {
    std::array<uint8_t, 32> digest{};
    if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
        return Error{Errc::System, "SHA-256 is not available", 0};
    }
    return digest;
}

Result<PlanRevision> revision_of(const Statement& row) {
    PlanRevision plan{row.integer(0), row.integer(1), row.text(2), row.integer(3), row.text(4)};
    const auto wanted = CTN_TRY(sha_of(plan.toml));
    const base::ByteView stored = row.blob(5);
    if (!std::equal(wanted.begin(), wanted.end(), stored.begin(), stored.end())) {
        return Error{Errc::Malformed, "a price plan in ledger.db is not as it was added", 0};
    }
    return plan;
}

// Id of the plan of this name, or the next id; and the number of revisions of all plans.
struct PlanCount {
    int64_t plan_id = 0;
    int64_t revisions = 0;
};

Result<PlanCount> count_plans(Database& database, std::string_view name) {
    Statement select = CTN_TRY(database.prepare(
        "SELECT coalesce((SELECT plan_id FROM plan WHERE name=?1 LIMIT 1),"
        "(SELECT coalesce(max(plan_id),0)+1 FROM plan)), (SELECT count(*) FROM plan)"));
    select.bind(1, name);
    if (!CTN_TRY(select.step())) {
        return Error{Errc::Malformed, "ledger.db is damaged", 0};
    }
    return PlanCount{select.integer(0), select.integer(1)};
}

Result<std::optional<PlanRevision>> latest_of(Database& database, int64_t plan_id) {
    const std::string sql = select_plans("WHERE plan_id=?1 ORDER BY rev DESC LIMIT 1");
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    select.bind(1, plan_id);
    if (!CTN_TRY(select.step())) {
        return std::optional<PlanRevision>();
    }
    return std::optional(CTN_TRY(revision_of(select)));
}

}  // namespace

Result<AddedPlan> add_plan(Database& database,
                           const std::string& name,
                           const std::string& toml,
                           int64_t valid_from_us) {
    Transaction transaction = CTN_TRY(Transaction::begin(database));
    const PlanCount count = CTN_TRY(count_plans(database, name));
    const auto latest = CTN_TRY(latest_of(database, count.plan_id));
    if (latest && latest->toml == toml) {
        return AddedPlan{*latest, false};
    }
    if (count.revisions >= kMaxPlanRevisions) {
        return Error{Errc::LimitReached, "there are 10000 revisions of price plans already", 0};
    }
    const int64_t revision = latest ? latest->revision + 1 : 1;
    PlanRevision plan{count.plan_id, revision, name, valid_from_us, toml};
    const auto sha = CTN_TRY(sha_of(toml));
    Statement insert = CTN_TRY(database.prepare(
        "INSERT INTO plan(plan_id,rev,name,valid_from,toml,sha) VALUES(?,?,?,?,?,?)"));
    CTN_TRY(insert.bind(1, plan.plan_id)
                .bind(2, plan.revision)
                .bind(3, std::string_view(name))
                .bind(4, valid_from_us)
                .bind(5, std::string_view(toml))
                .bind(6, base::ByteView(sha))
                .run());
    CTN_TRY(transaction.commit());
    return AddedPlan{std::move(plan), true};
}

Result<std::vector<PlanRevision>> list_plans(Database& database) {
    const std::string sql = select_plans("ORDER BY plan_id,rev");
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    std::vector<PlanRevision> plans;
    while (CTN_TRY(select.step())) {
        plans.push_back(CTN_TRY(revision_of(select)));
    }
    return plans;
}

Result<void>
use_plan(Database& database, const PlanUse& use, int64_t now_us, const std::string& actor) {
    Transaction transaction = CTN_TRY(Transaction::begin(database));
    Statement count = CTN_TRY(database.prepare("SELECT count(*) FROM plan_use"));
    if (CTN_TRY(count.step()) && count.integer(0) >= kMaxPlanUses) {
        return Error{Errc::LimitReached, "plans were assigned 100000 times already", 0};
    }
    Statement insert = CTN_TRY(database.prepare(
        "INSERT INTO plan_use(account_id,plan_id,valid_from,at,actor) VALUES(?,?,?,?,?)"));
    CTN_TRY(insert.bind(1, use.account_id)
                .bind(2, use.plan_id)
                .bind(3, use.valid_from_us)
                .bind(4, now_us)
                .bind(5, std::string_view(actor))
                .run());
    return transaction.commit();
}

Result<std::vector<PlanUse>> list_plan_uses(Database& database) {
    Statement select = CTN_TRY(
        database.prepare("SELECT account_id,plan_id,valid_from FROM plan_use ORDER BY use_id"));
    std::vector<PlanUse> uses;
    while (CTN_TRY(select.step())) {
        uses.push_back({select.integer(0), select.integer(1), select.integer(2)});
    }
    return uses;
}

Result<PlanRevision>
find_plan(Database& database, const std::string& plan, const std::optional<int64_t>& revision) {
    // No name is a number.
    const auto number = config::parse_unsigned(plan, std::numeric_limits<int64_t>::max());
    const std::string sql = select_plans("WHERE (plan_id=?1 OR name=?2) AND (?3 IS NULL OR rev=?3) "
                                         "ORDER BY rev DESC LIMIT 1");
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    select.bind(1, static_cast<int64_t>(number.value_or(0)))
        .bind(2, std::string_view(plan))
        .bind(3, revision);
    if (!CTN_TRY(select.step())) {
        return Error{Errc::NotFound, "no such price plan or revision", 0};
    }
    return revision_of(select);
}

}  // namespace continuo::snapt::store
