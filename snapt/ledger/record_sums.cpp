#include "snapt/ledger/record_sums.hpp"

#include "common/flow/slot_source.hpp"
#include "snapt/ledger/charges.hpp"
#include "snapt/store/bounded_sum.hpp"
#include "snapt/store/usage_sums.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

namespace continuo::snapt::ledger {

using base::Result;
using store::Statement;

namespace {

constexpr int64_t kFirstEndUs = std::numeric_limits<int64_t>::min() + 1;  // a damaged record's

constexpr const char* kAddSumSql =
    "INSERT INTO usage_sum(unit_s,user_id,account_id,unit,cls,snapt_id,app,records,flows,pay_up,"
    "pay_down,inner_up,inner_down,pre,post,undelivered,tun_up,tun_down,gross_ud,discount_ud) "
    "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET "
    "records=records+excluded.records,flows=flows+excluded.flows,pay_up=pay_up+excluded.pay_up,"
    "pay_down=pay_down+excluded.pay_down,inner_up=inner_up+excluded.inner_up,"
    "inner_down=inner_down+excluded.inner_down,pre=pre+excluded.pre,post=post+excluded.post,"
    "undelivered=undelivered+excluded.undelivered,tun_up=tun_up+excluded.tun_up,"
    "tun_down=tun_down+excluded.tun_down,gross_ud=gross_ud+excluded.gross_ud,"
    "discount_ud=discount_ud+excluded.discount_ud";

bool begins_flow(const flow::UsageRecord& record) {
    const bool is_first = (record.flags & flow::record_flag::kFirst) != 0;
    const bool is_tunnel = (record.flags & flow::record_flag::kTunnel) != 0;
    const auto flow_id = static_cast<uint64_t>(record.flow_id);
    return is_first && !is_tunnel && flow::flow_number(flow_id) == flow_id;
}

void add_to(SumValues& sums, const SumValues& values) {
    for (size_t column = 0; column < sums.size(); ++column) {
        sums[column] = store::bounded_sum(sums[column], values[column]);
    }
}

}  // namespace

SumPlace sum_place(const flow::UsageRecord& record) {
    return {kSumQuarterS,
            record.user_id,
            record.account_id,
            (std::max(record.t_end, kFirstEndUs) - 1) / kQuarterUs,
            record.cls,
            record.snapt_id,
            record.app.value_or("")};
}

SumValues sum_values(const flow::UsageRecord& record) {
    return {1,
            begins_flow(record) ? 1 : 0,
            record.pay_up,
            record.pay_down,
            record.inner_up,
            record.inner_down,
            record.pre,
            record.post,
            record.undelivered.value_or(0),
            record.tun_up.value_or(0),
            record.tun_down.value_or(0),
            0,
            0};
}

SumPlace of_day(SumPlace quarter) {
    quarter.unit_s = kSumDayS;
    quarter.unit /= store::kQuartersOfDay;
    return quarter;
}

SumPlace of_all_accounts(SumPlace place) {
    place.user.clear();
    place.account_id = store::kAllAccounts;
    return place;
}

void RecordSums::add(const flow::UsageRecord& record) {
    add_to(quarters_.try_emplace(sum_place(record)).first->second, sum_values(record));
}

Result<Statement> RecordSums::add_sum(store::Database& database) {
    return database.prepare(kAddSumSql);
}

// One level at a time, each in the order of its keys.
Result<void> RecordSums::write(Statement& add_sum) const {
    const auto rolled_up = [this](auto&& place_of) {
        Sums sums;
        for (const auto& [place, values] : quarters_) {
            add_to(sums.try_emplace(place_of(place)).first->second, values);
        }
        return sums;
    };
    CTN_TRY(write(rolled_up(of_all_accounts), add_sum));
    CTN_TRY(write(quarters_, add_sum));
    CTN_TRY(write(rolled_up([](const SumPlace& place) { return of_all_accounts(of_day(place)); }),
                  add_sum));
    return write(rolled_up(of_day), add_sum);
}

Result<void> RecordSums::write(const Sums& sums, Statement& add_sum) {
    for (const auto& [place, values] : sums) {
        add_sum.bind(1, place.unit_s)
            .bind(2, std::string_view(place.user))
            .bind(3, place.account_id)
            .bind(4, place.unit)
            .bind(5, place.cls)
            .bind(6, std::string_view(place.snapt_id))
            .bind(7, std::string_view(place.app));
        int parameter = 7;
        for (const int64_t value : values) {
            add_sum.bind(++parameter, value);
        }
        CTN_TRY(add_sum.run());
    }
    return {};
}

}  // namespace continuo::snapt::ledger
