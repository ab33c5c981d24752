#include "snapt/accounting/usage_desk.hpp"

#include "common/base/log.hpp"
#include "common/host/privileges.hpp"
#include "snapt/ledger/charge_rows.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include <sys/resource.h>

namespace continuo::snapt::accounting {

using base::Result;
using ledger::kQuarterUs;
using ledger::UsageQuery;
using store::Database;
using store::OpenMode;
using store::Statement;
using store::Transaction;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int64_t kDayUs = 86'400'000'000;

struct RecordKey {
    std::string snapt_id;
    int64_t epoch = 0;
    int64_t seq = 0;
};

bool are_alike(const UsageQuery& one, const UsageQuery& other) {
    return one.is_own == other.is_own && (!one.is_own || one.user == other.user);
}

}  // namespace

// Where a plan is in use, keeps records that are not booked yet, and those needed for charges that
// failed.
Result<size_t> prune_records(Database& database, int64_t before_us, size_t limit) {
    // The keys first, without the lock that others wait for.
    Statement select = CTN_TRY(database.prepare(
        "SELECT snapt_id,epoch,seq FROM usage_record r INDEXED BY usage_time WHERE t_end<?1 AND "
        "(NOT EXISTS(SELECT 1 FROM plan_use) OR EXISTS(SELECT 1 FROM booked b WHERE "
        "b.snapt_id=r.snapt_id AND (r.epoch,r.seq)<=(b.epoch,b.seq))) ORDER BY t_end LIMIT ?2"));
    const auto faulty_us = CTN_TRY(ledger::first_fault_us(database));
    select.bind(1, std::min(before_us, faulty_us.value_or(before_us)))
        .bind(2, static_cast<int64_t>(limit));
    std::vector<RecordKey> keys;
    while (CTN_TRY(select.step())) {
        keys.push_back({select.text(0), select.integer(1), select.integer(2)});
    }
    if (keys.empty()) {
        return size_t{0};
    }
    Statement erase = CTN_TRY(
        database.prepare("DELETE FROM usage_record WHERE snapt_id=? AND epoch=? AND seq=?"));
    Transaction transaction = CTN_TRY(Transaction::begin(database));
    for (const RecordKey& key : keys) {
        CTN_TRY(erase.bind(1, std::string_view(key.snapt_id))
                    .bind(2, key.epoch)
                    .bind(3, key.seq)
                    .run());
    }
    CTN_TRY(transaction.commit());
    return keys.size();
}

namespace {

// Rows that are named by two numbers: first the keys, as above.
Result<size_t> prune_rows(
    Database& database, const char* keys_sql, const char* erase_sql, int64_t at_us, size_t limit) {
    Statement select = CTN_TRY(database.prepare(keys_sql));
    select.bind(1, at_us).bind(2, static_cast<int64_t>(limit));
    std::vector<std::pair<int64_t, int64_t>> keys;
    while (CTN_TRY(select.step())) {
        keys.emplace_back(select.integer(0), select.integer(1));
    }
    if (keys.empty()) {
        return size_t{0};
    }
    Statement erase = CTN_TRY(database.prepare(erase_sql));
    Transaction transaction = CTN_TRY(Transaction::begin(database));
    for (const auto& [first, second] : keys) {
        CTN_TRY(erase.bind(1, first).bind(2, second).run());
    }
    CTN_TRY(transaction.commit());
    return keys.size();
}

}  // namespace

Result<bool> prune_history(Database& database, int64_t before_us, size_t limit) {
    Statement oldest = CTN_TRY(database.prepare("SELECT min(t_start) FROM (SELECT t_start FROM "
                                                "usage_record ORDER BY t_end LIMIT 1)"));
    const bool has_records = CTN_TRY(oldest.step()) && !oldest.is_null(0);
    const int64_t at_us = has_records ? std::min(before_us, oldest.integer(0)) : before_us;
    CTN_TRY(oldest.run());
    const size_t sessions = CTN_TRY(prune_rows(
        database, "SELECT epoch,no FROM session_record WHERE t_close<? ORDER BY epoch,no LIMIT ?",
        "DELETE FROM session_record WHERE epoch=? AND no=?", at_us, limit));
    const size_t events =
        CTN_TRY(prune_rows(database, "SELECT at,id FROM event WHERE at<? ORDER BY id LIMIT ?",
                           "DELETE FROM event WHERE at=? AND id=?", at_us, limit));
    return sessions == limit || events == limit;
}

