#include "snapt/accounting/verify.hpp"

#include "snapt/accounting/charged_once.hpp"
#include "snapt/accounting/sums_check.hpp"
#include "snapt/ledger/charges.hpp"
#include "snapt/ledger/record_store.hpp"
#include "snapt/store/plan_store.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace continuo::snapt::accounting {
namespace {

using base::Error;
using base::Result;
using flow::UsageRecord;
using store::Database;
using store::MoneyEntry;

// Old records are removed by their end, and those of an interval end in another order than they are
// numbered: a gap among the oldest is no fault.
constexpr int64_t kPrunedEdgeUs = 3'600'000'000;

std::string key_text(const UsageRecord& record) {
    return record.snapt_id + "/" + std::to_string(record.epoch) + "/" + std::to_string(record.seq);
}

struct Place {
    std::string snapt_id;
    int64_t epoch = 0;
    int64_t seq = 0;
    int64_t t_end = 0;
};

// Numbers missing before `record`, which follows `before` in its epoch.
bool is_behind_hole(const UsageRecord& record,
                    const std::optional<Place>& before,
                    int64_t pruned_until_us) {
    const bool is_same_epoch =
        before && before->snapt_id == record.snapt_id && before->epoch == record.epoch;
    if (!is_same_epoch) {
        return record.seq != 0 && record.t_end > pruned_until_us;
    }
    return record.seq != before->seq + 1 && before->t_end > pruned_until_us;
}

Result<int64_t> oldest_end(Database& database) {
    store::Statement select =
        CTN_TRY(database.prepare("SELECT coalesce(min(t_end),0) FROM usage_record"));
    if (!CTN_TRY(select.step())) {
        return Error{base::Errc::Malformed, "ledger.db is damaged", 0};
    }
    return select.integer(0);
}

// The records of the current or last run go up to the next number; other runs may have ended
// anywhere.
Result<bool> is_cut_short(Database& database) {
    store::Statement select = CTN_TRY(database.prepare(
        "SELECT max(seq),(SELECT v FROM state WHERE k='next_seq') FROM usage_record "
        "WHERE epoch=(SELECT v FROM state WHERE k='epoch')"));
    return CTN_TRY(select.step()) && !select.is_null(0) &&
           select.integer(0) + 1 != select.integer(1);
}

Result<void> verify_records(Database& database, SumsCheck& sums, std::vector<LedgerCheck>& checks) {
    const int64_t pruned_until_us = CTN_TRY(oldest_end(database)) + kPrunedEdgeUs;
    uint64_t records = 0;
    Faults digests;
    Faults holes;
    std::optional<Place> before;
    CTN_TRY(ledger::visit_records(database, [&](const UsageRecord& record, bool is_genuine) {
        ++records;
        sums.add(record);
        if (!is_genuine) {
            digests.add(key_text(record));
        }
        if (is_behind_hole(record, before, pruned_until_us)) {
            holes.add("before " + key_text(record));
        }
        before = Place{record.snapt_id, record.epoch, record.seq, record.t_end};
    }));
    if (CTN_TRY(is_cut_short(database))) {
        holes.add("after the last record");
    }
    checks.push_back({"records", !digests.has_any(),
                      digests.text("differ from their digests",
                                   std::to_string(records) + " as they were written")});
    checks.push_back({"sequence", !holes.has_any(), holes.text("holes", "no hole")});
    return {};
}

Result<void> verify_plans(Database& database, std::vector<LedgerCheck>& checks) {
    const auto plans = store::list_plans(database);
    if (!plans && plans.error().code != base::Errc::Malformed) {
        return plans.error();
    }
    checks.push_back({"plans", plans.has_value(),
                      plans ? std::to_string(plans->size()) + " revisions as they were added"
                            : std::string(plans.error().where)});
    return {};
}

// BalanceSums by account; none exceeds the bounds of a balance unless somebody changed the file.
using BalanceSums = std::map<int64_t, int64_t>;

// False when the sum exceeds the bounds; it then stays at the bound.
bool add_to(BalanceSums& sums, const MoneyEntry& entry) {
    int64_t& sum = sums[entry.account_id];
    int64_t next = 0;
    const bool is_good = !__builtin_add_overflow(sum, entry.amount_ud, &next) &&
                         next <= store::kMaxBalanceUd && next >= -store::kMaxBalanceUd;
    sum = is_good ? next : sum;
    return is_good;
}

Result<void> verify_balances(Database& database, const BalanceSums& sums, Faults& faults) {
    BalanceSums of_nobody = sums;
    for (const store::Balance& balance : CTN_TRY(store::balances(database))) {
        const auto own = sums.find(balance.account.id);
        if (balance.balance_ud != (own == sums.end() ? 0 : own->second)) {
            faults.add("of " + balance.account.user);
        }
        of_nobody.erase(balance.account.id);
    }
    for (const auto& [account_id, sum_ud] : of_nobody) {
        faults.add("of account " + std::to_string(account_id) + ", which there is not");
    }
    return {};
}

Result<void> verify_money(Database& database, std::vector<LedgerCheck>& checks) {
    Faults entries;
    Faults wrong;
    int64_t count = 0;
    BalanceSums sums;
    CTN_TRY(store::visit_entries(database, [&](const MoneyEntry& entry, bool is_genuine) {
        ++count;
        if (!is_genuine || entry.entry_id != count) {
            entries.add("entry " + std::to_string(entry.entry_id));
            count = entry.entry_id;
        }
        if (!add_to(sums, entry)) {
            wrong.add("of " + entry.user_id + " with entry " + std::to_string(entry.entry_id));
        }
    }));
    if (!wrong.has_any()) {
        CTN_TRY(verify_balances(database, sums, wrong));
    }
    checks.push_back({"entries", !entries.has_any(),
                      entries.text("were changed, or follow others that are missing",
                                   std::to_string(count) + " as they were booked")});
    checks.push_back(
        {"balances", !wrong.has_any(),
         wrong.text("are not the sum of entries, or beyond the bounds",
                    std::to_string(sums.size()) + " accounts, each the sum of entries")});
    return {};
}

void add_due(std::map<int64_t, int64_t>& due, const std::optional<int64_t>& entry_id, int64_t ud) {
    if (entry_id) {
        due[*entry_id] += ud;
    }
}

// Recomputes charges from their records, where all of them exist.
Result<void> verify_charges(Database& database, std::vector<LedgerCheck>& checks) {
    store::PlanBook plans;
    static_cast<void>(CTN_TRY(plans.refresh(database)));
    ledger::ChargeSummer summer(database, plans);
    Faults faults;
    uint64_t count = 0;
    std::map<int64_t, int64_t> due;  // by entry
    std::map<int64_t, int64_t> net;  // by charge that may have been replaced
    const auto look = [&](const ledger::Charge& charge) -> Result<void> {
        ++count;
        const std::string where = "charge " + std::to_string(charge.charge_id);
        const auto plan = plans.plan(database, charge.terms);
        const ledger::ChargeSums sums =
            plan ? CTN_TRY(summer.sums(charge, plan->get())) : ledger::ChargeSums{};
        if (!plan || sums.records > charge.sums.records ||
            (sums.records == charge.sums.records && sums != charge.sums)) {
            faults.add(where);
        }
        int64_t before_ud = 0;
        if (charge.replaces) {
            const auto former = net.find(*charge.replaces);
            before_ud = former == net.end() ? 0 : former->second;
        }
        net[charge.charge_id] = charge.sums.net_ud();
        const bool is_split = charge.discount_id.has_value();
        add_due(due, charge.discount_id, charge.sums.discount_ud);
        add_due(due, charge.entry_id,
                is_split ? -charge.sums.gross_ud : before_ud - charge.sums.net_ud());
        return {};
    };
    CTN_TRY(ledger::visit_charges(database, true, look));
    CTN_TRY(store::visit_entries(database, [&](const MoneyEntry& entry, bool) {
        const auto wanted = due.find(entry.entry_id);
        const bool is_usage =
            entry.kind == store::EntryKind::Usage || entry.kind == store::EntryKind::Discount;
        const bool is_ours = wanted != due.end();
        if ((is_usage && !is_ours) || (is_ours && wanted->second != entry.amount_ud)) {
            faults.add("entry " + std::to_string(entry.entry_id));
        }
        due.erase(entry.entry_id);
    }));
    for (const auto& [entry_id, amount_ud] : due) {
        faults.add("entry " + std::to_string(entry_id) + ", which there is not");
    }
    CTN_TRY(verify_charged_once(database, faults));
    checks.push_back(
        {"charges", !faults.has_any(),
         faults.text("differ from the price of their records, or are not booked exactly once",
                     std::to_string(count) + " as their records make them")});
    return {};
}

// `sums` has the records.
Result<void> verify_sums(Database& database, SumsCheck& sums, std::vector<LedgerCheck>& checks) {
    CTN_TRY(sums.add_charges(database));
    CTN_TRY(sums.take_sums(database));
    Faults faults;
    for (const std::string& day : sums.wrong_days()) {
        faults.add(day);
    }
    checks.push_back({"sums", !faults.has_any(),
                      faults.text("days have sums that their records and charges do not make",
                                  std::to_string(sums.days()) +
                                      " days, as their records and charges make them")});
    return {};
}

}  // namespace

Result<std::vector<LedgerCheck>> verify_ledger(Database& database) {
    store::ReadMoment moment(database);
    CTN_TRY(moment.begin());
    std::vector<LedgerCheck> checks;
    SumsCheck sums;
    CTN_TRY(verify_records(database, sums, checks));
    CTN_TRY(verify_plans(database, checks));
    CTN_TRY(verify_money(database, checks));
    CTN_TRY(verify_charges(database, checks));
    CTN_TRY(verify_sums(database, sums, checks));
    return checks;
}

}  // namespace continuo::snapt::accounting
