#include "snapt/ledger/recovery.hpp"

#include "snapt/ledger/ledger_clock.hpp"
#include "snapt/ledger/open_flows.hpp"
#include "snapt/ledger/open_sessions.hpp"
#include "snapt/store/snapt_prices.hpp"

#include <algorithm>
#include <iterator>

namespace continuo::snapt::ledger {
namespace {

using base::Errc;
using base::Result;
using flow::UsageRecord;
namespace record_flag = flow::record_flag;

// The database may be new, or a copy from before: no epoch comes twice. 0 where there is no live
// file of ours; a header is not checked, so that an epoch beyond any that there may be is none.
Result<int64_t> epoch_of_live_file(const std::string& path) {
    constexpr int64_t kMaxEpoch = int64_t{1} << 52;
    const auto live = LiveFile::read_header(path);
    if (!live && live.error().code == Errc::System) {
        return live.error();
    }
    return live && live->epoch < kMaxEpoch ? live->epoch : 0;
}

// The counts of the flows of an epoch.
struct Remains {
    std::string snapt_id;
    SealedFlows sealed;
    std::vector<SlotImage> latest;
};

Result<Remains>
read_remains(LedgerStore& store, const LedgerOptions& options, int64_t epoch, int64_t now_us) {
    Remains remains{options.snapt_id, SealedFlows(store, options), {}};
    MergedFlows merged(store, options);
    CTN_TRY(remains.sealed.prepare(now_us));
    CTN_TRY(merged.prepare());
    CTN_TRY(remains.sealed.load());
    CTN_TRY(merged.load());
    auto live = LiveFile::read_remains(options.state_directory + "/" + kLiveFileName);
    if (live && live->header.epoch == epoch && !options.boot_id.empty() &&
        options.boot_id == static_cast<const char*>(live->header.boot_id)) {
        remains.latest = std::move(live->slots);
        remains.snapt_id = static_cast<const char*>(live->header.snapt_id);
    } else {
        // The machine stopped or the file is foreign: only the last saved values exist.
        remains.latest = CTN_TRY(remains.sealed.load_checkpoints());
        if (epoch > 0) {
            CTN_TRY(
                store.write_event(now_us, "live_file_unusable",
                                  live ? "other boot or epoch" : std::string(live.error().where)));
        }
    }
    std::transform(merged.images().begin(), merged.images().end(),  // without a slot
                   std::back_inserter(remains.latest),
                   [](const auto& entry) { return entry.second; });
    return remains;
}

// Returns the number of records.
Result<uint64_t> write_records(LedgerStore& store,
                               const OpenSessions& sessions,
                               const Remains& remains,
                               int64_t next_seq) {
    RecordSums sums;
    uint64_t records = 0;
    for (const SlotImage& image : remains.latest) {
        const flow::CounterValues delta = remains.sealed.unsealed(image);
        if (!flow::is_traffic(delta)) {
            continue;
        }
        const SealedFlow* before = remains.sealed.find(image.flow_id);
        UsageRecord record = sessions.record_of(image, delta);
        record.snapt_id = remains.snapt_id;
        record.seq = next_seq++;
        record.t_start = std::max(image.opened_at_us, before == nullptr ? 0 : before->until_us);
        record.t_end = std::max(image.last_at_us, record.t_start + 1);
        if (image.last_at_us != 0 && image.last_at_us <= record.t_start) {
            // By a clock that was set back since, the start is in the future.
            record.t_end = image.last_at_us;
            record.t_start = record.t_end - 1;
        }
        record.t_start = within_quarter(record.t_start, record.t_end);
        record.cause = flow::Cause::Recovered;
        record.flags |= record_flag::kRecovered | record_flag::kLast |
                        (before == nullptr ? record_flag::kFirst : 0U);
        CTN_TRY(store.records().insert(record, sums));
        ++records;
    }
    CTN_TRY(store.records().write(sums));
    return records;
}

}  // namespace

Result<Recovered> recover(LedgerStore& store, const LedgerOptions& options, int64_t now_us) {
    store::Transaction transaction = CTN_TRY(store.begin());
    const int64_t epoch = CTN_TRY(store.state("epoch"));
    const int64_t next_seq = CTN_TRY(store.state("next_seq"));
    OpenSessions sessions(store, options);
    CTN_TRY(sessions.prepare(epoch));
    CTN_TRY(sessions.load());
    Recovered recovered;
    {
        const Remains remains = CTN_TRY(read_remains(store, options, epoch, now_us));
        recovered.records = CTN_TRY(write_records(store, sessions, remains, next_seq));
    }
    if (recovered.records > 0) {
        CTN_TRY(
            store.write_event(now_us, "recovered", std::to_string(recovered.records) + " records"));
    }
    sessions.close_all(now_us);
    CTN_TRY(sessions.write({}));
    CTN_TRY(store.database().execute(
        "DELETE FROM open_flow; DELETE FROM open_app; DELETE FROM open_session;"));
    const std::string live_path = options.state_directory + "/" + kLiveFileName;
    recovered.epoch = std::max(epoch, CTN_TRY(epoch_of_live_file(live_path))) + 1;
    CTN_TRY(store.write_state(recovered.epoch, 0));
    CTN_TRY(store::set_snapt_price(store.database(), options.snapt_id, recovered.epoch,
                                   options.price_permille));
    CTN_TRY(store.write_event(now_us, "start", "epoch " + std::to_string(recovered.epoch)));
    CTN_TRY(transaction.commit());
    return recovered;
}

}  // namespace continuo::snapt::ledger
