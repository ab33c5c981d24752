// Ledger: state that survives a loss of power. The live file survives a crash of the process but
// not of the machine, so counters of flows with traffic are saved beside their sealed values at
// intervals, without a record.
#include "snapt/ledger/ledger_statements.hpp"

#include <cstdlib>

namespace continuo::snapt::ledger {

using base::Result;
using flow::CounterValues;

namespace {

constexpr int64_t kMicrosecondsPerS = 1'000'000;

}  // namespace

// Counters only grow: equal sums are equal counters.
uint64_t Ledger::sum_of(const CounterValues& values) {
    uint64_t sum = 0;
    for (const auto member : flow::kValueMembers) {
        sum += values.*member;
    }
    return sum;
}

// Open flows that have counted anything since they were last sealed or saved.
std::vector<SlotImage> Ledger::unsaved_flows() const {
    std::vector<SlotImage> flows;
    SlotImage image;
    for (uint32_t slot = 0; slot < live_->high_water(); ++slot) {
        if (!live_->read(slot, image) || image.is_closed()) {
            continue;
        }
        const auto saved = saved_.find(image.flow_id);
        if (saved != saved_.end() && saved->second == sum_of(image.counters)) {
            continue;
        }
        const auto sealed = sealed_.find(image.flow_id);
        const CounterValues before =
            sealed == sealed_.end() ? CounterValues{} : sealed->second.values;
        if (flow::is_traffic(flow::difference(image.counters, before))) {
            flows.push_back(image);
        }
    }
    return flows;
}

Result<void> Ledger::save(std::span<const SlotImage> flows) {
    store::Transaction transaction = CTN_TRY(store::Transaction::begin(database_));
    for (const SlotImage& image : flows) {
        SlotImage nothing = image;
        nothing.counters = {};
        CTN_TRY(statements_->upsert_checkpoint.bind(1, as_stored(image.flow_id))
                    .bind(2, int64_t{image.session_number})
                    .bind(3, int64_t{image.traffic_class})
                    .bind(4, int64_t{image.protocol})
                    .bind(5, image.opened_at_us)
                    .bind(6, bytes_of(nothing))
                    .bind(7, bytes_of(image))
                    .run());
    }
    return commit(transaction);
}

Result<void> Ledger::checkpoint(int64_t now_us) {
    const int64_t interval_us = int64_t{options_.checkpoint_s} * kMicrosecondsPerS;
    if (interval_us == 0 || std::abs(now_us - checkpointed_at_us_) < interval_us) {
        return {};
    }
    const std::vector<SlotImage> flows = unsaved_flows();
    if (!flows.empty()) {
        auto saved = save(flows);
        if (!saved && give_up_reserve(saved.error(), now_us)) {
            saved = save(flows);
        }
        CTN_TRY(saved);
        status_.last_commit_at_us = now_us;
    }
    for (const SlotImage& image : flows) {
        saved_[image.flow_id] = sum_of(image.counters);
    }
    checkpointed_at_us_ = now_us;
    return {};
}

}  // namespace continuo::snapt::ledger
