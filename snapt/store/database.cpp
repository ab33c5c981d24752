#include "snapt/store/database.hpp"

#include "common/base/log.hpp"
#include "snapt/store/folder_lock.hpp"
#include "snapt/store/migrations.hpp"
#include "snapt/store/time_zone.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

namespace continuo::snapt::store {
namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr Error kIsNewer{Errc::Unsupported, "ledger.db was written by a newer version", 0};

Error error_of(sqlite3* connection, int code) {
    const int system = connection == nullptr ? 0 : sqlite3_system_errno(connection);
    switch (code & 0xFF) {
    case SQLITE_NOTADB:
        return {Errc::Malformed, "ledger.db is not a ledger database (not an SQLite file)", 0};
    case SQLITE_CORRUPT:
        return {Errc::Malformed, "ledger.db is damaged", 0};
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return {Errc::System, "ledger.db or its folder cannot be written", EACCES};
    case SQLITE_CANTOPEN:
        return {Errc::System, "ledger.db cannot be opened", system != 0 ? system : ENOENT};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return {Errc::WouldBlock, "ledger.db is locked by another process", 0};
    case SQLITE_FULL:
        return {Errc::LimitReached, "disk of ledger.db is full", ENOSPC};
    case SQLITE_INTERRUPT:
        return {Errc::LimitReached, "ledger.db: the answer took too long", 0};
    case SQLITE_CONSTRAINT:
        return {Errc::InvalidState, "ledger.db already has a row of this key", 0};
    case SQLITE_IOERR:
        return {Errc::System, "ledger.db: input/output error", system != 0 ? system : EIO};
    default:
        return {Errc::System, sqlite3_errstr(code), system};
    }
}

const TimeZone& zone_of(sqlite3_context* context) {
    return *static_cast<const TimeZone*>(sqlite3_user_data(context));
}

void zone_day(sqlite3_context* context, int /*count*/, sqlite3_value** values) {
    const std::string day = zone_of(context).day(sqlite3_value_int64(values[0]));
    sqlite3_result_text(context, day.data(), static_cast<int>(day.size()), SQLITE_TRANSIENT);
}

void zone_month(sqlite3_context* context, int /*count*/, sqlite3_value** values) {
    const std::string month = zone_of(context).month(sqlite3_value_int64(values[0]));
    sqlite3_result_text(context, month.data(), static_cast<int>(month.size()), SQLITE_TRANSIENT);
}

void zone_midnight(sqlite3_context* context, int /*count*/, sqlite3_value** values) {
    const auto quarter = zone_of(context).midnight_quarter(sqlite3_value_int64(values[0]));
    if (quarter) {
        sqlite3_result_int64(context, *quarter);
    }
}

Result<int64_t> query_integer(Database& database, const char* sql) {
    Statement statement = CTN_TRY(database.prepare(sql));
    if (!CTN_TRY(statement.step())) {
        return Error{Errc::Malformed, "ledger.db is damaged", 0};
    }
    return statement.integer(0);
}

// The file holds keys: nobody else may read it. O_EXCL: closing a second descriptor of a file in
// use would drop SQLite's locks.
void create_private(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        ::close(fd);
    }
}

int length_of(size_t size) {
    CTN_ASSERT(size <= static_cast<size_t>(std::numeric_limits<int>::max()));
    return static_cast<int>(size);
}

}  // namespace

bool is_disk_full(const Error& error) {
    return error.sys_errno == ENOSPC || error.sys_errno == EDQUOT;
}

void Statement::Finalizer::operator()(sqlite3_stmt* statement) const {
    sqlite3_finalize(statement);
}

void Statement::note(int result) {
    if (bind_result_ == SQLITE_OK) {
        bind_result_ = result;
    }
}

Statement& Statement::bind(int parameter, int64_t value) {
    note(sqlite3_bind_int64(statement_.get(), parameter, value));
    return *this;
}

