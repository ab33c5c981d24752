// Ledger: usage of watched accounts for who rates it before it is booked.
#include "snapt/accounting/ledger_statements.hpp"

namespace continuo::snapt {

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

}  // namespace continuo::snapt
