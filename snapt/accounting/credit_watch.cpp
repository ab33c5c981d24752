#include "snapt/accounting/credit_watch.hpp"

#include "snapt/ledger/charge_rows.hpp"
#include "snapt/store/bounded_sum.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace continuo::snapt::accounting {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using store::bounded_sum;
using store::Database;
using store::EntryKind;
using store::ReadMoment;
using store::Statement;

// Records end in their order, but for a clock that was set meanwhile: further back nobody looks.
constexpr int64_t kDisorderUs = 3'600'000'000;

Result<int64_t> integer_of(Database& database, const char* sql) {
    Statement select = CTN_TRY(database.prepare(sql));
    if (!CTN_TRY(select.step())) {
        return Error{Errc::Malformed, "ledger.db is damaged", 0};
    }
    return select.integer(0);
}

Result<int64_t> last_charge(Database& database) {
    return integer_of(database, "SELECT coalesce(max(charge_id),0) FROM charge");
}

// The end of the earliest record that is not booked, of any account.
Result<std::optional<int64_t>> first_unbooked_end_us(Database& database) {
    Statement snapts = CTN_TRY(database.prepare(
        "WITH RECURSIVE s(id) AS (SELECT min(snapt_id) FROM usage_record UNION ALL "
        "SELECT (SELECT min(snapt_id) FROM usage_record WHERE snapt_id>id) FROM s "
        "WHERE id IS NOT NULL) SELECT id FROM s WHERE id IS NOT NULL"));
    Statement select = CTN_TRY(database.prepare(
        "SELECT t_end FROM usage_record WHERE snapt_id=?1 AND (epoch,seq)>("
        "coalesce((SELECT epoch FROM booked WHERE snapt_id=?1),-1),"
        "coalesce((SELECT seq FROM booked WHERE snapt_id=?1),-1)) ORDER BY epoch,seq LIMIT 1"));
    std::optional<int64_t> first_us;
    while (CTN_TRY(snapts.step())) {
        const std::string snapt_id = snapts.text(0);
        if (CTN_TRY(select.bind(1, std::string_view(snapt_id)).step())) {
            first_us = std::min(first_us.value_or(select.integer(0)), select.integer(0));
            CTN_TRY(select.run());
        }
    }
    return first_us;
}

// True for records of no charge: beyond the position up to which all are booked, and not of those
// accounts and quarters that are booked beyond it.
constexpr std::string_view kIsUnbooked =
    "NOT EXISTS(SELECT 1 FROM booked b WHERE b.snapt_id=usage_record.snapt_id AND "
    "((usage_record.epoch,usage_record.seq)<=(b.epoch,b.seq) OR (usage_record.epoch=b.epoch AND "
    "usage_record.seq<=b.until_seq AND (usage_record.account_id,(t_end-1)/900000000)<="
    "(b.account_id,b.quarter))))";
static_assert(ledger::kQuarterUs == 900'000'000);

// Corrections of usage are none.
bool is_payment(std::string_view kind, int64_t amount_ud, std::string_view ref) {
    return amount_ud > 0 && !ledger::is_reserved_ref(ref) &&
           (kind == to_string(EntryKind::Topup) || kind == to_string(EntryKind::Adjust) ||
            kind == to_string(EntryKind::Refund));
}

constexpr const char* kSelectMoney =
    "SELECT a.credit_limit_ud,coalesce(b.balance_ud,0),coalesce(b.entries,0) FROM account a "
    "LEFT JOIN balance b USING(account_id) WHERE a.account_id=?";

}  // namespace

Result<int64_t> CreditWatch::cost_of(const ledger::ChargedRecord& record,
                                     const std::string& snapt_id) {
    const store::PlanTerms terms =
        plans_.in_force(record.account_id, record.quarter() * ledger::kQuarterUs);
    const auto plan = plans_.plan(database_, terms);
    if (!plan && plan.error().code != Errc::Malformed && plan.error().code != Errc::NotFound) {
        return plan.error();
    }
    ledger::ChargeSums sums;  // a plan that cannot be read charges nothing, as when it is booked
    ledger::add_record(sums, record, plan ? plan->get() : nullptr,
                       plans_.multiplier(snapt_id, record.epoch));
    return sums.net_ud();
}

