#include "snapt/ledger/ledger.hpp"

#include "snapt/ledger/ledger_statements.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>

#include <fcntl.h>
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
using store::Transaction;
namespace record_flag = flow::record_flag;

constexpr int64_t kUsPerS = 1'000'000;
constexpr uint32_t kQuarterHourS = kQuarterHourUs / kUsPerS;

std::string kernel_boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
}

}  // namespace

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
    , database_(std::move(database))
    , lock_(std::move(lock))
    , reserve_(options_.state_directory + "/" + kReserveFileName, options_.reserve_bytes) {
    if (options_.boot_id.empty()) {
        options_.boot_id = kernel_boot_id();
    }
}

Ledger::~Ledger() {
    live_.reset();
}

int64_t Ledger::boundary_before(int64_t now_us) const {
    const int64_t interval_us = int64_t{options_.interval_s} * kUsPerS;
    return now_us - now_us % interval_us;
}

Result<void> Ledger::start(int64_t now_us) {
    statements_ = std::make_unique<Statements>(CTN_TRY(Statements::prepare(database_)));
    auto recovered = recover(now_us);
    if (!recovered && give_up_reserve(recovered.error(), now_us)) {
        sessions_.clear();
        merged_.clear();
        status_.recovered_records = 0;
        recovered = recover(now_us);
    }
    CTN_TRY(recovered);
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
        static_cast<void>(give_up_reserve(created.error(), now_us));
        created = LiveFile::create(path, live);
    }
    live_ = CTN_TRY(std::move(created));
    look_at_clock();
    CTN_TRY(follow_clock(now_us));
    last_tick_us_ = now_us;
    checkpointed_at_us_ = now_us;
    boundary_us_ = boundary_before(now_us);
    return {};
}

Result<void> Ledger::open_sessions(std::span<const SessionOpening> openings) {
    auto written = write_openings(openings);
    const int64_t now_us = openings.empty() ? 0 : openings.front().identity.opened_at_us;
    if (!written && give_up_reserve(written.error(), now_us)) {
        written = write_openings(openings);
    }
    if (!written) {
        return written;
    }
    for (const SessionOpening& opening : openings) {
        sessions_[opening.number].identity = opening.identity;
        live_->set_owner(opening.number, opening.identity.user_id);
    }
    return {};
}

Result<void> Ledger::write_openings(std::span<const SessionOpening> openings) {
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    for (const SessionOpening& opening : openings) {
        const SessionIdentity& who = opening.identity;
        CTN_TRY(statements_->insert_session.bind(1, int64_t{opening.number})
                    .bind(2, base::ByteView(who.session_id))
                    .bind(3, std::string_view(who.user_id))
                    .bind(4, std::string_view(who.cnapt_id))
                    .bind(5, std::string_view(who.sharer_id))
                    .bind(6, who.opened_at_us)
                    .bind(7, who.account_id)
                    .run());
    }
    return commit(transaction);
}

void Ledger::close_session(uint32_t number, const SessionOverhead& overhead, int64_t now_us) {
    if (const auto session = sessions_.find(number); session != sessions_.end()) {
        session->second.is_closed = true;
        session->second.closed_at_us = now_us;
        session->second.overhead = overhead;
    }
}

void Ledger::name_app(uint32_t session_number, uint16_t tag, std::string_view name) {
    const auto session = sessions_.find(session_number);
    if (session == sessions_.end() || name.size() > kMaxAppNameBytes) {
        return;
    }
    auto& apps = session->second.apps;
    const auto known = apps.find(tag);
    const bool is_full = known == apps.end() && apps.size() >= kMaxAppsPerSession;
    const bool is_same = known != apps.end() && known->second == name;
    if (is_full || is_same || pending_apps_.size() >= kMaxPendingApps) {
        return;
    }
    apps[tag] = name;
    pending_apps_[{session_number, tag}] = name;
}

