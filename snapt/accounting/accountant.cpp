#include "snapt/accounting/accountant.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/privileges.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <sys/resource.h>

namespace continuo::snapt::accounting {

using base::Result;
using daemon::utc_us;
using ledger::Ledger;
using ledger::LedgerStatus;

Result<std::unique_ptr<Accountant>>
Accountant::start(const ledger::LedgerOptions& options, int64_t now_us, uint32_t retention_days) {
    auto ledger = CTN_TRY(Ledger::open(options, now_us));
    auto desk = CTN_TRY(
        UsageDesk::start(options.state_directory + "/" + store::kLedgerFileName, retention_days));
    return std::unique_ptr<Accountant>(new Accountant(std::move(ledger), std::move(desk)));
}

Accountant::Accountant(std::unique_ptr<Ledger> ledger, std::unique_ptr<UsageDesk> desk)
    : ledger_(std::move(ledger))
    , desk_(std::move(desk))
    , epoch_(ledger_->status().epoch)
    , credits_(*ledger_)
    , status_(ledger_->status()) {
    thread_ = std::thread([this] {
        static_cast<void>(io::keep_capabilities({}));
        static_cast<void>(::setpriority(PRIO_PROCESS, 0, kAccountantNiceness));  // 0: this thread
        run();
    });
}

Accountant::~Accountant() {
    end_thread();
}

std::optional<uint32_t> Accountant::open_session(const ledger::SessionIdentity& identity,
                                                 Committed committed,
                                                 std::shared_ptr<UserMeter> meter) {
    const uint32_t number = next_session_number_.fetch_add(1, std::memory_order_relaxed);
    const bool accepted =
        push({Opening{{number, identity}, std::move(committed), std::move(meter)}, {}, {}});
    return accepted ? std::optional(number) : std::nullopt;
}

bool Accountant::close_session(uint32_t number,
                               const ledger::SessionOverhead& overhead,
                               int64_t now_us) {
    return push({{}, {}, [=](Ledger& ledger) { ledger.close_session(number, overhead, now_us); }});
}

bool Accountant::name_apps(uint32_t session_number, std::shared_ptr<AppNames> names) {
    return push({{}, {}, [session_number, names = std::move(names)](Ledger& ledger) {
                     for (const auto& [tag, name] : names->take_new()) {
                         ledger.name_app(session_number, tag, name);
                     }
                 }});
}

void Accountant::tick(int64_t now_us) {
    {
        const std::lock_guard lock(mutex_);
        tick_us_ = now_us;
    }
    wake_.notify_one();
    desk_->tick(now_us);
}

bool Accountant::usage(const ledger::UsageQuery& query, int64_t now_us, UsageDone done) {
    return desk_->may_ask(query) && push({{}, Question{query, now_us, std::move(done)}, {}});
}

Accountant::UsageDone Accountant::priced(UsageDone done) const {
    return [done = std::move(done),
            permille = ledger_->options().price_permille](Result<ledger::UsageReport> usage) {
        if (usage) {
            usage->price_permille = permille;
        }
        done(std::move(usage));
    };
}

// One pass over the slots serves all pending questions.
void Accountant::answer(const std::vector<Question>& questions) {
    std::set<std::string> users;
    bool is_for_all = false;
    int64_t now_us = 0;
    for (const Question& question : questions) {
        is_for_all = is_for_all || !question.query.is_own || !question.query.user;
        users.insert(question.query.user.value_or(""));
        now_us = std::max(now_us, question.at_us);
    }
    if (questions.empty()) {
        return;
    }
    const auto sealed = is_for_all ? ledger_->seal_now(now_us) : ledger_->seal_for(users, now_us);
    note(sealed);
    for (const Question& question : questions) {
        if (!sealed) {
            question.done(sealed.error());
        } else if (!desk_->ask(question.query, priced(question.done))) {
            question.done(base::Error{base::Errc::LimitReached, kTooManyQuestions, 0});
        }
    }
}

void Accountant::set_on_credit(std::function<void()> on_credit) {
    const std::lock_guard lock(mutex_);
    on_credit_ = std::move(on_credit);
}

void Accountant::look_soon() {
    {
        const std::lock_guard lock(mutex_);
        is_look_asked_ = true;
    }
    wake_.notify_one();
}

void Accountant::flush() {
    std::promise<void> served;
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(&served);
    }
    wake_.notify_one();
    served.get_future().wait();
}