Result<int64_t> CreditWatch::cost_of(const flow::UsageRecord& record) {
    return cost_of(ledger::charged_record(record), record.snapt_id);
}

Result<void> CreditWatch::add(const std::shared_ptr<UserMeter>& meter) {
    // First: what was written so far is in the database, and is not added to what is read there.
    if (const auto taken = take_records(); !taken) {
        recount_all();
        return taken.error();
    }
    const store::Account& account = meter->account();
    const auto known = accounts_.find(account.id);
    if (known != accounts_.end()) {
        meter->set_credit(grant_from(known->second, meter->counted()));
        known->second.meters.push_back({meter, meter->counted()});
        return {};
    }
    ReadMoment moment(database_);
    CTN_TRY(moment.begin());
    if (CTN_TRY(plans_.refresh(database_))) {
        recount_all();
    }
    Watched watched;
    watched.user = account.user;
    Statement select = CTN_TRY(database_.prepare(kSelectMoney));
    CTN_TRY(read_money(select, account.id, watched));
    if (watched.limit_ud) {
        CTN_TRY(recount(account.id, watched));
        watched.is_out = watched.left_ud() <= 0;
    }
    if (!last_charge_) {
        last_charge_ = CTN_TRY(last_charge(database_));
    }
    meter->set_credit(grant_from(watched, meter->counted()));
    watched.meters.push_back({meter, meter->counted()});
    if (watched.limit_ud) {
        ledger_.watch_also(account.id);
    }
    accounts_.emplace(account.id, std::move(watched));
    return {};
}

void CreditWatch::recount_all() {
    for (auto& [account_id, watched] : accounts_) {
        watched.must_recount = true;
    }
    seen_version_.reset();
}

bool CreditWatch::drop_gone() {
    bool has_dropped = false;
    for (auto entry = accounts_.begin(); entry != accounts_.end();) {
        auto& meters = entry->second.meters;
        std::erase_if(meters, [](const Meter& one) { return one.meter.expired(); });
        has_dropped = has_dropped || meters.empty();
        entry = meters.empty() ? accounts_.erase(entry) : std::next(entry);
    }
    return has_dropped;
}

// Adds up the cost of the account's records that are not booked.
Result<void> CreditWatch::recount(int64_t account_id, Watched& watched) {
    watched.seen_charge = CTN_TRY(last_charge(database_));
    watched.unbooked_ud = 0;
    watched.fresh_ud = 0;
    watched.fresh_bytes = 0;
    watched.must_recount = false;
    // Usage that ended before the first plan was in use costs nothing: it may be a whole history.
    const auto use_us = plans_.first_use_us(account_id);
    const auto first_us = use_us ? CTN_TRY(first_unbooked_end_us(database_)) : std::nullopt;
    if (!first_us) {
        return {};
    }
    const std::string sql = ledger::select_charged(
        "WHERE user_id=?1 AND account_id=?2 AND t_end>=?3 AND " + std::string(kIsUnbooked),
        "usage_account_time");
    Statement select = CTN_TRY(database_.prepare(sql.c_str()));
    select.bind(1, std::string_view(watched.user))
        .bind(2, account_id)
        .bind(3, std::max(*first_us - kDisorderUs, *use_us + 1));
    while (CTN_TRY(select.step())) {
        const ledger::ChargedRecord record = ledger::charged_record(select);
        const int64_t cost_ud = CTN_TRY(cost_of(record, ledger::charged_snapt(select)));
        watched.take_fresh(cost_ud, record.bytes.pay_up + record.bytes.pay_down);
    }
    watched.note_price();
    return {};
}

