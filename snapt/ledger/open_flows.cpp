#include "snapt/ledger/open_flows.hpp"

#include "snapt/store/account.hpp"
#include "snapt/store/schema.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace continuo::snapt::ledger {

using base::Result;
using flow::CounterValues;
using store::kSlotImageForms;

namespace {

base::ByteView bytes_of(const SlotImage& image) {
    return {reinterpret_cast<const uint8_t*>(&image), sizeof image};
}

SlotImage without_counters(const SlotImage& image) {
    SlotImage nothing = image;
    nothing.counters = {};
    return nothing;
}

Result<SlotImage> image_from(base::ByteView bytes) {
    static_assert(kSlotImageForms.back().bytes == sizeof(SlotImage));
    SlotImage image;
    const bool is_known =
        std::any_of(kSlotImageForms.begin(), kSlotImageForms.end(),
                    [&](const store::SlotImageForm& form) { return form.bytes == bytes.size(); });
    if (!is_known) {
        return base::Error{base::Errc::Malformed, "ledger.db is damaged", 0};
    }
    std::memcpy(&image, bytes.data(), bytes.size());
    return image;
}

// Counters only grow: equal sums are equal counters.
uint64_t sum_of(const CounterValues& values) {
    uint64_t sum = 0;
    for (const auto member : flow::kValueMembers) {
        sum += values.*member;
    }
    return sum;
}

}  // namespace

void add_counters(CounterValues& sum, const CounterValues& delta) {
    const uint64_t delay_us_max = std::max(sum.delay_us_max, delta.delay_us_max);
    for (const auto member : flow::kValueMembers) {
        sum.*member += delta.*member;
    }
    sum.delay_us_max = delay_us_max;
}

Result<void> SealedFlows::prepare(int64_t now_us) {
    saved_at_us_ = now_us;
    return store_.prepare({
        {&select_, "SELECT flow_id,t_sealed,sealed,ckpt FROM open_flow WHERE flow_id<?"},
        {&upsert_, "INSERT INTO "
                   "open_flow(flow_id,session_no,cls,proto,t_open,t_sealed,sealed,ckpt,closed) "
                   "VALUES(?1,?2,?3,?4,?5,?6,?7,?7,?8) "
                   "ON CONFLICT DO UPDATE SET t_sealed=?6,sealed=?7,ckpt=?7,closed=?8"},
        {&upsert_checkpoint_,
         "INSERT INTO "
         "open_flow(flow_id,session_no,cls,proto,t_open,t_sealed,sealed,ckpt,closed) "
         "VALUES(?1,?2,?3,?4,?5,?5,?6,?7,0) ON CONFLICT DO UPDATE SET ckpt=?7"},
        {&delete_, "DELETE FROM open_flow WHERE flow_id=?"},
    });
}

Result<void> SealedFlows::load() {
    std::unordered_map<uint64_t, SealedFlow> sealed;
    select_.bind(1, as_stored(kMergedFlowIdBase));
    while (CTN_TRY(select_.step())) {
        const SlotImage image = CTN_TRY(image_from(select_.blob(2)));
        if (flow::is_traffic(image.counters)) {  // otherwise only a checkpoint has it
            sealed[static_cast<uint64_t>(select_.integer(0))] = {image.counters,
                                                                 select_.integer(1)};
        }
    }
    sealed_ = std::move(sealed);
    return {};
}

Result<std::vector<SlotImage>> SealedFlows::load_checkpoints() {
    std::vector<SlotImage> images;
    select_.bind(1, as_stored(kMergedFlowIdBase));
    while (CTN_TRY(select_.step())) {
        images.push_back(CTN_TRY(image_from(select_.blob(3))));
    }
    return images;
}

const SealedFlow* SealedFlows::find(uint64_t flow_id) const {
    const auto sealed = sealed_.find(flow_id);
    return sealed == sealed_.end() ? nullptr : &sealed->second;
}