Result<size_t> Ledger::tick(int64_t now_us) {
    live_->close_idle_shares();
    look_at_disk(now_us);
    size_t records = CTN_TRY(follow_clock(now_us));
    last_tick_us_ = now_us;
    const int64_t boundary = boundary_before(now_us);
    const bool is_boundary = boundary > boundary_us_;
    records += CTN_TRY(seal({now_us, is_boundary ? boundary : now_us, is_boundary}));
    if (is_boundary) {
        boundary_us_ = boundary;
        records_of_.clear();
        has_unsealed_step_ = false;
    }
    CTN_TRY(checkpoint(now_us));
    if (is_unsynchronised_ && is_boundary) {
        look_at_clock();  // everything counted before is sealed
    }
    return records;
}

Result<size_t> Ledger::seal_now(int64_t now_us) {
    const size_t records = CTN_TRY(tick(now_us));
    return records + CTN_TRY(seal({last_tick_us_, last_tick_us_, true}));
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
    Pass pass{last_tick_us_, last_tick_us_, true};
    pass.users = &due;
    return records + CTN_TRY(seal(pass));
}

bool Ledger::is_of(const std::set<std::string>* users, uint32_t session_number) const {
    const auto session = sessions_.find(session_number);
    return users == nullptr ||
           (session != sessions_.end() && users->contains(session->second.identity.user_id));
}

Result<size_t> Ledger::stop(int64_t now_us, Cause cause) {
    const size_t records = CTN_TRY(tick(now_us));
    now_us = last_tick_us_;
    Pass pass{now_us, now_us, true};
    pass.is_final = true;
    pass.cause = cause;
    for (auto& [number, session] : sessions_) {
        if (!session.is_closed) {
            session.is_closed = true;
            session.closed_at_us = now_us;
        }
    }
    return records + CTN_TRY(seal(pass));
}

// --- sealing ---

Result<size_t> Ledger::seal(const Pass& pass) {
    auto records = try_seal(pass);
    if (!records && give_up_reserve(records.error(), pass.now_us)) {
        must_reload_ = true;
        records = try_seal(pass);
    }
    if (!records) {
        ++status_.failed_seals;
        must_reload_ = true;
    }
    return records;
}

Result<size_t> Ledger::try_seal(const Pass& pass) {
    Transaction transaction = CTN_TRY(Transaction::begin(database_));
    Pass late = pass;
    late.flags |= (is_unsynchronised_ ? record_flag::kClockUnsynced : 0U) |
                  (has_unsealed_step_ ? record_flag::kClockStepped : 0U);
    if (must_reload_) {
        sealed_ = CTN_TRY(load_sealed());
        status_.next_seq = CTN_TRY(statements_->state("next_seq"));
        late.flags |= record_flag::kLateSeal;
    }
    Sealing sealing;
    sealing.next_seq = status_.next_seq;
    for (const uint64_t flow_id : freed_flows_) {
        CTN_TRY(statements_->delete_flow.bind(1, as_stored(flow_id)).run());
    }
    CTN_TRY(seal_slots(late, sealing));
    CTN_TRY(write_merged(late, sealing));
    CTN_TRY(statements_->records.write(sealing.sums));
    CTN_TRY(write_sessions(late, sealing));
    if (pass.clock_step_us != 0) {
        CTN_TRY(write_event(pass.now_us, "clock_step", std::to_string(pass.clock_step_us) + " us"));
    }
    const bool is_empty = pass.clock_step_us == 0 && sealing.sealed.empty() &&
                          freed_flows_.empty() && pending_apps_.empty() &&
                          sealing.ended_sessions.empty() && sealing.records == 0;
    if (!is_empty) {
        CTN_TRY(write_state(status_.epoch, sealing.next_seq));
        CTN_TRY(commit(transaction));
        status_.last_commit_at_us = pass.now_us;
    }
    must_reload_ = false;
    status_.next_seq = sealing.next_seq;
    status_.records += sealing.records;
    status_.orphan_records += sealing.orphans;
    for (const auto& [flow_id, sealed] : sealing.sealed) {
        sealed_[flow_id] = sealed;
        saved_[flow_id] = sum_of(sealed.values);
    }
    for (const uint64_t flow_id : sealing.freed_flows) {
        sealed_.erase(flow_id);
        saved_.erase(flow_id);
    }
    take_merged(sealing);
    take_counted(sealing);
    std::move(sealing.watched.begin(), sealing.watched.end(), std::back_inserter(watched_records_));
    freed_flows_ = std::move(sealing.freed_flows);
    pending_apps_.clear();
    live_->free_slots(sealing.freed_slots);
    for (const uint32_t number : sealing.ended_sessions) {
        sessions_.erase(number);
        live_->forget_owner(number);
    }
    return sealing.records;
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
            if (!pass.open_too || is_next || !is_of(pass.users, image.session_number)) {
                continue;
            }
        }
        CTN_TRY(seal_slot(pass, image, sealing));
    }
    return {};
}

