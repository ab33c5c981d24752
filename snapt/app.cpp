#include "snapt/app.hpp"

#include "common/base/version.hpp"
#include "common/crypto/library.hpp"
#include "common/daemon/controls.hpp"
#include "common/daemon/forward_rules.hpp"
#include "common/dataplane/class_settings.hpp"
#include "common/flow/live_slot.hpp"
#include "common/host/clock_sync.hpp"
#include "common/host/system_random.hpp"
#include "common/io/file.hpp"
#include "common/netlink/rule_monitor.hpp"
#include "common/record/recording.hpp"
#include "common/report/status_report.hpp"
#include "snapt/ledger/ledger_options.hpp"
#include "snapt/ledger/new_ledger.hpp"
#include "snapt/nat/host_network.hpp"
#include "snapt/nat/nat.hpp"
#include "snapt/nat/relay_check.hpp"
#include "snapt/nat/settled_trouble.hpp"
#include "snapt/rest_service.hpp"
#include "snapt/store/user_store.hpp"
#include "snapt/users/admission.hpp"
#include "snapt/users/answers.hpp"
#include "snapt/users/request_desk.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace continuo::snapt {

using base::log;
using base::LogLevel;
using daemon::describe;
using daemon::utc_us;
using relay::RelaySettings;
using settings::parse_snapt_config;
using settings::SnaptConfig;
using store::LeaseStore;
using users::SnaptInfo;

namespace {

constexpr size_t kWorkerQueue = 4096;
// As for the ledger's thread: lower priority than data.
constexpr int kWorkerNiceness = accounting::kAccountantNiceness;
// Interval of checks of this host's listeners.
constexpr base::Duration kPortsInterval = base::seconds(60);
// Changes of nftables come in groups, and on some hosts all the time: a check follows this long
// after the first; this many at once, and one more per tick.
constexpr base::Duration kLookDelay = base::milliseconds(2);
constexpr unsigned kMaxQuickLooks = 8;

size_t max_sessions(const SnaptConfig& config) {
    return config.limits.sessions != 0 ? config.limits.sessions : UINT16_MAX;
}

// Far above the limit of a user's sessions.
int64_t user_leases(const SnaptConfig& config) {
    const auto sessions = static_cast<int64_t>(config.limits.user_sessions);
    return sessions == 0 ? 0 : std::max(store::LeasePool{}.user_leases, 8 * sessions);
}

RelaySettings relay_settings(const SnaptConfig& config, const LeaseStore& leases) {
    RelaySettings settings;
    settings.refusals = nat::Refusals(nat::nat_options(config));
    settings.device = config.inner.device;
    settings.listen = config.listen;
    settings.own_ipv4 = leases.own_ipv4().value_or(base::IpAddress::any(base::IpVersion::V4));
    settings.own_ipv6 = leases.own_ipv6().value_or(base::IpAddress::any(base::IpVersion::V6));
    settings.inner_mtu = config.inner.mtu;
    settings.max_sessions = max_sessions(config);
    settings.max_flows =
        config.limits.flows != 0 ? config.limits.flows : config.accounting.live_slots;
    settings.max_user_sessions = config.limits.user_sessions;
    settings.max_user_flows = config.limits.user_flows;
    settings.user_bits_per_s = config.limits.user_rate_bits_per_s;
    settings.idle_timeout = config.session.idle_timeout;
    settings.keepalive = config.session.keepalive;
    settings.rekey_datagrams = config.session.rekey_datagrams;
    const auto table = dataplane::class_table(config.classes, config.limits.queue_bytes);
    settings.classes = table.settings;
    settings.tos = table.tos;
    return settings;
}

// Removes what this host can never do from the configuration. Returns why it has no IPv6 now, even
// if that is only switched off; empty: it has.
std::string fit_to_host(SnaptConfig& config) {
    std::string why = config.inner.ipv6 ? host::ipv6_switched_off(config.inner.device) : "";
    if (!why.empty() && !host::read_sysctl("net/ipv6/conf/all/disable_ipv6")) {
        config.inner.ipv6.reset();
    }
    return why;
}

class App final : public control::CredentialSource {
  public:
    App(daemon::RunOptions options, SnaptConfig config, record::RecordingFiles files)
        : options_(std::move(options))
        , config_(std::move(config))
        , recorders_(loop_, config_.debug, std::move(files), config_.inner.device)
        , network_(config_, options_.state)
        , look_timer_(loop_, [this] { watch_network(false); })
        , worker_(loop_, "snapt-lease", kWorkerQueue, kWorkerNiceness)
        , controls_(
              loop_,
              {[this](const report::JsonValue& request,
                      const host::UnixRequest& /*raw*/,
                      const host::UnixReply& reply) { requests_->on_request(request, reply); },
               [this] { return reload(); }, [this] { on_tick(); }}) {}

