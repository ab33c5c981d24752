#include "snapt/accounting/quota.hpp"

#include "snapt/accounting/time_zone.hpp"

namespace continuo::snapt {

using base::Errc;
using base::Error;
using base::Result;

namespace {

Result<int64_t> used_since(Database& database, const Account& account, int64_t from_us) {
    Statement select = CTN_TRY(database.prepare(
        "SELECT coalesce(sum(pay_up+pay_down),0) FROM usage_record INDEXED BY usage_account_time "
        "WHERE user_id=? AND account_id=? AND t_end>?"));
    select.bind(1, std::string_view(account.user)).bind(2, account.id).bind(3, from_us);
    if (!CTN_TRY(select.step())) {
        return Error{Errc::Malformed, "ledger.db is damaged", 0};
    }
    return select.integer(0);
}

}  // namespace

Result<std::vector<QuotaUse>>
quota_uses(Database& database, const std::optional<std::string>& user, int64_t now_us) {
    ReadMoment moment(database);
    CTN_TRY(moment.begin());
    Statement select = CTN_TRY(database.prepare(
        "SELECT a.account_id,u.user_id,a.quota_bytes,a.quota_period,a.zone FROM user u JOIN "
        "account "
        "a USING(account_id) WHERE a.quota_bytes IS NOT NULL AND (?1 IS NULL OR u.user_id=?1) "
        "ORDER BY u.user_id"));
    select.bind(1, user);
    std::vector<QuotaUse> uses;
    while (CTN_TRY(select.step())) {
        QuotaUse use;
        use.account = {select.integer(0), select.text(1)};
        use.quota = {select.integer(2), select.text(3)};
        use.zone = select.text(4);
        const TimeZone zone = CTN_TRY(TimeZone::load(use.zone));
        const std::string period =
            use.quota.period == "day" ? zone.day(now_us) : zone.month(now_us);
        use.from_us = zone.parse_time_us(period).value_or(now_us);
        use.used_bytes = CTN_TRY(used_since(database, use.account, use.from_us));
        uses.push_back(std::move(use));
    }
    return uses;
}

Result<void> set_quota(Database& database,
                       const std::string& user,
                       const std::optional<Quota>& quota,
                       const std::optional<std::string>& zone) {
    if (quota && (quota->bytes <= 0 || (quota->period != "day" && quota->period != "month"))) {
        return Error{Errc::InvalidConfig, "quota: a positive number of bytes per day or month", 0};
    }
    if (zone) {
        CTN_TRY(TimeZone::load(*zone));
    }
    Transaction transaction = CTN_TRY(Transaction::begin(database));
    Statement update = CTN_TRY(
        database.prepare("UPDATE account SET quota_bytes=?2,quota_period=?3,zone=coalesce(?4,zone) "
                         "WHERE account_id=(SELECT account_id FROM user WHERE user_id=?1)"));
    update.bind(1, std::string_view(user)).bind_null(2).bind_null(3).bind(4, zone);
    if (quota) {
        update.bind(2, quota->bytes).bind(3, std::string_view(quota->period));
    }
    CTN_TRY(update.run());
    if (database.changes() == 0) {
        return Error{Errc::NotFound, "no such user", 0};
    }
    return transaction.commit();
}

}  // namespace continuo::snapt