Result<size_t> Accountant::stop(int64_t now_us, flow::Cause cause) {
    end_thread();
    auto sealed = ledger_->stop(now_us, cause);
    const std::lock_guard lock(mutex_);
    status_ = ledger_->status();
    return sealed;
}

void Accountant::note_write(const std::optional<base::Error>& error) {
    const std::lock_guard lock(mutex_);
    if (error && !write_error_) {
        base::log(base::LogLevel::Error,
                  "the ledger cannot be written (%.*s): nodes that log in are refused until it can",
                  static_cast<int>(error->where.size()), error->where.data());
        write_error_since_us_ = utc_us();
    } else if (!error && write_error_) {
        base::log(base::LogLevel::Info, "the ledger can be written again");
    }
    write_error_ = error;
}

LedgerStatus Accountant::status() const {
    const std::lock_guard lock(mutex_);
    LedgerStatus status = status_;
    status.booking_error = desk_->booking_trouble();
    status.charged_ud = desk_->charged_ud();
    if (write_error_) {
        status.write_error = write_error_->where;
        status.write_error_since_us = write_error_since_us_;
        status.is_disk_full = store::is_disk_full(*write_error_);
    }
    return status;
}

bool Accountant::push(Command command) {
    {
        const std::lock_guard lock(mutex_);
        if (commands_.size() >= kMaxLedgerCommands || is_ending_) {
            refused_.fetch_add(1, std::memory_order_relaxed);
            return false;
        }
        commands_.push_back(std::move(command));
    }
    wake_.notify_one();
    return true;
}

void Accountant::end_thread() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) {
        thread_.join();
    }
}

void Accountant::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        const auto is_wanted = [this, was_asked = is_look_asked_] {
            return !commands_.empty() || tick_us_ || !waiting_.empty() || is_ending_ ||
                   is_look_asked_ != was_asked;
        };
        if (const auto look_at = next_look(is_look_asked_)) {
            wake_.wait_until(lock, *look_at, is_wanted);
        } else {
            wake_.wait(lock, is_wanted);
        }
        if (commands_.empty() && !tick_us_ && waiting_.empty() && is_ending_) {
            return;
        }
        std::deque<Command> commands = std::exchange(commands_, {});
        const std::optional<int64_t> tick_us = std::exchange(tick_us_, std::nullopt);
        const std::vector<std::promise<void>*> waiting = std::exchange(waiting_, {});
        const bool is_asked = is_look_asked_;
        lock.unlock();
        serve(std::move(commands));
        if (tick_us) {
            last_tick_us_ = *tick_us;
            ticked_at_ = Clock::now();
            on_tick(*tick_us);
            seal_for_quotas(*tick_us);
        }
        const auto look_at = next_look(is_asked);
        if (look_at && (tick_us || Clock::now() >= *look_at)) {
            using std::chrono::duration_cast;
            const auto since_tick = Clock::now() - ticked_at_;
            look_at_credits(last_tick_us_ +
                            duration_cast<std::chrono::microseconds>(since_tick).count());
        }
        const LedgerStatus status = ledger_->status();
        lock.lock();
        status_ = status;
        for (std::promise<void>* served : waiting) {
            served->set_value();
        }
    }
}

// Nothing before the first tick: there is no traffic either.
std::optional<Accountant::Clock::time_point> Accountant::next_look(bool is_asked) const {
    return credits_.is_empty() || ticked_at_ == Clock::time_point{}
               ? std::nullopt
               : std::optional(looked_at_ + (is_asked ? kLeastBetweenCreditLooks : kCreditLook));
}

void Accountant::look_at_credits(int64_t now_us) {
    looked_at_ = Clock::now();
    {
        const std::lock_guard lock(mutex_);
        is_look_asked_ = false;
    }
    const auto changed = credits_.look(now_us);
    if (!changed && must_tell_) {
        base::log(base::LogLevel::Error, "accounting: credits cannot be read: %.*s",
                  static_cast<int>(changed.error().where.size()), changed.error().where.data());
    }
    must_tell_ = changed.has_value();
    if (!changed || !*changed) {
        return;
    }
    std::function<void()> on_credit;
    {
        const std::lock_guard lock(mutex_);
        on_credit = on_credit_;
    }
    if (on_credit) {
        on_credit();
    }
}