CounterValues SealedFlows::unsealed(const SlotImage& image) const {
    const SealedFlow* sealed = find(image.flow_id);
    return flow::difference(image.counters, sealed == nullptr ? CounterValues{} : sealed->values);
}

void SealedFlows::continue_from(int64_t now_us) {
    for (auto& [flow_id, sealed] : sealed_) {
        sealed.until_us = now_us;
    }
}

Result<void> SealedFlows::delete_freed() {
    for (const uint64_t flow_id : freed_) {
        CTN_TRY(delete_.bind(1, as_stored(flow_id)).run());
    }
    return {};
}

Result<void>
SealedFlows::write(const SlotImage& image, int64_t until_us, bool is_over, Change& change) {
    CTN_TRY(upsert_.bind(1, as_stored(image.flow_id))
                .bind(2, int64_t{image.session_number})
                .bind(3, int64_t{image.traffic_class})
                .bind(4, int64_t{image.protocol})
                .bind(5, image.opened_at_us)
                .bind(6, until_us)
                .bind(7, bytes_of(image))
                .bind(8, int64_t{is_over})
                .run());
    change.sealed[image.flow_id] = {image.counters, until_us};
    return {};
}

void SealedFlows::take(Change& change) {
    for (const auto& [flow_id, sealed] : change.sealed) {
        sealed_[flow_id] = sealed;
        saved_[flow_id] = sum_of(sealed.values);
    }
    for (const uint64_t flow_id : change.freed) {
        sealed_.erase(flow_id);
        saved_.erase(flow_id);
    }
    freed_ = std::move(change.freed);
}

std::vector<SlotImage> SealedFlows::unsaved(const LiveFile& live) const {
    std::vector<SlotImage> flows;
    SlotImage image;
    for (uint32_t slot = 0; slot < live.high_water(); ++slot) {
        if (!live.read(slot, image) || image.is_closed()) {
            continue;
        }
        const auto saved = saved_.find(image.flow_id);
        const bool is_saved = saved != saved_.end() && saved->second == sum_of(image.counters);
        if (!is_saved && flow::is_traffic(unsealed(image))) {
            flows.push_back(image);
        }
    }
    return flows;
}

Result<void> SealedFlows::save(const std::vector<SlotImage>& flows) {
    store::Transaction transaction = CTN_TRY(store_.begin());
    for (const SlotImage& image : flows) {
        const SlotImage nothing = without_counters(image);
        CTN_TRY(upsert_checkpoint_.bind(1, as_stored(image.flow_id))
                    .bind(2, int64_t{image.session_number})
                    .bind(3, int64_t{image.traffic_class})
                    .bind(4, int64_t{image.protocol})
                    .bind(5, image.opened_at_us)
                    .bind(6, bytes_of(nothing))
                    .bind(7, bytes_of(image))
                    .run());
    }
    return store_.commit(transaction);
}

Result<bool> SealedFlows::checkpoint(const LiveFile& live, int64_t now_us) {
    const int64_t interval_us = int64_t{options_.checkpoint_s} * store::kUsPerSecond;
    if (interval_us == 0 || std::abs(now_us - saved_at_us_) < interval_us) {
        return false;
    }
    const std::vector<SlotImage> flows = unsaved(live);
    if (!flows.empty()) {
        CTN_TRY(store_.write_twice(now_us, [&] { return save(flows); }));
    }
    for (const SlotImage& image : flows) {
        saved_[image.flow_id] = sum_of(image.counters);
    }
    saved_at_us_ = now_us;
    return !flows.empty();
}

Result<void> MergedFlows::prepare() {
    return store_.prepare({
        {&select_, "SELECT ckpt FROM open_flow WHERE flow_id>=?"},
        {&upsert_, "INSERT INTO "
                   "open_flow(flow_id,session_no,cls,proto,t_open,t_sealed,sealed,ckpt,closed) "
                   "VALUES(?1,?2,?3,0,?4,?4,?5,?6,0) ON CONFLICT DO UPDATE SET ckpt=?6"},
        {&delete_, "DELETE FROM open_flow WHERE flow_id=?"},
    });
}