    base::Result<void> start(std::string& failure);
    void run() {
        daemon::confine();
        loop_.set_spin(base::microseconds(config_.spin_us));
        loop_.run();
    }
    void stop();

    // --- control::CredentialSource, on the threads of strangers and of links
    std::optional<control::UserKey> find(const control::Identity& identity) override {
        const auto key = users_->lookup(identity.user, identity.key_id);
        return key ? std::optional<control::UserKey>(*key) : std::nullopt;
    }
    std::shared_ptr<const std::vector<control::UserKey>> keys() override {
        return users_->all_keys();
    }

  private:
    base::Result<void> start_stores(std::string& failure);
    std::string reload();
    bool leaves_network() const;
    void on_tick();
    void renew_ports(bool wants_all);
    void on_rules_changed();
    void watch_network(bool is_thorough);
    void tell_trouble();
    void renew_addresses();
    SnaptInfo info();

    daemon::RunOptions options_;
    SnaptConfig config_;
    host::SystemRandom random_;
    io::EventLoop loop_;
    record::Recorders recorders_;
    std::unique_ptr<RestService> rest_;             // outlives its answers
    std::unique_ptr<users::RequestDesk> requests_;  // likewise
    std::unique_ptr<accounting::Accountant> accountant_;
    std::unique_ptr<store::UserStore> users_;
    links::EventLog events_;
    std::unique_ptr<LeaseStore> leases_;
    nat::HostNetwork network_;
    std::unique_ptr<users::Admission> admission_;
    std::unique_ptr<relay::Relay> relay_;
    std::unique_ptr<links::ControlServer> server_;
    io::DeadlineTimer look_timer_;
    std::unique_ptr<netlink::RuleMonitor> monitor_;  // may be absent: then the tick alone looks
    unsigned quick_looks_ = 0;                       // less one with each tick
    bool is_looking_ = false;
    nat::SettledForwarding trouble_;
    io::WorkerThread worker_;
    daemon::Controls controls_;
    base::TimePoint started_at_{};
    base::TimePoint ports_renewed_at_{};
};

base::Result<void> App::start_stores(std::string& failure) {
    failure = "cannot use state folder " + options_.state;
    CTN_TRY(io::make_directories(options_.state, 0700));
    failure = "cannot open the ledger in " + options_.state;
    auto accountant = accounting::Accountant::start(ledger::ledger_options(config_, options_.state),
                                                    utc_us(), config_.accounting.retention_days);
    if (!accountant && accountant.error().code == base::Errc::Malformed) {
        log(LogLevel::Error, "restore a copy of ledger.db, or start without users and bookings: "
                             "snapt run --new-ledger");
    }
    accountant_ = CTN_TRY(std::move(accountant));
    failure = "cannot open the user database in " + options_.state;
    users_ = CTN_TRY(store::UserStore::open(options_.state));
    (void)users_->expire(utc_us());
    failure = "cannot open the lease database in " + options_.state;
    store::LeasePool pool;
    pool.ipv4 = config_.inner.ipv4;
    pool.ipv6 = config_.inner.ipv6;
    pool.lease_s = std::chrono::duration_cast<base::seconds>(config_.inner.lease).count();
    pool.user_leases = user_leases(config_);
    pool.clear = nat::forget_connections_of;
    leases_ = CTN_TRY(LeaseStore::open(options_.state, pool));
    return {};
}

base::Result<void> App::start(std::string& failure) {
    CTN_TRY(start_stores(failure));
    started_at_ = loop_.now();
    CTN_TRY(network_.open(failure));
    admission_ = std::make_unique<users::Admission>(
        users::AdmissionParts{loop_, worker_, config_, *accountant_, *leases_, *users_, &events_,
                              [this] { return network_.has_ipv6(); }});
    RelaySettings settings = relay_settings(config_, *leases_);
    settings.refusals.set_local(nat::local_addresses().value_or(std::vector<base::IpAddress>()));
    settings.recording = recorders_.recording();
    relay_ =
        std::make_unique<relay::Relay>(loop_, settings, accountant_->slots(), random_, *admission_);
    // Before the first tick, too: the times of flows are in their records.
    relay_->flows().table().set_utc_offset_us(users::wall_clock_offset_us(loop_.refresh_now()));
    accountant_->set_on_credit([this] { loop_.post([this] { relay_->look_at_meters(); }); });
    CTN_TRY(relay_->start(failure));
    CTN_TRY(network_.set_up(*leases_, failure));
    if (const auto table = nat::connection_table()) {
        relay_->flows().connections().set_table(*table);
    }
    report::Findings findings;  // nodes would log in, and their packets go nowhere
    nat::check_relay(config_, findings);
    daemon::log_failures(findings);
    if (auto monitor = netlink::RuleMonitor::start(loop_, [this] { on_rules_changed(); })) {
        monitor_ = std::move(*monitor);
    }
    ports_renewed_at_ = started_at_;
    server_ = std::make_unique<links::ControlServer>(loop_, *admission_, *this);
    admission_->connect(*relay_, *server_);
    links::ControlServerOptions control;
    control.listen = config_.listen;
    control.parameters.realm = config_.realm;
    control.parameters.identity_key = config_.identity_key;
    control.max_links = max_sessions(config_);
    control.user_sessions = config_.limits.user_sessions;
    control.events = &events_;
    failure = "cannot listen for control connections";
    CTN_TRY(server_->start(std::move(control)));
    requests_ = std::make_unique<users::RequestDesk>(
        users::RequestSources{loop_, worker_, config_, *accountant_, *users_, *admission_, *relay_,
                              events_, random_, [this](std::string_view command, size_t after) {
                                  return users::answer(*relay_, info(), command, after);
                              }});
    failure = "cannot open command socket " + options_.socket;
    CTN_TRY(controls_.open(options_.socket));
    rest_ = std::make_unique<RestService>(
        RestSources{loop_, *accountant_,
                    [this](std::string_view command, size_t after) {
                        return users::answer(*relay_, info(), command, after);
                    },
                    [this](const std::string& session) {
                        return admission_->disconnect_session(session).is_any();
                    }});
    CTN_TRY(rest_->start({config_.rest.listen, config_.name, options_.state}, failure));
    failure.clear();
    trouble_.begin(network_.watch(true));
    if (!trouble_.text().empty()) {
        tell_trouble();
    }
    host::notify_service_manager("READY=1");
    log(LogLevel::Info, "snapt %s is up, leases from %s on %s", config_.name.c_str(),
        config_.inner.ipv4 ? config_.inner.ipv4->to_string().c_str() : "-",
        config_.inner.device.c_str());
    return {};
}

void App::stop() {
    host::notify_service_manager("STOPPING=1");
    controls_.close();
    if (rest_) {
        rest_->stop();
    }
    if (server_) {
        server_->stop();
    }
    if (admission_) {
        admission_->finish_leases();
    }
    relay_.reset();
    if (accountant_) {
        if (const auto stopped = accountant_->stop(utc_us()); !stopped) {
            log(LogLevel::Error, "last usage records are not written: %s",
                describe(stopped.error()).c_str());
        }
    }
    if (!leaves_network()) {
        network_.tear_down();
    }
    recorders_.stop();  // waits for the disk
}

// For the run that follows at once with the same configuration: it would not find the device and
// prefixes of another one.
bool App::leaves_network() const {
    if (!controls_.stops_for_restart()) {
        return false;
    }
    auto loaded = daemon::load_config<SnaptConfig>(options_.config, parse_snapt_config,
                                                   daemon::DiagnosticsTo::Log);
    if (!loaded.config) {
        return false;
    }
    fit_to_host(*loaded.config);
    return settings::changes_between(config_, *loaded.config).needs_restart.empty();
}

void App::on_tick() {
    const base::TimePoint now = loop_.refresh_now();
    relay_->flows().table().set_utc_offset_us(users::wall_clock_offset_us(now));
    relay_->look_at_rates(now);
    relay_->look_at_meters();
    if (flow::kCounts) {
        accountant_->tick(utc_us());
    }
    admission_->on_tick();
    events_.on_tick(now);
    (void)worker_.submit([this] { network_.follow_ipv6(*leases_); });
    quick_looks_ -= std::min(quick_looks_, 1U);
    watch_network(true);
    renew_addresses();
    if (loop_.now() - ports_renewed_at_ >= kPortsInterval) {
        renew_ports(false);
    }
}

void App::on_rules_changed() {
    if (quick_looks_ < kMaxQuickLooks && look_timer_.deadline() == base::kNever) {
        ++quick_looks_;
        look_timer_.set(loop_.now() + kLookDelay);
    }
}

// On the helper thread: netlink, nftables.
void App::watch_network(bool is_thorough) {
    look_timer_.set(base::kNever);
    if (is_looking_) {
        return;
    }
    struct Found {
        nat::ForwardingTroubles troubles;
        std::optional<nat::ConnectionTable> table;
    };
    auto found = std::make_shared<Found>();
    is_looking_ = worker_.submit(
        [this, found, is_thorough] {
            *found = {network_.watch(is_thorough), nat::connection_table()};
        },
        [this, found, is_thorough] {
            is_looking_ = false;
            if (found->table) {
                relay_->flows().connections().set_table(*found->table);
            }
            if (is_thorough && trouble_.note(found->troubles)) {
                tell_trouble();
            }
        });
}

void App::tell_trouble() {
    const std::string text = trouble_.text();
    if (text.empty()) {
        log(LogLevel::Info, "packets of nodes pass again");
    } else {
        log(trouble_.is_serious() ? LogLevel::Error : LogLevel::Warning, "%s: %s",
            trouble_.forwards() ? "some packets of nodes do not pass"
                                : "packets of nodes do not pass",
            text.c_str());
    }
    admission_->set_forwarding(trouble_.forwards(), trouble_.no_way_out());
}

// The rules refuse flows to a new address of this host; until the next call they are charged.
void App::renew_addresses() {
    auto found = std::make_shared<std::optional<std::vector<base::IpAddress>>>();
    (void)worker_.submit([found] { *found = nat::local_addresses(); },
                         [this, found] {
                             if (*found) {
                                 relay_->set_local_addresses(std::move(**found));
                             }
                         });
}

// Lists sockets, connections and rules: on the helper thread.
void App::renew_ports(bool wants_all) {
    if (worker_.submit([this, wants_all] { network_.renew_ports(wants_all); })) {
        ports_renewed_at_ = loop_.now();
    }
}

SnaptInfo App::info() {
    SnaptInfo info;
    info.name = config_.name;
    info.started_at = started_at_;
    info.now = loop_.now();
    info.ledger = accountant_->status();
    info.is_clock_synchronised = host::is_clock_synchronised();
    info.utc_us = utc_us();
    const bool is_degraded =
        info.ledger->write_error || !info.ledger->booking_error.empty() || trouble_.is_serious();
    info.drain = admission_->drain();
    info.state = is_degraded ? "degraded" : info.drain ? "draining" : "up";
    info.forwarding_error = trouble_.text();
    info.deny = nat::effective_deny_list(config_.relay.allow, config_.relay.deny);
    info.allow_self = config_.relay.allow_self;
    info.state_directory = options_.state;
    info.version = std::string(base::kVersion);
    info.slow_iterations = loop_.counters().slow_iterations;
    info.recorder = recorders_.recording().packets;
    info.refused_ledger_commands = accountant_->refused_commands();
    info.pruned_records = accountant_->pruned_records();
    info.control = server_->counters();
    info.refused_connections = network_.refused_connections();
    return info;
}

std::string App::reload() {
    auto loaded = daemon::load_config<SnaptConfig>(options_.config, parse_snapt_config,
                                                   daemon::DiagnosticsTo::Log);
    if (!loaded.config) {
        return report::error_json(loaded.complaint);  // a bad file changes nothing
    }
    fit_to_host(*loaded.config);
    const settings::ConfigChanges changes = settings::changes_between(config_, *loaded.config);
    config_.classes = loaded.config->classes;
    config_.limits = loaded.config->limits;
    if (config_.snapts != loaded.config->snapts) {
        config_.snapts = loaded.config->snapts;
        admission_->renew_directory();
    }
    relay_->set_classes(dataplane::class_table(config_.classes, config_.limits.queue_bytes));
    relay_->set_limits(max_sessions(config_), config_.limits.user_sessions,
                       config_.limits.user_flows);
    relay_->set_user_rate(config_.limits.user_rate_bits_per_s);
    server_->set_user_sessions(config_.limits.user_sessions);
    if (const auto read = users_->refresh(); !read) {
        log(LogLevel::Error, "cannot read the users' keys: %s", describe(read.error()).c_str());
    }
    renew_ports(true);
    admission_->end_revoked();
    (void)worker_.submit(
        [this, user_flows = config_.limits.user_flows, leases_of_a_user = user_leases(config_)] {
            leases_->set_user_leases(leases_of_a_user);
            network_.set_user_flows(user_flows);
        });
    return daemon::reloaded(options_.config, changes.applied, changes.needs_restart);
}

// Returns false if the daemon cannot go on.
bool begin_anew(const std::string& state_directory) {
    const auto aside = ledger::set_damaged_ledger_aside(state_directory, daemon::utc_us());
    if (!aside) {
        log(LogLevel::Error, "cannot look at the ledger in %s: %s", state_directory.c_str(),
            daemon::describe(aside.error()).c_str());
        return false;
    }
    if (*aside) {
        log(LogLevel::Warning,
            "ledger.db was damaged and is now %s; an empty one, without users and bookings, "
            "replaces it",
            (*aside)->c_str());
    } else {
        log(LogLevel::Info, "ledger.db is not damaged: --new-ledger changes nothing");
    }
    return true;
}

}  // namespace

