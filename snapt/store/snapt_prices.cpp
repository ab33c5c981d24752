#include "snapt/store/snapt_prices.hpp"

#include <iterator>

namespace continuo::snapt::store {

using base::Result;

Result<SnaptPrices> SnaptPrices::load(Database& database) {
    Statement select =
        CTN_TRY(database.prepare("SELECT snapt_id,epoch,price_permille FROM snapt_price"));
    SnaptPrices prices;
    while (CTN_TRY(select.step())) {
        prices.permille_[{select.text(0), select.integer(1)}] = select.integer(2);
    }
    return prices;
}

double SnaptPrices::multiplier(const std::string& snapt_id, int64_t epoch) const {
    if (permille_.empty()) {
        return 1;
    }
    const auto next = permille_.upper_bound({snapt_id, epoch});
    const bool is_set = next != permille_.begin() && std::prev(next)->first.first == snapt_id;
    const int64_t permille = is_set ? std::prev(next)->second : int64_t{kUsualPricePermille};
    return static_cast<double>(permille) / kUsualPricePermille;
}

Result<void> set_snapt_price(Database& database,
                             const std::string& snapt_id,
                             int64_t epoch,
                             uint32_t price_permille) {
    Statement insert = CTN_TRY(database.prepare(
        "INSERT INTO snapt_price(snapt_id,epoch,price_permille) SELECT ?1,?2,?3 WHERE ?3<>"
        "coalesce((SELECT price_permille FROM snapt_price WHERE snapt_id=?1 AND epoch<?2 "
        "ORDER BY epoch DESC LIMIT 1),?4)"));
    return insert.bind(1, std::string_view(snapt_id))
        .bind(2, epoch)
        .bind(3, int64_t{price_permille})
        .bind(4, int64_t{kUsualPricePermille})
        .run();
}

}  // namespace continuo::snapt::store
