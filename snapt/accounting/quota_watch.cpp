#include "snapt/accounting/quota_watch.hpp"

#include "snapt/accounting/usage_booker.hpp"

#include <utility>

namespace continuo::snapt::accounting {

using base::Result;

Result<MeterTerms>
first_terms(store::Database& database, const store::Account& account, int64_t now_us) {
    MeterTerms first;
    if (now_us < kEarliestUs) {
        return first;
    }
    for (const AccountTerms& terms : CTN_TRY(account_terms(database, account.user, now_us))) {
        if (terms.account.id != account.id) {
            continue;
        }
        first.quota = terms.quota;
        first.until_us = terms.until_us;
        first.then = terms.then;
        if (terms.quota) {
            first.used_bytes = CTN_TRY(used_by_sums(database, account, terms.from_us));
        }
    }
    return first;
}

void QuotaWatch::add(NewMeter added) {
    const UserMeter* const key = added.meter.get();
    const auto [at, is_new] = watched_.try_emplace(key);
    if (is_new) {
        at->second.end = added.end;
        at->second.begun_at_us = added.at_us;
        at->second.meter = std::move(added.meter);
    }
}

void QuotaWatch::on_sealed(const SealedMeter& sealed) {
    const auto found = watched_.find(sealed.meter.get());
    if (found != watched_.end()) {
        found->second.was_sealed = true;
        found->second.must_add_up = true;
        found->second.counted = sealed.counted;
        found->second.end = sealed.end;
        found->second.merged_bytes = sealed.merged_bytes;
    }
}

std::vector<std::shared_ptr<UserMeter>> QuotaWatch::to_seal(bool all) const {
    std::vector<std::shared_ptr<UserMeter>> meters;
    for (const auto& [key, watched] : watched_) {
        if (watched.has_quota && (all || !watched.was_sealed)) {
            meters.push_back(watched.meter);
        }
    }
    return meters;
}

// Without an earlier seal, unrecorded counts from before the meter are missing until the next one,
// and all of them in a period that began after it.
Result<void> QuotaWatch::look_at(Watched& watched, const AccountTerms& terms) {
    MeterTerms now;
    now.quota = terms.quota;
    now.until_us = terms.until_us;
    now.then = terms.then;
    watched.has_quota = terms.quota.has_value();
    if (watched.has_quota) {
        if (terms.from_us != watched.from_us) {
            watched.must_add_up = true;
            watched.was_sealed = false;
        }
        if (watched.must_add_up) {
            // A meter that began in this period has counted all of it.
            const bool is_whole = watched.begun_at_us != 0 && watched.begun_at_us >= terms.from_us;
            if (!watched.was_sealed && !is_whole) {
                watched.begun_at_us = 0;
                watched.counted = watched.meter->counted();
                watched.end = {};
                watched.merged_bytes = 0;
            }
            watched.used_bytes =
                watched.merged_bytes +
                CTN_TRY(used_since(database_, terms.account, terms.from_us, watched.end));
            watched.from_us = terms.from_us;
            watched.must_add_up = false;
        }
        now.used_bytes = watched.used_bytes;
        now.counted = watched.counted;
    }
    watched.meter->set(now);
    return {};
}

Result<void> QuotaWatch::look(int64_t now_us) {
    std::erase_if(watched_,
                  [](const auto& watched) { return watched.second.meter.use_count() == 1; });
    if (watched_.empty()) {
        return {};
    }
    const std::vector<AccountTerms> all = CTN_TRY(account_terms(database_, std::nullopt, now_us));
    std::unordered_map<int64_t, const AccountTerms*> by_account;
    for (const AccountTerms& terms : all) {
        by_account[terms.account.id] = &terms;
    }
    Result<void> result;
    for (auto& [key, watched] : watched_) {
        const auto terms = by_account.find(watched.meter->account().id);
        if (terms != by_account.end()) {
            const auto looked = look_at(watched, *terms->second);
            result = looked ? result : looked;
        } else {
            watched.has_quota = false;
            watched.was_sealed = false;
            watched.must_add_up = true;
            watched.meter->set({});
        }
    }
    return result;
}

}  // namespace continuo::snapt::accounting
