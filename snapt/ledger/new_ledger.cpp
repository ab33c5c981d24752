#include "snapt/ledger/new_ledger.hpp"

#include "snapt/ledger/ledger.hpp"
#include "snapt/store/database.hpp"
#include "snapt/store/folder_lock.hpp"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace continuo::snapt::ledger {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using store::Database;

constexpr int64_t kMicrosecondsPerSecond = 1'000'000;

Result<void> make_database(const std::string& path, int64_t first_number) {
    std::error_code ignored;
    for (const char* part : {"", "-wal", "-shm"}) {
        std::filesystem::remove(path + part, ignored);
    }
    Database database = CTN_TRY(Database::open(path, store::OpenMode::Renew));
    const std::string number = std::to_string(first_number);
    const std::string sql = "UPDATE state SET v=" + number +
                            " WHERE k='epoch'; INSERT INTO sqlite_sequence(name,seq) "
                            "VALUES('account'," +
                            number + "); PRAGMA wal_checkpoint(TRUNCATE);";
    return database.execute(sql.c_str());
}

Result<void> move(const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) {
        return Error{Errc::System, "ledger.db cannot be moved", errno};
    }
    return {};
}

Result<void> sync_folder(const std::string& folder) {
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool is_synced = fd >= 0 && ::fsync(fd) == 0;
    const Error error{Errc::System, "state folder cannot be synced", errno};
    if (fd >= 0) {
        ::close(fd);
    }
    return is_synced ? Result<void>() : Result<void>(error);
}

}  // namespace

Result<std::optional<std::string>> set_damaged_ledger_aside(const std::string& state_directory,
                                                            int64_t now_us) {
    const std::string path = state_directory + "/" + store::kLedgerFileName;
    const store::FolderLock lock = CTN_TRY(store::FolderLock::take(state_directory));
    if (!std::filesystem::exists(path) || !CTN_TRY(Database::is_damaged(path))) {
        return std::optional<std::string>();
    }
    const int64_t now_s = now_us / kMicrosecondsPerSecond;
    const std::string fresh = path + ".new";
    const std::string aside = path + ".damaged-" + std::to_string(now_s);
    CTN_TRY(make_database(fresh, now_s));
    // The old log first: it must not lie beside the new database. A database exists at any moment.
    CTN_TRY(move(path + "-wal", aside + "-wal"));
    CTN_TRY(move(path + "-shm", aside + "-shm"));
    if (::link(path.c_str(), aside.c_str()) != 0) {
        return Error{Errc::System, "ledger.db cannot be moved", errno};
    }
    CTN_TRY(move(fresh, path));
    CTN_TRY(sync_folder(state_directory));
    return std::optional(aside);
}

}  // namespace continuo::snapt::ledger
