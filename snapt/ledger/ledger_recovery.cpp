#include "snapt/ledger/ledger.hpp"
#include "snapt/ledger/ledger_statements.hpp"
#include "snapt/store/schema.hpp"
#include "snapt/store/snapt_prices.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::snapt::ledger {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using flow::Cause;
using flow::CounterValues;
using flow::UsageRecord;
using store::kSlotImageForms;
using store::Statement;
namespace record_flag = flow::record_flag;

Result<SlotImage> image_from(base::ByteView bytes) {
    static_assert(kSlotImageForms.back().bytes == sizeof(SlotImage));
    SlotImage image;
    const bool is_known =
        std::any_of(kSlotImageForms.begin(), kSlotImageForms.end(),
                    [&](const store::SlotImageForm& form) { return form.bytes == bytes.size(); });
    if (!is_known) {
        return Error{Errc::Malformed, "ledger.db is damaged", 0};
    }
    std::memcpy(&image, bytes.data(), bytes.size());
    return image;
}

// The database may be new, or a copy from before: no epoch comes twice. 0 where there is no live
// file of ours; a header is not checked, so that an epoch beyond any that there may be is none.
Result<int64_t> epoch_of_live_file(const LedgerOptions& options) {
    constexpr int64_t kMaxEpoch = int64_t{1} << 52;
    const auto live = LiveFile::read_header(options.state_directory + "/" + kLiveFileName);
    if (!live && live.error().code == Errc::System) {
        return live.error();
    }
    return live && live->epoch < kMaxEpoch ? live->epoch : 0;
}

}  // namespace

Result<void> Ledger::load_sessions() {
    Statement& select = statements_->select_sessions;
    while (CTN_TRY(select.step())) {
        Session& session = sessions_[static_cast<uint32_t>(select.integer(0))];
        const base::ByteView id = select.blob(1);
        std::copy_n(id.begin(), std::min(id.size(), session.identity.session_id.size()),
                    session.identity.session_id.begin());
        session.identity.user_id = select.text(2);
        session.identity.cnapt_id = select.text(3);
        session.identity.sharer_id = select.text(4);
        session.identity.opened_at_us = select.integer(5);
        session.identity.account_id = select.integer(6);
    }
    Statement& apps = statements_->select_apps;
    while (CTN_TRY(apps.step())) {
        const auto session = sessions_.find(static_cast<uint32_t>(apps.integer(0)));
        if (session != sessions_.end()) {
            session->second.apps[static_cast<uint16_t>(apps.integer(1))] = apps.text(2);
        }
    }
    return {};
}

Result<std::unordered_map<uint64_t, Ledger::Sealed>> Ledger::load_sealed() {
    std::unordered_map<uint64_t, Sealed> sealed;
    Statement& select = statements_->select_flows;
    merged_.clear();
    while (CTN_TRY(select.step())) {
        const auto flow_id = static_cast<uint64_t>(select.integer(0));
        if (flow_id >= kMergedFlowIdBase) {
            const SlotImage sum = CTN_TRY(image_from(select.blob(3)));
            merged_[{sum.session_number, sum.traffic_class}] = sum;
            continue;
        }
        const SlotImage image = CTN_TRY(image_from(select.blob(2)));
        if (flow::is_traffic(image.counters)) {  // otherwise only a checkpoint has it
            sealed[flow_id] = {image.counters, select.integer(1)};
        }
    }
    return sealed;
}

Result<void> Ledger::recover(int64_t now_us) {
    store::Transaction transaction = CTN_TRY(store::Transaction::begin(database_));
    const int64_t epoch = CTN_TRY(statements_->state("epoch"));
    int64_t next_seq = CTN_TRY(statements_->state("next_seq"));
    CTN_TRY(load_sessions());
    CTN_TRY(recover_flows(now_us, epoch, next_seq));
    for (auto& [number, session] : sessions_) {
        session.closed_at_us = now_us;
        CTN_TRY(write_session_record(number, session, epoch));
    }
    CTN_TRY(database_.execute(
        "DELETE FROM open_flow; DELETE FROM open_app; DELETE FROM open_session;"));
    const int64_t next_epoch = std::max(epoch, CTN_TRY(epoch_of_live_file(options_))) + 1;
    CTN_TRY(write_state(next_epoch, 0));
    CTN_TRY(
        store::set_snapt_price(database_, options_.snapt_id, next_epoch, options_.price_permille));
    CTN_TRY(write_event(now_us, "start", "epoch " + std::to_string(next_epoch)));
    CTN_TRY(transaction.commit());
    sessions_.clear();
    status_.epoch = next_epoch;
    status_.last_commit_at_us = now_us;
    return {};
}

Result<void> Ledger::recover_flows(int64_t now_us, int64_t epoch, int64_t& next_seq) {
    auto sealed = CTN_TRY(load_sealed());
    std::vector<SlotImage> latest;
    std::string snapt_id = options_.snapt_id;
    auto remains = LiveFile::read_remains(options_.state_directory + "/" + kLiveFileName);
    if (remains && remains->header.epoch == epoch && !options_.boot_id.empty() &&
        options_.boot_id == static_cast<const char*>(remains->header.boot_id)) {
        latest = std::move(remains->slots);
        snapt_id = static_cast<const char*>(remains->header.snapt_id);
        for (const auto& [key, image] : merged_) {  // without a slot
            latest.push_back(image);
        }
    } else {
        // The machine stopped or the file is foreign: only the last saved values exist.
        Statement& select = statements_->select_flows;
        while (CTN_TRY(select.step())) {
            latest.push_back(CTN_TRY(image_from(select.blob(3))));
        }
        if (epoch > 0) {
            CTN_TRY(
                write_event(now_us, "live_file_unusable",
                            remains ? "other boot or epoch" : std::string(remains.error().where)));
        }
    }
    merged_.clear();
    RecordSums sums;
    for (const SlotImage& image : latest) {
        const auto before = sealed.find(image.flow_id);
        const Sealed base = before == sealed.end() ? Sealed{} : before->second;
        const CounterValues delta = flow::difference(image.counters, base.values);
        if (!flow::is_traffic(delta)) {
            continue;
        }
        UsageRecord record = make_record(image, delta);
        record.snapt_id = snapt_id;
        record.epoch = epoch;
        record.seq = next_seq++;
        record.t_start = std::max(image.opened_at_us, base.until_us);
        record.t_end = std::max(image.last_at_us, record.t_start + 1);
        if (image.last_at_us != 0 && image.last_at_us <= record.t_start) {
            // By a clock that was set back since, the start is in the future.
            record.t_end = image.last_at_us;
            record.t_start = record.t_end - 1;
        }
        record.t_start = within_quarter(record.t_start, record.t_end);
        record.cause = Cause::Recovered;
        record.flags |= record_flag::kRecovered | record_flag::kLast |
                        (before == sealed.end() ? record_flag::kFirst : 0U);
        CTN_TRY(statements_->records.insert(record, sums));
        ++status_.recovered_records;
    }
    CTN_TRY(statements_->records.write(sums));
    if (status_.recovered_records > 0) {
        CTN_TRY(write_event(now_us, "recovered",
                            std::to_string(status_.recovered_records) + " records"));
    }
    return {};
}

}  // namespace continuo::snapt::ledger
