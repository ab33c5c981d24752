#include "snapt/ledger/ledger.hpp"

#include "snapt/ledger/recovery.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <unordered_set>

#include <unistd.h>

namespace continuo::snapt::ledger {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using flow::Cause;
using flow::CounterValues;
using flow::UsageRecord;
using store::Database;
using store::FolderLock;
namespace record_flag = flow::record_flag;

constexpr uint32_t kQuarterHourS = kQuarterHourUs / store::kUsPerSecond;

std::string kernel_boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
}

}  // namespace

// Changes in memory, applied after the commit.
struct Ledger::Sealing {
    SealedFlows::Change flows;
    MergedFlows::Change merged;
    std::vector<uint32_t> freed_slots;
    std::vector<uint32_t> ended_sessions;
    std::unordered_set<uint32_t> sessions_in_use;
    int64_t next_seq = 0;
    size_t records = 0;
    RecordSums sums;  // over those records
    std::vector<UsageRecord> watched;
    uint64_t orphans = 0;
    ClassCounts running{};  // counted in open slots; `ended`: in closed ones
    ClassCounts ended{};
};

Result<std::unique_ptr<Ledger>> Ledger::open(const LedgerOptions& options, int64_t now_us) {
    if (options.interval_s == 0 || kQuarterHourS % options.interval_s != 0) {
        return Error{Errc::InvalidConfig, "interval_s must divide 900", 0};
    }
    FolderLock lock = CTN_TRY(FolderLock::take(options.state_directory));
    Database database = CTN_TRY(Database::open(
        options.state_directory + "/" + store::kLedgerFileName, store::OpenMode::Renew));
    std::unique_ptr<Ledger> ledger(new Ledger(options, std::move(database), std::move(lock)));
    CTN_TRY(ledger->start(now_us));
    return ledger;
}

Ledger::Ledger(LedgerOptions options, Database database, FolderLock lock)
    : options_(std::move(options))
    , store_(options_, std::move(database), std::move(lock))
    , clock_(options_)
    , sessions_(store_, options_)
    , sealed_(store_, options_)
    , merged_(store_, options_) {
    if (options_.boot_id.empty()) {
        options_.boot_id = kernel_boot_id();
    }
}

Result<void> Ledger::start(int64_t now_us) {
    CTN_TRY(store_.prepare());
    const Recovered recovered =
        CTN_TRY(store_.write_twice(now_us, [&] { return recover(store_, options_, now_us); }));
    status_.epoch = recovered.epoch;
    status_.recovered_records = recovered.records;
    status_.last_commit_at_us = now_us;
    CTN_TRY(sessions_.prepare(status_.epoch));
    CTN_TRY(merged_.prepare());
    LiveFileOptions live;
    live.snapt_id = options_.snapt_id;
    live.boot_id = options_.boot_id;
    live.epoch = status_.epoch;
    live.slots = options_.live_slots;
    live.user_slots = options_.user_slots;
    const std::string path = options_.state_directory + "/" + kLiveFileName;
    auto created = LiveFile::create(path, live);
    if (!created && store::is_disk_full(created.error())) {
        ::unlink(path.c_str());  // its content is in the database
        static_cast<void>(store_.give_up_reserve(created.error(), now_us));
        created = LiveFile::create(path, live);
    }
    live_ = CTN_TRY(std::move(created));
    clock_.start(now_us);
    return sealed_.prepare(clock_.ticked_at_us());
}

LedgerStatus Ledger::status() const {
    LedgerStatus status = status_;
    status.clock_steps = clock_.steps();
    status.commits = store_.commits();
    status.live_slots = live_->slots();
    status.live_slots_in_use = live_->in_use();
    status.shared_flows = live_->shared_flows();
    status.merged_flows = merged_.flows();
    status.is_coarse = store_.is_disk_low();
    status.free_bytes = store_.free_bytes();
    return status;
}

Result<void> Ledger::open_sessions(std::span<const SessionOpening> openings) {
    CTN_TRY(sessions_.open(openings));
    for (const SessionOpening& opening : openings) {
        live_->set_owner(opening.number, opening.identity.user_id);
    }
    return {};
}

