// Charges: usage records become money. Records of an account and class that ended in one quarter of
// an hour are charged together, under the plan that is in force at its beginning; no day or month
// of any zone begins within one. UsageBooker makes them. Charges and their entries are only added,
// and each record is in one charge that was not replaced.
#pragma once

#include "rating/rate.hpp"
#include "snapt/accounting/money.hpp"
#include "snapt/accounting/plan_book.hpp"

namespace continuo::snapt {

inline constexpr int64_t kQuarterUs = 900'000'000;
// Usage that ended earlier is booked as a correction, with the time of booking: the statement of
// its month was made already.
inline constexpr int64_t kCloseAfterUs = int64_t{48} * 3600 * 1'000'000;
// References of entries that are booked here begin so; nobody else's do.
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

// A usage record, as far as its charge is made of it.
struct ChargedRecord {
    std::string user;
    int64_t account_id = kNoAccount;
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
    int64_t account_id = kNoAccount;
    std::string snapt_id;
    int64_t epoch = 0;
    int64_t first_seq = 0;
    int64_t last_seq = 0;
    int64_t quarter = 0;  // since 1970
    int64_t cls = 0;
    PlanTerms terms;
    ChargeSums sums;
    std::optional<int64_t> entry_id;     // none: it came to nothing
    std::optional<int64_t> discount_id;  // of a usage entry
    std::optional<int64_t> replaces;
    std::string fault;  // why it is of no plan although there is one; empty: no fault

    int64_t from_us() const { return quarter * kQuarterUs; }
};

// Charges of quarters that begin in a span.
struct RerateSpan {
    int64_t from_us = 0;
    int64_t to_us = 0;
    std::optional<std::string> user;  // accounts of this name only
    std::optional<PlanTerms> terms;   // none: the plan that is in force now for that time
};
struct Rerated {
    size_t charges = 0;  // that were replaced
    size_t gone = 0;     // whose records were removed, so that they stay
    int64_t net_ud = 0;  // what more is charged; below zero: less
    int64_t next = 0;    // where to go on; 0: done
};
// Replaces charges whose plan is another one, each difference booked as a correction, and commits;
// `limit` are looked at, from `after` on (0, then Rerated::next), before others are locked out.
base::Result<Rerated> rerate(Database& database,
                             PlanBook& plans,
                             const RerateSpan& span,
                             int64_t now_us,
                             const std::string& actor,
                             int64_t after,
                             size_t limit);

// When usage begins whose charge has a fault, and was not rated again since; nothing: none is.
base::Result<std::optional<int64_t>> first_fault_us(Database& database);
// The same as a sentence, with how many there are; empty: none.
base::Result<std::string> charge_trouble(Database& database);

// Charges that were not replaced, or with `all` every one, in their order.
base::Result<void> visit_charges(Database& database,
                                 bool all,
                                 const std::function<base::Result<void>(const Charge&)>& visit);
// Sums of charges anew, from the records that are still there. Charges of an account and quarter
// are best asked for one after the other: it keeps the records of the latest.
class ChargeSummer {
  public:
    explicit ChargeSummer(Database& database) : database_(database) {}
    // Null for no plan.
    base::Result<ChargeSums> sums(const Charge& charge, const rating::Plan* plan);

  private:
    base::Result<void> load(const Charge& charge);

    Database& database_;
    Charge range_;  // that records_ are of
    std::vector<ChargedRecord> records_;
};

}  // namespace continuo::snapt
