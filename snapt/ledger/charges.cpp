#include "snapt/ledger/charges.hpp"

#include "common/base/traffic_class.hpp"
#include "snapt/ledger/charge_rows.hpp"
#include "snapt/store/bounded_sum.hpp"

#include <algorithm>

namespace continuo::snapt::ledger {
namespace {

using base::Result;
using store::Database;
using store::Statement;

// Record columns needed for its charge, in the order of kSelectCharged.
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
        Sharer,
        Snapt
    };
};
constexpr const char* kSelectCharged =
    "SELECT user_id,account_id,cls,epoch,seq,t_end,pay_up,pay_down,active_us,delay_us,pre,post,"
    "sharer_id<>'',snapt_id FROM usage_record ";
constexpr const char* kSelectCharges =
    "SELECT charge_id,account_id,snapt_id,epoch,first_seq,last_seq,quarter,cls,plan_id,plan_rev,"
    "records,pay_up,pay_down,pre,post,gross_ud,discount_ud,entry_id,discount_id,replaces,fault "
    "FROM charge c ";

std::string charge_question(const char* select, std::string_view rest, std::string_view index) {
    std::string sql = select;
    if (!index.empty()) {
        sql += "INDEXED BY ";
        sql += index;
        sql += " ";
    }
    sql += rest;
    return sql;
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

std::optional<int64_t> optional_integer(const Statement& row, int column) {
    return row.is_null(column) ? std::nullopt : std::optional(row.integer(column));
}

}  // namespace

std::string select_charged(std::string_view rest, std::string_view index) {
    return charge_question(kSelectCharged, rest, index);
}

std::string select_charges(std::string_view rest, std::string_view index) {
    return charge_question(kSelectCharges, rest, index);
}

ChargedRecord charged_record(const Statement& row) {
    ChargedRecord record;
    record.user = row.text(ChargedColumn::User);
    record.account_id = row.integer(ChargedColumn::Account);
    record.epoch = row.integer(ChargedColumn::Epoch);
    record.seq = row.integer(ChargedColumn::Seq);
    record.end_us = row.integer(ChargedColumn::End);
    record.cls = row.integer(ChargedColumn::Class);
    record.bytes = bytes_of(row);
    record.usage = charged_usage(row);
    return record;
}

std::string charged_snapt(const Statement& row) {
    return row.text(ChargedColumn::Snapt);
}

ChargedRecord charged_record(const flow::UsageRecord& record) {
    ChargedRecord charged;
    charged.user = record.user_id;
    charged.account_id = record.account_id;
    charged.epoch = record.epoch;
    charged.seq = record.seq;
    charged.end_us = record.t_end;
    charged.cls = record.cls;
    charged.bytes.records = 1;
    charged.bytes.pay_up = record.pay_up;
    charged.bytes.pay_down = record.pay_down;
    charged.bytes.pre = record.pre;
    charged.bytes.post = record.post;
    charged.usage.traffic_class = static_cast<base::TrafficClass>(record.cls);
    charged.usage.payload_bytes =
        static_cast<uint64_t>(record.pay_up) + static_cast<uint64_t>(record.pay_down);
    charged.usage.active_us = record.active_us;
    charged.usage.delay_us = record.delay_us;
    charged.usage.pre_bytes = std::max<int64_t>(record.pre, 0);
    charged.usage.post_bytes = std::max<int64_t>(record.post, 0);
    charged.usage.has_sharer = !record.sharer_id.empty();
    return charged;
}

void add_record(ChargeSums& sums,
                const ChargedRecord& record,
                const rating::Plan* plan,
                double multiplier) {
    sums.records += record.bytes.records;
    sums.pay_up += record.bytes.pay_up;
    sums.pay_down += record.bytes.pay_down;
    sums.pre += record.bytes.pre;
    sums.post += record.bytes.post;
    if (plan != nullptr && record.cls >= 0 && record.cls < int64_t{base::kTrafficClasses}) {
        const rating::Charge charge = rating::rate(*plan, record.usage, multiplier);
        sums.gross_ud = store::bounded_sum(sums.gross_ud, charge.gross_ud);
        sums.discount_ud = store::bounded_sum(sums.discount_ud, charge.discount_ud);
    }
}