Statement& Statement::bind(int parameter, std::string_view text) {
    const char* data = text.data() == nullptr ? "" : text.data();
    note(sqlite3_bind_text(statement_.get(), parameter, data, length_of(text.size()),
                           SQLITE_TRANSIENT));
    return *this;
}

Statement& Statement::bind(int parameter, base::ByteView bytes) {
    note(sqlite3_bind_blob(statement_.get(), parameter, bytes.data(), length_of(bytes.size()),
                           SQLITE_TRANSIENT));
    return *this;
}

Statement& Statement::bind(int parameter, const std::optional<int64_t>& value) {
    return value ? bind(parameter, *value) : bind_null(parameter);
}

Statement& Statement::bind(int parameter, const std::optional<std::string>& text) {
    return text ? bind(parameter, std::string_view(*text)) : bind_null(parameter);
}

Statement& Statement::bind_null(int parameter) {
    note(sqlite3_bind_null(statement_.get(), parameter));
    return *this;
}

Result<bool> Statement::step() {
    if (bind_result_ != SQLITE_OK) {
        const int code = std::exchange(bind_result_, SQLITE_OK);
        return error_of(sqlite3_db_handle(statement_.get()), code);
    }
    const int code = sqlite3_step(statement_.get());
    if (code == SQLITE_ROW) {
        return true;
    }
    sqlite3_reset(statement_.get());
    if (code == SQLITE_DONE) {
        return false;
    }
    return error_of(sqlite3_db_handle(statement_.get()), code);
}

Result<void> Statement::run() {
    while (CTN_TRY(step())) {
    }
    return {};
}

bool Statement::is_null(int column) const {
    return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int64_t Statement::integer(int column) const {
    return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::text(int column) const {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column));
    return bytes == nullptr ? std::string() : std::string(bytes, size);
}

base::ByteView Statement::blob(int column) const {
    const auto* bytes = static_cast<const uint8_t*>(sqlite3_column_blob(statement_.get(), column));
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column));
    return bytes == nullptr ? base::ByteView() : base::ByteView(bytes, size);
}

std::optional<std::string> Statement::optional_text(int column) const {
    return is_null(column) ? std::nullopt : std::optional(text(column));
}

void Database::Closer::operator()(sqlite3* connection) const {
    sqlite3_close_v2(connection);
}

Result<Database> Database::open(const std::string& path, OpenMode mode) {
    const bool may_write = mode != OpenMode::ReadOnly;
    if (may_write) {
        create_private(path);
    }
    sqlite3* connection = nullptr;
    const int flags = may_write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    const int code = sqlite3_open_v2(path.c_str(), &connection, flags, nullptr);
    Database database(connection);
    if (code != SQLITE_OK) {
        return error_of(connection, code);
    }
    sqlite3_extended_result_codes(connection, 1);
    sqlite3_busy_timeout(connection, kBusyTimeoutMs);
    CTN_TRY(database.check_owner(mode));
    if (may_write) {
        CTN_TRY(database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"));
        CTN_TRY(database.create_schema());
        CTN_TRY(database.migrate(path, mode));
    }
    return database;
}

namespace {

Result<bool> looks_damaged(Database& database) {
    const int64_t application = CTN_TRY(query_integer(database, "PRAGMA application_id"));
    const int64_t version = CTN_TRY(query_integer(database, "PRAGMA user_version"));
    const int64_t objects = CTN_TRY(query_integer(database, "SELECT count(*) FROM sqlite_schema"));
    if (application != kApplicationId) {
        return application != 0 || objects != 0;
    }
    if (version > kSchemaVersion) {
        return kIsNewer;
    }
    if (version < 1) {
        return true;
    }
    Statement check = CTN_TRY(database.prepare("PRAGMA quick_check(1)"));
    return !CTN_TRY(check.step()) || check.text(0) != "ok";
}

// Whether SQLite can read every byte of the database and its log: it calls a page that it cannot
// read a damage.
bool is_readable(sqlite3* connection) {
    constexpr int kChunk = 64 << 10;
    std::vector<char> chunk(size_t{kChunk});
    for (const int which : {SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER}) {
        sqlite3_file* file = nullptr;
        if (sqlite3_file_control(connection, "main", which, &file) != SQLITE_OK ||
            file == nullptr || file->pMethods == nullptr) {
            continue;
        }
        sqlite3_int64 size = 0;
        if (file->pMethods->xFileSize(file, &size) != SQLITE_OK) {
            return false;
        }
        for (sqlite3_int64 at = 0; at < size; at += kChunk) {
            const int code = file->pMethods->xRead(file, chunk.data(), kChunk, at);
            if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) {
                return false;
            }
        }
    }
    return true;
}

}  // namespace

