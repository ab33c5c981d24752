// Charges: the price of usage records. Records of an account and class that ended in one quarter of
// an hour are charged together, under the plan in force at its beginning; no day or month of any
// zone begins within a quarter. UsageBooker makes them. Charges and their entries are only added,
// and each record is in exactly one charge that was not replaced.
#pragma once

#include "rating/rate.hpp"
#include "snapt/store/money.hpp"
#include "snapt/store/plan_book.hpp"

namespace continuo::snapt::ledger {

inline constexpr int64_t kQuarterUs = 900'000'000;
// Usage that ended earlier is booked as a correction, at the time of booking: the statement of its
// month already exists.
inline constexpr int64_t kCloseAfterUs = int64_t{48} * 3600 * 1'000'000;
// Prefix of the references of entries booked here; nobody else uses it.
inline constexpr std::string_view kUsageRef = "u:";
inline constexpr std::string_view kDiscountRef = "d:";
inline constexpr std::string_view kRerateRef = "r:";
bool is_reserved_ref(std::string_view ref);

struct ChargeSums {
    int64_t records = 0;
    int64_t pay_up = 0;
    int64_t pay_down = 0;
    int64_t pre = 0;
    int64_t post = 0;
    int64_t gross_ud = 0;
    int64_t discount_ud = 0;

    bool operator==(const ChargeSums&) const = default;
    int64_t net_ud() const { return gross_ud - discount_ud; }
};

// The fields of a usage record that its charge needs.
struct ChargedRecord {
    std::string user;
    int64_t account_id = store::kNoAccount;
    int64_t epoch = 0;
    int64_t seq = 0;
    int64_t end_us = 0;
    int64_t cls = 0;
    ChargeSums bytes;
    rating::Usage usage;

    // A record is booked at its last microsecond.
    int64_t quarter() const { return (end_us - 1) / kQuarterUs; }
};

struct Charge {
    int64_t charge_id = 0;
    int64_t account_id = store::kNoAccount;
    std::string snapt_id;
    int64_t epoch = 0;
    int64_t first_seq = 0;
    int64_t last_seq = 0;
    int64_t quarter = 0;  // since 1970
    int64_t cls = 0;
    store::PlanTerms terms;
    ChargeSums sums;
    std::optional<int64_t> entry_id;     // none: the amount is zero
    std::optional<int64_t> discount_id;  // a usage entry's
    std::optional<int64_t> replaces;
    std::string fault;  // why no plan applies although there is one; empty: no fault

    int64_t from_us() const { return quarter * kQuarterUs; }
};

// Charges of quarters that begin in a span.
struct RerateSpan {
    int64_t from_us = 0;
    int64_t to_us = 0;
    std::optional<std::string> user;        // only accounts of this name
    std::optional<store::PlanTerms> terms;  // none: the plan now in force for that time
};
struct Rerated {
    size_t charges = 0;  // replaced charges
    size_t gone = 0;     // kept, because their records were removed
    int64_t net_ud = 0;  // additional charge; below zero: less
    int64_t next = 0;    // where to continue; 0: done
};
// Replaces charges made under a different plan, books each difference as a correction, and commits.
// Checks `limit` charges from `after` on (0, then Rerated::next) before it locks others out.
base::Result<Rerated> rerate(store::Database& database,
                             store::PlanBook& plans,
                             const RerateSpan& span,
                             int64_t now_us,
                             const std::string& actor,
                             int64_t after,
                             size_t limit);

// Start of the usage whose charge has a fault and was not re-rated; nothing: none.
base::Result<std::optional<int64_t>> first_fault_us(store::Database& database);
// The same as a sentence, with the number of charges; empty: none.
base::Result<std::string> charge_trouble(store::Database& database);

// Charges that were not replaced, or with `all` every one, in order.
base::Result<void> visit_charges(store::Database& database,
                                 bool all,
                                 const std::function<base::Result<void>(const Charge&)>& visit);
// Recomputes sums of charges from the records that are still there. Ask for charges of an account
// and quarter in a row: the latest records are cached.
class ChargeSummer {
  public:
    // Both must outlive it. The book has read what the database has.
    ChargeSummer(store::Database& database, const store::PlanBook& plans)
        : database_(database), plans_(plans) {}
    // Null for no plan.
    base::Result<ChargeSums> sums(const Charge& charge, const rating::Plan* plan);

  private:
    base::Result<void> load(const Charge& charge);

    store::Database& database_;
    const store::PlanBook& plans_;
    Charge range_;  // the charge whose records are in records_
    std::vector<ChargedRecord> records_;
};

}  // namespace continuo::snapt::ledger
