#include "snapt/ledger/ledger_store.hpp"

#include "common/base/log.hpp"
#include "common/io/unique_fd.hpp"

#include <algorithm>
#include <chrono>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::snapt::ledger {

using base::Result;
using store::Transaction;

namespace {

// Margin above `min_free_bytes` at which flows get their own records again.
constexpr uint64_t enough_free_bytes(uint64_t min_free_bytes) {
    return min_free_bytes + min_free_bytes / 4;
}

bool is_there(const std::string& path, uint64_t bytes) {
    struct stat file {};
    return ::stat(path.c_str(), &file) == 0 && static_cast<uint64_t>(file.st_size) >= bytes;
}

}  // namespace

LedgerStore::LedgerStore(const LedgerOptions& options,
                         store::Database database,
                         store::FolderLock lock)
    : options_(options)
    , database_(std::move(database))
    , lock_(std::move(lock))
    , reserve_path_(options.state_directory + "/" + kReserveFileName) {}

Result<void> LedgerStore::prepare() {
    records_ = CTN_TRY(RecordStore::open(database_));
    return prepare({
        {&select_state_, "SELECT v FROM state WHERE k=?"},
        {&update_state_, "UPDATE state SET v=?2 WHERE k=?1"},
        {&insert_event_, "INSERT INTO event(at,mono,kind,detail) VALUES(?,?,?,?)"},
    });
}

Result<void> LedgerStore::prepare(Texts texts) {
    for (const auto& [statement, sql] : texts) {
        *statement = CTN_TRY(database_.prepare(sql));
    }
    return {};
}

Result<void> LedgerStore::commit(Transaction& transaction) {
    const auto began_at = std::chrono::steady_clock::now();
    CTN_TRY(transaction.commit());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_at;
    for (size_t i = 0; i < kCommitBucketsS.size(); ++i) {
        commits_.within[i] += took.count() <= kCommitBucketsS[i] ? 1U : 0U;
    }
    ++commits_.count;
    commits_.sum_s += took.count();
    return {};
}

Result<int64_t> LedgerStore::state(std::string_view key) {
    select_state_.bind(1, key);
    if (!CTN_TRY(select_state_.step())) {
        return base::Error{base::Errc::Malformed, "ledger.db is damaged", 0};
    }
    const int64_t value = select_state_.integer(0);
    CTN_TRY(select_state_.run());
    return value;
}

Result<void> LedgerStore::write_state(int64_t epoch, int64_t next_seq) {
    CTN_TRY(update_state_.bind(1, std::string_view("epoch")).bind(2, epoch).run());
    return update_state_.bind(1, std::string_view("next_seq")).bind(2, next_seq).run();
}

Result<void>
LedgerStore::write_event(int64_t at_us, std::string_view kind, const std::string& detail) {
    const auto clocks = options_.clocks ? options_.clocks() : std::nullopt;
    return insert_event_.bind(1, at_us)
        .bind(2, clocks ? std::optional(clocks->boot_us) : std::nullopt)
        .bind(3, kind)
        .bind(4, std::string_view(detail))
        .run();
}

Result<void> LedgerStore::probe_write(int64_t now_us) {
    return write_twice(now_us, [&]() -> Result<void> {
        Transaction transaction = CTN_TRY(begin());
        CTN_TRY(write_event(now_us, "writable", "after a write that failed"));
        return commit(transaction);
    });
}

bool LedgerStore::make_reserve(uint64_t spare_bytes) const {
    const uint64_t bytes = options_.reserve_bytes;
    if (bytes == 0 || is_there(reserve_path_, bytes) || *free_bytes_ < bytes + spare_bytes) {
        return false;
    }
    const io::UniqueFd file(::open(reserve_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const bool is_made =
        file.is_open() && ::posix_fallocate(file.value(), 0, static_cast<off_t>(bytes)) == 0;
    if (!is_made) {
        ::unlink(reserve_path_.c_str());  // a partial reserve takes room and is useless
    }
    return is_made;
}

bool LedgerStore::give_up_reserve(const base::Error& error, int64_t now_us) {
    if (!store::is_disk_full(error) || options_.reserve_bytes == 0 ||
        ::unlink(reserve_path_.c_str()) != 0) {
        return false;
    }
    base::log(base::LogLevel::Error,
              "accounting: the disk is full; the reserve of %llu MiB is used",
              static_cast<unsigned long long>(options_.reserve_bytes >> 20U));
    static_cast<void>(write_event(now_us, "reserve_used", std::string(error.where)));
    return true;
}

void LedgerStore::look_at_disk(int64_t now_us) {
    free_bytes_ = options_.free_bytes(options_.state_directory);
    const uint64_t floor = options_.min_free_bytes;
    // As much again must be free, so that whatever filled the disk does not take it at once.
    if (free_bytes_ && make_reserve(std::max(enough_free_bytes(floor), options_.reserve_bytes))) {
        free_bytes_ = options_.free_bytes(options_.state_directory);
    }
    if (floor == 0 || !free_bytes_) {
        return;
    }
    const bool was_low = is_disk_low_;
    is_disk_low_ = *free_bytes_ < (was_low ? enough_free_bytes(floor) : floor);
    if (is_disk_low_ == was_low) {
        return;
    }
    base::log(base::LogLevel::Warning,
              is_disk_low_ ? "accounting: %llu MiB of disk are left: one record for each "
                             "session, class and interval until there is more"
                           : "accounting: %llu MiB of disk are left: a record for each flow",
              static_cast<unsigned long long>(*free_bytes_ >> 20U));
    static_cast<void>(write_event(now_us, is_disk_low_ ? "disk_low" : "disk_enough",
                                  std::to_string(*free_bytes_) + " bytes"));
}

}  // namespace continuo::snapt::ledger
