#include "snapt/accounting/charges.hpp"

#include "common/base/traffic_class.hpp"

#include <algorithm>
#include <limits>

namespace continuo::snapt {
namespace {

using base::Result;

constexpr const char* kBooker = "snapt";

// Columns of a record that its charge is made of, in the order of select_charged().
struct ChargedColumn {
    enum : int {
        User,
        Account,
        Class,
        Epoch,
        Seq,
        End,
        PayUp,
        PayDown,
        Active,
        Delay,
        Pre,
        Post,
        Sharer
    };
};
// The question for them; `rest` says for which, and in what order.
std::string select_charged(std::string_view rest) {
    std::string sql =
        "SELECT user_id,account_id,cls,epoch,seq,t_end,pay_up,pay_down,active_us,delay_us,pre,post,"
        "sharer_id<>'' FROM usage_record ";
    sql += rest;
    return sql;
}

// A record is booked at its last microsecond.
int64_t quarter_of(int64_t t_end) {
    return (t_end - 1) / kQuarterUs;
}

rating::Usage charged_usage(const Statement& record) {
    rating::Usage usage;
    usage.traffic_class = static_cast<base::TrafficClass>(record.integer(ChargedColumn::Class));
    usage.payload_bytes = static_cast<uint64_t>(record.integer(ChargedColumn::PayUp)) +
                          static_cast<uint64_t>(record.integer(ChargedColumn::PayDown));
    usage.active_us = record.integer(ChargedColumn::Active);
    if (!record.is_null(ChargedColumn::Delay)) {
        usage.delay_us = record.integer(ChargedColumn::Delay);
    }
    usage.pre_bytes = std::max<int64_t>(record.integer(ChargedColumn::Pre), 0);
    usage.post_bytes = std::max<int64_t>(record.integer(ChargedColumn::Post), 0);
    usage.has_sharer = record.integer(ChargedColumn::Sharer) != 0;
    return usage;
}

ChargeSums bytes_of(const Statement& record) {
    ChargeSums sums;
    sums.records = 1;
    sums.pay_up = record.integer(ChargedColumn::PayUp);
    sums.pay_down = record.integer(ChargedColumn::PayDown);
    sums.pre = record.integer(ChargedColumn::Pre);
    sums.post = record.integer(ChargedColumn::Post);
    return sums;
}

// A record of no class is damage, which verify tells of, and costs nothing.
void add_record(ChargeSums& sums,
                const ChargeSums& bytes,
                int64_t cls,
                const rating::Usage& usage,
                const rating::Plan* plan) {
    sums.records += bytes.records;
    sums.pay_up += bytes.pay_up;
    sums.pay_down += bytes.pay_down;
    sums.pre += bytes.pre;
    sums.post += bytes.post;
    if (plan != nullptr && cls >= 0 && cls < int64_t{base::kTrafficClasses}) {
        const rating::Charge charge = rating::rate(*plan, usage);
        sums.gross_ud += charge.gross_ud;
        sums.discount_ud += charge.discount_ud;
    }
}

struct Cursor {
    int64_t epoch = std::numeric_limits<int64_t>::min();
    int64_t seq = 0;
};

// The first SNAPT in the order of names, behind `after`, that has records.
Result<std::optional<std::string>> next_snapt(Database& database, const std::string& after) {
    Statement select =
        CTN_TRY(database.prepare("SELECT min(snapt_id) FROM usage_record WHERE snapt_id>?"));
    select.bind(1, std::string_view(after));
    return CTN_TRY(select.step()) ? select.optional_text(0) : std::nullopt;
}

Result<Cursor> booked_until(Database& database, const std::string& snapt_id) {
    Statement select = CTN_TRY(database.prepare("SELECT epoch,seq FROM booked WHERE snapt_id=?"));
    select.bind(1, std::string_view(snapt_id));
    return CTN_TRY(select.step()) ? Cursor{select.integer(0), select.integer(1)} : Cursor{};
}

Result<void> set_booked(Database& database, const std::string& snapt_id, const Cursor& cursor) {
    Statement upsert =
        CTN_TRY(database.prepare("INSERT INTO booked(snapt_id,epoch,seq) VALUES(?1,?2,?3) "
                                 "ON CONFLICT DO UPDATE SET epoch=?2,seq=?3"));
    return upsert.bind(1, std::string_view(snapt_id))
        .bind(2, cursor.epoch)
        .bind(3, cursor.seq)
        .run();
}

Result<void> insert_charge(Database& database, const Charge& charge) {
    Statement insert = CTN_TRY(database.prepare(
        "INSERT INTO charge(account_id,snapt_id,epoch,first_seq,last_seq,quarter,cls,plan_id,"
        "plan_rev,records,pay_up,pay_down,pre,post,gross_ud,discount_ud,entry_id,discount_id,"
        "replaces) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
    insert.bind(1, charge.account_id).bind(2, std::string_view(charge.snapt_id));
    int parameter = 2;
    for (const int64_t value :
         {charge.epoch, charge.first_seq, charge.last_seq, charge.quarter, charge.cls,
          charge.terms.plan_id, charge.terms.revision, charge.sums.records, charge.sums.pay_up,
          charge.sums.pay_down, charge.sums.pre, charge.sums.post, charge.sums.gross_ud,
          charge.sums.discount_ud}) {
        insert.bind(++parameter, value);
    }
    for (const std::optional<int64_t>& value :
         {charge.entry_id, charge.discount_id, charge.replaces}) {
        insert.bind(++parameter, value);
    }
    return insert.run();
}

constexpr const char* kSelectCharges =
    "SELECT charge_id,account_id,snapt_id,epoch,first_seq,last_seq,quarter,cls,plan_id,plan_rev,"
    "records,pay_up,pay_down,pre,post,gross_ud,discount_ud,entry_id,discount_id,replaces "
    "FROM charge c ";
constexpr const char* kIsCurrent =
    "NOT EXISTS(SELECT 1 FROM charge r WHERE r.replaces=c.charge_id)";

std::optional<int64_t> optional_integer(const Statement& row, int column) {
    return row.is_null(column) ? std::nullopt : std::optional(row.integer(column));
}

Charge charge_of(const Statement& row) {
    Charge charge;
    int column = 0;
    charge.charge_id = row.integer(column++);
    charge.account_id = row.integer(column++);
    charge.snapt_id = row.text(column++);
    for (int64_t* value :
         {&charge.epoch, &charge.first_seq, &charge.last_seq, &charge.quarter, &charge.cls,
          &charge.terms.plan_id, &charge.terms.revision, &charge.sums.records, &charge.sums.pay_up,
          &charge.sums.pay_down, &charge.sums.pre, &charge.sums.post, &charge.sums.gross_ud,
          &charge.sums.discount_ud}) {
        *value = row.integer(column++);
    }
    for (std::optional<int64_t>* value :
         {&charge.entry_id, &charge.discount_id, &charge.replaces}) {
        *value = optional_integer(row, column++);
    }
    return charge;
}

// Records that are booked together, by account, quarter and class.
struct Batch {
    struct Bill {
        std::string user;
        int64_t last_us = 0;  // the last microsecond of its records
        std::map<int64_t, Charge> by_class;
    };
    std::string snapt_id;
    int64_t epoch = 0;
    int64_t first_seq = 0;
    int64_t last_seq = 0;
    size_t records = 0;
    std::map<std::pair<int64_t, int64_t>, Bill> bills;  // by account and quarter
};

Result<void>
add_to_batch(Database& database, PlanBook& plans, const Statement& record, Batch& batch) {
    const int64_t account_id = record.integer(ChargedColumn::Account);
    if (account_id == kNoAccount) {
        return {};  // of a session that nobody has opened: nobody's
    }
    const int64_t quarter = quarter_of(record.integer(ChargedColumn::End));
    const int64_t cls = record.integer(ChargedColumn::Class);
    Batch::Bill& bill = batch.bills[{account_id, quarter}];
    bill.user = record.text(ChargedColumn::User);
    bill.last_us = std::max(bill.last_us, record.integer(ChargedColumn::End) - 1);
    Charge& charge = bill.by_class[cls];
    charge.account_id = account_id;
    charge.quarter = quarter;
    charge.cls = cls;
    charge.terms = plans.in_force(account_id, charge.from_us());
    const auto plan = CTN_TRY(plans.plan(database, charge.terms));
    add_record(charge.sums, bytes_of(record), cls, charged_usage(record), plan.get());
    return {};
}

// Those of one epoch that follow the cursor.
Result<Batch>
read_batch(Database& database, PlanBook& plans, const std::string& snapt_id, size_t limit) {
    const Cursor cursor = CTN_TRY(booked_until(database, snapt_id));
    const std::string sql =
        select_charged("WHERE snapt_id=?1 AND (epoch,seq)>(?2,?3) ORDER BY epoch,seq LIMIT ?4");
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    select.bind(1, std::string_view(snapt_id))
        .bind(2, cursor.epoch)
        .bind(3, cursor.seq)
        .bind(4, static_cast<int64_t>(limit));
    Batch batch;
    batch.snapt_id = snapt_id;
    while (CTN_TRY(select.step())) {
        if (batch.records == 0) {
            batch.epoch = select.integer(ChargedColumn::Epoch);
            batch.first_seq = select.integer(ChargedColumn::Seq);
        } else if (select.integer(ChargedColumn::Epoch) != batch.epoch) {
            break;
        }
        batch.last_seq = select.integer(ChargedColumn::Seq);
        ++batch.records;
        CTN_TRY(add_to_batch(database, plans, select, batch));
    }
    return batch;
}

// The entries of a bill, and then its charges.
Result<size_t> write_bill(Database& database,
                          const Batch& batch,
                          Batch::Bill& bill,
                          int64_t now_us,
                          EntryWriter& writer) {
    const Charge& any = bill.by_class.begin()->second;
    int64_t gross_ud = 0;
    int64_t discount_ud = 0;
    for (const auto& [cls, charge] : bill.by_class) {
        gross_ud += charge.sums.gross_ud;
        discount_ud += charge.sums.discount_ud;
    }
    const std::string place =
        batch.snapt_id + "/" + std::to_string(batch.epoch) + "/" + std::to_string(batch.first_seq) +
        "-" + std::to_string(batch.last_seq) + "/" + std::to_string(any.account_id) + "/" +
        std::to_string(any.from_us() / kUsPerSecond);
    MoneyEntry entry;
    entry.account_id = any.account_id;
    entry.user_id = bill.user;
    entry.actor = kBooker;
    std::optional<int64_t> entry_id;
    std::optional<int64_t> discount_id;
    const bool is_late = bill.last_us < now_us - kCloseAfterUs;
    entry.kind = is_late ? EntryKind::Adjust : EntryKind::Usage;
    entry.at_us = is_late ? now_us : bill.last_us;
    entry.amount_ud = is_late ? discount_ud - gross_ud : -gross_ud;
    entry.ref = std::string(kUsageRef) + place;
    entry.note = is_late ? "usage of a time that was closed" : "";
    if (entry.amount_ud != 0) {
        entry_id = CTN_TRY(writer.add(entry));
    }
    if (!is_late && discount_ud != 0) {
        entry.kind = EntryKind::Discount;
        entry.amount_ud = discount_ud;
        entry.ref = std::string(kDiscountRef) + place;
        discount_id = CTN_TRY(writer.add(entry));
    }
    for (auto& [cls, charge] : bill.by_class) {
        charge.snapt_id = batch.snapt_id;
        charge.epoch = batch.epoch;
        charge.first_seq = batch.first_seq;
        charge.last_seq = batch.last_seq;
        charge.entry_id = entry_id;
        charge.discount_id = discount_id;
        CTN_TRY(insert_charge(database, charge));
    }
    return size_t{entry_id ? 1U : 0U} + size_t{discount_id ? 1U : 0U};
}

std::string user_of(Database& database, int64_t account_id) {
    auto select = database.prepare("SELECT user_id FROM account WHERE account_id=?");
    if (!select) {
        return {};
    }
    const auto row = select->bind(1, account_id).step();
    return row && *row ? select->text(0) : std::string();
}

// Replaces one charge, if its plan is another one and its records are there.
Result<void> rerate_one(Database& database,
                        PlanBook& plans,
                        ChargeSummer& summer,
                        const RerateSpan& span,
                        const Charge& former,
                        MoneyEntry entry,
                        Rerated& rerated) {
    const PlanTerms terms =
        span.terms ? *span.terms : plans.in_force(former.account_id, former.from_us());
    if (terms == former.terms) {
        return {};
    }
    const auto plan = CTN_TRY(plans.plan(database, terms));
    Charge charge = former;
    charge.terms = terms;
    charge.sums = CTN_TRY(summer.sums(former, plan.get()));
    if (charge.sums.records != former.sums.records) {
        ++rerated.gone;
        return {};
    }
    charge.replaces = former.charge_id;
    charge.entry_id.reset();
    charge.discount_id.reset();
    entry.account_id = former.account_id;
    entry.user_id = user_of(database, former.account_id);
    entry.amount_ud = former.sums.net_ud() - charge.sums.net_ud();
    entry.ref = std::string(kRerateRef) + std::to_string(former.charge_id) + "/" +
                std::to_string(terms.plan_id) + "." + std::to_string(terms.revision);
    if (entry.amount_ud != 0) {
        EntryWriter writer = CTN_TRY(EntryWriter::begin(database));
        charge.entry_id = CTN_TRY(writer.add(entry));
    }
    ++rerated.charges;
    rerated.net_ud -= entry.amount_ud;
    return insert_charge(database, charge);
}

}  // namespace

bool is_reserved_ref(std::string_view ref) {
    return ref.starts_with(kUsageRef) || ref.starts_with(kDiscountRef) ||
           ref.starts_with(kRerateRef);
}

Result<Booked> book_usage(Database& database, PlanBook& plans, int64_t now_us, size_t limit) {
    Transaction transaction = CTN_TRY(Transaction::begin(database));
    CTN_TRY(plans.refresh(database));
    if (plans.is_empty()) {
        return Booked{};
    }
    std::optional<std::string> snapt_id = CTN_TRY(next_snapt(database, ""));
    while (snapt_id) {
        Batch batch = CTN_TRY(read_batch(database, plans, *snapt_id, limit));
        if (batch.records == 0) {
            snapt_id = CTN_TRY(next_snapt(database, *snapt_id));
            continue;
        }
        Booked booked{batch.records, 0};
        EntryWriter writer = CTN_TRY(EntryWriter::begin(database));
        for (auto& [key, bill] : batch.bills) {
            booked.entries += CTN_TRY(write_bill(database, batch, bill, now_us, writer));
        }
        CTN_TRY(set_booked(database, batch.snapt_id, {batch.epoch, batch.last_seq}));
        CTN_TRY(transaction.commit());
        return booked;
    }
    return Booked{};
}

Result<void> ChargeSummer::load(const Charge& charge) {
    const std::string sql =
        select_charged("WHERE snapt_id=?1 AND epoch=?2 AND seq BETWEEN ?3 AND ?4");
    Statement select = CTN_TRY(database_.prepare(sql.c_str()));
    select.bind(1, std::string_view(charge.snapt_id))
        .bind(2, charge.epoch)
        .bind(3, charge.first_seq)
        .bind(4, charge.last_seq);
    records_.clear();
    range_ = charge;
    while (CTN_TRY(select.step())) {
        Record record;
        record.account_id = select.integer(ChargedColumn::Account);
        record.quarter = quarter_of(select.integer(ChargedColumn::End));
        record.cls = select.integer(ChargedColumn::Class);
        record.bytes = bytes_of(select);
        record.usage = charged_usage(select);
        records_.push_back(record);
    }
    return {};
}

Result<ChargeSums> ChargeSummer::sums(const Charge& charge, const rating::Plan* plan) {
    const bool is_loaded = charge.snapt_id == range_.snapt_id && charge.epoch == range_.epoch &&
                           charge.first_seq == range_.first_seq &&
                           charge.last_seq == range_.last_seq;
    if (!is_loaded) {
        CTN_TRY(load(charge));
    }
    ChargeSums sums;
    for (const Record& record : records_) {
        if (record.account_id == charge.account_id && record.quarter == charge.quarter &&
            record.cls == charge.cls) {
            add_record(sums, record.bytes, record.cls, record.usage, plan);
        }
    }
    return sums;
}

Result<void> visit_charges(Database& database,
                           bool all,
                           const std::function<Result<void>(const Charge&)>& visit) {
    const std::string sql = kSelectCharges +
                            (all ? std::string() : "WHERE " + std::string(kIsCurrent)) +
                            " ORDER BY charge_id";
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    while (CTN_TRY(select.step())) {
        CTN_TRY(visit(charge_of(select)));
    }
    return {};
}

Result<Rerated> rerate(Database& database,
                       PlanBook& plans,
                       const RerateSpan& span,
                       int64_t now_us,
                       const std::string& actor,
                       int64_t after,
                       size_t limit) {
    Transaction transaction = CTN_TRY(Transaction::begin(database));
    CTN_TRY(plans.refresh(database));
    const std::string sql =
        kSelectCharges + std::string("WHERE charge_id>?1 AND quarter>=?2 AND quarter<?3 AND ") +
        (span.user ? "account_id IN (SELECT account_id FROM account WHERE user_id=?5) AND " : "") +
        kIsCurrent + " ORDER BY charge_id LIMIT ?4";
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    const auto quarter_from = [](int64_t at_us) {
        return at_us / kQuarterUs + (at_us % kQuarterUs > 0 ? 1 : 0);
    };
    select.bind(1, after)
        .bind(2, quarter_from(span.from_us))
        .bind(3, quarter_from(span.to_us))
        .bind(4, static_cast<int64_t>(limit));
    if (span.user) {
        select.bind(5, span.user);
    }
    std::vector<Charge> charges;
    while (CTN_TRY(select.step())) {
        charges.push_back(charge_of(select));
    }
    MoneyEntry entry;
    entry.kind = EntryKind::Adjust;
    entry.at_us = now_us;
    entry.actor = actor;
    entry.note = "rated again";
    Rerated rerated;
    ChargeSummer summer(database);
    for (const Charge& charge : charges) {
        CTN_TRY(rerate_one(database, plans, summer, span, charge, entry, rerated));
    }
    CTN_TRY(transaction.commit());
    rerated.next = charges.size() < limit ? 0 : charges.back().charge_id;
    return rerated;
}

}  // namespace continuo::snapt
