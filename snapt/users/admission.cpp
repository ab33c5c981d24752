#include "snapt/users/admission.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "snapt/nat/host_network.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace continuo::snapt::users {

using base::log;
using base::LogLevel;
using control::RejectReason;
using daemon::utc_us;
using links::LinkId;
using relay::NodeSession;
using relay::SessionGrant;

namespace {

uint32_t whole_seconds(base::Duration span) {
    return static_cast<uint32_t>(std::chrono::duration_cast<base::seconds>(span).count());
}

// A port of `public` may be redirected to one of `listen` by this host or a router in front of it.
std::vector<uint16_t> udp_ports(const settings::SnaptConfig& config) {
    std::vector<uint16_t> ports;
    const auto add = [&](uint16_t port) {
        if (std::find(ports.begin(), ports.end(), port) == ports.end() &&
            ports.size() < control::kMaxPorts) {
            ports.push_back(port);
        }
    };
    for (const config::HostPort& address : config.public_addresses) {
        add(address.port);
    }
    for (const base::Endpoint& endpoint : config.listen) {
        add(endpoint.port);
    }
    return ports;
}

// Flows of one user at a time; 0: no limit. `user_flows`: relay::Connections::user_flows().
uint32_t flows_of_a_user(const settings::SnaptLimits& limits, size_t user_flows) {
    const bool is_all_less = limits.flows != 0 && limits.flows < user_flows;
    return is_all_less ? limits.flows : static_cast<uint32_t>(user_flows);
}

}  // namespace

void Admission::connect(relay::Relay& relay, links::ControlServer& server) {
    relay_ = &relay;
    server_ = &server;
    directory_.connect(relay, server);
}

void Admission::on_tick() {
    ask_for_rekeys();
    end_old_keys(parts_.loop.now());
    if (parts_.users.expire(utc_us())) {
        end_revoked();
    }
    upkeep_.on_tick(*relay_);
    if (directory_.on_tick()) {
        end_all([](const SessionGrant& /*grant*/) { return true; }, relay::SessionEnd::Drained,
                kDrainingText);
    }
    for (auto& [id, link] : links_) {
        if (link.is_open && link.wire_id != 0) {
            tell_allowance(id, link);
        }
    }
}

std::optional<control::ProtectionOffer>
Admission::choose_protection(const control::Hello& hello) const {
    const auto& protection = parts_.config.protection;
    for (const control::ProtectionOffer& offer : hello.offers) {
        const bool is_readable = offer.kind == control::ProtectionKind::HmacSha256;
        if (is_readable ? protection.authenticate : protection.encrypt) {
            return offer;
        }
    }
    return std::nullopt;
}

void Admission::on_hello(LinkId id,
                         const base::Endpoint& from,
                         const control::HelloReceived& received) {
    const control::Hello& hello = received.hello;
    const auto protection = choose_protection(hello);
    Link& link = links_[id];
    link.from = from;
    SessionGrant& grant = link.grant;
    grant.user = received.identity.user;
    grant.key_id = received.identity.key_id;
    grant.account_id =
        parts_.users.account_of(grant.user, grant.key_id).value_or(store::kNoAccount);
    grant.node = hello.node;
    grant.told_node = hello.node;
    grant.node_id = hello.node_id;
    if (const auto refusal = control::version_refusal(hello)) {
        refuse(id, RejectReason::NoCommonVersion, *refusal);
        return;
    }
    // Before the session of this node is treated as replaced.
    if (!hello.snapt.empty() && hello.snapt != parts_.config.name) {
        refuse(id, RejectReason::OtherSnapt, "this is " + parts_.config.name);
        return;
    }
    if (!protection) {
        refuse(id, RejectReason::NoCommonProtection, "no protection that both accept");
        return;
    }
    if (!store::is_valid_name(hello.node)) {
        refuse(id, RejectReason::BadHello, "bad node name");
        return;
    }
    grant.session_id = hello.session_id;
    grant.peer_id = hello.wire_session_down;
    grant.protection = *protection;
    grant.continuation = hello.continuation;
    if (reject_if_disabled(id, grant) || reject_if_copied(id, grant)) {
        return;
    }
    if (relay_->table().may_continue(grant)) {
        const NodeSession* node = relay_->table().find(hello.continuation->wire_session_up);
        grant.node = node->grant.node;
        grant.lease_ipv4 = node->grant.lease_ipv4;
        grant.lease_ipv6 = node->grant.lease_ipv6;
        grant.accounting_number = node->grant.accounting_number;
        let_in(id);
        return;
    }
    grant.continuation.reset();
    if (directory_.drain()) {
        refuse(id, RejectReason::Draining, kDrainingText);
        return;
    }
    // Before a lease is taken and the ledger written.
    const size_t limit = parts_.config.limits.user_sessions;
    if (limit != 0 && nodes_beside(grant) >= limit) {
        ask_silent_nodes(grant.user);
        refuse(id, RejectReason::SessionLimit, "too many sessions");
        return;
    }
    link.is_waiting = true;
    assign_lease(id);
}