Result<bool> Database::is_damaged(const std::string& path) {
    sqlite3* connection = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &connection, SQLITE_OPEN_READWRITE, nullptr);
    Database database(connection);
    if (code != SQLITE_OK) {
        return error_of(connection, code);
    }
    sqlite3_extended_result_codes(connection, 1);
    sqlite3_busy_timeout(connection, kBusyTimeoutMs);
    sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    const auto found = looks_damaged(database);
    if (!found && found.error().code != Errc::Malformed) {
        return found.error();
    }
    const bool is_damaged = !found || *found;
    if (is_damaged && !is_readable(connection)) {
        return error_of(nullptr, SQLITE_IOERR_READ);
    }
    return is_damaged;
}

Result<void> Database::check_owner(OpenMode mode) {
    if (mode != OpenMode::ReadOnly && sqlite3_db_readonly(connection_.get(), "main") == 1) {
        return error_of(connection_.get(), SQLITE_READONLY);
    }
    const int64_t application = CTN_TRY(query_integer(*this, "PRAGMA application_id"));
    const int64_t version = CTN_TRY(query_integer(*this, "PRAGMA user_version"));
    const int64_t objects = CTN_TRY(query_integer(*this, "SELECT count(*) FROM sqlite_schema"));
    if (application != kApplicationId) {
        if (application != 0 || objects != 0) {
            return Error{Errc::Malformed, "ledger.db belongs to another program", 0};
        }
        if (mode == OpenMode::ReadOnly) {
            return Error{Errc::NotFound, "ledger.db is empty", 0};
        }
    } else if (version > kSchemaVersion) {
        return kIsNewer;
    } else if (version < kSchemaVersion && mode == OpenMode::ReadOnly) {
        return Error{Errc::Unsupported, "ledger.db is of an older version, which snapt run renews",
                     0};
    }
    return {};
}

Result<void> Database::create_schema() {
    if (CTN_TRY(query_integer(*this, "PRAGMA application_id")) == kApplicationId) {
        return {};
    }
    Transaction transaction = CTN_TRY(Transaction::begin(*this));
    // Another process may have been faster.
    if (CTN_TRY(query_integer(*this, "PRAGMA application_id")) != kApplicationId) {
        CTN_TRY(execute(kSchemaSql));
        CTN_TRY(execute(kUsageSumsSql));
        const std::string owner = "PRAGMA application_id=" + std::to_string(kApplicationId) +
                                  "; PRAGMA user_version=" + std::to_string(kSchemaVersion);
        CTN_TRY(execute(owner.c_str()));
    }
    return transaction.commit();
}