Result<size_t> Ledger::tick(int64_t now_us) {
    live_->close_idle_shares();
    store_.look_at_disk(now_us);
    size_t records = CTN_TRY(follow_clock(now_us));
    clock_.tick(now_us);
    const int64_t boundary = clock_.boundary_before(now_us);
    const bool is_boundary = boundary > clock_.boundary_us();
    records += CTN_TRY(seal({now_us, is_boundary ? boundary : now_us, is_boundary}));
    if (is_boundary) {
        clock_.begin_interval(boundary);
        merged_.begin_interval();
    }
    if (CTN_TRY(sealed_.checkpoint(*live_, now_us))) {
        status_.last_commit_at_us = now_us;
    }
    if (is_boundary) {
        clock_.look_at_synchronisation();  // everything counted before is sealed
    }
    return records;
}

// Seals at the old time what was counted before the wall clock was set. `now_us` is what the clock
// shows afterwards. After an error nothing has changed, and the next call does it.
Result<size_t> Ledger::follow_clock(int64_t& now_us) {
    const auto step = clock_.look(now_us);
    if (!step) {
        return size_t{0};
    }
    size_t records = 0;
    if (clock_.may_seal(*step)) {
        const int64_t interval_end_us = clock_.boundary_us() + clock_.interval_us();
        Pass pass{now_us, std::min(step->old_us, interval_end_us), true};
        pass.flags = record_flag::kClockStepped;
        pass.clock_step_us = step->by_us();
        records = CTN_TRY(seal(pass));
        if (clock_.note_sealed(*step)) {
            merged_.begin_interval();
        }
    }
    clock_.follow(*step);
    sealed_.continue_from(now_us);
    return records;
}

Result<size_t> Ledger::seal_now(int64_t now_us) {
    const size_t records = CTN_TRY(tick(now_us));
    return records + CTN_TRY(seal({clock_.ticked_at_us(), clock_.ticked_at_us(), true}));
}

Result<size_t> Ledger::seal_for(const std::set<std::string>& users, int64_t now_us) {
    std::erase_if(sealed_for_us_, [now_us](const auto& sealed) {
        return sealed.second > now_us || now_us - sealed.second >= kUserSealIntervalUs;
    });
    std::set<std::string> due;
    for (const std::string& user : users) {
        if (sealed_for_us_.try_emplace(user, now_us).second) {
            due.insert(user);
        }
    }
    if (due.empty()) {
        return size_t{0};
    }
    const size_t records = CTN_TRY(tick(now_us));
    Pass pass{clock_.ticked_at_us(), clock_.ticked_at_us(), true};
    pass.users = &due;
    return records + CTN_TRY(seal(pass));
}

Result<size_t> Ledger::stop(int64_t now_us, Cause cause) {
    const size_t records = CTN_TRY(tick(now_us));
    now_us = clock_.ticked_at_us();
    Pass pass{now_us, now_us, true};
    pass.is_final = true;
    pass.cause = cause;
    sessions_.close_all(now_us);
    return records + CTN_TRY(seal(pass));
}

// --- sealing ---

Result<size_t> Ledger::seal(const Pass& pass) {
    auto records = store_.write_twice(pass.now_us, [&] {
        auto sealed = try_seal(pass);
        must_reload_ = must_reload_ || !sealed;
        return sealed;
    });
    status_.failed_seals += records ? 0U : 1U;
    return records;
}

Result<size_t> Ledger::try_seal(const Pass& pass) {
    store::Transaction transaction = CTN_TRY(store_.begin());
    Pass late = pass;
    late.flags |= clock_.record_flags();
    if (must_reload_) {
        CTN_TRY(sealed_.load());
        CTN_TRY(merged_.load());
        status_.next_seq = CTN_TRY(store_.state("next_seq"));
        late.flags |= record_flag::kLateSeal;
    }
    Sealing sealing;
    sealing.next_seq = status_.next_seq;
    CTN_TRY(sealed_.delete_freed());
    CTN_TRY(seal_slots(late, sealing));
    CTN_TRY(write_merged(late, sealing));
    CTN_TRY(store_.records().write(sealing.sums));
    const bool has_names = sessions_.has_new_names();
    sealing.ended_sessions = CTN_TRY(
        sessions_.write(pass.is_final ? std::unordered_set<uint32_t>{} : sealing.sessions_in_use));
    if (pass.clock_step_us != 0) {
        CTN_TRY(store_.write_event(pass.now_us, "clock_step",
                                   std::to_string(pass.clock_step_us) + " us"));
    }
    const bool is_empty = pass.clock_step_us == 0 && sealing.flows.sealed.empty() &&
                          !sealed_.has_freed() && !has_names && sealing.ended_sessions.empty() &&
                          sealing.records == 0;
    if (!is_empty) {
        CTN_TRY(store_.write_state(status_.epoch, sealing.next_seq));
        CTN_TRY(store_.commit(transaction));
        status_.last_commit_at_us = pass.now_us;
    }
    must_reload_ = false;
    take(sealing);
    return sealing.records;
}

