#include "snapt/ledger/open_sessions.hpp"

#include <algorithm>

namespace continuo::snapt::ledger {

using base::Result;
using flow::CounterValues;
using flow::UsageRecord;
namespace record_flag = flow::record_flag;

namespace {

// The first seven parameters.
store::Statement& bind(store::Statement& row, uint32_t number, const SessionIdentity& who) {
    return row.bind(1, int64_t{number})
        .bind(2, base::ByteView(who.session_id))
        .bind(3, std::string_view(who.user_id))
        .bind(4, std::string_view(who.cnapt_id))
        .bind(5, std::string_view(who.sharer_id))
        .bind(6, who.opened_at_us)
        .bind(7, who.account_id);
}

}  // namespace

Result<void> OpenSessions::prepare(int64_t epoch) {
    epoch_ = epoch;
    return store_.prepare({
        {&select_sessions_,
         "SELECT no,session_id,user_id,cnapt_id,sharer_id,t_open,account_id FROM open_session"},
        {&insert_session_,
         "INSERT INTO open_session(no,session_id,user_id,cnapt_id,sharer_id,t_open,account_id) "
         "VALUES(?,?,?,?,?,?,?)"},
        {&delete_session_, "DELETE FROM open_session WHERE no=?"},
        {&insert_record_,
         "INSERT INTO session_record(no,session_id,user_id,cnapt_id,sharer_id,t_open,account_id,"
         "epoch,t_close,tun_up,tun_down) VALUES(?,?,?,?,?,?,?,?,?,?,?)"},
        {&select_apps_, "SELECT session_no,tag,name FROM open_app"},
        {&upsert_app_, "INSERT INTO open_app(session_no,tag,name) VALUES(?,?,?) "
                       "ON CONFLICT DO UPDATE SET name=excluded.name"},
        {&delete_apps_, "DELETE FROM open_app WHERE session_no=?"},
    });
}

Result<void> OpenSessions::load() {
    while (CTN_TRY(select_sessions_.step())) {
        SessionIdentity& who =
            sessions_[static_cast<uint32_t>(select_sessions_.integer(0))].identity;
        const base::ByteView id = select_sessions_.blob(1);
        std::copy_n(id.begin(), std::min(id.size(), who.session_id.size()), who.session_id.begin());
        who.user_id = select_sessions_.text(2);
        who.cnapt_id = select_sessions_.text(3);
        who.sharer_id = select_sessions_.text(4);
        who.opened_at_us = select_sessions_.integer(5);
        who.account_id = select_sessions_.integer(6);
    }
    while (CTN_TRY(select_apps_.step())) {
        const auto session = sessions_.find(static_cast<uint32_t>(select_apps_.integer(0)));
        if (session != sessions_.end()) {
            session->second.apps[static_cast<uint16_t>(select_apps_.integer(1))] =
                select_apps_.text(2);
        }
    }
    return {};
}

Result<void> OpenSessions::open(std::span<const SessionOpening> openings) {
    const int64_t now_us = openings.empty() ? 0 : openings.front().identity.opened_at_us;
    CTN_TRY(store_.write_twice(now_us, [&] { return write_openings(openings); }));
    for (const SessionOpening& opening : openings) {
        sessions_[opening.number].identity = opening.identity;
    }
    return {};
}

Result<void> OpenSessions::write_openings(std::span<const SessionOpening> openings) {
    store::Transaction transaction = CTN_TRY(store_.begin());
    for (const SessionOpening& opening : openings) {
        CTN_TRY(bind(insert_session_, opening.number, opening.identity).run());
    }
    return store_.commit(transaction);
}

void OpenSessions::close(uint32_t number, const SessionOverhead& overhead, int64_t now_us) {
    if (const auto session = sessions_.find(number); session != sessions_.end()) {
        session->second.is_closed = true;
        session->second.closed_at_us = now_us;
        session->second.overhead = overhead;
    }
}

void OpenSessions::close_all(int64_t now_us) {
    for (auto& [number, session] : sessions_) {
        session.closed_at_us = session.is_closed ? session.closed_at_us : now_us;
        session.is_closed = true;
    }
}

void OpenSessions::name_app(uint32_t number, uint16_t tag, std::string_view name) {
    const auto session = sessions_.find(number);
    if (session == sessions_.end() || name.size() > kMaxAppNameBytes) {
        return;
    }
    auto& apps = session->second.apps;
    const auto known = apps.find(tag);
    const bool is_full = known == apps.end() && apps.size() >= kMaxAppsPerSession;
    const bool is_same = known != apps.end() && known->second == name;
    if (is_full || is_same || new_names_.size() >= kMaxPendingApps) {
        return;
    }
    apps[tag] = name;
    new_names_[{number, tag}] = name;
}

const SessionIdentity* OpenSessions::find(uint32_t number) const {
    const auto session = sessions_.find(number);
    return session == sessions_.end() ? nullptr : &session->second.identity;
}

bool OpenSessions::is_of(uint32_t number, const std::set<std::string>& users) const {
    const SessionIdentity* who = find(number);
    return who != nullptr && users.contains(who->user_id);
}

std::unordered_set<uint32_t> OpenSessions::of_accounts(const std::set<int64_t>& accounts) const {
    std::unordered_set<uint32_t> numbers;
    for (const auto& [number, session] : sessions_) {
        if (accounts.contains(session.identity.account_id)) {
            numbers.insert(number);
        }
    }
    return numbers;
}

void OpenSessions::fill_identity(UsageRecord& record, const SlotImage& image) const {
    record.snapt_id = options_.snapt_id;
    record.epoch = epoch_;
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
}

UsageRecord OpenSessions::record_of(const SlotImage& image, const CounterValues& delta) const {
    UsageRecord record;
    fill_identity(record, image);
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

Result<std::vector<uint32_t>> OpenSessions::write(const std::unordered_set<uint32_t>& with_flows) {
    for (const auto& [app, name] : new_names_) {
        CTN_TRY(upsert_app_.bind(1, int64_t{app.first})
                    .bind(2, int64_t{app.second})
                    .bind(3, std::string_view(name))
                    .run());
    }
    std::vector<uint32_t> ended;
    for (const auto& [number, session] : sessions_) {
        if (!session.is_closed || with_flows.contains(number)) {
            continue;
        }
        CTN_TRY(write_record(number, session));
        CTN_TRY(delete_session_.bind(1, int64_t{number}).run());
        CTN_TRY(delete_apps_.bind(1, int64_t{number}).run());
        ended.push_back(number);
    }
    return ended;
}

Result<void> OpenSessions::write_record(uint32_t number, const Session& session) {
    return bind(insert_record_, number, session.identity)
        .bind(8, epoch_)
        .bind(9, session.closed_at_us)
        .bind(10, as_stored(session.overhead.tun_up))
        .bind(11, as_stored(session.overhead.tun_down))
        .run();
}

void OpenSessions::take(const std::vector<uint32_t>& ended) {
    new_names_.clear();
    for (const uint32_t number : ended) {
        sessions_.erase(number);
    }
}

}  // namespace continuo::snapt::ledger