// Records that were written since, by this thread.
Result<void> CreditWatch::take_records() {
    for (const flow::UsageRecord& record : ledger_.take_watched_records()) {
        const auto watched = accounts_.find(record.account_id);
        if (watched != accounts_.end()) {
            const int64_t cost_ud = CTN_TRY(cost_of(record));
            watched->second.take_fresh(cost_ud, record.pay_up + record.pay_down);
        }
    }
    return {};
}

Result<void> CreditWatch::take_charges() {
    Statement select = CTN_TRY(database_.prepare(
        "SELECT charge_id,account_id,gross_ud-discount_ud,fault IS NOT NULL FROM charge "
        "WHERE charge_id>? AND replaces IS NULL ORDER BY charge_id"));
    select.bind(1, last_charge_.value_or(0));
    while (CTN_TRY(select.step())) {
        const auto watched = accounts_.find(select.integer(1));
        if (watched == accounts_.end() || select.integer(0) <= watched->second.seen_charge) {
            continue;
        }
        Watched& charged = watched->second;
        constexpr int64_t kBound = std::numeric_limits<int64_t>::max();
        charged.must_recount =
            charged.must_recount || charged.unbooked_ud == kBound || select.integer(3) != 0;
        charged.unbooked_ud -= select.integer(2);
    }
    last_charge_ = CTN_TRY(last_charge(database_));
    return {};
}

Result<void> CreditWatch::read_money(Statement& select, int64_t account_id, Watched& watched) {
    const auto limit_before_ud = std::exchange(watched.limit_ud, std::nullopt);
    watched.balance_ud = 0;
    watched.entries = 0;
    if (!CTN_TRY(select.bind(1, account_id).step())) {
        return {};
    }
    watched.limit_ud = select.is_null(0) ? std::nullopt : std::optional(select.integer(0));
    watched.is_low = watched.is_low && watched.limit_ud == limit_before_ud;
    watched.balance_ud = select.integer(1);
    watched.entries = select.integer(2);
    return select.run();
}

Result<void> CreditWatch::read_limits() {
    Statement select = CTN_TRY(database_.prepare(kSelectMoney));
    for (auto& [account_id, watched] : accounts_) {
        CTN_TRY(read_money(select, account_id, watched));
        if (!watched.limit_ud) {
            watched.must_recount = true;
        } else if (watched.must_recount) {
            CTN_TRY(recount(account_id, watched));
        }
    }
    return {};
}

// Not at the login, which does not wait for a history: a warning may be late.
Result<void> CreditWatch::find_payments() {
    int64_t left = kMostEntriesALook;
    for (auto& [account_id, watched] : accounts_) {
        if (!watched.limit_ud || watched.seen_entries == watched.entries || left <= 0) {
            continue;
        }
        ReadMoment moment(database_);
        CTN_TRY(moment.begin());
        if (!watched.search) {
            CTN_TRY(begin_search(account_id, watched));
        }
        if (watched.search) {
            left -= CTN_TRY(find_payment(account_id, watched, left));
        }
        left -= kEntriesOfAnAccount;
    }
    return {};
}

// Not where something was booked since the changes were read: the balance does not have it yet.
Result<void> CreditWatch::begin_search(int64_t account_id, Watched& watched) {
    if (CTN_TRY(store::balance_of(database_, account_id)).entries == watched.entries) {
        PaymentSearch search;
        search.entries = watched.entries;
        search.read_from = std::numeric_limits<int64_t>::max();
        search.balance_ud = watched.balance_ud;
        watched.search = search;
    }
    return {};
}