// After the commit.
void Ledger::take(Sealing& sealing) {
    status_.next_seq = sealing.next_seq;
    status_.records += sealing.records;
    status_.orphan_records += sealing.orphans;
    sealed_.take(sealing.flows);
    merged_.take(sealing.merged);
    for (size_t i = 0; i < ended_.size(); ++i) {
        add_counters(ended_[i], sealing.ended[i]);
        status_.counted[i] = ended_[i];
        add_counters(status_.counted[i], sealing.running[i]);
    }
    std::move(sealing.watched.begin(), sealing.watched.end(), std::back_inserter(watched_records_));
    live_->free_slots(sealing.freed_slots);
    sessions_.take(sealing.ended_sessions);
    for (const uint32_t number : sealing.ended_sessions) {
        live_->forget_owner(number);
    }
}

// This thread keeps a processor until its slice is over, some milliseconds, whatever its priority:
// it must give it up.
Result<void> Ledger::seal_slots(const Pass& pass, Sealing& sealing) {
    const uint32_t count = live_->high_water();
    SlotImage image;
    for (uint32_t slot = 0; slot < count; ++slot) {
        if (!live_->read(slot, image)) {
            continue;
        }
        auto& counted = image.is_closed() ? sealing.ended : sealing.running;
        add_counters(counted[image.traffic_class % base::kTrafficClasses], image.counters);
        if (image.is_closed()) {
            sealing.freed_slots.push_back(slot);
        } else {
            sealing.sessions_in_use.insert(image.session_number);
            // A flow that began after the boundary belongs to the next interval.
            const bool is_next = pass.end_us < pass.now_us && image.opened_at_us >= pass.end_us &&
                                 image.opened_at_us <= pass.now_us;
            const bool is_meant =
                pass.users == nullptr || sessions_.is_of(image.session_number, *pass.users);
            if (!pass.open_too || is_next || !is_meant) {
                continue;
            }
        }
        CTN_TRY(seal_slot(pass, image, sealing));
    }
    return {};
}

Result<void> Ledger::seal_slot(const Pass& pass, const SlotImage& image, Sealing& sealing) {
    const bool is_closed = image.is_closed();
    const CounterValues delta = sealed_.unsealed(image);
    const bool has_counted = flow::is_traffic(delta);
    if (is_closed && (has_counted || sealed_.find(image.flow_id) != nullptr)) {
        sealing.flows.freed.push_back(image.flow_id);
    }
    if (!has_counted) {
        return {};
    }
    int64_t until_us = is_closed ? image.last_at_us : pass.end_us;
    const SessionIdentity* who = sessions_.find(image.session_number);
    if (merged_.may_have_record(who == nullptr ? "?" : who->user_id, sealing.merged)) {
        until_us = CTN_TRY(write_flow(pass, image, delta, sealing));
    } else {
        merged_.add(image, delta, clock_.boundary_us(), sealing.merged);
    }
    return sealed_.write(image, until_us, is_closed || pass.is_final, sealing.flows);
}

