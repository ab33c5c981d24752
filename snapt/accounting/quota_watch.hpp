// QuotaWatch: tells the meters (UserMeter) of present users from which count their quotas act. A
// user's usage is its records since the period began, plus what its meter has counted since these
// were sealed. One thread.
#pragma once

#include "snapt/accounting/quota.hpp"
#include "snapt/accounting/user_meter.hpp"

#include <memory>
#include <unordered_map>
#include <vector>

namespace continuo::snapt::accounting {

// A meter's count just before its user's records were sealed.
struct SealedMeter {
    std::shared_ptr<UserMeter> meter;
    uint64_t counted = 0;
    SealEnd end{};
    int64_t merged_bytes = 0;  // payload merged by then, without a record before the interval ends
};

// A meter that has counted nothing, and the records before it began.
struct NewMeter {
    std::shared_ptr<UserMeter> meter;
    SealEnd end{};
    int64_t at_us = 0;  // when that was; 0: nobody knows
};

// The terms for traffic that begins now, from the records that there are. Those of an account
// without quota and credit, also by a clock that is wrong, are none.
base::Result<MeterTerms>
first_terms(store::Database& database, const store::Account& account, int64_t now_us);

class QuotaWatch {
  public:
    // `database` must outlive it.
    explicit QuotaWatch(store::Database& database) : database_(database) {}

    // Watches the meter until nobody else holds it. Once is enough.
    void add(NewMeter added);
    // Adds the account's records up anew.
    void on_sealed(const SealedMeter& sealed);
    // Reads the terms of all accounts, and sets their meters.
    // An account that cannot be read keeps its current terms; the error is returned.
    base::Result<void> look(int64_t now_us);
    bool is_empty() const { return watched_.empty(); }
    // Meters with a quota whose records were not sealed for it yet; with `all` also others.
    std::vector<std::shared_ptr<UserMeter>> to_seal(bool all) const;

  private:
    struct Watched {
        std::shared_ptr<UserMeter> meter;
        bool has_quota = false;
        bool was_sealed = false;
        bool must_add_up = true;
        int64_t begun_at_us = 0;  // the first count, with `end`; 0: unknown
        int64_t from_us = 0;      // records since then have
        int64_t used_bytes = 0;
        uint64_t counted = 0;  // count at that time
        SealEnd end{};
        int64_t merged_bytes = 0;
    };
    base::Result<void> look_at(Watched& watched, const AccountTerms& terms);

    store::Database& database_;
    std::unordered_map<const UserMeter*, Watched> watched_;
};

}  // namespace continuo::snapt::accounting
