// SnaptPrices: what usage costs at each SNAPT, as a multiple of the plan's price. It holds for a
// whole run of a SNAPT, so that each record has one price for ever.
#pragma once

#include "snapt/store/database.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace continuo::snapt::store {

inline constexpr uint32_t kUsualPricePermille = 1000;

class SnaptPrices {
  public:
    static base::Result<SnaptPrices> load(Database& database);
    // For the records of that run.
    double multiplier(const std::string& snapt_id, int64_t epoch) const;

  private:
    std::map<std::pair<std::string, int64_t>, int64_t> permille_;  // by SNAPT and first epoch
};

// From that run on; writes only a change. Call in the transaction that begins the run.
base::Result<void> set_snapt_price(Database& database,
                                   const std::string& snapt_id,
                                   int64_t epoch,
                                   uint32_t price_permille);

}  // namespace continuo::snapt::store
