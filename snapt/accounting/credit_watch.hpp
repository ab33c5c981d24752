// CreditWatch: which of the present users have no credit left. Usage counts at once: the balance
// has what is booked, and the rest is rated here, records as they will be booked and live flows as
// their records would be now. Belongs to the ledger's thread, which may be late: each look grants
// the bytes that the rest lasts for, at the price of late, and the data loop lets no more pass
// until the next one.
#pragma once

#include "snapt/accounting/user_meter.hpp"
#include "snapt/ledger/charges.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/store/plan_book.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace continuo::snapt::accounting {

// Between two looks: with what follows, a user passes its limit by less than a second of its rate.
inline constexpr std::chrono::milliseconds kCreditLook{500};
// At the end of a grant a look is asked for; no more of them than this. A choice, not measured.
inline constexpr std::chrono::milliseconds kLeastBetweenCreditLooks{50};
// Granted while the price of a user's bytes is unknown. A choice: less than a second at 8 Mbit/s.
inline constexpr int64_t kFirstGrantBytes = int64_t{1} << 20;
// The most that is granted, since a price may rise from nothing. A choice: 8 s at 1 Gbit/s, which
// is 16 looks.
inline constexpr uint64_t kMostGrantBytes = uint64_t{1} << 30;
// Entries of an account in which its latest payment is looked for: 52 days at two each quarter of
// an hour. A choice.
inline constexpr int64_t kMostEntriesBack = 10'000;
// Entries that a look reads for that, of all accounts: 0.4 ms from a warm cache, 1.5 to 6 ms on a
// processor that others use.
inline constexpr int64_t kMostEntriesALook = 1'000;
// Entries that take as long as the questions for an account. A choice, not measured.
inline constexpr int64_t kEntriesOfAnAccount = 20;
// Below this share a warning ends, since what has no record yet may become cheaper: at one bound it
// would come and go. A choice.
inline constexpr int64_t kEndWarningPercent = 75;
static_assert(kEndWarningPercent < kWarnPercent);

class CreditWatch {
  public:
    // `ledger` must outlive it. Nobody else takes its watched records.
    explicit CreditWatch(ledger::Ledger& ledger) : ledger_(ledger), database_(ledger.database()) {}

    // Tells the meter whether it has credit; call before its traffic. Watches it while it lives.
    base::Result<void> add(const std::shared_ptr<UserMeter>& meter);
    bool is_empty() const { return accounts_.empty(); }
    // Reads what has changed, rates what is new, and tells the meters. Seals the flows of users who
    // have no credit left by now, so that their price is final. True: some meter was told other
    // than before. After an error the meters stay as they are.
    base::Result<bool> look(int64_t now_us);

  private:
    struct Meter {
        std::weak_ptr<UserMeter> meter;
        uint64_t counted = 0;  // before the look
    };
    // From an account's latest entry back to its latest payment, some entries with each look.
    struct PaymentSearch {
        int64_t entries = 0;     // the account's when the search began
        int64_t last_entry = 0;  // the last of these
        int64_t read_from = 0;   // those from this one on are read
        int64_t balance_ud = 0;  // before these
        int64_t count = 0;       // how many they are
    };
    struct Watched {
        std::string user;
        std::vector<Meter> meters;
        std::optional<int64_t> limit_ud;  // none: no balance is too low
        int64_t balance_ud = 0;
        int64_t unbooked_ud = 0;  // the price of records that no charge has
        int64_t live_ud = 0;      // the price of traffic without a record
        int64_t live_bytes = 0;
        int64_t fresh_ud = 0;  // the price of records since the last look
        int64_t fresh_bytes = 0;
        std::optional<double> ud_of_byte;  // price of the latest traffic that had one
        int64_t seen_charge = 0;           // later ones lower unbooked_ud
        bool must_recount = true;
        bool is_out = false;
        bool is_low = false;                  // warned of
        int64_t entries = 0;                  // booked, with balance_ud
        int64_t paid_ud = 0;                  // balance after the latest payment
        int64_t seen_entry = 0;               // up to which payments were looked for
        std::optional<int64_t> seen_entries;  // how many they are
        std::optional<PaymentSearch> search;

        int64_t left_ud() const;
        void note_low();
        void take_fresh(int64_t cost_ud, int64_t bytes);
        void note_price();
    };

    bool drop_gone();
    base::Result<void> read_changes();
    base::Result<void> take_charges();
    base::Result<void> read_limits();
    base::Result<void> read_money(store::Statement& select, int64_t account_id, Watched& watched);
    base::Result<void> find_payments();
    base::Result<void> begin_search(int64_t account_id, Watched& watched);
    base::Result<int64_t> find_payment(int64_t account_id, Watched& watched, int64_t most);
    base::Result<void> recount(int64_t account_id, Watched& watched);
    base::Result<void> take_records();
    base::Result<void> rate_live(int64_t now_us);
    base::Result<void> seal_exhausted(int64_t now_us);
    void note_counts();
    uint64_t granted_bytes(const Watched& watched) const;
    CreditGrant grant_from(const Watched& watched, uint64_t counted) const;
    bool tell();
    base::Result<int64_t> cost_of(const flow::UsageRecord& record);
    base::Result<int64_t> cost_of(const ledger::ChargedRecord& record, const std::string& snapt_id);
    void tell_ledger();
    void recount_all();  // at the next look
    base::Result<bool> look_once(int64_t now_us);

    ledger::Ledger& ledger_;
    store::Database& database_;
    store::PlanBook plans_;
    std::map<int64_t, Watched> accounts_;
    std::optional<int64_t> seen_version_;  // the database's, as other connections changed it
    std::optional<int64_t> last_charge_;   // whose accounts have it
};

}  // namespace continuo::snapt::accounting
