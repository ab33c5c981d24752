#include "snapt/accounting/usage_booker.hpp"

#include "snapt/ledger/charge_rows.hpp"
#include "snapt/store/bounded_sum.hpp"

#include <algorithm>

namespace continuo::snapt::accounting {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using ledger::ChargedRecord;
using store::bounded_sum;
using store::EntryKind;
using store::EntryWriter;
using store::Statement;

constexpr const char* kBooker = "snapt";

// The first SNAPT by name after `after` that has records.
Result<std::optional<std::string>> next_snapt(store::Database& database, const std::string& after) {
    Statement select =
        CTN_TRY(database.prepare("SELECT min(snapt_id) FROM usage_record WHERE snapt_id>?"));
    select.bind(1, std::string_view(after));
    return CTN_TRY(select.step()) ? select.optional_text(0) : std::nullopt;
}

// Records of an earlier one are complete.
Result<int64_t> present_epoch(store::Database& database) {
    Statement select = CTN_TRY(database.prepare("SELECT v FROM state WHERE k='epoch'"));
    return CTN_TRY(select.step()) ? select.integer(0) : 0;
}

std::string reason_of(const Error& error) {
    return std::string(error.where);
}

// True for faults of one account or plan, which leave the others bookable.
bool is_of_one(const Error& error) {
    return error.code == Errc::LimitReached || error.code == Errc::Malformed ||
           error.code == Errc::NotFound;
}

}  // namespace

Result<UsageBooker::Cursor> UsageBooker::stored_cursor(const std::string& snapt_id) {
    Statement select = CTN_TRY(database_.prepare(
        "SELECT epoch,seq,until_seq,account_id,quarter FROM booked WHERE snapt_id=?"));
    select.bind(1, std::string_view(snapt_id));
    Cursor cursor;
    if (CTN_TRY(select.step())) {
        cursor.epoch = select.integer(0);
        cursor.seq = select.integer(1);
        if (!select.is_null(2)) {
            cursor.until_seq = select.integer(2);
        }
        cursor.done = {select.integer(3), select.integer(4)};
    }
    return cursor;
}

Result<void> UsageBooker::store_cursor(const std::string& snapt_id, const Cursor& cursor) {
    Statement upsert = CTN_TRY(database_.prepare(
        "INSERT INTO booked(snapt_id,epoch,seq,until_seq,account_id,quarter) "
        "VALUES(?1,?2,?3,?4,?5,?6) "
        "ON CONFLICT DO UPDATE SET epoch=?2,seq=?3,until_seq=?4,account_id=?5,quarter=?6"));
    return upsert.bind(1, std::string_view(snapt_id))
        .bind(2, cursor.epoch)
        .bind(3, cursor.seq)
        .bind(4, cursor.until_seq)
        .bind(5, cursor.done.first)
        .bind(6, cursor.done.second)
        .run();
}

// Position of the next records, and whether one may still be missing.
Result<bool> UsageBooker::begin_batch() {
    while (true) {
        const auto snapt_id = CTN_TRY(next_snapt(database_, after_));
        if (!snapt_id) {
            return false;
        }
        const Cursor cursor = CTN_TRY(stored_cursor(*snapt_id));
        Statement select =
            CTN_TRY(database_.prepare("SELECT epoch,seq FROM usage_record WHERE snapt_id=?1 AND "
                                      "(epoch,seq)>(?2,?3) ORDER BY epoch,seq LIMIT 1"));
        select.bind(1, std::string_view(*snapt_id)).bind(2, cursor.epoch).bind(3, cursor.seq);
        if (!CTN_TRY(select.step())) {
            after_ = *snapt_id;
            continue;
        }
        Batch batch;
        batch.snapt_id = *snapt_id;
        batch.begin = cursor;
        batch.epoch = select.integer(0);
        batch.first_seq = select.integer(1);
        batch.read_seq = batch.first_seq - 1;
        batch.is_complete =
            cursor.until_seq.has_value() || batch.epoch < CTN_TRY(present_epoch(database_));
        batch_ = std::move(batch);
        is_read_ = false;
        return true;
    }
}