Result<void> Database::migrate(const std::string& path, OpenMode mode) {
    if (CTN_TRY(query_integer(*this, "PRAGMA user_version")) == kSchemaVersion) {
        return {};
    }
    std::optional<FolderLock> lock;
    if (mode != OpenMode::Renew) {
        auto taken = FolderLock::take(std::filesystem::path(path).parent_path().string());
        if (!taken) {
            return Error{
                Errc::Unsupported,
                "ledger.db is of an older version, and a snapt runs with it; restart that, "
                "unless it is renewing it",
                0};
        }
        lock = std::move(taken).value();
    }
    base::log(base::LogLevel::Info,
              "ledger.db is of an older version: it is renewed, which takes some "
              "twenty seconds for a million records");
    Transaction transaction = CTN_TRY(Transaction::begin(*this));
    // Another process may have been faster.
    int64_t version = CTN_TRY(query_integer(*this, "PRAGMA user_version"));
    if (version < 1) {
        return Error{Errc::Malformed, "ledger.db is damaged", 0};
    }
    for (; version < kSchemaVersion; ++version) {
        CTN_TRY(execute(kMigrations[static_cast<size_t>(version - 1)]));
    }
    const std::string reached = "PRAGMA user_version=" + std::to_string(kSchemaVersion);
    CTN_TRY(execute(reached.c_str()));
    CTN_TRY(transaction.commit());
    base::log(base::LogLevel::Info, "ledger.db is renewed");
    return {};
}

Result<void> Database::execute(const char* sql) {
    const int code = sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) {
        return error_of(connection_.get(), code);
    }
    return {};
}

Result<Statement> Database::prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v2(connection_.get(), sql, -1, &statement, nullptr);
    if (code != SQLITE_OK) {
        return error_of(connection_.get(), code);
    }
    return Statement(statement);
}

int64_t Database::changes() const {
    return sqlite3_changes64(connection_.get());
}

bool Database::in_transaction() const {
    return sqlite3_get_autocommit(connection_.get()) == 0;
}

Result<void> Database::set_zone(const TimeZone& zone) {
    // SQLite's callback takes a plain pointer; the functions above only read through it.
    void* context = const_cast<TimeZone*>(&zone);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    constexpr int kFlags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
    using Function = void (*)(sqlite3_context*, int, sqlite3_value**);
    constexpr std::array<std::pair<const char*, Function>, 3> kFunctions = {
        {{"zone_day", zone_day}, {"zone_month", zone_month}, {"zone_midnight", zone_midnight}}};
    int code = SQLITE_OK;
    for (const auto& [name, function] : kFunctions) {
        code = code != SQLITE_OK
                   ? code
                   : sqlite3_create_function_v2(connection_.get(), name, 1, kFlags, context,
                                                function, nullptr, nullptr, nullptr);
    }
    if (code != SQLITE_OK) {
        return error_of(connection_.get(), code);
    }
    return {};
}

void Database::set_give_up(const std::function<bool()>* give_up) {
    constexpr int kStepsBetween = 10'000;  // steps of SQLite's machine: well below a millisecond
    const auto ask = [](void* asked) -> int {
        return (*static_cast<const std::function<bool()>*>(asked))() ? 1 : 0;
    };
    // SQLite's callback takes a plain pointer; the function above only reads through it.
    void* asked =
        const_cast<std::function<bool()>*>(  // NOLINT(cppcoreguidelines-pro-type-const-cast)
            give_up);
    sqlite3_progress_handler(connection_.get(), give_up == nullptr ? 0 : kStepsBetween,
                             give_up == nullptr ? nullptr : +ask, asked);
}

Result<Transaction> Transaction::begin(Database& database) {
    CTN_TRY(database.execute("BEGIN IMMEDIATE"));
    return Transaction(database);
}

Transaction::~Transaction() {
    if (database_ != nullptr && database_->in_transaction()) {
        static_cast<void>(database_->execute("ROLLBACK"));
    }
}

Result<void> Transaction::commit() {
    CTN_TRY(database_->execute("COMMIT"));
    database_ = nullptr;
    return {};
}

void pause_between_transactions() {
    std::this_thread::sleep_for(kBetweenTransactions);
}

ReadMoment::~ReadMoment() {
    if (database_.in_transaction()) {
        static_cast<void>(database_.execute("ROLLBACK"));
    }
}

}  // namespace continuo::snapt::store