int run_daemon(const daemon::RunOptions& options, bool may_begin_anew) {
    daemon::begin_process(options.verbose);
    if (!flow::kCounts) {
        log(LogLevel::Warning, "this build counts nothing: for measurements only");
    }
    crypto::begin_library();
    auto loaded = daemon::load_config<SnaptConfig>(options.config, parse_snapt_config,
                                                   daemon::DiagnosticsTo::Stderr);
    if (!loaded.config) {
        return report::kExitConfig;
    }
    if (const std::string why = fit_to_host(*loaded.config); !why.empty()) {
        if (!loaded.config->inner.ipv4) {
            log(LogLevel::Error, "IPv6 is switched off on this host (%s): set inner.ipv4",
                why.c_str());
            return report::kExitError;
        }
        log(LogLevel::Warning, "IPv6 is switched off on this host (%s): leases have IPv4 only",
            why.c_str());
    }
    config::Diagnostic complaint;
    auto files = record::open_recording(loaded.config->debug, options.config, complaint);
    if (!files) {
        daemon::say(std::span(&complaint, 1), daemon::DiagnosticsTo::Stderr);
        return report::kExitConfig;
    }
    constexpr std::array kForStart = {io::Capability::NetAdmin, io::Capability::NetBindService};
    if (!daemon::reduce_rights(options, host::kRelayUser, {}, kForStart)) {
        return report::kExitError;
    }
    if (may_begin_anew && !begin_anew(options.state)) {
        return report::kExitError;
    }
    App app(options, std::move(*loaded.config), std::move(*files));
    return daemon::run_app(app);
}

}  // namespace continuo::snapt