Result<void> UsageBooker::add_to_batch(const ChargedRecord& record) {
    batch_->last_seq = record.seq;
    ++batch_->records;
    if (record.account_id == store::kNoAccount) {
        return {};  // the session was never opened: no account
    }
    Bill& bill = batch_->bills[{record.account_id, record.quarter()}];
    bill.user = record.user;
    bill.last_us = std::max(bill.last_us, record.end_us - 1);
    ledger::Charge& charge = bill.by_class[record.cls];
    if (charge.sums.records == 0) {
        charge.account_id = record.account_id;
        charge.quarter = record.quarter();
        charge.cls = record.cls;
        charge.terms = plans_.in_force(record.account_id, charge.from_us());
    }
    std::shared_ptr<const rating::Plan> plan;
    if (bill.fault.empty()) {
        const auto found = plans_.plan(database_, charge.terms);
        if (!found && !is_of_one(found.error())) {
            return found.error();
        }
        bill.fault = found ? "" : reason_of(found.error());
        plan = found ? *found : nullptr;
    }
    ledger::add_record(charge.sums, record, plan.get(),
                       plans_.multiplier(batch_->snapt_id, batch_->epoch));
    if (charge.sums.gross_ud > store::kMaxBalanceUd) {
        bill.fault = "no balance goes beyond 10^12 denarii";
    }
    return {};
}

// Returns false if the batch ends before the record.
Result<bool> UsageBooker::take(ChargedRecord record, int64_t now_us, int64_t until_us) {
    // An end in the future comes from a wrong clock: nothing waits for it.
    const bool waits = !batch_->is_complete && record.end_us > until_us &&
                       record.end_us <= now_us + ledger::kQuarterUs;
    if (waits) {
        batch_->behind.push_back(std::move(record));
        return batch_->behind.size() < limits_.behind;
    }
    if (batch_->bills.size() >= limits_.most_bills && !batch_->begin.until_seq) {
        return false;
    }
    for (const ChargedRecord& earlier : std::exchange(batch_->behind, {})) {
        CTN_TRY(add_to_batch(earlier));
    }
    CTN_TRY(add_to_batch(record));
    return true;
}

Result<void> UsageBooker::read_page(int64_t now_us, int64_t until_us) {
    Batch& batch = *batch_;
    const std::string sql = ledger::select_charged(
        "WHERE snapt_id=?1 AND epoch=?2 AND seq>?3 AND seq<=?4 ORDER BY seq LIMIT ?5");
    Statement select = CTN_TRY(database_.prepare(sql.c_str()));
    select.bind(1, std::string_view(batch.snapt_id))
        .bind(2, batch.epoch)
        .bind(3, batch.read_seq)
        .bind(4, batch.begin.until_seq.value_or(std::numeric_limits<int64_t>::max()))
        .bind(5, static_cast<int64_t>(limits_.page));
    size_t count = 0;
    while (CTN_TRY(select.step())) {
        ++count;
        ChargedRecord record = ledger::charged_record(select);
        batch.read_seq = record.seq;
        if (!CTN_TRY(take(std::move(record), now_us, until_us))) {
            is_read_ = true;
            return {};
        }
    }
    is_read_ = count < limits_.page;
    return {};
}