void Accountant::on_tick(int64_t now_us) {
    const int64_t committed_at_us = ledger_->status().last_commit_at_us;
    const auto sealed = ledger_->tick(now_us);
    note(sealed);
    if (!sealed) {
        note_write(sealed.error());
        return;
    }
    if (ledger_->status().last_commit_at_us != committed_at_us) {
        note_write({});
        return;
    }
    // It may succeed although nothing was written.
    const bool is_due = status().write_error && std::abs(now_us - probed_at_us_) >= kWriteProbeUs;
    if (is_due) {
        probed_at_us_ = now_us;
        const auto written = ledger_->probe_write(now_us);
        note_write(written ? std::nullopt : std::optional(written.error()));
    }
}

// Bytes that a meter counts from here on and that are sealed all the same count twice until the
// next seal: at most the traffic in between.
void Accountant::seal_for_quotas(int64_t now_us) {
    std::vector<SealedMeter> meters;
    std::set<std::string> users;
    auto due = desk_->take_to_seal(now_us);
    for (auto& meter : due) {
        users.insert(meter->account().user);
        const uint64_t counted = meter->counted();
        meters.push_back({std::move(meter), counted});
    }
    if (meters.empty()) {
        return;
    }
    const auto sealed = ledger_->seal_for(users, now_us);
    note(sealed);
    if (!sealed) {
        return;
    }
    const LedgerStatus status = ledger_->status();
    for (SealedMeter& one : meters) {
        one.end = {status.epoch, status.next_seq};
        one.merged_bytes = ledger_->merged_payload(one.meter->account().id);
    }
    desk_->on_sealed(std::move(meters));
}

void Accountant::serve(std::deque<Command> commands) {
    // Sessions opened in a row share a commit.
    std::vector<Opening> openings;
    std::vector<Question> questions;
    for (Command& command : commands) {
        if (command.question) {
            questions.push_back(std::move(*command.question));
            continue;
        }
        if (command.opening) {
            openings.push_back(std::move(*command.opening));
            if (openings.size() >= kMostOpenings) {
                commit(openings);
            }
            continue;
        }
        commit(openings);
        command.action(*ledger_);
    }
    commit(openings);
    answer(questions);
}

// The meter's terms, before any traffic.
Result<void> Accountant::prepare(const Opening& opening) {
    if (opening.meter == nullptr) {
        return {};
    }
    const int64_t now_us = opening.session.identity.opened_at_us;
    opening.meter->set(CTN_TRY(first_terms(ledger_->database(), opening.meter->account(), now_us)));
    CTN_TRY(credits_.add(opening.meter));
    const LedgerStatus status = ledger_->status();
    desk_->watch({opening.meter, {status.epoch, status.next_seq}, now_us});
    return {};
}

void Accountant::commit(std::vector<Opening>& openings) {
    if (openings.empty()) {
        return;
    }
    std::vector<ledger::SessionOpening> sessions;
    sessions.reserve(openings.size());
    std::erase_if(openings, [this](const Opening& opening) {
        const auto prepared = prepare(opening);
        if (!prepared && opening.committed) {
            opening.committed(prepared.error());
        }
        return !prepared;
    });
    if (openings.empty()) {
        return;
    }
    for (const Opening& opening : openings) {
        sessions.push_back(opening.session);
    }
    const Result<void> committed = ledger_->open_sessions(sessions);
    note_write(committed ? std::nullopt : std::optional(committed.error()));
    for (const Opening& opening : openings) {
        if (opening.committed) {
            opening.committed(committed ? Result<uint32_t>(opening.session.number)
                                        : Result<uint32_t>(committed.error()));
        }
    }
    openings.clear();
}

void Accountant::note(const Result<size_t>& sealed) {
    if (!sealed && !was_failing_) {
        base::log(base::LogLevel::Error, "accounting: %.*s; counting goes on, sealing is retried",
                  static_cast<int>(sealed.error().where.size()), sealed.error().where.data());
    } else if (sealed && was_failing_) {
        base::log(base::LogLevel::Info, "accounting: sealed again");
    }
    was_failing_ = !sealed;
}

}  // namespace continuo::snapt::accounting
