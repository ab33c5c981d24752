// QuotaWatch: says of the users that are here from when on their quotas and credits act
// (UserMeter). What a user has used is what its records have since the period began, and what its
// meter has counted since these were sealed. One thread.
#pragma once

#include "snapt/accounting/quota.hpp"
#include "snapt/accounting/user_meter.hpp"

#include <memory>
#include <unordered_map>
#include <vector>

namespace continuo::snapt {

// Meters whose users' records were sealed just after they had counted so much.
struct SealedMeter {
    std::shared_ptr<UserMeter> meter;
    uint64_t counted = 0;
    SealEnd end{};
    int64_t merged_bytes = 0;  // payload of then that has no record before the interval ends
};

class QuotaWatch {
  public:
    // `database` must outlive it.
    explicit QuotaWatch(Database& database) : database_(database) {}

    // Until nobody else holds it. Once is enough.
    void add(std::shared_ptr<UserMeter> meter);
    // Its records are to be added up anew.
    void on_sealed(const SealedMeter& sealed);
    // Reads what accounts may use, and sets their meters.
    // One that cannot be read keeps what holds, and is the error.
    base::Result<void> look(int64_t now_us);
    bool is_empty() const { return watched_.empty(); }
    // With a quota, and of which no records were sealed for it yet; with `all` also others.
    std::vector<std::shared_ptr<UserMeter>> to_seal(bool all) const;

  private:
    struct Watched {
        std::shared_ptr<UserMeter> meter;
        bool has_quota = false;
        bool was_sealed = false;
        bool must_add_up = true;
        int64_t from_us = 0;  // records since then have
        int64_t used_bytes = 0;
        uint64_t counted = 0;  // by then
        SealEnd end{};
        int64_t merged_bytes = 0;
    };
    base::Result<void> look_at(Watched& watched, const AccountTerms& terms);

    Database& database_;
    std::unordered_map<const UserMeter*, Watched> watched_;
};

}  // namespace continuo::snapt