Result<void>
UsageBooker::write_bill(Bill& bill, int64_t now_us, EntryWriter& writer, Booked& booked) {
    const ledger::Charge& any = bill.by_class.begin()->second;
    int64_t gross_ud = 0;
    int64_t discount_ud = 0;
    for (const auto& [cls, charge] : bill.by_class) {
        gross_ud = bounded_sum(gross_ud, charge.sums.gross_ud);
        discount_ud = bounded_sum(discount_ud, charge.sums.discount_ud);
    }
    const std::string place =
        batch_->snapt_id + "/" + std::to_string(batch_->epoch) + "/" +
        std::to_string(batch_->first_seq) + "-" + std::to_string(batch_->last_seq) + "/" +
        std::to_string(any.account_id) + "/" + std::to_string(any.from_us() / store::kUsPerSecond);
    store::MoneyEntry entry;
    entry.account_id = any.account_id;
    entry.user_id = bill.user;
    entry.actor = kBooker;
    std::optional<int64_t> entry_id;
    std::optional<int64_t> discount_id;
    const bool is_late = bill.last_us < now_us - ledger::kCloseAfterUs;
    entry.kind = is_late ? EntryKind::Adjust : EntryKind::Usage;
    entry.at_us = is_late ? now_us : bill.last_us;
    entry.amount_ud = is_late ? discount_ud - gross_ud : -gross_ud;
    entry.ref = std::string(ledger::kUsageRef) + place;
    entry.note = is_late ? "usage of a time that was closed" : "";
    if (bill.fault.empty() && entry.amount_ud != 0) {
        const auto added = writer.add(entry);
        if (!added && !is_of_one(added.error())) {
            return added.error();
        }
        bill.fault = added ? "" : reason_of(added.error());
        entry_id = added ? std::optional(*added) : std::nullopt;
    }
    if (bill.fault.empty() && !is_late && discount_ud != 0) {
        entry.kind = EntryKind::Discount;
        entry.amount_ud = discount_ud;
        entry.ref = std::string(ledger::kDiscountRef) + place;
        discount_id = CTN_TRY(writer.add(entry));
    }
    for (auto& [cls, charge] : bill.by_class) {
        charge.snapt_id = batch_->snapt_id;
        charge.epoch = batch_->epoch;
        charge.first_seq = batch_->first_seq;
        charge.last_seq = batch_->last_seq;
        charge.entry_id = entry_id;
        charge.discount_id = discount_id;
        if (!bill.fault.empty()) {
            charge.fault = bill.user + ": " + bill.fault;
            charge.terms = {};
            charge.sums.gross_ud = 0;
            charge.sums.discount_ud = 0;
            ++booked.faults;
        }
        booked.gross_ud = bounded_sum(booked.gross_ud, charge.sums.gross_ud);
        CTN_TRY(ledger::insert_charge(database_, charge));
    }
    booked.entries += size_t{entry_id ? 1U : 0U} + size_t{discount_id ? 1U : 0U};
    return {};
}

// Starts anew if another process has booked, or plans were set, since the records were read.
Result<Booked> UsageBooker::write_some(int64_t now_us) {
    Batch& batch = *batch_;
    Booked booked;
    booked.has_more = true;
    store::Transaction transaction = CTN_TRY(store::Transaction::begin(database_));
    const bool has_changed = CTN_TRY(plans_.refresh(database_));
    if (has_changed || CTN_TRY(stored_cursor(batch.snapt_id)) != batch.begin) {
        batch_.reset();
        return booked;
    }
    EntryWriter writer = CTN_TRY(EntryWriter::begin(database_));
    auto bill =
        batch.begin.until_seq ? batch.bills.upper_bound(batch.begin.done) : batch.bills.begin();
    Cursor cursor{batch.epoch, batch.first_seq - 1, batch.last_seq, batch.begin.done};
    for (size_t count = 0; bill != batch.bills.end() && count < limits_.bills; ++count, ++bill) {
        CTN_TRY(write_bill(bill->second, now_us, writer, booked));
        cursor.done = bill->first;
    }
    const bool is_done = bill == batch.bills.end();
    if (is_done) {
        cursor = {batch.epoch, batch.last_seq, std::nullopt, {store::kNoAccount, 0}};
    }
    CTN_TRY(store_cursor(batch.snapt_id, cursor));
    CTN_TRY(transaction.commit());
    booked.has_written = true;
    booked.records = is_done ? batch.records : 0;
    batch.begin = cursor;
    if (is_done) {
        batch_.reset();
    }
    return booked;
}

Result<Booked> UsageBooker::step(int64_t now_us, int64_t until_us) {
    Booked booked;
    if (!batch_) {
        static_cast<void>(CTN_TRY(plans_.refresh(database_)));
        if (plans_.is_empty() || !CTN_TRY(begin_batch())) {
            after_.clear();
            return booked;
        }
    }
    if (now_us < kEarliestUs) {
        return Error{Errc::InvalidState, "the clock of this host is wrong: it is before 2026", 0};
    }
    booked.has_more = true;
    if (!is_read_) {
        const auto read = read_page(now_us, until_us);
        if (!read) {
            batch_.reset();
            return read.error();
        }
        if (is_read_ && batch_->records == 0) {
            after_ = batch_->snapt_id;  // all later ones wait
            batch_.reset();
        }
        return booked;
    }
    auto written = write_some(now_us);
    if (!written) {
        batch_.reset();
    }
    return written;
}

}  // namespace continuo::snapt::accounting