// Goes on back to the entries that were seen before. Returns how many were read.
Result<int64_t> CreditWatch::find_payment(int64_t account_id, Watched& watched, int64_t most) {
    PaymentSearch& search = *watched.search;
    most = std::min(most, kMostEntriesBack - search.count);
    Statement select = CTN_TRY(database_.prepare(
        "SELECT entry_id,kind,amount_ud,ref FROM ledger INDEXED BY ledger_account "
        "WHERE account_id=?1 AND entry_id>?2 AND entry_id<?3 ORDER BY entry_id DESC LIMIT ?4"));
    select.bind(1, account_id).bind(2, watched.seen_entry);
    select.bind(3, search.read_from).bind(4, most);
    int64_t count = 0;
    bool is_found = false;
    while (!is_found && CTN_TRY(select.step())) {
        search.read_from = select.integer(0);
        search.last_entry = std::max(search.last_entry, search.read_from);
        is_found = is_payment(select.text(1), select.integer(2), select.text(3));
        search.balance_ud -= is_found ? 0 : select.integer(2);
        ++search.count;
        ++count;
    }
    const bool is_far = search.count == kMostEntriesBack;
    if (!is_found && !is_far && count == most) {
        return count;  // goes on with the next look
    }
    if (is_found || is_far || !watched.seen_entries) {
        watched.is_low = watched.is_low && watched.paid_ud == search.balance_ud;
        watched.paid_ud = search.balance_ud;
    }
    watched.seen_entry = std::max(watched.seen_entry, search.last_entry);
    watched.seen_entries = search.entries;
    watched.search.reset();
    return count;
}

// One snapshot: a charge and what it takes from the balance are seen together.
Result<void> CreditWatch::read_changes() {
    const int64_t version = CTN_TRY(integer_of(database_, "PRAGMA data_version"));
    if (seen_version_ == version) {
        return {};
    }
    seen_version_.reset();
    ReadMoment moment(database_);
    CTN_TRY(moment.begin());
    if (CTN_TRY(plans_.refresh(database_))) {
        for (auto& [account_id, watched] : accounts_) {
            watched.must_recount = true;
        }
    }
    CTN_TRY(take_charges());
    CTN_TRY(read_limits());
    seen_version_ = version;
    tell_ledger();
    return {};
}

void CreditWatch::tell_ledger() {
    std::set<int64_t> limited;
    for (const auto& [account_id, watched] : accounts_) {
        if (watched.limit_ud) {
            limited.insert(account_id);
        }
    }
    ledger_.watch(std::move(limited));
}

Result<void> CreditWatch::rate_live(int64_t now_us) {
    for (auto& [account_id, watched] : accounts_) {
        watched.live_ud = 0;
        watched.live_bytes = 0;
    }
    return ledger_.visit_unsealed(now_us, [this](const flow::UsageRecord& record) -> Result<void> {
        const auto watched = accounts_.find(record.account_id);
        if (watched != accounts_.end()) {
            Watched& found = watched->second;
            found.live_ud = bounded_sum(found.live_ud, CTN_TRY(cost_of(record)));
            found.live_bytes += record.pay_up + record.pay_down;
        }
        return {};
    });
}

// The price of a flow changes until its record is written; what acts must not be taken back.
Result<void> CreditWatch::seal_exhausted(int64_t now_us) {
    std::set<std::string> exhausted;
    for (const auto& [account_id, watched] : accounts_) {
        if (watched.limit_ud && !watched.is_out && watched.live_ud > 0 && watched.left_ud() <= 0) {
            exhausted.insert(watched.user);
        }
    }
    if (exhausted.empty() || !ledger_.seal_for(exhausted, now_us)) {
        return {};  // a ledger that cannot be written seals later
    }
    CTN_TRY(take_records());
    return rate_live(now_us);
}

int64_t CreditWatch::Watched::left_ud() const {
    return bounded_sum(bounded_sum(balance_ud + *limit_ud, -unbooked_ud), -live_ud);
}

// The whole is what was there after the latest payment, or the credit where nothing was paid. A
// warning stays until clearly more is left, a payment or another credit.
void CreditWatch::Watched::note_low() {
    if (!limit_ud || !seen_entries) {
        is_low = false;
        return;
    }
    const int64_t whole_ud = bounded_sum(paid_ud, *limit_ud);
    const int64_t percent = is_low ? kEndWarningPercent : kWarnPercent;
    is_low = whole_ud > 0 && left_ud() <= whole_ud - whole_ud / 100 * percent;
}

