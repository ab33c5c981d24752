// OpenSessions: the sessions of an epoch whose usage is not completely recorded: their identities,
// which records take from here, and the names of their applications. Their rows, too.
#pragma once

#include "common/flow/accounting_record.hpp"
#include "snapt/ledger/ledger_store.hpp"
#include "snapt/store/account.hpp"

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace continuo::snapt::ledger {

// Most application names per session; further ones are dropped.
inline constexpr size_t kMaxAppsPerSession = 256;
// Names that wait for the next pass; further ones must be sent again.
inline constexpr size_t kMaxPendingApps = 16384;
inline constexpr size_t kMaxAppNameBytes = 64;

struct SessionIdentity {
    flow::SessionKey session_id{};
    std::string user_id;
    int64_t account_id = store::kNoAccount;
    std::string cnapt_id;
    std::string sharer_id;
    int64_t opened_at_us = 0;
};
struct SessionOpening {
    uint32_t number = 0;  // unique in the epoch
    SessionIdentity identity;
};
// Bytes of a session outside its flows.
struct SessionOverhead {
    uint64_t tun_up = 0;
    uint64_t tun_down = 0;
};

class OpenSessions {
  public:
    // Both must outlive it.
    OpenSessions(LedgerStore& store, const LedgerOptions& options)
        : store_(store), options_(options) {}
    base::Result<void> prepare(int64_t epoch);
    base::Result<void> load();

    // Commits their rows.
    base::Result<void> open(std::span<const SessionOpening> openings);
    void close(uint32_t number, const SessionOverhead& overhead, int64_t now_us);
    void close_all(int64_t now_us);
    void name_app(uint32_t number, uint16_t tag, std::string_view name);

    const SessionIdentity* find(uint32_t number) const;  // null: it was never opened
    bool is_of(uint32_t number, const std::set<std::string>& users) const;
    std::unordered_set<uint32_t> of_accounts(const std::set<int64_t>& accounts) const;
    // A record of that increase, without its number, times and cause.
    flow::UsageRecord record_of(const SlotImage& image, const flow::CounterValues& delta) const;

    // In a transaction: new names, and records of closed sessions that have no flows. Returns the
    // numbers of these.
    base::Result<std::vector<uint32_t>> write(const std::unordered_set<uint32_t>& with_flows);
    bool has_new_names() const { return !new_names_.empty(); }
    // After its commit.
    void take(const std::vector<uint32_t>& ended);

  private:
    struct Session {
        SessionIdentity identity;
        std::map<uint16_t, std::string> apps;
        bool is_closed = false;
        int64_t closed_at_us = 0;
        SessionOverhead overhead;
    };
    base::Result<void> write_openings(std::span<const SessionOpening> openings);
    base::Result<void> write_record(uint32_t number, const Session& session);
    void fill_identity(flow::UsageRecord& record, const SlotImage& image) const;

    LedgerStore& store_;
    const LedgerOptions& options_;
    int64_t epoch_ = 0;
    std::unordered_map<uint32_t, Session> sessions_;
    std::map<std::pair<uint32_t, uint16_t>, std::string> new_names_;  // by session and tag
    store::Statement select_sessions_;
    store::Statement insert_session_;
    store::Statement delete_session_;
    store::Statement insert_record_;
    store::Statement select_apps_;
    store::Statement upsert_app_;
    store::Statement delete_apps_;
};

}  // namespace continuo::snapt::ledger
