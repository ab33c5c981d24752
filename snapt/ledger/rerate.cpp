#include "snapt/ledger/charge_rows.hpp"

namespace continuo::snapt::ledger {
namespace {

using base::Result;
using store::Database;
using store::EntryWriter;
using store::Statement;

int64_t first_quarter_from(int64_t at_us) {
    return at_us / kQuarterUs + (at_us % kQuarterUs > 0 ? 1 : 0);
}

// Charges in the span, from `after` on.
Result<std::vector<Charge>>
charges_in(Database& database, const RerateSpan& span, int64_t after, size_t limit) {
    const std::string of_span = "WHERE c.charge_id>?1 AND quarter>=?2 AND quarter<?3 AND " +
                                std::string(kIsCurrent) +
                                (span.user ? " AND account_id IN (SELECT account_id FROM account "
                                             "WHERE user_id=?5)"
                                           : "") +
                                " ORDER BY charge_id LIMIT ?4";
    const std::string sql = select_charges(of_span, span.user ? "charge_account" : "");
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    select.bind(1, after)
        .bind(2, first_quarter_from(span.from_us))
        .bind(3, first_quarter_from(span.to_us))
        .bind(4, static_cast<int64_t>(limit));
    if (span.user) {
        select.bind(5, span.user);
    }
    std::vector<Charge> charges;
    while (CTN_TRY(select.step())) {
        charges.push_back(charge_of(select));
    }
    return charges;
}

struct Replacement {
    Charge charge;
    int64_t former_net_ud = 0;
};

// The charge that replaces `former`; nothing when its plan is the same, or its records are gone.
Result<std::optional<Replacement>> replacement_of(Database& database,
                                                  store::PlanBook& plans,
                                                  ChargeSummer& summer,
                                                  const RerateSpan& span,
                                                  const Charge& former,
                                                  Rerated& rerated) {
    const store::PlanTerms terms =
        span.terms ? *span.terms : plans.in_force(former.account_id, former.from_us());
    if (terms == former.terms) {
        return std::optional<Replacement>();
    }
    const auto plan = CTN_TRY(plans.plan(database, terms));
    Replacement replacement{former, former.sums.net_ud()};
    Charge& charge = replacement.charge;
    charge.terms = terms;
    charge.sums = CTN_TRY(summer.sums(former, plan.get()));
    if (charge.sums.records != former.sums.records) {
        ++rerated.gone;
        return std::optional<Replacement>();
    }
    charge.replaces = former.charge_id;
    charge.entry_id.reset();
    charge.discount_id.reset();
    charge.fault.clear();
    return std::optional(std::move(replacement));
}

Result<std::string> user_of(Database& database, int64_t account_id) {
    Statement select = CTN_TRY(database.prepare("SELECT user_id FROM account WHERE account_id=?"));
    return CTN_TRY(select.bind(1, account_id).step()) ? select.text(0) : std::string();
}

Result<bool> is_replaced(Database& database, int64_t charge_id) {
    Statement select = CTN_TRY(database.prepare("SELECT 1 FROM charge WHERE replaces=?"));
    return select.bind(1, charge_id).step();
}

Result<void> write_replacement(Database& database,
                               Replacement& replacement,
                               store::MoneyEntry entry,
                               EntryWriter& writer,
                               Rerated& rerated) {
    Charge& charge = replacement.charge;
    if (CTN_TRY(is_replaced(database, *charge.replaces))) {
        return {};  // another command has replaced it meanwhile
    }
    entry.account_id = charge.account_id;
    entry.user_id = CTN_TRY(user_of(database, charge.account_id));
    entry.amount_ud = replacement.former_net_ud - charge.sums.net_ud();
    entry.ref = std::string(kRerateRef) + std::to_string(*charge.replaces) + "/" +
                std::to_string(charge.terms.plan_id) + "." + std::to_string(charge.terms.revision);
    if (entry.amount_ud != 0) {
        charge.entry_id = CTN_TRY(writer.add(entry));
    }
    ++rerated.charges;
    rerated.net_ud -= entry.amount_ud;
    return insert_charge(database, charge);
}

}  // namespace

Result<Rerated> rerate(Database& database,
                       store::PlanBook& plans,
                       const RerateSpan& span,
                       int64_t now_us,
                       const std::string& actor,
                       int64_t after,
                       size_t limit) {
    static_cast<void>(CTN_TRY(plans.refresh(database)));
    const std::vector<Charge> charges = CTN_TRY(charges_in(database, span, after, limit));
    Rerated rerated;
    ChargeSummer summer(database, plans);
    std::vector<Replacement> replacements;
    for (const Charge& charge : charges) {
        auto replacement = CTN_TRY(replacement_of(database, plans, summer, span, charge, rerated));
        if (replacement) {
            replacements.push_back(std::move(*replacement));
        }
    }
    rerated.next = charges.size() < limit ? 0 : charges.back().charge_id;
    if (replacements.empty()) {
        return rerated;
    }
    store::MoneyEntry entry;
    entry.kind = store::EntryKind::Adjust;
    entry.at_us = now_us;
    entry.actor = actor;
    entry.note = "rated again";
    store::Transaction transaction = CTN_TRY(store::Transaction::begin(database));
    EntryWriter writer = CTN_TRY(EntryWriter::begin(database));
    for (Replacement& replacement : replacements) {
        CTN_TRY(write_replacement(database, replacement, entry, writer, rerated));
    }
    CTN_TRY(transaction.commit());
    return rerated;
}

}  // namespace continuo::snapt::ledger
