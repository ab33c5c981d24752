// The ledger's prepared statements, and the changes that a transaction collects. Private to
// ledger*.cpp.
#pragma once

#include "snapt/ledger/ledger.hpp"

#include <algorithm>
#include <initializer_list>
#include <unordered_set>
#include <utility>

namespace continuo::snapt::ledger {

// Changes in memory, applied after the commit.
struct Ledger::Sealing {
    std::unordered_map<uint64_t, Sealed> sealed;
    std::vector<uint32_t> freed_slots;
    std::vector<uint64_t> freed_flows;
    std::vector<uint32_t> ended_sessions;
    std::unordered_set<uint32_t> sessions_in_use;
    std::map<MergeKey, SlotImage> merged;  // changed ones
    bool ends_merged = false;
    std::unordered_map<std::string, uint32_t> records_of;  // new values of changed users
    uint64_t merged_flows = 0;
    int64_t next_seq = 0;
    size_t records = 0;
    RecordSums sums;  // over those records
    std::vector<flow::UsageRecord> watched;
    uint64_t orphans = 0;
    ClassCounts running{};  // counted in open slots; `ended`: in closed ones
    ClassCounts ended{};
};

inline int64_t as_stored(uint64_t value) {
    return static_cast<int64_t>(value);
}
inline base::ByteView bytes_of(const SlotImage& image) {
    return {reinterpret_cast<const uint8_t*>(&image), sizeof image};
}

inline constexpr int64_t kQuarterHourUs = int64_t{900} * 1'000'000;
// The start of a record, so that the day of any zone is a sum of whole records. It is before
// `end_us`.
inline int64_t within_quarter(int64_t start_us, int64_t end_us) {
    const int64_t last_us = end_us - 1;
    return std::max(start_us, last_us - last_us % kQuarterHourUs);
}

// Sums, and the greater delay_us_max.
void add_counters(flow::CounterValues& sum, const flow::CounterValues& delta);

struct Ledger::Statements {
    RecordStore records;
    store::Statement select_state;
    store::Statement update_state;
    store::Statement insert_event;
    store::Statement select_sessions;
    store::Statement insert_session;
    store::Statement delete_session;
    store::Statement insert_session_record;
    store::Statement select_apps;
    store::Statement upsert_app;
    store::Statement delete_apps;
    store::Statement select_flows;
    store::Statement upsert_flow;
    store::Statement upsert_merged;
    store::Statement upsert_checkpoint;
    store::Statement delete_flow;

    static base::Result<Statements> prepare(store::Database& database) {
        Statements all;
        all.records = CTN_TRY(RecordStore::open(database));
        const std::initializer_list<std::pair<store::Statement*, const char*>> texts = {
            {&all.select_state, "SELECT v FROM state WHERE k=?"},
            {&all.update_state, "UPDATE state SET v=?2 WHERE k=?1"},
            {&all.insert_event, "INSERT INTO event(at,mono,kind,detail) VALUES(?,?,?,?)"},
            {&all.select_sessions,
             "SELECT no,session_id,user_id,cnapt_id,sharer_id,t_open,account_id FROM open_session"},
            {&all.insert_session,
             "INSERT INTO open_session(no,session_id,user_id,cnapt_id,sharer_id,t_open,account_id) "
             "VALUES(?,?,?,?,?,?,?)"},
            {&all.delete_session, "DELETE FROM open_session WHERE no=?"},
            {&all.insert_session_record,
             "INSERT INTO session_record(epoch,no,session_id,user_id,cnapt_id,sharer_id,t_open,"
             "t_close,tun_up,tun_down,account_id) VALUES(?,?,?,?,?,?,?,?,?,?,?)"},
            {&all.select_apps, "SELECT session_no,tag,name FROM open_app"},
            {&all.upsert_app, "INSERT INTO open_app(session_no,tag,name) VALUES(?,?,?) "
                              "ON CONFLICT DO UPDATE SET name=excluded.name"},
            {&all.delete_apps, "DELETE FROM open_app WHERE session_no=?"},
            {&all.select_flows, "SELECT flow_id,t_sealed,sealed,ckpt FROM open_flow"},
            {&all.upsert_flow,
             "INSERT INTO "
             "open_flow(flow_id,session_no,cls,proto,t_open,t_sealed,sealed,ckpt,closed) "
             "VALUES(?1,?2,?3,?4,?5,?6,?7,?7,?8) "
             "ON CONFLICT DO UPDATE SET t_sealed=?6,sealed=?7,ckpt=?7,closed=?8"},
            {&all.upsert_merged,
             "INSERT INTO "
             "open_flow(flow_id,session_no,cls,proto,t_open,t_sealed,sealed,ckpt,closed) "
             "VALUES(?1,?2,?3,0,?4,?4,?5,?6,0) ON CONFLICT DO UPDATE SET ckpt=?6"},
            {&all.upsert_checkpoint,
             "INSERT INTO "
             "open_flow(flow_id,session_no,cls,proto,t_open,t_sealed,sealed,ckpt,closed) "
             "VALUES(?1,?2,?3,?4,?5,?5,?6,?7,0) ON CONFLICT DO UPDATE SET ckpt=?7"},
            {&all.delete_flow, "DELETE FROM open_flow WHERE flow_id=?"},
        };
        for (const auto& [statement, sql] : texts) {
            *statement = CTN_TRY(database.prepare(sql));
        }
        return all;
    }

    base::Result<int64_t> state(std::string_view key) {
        select_state.bind(1, key);
        if (!CTN_TRY(select_state.step())) {
            return base::Error{base::Errc::Malformed, "ledger.db is damaged", 0};
        }
        const int64_t value = select_state.integer(0);
        CTN_TRY(select_state.run());
        return value;
    }
    base::Result<void> set_state(std::string_view key, int64_t value) {
        return update_state.bind(1, key).bind(2, value).run();
    }
};

}  // namespace continuo::snapt::ledger
