// LedgerStore: the ledger's database as its only writer uses it: timed commits, events, records and
// the counters of the epoch. A file holds disk blocks back, so that due records can be written when
// no others are free; it is given up once, and created again when the disk has room.
#pragma once

#include "snapt/ledger/ledger_options.hpp"
#include "snapt/ledger/record_store.hpp"
#include "snapt/store/database.hpp"
#include "snapt/store/folder_lock.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace continuo::snapt::ledger {

// Upper ends of the buckets that durations of commits are counted in. A choice.
inline constexpr std::array kCommitBucketsS = {0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0};
struct CommitTimes {
    std::array<uint64_t, kCommitBucketsS.size()> within{};  // this long or shorter
    uint64_t count = 0;
    double sum_s = 0;
};

inline int64_t as_stored(uint64_t value) {
    return static_cast<int64_t>(value);
}

class LedgerStore {
  public:
    using Texts = std::initializer_list<std::pair<store::Statement*, const char*>>;

    // `options` must outlive it.
    LedgerStore(const LedgerOptions& options, store::Database database, store::FolderLock lock);
    // Call first.
    base::Result<void> prepare();
    base::Result<void> prepare(Texts texts);

    store::Database& database() { return database_; }
    RecordStore& records() { return records_; }

    base::Result<store::Transaction> begin() { return store::Transaction::begin(database_); }
    base::Result<void> commit(store::Transaction& transaction);
    base::Result<int64_t> state(std::string_view key);
    base::Result<void> write_state(int64_t epoch, int64_t next_seq);
    base::Result<void> write_event(int64_t at_us, std::string_view kind, const std::string& detail);
    // Whether the database can be written: commits a test event.
    base::Result<void> probe_write(int64_t now_us);
    // Whether another try is worthwhile after this error.
    bool give_up_reserve(const base::Error& error, int64_t now_us);
    // On a full disk `write` is called once more, with the reserve given up.
    template <typename Write>
    auto write_twice(int64_t now_us, const Write& write) {
        auto written = write();
        if (!written && give_up_reserve(written.error(), now_us)) {
            written = write();
        }
        return written;
    }

    void look_at_disk(int64_t now_us);
    bool is_disk_low() const { return is_disk_low_; }  // LedgerOptions::min_free_bytes
    const std::optional<uint64_t>& free_bytes() const { return free_bytes_; }
    const CommitTimes& commits() const { return commits_; }

  private:
    bool make_reserve(uint64_t spare_bytes) const;

    const LedgerOptions& options_;
    store::Database database_;
    store::FolderLock lock_;
    std::string reserve_path_;
    RecordStore records_;
    store::Statement select_state_;
    store::Statement update_state_;
    store::Statement insert_event_;
    CommitTimes commits_;
    std::optional<uint64_t> free_bytes_;
    bool is_disk_low_ = false;
};

}  // namespace continuo::snapt::ledger