// A session whose node is not here gives way to a new one (Relay::reserve).
size_t Admission::nodes_beside(const SessionGrant& grant) const {
    std::set<std::pair<std::string_view, std::optional<control::NodeId>>> nodes;
    for (const auto& [id, link] : links_) {
        const SessionGrant& other = link.grant;
        const NodeSession* node = link.wire_id != 0 ? relay_->table().find(link.wire_id) : nullptr;
        const bool counts = link.is_waiting || (node != nullptr && relay_->table().is_here(*node));
        if (counts && other.user == grant.user && !relay::is_same_node(grant, other)) {
            nodes.emplace(other.told_node, other.node_id);
        }
    }
    return nodes.size();
}

// The link of a node that lost power stays open until somebody sends. `user`: empty for all.
void Admission::ask_silent_nodes(std::string_view user) {
    for (const auto& [id, link] : links_) {
        if (link.wire_id != 0 && (user.empty() || link.grant.user == user) &&
            relay_->table().wants_sign_of_life(link.wire_id)) {
            server_->ask_for_keepalive(id);
        }
    }
}

// The lease comes from the database: on the helper thread.
void Admission::assign_lease(LinkId id) {
    struct Answer {
        base::Result<store::Lease> lease = base::Error{base::Errc::InvalidState, "lease"};
    };
    auto answer = std::make_shared<Answer>();
    const SessionGrant& grant = links_[id].grant;
    const size_t limit = parts_.config.limits.user_sessions;
    if (limit != 0 && lease_jobs_.count(grant.user) > limit) {
        refuse(id, RejectReason::SessionLimit, "too many logins");
        return;
    }
    const bool queued = parts_.worker.submit(
        [&leases = parts_.leases, answer, owner = store::Account{grant.account_id, grant.user},
         node = grant.told_node, node_id = grant.node_id] {
            answer->lease = leases.assign_held(owner, node, utc_us(), node_id);
        },
        [this, answer, id, user = grant.user] {
            lease_jobs_.erase(lease_jobs_.find(user));
            on_lease(id, answer->lease);
        });
    if (!queued) {
        refuse(id, RejectReason::Internal, "busy");
        return;
    }
    lease_jobs_.insert(grant.user);
}

void Admission::on_lease(LinkId id, const base::Result<store::Lease>& lease) {
    const auto at = links_.find(id);
    if (at == links_.end()) {
        if (lease) {
            parts_.leases.release(lease->owner.id, lease->node);
        }
        return;
    }
    SessionGrant& grant = at->second.grant;
    if (!lease && lease.error().code == base::Errc::WouldBlock) {
        refuse(id, RejectReason::SessionLimit, "too many logins");
        return;
    }
    if (!lease) {
        refuse_without_lease(id, lease.error());
        return;
    }
    parts_.accountant.note_write({});  // the lease is on the disk
    at->second.holds_lease = true;
    grant.node = lease->node;
    if (grant.node != grant.told_node) {
        log(LogLevel::Info, "%s: another node is called %s: this one is %s here",
            grant.user.c_str(), grant.told_node.c_str(), grant.node.c_str());
    }
    grant.lease_ipv4 = lease->ipv4;
    if (!parts_.has_ipv6 || parts_.has_ipv6()) {
        grant.lease_ipv6 = lease->ipv6;
    }
    open_accounting(id);
}