Result<void> MergedFlows::load() {
    images_.clear();
    select_.bind(1, as_stored(kMergedFlowIdBase));
    while (CTN_TRY(select_.step())) {
        const SlotImage image = CTN_TRY(image_from(select_.blob(0)));
        images_[{image.session_number, image.traffic_class}] = image;
    }
    return {};
}

bool MergedFlows::may_have_record(const std::string& user, Change& change) const {
    if (store_.is_disk_low() || options_.is_aggregate || options_.user_records == 0) {
        return !store_.is_disk_low() && !options_.is_aggregate;
    }
    auto at = change.records_of.find(user);
    if (at == change.records_of.end()) {
        const auto before = records_of_.find(user);
        at =
            change.records_of.emplace(user, before == records_of_.end() ? 0 : before->second).first;
    }
    if (at->second >= options_.user_records) {
        return false;
    }
    ++at->second;
    return true;
}

void MergedFlows::add(const SlotImage& image,
                      const CounterValues& delta,
                      int64_t boundary_us,
                      Change& change) {
    const Key key{image.session_number, image.traffic_class};
    // By a clock that was set back since, a flow was opened in the future.
    const int64_t opened_at_us = image.opened_at_us > image.last_at_us
                                     ? boundary_us
                                     : std::max(image.opened_at_us, boundary_us);
    auto at = change.images.find(key);
    if (at == change.images.end()) {
        SlotImage fresh;
        fresh.state = static_cast<uint32_t>(flow::SlotState::Open);
        fresh.session_number = image.session_number;
        fresh.traffic_class = image.traffic_class;
        fresh.opened_at_us = opened_at_us;
        const auto before = images_.find(key);
        if (before == images_.end()) {
            fresh.flow_id = next_id_++;
        }
        at = change.images.emplace(key, before == images_.end() ? fresh : before->second).first;
    }
    SlotImage& sum = at->second;
    sum.opened_at_us = std::min(sum.opened_at_us, opened_at_us);
    sum.last_at_us = std::max(sum.last_at_us, image.last_at_us);
    add_counters(sum.counters, delta);
    ++change.flows;
}

Result<void> MergedFlows::write(const Change& change, std::unordered_set<uint32_t>& with_flows) {
    for (const auto& [key, image] : change.images) {
        const SlotImage nothing = without_counters(image);
        CTN_TRY(upsert_.bind(1, as_stored(image.flow_id))
                    .bind(2, int64_t{image.session_number})
                    .bind(3, int64_t{image.traffic_class})
                    .bind(4, image.opened_at_us)
                    .bind(5, bytes_of(nothing))
                    .bind(6, bytes_of(image))
                    .run());
        with_flows.insert(image.session_number);
    }
    for (const auto& [key, image] : images_) {
        with_flows.insert(image.session_number);
    }
    return {};
}

Result<void> MergedFlows::end(Change& change,
                              const std::function<Result<void>(const SlotImage&)>& record) {
    change.is_end = true;
    for (const auto& [key, image] : images_) {
        const auto newer = change.images.find(key);
        CTN_TRY(record(newer == change.images.end() ? image : newer->second));
        CTN_TRY(delete_.bind(1, as_stored(image.flow_id)).run());
    }
    for (const auto& [key, image] : change.images) {
        if (!images_.contains(key)) {
            CTN_TRY(record(image));
        }
    }
    return {};
}

void MergedFlows::take(const Change& change) {
    flows_ += change.flows;
    for (const auto& [user, records] : change.records_of) {
        records_of_[user] = records;
    }
    if (change.is_end) {
        images_.clear();
        return;
    }
    for (const auto& [key, image] : change.images) {
        images_[key] = image;
    }
}

}  // namespace continuo::snapt::ledger