Result<void> insert_charge(Database& database, const Charge& charge) {
    Statement insert = CTN_TRY(database.prepare(
        "INSERT INTO charge(account_id,snapt_id,epoch,first_seq,last_seq,quarter,cls,plan_id,"
        "plan_rev,records,pay_up,pay_down,pre,post,gross_ud,discount_ud,entry_id,discount_id,"
        "replaces,fault) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
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
    insert.bind(++parameter,
                charge.fault.empty() ? std::optional<std::string>() : std::optional(charge.fault));
    return insert.run();
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
    charge.fault = row.optional_text(column).value_or("");
    return charge;
}

bool is_reserved_ref(std::string_view ref) {
    return ref.starts_with(kUsageRef) || ref.starts_with(kDiscountRef) ||
           ref.starts_with(kRerateRef);
}

// The index by account serves: the records of one quarter, of all SNAPTs, are adjacent there.
Result<void> ChargeSummer::load(const Charge& charge) {
    const std::string sql =
        select_charged("WHERE user_id=(SELECT user_id FROM account WHERE account_id=?1) AND "
                       "account_id=?1 AND t_end>?2 AND t_end<=?3 AND snapt_id=?4 AND epoch=?5 AND "
                       "seq BETWEEN ?6 AND ?7",
                       "usage_account_time");
    Statement select = CTN_TRY(database_.prepare(sql.c_str()));
    select.bind(1, charge.account_id)
        .bind(2, charge.from_us())
        .bind(3, charge.from_us() + kQuarterUs)
        .bind(4, std::string_view(charge.snapt_id))
        .bind(5, charge.epoch)
        .bind(6, charge.first_seq)
        .bind(7, charge.last_seq);
    records_.clear();
    range_ = charge;
    while (CTN_TRY(select.step())) {
        records_.push_back(charged_record(select));
    }
    return {};
}

Result<ChargeSums> ChargeSummer::sums(const Charge& charge, const rating::Plan* plan) {
    const bool is_loaded = charge.account_id == range_.account_id &&
                           charge.quarter == range_.quarter && charge.snapt_id == range_.snapt_id &&
                           charge.epoch == range_.epoch && charge.first_seq == range_.first_seq &&
                           charge.last_seq == range_.last_seq;
    if (!is_loaded) {
        CTN_TRY(load(charge));
    }
    ChargeSums sums;
    const double multiplier = plans_.multiplier(charge.snapt_id, charge.epoch);
    for (const ChargedRecord& record : records_) {
        if (record.cls == charge.cls) {
            add_record(sums, record, plan, multiplier);
        }
    }
    return sums;
}

Result<std::optional<int64_t>> first_fault_us(Database& database) {
    const std::string sql = "SELECT min(quarter) FROM charge c INDEXED BY charge_fault WHERE fault "
                            "IS NOT NULL AND " +
                            std::string(kIsCurrent);
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    if (!CTN_TRY(select.step()) || select.is_null(0)) {
        return std::optional<int64_t>();
    }
    return std::optional(select.integer(0) * kQuarterUs);
}

Result<std::string> charge_trouble(Database& database) {
    const std::string sql = "SELECT count(*),min(fault) FROM charge c INDEXED BY charge_fault "
                            "WHERE fault IS NOT NULL AND " +
                            std::string(kIsCurrent);
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    if (!CTN_TRY(select.step()) || select.integer(0) == 0) {
        return std::string();
    }
    return std::to_string(select.integer(0)) + (select.integer(0) == 1 ? " charge" : " charges") +
           " cannot be made, such as of " + select.text(1) + "; mend it, then `snapt rate --from`";
}

Result<void> visit_charges(Database& database,
                           bool all,
                           const std::function<Result<void>(const Charge&)>& visit) {
    const std::string sql = select_charges(
        (all ? std::string() : "WHERE " + std::string(kIsCurrent)) + " ORDER BY charge_id");
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    while (CTN_TRY(select.step())) {
        CTN_TRY(visit(charge_of(select)));
    }
    return {};
}

}  // namespace continuo::snapt::ledger