// Traffic may flow once the session is committed.
void Admission::open_accounting(LinkId id) {
    SessionGrant& grant = links_[id].grant;
    ledger::SessionIdentity identity;
    identity.session_id = grant.session_id;
    identity.user_id = grant.user;
    identity.account_id = grant.account_id;
    identity.cnapt_id = grant.node;
    identity.opened_at_us = utc_us();
    grant.meter =
        std::make_shared<accounting::UserMeter>(store::Account{grant.account_id, grant.user});
    const auto number = parts_.accountant.open_session(
        identity,
        [this, id, &loop = parts_.loop](base::Result<uint32_t> committed) {
            loop.post([this, id, committed] { on_accounting_open(id, committed); });
        },
        grant.meter);
    if (!number) {
        refuse(id, RejectReason::Internal, "the ledger is busy");
        return;
    }
    grant.accounting_number = *number;
}

void Admission::on_accounting_open(LinkId id, const base::Result<uint32_t>& committed) {
    if (!links_.contains(id)) {
        if (committed) {
            parts_.accountant.close_session(*committed, {}, utc_us());
        }
        return;
    }
    if (!committed) {
        refuse_without_ledger(id, committed.error());
        return;
    }
    let_in(id);
}

void Admission::let_in(LinkId id) {
    Link& link = links_[id];
    // The user may have been disabled meanwhile: from here on end_user() finds the session.
    const bool is_refused = reject_if_disabled(id, link.grant);
    if (is_refused && !relay_->table().may_continue(link.grant)) {
        parts_.accountant.close_session(link.grant.accounting_number, {}, utc_us());
    }
    if (is_refused) {
        return;
    }
    link.is_waiting = false;
    is_replacing_ = true;
    const auto reserved = relay_->reserve(link.grant);
    link.grant.meter.reset();
    is_replacing_ = false;
    if (!reserved) {
        parts_.accountant.close_session(link.grant.accounting_number, {}, utc_us());
        ask_silent_nodes({});
        refuse(id, RejectReason::SessionLimit, "too many sessions");
        return;
    }
    if (const auto former = link_of(reserved->wire_id); former && *former != id) {
        links_[*former].wire_id = 0;
        server_->close(*former, control::CloseReason::Replaced, "a newer connection took over");
    }
    link.wire_id = reserved->wire_id;
    link.holds_lease = false;  // the session holds it now
    log_.let_in(link.grant, link.from, *reserved);
    const settings::SnaptConfig& config = parts_.config;
    control::Accept accept;
    accept.wire_session_up = reserved->wire_id;
    accept.snapt = config.name;
    accept.realm = config.realm;
    accept.epoch = reserved->epoch;
    accept.continued = reserved->is_continued;
    accept.protection = link.grant.protection;
    accept.lease_ipv4 = link.grant.lease_ipv4;
    accept.lease_ipv6 = link.grant.lease_ipv6;
    accept.limits = control::kOwnLimits;
    accept.user_flows = flows_of_a_user(config.limits, relay_->flows().connections().user_flows());
    accept.inner_mtu = config.inner.mtu;
    accept.keepalive_s = whole_seconds(config.session.keepalive);
    accept.rekey_s = whole_seconds(config.session.rekey);
    accept.rekey_datagrams = config.session.rekey_datagrams;
    accept.idle_timeout_s = whole_seconds(config.session.idle_timeout);
    accept.udp_ports = udp_ports(config);
    accept.node = link.grant.node;
    accept.denied =
        nat::denied_private(config.relay.allow, config.relay.deny,
                            {config.inner.ipv4, config.inner.ipv6}, control::kMaxDeniedPrefixes);
    const NodeSession& node = *relay_->table().find(reserved->wire_id);
    link.desk =
        std::make_shared<SessionDesk>(parts_.loop, parts_.accountant, *server_,
                                      SessionDesk::Session{id,
                                                           {link.grant.account_id, link.grant.user},
                                                           link.grant.accounting_number,
                                                           node.apps,
                                                           node.control_pauses});
    server_->accept(id, std::move(accept), link.desk);
    relay_->open_stream(link.wire_id, server_->open_stream(id));
}

Admission::Link* Admission::link_let_in(LinkId id) {
    const auto at = links_.find(id);
    return at == links_.end() || at->second.wire_id == 0 ? nullptr : &at->second;
}

void Admission::on_keys(LinkId id, const control::EpochKeys& keys) {
    Link* link = link_let_in(id);
    if (link == nullptr) {
        return;
    }
    if (const auto installed = relay_->install(link->wire_id, keys); !installed) {
        server_->close(id, control::CloseReason::Unspecified, "keys refused");
        return;
    }
    server_->confirm(id, keys.epoch);
    link->is_open = true;
    tell_allowance(id, *link);
    directory_.add(id);
}

