#include "snapt/app.hpp"

#include "common/base/log.hpp"
#include "common/base/version.hpp"
#include "common/dataplane/class_settings.hpp"
#include "common/io/file.hpp"
#include "common/io/netlink_route.hpp"
#include "common/io/nft.hpp"
#include "common/io/system_random.hpp"
#include "common/io/unix_server.hpp"
#include "common/io/worker_thread.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"
#include "snapt/accounting/accountant.hpp"
#include "snapt/accounting/lease_store.hpp"
#include "snapt/accounting/user_store.hpp"
#include "snapt/commands.hpp"
#include "snapt/control_server.hpp"
#include "snapt/nat.hpp"
#include "snapt/relay.hpp"
#include "snapt/snapt_config.hpp"
#include "snapt/usage_json.hpp"
#include "snapt/user_commands.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>

namespace continuo::snapt {

using base::Error;
using base::log;
using base::LogLevel;

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitBadConfig = 78;
constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr size_t kWorkerQueue = 4096;
constexpr base::Duration kTick = base::seconds(1);

int64_t utc_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string describe(const Error& error) {
    std::string text(base::to_string(error.code));
    if (!error.where.empty()) {
        text = std::string(error.where);
    }
    if (error.sys_errno != 0) {
        text += std::string(": ") + std::strerror(error.sys_errno);
    }
    return text;
}

RelaySettings relay_settings(const SnaptConfig& config, const LeaseStore& leases) {
    RelaySettings settings;
    settings.device = config.inner.device;
    settings.listen = config.listen;
    settings.own_ipv4 = leases.own_ipv4().value_or(base::IpAddress::any(base::IpVersion::V4));
    settings.own_ipv6 = leases.own_ipv6().value_or(base::IpAddress::any(base::IpVersion::V6));
    settings.inner_mtu = config.inner.mtu;
    settings.max_sessions = config.limits.sessions != 0 ? config.limits.sessions : UINT16_MAX;
    settings.max_flows =
        config.limits.flows != 0 ? config.limits.flows : config.accounting.live_slots;
    settings.max_user_sessions = config.limits.user_sessions;
    settings.max_user_flows = config.limits.user_flows;
    settings.idle_timeout = config.session.idle_timeout;
    const auto table = dataplane::class_table(config.classes, config.limits.queue_bytes);
    settings.classes = table.settings;
    settings.tos = table.tos;
    return settings;
}

RelayOptions nat_options(const SnaptConfig& config) {
    RelayOptions options;
    options.device = config.inner.device;
    options.lease_ipv4 = config.inner.ipv4;
    options.lease_ipv6 = config.inner.ipv6;
    options.egress = config.relay.egress;
    options.source_pool = config.relay.source_pool;
    options.source_ports = {config.relay.source_ports.first, config.relay.source_ports.last};
    options.allow = config.relay.allow;
    options.deny = config.relay.deny;
    return options;
}

class App final : public ControlHandler, public RelayEvents, public control::CredentialSource {
  public:
    App(RunOptions options, SnaptConfig config)
        : options_(std::move(options))
        , config_(std::move(config))
        , worker_(loop_, "snapt-lease", kWorkerQueue)
        , tick_(loop_, [this] { on_tick(); }) {}

    base::Result<void> start(std::string& failure);
    void run() { loop_.run(); }
    void stop();
    // The answer to the command: what was applied and what needs a restart, or the first error.
    std::string reload();
    io::EventLoop& loop() { return loop_; }

    // --- control::CredentialSource, on the control thread
    std::optional<control::UserKey> find(const control::Identity& identity) override {
        const auto key = users_->lookup(identity.user, identity.key_id);
        return key ? std::optional<control::UserKey>(*key) : std::nullopt;
    }

    // --- ControlHandler
    void
    on_hello(LinkId link, const base::Endpoint& from, const control::HelloReceived& hello) override;
    void on_keys(LinkId link, const control::EpochKeys& keys) override;
    void on_apps(LinkId link, const control::Apps& apps) override;
    void on_usage_query(LinkId link, const control::UsageQuery& query) override;
    void on_session_query(LinkId link) override;
    void on_datagram(LinkId /*link*/, base::ByteView /*datagram*/) override {}
    void on_closed(LinkId link, const control::LinkClosed& closed) override;