Result<std::unique_ptr<UsageDesk>> UsageDesk::start(const std::string& path,
                                                    uint32_t retention_days) {
    Database reader = CTN_TRY(Database::open(path, OpenMode::ReadOnly));
    Database writer = CTN_TRY(Database::open(path, OpenMode::ReadWrite));
    Database quota_reader = CTN_TRY(Database::open(path, OpenMode::ReadOnly));
    return std::unique_ptr<UsageDesk>(new UsageDesk(std::move(reader), std::move(writer),
                                                    std::move(quota_reader), retention_days));
}

UsageDesk::UsageDesk(Database reader,
                     Database writer,
                     Database quota_reader,
                     uint32_t retention_days)
    : reader_(std::move(reader))
    , writer_(std::move(writer))
    , retention_days_(retention_days)
    , booker_(writer_)
    , quota_reader_(std::move(quota_reader))
    , quotas_(quota_reader_) {
    const auto begin = [this](void (UsageDesk::*work)()) {
        return std::thread([this, work] {
            static_cast<void>(io::keep_capabilities({}));
            // Applies to this thread.
            static_cast<void>(::setpriority(PRIO_PROCESS, 0, kUsageDeskNiceness));
            (this->*work)();
        });
    };
    thread_ = begin(&UsageDesk::run);
    quota_thread_ = begin(&UsageDesk::run_quotas);
}

UsageDesk::~UsageDesk() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    wake_.notify_one();
    wake_quotas_.notify_one();
    thread_.join();
    quota_thread_.join();
}

bool UsageDesk::may_ask(const UsageQuery& query) const {
    const std::lock_guard lock(mutex_);
    return has_room_for(query);
}

bool UsageDesk::has_room_for(const UsageQuery& query) const {
    size_t alike = asked_ && are_alike(*asked_, query) ? 1U : 0U;
    size_t own = asked_ && asked_->is_own ? 1U : 0U;
    for (const Question& waiting : questions_) {
        alike += are_alike(waiting.query, query) ? 1U : 0U;
        own += waiting.query.is_own ? 1U : 0U;
    }
    return query.is_own ? alike < kMaxUserQuestions && own < kMaxUsageQuestions
                        : alike < kMaxOperatorQuestions;
}

bool UsageDesk::ask(const UsageQuery& query, Done done) {
    {
        const std::lock_guard lock(mutex_);
        if (!has_room_for(query)) {
            return false;
        }
        const auto first_own =
            std::find_if(questions_.begin(), questions_.end(),
                         [](const Question& waiting) { return waiting.query.is_own; });
        // The operator precedes the users.
        questions_.insert(query.is_own ? questions_.end() : first_own, {query, std::move(done)});
    }
    wake_.notify_one();
    return true;
}

void UsageDesk::tick(int64_t now_us) {
    {
        const std::lock_guard lock(mutex_);
        note_prune_time(now_us);
        const int64_t quarter = (now_us - kBookDelayUs) / kQuarterUs;
        const bool is_again = failed_at_us_ && std::abs(now_us - *failed_at_us_) >= kBookAgainUs;
        if (std::exchange(booked_quarter_, quarter) != quarter || is_again) {
            book_at_us_ = now_us;
            failed_at_us_.reset();
        }
        // A wrong clock would give another period.
        if (has_meters_ && now_us >= kEarliestUs &&
            std::abs(now_us - looked_at_us_) >= kQuotaLookUs) {
            look_at_us_ = now_us;
            looked_at_us_ = now_us;
            wake_quotas_.notify_one();
        }
        if (!has_work()) {
            return;
        }
    }
    wake_.notify_one();
}