Result<void> Ledger::seal_slot(const Pass& pass, const SlotImage& image, Sealing& sealing) {
    const auto before = sealed_.find(image.flow_id);
    const bool has_row = before != sealed_.end();
    const bool is_closed = image.is_closed();
    const Sealed base = has_row ? before->second : Sealed{};
    const CounterValues delta = flow::difference(image.counters, base.values);
    if (is_closed && has_row) {
        sealing.freed_flows.push_back(image.flow_id);
    }
    if (!flow::is_traffic(delta)) {
        return {};
    }
    int64_t until_us = is_closed ? image.last_at_us : pass.end_us;
    if (may_have_record(image.session_number, sealing)) {
        until_us = CTN_TRY(write_flow(pass, image, delta, base, sealing));
    } else {
        merge(image, delta, sealing);
    }
    CTN_TRY(statements_->upsert_flow.bind(1, as_stored(image.flow_id))
                .bind(2, int64_t{image.session_number})
                .bind(3, int64_t{image.traffic_class})
                .bind(4, int64_t{image.protocol})
                .bind(5, image.opened_at_us)
                .bind(6, until_us)
                .bind(7, bytes_of(image))
                .bind(8, int64_t{is_closed || pass.is_final})
                .run());
    sealing.sealed[image.flow_id] = {image.counters, until_us};
    if (is_closed && !has_row) {
        sealing.freed_flows.push_back(image.flow_id);
    }
    return {};
}

// Returns the time up to which the slot is recorded.
Result<int64_t> Ledger::write_flow(const Pass& pass,
                                   const SlotImage& image,
                                   const CounterValues& delta,
                                   const Sealed& base,
                                   Sealing& sealing) {
    const bool is_closed = image.is_closed();
    // Only the first class of a flow that changes its class has the flow's first record.
    const bool is_first =
        !sealed_.contains(image.flow_id) && flow::flow_number(image.flow_id) == image.flow_id;
    const bool is_last =
        (is_closed && image.close_cause != static_cast<uint8_t>(Cause::ClassChange)) ||
        pass.is_final;
    UsageRecord record = make_record(image, delta);
    record.seq = sealing.next_seq++;
    // Times by a clock that was set back since are in the future.
    const int64_t since_us = std::max(image.opened_at_us, base.until_us);
    record.t_start = image.last_at_us < since_us ? boundary_us_ : std::max(since_us, boundary_us_);
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
    CTN_TRY(statements_->records.insert(record, sealing.sums));
    note_watched(record, sealing);
    ++sealing.records;
    sealing.orphans += sessions_.contains(image.session_number) ? 0U : 1U;
    return record.t_end;
}