void CreditWatch::Watched::take_fresh(int64_t cost_ud, int64_t bytes) {
    unbooked_ud = bounded_sum(unbooked_ud, cost_ud);
    fresh_ud = bounded_sum(fresh_ud, cost_ud);
    fresh_bytes = bounded_sum(fresh_bytes, bytes);
}

// A charge is rounded: that of a few bytes says nothing.
void CreditWatch::Watched::note_price() {
    const int64_t cost_ud = bounded_sum(fresh_ud, live_ud);
    const int64_t bytes = bounded_sum(fresh_bytes, live_bytes);
    if (bytes > 0 && (cost_ud > 0 || bytes >= kFirstGrantBytes)) {
        ud_of_byte = static_cast<double>(cost_ud) / static_cast<double>(bytes);
    }
    fresh_ud = 0;
    fresh_bytes = 0;
}

// How far the rest goes. Too few are asked for again before anybody is refused, so the latest price
// will do.
uint64_t CreditWatch::granted_bytes(const Watched& watched) const {
    if (!watched.limit_ud || plans_.is_empty()) {
        return CreditGrant::kNoEnd;  // nothing is charged
    }
    if (!watched.ud_of_byte) {
        return uint64_t{kFirstGrantBytes};
    }
    const auto left_ud = static_cast<double>(std::max<int64_t>(watched.left_ud(), 0));
    const double bytes = std::ceil(left_ud / *watched.ud_of_byte);
    return bytes < double{kMostGrantBytes} ? static_cast<uint64_t>(bytes)
                                           : kMostGrantBytes;  // also if it is free
}

CreditGrant CreditWatch::grant_from(const Watched& watched, uint64_t counted) const {
    const uint64_t bytes = granted_bytes(watched);
    CreditGrant grant;
    grant.is_out = watched.is_out;
    grant.is_low = watched.is_low && !watched.is_out;
    if (bytes < CreditGrant::kNoEnd - counted) {
        grant.until_counted = counted + bytes;
    }
    if (watched.entries > 0 || watched.limit_ud) {
        const int64_t unbooked_ud =
            watched.limit_ud ? bounded_sum(watched.unbooked_ud, watched.live_ud) : 0;
        grant.money = AccountMoney{watched.balance_ud, unbooked_ud, watched.limit_ud};
    }
    return grant;
}

// First: what is counted during the look is in neither what is left nor, at the most, the grant.
void CreditWatch::note_counts() {
    for (auto& [account_id, watched] : accounts_) {
        for (Meter& one : watched.meters) {
            if (const auto meter = one.meter.lock()) {
                one.counted = meter->counted();
            }
        }
    }
}

bool CreditWatch::tell() {
    bool has_changed = false;
    for (auto& [account_id, watched] : accounts_) {
        const bool is_out = watched.limit_ud && watched.left_ud() <= 0;
        has_changed = has_changed || is_out != watched.is_out;
        watched.is_out = is_out;
        watched.note_low();
        watched.note_price();
        for (const Meter& held : watched.meters) {
            if (const auto meter = held.meter.lock()) {
                const bool is_renewed = meter->set_credit(grant_from(watched, held.counted));
                has_changed = has_changed || is_renewed;
            }
        }
    }
    return has_changed;
}

Result<bool> CreditWatch::look(int64_t now_us) {
    auto changed = look_once(now_us);
    if (!changed) {
        recount_all();  // records and charges may be taken that were not counted
        tell_ledger();
    }
    return changed;
}

Result<bool> CreditWatch::look_once(int64_t now_us) {
    if (drop_gone()) {
        tell_ledger();
    }
    note_counts();
    CTN_TRY(take_records());
    CTN_TRY(read_changes());
    CTN_TRY(rate_live(now_us));
    CTN_TRY(seal_exhausted(now_us));
    // A warning may be late; what acts may not.
    static_cast<void>(find_payments().has_value());
    return tell();
}

}  // namespace continuo::snapt::accounting
