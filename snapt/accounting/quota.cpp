#include "snapt/accounting/quota.hpp"

#include "common/config/units.hpp"
#include "snapt/ledger/charges.hpp"
#include "snapt/store/time_zone.hpp"
#include "snapt/store/usage_sums.hpp"

#include <map>

namespace continuo::snapt::accounting {

using base::Errc;
using base::Error;
using base::Result;
using store::Database;
using store::Exhaustion;
using store::kQuartersOfDay;
using store::OnExhausted;
using store::Statement;
using store::TimeZone;

namespace {

constexpr int64_t kHourUs = 3'600'000'000;
constexpr std::string_view kThrottle = "throttle";

// Loads each zone once for all accounts. UTC where its file is gone, so that one account does not
// block the others.
using Zones = std::map<std::string, TimeZone>;

const TimeZone& zone_of(Zones& zones, const std::string& name) {
    const auto known = zones.find(name);
    if (known != zones.end()) {
        return known->second;
    }
    auto loaded = TimeZone::load(name);
    return zones.emplace(name, loaded ? std::move(*loaded) : TimeZone::utc()).first->second;
}

// The current day or month, and the next one. A day has 23 to 25 hours, a month 28 to 31 days.
void set_period(AccountTerms& terms, const TimeZone& zone, int64_t now_us) {
    const bool is_day = terms.quota->period == "day";
    const auto name_at = [&](int64_t at_us) {
        return is_day ? zone.day(at_us) : zone.month(at_us);
    };
    terms.from_us = zone.parse_time_us(name_at(now_us)).value_or(now_us);
    const int64_t within_next_us = terms.from_us + (is_day ? 36 : 35 * 24) * kHourUs;
    terms.until_us = zone.parse_time_us(name_at(within_next_us)).value_or(within_next_us);
}

Result<void> check(const TermsChange& change) {
    if (change.quota && *change.quota) {
        const store::Quota& quota = **change.quota;
        if (quota.bytes <= 0 || (quota.period != "day" && quota.period != "month")) {
            return Error{Errc::InvalidConfig, "quota: a positive number of bytes per day or month",
                         0};
        }
    }
    if (change.credit_limit_ud && *change.credit_limit_ud) {
        const int64_t limit_ud = **change.credit_limit_ud;
        if (limit_ud < 0 || limit_ud > store::kMaxBalanceUd) {
            return Error{Errc::InvalidConfig, "credit: 0 to 10^12 denarii", 0};
        }
    }
    if (change.zone) {
        CTN_TRY(TimeZone::load(*change.zone));
    }
    return {};
}

}  // namespace

std::optional<Exhaustion> parse_exhaustion(std::string_view text) {
    if (text == "notify") {
        return Exhaustion{};
    }
    if (text == "stop") {
        return Exhaustion{OnExhausted::Stop, 0};
    }
    const size_t rate_at = kThrottle.size() + 1;
    if (!text.starts_with(kThrottle) || text.size() <= rate_at || text[rate_at - 1] != '=') {
        return std::nullopt;
    }
    const auto rate = config::parse_rate_bits_per_s(text.substr(rate_at));
    if (!rate || *rate < kLeastThrottle || *rate > kMostThrottle) {
        return std::nullopt;
    }
    return Exhaustion{OnExhausted::Throttle, *rate};
}

std::string to_string(const Exhaustion& exhaustion) {
    switch (exhaustion.action) {
    case OnExhausted::Notify:
        return "notify";
    case OnExhausted::Stop:
        return "stop";
    case OnExhausted::Throttle:
        break;
    }
    std::string text(kThrottle);
    text += "=";
    text += std::to_string(exhaustion.bits_per_s);
    return text;
}

Result<int64_t> used_since(Database& database,
                           const store::Account& account,
                           int64_t from_us,
                           const SealEnd& until) {
    Statement select = CTN_TRY(database.prepare(
        "SELECT coalesce(sum(pay_up+pay_down),0) FROM usage_record INDEXED BY usage_account_time "
        "WHERE user_id=? AND account_id=? AND t_end>? AND NOT(epoch=? AND seq>=?)"));
    select.bind(1, std::string_view(account.user)).bind(2, account.id).bind(3, from_us);
    select.bind(4, until.epoch).bind(5, until.next_seq);
    if (!CTN_TRY(select.step())) {
        return Error{Errc::Malformed, "ledger.db is damaged", 0};
    }
    return select.integer(0);
}

// A period begins with a quarter of an hour; its first day may be one of another zone.
Result<int64_t> used_by_sums(Database& database, const store::Account& account, int64_t from_us) {
    if (from_us % ledger::kQuarterUs != 0) {
        return used_since(database, account, from_us);
    }
    const int64_t quarter = from_us / ledger::kQuarterUs;
    const int64_t day = quarter / kQuartersOfDay + (quarter % kQuartersOfDay > 0 ? 1 : 0);
    Statement select = CTN_TRY(database.prepare(
        "SELECT coalesce(sum(pay_up+pay_down),0) FROM usage_sum WHERE user_id=?1 AND account_id=?2 "
        "AND ((unit_s=86400 AND unit>=?3) OR (unit_s=900 AND unit>=?4 AND unit<?5))"));
    select.bind(1, std::string_view(account.user)).bind(2, account.id).bind(3, day);
    select.bind(4, quarter).bind(5, day * kQuartersOfDay);
    if (!CTN_TRY(select.step())) {
        return Error{Errc::Malformed, "ledger.db is damaged", 0};
    }
    return select.integer(0);
}

Result<std::vector<AccountTerms>>
account_terms(Database& database, const std::optional<std::string>& user, int64_t now_us) {
    // A login asks for one user: by the index.
    const std::string sql =
        "SELECT a.account_id,u.user_id,a.quota_bytes,a.quota_period,a.zone,a.credit_limit_ud,"
        "coalesce(b.balance_ud,0),a.on_exhausted,coalesce(a.throttle_bits_per_s,0) FROM user u "
        "JOIN account a USING(account_id) LEFT JOIN balance b USING(account_id) WHERE "
        "(a.quota_bytes IS NOT NULL OR a.credit_limit_ud IS NOT NULL)" +
        std::string(user ? " AND u.user_id=?1" : "") + " ORDER BY u.user_id";
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    if (user) {
        select.bind(1, std::string_view(*user));
    }
    Zones zones;
    std::vector<AccountTerms> all;
    while (CTN_TRY(select.step())) {
        AccountTerms terms;
        terms.account = {select.integer(0), select.text(1)};
        terms.zone = select.text(4);
        if (!select.is_null(2)) {
            terms.quota = store::Quota{select.integer(2), select.text(3)};
            set_period(terms, zone_of(zones, terms.zone), now_us);
        }
        if (!select.is_null(5)) {
            terms.credit_limit_ud = select.integer(5);
        }
        terms.balance_ud = select.integer(6);
        const std::string action = select.text(7);
        const int64_t rate = select.integer(8);
        if (action == "stop") {
            terms.then.action = OnExhausted::Stop;
        } else if (action == kThrottle && rate > 0) {
            terms.then = {OnExhausted::Throttle, static_cast<uint64_t>(rate)};
        }
        all.push_back(std::move(terms));
    }
    return all;
}

Result<std::vector<QuotaUse>>
quota_uses(Database& database, const std::optional<std::string>& user, int64_t now_us) {
    store::ReadMoment moment(database);
    CTN_TRY(moment.begin());
    std::vector<AccountTerms> all = CTN_TRY(account_terms(database, user, now_us));
    std::vector<QuotaUse> uses;
    for (AccountTerms& terms : all) {
        QuotaUse use;
        use.terms = std::move(terms);
        if (use.terms.quota) {
            use.used_bytes = CTN_TRY(used_since(database, use.terms.account, use.terms.from_us));
        }
        uses.push_back(std::move(use));
    }
    return uses;
}

Result<void> change_terms(Database& database, const std::string& user, const TermsChange& change) {
    CTN_TRY(check(change));
    store::Transaction transaction = CTN_TRY(store::Transaction::begin(database));
    // One bound parameter says whether the column changes, the next holds the value.
    Statement update = CTN_TRY(database.prepare(
        "UPDATE account SET quota_bytes=iif(?2,?3,quota_bytes),"
        "quota_period=iif(?2,?4,quota_period),credit_limit_ud=iif(?5,?6,credit_limit_ud),"
        "zone=coalesce(?7,zone),on_exhausted=iif(?8,?9,on_exhausted),"
        "throttle_bits_per_s=iif(?8,?10,throttle_bits_per_s) "
        "WHERE account_id=(SELECT account_id FROM user WHERE user_id=?1)"));
    update.bind(1, std::string_view(user)).bind(7, change.zone);
    update.bind(2, static_cast<int64_t>(change.quota.has_value())).bind_null(3).bind_null(4);
    if (change.quota && *change.quota) {
        update.bind(3, (*change.quota)->bytes).bind(4, std::string_view((*change.quota)->period));
    }
    update.bind(5, static_cast<int64_t>(change.credit_limit_ud.has_value())).bind_null(6);
    if (change.credit_limit_ud) {
        update.bind(6, *change.credit_limit_ud);
    }
    update.bind(8, static_cast<int64_t>(change.then.has_value())).bind_null(9).bind_null(10);
    if (change.then) {
        const bool throttles = change.then->action == OnExhausted::Throttle;
        const std::string action = throttles ? std::string(kThrottle) : to_string(*change.then);
        update.bind(9, std::string_view(action));
        if (throttles) {
            update.bind(10, static_cast<int64_t>(change.then->bits_per_s));
        }
    }
    CTN_TRY(update.run());
    if (database.changes() == 0) {
        return Error{Errc::NotFound, "no such user", 0};
    }
    return transaction.commit();
}

}  // namespace continuo::snapt::accounting