UsageRecord Ledger::make_record(const SlotImage& image, const CounterValues& delta) const {
    UsageRecord record;
    record.snapt_id = options_.snapt_id;
    record.epoch = status_.epoch;
    record.user_id = "?";
    if (const auto session = sessions_.find(image.session_number); session != sessions_.end()) {
        const SessionIdentity& who = session->second.identity;
        record.user_id = who.user_id;
        record.session_id = who.session_id;
        record.cnapt_id = who.cnapt_id;
        record.sharer_id = who.sharer_id;
        record.account_id = who.account_id;
        if (const auto app = session->second.apps.find(image.app);
            app != session->second.apps.end() && image.app != 0) {
            record.app = app->second;
        }
    }
    record.flow_id = as_stored(image.flow_id);
    record.cls = image.traffic_class;
    record.proto = image.protocol;
    const bool is_shared = image.flow_id >= kSharedFlowIdBase;
    const bool is_tunnel = image.flow_id >= flow::kTunnelFlowIdBase && !is_shared;
    if (options_.destinations != settings::Destinations::None && !is_shared && !is_tunnel) {
        record.dport = image.remote_port;
        if (options_.destinations == settings::Destinations::Full) {
            const base::ByteView octets(image.remote_address);
            record.dst = (image.remote_is_v6 != 0 ? base::IpAddress::v6(octets)
                                                  : base::IpAddress::v4(octets.first(4)))
                             .to_string();
        }
    }
    record.active_us = as_stored(delta.active_us);
    record.pay_up = as_stored(delta.payload_up);
    record.pay_down = as_stored(delta.payload_down);
    record.inner_up = as_stored(delta.inner_up);
    record.inner_down = as_stored(delta.inner_down);
    record.pkt_up = as_stored(delta.packets_up);
    record.pkt_down = as_stored(delta.packets_down);
    record.pre = as_stored(delta.pre_up + delta.pre_down);
    record.post = as_stored(delta.post_up + delta.post_down);
    record.handovers = as_stored(delta.handovers);
    record.undelivered = as_stored(delta.undelivered_down);
    record.tun_up = as_stored(delta.tunnel_up);
    record.tun_down = as_stored(delta.tunnel_down);
    record.flags = record_flag::kHasAccount | record_flag::kLossUnknown |
                   (is_shared ? record_flag::kAggregate : 0U) |
                   (is_tunnel ? record_flag::kTunnel : 0U);
    if (delta.delay_samples > 0) {
        record.delay_us = as_stored(delta.delay_us_sum / delta.delay_samples);
        record.delay_max_us = as_stored(delta.delay_us_max);
        record.delay_src =
            flow::delay_source::kTunnel | (delta.packets_down > 0 ? flow::delay_source::kQueue : 0);
        record.jitter_us = as_stored(delta.jitter_us_sum / delta.delay_samples);
    } else {
        record.flags |= record_flag::kDelayUnknown | record_flag::kJitterUnknown;
    }
    return record;
}

Result<void> Ledger::write_sessions(const Pass& pass, Sealing& sealing) {
    for (const auto& [app, name] : pending_apps_) {
        CTN_TRY(statements_->upsert_app.bind(1, int64_t{app.first})
                    .bind(2, int64_t{app.second})
                    .bind(3, std::string_view(name))
                    .run());
    }
    for (const auto& [number, session] : sessions_) {
        if (!session.is_closed || (!pass.is_final && sealing.sessions_in_use.contains(number))) {
            continue;
        }
        CTN_TRY(write_session_record(number, session, status_.epoch));
        CTN_TRY(statements_->delete_session.bind(1, int64_t{number}).run());
        CTN_TRY(statements_->delete_apps.bind(1, int64_t{number}).run());
        sealing.ended_sessions.push_back(number);
    }
    return {};
}

Result<void> Ledger::write_session_record(uint32_t number, const Session& session, int64_t epoch) {
    const SessionIdentity& who = session.identity;
    return statements_->insert_session_record.bind(1, epoch)
        .bind(2, int64_t{number})
        .bind(3, base::ByteView(who.session_id))
        .bind(4, std::string_view(who.user_id))
        .bind(5, std::string_view(who.cnapt_id))
        .bind(6, std::string_view(who.sharer_id))
        .bind(7, who.opened_at_us)
        .bind(8, session.closed_at_us)
        .bind(9, as_stored(session.overhead.tun_up))
        .bind(10, as_stored(session.overhead.tun_down))
        .bind(11, who.account_id)
        .run();
}

Result<void> Ledger::write_state(int64_t epoch, int64_t next_seq) {
    CTN_TRY(statements_->set_state("epoch", epoch));
    return statements_->set_state("next_seq", next_seq);
}

}  // namespace continuo::snapt::ledger
