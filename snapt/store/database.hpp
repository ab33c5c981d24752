// Database and Statement: the part of SQLite that accounting needs, without its header. A
// connection belongs to one thread at a time. Errors carry a sentence for the operator in `where`.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace continuo::snapt::store {

class TimeZone;

inline constexpr const char* kLedgerFileName = "ledger.db";

// Parameters count from 1, columns from 0. A failed bind is reported by the next step.
class Statement {
  public:
    Statement() = default;  // useless until assigned
    Statement& bind(int parameter, int64_t value);
    Statement& bind(int parameter, std::string_view text);
    Statement& bind(int parameter, base::ByteView bytes);
    Statement& bind(int parameter, const std::optional<int64_t>& value);
    Statement& bind(int parameter, const std::optional<std::string>& text);
    Statement& bind_null(int parameter);

    // True: there is a row; false: done, and the statement can be used again.
    base::Result<bool> step();
    // Steps to the end.
    base::Result<void> run();

    bool is_null(int column) const;
    int64_t integer(int column) const;
    std::string text(int column) const;
    base::ByteView blob(int column) const;  // valid until the next step
    std::optional<std::string> optional_text(int column) const;

  private:
    friend class Database;
    struct Finalizer {
        void operator()(sqlite3_stmt* statement) const;
    };
    explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
    void note(int result);

    std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
    int bind_result_ = 0;
};

// Renew: ReadWrite by the holder of the FolderLock.
enum class OpenMode : uint8_t { Renew, ReadWrite, ReadOnly };

// True when `error`, which must come from a database, means that the disk is full.
bool is_disk_full(const base::Error& error);

class Database {
  public:
    // Opens the ledger database. Unless ReadOnly, creates it (0600) with its tables if missing,
    // upgrades an older version, and sets WAL with synchronous=FULL. Fails on a damaged or foreign
    // file and on a newer version; on an older one in mode ReadOnly, and in mode ReadWrite while a
    // process that uses its tables holds the folder's lock. Waits up to kBusyTimeoutMs for other
    // writers, as every later call does.
    static base::Result<Database> open(const std::string& path, OpenMode mode);
    static constexpr int kBusyTimeoutMs = 5000;

    // Reads all of a file of any version up to this one and changes nothing: whether it is damaged
    // or another program's. An empty file is neither. An error where that cannot be told: input
    // errors are no damage.
    static base::Result<bool> is_damaged(const std::string& path);

    base::Result<void> execute(const char* sql);
    base::Result<Statement> prepare(const char* sql);
    int64_t changes() const;  // rows changed by the last statement
    bool in_transaction() const;

    // SQL functions zone_day(us) -> "2026-11-01", zone_month(us) -> "2026-11", and
    // zone_midnight(us) -> TimeZone::midnight_quarter() or null; `zone` must
    // outlive their use.
    base::Result<void> set_zone(const TimeZone& zone);

    // Called at intervals during every statement: true ends it with LimitReached. Null: none.
    void set_give_up(const std::function<bool()>* give_up);

  private:
    struct Closer {
        void operator()(sqlite3* connection) const;
    };
    explicit Database(sqlite3* connection) : connection_(connection) {}
    base::Result<void> check_owner(OpenMode mode);
    base::Result<void> create_schema();
    base::Result<void> migrate(const std::string& path, OpenMode mode);

    std::unique_ptr<sqlite3, Closer> connection_;
};

// BEGIN IMMEDIATE … COMMIT; rolls back when destroyed without a successful commit.
class Transaction {
  public:
    static base::Result<Transaction> begin(Database& database);
    Transaction(Transaction&& other) noexcept
        : database_(std::exchange(other.database_, nullptr)) {}
    Transaction& operator=(Transaction&&) = delete;
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    ~Transaction();
    base::Result<void> commit();

  private:
    explicit Transaction(Database& database) : database_(&database) {}
    Database* database_;
};

// Pause between two of many transactions, so that waiting processes find the lock free: they try
// every 100 ms at the latest.
inline constexpr std::chrono::milliseconds kBetweenTransactions{50};
void pause_between_transactions();

// Makes queries see one snapshot until it is destroyed.
class ReadMoment {
  public:
    explicit ReadMoment(Database& database) : database_(database) {}
    ReadMoment(const ReadMoment&) = delete;
    ReadMoment& operator=(const ReadMoment&) = delete;
    ~ReadMoment();
    base::Result<void> begin() { return database_.execute("BEGIN"); }

  private:
    Database& database_;
};

}  // namespace continuo::snapt::store