// Returns the time up to which the slot is recorded.
Result<int64_t> Ledger::write_flow(const Pass& pass,
                                   const SlotImage& image,
                                   const CounterValues& delta,
                                   Sealing& sealing) {
    const SealedFlow* before = sealed_.find(image.flow_id);
    const bool is_closed = image.is_closed();
    // Only the first class of a flow that changes its class has the flow's first record.
    const bool is_first = before == nullptr && flow::flow_number(image.flow_id) == image.flow_id;
    const bool is_last =
        (is_closed && image.close_cause != static_cast<uint8_t>(Cause::ClassChange)) ||
        pass.is_final;
    UsageRecord record = sessions_.record_of(image, delta);
    // Times by a clock that was set back since are in the future.
    const int64_t since_us = std::max(image.opened_at_us, before == nullptr ? 0 : before->until_us);
    const int64_t boundary_us = clock_.boundary_us();
    record.t_start = image.last_at_us < since_us ? boundary_us : std::max(since_us, boundary_us);
    record.t_end = is_closed ? image.last_at_us : pass.end_us;
    if (is_closed && pass.open_too && record.t_start < pass.end_us) {
        record.t_end = std::min(record.t_end, pass.end_us);  // no record crosses a boundary
    }
    if (record.t_start >= record.t_end) {
        // Instants, and times that a clock change has distorted.
        (is_closed ? record.t_end : record.t_start) =
            is_closed ? record.t_start + 1 : record.t_end - 1;
    }
    record.t_start = within_quarter(record.t_start, record.t_end);
    record.cause = is_closed ? static_cast<Cause>(image.close_cause) : pass.cause;
    record.flags |=
        pass.flags | (is_first ? record_flag::kFirst : 0U) | (is_last ? record_flag::kLast : 0U);
    CTN_TRY(add_record(record, image.session_number, sealing));
    return record.t_end;
}

Result<void> Ledger::add_record(UsageRecord& record, uint32_t session_number, Sealing& sealing) {
    record.seq = sealing.next_seq++;
    ++sealing.records;
    sealing.orphans += sessions_.find(session_number) != nullptr ? 0U : 1U;
    if (watched_.contains(record.account_id)) {
        sealing.watched.push_back(record);
    }
    return store_.records().insert(record, sealing.sums);
}

Result<void> Ledger::write_merged(const Pass& pass, Sealing& sealing) {
    // Not for a user's question: it may ask as often as it likes.
    if (!pass.is_final && (!pass.open_too || pass.users != nullptr)) {
        return merged_.write(sealing.merged, sealing.sessions_in_use);
    }
    return merged_.end(sealing.merged, [&](const SlotImage& image) {
        UsageRecord record = sessions_.record_of(image, image.counters);
        end_merged(record, image, pass.end_us);
        record.cause = pass.cause;
        record.flags |= pass.flags | record_flag::kFirst | record_flag::kLast;
        return add_record(record, image.session_number, sealing);
    });
}

void Ledger::end_merged(UsageRecord& record, const SlotImage& image, int64_t end_us) const {
    record.t_end = end_us;
    record.t_start = std::min(std::max(image.opened_at_us, clock_.boundary_us()), record.t_end - 1);
    // Flows that were active at the same time: the priced rate is that of all together.
    const int64_t most_us =
        clock_.has_unsealed_step() ? clock_.interval_us() : record.t_end - record.t_start;
    record.active_us = std::min(record.active_us, most_us);
    record.t_start = within_quarter(record.t_start, record.t_end);
}

// --- for who rates usage before it is booked ---

int64_t Ledger::merged_payload(int64_t account_id) const {
    uint64_t bytes = 0;
    for (const auto& [key, image] : merged_.images()) {
        const SessionIdentity* who = sessions_.find(key.first);
        if (who != nullptr && who->account_id == account_id) {
            bytes += image.counters.payload_up + image.counters.payload_down;
        }
    }
    return static_cast<int64_t>(bytes);
}

Result<void>
Ledger::visit_unsealed(int64_t now_us,
                       const std::function<Result<void>(const UsageRecord&)>& visit) const {
    const std::unordered_set<uint32_t> numbers = sessions_.of_accounts(watched_);
    if (numbers.empty()) {
        return {};
    }
    const uint32_t count = live_->high_water();
    SlotImage image;
    for (uint32_t slot = 0; slot < count; ++slot) {
        if (!numbers.contains(live_->session_of(slot)) || !live_->read(slot, image) ||
            !numbers.contains(image.session_number)) {
            continue;
        }
        const CounterValues delta = sealed_.unsealed(image);
        if (flow::is_traffic(delta)) {
            UsageRecord record = sessions_.record_of(image, delta);
            record.t_end = image.is_closed() ? image.last_at_us : now_us;
            CTN_TRY(visit(record));
        }
    }
    for (const auto& [key, merged] : merged_.images()) {
        if (numbers.contains(key.first)) {
            UsageRecord record = sessions_.record_of(merged, merged.counters);
            end_merged(record, merged, now_us);
            CTN_TRY(visit(record));
        }
    }
    return {};
}

}  // namespace continuo::snapt::ledger