    // --- RelayEvents
    void on_session_closed(const NodeSession& session) override;
    void on_session_moved(const NodeSession& session) override;

  private:
    struct Link {
        SessionGrant grant;
        base::Endpoint from;
        uint16_t wire_id = 0;  // 0: not yet accepted
    };

    base::Result<void> start_stores(std::string& failure);
    base::Result<void> set_up_network(std::string& failure);
    void tear_down_network();
    std::optional<control::ProtectionOffer> choose_protection(const control::Hello& hello) const;
    void assign_lease(LinkId id);
    void open_accounting(LinkId id);
    void let_in(LinkId id);
    void on_tick();
    void on_request(const io::UnixRequest& request, const io::UnixReply& reply);
    void answer_user(const report::JsonValue& request, const io::UnixReply& reply);
    void answer_usage(const report::JsonValue& request, const io::UnixReply& reply);
    std::optional<LinkId> link_of(uint16_t wire_id) const;

    RunOptions options_;
    SnaptConfig config_;
    io::SystemRandom random_;
    io::EventLoop loop_;
    std::unique_ptr<Accountant> accountant_;
    std::unique_ptr<UserStore> users_;
    std::unique_ptr<LeaseStore> leases_;
    std::unique_ptr<io::SysctlGuard> sysctls_;
    std::unique_ptr<Relay> relay_;
    std::unique_ptr<ControlServer> server_;
    std::unique_ptr<io::UnixServer> commands_;
    std::unique_ptr<io::SignalWatcher> signals_;
    io::WorkerThread worker_;
    io::DeadlineTimer tick_;
    io::Nft nft_;
    std::map<LinkId, Link> links_;
    std::map<std::string, size_t> stale_;
    base::TimePoint started_at_{};
    bool is_network_up_ = false;
};

base::Result<void> App::start_stores(std::string& failure) {
    failure = "cannot use state folder " + options_.state;
    CTN_TRY(io::make_directories(options_.state, 0700));
    failure = "cannot open the ledger in " + options_.state;
    LedgerOptions ledger;
    ledger.state_directory = options_.state;
    ledger.snapt_id = config_.name;
    ledger.interval_s = config_.accounting.interval_s;
    ledger.live_slots = config_.accounting.live_slots;
    ledger.destinations = config_.accounting.destinations;
    accountant_ = CTN_TRY(Accountant::start(ledger, utc_us()));
    failure = "cannot open the user database in " + options_.state;
    users_ = CTN_TRY(UserStore::open(options_.state));
    failure = "cannot open the lease database in " + options_.state;
    LeasePool pool;
    pool.ipv4 = config_.inner.ipv4;
    pool.ipv6 = config_.inner.ipv6;
    pool.lease_s = std::chrono::duration_cast<base::seconds>(config_.inner.lease).count();
    leases_ = CTN_TRY(LeaseStore::open(options_.state, pool));
    return {};
}

base::Result<void> App::set_up_network(std::string& failure) {
    failure = "cannot configure " + config_.inner.device;
    const RelayOptions nat = nat_options(config_);
    auto routes = CTN_TRY(io::RouteClient::open());
    const uint32_t index = CTN_TRY(routes.interface_index(config_.inner.device));
    for (const io::SysctlSetting& setting : relay_device_sysctls(config_.inner.device)) {
        (void)io::write_sysctl(setting.key, setting.value);
    }
    if (const auto own = leases_->own_ipv4(); own && config_.inner.ipv4) {
        CTN_TRY(routes.add_address(index, *own, config_.inner.ipv4->length));
    }
    if (const auto own = leases_->own_ipv6(); own && config_.inner.ipv6) {
        CTN_TRY(routes.add_address(index, *own, config_.inner.ipv6->length));
    }
    io::LinkSettings link;
    link.up = true;
    link.mtu = config_.inner.mtu;
    link.transmit_queue_length = 1000;
    CTN_TRY(routes.set_link(index, link));
    failure = "cannot apply nftables rules";
    if (const auto applied = nft_.apply(build_relay_ruleset(nat)); !applied) {
        failure += " (" + nft_.error_text() + ")";
        return applied.error();
    }
    failure = "cannot set kernel parameters";
    for (const io::SysctlSetting& setting : relay_sysctls(
             nat, config_.relay.set_forwarding, io::interfaces_with_router_advertisements())) {
        CTN_TRY(sysctls_->set(setting));
    }
    is_network_up_ = true;
    return {};
}

base::Result<void> App::start(std::string& failure) {
    CTN_TRY(start_stores(failure));
    started_at_ = loop_.now();
    failure = "cannot keep kernel parameters in " + options_.state;
    sysctls_ = std::make_unique<io::SysctlGuard>(
        CTN_TRY(io::SysctlGuard::open(options_.state + "/sysctl.json")));
    relay_ = std::make_unique<Relay>(loop_, relay_settings(config_, *leases_), accountant_->slots(),
                                     random_, *this);
    CTN_TRY(relay_->start(failure));
    CTN_TRY(set_up_network(failure));
    server_ = std::make_unique<ControlServer>(loop_, *this, *this);
    ControlServerOptions control;
    control.listen = config_.listen;
    control.parameters.realm = config_.realm;
    control.max_links = config_.limits.sessions != 0 ? config_.limits.sessions : UINT16_MAX;
    failure = "cannot listen for control connections";
    CTN_TRY(server_->start(std::move(control)));
    failure = "cannot open command socket " + options_.socket;
    commands_ = CTN_TRY(io::UnixServer::listen(
        loop_, options_.socket,
        [this](io::UnixRequest request, io::UnixReply reply) { on_request(request, reply); }));
    static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
    signals_ = std::make_unique<io::SignalWatcher>(loop_, kSignals, [this](int signal) {
        if (signal == SIGHUP) {
            (void)reload();
        } else {
            loop_.stop();
        }
    });
    tick_.set(loop_.now() + kTick);
    failure.clear();
    io::notify_service_manager("READY=1");
    log(LogLevel::Info, "snapt %s is up, leases from %s on %s", config_.name.c_str(),
        config_.inner.ipv4 ? config_.inner.ipv4->to_string().c_str() : "-",
        config_.inner.device.c_str());
    return {};
}

void App::stop() {
    io::notify_service_manager("STOPPING=1");
    commands_.reset();
    if (server_) {
        server_->stop();
    }
    relay_.reset();
    if (accountant_) {
        if (const auto stopped = accountant_->stop(utc_us()); !stopped) {
            log(LogLevel::Error, "last usage records are not written: %s",
                describe(stopped.error()).c_str());
        }
    }
    tear_down_network();
}

void App::tear_down_network() {
    if (is_network_up_) {
        (void)nft_.remove_table(relay_table(config_.inner.device));
    }
    if (sysctls_) {
        (void)sysctls_->restore();
    }
    (void)io::TunDevice::remove(config_.inner.device);
}

std::optional<control::ProtectionOffer> App::choose_protection(const control::Hello& hello) const {
    for (const control::ProtectionOffer& offer : hello.offers) {
        const bool is_readable = offer.kind == control::ProtectionKind::HmacSha256;
        if (is_readable ? config_.protection.authenticate : config_.protection.encrypt) {
            return offer;
        }
    }
    return std::nullopt;
}

void App::on_hello(LinkId id, const base::Endpoint& from, const control::HelloReceived& received) {
    const control::Hello& hello = received.hello;
    const auto protection = choose_protection(hello);
    if (std::find(hello.versions.begin(), hello.versions.end(), control::kProtocolVersion) ==
        hello.versions.end()) {
        server_->reject(id, control::RejectReason::NoCommonVersion, "this SNAPT speaks version 1");
        return;
    }
    if (!protection) {
        server_->reject(id, control::RejectReason::NoCommonProtection,
                        "no protection that both accept");
        return;
    }
    if (!is_valid_name(hello.node)) {
        server_->reject(id, control::RejectReason::BadHello, "bad node name");
        return;
    }
    Link& link = links_[id];
    link.from = from;
    link.grant.user = received.identity.user;
    link.grant.node = hello.node;
    link.grant.session_id = hello.session_id;
    link.grant.peer_id = hello.wire_session_down;
    link.grant.protection = *protection;
    link.grant.continuation = hello.continuation;
    if (relay_->may_continue(link.grant)) {
        const NodeSession* node = relay_->find(hello.continuation->wire_session_up);
        link.grant.lease_ipv4 = node->grant.lease_ipv4;
        link.grant.lease_ipv6 = node->grant.lease_ipv6;
        link.grant.accounting_number = node->grant.accounting_number;
        let_in(id);
        return;
    }
    link.grant.continuation.reset();
    // Before a lease is taken and the ledger written: one of these sessions may be this node's own.
    if (config_.limits.user_sessions != 0 &&
        relay_->sessions_of(link.grant.user) > config_.limits.user_sessions) {
        server_->reject(id, control::RejectReason::SessionLimit, "too many sessions");
        return;
    }
    assign_lease(id);
}

// The lease comes from the database: on the helper thread.
void App::assign_lease(LinkId id) {
    struct Answer {
        base::Result<Lease> lease = Error{base::Errc::InvalidState, "lease"};
    };
    auto answer = std::make_shared<Answer>();
    const Link& link = links_[id];
    const bool queued = worker_.submit(
        [this, answer, user = link.grant.user, node = link.grant.node] {
            answer->lease = leases_->assign(user, node, utc_us());
        },
        [this, answer, id] {
            const auto at = links_.find(id);
            if (at == links_.end()) {
                return;
            }
            if (!answer->lease) {
                log(LogLevel::Warning, "no lease for %s/%s: %s", at->second.grant.user.c_str(),
                    at->second.grant.node.c_str(), describe(answer->lease.error()).c_str());
                server_->reject(id, control::RejectReason::NoLease, "no address is free");
                return;
            }
            at->second.grant.lease_ipv4 = answer->lease->ipv4;
            at->second.grant.lease_ipv6 = answer->lease->ipv6;
            open_accounting(id);
        });
    if (!queued) {
        server_->reject(id, control::RejectReason::Internal, "busy");
    }
}

// Traffic may flow once the session is committed.
void App::open_accounting(LinkId id) {
    Link& link = links_[id];
    SessionIdentity identity;
    identity.session_id = link.grant.session_id;
    identity.user_id = link.grant.user;
    identity.cnapt_id = link.grant.node;
    identity.opened_at_us = utc_us();
    const auto number =
        accountant_->open_session(identity, [this, id](base::Result<uint32_t> committed) {
            loop_.post([this, id, committed] {
                if (!links_.contains(id)) {
                    return;
                }
                if (!committed) {
                    log(LogLevel::Error, "ledger: %s", describe(committed.error()).c_str());
                    server_->reject(id, control::RejectReason::Internal,
                                    "the ledger cannot be written");
                    return;
                }
                let_in(id);
            });
        });
    if (!number) {
        server_->reject(id, control::RejectReason::Internal, "the ledger is busy");
        return;
    }
    link.grant.accounting_number = *number;
}

void App::let_in(LinkId id) {
    Link& link = links_[id];
    const auto reserved = relay_->reserve(link.grant);
    if (!reserved) {
        accountant_->close_session(link.grant.accounting_number, {}, utc_us());
        server_->reject(id, control::RejectReason::SessionLimit, "too many sessions");
        return;
    }
    if (const auto former = link_of(reserved->wire_id); former && *former != id) {
        links_[*former].wire_id = 0;
        server_->close(*former, control::CloseReason::Replaced, "a newer connection took over");
    }
    link.wire_id = reserved->wire_id;
    control::Accept accept;
    accept.wire_session_up = reserved->wire_id;
    accept.snapt = config_.name;
    accept.realm = config_.realm;
    accept.epoch = reserved->epoch;
    accept.continued = reserved->is_continued;
    accept.protection = link.grant.protection;
    accept.lease_ipv4 = link.grant.lease_ipv4;
    accept.lease_ipv6 = link.grant.lease_ipv6;
    accept.inner_mtu = config_.inner.mtu;
    accept.keepalive_s = static_cast<uint32_t>(
        std::chrono::duration_cast<base::seconds>(config_.session.keepalive).count());
    accept.rekey_s = static_cast<uint32_t>(
        std::chrono::duration_cast<base::seconds>(config_.session.rekey).count());
    accept.rekey_datagrams = config_.session.rekey_datagrams;
    accept.idle_timeout_s = static_cast<uint32_t>(
        std::chrono::duration_cast<base::seconds>(config_.session.idle_timeout).count());
    server_->accept(id, std::move(accept));
}

void App::on_keys(LinkId id, const control::EpochKeys& keys) {
    const auto at = links_.find(id);
    if (at == links_.end() || at->second.wire_id == 0) {
        return;
    }
    if (const auto installed = relay_->install(at->second.wire_id, keys.epoch, keys); !installed) {
        server_->close(id, control::CloseReason::Unspecified, "keys refused");
        return;
    }
    server_->confirm(id, keys.epoch);
}

void App::on_apps(LinkId id, const control::Apps& apps) {
    const auto at = links_.find(id);
    if (at == links_.end() || at->second.wire_id == 0) {
        return;
    }
    for (const control::App& app : apps.apps) {
        relay_->name_app(at->second.wire_id, app.tag, app.name);
        accountant_->name_app(at->second.grant.accounting_number, static_cast<uint16_t>(app.tag),
                              app.name);
    }
}

void App::on_usage_query(LinkId id, const control::UsageQuery& query) {
    const auto at = links_.find(id);
    const auto request = report::JsonValue::parse(query.json);
    std::string failure;
    auto wanted = request ? usage_query_from(*request, failure) : std::nullopt;
    if (at == links_.end() || !wanted) {
        server_->reply_usage(id, {query.request, "{\"error\":\"bad query\"}"});
        return;
    }
    wanted->user = at->second.grant.user;  // whatever was asked: a user sees its own usage only
    accountant_->usage(*wanted, utc_us(),
                       [this, id, number = query.request](base::Result<UsageReport> report) {
                           std::string json = report ? usage_json(*report)
                                                     : "{\"error\":\"the ledger cannot be read\"}";
                           loop_.post([this, id, number, json = std::move(json)] {
                               server_->reply_usage(id, {number, json});
                           });
                       });
}

void App::on_session_query(LinkId id) {
    const auto at = links_.find(id);
    server_->tell_session_state(id, at != links_.end() && at->second.wire_id != 0 &&
                                        relay_->find(at->second.wire_id) != nullptr);
}

void App::on_closed(LinkId id, const control::LinkClosed& closed) {
    const auto at = links_.find(id);
    if (at == links_.end()) {
        return;
    }
    const Link link = std::move(at->second);
    links_.erase(at);
    const bool is_over = closed.cause == control::CloseCause::Peer &&
                         (closed.peer.reason == control::CloseReason::Shutdown ||
                          closed.peer.reason == control::CloseReason::Disconnected);
    if (is_over && link.wire_id != 0) {
        relay_->close(link.wire_id);
    }
}

void App::on_session_closed(const NodeSession& session) {
    SessionOverhead overhead;
    overhead.tun_up = session.session.counters().overhead_received;
    overhead.tun_down = session.session.counters().overhead_sent;
    accountant_->close_session(session.grant.accounting_number, overhead, utc_us());
    if (const auto id = link_of(session.wire_id)) {
        links_[*id].wire_id = 0;
        if (server_) {
            server_->tell_session_state(*id, false);
        }
    }
}

void App::on_session_moved(const NodeSession& session) {
    if (const auto id = link_of(session.wire_id)) {
        server_->ask_for_keepalive(*id);
    }
}

std::optional<LinkId> App::link_of(uint16_t wire_id) const {
    for (const auto& [id, link] : links_) {
        if (link.wire_id == wire_id) {
            return id;
        }
    }
    return std::nullopt;
}

void App::on_tick() {
    tick_.set(loop_.now() + kTick);
    relay_->flows().set_utc_offset_us(utc_us() -
                                      base::to_us(loop_.refresh_now().time_since_epoch()));
    accountant_->tick(utc_us());
    for (const auto& [id, link] : links_) {
        const NodeSession* node = link.wire_id != 0 ? relay_->find(link.wire_id) : nullptr;
        if (node != nullptr && node->session.wants_rekey()) {
            server_->ask_for_rekey(id);
        }
    }
}

void App::on_request(const io::UnixRequest& request, const io::UnixReply& reply) {
    const auto parsed = report::JsonValue::parse(request.line);
    if (!parsed || !parsed->is_object()) {
        reply.finish("{\"error\":\"bad request\"}\n");
        return;
    }
    const std::string command = parsed->text("command");
    if (command == "usage") {
        answer_usage(*parsed, reply);
    } else if (command == "reload") {
        reply.finish(reload() + "\n");
    } else if (command == "user") {
        answer_user(*parsed, reply);
    } else {
        SnaptInfo info;
        info.name = config_.name;
        info.started_at = started_at_;
        info.now = loop_.now();
        info.ledger = accountant_->status();
        info.deny = effective_deny_list(config_.relay.allow, config_.relay.deny);
        info.state_directory = options_.state;
        info.version = std::string(base::kVersion);
        info.slow_iterations = loop_.counters().slow_iterations;
        info.refused_ledger_commands = accountant_->refused_commands();
        reply.finish(handle_command(*relay_, info, request.line) + "\n");
    }
}

// Rare and short, but it writes to the disk: on the helper thread.
void App::answer_user(const report::JsonValue& request, const io::UnixReply& reply) {
    std::string failure;
    const auto wanted = parse_user_request(request, failure);
    if (!wanted) {
        reply.finish(report::error_json(failure) + "\n");
        return;
    }
    auto result = std::make_shared<UserResult>();
    const bool queued = worker_.submit(
        [this, result, wanted = *wanted, config = config_] {
            *result = run_user_request(*users_, config, wanted, utc_us(), random_);
        },
        [this, result, reply, name = wanted->name] {
            if (result->ends_sessions) {
                relay_->close_user(name);
            }
            reply.finish(result->json + "\n");
        });
    if (!queued) {
        reply.finish("{\"error\":\"busy\"}\n");
    }
}

void App::answer_usage(const report::JsonValue& request, const io::UnixReply& reply) {
    std::string failure;
    const auto query = usage_query_from(request, failure);
    if (!query) {
        reply.finish(report::error_json(failure) + "\n");
        return;
    }
    accountant_->usage(*query, utc_us(), [this, reply](base::Result<UsageReport> report) {
        std::string json =
            report ? usage_json(*report) : report::error_json(describe(report.error()));
        loop_.post([reply, json = std::move(json)] { reply.finish(json + "\n"); });
    });
}

std::string App::reload() {
    const auto text = io::read_file(options_.config, kMaxConfigBytes);
    if (!text) {
        log(LogLevel::Error, "cannot read %s: %s", options_.config.c_str(),
            describe(text.error()).c_str());
        return report::error_json("cannot read " + options_.config);
    }
    const ParsedSnaptConfig parsed = parse_snapt_config(*text, options_.config);
    for (const config::Diagnostic& diagnostic : parsed.diagnostics) {
        log(LogLevel::Error, "%s", config::to_text(diagnostic).c_str());
    }
    if (!parsed.config) {
        // A bad file changes nothing.
        return report::error_json(parsed.diagnostics.empty()
                                      ? "bad policy file"
                                      : config::to_text(parsed.diagnostics.front()));
    }
    const ConfigChanges changes = changes_between(config_, *parsed.config);
    for (const std::string& key : changes.needs_restart) {
        log(LogLevel::Warning, "%s: needs restart", key.c_str());
    }
    config_.classes = parsed.config->classes;
    config_.limits = parsed.config->limits;
    relay_->set_classes(
        dataplane::class_table(config_.classes, config_.limits.queue_bytes).settings);
    (void)users_->refresh();
    log(LogLevel::Info, "reloaded %s", options_.config.c_str());
    return report::reload_json(changes.applied, changes.needs_restart);
}

}  // namespace

int run_daemon(const RunOptions& options) {
    base::set_log_level(options.verbose ? LogLevel::Debug : LogLevel::Info);
    std::signal(SIGPIPE, SIG_IGN);
    const auto text = io::read_file(options.config, kMaxConfigBytes);
    if (!text) {
        log(LogLevel::Error, "cannot read %s: %s", options.config.c_str(),
            describe(text.error()).c_str());
        return kExitBadConfig;
    }
    ParsedSnaptConfig parsed = parse_snapt_config(*text, options.config);
    for (const config::Diagnostic& diagnostic : parsed.diagnostics) {
        std::fprintf(stderr, "%s\n", config::to_text(diagnostic).c_str());
    }
    if (!parsed.config) {
        return kExitBadConfig;
    }
    App app(options, std::move(*parsed.config));
    std::string failure;
    if (const auto started = app.start(failure); !started) {
        log(LogLevel::Error, "%s: %s", failure.c_str(), describe(started.error()).c_str());
        app.stop();
        return kExitFailure;
    }
    app.run();
    app.stop();
    return 0;
}

}  // namespace continuo::snapt
