// Ledger: usage of watched accounts for who rates it before it is booked; figures for operators.
#include "snapt/ledger/ledger_statements.hpp"

#include <chrono>

namespace continuo::snapt::ledger {

using base::Result;
using flow::CounterValues;
using flow::UsageRecord;

void Ledger::note_watched(const UsageRecord& record, Sealing& sealing) const {
    if (watched_.contains(record.account_id)) {
        sealing.watched.push_back(record);
    }
}

Result<void>
Ledger::visit_unsealed(int64_t now_us,
                       const std::function<Result<void>(const UsageRecord&)>& visit) const {
    std::unordered_set<uint32_t> numbers;
    for (const auto& [number, session] : sessions_) {
        if (watched_.contains(session.identity.account_id)) {
            numbers.insert(number);
        }
    }
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
        const auto before = sealed_.find(image.flow_id);
        const CounterValues delta = flow::difference(
            image.counters, before == sealed_.end() ? CounterValues{} : before->second.values);
        if (flow::is_traffic(delta)) {
            UsageRecord record = make_record(image, delta);
            record.t_end = image.is_closed() ? image.last_at_us : now_us;
            CTN_TRY(visit(record));
        }
    }
    for (const auto& [key, merged] : merged_) {
        if (numbers.contains(key.first)) {
            UsageRecord record = make_record(merged, merged.counters);
            end_merged(record, merged, now_us);
            CTN_TRY(visit(record));
        }
    }
    return {};
}

Result<void> Ledger::commit(store::Transaction& transaction) {
    const auto began_at = std::chrono::steady_clock::now();
    CTN_TRY(transaction.commit());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_at;
    CommitTimes& commits = status_.commits;
    for (size_t i = 0; i < kCommitBucketsS.size(); ++i) {
        commits.within[i] += took.count() <= kCommitBucketsS[i] ? 1U : 0U;
    }
    ++commits.count;
    commits.sum_s += took.count();
    return {};
}

LedgerStatus Ledger::status() const {
    LedgerStatus status = status_;
    status.live_slots = live_->slots();
    status.live_slots_in_use = live_->in_use();
    status.shared_flows = live_->shared_flows();
    return status;
}

// After the commit.
void Ledger::take_counted(const Sealing& sealing) {
    for (size_t i = 0; i < ended_.size(); ++i) {
        add_counters(ended_[i], sealing.ended[i]);
        status_.counted[i] = ended_[i];
        add_counters(status_.counted[i], sealing.running[i]);
    }
}

}  // namespace continuo::snapt::ledger