void Admission::on_datagrams(LinkId id, dataplane::DatagramQueue& queue) {
    const Link* link = link_let_in(id);
    if (link == nullptr) {
        queue.clear();
        return;
    }
    relay_->on_stream(link->wire_id, queue, link->from);
}

void Admission::on_stream_room(LinkId id) {
    if (const Link* link = link_let_in(id)) {
        relay_->on_stream_room(link->wire_id);
    }
}

void Admission::on_modes(LinkId id, std::span<const control::AppMode> modes) {
    if (const Link* link = link_let_in(id)) {
        relay_->set_modes(link->wire_id, modes);
    }
}

void Admission::on_closed(LinkId id, const control::LinkClosed& closed) {
    const auto at = links_.find(id);
    if (at == links_.end()) {
        return;
    }
    const uint16_t wire_id = at->second.wire_id;
    if (at->second.holds_lease) {
        parts_.leases.release(at->second.grant.account_id, at->second.grant.node);
    }
    links_.erase(at);
    directory_.remove(id);
    const bool is_over = closed.cause == control::CloseCause::Peer &&
                         (closed.peer.reason == control::CloseReason::Shutdown ||
                          closed.peer.reason == control::CloseReason::Disconnected);
    if (is_over && wire_id != 0) {
        relay_->close(wire_id, relay::SessionEnd::Left);
    } else if (wire_id != 0) {
        relay_->close_stream(wire_id);
    }
}

void Admission::on_session_closed(const NodeSession& session) {
    log_.ended(session);
    ledger::SessionOverhead overhead;
    overhead.tun_up = session.session.counters().overhead_received();
    overhead.tun_down = session.session.counters().overhead_sent();
    parts_.accountant.close_session(session.grant.accounting_number, overhead, utc_us());
    upkeep_.on_session_closed(session);
    if (const auto id = link_of(session.wire_id)) {
        Link& link = links_[*id];
        link.wire_id = 0;
        link.desk->on_session_over();
        if (is_replacing_ && session.end != relay::SessionEnd::GaveWay) {
            server_->close(*id, control::CloseReason::Replaced, "a newer connection took over");
        } else {
            server_->tell_session_state(*id, false);
        }
    }
}

void Admission::on_session_moved(const NodeSession& session) {
    if (const auto id = link_of(session.wire_id)) {
        server_->ask_for_keepalive(*id);
    }
}

void Admission::on_session_silent(const NodeSession& session) {
    if (const auto id = link_of(session.wire_id)) {
        server_->ask_for_keepalive(*id);
    }
}

// On the helper thread: netlink. If the kernel cannot forget them, its own time-outs apply; users
// are not kept out for that.
bool Admission::on_flows_gone(std::vector<packet::FiveTuple> flows) {
    const auto error = std::make_shared<std::optional<base::Error>>();
    const auto forget = [flows = std::move(flows), error] {
        if (const auto done = nat::forget_flows(flows); !done) {
            *error = done.error();
        }
    };
    return parts_.worker.submit(forget, [this, error] {
        if (*error && !std::exchange(is_forgetting_told_, true)) {
            base::log(base::LogLevel::Warning,
                      "connection tracking does not forget what has ended (%s): one user can fill "
                      "it",
                      daemon::describe(**error).c_str());
        }
        relay_->on_flows_forgotten();
    });
}

std::optional<LinkId> Admission::link_of(uint16_t wire_id) const {
    for (const auto& [id, link] : links_) {
        if (link.wire_id == wire_id) {
            return id;
        }
    }
    return std::nullopt;
}

uint16_t Admission::wire_id_of(LinkId id) const {
    const auto at = links_.find(id);
    return at == links_.end() ? uint16_t{0} : at->second.wire_id;
}

void Admission::ask_for_rekeys() {
    for (const auto& [id, link] : links_) {
        const NodeSession* node = link.wire_id != 0 ? relay_->table().find(link.wire_id) : nullptr;
        if (node != nullptr && node->session.epochs().wants_rekey()) {
            server_->ask_for_rekey(id);
        }
    }
}

}  // namespace continuo::snapt::users
