#include "snapt/accounting/sums_check.hpp"

#include "snapt/ledger/charge_rows.hpp"
#include "snapt/store/time_zone.hpp"
#include "snapt/store/usage_sums.hpp"

#include <string_view>

namespace continuo::snapt::accounting {
namespace {

using base::Result;
using ledger::SumPlace;
using ledger::SumValues;

constexpr int64_t kLastDay = 2'932'896;  // 9999-12-31; beyond it only in a file that was changed

// The finalizer of splitmix64 (Steele, Lea and Flood, 2014).
constexpr uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31U);
}

class PlaceNumber {
  public:
    void add(int64_t value) { number_ = mixed(number_ ^ static_cast<uint64_t>(value)); }
    void add(std::string_view text) {
        uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a
        for (const char byte : text) {
            hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001B3U;
        }
        add(static_cast<int64_t>(hash));
    }
    // Odd: no value but 0 becomes 0.
    uint64_t odd() const { return number_ | 1U; }

  private:
    uint64_t number_ = 0x9E3779B97F4A7C15U;
};

}  // namespace

uint64_t SumsCheck::product(const SumPlace& place, const SumValues& values) {
    PlaceNumber number;
    number.add(place.unit_s);
    number.add(place.user);
    number.add(place.account_id);
    number.add(place.unit);
    number.add(place.cls);
    number.add(place.snapt_id);
    number.add(place.app);
    uint64_t sum = 0;
    uint64_t column = 0;
    for (const int64_t value : values) {
        sum += static_cast<uint64_t>(value) * (mixed(++column) | 1U);
    }
    return number.odd() * sum;
}

uint64_t& SumsCheck::of(const SumPlace& place) {
    return left_[place.unit_s == ledger::kSumDayS ? place.unit
                                                  : place.unit / store::kQuartersOfDay];
}

void SumsCheck::add_to_all(const SumPlace& quarter, const SumValues& values) {
    const SumPlace day = ledger::of_day(quarter);
    for (const SumPlace& place :
         {quarter, day, ledger::of_all_accounts(quarter), ledger::of_all_accounts(day)}) {
        of(place) += product(place, values);
    }
}

void SumsCheck::add(const flow::UsageRecord& record) {
    add_to_all(ledger::sum_place(record), ledger::sum_values(record));
}

// Those that no other one stands for.
Result<void> SumsCheck::add_charges(store::Database& database) {
    std::string sql = "SELECT a.user_id,c.account_id,c.quarter,c.cls,c.snapt_id,c.gross_ud,"
                      "c.discount_ud FROM charge c JOIN account a USING(account_id) WHERE ";
    sql += ledger::kIsCurrent;
    store::Statement select = CTN_TRY(database.prepare(sql.c_str()));
    while (CTN_TRY(select.step())) {
        const SumPlace place{ledger::kSumQuarterS,
                             select.text(0),
                             select.integer(1),
                             select.integer(2),
                             select.integer(3),
                             select.text(4),
                             {}};
        SumValues values{};
        values[values.size() - 2] = select.integer(5);
        values[values.size() - 1] = select.integer(6);
        add_to_all(place, values);
    }
    return {};
}

Result<void> SumsCheck::take_sums(store::Database& database) {
    store::Statement select = CTN_TRY(database.prepare(
        "SELECT unit_s,user_id,account_id,unit,cls,snapt_id,app,records,flows,pay_up,pay_down,"
        "inner_up,inner_down,pre,post,undelivered,tun_up,tun_down,gross_ud,discount_ud "
        "FROM usage_sum"));
    while (CTN_TRY(select.step())) {
        const SumPlace place{select.integer(0), select.text(1),    select.integer(2),
                             select.integer(3), select.integer(4), select.text(5),
                             select.text(6)};
        SumValues values{};
        int column = 7;
        for (int64_t& value : values) {
            value = select.integer(column++);
        }
        of(place) -= product(place, values);
    }
    return {};
}

std::vector<std::string> SumsCheck::wrong_days() const {
    std::vector<std::string> days;
    for (const auto& [day, left] : left_) {
        if (left != 0) {
            days.push_back(day < 0 || day > kLastDay
                               ? "day " + std::to_string(day)
                               : store::TimeZone::utc().day(day * store::kSumDayUs));
        }
    }
    return days;
}

}  // namespace continuo::snapt::accounting
