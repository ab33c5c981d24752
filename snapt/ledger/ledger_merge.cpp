// Ledger: flows that share a record, because their user has used up its records of the interval or
// the disk is nearly full.
#include "common/base/log.hpp"
#include "snapt/ledger/ledger_statements.hpp"

#include <algorithm>

#include <sys/statvfs.h>

namespace continuo::snapt::ledger {

using base::Result;
using flow::CounterValues;
using flow::UsageRecord;
namespace record_flag = flow::record_flag;

namespace {

// Margin above `min_free_bytes` at which flows get their own records again.
constexpr uint64_t enough_free_bytes(uint64_t min_free_bytes) {
    return min_free_bytes + min_free_bytes / 4;
}

}  // namespace

void add_counters(CounterValues& sum, const CounterValues& delta) {
    const uint64_t delay_us_max = std::max(sum.delay_us_max, delta.delay_us_max);
    for (const auto member : flow::kValueMembers) {
        sum.*member += delta.*member;
    }
    sum.delay_us_max = delay_us_max;
}

std::optional<uint64_t> free_disk_bytes(const std::string& folder) {
    struct statvfs disk {};
    if (::statvfs(folder.c_str(), &disk) != 0) {
        return std::nullopt;
    }
    return uint64_t{disk.f_bavail} * disk.f_frsize;
}

void Ledger::look_at_disk(int64_t now_us) {
    status_.free_bytes = options_.free_bytes(options_.state_directory);
    const uint64_t floor = options_.min_free_bytes;
    // As much again must be free, so that whatever filled the disk does not take it at once.
    const uint64_t spare = std::max(enough_free_bytes(floor), options_.reserve_bytes);
    if (status_.free_bytes && reserve_.make(*status_.free_bytes, spare)) {
        status_.free_bytes = options_.free_bytes(options_.state_directory);
    }
    if (floor == 0 || !status_.free_bytes) {
        return;
    }
    const bool was_coarse = status_.is_coarse;
    status_.is_coarse = *status_.free_bytes < (was_coarse ? enough_free_bytes(floor) : floor);
    if (status_.is_coarse == was_coarse) {
        return;
    }
    base::log(base::LogLevel::Warning,
              status_.is_coarse ? "accounting: %llu MiB of disk are left: one record for each "
                                  "session, class and interval until there is more"
                                : "accounting: %llu MiB of disk are left: a record for each flow",
              static_cast<unsigned long long>(*status_.free_bytes >> 20U));
    static_cast<void>(write_event(now_us, status_.is_coarse ? "disk_low" : "disk_enough",
                                  std::to_string(*status_.free_bytes) + " bytes"));
}

bool Ledger::give_up_reserve(const base::Error& error, int64_t now_us) {
    if (!store::is_disk_full(error) || !reserve_.give_up()) {
        return false;
    }
    base::log(base::LogLevel::Error,
              "accounting: the disk is full; the reserve of %llu MiB is used",
              static_cast<unsigned long long>(options_.reserve_bytes >> 20U));
    static_cast<void>(write_event(now_us, "reserve_used", std::string(error.where)));
    return true;
}

Result<void> Ledger::probe_write(int64_t now_us) {
    auto written = write_probe(now_us);
    if (!written && give_up_reserve(written.error(), now_us)) {
        written = write_probe(now_us);
    }
    return written;
}

Result<void> Ledger::write_probe(int64_t now_us) {
    store::Transaction transaction = CTN_TRY(store::Transaction::begin(database_));
    CTN_TRY(write_event(now_us, "writable", "after a write that failed"));
    return commit(transaction);
}

bool Ledger::may_have_record(uint32_t session_number, Sealing& sealing) const {
    if (status_.is_coarse || options_.is_aggregate || options_.user_records == 0) {
        return !status_.is_coarse && !options_.is_aggregate;
    }
    const auto session = sessions_.find(session_number);
    const std::string user = session == sessions_.end() ? "?" : session->second.identity.user_id;
    auto& records = sealing.records_of;
    auto at = records.find(user);
    if (at == records.end()) {
        const auto before = records_of_.find(user);
        at = records.emplace(user, before == records_of_.end() ? 0 : before->second).first;
    }
    if (at->second >= options_.user_records) {
        return false;
    }
    ++at->second;
    return true;
}

void Ledger::merge(const SlotImage& image, const CounterValues& delta, Sealing& sealing) {
    const MergeKey key{image.session_number, image.traffic_class};
    // By a clock that was set back since, a flow was opened in the future.
    const int64_t opened_at_us = image.opened_at_us > image.last_at_us
                                     ? boundary_us_
                                     : std::max(image.opened_at_us, boundary_us_);
    auto at = sealing.merged.find(key);
    if (at == sealing.merged.end()) {
        SlotImage fresh;
        fresh.state = static_cast<uint32_t>(flow::SlotState::Open);
        fresh.session_number = image.session_number;
        fresh.traffic_class = image.traffic_class;
        fresh.opened_at_us = opened_at_us;
        const auto before = merged_.find(key);
        if (before == merged_.end()) {
            fresh.flow_id = next_merged_id_++;
        }
        at = sealing.merged.emplace(key, before == merged_.end() ? fresh : before->second).first;
    }
    SlotImage& sum = at->second;
    sum.opened_at_us = std::min(sum.opened_at_us, opened_at_us);
    sum.last_at_us = std::max(sum.last_at_us, image.last_at_us);
    add_counters(sum.counters, delta);
    ++sealing.merged_flows;
}

Result<void> Ledger::write_merged(const Pass& pass, Sealing& sealing) {
    // Not for a user's question: it may ask as often as it likes.
    sealing.ends_merged = pass.is_final || (pass.open_too && pass.users == nullptr);
    if (sealing.ends_merged) {
        for (const auto& [key, image] : merged_) {
            const auto newer = sealing.merged.find(key);
            CTN_TRY(write_merged_record(pass, newer == sealing.merged.end() ? image : newer->second,
                                        sealing));
            CTN_TRY(statements_->delete_flow.bind(1, as_stored(image.flow_id)).run());
        }
    }
    for (const auto& [key, image] : sealing.merged) {
        if (!sealing.ends_merged) {
            SlotImage nothing = image;
            nothing.counters = {};
            CTN_TRY(statements_->upsert_merged.bind(1, as_stored(image.flow_id))
                        .bind(2, int64_t{image.session_number})
                        .bind(3, int64_t{image.traffic_class})
                        .bind(4, image.opened_at_us)
                        .bind(5, bytes_of(nothing))
                        .bind(6, bytes_of(image))
                        .run());
            sealing.sessions_in_use.insert(image.session_number);
        } else if (!merged_.contains(key)) {
            CTN_TRY(write_merged_record(pass, image, sealing));
        }
    }
    for (const auto& [key, image] : merged_) {
        if (!sealing.ends_merged) {
            sealing.sessions_in_use.insert(image.session_number);
        }
    }
    return {};
}

Result<void>
Ledger::write_merged_record(const Pass& pass, const SlotImage& image, Sealing& sealing) {
    UsageRecord record = make_record(image, image.counters);
    record.seq = sealing.next_seq++;
    end_merged(record, image, pass.end_us);
    record.cause = pass.cause;
    record.flags |= pass.flags | record_flag::kFirst | record_flag::kLast;
    ++sealing.records;
    sealing.orphans += sessions_.contains(image.session_number) ? 0U : 1U;
    note_watched(record, sealing);
    return statements_->records.insert(record, sealing.sums);
}

void Ledger::end_merged(UsageRecord& record, const SlotImage& image, int64_t end_us) const {
    record.t_end = end_us;
    record.t_start = std::min(std::max(image.opened_at_us, boundary_us_), record.t_end - 1);
    // Flows that were active at the same time: the priced rate is that of all together.
    // After a step that sealed nothing the wall clock does not tell how long that was.
    const int64_t most_us = has_unsealed_step_ ? int64_t{options_.interval_s} * 1'000'000
                                               : record.t_end - record.t_start;
    record.active_us = std::min(record.active_us, most_us);
    record.t_start = within_quarter(record.t_start, record.t_end);
}

// After the commit.
void Ledger::take_merged(Sealing& sealing) {
    status_.merged_flows += sealing.merged_flows;
    for (auto& [user, records] : sealing.records_of) {
        records_of_[user] = records;
    }
    if (sealing.ends_merged) {
        merged_.clear();
        return;
    }
    for (const auto& [key, image] : sealing.merged) {
        merged_[key] = image;
    }
}

int64_t Ledger::merged_payload(int64_t account_id) const {
    uint64_t bytes = 0;
    for (const auto& [key, image] : merged_) {
        const auto session = sessions_.find(key.first);
        if (session != sessions_.end() && session->second.identity.account_id == account_id) {
            bytes += image.counters.payload_up + image.counters.payload_down;
        }
    }
    return static_cast<int64_t>(bytes);
}

}  // namespace continuo::snapt::ledger