void UsageDesk::watch(NewMeter meter) {
    const std::lock_guard lock(mutex_);
    new_meters_.push_back(std::move(meter));
    has_meters_ = true;
    looked_at_us_ = 0;  // at the next tick
}

std::vector<std::shared_ptr<UserMeter>> UsageDesk::take_to_seal(int64_t now_us) {
    const std::lock_guard lock(mutex_);
    // Booking waits this long for the records of a finished quarter.
    const int64_t quarter = (now_us - kBookDelayUs) / kQuarterUs;
    auto& due = std::exchange(sealed_quarter_, quarter) != quarter ? with_quota_ : to_seal_;
    return std::exchange(due, {});
}

void UsageDesk::on_sealed(std::vector<SealedMeter> sealed) {
    const std::lock_guard lock(mutex_);
    sealed_.insert(sealed_.end(), std::make_move_iterator(sealed.begin()),
                   std::make_move_iterator(sealed.end()));
    looked_at_us_ = 0;
}

void UsageDesk::run_quotas() {
    std::unique_lock lock(mutex_);
    while (!is_ending_) {
        if (look_at_us_) {
            look_at_quotas(lock);
        } else {
            wake_quotas_.wait(lock);
        }
    }
}

void UsageDesk::look_at_quotas(std::unique_lock<std::mutex>& lock) {
    const int64_t at_us = *look_at_us_;
    auto added = std::exchange(new_meters_, {});
    auto sealed = std::exchange(sealed_, {});
    to_seal_.clear();  // they hold meters, too
    with_quota_.clear();
    lock.unlock();
    for (NewMeter& meter : added) {
        quotas_.add(std::move(meter));
    }
    for (SealedMeter& one : sealed) {
        quotas_.on_sealed(one);
        one.meter.reset();
    }
    const auto looked = quotas_.look(at_us);
    if (!looked && must_tell_) {
        base::log(base::LogLevel::Error, "accounting: quotas cannot be read: %.*s",
                  static_cast<int>(looked.error().where.size()), looked.error().where.data());
    }
    must_tell_ = looked.has_value();
    auto to_seal = quotas_.to_seal(false);
    auto with_quota = quotas_.to_seal(true);
    lock.lock();
    to_seal_ = std::move(to_seal);
    with_quota_ = std::move(with_quota);
    has_meters_ = !quotas_.is_empty() || !new_meters_.empty();
    if (look_at_us_ == at_us) {
        look_at_us_.reset();
    }
}

void UsageDesk::note_prune_time(int64_t now_us) {
    if (retention_days_ == 0) {
        return;
    }
    if (std::abs(now_us - std::exchange(last_tick_us_, now_us)) > kDayUs) {
        prune_at_us_ = now_us + kPruneIntervalUs;
    }
    if (now_us >= prune_at_us_) {
        prune_at_us_ = now_us + kPruneIntervalUs;
        prune_before_us_ = now_us - int64_t{retention_days_} * kDayUs;
    }
}

void UsageDesk::run() {
    std::unique_lock lock(mutex_);
    while (!is_ending_) {
        // First, since a question may come at any time.
        if (has_work() && Clock::now() >= next_batch_at_) {
            work_batch(lock);
        } else if (const auto question = take_due_question()) {
            answer(*question, lock);
        } else if (const Time until = wake_at(); until != Time::max()) {
            wake_.wait_until(lock, until);
        } else {
            wake_.wait(lock);
        }
    }
}

std::optional<UsageDesk::Question> UsageDesk::take_due_question() {
    std::erase_if(paused_until_,
                  [now = Clock::now()](const auto& paused) { return paused.second <= now; });
    const auto due =
        std::find_if(questions_.begin(), questions_.end(), [this](const Question& waiting) {
            return !waiting.query.is_own || !paused_until_.contains(waiting.query.user);
        });
    if (due == questions_.end()) {
        return std::nullopt;
    }
    Question question = std::move(*due);
    questions_.erase(due);
    return question;
}

// All waiting questions are from paused users.
UsageDesk::Time UsageDesk::wake_at() const {
    Time first = has_work() ? next_batch_at_ : Time::max();
    for (const Question& waiting : questions_) {
        first = std::min(first, paused_until_.at(waiting.query.user));
    }
    return first;
}

void UsageDesk::answer(const Question& question, std::unique_lock<std::mutex>& lock) {
    const UsageQuery& query = question.query;
    asked_ = query;
    lock.unlock();
    const Time began = Clock::now();
    const Time until = began + (query.is_own ? kUserAnswerTime : kOperatorAnswerTime);
    ledger::UsageLimits limits;
    limits.give_up = [this, until] { return is_ending_.load() || Clock::now() >= until; };
    const Result<ledger::UsageReport> report = ledger::query_usage(reader_, query, limits);
    const Time ended = Clock::now();
    question.done(report);
    // No reader is active, so the whole log can go to the database and start anew. While questions
    // come without a pause, a checkpoint elsewhere cannot do that.
    if (const auto done = writer_.execute("PRAGMA wal_checkpoint(PASSIVE)"); !done) {
        base::log(base::LogLevel::Warning, "accounting: no checkpoint: %.*s",
                  static_cast<int>(done.error().where.size()), done.error().where.data());
    }
    lock.lock();
    asked_.reset();
    if (query.is_own) {
        paused_until_[query.user] = ended + kUserPause * (ended - began);
    }
}

// Books before it removes: removed records cannot be booked.
void UsageDesk::work_batch(std::unique_lock<std::mutex>& lock) {
    auto& wanted_us = book_at_us_ ? book_at_us_ : prune_before_us_;
    const bool books = &wanted_us == &book_at_us_;
    const int64_t at_us = *wanted_us;
    lock.unlock();
    const bool has_more = books ? book(at_us) : prune(at_us);
    lock.lock();
    next_batch_at_ = Clock::now() + store::kBetweenTransactions;
    if (!has_more && wanted_us == at_us) {
        wanted_us.reset();
    }
}

bool UsageDesk::book(int64_t now_us) {
    const int64_t quarter = (now_us - kBookDelayUs) / kQuarterUs;
    const auto booked = booker_.step(now_us, quarter * kQuarterUs);
    if (!booked) {
        note_trouble("usage is not booked: " + std::string(booked.error().where), true, now_us);
        return false;
    }
    booked_.fetch_add(booked->records, std::memory_order_relaxed);
    charged_ud_.fetch_add(booked->gross_ud, std::memory_order_relaxed);
    if (!booked->has_more) {
        const auto trouble = ledger::charge_trouble(writer_);
        note_trouble(trouble ? *trouble
                             : "usage is not booked: " + std::string(trouble.error().where),
                     !trouble, now_us);
    }
    return booked->has_more;
}

void UsageDesk::note_trouble(const std::string& trouble, bool has_failed, int64_t now_us) {
    const std::lock_guard lock(mutex_);
    if (!trouble.empty() && trouble != booking_trouble_) {
        base::log(base::LogLevel::Error, "accounting: %s", trouble.c_str());
    }
    booking_trouble_ = trouble;
    failed_at_us_ = has_failed ? std::optional(now_us) : std::nullopt;
}

std::string UsageDesk::booking_trouble() const {
    const std::lock_guard lock(mutex_);
    return booking_trouble_;
}

bool UsageDesk::prune(int64_t before_us) {
    const auto has_more = prune_batch(before_us);
    if (!has_more) {
        base::log(base::LogLevel::Warning, "accounting: old records are not removed: %.*s",
                  static_cast<int>(has_more.error().where.size()), has_more.error().where.data());
        return false;
    }
    return *has_more;
}

Result<bool> UsageDesk::prune_batch(int64_t before_us) {
    const size_t pruned = CTN_TRY(prune_records(writer_, before_us, kPruneBatch));
    pruned_.fetch_add(pruned, std::memory_order_relaxed);
    if (pruned == kPruneBatch) {
        return true;
    }
    return prune_history(writer_, before_us, kPruneBatch);
}

}  // namespace continuo::snapt::accounting
